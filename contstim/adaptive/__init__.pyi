"""Public names of `contstim.adaptive`."""

from contstim.adaptive.anytime_valid import log_e_value
from contstim.adaptive.conclusions import Conclusion, apply_stopping_rule
from contstim.adaptive.interim import InterimResult, interim_analysis
from contstim.adaptive.link import SIX_POINT, Link
from contstim.adaptive.policies import POLICIES, Policy, PolicyOptions, PolicyState, choose_block
from contstim.adaptive.pool import Pool
from contstim.adaptive.posterior import ModelPosterior
from contstim.adaptive.savings import predict_saved_answers
from contstim.adaptive.scheduler import AdaptivePlan, Block, TrialScheduler
from contstim.adaptive.simulation import simulate
from contstim.adaptive.stopping import Stopping

__all__ = [
    "POLICIES",
    "SIX_POINT",
    "AdaptivePlan",
    "Block",
    "Conclusion",
    "InterimResult",
    "Link",
    "ModelPosterior",
    "Policy",
    "PolicyOptions",
    "PolicyState",
    "Pool",
    "Stopping",
    "TrialScheduler",
    "apply_stopping_rule",
    "choose_block",
    "interim_analysis",
    "log_e_value",
    "predict_saved_answers",
    "simulate",
]
