"""Base class of constraints on selected sentences, and their rows in an integer programme."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.plugins import Registry
from contstim.selection.assignment import Quota

# Values in the text form of a constraint: name of the field, and function that parses the value.
TextOptions = dict[str, Callable[[str], Any]]

#: Constraints that can be written as text, by kind.
CONSTRAINTS = Registry["type[SelectionConstraint]"](
    "constraint", "contstim.selection_constraints", {}
)


class ConstraintRows:
    """Linear constraints of the integer programme that selects sentences.

    A quota (`Quota`) is the number of sentences to select that one model ranks high and another
    ranks low. The variables are x[a, s] = 1 if sentence s is selected for quota a, and 0 otherwise.
    With K constraints, the rows of the programme are, for k = 1..K:

        lower[k] <= sum_{a, s} weights[a][s, k] x[a, s] <= upper[k].

    Parameters
    ----------
    quotas
        The A quotas.
    labels
        Labels of the S candidate sentences.
    constraints
        Constraints that add their rows.
    max_occurrences : int, default 1
        Maximum number of times that a sentence may be selected.

    Attributes
    ----------
    names
        Description of each row, for error messages.
    lower, upper : (K,) array
        Bounds of the rows.
    units : (K,) array
        Divisors by which error messages convert a violation of a row to the unit of the feature.
    """

    def __init__(
        self,
        quotas: Sequence[Quota],
        labels: pd.Index,
        constraints: Iterable[SelectionConstraint] = (),
        max_occurrences: int = 1,
    ) -> None:
        self.quotas = quotas
        self.labels = labels
        self.max_occurrences = max_occurrences
        self.names: list[str] = []
        self.lower: FloatArray = np.empty(0)
        self.upper: FloatArray = np.empty(0)
        self.units: FloatArray = np.empty(0)
        # Weights of the sentences in each quota, as a list of sparse arrays that `weights` joins
        # horizontally. Each call of `add` appends an array; the first one has no columns.
        self._weight_parts = [[csr_array((len(labels), 0))] for _ in quotas]
        for constraint in constraints:
            constraint.add_rows(self)

    @property
    def model_pairs(self) -> list[tuple[str, str]]:
        """Pairs of models for which sentence pairs are selected, in the order of the quotas."""
        return list(dict.fromkeys(quota.models for quota in self.quotas))

    @cached_property
    def weights(self) -> list[csr_array]:
        """Weights of the S sentences in the K rows, one sparse (S, K) array for each quota."""
        return [csr_array(hstack(parts, format="csr")) for parts in self._weight_parts]

    def add(
        self,
        weights: Sequence[csr_array | None],
        lower: float,
        upper: float,
        names: Sequence[str],
        unit: float = 1.0,
    ) -> None:
        """Add n constraints that have the same bounds, each as a row of the programme.

        A constraint requires that the sum of the weights of all selected sentences is between the
        two bounds. The weight of a sentence may depend on the quota for which it is selected. A
        quota is the number of sentences to select that one model ranks high and another ranks low.

        Parameters
        ----------
        weights
            One array per quota, with the weight that each of the S sentences has in each of the n
            constraints if it is selected for this quota, shape (S, n). None: all weights are 0.
        lower, upper
            Bounds of the weighted sums.
        names
            Description of each of the n constraints, for error messages.
        unit
            Divisor by which error messages convert a violation to the unit of the feature.
        """
        n = len(names)
        # Each of the n new constraints bounds a sum over the selected sentences: the sum of their
        # weights. A sentence is selected for a quota (a number of sentences that one model ranks
        # high and another ranks low) and has the weight of this quota, or 0 if the array is None.
        zeros = csr_array((len(self.labels), n))
        # The weights of each quota are stored in parts, one part for each call of `add`.
        for parts, quota_weights in zip(self._weight_parts, weights, strict=True):
            parts.append(zeros if quota_weights is None else quota_weights)
        self.names = [*self.names, *names]
        self.lower = np.append(self.lower, np.full(n, lower))
        self.upper = np.append(self.upper, np.full(n, upper))
        # Error messages divide the amount by which a sum violates its bounds by `unit`.
        self.units = np.append(self.units, np.full(n, unit))

    def add_limits(
        self,
        sentences: IntArray,
        groups: IntArray,
        limit: int,
        names: Sequence[str],
        constraint: str,
    ) -> None:
        """Limit the number of selected sentences of each group.

        A sentence may belong to several groups. No constraint is added for small groups, of which
        no selection can contain more sentences than the limit.

        Parameters
        ----------
        sentences, groups : (n_memberships,) array
            Index of a sentence and index of a group to which it belongs, for each membership.
        limit
            Maximum number of selected sentences per group.
        names
            Description of the limit of each group, for error messages.
        constraint
            Name of the constraint, for the error message about a negative limit.
        """
        if limit < 0:
            raise InputError(f"{constraint}: the limit is {limit}, below 0")
        entries = (np.ones(len(groups)), (sentences, groups))
        # Matrix of sentences (rows) and groups (columns), 1 if the sentence belongs to the group.
        is_member = csr_array(entries, shape=(len(self.labels), len(names)))
        # A group with few sentences cannot exceed the limit and needs no row.
        max_selected = self.max_occurrences * np.bincount(groups, minlength=len(names))
        limited_groups = np.flatnonzero(max_selected > limit)
        weights = csr_array(is_member[:, limited_groups])
        limited_names = [names[group] for group in limited_groups.tolist()]
        self.add([weights for _ in self.quotas], -np.inf, float(limit), limited_names)

    def difference_weights(
        self, model_pair: tuple[str, str], features: csr_array
    ) -> list[csr_array | None]:
        """Return weights for constraints on differences between first and second sentences.

        With these weights, `add` constrains the sum of each feature over the selected first
        sentences of the pairs for two models, minus its sum over the selected second sentences.

        Parameters
        ----------
        model_pair
            Names of the two models.
        features
            Values of n features of each of S sentences, shape (S, n).

        Returns
        -------
        list
            Weights for each quota: `features` for the first sentences of these models,
            ``-features`` for their second sentences, and None for the sentences of other models.
        """
        weights: list[csr_array | None] = []
        # Each pair of models has two quotas, for the first and for the second sentences of the
        # selected sentence pairs. To subtract the second from the first sentences, the second get
        # negative weights.
        for quota in self.quotas:
            if quota.models != model_pair:
                weights.append(None)  # Sentences for other models do not count.
            else:
                weights.append(features if quota.is_first else -features)
        return weights

    def feature_column(self, values: pd.Series, name: str) -> csr_array:
        """Return a numeric feature of the candidate sentences as a sparse (S, 1) array.

        Parameters
        ----------
        values
            Value of the feature for each sentence, with the labels of the sentences as index.
        name
            Name of the constraint, for the error message.

        Raises
        ------
        InputError
            If a sentence has no finite value.
        """
        if not (values.empty or pd.api.types.is_numeric_dtype(values)):
            raise InputError(f"{name}: {values.iloc[0]!r} is not a number; use a numeric column")
        # A sentence without a value becomes NaN, which is refused.
        numbers = values.reindex(self.labels).to_numpy(dtype=np.float64, na_value=np.nan)
        if not np.isfinite(numbers).all():
            label = self.labels[np.flatnonzero(~np.isfinite(numbers))[0]]
            raise InputError(
                f"{name}: sentence {label!r} has no finite value; give one or leave the "
                "sentence out"
            )
        return csr_array(numbers[:, None])


class SelectionConstraint(ABC):
    """Base class of constraints on the selected sentences.

    A subclass adds linear constraints to the integer programme of a selection. If it sets `kind`,
    users can write the constraint as a text ``KIND:COLUMN:VALUE...``. The subclass must then be a
    dataclass. Its first field is the feature, a Series with the labels of the sentences as index,
    and it has a field for each key of `options`.

    Examples
    --------
    >>> from contstim.selection import Balance
    >>> Balance.format_usage()
    'balance:COLUMN:TOLERANCE'
    """

    #: Name of the constraint in its text form.
    kind: ClassVar[str] = ""

    #: Values after the column in the text form: name of the field, and function that parses it.
    options: ClassVar[TextOptions] = {}

    #: Whether the constraint compares the two sentences of a pair. `select_set` then applies it
    #: once per model, to the sentences that the model prefers and the sentences it does not prefer.
    compares_within_pair: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            CONSTRAINTS[cls.kind] = cls

    @property
    def matched_feature(self) -> pd.Series | None:
        """Feature that must be equal for both sentences of a pair, or None."""
        return None

    @abstractmethod
    def add_rows(self, rows: ConstraintRows) -> None:
        """Add the rows of this constraint to an integer programme.

        Parameters
        ----------
        rows
            Rows of the integer programme that selects sentences.

        Raises
        ------
        InputError
            If a candidate sentence has no valid value or a bound is invalid.
        UnknownNameError
            If a position in the pairs is unknown.
        """

    @classmethod
    def format_usage(cls) -> str:
        """Return the form of the constraint as text, e.g. ``balance:COLUMN:TOLERANCE``."""
        return ":".join([cls.kind, "COLUMN", *(name.upper() for name in cls.options)])


CONSTRAINTS.base_class = SelectionConstraint
