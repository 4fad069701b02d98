"""A custom model family: in specs of commands, study plans and worker processes."""

import csv
from pathlib import Path

import pandas as pd
import pytest
from fake_packages import install
from small_study import make_study, run_alone, tables

from contstim import check_model, load_model
from contstim.cli import main
from contstim.errors import InputError, UnknownNameError
from contstim.models.cache import _packages_by_module, describe_model
from contstim.models.registry import score_kind
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.study import read_study_plan, run_study

MODULE = (Path(__file__).parents[1] / "extensions/word_lengths.py").read_text("utf-8")


def install_lengths(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str = MODULE) -> None:
    """Install ``word-lengths`` with its family ``length``."""
    entries = {"contstim.models": "length = word_lengths:LengthModel"}
    install(folder, monkeypatch, "word_lengths", module, entries)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_lengths(tmp_path / "site", monkeypatch)
    _packages_by_module.cache_clear()
    return tmp_path / "site"


def test_custom_family_in_commands(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = site / "sentences.txt"
    text.write_text("The dog ran.\n", "utf-8")
    assert main(["score", "--model", "length:0.5", str(text)]) == 0
    (found,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (found["model"], found["log_prob"]) == ("length:0.5", "-5.0")
    assert len(check_model(load_model("length:2"))) == 5
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "length:PATH                    word lengths (package word-lengths)" in lines


def test_description_contains_the_package_version(site: Path) -> None:
    assert describe_model(load_model("length:1"))["packages"] == {"word-lengths": "1.5"}


@pytest.mark.parametrize(
    ("stated", "unit"),
    [
        ("", "nats"),
        ("    kind = ScoreKind('rating', 'points', 7.0)\n", "points"),
        (
            "    @property\n    def kind(self):\n"
            "        return ScoreKind('rating', f'{self.letter} points', 7.0)\n",
            "2.0 points",
        ),
    ],
    ids=["inherited", "of the class", "of one model"],
)
def test_score_kind_of_a_custom_family(
    stated: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = MODULE.replace("import Event,", "import Event, ScoreKind,") + "\n" + stated
    install_lengths(tmp_path / "site", monkeypatch, module)
    kind = score_kind("length:2")
    assert kind == load_model("length:2").kind
    assert kind.unit == unit
    assert score_kind("length:2?reduction=mean") == load_model("length:2?reduction=mean").kind


def test_misspelled_family_gets_a_suggestion(site: Path) -> None:
    with pytest.raises(UnknownNameError) as error:
        load_model("lenght:1")
    assert str(error.value) == "unknown model family 'lenght'; did you mean 'length'?"


def test_package_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_lengths(tmp_path / "site", monkeypatch, "import numpy_that_is_not_there\n")
    (tmp_path / "text.txt").write_text("A dog.\n", "utf-8")
    assert main(["score", "--model", "length:1", str(tmp_path / "text.txt")]) == 2
    assert capsys.readouterr().err == (
        "contstim: the package word-lengths, which provides the model family 'length', cannot be "
        "imported (ModuleNotFoundError: No module named 'numpy_that_is_not_there'); repair or "
        "uninstall it\n"
    )
    assert main(["models", "list"]) == 0  # which imports nothing


def test_loader_that_returns_no_model_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_lengths(tmp_path / "site", monkeypatch, "LengthModel = str\n")
    with pytest.raises(InputError) as error:
        load_model("length:1")
    assert str(error.value) == (
        "'word_lengths:LengthModel' of the package word-lengths returned 'length:1' for "
        "'length:1'; it must return a SentenceModel"
    )


def test_custom_family_in_worker_processes(site: Path, tmp_path: Path) -> None:
    file = make_study(tmp_path)
    text = file.read_text("utf-8").replace("ngram:3.arpa?punctuation=split", "length:1.5")
    file.write_text(text, "utf-8")
    run_study(read_study_plan(file), SequentialExecutor(), out=tmp_path / "whole")
    expected = tables(tmp_path / "whole")
    out = tmp_path / "workers"
    ended = run_alone(str(file), "--out", str(out), "--executor", "local:2")
    assert ended.returncode == 0, ended.stderr
    assert tables(out) == expected
    scores = pd.read_csv(out / "scores.csv")
    mine = scores[scores["model"] == "length:1.5"]
    assert len(mine) > 0
    letters = mine["sentence"].str.replace(" ", "").str.len()
    assert (mine["log_prob"] == -1.5 * letters).all()
