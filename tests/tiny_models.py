"""Session fixtures of tiny checkpoints, a student and a classifier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from labelled_sentences import sentences, write_cola
from tiny_transformers import save_checkpoint

from contstim import load_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a name to the folder of that tiny checkpoint."""
    made: dict[str, Path] = {}
    root = tmp_path_factory.mktemp("tiny")

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save_checkpoint(name, root / name)
        return made[name]

    return folder


@pytest.fixture(scope="session")
def bert(tiny: Callable[[str], Path]) -> Path:
    """Return the folder of a tiny masked model."""
    return tiny("bert")


@pytest.fixture(scope="session")
def cola(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of labelled sentences."""
    return write_cola(tmp_path_factory.mktemp("cola"))


@pytest.fixture(scope="session")
def student(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a student of the tiny model."""
    from contstim.training.distillation import distill
    from contstim.training.options import FitOptions

    out = tmp_path_factory.mktemp("student") / "student"
    teacher = load_model(f"hf:{bert}?metric=pll")
    distill(teacher, sentences(400, 5), out, options=FitOptions(epochs=5, learning_rate=3e-3))
    return out


@pytest.fixture(scope="session")
def classifier(bert: Path, cola: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a classifier of three restarts."""
    from contstim.training.finetuning import finetune
    from contstim.training.options import FitOptions

    out = tmp_path_factory.mktemp("classifier") / "classifier"
    options = FitOptions(epochs=3, batch=8, layers=1, learning_rate=1e-2)
    finetune(str(bert), cola, out, restarts=3, options=options)
    return out
