"""Test adaptive studies on the server: blocks are issued once and stored first.

Tests `contstim.experiment.adaptive` and `contstim.experiment.latest_result`.
"""

import json
import multiprocessing
import os
import re
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from adaptive_studies import PLAN, begin, make_adaptive, take_part, write_tables
from client_messages import answer, answers_to, consent, session_request
from starlette.testclient import TestClient
from studies import edit

from contstim.adaptive.stopping import Stopping
from contstim.cli import main
from contstim.errors import ContstimError, InputError
from contstim.experiment.adaptive import BlockIssuer, create_adaptive_study, read_pool
from contstim.experiment.exporting import describe_columns, write_export
from contstim.experiment.maintenance import delete_participant, extend_study
from contstim.experiment.messages import RequestError
from contstim.experiment.schema import connect, open_data
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import read_study
from contstim.experiment.study_data import read_study_data


@pytest.fixture
def study(tmp_path):
    return make_adaptive(tmp_path)


def read_blocks(study):
    with closing(connect(study.folder / "collected.sqlite3")) as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM blocks ORDER BY number")]


def read_state(study):
    """Return the posterior weights and the next block, computed from the stored data."""
    with closing(open_data(study.folder / "collected.sqlite3", study)) as connection:
        scheduler = BlockIssuer(study).load_scheduler(connection)
        return scheduler.weights.tobytes(), scheduler.choose_next_block("somebody new")


def test_blocks_fill_the_placeholder_trials_of_a_session(study):
    with Store(study) as store:
        token, bundle = begin(store, "Ada")
        assert [one["trial"] for one in bundle["trials"]] == ["n1", "n2", "n3", "n4", "n5"]
        assert bundle["more"]
        assert bundle["settings"]["n_trials"] == 12
        first = store.next_trials(token, 5).result()
        assert [one["trial"] for one in first["trials"]] == ["n6", "n7", "n8", "n9"]
        # The reply was lost: the same again. A third block waits for answers to the first.
        assert store.next_trials(token, 5).result() == first
        assert store.next_trials(token, 9).result() == {"trials": [], "more": True}
        assert len(read_blocks(study)) == 2
        with pytest.raises(RequestError, match="answers are missing: 12$"):
            store.finish(token).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        last = store.next_trials(token, 9).result()
        assert [one["trial"] for one in last["trials"]] == ["n10", "n11", "n12"]
        assert not last["more"]
        resumed = store.resume(token).result()
        assert resumed["trials"] == bundle["trials"] + first["trials"] + last["trials"]
        assert not resumed["more"]
        store.add_answers(token, answers_to(first["trials"] + last["trials"])).result()
        assert store.finish(token).result()["outcome"] == "complete"
        assert store.next_trials(token, 12).result() == {"trials": [], "more": False}
    choices = read_study_data(study).choices
    own = choices[choices["condition"] == "adaptive"]
    assert choices["condition"].value_counts().to_dict() == {
        "adaptive": 8, "anchor": 2, "catch": 2,
    }  # fmt: skip
    assert own["block"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert own["propensity"].between(0.1 / 58, 1).all()
    assert (own["pool"] == 58).all()  # the pairs that can be drawn; anchors cannot
    # What was shown is the pair of the pool that the item numbers, on the sides that it says.
    pairs = read_pool(study).pairs
    for row in own.to_dict("records"):
        pair = pairs.iloc[row["item"] - 1]
        assert [row["sentence_1"], row["sentence_2"]] == pair.tolist()
        assert row["rating"] == (-1.5 if row["side_1"] == "left" else 1.5)


def run_study(tmp_path, pool, scores):
    """Return a study of a pool with one participant, and the choices."""
    study = create_adaptive_study(tmp_path / "adaptive", pool, scores, PLAN, 2)
    with Store(study) as store:
        take_part(store, "Ada")
    return study, read_study_data(study).choices


def test_choices_include_the_columns_of_the_pool(tmp_path):
    pool, scores = write_tables(tmp_path)
    pairs = pd.read_csv(pool).assign(
        item=lambda t: [f"i{k % 59}" if k < 59 else "" for k in range(len(t))],
        attractor=lambda t: ["sg", "pl"] * (len(t) // 2),
    )
    pairs.to_csv(pool, index=False)
    study, choices = run_study(tmp_path, pool, scores)
    shown = choices[choices["condition"] != "catch"]
    assert len(shown) == 10
    by_number = pairs.replace("", None).iloc[shown["stimulus"].astype(int) - 1]
    for name in ("item", "attractor"):
        assert shown[name].tolist() == by_number[name].tolist()
    for row, pair in zip(shown.to_dict("records"), by_number.to_dict("records"), strict=True):
        assert {row["sentence_1"], row["sentence_2"]} == {pair["sentence_1"], pair["sentence_2"]}
    assert choices.loc[choices["condition"] == "catch", "item"].isna().all()
    out = tmp_path / "out"
    assert main(["experiment", "export", str(study.folder), "--out", str(out)]) == 0
    assert "attractor" in pd.read_csv(out / "choices.csv")
    described = describe_columns(study, [choices])
    assert described["item"].data_type == "string"


def test_pairs_without_items_are_separate_items(tmp_path):
    pool, scores = write_tables(tmp_path)
    pairs = pd.read_csv(pool)
    names = ["one", "two", *[""] * (len(pairs) - 2)]
    pairs.assign(item=names).to_csv(pool, index=False)
    _, choices = run_study(tmp_path, pool, scores)
    chosen = choices[choices["condition"] == "adaptive"]
    assert chosen["item"].isna().all()
    assert set(choices.loc[choices["condition"] == "anchor", "item"]) == {"one", "two"}


def test_pool_columns_do_not_overwrite_answers(tmp_path):
    pool, scores = write_tables(tmp_path)
    pairs = pd.read_csv(pool).assign(
        rt_ms=1, choice=9, late="yes", assignment=77, trial="x", rating=4, expected=2, kind="sg"
    )
    pairs.to_csv(pool, index=False)
    _, choices = run_study(tmp_path, pool, scores)
    shown = choices[choices["condition"] != "catch"]
    assert set(shown["choice"]) == {-2}
    assert set(shown["rt_ms"]) == {choices.loc[choices["condition"] == "catch", "rt_ms"].iloc[0]}
    assert set(shown["assignment"]) == {1}
    assert set(shown["late"]) == {0}
    assert set(shown["rating"]) == {-1.5, 1.5}
    assert shown["expected"].isna().all()
    assert choices["trial"].tolist() == list(range(1, 13))
    assert set(shown["kind"]) == {"experimental"}


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ("He left.", "He left.", "both sentences are 'He left.'"),
        ("He left.", "He  left.", "both sentences are 'He left.'"),
        ("He left.", " ", "sentence_2 is ''; give 1 to 2000 characters"),
        ("", "He left.", "sentence_1 is ''; give 1 to 2000 characters"),
        ("o" * 2001, "He left.", f"sentence_1 is '{'o' * 40}'; give 1 to 2000 characters"),
    ],
)
def test_invalid_pairs_are_rejected(tmp_path, one, two, message):
    pool, scores = write_tables(tmp_path)
    pairs = pd.read_csv(pool)
    pairs.loc[3] = [one, two]
    pairs.to_csv(pool, index=False)
    more = pd.DataFrame({"sentence": [*{one, two}], "a": -1.0, "b": -2.0, "c": -3.0})
    pd.concat([pd.read_csv(scores), more]).to_csv(scores, index=False)
    with pytest.raises(InputError) as caught:
        create_adaptive_study(tmp_path / "adaptive", pool, scores, PLAN, 2)
    assert str(caught.value) == f"{pool}, row 4: {message}"
    assert not (tmp_path / "adaptive").exists()


def test_no_block_is_issued_before_the_first_answer(study):
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "Ada")).result()
        assert store.next_trials(token, 0).result() == {"trials": bundle["trials"], "more": True}
        assert not read_blocks(study)
        store.add_answers(token, [answer("p1")]).result()
        assert len(store.next_trials(token, 0).result()["trials"]) > len(bundle["trials"])
    assert len(read_blocks(study)) == 1


def test_blocks_are_stored_with_their_provenance(study):
    with Store(study) as store:
        take_part(store, "Ada")
        take_part(store, "Bo", 3)
    rows = read_blocks(study)
    assert [row["number"] for row in rows] == list(range(6))
    assert {row["pool"] for row in rows} == {read_pool(study).digest}
    assert {row["seed"] for row in rows} == {PLAN.seed}
    assert rows[0]["version"] == 0
    assert rows[3]["version"] == 3
    assert [row["available"] for row in rows] == [58, 55, 52, 50, 47, 44]
    pairs = [one[0] for row in rows for one in json.loads(row["trials"])]
    assert len(set(pairs)) == 16
    assert min(pairs) >= PLAN.anchors


def test_rolled_back_answers_are_forgotten(study):
    with Store(study) as store:
        take_part(store, "Ada")
        token, bundle = begin(store, "Bo")
        with closing(connect(store.path)) as other:
            other.execute("DROP INDEX one_answer")
            other.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON blocks BEGIN SELECT 1/0, RAISE(ABORT,"
                " 'no'); END"
            )
        store.add_answers(token, answers_to(bundle["trials"])).result()
        with pytest.raises(sqlite3.Error):
            store.next_trials(token, 5).result()
        with closing(connect(store.path)) as other:
            other.execute("DROP TRIGGER refuse")
        store.next_trials(token, 5).result()
        scheduler = store._issuer.load_scheduler
        bits = store._writer.submit(lambda c: scheduler(c).weights.tobytes()).result()
    assert len(read_blocks(study)) == 5
    assert read_state(study)[0] == bits


def simulate_participants(study, seed, told):
    """Open sessions, answer and request blocks until the process is killed."""
    rng = np.random.default_rng(seed)
    with Store(study) as store:
        known: dict[str, str] = {}
        while True:
            name = f"p{rng.integers(6)}"
            if name not in known:
                try:
                    known[name], _ = begin(store, name)
                except RequestError:  # finished
                    continue
            bundle = store.resume(known[name]).result()
            trials = bundle["trials"]
            if bundle["more"]:
                trials = (
                    trials + store.next_trials(known[name], trials[-1]["number"]).result()["trials"]
                )
            told.send(("shown", name, [(t["trial"], sorted(t["shown"].values())) for t in trials]))
            left = [t for t in trials if t["trial"] not in bundle["answered"]][:2]
            if not left:
                store.finish(known.pop(name)).result()
                continue
            store.add_answers(known[name], answers_to(left, int(rng.choice([-2, 3])))).result()
            told.send(("stored", name, [t["trial"] for t in left]))


def test_killed_servers_lose_no_answers_and_repeat_no_pairs(study):
    shown: dict[str, dict[str, list[str]]] = {}
    stored: set[tuple[str, str]] = set()
    processes = multiprocessing.get_context("fork")
    for number in range(10):
        heard, told = processes.Pipe(duplex=False)
        process = processes.Process(target=simulate_participants, args=(study, number, told))
        process.start()
        told.close()
        for _ in range(5 + number % 4):
            kind, name, what = heard.recv()
            if kind == "shown":  # a place never shows another trial than it did
                for trial, sentences in what:
                    assert shown.setdefault(name, {}).setdefault(trial, sentences) == sentences
            else:
                stored |= {(name, trial) for trial in what}
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if number % 3 == 0:
            assert read_state(study) == read_state(study)
    for own in shown.values():
        assert len(set(map(tuple, own.values()))) == len(own)
    chosen = [one[0] for row in read_blocks(study) for one in json.loads(row["trials"])]
    assert len(set(chosen)) == len(chosen) > 20
    with closing(connect(study.folder / "collected.sqlite3")) as connection:
        n = connection.execute("SELECT count(*) FROM answers WHERE conflict = 0").fetchone()[0]
    assert n >= len(stored) > 20


def test_exhausted_pool_leaves_the_fixed_trials(tmp_path):
    study = make_adaptive(tmp_path, n=12)
    with Store(study) as store:
        take_part(store, "Ada")
        end, trials = take_part(store, "Bo")
    assert end["outcome"] == "complete"
    assert len(trials) == 4 + 2  # two pairs were left, and the others are as planned
    assert [row["trials"] == "[]" for row in read_blocks(study)] == [False] * 4 + [True]
    assert read_study_data(study).sessions["n_trials"].tolist() == [12, 6]


def test_next_block_is_requested_over_http(study):
    with Store(study) as store, TestClient(make_app(store, "t" * 16)) as client:
        begun = client.post("/api/sessions", json=consent(study, "Ada")).json()
        token = {"Authorization": f"Bearer {begun['token']}"}
        client.post("/api/answers", json={"answers": [answer("p1")]}, headers=token)
        found = client.post("/api/next", json={"after": 0}, headers=token)
        assert [one["trial"] for one in found.json()["trials"]] == ["n1", "n2", "n3", "n4", "n5"]
        found = client.post("/api/next", json={"after": 5}, headers=token)
        assert [one["trial"] for one in found.json()["trials"]] == ["n6", "n7", "n8", "n9"]
        for wrong in (None, -1, 1.5, "5", True):
            refused = client.post("/api/next", json={"after": wrong}, headers=token)
            assert refused.status_code == 400
            assert "give the number of the last trial" in refused.json()["error"]
        assert client.post("/api/next", json={"after": 5}).status_code == 401
        # A trial that was not issued yet has no answer.
        sent = {"answers": [answer("n10")]}
        reply = client.post("/api/answers", json=sent, headers=token).json()
        assert reply["refused"][0]["error"] == "trial is none of this session's trials"


def test_fixed_design_issues_all_trials(trials, template):
    study = read_study(template)
    with Store(study, template.parent / "data.sqlite3") as store:
        token, bundle, _ = store.open(session_request(study, "Ada")).result()
        assert not bundle["more"]
        assert len(bundle["trials"]) == study.design.n_trials
        assert store.next_trials(token, 0).result()["trials"] == bundle["trials"]
        assert store.next_trials(token, 6).result() == {"trials": [], "more": False}


def test_changed_pool_or_plan_is_rejected(study):
    with Store(study) as store:
        take_part(store, "Ada")
    changed = edit(study, "max_pending = 200", "max_pending = 100")
    with pytest.raises(InputError, match=r"study.toml changed since blocks were issued"):
        Store(changed)
    edit(study, "max_pending = 100", "max_pending = 200")
    pool = study.folder / "pool.csv"
    text = pool.read_text()
    pool.write_text(text.replace("The 9 old men", "The 9 old cats"))
    with pytest.raises(InputError, match=r"sentence 'The 9 old cats.* lacks a finite score"):
        Store(study)
    lines = text.splitlines(keepends=True)
    pool.write_text("".join([lines[0], *reversed(lines[1:])]))
    with pytest.raises(InputError, match=r"pool.csv or the scores changed since .* restore it"):
        Store(study)


def test_pairs_of_deleted_participants_are_not_reissued(study):
    with Store(study) as store:
        take_part(store, "Ada")
        take_part(store, "Bo")
    delete_participant(study, "Ada", "asked by mail")
    rows = read_blocks(study)
    assert [row["session"] == "" for row in rows] == [True] * 3 + [False] * 3
    with Store(study) as store:
        take_part(store, "Cy")
    assert len(read_blocks(study)) == 9
    pairs = [one[0] for row in read_blocks(study) for one in json.loads(row["trials"])]
    assert len(set(pairs)) == len(pairs)


def test_blocks_are_append_only(template, tmp_path):
    path = tmp_path / "data.sqlite3"
    with closing(open_data(path, read_study(template))) as connection:
        connection.execute(
            "INSERT INTO blocks VALUES (0, 's', 0, '[]', 0, 0, '[]', 'p', 1, 'p', 0)"
        )
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute("UPDATE blocks SET session = ''")


def test_new_adaptive_study_is_created_and_checked(tmp_path, capsys):
    pool, scores = write_tables(tmp_path)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[adaptive]\ntrials = 8\nanchors = 3\n[adaptive.stopping]\nparticipants = 4\n"
        '[adaptive.trial_selection]\npolicy = "random"\n[adaptive.link]\nthresholds = [2.2, 4.34]\n'
    )
    folder = tmp_path / "study"
    command = ["experiment", "new", str(folder), "--pairs", str(pool), "--scores", str(scores)]
    assert main([*command, "--plan", str(plan), "--catch", "2"]) == 0
    said = capsys.readouterr().out
    assert "4 assignments in 1 group, 13 trials each" in said
    assert "8 of each participant's trials are chosen by the policy random" in said
    study = read_study(folder)
    assert study.adaptive == replace(study.adaptive, trials=8, anchors=3, link=study.adaptive.link)
    assert study.adaptive.link.thresholds == (2.2, 4.34)
    for action, out in (("static", "site"), ("jatos", "study.jzip")):
        assert main(["experiment", action, str(folder), "--out", str(tmp_path / out)]) == 2
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert "is an adaptive study, which needs a server; run it with" in last
        assert not (tmp_path / out).exists()
    for old, new, told in (
        ("trials = 8", "trials = 9", "has 8 rows for adaptive.trials, which is 9"),
        ("anchors = 3", "anchors = 1", "has 3 rows for adaptive.anchors, which is 1"),
        ("levels = 3", "levels = 2", "thresholds define 6 ratings, but trial.levels is 2"),
        ("[adaptive]", "[other]", "unknown key other"),
        ('"choice"', '"rating"', r"[adaptive] chooses pairs; leave trial.presentation"),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            edit(study, old, new)
        edit_back = (folder / "study.toml").read_text().replace(new, old, 1)
        (folder / "study.toml").write_text(edit_back)


def test_invalid_new_adaptive_studies_are_rejected(tmp_path, capsys):
    pool, scores = write_tables(tmp_path, 20)
    new = ["experiment", "new", str(tmp_path / "study")]
    given = ["--pairs", str(pool), "--scores", str(scores)]
    trials = ["--trials", str(pool)]
    for args, told in (
        (given[:2], "--pairs needs the models' scores of its sentences; give --scores"),
        ([*trials, "--scores", str(scores)], "--scores is for --pairs; leave it out"),
        ([*trials, "--catch", "1"], "--catch is for --pairs; leave it out"),
        ([*trials, "--seed", "1"], "--seed is for --stimuli or --pairs; --trials has its"),
        (
            [*given, "--presentation", "rating"],
            "--pairs have two sentences; leave out --presentation",
        ),
        ([*given, "--participants", "3"], "the plan has stopping.participants"),
        (given, "has 20 pairs, but each participant sees 64; give more, or plan fewer"),
    ):
        assert main([*new, *args]) == 2
        assert told in capsys.readouterr().err
        assert not (tmp_path / "study").exists()
    with pytest.raises(ContstimError, match="there are neither anchors nor catch trials"):
        make_adaptive(tmp_path, replace(PLAN, anchors=0), catch=0)


def test_dashboard_shows_interim_results(tmp_path):
    study = make_adaptive(tmp_path, replace(EASY, auto_close=False))
    token = {"Authorization": f"Bearer {'t' * 16}"}
    with Store(study) as store, TestClient(make_app(store, "t" * 16)) as client:
        found = client.get("/api/dashboard", headers=token).json()["adaptive"]
        assert found == {"stops": False, "lines": ["no answers yet"], "models": [], "pairs": []}
    with Store(study) as store:
        for name in ("Ada", "Bo"):
            take_part(store, name)
    with Store(study) as store, TestClient(make_app(store, "t" * 16)) as client:
        found = client.get("/api/dashboard", headers=token).json()["adaptive"]
        assert [row["model"] for row in found["models"]] == ["a", "b", "c"]
        assert sum(row["posterior"] for row in found["models"]) == pytest.approx(1)
        assert len(found["pairs"]) == 3
        page = client.get("/dashboard", headers=token).text
        assert "<li>stop: by its rule the study may end</li><li>posterior: " in page
        assert "conclusion: a, b and c are equivalent within 10" in page
        assert "16 answers to chosen trials" in page
        assert "log e-value against" in page
    with Store(study, blinded=True) as store, TestClient(make_app(store, "t" * 16)) as client:
        assert client.get("/api/dashboard", headers=token).json()["adaptive"] == {"stops": True}
        page = client.get("/dashboard", headers=token).text
        assert "<ul><li>stop: by its rule the study may end</li></ul>" in page
        assert "posterior: " not in page


def test_dashboard_omits_results_before_the_first_analysis(tmp_path):
    stopping = replace(PLAN.stopping, analyses=(4, 6))
    study = make_adaptive(tmp_path, replace(PLAN, stopping=stopping))
    token = {"Authorization": f"Bearer {'t' * 16}"}

    def standing():
        with TestClient(make_app(store, "t" * 16)) as client:
            page = client.get("/dashboard", headers=token).text
            assert "nan" not in page
            return client.get("/api/dashboard", headers=token).json()["adaptive"]

    with Store(study) as store:
        session, bundle = begin(store, "Ada")
        first = store.next_trials(session, 5).result()
        store.add_answers(session, answers_to(bundle["trials"] + first["trials"])).result()
        assert [row["accuracy"] for row in standing()["models"]] == [None] * 3
    with Store(study) as store:
        take_part(store, "Bo")
        take_part(store, "Ada", token=session)
        assert [row["p"] for row in standing()["pairs"]] == [None] * 3


# Models are equivalent as soon as somebody has finished.
EASY = replace(PLAN, auto_close=True, stopping=Stopping(participants=6, margin=10.0))


def wait_for_jobs(store):
    """Wait until the writer and the reader have finished their jobs."""
    store._writer.submit(lambda _: None).result()
    store._reader.submit(lambda: None).result()


def read_allocations(study):
    table = read_study_data(study).allocations
    return table.loc[table["assignment"] == 0, ["action", "reason"]].to_numpy().tolist()


def test_stopping_rule_closes_the_study(tmp_path):
    study = make_adaptive(tmp_path, EASY)
    said: list[str] = []
    with Store(study, report=said.append) as store:
        token, bundle = begin(store, "Bo")
        store.add_answers(token, answers_to(bundle["trials"][:3])).result()
        consented, _, _ = store.open(session_request(study, "Cy")).result()
        take_part(store, "Ada")  # Bo entered before her and has not finished
        wait_for_jobs(store)
        (told,) = said
        assert told.startswith("the study is closed by its rule: a, b and c are equivalent within")
        assert take_part(store, "Bo", token=token)[0]["outcome"] == "complete"
        wait_for_jobs(store)
        with pytest.raises(RequestError, match="the study is over") as refused:
            begin(store, "Di")
        assert refused.value.status == 503
        assert refused.value.details == {"outcome": "over", "code": None, "redirect": None}
        store.add_answers(consented, [answer("p1")]).result()  # Cy had only consented
        store.next_trials(consented, 0).result()
        assert take_part(store, "Cy", token=consented)[0]["outcome"] == "complete"
    ((action, why),) = read_allocations(study)
    assert (action, told) == ("closed", f"the study is closed {why}; open sessions can be finished")
    collected = read_study_data(study)
    assert collected.sessions["outcome"].tolist() == ["complete"] * 3
    write_export(study, collected, tmp_path / "out")
    assert (
        'closed,0,,"by its rule: a, b and c are equivalent'
        in (tmp_path / "out/allocations.csv").read_text()
    )


def test_closed_study_stays_closed_until_reopened(tmp_path, capsys):
    study = make_adaptive(tmp_path, EASY)
    command = ["experiment", "reopen", str(study.folder), "--reason", "a new wave"]
    open_still = edit(study, "auto_close = true", "auto_close = false")
    with Store(open_still) as store:
        take_part(store, "Ada")
    assert main(command) == 2
    assert "is open already" in capsys.readouterr().err
    with Store(study) as store:  # looks at what was there before it
        wait_for_jobs(store)
    token = {"Authorization": f"Bearer {'t' * 16}"}
    with Store(study, blinded=True) as store, TestClient(make_app(store, "t" * 16)) as client:
        with pytest.raises(RequestError, match="the study is over"):
            begin(store, "Cy")
        page = client.get("/dashboard", headers=token).text
        assert "The study is closed (by its rule): new participants are not admitted" in page
        assert main(command) == 0
        begin(store, "Cy")
        assert client.get("/api/dashboard", headers=token).json()["closed"] is None
        take_part(store, "Di")
        wait_for_jobs(store)
        take_part(store, "Ed")  # the rule closes once
    assert [action for action, _ in read_allocations(study)] == ["closed", "reopened"]


def test_study_without_auto_close_stays_open(study):
    with Store(study) as store:
        for name in ("Ada", "Bo", "Cy"):
            take_part(store, name)
            wait_for_jobs(store)
    assert read_allocations(study) == []


def test_blinding_requires_an_adaptive_study(template, capsys):
    assert main(["experiment", "serve", str(template), "--blinded"]) == 2
    assert "--blinded is for adaptive studies; leave it out" in capsys.readouterr().err


def test_extended_study_continues_to_issue_blocks(tmp_path):
    def of(people, name):
        (tmp_path / name).mkdir()
        stopping = replace(PLAN.stopping, participants=people)
        return make_adaptive(tmp_path / name, replace(PLAN, stopping=stopping))

    def learnt(issuing, connection):
        scheduler = issuing.load_scheduler(connection)
        scheduler.update_posterior(9)  # all blocks: the last have come since the last choice
        return scheduler.weights.tobytes()

    study, larger = of(2, "small"), of(3, "large")
    own = study.folder / "trials.csv"
    before = own.read_text("utf-8")
    with Store(study) as store:
        for name in ("Ada", "Bo"):
            take_part(store, name)
        with pytest.raises(RequestError, match="no place"):
            begin(store, "Cy")
        assert extend_study(study, larger.folder / "trials.csv") == [3]
        assert take_part(store, "Cy", 3)[0]["outcome"] == "complete"
        assert store.summary().result()["assignments"] == 3
        bits = store._writer.submit(lambda c: learnt(store._issuer, c)).result()
    assert own.read_text("utf-8").startswith(before)
    rows = read_blocks(study)
    assert [row["number"] for row in rows] == list(range(9))
    pairs = [pair for row in rows for pair, *_ in json.loads(row["trials"])]
    assert len(pairs) == len(set(pairs)) == 24  # asked once, of whoever it is
    choices = read_study_data(read_study(study.folder)).choices
    assert choices.groupby("participant")["block"].count().tolist() == [8, 8, 8]
    after = read_study(study.folder)
    with closing(open_data(study.folder / "collected.sqlite3", after)) as connection:
        assert learnt(BlockIssuer(after), connection) == bits
