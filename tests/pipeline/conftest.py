"""Fixtures of the tests of runs."""

import os
from pathlib import Path

import faulty_model
import pytest
from small_study import make_study
from toy_words import table_family

from contstim.models.registry import FAMILIES
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.study import read_study_plan

__all__ = ["table_family"]


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyPlan:
    """Return a study with a faulty third model, which worker processes can load, too."""
    file = make_study(tmp_path)
    text = file.read_text("utf-8").replace("ngram:3.arpa?punctuation=split", "faulty:3.arpa")
    file.write_text(text, "utf-8")
    tests = str(Path(faulty_model.__file__).parent)
    site = tmp_path / "site"
    site.mkdir()
    code = (
        f"import sys; sys.path.insert(0, {tests!r}); import faulty_model; faulty_model.register()\n"
    )
    (site / "sitecustomize.py").write_text(code, "utf-8")
    package = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), package]))
    monkeypatch.setitem(FAMILIES, "faulty", FAMILIES["ngram"])
    faulty_model.register()
    return read_study_plan(file)
