"""Choosing stimuli, and laying them out for participants.

Natural pairs and triplets are chosen exactly; a design allocates them to groups of participants.
Nothing here needs torch.
"""

from contstim.response_model import ResponseModel
from contstim.selection.constraints import (
    AtMost,
    Balance,
    Equal,
    Linear,
    Recurring,
    SelectionConstraint,
)
from contstim.selection.natural import select_natural_pairs
from contstim.selection.scores import fractional_ranks, read_scores, read_triplets
from contstim.selection.sets import select_set, triplet_pairs
from contstim.selection.triplet_objectives import (
    controversiality,
    triplet_objective,
    worst_ranks,
)
from contstim.selection.triplets import select_triplets
from contstim.text.features import has_distinct_words, sentence_features

__all__ = [
    "AtMost",
    "Balance",
    "Equal",
    "Linear",
    "Recurring",
    "ResponseModel",
    "SelectionConstraint",
    "controversiality",
    "fractional_ranks",
    "has_distinct_words",
    "read_scores",
    "read_triplets",
    "select_natural_pairs",
    "select_set",
    "select_triplets",
    "sentence_features",
    "triplet_objective",
    "triplet_pairs",
    "worst_ranks",
]
