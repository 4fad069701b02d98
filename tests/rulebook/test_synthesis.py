"""A target, a loss and a constraint of a synthesis, a file each: by name on the command line and in
study plans, and in Python.
"""

import pandas as pd
import pytest
from small import make_study

from contstim import load_model, problem_of, synthesize

MODELS = [f"ngram:{order}.arpa?punctuation=split" for order in (1, 2, 3)]


@pytest.fixture
def written(tmp_path, run):
    """Write with some options, by the command and by a study plan; return the one table."""
    file = make_study(tmp_path, starts=1)
    natural = (tmp_path / "natural.txt").read_text("utf-8").splitlines()
    (tmp_path / "natural.txt").write_text("\n".join(natural[:30]) + "\n", "utf-8")

    def write(words, options):
        plan = file.read_text("utf-8").partition("[natural]")[0]
        how = '[synthesis]\nper_pair = 1\nstarts = "all"\nstrategy = "exhaustive"\nmost_use = 1.0\n'
        file.write_text(plan + how + options, "utf-8")
        ended = run("run", file, "--stage", "synthesis", "--out", "out")
        assert ended.returncode == 0, ended.stderr
        common = ["--sentences", "natural.txt", "--vocabulary", "words.csv", "--per-pair", 1]
        common += ["--strategy", "exhaustive", "--most-use", 1, "--seed", 3, "--out", "own.csv"]
        ended = run("synthesize", *words, *common)
        assert ended.returncode == 0, ended.stderr
        table = pd.read_csv("own.csv")
        pd.testing.assert_frame_equal(table, pd.read_csv("out/synthesized.csv"))
        return table

    return write


def test_a_target(added, written):
    added("first_alone", "contstim.targets", "first-alone = FIRST_ALONE")
    models = [word for spec in MODELS for word in ("--model", spec)]
    table = written(["--target", "first-alone", *models], 'target = "first-alone"\n')
    assert table["accept"].tolist() == [MODELS[0]] * 2
    assert table["reject"].tolist() == MODELS[1:]


def test_a_loss(added, written):
    added("sum_of_falls", "contstim.objectives", "sum = SumOfFalls")
    sides = ["--reject", MODELS[1], "--reject", MODELS[2], "--accept", MODELS[0]]
    options = f'target = "split"\nreject = {MODELS[1:]}\naccept = {MODELS[:1]}\nloss = "sum"\n'
    row = written([*sides, "--loss", "sum"], options).iloc[0]
    falls = [row[f"synthetic_lp {spec}"] - row[f"natural_lp {spec}"] for spec in MODELS[1:]]
    assert row["loss"] == pytest.approx(sum(falls))
    assert row["loss"] < 0


def test_a_constraint(added, written):
    added("share_kept", "contstim.constraints", "share-kept = ShareKept")
    floor = f"{MODELS[1]}>=share-kept:0.05"
    sides = ["--reject", MODELS[2], "--accept", MODELS[0]]
    options = f'target = "split"\nreject = {MODELS[2:]}\naccept = {MODELS[:1]}\n'
    row = written([*sides, "--floor", floor], f'{options}floors = ["{floor}"]\n').iloc[0]
    natural, synthetic = (row[f"{kind}_lp {MODELS[1]}"] for kind in ("natural", "synthetic"))
    assert synthetic >= 1.05 * natural
    one, two, three = map(load_model, MODELS)
    problem = problem_of([three], [one], floors=[floor], others=[two])
    assert "ShareKept" in str(problem)
    assert synthesize(row["natural"], problem=problem).loss <= 0
