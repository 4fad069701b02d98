"""The figure of a paper from a folder of results, by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from contstim import datasets, evaluate, score_sentences
from contstim.cli import main
from contstim.evaluation import Analysis


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    choices = datasets.simulated_choices()
    sentences = [*choices["sentence_1"], *choices["sentence_2"]]
    scores = score_sentences(list(dict.fromkeys(sentences)), ["contstim:bigram", "contstim:gpt"])
    analyses = (Analysis("all"), Analysis("natural", ("natural_controversial",)))
    folder = tmp_path_factory.mktemp("results")
    evaluate(choices, scores, analyses=analyses).write_tables(folder)
    return folder


@pytest.mark.parametrize(
    ("ending", "begins"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_a_figure_is_drawn_from_the_tables_alone(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str, begins: bytes
) -> None:
    path = tmp_path / f"figure.{ending}"
    assert main(["report", str(results), "--figure", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert path.read_bytes().startswith(begins)


def test_width_analyses_and_measure_are_chosen(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    command = ["report", str(results), "--figure", str(path)]
    assert main(command) == 0
    drawn = path.read_text("utf-8")
    assert 'width="255.1' in drawn  # points: 90 mm
    assert ">natural<" in drawn  # both analyses, in one panel
    options = ["--width", "180", "--analysis", "natural", "--measure", "signed_rank_cosine"]
    assert main([*command, *options]) == 0
    drawn = path.read_text("utf-8")
    assert 'width="510.2' in drawn
    assert ">natural<" not in drawn
    assert ">signed-rank cosine similarity<" in drawn


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure", "f.gif"], "--figure f.gif does not end in .svg, .pdf or .png; choose one of"),
        (["--figure", "f.svg", "--analysis", "nature"], "unknown analysis 'nature'; did you mean"),
        (["--figure", "f.svg", "--measure", "speed"], "unknown measure 'speed'; "),
    ],
)
def test_what_cannot_be_drawn_is_named(
    results: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["report", str(results), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_results_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path), "--figure", "f.svg"]) == 2
    said = f"contstim: {tmp_path} has no models.csv; give the folder that evaluate wrote\n"
    assert capsys.readouterr().err == said
