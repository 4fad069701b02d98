"""A custom stage: its table of study plans, ``--stage``, and its table of results."""

import pandas as pd
from small_study import make_study


def test_custom_stage(add_extension, run, tmp_path):
    add_extension("extremes", "contstim.stages", "extremes = EXTREMES")
    file = make_study(tmp_path, starts=1)
    plan = file.read_text("utf-8")
    words = ["run", file, "--stage", "extremes", "--out", "out"]
    for number in (2, 3):  # another option is another table
        file.write_text(f"{plan}\n[extremes]\nnumber = {number}\n", "utf-8")
        ended = run(*words)
        assert ended.returncode == 0, ended.stderr
        table, scores = pd.read_csv("out/extremes.csv"), pd.read_csv("out/scores.csv")
        assert len(table) == 3 * number
        for model, rows in table.groupby("model"):
            every = scores.loc[scores["model"] == model, "log_prob"]
            assert sorted(rows["log_prob"]) == sorted(every.nlargest(number))
    file.write_text(f"{plan}\n[extremes]\nnumbers = 2\n", "utf-8")
    ended = run(*words)
    assert ended.returncode == 2
    assert "unknown key extremes.numbers; did you mean 'number'?" in ended.stderr
