"""What tests of runs share."""

import os
from pathlib import Path

import mortal
import pytest
from small import make_study
from toy_words import table_family

from contstim.models.registry import FAMILIES
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.study import read_study_plan

__all__ = ["table_family"]


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyPlan:
    """A study whose third model fails or dies where files say so, in worker processes too."""
    file = make_study(tmp_path)
    text = file.read_text("utf-8").replace("ngram:3.arpa?punctuation=split", "mortal:3.arpa")
    file.write_text(text, "utf-8")
    tests = str(Path(mortal.__file__).parent)
    site = tmp_path / "site"
    site.mkdir()
    code = f"import sys; sys.path.insert(0, {tests!r}); import mortal; mortal.register()\n"
    (site / "sitecustomize.py").write_text(code, "utf-8")
    package = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), package]))
    monkeypatch.setitem(FAMILIES, "mortal", FAMILIES["ngram"])
    mortal.register()
    return read_study_plan(file)
