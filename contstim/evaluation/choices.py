"""The choices table: what people answered, validated, and each pair in one canonical order.

One row is one trial of one participant. Ratings are zero-centred, from -2.5 (very confident that
sentence 1 is likelier) to 2.5 (very confident of sentence 2); other scales are mapped to that
range linearly, so that a forced choice is -2.5 or 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from contstim.errors import InputError, UnknownNameError, ValidationError
from contstim.tables import CHOICES

#: Columns of the choices table. Only `participant`, the two sentences and `rating` are required.
CHOICE_COLUMNS = CHOICES
_REQUIRED = ("participant", "sentence_1", "sentence_2", "rating")

#: Number of points of each rating scale that is known by name.
SCALES = {"2-point": 2, "4-point": 4, "6-point": 6, "7-point": 7}
#: Conditions whose trials check attention.
CATCH = ("catch", "natural_vs_shuffled", "attention")
_TOP = 2.5
_DECIMALS = 6


def _scale_values(points: int) -> frozenset[float]:
    return frozenset(np.round(np.linspace(-_TOP, _TOP, points), _DECIMALS).tolist())


_VALUES = {name: _scale_values(points) for name, points in SCALES.items()}


@dataclass(frozen=True)
class Cleaning:
    """What to do with rows that cannot be analysed; whatever is left out is put in a table.

    Attributes
    ----------
    missing_sentence, identical_sentences
        ``error`` or ``exclude``.
    repeated_trial
        A participant who saw one pair twice: ``error`` or ``keep_first``.
    """

    missing_sentence: str = "error"
    identical_sentences: str = "error"
    repeated_trial: str = "error"

    def __post_init__(self) -> None:
        offered = {"repeated_trial": ("error", "keep_first")}
        for name in ("missing_sentence", "identical_sentences", "repeated_trial"):
            known = offered.get(name, ("error", "exclude"))
            if getattr(self, name) not in known:
                raise UnknownNameError.among(f"value of {name}", getattr(self, name), known)


@dataclass(frozen=True, eq=False)
class RawChoices:
    """What an importer returns, for `finish` to clean, check and align.

    Attributes
    ----------
    table
        In the columns of the choices table, extra ones kept; the index holds the file's 0-based
        row numbers, for messages.
    cleaning
        What to do with rows that cannot be analysed.
    scale
        See `check_choices`.
    scores
        Model scores found in the file, one row a sentence and model, or None.
    notes
        Sentences on decisions taken while reading.
    """

    table: pd.DataFrame
    cleaning: Cleaning = field(default_factory=Cleaning)
    scale: str | None = None
    scores: pd.DataFrame | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class HumanData:
    """People's choices, ready for `evaluate`.

    Attributes
    ----------
    choices
        The validated and aligned choices table.
    scores
        Model scores found in the file, one row a sentence and model, or None.
    excluded
        Rows left out while reading: `rule`, `participant`, `n_rows`, `detail`.
    notes
        Sentences on decisions taken while reading.
    """

    choices: pd.DataFrame
    scores: pd.DataFrame | None = None
    excluded: pd.DataFrame = field(default_factory=lambda: empty_exclusions())
    notes: tuple[str, ...] = ()


def empty_exclusions() -> pd.DataFrame:
    """Return an exclusions table without rows."""
    return pd.DataFrame(
        {
            "rule": pd.Series(dtype="str"),
            "participant": pd.Series(dtype="str"),
            "n_rows": pd.Series(dtype="int64"),
            "detail": pd.Series(dtype="str"),
        }
    )


def stack_exclusions(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return exclusions tables one after the other."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else empty_exclusions()


def name_rows(bad: pd.Series, most: int = 5) -> str:
    """Name the rows where `bad` holds, counted from 1: ``rows 3, 8 and 12``.

    The index of `bad` holds 0-based row numbers of the file, so that rows keep their numbers
    after others were left out.
    """
    numbers = (np.asarray(bad.index)[bad.to_numpy(dtype=bool)] + 1).tolist()
    shown = [str(n) for n in numbers[:most]]
    if len(numbers) > most:
        return f"rows {', '.join(shown)} and {len(numbers) - most} more"
    if len(shown) == 1:
        return f"row {shown[0]}"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}"


def rescale(codes: Sequence[float] | pd.Series, low: float, high: float) -> pd.Series:
    """Map codes from `low` (sure of sentence 1) to `high` (sure of sentence 2) to -2.5 ... 2.5.

    The map is linear, so six codes 1 to 6 become -2.5, -1.5, -0.5, 0.5, 1.5, 2.5 and the two
    codes of a forced choice become -2.5 and 2.5. A reversed scale has ``low > high``.

    Raises
    ------
    InputError
        If a code is not a number or lies outside the scale; the message names the rows.

    Examples
    --------
    >>> rescale([1, 4, 7], low=1, high=7).to_list()
    [-2.5, 0.0, 2.5]
    """
    if low == high:
        raise InputError(f"a rating scale needs two different ends, got {low} and {high}")
    series = pd.Series(codes)
    numbers = pd.to_numeric(series, errors="coerce").astype(float)
    bad = ~((numbers >= min(low, high)) & (numbers <= max(low, high)))
    if bad.any():
        value = series[bad].astype("str").iloc[0]
        raise InputError(
            f"rating {value} is not on the scale from {low:g} to {high:g} ({name_rows(bad)})"
        )
    # Opposite ends of a scale must have the same size to the last bit, or they would not tie.
    return (((numbers - low) / (high - low) * 2 - 1) * _TOP).round(_DECIMALS)


def clean_choices(
    table: pd.DataFrame, cleaning: Cleaning = Cleaning()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take out the rows that `cleaning` lets go and return the rest and the exclusions table."""
    _need_columns(table)
    kept, excluded = table, []

    def take_out(rule: str, bad: pd.Series, detail: str) -> None:
        nonlocal kept
        if bad.any():
            counts = kept.loc[bad, "participant"].astype("str").value_counts(sort=False)
            for participant, n_rows in counts.items():
                excluded.append((rule, str(participant), int(n_rows), detail))
            kept = kept.loc[~bad]

    if cleaning.missing_sentence == "exclude":
        take_out("missing sentence", _missing_text(kept), "a sentence has no text in the file")
    if cleaning.identical_sentences == "exclude":
        bad = kept["sentence_1"] == kept["sentence_2"]
        take_out("identical sentences", bad, "both sentences of the pair are the same")
    if cleaning.repeated_trial == "keep_first":
        take_out("repeated trial", _repeated(kept), "the first answer to the pair was kept")
    columns = list(empty_exclusions().columns)
    report = pd.DataFrame(excluded, columns=columns) if excluded else empty_exclusions()
    return kept, report


def check_choices(table: pd.DataFrame, scale: str | None = None) -> pd.DataFrame:
    """Validate a choices table and return it in the standard columns, extra ones kept.

    Messages number rows from 1, the first after the header; rows that were left out before keep
    their numbers, by way of the table's index.

    Parameters
    ----------
    table
        One row a trial and participant, see `CHOICE_COLUMNS`. `group` defaults to one group,
        `trial` to the order of rows, `condition` to ``all trials``.
    scale
        ``6-point`` and so on, or ``slider`` for any rating within -2.5 ... 2.5; by default the
        known scale that holds every rating.

    Raises
    ------
    InputError
        For missing columns or sentences, unknown rating values, mixed rating scales, a
        participant with one pair twice, one pair under two conditions or two pairs of models,
        and two identical sentences in a pair. The message names the rows.
    """
    _need_columns(table)
    if table.empty:
        raise InputError("the choices table has no rows; nothing can be evaluated")
    out = table.copy()
    if not (pd.api.types.is_integer_dtype(out.index) and out.index.is_unique):
        out = out.reset_index(drop=True)
    bad = out["participant"].isna()
    if bad.any():
        raise InputError(f"a row has no participant ({name_rows(bad)})")
    bad = _missing_text(out)
    if bad.any():
        raise InputError(
            f"a sentence is missing ({name_rows(bad)}); "
            "fill it in or read with missing_sentence='exclude'"
        )
    for column in ("sentence_1", "sentence_2"):
        out[column] = out[column].astype("str").str.split().str.join(" ")
    bad = out["sentence_1"] == out["sentence_2"]
    if bad.any():
        text = out.loc[bad, "sentence_1"].iloc[0]
        raise InputError(f"both sentences of a pair are {text!r} ({name_rows(bad)})")
    out["rating"] = _checked_ratings(out, scale)
    out["participant"] = out["participant"].astype("str")
    defaults = {"group": "1", "condition": "all trials"}
    for column, value in defaults.items():
        if column not in out:
            out[column] = value
        out[column] = out[column].fillna(value).astype("str")
    if "trial" not in out:
        out["trial"] = out.groupby("participant").cumcount() + 1
    for column in ("model_1", "model_2", "rt_ms"):
        if column not in out:
            out[column] = np.nan
    for column in ("model_1", "model_2"):
        out[column] = out[column].astype("str").where(out[column].notna())
    half = out["model_1"].isna() != out["model_2"].isna()
    if half.any():
        raise InputError(f"a pair names one model but not the other ({name_rows(half)})")
    same = out["model_1"].notna() & (out["model_1"] == out["model_2"])
    if same.any():
        raise InputError(f"model_1 and model_2 of a pair are the same ({name_rows(same)})")
    out["rt_ms"] = pd.to_numeric(out["rt_ms"], errors="coerce")
    groups = out.groupby("participant")["group"].nunique()
    if (groups > 1).any():
        who = groups.index[groups > 1][0]
        raise InputError(f"participant {who!r} is in {groups[who]} groups; each belongs to one")
    bad = _repeated(out)
    if bad.any():
        who = out.loc[bad, "participant"].iloc[0]
        raise InputError(
            f"participant {who!r} has one pair twice ({name_rows(bad)}); "
            "remove one or read with repeated_trial='keep_first'"
        )
    others = [column for column in out.columns if column not in CHOICE_COLUMNS]
    return out[[*CHOICE_COLUMNS, *others]]


def align_choices(table: pd.DataFrame) -> pd.DataFrame:
    """Put the two sentences of every pair in code-point order and turn the rating accordingly.

    A turned row exchanges every pair of columns that end in ``_1`` and ``_2``, changes the sign
    of the rating, and exchanges 1 and 2 in `expected`, left and right in `side_1`.

    Raises
    ------
    InputError
        If one pair has two conditions or two pairs of models.
    """
    out = table.copy()
    turn = (out["sentence_1"].astype(object) > out["sentence_2"].astype(object)).to_numpy(bool)
    for column in [c for c in out.columns if c.endswith("_1")]:
        partner = column[:-2] + "_2"
        if partner in out.columns:
            first, second = out[column].copy(), out[partner].copy()
            kind = first.dtype if first.dtype == second.dtype else object
            out[column] = first.where(~turn, second).astype(kind)
            out[partner] = second.where(~turn, first).astype(kind)
    out["rating"] = out["rating"].where(~turn, -out["rating"])
    if "expected" in out.columns:
        out["expected"] = out["expected"].where(~turn, 3 - out["expected"])
    if "side_1" in out.columns and "side_2" not in out.columns:
        other = out["side_1"].map({"left": "right", "right": "left"})
        out["side_1"] = out["side_1"].where(~turn, other)
    for columns, what in ((["condition"], "conditions"), (["model_1", "model_2"], "model pairs")):
        keys = ["sentence_1", "sentence_2"]
        distinct = out[[*keys, *columns]].drop_duplicates()
        clash = distinct.duplicated(keys)
        if clash.any():
            row = distinct.loc[clash].iloc[0]
            rows = (out["sentence_1"] == row["sentence_1"]) & (
                out["sentence_2"] == row["sentence_2"]
            )
            raise InputError(
                f"the pair {row['sentence_1']!r} / {row['sentence_2']!r} has conflicting {what} "
                f"({name_rows(rows)}); give each pair one"
            )
    return out.reset_index(drop=True)


def finish(raw: RawChoices) -> HumanData:
    """Clean, check and align what an importer read.

    Raises
    ------
    InputError
        As `check_choices` and `align_choices`.
    """
    kept, excluded = clean_choices(raw.table, raw.cleaning)
    choices = align_choices(check_choices(kept, raw.scale))
    return HumanData(choices, raw.scores, excluded, tuple(raw.notes))


def require_aligned(table: pd.DataFrame) -> None:
    """Raise ValidationError unless `align_choices` has put every pair in order."""
    if (table["sentence_1"].astype(object) > table["sentence_2"].astype(object)).any():
        raise ValidationError("the choices table is not aligned; call align_choices first")


def _need_columns(table: pd.DataFrame) -> None:
    lacking = [column for column in _REQUIRED if column not in table.columns]
    if lacking:
        raise InputError(
            f"the choices table lacks the column {lacking[0]!r}; it has "
            + ", ".join(repr(str(c)) for c in table.columns)
        )


def _missing_text(table: pd.DataFrame) -> pd.Series:
    bad = pd.Series(False, index=table.index)
    for column in ("sentence_1", "sentence_2"):
        bad |= table[column].isna() | (table[column].astype("str").str.strip() == "")
    return bad


def _repeated(table: pd.DataFrame) -> pd.Series:
    first = table["sentence_1"].astype(object)
    second = table["sentence_2"].astype(object)
    turn = (first.fillna("") > second.fillna("")).astype(bool)
    keys = pd.DataFrame(
        {
            "participant": table["participant"].astype("str"),
            "a": first.where(~turn, second),
            "b": second.where(~turn, first),
        }
    )
    return keys.duplicated()


def _checked_ratings(table: pd.DataFrame, scale: str | None) -> pd.Series:
    ratings = pd.to_numeric(table["rating"], errors="coerce").astype(float).round(_DECIMALS)
    bad = ~((ratings >= -_TOP) & (ratings <= _TOP))
    if bad.any():
        value = table.loc[bad, "rating"].astype("str").iloc[0]
        raise InputError(
            f"rating {value} is not between -2.5 and 2.5 ({name_rows(bad)}); "
            "say which scale the file uses so that it can be mapped"
        )
    if scale == "slider":
        return ratings
    if scale is not None:
        if scale not in _VALUES:
            raise UnknownNameError.among("rating scale", scale, [*_VALUES, "slider"])
        bad = ~ratings.isin(_VALUES[scale])
        if bad.any():
            raise InputError(
                f"rating {ratings[bad].iloc[0]:g} is not on the {scale} scale ({name_rows(bad)})"
            )
        return ratings
    found = frozenset(ratings.unique().tolist())
    if any(found <= values for values in _VALUES.values()):
        return ratings
    known = frozenset().union(*_VALUES.values())
    unknown = ~ratings.isin(known)
    if unknown.any():
        raise InputError(
            f"rating {ratings[unknown].iloc[0]:g} is on no known scale ({name_rows(unknown)}); "
            "for a slider say scale='slider'"
        )
    largest = max(_VALUES, key=lambda name: int(ratings.isin(_VALUES[name]).sum()))
    odd = ~ratings.isin(_VALUES[largest])
    raise InputError(
        f"the ratings mix scales: most are {largest}, but not {ratings[odd].iloc[0]:g} "
        f"({name_rows(odd)}); analyse them apart or say scale='slider'"
    )
