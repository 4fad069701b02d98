"""Evaluation of models on human choices: measures, noise ceilings, tests and reports."""

from contstim.evaluation.choices import (
    CHOICE_COLUMNS,
    CleaningRules,
    HumanData,
    align_choices,
    check_choices,
)
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.exclusion import ExclusionRules, catch_accuracy, exclude
from contstim.evaluation.importers import FORMATS, combine_choices, join_participants, read_choices
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.inference.signed_rank import wilcoxon_signed_rank
from contstim.evaluation.options import PRESETS, EvaluationOptions, preset_options
from contstim.evaluation.ranks import signed_rank_cosine, signed_ranks
from contstim.evaluation.ratings import rescale
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table
from contstim.evaluation.trials import Analysis

__all__ = [
    "CHOICE_COLUMNS",
    "FORMATS",
    "PRESETS",
    "Analysis",
    "CleaningRules",
    "Evaluation",
    "EvaluationOptions",
    "ExclusionRules",
    "HumanData",
    "align_choices",
    "benjamini_hochberg",
    "catch_accuracy",
    "check_choices",
    "combine_choices",
    "evaluate",
    "exclude",
    "join_participants",
    "preset_options",
    "read_choices",
    "rescale",
    "score_table",
    "signed_rank_cosine",
    "signed_ranks",
    "wilcoxon_signed_rank",
]
