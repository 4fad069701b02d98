"""Tests `contstim.synthesis`, `contstim.synthesis.candidates`,
`contstim.synthesis.shared_vocabulary`, `contstim.synthesis.strategy` and
`contstim.synthesis.coordinate_search`."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from toy_words import LOWER, UPPER, VOCABULARY

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, UnknownNameError, UnknownWordError
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.registry import load_model
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import parse_strategy, synthesize
from contstim.synthesis.beam import Beam
from contstim.synthesis.check import find_improvements
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edit import Edit
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem
from contstim.synthesis.results import SynthesisResult
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

NATURAL = "The dog saw the big cat."
STRATEGIES = ["edit?candidates=all", "edit"]


def _models(
    seed: int, exact: tuple[str, str] = ("all", "all")
) -> tuple[RandomBigramModel, RandomBigramModel]:
    words = [*LOWER, *UPPER]
    return (
        RandomBigramModel(words, 2 * seed, exact=exact[0]),
        RandomBigramModel(words, 2 * seed + 1, exact=exact[1]),
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "exact", [("all", "all"), ("bound", "all"), ("all", "bound"), ("none", "none")]
)
@pytest.mark.parametrize("seed", range(3))
def test_result_satisfies_the_constraint_on_fresh_scores(
    strategy: str, exact: tuple[str, str], seed: int
) -> None:
    reject, accept = _models(seed, exact)
    result = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=strategy, seed=seed
    )
    assert accept.score([result.sentence])[0] >= accept.score([NATURAL])[0]
    assert reject.score([result.sentence])[0] == result.scores[0]
    assert result.loss == result.scores[0] - reject.score([NATURAL])[0]
    assert result.loss < 0
    words = [w.lower() for w in Sentence.parse(result.sentence).words]
    repeated = {w for w in words if words.count(w) > 1}
    assert repeated <= {"the", "of"}


@pytest.mark.parametrize(
    "exact", [("all", "all"), ("bound", "all"), ("all", "bound"), ("bound", "bound")]
)
@pytest.mark.parametrize("seed", range(4))
def test_result_is_a_local_optimum(exact: tuple[str, str], seed: int) -> None:
    reject, accept = _models(seed, exact)
    result = synthesize(
        NATURAL,
        reject=reject,
        accept=accept,
        vocabulary=VOCABULARY,
        strategy="edit?candidates=all",
        seed=seed,
    )
    proposal = SharedVocabulary(VOCABULARY, (reject, accept))
    better, tried = find_improvements(result, Problem((reject,), (accept,)), proposal)
    assert (better, tried > 20) == ([], True)


def test_exhaustive_search_takes_the_best_word() -> None:
    reject, accept = _models(7)
    result = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY)
    first = result.steps[0]
    sentence = Sentence.parse(NATURAL)
    others = [w.lower() for i, w in enumerate(sentence.words) if i != first.position]
    candidates = [
        str(sentence.replace(first.position, word))
        for word in (UPPER if first.position == 0 else LOWER)
        if word.lower() not in others or word.lower() in {"the", "of"}
    ]
    feasible = [t for t in candidates if accept.score([t])[0] >= accept.score([NATURAL])[0]]
    assert first.scores[0] == min(reject.score([t])[0] for t in feasible)


def test_exhaustive_result_does_not_depend_on_score_bounds() -> None:
    results = {
        synthesize(
            NATURAL,
            reject=_models(3, exact)[0],
            accept=_models(3, exact)[1],
            vocabulary=VOCABULARY,
            strategy="edit?candidates=all",
            seed=1,
        ).scores[0]
        for exact in [("all", "all")]
    }
    for exact in [("bound", "all"), ("all", "bound"), ("none", "none")]:
        # The spec names the kind of table, and chance depends on the spec: give both one name.
        reject, accept = _models(3, exact)
        plain_reject, plain_accept = _models(3)
        reject._spec = plain_reject._spec
        accept._spec = plain_accept._spec
        found = synthesize(
            NATURAL,
            reject=reject,
            accept=accept,
            vocabulary=VOCABULARY,
            strategy="edit?candidates=all",
            seed=1,
        )
        results.add(found.scores[0])
    assert len(results) == 1


def test_steps_lead_from_natural_sentence_to_result() -> None:
    reject, accept = _models(5)
    result = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, seed=3)
    sentence = Sentence.parse(NATURAL)
    falling = [result.natural_scores[0]]
    for step in result.steps:
        assert sentence.words[step.position] == step.old
        sentence = sentence.replace(step.position, step.new)
        assert reject.score([str(sentence)])[0] == step.scores[0]
        assert accept.score([str(sentence)])[0] == step.scores[1]
        falling.append(step.scores[0])
    assert str(sentence) == result.sentence
    assert np.all(np.diff(falling) < 0)


def test_seed_and_attempt_determine_the_result() -> None:
    reject, accept = _models(2)

    def run(seed: int, attempt: int) -> SynthesisResult:
        return synthesize(
            NATURAL,
            reject=reject,
            accept=accept,
            vocabulary=VOCABULARY,
            seed=seed,
            attempt=attempt,
        )

    assert run(4, 0) == run(4, 0)
    orders = {tuple(s.position for s in run(4, attempt).steps) for attempt in range(5)}
    assert len(orders) > 1


def test_candidates_option_limits_exact_scores() -> None:
    reject, accept = _models(1, ("bound", "bound"))
    small = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=Edit(2)
    )
    large = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy="edit?candidates=all"
    )
    visits = 6 * (1 + len(small.steps))
    assert small.n_scores[1] <= 2 * visits
    assert sum(small.n_scores) < sum(large.n_scores)


class _Priced(RandomBigramModel):
    """Notes what its exact scores cost."""

    price = 7.0

    def __init__(self, seed: int) -> None:
        super().__init__([*LOWER, *UPPER], seed, exact="bound")
        self.counter = 0.0

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        table = super().score_replacements(sentence, position, words)

        def score(index: IntArray) -> FloatArray:
            self.counter += self.price * len(index)
            return table.score(index)

        return replace(table, cost=ScoringCost(self.price), score=score)


def test_inputs_option_limits_the_cost() -> None:
    bills, scores, finished = [], [], []
    for inputs in (10**9, 150):
        reject, accept = _Priced(8), _Priced(9)
        proposal = SharedVocabulary(VOCABULARY, (reject, accept))
        search = Search(Problem((reject,), (accept,)), proposal, Sentence.parse(NATURAL), seed=0)
        finished.append(Edit(inputs=inputs).run(search))
        assert search.steps
        # Sentences that are kept cost a score of either model.
        bills.append(reject.counter + accept.counter + 2 * 7.0 * len(search.steps))
        scores.append(sum(search.counter.n_scores.values()))
    assert finished == [True, False]
    # The limit is kept; what is left does not pay a candidate's two scores and its verification.
    assert 150 - 4 * 7.0 < bills[1] <= 150
    assert bills[0] > 1.5 * bills[1]
    assert scores[1] < scores[0]


@pytest.mark.parametrize("strategy", [Edit(3), "edit?candidates=all"])
def test_no_candidate_is_scored_twice(
    strategy: str | Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    reject, accept = _models(4, ("bound", "bound"))
    asked: list[tuple[str, str]] = []

    def watch(model: RandomBigramModel) -> None:
        plain = model.score_replacements

        def replacements(sentence: Sentence, position: int, words: WordList) -> ReplacementScores:
            table = plain(sentence, position, words)

            def score(index: IntArray) -> FloatArray:
                texts = [str(sentence.replace(position, words.words[i])) for i in index]
                asked.extend((model.spec, text) for text in texts)
                return table.score(index)

            return replace(table, score=score)

        monkeypatch.setattr(model, "score_replacements", replacements)

    watch(reject)
    watch(accept)
    result = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=strategy
    )
    assert sum(result.n_scores) == len(asked)
    # A sentence is met again if a word that was replaced comes back; within a step it is not.
    assert len(set(asked)) >= len(asked) - len(result.steps) * len(LOWER)
    counts = [step.n_scores for step in result.steps]
    assert counts == sorted(counts)
    assert all(c <= result.n_scores for c in counts)


def test_result_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    reject, accept = _models(8, ("bound", "bound"))

    def run() -> SynthesisResult:
        return synthesize(
            NATURAL,
            reject=reject,
            accept=accept,
            vocabulary=VOCABULARY,
            strategy=Edit(4),
            seed=2,
        )

    first = run()
    for model in (reject, accept):
        plain = model.score_replacements

        def one_by_one(
            sentence: Sentence,
            position: int,
            words: WordList,
            plain: Callable[..., ReplacementScores] = plain,
        ) -> ReplacementScores:
            table = plain(sentence, position, words)

            def score(index: IntArray) -> FloatArray:
                backwards = [table.score(np.array([i]))[0] for i in index[::-1]]
                return np.array(backwards[::-1])

            return replace(table, score=score)

        monkeypatch.setattr(model, "score_replacements", one_by_one)
    assert run() == first


def test_dashes_and_punctuation_are_preserved() -> None:
    reject, accept = _models(6)
    result = synthesize(
        "The dog -- ran, saw the cat!", reject=reject, accept=accept, vocabulary=VOCABULARY
    )
    words = result.sentence.split()
    assert words[2] == "--"
    assert words[3].endswith(",")
    assert words[-1].endswith("!")


def test_invalid_arguments_are_rejected() -> None:
    reject, accept = _models(0)
    with pytest.raises(InputError) as error:
        synthesize("Dog.", reject=reject, accept=accept, vocabulary=VOCABULARY)
    assert str(error.value) == (
        "the natural sentence 'Dog.' has one word, but a synthesis needs at least two; leave it out"
    )
    for name_, value in (("seed", -1), ("attempt", 0.5)):
        with pytest.raises(InputError, match=rf"^{name_} is {value}; give a whole number of at"):
            synthesize(
                "Dog ran.", reject=reject, accept=accept, vocabulary=VOCABULARY, **{name_: value}
            )
    with pytest.raises(UnknownWordError, match="does not know 'zebra' in 'The zebra ran.'"):
        synthesize("The zebra ran.", reject=reject, accept=accept, vocabulary=VOCABULARY)
    with pytest.raises(UnknownNameError) as name:
        synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy="edits")
    assert str(name.value) == "unknown strategy 'edits'; did you mean 'edit'?"
    foreign = Vocabulary(WordList.from_words(["El"]), WordList.from_words(["perro"]), frozenset())
    with pytest.raises(InputError) as unknown:
        synthesize(NATURAL, reject=reject, accept=accept, vocabulary=foreign)
    both = f"{reject.spec} and {accept.spec}"
    assert str(unknown.value) == (
        f"{both} know 0 of the 1 words that may replace 'big'; give a vocabulary of "
        "their language, for example one made by 'contstim vocabulary'"
    )


def test_joint_replacements_are_accepted_or_rejected_together() -> None:
    reject, accept = _models(2)
    proposal = SharedVocabulary(VOCABULARY, (reject, accept))
    problem, natural = Problem((reject,), (accept,)), Sentence.parse(NATURAL)
    before = Search(problem, proposal, natural, seed=0).current_scores
    taken, refused = [], []
    for first in LOWER:
        for second in LOWER:
            text = f"The {first} saw the {second} cat."
            kept = accept.score([text])[0] >= accept.score([NATURAL])[0]
            # But for "the" and "of", a word that is put in may not stand elsewhere as well.
            words = ["the", first, "saw", "the", second, "cat"]
            repeat = {w for w in (first, second) if words.count(w) > 1} - {"the", "of"}
            improves = kept and not repeat and reject.score([text])[0] < reject.score([NATURAL])[0]
            search = Search(problem, proposal, natural, seed=0)
            assert search.accept(natural.replace(1, first).replace(4, second)) == improves
            (taken if improves else refused).append(search)
    assert taken
    assert all((s.steps, s.current_scores, s.sentence) == ([], before, natural) for s in refused)
    for search in taken:
        steps = [(step.position, step.new) for step in search.steps]
        new = search.sentence.words
        assert steps == [(p, new[p]) for p in (1, 4) if new[p] != natural.words[p]]
        assert {step.scores for step in search.steps} == {tuple(search.current_scores.values())}


@pytest.mark.parametrize(
    "strategy",
    ["edit", "edit?candidates=all", "edit?candidates=3&inputs=900", "beam", "beam?width=8"],
)
def test_result_records_the_strategy(strategy: str) -> None:
    words = Vocabulary.from_words(["The", "A", "dog", "cat", "slept", "ran", "here", "there"])
    models = {"reject": "contstim:bigram", "accept": "contstim:trigram"}
    called: list[Strategy] = []

    def record(kind: type[Strategy]) -> None:
        plain = kind.run
        patch.setattr(kind, "run", lambda self, search: called.append(self) or plain(self, search))

    with pytest.MonkeyPatch.context() as patch:
        record(Edit)
        record(Beam)
        found = synthesize("The dog slept here.", **models, vocabulary=words, strategy=strategy)
    assert (found.strategy, found.seed) == (strategy, 0)
    assert called == [parse_strategy(strategy)] == [parse_strategy(found.strategy)]


def test_edit_is_the_default_strategy() -> None:
    words = Vocabulary.from_words(["The", "A", "dog", "cat", "slept", "ran", "here", "there"])
    for accept in ("contstim:trigram", "contstim:rnn"):
        models = {"reject": "contstim:bigram", "accept": accept}
        call = partial(synthesize, "The dog slept here.", **models, vocabulary=words)
        assert call() == call(strategy="edit")


@pytest.mark.parametrize("strategy", ["beam", "sample?writer=contstim:gpt"])
def test_whole_sentence_strategies_reject_edits(strategy: str) -> None:
    problem = Problem(
        (load_model("contstim:bigram"),),
        (load_model("contstim:trigram"),),
        edits=Edits(max_changes=2, fixed=(0,)),
    )
    with pytest.raises(InputError) as error:
        synthesize("The dog slept here.", problem=problem, strategy=strategy)
    assert str(error.value) == (
        f"the strategy {strategy!r} writes whole sentences and cannot limit edits "
        "(max=2,fixed=0); use the strategy 'edit', or leave the edits out"
    )


def test_strategy_options_by_keyword_or_query() -> None:
    pair = dict(zip(("reject", "accept"), _models(1, ("none", "none")), strict=True))
    asked = partial(synthesize, NATURAL, **pair, vocabulary=VOCABULARY)
    itself = asked(strategy=Edit(2))
    for given in ({"strategy": "edit?candidates=2"}, {"strategy": "edit", "candidates": 2},
                  {"candidates": 2}):  # fmt: skip
        assert asked(**given) == itself
    for given, message in (
        (
            {"readable": True},
            "readable belongs to the problem, not to the strategy; pass synthesize a problem, for "
            "example Problem((reject,), (accept,), bounds=[MinScore.readable()])",
        ),
        ({"candidats": 2}, "unknown option of a strategy 'candidats'; did you mean 'candidates'?"),
        (
            {"strategy": Edit(), "candidates": 2},
            "candidates= needs a strategy given by name; Edit(candidates=64, first=4, "
            "inputs=None) has its options already",
        ),
        (
            {"strategy": "beam", "candidates": 2},
            "candidates=2 is an option of the strategy 'edit', not of 'beam'; leave it out",
        ),
        (
            {"strategy": "edit?candidates=3", "candidates": 2},
            "the strategy 'edit?candidates=3' has candidates twice; give it once",
        ),
    ):
        with pytest.raises(InputError) as error:
            asked(**given)
        assert str(error.value) == message


def test_synthesize_accepts_model_specs() -> None:
    words = Vocabulary.from_words(["The", "A", "dog", "cat", "sat", "ran", "away", "here"])
    specs = {"reject": "contstim:bigram", "accept": "contstim:trigram"}
    loaded = {role: load_model(spec) for role, spec in specs.items()}
    asked = partial(synthesize, "The cat sat here.", vocabulary=words)
    assert asked(**specs).steps == asked(**loaded).steps
