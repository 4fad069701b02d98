"""N-gram models: Kneser-Ney training, ARPA files, and scoring through KenLM."""

from contstim.models.ngram.corpus import NgramVocabulary, read_word_set
from contstim.models.ngram.model import NgramModel, load_ngram
from contstim.models.ngram.train import TrainedNgram, train_ngram

__all__ = [
    "NgramModel",
    "NgramVocabulary",
    "TrainedNgram",
    "load_ngram",
    "read_word_set",
    "train_ngram",
]
