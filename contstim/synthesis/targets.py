"""What is wanted of compared models: targets by name, their problems, floors written as text."""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np

from contstim.errors import InputError, require_known
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.plugins import Registry
from contstim.synthesis.problem import (
    Accepted,
    Constraint,
    Edits,
    Fall,
    Floor,
    LeastFall,
    Objective,
    Problem,
    check_different,
)
from contstim.synthesis.results import Row, Synthesis, distinct_triplets, row_of

#: Who rejects and who accepts, by spec, once or twice.
Goal = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

#: What counts of the falls of several rejecting models: the least of them, or their mean.
LOSSES = Registry[type[Objective]](
    "loss", "contstim.objectives", {"max": LeastFall, "mean": Fall}, Objective
)

_FLOOR = re.compile(r"(?P<model>.+?)(/(?P<unit>word|token))?\s*>=\s*(?P<value>[^>=]+)")
_VALUE = re.compile(r"(?P<natural>natural)?(?P<number>[-+]?[0-9.]+(e[-+]?[0-9]+)?)?", re.IGNORECASE)

_Model = TypeVar("_Model")


@dataclass(frozen=True)
class Sides:
    """What is wanted of some models, by their specs.

    Attributes
    ----------
    reject
        R: the models whose scores are to fall.
    accept
        A: the models whose scores may not fall by more than `margin` nats.
    margin
        For all of A, or one for each of it.
    floors
        Further constraints, of any models, in R, in A or in neither.
    edits
        What of the natural sentence may change.
    loss
        One of `LOSSES`: ``max``, the loss of the rejecting model that falls least; ``mean``.
    scales
        One for each of R: the standard deviations of their scores of natural sentences. None
        where R is one model, whose loss is in nats.

    Raises
    ------
    InputError
        If R is empty, if neither A nor a floor is there, if a model is in both or twice, or if
        margins or scales do not fit the models.
    """

    reject: tuple[str, ...]
    accept: tuple[str, ...]
    margin: float | tuple[float, ...] = 0.0
    floors: tuple[Constraint, ...] = ()
    edits: Edits = field(default_factory=Edits)
    loss: str = "max"
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_different("a target needs", (*self.reject, *self.accept))
        if not self.reject:
            raise InputError("no model is to reject the sentences; name at least one")
        if not self.accept and not self.floors:
            raise InputError(
                "no model is to accept the sentences, and there is no floor; name at least one"
            )
        require_known("loss", self.loss, LOSSES)
        if isinstance(self.margin, tuple) and len(self.margin) != len(self.accept):
            raise InputError(
                f"{len(self.accept)} accepting models have {len(self.margin)} margins; give one "
                "for all, or one each"
            )
        for margin in self._margins:
            # Also refuses NaN.
            if not (isinstance(margin, float | int) and 0 <= margin < math.inf):
                raise InputError(
                    f"the margin is {margin!r}; give the nats by which an accepting model's score "
                    "may fall, from 0 up"
                )

    @property
    def models(self) -> tuple[str, ...]:
        """The specs of all models, in the order of the problem's: R, floors', A."""
        return tuple(dict.fromkeys((*self.reject, *(f.model for f in self.floors), *self.accept)))

    @property
    def objective(self) -> Objective:
        """The loss."""
        return LOSSES[self.loss].of(self.reject, self.scales)

    @property
    def _margins(self) -> tuple[float, ...]:
        """One for each of A; at least one, to be checked."""
        if isinstance(self.margin, tuple):
            return self.margin
        return (self.margin,) * max(1, len(self.accept))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The scores to keep: the floors, then those of A."""
        accepted = map(Accepted, self.accept, self._margins)
        return (*self.floors, *accepted)

    def problem(self, models: Sequence[SentenceModel]) -> Problem:
        """Return the problem, given its models."""
        return Problem(tuple(models), self.objective, self.constraints, self.edits)

    def named(self, names: Mapping[str, str]) -> Sides:
        """Return the target with other names for its models."""
        return replace(
            self,
            reject=tuple(names[name] for name in self.reject),
            accept=tuple(names[name] for name in self.accept),
            floors=tuple(replace(floor, model=names[floor.model]) for floor in self.floors),
        )


def problem_of(
    reject: Sequence[SentenceModel],
    accept: Sequence[SentenceModel],
    *,
    floors: Sequence[Constraint | str] = (),
    others: Sequence[SentenceModel] = (),
    **values: Any,
) -> Problem:
    """Return the problem of sentences that some models reject and others accept.

    Minimise, over the sentences s that keep the constraints, the maximum over the rejecting models
    r of z_r(s) - z_r(n), where z is the score over the model's `scales`; with one of each and no
    floor it is Eq. 2 of Golan et al. (2023).

    Parameters
    ----------
    reject, accept
        The two sets of models. The sides that `one_against_all` and `common_failure` return fit.
    floors
        Scores that models must keep, as text (`parse_floors`) or as constraints.
    others
        Models of floors that are on neither side; those not given are loaded.
    values
        ``margin``, ``edits``, ``loss`` and ``scales`` of `Sides`; scales are needed for
        several rejecting models (`standard_deviations`).

    Raises
    ------
    InputError
        As `Sides` and `Problem`, and if a floor cannot be read.

    Examples
    --------
    >>> from contstim import load_model
    >>> bigram, trigram = load_model("contstim:bigram"), load_model("contstim:trigram")
    >>> problem = problem_of([bigram], [trigram], floors=["contstim:unigram>=natural-2"])
    >>> [str(constraint) for constraint in problem.constraints]
    ['contstim:unigram>=natural-2', 'contstim:trigram>=natural']
    """
    models = {model.name: model for model in (*reject, *accept, *others)}
    read = [
        constraint
        for floor in floors
        for constraint in (parse_floors(floor) if isinstance(floor, str) else (floor,))
    ]
    names = {called: m.name for m in models.values() for called in (m.spec, m.name)}
    for floor in read:
        if floor.model not in names:
            model = load_model(floor.model)
            names[floor.model] = model.name
            models.setdefault(model.name, model)
    target = Sides(
        tuple(model.name for model in reject),
        tuple(model.name for model in accept),
        floors=tuple(replace(floor, model=names[floor.model]) for floor in read),
        **values,
    )
    return target.problem([models[name] for name in target.models])


def one_against_all(
    models: Sequence[_Model],
) -> list[tuple[tuple[_Model, ...], tuple[_Model, ...]]]:
    """Return the 2 M targets that isolate each of M models: who rejects and who accepts.

    Each model in turn is the only one that rejects, then the only one that accepts.

    Raises
    ------
    InputError
        If there are not at least two models.

    Examples
    --------
    >>> for reject, accept in one_against_all(["a", "b", "c"])[:2]:
    ...     print(reject, accept)
    ('a',) ('b', 'c')
    ('b', 'c') ('a',)
    """
    check_several("one-against-all", models)
    sides = []
    for i, model in enumerate(models):
        others = (*models[:i], *models[i + 1 :])
        sides += [((model,), others), (others, (model,))]
    # With two models both isolate either.
    return sides if len(models) > 2 else sides[:2]


def common_failure(
    models: Sequence[_Model], reference: _Model
) -> tuple[tuple[_Model, ...], tuple[_Model, ...]]:
    """Return the target of what no model sees: all accept what a reference outside them rejects.

    Golan et al. (2023), section 3.3.

    Raises
    ------
    InputError
        If there are not at least two models.

    Examples
    --------
    >>> common_failure(["a", "b"], "c")
    (('c',), ('a', 'b'))
    """
    check_several("common-failure", models)
    return (reference,), tuple(models)


def check_several(target: str, models: Sequence[object]) -> None:
    """Refuse fewer than two compared models."""
    if len(models) < 2:
        raise InputError(
            f"the target {target} compares models, got {len(models)} "
            f"({', '.join(map(str, models)) or 'none'}); give at least two"
        )


class SynthesisTarget(ABC):
    """What is wanted of compared models: who rejects and who accepts, and what rows come of it.

    Attributes
    ----------
    summary
        What it is, for help.
    needs, may
        The options that it must have, and those that it may have, of ``reject``, ``accept``,
        ``reference`` and ``pairs``: specs of models, handed to `goals` by their names.
    triplets
        Whether its rows are triplets, of which there may be several from one sentence.
    """

    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    may: ClassVar[tuple[str, ...]] = ()
    triplets: ClassVar[bool] = False

    @abstractmethod
    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        """Return what is wanted of some models, by their specs.

        Returns
        -------
        list
            For each goal its sides, who rejects and who accepts; one sentence is written for each
            of these, and a goal's sentences that start from one natural sentence make its rows.

        Raises
        ------
        InputError
            If the models do not do.
        """

    def rows(
        self,
        goal: Goal,
        results: Iterable[Sequence[Synthesis]],
        per_sentence: int,
        minimum_drop: float,
    ) -> Sequence[Row]:
        """Return what comes of one natural sentence: by default a row for each side of its goal.

        Parameters
        ----------
        goal
            With the models' canonical specs.
        results
            For each attempt the syntheses, one a side; no more are made than are asked for.
        per_sentence, minimum_drop
            Rows that are wanted, and the least fall, nats, where rows are triplets.
        """
        first = next(iter(results), ())
        return [row_of(*sides, result) for sides, result in zip(goal, first, strict=False)]


class _Pair(SynthesisTarget):
    summary = "triplets of every two"
    may = ("pairs",)
    triplets = True

    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        check_several("pair", models)
        pairs = options.get("pairs") or itertools.combinations(models, 2)
        # What model 1 accepts comes first.
        return [(((two,), (one,)), ((one,), (two,))) for one, two in pairs]

    def rows(
        self,
        goal: Goal,
        results: Iterable[Sequence[Synthesis]],
        per_sentence: int,
        minimum_drop: float,
    ) -> Sequence[Row]:
        return distinct_triplets(((a, b) for a, b in results), per_sentence, minimum_drop)


class _OneAgainstAll(SynthesisTarget):
    summary = "sentences that each in turn is alone to reject, and to accept"

    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        return [(sides,) for sides in one_against_all(models)]


class _Split(SynthesisTarget):
    summary = "those that the models of reject reject and those of accept accept"
    needs = ("reject", "accept")

    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        return [((tuple(options["reject"]), tuple(options["accept"])),)]


class _CommonFailure(SynthesisTarget):
    summary = "those that all accept and reference rejects"
    needs = ("reference",)

    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        return [(common_failure(models, options["reference"]),)]


#: What may be wanted of compared models.
SYNTHESIS_TARGETS = Registry[SynthesisTarget](
    "target",
    "contstim.targets",
    {
        "pair": _Pair(),
        "one-against-all": _OneAgainstAll(),
        "split": _Split(),
        "common-failure": _CommonFailure(),
    },
    SynthesisTarget,
)


def standard_deviations(
    models: Sequence[SentenceModel], sentences: Sequence[str]
) -> tuple[float, ...]:
    """Return the standard deviation (n - 1) of each model's scores of sentences, as `scales`.

    Raises
    ------
    InputError
        If there are not at least two sentences of different scores.

    Examples
    --------
    >>> from contstim import load_model, pool
    >>> models = [load_model("contstim:bigram"), load_model("contstim:trigram")]
    >>> [round(scale, 1) for scale in standard_deviations(models, pool())]
    [8.8, 9.3]
    """
    return tuple(spread(model.name, model.score(sentences)) for model in models)


def spread(name: str, scores: Sequence[float] | np.ndarray[Any, Any]) -> float:
    """Return the standard deviation of one model's scores of natural sentences."""
    deviation = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    if not deviation > 0:
        raise InputError(
            f"{len(scores)} natural sentences do not tell the standard deviation of {name!r}, by "
            "which falls of several models compare; give more of them"
        )
    return deviation


def plausible(model: str = "contstim:gpt") -> Floor:
    """Return the floor of sentences that lose half a nat a word at most."""
    return Floor(model, -0.5, natural=True, per_word=True)


def strict(model: str = "contstim:gpt") -> Floor:
    """Return the floor of sentences that lose a tenth of a nat a word at most."""
    return Floor(model, -0.1, natural=True, per_word=True)


def readable(model: str = "contstim:smollm2", least: float = -3.4) -> Floor:
    """Return the floor of sentences that read as English to most people.

    After a prompt of natural sentences a causal model gives the words, on average, and the end
    of the sentence together at least so much (``reduction=reading``).

    Notes
    -----
    Source: our own. Of 493 sentences judged blind (57 % read as English), this number tells those
    that do with an area under the curve of .78; the mean of the words alone .73, the end alone .72,
    the worst word .63; on three sheets of them, left out in turn, .80, .73 and .79. At the value
    four of five chosen sentences and more read as English (``experiments/readable``).
    """
    spec = ModelSpec.parse(model)
    options = {"prompt": "natural", **dict(spec.options), "reduction": "reading"}
    return Floor(str(replace(spec, options=tuple(sorted(options.items())))), least)


def very_readable(model: str = "contstim:smollm2") -> Floor:
    """Return the floor of `readable`, higher."""
    return readable(model, -3.1)


#: Constraints that a floor may name: what makes them of a model's spec, and of a number if given.
FLOORS = Registry[Callable[..., Constraint | Sequence[Constraint]]](
    "constraint",
    "contstim.constraints",
    {
        "plausible": plausible,
        "strict": strict,
        "readable": readable,
        "very-readable": very_readable,
    },
)


def parse_floors(text: str) -> tuple[Constraint, ...]:
    """Read a floor: ``MODEL[/word|/token]>=VALUE`` or ``MODEL[/word|/token]>=natural[-MARGIN]``.

    Values and margins are in nats: of the sentence, or per word or per token. Per token, the model
    is the one with ``reduction=mean``. ``MODEL>=NAME`` and ``MODEL>=NAME:NUMBER`` are one of
    `FLOORS`: ``MODEL>=plausible`` and ``MODEL>=strict`` are ``MODEL/word>=natural-0.5`` and
    ``MODEL/word>=natural-0.1``; the name alone is of ``contstim:gpt``.

    Raises
    ------
    InputError
        If the text is not a floor, or asks for a score per token of a model that has a reduction.
    """
    clean = text.strip()
    model, _, named = clean.rpartition(">=")
    kind, colon, amount = named.strip().partition(":")
    if kind in FLOORS and re.fullmatch(r"[-+]?\d+(\.\d+)?" if colon else "", amount):
        make = FLOORS[kind]
        usual = next(iter(signature(make).parameters.values())).default
        name = model.strip() or (usual if isinstance(usual, str) else "contstim:gpt")
        numbers = [*map(float, amount.split())]
        try:
            signature(make).bind(name, *numbers)
        except TypeError:
            fault = "takes no number" if numbers else "needs a number"
            usage = kind if numbers else f"{kind}:NUMBER"
            raise InputError(f"{text!r} is not a floor: {kind} {fault}; write {usage}") from None
        made = make(name, *numbers)
        return (made,) if isinstance(made, Constraint) else tuple(made)
    parsed = _FLOOR.fullmatch(clean)
    value = parsed and _VALUE.fullmatch(parsed["value"].strip())
    if not parsed or not value or not value[0]:
        raise InputError(
            f"{text!r} is not a floor; write MODEL>=VALUE or MODEL>=natural-MARGIN, for example "
            "contstim:gpt>=natural-5 or contstim:gpt/word>=-6, or plausible or strict"
        )
    natural = value["natural"] is not None
    try:
        number = float(value["number"] or 0.0)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (
        natural and (number > 0 or (value["number"] or "-")[0] != "-")
    ):
        raise InputError(
            f"{text!r} is not a floor: {parsed['value'].strip()!r} is no value; give a number, or "
            "natural less a margin, such as natural-5"
        )
    name = parsed["model"].strip()
    if parsed["unit"] == "token":
        spec = ModelSpec.parse(name)
        if spec.get("reduction", "sum") != "sum":
            raise InputError(
                f"{text!r} asks for a score per token of a model that has a reduction; leave out "
                "/token or the reduction"
            )
        others = tuple(option for option in spec.options if option[0] != "reduction")
        name = str(replace(spec, options=tuple(sorted([*others, ("reduction", "mean")]))))
    return (Floor(name, number, natural, per_word=parsed["unit"] == "word"),)
