"""Choosing stimuli, and laying them out for participants.

Natural pairs and triplets are chosen exactly; a design deals them to groups of participants.
Nothing here needs torch.
"""

from contstim.selection.checking import check_design
from contstim.selection.design import CONDITIONS, LAYOUTS, Layout, design_trials
from contstim.selection.files import read_scores, read_triplets
from contstim.selection.natural import select_natural_pairs
from contstim.selection.planning import DesignPlan, plan_design
from contstim.selection.ranks import fractional_ranks
from contstim.selection.triplets import controversiality, select_triplets, worst_ranks
from contstim.selection.wishes import AtMost, Balance, Linear
from contstim.text.features import repeats_no_word, sentence_features

__all__ = [
    "CONDITIONS",
    "LAYOUTS",
    "AtMost",
    "Balance",
    "DesignPlan",
    "Layout",
    "Linear",
    "check_design",
    "controversiality",
    "design_trials",
    "fractional_ranks",
    "plan_design",
    "read_scores",
    "read_triplets",
    "repeats_no_word",
    "select_natural_pairs",
    "select_triplets",
    "sentence_features",
    "worst_ranks",
]
