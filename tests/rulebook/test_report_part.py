"""A table and figure of the report in one file: on the page, as files, and from Python."""

from pathlib import Path

import numpy as np
import pandas as pd

from contstim.evaluation import evaluate


def test_a_report_part(added, run):
    added("certainty", "contstim.reports", "certainty = certainty")
    rng = np.random.default_rng(0)
    rows = [
        (f"p{i}", "plain" if k % 2 else "odd", f"A {k} b.", f"C {k} d.", rng.choice([-1.5, 0.5]))
        for i in range(6)
        for k in range(8)
    ]
    names = ["participant", "condition", "sentence_1", "sentence_2", "rating"]
    choices = pd.DataFrame(rows, columns=names)
    choices.to_csv("choices.csv", index=False)
    sentences = [*choices["sentence_1"].unique(), *choices["sentence_2"].unique()]
    scores = pd.DataFrame({m: rng.normal(size=16) for m in ("m1", "m2")}, sentences)
    scores.to_csv("scores.csv", index_label="sentence")
    ended = run("evaluate", "choices.csv", "--scores", "scores.csv", "--out", "out")
    assert ended.returncode == 0, ended.stderr
    table = pd.read_csv("out/certainty.csv").set_index("condition")
    expected = choices["rating"].abs().groupby(choices["condition"]).mean()
    assert table["confidence"].to_dict() == expected.to_dict()
    assert Path("out/certainty.svg").read_text("utf-8").startswith("<svg")
    page = Path("out/report.html").read_text("utf-8")
    assert "How sure people were</h2>" in page
    assert page.index("Mean confidence, from 0 to 2.5.") > page.index("How sure people were</h2>")
    evaluate(choices, scores).report("from-python")
    assert Path("from-python/certainty.csv").read_bytes() == Path("out/certainty.csv").read_bytes()
