"""Test the preregistration document of a study with fixed trials, and deviations.

Tests `contstim.experiment.commands.preregister`,
`contstim.experiment.commands.preregister_document` and `contstim.evaluation.sample`.
"""

from dataclasses import replace

import pandas as pd
import pytest

from contstim.adaptive.preregistration import PlannedDesign, describe_study
from contstim.cli import main
from contstim.design.power import power_curve
from contstim.design.studies import StudySimulator
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.sample import Sample
from contstim.evaluation.trials import Analysis
from contstim.settings import parse_settings

ANALYSIS = """\
measures = ["accuracy"]
items = "fixed"
equivalence = 0.2
contrasts = "targeted"
planned = [["one", "two"]]
headline = "hard"

[[analyses]]
name = "hard"
conditions = ["hard"]
target = "either"

[exclusions]
min_catch_correct = 0.75
min_rt_ms = 250
min_trials = 6

[sample]
participants = 6
groups = 2
"""


def make_trials(people=6, pairs=8):
    """Return trials of two groups with different pairs, two pairs per item and two catch trials."""
    rows = []
    for who in range(people):
        for k in range(pairs + 2):
            pair = 100 * (who % 2) + k
            models = ("one", "two") if k < pairs else (None, None)
            condition = "catch" if k >= pairs else ("easy", "hard")[k % 2]
            texts = f"Good {pair}.", f"Bad {pair}."
            rows.append((who + 1, who % 2 + 1, k + 1, condition, *texts, *models, pair // 2))
    columns = ["participant", "group", "trial", "condition", "sentence_1", "sentence_2"]
    return pd.DataFrame(rows, columns=[*columns, "model_1", "model_2", "item"])


def test_pairs_without_an_item_are_separate_items():
    table = make_trials()
    table["item"] = table["item"].where(table["trial"] > 4)  # two of four have none
    assert PlannedDesign.from_trials(table).items_per_participant == 2 + 4
    assert PlannedDesign.from_trials(table.drop(columns="item")).items_per_participant == 8


def test_document_states_numbers_of_plan_and_trials(tmp_path, capsys):
    plan, table = tmp_path / "plan.toml", tmp_path / "trials.csv"
    plan.write_text(ANALYSIS)
    make_trials().to_csv(table, index=False)
    assert main(["preregister", str(plan), "--trials", str(table)]) == 0
    text = capsys.readouterr().out
    for stated in (
        "# Fixed study\n",
        "The trials are for 6 participants in 2 groups. Each participant answers 10 trials: ",
        "2 of condition 'catch', 4 of condition 'easy', 4 of condition 'hard'.",
        "A participant's 8 experimental pairs form 4 items. The pairs compare 2 models: one,",
        "6 participants, in 2 groups with different pairs.",
        "Trials answered in less than 250 ms are excluded. Participants with less than 0.75 of",
        "fewer than 6 trials",
        "hard (each model on the trials that target it, of the conditions hard)",
        "The main result is the analysis hard.",
        "t-tests across participants; items are fixed",
        "by less than 0.2 of the range from chance",
        "Planned comparisons (one and two) are adjusted separately.",
        "Only models that some trial targets together are compared.",
        "Power is computed only for tests that treat participants and items as random.",
        "- plan.toml: SHA-256 ",
        "- trials.csv: SHA-256 ",
    ):
        assert stated in text
    assert "Signed-rank" not in text


def test_document_of_a_study_plan_matches_its_run(tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text(
        'models = ["contstim:unigram", "contstim:bigram", "contstim:trigram"]\n'
        '[study]\nname = "three"\nseed = 5\n[sentences]\nwords = "6-9"\nlimit = 200\n'
        "[natural]\nper_pair = 4\n[design]\ngroups = 2\nparticipants = 3\ncatch = 2\n"
        "random_natural = 1\n"
    )
    assert main(["preregister", str(study)]) == 0
    text = capsys.readouterr().out
    for stated in (
        "# three\n",
        "3 models are compared: contstim:unigram, contstim:bigram, contstim:trigram.",
        "the bundled pool of contstim, with 6-9 words, the first 200 of them",
        "4 pairs of natural sentences are selected for each pair of models, 12 in all",
        "The design has 6 assignments in 2 groups, each of 9 trials: 6 of the condition "
        "'natural_controversial', 1 of the condition 'random_natural', 2 of the condition 'catch'.",
        "(seed 5)",
        "6 participants",
        "7 pairs each",
        "before correction for 3 comparisons",
    ):
        assert stated in text
    assert main(["run", str(study)]) == 0
    capsys.readouterr()
    made = pd.read_csv(tmp_path / "runs" / "three" / "trials.csv")
    counts = made[made["participant"] == 1]["condition"].value_counts().to_dict()
    assert counts == {"natural_controversial": 6, "catch": 2, "random_natural": 1}
    assert made["participant"].nunique() == 6


def test_two_analysis_plans_are_rejected(tmp_path, capsys):
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text("equivalence = 0.1\n")
    paths = [str(tmp_path / name) for name in ("a.toml", "b.toml")]
    assert main(["preregister", *paths]) == 2
    assert capsys.readouterr().err == (
        f"contstim: {paths[0]} and {paths[1]} are both analysis plans; give one\n"
    )


def test_sample_contradicting_the_trials_is_rejected(tmp_path, capsys):
    plan, table = tmp_path / "plan.toml", tmp_path / "trials.csv"
    make_trials(people=4).drop(columns="item").to_csv(table, index=False)
    command = ["preregister", str(plan), "--trials", str(table)]
    for line, there in (("participants = 40", 4), ("groups = 1", 2), ("trials_each = 9", 8)):
        plan.write_text(f"[sample]\n{line}\n")
        assert main(command) == 2
        assert capsys.readouterr().err == (
            f"contstim: [sample] of the plan has {line}; the trials have {there}. Correct the "
            "plan or the trials\n"
        )
    plan.write_text("[sample]\nparticipants = 4\n")
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "The table has no column 'item': each pair is a separate item." in text
    assert "column 'item'" not in text.replace("has no column 'item'", "")


def test_unrecognised_plan_files_are_rejected(tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text('title = "Which?"\n[trials]\npath = "trials.csv"\n')
    assert main(["preregister", str(study)]) == 2
    assert capsys.readouterr().err == (
        f"contstim: {study} is no analysis plan (with measures, [exclusions], [sample] or "
        "[adaptive]) and no study plan of `contstim run` (with models); give one of these\n"
    )


def test_document_of_signed_rank_plan_without_trials():
    options = EvaluationOptions(
        inference="signed-rank", sample=Sample(participants=24, groups=2, trials_each=12)
    )
    paragraphs = describe_study(options)
    assert paragraphs["Design"] == "Each participant judges 12 pairs of sentences."
    assert "groups (participants if there are fewer than 6 groups)" in paragraphs["Analysis"]
    assert paragraphs["Power"].startswith("Power is computed only for tests that treat")
    assert describe_study(EvaluationOptions()).keys() == {"Exclusions", "Analysis"}


def test_document_names_factor_columns_of_analyses():
    levels = ("language", "de"), ("language", "en"), ("frequency", "high")
    analyses = (Analysis("some", ("hard",), factor_levels=levels),)
    options = EvaluationOptions(condition=("language", "frequency"), analyses=analyses)
    text = describe_study(options)["Analysis"]
    assert "of the conditions hard, of language de or en, of frequency high)" in text
    assert "are also compared between levels of language and frequency." in text


def test_stated_power_equals_power_curve():
    design = PlannedDesign(24, 2, 30, 10, 2)
    text = describe_study(EvaluationOptions(), design)["Power"]
    simulator = StudySimulator.from_difference(0.2, pairs_per_item=3, n_groups=2)
    power = power_curve(simulator, [12], [30], 1000, seed=4)["power_unadjusted"].iloc[0]
    stated = float(text.split("% for a difference in accuracy of 0.2")[0].split()[-1]) / 100
    assert stated == pytest.approx(power, abs=0.06)
    assert text.startswith(
        "With 24 participants in 2 groups with different pairs and 30 pairs each"
    )
    assert "(p < 0.05), for two models that disagree on every pair." in text
    nine = describe_study(EvaluationOptions(), replace(design, models=9))["Power"]
    assert "(p < 0.05, before correction for 36 comparisons)" in nine


def test_power_is_stated_only_for_accuracy():
    design = PlannedDesign(24, 2, 30, 10, 2)
    options = EvaluationOptions(measures=("signed_rank_cosine",))
    assert describe_study(options, design)["Power"] == "Power is computed only for accuracy."


def test_deviations_from_the_planned_sample_are_listed(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("[sample]\nparticipants = 7\ngroups = 2\ntrials_each = 8\n")
    choices = make_trials().assign(rating=-1.5, rt_ms=900.0)
    gone = choices[(choices["participant"] != 1) | (choices["trial"] > 1)]
    assert evaluate(choices, plan=plan).provenance.deviations == (
        "The data have 6 participants; the plan has 7.",
    )
    plan.write_text("[sample]\nparticipants = 6\ngroups = 3\ntrials_each = 8\n")
    assert evaluate(gone, plan=plan).provenance.deviations == (
        "The data have 2 groups; the plan has 3.",
        "1 of 6 participants judged fewer than 8 pairs; the plan has 8 each.",
    )
    plan.write_text("[sample]\nparticipants = 6\ntrials_each = 7\n")
    assert evaluate(gone, plan=plan).provenance.deviations == (
        "5 of 6 participants judged more than 7 pairs; the plan has 7 each.",
    )


@pytest.mark.parametrize("table", [{"participants": 0}, {"people": 3}])
def test_invalid_sample_settings_are_rejected(table):
    with pytest.raises(InputError, match=f"sample.{next(iter(table))}"):
        parse_settings(Sample, table, "sample")
