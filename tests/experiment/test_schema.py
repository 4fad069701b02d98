"""The data file: whose it is, and what format it has."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from studies import edit, make_trials
from talking import answers_to, opening, play

from contstim.errors import InputError, OutputError
from contstim.experiment.collected import read_collected
from contstim.experiment.schema import DATA_FILE, open_data
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.upkeep import extend_study


def test_levels_of_confidence_stay_while_there_are_data(study: Study) -> None:
    Store(study).close()
    with pytest.raises(InputError, match=r"the trials or \[trial\] of .* are not those for"):
        Store(edit(study, "levels = 3", "levels = 1"))


def test_other_trials_or_other_files_are_refused(study: Study, tmp_path: Path) -> None:
    Store(study).close()
    path = study.folder / "trials.csv"
    path.write_text(path.read_text("utf-8").replace("old men", "young men"), "utf-8")
    with pytest.raises(InputError, match="are not those for which"):
        Store(edit(study, "format", "format"))
    other = tmp_path / "other.sqlite3"
    other.write_text("not a database " * 100, "utf-8")
    with pytest.raises(InputError, match="cannot use"):
        Store(study, other)
    with sqlite3.connect(tmp_path / "empty.sqlite3") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(InputError, match="does not hold the data of a study"):
        Store(study, tmp_path / "empty.sqlite3")
    with pytest.raises(OutputError, match="cannot use"):
        Store(study, tmp_path / "none" / "x.sqlite3")
    with pytest.raises(InputError, match="there are no data"):
        open_data(tmp_path / "nothing.sqlite3")


def test_data_that_could_not_be_made_do_not_stop_the_next(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Study) -> dict[int, str]:
        raise sqlite3.OperationalError("database or disk is full")

    path = study.folder / "collected.sqlite3"
    with monkeypatch.context() as patch:
        patch.setattr("contstim.experiment.schema._digests", full)
        with pytest.raises(OutputError, match="database or disk is full"):
            open_data(path, study)
    assert not path.exists()
    with closing(open_data(path, study)) as connection:
        assert connection.execute("SELECT count(*) FROM assignments").fetchone()[0] == 4
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_texts_may_change_while_a_study_runs(study: Study) -> None:
    Store(study).close()
    Store(edit(study, "Which sentence is more likely?", "Another title")).close()


def to_format_3(study: Study) -> None:
    """Turn the data into what the third format held."""
    with closing(sqlite3.connect(study.folder / DATA_FILE)) as connection, connection:
        connection.execute("DROP TABLE responses")
        connection.execute("ALTER TABLE assignments RENAME TO seats")
        for table in ("seats", "sessions", "allocations", "forgotten"):
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN assignment TO seat")
        for table, column in (
            ("sessions", "browsers"),
            ("sessions", "finished_by"),
            ("participants", "claimed"),
            ("tokens", "own"),
        ):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE about SET value = '3' WHERE key = 'format'")
        detail = '{"responses": {"age": "30", "box": "yes"}, "rt_ms": 5}'
        for event, at in (("e-1", "2026-01-01T00:00:00Z"), ("e-2", "2026-01-02T00:00:00Z")):
            connection.execute(
                "INSERT INTO events (session, event, kind, at, detail, received_at)"
                " SELECT session, ?, 'responses', ?, ?, 7 FROM sessions LIMIT 1",
                (event, at, detail),
            )


@pytest.mark.parametrize("read_first", [False, True])
def test_data_of_the_format_before_open_and_go_on(
    study: Study, tmp_path: Path, read_first: bool
) -> None:
    with Store(study) as store:
        play(store, "A")
        token, bundle, _ = store.open(opening(study, "B")).result()
    to_format_3(study)
    if read_first:
        collected = read_collected(study)
        assert len(collected.choices) == 6
        assert collected.responses["question"].tolist() == ["age", "box"] * 2
        assert collected.responses["response"].tolist() == ["30", "yes"] * 2
        assert len(collected.events) == 0
    other = tmp_path / "other"
    shutil.copytree(study.folder, other)
    text = (other / "trials.csv").read_text("utf-8").replace("old men", "young men")
    (other / "trials.csv").write_text(text, "utf-8")
    with pytest.raises(InputError, match="are not those for which"):
        Store(read_study(other))
    with Store(study) as store:
        store.add_answers(token, answers_to(bundle["trials"])).result()
        assert store.finish(token).result()["outcome"] == "complete"
    assert len(read_collected(study).choices) == 12
    make_trials(participants=3).to_csv(tmp_path / "more.csv", index=False)
    assert extend_study(study, tmp_path / "more.csv") == [5, 6]


def test_later_and_early_formats_are_refused(study: Study) -> None:
    Store(study).close()
    with closing(sqlite3.connect(study.folder / DATA_FILE)) as connection, connection:
        connection.execute("UPDATE about SET value = '5' WHERE key = 'format'")
    with pytest.raises(InputError, match="written by a later version of contstim; install it"):
        read_collected(study)
    with closing(sqlite3.connect(study.folder / DATA_FILE)) as connection, connection:
        connection.execute("UPDATE about SET value = '2' WHERE key = 'format'")
    with pytest.raises(
        InputError, match="by an early version .* export the data with that version"
    ):
        read_collected(study)
