"""Problems over any number of models, each checked by trying all sentences of a few words."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from three_models import SmallestDrop, against_both
from toy_words import ALL, FREE, SIX

from contstim import (
    Accepted,
    Constraint,
    Fall,
    Floor,
    Problem,
    Synthesis,
    WordList,
    synthesize,
)
from contstim.errors import InputError
from contstim.models.base import Replacements
from contstim.models.toy import TableModel
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence

NATURAL = "ab cd ef"


def _models(*kinds: str) -> list[TableModel]:
    return [TableModel(SIX, seed, exact=kind) for seed, kind in enumerate(kinds)]


def _single_changes(sentence: str) -> list[str]:
    words = sentence.split()
    return [s for s in ALL if sum(a != b for a, b in zip(s.split(), words, strict=True)) == 1]


@pytest.mark.parametrize("kinds", list(itertools.product(["all", "bound", "none"], repeat=3)))
def test_three_models_by_an_objective_of_ones_own(kinds: tuple[str, ...]) -> None:
    accept, *reject = _models(*kinds)
    problem = against_both(accept, *reject)
    found = synthesize(NATURAL, problem=problem, vocabulary=FREE, strategy="exhaustive")
    natural, end = (np.array([m.score([s])[0] for m in reject]) for s in (NATURAL, found.sentence))
    assert found.loss == pytest.approx((end - natural).max())
    assert found.loss < 0
    bound = accept.score([NATURAL])[0]
    assert accept.score([found.sentence])[0] >= bound
    changes = _single_changes(found.sentence)
    drops = np.max([m.score(changes) - n for m, n in zip(reject, natural, strict=True)], axis=0)
    assert (drops[accept.score(changes) >= bound] >= found.loss - 1e-9).all()
    assert found.models == (reject[0].spec, reject[1].spec, accept.spec)


@pytest.mark.parametrize("strategy", ["bounded", "exhaustive"])
def test_every_strategy_solves_problems_of_three_models(strategy: str) -> None:
    accept, *reject = _models("none", "bound", "bound")
    for start in ALL[::23]:
        found = synthesize(
            start, problem=against_both(accept, *reject), vocabulary=FREE, strategy=strategy
        )
        texts = [start, found.sentence]
        assert accept.score(texts)[1] >= accept.score(texts)[0]
        change = max(np.diff(model.score(texts))[0] for model in reject)
        assert found.loss == pytest.approx(change)
        assert change <= 0


@pytest.mark.parametrize("strategy", ["exhaustive", "bounded"])
def test_a_mean_of_falls_and_two_accepting_models(strategy: str) -> None:
    one, two, three, four = _models("bound", "none", "bound", "all")
    problem = Problem(
        (one, two, three, four),
        Fall((one.spec, two.spec)),
        (Accepted(three.spec), Accepted(four.spec, margin=1.5)),
    )
    found = synthesize(NATURAL, problem=problem, vocabulary=FREE, strategy=strategy)
    texts = [NATURAL, found.sentence]
    assert found.loss == pytest.approx(np.mean([np.diff(m.score(texts))[0] for m in (one, two)]))
    assert found.loss < 0
    assert np.diff(three.score(texts))[0] >= 0
    assert np.diff(four.score(texts))[0] >= -1.5


@dataclass(frozen=True)
class _PerWord(Constraint):
    value: float

    def minimum(self, natural: float, n_words: int) -> float:
        return self.value * n_words


def test_the_tightest_of_several_constraints_on_a_model_holds() -> None:
    reject, accept = _models("all", "all")
    start = ALL[np.argsort(accept.score(ALL))[190]]
    natural = accept.score([start])[0]
    loose, tight = _PerWord(accept.spec, (natural - 4) / 3), Accepted(accept.spec)

    def write(*constraints: Constraint) -> Synthesis:
        problem = Problem((reject, accept), Fall((reject.spec,)), constraints)
        return synthesize(start, problem=problem, vocabulary=FREE)

    assert natural - 4 <= write(loose).scores[1] < natural
    for both in ((loose, tight), (tight, loose)):
        assert write(*both).scores[1] >= natural


def test_a_model_alone_falls_to_the_least_probable_sentence_around() -> None:
    (model,) = _models("bound")
    problem = Problem((model,), Fall((model.spec,)))
    found = synthesize(NATURAL, problem=problem, vocabulary=FREE, strategy="exhaustive")
    assert model.score(_single_changes(found.sentence)).min() >= found.scores[0] - 1e-9


def test_a_pair_is_the_problem_of_one_and_one() -> None:
    reject, accept = _models("bound", "none")
    written = Problem((accept, reject), Fall((reject.spec,)), (Accepted(accept.spec),))
    short = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=FREE, seed=3)
    assert synthesize(NATURAL, problem=written, vocabulary=FREE, seed=3) == short
    assert short.problem == (
        "Fall(models=('table:0?exact=bound',)); Accepted(model='table:1?exact=none', margin=0.0)"
    )


def test_bad_problems() -> None:
    one, two = _models("all", "all")
    objective = Fall((one.spec,))
    cases = {
        "Fall(models=()) reads the score of no model; name at least one": (
            (one,),
            Fall(()),
        ),
        "the problem speaks of the model 'table:1?exact=all' but has table:0?exact=all; add it to "
        "models": ((one,), objective, (Accepted(two.spec),)),
        "the problem has the model 'table:0?exact=all' twice; give it once": (
            (one, one),
            objective,
        ),
        "neither objective nor constraints speak of the model 'table:1?exact=all'; leave it out": (
            (one, two),
            objective,
        ),
    }
    for message, parts in cases.items():
        with pytest.raises(InputError) as error:
            Problem(*parts)
        assert str(error.value) == message
    for given in ({}, {"reject": one}, {"problem": Problem((one,), objective), "accept": two}):
        with pytest.raises(InputError) as error:
            synthesize(NATURAL, **given)
        assert str(error.value) == ("say what is wanted: either problem=, or reject= and accept=")


def test_the_smallest_drop_has_no_closed_form() -> None:
    assert SmallestDrop(("a", "b")).weights is None
    assert Fall(("a", "b")).weights == {"a": 0.5, "b": 0.5}


class _Asked(TableModel):
    """A model whose scores must be asked for, and which keeps what it was asked."""

    def __init__(self, seed: int) -> None:
        super().__init__(SIX, seed, exact="none")
        self.asked: list[tuple[str, set[str]]] = []

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        self.asked += [(str(sentence), {str(sentence.replace(position, w)) for w in words})]
        return super().replacements(sentence, position, words)


@pytest.mark.parametrize("strategy", ["exhaustive", "bounded"])
def test_others_are_asked_only_of_words_that_models_known_at_once_leave(strategy: str) -> None:
    reject, accept = _models("all", "all")
    floor = _Asked(2)
    floors = Floor(floor.spec, -1.0, natural=True)
    problem = Problem(
        (reject, accept, floor), Fall((reject.spec,)), (Accepted(accept.spec), floors)
    )
    whole: dict[str, Synthesis] = {}
    sizes: set[int] = set()
    for start in ALL[::7]:
        floor.asked.clear()
        found = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
        least = accept.score([start])[0]
        if strategy in ("exhaustive", "bounded"):
            for sentence, texts in floor.asked:
                others = sorted(texts - {sentence})
                fewer = 2 * (len(others) + 1) < len(SIX)
                falls = reject.score(others) < reject.score([sentence])[0]
                assert not fewer or (falls & (accept.score(others) >= least)).all()
            # Nothing is asked where nothing is left.
            assert all(len(texts) > 1 for _, texts in floor.asked)
            sizes.update(len(texts) for _, texts in floor.asked)
        whole[start] = found
    assert strategy not in ("exhaustive", "bounded") or min(sizes) < len(SIX) / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Search, "_left", lambda search, p, text: search._known(p, text).allowed.copy()
        )
        for start, found in whole.items():
            if strategy == "exhaustive":
                again = synthesize(start, problem=problem, vocabulary=FREE, strategy=strategy)
                assert (again.sentence, again.scores) == (found.sentence, found.scores)
