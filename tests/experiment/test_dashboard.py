"""Test the dashboard of a study."""

import re
from concurrent.futures import Future

from client_messages import answer, session_request
from studies import ATTENTION, add

from contstim.experiment.dashboard import render_dashboard
from contstim.experiment.store import Store
from contstim.experiment.study import Study


def test_summary_counts_answers_checks_and_conflicts(study: Study) -> None:
    study = add(study, ATTENTION)
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "secret-id")).result()
        own = study.design.trials[bundle["assignment"]]
        catch = [t for t in own if t.condition == "catch"]
        sent = [answer(catch[0].id, -1 if catch[0].expected == "left" else 1)]
        sent += [answer(catch[1].id, 1 if catch[1].expected == "left" else -1)]
        sent += [answer("a1", -3), answer("p1")]
        store.add_answers(token, [*sent, answer("a1", -2)]).result()
        found = store.summary().result()
        assert "secret-id" not in str(found)
        one = found["sessions"][0]
        assert (one["answered"], one["trials"]) == (3, 8)
        assert (one["catch"], one["checks"], one["conflicts"]) == ([1, 2], [1, 1], 1)
        assert one["median_rt_ms"] == 1234
        assert found["groups"][0] == {"group": 1, "assignments": 2, "taken": 1, "complete": 0}
        assert (found["assignments"], found["free"]) == (4, 3)
        assert found["outcomes"] == {"active": 1}


def test_summary_is_incremental_and_does_not_block(study: Study) -> None:
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        trials = bundle["trials"]
        gate: Future[None] = Future()
        for n in range(1, 4):
            store.add_answers(token, [answer(trials[n - 1]["trial"])]).result()
            found = store.summary().result()
            assert found["sessions"][0]["answered"] == n
        held = store._writer.submit(lambda _: gate.result())
        assert store.summary().result(timeout=240)["sessions"][0]["answered"] == 3
        gate.set_result(None)
        held.result()
        store.open(session_request(study, "B")).result()
        found = store.summary().result()
        assert found["funnel"] == {"opened": 0, "consent": 2, "practice": 1, "trials": 1, "end": 0}
        assert re.fullmatch("[0-9A-F]{8}", found["sessions"][0]["code"])
    # Counted from the beginning, the same.
    with Store(study) as store:
        assert store.summary().result()["sessions"][1]["answered"] == 3


def test_dashboard_escapes_html() -> None:
    nasty = "<img src=x onerror=alert(1)>"
    session = {
        "session": nasty,
        "assignment": 1,
        "group": 1,
        "state": nasty,
        "answered": 0,
        "trials": 6,
    }
    session |= {"minutes": 0.0, "catch": [0, 0], "checks": [1, 2], "conflicts": 0}
    session |= {"code": nasty, "silent": 0.0}
    group = {"group": nasty, "assignments": 1, "taken": 1, "complete": 0}
    summary = {"study": nasty, "assignments": 1, "free": 0, "declined": 0, "outcomes": {nasty: 1}}
    summary |= {"funnel": {"consent": 1}, "disk_mb": 100, "failed_checks": 1, "last_answer": 2.5}
    summary["closed"] = nasty
    shown = render_dashboard(
        {**summary, "groups": [group], "sessions": [{**session, "median_rt_ms": None}]}
    )
    assert "<img" not in shown
    assert "1 of 2" in shown
    assert "100 MB, which is little." in shown
