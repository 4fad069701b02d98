"""Constraints written as text, such as ``balance:words:0.5``, on the command line and in plans."""

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
    """Check the form of constraints before any table is read.

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
        _parse(text)


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
        label), ``words``, ``characters`` and ``zipf`` are computed unless they are given, see
        :func:`~contstim.text.features.sentence_features`.
    tokens : DataFrame, optional
        Number of tokens of each sentence under each model, by label. The column ``tokens`` is
        computed from it: sentences have equal values if they have equal numbers under all models.
    language
        Language whose rules split sentences into words; by default inferred from the sentences.

    Returns
    -------
    list
        One constraint per text.

    Raises
    ------
    InputError
        If a text is not a constraint or names an unknown column.
    """
    parsed = [(text, *_parse(text)) for text in texts]
    table = pd.DataFrame(index=labels)
    if features is not None:
        table = features.reindex([str(label) for label in labels]).set_index(labels)
    if "sentence" not in table:
        table = table.assign(sentence=[str(label) for label in labels])
    if any(column in _COMPUTED and column not in table for _, _, column, _ in parsed):
        sentences = [str(label) for label in labels]
        code = (language or detect_language(sentences)).code
        computed = sentence_features(sentences, code).set_index(labels)
        table = computed.drop(columns=computed.columns.intersection(table.columns)).join(table)
    if tokens is not None and "tokens" not in table:
        counts = tokens.reindex(labels).dropna().astype("int64").astype("str")
        table = table.assign(tokens=counts.agg("/".join, axis=1))
    constraints = []
    for text, kind, column, values in parsed:
        if column not in table:
            hint = suggest_names(column, [*_COMPUTED, *table.columns])
            raise InputError(f"constraint {text!r} names no column of the features; {hint}")
        constraints.append(kind(table[column], name=text, **values))
    return constraints


def _parse(text: str) -> tuple[Any, str, dict[str, Any]]:
    """Parse a constraint of the form ``KIND:COLUMN:VALUE...``.

    Three values are returned: the class of the constraint, the name of the column with its feature,
    and a dictionary of the other arguments of the class. Empty values are omitted.
    """
    kind, _, arguments = text.partition(":")
    constraint = CONSTRAINTS[kind]
    column, *values = arguments.split(":")
    has_values = any(values) or not constraint.options
    is_complete = bool(column) and len(values) <= len(constraint.options) and has_values
    parsed = {}
    try:
        for (name, parse), value in zip(constraint.options.items(), values, strict=False):
            if value:
                parsed[name] = parse(value)
    except ValueError:
        is_complete = False
    if not is_complete:
        raise InputError(f"constraint {text!r} is not of the form {constraint.format_usage()}")
    return constraint, column, parsed
