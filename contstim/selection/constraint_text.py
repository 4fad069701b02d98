"""Constraints written as text, ``balance:words:0.5``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from contstim.errors import InputError, near_matches
from contstim.selection.constraints import CONSTRAINTS, SelectionConstraint
from contstim.text.features import sentence_features
from contstim.text.language import Language
from contstim.text.languages import detect_language


def check_constraints(texts: Iterable[str]) -> None:
    """Refuse a text that is no constraint; see `parse_constraints`.

    Raises
    ------
    InputError
        Naming the text and what it should be.
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
    """Make constraints from text, such as ``balance:words:0.5`` or ``at-most:source:2``.

    Parameters
    ----------
    texts
        ``KIND:COLUMN:VALUE...``; values that may be left out can be empty.
    labels
        Labels of the S sentences.
    features
        A row per sentence, by label (as text, each once): the columns that texts may name.
        ``sentence`` (the label), ``words``, ``characters`` and ``zipf`` are worked out where they
        are not among them, see :func:`~contstim.text.features.sentence_features`; ``tokens`` as
        well, where they are given.
    tokens
        The number of tokens of each sentence under each model, by label, of which ``tokens`` is
        made: the same for two sentences that every model cuts into as many.
    language
        What cuts the sentences into ``words``; by default that which they seem to be of.

    Raises
    ------
    InputError
        Naming the text and its fault.
    """
    parsed = [(text, *_parse(text)) for text in texts]
    table = pd.DataFrame(index=labels)
    if features is not None:
        table = features.reindex([str(label) for label in labels]).set_index(labels)
    if "sentence" not in table:
        table = table.assign(sentence=[str(label) for label in labels])
    computed = ("words", "characters", "zipf")
    if any(column in computed and column not in table for _, _, column, _ in parsed):
        shown = [str(label) for label in labels]
        code = (language or detect_language(shown)).code
        computable = sentence_features(shown, code).set_index(labels)
        table = computable.drop(columns=computable.columns.intersection(table.columns)).join(table)
    if tokens is not None and "tokens" not in table:
        counts = tokens.reindex(labels).dropna().astype("int64").astype("str")
        table = table.assign(tokens=counts.agg("/".join, axis=1))
    made = []
    for text, kind, column, values in parsed:
        if column not in table:
            hint = near_matches(column, [*computed, *table.columns])
            raise InputError(f"constraint {text!r} names no column of the features; {hint}")
        made.append(kind(table[column], name=text, **values))
    return made


def _parse(text: str) -> tuple[Callable[..., SelectionConstraint], str, dict[str, Any]]:
    """Return the class of a constraint, the column that it names and its values."""
    kind, _, rest = text.partition(":")
    made = CONSTRAINTS[kind]
    column, *given = rest.split(":")
    values = {}
    complete = column and len(given) <= len(made.options) and any(given or [not made.options])
    try:
        for (name, read), value in zip(made.options.items(), given, strict=False):
            if value:
                values[name] = read(value)
    except ValueError:
        complete = False
    if not complete:
        raise InputError(f"constraint {text!r} is not of the form {made.usage()}")
    return made, column, values
