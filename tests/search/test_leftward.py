"""Tests of `contstim.search.leftward`."""

from itertools import product

import numpy as np
import pytest

from contstim import Problem, SentenceModel, Vocabulary, WordList, load_model, synthesize
from contstim.errors import InputError
from contstim.models.recurrent import (
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    save_network,
)
from contstim.models.toy import TableModel
from contstim.search.bounded import Bounded
from contstim.search.candidates import WordReplacement
from contstim.search.leftward import Ended, Leftward, Walk
from contstim.search.targets import problem_of
from contstim.search.writer import Form

LATER = [a + b for a in "bdfgk" for b in ("a", "e", "i", "o", "u", "an")]
FIRST = ["The", "Some", "One"]
VOCABULARY = Vocabulary(WordList.of(FIRST), WordList.of(LATER))
NATURAL = ["The ba de.", "Some ko fu.", "One gi ban."]
EVERYTHING = 10**6


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[SentenceModel, SentenceModel]:
    """Two networks that know all words, with random weights."""
    folder, made = tmp_path_factory.mktemp("networks"), []
    for seed, cell in enumerate(("lstm", "rnn")):
        config = NetworkConfig(cell, embedding=6, hidden=8)
        words = TokenVocabulary((*FIRST, *LATER, "."))
        network = RecurrentNetwork.initial(config, words, seed)
        for tensor in network.weights.values():
            tensor.mul_(4.0)
        save_network(folder / f"{cell}.safetensors", network, {}, "float32")
        made.append(load_model(f"{cell}:{folder / cell}.safetensors?punctuation=split"))
    return made[0], made[1]


def _proposal(models: tuple[SentenceModel, ...]) -> WordReplacement:
    return WordReplacement(VOCABULARY, models)


def _pool(models: tuple[SentenceModel, SentenceModel], seed: int, **options: float) -> list[str]:
    by, problem, proposal = Leftward(**options), Problem.pair(*models), _proposal(models)
    form, rng = by.form(NATURAL), np.random.default_rng(seed)
    return [
        draft.sentence
        for number in range(by.batches(len(NATURAL)))
        for draft in by.batch(number, problem, proposal, form, NATURAL, rng)
    ]


def test_a_beam_of_full_width_finds_what_brute_force_finds(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    problem, proposal = Problem.pair(*models), _proposal(models)
    by = Leftward(most_alike=EVERYTHING)
    every = [f"{a} {b} {c}." for a, b, c in product(FIRST, LATER, LATER) if b != c]
    reject, accept = (model.score(every) for model in models)
    for natural in NATURAL:
        walk, least = Walk.of(problem, proposal, by.form(NATURAL), by, natural)
        written = walk.written(3, ".", least, EVERYTHING)
        kept = accept >= least[1]
        best = int(np.where(kept, reject, np.inf).argmin())
        assert len(written.words) == len(every)
        assert written.sentence(0) == every[best]
        scores = {every[i]: (reject[i], accept[i]) for i in range(len(every))}
        by_walk = [written.sentence(i) for i in range(len(every))]
        np.testing.assert_allclose(written.log_probs.T, [scores[s] for s in by_walk], atol=1e-4)


def test_the_score_to_keep_is_that_of_the_problem(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    problem = problem_of(models[:1], models[1:], margin=2.0)
    by = Leftward()
    _, least = Walk.of(problem, _proposal(models), by.form(NATURAL), by, NATURAL[0])
    natural = float(models[1].score([NATURAL[0]])[0])
    assert least[0] == -np.inf
    assert least[1] == pytest.approx(natural - 2.0 + models[1].resolution)


def test_a_sentence_that_is_taken_keeps_the_constraints(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    for natural in NATURAL:
        found = synthesize(
            natural, reject=models[0], accept=models[1], vocabulary=VOCABULARY, strategy=Leftward()
        )
        reject, accept = (model.score([found.sentence, natural]) for model in models)
        assert accept[0] >= accept[1]
        assert found.loss == pytest.approx(reject[0] - reject[1], abs=1e-4)
        assert found.loss <= 0


def test_the_same_seed_writes_the_same_pool(models: tuple[SentenceModel, SentenceModel]) -> None:
    assert _pool(models, 3, width=4) == _pool(models, 3, width=4)
    assert _pool(models, 3, width=4) != _pool(models, 4, width=4)


def test_sentences_of_a_walk_neither_begin_nor_end_alike(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    by, problem, proposal = Leftward(width=20), Problem.pair(*models), _proposal(models)
    longer = ["The ba de fu gi ko do."]
    rng = np.random.default_rng(0)
    drafts = by.batch(0, problem, proposal, by.form(longer), longer, rng)
    words = [draft.sentence.rstrip(".").split() for draft in drafts]
    assert len(words) > 1
    assert all(len(w) == 7 and len(set(w)) == 7 for w in words)
    for part in (slice(3), slice(-3, None)):
        assert len({tuple(w[part]) for w in words}) == len(words)


def test_few_beginnings_end_in_one_word_or_begin_with_the_same_three(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    by = Leftward(most_alike=2)
    longer = "The ba de fu gi."
    walk, least = Walk.of(Problem.pair(*models), _proposal(models), by.form([longer]), by, longer)
    words = walk.written(5, ".", least, 12).words
    for part in (slice(3), slice(-1, None)):
        parts = [w[part] for w in words]
        assert max(map(parts.count, parts)) <= 2


def test_words_that_are_to_stay_stay(models: tuple[SentenceModel, SentenceModel]) -> None:
    form = Form(3, 3, words={1: ("ko", "fu")})
    by, rng = Leftward(), np.random.default_rng(0)
    drafts = by.batch(0, Problem.pair(*models), _proposal(models), form, NATURAL, rng)
    assert drafts
    assert {draft.sentence.split()[1] for draft in drafts} <= {"ko", "fu"}


def test_length_and_mark_are_those_of_the_natural_sentence(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    natural = ["The ba de.", "Some ko fu de.", "One gi"]
    by, rng = Leftward(), np.random.default_rng(0)
    form = by.form(natural)
    assert (form.shortest, form.longest, form.marks) == (2, 4, (".",))
    for number, sentence in enumerate(natural):
        for draft in by.batch(number, Problem.pair(*models), _proposal(models), form, natural, rng):
            assert len(draft.sentence.split()) == len(sentence.split())


def test_guides_propose_and_scores_decide(models: tuple[SentenceModel, SentenceModel]) -> None:
    table = TableModel([*FIRST, *LATER], seed=1)
    assert table.beginnings(VOCABULARY.first, VOCABULARY.elsewhere) is None
    by = Leftward(guide=models[1].spec, most_alike=EVERYTHING)
    assert by.models == (models[1].spec,)
    problem, proposal = Problem.pair(models[0], table), _proposal((models[0], table))
    for natural in NATURAL:
        walk, least = Walk.of(problem, proposal, by.form(NATURAL), by, natural)
        assert list(walk.judges) == [1]
        written = walk.written(3, ".", least, EVERYTHING)
        every = [written.sentence(i) for i in range(len(written.words))]
        accept = table.score(every)
        np.testing.assert_allclose(written.log_probs[1], accept)
        reject = np.where(accept >= least[1], models[0].score(every), np.inf)
        assert every[0] == every[int(reject.argmin())]


def test_without_a_guide_some_model_must_score_from_left_to_right() -> None:
    tables = TableModel([*FIRST, *LATER], 1), TableModel([*FIRST, *LATER], 2)
    by, rng = Leftward(), np.random.default_rng(0)
    with pytest.raises(InputError) as refused:
        by.batch(0, Problem.pair(*tables), _proposal(tables), by.form(NATURAL), NATURAL, rng)
    assert str(refused.value) == (
        "none of table:1?exact=all and table:2?exact=all knows what may follow a beginning; give a "
        "guide, a model that proposes for them"
    )


def test_unlike_sentences_are_the_best_of_those_that_are_alike() -> None:
    words = [("A", "b", "c", "d"), ("a", "b", "c", "e"), ("F", "g", "h", "i"), ("J", "g", "h", "i")]
    written = Ended(words, "!", np.zeros((1, 4)))
    assert list(written.unlike()) == ["A b c d!", "F g h i!"]


def test_an_exhaustive_climb_finds_what_it_did(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    sides = {"reject": models[0], "accept": models[1], "vocabulary": VOCABULARY}
    climbed = synthesize(NATURAL[0], strategy=Bounded(None), **sides)
    assert climbed.loss == synthesize(NATURAL[0], strategy="exhaustive", **sides).loss
