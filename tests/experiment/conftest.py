"""A small study folder for the tests of the experiment."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from studies import make_trials

from contstim.experiment.scaffold import create_study
from contstim.experiment.study import Study, read_study


@pytest.fixture(scope="session")
def trials() -> pd.DataFrame:
    return make_trials()


@pytest.fixture(scope="session")
def template(trials: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study folder that is written once, because synchronising files is slow."""
    folder = tmp_path_factory.mktemp("template")
    trials.to_csv(folder / "trials.csv", index=False)
    return create_study(folder / "study", folder / "trials.csv").folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    """Return a study with two groups of two assignments and six trials each."""
    shutil.copytree(template, tmp_path / "study")
    return read_study(tmp_path / "study")
