"""Whether sentences are read as they were written: 10,000 of each language, and as many replaced.

    python experiments/languages/round_trip.py --n 10000

For each language: how many sentences are written again as they were (`join(split(text)) == text`),
and how many have neighbours that do not go together by the language's rules (none should, as what
goes together is written by hand in the texts); how many of as many sentences in which a word was
replaced by another of the text read back as the same words, and how many did not, which a search
refuses.
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np
import pandas as pd
from texts import GRAMMARS, sentences

from contstim.text import Sentence
from contstim.text.languages import get_language


def row(code: str, n: int, seed: int) -> dict[str, object]:
    """Return what became of a language's sentences."""
    language, rng = get_language(code), np.random.default_rng(seed)
    texts = list(islice(sentences(code, seed), n))
    parsed = [Sentence.parse(text, language) for text in texts]
    words = sorted({word for sentence in parsed for word in sentence.words})
    replaced = []
    for sentence in parsed:
        position = int(rng.integers(len(sentence)))
        replaced.append(sentence.replace(position, str(rng.choice(words))))
    again = sum(sentence.round_trips for sentence in replaced)
    # Brute force: the words that the language makes of the text, beside those that were meant.
    same = sum(language.split(str(s)) == s.surfaces for s in replaced)
    return {
        "language": code,
        "sentences": len(texts),
        "as written": sum(str(s) == text for s, text in zip(parsed, texts, strict=True)),
        "disagreeing": sum(bool(sentence.agreement_errors) for sentence in parsed),
        "words": len(words),
        "replaced": len(replaced),
        "read back": again,
        "refused": len(replaced) - same,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(pd.DataFrame([row(code, args.n, args.seed) for code in GRAMMARS]).to_string(index=False))


if __name__ == "__main__":
    main()
