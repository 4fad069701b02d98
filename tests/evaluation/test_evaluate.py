"""Test whole evaluations: tables, values, tests, exclusions and options.

Tests `contstim.evaluation`, `contstim.evaluation.evaluate`, `contstim.evaluation.tables`,
`contstim.evaluation.result`, `contstim.evaluation.values`, `contstim.evaluation.exclusion`,
`contstim.evaluation.inference` and
`contstim.evaluation.inference.signed_rank`.
"""

import csv
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from contstim.design.trials import Layout, design_trials
from contstim.errors import InputError, UnknownNameError
from contstim.evaluation import (
    Analysis,
    HumanData,
    benjamini_hochberg,
    check_choices,
    evaluate,
    preset_options,
    signed_rank_cosine,
    wilcoxon_signed_rank,
)
from contstim.evaluation.exclusion import exclude_unknown_words
from contstim.evaluation.inference import CEILING_INTERVALS
from contstim.evaluation.result import COMPARISON_COLUMNS, MODEL_COLUMNS
from contstim.evaluation.summary import summarize
from contstim.models.registry import load_model
from contstim.tables import read_table
from contstim.text.languages import get_language
from contstim.training.ngram import train_ngram


def assert_missing_values_have_notes(result):
    """Assert that every row with a missing number has a note."""
    for name, table in result.tables().items():
        if name in ("trials", "excluded") or not len(table):
            continue
        numbers = table.select_dtypes("number").drop(columns="expected_chosen", errors="ignore")
        gap = numbers.isna().any(axis=1)
        if gap.any():
            assert (table.loc[gap, "note"] != "").all(), name


def test_tables_have_the_documented_columns(make_study):
    result = evaluate(*make_study())
    published = evaluate(*make_study(), inference="signed-rank", n_bootstrap=50)
    only = {"p_smallest"}
    assert tuple(result.models.columns) == tuple(c for c in MODEL_COLUMNS if c not in only)
    assert tuple(result.comparisons.columns) == tuple(
        c for c in COMPARISON_COLUMNS if c not in only
    )
    assert list(published.models.columns[:12]) == list(MODEL_COLUMNS[:12])
    assert only <= set(published.models.columns) & set(published.comparisons.columns)
    assert_missing_values_have_notes(published)
    assert list(result.models["analysis"].unique()) == [
        *("all", "targeted", "synthetic", "synthetic/targeted", "natural", "natural/targeted")
    ]
    assert set(result.models["measure"]) == {"accuracy", "signed_rank_cosine"}
    first = result.models.iloc[0]
    assert (first["n_participants"], first["n_trials"], first["n_choices"]) == (12, 20, 240)
    assert first["ci_low"] <= first["value"] <= first["ci_high"]
    assert_missing_values_have_notes(result)


def test_values_and_tests_equal_their_definitions(make_study):
    study, scores = make_study(n_people=8)
    result = evaluate(study, scores, inference="signed-rank")
    wide = scores.set_index("sentence")
    per_model = {}
    for model in "abc":
        ratio = wide[model].loc[study["sentence_2"]].to_numpy()
        ratio = ratio - wide[model].loc[study["sentence_1"]].to_numpy()
        groups = study.assign(ratio=ratio).groupby("participant", sort=False)
        per_model[model] = np.array(
            [signed_rank_cosine(g["rating"], g["ratio"]) for _, g in groups]
        )
    table = result.models.query("analysis == 'all' and measure == 'signed_rank_cosine'")
    for row in table.itertuples():
        assert row.value == pytest.approx(per_model[row.model].mean())
    pair = result.comparisons.query("analysis == 'all' and measure == 'signed_rank_cosine'").iloc[0]
    test = wilcoxon_signed_rank(per_model["a"] - per_model["b"])
    assert (pair["p"], pair["effect"]) == pytest.approx((test.p, test.effect))
    assert pair["difference"] == pytest.approx((per_model["a"] - per_model["b"]).mean())


def test_targeted_trials_name_the_model(make_study):
    study, scores = make_study(n_pairs=20)
    result = evaluate(study, scores)
    table = result.models.query("analysis == 'targeted' and measure == 'accuracy'")
    pairs = study.drop_duplicates("trial")
    for row in table.itertuples():
        named = (pairs["model_1"] == row.model) | (pairs["model_2"] == row.model)
        assert row.n_trials == named.sum()


def test_roles_in_natural_versus_synthetic_pairs(make_study):
    study, scores = make_study(n_pairs=6, models=("a", "b"))
    study["condition"] = "natural_vs_synthetic"
    study.loc[study["trial"] <= 3, "condition"] = "other"
    mixed = study["condition"] == "natural_vs_synthetic"
    study["kind_1"] = np.where(mixed, "S", "N")
    study["kind_2"] = "N"
    study["model_1"], study["model_2"] = "a", "b"
    study.loc[study["trial"] == 6, ["model_1", "model_2"]] = ["b", "a"]
    result = evaluate(study, scores, measures=("accuracy",))
    counts = result.models.set_index(["analysis", "model"])["n_trials"]
    assert counts["natural_vs_synthetic/accept", "a"] == 2
    assert counts["natural_vs_synthetic/accept", "b"] == 1
    assert counts["natural_vs_synthetic/reject", "a"] == 1
    assert counts["natural_vs_synthetic/reject", "b"] == 2


def test_roles_are_inferred_from_designed_trials():
    names = {name: [f"{name} of {k}." for k in range(6)] for name in ("N", "S1", "S2", "A", "B")}
    models = {"model_1": "a", "model_2": "b"}
    columns = {"natural": names["N"], "synthetic_1": names["S1"], "synthetic_2": names["S2"]}
    natural = pd.DataFrame({"sentence_1": names["A"], "sentence_2": names["B"], **models})
    triplets = pd.DataFrame({**columns, **models})
    trials = design_trials(natural, triplets, layout=Layout(groups=3, participants=2))
    sentences = [text for texts in names.values() for text in texts]
    scores = pd.DataFrame({"sentence": sentences, "a": np.arange(30.0), "b": -np.arange(30.0)})
    # Everybody chooses the natural sentence, or sentence 1.
    choices = trials.assign(rating=np.where(trials["kind_1"] == "S", 2.5, -2.5))
    result = evaluate(choices, scores, measures=("accuracy",))
    counts = result.models.set_index(["analysis", "model"])["n_trials"]
    for side, accepts, rejects in (("1", "a", "b"), ("2", "b", "a")):
        role = f"natural_vs_synthetic_{side}"
        assert counts[f"{role}/accept", accepts] == counts[f"{role}/reject", rejects] == 6
        assert (f"{role}/targeted", accepts) not in counts
    assert counts["synthetic_vs_synthetic", "a"] == 6


@pytest.mark.parametrize("kinds", [{}, {"kind_1": None, "kind_2": np.nan}])
def test_roles_without_sentence_kinds_are_rejected(make_study, kinds):
    study, scores = make_study(n_pairs=6, models=("a", "b"))
    accepted = Analysis("mine", target="accept")
    with pytest.raises(InputError) as error:
        evaluate(study.assign(**kinds), scores, analyses=(accepted,), measures=("accuracy",))
    assert str(error.value) == (
        "analysis 'mine' has the target 'accept', and no column says which sentences are "
        "synthetic; name them in kind_1 and kind_2 (S; others N), or give the target 'either'"
    )


def test_groups_are_the_unit_if_there_are_enough(make_study):
    study, scores = make_study(n_people=24, n_groups=6, n_pairs=10)
    result = evaluate(study, scores, inference="signed-rank", n_bootstrap=50)
    row = result.models.iloc[0]
    assert (row["unit"], row["n_units"], row["p_smallest"]) == ("group", 6, 2 / 64)
    people = evaluate(study, scores, inference="signed-rank", unit="participant").models
    assert people["n_units"].iloc[0] == 24


def test_golan2023_preset_is_the_published_analysis(make_study):
    study, scores = make_study(n_people=30, models=("a", "b", "c", "d"))
    study["condition"] = np.where(study["trial"] > 16, "catch", "synthetic")
    study["rating"] = study["rating"].where(study["trial"] <= 16, study["rating"].abs())
    study["expected"] = np.where(study["trial"] > 16, 2, np.nan)
    result = evaluate(study, scores, preset="golan2023")
    here = result.comparisons.query("analysis == 'targeted' and measure == 'accuracy'")
    assert list(zip(here["model_1"], here["model_2"], strict=True)) == [
        *(("a", "b"), ("a", "d"), ("b", "c"), ("c", "d"))
    ]
    assert set(here["test"]) == {"asymptotic"}
    models = result.models.query("analysis == 'targeted' and measure == 'accuracy'")
    family = benjamini_hochberg([*models["p_ceiling"], *here["p"]])
    np.testing.assert_allclose([*models["q_ceiling"], *here["q"]], family)
    apart = evaluate(study, scores, fdr="by_test").models.query(
        "analysis == 'targeted' and measure == 'accuracy'"
    )
    np.testing.assert_allclose(apart["q_ceiling"], benjamini_hochberg(apart["p_ceiling"]))


def test_fdr_families_of_comparisons_and_ceiling_tests(make_study):
    study, scores = make_study(n_people=20)
    whole = evaluate(study, scores)
    for table, p, q in ((whole.models, "p_ceiling", "q_ceiling"), (whole.comparisons, "p", "q")):
        assert len(table) > 15
        np.testing.assert_allclose(table[q], benjamini_hochberg(table[p]))
    some = evaluate(study, scores, planned=(("b", "a"),))
    apart = (some.comparisons["model_1"] == "a") & (some.comparisons["model_2"] == "b")
    first, rest = some.comparisons[apart], some.comparisons[~apart]
    np.testing.assert_allclose(first["q"], benjamini_hochberg(first["p"]))
    np.testing.assert_allclose(rest["q"], benjamini_hochberg(rest["p"]))
    np.testing.assert_allclose(some.models["q_ceiling"], whole.models["q_ceiling"])
    with pytest.raises(UnknownNameError, match="unknown model 'x'"):
        evaluate(study, scores, planned=(("a", "x"),))


@pytest.mark.parametrize(
    ("shape", "inference", "note"),
    [
        ({"n_pairs": 1}, "crossed", "too few participants or items"),
        ({"n_groups": 2}, "signed-rank", "too few groups to test across"),
    ],
)
def test_untestable_comparisons_have_a_note_and_no_p_value(make_study, shape, inference, note):
    result = evaluate(
        *make_study(**shape),
        inference=inference,
        measures=("accuracy",),
        analyses=(Analysis("all"),),
        **({"unit": "group", "n_bootstrap": 20} if inference == "signed-rank" else {}),
    )
    for table, p in ((result.models, "p_ceiling"), (result.comparisons, "p")):
        assert table[p].isna().all()
        assert table["note"].str.contains(note).all()
    assert (result.comparisons["conclusion"] == "").all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.iloc[1:], "model 'a' has no score for 1 of 40 sentences, for example"),
        (
            lambda w: pd.concat([w, w.iloc[:1].assign(a=0.0)]),
            "model 'a' of the scores table has two scores for",
        ),
        (lambda w: w.assign(a=np.inf), "as infinite"),
        (lambda w: w.assign(a="x"), "column 'a' of the scores table contains 'x', not a number"),
        (lambda w: w[["sentence"]], "has no model column"),
        (lambda w: w[["a"]], "needs a column 'sentence'"),
    ],
)
def test_invalid_scores_are_rejected(make_study, change, message):
    study, wide = make_study()
    with pytest.raises(InputError) as caught:
        evaluate(study, change(wide))
    assert message in str(caught.value)


def test_two_sentences_with_zero_probability_are_tied(make_study):
    study, wide = make_study()
    wide.loc[:1, "a"] = -np.inf
    wide.loc[2, "a"] = -np.inf
    result = evaluate(study, wide)
    assert result.models.iloc[0]["n_tied_predictions"] == 1
    assert_missing_values_have_notes(result)


def test_positive_scores_are_noted_as_possible_surprisals(make_study):
    study, scores = make_study(n_people=3)
    notes = evaluate(study, scores.assign(a=-scores["a"])).provenance.notes
    assert [note for note in notes if "above 0" in note] == [
        "All scores of a are above 0, so they are not log-probabilities; the higher score is "
        "taken to be better. If they are surprisals, state it in a column 'unit' of the table: "
        "surprisal."
    ]


def test_scores_match_without_final_period_and_spaces(make_study):
    study, wide = make_study()
    other = wide.assign(sentence="  " + wide["sentence"].str.replace(" of", "  of") + ".")
    pd.testing.assert_frame_equal(evaluate(study, other).models, evaluate(study, wide).models)


def test_duplicate_scores_are_rejected_despite_spacing(make_study):
    study, wide = make_study()
    spaced = wide.assign(sentence=wide["sentence"].str.replace(" of", "  of"), a=0.0)
    long = pd.concat([wide, spaced]).melt("sentence", var_name="model", value_name="log_prob")
    of_a = pd.concat([wide, spaced]).set_index("sentence")["a"]
    for scores in (pd.concat([wide, spaced]), long, {"a": of_a}):
        with pytest.raises(
            InputError,
            match=r"^model 'a' (of the scores table )?has two scores for 'First of 0 in 0'",
        ):
            evaluate(study, scores)
    # The models may have the sentences in different rows.
    rows = pd.concat([wide[["sentence", "a"]], spaced[["sentence"]].assign(b=wide["b"])])
    pd.testing.assert_frame_equal(
        evaluate(
            study,
            rows.melt("sentence").dropna().set_axis(["sentence", "model", "log_prob"], axis=1),
        ).models,
        evaluate(study, wide[["sentence", "a", "b"]]).models,
    )


@pytest.mark.parametrize("inference", ["crossed", "signed-rank"])
@pytest.mark.parametrize("case", ["constant model", "one participant", "one trial", "all tied"])
def test_degenerate_inputs_give_a_value_or_a_note(make_study, case, inference):
    study, scores = make_study()
    if case == "constant model":
        scores["a"] = -5.0
    elif case == "one participant":
        study = study[study["participant"] == "s1"]
    elif case == "one trial":
        study = study[study["trial"] == 1]
    else:
        study["rating"] = 0.0
    n_bootstrap = {"n_bootstrap": 30} if inference == "signed-rank" else {}
    result = evaluate(study, scores, inference=inference, **n_bootstrap)
    assert_missing_values_have_notes(result)
    rows = result.models.query("analysis == 'all' and model == 'a'").set_index("measure")
    if case in ("constant model", "all tied"):
        assert rows.loc["accuracy", "value"] == 0.5
        assert np.isnan(rows.loc["signed_rank_cosine", "value"])
        assert "tied on every trial" in rows.loc["signed_rank_cosine", "note"]
    if case == "one participant":
        assert "no ceiling" in rows.loc["accuracy", "note"]
        assert rows.loc["accuracy", "n_participants"] == 1


def test_evaluation_without_models_has_ceilings_and_agreement(make_study):
    study, _ = make_study()
    result = evaluate(study)
    assert result.models.empty
    assert result.comparisons.empty
    assert len(result.details.ceilings) == 2 * 3
    assert 0 < result.details.ceilings["ceiling_lower"].iloc[0] < 1
    assert result.details.reliability["spearman_brown"].between(0, 1).all()
    assert_missing_values_have_notes(result)


def test_unknown_words_follow_the_language_of_the_model(tmp_path):
    text, french = tmp_path / "text.txt", get_language("fr")
    text.write_text("L'homme dort.\nL'homme mange.\nElle dort.\n" * 5, "utf-8")
    path, discounts = tmp_path / "fr.arpa", (0.5, 1.0, 1.5)
    train_ngram(text, path, order=2, punctuation="split", fallback=discounts, language=french)
    model = load_model(f"ngram:{path}?language=fr&punctuation=split")
    columns = ["participant", "sentence_1", "sentence_2"]
    pairs = [("p", "L'homme dort.", "Elle dort."), ("p", "L'homme rit.", "Elle mange.")]
    left = exclude_unknown_words(
        HumanData(pd.DataFrame(pairs, columns=columns).assign(kind="experimental")), [model]
    )
    assert left.choices["sentence_1"].tolist() == ["L'homme dort."]


def test_conditions_named_like_analyses_are_kept_separate(make_study):
    study, scores = make_study(n_people=4)
    pairs = study.groupby(["sentence_1", "sentence_2"]).ngroup()
    study["condition"] = np.where(pairs % 2, "all", "targeted")
    result = evaluate(study, scores, measures=("accuracy",))
    table = result.models
    assert not table.duplicated(["analysis", "model"]).any()
    people, models = result.details.agreement, result.details.model_agreement
    assert people["condition"].tolist()[0] == "all"
    assert sorted(people["condition"]) == ["all", "condition all", "targeted"]
    assert not models.duplicated(["condition", "model_1", "model_2"]).any()
    rows = table[table["model"] == "a"].set_index("analysis")["n_trials"]
    assert rows["condition all"] + rows["condition targeted"] == rows["all"]


def test_direction_of_a_ceiling_test_is_noted(make_study):
    """A model that predicts every choice lies above the lower ceiling."""
    study, scores = make_study(n_people=40, n_pairs=30, noise=2.0)
    mean = study.groupby("sentence_1")["rating"].mean()
    truth = pd.Series({s.replace("First", "Second"): r for s, r in mean.items()})
    scores["a"] = scores["sentence"].map(truth).fillna(0.0)
    scores["b"] = -scores["a"]
    options = {"measures": ("accuracy",)}
    crossed = evaluate(study, scores, **options).models.query("analysis == 'all' and model == 'b'")
    assert "significantly below the lower ceiling" in crossed["note"].iloc[0]
    table = evaluate(study, scores, inference="signed-rank", n_bootstrap=0, **options).models
    table = table[table["analysis"] == "all"].set_index("model")
    for model, word, sign in (("a", "above", 1), ("b", "below", -1)):
        assert table.loc[model, "q_ceiling"] < 0.05
        assert np.sign(table.loc[model, "effect_ceiling"]) == sign
        assert f"significantly {word} the lower ceiling" in table.loc[model, "note"]


def test_significance_with_an_interval_over_zero_is_noted(make_study):
    """Many participants share few pairs; only the interval accounts for the pairs."""
    study, scores = make_study(n_people=60, n_pairs=10, seed=3)
    table = evaluate(study, scores, inference="signed-rank", n_bootstrap=200).comparisons
    spans = (table["q"] < 0.05) & (table["ci_low"] <= 0) & (table["ci_high"] >= 0)
    said = table["note"].str.contains("significant, but the interval includes zero")
    assert spans.any()
    assert not spans.all()
    assert said.equals(spans)


def test_fixed_items_give_smaller_standard_errors(make_study):
    study, scores = make_study(n_people=40, n_pairs=12, seed=2)
    these, such = (
        evaluate(study, scores, items=name).comparisons["stderr"] for name in ("fixed", "random")
    )
    assert (these < such).mean() > 0.9


def test_custom_analyses_are_run_and_unknown_names_rejected(make_study):
    study, scores = make_study()
    result = evaluate(study, scores, analyses=(Analysis("mine", ("natural",)),))
    assert set(result.models["analysis"]) == {"mine"}
    with pytest.raises(UnknownNameError, match="unknown condition 'naturel'; did you mean"):
        evaluate(study, scores, analyses=(Analysis("mine", ("naturel",)),))
    with pytest.raises(UnknownNameError, match="unknown target"):
        Analysis("x", (), "both")
    with pytest.raises(UnknownNameError, match="unknown option 'seeds'; did you mean 'seed'"):
        preset_options("default", seeds=3)
    with pytest.raises(UnknownNameError, match="unknown preset"):
        preset_options("golan")
    with pytest.raises(UnknownNameError, match="unknown fdr"):
        preset_options("default", fdr="both")


def test_results_are_determined_by_the_seed(make_study):
    study, scores = make_study()
    one, two, other = (
        evaluate(study, scores, inference="signed-rank", n_bootstrap=30, seed=s).models
        for s in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(one, two)
    assert not one["ci_low"].equals(other["ci_low"])


def test_evaluation_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys, contstim.evaluation; "
        "print([m for m in ('torch', 'matplotlib', 'statsmodels', 'wordfreq') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_evaluate_checks_the_choices(make_study):
    study, scores = make_study()
    with pytest.raises(InputError, match="several answers to the same pair"):
        evaluate(pd.concat([study, study.iloc[:1]]), scores)
    assert check_choices(study)["participant"].nunique() == 12


def test_spreadsheet_formulas_in_tables_are_escaped(make_study, tmp_path):
    study, scores = make_study(n_people=6, models=("=1+1", "@SUM(1)", "c"))
    study["participant"] = "=cmd|' /C calc'!" + study["participant"]
    evaluation = evaluate(study, scores)
    for path in evaluation.write_tables(tmp_path):
        with path.open(newline="", encoding="utf-8") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert not any(cell.startswith(("=", "@")) for cell in cells), path
    back = read_table(tmp_path / "participants.csv", cells="text")
    assert set(back["participant"]) == set(study["participant"])
    assert set(back["model"]) == {"=1+1", "@SUM(1)", "c"}


def test_two_participants_per_pair_give_no_ceiling_interval(make_study):
    choices, scores = make_study(n_people=10, n_pairs=12, n_groups=5)
    result = evaluate(choices, scores, analyses=(Analysis("all"),))
    models = result.models
    assert models["ceiling_lower"].notna().all()
    unknown = [*CEILING_INTERVALS, "p_ceiling", "q_ceiling"]
    assert models[unknown].isna().all(axis=None)
    assert models[["ci_low", "p_chance"]].notna().all(axis=None)
    assert set(models["note"]) == {
        "no interval and no test of the ceilings: most pairs were judged by two participants only"
    }
    assert summarize(result)[-1].endswith("; not tested).")
    three = evaluate(*make_study(n_people=15, n_pairs=12, n_groups=5), analyses=(Analysis("all"),))
    assert three.models[unknown].notna().all(axis=None)


def test_lower_is_better_scores_are_negated_per_model(make_study, tmp_path):
    choices, scores = make_study()
    long = scores.melt("sentence", var_name="model", value_name="log_prob")
    long = long.assign(unit="nats", better="higher")
    fallen = long.assign(
        log_prob=np.where(long["model"] == "b", -long["log_prob"], long["log_prob"])
    )
    fallen.loc[fallen["model"] == "b", ["unit", "better"]] = "energy", "lower"
    as_they_are, turned = evaluate(choices, long), evaluate(choices, fallen)
    pd.testing.assert_frame_equal(as_they_are.models, turned.models)
    note = "The scores of b are better where they are lower and were negated."
    assert note in turned.provenance.notes
    assert as_they_are.provenance.notes == turned.provenance.notes[:-1]
    assert turned.provenance.units == {"a": "nats", "b": "energy", "c": "nats"}
    assert turned.provenance.scores.equals(as_they_are.provenance.scores)
    # So the table that is written for others is read again.
    turned.write_tables(tmp_path)
    again = evaluate(choices, read_table(tmp_path / "scores.csv"))
    pd.testing.assert_frame_equal(again.models, turned.models)
    assert again.provenance.units == turned.provenance.units
    with pytest.raises(InputError) as caught:
        evaluate(choices, long.assign(better="best"))
    assert str(caught.value) == ("'better' is 'best' for model 'a'; it must be 'higher' or 'lower'")
    long.loc[0, "better"] = "lower"
    with pytest.raises(InputError) as caught:
        evaluate(choices, long)
    assert "has 'lower' and 'higher' in the column 'better'; keep one" in str(caught.value)


def test_zero_token_counts_are_treated_as_unknown(make_study):
    """`contstim score` writes 0 tokens if the number is unknown."""
    choices, scores = make_study()
    wide = scores.melt(id_vars="sentence", var_name="model", value_name="log_prob")
    found = evaluate(choices, wide.assign(n_tokens=0)).models["value"]
    assert found.tolist() == evaluate(choices, wide).models["value"].tolist()
