"""Bounds (certificate.py, trellis.py) and beam.py against all sentences that can be reached.

Tests `contstim.synthesis.ngrams.beam` and `contstim.synthesis.ngrams.trellis`.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_corpus import WORDS, write_random

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.models.toy import TableModel
from contstim.synthesis import synthesize
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.ngrams.beam import Beam
from contstim.synthesis.ngrams.certificate import Reach
from contstim.synthesis.problem import (
    Accepted,
    Constraint,
    Edits,
    Fall,
    Floor,
    LeastFall,
    Objective,
    Problem,
)
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

NATURAL = "cat a dog, bee."
FREE = Vocabulary(WordList.of(WORDS), WordList.of(WORDS), frozenset(WORDS))
ONCE = Vocabulary(WordList.of(WORDS[:4]), WordList.of(WORDS[1:]), frozenset({"bee"}))
EDITS = [
    Edits(),
    Edits(most=1),
    Edits(most=2, changed=(1,)),
    Edits(fixed=(0, 3)),
    Edits(changed=(2,), words=((1, ("dog", "elephant")),)),
]


def _models(folder: Path, orders: tuple[int, ...], **options: str) -> list[SentenceModel]:
    query = "&".join(f"{k}={v}" for k, v in {"punctuation": "drop", **options}.items())
    return [
        load_model(f"ngram:{write_random(folder / f'{n}.arpa', order, seed=7 * n + order)}?{query}")
        for n, order in enumerate(orders)
    ]


def _search(problem: Problem, vocabulary: Vocabulary, natural: str = NATURAL) -> Search:
    proposal = WordReplacement(vocabulary, tuple(problem.by_name.values()))
    return Search(problem, proposal, Sentence.parse(natural), seed=0)


def _reachable(search: Search) -> list[Sentence]:
    """Return every sentence that may be written, whatever its scores."""
    choices = [
        {word, *(search.words(p).words if p in search.positions else ())}
        for p, word in enumerate(search.start.words)
    ]
    start = search.start
    every = (Sentence(words, start.before, start.after) for words in itertools.product(*choices))
    return [sentence for sentence in every if search.may(sentence)]


def _losses(search: Search, sentences: list[Sentence]) -> tuple[np.ndarray, np.ndarray]:
    """Return all losses, and which sentences keep the constraints."""
    texts = [str(sentence) for sentence in sentences]
    scores = {name: model.score(texts) for name, model in search.problem.by_name.items()}
    kept = np.ones(len(texts), dtype=bool)
    for name, least in search.minimum.items():
        kept &= scores[name] >= least
    return search.problem.objective.loss(scores, search.natural), kept


@pytest.mark.parametrize("orders", [(1, 1), (2, 1), (2, 3), (3, 2), (3, 3), (4, 2), (2, 5)])
@pytest.mark.parametrize("end", ["scored", "none"])
def test_the_least_weighted_sum_is_that_of_all_sentences(
    tmp_path: Path, orders: tuple[int, int], end: str
) -> None:
    one, two = _models(tmp_path, orders, end=end)
    search = _search(Problem.pair(one, two), FREE)
    reach = Reach.of(search)
    assert reach is not None
    texts = [str(sentence) for sentence in _reachable(search)]
    assert len(texts) == len(WORDS) ** 4
    scores = np.stack([one.score(texts), two.score(texts)], axis=1)
    rng = np.random.default_rng(3)
    for weights in [*rng.normal(size=(20, 2)), np.array([1.0, -1.0]), np.array([-1.0, 1.0])]:
        least, words, log_probs = reach.trellis.best(reach.slots, weights)
        assert least == pytest.approx((scores @ weights).min(), abs=1e-4)
        assert log_probs @ weights == pytest.approx(least, abs=1e-9)
        symbols = list(reach.trellis.symbols)
        text = " ".join(symbols[word] for word in words[:4])
        assert [m.score([text])[0] for m in (one, two)] == pytest.approx(log_probs, abs=1e-4)


def _problems(models: list[SentenceModel], edits: Edits) -> list[Problem]:
    a, b, c = (model.spec for model in models)
    wanted: list[tuple[Objective, tuple[Constraint, ...]]] = [
        (Fall((a,)), (Accepted(b),)),
        (Fall((b,)), (Accepted(a, margin=2.0),)),
        (Fall((a, b), scales=(1.0, 2.5)), (Accepted(c),)),
        (LeastFall((a, b), scales=(2.0, 1.0)), (Accepted(c, margin=1.0),)),
        (Fall((a,)), (Accepted(b), Floor(c, -3.0, natural=True))),
        (Fall((c,)), ()),
    ]
    problems = []
    for objective, constraints in wanted:
        named = {*objective.models, *(constraint.model for constraint in constraints)}
        used = tuple(model for model in models if model.spec in named)
        problems.append(Problem(used, objective, constraints, edits))
    return problems


@pytest.mark.parametrize("edits", EDITS, ids=repr)
@pytest.mark.parametrize("orders", [(2, 3, 1), (3, 2, 4)])
def test_no_sentence_beats_the_bound_and_the_beam_comes_near_it(
    tmp_path: Path, orders: tuple[int, int, int], edits: Edits
) -> None:
    reached, possible = 0.0, 0.0
    for problem in _problems(_models(tmp_path, orders), edits):
        for vocabulary in (FREE, ONCE):
            search = _search(problem, vocabulary)
            reach = Reach.of(search)
            assert reach is not None
            losses, kept = _losses(search, _reachable(search))
            least = losses[kept].min()
            assert reach.bound() <= least
            Beam().run(search)
            assert least - 1e-9 <= search.loss(search.now)
            reached, possible = reached + search.loss(search.now), possible + least
    assert reached <= 0.97 * possible < 0


@pytest.mark.parametrize("natural", [NATURAL, "cat cat dog, elephant."])
def test_words_that_may_not_be_repeated_bring_the_bound_nearer(
    tmp_path: Path, natural: str
) -> None:
    far, near = 0.0, 0.0
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths = (write_random(folder / f"{k}.arpa", 2 + k, seed=10 * number + k) for k in (0, 1))
        one, two = (load_model(f"ngram:{path}?punctuation=drop") for path in paths)
        for edits in (Edits(), Edits(most=3), Edits(fixed=(0,))):
            free = Problem((one,), Fall((one.spec,)), (), edits)
            for problem in (replace(Problem.pair(one, two), edits=edits), free):
                search = _search(problem, ONCE, natural)
                losses, kept = _losses(search, _reachable(search))
                least = losses[kept].min()
                plain, reach = Reach.of(search), Reach.of(search)
                assert plain is not None
                assert reach is not None
                repeating = max(under.bound for under in plain._raised())
                assert reach.bound() <= least
                assert reach.bound() >= repeating - 1e-2
                far, near = far + least - repeating, near + least - reach.bound()
    assert near < 0.6 * far


def test_a_certificate_says_how_much_of_what_is_possible_was_reached(tmp_path: Path) -> None:
    one, two = _models(tmp_path, (2, 3))
    search = _search(Problem.pair(one, two), ONCE)
    losses, kept = _losses(search, _reachable(search))
    found = synthesize(NATURAL, reject=one, accept=two, vocabulary=ONCE, certificate=True)
    assert found.bound is not None
    assert found.bound <= losses[kept].min() <= found.loss < 0
    assert found.reached == found.loss / found.bound
    plain = synthesize(NATURAL, reject=one, accept=two, vocabulary=ONCE)
    assert (plain.bound, plain.reached) == (None, None)
    nothing = Problem((one, two), Fall((one.spec,)), (Accepted(two.spec),), Edits(fixed=(0, 1, 2)))
    stuck = synthesize(NATURAL, problem=nothing, vocabulary=ONCE, certificate=True)
    assert stuck.bound is not None
    assert stuck.bound <= stuck.loss


def test_a_certificate_is_of_the_words_that_may_be_written(tmp_path: Path) -> None:
    models = _models(tmp_path, (2, 3))
    problem, every = Problem.pair(*models), WordReplacement(FREE, tuple(models))
    search = Search(problem, every.without({"cat", "dog"}), Sentence.parse(NATURAL), seed=0)
    losses, kept = _losses(search, _reachable(search))
    whole, left = (
        synthesize(NATURAL, problem=problem, proposal=proposal, certificate=True)
        for proposal in (every, search.proposal)
    )
    assert whole.bound is not None
    assert left.bound is not None
    # A sentence with the words that are left out is below the bound of the others.
    assert whole.bound <= whole.loss < left.bound <= losses[kept].min() <= left.loss


def test_more_changes_than_there_are_words_are_no_limit(tmp_path: Path) -> None:
    one, two = _models(tmp_path, (2, 3))
    limits = (Edits(), Edits(most=10**9))
    problems = [Problem((one, two), Fall((one.spec,)), (Accepted(two.spec),), e) for e in limits]
    free, limited = [synthesize(NATURAL, problem=p, vocabulary=ONCE) for p in problems]
    assert (limited.sentence, limited.loss) == (free.sentence, free.loss)


def test_models_without_a_bounded_context_have_no_certificate(tmp_path: Path) -> None:
    (one,) = _models(tmp_path, (2,))
    with pytest.raises(InputError, match=r"table:1\?exact=all\W+ has no certificate"):
        synthesize(
            NATURAL, reject=one, accept=TableModel(WORDS, 1), vocabulary=ONCE, certificate=True
        )
    (other,) = _models(tmp_path, (2,), punctuation="keep", unknown="unk")
    with pytest.raises(InputError, match="read words in different ways"):
        synthesize("a -- dog cat", reject=one, accept=other, vocabulary=FREE, certificate=True)
