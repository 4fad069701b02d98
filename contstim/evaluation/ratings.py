"""Rating scales: ratings are zero-centred, from -2.5 to 2.5.

A rating of -2.5 is the strongest preference for sentence 1, 2.5 the strongest preference for
sentence 2. Other scales are mapped linearly to this range, so a forced choice is -2.5 or 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from contstim.errors import InputError, require_known
from contstim.evaluation.rows import refuse_rows

#: Number of points of each named rating scale.
SCALES = {"2-point": 2, "4-point": 4, "6-point": 6, "7-point": 7, "8-point": 8}

_MAX_RATING = 2.5
# Ratings are rounded, so that opposite ends of a scale have exactly the same absolute value.
_DECIMALS = 6
_SCALE_VALUES = {
    name: frozenset(np.round(np.linspace(-_MAX_RATING, _MAX_RATING, n), _DECIMALS).tolist())
    for name, n in SCALES.items()
}


def rescale(codes: Sequence[float] | pd.Series, low: float, high: float) -> pd.Series:
    """Map response codes linearly to ratings from -2.5 to 2.5.

    Parameters
    ----------
    codes
        Numbers between `low` and `high`.
    low, high
        Codes for the strongest preference for sentence 1 and for sentence 2. On a reversed scale,
        `low` is greater than `high`.

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
    codes = pd.Series(codes)
    numbers = pd.to_numeric(codes, errors="coerce").astype(float)
    # On a reversed scale, `low` is greater than `high`. Text became NaN, which is refused as well.
    refuse_rows(
        ~numbers.between(min(low, high), max(low, high)),
        f"rating {{value}} is not on the scale from {low:g} to {high:g} ({{rows}})",
        codes.astype("str"),
    )
    # Map [low, high] to [0, 1], then to [-1, 1], then to [-2.5, 2.5].
    return (((numbers - low) / (high - low) * 2 - 1) * _MAX_RATING).round(_DECIMALS)


def is_on_known_scale(ratings: pd.Series) -> bool:
    """Return whether all ratings are values of one scale of `SCALES`."""
    return any(ratings.round(_DECIMALS).isin(values).all() for values in _SCALE_VALUES.values())


def check_ratings(ratings: pd.Series, scale: str | None = None) -> pd.Series:
    """Return ratings as numbers after checking that they belong to one scale.

    Parameters
    ----------
    ratings
        Ratings from -2.5 to 2.5, as numbers or text.
    scale
        Name of a scale of `SCALES`, or ``slider`` for any rating in the range. By default, the
        ratings must fit any known scale.

    Raises
    ------
    InputError
        If a rating is outside the range or not on the scale, or ratings of several scales are
        mixed; the message names the rows.
    """
    numbers = pd.to_numeric(ratings, errors="coerce").astype(float).round(_DECIMALS)
    refuse_rows(
        ~numbers.between(-_MAX_RATING, _MAX_RATING),
        "rating {value} is not between -2.5 and 2.5 ({rows}); give the answers for the strongest "
        "preference for sentence 1 and for sentence 2, for example low 1 and high 7",
        ratings.astype("str"),
    )
    if scale == "slider":
        return numbers
    if scale is not None:
        require_known("rating scale", scale, [*_SCALE_VALUES, "slider"])
        message = f"rating {{value:g}} is not on the {scale} scale ({{rows}})"
        refuse_rows(~numbers.isin(_SCALE_VALUES[scale]), message, numbers)
    elif not is_on_known_scale(numbers):
        refuse_rows(
            ~numbers.isin(frozenset().union(*_SCALE_VALUES.values())),
            "rating {value:g} is on no known scale ({rows}); give the answers for the strongest "
            "preference for sentence 1 and for sentence 2, for example low 1 and high 7",
            numbers,
        )
        # Each rating belongs to a scale, but no scale contains all of them. Name the scale that
        # contains most.
        main_scale = max(_SCALE_VALUES, key=lambda s: int(numbers.isin(_SCALE_VALUES[s]).sum()))
        refuse_rows(
            ~numbers.isin(_SCALE_VALUES[main_scale]),
            f"the ratings mix scales: most are {main_scale}, but not {{value:g}} ({{rows}}); "
            "analyse them separately or set scale='slider'",
            numbers,
        )
    return numbers
