"""Test the table and the scripts for mixed models in other packages."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import ExclusionRules, evaluate, read_choices


def test_mixed_model_table_and_scripts_are_written(make_study, tmp_path):
    study, scores = make_study(n_people=6)
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    out = tmp_path / "out"
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    assert main(["evaluate", *files, "--mixed-models", "--out", str(out)]) == 0
    table = pd.read_csv(out / "mixed_models.csv")
    assert len(table) == len(study)
    assert (table["chose_2"] == (table["rating"] > 0)).all()
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
    assert "chose_2 ~ ratio_3 + (1 + ratio_3 | participant) + (1 | item)" in text
    assert text.count("(") == text.count(")")
    assert "choice_all <- glmer(chose_2 ~ ratio_1 + ratio_2 + ratio_3 + (1 + ratio_1" in text
    text = (out / "mixed_brms.R").read_text("utf-8")
    assert 'c("ratio_2 > ratio_1", "ratio_3 > ratio_1", "ratio_3 > ratio_2")' in text


def test_scripts_contain_the_models_of_the_page(make_study, tmp_path, monkeypatch):
    study, scores = make_study(n_people=6, models=("a", "b"))
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    monkeypatch.chdir(tmp_path)
    files = ["choices.csv", "--scores", "scores.csv"]
    assert main(["evaluate", *files, "--mixed-models", "--out", "results"]) == 0
    scripts = [path.read_text("utf-8") for path in Path("results").glob("mixed_*.R")]
    statements = {
        " ".join(line.split("#")[0].split()) for text in scripts for line in text.split("\n")
    }
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "r.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```r\n(.*?)```", page, flags=re.DOTALL))
    # A statement continues on lines that are indented.
    code = re.sub(r"\n +", " ", re.sub(r" *#.*", "", code))
    fits = [
        line
        for line in code.split("\n")
        if re.search(r"(glmer|lmer|clmm|brm|hypothesis|update)\(|csv", line)
    ]
    assert len(fits) == 9
    assert set(fits) <= statements


def test_mixed_model_table_keeps_columns_without_catch_trials(make_study, tmp_path):
    study, scores = make_study(n_people=6)
    study["row"] = range(len(study))  # whatever else was noted, by which tables can be joined
    study["item"] = [f"frame {n}" for n in study["trial"] % 7]
    study["side_1"] = np.where(study["row"] % 2, "left", "right")
    study["choice"], study["pair"] = "z", "mine"
    study.loc[study["trial"].isin([3, 4]), "condition"] = "catch"
    study["rating"] = 2.5 * np.sign(study["rating"]) * (study["trial"] != 5)
    # Sentences in the order that code points do not have, and that of one person the other way.
    study = study.drop(columns=["model_1", "model_2"])
    study = study.rename(columns={"sentence_1": "sentence_2", "sentence_2": "sentence_1"})
    turned = study["participant"] == "s3"
    both = study.loc[turned, ["sentence_1", "sentence_2"]].to_numpy()
    study.loc[turned, ["sentence_2", "sentence_1"]] = both
    study.loc[turned, "rating"] *= -1
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    assert main(["evaluate", *files, "--mixed-models", "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "mixed_models.csv")
    given = study[~study["trial"].isin([3, 4, 5])].reset_index(drop=True)
    same = ["participant", "group", "trial", "condition", "item", "row", "rt_ms", "choice"]
    pd.testing.assert_frame_equal(table[same], given[same])
    assert set(table["pair_given"]) == {"mine"}
    assert table["sentence_1"].str.startswith("Second").all()
    as_given = table["participant"] != "s3"
    there = ["sentence_1", "sentence_2", "rating", "side_1"]
    pd.testing.assert_frame_equal(table.loc[as_given, there], given.loc[as_given, there])
    assert (table["rating"] == given["rating"].where(as_given, -given["rating"])).all()
    assert (table["side_1"] == given["side_1"]).eq(as_given).all()
    assert table["item"].nunique() < table["pair"].nunique() == 17
    for script in ("mixed_glmer.R", "mixed_brms.R", "mixed_bambi.py"):
        assert "+ (1 | item) + (1 | pair)" in (tmp_path / script).read_text("utf-8")


def test_the_report_in_python_writes_the_same_files(make_study, tmp_path):
    study, scores = make_study(n_people=6, models=("a", "b"))
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    rule = ["--exclude", "rt<1030"]
    assert main(["evaluate", *files, *rule, "--mixed-models", "--out", str(tmp_path / "one")]) == 0
    rules = ExclusionRules(min_rt_ms=1030)
    human = read_choices(tmp_path / "choices.csv")
    evaluate(human, scores, exclusions=rules).report(tmp_path / "two", mixed_models=True)
    one, two = (pd.read_csv(tmp_path / folder / "mixed_models.csv") for folder in ("one", "two"))
    pd.testing.assert_frame_equal(one, two)
    assert two["rt_ms"].min() == 1030
    assert (tmp_path / "two" / "mixed_glmer.R").exists()
    with pytest.raises(InputError, match="mixed models need"):
        evaluate(human).report(tmp_path / "three", mixed_models=True)


def test_lower_is_better_scores_are_negated(make_study, tmp_path):
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


def test_mixed_models_need_scores(make_study, tmp_path, capsys):
    study, _ = make_study(n_people=6)
    study.to_csv(tmp_path / "choices.csv", index=False)
    command = ["evaluate", str(tmp_path / "choices.csv"), "--mixed-models", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    assert "give models or scores (--model or --scores)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
