"""Train the bundled n-gram models.

Usage: python models/ngram.py BUILD_FOLDER [--out models/bundled]

BUILD_FOLDER is what ``models/prepare.py`` wrote: ``train.txt`` and ``vocabulary.txt``. Written are
``bigram.arpa.gz`` and ``trigram.arpa.gz``; the same text gives the same bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.text import read_words
from contstim.training.ngram import NgramVocabulary, train_ngram

#: Order and entropy threshold of each model. The thresholds are as low as 14 MB for both allow.
MODELS = {"bigram": (2, 1.3e-7), "trigram": (3, 1.4e-7)}
#: Decimals of the logarithms of probabilities: an error of 0.00005 is 0.0001 nats.
DIGITS = 4


def main() -> None:
    """Train and write the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "bundled")
    args = parser.parse_args()
    vocabulary = NgramVocabulary(read_words(args.build / "vocabulary.txt"))
    for name, (order, entropy) in MODELS.items():
        trained = train_ngram(
            args.build / "train.txt",
            args.out / f"{name}.arpa.gz",
            order=order,
            vocabulary=vocabulary,
            entropy=entropy,
            digits=DIGITS,
        )
        size = trained.path.stat().st_size
        print(f"{name}: {trained.n_ngrams} n-grams by order, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
