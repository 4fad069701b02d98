"""Custom criteria and a custom constraint: in commands, study plans and Python."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_packages import install
from small_study import make_study

from contstim import select_natural_pairs, select_set, select_triplets

EXTENSIONS = Path(__file__).parents[1] / "extensions"


@pytest.fixture
def criteria(tmp_path, monkeypatch):
    """Install the package that brings a criterion for each selection."""
    entries = {
        "contstim.natural_criteria": "least-likely = least_likely:LEAST_LIKELY",
        "contstim.set_criteria": "rank-difference = least_likely:RankDifference",
        "contstim.triplet_objectives": "apart = least_likely:APART",
    }
    text = (EXTENSIONS / "least_likely.py").read_text("utf-8")
    install(tmp_path / "site", monkeypatch, "least_likely", text, entries)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    values = pd.DataFrame(rng.normal(-20, 5, size=(40, 3)), columns=["a", "b", "c"])
    return values.set_axis(pd.Index([f"Sentence {i}." for i in range(40)], name="sentence"))


@pytest.mark.usefixtures("criteria")
def test_custom_criteria_of_natural_pairs_and_sets(run, scores):
    scores.to_csv("scores.csv")
    options = ["--criterion", "least-likely", "--per-pair", 3]
    ended = run("select", "natural", "scores.csv", *options)
    assert ended.returncode == 0, ended.stderr
    chosen = select_natural_pairs(scores, 3, criterion="least-likely")
    z = (scores - scores.mean()) / scores.std()

    def cost(pairs):
        both = [
            (row[f"sentence_{k}"], row[f"model_{3 - k}"])
            for _, row in pairs.iterrows()
            for k in (1, 2)
        ]
        return sum(z.loc[sentence, model] for sentence, model in both)

    assert chosen.attrs["objective"] == pytest.approx(cost(chosen), abs=1e-4)
    assert chosen.attrs["gap"] == 0
    assert cost(chosen) <= cost(select_natural_pairs(scores, 3)) + 1e-4
    options = ["--criterion", "rank-difference", "--n", "5", "--time-limit", "5"]
    ended = run("select", "set", "scores.csv", *options)
    assert ended.returncode == 0, ended.stderr
    pairs = select_set(scores, 5, criterion="rank-difference", time_limit=5)
    other = select_set(scores, 5, time_limit=5)
    assert pairs["rank_difference"].mean() > 0
    assert pairs.attrs["criterion"] == "rank-difference" != other.attrs["criterion"]


@pytest.mark.usefixtures("criteria")
def test_custom_criteria_in_a_study_plan(run, tmp_path):
    file = make_study(tmp_path, starts=4)
    plan = file.read_text("utf-8").partition("[design]")[0]
    plan = plan.replace("[natural]\n", '[natural]\ncriterion = "least-likely"\n')
    plan = plan.replace("[triplets]\n", '[triplets]\nobjective = "apart"\n')
    file.write_text(
        plan + '[set]\nn = 4\ncriterion = "rank-difference"\ntime_limit = 5.0\n', "utf-8"
    )
    ended = run("run", file, "--out", "out")
    assert ended.returncode == 0, ended.stderr
    assert "rank_difference" in pd.read_csv("out/set_pairs.csv")
    triplets = pd.read_csv("out/synthesized.csv")
    best = select_triplets(triplets, 2, "apart", strata=2)
    chosen = pd.read_csv("out/triplets.csv")
    assert chosen["natural"].tolist() == best["natural"].tolist()


def test_custom_constraint(add_extension, run, scores):
    add_extension("at_least", "contstim.selection_constraints", "at-least = AtLeast")
    scores.to_csv("scores.csv")
    wanted = pd.DataFrame({"sentence": scores.index, "rare": (np.arange(40) < 20).astype(int)})
    wanted.to_csv("features.csv", index=False)
    how = ["--per-pair", 3, "--features", "features.csv", "--out", "pairs.csv"]
    ended = run("select", "natural", "scores.csv", "--constraint", "at-least:rare:12", *how)
    assert ended.returncode == 0, ended.stderr
    pairs = pd.read_csv("pairs.csv")
    texts = [*pairs["sentence_1"], *pairs["sentence_2"]]
    assert wanted.set_index("sentence").loc[texts, "rare"].sum() >= 12
