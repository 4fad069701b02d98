"""Test `contstim watch`, and `evaluate --plan` with an adaptive plan.

Tests `contstim.experiment.commands.watch` and `contstim.experiment.commands.watch_loop`.
"""

import numpy as np
import pandas as pd
import pytest
from adaptive_studies import make_adaptive
from client_messages import answer, answers_to, session_request
from scipy.special import expit

from contstim.cli import main
from contstim.experiment.schema import DATA_FILE, PILOT_FILE
from contstim.experiment.store import Store

PLAN = """\
equivalence = 0.2

[adaptive]
trials = 12
anchors = 0

[adaptive.trial_selection]
epsilon = 0.2

[adaptive.link]
slopes = [0.5, 1.5]

[adaptive.stopping]
alpha = 0.01
participants = 60
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    names = [f"Sentence {k}." for k in range(48)]
    scores = pd.DataFrame({m: rng.normal(-30, 9, 48) for m in ("good", "bad")}, index=names)
    scores.rename_axis("sentence").to_csv("scores.csv")
    rows = []
    for person in range(24):
        for t in range(12):
            one, two = names[2 * t], names[2 * t + 1]
            g = (scores.loc[two, "good"] - scores.loc[one, "good"]) / 9
            rating = 2.5 if rng.random() < expit(4 * g) else -2.5
            rows.append((f"p{person}", t + 1, one, two, rating))
    columns = ["participant", "trial", "sentence_1", "sentence_2", "rating"]
    pd.DataFrame(rows, columns=columns).to_csv("choices.csv", index=False)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_watch_reports_posterior_fit_and_conclusion(files, capsys):
    assert main(["watch", "choices.csv", "--scores", "scores.csv"]) == 0
    out = capsys.readouterr().out
    assert "288 answers of 24 participants" in out
    assert "posterior: good" in out
    assert "fit: log e-values against each model with this link: good" in out
    assert "conclusion: good is best, significantly better than all others, after 24" in out
    assert "could have stopped after" in out


def test_watch_negates_lower_is_better_scores(files, capsys):
    scores = pd.read_csv("scores.csv")
    long = scores.melt("sentence", var_name="model", value_name="log_prob")
    good = long["model"] == "good"
    long["log_prob"] = long["log_prob"].where(~good, -long["log_prob"])
    long["unit"], long["better"] = (
        np.where(good, "score", "nats"),
        np.where(good, "lower", "higher"),
    )
    long.to_csv("long.csv", index=False)
    assert main(["watch", "choices.csv", "--scores", "scores.csv"]) == 0
    plain = capsys.readouterr().out
    assert main(["watch", "choices.csv", "--scores", "long.csv"]) == 0
    assert capsys.readouterr().out == plain


def test_blinded_watch_prints_only_stop_or_continue(files, capsys):
    assert main(["watch", "choices.csv", "--scores", "scores.csv", "--blinded"]) == 0
    assert capsys.readouterr().out == "stop\n"
    plan = ["--scores", "scores.csv", "--plan", "plan.toml", "--blinded"]
    assert main(["watch", "choices.csv", *plan]) == 0
    assert capsys.readouterr().out in ("continue\n", "stop\n")


def test_watch_ends_when_the_study_may_stop(files, capsys, monkeypatch):
    table = pd.read_csv("choices.csv")
    table.iloc[:60].to_csv("arriving.csv", index=False)

    def wait(seconds):
        assert seconds == 5
        table.to_csv("arriving.csv", index=False)

    monkeypatch.setattr("time.sleep", wait)
    given = ["--scores", "scores.csv", "--every", "5", "--blinded"]
    assert main(["watch", "arriving.csv", *given]) == 0
    assert capsys.readouterr().out == "continue\nstop\n"


def test_watch_waits_for_the_first_answer(files, capsys, monkeypatch):
    table = pd.read_csv("choices.csv")
    table["condition"] = np.where(table["trial"] == 1, "catch", "test")
    states = [table.iloc[:0], table.iloc[:1], table]
    (files / "now.csv").write_text("")

    def wait(seconds):
        assert seconds == 5
        states.pop(0).to_csv("now.csv", index=False)

    given = ["--scores", "scores.csv", "--every", "5", "--blinded"]
    monkeypatch.setattr("time.sleep", wait)
    assert main(["watch", "now.csv", *given]) == 0
    said = capsys.readouterr()
    assert said.out == "stop\n"
    assert said.err.splitlines() == [
        f"no answers yet ({why}); waiting 5 s"
        for why in (
            "now.csv is empty; give a table with a header and rows",
            "the choices table has no rows; nothing can be evaluated",
            "there are no answers to chosen trials yet; wait for some",
        )
    ]


def test_watch_waits_for_a_study_without_data(tmp_path, capsys, monkeypatch):
    study = make_adaptive(tmp_path)

    def wait(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", wait)
    assert main(["watch", str(study.folder), "--every", "5"]) == 130
    assert "no answers yet (there are no data " in capsys.readouterr().err
    Store(study).close()
    assert main(["watch", str(study.folder), "--every", "5"]) == 130
    assert "no answers yet (the choices table has no rows" in capsys.readouterr().err
    assert main(["watch", str(study.folder)]) == 2  # asked once, there is nothing to be said
    assert "the choices table has no rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--scores", "none.csv"], "there is no file none.csv"),
        (["--scores", "scores.csv", "--plan", "none.toml"], "none.toml"),
    ],
)
def test_watch_fails_at_once_on_missing_inputs(files, capsys, given, message):
    assert main(["watch", "none.csv", "--every", "5", *given]) == 2
    assert message in capsys.readouterr().err


def test_watch_lists_deviations_from_the_plan(files, capsys):
    given = ["choices.csv", "--scores", "scores.csv", "--plan", "plan.toml"]
    assert main(["watch", *given]) == 0
    out = capsys.readouterr().out
    for deviation in (
        "276 chosen trials with a repeated pair; the plan shows each pair once.",
        "the choices have no propensities; the plan stores them for every trial.",
    ):
        assert f"deviation from the plan: {deviation}" in out
    assert main(["evaluate", *given, "--out", "results"]) == 0
    assert "p and q do not account for stopping early" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["watch", "choices.csv"], "choices.csv has no scores; give --scores"),
        (
            ["watch", "choices.csv", "--scores", "scores.csv", "--pilot"],
            "--pilot belongs to the folder of a study; choices.csv is a table",
        ),
    ],
)
def test_watch_rejects_missing_scores_and_wrong_options(files, capsys, command, message):
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_watch_reads_an_adaptive_study_folder(tmp_path, capsys):
    study = make_adaptive(tmp_path)
    with Store(study) as store:
        for name in ("Ada", "Bo"):
            token, *_ = store.open(session_request(study, name)).result()
            store.add_answers(token, [answer("p1")]).result()
            trials = store.next_trials(token, 0).result()["trials"]
            store.add_answers(token, answers_to(trials)).result()
    assert main(["watch", str(study.folder)]) == 0
    out = capsys.readouterr().out
    assert "6 answers of 2 participants" in out
    assert "(based on the first answers to 6 pairs)" in out
    assert main(["watch", str(study.folder), "--blinded"]) == 0
    assert capsys.readouterr().out == "continue\n"
    assert main(["watch", str(study.folder), "--pilot"]) == 2
    assert "there are no data" in capsys.readouterr().err
    (study.folder / DATA_FILE).rename(study.folder / PILOT_FILE)
    assert main(["watch", str(study.folder), "--pilot"]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("seconds", ["5e-324", "0.9", "nan"])
def test_watch_rejects_invalid_intervals(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "choices.csv", "--every", seconds]) == 2
    assert "is not a finite number from 1 to 1e+06" in capsys.readouterr().err
