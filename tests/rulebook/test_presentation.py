"""A custom presentation in Python and JavaScript: written, served and exported."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adaptive_studies import PLAN, write_tables
from client_messages import answer, consent, session_request
from starlette.testclient import TestClient
from studies import make_trials

from contstim.errors import InputError
from contstim.experiment.adaptive import create_adaptive_study
from contstim.experiment.pages import make_study_files
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data

TOKEN = "a token of the dashboard"


@pytest.fixture
def coins(add_extension, run) -> Study:
    add_extension("coins", "contstim.presentations", "coins = Coins", files=("coins.js",))
    make_trials().to_csv("trials.csv", index=False)
    words = ["--presentation", "coins", "--trials", "trials.csv", "--language", "de"]
    ended = run("experiment", "new", "study", *words)
    assert ended.returncode == 0, ended.stderr
    assert 'presentation = "coins"' in Path("study/study.toml").read_text("utf-8")
    return read_study("study")


def serve_session(study: Study, choices: list[int]) -> None:
    """Play a session through the server's addresses, as the page does."""
    with TestClient(make_app(Store(study), TOKEN)) as client:
        opened = client.post("/api/sessions", json=consent(study)).json()
        head, bundle = {"authorization": f"Bearer {opened['token']}"}, opened["bundle"]
        module = bundle["settings"]["presentation"]["module"]
        address = client.get("/").text.split('src="static/')[1].split("/")[0]
        script = client.get(f"/static/{address}/{module}")
        assert script.headers["content-type"].startswith("text/javascript")
        assert "divided between two sentences" in script.text
        assert bundle["texts"]["trial_prompt"].startswith("Wie verteilen Sie")
        sent = [
            answer(t["trial"], choice, detail=json.dumps({"coins_left": 5 - choice}))
            for t, choice in zip(bundle["trials"], choices, strict=True)
        ]
        refused = client.post("/api/answers", json={"answers": [answer("n1", 5)]}, headers=head)
        assert refused.json()["refused"][0]["error"].startswith("choice is 5; it is one of -4, ")
        client.post("/api/answers", json={"answers": sent}, headers=head)
        ended = client.post("/api/finish", json={}, headers=head).json()
        assert ended["outcome"] == "complete"


@pytest.mark.usefixtures("vendored")
def test_custom_presentation(coins: Study, run) -> None:
    choices = [-4, -1, 1, 2, 3, 4]
    serve_session(coins, choices)
    ended = run("experiment", "export", "study", "--out", "out")
    assert ended.returncode == 0, ended.stderr
    table = pd.read_csv("out/choices.csv").sort_values("trial")
    # Eight divisions, equally far apart from -2.5 to 2.5, turned to sentence 1.
    scale = dict(zip([-4, -3, -2, -1, 1, 2, 3, 4], np.linspace(-2.5, 2.5, 8), strict=True))
    sides = table["side_1"].map({"left": 1, "right": -1}).to_numpy()
    expected = np.array([scale[choice] for choice in choices]) * sides
    assert table["rating"].to_numpy() == pytest.approx(expected, abs=1e-6)
    assert table["detail_coins_left"].tolist() == [5 - choice for choice in choices]
    shown = set(make_trials()[["sentence_1", "sentence_2"]].itertuples(index=False, name=None))
    assert {*table[["sentence_1", "sentence_2"]].itertuples(index=False, name=None)} <= shown
    materials = [json.loads(p.read_text("utf-8")) for p in Path("out").rglob("*.json")]
    assert [one["package"] for one in materials if "package" in one] == ["coins 1.5"]
    assert "divided" in Path("out/psychds/materials/coins.js").read_text("utf-8")
    sentences = pd.unique(table[["sentence_1", "sentence_2"]].to_numpy().ravel())
    scores = pd.DataFrame({m: [-1.0 * len(s) for s in sentences] for m in ("m1", "m2")}, sentences)
    scores.to_csv("scores.csv", index_label="sentence")
    words = ["--scores", "scores.csv", "--out", "results"]
    ended = run("evaluate", "out/choices.csv", *words)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.usefixtures("vendored")
def test_serverless_pages_contain_its_module_and_texts(coins: Study) -> None:
    assert any(path.endswith("/coins.js") for path in make_study_files(coins, "", {}))
    text = Path("study/consent.md").read_text("utf-8")
    assert "divide ten coins between them" in text
    path = Path("study/texts.toml")
    path.write_text(path.read_text("utf-8").replace("zehn Münzen", "10 Münzen"), "utf-8")
    assert "10 Münzen" in read_study("study").texts["coins_prompt"]


def test_custom_presentation_in_an_adaptive_study(coins: Study, tmp_path: Path) -> None:
    pool, scores = write_tables(tmp_path)
    study = create_adaptive_study(tmp_path / "duel", pool, scores, PLAN, 2, presentation="coins")
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study)).result()
        trials, last = bundle["practice"], 0
        while trials:
            sent = [answer(trial["trial"], 4) for trial in trials]
            assert not store.add_answers(token, sent).result().refused
            last += len(trials) if trials[0]["kind"] == "trial" else 0
            trials = store.next_trials(token, last).result()["trials"]
        assert store.finish(token).result()["outcome"] == "complete"
    assert len(read_study_data(study).choices) == 12


def test_missing_package_of_a_presentation_is_reported(coins: Study, monkeypatch) -> None:
    monkeypatch.setattr("contstim.plugins.entry_points", lambda **_: ())
    with pytest.raises(InputError, match="trial.presentation is 'coins'; give one of choice, rat"):
        read_study("study")
