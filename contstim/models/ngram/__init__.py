"""N-gram models: Kneser-Ney training, ARPA files, and scoring through KenLM."""

from contstim.models.ngram.corpus import Vocabulary, read_vocabulary
from contstim.models.ngram.model import NgramModel, load
from contstim.models.ngram.train import TrainedNgram, train_ngram

__all__ = [
    "NgramModel",
    "TrainedNgram",
    "Vocabulary",
    "load",
    "read_vocabulary",
    "train_ngram",
]
