"""Test the page on other hosts: DataPipe, static files and a substitute for JATOS."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hosts import FileHost
from playing import Player, choice_of, shorten_send_timeout

from contstim.cli import main
from contstim.experiment.exporting import read_recruiter_ids
from contstim.experiment.pages import write_jatos, write_static
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

RECRUITER = """
[recruiter]
name = "prolific"
participant = "PROLIFIC_PID"
redirect = "https://recruiter.example/back?cc={code}&who={participant}"
[recruiter.codes]
complete = "C0MPLETE"
declined = "N0"
"""

# What the page uses of JATOS's client library. Every second append of answers, and of the rest,
# fails, half of these after the data were stored; the first write of the batch session is refused,
# as when another run was faster.
JATOS = """
window.jatos = (() => {
  const told = JSON.parse(sessionStorage.getItem("told") ?? '{"appended": [], "ended": []}');
  const keep = () => sessionStorage.setItem("told", JSON.stringify(told));
  const counts = { answers: 0, others: 0 };
  let writes = 0;
  const batch = {};
  return {
    told,
    studyResultId: "77",
    urlQueryParameters: { PROLIFIC_PID: "5f00" },
    onLoad: (callback) => setTimeout(callback, 50),
    appendResultData: async (data) => {
      const calls = (counts[data.includes('"answers"') ? "answers" : "others"] += 1);
      if (calls % 4 === 2) throw new Error("no answer");
      told.appended.push(data);
      keep();
      if (calls % 4 === 0) throw new Error("the answer was lost");
    },
    batchSession: {
      get: (name) => batch[name],
      set: async (name, value) => {
        writes += 1;
        if (writes === 1) throw new Error("another version");
        batch[name] = value;
      },
    },
    endStudyWithoutRedirect: async (successful, message) => {
      told.ended.push([told.appended.length, successful, message ?? null]);
      keep();
    },
  };
})();
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def assert_complete_log(study: Study, found: list[dict[str, Any]], assignment: int) -> None:
    """Assert that a raw log has one session, consent, and one answer per trial in order."""
    assert len({line["session"] for line in found}) == 1
    assert {(line["study"], line["assignment"]) for line in found} == {
        (study.study.name, assignment)
    }
    assert [line["consent"]["sha256"] for line in found if "consent" in line] == [
        study.consent_sha256
    ]
    answers = {a["id"]: a for line in found for a in line.get("answers", ())}
    own = study.design.trials[assignment]
    shown = {trial.page_id: trial for trial in own}
    stored = [answer for answer in answers.values() if answer["trial"] in shown]
    assert [answer["trial"] for answer in stored] == [trial.page_id for trial in own]
    assert [answer["choice"] for answer in stored] == [choice_of(trial.number) for trial in own]


def assert_importable(study: Study, log: Path, found: list[dict[str, Any]] | None = None) -> None:
    """Assert that the imported raw log gives the tables of a server."""
    if found is not None:
        log.write_text("".join(f"{json.dumps(line)}\n" for line in found), "utf-8")
    assert main(["experiment", "import", str(study.folder), str(log)]) == 0
    out = log.with_suffix(".tables")
    assert main(["experiment", "export", str(study.folder), "--out", str(out)]) == 0
    choices = pd.read_csv(out / "choices.csv")
    assert len(choices) == study.design.n_trials
    assert len(set(choices["participant"])) == 1


def with_recruiter(study: Study) -> Study:
    from contstim.experiment.study import read_study

    path = study.folder / "study.toml"
    path.write_text(path.read_text("utf-8") + RECRUITER, "utf-8")
    return read_study(study.folder)


def test_static_page_sends_files_to_datapipe(
    context: BrowserContext,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = with_recruiter(make_study(pairs=40, break_every=0))
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    player = Player(context.new_page())
    player.page.goto(f"{host.url}?assignment=3&PROLIFIC_PID=5f00")
    player.begin()
    player.play(until=25)
    player.page.reload()
    player.leave("resume")
    player.play(until=44)
    player.screen("done")
    assert player.page.inner_text("output") == "C0MPLETE"
    link = player.page.get_attribute("a.button", "href")
    assert link == "https://recruiter.example/back?cc=C0MPLETE&who=5f00"
    assert "Return to Prolific" in player.page.inner_text("main")
    assert {body["experimentID"] for body in host.received} == {"exp1"}
    # One file tells whether data are taken at all; a session is one more, though it seemed to fail.
    names = [body["filename"] for body in host.received]
    assert len(names) == 2
    assert names[0] == "study_check.json"
    found = json.loads(host.received[1]["data"])
    ids = [answer["id"] for line in found for answer in line.get("answers", ())]
    assert len(ids) == len(set(ids)) == 46  # two of practice
    assert player.page.inner_text("main").count(found[0]["session"][:8].upper()) == 1
    assert_complete_log(study, found, assignment=3)
    folder = tmp_path / "files"
    folder.mkdir()
    for body in host.received:
        (folder / body["filename"]).write_text(body["data"], "utf-8")
    assert_importable(study, folder)
    # The endpoint publishes what it gets: the recruiter's id is not among it.
    assert "5f00" not in json.dumps(host.received)


def test_rejecting_endpoint_is_reported_before_consent(
    context: BrowserContext,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = make_study()
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    page = context.new_page()
    for field, value, screen, said in (
        ("required", ["subject"], "error", "INVALID_DATA"),
        ("active", False, "error", "DATA_COLLECTION_NOT_ACTIVE"),
        ("most_sessions", 0, "full", ""),
    ):
        before = getattr(host, field)
        setattr(host, field, value)
        page.goto(host.url)
        Player(page).screen(screen)
        assert said in page.inner_text("main")
        setattr(host, field, before)
    assert not host.received


def test_unreachable_endpoint_is_reported_before_consent(
    context: BrowserContext,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = make_study()
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    page = context.new_page()
    page.route("**/pipe", lambda route: route.abort())
    page.goto(host.url)
    Player(page).screen("unreachable")
    assert "nothing about you has been stored" in page.inner_text("main")
    page.unroute("**/pipe")
    page.get_by_role("button").click()
    Player(page).screen("consent")


def test_endpoint_failure_during_a_session_loses_no_data(
    context: BrowserContext,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = make_study()
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    player = Player(context.new_page())
    shorten_send_timeout(player.page)
    player.page.goto(host.url)
    player.begin()
    host.active = False
    player.play(until=8)
    player.screen("unsent")
    player.page.wait_for_selector("main:has-text('(DATA_COLLECTION_NOT_ACTIVE)')")
    with player.page.expect_download():
        player.press(1)
    host.active = True
    player.screen("done")
    assert_complete_log(
        study,
        json.loads(host.received[-1]["data"]),
        json.loads(host.received[-1]["data"])[0]["assignment"],
    )


def test_static_page_without_endpoint_offers_a_download(
    page: Page,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = make_study()
    site = write_static(study, tmp_path / "site")
    host = host_files(site)
    player = Player(page)
    page.goto(f"{host.url}?group=1")
    player.begin()
    player.play(until=4)
    page.reload()
    player.leave("resume")
    player.play(until=8)
    player.screen("save")
    with page.expect_download() as download:
        player.press()
    player.screen("done")
    download.value.save_as(tmp_path / "data.jsonl")
    found = lines((tmp_path / "data.jsonl").read_text("utf-8"))
    assert_complete_log(study, found, assignment=found[0]["assignment"])
    assert_importable(study, tmp_path / "saved.jsonl", found)
    assert not host.calls


def test_jatos_gets_all_answers_despite_failed_appends(
    context: BrowserContext,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = with_recruiter(make_study(pairs=20, break_every=0))
    archive = write_jatos(study, tmp_path / "study.jzip")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "unpacked")
    assets = tmp_path / "unpacked" / f"contstim_{study.study.name}"
    (assets / "jatos.js").write_text(JATOS, "utf-8")
    host = host_files(assets)
    player = Player(context.new_page())
    player.page.goto(f"{host.url}index.html")
    player.begin()
    player.play(until=10)
    player.page.reload()
    player.leave("resume")
    player.play(until=24)
    player.screen("done")
    told = player.page.evaluate("jatos.told")
    found = [line for data in told["appended"] for line in lines(data)]
    ids = [answer["id"] for line in found for answer in line.get("answers", ())]
    # What was stored although it seemed to fail is there twice, with the same id.
    assert len(set(ids)) == 26 < len(ids)
    assert_complete_log(study, found, assignment=1)
    assert_importable(study, tmp_path / "jatos.jsonl", found)
    (person,) = read_recruiter_ids(study).to_dict("records")
    assert (person["recruiter_id"], person["jatos_result"]) == ("5f00", "77")
    assert read_study_data(study).sessions["outcome"].tolist() == ["complete"]
    assert [end[1:] for end in told["ended"]] == [[True, None]]
    after = told["appended"][told["ended"][0][0] :]
    assert not [line for data in after for line in lines(data) if "answers" in line]
    assert player.page.inner_text("output") == "C0MPLETE"


def test_declined_consent_stores_nothing_in_jatos(
    page: Page,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = with_recruiter(make_study())
    with zipfile.ZipFile(write_jatos(study, tmp_path / "study.jzip")) as opened:
        opened.extractall(tmp_path)
    assets = tmp_path / f"contstim_{study.study.name}"
    (assets / "jatos.js").write_text(JATOS, "utf-8")
    player = Player(page)
    page.goto(f"{host_files(assets).url}index.html")
    player.leave("consent", button=1)
    player.screen("declined")
    assert page.evaluate("jatos.told") == {
        "appended": [],
        "ended": [[0, False, "consent declined"]],
    }
    assert page.inner_text("output") == "N0"
