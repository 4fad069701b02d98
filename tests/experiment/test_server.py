"""Test the server over HTTP: sessions, access control and error messages.

Tests `contstim.experiment.serving` as well.
"""

import asyncio
import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType

import pytest
from client_messages import answer, answers_to, consent, event, session_request
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from studies import RECRUITER, add, edit

from contstim.cli import main
from contstim.errors import InputError, OutputError
from contstim.experiment.requests import MAX_BODY_BYTES, handle_errors
from contstim.experiment.server import make_app
from contstim.experiment.serving import _open_listening_socket, check_or_make_token
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data
from contstim.experiment.vendor import VENDORED_FILES, page_version

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a substitute for the built page."""
    folder = tmp_path / "page"
    (folder / "vendor").mkdir(parents=True)
    index = "<!doctype html><html lang={lang}><title>{title}</title>"
    (folder / "index.html").write_text(index, "utf-8")
    for name in VENDORED_FILES:
        (folder / "vendor" / name).write_text("// stands for it\n", "utf-8")
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    return folder


@pytest.fixture
def client(study: Study, page: Path) -> Iterator[TestClient]:
    study = add(study, RECRUITER)
    with TestClient(make_app(Store(study), TOKEN, page)) as client:
        yield client


def start_session(
    client: TestClient, study: Study, participant: str | None = None
) -> tuple[dict, dict]:
    """Open a session; return the headers to send and the bundle."""
    reply = client.post("/api/sessions", json=consent(study, participant))
    assert reply.status_code in (200, 201), reply.text
    body = reply.json()
    return {"authorization": f"Bearer {body['token']}"}, body["bundle"]


def test_session_from_start_to_finish(client: TestClient, study: Study) -> None:
    info = client.get("/api/study").json()
    assert info["consent"]["sha256"] == study.consent_sha256
    assert "DONE1" not in json.dumps(info)
    asked = consent(study, "PID1", parameters={"STUDY_ID": "s1", "OTHER": "x"})
    reply = client.post("/api/sessions", json=asked)
    assert reply.status_code == 201
    assert client.post("/api/sessions", json=asked).status_code == 200
    headers = {"authorization": f"Bearer {reply.json()['token']}"}
    bundle = reply.json()["bundle"]
    first, rest = bundle["trials"][0], bundle["trials"][1:]
    sent = answer(first["trial"])
    body = {"answers": [sent]}
    expected = {"acknowledged": [sent["id"]], "conflicts": [], "refused": []}
    assert client.post("/api/answers", json=body, headers=headers).json() == expected
    assert (
        client.post("/api/events", json={"events": [event()]}, headers=headers).status_code == 200
    )
    resumed = client.get("/api/session", headers=headers).json()
    assert resumed["answered"] == {first["trial"]: {}}
    missing = client.post("/api/finish", headers=headers)
    assert missing.status_code == 409
    assert missing.json()["missing"] == [trial["trial"] for trial in rest]
    client.post("/api/answers", json={"answers": answers_to(rest)}, headers=headers)
    done = client.post("/api/finish", headers=headers).json()
    assert done["complete"] is True
    assert (done["code"], done["redirect"][-5:]) == ("DONE1", "DONE1")
    again = client.post("/api/sessions", json=asked)
    assert again.status_code == 409
    assert again.json()["outcome"] == "complete"


def test_declined_consent_is_only_counted(client: TestClient, study: Study) -> None:
    assert client.post("/api/declined", json={"why": "x"}).status_code == 204
    headers = {"authorization": f"Bearer {TOKEN}"}
    found = client.get("/api/dashboard", headers=headers).json()
    assert (found["declined"], found["sessions"]) == (1, [])


def test_only_named_query_parameters_are_stored(client: TestClient, study: Study) -> None:
    client.post("/api/sessions", json=consent(study, parameters={"STUDY_ID": "s", "x": "y"}))
    with sqlite3.connect(study.folder / "collected.sqlite3") as connection:
        kept = connection.execute("SELECT parameters FROM participants").fetchall()
    connection.close()
    assert kept == [('{"STUDY_ID": "s"}',)]


def test_pages_have_cache_and_security_headers(client: TestClient, page: Path) -> None:
    assert client.get("/").text.startswith("<!doctype html><html lang=en><title>Which")
    script = f"/static/{page_version(page)}/vendor/jspsych.min.js"
    kept = client.get(script)
    assert kept.status_code == 200
    # Its address changes with the sources, so browsers need not ask again.
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert client.get("/").headers["cache-control"] == "no-store"
    for path in ("/", "/api/study", script, "/nothing", "/api/answers"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/nothing").json() == {"error": "there is nothing here"}
    assert client.get("/api/answers").status_code == 405


def test_unbuilt_page_names_the_command(study: Study, tmp_path: Path) -> None:
    with TestClient(make_app(Store(study), TOKEN, tmp_path / "none")) as client:
        reply = client.get("/")
        assert reply.status_code == 503
        assert "run `contstim experiment build`" in reply.json()["error"]


PATHS = (
    "/static/../secret.txt",
    "/static/%2e%2e/secret.txt",
    "/static/..%2fsecret.txt",
    "/static/vendor/%2e%2e%2f%2e%2e%2fsecret.txt",
    "/static/..%5csecret.txt",
    "/static//etc/passwd",
    "/static/%00",
    "/../secret.txt",
    "/collected.sqlite3",
    "/static/../study.toml",
)


def test_paths_cannot_leave_the_page_folder(client: TestClient, page: Path) -> None:
    version = page_version(page)
    for path in (*PATHS, *(path.replace("static", f"static/{version}") for path in PATHS)):
        reply = client.get(path)
        assert reply.status_code in (404, 405), path
        assert "secret" not in reply.text


def test_dashboard_requires_its_token(client: TestClient, study: Study) -> None:
    session, _ = start_session(client, study, "PID1")
    wrong = ({}, {"authorization": "Bearer wrong"}, session, {"authorization": "Basic x"})
    for headers in wrong:
        assert client.get("/api/dashboard", headers=headers).status_code == 401
        reply = client.get("/dashboard", headers=headers)
        assert "0 of 6" not in reply.text
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"].startswith("Basic ")
    assert client.get(f"/dashboard?token={TOKEN}").status_code == 401
    for given in ({"headers": {"authorization": f"Bearer {TOKEN}"}}, {"auth": ("me", TOKEN)}):
        shown = client.get("/dashboard", **given).text
        assert "0 of 6" in shown
        assert "PID1" not in shown
        assert client.get("/api/dashboard", **given).json()["groups"][0]["taken"] == 1
        assert client.post("/dashboard", **given).status_code == 405  # it can be read only


def test_wrong_tokens_are_rate_limited_per_client(client: TestClient) -> None:
    replies = [client.get("/dashboard", auth=("me", f"guess-{n}")) for n in range(40)]
    assert [reply.status_code for reply in replies] == [401] * 10 + [429] * 30
    assert "wait a minute" in replies[-1].text
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/dashboard", headers=bearer).status_code == 429
    other = TestClient(client.app, client=("192.0.2.7", 1))
    assert other.get("/api/dashboard", headers=bearer).status_code == 200


@pytest.mark.parametrize("told", [True, False])
def test_two_studies_share_one_reverse_proxy(
    told: bool, study: Study, page: Path, tmp_path: Path
) -> None:
    """The proxy either keeps or removes the path prefix."""
    tokens = {name: f"{name}-token-of-the-tests" for name in ("one", "two")}
    stores = {name: Store(study, tmp_path / f"{name}.sqlite3") for name in tokens}
    apps = {name: make_app(stores[name], token, page) for name, token in tokens.items()}

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        _, name, rest = scope["path"].split("/", 2)
        before = f"/{name}"
        changed = {"root_path": before} if told else {"path": f"/{rest}"}
        await apps[name]({**scope, **changed}, receive, send)

    try:
        client = TestClient(front)
        for name, token in tokens.items():
            assert client.get(f"/{name}/").status_code == 200
            assert client.get(f"/{name}/api/study").json()["study"]["name"] == study.study.name
            assert "Sessions" in client.get(f"/{name}/dashboard", auth=("me", token)).text
    finally:
        for store in stores.values():
            store.close()


class Tags(HTMLParser):
    """Tags of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


def test_scripts_in_texts_and_ids_are_escaped(study: Study, page: Path) -> None:
    nasty = "<script>alert(1)</script>"
    path = study.folder / "trials.csv"
    path.write_text(path.read_text("utf-8").replace("slowly.", f"slowly {nasty}."), "utf-8")
    consent_file = study.folder / "consent.md"
    consent_file.write_text(f"Do you agree? {nasty}", "utf-8")
    study = add(study, RECRUITER)
    with TestClient(make_app(Store(study), TOKEN, page)) as client:
        headers, bundle = start_session(client, study, "PID1")
        assert nasty in bundle["consent"]["text"]
        assert any(nasty in "".join(trial["shown"].values()) for trial in bundle["trials"])
        reply = client.get("/api/session", headers=headers)
        assert reply.headers["content-type"] == "application/json"
        shown = client.get("/dashboard", headers={"authorization": f"Bearer {TOKEN}"}).text
        assert "script" not in Tags(shown).found


def test_dashboard_shows_the_funnel(client: TestClient, study: Study) -> None:
    client.get("/api/study")
    headers, bundle = start_session(client, study, "PID1")
    client.post("/api/answers", json={"answers": answers_to(bundle["trials"][:2])}, headers=headers)
    owner = {"authorization": f"Bearer {TOKEN}"}
    assert "Last answer a moment ago" in client.get("/dashboard", headers=owner).text
    board = client.get("/api/dashboard", headers=owner).json()
    assert board["funnel"] == {"opened": 1, "consent": 1, "practice": 1, "trials": 1, "end": 0}


def test_surrogates_block_neither_session_nor_export(study: Study, page: Path) -> None:
    study = add(study, '[[questions]]\nname = "free"\nprompt = "Say."\n')
    with TestClient(make_app(Store(study), TOKEN, page)) as client:
        headers, bundle = start_session(client, study, "PID1")
        # As JSON within JSON such a half is plain text on its way.
        details = [
            r'{"responses": {"free": "half \ud83d \ud83d\ude00\r."}, "rt_ms": 3}',
            r'{"responses": {"fr\udc00ee": "x"}, "rt_ms": 3}',
        ]
        sent = [event("responses", detail=detail) for detail in details]
        reply = client.post("/api/events", json={"events": sent}, headers=headers).json()
        assert reply["acknowledged"] == [sent[0]["id"]]
        assert reply["refused"][0]["error"] == "the study has no question 'fr?ee'"
        client.post("/api/answers", json={"answers": answers_to(bundle["trials"])}, headers=headers)
        assert client.get("/api/session", headers=headers).json()["responded"] == ["free"]
    out = study.folder / "out"
    assert main(["experiment", "export", str(study.folder), "--out", str(out), "--all"]) == 0
    text = (out / "responses.csv").read_bytes().decode()
    rows = [*csv.reader(io.StringIO(text, newline=""))]
    assert [row[1:3] for row in rows[1:]] == [["free", "half ? \U0001f600\r."]]


def test_bodies_are_limited_and_must_be_json(client: TestClient, study: Study) -> None:
    headers, _ = start_session(client, study)
    long = b'{"answers": [' + b" " * MAX_BODY_BYTES + b"]}"
    json_type = {**headers, "content-type": "application/json"}
    assert client.post("/api/answers", content=long, headers=json_type).status_code == 413
    parts = (b" " * 1000 for _ in range(100))  # without a length in the headers
    assert client.post("/api/answers", content=parts, headers=json_type).status_code == 413
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        given = {**headers, "content-type": kind}
        reply = client.post("/api/answers", content=b'{"answers": []}', headers=given)
        assert reply.status_code == 415
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"answers": 1}',
        b'{"answers": {"id": 1}}',
        b'{"answers": [{"rt_ms": NaN}]}',
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"answers": ' + b"9" * 6000 + b"}",
    ):
        reply = client.post("/api/answers", content=body, headers=json_type)
        assert reply.status_code == 400, body[:40]
        assert set(reply.json()) == {"error"}


def test_forged_and_foreign_session_tokens_are_rejected(client: TestClient, study: Study) -> None:
    first, bundle = start_session(client, study, "A")
    second, other = start_session(client, study, "B")
    assert bundle["group"] != other["group"]
    own = bundle["trials"][0]["trial"]
    assignments = [study.design.trials[one["assignment"]] for one in (bundle, other)]
    foreign = min({t.id for t in assignments[1]} - {t.id for t in assignments[0]})
    for token in ("", "x", bundle["session"], first["authorization"][7:-1], "\u00e9" * 9):
        headers = {"authorization": f"Bearer {token}".encode()}
        for method, path in (
            ("GET", "/api/session"),
            ("POST", "/api/answers"),
            ("POST", "/api/events"),
            ("POST", "/api/finish"),
        ):
            reply = client.request(
                method, path, headers=headers, json={"answers": [], "events": []}
            )
            assert reply.status_code == 401
    # A trial of another group is none of this session's.
    reply = client.post("/api/answers", json={"answers": [answer(foreign)]}, headers=first)
    assert reply.json()["acknowledged"] == []
    # The session's id in the body changes nothing: the token says whose the answer is.
    sent = answer(own, session=other["session"])
    client.post("/api/answers", json={"answers": [sent]}, headers=first)
    assert client.get("/api/session", headers=second).json()["answered"] == {}
    assert [*client.get("/api/session", headers=first).json()["answered"]] == [own]


def test_repeated_and_reordered_requests_are_idempotent(client: TestClient, study: Study) -> None:
    headers, bundle = start_session(client, study)
    sent = answers_to(bundle["trials"])
    for batch in (sent[3:], sent[1:4], sent, sent[::-1], sent):
        reply = client.post("/api/answers", json={"answers": batch}, headers=headers).json()
        assert reply["acknowledged"] == [one["id"] for one in batch]
        assert reply["conflicts"] == []
    with sqlite3.connect(study.folder / "collected.sqlite3") as connection:
        ids = [row[0] for row in connection.execute("SELECT answer FROM answers")]
    connection.close()
    assert sorted(ids) == sorted(one["id"] for one in sent)


OPENINGS: tuple[dict[str, object], ...] = (
    {"consent": None},
    {"consent": {"given": True}},
    {"consent": {"version": "1", "sha256": "0", "given": True}},
    {"consent": {"version": "1", "sha256": "0", "given": "yes"}},
    {"participant": 7},
    {"participant": ""},
    {"participant": "x" * 201},
    {"participant": "a\nb"},
    {"participant": "\ud800"},
    {"request": "x"},
    {"parameters": [1]},
    {"parameters": {"STUDY_ID": {"a": 1}}},
)


def test_invalid_session_requests_are_rejected(client: TestClient, study: Study) -> None:
    headers = {"content-type": "application/json"}
    for change in OPENINGS:
        body = json.dumps({**consent(study), **change})
        reply = client.post("/api/sessions", content=body, headers=headers)
        assert reply.status_code == 400, change
    board = client.get("/api/dashboard", headers={"authorization": f"Bearer {TOKEN}"})
    assert board.json()["sessions"] == []


def test_full_study_returns_its_completion_code(study: Study, page: Path) -> None:
    study = add(study, RECRUITER + 'full = "FULL3"\n')
    with TestClient(make_app(Store(study), TOKEN, page)) as client:
        for name in "ABCD":
            start_session(client, study, name)
        reply = client.post("/api/sessions", json=consent(study, "E"))
        assert reply.status_code == 503
        assert reply.json()["code"] == "FULL3"


def test_missing_recruiter_id_is_rejected(study: Study, page: Path) -> None:
    study = add(study, RECRUITER.replace("parameters", "required = true\nparameters"))
    with TestClient(make_app(Store(study), TOKEN, page)) as client:
        reply = client.post("/api/sessions", json=consent(study))
        assert reply.status_code == 400
        assert "PROLIFIC_PID" in reply.json()["error"]


def test_full_disk_acknowledges_nothing(study: Study, page: Path) -> None:
    said: list[str] = []
    store = Store(study, report=said.append)
    with TestClient(make_app(store, TOKEN, page)) as client:
        headers, bundle = start_session(client, study)
        body = {"answers": [answer(bundle["trials"][0]["trial"])]}

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("PRAGMA max_page_count = 1")

        store._writer.submit(fill).result()
        many = {"events": [event(detail="x" * 400) for _ in range(100)]}
        replies = [client.post("/api/events", json=many, headers=headers) for _ in range(3)]
        assert replies[-1].status_code == 503
        assert replies[-1].json() == {"error": "the data cannot be stored now; try again"}
        store._writer.submit(lambda c: c.execute("PRAGMA max_page_count = 100000")).result()
        assert client.post("/api/answers", json=body, headers=headers).status_code == 200


def test_removed_data_file_acknowledges_nothing(client: TestClient, study: Study) -> None:
    headers, bundle = start_session(client, study)
    (study.folder / "collected.sqlite3").unlink()
    body = {"answers": [answer(bundle["trials"][0]["trial"])]}
    reply = client.post("/api/answers", json=body, headers=headers)
    assert reply.status_code == 503
    assert reply.json() == {"error": "the data cannot be stored now; try again"}
    reply = client.get("/dashboard", headers={"authorization": f"Bearer {TOKEN}"})
    assert reply.status_code == 503
    assert "the data cannot be stored now" in reply.text


def test_cancelled_request_gets_status_503() -> None:
    async def wait(_: Request) -> Response:
        await asyncio.sleep(60)
        return Response()

    async def stopped() -> Response:
        task = asyncio.ensure_future(handle_errors(wait)(Request({"type": "http"})))
        await asyncio.sleep(0)
        task.cancel()  # as the server does once it has waited long enough
        return await task

    reply = asyncio.run(stopped())
    assert reply.status_code == 503
    assert reply.body == b'{"error":"the study is being stopped; try again"}'


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_public_address_requires_a_token(host: str) -> None:
    with pytest.raises(InputError, match="give --token .* TLS") as error:
        check_or_make_token(host, None)
    assert "\n" not in str(error.value)
    token = "a-token-of-the-tests"
    assert check_or_make_token(host, token) == token
    with pytest.raises(InputError, match="at least 16"):
        check_or_make_token(host, "short")
    with pytest.raises(InputError, match="has 16 characters, 1 different; give"):
        check_or_make_token(host, "x" * 16)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_address_gets_a_random_token(host: str) -> None:
    one, two = check_or_make_token(host, None), check_or_make_token(host, None)
    assert one != two
    assert len(one) >= 16


_SERVE = """
import os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[3])))
from contstim.experiment.serving import serve
from contstim.experiment.study import read_study
def say(line):
    print(line, *resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
token = os.environ.get("CONTSTIM_EXPERIMENT_TOKEN")
serve(read_study(sys.argv[1]), "127.0.0.1", 0, token, page=Path(sys.argv[4]), report=say)
"""


@contextmanager
def served(
    study: Study, page: Path, soft: int, hard: int, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[int, Path]]:
    """Serve in a process with a limit on open files; yield the port and the log file."""
    told = page / "told.txt"
    limits = [str(soft), str(hard)]
    command = [sys.executable, "-c", _SERVE, str(study.folder), *limits, str(page)]
    with told.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **more}
        )
    try:
        end = time.monotonic() + 240
        while not (port := re.search(r"participants: http://127.0.0.1:(\d+)/", told.read_text())):
            assert process.poll() is None, told.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield int(port[1]), told
    finally:
        process.kill()
        process.wait()


def test_start_messages_say_how_to_log_in(study: Study, page: Path) -> None:
    with served(study, page, 200, 200) as (port, told):
        one, two, three = (line.removesuffix(" 200 200") for line in read_three_lines(told))
    assert one == f"participants: http://127.0.0.1:{port}/"
    token = re.fullmatch(
        rf"dashboard:    http://127.0.0.1:{port}/dashboard, any user name, this password: (\S+)",
        two,
    )
    assert token is not None
    assert len(token[1]) >= 16
    assert three == f"data:         {study.folder / 'collected.sqlite3'}"
    mine = "a-token-that-I-gave"
    with served(study, page, 200, 200, {"CONTSTIM_EXPERIMENT_TOKEN": mine}) as (port, told):
        two = read_three_lines(told)[1].removesuffix(" 200 200")
        assert mine not in told.read_text("utf-8")
    said = f"http://127.0.0.1:{port}/dashboard, any user name, your token as password"
    assert two == f"dashboard:    {said}"


def read_three_lines(told: Path) -> list[str]:
    """Return the first lines of the log once it has three."""
    end = time.monotonic() + 240
    while len(lines := told.read_text("utf-8").splitlines()) < 3:
        assert time.monotonic() < end
        time.sleep(0.05)
    return lines


def test_port_in_use_is_reported_in_one_line() -> None:
    with _open_listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OutputError, match=f"cannot listen on 127.0.0.1:{port}.*--port"):
            _open_listening_socket("127.0.0.1", port)
    with pytest.raises(OutputError, match="cannot listen on no.such.host.invalid"):
        _open_listening_socket("no.such.host.invalid", 0)


def test_data_folder_name_need_not_be_utf8(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        study.folder.rename(folder)
    except OSError:
        return  # a file system whose names are all text
    with Store(read_study(folder)) as store:
        token, bundle, _ = store.open(session_request(study, "PID1")).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
    assert len(read_study_data(read_study(folder)).choices) == 6


def test_sessions_per_client_are_limited(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    study = edit(study, "sessions_per_client = 40", "sessions_per_client = 2")
    app = make_app(Store(study), TOKEN)
    with TestClient(app, client=("192.0.2.1", 1)) as client:
        replies = [client.post("/api/sessions", json=consent(study)) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [201, 201, 429]
        assert "raise allocation.sessions_per_client" in caplog.text
        # Others, and a web server that does not say whose requests it passes on, are not held up.
        for host in ("192.0.2.2", "127.0.0.1"):
            other = TestClient(app, client=(host, 1))
            assert other.post("/api/sessions", json=consent(study)).status_code == 201
        # The allowance refills at one request a second while these are sent.
        statuses = [client.get("/health").status_code for _ in range(80)]
        assert statuses[:60] == [200] * 60
        assert 429 in statuses[60:]
        assert client.get("/api/study").status_code == 200
