"""How an adaptive study stands, for its dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from contstim.adaptive.standing import study_standing
from contstim.experiment.adaptive import scores_path
from contstim.experiment.collected import read_collected
from contstim.experiment.study import Study
from contstim.experiment.trials import CHOSEN
from contstim.selection.files import read_scores

_EVERY_S = 30.0  # between looks


class Standings:
    """How an adaptive study stands, for the dashboard: worked out again when answers have come.

    Parameters
    ----------
    study
        The study.
    path
        Its data.
    blinded
        Whether to say no more than that the study may stop, or goes on.
    """

    def __init__(self, study: Study, path: Path, blinded: bool = False) -> None:
        assert study.adaptive is not None
        self._path, self._blinded = path, blinded
        self._plan = study.adaptive
        self._scores = read_scores(scores_path(study))
        self._at = float("-inf")
        self._found: dict[str, Any] | None = None

    def read(self, study: Study, now: float) -> dict[str, Any]:
        """Return ``stops``, and unless blinded ``lines``, ``models`` and ``pairs``, lists of rows.

        It is `_EVERY_S` old at most. The study may have more places by now.
        """
        if self._found is None or now - self._at > _EVERY_S:
            choices = read_collected(study, self._path).choices
            self._at, self._found = now, self._stands(choices)
        return self._found

    def _stands(self, choices: pd.DataFrame) -> dict[str, Any]:
        chosen = choices[choices["condition"] == CHOSEN]
        if not len(chosen):
            return {"stops": False, "lines": ["no answers yet"], "models": [], "pairs": []}
        found = study_standing(choices, self._scores, self._plan)
        if self._blinded:
            return {"stops": found.stops}
        return {
            "stops": found.stops,
            "lines": [*found.sentences, f"{found.n_answers} answers to chosen trials"],
            "models": found.models.to_dict("records"),
            "pairs": found.pairs.to_dict("records"),
        }
