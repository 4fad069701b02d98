"""A small table of choices, scores and an ``about.toml``, which the tests of publishing share."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.benchmarks.publishing.folder import files_of

ABOUT = """
name = "walks"
title = "Who walked home"
description = "People chose between sentences about walks."
question = "Which sentence is likelier?"
licence = "CC-BY-4.0"
language = "en"

[[authors]]
given = "Ada"
family = "Example"

[[texts]]
name = "licensed"
source = "a corpus that one must buy"
licence = "all rights reserved"
redistribute = false
file = "licensed.txt"

[[texts]]
name = "others"
source = "written for the study"
licence = "CC0-1.0"
redistribute = true

[[models]]
name = "m1"
source = "a paper"
licence = "MIT"

[[models]]
name = "m2"
source = "another paper"
licence = "none stated"
version = "2026-01"

[responsible]
limitations = "Walks alone."
biases = "Twelve people."
uses = "Tests."
impact = "None."
collection = "They were paid."
"""
PEOPLE = [f"5f3e9a0{k:x}77b2c4d{k:x}" for k in range(12)]


def make_choices(people: list[str] = PEOPLE, pairs: int = 8) -> pd.DataFrame:
    """Return choices between sentences, two catch trials among them."""
    rng = np.random.default_rng(1)
    rows = []
    for who, k in itertools.product(people, range(pairs + 2)):
        catch = k >= pairs
        natural = f"The {k} old men walked home again."
        other = (
            f"Again {k} home walked men old the." if catch else f"A {k} young man ran off there."
        )
        rows.append(
            {
                "participant": who,
                "group": "1",
                "trial": k + 1,
                "condition": "catch" if catch else "natural",
                "sentence_1": natural,
                "sentence_2": other,
                "model_1": None if catch else "m1",
                "model_2": None if catch else "m2",
                "rating": -2.5 if catch else rng.choice([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]),
                "rt_ms": 1000 + 10 * k,
                "expected": 1 if catch else None,
            }
        )
    return pd.DataFrame(rows)


def make_scores(choices: pd.DataFrame, models: tuple[str, ...] = ("m1", "m2")) -> pd.DataFrame:
    """Return scores of the sentences, a row each and a column per model."""
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    rng = np.random.default_rng(2)
    columns = {model: -30 - 5 * rng.random(len(sentences)) for model in models}
    return pd.DataFrame({"sentence": sentences, **columns})


def texts_of(folder: Path) -> dict[str, str]:
    """Return what the files of a folder hold, as text as far as they do, by their paths."""
    return {n: (folder / n).read_bytes().decode("utf-8", "replace") for n in files_of(folder)}


def write_all(folder: Path, choices: pd.DataFrame | None = None, secret: int = 0) -> Path:
    """Write choices, scores and what is said of them; of `secret` pairs sentence 1 is licensed."""
    choices = make_choices() if choices is None else choices
    choices.to_csv(folder / "choices.csv", index=False)
    make_scores(choices).to_csv(folder / "scores.csv", index=False)
    (folder / "about.toml").write_text(ABOUT, "utf-8")
    licensed = [f"The {k} old men walked home again." for k in range(secret)]
    (folder / "licensed.txt").write_text("\n".join([*licensed, "Nobody saw this one."]), "utf-8")
    return folder
