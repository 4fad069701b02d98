"""Problems over sets of models, compared with all sentences of a small vocabulary."""

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from toy_words import ALL, FREE, SIX

from contstim import Edits, MinScore, Problem, load_model, standard_deviations, synthesize
from contstim.arrays import FloatArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.base import ReplacementScores
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import parse_strategy
from contstim.synthesis.check import find_improvements
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.problem import ProblemDefinition
from contstim.synthesis.results import SynthesisResult
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList

STARTS = ["ab cd ef", "kl gh ab", "ij ij cd"]
BOUNDS = {
    "none": (),
    "relative": (MinScore("table:9?exact=bound", -4.0, natural=True),),
    "absolute": (MinScore("table:9?exact=bound", -27.0),),
    "of a rejecting model": (MinScore("table:0?exact=bound", -6.0, natural=True),),
}


def _models(n: int) -> list[RandomBigramModel]:
    kinds = itertools.cycle(["bound", "all", "none"])
    return [RandomBigramModel(SIX, seed, exact=next(kinds)) for seed in range(n)]


EVERY = {m.spec: m for m in (*_models(4), RandomBigramModel(SIX, 9, exact="bound"))}


@cache
def _scores(spec: str) -> FloatArray:
    return EVERY[spec].score(ALL)


def _contrasts() -> dict[str, tuple[Sequence[RandomBigramModel], Sequence[RandomBigramModel]]]:
    one, two, three, four = _models(4)
    return {
        "one against two": ((one,), (two, three)),
        "two against one": ((two, three), (one,)),
        "two against two": ((one, two), (three, four)),
    }


def _brute_force(
    reject: Sequence[RandomBigramModel],
    accept: Sequence[RandomBigramModel],
    start: str,
    scales: Sequence[float],
    margin: float,
    bounds: Sequence[MinScore],
) -> dict[str, float]:
    """Return all sentences that satisfy the constraints of the definition, with their losses."""
    n = ALL.index(start)
    rejecting = [_scores(model.spec) for model in reject]
    drops = [(x - x[n]) / sd for x, sd in zip(rejecting, scales, strict=True)]
    losses, feasible = np.max(drops, axis=0), np.ones(len(ALL), dtype=bool)
    for model in accept:
        feasible &= _scores(model.spec) >= _scores(model.spec)[n] - margin
    for bound in bounds:
        score = _scores(bound.model)
        feasible &= score >= (score[n] if bound.natural else 0.0) + bound.value - 1e-12
    return {text: x for text, x, k in zip(ALL, losses, feasible, strict=True) if k}


@pytest.mark.parametrize("name", _contrasts())
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("strategy", ["edit", "edit?candidates=all", "edit?candidates=2"])
def test_losses_equal_brute_force(name: str, bounds: str, strategy: str) -> None:
    reject, accept = _contrasts()[name]
    scales = standard_deviations(reject, ALL[::7]) if len(reject) > 1 else (1.0,)
    others = tuple(EVERY[bound.model] for bound in BOUNDS[bounds])
    problem = Problem(
        tuple(reject),
        tuple(accept),
        1.0,
        BOUNDS[bounds],
        scales=scales if len(reject) > 1 else (),
        bound_models=tuple(m for m in others if m.name not in [r.name for r in (*reject, *accept)]),
    )
    for start in STARTS:
        all_ = _brute_force(reject, accept, start, scales, 1.0, BOUNDS[bounds])
        if start not in all_:
            with pytest.raises(InfeasibleError, match="violates table:9"):
                synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
            continue
        found = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
        assert found.loss == pytest.approx(all_[found.sentence])
        assert set(found.models) == {*problem.models_by_name}
        if parse_strategy(strategy).is_exhaustive:
            near = [
                loss
                for text, loss in all_.items()
                if sum(map(str.__ne__, text.split(), found.sentence.split())) == 1
            ]
            assert min(near, default=0.0) >= found.loss - 1e-9
            proposal = SharedVocabulary(FREE, tuple(problem.models_by_name.values()))
            assert find_improvements(found, problem, proposal)[0] == []


def test_problem_of_two_models_equals_reject_and_accept() -> None:
    reject, accept = _models(2)
    problem = Problem((reject,), (accept,))
    for start in STARTS:
        one = synthesize(start, problem=problem, vocabulary=FREE)
        assert one == synthesize(start, reject=reject, accept=accept, vocabulary=FREE)


def test_strictest_bound_of_a_model_is_satisfied() -> None:
    reject, accept = (RandomBigramModel(SIX, seed, exact="all") for seed in (0, 1))
    start = ALL[np.argsort(accept.score(ALL))[190]]
    natural = float(accept.score([start])[0])
    loose, tight = MinScore(accept.name, natural - 4), MinScore(accept.name, 0.0, natural=True)

    def write(*bounds: MinScore) -> SynthesisResult:
        problem = Problem((reject,), bounds=bounds, bound_models=(accept,))
        return synthesize(start, problem=problem, vocabulary=FREE)

    assert natural - 4 <= write(loose).scores[1] < natural
    for both in ((loose, tight), (tight, loose)):
        assert write(*both).scores[1] >= natural


def test_single_model_reaches_a_local_minimum() -> None:
    model = RandomBigramModel(SIX, 0, exact="bound")
    problem = Problem((model,))
    found = synthesize(STARTS[0], problem=problem, vocabulary=FREE, strategy="edit?candidates=all")
    words = found.sentence.split()
    near = [s for s in ALL if sum(map(str.__ne__, s.split(), words)) == 1]
    assert model.score(near).min() >= found.scores[0] - 1e-9


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("contstim:gpt>=-40", MinScore("contstim:gpt", -40.0)),
        ("contstim:gpt >= natural-5", MinScore("contstim:gpt", -5.0, natural=True)),
        ("contstim:gpt>=natural", MinScore("contstim:gpt", 0.0, natural=True)),
        ("contstim:bert?reduction=mean>=natural-1e-1",
         MinScore("contstim:bert?reduction=mean", -0.1, natural=True)),
    ],
)  # fmt: skip
def test_bounds_round_trip_as_text(text: str, bound: MinScore) -> None:
    assert MinScore.parse(text) == bound
    assert MinScore.parse(str(bound)) == bound


@pytest.mark.parametrize(
    "text",
    [
        "contstim:gpt",
        "contstim:gpt>=natural+5",
        "contstim:gpt>=5.5.5",
        "m>=naturally",
        "m>=nan",
        "",
    ],
)
def test_invalid_bound_texts_are_rejected(text: str) -> None:
    with pytest.raises(InputError) as error:
        MinScore.parse(text)
    assert str(error.value) == (
        f"{text!r} is not a minimum score; write MODEL>=NUMBER or MODEL>=natural-NUMBER, in nats, "
        "for example contstim:gpt>=natural-5"
    )


def test_readable_bound_uses_reading_scores() -> None:
    bound = MinScore.readable()
    assert str(bound) == "contstim:smollm2?prompt=natural&reduction=reading>=-3.4"


def test_bounds_accept_model_names_or_specs() -> None:
    reject, accept = (load_model(f"contstim:{name}") for name in ("bigram", "trigram"))
    named = load_model("mine=contstim:unigram")
    problem = Problem((reject,), (accept,), bounds=("mine>=-5",), bound_models=(named,))
    assert problem.definition.bounds == (MinScore("mine", -5.0),)
    with pytest.raises(InputError, match="'gpt' is not a model spec"):
        Problem((reject,), (accept,), bounds=("gpt>=-5",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"reject": ("a",), "accept": ("a",)},
            "a synthesis needs different models, got 'a' twice; specs that differ in metric or "
            "reduction are different models",
        ),
        (
            {"reject": (), "accept": ("a",)},
            "a synthesis needs a rejecting model; name at least one",
        ),
        (
            {"reject": ("a",), "accept": ("b",), "margin": -1.0},
            "the margin is -1.0; give the maximum decrease of the accepting models' scores as a "
            "number of nats from 0 up",
        ),
        (
            {"reject": ("a", "b"), "accept": ("c",), "scales": (1.0,)},
            "2 rejecting models have 1 scales; give one scale for each model",
        ),
        (
            {"reject": ("a",), "accept": ("c",), "scales": (0.0,)},
            "the scale of 'a' is 0.0; give a number above 0",
        ),
    ],
)
def test_invalid_contrasts_are_rejected(values: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(InputError) as error:
        ProblemDefinition(**values)
    assert str(error.value) == message


def test_invalid_problems_are_rejected() -> None:
    one, two, three = _models(3)
    with pytest.raises(InputError, match="^2 rejecting models need scales to make their"):
        Problem((one, two), (three,))
    with pytest.raises(InputError, match="^the scores of 1 natural sentences do not determine"):
        standard_deviations([one], STARTS[:1])
    assert standard_deviations([one], ALL)[0] == pytest.approx(np.std(one.score(ALL), ddof=1))
    for given in ({}, {"reject": one}, {"problem": Problem((one,)), "accept": two}):
        with pytest.raises(InputError) as error:
            synthesize(STARTS[0], **given)
        assert str(error.value) == "give either problem=, or both reject= and accept="


def test_bounds_violated_by_the_natural_sentence_are_reported() -> None:
    one, two, three = _models(3)
    problem = Problem((one,), (two,), bounds=(MinScore(three.name, -0.25),), bound_models=(three,))
    score = three.score(STARTS[:1])[0]
    with pytest.raises(InfeasibleError) as error:
        synthesize(STARTS[0], problem=problem, vocabulary=FREE)
    assert str(error.value) == (
        f"the natural sentence 'ab cd ef' violates {three.name}>=-0.25 by {-0.25 - score:.4g}; "
        "lower the bound, or leave the sentence out"
    )


def test_edits_are_satisfied_for_sets_of_models() -> None:
    one, two, three = _models(3)
    problem = Problem((one,), (two, three), 5.0, edits=Edits(max_changes=1))
    found = synthesize(STARTS[0], problem=problem, vocabulary=FREE, strategy="edit?candidates=all")
    all_ = _brute_force([one], [two, three], STARTS[0], (1.0,), 5.0, ())
    near = [
        loss
        for text, loss in all_.items()
        if sum(map(str.__ne__, text.split(), STARTS[0].split())) <= 1
    ]
    assert found.loss == pytest.approx(min(near))


class _RecordingModel(RandomBigramModel):
    """A model that records which candidates it was asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(SIX, seed, exact="none")
        self.asked: list[tuple[str, set[str]]] = []

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        self.asked += [(str(sentence), {str(sentence.replace(position, w)) for w in words})]
        return super().score_replacements(sentence, position, words)


@pytest.mark.parametrize("strategy", ["edit?candidates=all", "edit"])
def test_expensive_models_score_only_remaining_candidates(strategy: str) -> None:
    reject, accept = (RandomBigramModel(SIX, seed, exact="all") for seed in (0, 1))
    third = _RecordingModel(2)
    bound = MinScore(third.name, -1.0, natural=True)
    problem = Problem((reject,), (accept,), bounds=(bound,), bound_models=(third,))
    results: dict[str, SynthesisResult] = {}
    sizes: set[int] = set()
    for start in ALL[::7]:
        third.asked.clear()
        found = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
        minimum = accept.score([start])[0]
        for sentence, texts in third.asked:
            others = sorted(texts - {sentence})
            fewer = 2 * (len(others) + 1) < len(SIX)
            lower = reject.score(others) < reject.score([sentence])[0]
            assert not fewer or (lower & (accept.score(others) >= minimum)).all()
        # Nothing is asked where nothing is left.
        assert all(len(texts) > 1 for _, texts in third.asked)
        sizes.update(len(texts) for _, texts in third.asked)
        results[start] = found
    assert min(sizes) < len(SIX) / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Search,
            "_prefilter_words",
            lambda search, p, text: search._score_inexpensive(p, text).is_allowed.copy(),
        )
        for start, found in results.items():
            if strategy != "edit":
                again = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
                assert (again.sentence, again.scores) == (found.sentence, found.scores)
