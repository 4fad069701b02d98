"""The table and scripts for mixed models in other packages."""

import ast

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main


def test_the_table_and_the_scripts(make_study, tmp_path):
    study, scores = make_study(n_people=6)
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    out = tmp_path / "out"
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    assert main(["evaluate", *files, "--mixed-models", "--out", str(out)]) == 0
    table = pd.read_csv(out / "mixed_models.csv")
    assert len(table) == len(study)
    assert (table["choice"] == (table["rating"] > 0)).all()
    wide = scores.set_index("sentence")
    for number, model in enumerate("abc", start=1):
        column = table[f"ratio_{number}"]
        ratio = wide.loc[table["sentence_2"], model].to_numpy()
        ratio = ratio - wide.loc[table["sentence_1"], model].to_numpy()
        assert np.corrcoef(column, ratio)[0, 1] == pytest.approx(1.0)
        each = table.drop_duplicates("item")[f"ratio_{number}"]
        assert np.sqrt((each**2).mean()) == pytest.approx(1.0)
    for name in ("mixed_glmer.R", "mixed_brms.R", "mixed_bambi.py"):
        text = (out / name).read_text("utf-8")
        assert "# ratio_2: b" in text
        assert "(1 | item)" in text
    ast.parse((out / "mixed_bambi.py").read_text("utf-8"))
    text = (out / "mixed_glmer.R").read_text("utf-8")
    assert "choice ~ ratio_3 + (1 + ratio_3 | participant) + (1 | item)" in text
    assert text.count("(") == text.count(")")


def test_of_a_model_whose_lower_scores_are_better_the_ratios_rise_too(make_study, tmp_path):
    study, scores = make_study(n_people=3)
    study.to_csv(tmp_path / "choices.csv", index=False)
    found = []
    for better, sign in (("higher", 1), ("lower", -1)):
        long = scores.assign(a=sign * scores["a"]).melt("sentence", ["a"], "model", "log_prob")
        long.assign(unit="nats", better=better).to_csv(tmp_path / "scores.csv", index=False)
        files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
        assert main(["evaluate", *files, "--mixed-models", "--out", str(tmp_path / better)]) == 0
        found.append(pd.read_csv(tmp_path / better / "mixed_models.csv"))
    pd.testing.assert_frame_equal(*found)


def test_without_models_there_is_nothing_to_write(make_study, tmp_path, capsys):
    study, _ = make_study(n_people=6)
    study.to_csv(tmp_path / "choices.csv", index=False)
    command = ["evaluate", str(tmp_path / "choices.csv"), "--mixed-models", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    assert "--mixed-models needs --model or --scores" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
