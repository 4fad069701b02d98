"""Combinations of options of a study plan: its tables are those of the commands and of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from covering import run
from small_study import RecordingExecutor

import contstim
from contstim import Layout, Vocabulary, load_model, pool
from contstim.pipeline.study import read_study_plan, run_study
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary

ONE, TWO = "contstim:bigram", "contstim:trigram"
PLAN = """\
models = ["contstim:bigram", "contstim:trigram"]
[study]
name = "small"
seed = 3
[sentences]
file = "texts.txt"
[vocabulary]
file = "words.csv"
[synthesis]
allocation = "all"
per_pair = 4
strategy = "{strategy}"
margin = {margin}
max_word_share = 1.0
[triplets]
per_pair = 3
strata = {strata}
objective = "{objective}"
[natural]
per_pair = 3
accept_from = {accept_from}
[design]
groups = 3
participants = {participants}
"""
ROWS: list[dict[str, Any]] = [
    {
        "strategy": "edit?candidates=all",
        "margin": 1.0,
        "strata": 1,
        "participants": 1,
        "accept_from": 0.4,
    },
    {"strategy": "beam?width=4", "margin": 2.0, "strata": 3, "participants": 2, "accept_from": 0.5},
]
OBJECTIVES = ("controversiality", "worst-rank")
TABLES = ("natural_pairs", "synthesized", "triplets", "trials")


@pytest.fixture(params=range(len(ROWS)))
def row(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a study plan with 120 sentences, and run it into the folder `whole`."""
    monkeypatch.chdir(tmp_path)
    texts = sorted((s for s in pool() if len(s.split()) < 10), key=lambda s: len(s.split()))
    Path("texts.txt").write_text("\n".join(texts[:120]) + "\n", "utf-8")
    Vocabulary.from_text("texts.txt", size=60).save("words.csv")
    row = {**ROWS[request.param], "objective": OBJECTIVES[request.param]}
    Path("plan.toml").write_text(PLAN.format(**row), "utf-8")
    outcome = run("run", {"PLAN": "plan.toml", "--out": "whole"})
    assert outcome.status == 0, outcome.err
    return row


def table(path: str) -> pd.DataFrame:
    return pd.read_csv(path).drop(columns=["n_scores", "seconds"], errors="ignore")


def equal(one: pd.DataFrame, two: pd.DataFrame) -> None:
    columns = [name for name in two if name in one]
    assert {"model_1", "model_2"} <= {*columns}
    pd.testing.assert_frame_equal(
        one[columns].reset_index(drop=True), two[columns].reset_index(drop=True), check_dtype=False
    )


def test_plan_agrees_with_commands_and_functions(row: dict[str, Any]) -> None:
    synthesis = {"--pair": f"{ONE} {TWO}", "--sentences": "texts.txt", "--vocabulary": "words.csv"}
    synthesis |= {"--strategy": row["strategy"], "--margin": str(row["margin"])}
    synthesis |= {"--max-word-share": "1", "--limit": "4", "--seed": "3"}
    selection = {"--per-pair": "3", "--strata": str(row["strata"]), "--objective": row["objective"]}
    natural = {"--per-pair": "3", "--accept-from": str(row["accept_from"])}
    trials = {"--natural": "whole/natural_pairs.csv", "--triplets": "whole/triplets.csv"}
    trials |= {"--groups": "3", "--participants": str(row["participants"]), "--seed": "3"}
    commands = {
        "scores": ("score", {"SENTENCES": "texts.txt", "--model": (ONE, TWO)}),
        "natural_pairs": ("select natural", {"SCORES": "scores.csv", **natural}),
        "trials": ("design trials", trials),
        "synthesized": ("synthesize", synthesis),
        "triplets": ("select triplets", {"TRIPLETS": "whole/synthesized.csv", **selection}),
    }
    for name, (command, given) in commands.items():
        outcome = run(command, {**given, "--out": f"{name}.csv"})
        assert outcome.status == 0, outcome.err
        if name != "scores":
            equal(table(f"{name}.csv"), table(f"whole/{name}.csv"))
    triplets = table("whole/triplets.csv")
    chosen = contstim.select_triplets(
        table("whole/synthesized.csv"), 3, row["objective"], strata=row["strata"]
    )
    equal(chosen, triplets)
    models = (load_model(ONE), load_model(TWO))
    texts = Path("texts.txt").read_text("utf-8").splitlines()
    scores = pd.DataFrame({model.name: model.score(texts) for model in models}, texts)
    pairs = contstim.select_natural_pairs(scores, 3, accept_from=row["accept_from"])
    equal(pairs, table("whole/natural_pairs.csv"))
    words = SharedVocabulary(Vocabulary.read("words.csv"), models)
    for line in table("whole/synthesized.csv").itertuples():
        problem = Problem(reject=(models[1],), accept=(models[0],), margin=row["margin"])
        found = contstim.synthesize(
            line.natural,
            problem=problem,
            strategy=row["strategy"],
            seed=3,
            shared_vocabulary=words,
        )
        assert found.sentence == line.synthetic_1
    layout = Layout(3, row["participants"])
    designed = contstim.design_trials(pairs, triplets, layout=layout, seed=3)
    equal(designed, table("whole/trials.csv"))


def test_interrupted_and_parallel_runs_agree(row: dict[str, Any]) -> None:
    plan = read_study_plan("plan.toml")
    for stop_after in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            run_study(plan, RecordingExecutor(stop_after), out="again")
    assert run("run", {"PLAN": "plan.toml", "--out": "again"}).status == 0
    outs = ["again"]
    if row["objective"] == OBJECTIVES[0]:
        two = {"PLAN": "plan.toml", "--out": "two", "--executor": "local:2"}
        assert run("run", two).status == 0
        outs.append("two")
    for out in outs:
        for name in TABLES:
            path = f"{name}.csv"
            assert (Path(out) / path).read_bytes() == (Path("whole") / path).read_bytes()
