"""Constraints that tie the sentences of a selection together: they need integer programming.

A constraint is a class that adds its own rows to the integer programme. One that can be said in
text (on the command line, in a study plan) states its kind and the values that follow the column:
``balance:words:0.5``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, UnknownNameError
from contstim.plugins import Registry
from contstim.selection.assignment import ROLES, Role
from contstim.text.language import split_word
from contstim.text.languages import ENGLISH, language_from_script

#: What follows the column in text: the field's name, and what reads it.
_Options = dict[str, Callable[[str], Any]]

#: Constraints that can be said in text, by kind.
CONSTRAINTS = Registry["type[SelectionConstraint]"](
    "constraint", "contstim.selection_constraints", {}
)


class ConstraintRows:
    """Rows of the programme over (role, sentence) choices: lower <= sum of weights <= upper.

    Attributes
    ----------
    roles
        The A roles.
    labels
        Labels of the S candidate sentences.
    uses
        How often each may be selected.
    names
        A name for each row, for messages.
    lower, upper
        Bounds, shape (number of rows,).
    units
        By what messages divide a shortfall, shape (number of rows,).
    """

    def __init__(
        self,
        roles: Sequence[Role],
        labels: pd.Index,
        constraints: Iterable[SelectionConstraint] = (),
        uses: int = 1,
    ) -> None:
        self.roles = roles
        self.labels = labels
        self.uses = uses
        self.names: list[str] = []
        self._weights = [[csr_array((len(labels), 0))] for _ in roles]
        self.lower: FloatArray = np.empty(0)
        self.upper = self.units = self.lower
        for constraint in constraints:
            constraint.add_rows(self)

    def add(
        self,
        weights: Sequence[csr_array | None],
        lower: float,
        upper: float,
        names: Sequence[str],
        unit: float = 1.0,
    ) -> None:
        """Add rows, one a name.

        Parameters
        ----------
        weights
            For each role the weights of the sentences, shape (S, len(names)); None: all 0.
        lower, upper
            The bounds.
        names
            What each row asks, for messages.
        unit
            By what a sum is divided where messages say by how much it falls short.
        """
        empty = csr_array((len(self.labels), len(names)))
        for block, columns in zip(self._weights, weights, strict=True):
            block.append(empty if columns is None else columns)
        n, self.names = len(names), [*self.names, *names]
        self.lower, self.upper, self.units = (
            np.append(known, np.full(n, value))
            for known, value in ((self.lower, lower), (self.upper, upper), (self.units, unit))
        )

    def add_limits(
        self, sentences: IntArray, groups: IntArray, limit: int, names: Sequence[str], what: str
    ) -> None:
        """Let at most `limit` sentences of each group be selected, each as often as it is.

        Parameters
        ----------
        sentences, groups
            Which sentence belongs to which group, in several perhaps; shape (memberships,).
        limit
            How many of each group.
        names
            Of the groups' limits.
        what
            The constraint, for the error.
        """
        if limit < 0:
            raise InputError(f"{what}: the limit is {limit}, below 0")
        members = (np.ones(len(groups)), (sentences, groups))
        matrix = csr_array(members, shape=(len(self.labels), len(names)))
        most = self.uses * np.bincount(groups, minlength=len(names))
        binding = np.flatnonzero(most > limit)
        columns = csr_array(matrix[:, binding])
        binding_names = [names[k] for k in binding.tolist()]
        self.add([columns for _ in self.roles], -np.inf, float(limit), binding_names)

    @cached_property
    def weights(self) -> list[csr_array]:
        """For each role the weights, shape (S, number of rows)."""
        return [csr_array(hstack(block, format="csr")) for block in self._weights]

    def column(self, values: pd.Series, name: str) -> csr_array:
        """Return a number for each sentence, shape (S, 1), refusing values that are not finite."""
        if not (values.empty or pd.api.types.is_numeric_dtype(values)):
            raise InputError(f"{name}: {values.iloc[0]!r} is not a number; use a numeric column")
        numbers = values.reindex(self.labels).to_numpy(dtype=np.float64, na_value=np.nan)
        if not np.isfinite(numbers).all():
            label = self.labels[np.flatnonzero(~np.isfinite(numbers))[0]]
            raise InputError(
                f"{name}: sentence {label!r} has no finite value; give one or leave the "
                "sentence out"
            )
        return csr_array(numbers[:, None])


class SelectionConstraint(ABC):
    """What a selection must keep.

    A subclass that sets `kind` can be said in text, ``KIND:COLUMN:VALUE...``: a dataclass whose
    first field is the column, by label, and which has a field for each name in `options`.

    Examples
    --------
    >>> Balance.usage()
    'balance:COLUMN:TOLERANCE'
    """

    #: How it is called in text.
    kind: ClassVar[str] = ""

    #: The values that follow the column in text: name of the field, and what reads it.
    options: ClassVar[_Options] = {}

    #: Whether it compares the two sentences of a pair. In a selection for a set it then holds
    #: between what a model prefers and what it does not, for every model.
    compares_sides: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            CONSTRAINTS[cls.kind] = cls

    @property
    def matched_feature(self) -> pd.Series | None:
        """By label, what the two sentences of each pair must have in common; None if nothing."""
        return None

    @abstractmethod
    def add_rows(self, rows: ConstraintRows) -> None:
        """Add the rows of this constraint.

        Raises
        ------
        InputError
            If a candidate sentence has no finite feature or weight, or a bound makes no sense.
        UnknownNameError
            If a pair or role is not among those of `rows`.
        """

    @classmethod
    def usage(cls) -> str:
        """Return how it is said in text."""
        return ":".join([cls.kind, "COLUMN", *(name.upper() for name in cls.options)])


CONSTRAINTS.form = SelectionConstraint


@dataclass(frozen=True, eq=False)
class Balance(SelectionConstraint):
    """The two sentences of a model pair's pairs have nearly the same mean of a feature.

    Attributes
    ----------
    feature
        A number for each sentence, by label.
    tolerance
        In every model pair, mean over sentence_1 and mean over sentence_2 differ by at most this.
    name
        For messages.

    Examples
    --------
    >>> from contstim import datasets, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> from contstim.selection import sentence_features
    >>> words = sentence_features(scores.index)["words"]
    >>> pairs = select_natural_pairs(scores, per_pair=6, constraints=[Balance(words, 0.5)])
    >>> abs(words[pairs["sentence_1"]].mean() - words[pairs["sentence_2"]].mean()) <= 0.5
    np.True_
    """

    kind = "balance"
    options: ClassVar[_Options] = {"tolerance": float}
    compares_sides = True

    feature: pd.Series
    tolerance: float
    name: str = "balance"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add a row for each model pair."""
        if not self.tolerance >= 0:
            raise InputError(f"{self.name}: the tolerance is {self.tolerance}, below 0")
        values = rows.column(self.feature, self.name)
        pairs = {(role.model_1, role.model_2): role.count for role in rows.roles}
        for (model_1, model_2), count in pairs.items():
            weights = [
                (values if role.role == ROLES[0] else -values)
                if (role.model_1, role.model_2) == (model_1, model_2)
                else None
                for role in rows.roles
            ]
            limit = self.tolerance * count
            name = f"{self.name}: means within {self.tolerance:g} for {model_1} and {model_2}"
            rows.add(weights, -limit, limit, [name], unit=float(count))


@dataclass(frozen=True, eq=False)
class Equal(SelectionConstraint):
    """The two sentences of each pair have the same value of a feature.

    Attributes
    ----------
    feature
        A value for each sentence, by label: its number of tokens, its topic ...
    name
        For messages.

    Examples
    --------
    >>> from contstim import datasets, select_natural_pairs
    >>> from contstim.selection import sentence_features
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> letters = sentence_features(scores.index)["characters"]
    >>> pairs = select_natural_pairs(scores, per_pair=6, constraints=[Equal(letters)])
    >>> bool((letters[pairs["sentence_1"]].array == letters[pairs["sentence_2"]].array).all())
    True
    """

    kind = "equal"
    compares_sides = True

    feature: pd.Series
    name: str = "equal"

    @property
    def matched_feature(self) -> pd.Series:
        """The feature."""
        return self.feature

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add a row for each model pair and value."""
        codes, values = pd.factorize(self.feature.reindex(rows.labels), sort=False)
        if (codes < 0).any():
            label = rows.labels[np.flatnonzero(codes < 0)[0]]
            raise InputError(
                f"{self.name}: sentence {label!r} has no value; give one or leave the sentence out"
            )
        shape = len(rows.labels), len(values)
        is_of = csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), shape=shape)
        for model_1, model_2 in dict.fromkeys((r.model_1, r.model_2) for r in rows.roles):
            weights = [
                (is_of if role.role == ROLES[0] else -is_of)
                if (role.model_1, role.model_2) == (model_1, model_2)
                else None
                for role in rows.roles
            ]
            names = [f"{self.name}: as many of {v!r} for {model_1} and {model_2}" for v in values]
            rows.add(weights, 0.0, 0.0, names)


def merge_equal(constraints: Sequence[SelectionConstraint]) -> list[SelectionConstraint]:
    """Return constraints; where several tie sentences, with one more that all are kept at once.

    As many of each value of either feature on both sides are not yet as many of both values.
    """
    ties = [
        constraint.matched_feature
        for constraint in constraints
        if constraint.matched_feature is not None
    ]
    if len(ties) < 2:
        return list(constraints)
    columns = [tie.reindex(ties[0].index) for tie in ties]
    together = pd.Series(list(zip(*columns, strict=True)), index=ties[0].index)
    return [*constraints, Equal(together, "equal together")]


def pairing_codes(constraints: Sequence[SelectionConstraint], labels: pd.Index) -> IntArray:
    """Return a number for each sentence, shape (S,): those of one number may be a pair.

    Parameters
    ----------
    constraints
        As `merge_equal` returns them.
    labels
        The sentences' labels.
    """
    ties = [
        constraint.matched_feature
        for constraint in constraints
        if constraint.matched_feature is not None
    ]
    if not ties:
        return np.zeros(len(labels), dtype=np.int64)
    numbers = pd.Series(pd.factorize(ties[-1])[0], index=ties[-1].index)
    return numbers.reindex(labels, fill_value=-1).to_numpy(dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AtMost(SelectionConstraint):
    """At most `limit` sentences of each group are selected, over all model pairs.

    Attributes
    ----------
    groups
        The group of each sentence, by label (its source, its topic ...); missing: no group.
    limit
        How many of a group may be selected.
    name
        For messages.

    Examples
    --------
    >>> from contstim import datasets, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> first = scores.index.to_series().str.split().str[0]
    >>> pairs = select_natural_pairs(scores, per_pair=6, constraints=[AtMost(first, 2)])
    >>> first[[*pairs["sentence_1"], *pairs["sentence_2"]]].value_counts().max() <= 2
    np.True_
    """

    kind = "at-most"
    options: ClassVar[_Options] = {"limit": int}

    groups: pd.Series
    limit: int
    name: str = "groups"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add a row for each group that can come more often than the limit."""
        codes, groups = pd.factorize(self.groups.reindex(rows.labels), sort=False)
        members = np.flatnonzero(codes >= 0)  # others are in no group
        names = [f"{self.name}: at most {self.limit} of group {group!r}" for group in groups]
        rows.add_limits(members, codes[members], self.limit, names, self.name)


@dataclass(frozen=True, eq=False)
class Recurring(SelectionConstraint):
    """No word is in more than `limit` of the selected sentences.

    Attributes
    ----------
    texts
        The text of each sentence, by label, whose words count; case and punctuation do not.
    limit
        In how many sentences a word may be.
    repeatable
        Words that may be in any number.
    name
        For messages.

    Examples
    --------
    >>> from contstim import datasets, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> texts = scores.index.to_series()
    >>> pairs = select_natural_pairs(scores, per_pair=6, constraints=[Recurring(texts, 1)])
    >>> len(pairs)
    6
    """

    kind = "recurring"
    options: ClassVar[_Options] = {"limit": int}

    texts: pd.Series
    limit: int
    repeatable: Collection[str] = ENGLISH.repeatable
    name: str = "recurring"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add a row for each word that can come more often than the limit."""
        free = {word.lower() for word in self.repeatable}
        members: list[int] = []
        cores: list[str] = []
        for sentence, text in enumerate(self.texts.reindex(rows.labels)):
            if not isinstance(text, str):
                label = rows.labels[sentence]
                raise InputError(f"{self.name}: sentence {label!r} has no text but {text!r}")
            words_of_text = language_from_script(text).split(text)
            cores_of_text = sorted({split_word(word)[1].lower() for word in words_of_text} - free)
            members += [sentence] * len(cores_of_text)
            cores += cores_of_text
        codes, words = pd.factorize(np.array(cores, dtype=object))
        names = [f"{self.name}: {word!r} in at most {self.limit} sentences" for word in words]
        rows.add_limits(np.array(members, dtype=np.int64), codes, self.limit, names, self.name)


@dataclass(frozen=True, eq=False)
class Linear(SelectionConstraint):
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

    Examples
    --------
    >>> from contstim import datasets, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> letters = scores.index.to_series().str.len()
    >>> pairs = select_natural_pairs(scores, per_pair=6, constraints=[Linear(letters, upper=480)])
    >>> letters[[*pairs["sentence_1"], *pairs["sentence_2"]]].sum() <= 480
    np.True_
    """

    kind = "linear"
    options: ClassVar[_Options] = {"lower": float, "upper": float, "role": str}

    weights: pd.Series
    lower: float = -np.inf
    upper: float = np.inf
    pair: tuple[str, str] | None = None
    role: str | None = None
    name: str = "linear"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add one row."""
        if self.role not in (None, *ROLES):
            raise UnknownNameError.among("role", str(self.role), ROLES)
        pairs = {frozenset((role.model_1, role.model_2)) for role in rows.roles}
        if self.pair is not None and frozenset(self.pair) not in pairs:
            model_1, model_2 = self.pair
            raise InputError(f"{self.name}: no pairs of {model_1} and {model_2} are selected")
        if not self.lower <= self.upper:
            raise InputError(f"{self.name}: lower {self.lower:g} is not below upper {self.upper:g}")
        values = rows.column(self.weights, self.name)
        weights = [values if self._counts(role) else None for role in rows.roles]
        name = f"{self.name}: sum of weights between {self.lower:g} and {self.upper:g}"
        rows.add(weights, self.lower, self.upper, [name])

    def _counts(self, role: Role) -> bool:
        if self.pair is None or self.pair == (role.model_1, role.model_2):
            return self.role in (None, role.role)
        # A pair named the other way round has the roles the other way round.
        turned = self.pair == (role.model_2, role.model_1)
        return turned and (self.role is None or self.role != role.role)
