"""Constraints on the selected sentences: balance, equality, limits and linear bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from contstim.arrays import IntArray
from contstim.errors import InputError, UnknownNameError, format_count
from contstim.selection.assignment import POSITIONS
from contstim.selection.constraint_rows import ConstraintRows, SelectionConstraint, TextOptions
from contstim.text.language import split_word
from contstim.text.languages import ENGLISH, language_from_script


@dataclass(frozen=True, eq=False)
class Balance(SelectionConstraint):
    """Constraint that a feature has, per pair of models, similar means over sentences 1 and 2.

    For each pair of models with n sentence pairs (s_i1, s_i2) and the feature f:

        | sum_i f(s_i1) - sum_i f(s_i2) | <= n tolerance.

    Attributes
    ----------
    feature
        Value of the feature for each sentence, with the labels of the sentences as index.
    tolerance
        Maximum difference between the two means.
    name
        Name of the constraint in error messages.

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
    options: ClassVar[TextOptions] = {"tolerance": float}
    compares_within_pair = True

    feature: pd.Series
    tolerance: float
    name: str = "balance"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Require that the first and the second sentences of pairs have similar mean features.

        For each pair of models, one row is added to the integer programme:
        ``abs(sum_i f(first_i) - sum_i f(second_i)) <= n * tolerance``, where f is the feature, and
        first_i and second_i are the sentences of pair i, for i = 1, ..., n. The two means then
        differ by at most the tolerance.

        Parameters
        ----------
        rows
            Rows (linear constraints) of the integer programme.
        """
        if not self.tolerance >= 0:
            raise InputError(f"{self.name}: the tolerance is {self.tolerance}, below 0")
        # |sum of f over first sentences - sum of f over second sentences| <= n * tolerance
        values = rows.feature_column(self.feature, self.name)
        n_by_model_pair = {quota.models: quota.n_sentences for quota in rows.quotas}
        for model_pair, n_pairs in n_by_model_pair.items():
            limit = self.tolerance * n_pairs
            models = " and ".join(model_pair)
            name = f"{self.name}: means within {self.tolerance:g} for {models}"
            weights = rows.difference_weights(model_pair, values)
            # Error messages state a violation as a difference of means: divide sums by n_pairs.
            rows.add(weights, -limit, limit, [name], unit=float(n_pairs))


@dataclass(frozen=True, eq=False)
class Equal(SelectionConstraint):
    """Constraint that the two sentences of each pair have the same value of a feature.

    The constraint is imposed on counts. For each pair of models and each value of the feature, the
    number of first sentences with this value must equal the number of second sentences with this
    value. The selected sentences can then be paired by value.

    Attributes
    ----------
    feature
        Value of the feature for each sentence, e.g. number of tokens or topic, with the labels of
        the sentences as index.
    name
        Name of the constraint in error messages.

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
    compares_within_pair = True

    feature: pd.Series
    name: str = "equal"

    @property
    def matched_feature(self) -> pd.Series:
        """Feature that must be equal for both sentences of a pair."""
        return self.feature

    def add_rows(self, rows: ConstraintRows) -> None:
        """Require that each value of a feature is equally frequent in both positions of the pairs.

        For each pair of models and each value, one row is added to the integer programme: the
        number of first sentences with this value must equal the number of second sentences with
        this value.

        Parameters
        ----------
        rows
            Rows (linear constraints) of the integer programme.
        """
        value_ids, values = pd.factorize(self.feature.reindex(rows.labels), sort=False)
        # `values[value_ids[s]]` is the value of sentence s; -1 stands for a missing value.
        if (value_ids < 0).any():
            label = rows.labels[np.flatnonzero(value_ids < 0)[0]]
            raise InputError(
                f"{self.name}: sentence {label!r} has no value; give one or leave the sentence out"
            )
        # Matrix of sentences (rows) and values (columns), 1 if the sentence has the value.
        entries = (np.ones(len(value_ids)), (np.arange(len(value_ids)), value_ids))
        has_value = csr_array(entries, shape=(len(value_ids), len(values)))
        # For each pair of models and each value, the number of selected first sentences with this
        # value minus the number of selected second sentences with this value must be 0.
        for model_pair in rows.model_pairs:
            models = " and ".join(model_pair)
            names = [f"{self.name}: as many of {value!r} for {models}" for value in values]
            rows.add(rows.difference_weights(model_pair, has_value), 0.0, 0.0, names)


def merge_equal(constraints: Sequence[SelectionConstraint]) -> list[SelectionConstraint]:
    """Add a constraint on the combined values of all features that must be equal within pairs.

    For example, let both sentences of a pair have the same topic and the same length. Even if each
    topic and each length occurs equally often among the first and among the second sentences, a
    combination such as (sports, 8 words) may not, and the sentences could not be paired. An `Equal`
    constraint on the tuple (topic, length) prevents this.

    Parameters
    ----------
    constraints
        Constraints on the selected sentences.

    Returns
    -------
    list
        The given constraints and, if they contain two or more features that must be equal within
        pairs, the additional `Equal` constraint.
    """
    features = [c.matched_feature for c in constraints if c.matched_feature is not None]
    if len(features) < 2:
        return list(constraints)
    # Bring the features into the same order of sentences, and combine them to tuples.
    columns = [feature.reindex(features[0].index) for feature in features]
    combined = pd.Series(list(zip(*columns, strict=True)), index=features[0].index)
    return [*constraints, Equal(combined, "equal together")]


def compute_pairing_blocks(
    constraints: Sequence[SelectionConstraint], labels: pd.Index
) -> IntArray:
    """Return a block index for each sentence; only sentences of the same block may be paired.

    A block contains the sentences with the same value of the feature that must be equal for both
    sentences of a pair (`SelectionConstraint.matched_feature`).

    Parameters
    ----------
    constraints
        Result of `merge_equal`.
    labels
        Labels of S sentences.

    Returns
    -------
    (S,) array
        Block indices; all zero if no feature must be equal.
    """
    features = [c.matched_feature for c in constraints if c.matched_feature is not None]
    if not features:
        return np.zeros(len(labels), dtype=np.int64)
    # The last feature combines all others (`merge_equal`). Sentences without a value get -1.
    blocks = pd.Series(pd.factorize(features[-1])[0], index=features[-1].index)
    return blocks.reindex(labels, fill_value=-1).to_numpy(dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AtMost(SelectionConstraint):
    """Limit on the number of selected sentences of each group, over all pairs of models.

    Attributes
    ----------
    groups
        Group of each sentence, e.g. source or topic, with the labels of the sentences as index.
        Sentences with a missing value belong to no group.
    limit
        Maximum number of selected sentences per group.
    name
        Name of the constraint in error messages.

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
    options: ClassVar[TextOptions] = {"limit": int}

    groups: pd.Series
    limit: int
    name: str = "groups"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Limit the number of selected sentences of each group.

        One row is added to the integer programme for each group that can exceed the limit.

        Parameters
        ----------
        rows
            Rows (linear constraints) of the integer programme.
        """
        # Number the groups; sentences without a group have the number -1 and are not limited.
        group_ids, groups = pd.factorize(self.groups.reindex(rows.labels), sort=False)
        sentences = np.flatnonzero(group_ids >= 0)
        names = [f"{self.name}: at most {self.limit} of group {group!r}" for group in groups]
        rows.add_limits(sentences, group_ids[sentences], self.limit, names, self.name)


@dataclass(frozen=True, eq=False)
class Recurring(SelectionConstraint):
    """Limit on the number of selected sentences that contain the same word.

    Case and punctuation are ignored.

    Attributes
    ----------
    texts
        Text of each sentence, with the labels of the sentences as index.
    limit
        Maximum number of selected sentences that contain the same word.
    repeatable
        Words without a limit; by default English determiners and prepositions.
    name
        Name of the constraint in error messages.

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
    options: ClassVar[TextOptions] = {"limit": int}

    texts: pd.Series
    limit: int
    repeatable: Collection[str] = ENGLISH.repeatable
    name: str = "recurring"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Limit the number of selected sentences that contain the same word.

        One row is added to the integer programme for each word that can exceed the limit.

        Parameters
        ----------
        rows
            Rows (linear constraints) of the integer programme.
        """
        repeatable = {word.lower() for word in self.repeatable}
        # Index of a sentence and a word that it contains, for each distinct word of each sentence.
        sentences: list[int] = []
        words: list[str] = []
        for index, text in enumerate(self.texts.reindex(rows.labels)):
            if not isinstance(text, str):
                label = rows.labels[index]
                raise InputError(f"{self.name}: sentence {label!r} has no text but {text!r}")
            # Split by the script of the text; `split_word(token)[1]` is the word without
            # punctuation.
            tokens = language_from_script(text).split(text)
            distinct = sorted({split_word(token)[1].lower() for token in tokens} - repeatable)
            sentences += [index] * len(distinct)
            words += distinct
        word_ids, vocabulary = pd.factorize(np.array(words, dtype=object))
        limit = format_count(self.limit, "sentence")
        names = [f"{self.name}: {word!r} in at most {limit}" for word in vocabulary]
        rows.add_limits(np.array(sentences, dtype=np.int64), word_ids, self.limit, names, self.name)


@dataclass(frozen=True, eq=False)
class Linear(SelectionConstraint):
    """Bounds on the sum of a feature over the selected sentences.

    The constraint is lower <= sum_s weights(s) <= upper. The sum is over all selected sentences s,
    over those that are selected for one pair of models, or over the first (or second) sentences.

    Attributes
    ----------
    weights
        Value of the feature for each sentence, with the labels of the sentences as index.
    lower, upper
        Bounds of the sum, in the unit of the feature.
    pair
        Pair of models to which the sum is restricted.
    position
        Position in the pairs to which the sum is restricted, ``sentence_1`` or ``sentence_2``.
    name
        Name of the constraint in error messages.

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
    options: ClassVar[TextOptions] = {"lower": float, "upper": float, "position": str}

    weights: pd.Series
    lower: float = -np.inf
    upper: float = np.inf
    pair: tuple[str, str] | None = None
    position: str | None = None
    name: str = "linear"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Limit the sum of a feature over the selected sentences.

        One row is added to the integer programme: lower <= sum over selected sentences <= upper.

        Parameters
        ----------
        rows
            Rows (linear constraints) of the integer programme.
        """
        if self.position not in (None, *POSITIONS):
            raise UnknownNameError.with_suggestions("position", str(self.position), POSITIONS)
        # The two models may be named in either order.
        known_pairs = {frozenset(model_pair) for model_pair in rows.model_pairs}
        if self.pair is not None and frozenset(self.pair) not in known_pairs:
            model_1, model_2 = self.pair
            raise InputError(f"{self.name}: no pairs of {model_1} and {model_2} are selected")
        if not self.lower <= self.upper:
            raise InputError(f"{self.name}: lower {self.lower:g} is not below upper {self.upper:g}")

        values = rows.feature_column(self.weights, self.name)
        weights: list[csr_array | None] = []
        # A quota is the number of first, or of second, sentences to select for a pair of models.
        for quota in rows.quotas:
            if self.pair in (None, quota.models):
                is_included = self.position in (None, quota.position)
            else:
                # If the user names the two models in the opposite order, their first sentences are
                # the second sentences of this programme.
                is_included = self.pair == quota.models[::-1] and self.position != quota.position
            weights.append(values if is_included else None)
        name = f"{self.name}: sum of weights between {self.lower:g} and {self.upper:g}"
        rows.add(weights, self.lower, self.upper, [name])
