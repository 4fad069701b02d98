"""The public check of measures: what is computed fast against the definitions, in plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import FloatArray
from contstim.errors import ValidationError
from contstim.evaluation.measures import Measure
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

_RATINGS = (-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5)
_TOLERANCE = 1e-9
# Weights are moved by this to see derivatives, which differ from them by its square.
_STEP = 1e-5
_STUDIES = 3


def check_measure(measure: Measure, seed: int = 0) -> list[str]:
    """Check a measure on small random studies with ties and missing choices.

    Parameters
    ----------
    measure
        The measure to check.
    seed
        Of the studies.

    Returns
    -------
    list of str
        What holds, a sentence each.

    Raises
    ------
    ValidationError
        Naming the first thing that does not hold.

    Examples
    --------
    >>> from contstim.evaluation.measures import MEASURES
    >>> for line in check_measure(MEASURES["accuracy"]):
    ...     print(line)
    ...
    values are those of the definition, participant by participant
    the cells of a participant have its value as their mean
    cells deviate as the value moves with the weight of a choice
    noise ceilings are those of the definition
    the order of choices does not matter
    """
    sentences: dict[str, Callable[[Measure, Subset], None]] = {
        "values are those of the definition, participant by participant": _values,
        "the cells of a participant have its value as their mean": _means,
        "cells deviate as the value moves with the weight of a choice": _derivatives,
        "noise ceilings are those of the definition": _ceilings,
        "the order of choices does not matter": _order,
    }
    rng = np.random.default_rng(seed)
    for _ in range(_STUDIES):
        subset = _study(rng)
        for check in sentences.values():
            check(measure, subset)
    return list(sentences)


def _study(rng: np.random.Generator, people: int = 7, pairs: int = 9, models: int = 3) -> Subset:
    seen = rng.random((people, pairs)) < 0.8
    seen[:2] = True  # so that each pair was seen by two, and some by more
    person, pair = np.nonzero(seen)
    ratio = rng.normal(size=(pairs, models))
    ratio[0] = 0.0
    data = TrialData(
        participants=pd.Index(range(people)),
        groups=pd.Index(["all"]),
        group_codes=np.zeros(people, dtype=np.int64),
        participant=person,
        pair=pair,
        rating=rng.choice(_RATINGS, size=len(pair)),
        pairs=pd.DataFrame({"item": range(pairs)}),
        models=tuple(f"model {m}" for m in range(models)),
        log_ratio=ratio,
        rt_ms=rng.choice([0.0, 500.0, 700.0, 900.0, 1500.0, np.nan], size=len(pair)),
    )
    return Subset(data, np.arange(len(pair)), np.arange(models))


def _agree(
    what: str, measure: Measure, fast: ArrayLike, plain: ArrayLike, off: float = _TOLERANCE
) -> None:
    """Refuse two arrays that differ by more than `off`, or in where they are not defined."""
    one, two = np.asarray(fast, dtype=np.float64), np.asarray(plain, dtype=np.float64)
    if not np.allclose(one, two, rtol=0, atol=off, equal_nan=True):
        worst = np.nanmax(np.abs(one - two)) if one.shape == two.shape else np.nan
        raise ValidationError(f"{measure.name}: {what} differ from the definition by {worst:.2g}")


def _values(measure: Measure, subset: Subset) -> None:
    _agree("values", measure, measure.values(subset), Measure.values(measure, subset))


def _means(measure: Measure, subset: Subset) -> None:
    values = measure.values(subset)
    for m, model in enumerate(subset.models):
        cells = measure.trial_influence(subset, subset.data.log_ratio[subset.pair, model])
        means = _means_of_people(subset, cells)
        _agree("means of cells", measure, means, values[:, m])


def _means_of_people(subset: Subset, cells: FloatArray) -> FloatArray:
    """Return the mean of each participant's cells that are there, NaN without any, shape (N,)."""
    there = subset.sum_by_participant((~np.isnan(cells)).astype(np.float64))
    with np.errstate(invalid="ignore"):
        return np.asarray(subset.sum_by_participant(np.nan_to_num(cells)) / there)


def _derivatives(measure: Measure, subset: Subset) -> None:
    """Compare cells with differences of values in which one choice weighs a little more."""
    rows = np.flatnonzero(subset.person == 0)
    rows = rows[~np.isnan(measure.responses(subset)[rows])]
    rating, ratios = measure.responses(subset)[rows], subset.data.log_ratio[subset.pair[rows]]
    if not rating.any():
        return
    values = measure.resampled(rating[None], ratios)
    shift = _STEP * np.eye(len(rows))
    for m, (more, less) in enumerate(zip(values(1 + shift), values(1 - shift), strict=True)):
        slope = (more - less)[:, 0] / (2 * _STEP)
        prediction = subset.data.log_ratio[subset.pair, m]
        cells = measure.trial_influence(subset, prediction)[rows]
        plain = cells.mean() + len(rows) * (slope - slope.mean())
        _agree("deviations of cells", measure, cells, plain, 1e-5)


def _ceilings(measure: Measure, subset: Subset) -> None:
    plain = Measure.ceilings(measure, subset)
    for fast, slow in zip(measure.ceilings(subset), plain, strict=True):
        _agree("noise ceilings", measure, fast, slow)


def _order(measure: Measure, subset: Subset) -> None:
    """Compare with the same study whose participants come in reverse order."""
    data = subset.data
    order = np.argsort(-data.participant, kind="stable")
    last = len(data.participants) - 1
    turned = replace(
        data,
        participant=last - data.participant[order],
        pair=data.pair[order],
        rating=data.rating[order],
        rt_ms=None if data.rt_ms is None else data.rt_ms[order],
    )
    other = Subset(turned, subset.rows, subset.models)
    pairs = zip(
        (measure.values(subset), *measure.ceilings(subset)),
        (measure.values(other), *measure.ceilings(other)),
        strict=True,
    )
    for forward, reverse in pairs:
        _agree("values and noise ceilings in another order", measure, reverse[::-1], forward, 1e-12)
