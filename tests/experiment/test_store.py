"""Test that assignments, answers and outcomes are stored before they are reported.

Tests `contstim.experiment.store` and `contstim.experiment.sessions`.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_messages import answer, answers_to, event, session_request
from studies import ATTENTION, RECRUITER, add, edit

from contstim.cli import main
from contstim.errors import InputError, OutputError
from contstim.experiment.messages import Consent, RequestError, SessionRequest
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study


class Clock:
    """Clock that is moved by hand."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(study: Study, clock: Clock) -> Iterator[Store]:
    with Store(study, clock=clock) as store:
        yield store


def rows(store: Store, query: str) -> list[tuple[object, ...]]:
    """Return committed rows, read by another connection."""
    connection = sqlite3.connect(store.path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def groups_taken(store: Store) -> list[int]:
    query = "SELECT count(session) FROM assignments GROUP BY group_number"
    return [int(str(n)) for (n,) in rows(store, query)]


def test_assignments_stay_balanced_until_the_study_is_full(store: Store, study: Study) -> None:
    seen = []
    for _ in range(4):
        _, bundle, new = store.open(session_request(study)).result()
        assert new
        seen.append(bundle["assignment"])
        taken = groups_taken(store)
        assert max(taken) - min(taken) <= 1
    assert sorted(seen) == [1, 2, 3, 4]
    with pytest.raises(RequestError, match="no place is free") as error:
        store.open(session_request(study)).result()
    assert error.value.status == 503
    # Who found no place leaves no trace, the recruiter's id included.
    assert rows(store, "SELECT count(*) FROM participants") == [(4,)]


def test_consent_form_is_stored(store: Store, study: Study) -> None:
    store.open(session_request(study)).result()
    query = "SELECT consent_sha256, consent_version, text FROM sessions JOIN consents"
    assert rows(store, query) == [(study.consent_sha256, "1", study.consent_text)]
    for wrong in (Consent("2", study.consent_sha256), Consent("1", "0" * 64)):
        with pytest.raises(RequestError, match="another version"):
            store.open(SessionRequest(wrong, None, None, {})).result()


def test_repeated_request_finds_the_same_session(store: Store, study: Study) -> None:
    token, first, _ = store.open(session_request(study, "ABC")).result()
    store.add_answers(token, [answer(first["trials"][0]["trial"])]).result()
    again, second, new = store.open(session_request(study, "ABC")).result()
    assert not new
    assert second["session"] == first["session"]
    assert [*second["answered"]] == [first["trials"][0]["trial"]]
    # Both tokens are good: the tab that was open before can still send what it holds.
    for one in (token, again):
        assert store.resume(one).result()["session"] == first["session"]
    _, third, _ = store.open(session_request(study, None, "request-1")).result()
    _, fourth, new = store.open(session_request(study, None, "request-1")).result()
    assert not new
    assert third["session"] == fourth["session"] != first["session"]
    # A request is no way into the session of a recruiter's participant.
    _, fifth, new = store.open(session_request(study, "DEF", "request-1")).result()
    assert new
    assert fifth["session"] != third["session"]


def test_conflicting_answers_are_stored_and_marked(store: Store, study: Study) -> None:
    token, bundle, _ = store.open(session_request(study)).result()
    trial = bundle["trials"][0]["trial"]
    one, two = answer(trial, 3), answer(trial, -1)
    assert store.add_answers(token, [one]).result().acknowledged == [one["id"]]
    again = store.add_answers(token, [one, one]).result()
    assert again.acknowledged == [one["id"], one["id"]]
    assert again.conflicts == []
    other = store.add_answers(token, [two, two]).result()
    assert other.acknowledged == other.conflicts == [two["id"], two["id"]]
    changed = store.add_answers(token, [{**one, "choice": 1}]).result()
    assert changed.refused == [(one["id"], "id is already used by another answer")]
    query = "SELECT answer, choice, conflict FROM answers ORDER BY sequence"
    assert rows(store, query) == [(one["id"], 3, 0), (two["id"], -1, 1)]
    assert store.resume(token).result()["answered"] == {trial: {}}


def test_invalid_answer_does_not_block_others(store: Store, study: Study) -> None:
    token, bundle, _ = store.open(session_request(study)).result()
    good = answer(bundle["trials"][1]["trial"])
    bad = answer("t999")
    found = store.add_answers(token, [bad, good, 7]).result()
    assert found.acknowledged == [good["id"]]
    assert found.refused == [
        (bad["id"], "trial is none of this session's trials"),
        (None, "an answer is an object"),
    ]


def test_repeated_events_are_stored_once(store: Store, study: Study) -> None:
    token, _, _ = store.open(session_request(study)).result()
    one = event("blur", detail={"width": 320})
    found = store.add_events(token, [one, one, event("party")]).result()
    assert found.acknowledged == [one["id"], one["id"]]
    assert found.refused[0][1].startswith("kind is 'party'; choose one of")
    assert rows(store, "SELECT kind, detail FROM events") == [("blur", '{"width": 320}')]


def test_too_many_answers_and_events_are_rejected(store: Store, study: Study) -> None:
    token, bundle, _ = store.open(session_request(study)).result()
    trial = bundle["trials"][0]["trial"]
    for _ in range(25):
        last = store.add_answers(token, [answer(trial) for _ in range(25)]).result()
    assert "too many answers" in last.refused[-1][1]
    # Of 8 trials (practice counts) 116,000 characters, 200 a row, and the first answer.
    assert rows(store, "SELECT count(*) FROM answers") == [(116_000 // 200 + 1,)]
    for _ in range(12):
        floods = store.add_events(token, [event(detail="x" * 300) for _ in range(25)]).result()
    assert "too many events" in floods.refused[-1][1]
    assert rows(store, "SELECT count(*) FROM events") == [(116_000 // 500,)]


def test_raw_log_is_append_only(store: Store, study: Study) -> None:
    token, bundle, _ = store.open(session_request(study)).result()
    store.add_answers(token, answers_to(bundle["trials"])).result()
    store.add_events(token, [event()]).result()
    for table in ("answers", "events"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET received_at = 0"):
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                rows(store, statement)


def test_finished_session_gets_its_completion_code(study: Study) -> None:
    study = add(study, RECRUITER)
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "P")).result()
        trials = bundle["trials"]
        store.add_answers(token, answers_to(trials[:-2])).result()
        with pytest.raises(RequestError, match="answers are missing: 2$") as error:
            store.finish(token).result()
        assert error.value.status == 409
        missing = [t["trial"] for t in trials[-2:]]
        assert error.value.details == {"missing": missing, "questions": []}
        store.add_answers(token, answers_to(trials[-2:])).result()
        done = {
            "complete": True,
            "outcome": "complete",
            "code": "DONE1",
            "redirect": "https://app.prolific.com/submissions/complete?cc=DONE1",
        }
        assert store.finish(token).result() == done
        assert store.finish(token).result() == done
        assert store.resume(token).result()["finished"] == "complete"
        with pytest.raises(RequestError, match="finished already") as error:
            store.open(session_request(study, "P")).result()
        assert error.value.status == 409


def test_failed_checks_can_end_a_session_immediately(study: Study) -> None:
    study = edit(add(study, ATTENTION), "end_immediately = false", "end_immediately = true")
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study)).result()
        assert not store.add_answers(token, [answer("a1", 1)]).result().is_over
        reply = store.add_answers(token, [answer("n1", -1)]).result()  # the other check
        assert reply.to_json()["over"]
        assert store.finish(token).result()["outcome"] == "failed_checks"
        assert store.resume(token).result()["finished"] == "failed_checks"
        # Nothing in the bundle tells checks and catch trials from other trials.
        assert {frozenset(one) for one in bundle["trials"]} == {
            frozenset({"trial", "number", "kind", "shown"})
        }
        assert {one["kind"] for one in bundle["trials"]} == {"trial"}
        assert [one["trial"] for one in bundle["trials"]] == [f"n{k}" for k in range(1, 9)]


def test_materials_are_stored_once_per_version(study: Study) -> None:
    for title in ("A", "A", "B"):
        study = edit(study, study.study.title, title)
        with Store(study) as store:
            store.open(session_request(study)).result()
            found = rows(store, "SELECT sha256, content FROM materials")
    assert len(found) == 2
    sessions = rows(store, "SELECT materials FROM sessions ORDER BY started_at")
    assert [sha for (sha,) in sessions] == [found[0][0]] * 2 + [found[1][0]]
    for sha256, content in found:
        assert hashlib.sha256(str(content).encode()).hexdigest() == sha256
    shown = json.loads(str(found[1][1]))
    assert shown["study"]["title"] == "B"
    assert shown["texts"]["consent_title"] == "Consent"
    assert re.fullmatch("[0-9a-f]{12}", shown["page"])
    assert shown["contstim"]


@pytest.mark.parametrize(
    ("choices", "outcome"), [((-1, 1), "complete"), ((1, -1), "failed_checks")]
)
def test_failed_attention_checks_determine_the_outcome(
    study: Study, choices: tuple[int, int], outcome: str
) -> None:
    study = add(study, ATTENTION + RECRUITER)
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study)).result()
        own = study.design.trials[bundle["assignment"]]
        sent = [answer(trial.id) for trial in own if trial.kind == "choice"]
        sent += [answer("a1", choices[0]), answer("a2", choices[1])]
        store.add_answers(token, sent).result()
        end = store.finish(token).result()
        assert end["outcome"] == outcome
        # There is no code for failed checks, so they get that of the complete.
        assert end["code"] == "DONE1"


def test_time_limit_is_measured_by_the_server(study: Study, clock: Clock) -> None:
    study = edit(study, "time_limit_minutes = 0", "time_limit_minutes = 90")
    with Store(study, clock=clock) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        assert bundle["settings"]["time_limit_s"] == 5400
        trials = bundle["trials"]
        clock.now += 5399
        # Coming back does not start the time again.
        token, bundle, _ = store.open(session_request(study, "A")).result()
        assert bundle["elapsed_s"] == 5399
        store.add_answers(token, answers_to(trials[:-1])).result()
        with pytest.raises(RequestError, match="answers are missing: 1$"):
            store.finish(token).result()
        clock.now += 2
        assert store.finish(token).result()["outcome"] == "time_limit"
        late, bundle, _ = store.open(session_request(study, "B")).result()
        clock.now += 5400 + 59
        store.add_answers(late, answers_to(bundle["trials"][:-1])).result()
        clock.now += 2
        last = answer(bundle["trials"][-1]["trial"])
        # Stored all the same: an answer is never thrown away.
        assert store.add_answers(late, [last]).result().acknowledged
        assert store.finish(late).result()["outcome"] == "time_limit"
        assert rows(store, "SELECT count(*) FROM answers WHERE late = 1") == [(1,)]


def test_abandoned_assignments_are_released_and_restored(
    store: Store, study: Study, clock: Clock
) -> None:
    tokens, assignments = [], []
    for name in "ABCD":
        token, bundle, _ = store.open(session_request(study, name)).result()
        tokens.append(token)
        assignments.append(bundle["assignment"])
        clock.now += 1
    clock.now += 60 * 60
    done = store.resume(tokens[3]).result()
    store.add_answers(tokens[3], answers_to(done["trials"])).result()
    store.finish(tokens[3]).result()
    store.add_answers(tokens[2], [answer(done["trials"][0]["trial"])]).result()
    clock.now += 61 * 60
    # A and B have been silent for two hours, C for one, and D is done.
    _, bundle, _ = store.open(session_request(study, "E")).result()
    assert bundle["assignment"] in assignments[:2]
    states = {one["assignment"]: one["state"] for one in store.summary().result()["sessions"][1:]}
    left = ({*assignments[:2]} - {bundle["assignment"]}).pop()
    assert states[left] == "released"
    # Whose assignment is free has it again; whose assignment is taken goes on all the same.
    back = assignments.index(left)
    store.resume(tokens[back]).result()
    assert rows(store, "SELECT count(session) FROM assignments") == [(4,)]
    lost = store.resume(tokens[1 - back]).result()
    assert lost["assignment"] == bundle["assignment"]
    kept = store.add_answers(tokens[1 - back], answers_to(lost["trials"])).result()
    assert len(kept.acknowledged) == 6
    store.resume(tokens[2]).result()
    with pytest.raises(RequestError, match="no place"):
        store.open(session_request(study, "F")).result()
    actions = Counter(a for (a,) in rows(store, "SELECT action FROM allocations"))
    assert actions == {"taken": 5, "released": 2, "returned": 1}


def test_longest_silent_session_is_released_if_none_is_free(
    store: Store, study: Study, clock: Clock
) -> None:
    people = {}
    for name in "ABCD":
        token, bundle, _ = store.open(session_request(study, name)).result()
        people[name] = (token, bundle)
        clock.now += 1
    for name in "ABC":  # D has only consented
        token, bundle = people[name]
        store.add_answers(token, [answer(bundle["trials"][0]["trial"])]).result()
    clock.now += 60 * 4
    with pytest.raises(RequestError, match="no place"):
        store.open(session_request(study, "E")).result()
    clock.now += 60 * 1
    _, bundle, _ = store.open(session_request(study, "E")).result()
    assert bundle["assignment"] == people["D"][1]["assignment"]
    clock.now += 60 * 4
    store.add_events(people["A"][0], [event()]).result()  # a sign of life
    clock.now += 60 * 1
    _, bundle, _ = store.open(session_request(study, "F")).result()
    assert bundle["assignment"] == people["B"][1]["assignment"]
    # Who comes back goes on, as one more of the group.
    token, bundle = people["B"]
    assert len(store.add_answers(token, answers_to(bundle["trials"])).result().acknowledged) == 6
    assert store.finish(token).result()["outcome"] == "complete"


def test_zero_minutes_disable_reassignment(study: Study, clock: Clock) -> None:
    study = edit(study, "reassign_after_minutes = 10", "reassign_after_minutes = 0")
    with Store(study, clock=clock) as store:
        for name in "ABCD":
            store.open(session_request(study, name)).result()
        clock.now += 60 * 119
        with pytest.raises(RequestError, match="no place"):
            store.open(session_request(study, "E")).result()


def test_data_survive_reopening(study: Study) -> None:
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        store.add_answers(token, answers_to(bundle["trials"][:3])).result()
        store.count("declined").result()
    with Store(study) as store:
        again = store.resume(token).result()
        assert [*again["answered"]] == [t["trial"] for t in bundle["trials"][:3]]
        assert again["trials"] == bundle["trials"]
        assert store.summary().result()["declined"] == 1


def test_commits_are_synchronised_to_disk(store: Store) -> None:
    def settings(connection: sqlite3.Connection) -> tuple[str, int]:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        return mode, connection.execute("PRAGMA synchronous").fetchone()[0]

    assert store._writer.submit(settings).result() == ("wal", 2)  # 2: FULL


def test_failing_report_does_not_stop_the_writer(study: Study) -> None:
    def say(_: str) -> None:
        raise BrokenPipeError(32, "nobody reads standard output")

    with Store(study, report=say) as store:
        away = store.path.with_name("away.sqlite3")
        store.path.rename(away)
        with pytest.raises(OutputError, match="was removed or replaced"):
            store.summary().result(timeout=240)
        away.rename(store.path)
        assert store.summary().result(timeout=240)["sessions"] == []


def test_moved_data_file_refuses_writes_until_it_is_back(study: Study) -> None:
    said: list[str] = []
    with Store(study, report=said.append) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        one, two = (answer(trial["trial"]) for trial in bundle["trials"][:2])
        away = store.path.with_name("away.sqlite3")
        store.path.rename(away)
        gone = (
            f"{store.path} was removed or replaced while the study runs; put it back, or stop the "
            "server and start it again"
        )
        for _ in range(2):
            with pytest.raises(OutputError) as error:
                store.add_answers(token, [one]).result()
            assert str(error.value) == gone
        shutil.copy(away, store.path)  # the same data, and yet not the file that is written to
        with pytest.raises(OutputError):
            store.count("declined").result()
        away.replace(store.path)
        assert store.add_answers(token, [one, two]).result().acknowledged == [one["id"], two["id"]]
        assert said == [f"nothing is stored: {gone}", "data are stored again"]
        assert rows(store, "SELECT answer FROM answers ORDER BY sequence") == [
            (one["id"],),
            (two["id"],),
        ]


def test_removed_wal_file_refuses_writes_until_restart(
    study: Study,
) -> None:
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        one, two = (answer(trial["trial"]) for trial in bundle["trials"][:2])
        store.add_answers(token, [one]).result()
        log = store.path.with_name(f"{store.path.name}-wal")
        log.unlink()
        with pytest.raises(OutputError, match=f"^{log} was removed or replaced while"):
            store.add_answers(token, [two]).result()
    with Store(study) as store:
        assert rows(store, "SELECT answer FROM answers") == [(one["id"],)]


def test_second_server_of_a_study_is_rejected(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    path = study.folder / "collected.sqlite3"
    (study.folder / "consent.md").write_text("Taking part is voluntary.\n", "utf-8")
    study = read_study(study.folder)
    with Store(study) as store:
        assert main(["experiment", "serve", str(study.folder), "--port", "0"]) == 2
        holder = re.escape(f"process {os.getpid()} on {platform.node()}")
        assert re.fullmatch(
            f"contstim: the data file {re.escape(str(path))} is held by {holder} since [-0-9: ]+; "
            "wait for it, or end it first\n",
            capsys.readouterr().err,
        )
        store.open(session_request(study, "A")).result()  # the first goes on
        Store(study, study.folder / "pilot.sqlite3").close()
    Store(study).close()


def test_killed_server_does_not_block_the_next(study: Study) -> None:
    code = (
        "import os, sys\n"
        "from contstim.experiment.store import Store\n"
        "from contstim.experiment.study import read_study\n"
        "store = Store(read_study(sys.argv[1]))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", code, str(study.folder)]
    assert subprocess.run(command, check=False).returncode == -9
    Store(study).close()


def test_lock_follows_symbolic_links(study: Study, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite3"
    with Store(study) as store:
        os.symlink(store.path, link)
        with pytest.raises(InputError, match="is held by process"):
            Store(study, link)
