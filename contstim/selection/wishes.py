"""Wishes about a selection that tie sentences together, so that integer programming is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from contstim.arrays import FloatArray
from contstim.errors import InputError, UnknownNameError

__all__ = ["AtMost", "Balance", "Linear", "Rows", "Seat", "Wish", "compile_wishes"]

_ROLES = ("sentence_1", "sentence_2")


@dataclass(frozen=True)
class Seat:
    """What a wish may ask of a slot: the model pair (`model_1`, `model_2`), `role`, `seats`."""

    model_1: str
    model_2: str
    role: str
    seats: int


@dataclass(frozen=True, eq=False)
class Balance:
    """The two sentences of a model pair's pairs have nearly the same mean of a feature.

    Attributes
    ----------
    feature
        A number for each sentence, by label.
    tolerance
        In every model pair, mean over sentence_1 and mean over sentence_2 differ by at most this.
    name
        For messages.
    """

    feature: pd.Series
    tolerance: float
    name: str = "balance"


@dataclass(frozen=True, eq=False)
class AtMost:
    """At most `limit` sentences of each group are selected, over all model pairs.

    Attributes
    ----------
    groups
        The group of each sentence, by label (its source, its topic ...); missing: no group.
    limit
        How many of a group may be selected.
    name
        For messages.
    """

    groups: pd.Series
    limit: int
    name: str = "groups"


@dataclass(frozen=True, eq=False)
class Linear:
    """The sum of a weight over the selected sentences lies between two bounds.

    Attributes
    ----------
    weights
        A number for each sentence, by label.
    lower, upper
        The bounds, in the weights' unit.
    pair
        The model pair whose sentences count; None: all pairs.
    role
        ``sentence_1`` or ``sentence_2``: which of them count; None: both.
    name
        For messages.
    """

    weights: pd.Series
    lower: float = -np.inf
    upper: float = np.inf
    pair: tuple[str, str] | None = None
    role: str | None = None
    name: str = "linear"


Wish = Balance | AtMost | Linear


@dataclass(eq=False)
class Rows:
    """Linear constraints over (slot, sentence) choices: lower <= sum of weights <= upper.

    Attributes
    ----------
    weights
        For each slot a sparse matrix, shape (S, number of constraints).
    lower, upper
        The bounds, shape (number of constraints,).
    names
        A name for each, for messages.
    """

    weights: list[csr_array]
    lower: FloatArray
    upper: FloatArray
    names: list[str] = field(default_factory=list)


def compile_wishes(wishes: Sequence[Wish], seats: Sequence[Seat], labels: pd.Index) -> Rows:
    """Write `wishes` as linear constraints.

    Parameters
    ----------
    wishes
        What is asked.
    seats
        The A slots, with pair and role.
    labels
        Labels of the S candidate sentences.

    Raises
    ------
    InputError
        If a candidate sentence has no finite feature or weight, or a bound makes no sense.
    UnknownNameError
        If a pair or role is not among `seats`.
    """
    blocks: list[list[csr_array]] = [[] for _ in seats]
    lower: list[FloatArray] = []
    upper: list[FloatArray] = []
    names: list[str] = []

    def add(columns: list[csr_array], low: FloatArray, high: FloatArray, called: list[str]) -> None:
        for block, column in zip(blocks, columns, strict=True):
            block.append(column)
        lower.append(low)
        upper.append(high)
        names.extend(called)

    empty = csr_array((len(labels), 1))
    for wish in wishes:
        if isinstance(wish, AtMost):
            matrix, groups = _membership(wish, labels)
            high = np.full(len(groups), float(wish.limit))
            called = [f"{wish.name}: at most {wish.limit} of group {group!r}" for group in groups]
            add([matrix for _ in seats], np.full(len(groups), -np.inf), high, called)
        elif isinstance(wish, Balance):
            if not wish.tolerance >= 0:
                raise InputError(f"{wish.name}: the tolerance is {wish.tolerance}, below 0")
            values = _column(wish.feature, labels, wish.name)
            for pair in dict.fromkeys((seat.model_1, seat.model_2) for seat in seats):
                own = [(seat.model_1, seat.model_2) == pair for seat in seats]
                count = next(s.seats for s, mine in zip(seats, own, strict=True) if mine)
                columns = [
                    (values if seat.role == _ROLES[0] else -values) if mine else empty
                    for seat, mine in zip(seats, own, strict=True)
                ]
                room = np.array([wish.tolerance * count])
                name = f"{wish.name}: means within {wish.tolerance:g} for {pair[0]} and {pair[1]}"
                add(columns, -room, room, [name])
        else:
            _check_linear(wish, seats)
            values = _column(wish.weights, labels, wish.name)
            columns = [values if _counts(wish, seat) else empty for seat in seats]
            name = f"{wish.name}: sum of weights between {wish.lower:g} and {wish.upper:g}"
            add(columns, np.array([wish.lower]), np.array([wish.upper]), [name])
    if not names:
        none = csr_array((len(labels), 0))
        return Rows([none for _ in seats], np.empty(0), np.empty(0))
    return Rows(
        [csr_array(hstack(block, format="csr")) for block in blocks],
        np.concatenate(lower),
        np.concatenate(upper),
        names,
    )


def _counts(wish: Linear, seat: Seat) -> bool:
    in_pair = wish.pair is None or set(wish.pair) == {seat.model_1, seat.model_2}
    # A pair named the other way round has the roles the other way round.
    turned = wish.pair is not None and wish.pair != (seat.model_1, seat.model_2)
    role = wish.role
    if turned and role is not None:
        role = _ROLES[1 - _ROLES.index(role)]
    return in_pair and role in (None, seat.role)


def _check_linear(wish: Linear, seats: Sequence[Seat]) -> None:
    if wish.role not in (None, *_ROLES):
        raise UnknownNameError.among("role", str(wish.role), _ROLES)
    pairs = {frozenset((seat.model_1, seat.model_2)) for seat in seats}
    if wish.pair is not None and frozenset(wish.pair) not in pairs:
        raise InputError(f"{wish.name}: no pairs of {wish.pair[0]} and {wish.pair[1]} are selected")
    if not wish.lower <= wish.upper:
        raise InputError(f"{wish.name}: lower {wish.lower:g} is not below upper {wish.upper:g}")


def _column(values: pd.Series, labels: pd.Index, name: str) -> csr_array:
    numbers = values.reindex(labels).to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        label = labels[np.flatnonzero(bad)[0]]
        raise InputError(
            f"{name}: sentence {label!r} has no finite value; give one or leave the sentence out"
        )
    return csr_array(numbers[:, None])


def _membership(wish: AtMost, labels: pd.Index) -> tuple[csr_array, list[object]]:
    if wish.limit < 0:
        raise InputError(f"{wish.name}: the limit is {wish.limit}, below 0")
    codes, groups = pd.factorize(wish.groups.reindex(labels), sort=False)
    sizes = np.bincount(codes[codes >= 0], minlength=len(groups))
    binding = np.flatnonzero(sizes > wish.limit)  # the others keep the limit by themselves
    position = np.full(len(groups) + 1, -1)
    position[binding] = np.arange(len(binding))
    where = position[codes]
    rows = np.flatnonzero(where >= 0)
    data = (np.ones(len(rows)), (rows, where[rows]))
    return csr_array(data, shape=(len(labels), len(binding))), [groups[int(g)] for g in binding]
