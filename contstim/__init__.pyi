"""Public names of contstim and the modules that define them, which are imported on first use."""

from contstim import datasets
from contstim.design.check import check_design
from contstim.design.latin import latin_square
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.trials import Layout, design_trials
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
from contstim.synthesis.results import SynthesisResult, Triplet
from contstim.synthesis.strategy import Strategy
from contstim.synthesis.triplets import synthesize_triplets
from contstim.text import Sentence, WordList, pool, read_sentences
from contstim.text.corpora import sample_sentences
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text.word_options import WordOptions

__version__: str

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
    "SynthesisResult",
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
