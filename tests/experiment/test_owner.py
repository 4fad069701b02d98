"""The dashboard: who gets in, for how long, and whose buttons are obeyed."""

import time
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def client(study: Study) -> Iterator[TestClient]:
    with TestClient(make_app(Store(study), TOKEN), base_url="https://study.test") as client:
        yield client


def log_in(client: TestClient, **headers: str) -> int:
    reply = client.post(
        "/dashboard", data={"token": TOKEN}, headers=headers, follow_redirects=False
    )
    return reply.status_code


def test_a_cookie_ends_and_is_not_the_tokens(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(client) == 303
    first = client.cookies["contstim_dashboard"]
    assert client.get("/dashboard").status_code == 200
    client.cookies.clear()
    reply = client.post("/dashboard", data={"token": TOKEN}, follow_redirects=False)
    crumbs = reply.headers["set-cookie"]
    assert first not in crumbs  # each browser has its own
    assert "Max-Age=43200" in crumbs
    assert "Secure" in crumbs
    start = time.monotonic()
    monkeypatch.setattr("contstim.experiment.owner.time.monotonic", lambda: start + 12 * 3600 + 1)
    assert client.get("/dashboard").status_code == 401


def test_who_logs_out_is_out_with_that_cookie_for_good(client: TestClient) -> None:
    log_in(client)
    cookie = client.cookies["contstim_dashboard"]
    assert "Log out" in client.get("/dashboard").text
    assert client.post("/dashboard/logout", follow_redirects=False).status_code == 303
    for _ in range(2):
        reply = client.get("/dashboard", headers={"cookie": f"contstim_dashboard={cookie}"})
        assert reply.status_code == 401
    assert "This is not" not in reply.text


def test_guesses_of_the_token_are_few_for_each_client(client: TestClient) -> None:
    replies = [client.post("/dashboard", data={"token": f"guess-{n}"}) for n in range(40)]
    assert [reply.status_code for reply in replies] == [403] * 10 + [429] * 30
    assert "wait a minute" in replies[-1].text
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/dashboard", headers=bearer).status_code == 429
    other = TestClient(client.app, client=("192.0.2.7", 1))
    assert other.get("/api/dashboard", headers=bearer).status_code == 200


@pytest.mark.parametrize("button", ["release", "backup", "export", "logout"])
def test_buttons_on_another_page_are_not_obeyed(client: TestClient, button: str) -> None:
    log_in(client)
    foreign = {"origin": "https://students.test", "sec-fetch-site": "same-site"}
    reply = client.post(f"/dashboard/{button}", headers=foreign, data={"session": ""})
    assert reply.status_code == 403
    assert "dashboard&#39;s own buttons" in reply.text
    assert client.get("/dashboard").status_code == 200
    assert log_in(client, **foreign) == 403


def test_pages_with_forms_say_where_they_are(client: TestClient) -> None:
    """Else browsers would send `Origin: null` along, as pages of strangers can."""
    log_in(client)
    assert client.get("/dashboard").headers["referrer-policy"] == "same-origin"
    assert client.get("/").headers["referrer-policy"] == "no-referrer"
