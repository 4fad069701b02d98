"""The choices table: what people answered, validated, and each pair in one canonical order.

One row is one trial of one participant. Ratings are zero-centred, from -2.5 (very confident that
sentence 1 is likelier) to 2.5 (very confident of sentence 2); other scales are mapped to that
range linearly, so that a forced choice is -2.5 or 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pandas as pd
from scipy.stats import binom

from contstim.arrays import BoolArray
from contstim.display import displayed
from contstim.errors import InputError, NoDataError, ValidationError, require_known
from contstim.evaluation.items import assign_items
from contstim.settings import one_of, settings
from contstim.tables import CHOICES, MISSING, require_columns
from contstim.text.normalise import normalise_labels, normalise_sentences
from contstim.trial_kinds import CATCH, EXPERIMENTAL, add_kinds, format_kinds

#: Columns of the choices table.
CHOICE_COLUMNS = CHOICES
#: Those without which nothing is a choice; `check_choices` fills in the others.
REQUIRED = ("participant", "sentence_1", "sentence_2", "rating")

#: Number of points of each rating scale that is known by name.
SCALES = {"2-point": 2, "4-point": 4, "6-point": 6, "7-point": 7, "8-point": 8}
# Choices are refused if a smaller share of catch trials is right, and guessing would give so few
# less often than this.
_FEW_RIGHT, _BY_CHANCE = 1 / 3, 0.001
# Nobody looks at a sentence pair for less, on the median; nobody for twelve days.
_SHORTEST_MEDIAN_MS, _LONGEST_MS = 50, 1e9
_TOP = 2.5
_DECIMALS = 6
_VALUES = {
    name: frozenset(np.round(np.linspace(-_TOP, _TOP, points), _DECIMALS).tolist())
    for name, points in SCALES.items()
}
_WHAT_TO_DO = ("error", "exclude")
_EXCLUDED = {"rule": "str", "participant": "str", "n_rows": "int64", "detail": "str"}


@settings
class CleaningRules:
    """What to do with rows that cannot be analysed; whatever is left out is put in a table.

    Attributes
    ----------
    missing_sentence, identical_sentences
        ``error`` or ``exclude``.
    repeated_trial
        A participant who saw one pair twice: ``error`` or ``keep_first``.

    Examples
    --------
    >>> table = pd.DataFrame(
    ...     {"participant": ["p1", "p1"], "sentence_1": "We won.", "sentence_2": ["He won.", None]}
    ... )
    >>> cleaning = CleaningRules(missing_sentence="exclude")
    >>> kept, excluded = clean_choices(table.assign(rating=2.5), cleaning)
    >>> len(kept), excluded["rule"].tolist()
    (1, ['missing sentence'])
    """

    missing_sentence: Annotated[str, one_of(_WHAT_TO_DO, "value of missing_sentence")] = "error"
    identical_sentences: Annotated[str, one_of(_WHAT_TO_DO, "value of identical_sentences")] = (
        "error"
    )
    repeated_trial: Annotated[str, one_of(("error", "keep_first"), "value of repeated_trial")] = (
        "error"
    )


@displayed
@dataclass(frozen=True, eq=False)
class RawChoices:
    """What an importer returns, for `prepare_choices` to clean, check and align.

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
        Model scores found in the file, one row per sentence and model, or None.
    notes
        Sentences on decisions taken while reading.
    excluded
        What the importer left out, as `HumanData` has it.
    """

    table: pd.DataFrame
    cleaning: CleaningRules = field(default_factory=CleaningRules)
    scale: str | None = None
    scores: pd.DataFrame | None = None
    notes: Sequence[str] = ()
    excluded: pd.DataFrame = field(default_factory=lambda: concat_exclusions())


@displayed
@dataclass(frozen=True, eq=False)
class HumanData:
    """People's choices, ready for `evaluate`.

    Attributes
    ----------
    choices
        The validated and aligned choices table.
    scores
        Model scores found in the file, one row per sentence and model, or None.
    excluded
        Rows left out while reading: `rule`, `participant`, `n_rows`, `detail`.
    notes
        Sentences on decisions taken while reading.
    is_swapped
        In which rows the two sentences were exchanged while reading, see `align_choices`; by the
        index of `choices`. None if that is not known.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> human = read_choices(datasets.simulated_choices())
    >>> human.choices["participant"].nunique(), len(human.excluded), human.scores is None
    (30, 0, True)
    """

    choices: pd.DataFrame
    scores: pd.DataFrame | None = None
    excluded: pd.DataFrame = field(default_factory=lambda: concat_exclusions())
    notes: tuple[str, ...] = ()
    is_swapped: pd.Series | None = None


class ExclusionLog:
    """Choices from which rules take rows.

    Attributes
    ----------
    kept
        The choices that are left.
    """

    def __init__(self, choices: pd.DataFrame) -> None:
        self.kept = choices
        self._excluded: list[tuple[str, str, int, str]] = []

    def take_out(self, bad: pd.Series, rule: str, detail: str) -> None:
        """Take out the rows where `bad` holds, for a reason that `detail` gives."""
        counts = self.kept.loc[bad, "participant"].astype("str").value_counts(sort=False)
        self._excluded += [(rule, str(who), int(n), detail) for who, n in counts.items()]
        self.kept = self.kept.loc[~bad]

    @property
    def excluded(self) -> pd.DataFrame:
        """What was taken out, a row per rule and participant."""
        return pd.DataFrame(self._excluded, columns=list(_EXCLUDED)).astype(_EXCLUDED)


def concat_exclusions(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return exclusions tables one after the other."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else ExclusionLog(pd.DataFrame()).excluded


def format_rows(bad: pd.Series, most: int = 5) -> str:
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


def refuse_rows(bad: pd.Series, message: str, values: pd.Series | None = None) -> None:
    """Raise InputError if `bad` holds for any row.

    Parameters
    ----------
    bad
        See `format_rows`.
    message
        What is wrong, in which ``{rows}`` names the rows and ``{value}`` the first one's value.
    values
        Of all rows, for the message.
    """
    if bad.any():
        value = None if values is None else values[bad].tolist()[0]
        raise InputError(message.format(rows=format_rows(bad), value=value))


def rescale(codes: Sequence[float] | pd.Series, low: float, high: float) -> pd.Series:
    """Map codes from `low` (certain of sentence 1) to `high` (of sentence 2) to -2.5 ... 2.5.

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
    refuse_rows(
        ~numbers.between(min(low, high), max(low, high)),
        f"rating {{value}} is not on the scale from {low:g} to {high:g} ({{rows}})",
        series.astype("str"),
    )
    # Opposite ends of a scale must have the same size to the last bit, or they would not tie.
    return (((numbers - low) / (high - low) * 2 - 1) * _TOP).round(_DECIMALS)


def clean_choices(
    table: pd.DataFrame, cleaning: CleaningRules
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take out the rows that `cleaning` lets go and return the rest and the exclusions table."""
    require_columns(table, REQUIRED, "the choices table")
    sieve = ExclusionLog(table.assign(participant=normalise_labels(table["participant"])))
    if cleaning.missing_sentence == "exclude":
        bad = lacks_sentence(sieve.kept)
        sieve.take_out(bad, "missing sentence", "a sentence has no text in the file")
    if cleaning.identical_sentences == "exclude":
        bad = normalise_sentences(sieve.kept["sentence_1"]) == normalise_sentences(
            sieve.kept["sentence_2"]
        )
        sieve.take_out(bad, "identical sentences", "both sentences of the pair are the same")
    if cleaning.repeated_trial == "keep_first":
        bad = _repeated(sieve.kept)
        sieve.take_out(bad, "repeated trial", "the first answer to the pair was kept")
    return sieve.kept, sieve.excluded


def check_choices(table: pd.DataFrame, scale: str | None = None) -> pd.DataFrame:
    """Validate a choices table and return it in the standard columns, extra ones kept.

    Messages number rows from 1, the first after the header; rows that were left out before keep
    their numbers, by way of the table's index.

    Parameters
    ----------
    table
        One row per trial and participant, see `CHOICE_COLUMNS`; for `rt_ms` there may be `rt_s`, in
        seconds. `group` defaults to one group if
        no row has any, `trial` to the order of rows, `condition` to ``all trials``.
    scale
        ``6-point`` and so on, or ``slider`` for any rating within -2.5 ... 2.5; by default the
        known scale that holds every rating.

    Raises
    ------
    InputError
        For missing columns or sentences, unknown rating values, mixed rating scales, a group that
        only some rows have, an `rt_ms` that is no time in milliseconds, an `expected` sentence
        that is neither 1 nor 2, a participant with one pair twice, and two identical sentences in
        a pair. The message names the rows.

    Examples
    --------
    >>> from contstim import datasets
    >>> check_choices(datasets.simulated_choices()).columns[:6].tolist()
    ['participant', 'group', 'trial', 'condition', 'sentence_1', 'sentence_2']
    """
    require_columns(table, REQUIRED, "the choices table")
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"the choices table has two columns {twice[0]!r}; keep one")
    if table.empty:
        raise NoDataError("the choices table has no rows; nothing can be evaluated")
    out = table.copy()
    if not (pd.api.types.is_integer_dtype(out.index) and out.index.is_unique):
        out = out.reset_index(drop=True)
    refuse_rows(out["participant"].isna(), "a row has no participant ({rows})")
    refuse_rows(
        lacks_sentence(out),
        "a sentence is missing ({rows}); fill it in or leave the row out",
    )
    for column in ("sentence_1", "sentence_2"):
        out[column] = normalise_sentences(out[column])
    same = out["sentence_1"] == out["sentence_2"]
    refuse_rows(same, "both sentences of a pair are {value!r} ({rows})", out["sentence_1"])
    out["rating"] = _checked_ratings(out, scale)
    out["participant"] = normalise_labels(out["participant"])
    if "rt_s" in out and "rt_ms" not in out:
        seconds = pd.to_numeric(out["rt_s"], errors="coerce")
        out["rt_ms"] = (seconds * 1000).where(seconds.notna(), out["rt_s"])
    if "group" in out and out["group"].notna().any():
        refuse_rows(
            out["group"].isna(), "a row has no group ({rows}); give one to every row, or to none"
        )
    others = [column for column in out.columns if column not in CHOICE_COLUMNS]
    if "trial" not in out:
        out["trial"] = out.groupby("participant").cumcount() + 1
    out = out.reindex(columns=[*CHOICE_COLUMNS, *others])
    for column, value in (("group", "1"), ("condition", "all trials")):
        out[column] = normalise_labels(out[column].astype(object).fillna(value))
    for column in ("model_1", "model_2"):
        out[column] = normalise_labels(out[column])
    first, second = out["model_1"], out["model_2"]
    refuse_rows(first.isna() != second.isna(), "a pair names one model but not the other ({rows})")
    same = first.notna() & (first == second)
    refuse_rows(same, "model_1 and model_2 of a pair are the same ({rows})")
    out["rt_ms"] = _checked_times(out["rt_ms"])
    if "expected" in out:
        given = out["expected"]
        out["expected"] = _expected(out)
        odd = given.notna() & ~out["expected"].isin([1, 2])
        refuse_rows(
            odd,
            "expected must be 1 or 2, or one of the two sentences, not {value!r} ({rows})",
            given,
        )
    out = assign_items(add_kinds(out))
    groups = out.groupby("participant")["group"].nunique()
    if (groups > 1).any():
        who = groups.index[groups > 1][0]
        raise InputError(f"participant {who!r} is in {groups[who]} groups; each belongs to one")
    refuse_rows(
        _repeated(out),
        "participant {value!r} has one pair twice ({rows}); leave one of the rows out, or, if they "
        "are of two people, call these differently",
        out["participant"],
    )
    return out


def _expected(table: pd.DataFrame) -> pd.Series:
    """Return which sentence is expected, 1 or 2, of which the text may be given; else a number."""
    texts = normalise_sentences(table["expected"])
    by_text = np.select(
        [texts == table[name] for name in ("sentence_1", "sentence_2")], [1.0, 2.0], np.nan
    )
    numbers: pd.Series = pd.to_numeric(table["expected"], errors="coerce").astype(float)
    return numbers.where(numbers.notna(), by_text)


def _checked_times(given: pd.Series) -> pd.Series:
    times = pd.to_numeric(given, errors="coerce")
    stated = given.notna() & ~given.astype("str").str.strip().isin(MISSING)
    refuse_rows(
        stated & times.isna(),
        "rt_ms must be a number, not {value!r} ({rows}); leave it empty if unknown",
        given,
    )
    refuse_rows(
        stated & ~times.between(0, _LONGEST_MS),
        "rt_ms is {value}, which is no response time ({rows}); leave it empty where it is not "
        "known, or the whole column out",
        given,
    )
    if times.median() < _SHORTEST_MEDIAN_MS:
        raise InputError(
            f"the median of rt_ms is {times.median():g} ms, so that the times seem to be seconds; "
            "give them in a column rt_s, or leave the column out"
        )
    return times


def align_choices(table: pd.DataFrame) -> pd.DataFrame:
    """Put the two sentences of every pair in code-point order and turn the rating accordingly.

    Raises
    ------
    InputError
        If one pair has two conditions, kinds, pairs of models or expected sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"participant": ["p1"], "sentence_1": "We won.", "sentence_2": "He won.", "rating": 2.5}
    ... )
    >>> align_choices(check_choices(table))[["sentence_1", "sentence_2", "rating"]]
      sentence_1 sentence_2  rating
    0    He won.    We won.    -2.5
    """
    out = swap_sides(table, _needs_swap(table))
    hint_sides = "; if 1 is the left one, name the column that says where sentence 1 was"
    of_people = (
        "; a condition of participants is no column 'condition'; name its column as a condition"
    )
    for columns, what, hint in (
        (["condition"], "conditions", of_people),
        (["model_1", "model_2"], "model pairs", ""),
        (["kind"], "kinds", ""),
        (["expected"], "expected sentences", hint_sides),
    ):
        keys = ["sentence_1", "sentence_2"]
        if not {*columns} <= {*out.columns}:
            continue
        stated = out if columns != ["expected"] else out[out["expected"].notna()]
        distinct = stated[[*keys, *columns]].drop_duplicates()
        clash = distinct.duplicated(keys)
        if clash.any():
            row = distinct.loc[clash].iloc[0]
            rows = (out["sentence_1"] == row["sentence_1"]) & (
                out["sentence_2"] == row["sentence_2"]
            )
            raise InputError(
                f"the pair {row['sentence_1']!r} / {row['sentence_2']!r} has conflicting {what} "
                f"({format_rows(rows)}); give each pair one{hint}"
            )
    return out.reset_index(drop=True)


def _needs_swap(table: pd.DataFrame) -> BoolArray:
    first, second = (table[name].astype(object) for name in ("sentence_1", "sentence_2"))
    return np.asarray(first > second, dtype=np.bool_)


def swap_sides(table: pd.DataFrame, turn: BoolArray) -> pd.DataFrame:
    """Return choices with the pairs of some rows turned round.

    A turned row exchanges every pair of columns that end in ``_1`` and ``_2``, changes the sign
    of the rating, and exchanges 1 and 2 in `expected`, left and right in `side_1`.

    Parameters
    ----------
    table
        The choices.
    turn
        Which rows, shape (R,).
    """
    out = table.rename(columns=str)
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
    return out


def prepare_choices(raw: RawChoices) -> HumanData:
    """Clean, check and align what an importer read.

    Raises
    ------
    InputError
        As `check_choices` and `align_choices`, and if catch trials show that the scale is turned
        round.
    """
    cleaned, excluded = clean_choices(raw.table, raw.cleaning)
    checked = check_choices(cleaned, raw.scale)
    choices, turned = align_choices(checked), pd.Series(_needs_swap(checked))
    _refuse_reversed_scale(choices)
    excluded = concat_exclusions(raw.excluded, excluded)
    notes = tuple(raw.notes)
    if (choices["kind"] != EXPERIMENTAL).any():
        notes += (f"Trials by kind: {format_kinds(choices)}.",)
    return HumanData(choices, raw.scores, excluded, notes, turned)


def _refuse_reversed_scale(choices: pd.DataFrame) -> None:
    """Refuse choices of which far fewer catch trials are right than guessing would give."""
    if "expected" not in choices:
        return
    checks = choices[(choices["kind"] == CATCH) & choices["expected"].notna()]
    checks = checks[checks["rating"] != 0]
    n, n_right = len(checks), int(((checks["rating"] > 0) == (checks["expected"] == 2)).sum())
    if n and n_right / n < _FEW_RIGHT and binom.cdf(n_right, n, 0.5) < _BY_CHANCE:
        raise InputError(
            f"only {n_right} of {n} answers to catch trials are the expected ones, so that the "
            "scale seems to be turned round; exchange low and high, or correct the column "
            "'expected'"
        )


def require_aligned(table: pd.DataFrame) -> None:
    """Raise ValidationError unless `align_choices` has put every pair in order."""
    if _needs_swap(table).any():
        raise ValidationError("the choices table is not aligned; call align_choices first")


def lacks_sentence(table: pd.DataFrame) -> pd.Series:
    """Return in which rows one of the two sentences has no text."""
    texts = table[["sentence_1", "sentence_2"]]
    blank = texts.astype("str").apply(lambda column: column.str.strip() == "")
    missing: pd.Series = (texts.isna() | blank).any(axis=1)
    return missing


def _repeated(table: pd.DataFrame) -> pd.Series:
    """Return in which rows a participant has a pair again, in whatever order its sentences are."""
    texts = table[["sentence_1", "sentence_2"]].apply(normalise_sentences).astype(object).fillna("")
    keys = pd.DataFrame(np.sort(texts.to_numpy(), axis=1), index=table.index)
    return keys.assign(participant=table["participant"].astype("str")).duplicated()


def is_on_known_scale(ratings: pd.Series) -> bool:
    """Return whether one of `SCALES`, on -2.5 ... 2.5, holds all ratings."""
    return any(ratings.round(_DECIMALS).isin(values).all() for values in _VALUES.values())


def _checked_ratings(table: pd.DataFrame, scale: str | None) -> pd.Series:
    ratings = pd.to_numeric(table["rating"], errors="coerce").astype(float).round(_DECIMALS)
    refuse_rows(
        ~ratings.between(-_TOP, _TOP),
        "rating {value} is not between -2.5 and 2.5 ({rows}); "
        "give the answers that mean certain of sentence 1 and of 2, such as low 1 and high 7",
        table["rating"].astype("str"),
    )
    if scale == "slider":
        return ratings
    if scale is not None:
        require_known("rating scale", scale, [*_VALUES, "slider"])
        message = f"rating {{value:g}} is not on the {scale} scale ({{rows}})"
        refuse_rows(~ratings.isin(_VALUES[scale]), message, ratings)
        return ratings
    if is_on_known_scale(ratings):
        return ratings
    refuse_rows(
        ~ratings.isin(frozenset().union(*_VALUES.values())),
        "rating {value:g} is on no known scale ({rows}); give the answers that mean certain of "
        "sentence 1 and of 2, such as low 1 and high 7",
        ratings,
    )
    largest = max(_VALUES, key=lambda name: int(ratings.isin(_VALUES[name]).sum()))
    refuse_rows(
        ~ratings.isin(_VALUES[largest]),
        f"the ratings mix scales: most are {largest}, but not {{value:g}} ({{rows}}); "
        "analyse them apart or say scale='slider'",
        ratings,
    )
    return ratings
