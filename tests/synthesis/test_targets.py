"""Sets of models, named targets and floors, checked by trying all sentences of a few words."""

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from toy_words import ALL, FREE, SIX

from contstim import (
    Edits,
    Floor,
    Problem,
    common_failure,
    load_model,
    one_against_all,
    problem_of,
    standard_deviations,
    synthesize,
)
from contstim.arrays import FloatArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.toy import TableModel
from contstim.synthesis import strategy_called
from contstim.synthesis.bounded import Bounded
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.check import improvements
from contstim.synthesis.sweeps import Strategy
from contstim.synthesis.targets import FLOORS as NAMED_FLOORS
from contstim.synthesis.targets import Sides, parse_floors

STARTS = ["ab cd ef", "kl gh ab", "ij ij cd"]
STRATEGIES = [
    *map(strategy_called, ("exhaustive", "bounded", "beam")),
    Bounded(None),
]
FLOORS = {
    "none": (),
    "total": (Floor("table:9?exact=bound", -4.0, natural=True),),
    "word": (Floor("table:9?exact=bound", -1.0, natural=True, per_word=True),),
    "value": (Floor("table:9?exact=bound", -9.0, per_word=True),),
    "of a rejecting model": (Floor("table:0?exact=bound", -6.0, natural=True),),
}


def _models(n: int) -> list[TableModel]:
    kinds = itertools.cycle(["bound", "all", "none"])
    return [TableModel(SIX, seed, exact=next(kinds)) for seed in range(n)]


EVERY = {m.spec: m for m in (*_models(4), TableModel(SIX, 9, exact="bound"))}


@cache
def _scores(spec: str) -> FloatArray:
    return EVERY[spec].score(ALL)


def _targets() -> dict[str, tuple[Sequence[TableModel], Sequence[TableModel]]]:
    models = _models(4)
    named = {f"one-against-all {i}": sides for i, sides in enumerate(one_against_all(models[:3]))}
    named["split"] = (models[:2], models[2:])
    named["common-failure"] = common_failure(models[1:], models[0])
    return {name: sides for name, sides in named.items() if sides[0]}


def _specs(models: Sequence[TableModel]) -> list[str]:
    return [model.spec for model in models]


def _brute(
    reject: Sequence[TableModel],
    accept: Sequence[TableModel],
    start: str,
    scales: Sequence[float],
    loss: str,
    margin: float,
    floors: Sequence[Floor],
) -> dict[str, float]:
    """Return all sentences that keep the definition's constraints, with its loss."""
    n = ALL.index(start)
    falls = np.array(
        [(x - x[n]) / sd for x, sd in zip(map(_scores, _specs(reject)), scales, strict=True)]
    )
    losses = falls.max(axis=0) if loss == "max" else falls.mean(axis=0)
    kept = np.ones(len(ALL), dtype=bool)
    for spec in _specs(accept):
        kept &= _scores(spec) >= _scores(spec)[n] - margin
    for floor in floors:
        score = _scores(floor.model) / (3 if floor.per_word else 1)
        kept &= score >= (score[n] if floor.natural else 0.0) + floor.value - 1e-12
    return {text: x for text, x, k in zip(ALL, losses, kept, strict=True) if k}


CASES = [
    (name, loss, floors)
    for name, (reject, _) in _targets().items()
    for loss in ("max", "mean")[: len(reject)]
    for floors in (FLOORS if name in ("split", "one-against-all 0") else ("none",))
]


@pytest.mark.parametrize(("name", "loss", "floors"), CASES)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_every_target_and_floor_against_all_sentences(
    name: str, loss: str, floors: str, strategy: Strategy
) -> None:
    reject, accept = _targets()[name]
    scales = standard_deviations(reject, ALL[::7]) if len(reject) > 1 else (1.0,)
    problem = problem_of(
        reject,
        accept,
        floors=FLOORS[floors],
        others=_other(reject, accept, floors),
        margin=1.0,
        loss=loss,
        scales=scales if len(reject) > 1 else (),
    )
    for start in STARTS:
        all_ = _brute(reject, accept, start, scales, loss, 1.0, FLOORS[floors])
        found = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
        assert found.loss == pytest.approx(all_[found.sentence])
        assert set(found.models) == {model.spec for model in problem.models}
        if strategy.complete:
            near = [
                loss_
                for text, loss_ in all_.items()
                if sum(map(str.__ne__, text.split(), found.sentence.split())) == 1
            ]
            assert min(near, default=0.0) >= found.loss - 1e-9
            proposal = WordReplacement(FREE, problem.models)
            assert improvements(found, problem, proposal)[0] == []


def _other(
    reject: Sequence[TableModel], accept: Sequence[TableModel], floors: str
) -> list[TableModel]:
    wanted = {floor.model for floor in FLOORS[floors]}
    return [EVERY[spec] for spec in wanted.difference(_specs([*reject, *accept]))]


def test_one_and_one_is_the_pair() -> None:
    reject, accept = _models(2)
    problem = problem_of([reject], [accept])
    assert problem == Problem.pair(reject, accept)
    assert str(problem) == str(Problem.pair(reject, accept))
    for start in STARTS:
        one = synthesize(start, problem=problem, vocabulary=FREE)
        assert one == synthesize(start, reject=reject, accept=accept, vocabulary=FREE)


def test_a_margin_is_any_number() -> None:
    reject, accept = _models(2)
    assert problem_of([reject], [accept], margin=1) == problem_of([reject], [accept], margin=1.0)
    text: Any = "1"
    with pytest.raises(InputError) as error:
        Sides(("a",), ("b",), margin=text)
    assert str(error.value) == (
        "the margin is '1'; give the nats by which an accepting model's score may fall, from 0 up"
    )


def test_one_against_all_isolates_each_model_both_ways() -> None:
    assert one_against_all("abc") == [
        (("a",), ("b", "c")),
        (("b", "c"), ("a",)),
        (("b",), ("a", "c")),
        (("a", "c"), ("b",)),
        (("c",), ("a", "b")),
        (("a", "b"), ("c",)),
    ]
    assert one_against_all("ab") == [(("a",), ("b",)), (("b",), ("a",))]
    for target in ("one-against-all", "common-failure"):
        with pytest.raises(InputError) as error:
            one_against_all(["a"]) if target == "one-against-all" else common_failure(["a"], "b")
        assert str(error.value) == (
            f"the target {target} compares models, got 1 (a); give at least two"
        )


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("contstim:gpt>=-40", Floor("contstim:gpt", -40.0)),
        ("contstim:gpt >= natural-5", Floor("contstim:gpt", -5.0, natural=True)),
        ("contstim:gpt>=natural", Floor("contstim:gpt", 0.0, natural=True)),
        ("plausible", Floor("contstim:gpt", -0.5, natural=True, per_word=True)),
        ("readable", Floor("contstim:smollm2?prompt=natural&reduction=reading", -3.4)),
        ("hf:x>=readable:-4.5", Floor("hf:x?prompt=natural&reduction=reading", -4.5)),
        ("contstim:bert >= strict", Floor("contstim:bert", -0.1, natural=True, per_word=True)),
        ("contstim:gpt/word>=-6.5", Floor("contstim:gpt", -6.5, per_word=True)),
        (
            "contstim:gpt/word>=natural-1e-1",
            Floor("contstim:gpt", -0.1, natural=True, per_word=True),
        ),
        (
            "contstim:bert?metric=pll/token>=natural-1",
            Floor("contstim:bert?metric=pll&reduction=mean", -1.0, natural=True),
        ),
    ],
)
def test_floors_as_text(text: str, floor: Floor) -> None:
    assert parse_floors(text) == (floor,)
    assert parse_floors(str(floor)) == (floor,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "contstim:gpt",
            "'contstim:gpt' is not a floor; write MODEL>=VALUE or "
            "MODEL>=natural-MARGIN, for example "
            "contstim:gpt>=natural-5 or contstim:gpt/word>=-6, or plausible or strict",
        ),
        (
            "contstim:gpt>=natural+5",
            "'contstim:gpt>=natural+5' is not a floor: 'natural+5' is no value; give a number, or "
            "natural less a margin, such as natural-5",
        ),
        (
            "contstim:gpt>=5.5.5",
            "'contstim:gpt>=5.5.5' is not a floor: '5.5.5' is no value; give a number, or natural "
            "less a margin, such as natural-5",
        ),
        (
            "contstim:gpt>=naturally",
            "'contstim:gpt>=naturally' is not a floor; write MODEL>=VALUE or "
            "MODEL>=natural-MARGIN, "
            "for example contstim:gpt>=natural-5 or contstim:gpt/word>=-6, or plausible or strict",
        ),
        (
            "contstim:gpt?reduction=pen/token>=-5",
            "'contstim:gpt?reduction=pen/token>=-5' asks for a score per token of a model that has "
            "a reduction; leave out /token or the reduction",
        ),
        (
            "plausible:1",
            "'plausible:1' is not a floor: plausible takes no number; write plausible",
        ),
        (
            "contstim:gpt>=very-readable:-3",
            "'contstim:gpt>=very-readable:-3' is not a floor: very-readable takes no number; write "
            "very-readable",
        ),
        ("at-least", "'at-least' is not a floor: at-least needs a number; write at-least:NUMBER"),
    ],
)
def test_texts_that_are_no_floor(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMED_FLOORS._things, "at-least", lambda model, least: Floor(model, least))
    with pytest.raises(InputError) as error:
        parse_floors(text)
    assert str(error.value) == message


def test_a_floor_names_a_compared_model_or_gives_a_spec() -> None:
    reject, accept = (load_model(f"contstim:{name}") for name in ("bigram", "trigram"))
    named = load_model("mine=contstim:unigram")
    floors = problem_of([reject], [accept], floors=["mine>=-5"], others=[named]).constraints
    assert any(getattr(floor, "model", "") == "mine" for floor in floors)
    with pytest.raises(InputError) as error:
        problem_of([reject], [accept], floors=["gpt>=-5"])
    assert str(error.value) == (
        "'gpt' is not a model spec; write FAMILY:LOCATION, for example contstim:trigram"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"reject": ("a",), "accept": ("a",)},
            "a target needs different models, got 'a' twice; specs that differ in metric or "
            "reduction are different models",
        ),
        (
            {"reject": (), "accept": ("a",)},
            "no model is to reject the sentences; name at least one",
        ),
        (
            {"reject": ("a",), "accept": ()},
            "no model is to accept the sentences, and there is no floor; name at least one",
        ),
        (
            {"reject": ("a",), "accept": ("b",), "margin": -1.0},
            "the margin is -1.0; give the nats by which an accepting model's score may fall, from "
            "0 up",
        ),
        (
            {"reject": ("a",), "accept": ("b",), "margin": (1.0, 2.0)},
            "1 accepting models have 2 margins; give one for all, or one each",
        ),
        (
            {"reject": ("a",), "accept": ("b",), "loss": "least"},
            "unknown loss 'least'; choose one of 'max', 'mean'",
        ),
    ],
)
def test_targets_that_cannot_be(values: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(InputError) as error:
        Sides(**values)
    assert str(error.value) == message


def test_scales_are_needed_for_several_and_must_fit() -> None:
    one, two, three = _models(3)
    with pytest.raises(InputError, match="^2 rejecting models need scales, by which their falls"):
        problem_of([one, two], [three])
    with pytest.raises(InputError, match="^2 rejecting models have 1 scales; give one each$"):
        problem_of([one, two], [three], scales=(1.0,))
    with pytest.raises(InputError, match="^the scale of 'table:0.exact=bound' is 0.0; give a"):
        problem_of([one, two], [three], scales=(0.0, 1.0))
    with pytest.raises(InputError, match="^1 natural sentences do not tell the standard deviation"):
        standard_deviations([one], STARTS[:1])
    assert standard_deviations([one], ALL)[0] == pytest.approx(np.std(one.score(ALL), ddof=1))


def test_a_floor_that_the_natural_sentence_breaks() -> None:
    one, two, three = _models(3)
    problem = problem_of([one], [two], floors=[Floor(three.spec, -0.25)], others=[three])
    score = three.score(STARTS[:1])[0]
    with pytest.raises(InfeasibleError) as error:
        synthesize(STARTS[0], problem=problem, vocabulary=FREE)
    assert str(error.value) == (
        f"the natural sentence 'ab cd ef' breaks table:2?exact=none>=-0.25 by {-0.25 - score:.4g}; "
        "ask for less, or leave the sentence out"
    )


def test_a_floor_per_token_of_a_bundled_model() -> None:
    reject, accept = load_model("contstim:bigram"), load_model("contstim:trigram")
    natural = "The ship left at dawn."
    problem = problem_of([reject], [accept], floors=["contstim:bigram/token>=natural-0.5"])
    found = synthesize(natural, problem=problem, strategy="exhaustive")
    totals = reject.totals([natural, found.sentence])
    per_token = totals.score / totals.n_tokens
    assert found.changed
    assert per_token[1] >= per_token[0] - 0.5
    free = synthesize(natural, reject=reject, accept=accept, strategy="exhaustive")
    assert free.loss < found.loss < 0


def test_edits_and_targets_go_together() -> None:
    one, two, three = _models(3)
    problem = problem_of([one], [two, three], margin=5.0, edits=Edits(most=1))
    found = synthesize(STARTS[0], problem=problem, vocabulary=FREE, strategy="exhaustive")
    all_ = _brute([one], [two, three], STARTS[0], (1.0,), "max", 5.0, ())
    near = [
        loss
        for text, loss in all_.items()
        if sum(map(str.__ne__, text.split(), STARTS[0].split())) <= 1
    ]
    assert found.loss == pytest.approx(min(near))
