"""The kinds of trials, decided once by the reader of a table and kept in its column `kind`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from contstim.errors import InputError
from contstim.text.normalise import normalise_label

if TYPE_CHECKING:
    import pandas as pd

#: Trials that compare models; trials that check attention; trials that distract from the purpose
#: of the experiment; trials before the experiment begins.
EXPERIMENTAL, CATCH, FILLER, PRACTICE = "experimental", "catch", "filler", "practice"
TRIAL_KINDS = (EXPERIMENTAL, CATCH, FILLER, PRACTICE)

# Names of conditions that state the kind of their trials; `natural_vs_shuffled` is that of the
# catch trials of Golan et al. (2023).
_RESERVED = {
    **dict.fromkeys(("catch", "attention", "attention check", "natural vs shuffled"), CATCH),
    "filler": FILLER,
    "practice": PRACTICE,
}


def normalise_condition(condition: str) -> str:
    """Return a condition's name in canonical form: reserved names in lower case.

    Examples
    --------
    >>> normalise_condition("Catch "), normalise_condition("Natural")
    ('catch', 'Natural')
    """
    name = normalise_label(condition)
    return name if infer_kind(name) == EXPERIMENTAL else name.casefold()


def infer_kind(condition: str) -> str:
    """Return the kind that the name of a condition states, whatever its case; else experimental.

    Examples
    --------
    >>> infer_kind("Catch trials"), infer_kind("natural_controversial")
    ('catch', 'experimental')
    """
    name = re.sub(r"[\W_]+", " ", condition.casefold()).strip()
    name = re.sub(r" trials?$", "", name)
    return _RESERVED.get(name) or _RESERVED.get(name.removesuffix("s"), EXPERIMENTAL)


def add_kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of trials or choices with the column `kind`, and canonical conditions.

    It is the column `kind` of the table if there is one, in any letter case. Otherwise a reserved
    name of a condition decides (``catch``, ``attention check``, ``filler``, ``practice``). If some
    of the other trials, but not all, have an `expected` sentence, these are catch trials.

    Raises
    ------
    InputError
        If a cell of `kind` names no kind.
    """
    import pandas as pd

    if "condition" in table:
        names = {c: normalise_condition(c) for c in table["condition"].dropna().unique()}
        table = table.assign(condition=table["condition"].map(names))
    if "kind" in table:
        stated = table["kind"].astype(object).where(table["kind"].notna(), "")
        kinds = stated.map(lambda value: str(value).strip().casefold())
        if not kinds.isin(TRIAL_KINDS).all():
            value = stated[~kinds.isin(TRIAL_KINDS)].tolist()[0]
            raise InputError(
                f"the column 'kind' holds {value!r}; it must be {', '.join(TRIAL_KINDS[:-1])} or "
                f"{TRIAL_KINDS[-1]} in every row (rename the column if it means something else)"
            )
        return table.assign(kind=kinds.astype("str"))
    kinds = pd.Series(EXPERIMENTAL, index=table.index)
    if "condition" in table:
        of_name = {name: infer_kind(name) for name in table["condition"].dropna().unique()}
        kinds = table["condition"].map(of_name).astype(object).fillna(EXPERIMENTAL)
    if "expected" in table:
        others = kinds == EXPERIMENTAL
        marked = others & table["expected"].notna()
        if not marked.equals(others):
            kinds = kinds.mask(marked, CATCH)
    return table.assign(kind=kinds.astype("str"))


def format_kinds(table: pd.DataFrame) -> str:
    """Return how many trials of each kind a table has: ``300 experimental, 24 catch``."""
    counts = table["kind"].value_counts()
    return ", ".join(f"{counts[kind]} {kind}" for kind in TRIAL_KINDS if kind in counts)
