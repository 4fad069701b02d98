"""Conversion of recorded answers to ratings."""

from __future__ import annotations

import math

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.importers.read_call import ReadCall
from contstim.evaluation.ratings import is_on_known_scale, rescale
from contstim.evaluation.rows import format_rows, refuse_rows
from contstim.tables import require_columns

_MAX_SHOWN_ANSWERS = 4


def has_codes(ratings: pd.Series) -> bool:
    """Return whether answers are response codes, which must be converted to ratings.

    A rating states how strongly a participant prefers one of two sentences, on a scale of this
    library such as -2.5, -1.5, ..., 2.5. A response code is the answer as the experiment program
    recorded it, for example the label of a button or a number from 1 to 7.

    Parameters
    ----------
    ratings
        Recorded answers. Text is always a code. Numbers are codes if all of them are integers and
        they do not fit any rating scale of this library.
    """
    numbers = pd.to_numeric(ratings.dropna(), errors="coerce")
    if numbers.isna().any():
        return True
    return bool((numbers % 1 == 0).all()) and not is_on_known_scale(numbers)


def guess_scale_ends(answers: pd.Series) -> dict[str, object]:
    """Guess the two ends of a response scale, to propose them in an error message.

    If all answers are numbers, the guess is their minimum and maximum. If there are exactly two
    different answers, the guess is these answers in alphabetical order.

    Parameters
    ----------
    answers
        Recorded answers; missing answers are ignored.

    Returns
    -------
    dict
        The ends as `low` and `high`; empty if no guess is possible.
    """
    # Numbers: propose the smallest and the largest answer. Two texts: propose both.
    numbers = pd.to_numeric(answers, errors="coerce").dropna()
    if len(numbers) and len(numbers) == answers.notna().sum():
        return {"low": float(numbers.min()), "high": float(numbers.max())}
    codes = sorted(set(answers.dropna().astype("str")))
    return {"low": codes[0], "high": codes[1]} if len(codes) == 2 else {}


def count_buttons(
    data: pd.DataFrame, program: str | None, n_choices: int | None, call: ReadCall
) -> pd.Series | None:
    """Return how many response buttons were shown in each trial.

    Some programs, such as jsPsych, record which button was pressed as a number, counted from 0.
    This number can be converted to a rating only if the total number of buttons is known. Numeric
    responses are taken to be button numbers if the table was written by jsPsych, or if
    `n_choices` or the column `n_choices` is given.

    Parameters
    ----------
    data
        Table with one trial per row, a column `response`, and optionally a column `n_choices` with
        the number of buttons.
    program
        Name of the program that wrote the table, or None if it is unknown.
    n_choices
        Number of buttons in rows without a value in the column `n_choices`; None if unknown.
    call
        Call that read the table. Error messages repeat it with the missing argument.

    Returns
    -------
    Series or None
        Number of buttons in each row. None if the responses are not taken to be button numbers.

    Raises
    ------
    InputError
        If a number of buttons is missing, or is not an integer of at least 2.
    """
    has_buttons = n_choices is not None or "n_choices" in data or program == "jsPsych"
    if not has_buttons or pd.to_numeric(data["response"], errors="coerce").isna().any():
        return None
    # Number of buttons in each row: the column has priority over the argument.
    n_buttons = pd.Series(n_choices, index=data.index, dtype=object)
    if "n_choices" in data:
        column = data["n_choices"]
        n_buttons = column.astype(object).where(column.notna(), n_buttons)
    refuse_rows(
        n_buttons.isna(),
        "the data do not say how many buttons there were ({rows}); add a column 'n_choices', or "
        f"give the number: {call.format_with(n_choices=2)}",
    )
    # There are at least two buttons, and their number is an integer.
    numeric = pd.to_numeric(n_buttons, errors="coerce").astype(float)
    is_valid = (numeric >= 2) & (numeric % 1 == 0)
    message = "n_choices {value!r} is not a number of buttons, at least 2 ({rows})"
    refuse_rows(~is_valid, message, n_buttons)
    return numeric


def convert_answers(
    data: pd.DataFrame,
    sentences: pd.DataFrame,
    is_left: pd.Series | None,
    ends: tuple[str | float | None, str | float | None],
    n_buttons: pd.Series | None,
    call: ReadCall,
) -> tuple[pd.Series, str]:
    """Convert recorded answers to ratings from -2.5 (sentence 1) to 2.5 (sentence 2).

    The first interpretation that fits is used:

    1. Every answer is the text of one of the two sentences.
    2. Every answer is ``left`` or ``right``.
    3. Answers are codes on the scale between `ends`.
    4. Answers are numbers of buttons, counted from 0.
    5. Answers are codes on a scale with the ends `scale_low` and `scale_high` of the same row.

    Parameters
    ----------
    data
        Table with one trial per row, a column `response`, and optionally the columns `scale_low`
        and `scale_high`.
    sentences
        Columns `sentence_1` and `sentence_2` of the same rows.
    is_left
        Whether sentence 1 was on the left of the screen. Answers then refer to the left and the
        right sentence. None if answers refer to sentences 1 and 2.
    ends
        Answers for the strongest preference for the first (or left) sentence, and for the second
        (or right) one. None for an unknown answer.
    n_buttons
        Number of buttons in each trial; None if answers are not button numbers.
    call
        Call that read the table. Error messages repeat it with the missing argument.

    Returns
    -------
    ratings : Series
        Rating of each row.
    description : str
        Sentence that states how answers were interpreted.

    Raises
    ------
    InputError
        If no interpretation fits, or an answer is invalid. The message contains the call that
        states the meaning of the answers.
    """
    # 1. Texts of sentences.
    answers = data["response"]
    text = answers.astype("str").str.strip()
    is_first = text == sentences["sentence_1"].astype("str").str.strip()
    is_second = text == sentences["sentence_2"].astype("str").str.strip()
    if (is_first | is_second).all():
        return is_second.map({True: 2.5, False: -2.5}), "An answer is the sentence chosen."
    # 2. Sides: treat them as codes.
    low, high = ends
    has_ends = low is not None or high is not None
    if not has_ends and n_buttons is None and text.str.lower().isin(["left", "right"]).all():
        if is_left is None:
            raise InputError(
                "the answers are left and right; name the column that says where sentence 1 was: "
                f"{call.format_with(side='COLUMN')}; or, if it was always on the left: "
                f"{call.format_with(low='left', high='right')}"
            )
        low, high = "left", "right"
    # 3. Codes on one scale, 4. numbers of buttons, 5. codes on the scale of each row.
    if low is not None and high is not None:
        ratings, description = _convert_codes(answers, low, high)
    elif n_buttons is not None:
        low, description = 0, "The answers are numbers of buttons"
        ratings = pd.Series(0.0, index=answers.index)
        codes = pd.to_numeric(answers)
        for n in n_buttons.unique():
            rows = n_buttons == n
            message = f"response {{value:g}} is not one of {n:g} buttons ({{rows}})"
            refuse_rows(rows & ~codes.between(0, n - 1), message, codes)
            ratings[rows] = rescale(codes[rows], 0, n - 1)
    elif {"scale_low", "scale_high"} & set(data.columns) and not has_ends:
        low, description = "low", "The ends of each scale, low and high, are given"
        require_columns(data, ("scale_low", "scale_high"), "the table with the ends of the scale")
        for name in ("scale_low", "scale_high"):
            message = f"{name} is missing ({{rows}}); give both ends of each scale"
            refuse_rows(data[name].isna(), message)
        ratings = pd.Series(0.0, index=answers.index)
        for _, rows in data.groupby(["scale_low", "scale_high"]):
            scale_low, scale_high = rows["scale_low"].iloc[0], rows["scale_high"].iloc[0]
            ratings[rows.index], _ = _convert_codes(rows["response"], scale_low, scale_high)
    else:
        distinct = list(dict.fromkeys(text))
        examples = ", ".join(map(repr, distinct[:_MAX_SHOWN_ANSWERS]))
        more = " ..." if len(distinct) > _MAX_SHOWN_ANSWERS else ""
        proposal = {"low": "CODE", "high": "CODE"} | guess_scale_ends(answers)
        raise InputError(
            f"the answers are {examples}{more}; which of them are the strongest preference for "
            "sentence 1 and for sentence 2 (or for the left and the right one)? Correct this "
            f"proposal: {call.format_with(None, **proposal)}"
        )
    first_end = f"{low:g}" if isinstance(low, float) else low
    if is_left is None:
        return ratings, f"{description}; {first_end} is the strongest preference for sentence 1."
    # If sentence 1 was on the right, a preference for the left sentence is one for sentence 2.
    ratings = ratings.where(is_left, -ratings)
    return ratings, f"{description}; {first_end} is the strongest preference for the left sentence."


def _convert_codes(
    answers: pd.Series, low: str | float, high: str | float
) -> tuple[pd.Series, str]:
    """Convert answers to ratings, given the answers at the two ends of the scale.

    If both ends are numbers, the answers between them are mapped linearly. Otherwise each answer
    must be one of the two ends.

    Parameters
    ----------
    answers
        Recorded answers.
    low, high
        Answers that correspond to the ratings -2.5 and 2.5.

    Returns
    -------
    ratings : Series
        Ratings from -2.5 to 2.5.
    description : str
        Beginning of a sentence that describes the answers.
    """
    try:
        # If both ends are numbers, the answers between them are mapped linearly.
        low_number, high_number = float(low), float(high)
    except ValueError:
        low_number = high_number = math.nan
    if math.isfinite(low_number) and math.isfinite(high_number):
        description = f"The answers are numbers from {low_number:g} to {high_number:g}"
        return rescale(answers, low_number, high_number), description
    # Otherwise, only the two ends are valid answers; case and outer white space are ignored.
    codes = {str(low).strip().lower(): -2.5, str(high).strip().lower(): 2.5}
    # Equal ends become one key of the dictionary.
    if len(codes) < 2:
        raise InputError(f"low and high are both {low!r}; give two answers")
    ratings = answers.astype("str").str.strip().str.lower().map(codes)
    is_unknown = ratings.isna()
    if is_unknown.any():
        unknown_answer = answers[is_unknown].tolist()[0]
        raise InputError(
            f"the answer {unknown_answer!r} is neither {low!r} nor {high!r} "
            f"({format_rows(is_unknown)}); leave such rows out, or name other codes"
        )
    return ratings, f"The answers are {low!r} and {high!r}"
