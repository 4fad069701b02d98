"""Test analysis plans and reported deviations from them."""

import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.options import read_plan

PLAN = """
measures = ["accuracy"]
equivalence = 0.2
fdr = "by_test"
planned = [["a", "b"]]

[[analyses]]
name = "mine"
conditions = ["natural"]

[exclusions]
min_trials = 5
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, "utf-8")
    return path


def test_plan_determines_the_analysis(make_study, plan, tmp_path):
    result = evaluate(*make_study(), plan=plan)
    options = result.provenance.options
    assert (options.equivalence, options.fdr, options.planned) == (0.2, "by_test", (("a", "b"),))
    assert options.exclusions.min_trials == 5
    assert set(result.models["analysis"]) == {"mine"}
    assert set(result.models["measure"]) == {"accuracy"}
    assert result.provenance.deviations == ()
    assert "<h2>Deviations from the analysis plan</h2>\n<ul><li>None.</li></ul>" in result.report(
        tmp_path / "out"
    ).read_text("utf-8")


def test_plan_can_select_factor_levels(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        'condition = ["native"]\n[[analyses]]\nname = "natives"\n'
        'factor_levels = [["native", "yes"]]\n',
        "utf-8",
    )
    (analysis,) = read_plan(path)["analyses"]
    assert analysis.factor_levels == (("native", "yes"),)


def test_report_without_a_plan_mentions_no_plan(make_study, tmp_path):
    result = evaluate(*make_study())
    assert result.provenance.deviations is None
    assert "analysis plan" not in result.report(tmp_path).read_text("utf-8")


@pytest.mark.parametrize(("given", "seed"), [([], 7), (["--seed", "0"], 0), (["--seed", "3"], 3)])
def test_seed_option_overrides_the_plan(make_study, tmp_path, given, seed):
    study, scores = make_study()
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    plan = tmp_path / "plan.toml"
    plan.write_text('seed = 7\nmeasures = ["accuracy"]\n', "utf-8")
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    out = tmp_path / "out"
    assert main(["evaluate", *files, "--plan", str(plan), *given, "--out", str(out)]) == 0
    page = (out / "report.html").read_text("utf-8")
    assert f"; seed {seed};" in page
    assert (f"seed is {seed}; the plan has 7." in page) == (seed != 7)


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("default", {"n_bootstrap": 50}),
        ("default", {"levels": ("participant",)}),
        ("default", {"test_method": "scipy-1.7"}),
        ("golan2023", {"items": "fixed"}),
        ("golan2023", {"equivalence": 0.2}),
        ("golan2023", {"condition": ("list",)}),
    ],
)
def test_options_of_the_other_inference_are_rejected(make_study, preset, changes):
    name, inference = next(iter(changes)), {"default": "crossed"}.get(preset, "signed-rank")
    with pytest.raises(
        InputError, match=f"^{name} .+ cannot be combined with inference {inference}"
    ):
        evaluate(*make_study(), preset=preset, **changes)


def test_deviations_from_the_plan_are_listed(make_study, plan, tmp_path):
    study, scores = make_study()
    study.to_csv(tmp_path / "choices.csv", index=False)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    out = tmp_path / "out"
    files = [str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    changed = ["--equivalence", "0.3", "--items", "fixed", "--exclude", "rt<10"]
    assert main(["evaluate", *files, "--plan", str(plan), *changed, "--out", str(out)]) == 0
    page = (out / "report.html").read_text("utf-8")
    assert "Deviations from the analysis plan" in page
    for sentence in (
        "items is fixed; the plan has random.",
        "equivalence is 0.3; the plan has 0.2.",
        "exclusions.min_rt_ms is 10; the plan has not set.",
    ):
        assert f"<li>{sentence}</li>" in page
    assert page.count("; the plan has ") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("equivalences = 0.1", "unknown key equivalences; did you mean 'equivalence'?"),
        ("equivalence = 2.0", "equivalence is 2.0; give less than 1"),
        ("[exclusions]\nmin_trial = 3", "unknown key exclusions.min_trial; did you mean"),
        ("[exclusions]\nmin_trials = 'ten'", "exclusions.min_trials is 'ten'; give a number"),
        ("[[analyses]]\nname = 'x'\ntarget = 'one'", "unknown target 'one'"),
        ("[[analyses]]\nnames = 'x'", "unknown key analyses[0].names; did you mean 'name'?"),
        ("planned = [['a']]", "planned[0] is ['a']; give at least 2"),
        ("planned = [['a', 'a']]", "planned compares 'a' with itself; give two models"),
        ("measures = ['accuracy', 'accuracy']", "measures names 'accuracy' twice; name each once"),
        (
            "[[analyses]]\nname = 'x'\n[[analyses]]\nname = 'x'",
            "analyses names 'x' twice; name each once",
        ),
    ],
)
def test_invalid_plans_are_rejected(tmp_path, text, message):
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        read_plan(path)
    assert message in str(caught.value)
