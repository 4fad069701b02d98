"""What the answers in somebody's table mean: which sentence each is for, and how surely."""

from __future__ import annotations

import math

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import name_rows, on_known_scale, refuse_rows, rescale
from contstim.evaluation.importers.columns import RESERVED, differing, pair_of, plain
from contstim.tables import require_columns

#: What programs write for true and false, in lower case.
TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "ja", "wahr", "oui", "si"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "nein", "falsch", "non"), False),
}
# Words for left and right.
_HANDS = {
    "left": "right",
    "links": "rechts",
    "gauche": "droite",
    "izquierda": "derecha",
    "sinistra": "destra",
}
# Where sentence 1 was shown, by what a column of sides holds. Columns that say whether the two
# were turned round hold truth values.
_SIDES = {
    **dict.fromkeys((*_HANDS, "l", "1"), True),
    **dict.fromkeys((*_HANDS.values(), "r", "2"), False),
}
_TURNED = ("swapped", "flipped", "vertauscht")
_ASK_SIDE = (
    "say which column tells where sentence 1 was: --side COLUMN (left or right), or, if it was "
    "always on the left, --low {} --high {}"
)
# A scale of which the participants used the ends is taken for the whole.
_FEWEST_PEOPLE = 10


def left_is_first(data: pd.DataFrame, name: str) -> pd.Series | None:
    """Return in which rows sentence 1 was on the left; None if that is not known.

    Parameters
    ----------
    data
        With our names.
    name
        What the file calls the column `side`.

    Raises
    ------
    InputError
        If a side is none; the message names the rows.
    """
    if "side" in data:
        first = where_first(data["side"], name)
        if first.isna().any():
            bad = first.isna()
            what = "true or false" if _is_turned(name) else "left or right, or 1 or 2"
            raise InputError(
                f"{name} {data.loc[bad, 'side'].tolist()[0]!r} is not a side "
                f"({name_rows(bad)}); it must be {what}"
            )
        return first.astype(bool)
    if "left" in data and "sentence_1" not in data:
        return pd.Series(True, index=data.index)
    return None


def where_first(sides: pd.Series, name: str) -> pd.Series:
    """Return True where sentence 1 is on the left, False where on the right, else missing."""
    text = sides.astype("str").str.strip().str.lower().str.removesuffix(".0")
    if _is_turned(name):
        return text.map({k: not v for k, v in TRUTH.items()}).where(sides.notna(), True)
    return text.map(_SIDES)


def _is_turned(name: str) -> bool:
    """Return whether a column says in which rows the two sentences were exchanged."""
    return plain(name) in _TURNED


def buttons(data: pd.DataFrame, program: str | None, n_choices: int | None) -> pd.Series | None:
    """Return how many buttons there were in each row; None if the answers are no numbers of them.

    They are counted from 0, as jsPsych does.

    Raises
    ------
    InputError
        If the number of buttons is not known, or none.
    """
    counted = n_choices is not None or "n_choices" in data or program == "jsPsych"
    if not counted or pd.to_numeric(data["response"], errors="coerce").isna().any():
        return None
    given = pd.Series(n_choices, index=data.index, dtype=object)
    if "n_choices" in data:
        given = data["n_choices"].astype(object).where(data["n_choices"].notna(), given)
    refuse_rows(
        given.isna(),
        "the data do not say how many buttons there were ({rows}); add a column 'n_choices' or "
        "give the number: n_choices=2, on the command line --buttons 2",
    )
    numbers = pd.to_numeric(given, errors="coerce").astype(float)
    odd = ~((numbers >= 2) & (numbers % 1 == 0))  # the remainder of infinity is missing
    refuse_rows(odd, "n_choices {value!r} is not a number of buttons, at least 2 ({rows})", given)
    return numbers


def _by_button(answers: pd.Series, numbers: pd.Series) -> pd.Series:
    codes = pd.to_numeric(answers)
    ratings = pd.Series(0.0, index=answers.index)
    for n in numbers.unique():
        rows = numbers == n
        off = f"response {{value:g}} is not one of {n:g} buttons ({{rows}})"
        refuse_rows(rows & ~codes.between(0, n - 1), off, codes)
        ratings[rows] = rescale(codes[rows], 0, n - 1)
    return ratings


def ratings_of(
    data: pd.DataFrame,
    both: pd.DataFrame,
    left: pd.Series | None,
    low: str | float | None,
    high: str | float | None,
    n_buttons: pd.Series | None,
) -> tuple[pd.Series, str]:
    """Return the ratings that answers mean, and a sentence on how they were read.

    Parameters
    ----------
    data
        With our names: ``response``, ``participant``, and, where the ends of the scale are known by
        row, ``scale_low`` and ``scale_high``.
    both
        Sentences 1 and 2.
    left
        As `left_is_first` returns it; where it is known, the low end is that of the left sentence.
    low, high
        The answers that mean sure of sentence 1 and of sentence 2.
    n_buttons
        As `buttons` returns it.

    Raises
    ------
    InputError
        If the answers do not tell what they mean, or one is not on the scale; the message says what
        to add or names the rows.
    """
    answers = data["response"]
    text = answers.astype("str").str.strip()
    lower = text.str.lower()
    chosen = [text == both[name].astype("str").str.strip() for name in ("sentence_1", "sentence_2")]
    if (chosen[0] | chosen[1]).all():
        return chosen[1].map({True: 2.5, False: -2.5}), "An answer is the sentence chosen."
    doubt = ""
    if low is None and high is None and n_buttons is None:
        hands = next((pair for pair in _HANDS.items() if lower.isin(pair).all()), None)
        if hands is not None and left is None:
            raise InputError(f"the answers are {' and '.join(hands)}; {_ASK_SIDE.format(*hands)}")
        low, high = hands or (None, None)
        others = data[[c for c in data if c == "side" or c not in RESERVED]]
        used = ends_used(answers, data["participant"], both, others)
        if low is None and used is not None and "scale_low" not in data:
            (low, high), doubt = used, by_use(used)
    if low is not None and high is not None:
        ratings, how = _by_code(answers, lower, low, high)
    elif n_buttons is not None:
        low, ratings, how = 0, _by_button(answers, n_buttons), "The answers are numbers of buttons"
    elif "scale_low" in data and low is high is None:
        _require_ends(data)
        parts = [
            _by_code(
                own["response"],
                lower[own.index],
                own["scale_low"].iloc[0],
                own["scale_high"].iloc[0],
            )[0]
            for _, own in data.groupby(["scale_low", "scale_high"])
        ]
        ratings, low = pd.concat(parts).loc[data.index], "low"
        how = "The ends of each scale, low and high, are given"
    else:
        kinds = list(dict.fromkeys(text))
        shown = ", ".join(map(repr, kinds[:4])) + (" ..." if len(kinds) > 4 else "")
        raise InputError(
            f"the answers are {shown}; say which of them mean sure of sentence 1 and of sentence 2 "
            "(or of the left and the right one): --low CODE --high CODE"
        )
    first = f"{low:g}" if isinstance(low, float) else low
    if left is None:
        return ratings, f"{how}; {first} is sure of sentence 1.{doubt}"
    return ratings.where(left, -ratings), f"{how}; {first} is sure of the left sentence.{doubt}"


def _require_ends(data: pd.DataFrame) -> None:
    """Refuse a table that does not give both ends of each answer's scale."""
    require_columns(data, ("scale_low", "scale_high"), "the table with the ends of the scale")
    for name in ("scale_low", "scale_high"):
        refuse_rows(
            data[name].isna(), f"{name} is missing ({{rows}}); give both ends of each scale"
        )


def are_codes(ratings: pd.Series) -> bool:
    """Return whether a column of ratings holds codes, not ratings from -2.5 to 2.5."""
    given = ratings.dropna()
    numbers = pd.to_numeric(given, errors="coerce")
    return bool(numbers.isna().any() or ((numbers % 1 == 0).all() and not on_known_scale(numbers)))


def ends_used(
    answers: pd.Series, people: pd.Series, both: pd.DataFrame, others: pd.DataFrame
) -> tuple[float, float] | None:
    """Return the ends of a scale of whole numbers, None where the table does not show them.

    A scale of which nobody used an end would be taken for a shorter one, whose middle is another.
    So it has to be 1 to k, 0 to k of more than two, or -k to k; each number between was answered,
    0 perhaps not in the last; and most people, ten at least, gave the first, and most the last.
    Nor may another column be one of sides, which would leave open what the numbers are about.

    Parameters
    ----------
    answers
        Missing ones are passed over.
    people
        Who gave each.
    both
        The two sentences of each.
    others
        The columns that were taken for nothing else. Of sides are those of two values that differ
        within people and pairs.
    """
    there = answers.notna()
    codes = pd.to_numeric(answers[there], errors="coerce").astype(float)
    if codes.empty or codes.isna().any() or (codes % 1 != 0).any():
        return None
    low, high = codes.min(), codes.max()
    usual = low == 1 or (low == 0 and high > 1) or low == -high
    between = set(range(int(low), int(high) + 1)) - ({0} if low < 0 else set())
    if not usual or low == high or not between <= set(codes):
        return None
    who = people[there].to_numpy()
    for end in (low, high):
        gave = (codes == end).groupby(who).any()
        if gave.sum() < _FEWEST_PEOPLE or gave.mean() <= 0.5:
            return None
    texts = others.map(str, na_action="ignore")  # cells of JSON may be lists
    two = texts[[column for column in texts if texts[column].nunique() == 2]]
    return None if differing(two, people, pair_of(both)) else (float(low), float(high))


def by_use(ends: tuple[float, float]) -> str:
    """Return what is to be said of ends that were taken because they were used."""
    low, high = ends
    return (
        f" Most participants gave {low:g} and most {high:g}; if the scale goes on beyond, or is "
        f"turned round, give its ends, such as --low {high:g} --high {low:g}."
    )


def _by_code(
    answers: pd.Series, lower: pd.Series, low: str | float, high: str | float
) -> tuple[pd.Series, str]:
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = (math.nan, math.nan)
    if not all(map(math.isfinite, ends)):
        codes = {str(low).strip().lower(): -2.5, str(high).strip().lower(): 2.5}
        ratings = lower.map(codes)
        if len(codes) < 2:
            raise InputError(f"--low and --high are both {low!r}; give two answers")
        if ratings.isna().any():
            bad = ratings.isna()
            raise InputError(
                f"the answer {answers[bad].tolist()[0]!r} is neither {low!r} nor {high!r} "
                f"({name_rows(bad)}); leave such rows out, or name other codes"
            )
        return ratings, f"The answers are {low!r} and {high!r}"
    return rescale(answers, *ends), f"The answers are numbers from {ends[0]:g} to {ends[1]:g}"
