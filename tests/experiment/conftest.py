"""A small study folder for the tests of the experiment."""

from pathlib import Path

import pandas as pd
import pytest
from studies import make_trials

from contstim.experiment.new import new_study
from contstim.experiment.study import Study


@pytest.fixture(scope="session")
def trials() -> pd.DataFrame:
    return make_trials()


@pytest.fixture
def study(trials: pd.DataFrame, tmp_path: Path) -> Study:
    """Two groups of two seats, six trials each."""
    table = tmp_path / "trials.csv"
    trials.to_csv(table, index=False)
    return new_study(tmp_path / "study", table)
