"""Latest interim result of an adaptive study, which is analysed again when it is too old."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.adaptive.interim import interim_analysis
from contstim.experiment.adaptive import find_scores
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data
from contstim.experiment.trials import ADAPTIVE
from contstim.selection.scores import read_scores

# Maximum age in seconds of the interim results on the dashboard.
_MAX_AGE = 30.0


class LatestResult:
    """Latest interim result of an adaptive study, for the dashboard and the stopping rule.

    The result is reused for half a minute, since an interim analysis takes time.

    Parameters
    ----------
    study
        Adaptive study.
    path
        Data file.
    blinded
        If True, report only whether the study may stop, and no results.
    """

    def __init__(self, study: Study, path: Path, blinded: bool = False) -> None:
        assert study.adaptive is not None
        self._path, self._blinded = path, blinded
        self._plan = study.adaptive
        self._scores = read_scores(find_scores(study))
        self._time = float("-inf")
        self._summary: dict[str, Any] = {}

    def read(self, study: Study, now: float) -> dict[str, Any]:
        """Return the latest interim result, analysing the study again if it is too old.

        Parameters
        ----------
        study
            Study; assignments (lists of trials) may have been added since the server started.
        now
            Current Unix time, in seconds since 1970.

        Returns
        -------
        dict
            ``stops`` and, unless blinded, ``lines`` (sentences), and ``models`` and ``pairs`` (rows
            of tables).
        """
        if now - self._time > _MAX_AGE:
            self.analyse(study, now)
        return self._summary

    def analyse(self, study: Study, now: float) -> str | None:
        """Analyse the study and return the conclusion of its stopping rule, if any.

        Parameters
        ----------
        study
            Study; assignments (lists of trials) may have been added since the server started.
        now
            Current Unix time, in seconds since 1970.

        Returns
        -------
        str or None
            First conclusion at which the study may stop; None if it should continue.
        """
        choices = read_study_data(study, self._path).choices
        self._time = now
        self._summary = {"stops": False, "lines": ["no answers yet"], "models": [], "pairs": []}
        # An interim analysis needs answers to adaptively chosen trials.
        if not (choices["condition"] == ADAPTIVE).any():
            return None
        result = interim_analysis(choices, self._scores, self._plan)
        self._summary = {"stops": result.stops}
        # A blinded dashboard shows only whether the study may stop.
        if not self._blinded:
            self._summary |= {
                "lines": [*result.summary, f"{result.n_chosen_answers} answers to chosen trials"],
                "models": _to_records(result.models),
                "pairs": _to_records(result.pairs),
            }
        return None if result.first_stop is None else result.first_stop.text


def _to_records(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Convert a table to a list of rows for JSON, with None in place of NaN."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
