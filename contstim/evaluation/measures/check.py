"""The public check of measures: fast computations against their definitions."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.errors import ValidationError
from contstim.evaluation.measures import Measure
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

_RATINGS = (-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5)
_RESPONSE_TIMES = (0.0, 500.0, 700.0, 900.0, 1500.0, np.nan)
_N_STUDIES, _N_PARTICIPANTS, _N_PAIRS, _N_MODELS = 3, 7, 9, 3


def check_measure(measure: Measure, seed: int = 0) -> list[str]:
    """Check a measure on small random studies with ties and missing choices.

    Parameters
    ----------
    measure
        Measure to check.
    seed
        Seed of the random studies.

    Returns
    -------
    list of str
        One sentence per property that was checked.

    Raises
    ------
    ValidationError
        If the measure lacks a property; the message names the first one.

    Examples
    --------
    >>> from contstim.evaluation.measures import MEASURES
    >>> for line in check_measure(MEASURES["accuracy"]):
    ...     print(line)
    ...
    values equal participant_value
    the mean influence of a participant's choices is the value
    noise ceilings equal participant_value and upper_value of mean votes
    """
    rng = np.random.default_rng(seed)
    for _ in range(_N_STUDIES):
        subset = _random_study(rng)
        values, ceilings = measure.values(subset), measure.ceilings(subset)
        means = np.empty_like(values)
        for model in subset.models:
            prediction = subset.data.log_ratio[subset.pair, model]
            influence = measure.trial_influence(subset, prediction)
            means[:, model] = subset.mean_by_participant(influence)
        definition = Measure.ceilings(measure, subset)
        _compare(measure, "values", values, Measure.values(measure, subset))
        _compare(measure, "mean influences", means, values)
        _compare(measure, "noise ceilings", np.stack(ceilings), np.stack(definition))
    return [
        "values equal participant_value",
        "the mean influence of a participant's choices is the value",
        "noise ceilings equal participant_value and upper_value of mean votes",
    ]


def _random_study(rng: np.random.Generator) -> Subset:
    """Return a simulated study with random ratings, response times and log-ratios.

    About 20 % of the choices are missing. All models are tied on the first pair.
    """
    is_judged = rng.random((_N_PARTICIPANTS, _N_PAIRS)) < 0.8
    is_judged[:2] = True  # Each pair is judged by at least two participants.
    participant, pair = np.nonzero(is_judged)
    log_ratio = rng.normal(size=(_N_PAIRS, _N_MODELS))
    log_ratio[0] = 0.0
    data = TrialData(
        participants=pd.Index(range(_N_PARTICIPANTS)),
        groups=pd.Index(["all"]),
        group_codes=np.zeros(_N_PARTICIPANTS, dtype=np.int64),
        participant=participant,
        pair=pair,
        rating=rng.choice(_RATINGS, size=len(pair)),
        pairs=pd.DataFrame({"item": range(_N_PAIRS)}),
        models=tuple(f"model {model}" for model in range(_N_MODELS)),
        log_ratio=log_ratio,
        rt_ms=rng.choice(_RESPONSE_TIMES, size=len(pair)),
    )
    return Subset(data, np.arange(len(pair)), np.arange(_N_MODELS))


def _compare(measure: Measure, name: str, computed: FloatArray, definition: FloatArray) -> None:
    """Raise an error if the fast computation of a measure differs from its definition.

    The arrays must agree to within 1e-9 and contain NaN at the same positions.
    """
    if not np.allclose(computed, definition, rtol=0, atol=1e-9, equal_nan=True):
        error = np.nanmax(np.abs(computed - definition))
        raise ValidationError(f"{measure.name}: {name} differ from the definition by {error:.2g}")
