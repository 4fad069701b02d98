"""Public names of `contstim.training`."""

from contstim.training.adaptation import adapt
from contstim.training.distillation import distill
from contstim.training.finetuning import finetune
from contstim.training.ngram import NgramVocabulary, train_ngram
from contstim.training.options import (
    DISTILLATION_DEFAULTS,
    FINETUNING_DEFAULTS,
    AdaptOptions,
    FitOptions,
    TrainingOptions,
)
from contstim.training.recurrent import train_recurrent

__all__ = [
    "DISTILLATION_DEFAULTS",
    "FINETUNING_DEFAULTS",
    "AdaptOptions",
    "FitOptions",
    "NgramVocabulary",
    "TrainingOptions",
    "adapt",
    "distill",
    "finetune",
    "train_ngram",
    "train_recurrent",
]
