"""Test `contstim reproduce`: the page of a study and error messages.

Tests `contstim.benchmarks.commands.reproduce`.
"""

import re
from pathlib import Path

import pytest

from contstim.benchmarks.commands import reproduce
from contstim.cli import main

README = "# Counting words\n\nRepeats\n\n> Nobody A. Counting words.\n> Journal 1 (2026).\n"
SCRIPT = """
import argparse, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--data", type=pathlib.Path)
parser.add_argument("--out", type=pathlib.Path)
args = parser.parse_args()
text = (args.data / "sentences.txt").read_text()
(args.out / "fig-1-lengths.svg").write_text("<?xml?><svg id='a' width='1'></svg>")
(args.out / "published.csv").write_text(
    "quantity,ours,published,note\\n"
    f"Table 1: words,{len(text.split())},4,\\n"
    f"Fig. 2: map,,see paper,{NOTE}\\n"
)
sys.exit(STATUS)
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "experiments" / "adc2021"
    folder.mkdir(parents=True)
    monkeypatch.setattr(reproduce, "STUDIES", folder.parent)
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data", "sentences.txt").write_text("The dog sat here.", "utf-8")
    (folder / "README.md").write_text(README, "utf-8")
    return folder / "run.py"


def _write(script: Path, note: str = "no data", status: int = 0) -> None:
    script.write_text(SCRIPT.replace("NOTE", repr(note)).replace("STATUS", str(status)), "utf-8")


def test_page_compares_numbers_and_explains_gaps(study, capsys):
    _write(study)
    assert main(["reproduce", "adc2021", "--data", "data", "--out", "out"]) == 0
    assert "2 quantities: 1 with our number beside the published one, 1" in capsys.readouterr().out
    page = Path("out", "index.html").read_text("utf-8")
    assert "<h1>Counting words</h1>" in page
    assert "Nobody A. Counting words. Journal 1 (2026)." in page
    rows = re.findall(r"<tr>(?:<td[^>]*>.*?</td>)+</tr>", page)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert cells == [
        ["Table 1: words", "4", "4", ""],
        ["Fig. 2: map", "", "see paper", "no data"],
    ]
    assert "fig 1 lengths</figcaption>" in page


def test_missing_numbers_without_a_reason_are_rejected(study, capsys):
    _write(study, note="")
    assert main(["reproduce", "adc2021", "--data", "data", "--out", "out"]) == 2
    assert "no reason for 'Fig. 2: map'" in capsys.readouterr().err
    assert not Path("out", "index.html").exists()


def test_exit_status_of_the_script_is_returned(study):
    _write(study, status=2)
    assert main(["reproduce", "adc2021", "--data", "data", "--out", "out"]) == 2
    assert not Path("out", "index.html").exists()


def test_missing_scripts_and_data_are_named(study, capsys):
    assert main(["reproduce", "adc2021", "--data", "data", "--out", "out"]) == 2
    assert f"there is no script {study}" in capsys.readouterr().err
    _write(study)
    assert main(["reproduce", "adc2021", "--data", "none", "--out", "out"]) == 2
    assert "--data none is no folder" in capsys.readouterr().err
    assert main(["reproduce", "adc2022", "--data", "data", "--out", "out"]) == 2
    assert "adc2021" in capsys.readouterr().err
