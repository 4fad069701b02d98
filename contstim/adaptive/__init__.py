"""Experiments that choose trials by the answers so far, and sequential analysis."""

from contstim.adaptive.conduct import AdaptivePlan, Block, Conductor
from contstim.adaptive.interim import Conclusion, InterimResult, conclusions, interim_analysis
from contstim.adaptive.policies import (
    POLICIES,
    Policy,
    PolicyOptions,
    PolicyState,
    Pool,
    choose_block,
)
from contstim.adaptive.posterior import SIX_POINT, Link, ModelPosterior
from contstim.adaptive.sequences import fit_e_value
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
    "choose_block",
    "conclusions",
    "fit_e_value",
    "interim_analysis",
    "simulate",
]
