"""Random acceptable and unacceptable sentences, and files of them in the format of CoLA."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS = ["the", "dog", "dogs", "saw", "a", "cat", "ran", "fast", "old", "man", "woman"]


def sentences(n: int, seed: int, least: int = 2, most: int = 8) -> list[str]:
    """Return `n` random strings of known words."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(least, most, size=n, endpoint=True)
    return [" ".join(rng.choice(WORDS, size=length)) + "." for length in lengths]


def write_cola(folder: Path, sizes: tuple[int, int, int] = (200, 60, 60)) -> Path:
    """Write files in CoLA's format in which a sentence is acceptable if it names a dog."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("in_domain_train", "in_domain_dev", "out_of_domain_dev")
    for seed, (name, n) in enumerate(zip(names, sizes, strict=True)):
        lines = [
            f"x\t{int('dog' in s)}\t{'' if 'dog' in s else '*'}\t{s}"
            for s in sentences(n, seed, most=5)
        ]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return folder
