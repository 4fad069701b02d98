"""A custom importer of choices: with ``--format``, its errors, and in Python."""

import numpy as np
import pandas as pd

from contstim.evaluation import read_choices


def test_custom_importer(add_extension, run):
    add_extension("two_buttons", "contstim.importers", "two-buttons = read_two_buttons")
    rng = np.random.default_rng(0)
    rows = [(p, f"A {i} b.", f"C {i} d.", rng.choice(["F", "J"])) for p in "abc" for i in range(8)]
    table = pd.DataFrame(rows, columns=["person", "left", "right", "key"])
    table.to_csv("keys.csv", index=False)
    sentences = [*table["left"].unique(), *table["right"].unique()]
    scores = pd.DataFrame({m: rng.normal(size=16) for m in ("m1", "m2")}, sentences)
    scores.to_csv("scores.csv", index_label="sentence")
    words = ["evaluate", "keys.csv", "--format", "two-buttons", "--scores", "scores.csv"]
    ended = run(*words, "--out", "out")
    assert ended.returncode == 0, ended.stderr
    assert set(pd.read_csv("out/models.csv")["model"]) == {"m1", "m2"}
    choices = read_choices("keys.csv", format="two-buttons").choices
    expected = table.sort_values(["person", "left"])["key"].map({"F": -2.5, "J": 2.5})
    got = choices.sort_values(["participant", "sentence_1"])["rating"]
    assert got.tolist() == expected.tolist()
    table.loc[4, "key"] = "K"
    table.to_csv("keys.csv", index=False)
    ended = run(*words, "--out", "other")
    error = "contstim: a key is neither F nor J (row 5)\n"
    assert (ended.returncode, ended.stderr) == (2, error)
