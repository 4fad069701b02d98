"""Test that malformed and hostile requests get a JSON error and do no harm.

Tests `contstim.experiment.messages`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from client_messages import answer, consent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from studies import RECRUITER, add

from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study

TOKEN = "a-token-of-the-tests"
POSTS = ("/api/sessions", "/api/declined", "/api/answers", "/api/events", "/api/finish")

# What a fault or an attacker would put where something else belongs.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(
        ["' OR 1=1 --", "<script>", "../../etc/passwd", "\x00", "\ud800", "-3", "NaN"]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = (
    *("id", "trial", "choice", "rt_ms", "answered_at", "input", "focus_losses", "hidden_ms"),
    *("shown", "kind", "at", "detail"),
)
TOP = ("answers", "events", "consent", "participant", "parameters", "request")


@pytest.fixture(scope="module")
def client(template: Path) -> TestClient:
    study = read_study(template)
    folder = template.parent / "hostile.sqlite3"
    return TestClient(make_app(Store(study, folder), TOKEN), raise_server_exceptions=True)


@pytest.fixture(scope="module")
def session(client: TestClient, template: Path) -> dict[str, Any]:
    return client.post("/api/sessions", json=consent(read_study(template), "A")).json()


def assert_json_error_or_success(client: TestClient, path: str, body: bytes, token: str) -> None:
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    reply = client.post(path, content=body, headers=headers)
    assert reply.status_code in (200, 201, 204, 400, 401, 409, 413, 429, 503)
    if reply.status_code >= 400:
        error = reply.json()["error"]
        assert error
        assert "\n" not in error
        assert "Traceback" not in error


settings_of_all = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@settings_of_all
@given(st.sampled_from(POSTS), st.binary(max_size=200))
def test_malformed_bodies_return_an_error(
    client: TestClient, session: dict[str, Any], path: str, body: bytes
) -> None:
    assert_json_error_or_success(client, path, body, str(session["token"]))


ROWS = st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), max_size=3)


@settings(settings_of_all, max_examples=30)
@given(st.sampled_from(POSTS), st.dictionaries(st.sampled_from(TOP), JSON | ROWS, max_size=3))
def test_values_of_wrong_types_return_an_error(
    client: TestClient, session: dict[str, Any], path: str, body: dict[str, object]
) -> None:
    assert_json_error_or_success(client, path, json.dumps(body).encode(), str(session["token"]))


@settings_of_all
@given(st.dictionaries(st.sampled_from(FIELDS), SCALARS, min_size=1, max_size=3))
def test_answers_with_one_wrong_field_return_an_error(
    client: TestClient, session: dict[str, Any], change: dict[str, object]
) -> None:
    trials = session["bundle"]["trials"]
    body = {"answers": [{**answer(trials[0]["trial"]), **change}]}
    assert_json_error_or_success(
        client, "/api/answers", json.dumps(body).encode(), str(session["token"])
    )


@settings_of_all
@given(st.text(st.characters(codec="latin-1", exclude_characters="\r\n\x00"), max_size=60))
def test_malformed_tokens_are_unauthorised(client: TestClient, token: str) -> None:
    headers = {"authorization": f"Bearer {token}".encode("latin-1")}
    reply = client.get("/api/session", headers=headers)
    assert reply.status_code == 401
    assert client.get("/api/dashboard", headers=headers).status_code in (401, 403, 429)


def test_data_stay_valid_after_attacks(
    client: TestClient, session: dict[str, Any], template: Path
) -> None:
    """The session continues, and stored data satisfy the schema."""
    study = read_study(template)
    token = str(session["token"])
    headers = {"authorization": f"Bearer {token}"}
    trials = session["bundle"]["trials"]
    sent = [answer(trial["trial"]) for trial in trials]
    reply = client.post("/api/answers", json={"answers": sent}, headers=headers)
    assert len(reply.json()["acknowledged"]) == 6
    assert client.post("/api/finish", headers=headers).json()["complete"] is True
    owner = TestClient(client.app, client=("192.0.2.7", 1))
    board = owner.get("/api/dashboard", headers={"authorization": f"Bearer {TOKEN}"}).json()
    assert board["assignments"] == len(study.design.groups)
    assert board["outcomes"]["complete"] == 1


def test_redirects_stay_on_the_recruiters_site(study: Study) -> None:
    """Codes and redirects come from the study file, never from a request."""
    study = add(study, RECRUITER)
    with TestClient(make_app(Store(study), TOKEN)) as client:
        body = consent(study, "A", parameters={"STUDY_ID": "https://evil.example"})
        body["redirect"] = "https://evil.example"
        bundle = client.post("/api/sessions", json=body).json()["bundle"]
        assert "evil" not in json.dumps(bundle)
