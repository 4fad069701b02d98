"""Experiments that decide between models while people answer: choose, ask, stop, believe."""

from contstim.adaptive.conduct import AdaptivePlan, Block, Conductor
from contstim.adaptive.policies import POLICIES, Choosing, Policy, Pool, View, choose_block
from contstim.adaptive.posterior import SIX_POINT, Link, ModelPosterior
from contstim.adaptive.sequences import betting_sequence, fit_e_value, log_e_above, mean_sequence
from contstim.adaptive.simulation import simulate
from contstim.adaptive.stopping import Stopping
from contstim.adaptive.verdicts import Verdict, verdicts

__all__ = [
    "POLICIES",
    "SIX_POINT",
    "AdaptivePlan",
    "Block",
    "Choosing",
    "Conductor",
    "Link",
    "ModelPosterior",
    "Policy",
    "Pool",
    "Stopping",
    "Verdict",
    "View",
    "betting_sequence",
    "choose_block",
    "fit_e_value",
    "log_e_above",
    "mean_sequence",
    "simulate",
    "verdicts",
]
