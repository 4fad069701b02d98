"""Kinds of trials: experimental, catch, filler and practice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from contstim.errors import InputError
from contstim.text.normalise import normalise_label

if TYPE_CHECKING:
    import pandas as pd  # not loaded by servers of the browser experiment

#: Experimental trials compare models, catch trials check attention, fillers distract from the
#: purpose of the experiment, and practice trials precede the experiment.
EXPERIMENTAL, CATCH, FILLER, PRACTICE = "experimental", "catch", "filler", "practice"
TRIAL_KINDS = (EXPERIMENTAL, CATCH, FILLER, PRACTICE)

# Kind of trials by condition name, for names that state it. `natural_vs_shuffled` is the condition
# of the catch trials of Golan et al. (2023).
_KIND_BY_CONDITION = {
    **dict.fromkeys(("catch", "attention", "attention check", "natural vs shuffled"), CATCH),
    "filler": FILLER,
    "practice": PRACTICE,
}


def normalise_condition(condition: str) -> str:
    """Return the canonical form of a condition name.

    White space around the name is removed. A name that states a kind of trial, such as ``Catch``,
    is converted to lower case; other names keep their case.

    Examples
    --------
    >>> normalise_condition("Catch "), normalise_condition("Natural")
    ('catch', 'Natural')
    """
    name = normalise_label(condition)
    return name if infer_kind(name) == EXPERIMENTAL else name.casefold()


def infer_kind(condition: str) -> str:
    """Return the kind of trial that a condition name states; experimental by default.

    Examples
    --------
    >>> infer_kind("Catch trials"), infer_kind("natural_controversial")
    ('catch', 'experimental')
    """
    name = re.sub(r"[\W_]+", " ", condition.casefold()).strip()
    name = re.sub(r" trials?$", "", name)
    kind = _KIND_BY_CONDITION.get(name)
    return kind or _KIND_BY_CONDITION.get(name.removesuffix("s"), EXPERIMENTAL)


def add_trial_kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of trials or choices with a column `kind` and canonical condition names.

    An existing column `kind` is normalised to lower case. Otherwise the kind of a trial is

    1. the kind that its condition name states (``catch``, see `infer_kind`);
    2. ``catch`` if the column `expected` names the sentence that an attentive participant chooses,
       unless all experimental trials have an expected sentence;
    3. otherwise ``experimental``.

    Raises
    ------
    InputError
        If a cell of `kind` is not a kind of trial.
    """
    if "condition" in table:
        names = {c: normalise_condition(c) for c in table["condition"].dropna().unique()}
        table = table.assign(condition=table["condition"].map(names))
    # A column of kinds takes precedence; each cell must contain one of the known kinds.
    if "kind" in table:
        cells = table["kind"].astype(object).where(table["kind"].notna(), "")
        kinds = cells.map(lambda cell: str(cell).strip().casefold())
        is_unknown = ~kinds.isin(TRIAL_KINDS)
        if is_unknown.any():
            raise InputError(
                f"the column 'kind' contains {cells[is_unknown].tolist()[0]!r}; it must be "
                f"{', '.join(TRIAL_KINDS[:-1])} or {TRIAL_KINDS[-1]} in every row (rename the "
                "column if it means something else)"
            )
        return table.assign(kind=kinds.astype("str"))
    # Otherwise, trials are experimental unless the name of their condition says something else,
    # such as "catch".
    kinds = table.assign(kind=EXPERIMENTAL)["kind"]
    if "condition" in table:
        kind_by_name = {name: infer_kind(name) for name in table["condition"].dropna().unique()}
        kinds = table["condition"].map(kind_by_name).astype(object).fillna(EXPERIMENTAL)
    if "expected" in table:
        # Trials with an expected sentence are catch trials, unless all trials have one: the column
        # then says nothing about the kind.
        is_experimental = kinds == EXPERIMENTAL
        has_expected = table["expected"].notna()
        if not has_expected[is_experimental].all():
            kinds = kinds.mask(is_experimental & has_expected, CATCH)
    return table.assign(kind=kinds.astype("str"))


def format_kinds(table: pd.DataFrame) -> str:
    """Return the number of trials of each kind as text: ``300 experimental, 24 catch``."""
    counts = table["kind"].value_counts()
    return ", ".join(f"{counts[kind]} {kind}" for kind in TRIAL_KINDS if kind in counts)
