"""Experiments that choose trials by the answers so far, and sequential analysis."""

from contstim.adaptive.anytime_valid import log_e_value
from contstim.adaptive.conductor import AdaptivePlan, Block, Conductor
from contstim.adaptive.interim import (
    Conclusion,
    InterimResult,
    apply_stopping_rule,
    interim_analysis,
)
from contstim.adaptive.policies import (
    POLICIES,
    Policy,
    PolicyOptions,
    PolicyState,
    Pool,
    choose_block,
)
from contstim.adaptive.posterior import SIX_POINT, Link, ModelPosterior
from contstim.adaptive.simulation import simulate
from contstim.evaluation.stopping import Stopping

__all__ = [
    "POLICIES",
    "SIX_POINT",
    "AdaptivePlan",
    "Block",
    "Conclusion",
    "Conductor",
    "InterimResult",
    "Link",
    "ModelPosterior",
    "Policy",
    "PolicyOptions",
    "PolicyState",
    "Pool",
    "Stopping",
    "apply_stopping_rule",
    "choose_block",
    "interim_analysis",
    "log_e_value",
    "simulate",
]
