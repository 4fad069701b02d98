"""Read people's choices, say which model predicts them and how far it is from the ceiling.

What simulates or fits mixed models is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from contstim.evaluation.choices import (
    CHOICE_COLUMNS,
    Cleaning,
    HumanData,
    align_choices,
    check_choices,
    rescale,
)
from contstim.evaluation.evaluate import evaluate, evaluate_file
from contstim.evaluation.exclusion import ExclusionRules, catch_accuracy, exclude
from contstim.evaluation.importers import FORMATS, ColumnMapping, read_choices, read_mapped
from contstim.evaluation.inference.families import benjamini_hochberg
from contstim.evaluation.inference.wilcoxon import wilcoxon_signed_rank
from contstim.evaluation.options import PRESETS, EvaluationOptions, preset_options
from contstim.evaluation.ranks import signed_rank_cosine, signed_ranks
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table
from contstim.evaluation.trials import Analysis

if TYPE_CHECKING:
    from contstim.evaluation.mixed import BradleyTerry, fit_bradley_terry
    from contstim.evaluation.simulate import Simulation, power, simulate_choices
    from contstim.text.features import sentence_features

_PLACES = {
    "BradleyTerry": "evaluation.mixed",
    "Simulation": "evaluation.simulate",
    "fit_bradley_terry": "evaluation.mixed",
    "power": "evaluation.simulate",
    "sentence_features": "text.features",
    "simulate_choices": "evaluation.simulate",
}

__all__ = [
    "CHOICE_COLUMNS",
    "FORMATS",
    "PRESETS",
    "Analysis",
    "BradleyTerry",
    "Cleaning",
    "ColumnMapping",
    "Evaluation",
    "EvaluationOptions",
    "ExclusionRules",
    "HumanData",
    "Simulation",
    "align_choices",
    "benjamini_hochberg",
    "catch_accuracy",
    "check_choices",
    "evaluate",
    "evaluate_file",
    "exclude",
    "fit_bradley_terry",
    "power",
    "preset_options",
    "read_choices",
    "read_mapped",
    "rescale",
    "score_table",
    "sentence_features",
    "signed_rank_cosine",
    "signed_ranks",
    "simulate_choices",
    "wilcoxon_signed_rank",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'contstim.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"contstim.{_PLACES[name]}"), name)
