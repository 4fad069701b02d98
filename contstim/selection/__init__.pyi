"""Public names of `contstim.selection`."""

from contstim.response_model import ResponseModel
from contstim.selection.constraint_rows import SelectionConstraint
from contstim.selection.constraints import AtMost, Balance, Equal, Linear, Recurring
from contstim.selection.natural import select_natural_pairs
from contstim.selection.scores import fractional_ranks, read_scores, read_triplets
from contstim.selection.sets import select_set, triplet_pairs
from contstim.selection.triplet_objectives import (
    TRIPLET_OBJECTIVES,
    TripletObjective,
    controversiality,
    worst_ranks,
)
from contstim.selection.triplets import select_triplets
from contstim.text.features import has_distinct_words, sentence_features

__all__ = [
    "TRIPLET_OBJECTIVES",
    "AtMost",
    "Balance",
    "Equal",
    "Linear",
    "Recurring",
    "ResponseModel",
    "SelectionConstraint",
    "TripletObjective",
    "controversiality",
    "fractional_ranks",
    "has_distinct_words",
    "read_scores",
    "read_triplets",
    "select_natural_pairs",
    "select_set",
    "select_triplets",
    "sentence_features",
    "triplet_pairs",
    "worst_ranks",
]
