"""Test the data file of a study: ownership and format."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from studies import edit

from contstim.errors import InputError, OutputError
from contstim.experiment.schema import DATA_FILE, open_data
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data


def test_scale_cannot_change_once_there_are_data(study: Study) -> None:
    Store(study).close()
    with pytest.raises(InputError, match=r"the trials or \[trial\] of .* differ from those for"):
        Store(edit(study, "levels = 3", "levels = 1"))


def test_other_trials_or_other_files_are_rejected(study: Study, tmp_path: Path) -> None:
    Store(study).close()
    path = study.folder / "trials.csv"
    path.write_text(path.read_text("utf-8").replace("old men", "young men"), "utf-8")
    with pytest.raises(InputError, match="differ from those for which"):
        Store(edit(study, "format", "format"))
    other = tmp_path / "other.sqlite3"
    other.write_text("not a database " * 100, "utf-8")
    with pytest.raises(InputError, match="cannot use"):
        Store(study, other)
    with sqlite3.connect(tmp_path / "empty.sqlite3") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(InputError, match="does not contain the data of a study"):
        Store(study, tmp_path / "empty.sqlite3")
    with pytest.raises(OutputError, match="cannot use"):
        Store(study, tmp_path / "none" / "x.sqlite3")
    with pytest.raises(InputError, match="there are no data"):
        open_data(tmp_path / "nothing.sqlite3")


def test_failed_creation_leaves_no_data_file(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Study) -> dict[int, str]:
        raise sqlite3.OperationalError("database or disk is full")

    path = study.folder / "collected.sqlite3"
    with monkeypatch.context() as patch:
        patch.setattr("contstim.experiment.schema._digest_assignments", full)
        with pytest.raises(OutputError, match="database or disk is full"):
            open_data(path, study)
    assert not path.exists()
    with closing(open_data(path, study)) as connection:
        assert connection.execute("SELECT count(*) FROM assignments").fetchone()[0] == 4
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_texts_can_change_while_a_study_runs(study: Study) -> None:
    Store(study).close()
    Store(edit(study, "Which sentence is more likely?", "Another title")).close()


def test_other_file_formats_are_rejected(study: Study) -> None:
    Store(study).close()
    with closing(sqlite3.connect(study.folder / DATA_FILE)) as connection, connection:
        connection.execute("UPDATE about SET value = '5' WHERE key = 'format'")
    with pytest.raises(InputError, match="by another version of contstim, .* with that version"):
        read_study_data(study)
