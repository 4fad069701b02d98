"""Read people's choices, say which model predicts them and how far it is from the ceiling.

Functions that load SciPy's statistics are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from contstim.evaluation.choices import (
    CHOICE_COLUMNS,
    CleaningRules,
    HumanData,
    align_choices,
    check_choices,
)
from contstim.evaluation.evaluate import evaluate, evaluate_file
from contstim.evaluation.exclusion import ExclusionRules, catch_accuracy, exclude
from contstim.evaluation.importers import (
    FORMATS,
    combine_choices,
    join_participants,
    read_choices,
)
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.options import PRESETS, EvaluationOptions, preset_options
from contstim.evaluation.ranks import signed_rank_cosine, signed_ranks
from contstim.evaluation.ratings import rescale
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table
from contstim.evaluation.trials import Analysis

if TYPE_CHECKING:
    from contstim.evaluation.inference.wilcoxon import wilcoxon_signed_rank

_NAMES = {
    "evaluation.inference.wilcoxon": ("wilcoxon_signed_rank",),
}

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
    "evaluate_file",
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


def __getattr__(name: str) -> Any:
    for place, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"contstim.{place}"), name)
    raise AttributeError(f"module 'contstim.evaluation' has no attribute {name!r}")
