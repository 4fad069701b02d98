"""A tiny masked model, its student and a tiny classifier, each made once for all tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_transformers import save_checkpoint

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


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny masked model."""
    return save_checkpoint("bert", tmp_path_factory.mktemp("learnt") / "bert")


@pytest.fixture(scope="session")
def cola(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of labelled sentences."""
    return write_cola(tmp_path_factory.mktemp("cola"))


@pytest.fixture(scope="session")
def student(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a student of the tiny model."""
    from contstim import load_model
    from contstim.models.learnt.distilling import distill
    from contstim.models.learnt.fitting import FitOptions

    out = tmp_path_factory.mktemp("student") / "student"
    teacher = load_model(f"hf:{bert}?metric=pll")
    distill(teacher, sentences(400, 5), out, options=FitOptions(epochs=5, learning_rate=3e-3))
    return out


@pytest.fixture(scope="session")
def classifier(bert: Path, cola: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a classifier of three restarts."""
    from contstim.models.learnt.finetuning import finetune
    from contstim.models.learnt.fitting import FitOptions

    out = tmp_path_factory.mktemp("classifier") / "classifier"
    options = FitOptions(epochs=3, batch=8, layers=1, learning_rate=1e-2)
    finetune(str(bert), cola, out, restarts=3, options=options)
    return out
