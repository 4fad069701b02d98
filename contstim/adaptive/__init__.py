"""Experiments that decide between models while people answer: choose, ask, stop, believe."""

from contstim.adaptive.posterior import SIX_POINT, Link, ModelPosterior
from contstim.adaptive.sequences import betting_sequence, fit_e_value, log_e_above, mean_sequence
from contstim.adaptive.verdicts import Stopping, Verdict, verdicts

__all__ = [
    "SIX_POINT",
    "Link",
    "ModelPosterior",
    "Stopping",
    "Verdict",
    "betting_sequence",
    "fit_e_value",
    "log_e_above",
    "mean_sequence",
    "verdicts",
]
