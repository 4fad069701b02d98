"""contstim: controversial stimuli, sentence pairs on which language models disagree.

Most commands of ``contstim`` correspond to one of these functions, which take and return
DataFrames:

- `load_model`: load a model, e.g. ``contstim:gpt`` or ``hf:gpt2``
- `score_sentences`: score sentences under models
- `synthesize`, `synthesize_triplets`: write sentences on which models disagree
- `select_natural_pairs`, `select_triplets`, `select_set`: select the most controversial stimuli
- `design_trials`, `latin_square`: lay out the trials of participants
- `simulate_choices`: simulate participants
- `read_choices`: read choices of participants
- `evaluate`, `summarize`: find out which model predicts the choices
- `datasets`: bundled example tables

    import contstim

    choices = contstim.datasets.simulated_choices()
    result = contstim.evaluate(choices, ["contstim:trigram", "contstim:gpt"])

Each name is imported on first use, so that selection and evaluation do not load PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contstim import datasets
    from contstim.design.latin import latin_square
    from contstim.design.simulate import Simulation, simulate_choices
    from contstim.design.trials import Layout, check_design, design_trials
    from contstim.errors import ContstimError
    from contstim.evaluation.evaluate import evaluate
    from contstim.evaluation.importers import read_choices
    from contstim.evaluation.measures.check import check_measure
    from contstim.evaluation.result import Evaluation
    from contstim.evaluation.summary import summarize
    from contstim.models import ModelSpec
    from contstim.models.base import (
        Event,
        ReplacementScores,
        ScoreKind,
        ScoringCost,
        SentenceModel,
        SentenceScores,
        TokenScores,
    )
    from contstim.models.check import check_model
    from contstim.models.logits import LogitsModel
    from contstim.models.registry import load_model, register_family
    from contstim.models.score_table import score_sentences
    from contstim.selection.natural import select_natural_pairs
    from contstim.selection.scores import read_scores
    from contstim.selection.sets import select_set
    from contstim.selection.triplets import select_triplets
    from contstim.synthesis import synthesize
    from contstim.synthesis.check import check_strategy
    from contstim.synthesis.edits import Edits
    from contstim.synthesis.problem import MinScore, Problem, standard_deviations
    from contstim.synthesis.results import Synthesis, Triplet
    from contstim.synthesis.strategy import Strategy
    from contstim.synthesis.triplets import synthesize_triplets
    from contstim.text import Sentence, WordList, pool, read_sentences
    from contstim.text.corpora import sample_sentences
    from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
    from contstim.text.word_options import WordOptions

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "errors": ("ContstimError",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.importers": ("read_choices",),
    "evaluation.measures.check": ("check_measure",),
    "evaluation.result": ("Evaluation",),
    "evaluation.summary": ("summarize",),
    "design.simulate": ("Simulation", "simulate_choices"),
    "models": ("ModelSpec",),
    "models.base": (
        "Event",
        "ScoringCost",
        "ReplacementScores",
        "ScoreKind",
        "SentenceModel",
        "TokenScores",
        "SentenceScores",
    ),
    "models.check": ("check_model",),
    "models.logits": ("LogitsModel",),
    "models.registry": ("load_model", "register_family"),
    "models.score_table": ("score_sentences",),
    "synthesis": ("synthesize",),
    "synthesis.check": ("check_strategy",),
    "synthesis.strategy": ("Strategy",),
    "synthesis.edits": ("Edits",),
    "synthesis.problem": ("MinScore", "Problem", "standard_deviations"),
    "synthesis.results": ("Synthesis", "Triplet"),
    "synthesis.triplets": ("synthesize_triplets",),
    "design.trials": ("Layout", "check_design", "design_trials"),
    "design.latin": ("latin_square",),
    "selection.natural": ("select_natural_pairs",),
    "selection.scores": ("read_scores",),
    "selection.sets": ("select_set",),
    "selection.triplets": ("select_triplets",),
    "text": ("Sentence", "WordList", "pool", "read_sentences"),
    "text.corpora": ("sample_sentences",),
    "text.vocabulary": ("Vocabulary", "bundled_vocabulary"),
    "text.word_options": ("WordOptions",),
}

__all__ = [
    "ContstimError",
    "Edits",
    "Evaluation",
    "Event",
    "Layout",
    "LogitsModel",
    "MinScore",
    "ModelSpec",
    "Problem",
    "ReplacementScores",
    "ScoreKind",
    "ScoringCost",
    "Sentence",
    "SentenceModel",
    "SentenceScores",
    "Simulation",
    "Strategy",
    "Synthesis",
    "TokenScores",
    "Triplet",
    "Vocabulary",
    "WordList",
    "WordOptions",
    "__version__",
    "bundled_vocabulary",
    "check_design",
    "check_measure",
    "check_model",
    "check_strategy",
    "datasets",
    "design_trials",
    "evaluate",
    "latin_square",
    "load_model",
    "pool",
    "read_choices",
    "read_scores",
    "read_sentences",
    "register_family",
    "sample_sentences",
    "score_sentences",
    "select_natural_pairs",
    "select_set",
    "select_triplets",
    "simulate_choices",
    "standard_deviations",
    "summarize",
    "synthesize",
    "synthesize_triplets",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("contstim.datasets")
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"contstim.{module}"), name)
    raise AttributeError(f"module 'contstim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
