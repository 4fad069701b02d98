"""Test the raw log of answers, events and responses, and its limits."""

import json
import time
from collections.abc import Iterator

import pytest
from client_messages import answers_to, event, session_request
from studies import add

from contstim.experiment.messages import RequestError
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

QUESTIONS = """
[[questions]]
name = "native"
prompt = "Is English your first language?"
kind = "choice"
options = ["yes", "no", "both"]
admit = ["yes", "both"]

[[questions]]
name = "devices"
prompt = "What do you read on?"
kind = "choices"
options = ["paper", "screen"]
required = false

[[questions]]
name = "remarks"
prompt = "Is there anything to add?"
when = "after"
required = false

[[consent.boxes]]
name = "reuse"
text = "My data may be used again."
"""


@pytest.fixture
def question_study(study: Study) -> Study:
    return add(study, QUESTIONS)


@pytest.fixture
def store(question_study: Study) -> Iterator[Store]:
    with Store(question_study) as store:
        yield store


def respond(store: Store, token: str, **responses: object) -> str:
    """Send responses; return the reason if they are refused."""
    sent = event("responses", detail=json.dumps({"responses": responses, "rt_ms": 5.0}))
    received = store.add_events(token, [sent, sent]).result()
    assert len(received.acknowledged) + len(received.refused) == 2
    return received.refused[0][1] if received.refused else ""


def test_first_response_to_each_question_counts(store: Store, question_study: Study) -> None:
    token, _, _ = store.open(session_request(question_study)).result()
    assert not respond(store, token, native="yes", devices=["screen"], reuse="no")
    assert not respond(store, token, native="no", remarks="", devices=[])
    assert store.resume(token).result()["responded"] == ["native", "devices", "reuse", "remarks"]
    table = read_study_data(question_study).responses
    assert table["question"].tolist()[:4] == ["native", "devices", "reuse", "native"]
    assert table["response"].tolist()[:4] == ["yes", '["screen"]', "no", "no"]
    assert set(table["rt_ms"]) == {5.0}


@pytest.mark.parametrize(
    ("responses", "why"),
    [
        ({"0000": ""}, "the study has no question '0000'"),
        ({"native": "maybe"}, "native has an answer that the page does not offer"),
        ({"native": ""}, "native has an answer that the page does not offer"),
        ({"native": ["yes"]}, "native has an answer that the page does not offer"),
        ({"devices": "paper"}, "devices has an answer that the page does not offer"),
        ({"devices": ["paper"] * 3}, "devices has an answer that the page does not offer"),
        ({"devices": [{}]}, "devices has an answer that the page does not offer"),
        ({"remarks": "x" * 5001}, "remarks has an answer that the page does not offer"),
        ({"remarks": 7}, "remarks has an answer that the page does not offer"),
        ({"reuse": True}, "reuse has an answer that the page does not offer"),
        ({"reuse": ["yes"]}, "reuse has an answer that the page does not offer"),
    ],
)
def test_invalid_responses_are_rejected(
    store: Store, question_study: Study, responses: dict[str, object], why: str
) -> None:
    token, _, _ = store.open(session_request(question_study)).result()
    assert respond(store, token, **responses) == why
    assert store.resume(token).result()["responded"] == []


def test_responses_per_question_are_limited(store: Store, question_study: Study) -> None:
    token, _, _ = store.open(session_request(question_study)).result()
    for _ in range(5):
        assert not respond(store, token, remarks="x" * 5000)
    why = respond(store, token, reuse="yes", remarks="again")
    assert why == "this session has answered remarks too often"
    assert store.resume(token).result()["responded"] == ["remarks"]


def test_many_responses_stay_fast(store: Store, question_study: Study) -> None:
    """A session with the maximum number of responses takes milliseconds of the writer."""
    token, bundle, _ = store.open(session_request(question_study)).result()
    for number in range(40):
        respond(store, token, **{f"n{number}": "x" * 900})
        respond(store, token, remarks="x" * 5000, native="no", devices=["paper", "screen"])
    store.add_answers(token, answers_to(bundle["trials"])).result()
    assert store.path.stat().st_size < 2**20
    begun = time.perf_counter()
    for _ in range(20):
        store.finish(token).result()
    assert (time.perf_counter() - begun) / 20 < 0.25  # 0.01 is usual; of the flood, seconds


def test_screened_out_sessions_are_not_excluded(store: Store, question_study: Study) -> None:
    token, _, _ = store.open(session_request(question_study)).result()
    respond(store, token, native="no")
    assert store.finish(token).result()["outcome"] == "screened_out"
    summary = store.summary().result()
    assert [session["state"] for session in summary["sessions"]] == ["screened_out"]
    assert summary["outcomes"] == {"screened_out": 1}
    assert summary["free"] == summary["assignments"]


def test_unanswered_screening_question_is_missing(store: Store, question_study: Study) -> None:
    token, bundle, _ = store.open(session_request(question_study)).result()
    store.add_answers(token, answers_to(bundle["trials"])).result()
    respond(store, token, native="perhaps")
    with pytest.raises(RequestError, match="answers are missing: 1$") as error:
        store.finish(token).result()
    assert error.value.details == {"missing": [], "questions": ["native"]}
    respond(store, token, native="both")
    assert store.finish(token).result()["outcome"] == "complete"
