"""Test that extreme values are rejected in one line without leaving files.

Tests `contstim.cli.common`.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from contstim.cli import main, score
from contstim.design import Layout, design_trials
from contstim.design.power import power_curve
from contstim.design.studies import StudySimulator
from contstim.errors import InputError
from contstim.experiment.scaffold import create_study
from contstim.experiment.schema import open_data
from contstim.models.recurrent import NetworkConfig
from contstim.training.options import TrainingOptions
from contstim.training.recurrent import train_recurrent

ONE = ["--model", "contstim:bigram"]
BOTH = ["contstim:bigram", "contstim:trigram"]
HUGE = "99999999999999999999"


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "working_folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("text.txt").write_text("The door was open .\nHe saw the house .\n" * 4)
    Path("s.txt").write_text("The door was open.\nHe saw the house.\n")
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("no/where")
    return folder


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str], working_folder: Path):
    def run(*argv: str) -> str:
        before = sorted(working_folder.rglob("*"))
        try:
            status = main(list(argv))
        except SystemExit as error:
            status = error.code
        printed = capsys.readouterr().err
        assert status == 2, printed
        assert "Traceback" not in printed
        assert sorted(working_folder.rglob("*")) == before
        last = printed.strip().splitlines()[-1]
        assert last.startswith("contstim")
        return last.partition(": ")[2].partition("; see contstim")[0]

    return run


def _study(working_folder: Path) -> None:
    trials = ["design", "trials", "--groups", "1", "--participants", "1", "--catch", "2"]
    assert main([*trials, "--out", str(working_folder / "trials.csv")]) == 0
    create_study(working_folder / "study", working_folder / "trials.csv")


def test_oversized_csv_fields_are_rejected(fail) -> None:
    Path("w.csv").write_text("word\n" + "x" * 140_000 + "\n")
    search = ["synthesize", "--pair", *BOTH, "--sentences", "s.txt", "--vocabulary", "w.csv"]
    assert fail(*search) == (
        "w.csv, line 2 is not CSV (field larger than field limit (131072)); check its quotes"
    )
    Path("w.txt").write_text("x" * 140_000 + "\n")
    assert "the vocabulary has no word" in fail(*search[:-1], "w.txt")
    Path("cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    assert fail("select", "natural", "cut.csv.gz").startswith("cut.csv.gz is not a whole gzip")


def test_working_folder_is_not_replaced(fail, working_folder: Path) -> None:
    Path("sub").mkdir()
    Path("provenance.json").write_text("{}")
    os.chdir("sub")
    for folder in (".", "..", f"{working_folder}"):
        assert fail("benchmark", "golan2023/exp2", "--out", folder) == (
            f"cannot replace {folder}, which contains the working folder; change to another "
            "folder, or choose another output"
        )


def test_excessive_design_sizes_are_rejected(fail) -> None:
    trials = ["design", "trials", "--groups", "1", "--catch", "2", "--out", "o.csv"]
    assert "too large, the maximum is 1000000000" in fail(*trials, "--participants", HUGE)
    assert fail(*trials, "--participants", "900000000") == (
        "900000000 participants in each of 1 groups would see 1800000000 trials together, more "
        "than 10000000; ask for fewer"
    )
    with pytest.raises(InputError, match="more than 10000000"):
        design_trials(pool=["A dog ran home."], layout=Layout(1, 10**20, catch=1))
    with pytest.raises(InputError, match="more than 10000000 answers per study; ask for fewer"):
        power_curve(StudySimulator.from_difference(0.1), [10**20])
    Path("pairs.csv").write_text("sentence_1,sentence_2\nThe door was open.,He saw the house.\n")
    power = ["design", "power", "pairs.csv", "--compare", *BOTH, "--participants", "900000000"]
    assert "answers per study; ask for fewer" in fail(*power)


def test_invalid_training_options_are_rejected(working_folder: Path) -> None:
    for name in ("epochs", "full_epochs", "learning_rate"):
        for value in (float("nan"), float("inf"), -1.0):
            with pytest.raises(InputError):
                TrainingOptions(**{name: value})
    for weight in (float("nan"), float("inf"), 1e9):
        with pytest.raises(InputError, match="one weight above 0 and up to 10000"):
            train_recurrent(
                [working_folder / "text.txt"],
                working_folder / "m.safetensors",
                config=NetworkConfig("rnn", 2, 2),
                weights=[weight],
            )


FILES = (
    ["score", *ONE, "s.txt"],
    ["synthesize", "--pair", *BOTH, "--sentences", "s.txt"],
    ["select", "natural", "scores.csv"],
    ["models", "train", "ngram", "text.txt"],
)
FOLDERS = (["evaluate", "choices.csv"], ["run", "study.toml"])


@pytest.mark.parametrize("argv", FILES, ids=lambda argv: " ".join(argv[:3]))
def test_invalid_output_files_are_rejected(fail, argv: list[str]) -> None:
    for out in (".", "/", ".."):
        message = f"cannot write {out}: it is a folder; give a file name"
        assert message in fail(*argv, "--out", out)
    assert "cannot write loop: Too many levels of symbolic links; choose another output" in fail(
        *argv, "--out", "loop"
    )
    assert "cannot write 'a\\udcff': the name is not UTF-8; choose another" in fail(
        *argv, "--out", "a\udcff"
    )


@pytest.mark.parametrize("argv", FOLDERS, ids=lambda argv: " ".join(argv[:2]))
def test_invalid_output_folders_are_rejected(fail, argv: list[str]) -> None:
    assert "cannot write into /: it is the root of the file system; give another folder" in fail(
        *argv, "--out", "/"
    )
    for out in ("s.txt", "dangling"):
        assert f"cannot write into {out}: it is not a folder; give another" in fail(
            *argv, "--out", out
        )
    assert "cannot write loop/x: Too many levels of symbolic links; choose another output" in fail(
        *argv, "--out", "loop/x"
    )


def test_invalid_data_files_are_rejected_unchanged(fail, working_folder: Path) -> None:
    _study(working_folder)
    Path("empty.sqlite3").touch()
    message = "empty.sqlite3 does not contain the data of a study; choose another file"
    for action in ("export", "replace", "release"):
        argv = ["experiment", action, "study", "--data", "empty.sqlite3"]
        argv += {"release": ["--timeout", "1"]}.get(action, [])
        argv += ["--out", "o"] if action == "export" else []
        assert fail(*argv) == message
        assert Path("empty.sqlite3").stat().st_size == 0
    with pytest.raises(InputError, match="does not contain the data"):
        open_data(Path("empty.sqlite3"))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_commands_leave_no_files(
    sent: int,
    working_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), sent)
        time.sleep(10)

    before = sorted(working_folder.iterdir())
    monkeypatch.setattr(score, "write_sentence_scores", stop)
    # What runs in the background of a shell begins with SIGINT ignored.
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["score", *ONE, "s.txt", "--out", "o.csv"]) == 130
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert capsys.readouterr().err.splitlines()[-1] == "contstim: interrupted"
    assert sorted(working_folder.iterdir()) == before


def test_interruption_message_mentions_saved_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("contstim.cli.synthesis_study.write_synthesis", stop)
    pair = ["synthesize", "--pair", *BOTH, "--sentences", "s.txt"]
    kept = "; finished results are saved; repeat the command with the same options to continue"
    for argv, said in ((pair, ""), ([*pair, "--out", "o.csv"], kept)):
        assert main(argv) == 130
        assert capsys.readouterr().err.splitlines()[-1] == f"contstim: interrupted{said}"
