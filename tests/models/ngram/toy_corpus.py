"""Small texts and random models for tests of n-gram models."""

from pathlib import Path

import numpy as np

from contstim.models.ngram import NgramLevel, NgramTable
from contstim.models.ngram.arpa import write_arpa
from contstim.models.word_tokenizer import END, START, UNKNOWN

WORDS = ["a", "bee", "cat", "dog", "elephant", "flying-fox"]


def sentences(n: int = 200, n_words: int = 6, seed: int = 0) -> list[str]:
    """Random sentences: few words are common, and each leans on the one before it."""
    rng = np.random.default_rng(seed)
    names = [*WORDS, *(f"w{i}" for i in range(n_words))][:n_words]
    lines = []
    for _ in range(n):
        word = int(n_words * rng.random() ** 3)
        line = [names[word]]
        while rng.random() < 0.75:
            word = (word + int(n_words * rng.random() ** 5)) % n_words
            line.append(names[word])
        lines.append(" ".join(line))
    return lines


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def random_table(order: int, seed: int, unknown: bool = True) -> NgramTable:
    """A back-off model of random numbers: its sums are not 1, its back-off paths all differ."""
    rng = np.random.default_rng(seed)
    words = (*([UNKNOWN] if unknown else []), START, END, *WORDS)
    size = len(words)
    start, end = words.index(START), words.index(END)

    def level(keys: list[int], highest: bool) -> NgramLevel:
        n = len(keys)
        weights = np.zeros(n) if highest else rng.uniform(-1, 0.2, n).round(4)
        return NgramLevel(
            np.array(keys, dtype=np.int64), rng.uniform(-3, -0.1, n).round(4), weights
        )

    levels = [level(list(range(size)), order == 1)]
    grams: list[tuple[int, ...]] = [(w,) for w in range(size)]
    for n in range(2, order + 1):
        ids = {gram: i for i, gram in enumerate(grams)}
        longer = sorted(
            (ids[gram], word)
            for gram in grams
            for word in range(size)
            if gram[-1] != end and word != start and (*gram[1:], word) in ids
            if rng.random() < (0.5 if n == 2 else 0.4)
        )
        grams = [(*grams[context], word) for context, word in longer]
        levels.append(level([context * size + word for context, word in longer], n == order))
    return NgramTable(words, tuple(levels))


def write_random(path: Path, order: int, seed: int, unknown: bool = True) -> Path:
    write_arpa(random_table(order, seed, unknown), path)
    return path
