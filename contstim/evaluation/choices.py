"""The choices table: validation, cleaning, and the canonical order of sentence pairs.

One row is one trial of one participant; see `contstim.evaluation.ratings` for the ratings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pandas as pd
from scipy.stats import binom

from contstim.arrays import BoolArray
from contstim.columns import CHOICES
from contstim.display import displayable
from contstim.errors import InputError, NoDataError, ValidationError
from contstim.evaluation.items import assign_items
from contstim.evaluation.ratings import check_ratings
from contstim.evaluation.rows import ExclusionLog, concat_exclusions, format_rows, refuse_rows
from contstim.settings import settings, validate_choice
from contstim.tables import MISSING, require_columns
from contstim.text.normalise import normalise_labels, normalise_sentences
from contstim.trial_kinds import CATCH, EXPERIMENTAL, add_trial_kinds, format_kinds

#: Columns of the choices table.
CHOICE_COLUMNS = CHOICES
#: Columns that must be given; `check_choices` fills in the others.
REQUIRED = ("participant", "sentence_1", "sentence_2", "rating")

_SENTENCES = ["sentence_1", "sentence_2"]
# A rating scale is refused as reversed if the proportion of correct catch trials is below the first
# number, and the probability of so few correct trials by guessing is below the second.
_MAX_REVERSED_SHARE, _MAX_REVERSED_PROBABILITY = 1 / 3, 0.001
# Response times with a smaller median are probably in seconds.
_MIN_MEDIAN_MS = 50
# Maximum response time; 10^9 ms are twelve days.
_MAX_TIME_MS = 1e9
_Action = Annotated[str, validate_choice(("error", "exclude"))]
_RepeatAction = Annotated[str, validate_choice(("error", "keep_first"))]
# Columns that must be equal in all rows of a sentence pair, by their description in messages.
_PAIR_COLUMNS = {
    "conditions": ["condition"],
    "model pairs": ["model_1", "model_2"],
    "kinds": ["kind"],
    "expected sentences": ["expected"],
}
# Advice if rows of a pair differ in these columns.
_CONFLICT_HINTS = {
    "conditions": "; if the condition describes participants, rename its column and pass the new "
    "name as a condition",
    "expected sentences": "; if 1 is the left one, name the column that says where sentence 1 was",
}


@settings
class CleaningRules:
    """Treatment of rows that cannot be analysed.

    Attributes
    ----------
    missing_sentence
        Treatment of rows in which a sentence has no text: ``error`` or ``exclude``.
    identical_sentences
        Treatment of rows with two identical sentences: ``error`` or ``exclude``.
    repeated_trial
        Treatment of rows with a pair that the participant has judged before: ``error`` or
        ``keep_first``.

    Examples
    --------
    >>> table = pd.DataFrame(
    ...     {"participant": ["p1", "p1"], "sentence_1": "We won.", "sentence_2": ["He won.", None]}
    ... )
    >>> rules = CleaningRules(missing_sentence="exclude")
    >>> remaining, exclusions = clean_choices(table.assign(rating=2.5), rules)
    >>> len(remaining), exclusions["rule"].tolist()
    (1, ['missing sentence'])
    """

    missing_sentence: _Action = "error"
    identical_sentences: _Action = "error"
    repeated_trial: _RepeatAction = "error"


@displayable
@dataclass(frozen=True, eq=False)
class RawChoices:
    """Choices as read by an importer, before they are cleaned, checked and aligned.

    Attributes
    ----------
    table
        One row per trial and participant with the columns in `CHOICE_COLUMNS` and any further
        columns. The index contains the 0-based row numbers of the file.
    cleaning
        Treatment of rows that cannot be analysed.
    scale
        Name of the rating scale, see `check_choices`.
    scores
        Model scores in the file of choices, one row per sentence and one column per model; None if
        the file has no scores.
    notes
        Messages about automatic decisions and conversions of the importer, one sentence each; for
        example, which column contains the ratings.
    excluded
        Rows that the importer excluded, see `ExclusionLog.table`.
    """

    table: pd.DataFrame
    cleaning: CleaningRules = field(default_factory=CleaningRules)
    scale: str | None = None
    scores: pd.DataFrame | None = None
    notes: Sequence[str] = ()
    excluded: pd.DataFrame = field(default_factory=concat_exclusions)


@displayable
@dataclass(frozen=True, eq=False)
class HumanData:
    """Human choices that are ready for `evaluate`, as returned by `read_choices`.

    Attributes
    ----------
    choices
        Choices table, checked by `check_choices` and ordered by `align_choices`.
    scores
        Model scores in the file of choices, one row per sentence and one column per model; None if
        the file has no scores.
    excluded
        Rows excluded while reading, by rule and participant, with the columns `rule`,
        `participant`, `n_rows` and `detail`.
    notes
        Messages about automatic decisions and conversions of the importer, one sentence each; for
        example, which column contains the ratings.
    is_swapped
        Whether `align_choices` exchanged the two sentences of each row, with the index of
        `choices`; None if unknown.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> human = read_choices(datasets.simulated_choices())
    >>> human.choices["participant"].nunique(), len(human.excluded), human.scores is None
    (30, 0, True)
    """

    choices: pd.DataFrame
    scores: pd.DataFrame | None = None
    excluded: pd.DataFrame = field(default_factory=concat_exclusions)
    notes: tuple[str, ...] = ()
    is_swapped: pd.Series | None = None


def prepare_choices(raw: RawChoices) -> HumanData:
    """Clean, check and align the choices that an importer has read.

    Parameters
    ----------
    raw
        Choices table as read from a file, with the rules for rows that cannot be analysed.

    Returns
    -------
    HumanData
        Checked choices in which the sentences of a pair have the same order in all rows.

    Raises
    ------
    InputError
        If `check_choices` or `align_choices` refuses the choices, or catch trials show that the
        rating scale is reversed.
    """
    cleaned, excluded = clean_choices(raw.table, raw.cleaning)
    checked = check_choices(cleaned, raw.scale)
    # Remember which rows are exchanged, so that an export can restore the order of the file.
    choices, is_swapped = align_choices(checked), pd.Series(_needs_swap(checked))
    _refuse_reversed_scale(choices)
    notes = tuple(raw.notes)
    if "trial" not in raw.table:
        notes += ("trial: numbered by row order; if a column has the order, name it as trial.",)
    # State in a note if some trials are not experimental, since they are analysed separately.
    if (choices["kind"] != EXPERIMENTAL).any():
        notes += (f"Trials by kind: {format_kinds(choices)}.",)
    excluded = concat_exclusions(raw.excluded, excluded)
    return HumanData(choices, raw.scores, excluded, notes, is_swapped)


def clean_choices(table: pd.DataFrame, rules: CleaningRules) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exclude rows that cannot be analysed, as far as the cleaning rules allow their exclusion.

    Parameters
    ----------
    table
        Choices table, not yet checked.
    rules
        Rules for rows with a missing sentence, two identical sentences, or a repeated pair.

    Returns
    -------
    remaining : DataFrame
        Rows that are not excluded.
    excluded : DataFrame
        Number of excluded rows by rule and participant, see `ExclusionLog.table`.
    """
    require_columns(table, REQUIRED, "the choices table")
    # `log.remaining` contains the rows that have not been excluded so far.
    log = ExclusionLog(table.assign(participant=normalise_labels(table["participant"])))
    if rules.missing_sentence == "exclude":
        mask = lacks_sentence(log.remaining)
        log.exclude(mask, "missing sentence", "a sentence has no text in the file")
    if rules.identical_sentences == "exclude":
        first, second = (normalise_sentences(log.remaining[name]) for name in _SENTENCES)
        log.exclude(first == second, "identical sentences", "the two sentences are the same")
    if rules.repeated_trial == "keep_first":
        mask = _is_repeated(log.remaining)
        log.exclude(mask, "repeated trial", "the first answer to the pair was kept")
    return log.remaining, log.table


def check_choices(table: pd.DataFrame, scale: str | None = None) -> pd.DataFrame:
    """Validate a choices table and return it with the standard columns.

    Further columns are kept. Messages count rows from 1, the first row after the header.

    Parameters
    ----------
    table
        One row per trial and participant with the columns of `CHOICE_COLUMNS`; response times may
        be given in seconds in a column `rt_s`. By default, `group` is one group, `trial` the order
        of the rows, and `condition` is ``all trials``.
    scale
        Name of the rating scale, for example ``6-point``, or ``slider`` for any rating from -2.5
        to 2.5. By default, the ratings must fit any known scale.

    Raises
    ------
    InputError
        If columns or sentences are missing, ratings are invalid or mix scales, a response time or
        expected sentence is invalid, a group is missing in some rows, a participant has several
        answers to a pair, or both sentences of a pair are identical. The message names the rows.

    Examples
    --------
    >>> from contstim import datasets
    >>> check_choices(datasets.simulated_choices()).columns[:6].tolist()
    ['participant', 'group', 'trial', 'condition', 'sentence_1', 'sentence_2']
    """
    require_columns(table, REQUIRED, "the choices table")
    duplicates = table.columns[table.columns.duplicated()]
    if len(duplicates):
        raise InputError(f"the choices table has two columns {duplicates[0]!r}; keep one")
    if table.empty:
        raise NoDataError("the choices table has no rows; nothing can be evaluated")
    out = table.copy()
    # Messages compute row numbers from the index.
    if not (pd.api.types.is_integer_dtype(out.index) and out.index.is_unique):
        out = out.reset_index(drop=True)

    # Check the required columns: participants, sentences and ratings.
    refuse_rows(out["participant"].isna(), "a row has no participant ({rows})")
    refuse_rows(lacks_sentence(out), "a sentence is missing ({rows}); add it or leave the row out")
    for column in _SENTENCES:
        out[column] = normalise_sentences(out[column])
    is_identical = out["sentence_1"] == out["sentence_2"]
    refuse_rows(is_identical, "both sentences of a pair are {value!r} ({rows})", out["sentence_1"])
    out["rating"] = check_ratings(out["rating"], scale)
    out["participant"] = normalise_labels(out["participant"])

    # Check the optional columns, and add them if they are missing.
    if "rt_s" in out and "rt_ms" not in out:
        seconds = pd.to_numeric(out["rt_s"], errors="coerce")
        out["rt_ms"] = (seconds * 1000).where(seconds.notna(), out["rt_s"])
    if "group" in out and out["group"].notna().any():
        refuse_rows(out["group"].isna(), "a row has no group ({rows}); give every row one, or none")
    further_columns = [column for column in out.columns if column not in CHOICE_COLUMNS]
    if "trial" not in out:
        out["trial"] = out.groupby("participant").cumcount() + 1
    out = out.reindex(columns=[*CHOICE_COLUMNS, *further_columns])
    for column, default in (("group", "1"), ("condition", "all trials")):
        out[column] = normalise_labels(out[column].astype(object).fillna(default))
    model_1 = out["model_1"] = normalise_labels(out["model_1"])
    model_2 = out["model_2"] = normalise_labels(out["model_2"])
    has_one_model = model_1.isna() != model_2.isna()
    refuse_rows(has_one_model, "a pair names one model but not the other ({rows})")
    is_same_model = model_1.notna() & (model_1 == model_2)
    refuse_rows(is_same_model, "model_1 and model_2 of a pair are the same ({rows})")
    out["rt_ms"] = _check_times(out["rt_ms"])
    if "expected" in out:
        # The expected sentence is given by its number, or by its text.
        answers = out["expected"]
        texts = normalise_sentences(answers)
        is_first, is_second = texts == out["sentence_1"], texts == out["sentence_2"]
        number_of_text = np.select([is_first, is_second], [1.0, 2.0], np.nan)
        numbers: pd.Series = pd.to_numeric(answers, errors="coerce").astype(float)
        out["expected"] = numbers.where(numbers.notna(), number_of_text)
        refuse_rows(
            answers.notna() & ~out["expected"].isin([1, 2]),
            "expected must be 1 or 2, or one of the two sentences, not {value!r} ({rows})",
            answers,
        )
    out = assign_items(add_trial_kinds(out))

    n_groups = out.groupby("participant")["group"].nunique()
    if (n_groups > 1).any():
        name = n_groups.index[n_groups > 1][0]
        raise InputError(f"participant {name!r} is in {n_groups[name]} groups; each belongs to one")
    refuse_rows(
        _is_repeated(out),
        "participant {value!r} has several answers to the same pair ({rows}); keep one of them, or "
        "rename one participant if they are from two participants",
        out["participant"],
    )
    return out


def _check_times(column: pd.Series) -> pd.Series:
    """Convert response times in milliseconds to numbers; empty cells become NaN.

    InputError is raised if a time is not a number, is negative or exceeds 10^9 ms, or if the median
    is so small that the times seem to be seconds.
    """
    times = pd.to_numeric(column, errors="coerce")
    # Empty cells and texts such as "NA" mean that a time is unknown.
    is_present = column.notna() & ~column.astype("str").str.strip().isin(MISSING)
    refuse_rows(
        is_present & times.isna(),
        "rt_ms must be a number, not {value!r} ({rows}); leave it empty if unknown",
        column,
    )
    refuse_rows(
        is_present & ~times.between(0, _MAX_TIME_MS),
        "rt_ms is {value}, which is not a response time ({rows}); leave the cell empty if the time "
        "is unknown, or remove the column",
        column,
    )
    # Nobody decides within 50 ms, but the same times in seconds are plausible.
    if times.median() < _MIN_MEDIAN_MS:
        raise InputError(
            f"the median of rt_ms is {times.median():g} ms, so the times seem to be seconds; "
            "give them in a column rt_s, or remove the column"
        )
    return times


def align_choices(table: pd.DataFrame) -> pd.DataFrame:
    """Put the two sentences of each pair into a standard order, and adapt the ratings.

    A pair may have been shown in both orders. Afterwards, sentence 1 is the sentence that sorts
    first by Unicode code points. Where the sentences are exchanged, a rating r becomes -r, on the
    scale from -2.5 to 2.5 (`swap_sides` describes the changes of other columns).

    Parameters
    ----------
    table
        Choices table as returned by `check_choices`.

    Raises
    ------
    InputError
        If rows of one pair differ in condition, kind, targeted models or expected sentence.

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
    # Sentence 1 now sorts before sentence 2 in every row. All rows of a pair must describe it in
    # the same way, for example name the same models.
    for description, columns in _PAIR_COLUMNS.items():
        if not set(columns) <= set(out.columns):
            continue
        # The expected sentence may be missing in some rows of a pair.
        rows = out[out["expected"].notna()] if columns == ["expected"] else out
        # A pair of sentences that occurs twice here has two different descriptions.
        distinct = rows[[*_SENTENCES, *columns]].drop_duplicates()
        has_conflict = distinct.duplicated(_SENTENCES)
        if has_conflict.any():
            # Name the first such pair and its rows.
            first, second = distinct.loc[has_conflict, _SENTENCES].iloc[0]
            is_pair = (out["sentence_1"] == first) & (out["sentence_2"] == second)
            raise InputError(
                f"the pair {first!r} / {second!r} has conflicting {description} "
                f"({format_rows(is_pair)}); give each pair one"
                f"{_CONFLICT_HINTS.get(description, '')}"
            )
    return out.reset_index(drop=True)


def _needs_swap(table: pd.DataFrame) -> BoolArray:
    """Return a mask of the rows in which sentence 2 sorts before sentence 1.

    The order is by Unicode code points, as in `align_choices`.
    """
    first, second = (table[name].astype(object) for name in _SENTENCES)
    return np.asarray(first > second, dtype=np.bool_)


def require_aligned(table: pd.DataFrame) -> None:
    """Raise ValidationError unless all pairs are in the order of `align_choices`."""
    if _needs_swap(table).any():
        raise ValidationError("the choices table is not aligned; call align_choices first")


def swap_sides(table: pd.DataFrame, mask: BoolArray) -> pd.DataFrame:
    """Exchange sentence 1 and sentence 2 in some rows of a choices table.

    In these rows,

    - each column that ends in ``_1`` exchanges its content with the column that ends in ``_2``;
    - the numbers 1 and 2 in the column `expected` are exchanged;
    - left and right in the column `side_1` are exchanged, unless there is a column `side_2`;
    - the sign of the rating changes.

    Parameters
    ----------
    table
        Choices table.
    mask
        Whether to exchange the sentences of each row.

    Returns
    -------
    DataFrame
        Copy of the table.
    """
    out = table.rename(columns=str)
    # Exchange the contents of columns such as kind_1 and kind_2. `mask` selects the rows.
    for column in [c for c in out.columns if c.endswith("_1")]:
        partner = column[:-2] + "_2"
        if partner in out.columns:
            first, second = out[column].copy(), out[partner].copy()
            # Columns of different types are combined as objects, so that no value is converted.
            dtype = first.dtype if first.dtype == second.dtype else object
            out[column] = first.where(~mask, second).astype(dtype)
            out[partner] = second.where(~mask, first).astype(dtype)
    # A negative rating prefers sentence 1, so the sign changes with the order.
    out["rating"] = out["rating"].where(~mask, -out["rating"])
    # The number of the correct sentence: 1 becomes 2 and 2 becomes 1.
    if "expected" in out.columns:
        out["expected"] = out["expected"].where(~mask, 3 - out["expected"])
    if "side_1" in out.columns and "side_2" not in out.columns:
        other_side = out["side_1"].map({"left": "right", "right": "left"})
        out["side_1"] = out["side_1"].where(~mask, other_side)
    return out


def _refuse_reversed_scale(choices: pd.DataFrame) -> None:
    """Raise InputError if catch trials show that the rating scale is reversed.

    Catch trials have an obvious answer. If far fewer of them are correct than expected from
    guessing (binomial test with probability 1/2), the ends of the scale were probably exchanged
    when the data were read.
    """
    if "expected" not in choices:
        return
    # Use catch trials with a known correct sentence and a preference.
    trials = choices[(choices["kind"] == CATCH) & choices["expected"].notna()]
    trials = trials[trials["rating"] != 0]
    n_trials = len(trials)
    # A positive rating is a choice of sentence 2.
    n_correct = int(((trials["rating"] > 0) == (trials["expected"] == 2)).sum())
    # Guessing gives one half. Refuse if far fewer are correct, which chance does not explain.
    if (
        n_trials
        and n_correct / n_trials < _MAX_REVERSED_SHARE
        and binom.cdf(n_correct, n_trials, 0.5) < _MAX_REVERSED_PROBABILITY
    ):
        raise InputError(
            f"only {n_correct} of {n_trials} answers to catch trials are the expected ones, so the "
            "rating scale seems to be reversed; exchange low and high, or correct the column "
            "'expected'"
        )


def lacks_sentence(table: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows in which the text of one or both sentences is missing or blank."""
    texts = table[_SENTENCES].apply(normalise_sentences)
    is_missing: pd.Series = (texts.isna() | (texts == "")).any(axis=1)
    return is_missing


def _is_repeated(table: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows with a pair that the same participant judged in an earlier row.

    The order of the two sentences and differences in white space do not matter.
    """
    sentences = table[_SENTENCES].apply(normalise_sentences).astype(object).fillna("")
    # Sort the two sentences of each row, so that both orders of a pair are equal.
    sorted_sentences = np.sort(sentences.to_numpy(), axis=1)
    pairs = pd.DataFrame(sorted_sentences, index=table.index)
    return pairs.assign(participant=table["participant"].astype("str")).duplicated()
