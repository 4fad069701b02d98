"""Constraints on a selection that are written as text, such as ``balance:words:0.5``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from contstim.errors import InputError, suggest_names
from contstim.selection.constraint_rows import CONSTRAINTS, SelectionConstraint
from contstim.text.features import sentence_features
from contstim.text.language import Language
from contstim.text.languages import detect_language

# Features that are computed from the sentences.
_COMPUTED = ("words", "characters", "zipf")


def check_constraints(texts: Iterable[str]) -> None:
    """Check that texts have the form of a constraint, ``KIND:COLUMN:VALUE...``.

    Whether the column exists is checked later by `parse_constraints`.

    Parameters
    ----------
    texts
        Constraints as text.

    Raises
    ------
    InputError
        If a text is not a constraint; the message shows the expected form.
    """
    for text in texts:
        _parse_constraint(text)


def parse_constraints(
    texts: Iterable[str],
    labels: pd.Index,
    features: pd.DataFrame | None = None,
    tokens: pd.DataFrame | None = None,
    language: Language | None = None,
) -> list[SelectionConstraint]:
    """Create constraints from text, such as ``balance:words:0.5`` or ``at-most:source:2``.

    Parameters
    ----------
    texts
        Constraints of the form ``KIND:COLUMN:VALUE...``; optional values may be empty.
    labels
        Labels of the S sentences.
    features : DataFrame, optional
        Features of the sentences, one row per label (as text). The columns ``sentence`` (the
        label), ``words``, ``characters`` and ``zipf`` are computed if they are missing
        (:func:`~contstim.text.features.sentence_features`).
    tokens : DataFrame, optional
        Number of tokens of each sentence (row) under each model (column). It defines a column
        ``tokens``, which is equal for two sentences if they have the same number of tokens under
        each model.
    language
        Language that defines the words of a sentence; by default inferred from the sentences.

    Returns
    -------
    list
        One constraint per text.

    Raises
    ------
    InputError
        If a text is not a constraint or names an unknown column.
    """
    texts = list(texts)
    parsed = [_parse_constraint(text) for text in texts]
    used_columns = {column for _, column, _ in parsed}

    # Collect all features in one table. First, the features of the caller and the sentences.
    sentences = [str(label) for label in labels]
    table = pd.DataFrame(index=labels)
    if features is not None:
        table = features.reindex(sentences).set_index(labels)
    if "sentence" not in table:
        table = table.assign(sentence=sentences)
    # Compute further features, which takes time, only if a constraint uses one of them.
    if used_columns & set(_COMPUTED) - set(table.columns):
        code = (language or detect_language(sentences)).code
        computed = sentence_features(sentences, code).set_index(labels)
        table = computed.drop(columns=computed.columns.intersection(table.columns)).join(table)
    # Join the numbers of tokens under all models to a text such as "7/9/8": two texts are equal if
    # the sentences have the same number of tokens under each model.
    if tokens is not None and "tokens" not in table:
        counts = tokens.reindex(labels).dropna().astype("int64").astype("str")
        table = table.assign(tokens=counts.agg("/".join, axis=1))

    constraints = []
    for text, (constraint_class, column, values) in zip(texts, parsed, strict=True):
        if column not in table:
            hint = suggest_names(column, [*_COMPUTED, *table.columns])
            raise InputError(f"constraint {text!r} names no column of the features; {hint}")
        constraints.append(constraint_class(table[column], name=text, **values))
    return constraints


def _parse_constraint(text: str) -> tuple[Any, str, dict[str, Any]]:
    """Parse a constraint on selected sentences that is written as text.

    Parameters
    ----------
    text
        Text of the form ``KIND:COLUMN:VALUE...``, for example ``balance:words:0.5``.

    Returns
    -------
    constraint_class : subclass of SelectionConstraint
        Class that is registered for the kind.
    column : str
        Name of the column that contains the feature.
    values : dict
        Further arguments of the class by name, without values that are empty in the text.
    """
    kind, _, arguments = text.partition(":")
    # For example, "linear:words:5:9:sentence_1" is a kind, a column, and the values of the options.
    constraint_class = CONSTRAINTS[kind]
    column, *value_texts = arguments.split(":")
    options = constraint_class.options
    # At least one value is needed if the kind takes any. An empty value keeps the default.
    has_values = any(value_texts) or not options
    is_valid = bool(column) and len(value_texts) <= len(options) and has_values
    values = {}
    # Convert each value to the type of its option, for example float.
    try:
        for (name, parse), value_text in zip(options.items(), value_texts, strict=False):
            if value_text:
                values[name] = parse(value_text)
    except ValueError:
        is_valid = False
    if not is_valid:
        usage = constraint_class.format_usage()
        raise InputError(f"constraint {text!r} is not of the form {usage}")
    return constraint_class, column, values
