"""Check of a measure: its computations for a whole study against its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.errors import ValidationError
from contstim.evaluation.measures import Measure
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

_RATINGS = (-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5)
_RESPONSE_TIMES = (0.0, 500.0, 700.0, 900.0, 1500.0, np.nan)
_N_STUDIES, _N_PARTICIPANTS, _N_PAIRS, _N_MODELS = 3, 7, 9, 3


def check_measure(measure: Measure, seed: int = 0) -> list[str]:
    """Check that two methods of a measure compute the same values for models and participants.

    `participant_value` computes the value directly from the participant's choices. `values`
    computes it as the mean of one number per choice, a jackknife pseudo-value. Both are called for
    small random studies with ties and missing choices.

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
        If `values` and `participant_value` return different results.

    Examples
    --------
    >>> from contstim.evaluation.measures import MEASURES
    >>> for line in check_measure(MEASURES["accuracy"]):
    ...     print(line)
    ...
    the mean pseudo-value of a participant's choices equals participant_value
    """
    rng = np.random.default_rng(seed)
    for _ in range(_N_STUDIES):
        subset = _random_study(rng)
        responses, log_ratio = measure.responses(subset), subset.data.log_ratio
        # `participant_value` defines the value of one model for one participant.
        expected = np.empty((subset.n_participants, _N_MODELS))
        for participant, model in np.ndindex(expected.shape):
            rows = subset.rows_by_participant[participant]
            predictions = log_ratio[subset.pair[rows], model]
            expected[participant, model] = measure.participant_value(responses[rows], predictions)
        # `values` computes all values of a study at once, as means of pseudo-values.
        values = measure.values(subset)
        if not np.allclose(values, expected, rtol=0, atol=1e-9, equal_nan=True):
            error = np.nanmax(np.abs(values - expected))
            raise ValidationError(
                f"{measure.name}: mean pseudo-values differ from participant_value by {error:.2g}"
            )
    return ["the mean pseudo-value of a participant's choices equals participant_value"]


def _random_study(rng: np.random.Generator) -> Subset:
    """Simulate a study of seven participants and nine pairs with random ratings and response times.

    About 20 % of the choices are missing. The log-ratios of the three models are random, except
    that all models are tied on the first pair.
    """
    has_choice = rng.random((_N_PARTICIPANTS, _N_PAIRS)) < 0.8  # with probability 0.8
    participant, pair = np.nonzero(has_choice)
    log_ratio = rng.normal(size=(_N_PAIRS, _N_MODELS))
    log_ratio[0] = 0.0
    # Ratings and response times are drawn with replacement from a few values, so that there are
    # ties.
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
