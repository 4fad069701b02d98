"""Test the consistency of default evaluations on simulated studies."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import t

from contstim.errors import InputError
from contstim.evaluation import Analysis, evaluate
from contstim.evaluation.inference.crossed import add_pseudo_items
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.summary import summarize

ALL = (Analysis("all"),)


def simulate_study(seed, share=1.0):
    """Return a study of four models: two good ones, a copy of the first, and noise."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(4, 15)), int(rng.integers(4, 30))
    truth = rng.normal(size=p)
    felt = truth + rng.normal(size=p) + 0.5 * rng.normal(size=(n, 1)) + rng.normal(size=(n, p))
    seen = rng.random((n, p)) < share
    seen[:2] = True
    person, pair = np.nonzero(seen)
    choices = pd.DataFrame(
        {
            "participant": person,
            "sentence_1": [f"first {i}" for i in pair],
            "sentence_2": [f"second {i}" for i in pair],
            "rating": np.digitize(felt[seen], [-2, -1, 0, 1, 2]) - 2.5,
        }
    )
    first = truth + 0.7 * rng.normal(size=p)
    ratio = [first, truth + rng.normal(size=p), first, rng.normal(size=p)]
    scores = pd.DataFrame(
        np.concatenate([np.zeros((p, 4)), np.transpose(ratio)]),
        columns=["good", "better", "copy", "noise"],
    )
    scores.insert(0, "sentence", [f"{side} {i}" for side in ("first", "second") for i in range(p)])
    return choices, scores


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("items", ["random", "fixed"])
def test_p_values_agree_with_their_intervals(share, items):
    significant = 0
    for seed in range(12):
        found = evaluate(*simulate_study(seed, share), analyses=ALL, items=items)
        table = found.comparisons
        without_zero = (table["ci_low"] > 0) | (table["ci_high"] < 0)
        assert ((table["p"] < 0.05) == without_zero).all()
        assert (table.loc[without_zero, "ci_low"] > 0).equals(
            table.loc[without_zero, "difference"] > 0
        )
        chance = found.models["measure"].map({"accuracy": 0.5, "signed_rank_cosine": 0.0})
        apart = (found.models["ci_low"] > chance) | (found.models["ci_high"] < chance)
        assert ((found.models["p_chance"] < 0.05) == apart).all()
        significant += int(without_zero.sum())
    assert significant >= 10


def test_models_with_the_same_predictions_are_indistinguishable():
    for seed in range(12):
        table = evaluate(*simulate_study(seed), analyses=ALL).comparisons
        same = table[(table["model_1"] == "good") & (table["model_2"] == "copy")]
        assert (same["difference"] == 0).all()
        assert (same["p"] == 1).all()
        assert (same["conclusion"] == "indistinguishable").all()


def test_summary_states_untested_comparisons():
    choices, scores = simulate_study(0)
    choices = choices[choices["participant"] < 2]
    found = evaluate(
        *(choices, scores[["sentence", "good", "noise"]]), analyses=ALL, measures=("accuracy",)
    )
    assert found.comparisons["p"].isna().all()
    assert "good is not tested against noise (difference 0." in summarize(found)[1]


def test_crossed_estimate_equals_statsmodels_mixed_model():
    """REML with crossed random intercepts is exact on complete tables, as is the estimate."""
    rng = np.random.default_rng(3)
    n, p = 12, 15
    design = CrossedDesign(np.repeat(np.arange(n), p), np.tile(np.arange(p), n))
    cells = (
        0.1 + 0.4 * rng.normal(size=n)[design.participant] + 0.6 * rng.normal(size=p)[design.item]
    )
    cells = cells + rng.normal(size=n * p)
    table = pd.DataFrame({"y": cells, "person": design.participant, "pair": design.item, "all": 1})
    fit = smf.mixedlm(
        "y ~ 1",
        table,
        groups="all",
        vc_formula={"person": "0 + C(person)", "pair": "0 + C(pair)"},
    ).fit()
    ours = design.estimate(cells)
    assert ours.value == pytest.approx(fit.params["Intercept"], abs=1e-6)
    assert ours.stderr == pytest.approx(fit.bse["Intercept"], rel=1e-3)


@pytest.fixture
def by_native():
    """Return choices of natives, who follow one model, and of others, who follow none."""
    choices, scores = simulate_study(3)
    natives = choices.assign(native="yes")
    rng = np.random.default_rng(4)
    others = choices.assign(native="no", participant=choices["participant"] + 100)
    others["rating"] = rng.choice([-2.5, -1.5, 1.5, 2.5], size=len(others))
    return pd.concat([natives, others], ignore_index=True), scores


def test_conditions_of_participants_are_analysed_and_compared(by_native):
    choices, scores = by_native
    result = evaluate(choices, scores, condition="native", analyses=ALL)
    names = ["all", "all, native yes", "all, native no"]
    assert list(dict.fromkeys(result.models["analysis"])) == names
    # Each condition by itself says what it says without the other.
    for level in ("yes", "no"):
        alone = evaluate(choices[choices["native"] == level], scores, analyses=ALL)
        rows = result.models[result.models["analysis"] == f"all, native {level}"]
        pd.testing.assert_frame_equal(
            rows.drop(columns=["analysis", "q_ceiling", "note"]).reset_index(drop=True),
            alone.models.drop(columns=["analysis", "q_ceiling", "note"]),
        )
    value = result.models.set_index(["analysis", "measure", "model"])["value"]
    table = result.conditions
    assert len(table) == 2 * (4 + 6)
    for row in table.itertuples():
        lead = [
            value[f"all, native {level}", row.measure, row.model_1]
            - (value[f"all, native {level}", row.measure, row.model_2] if row.model_2 else 0)
            for level in (row.level_1, row.level_2)
        ]
        assert row.difference == pytest.approx(lead[0] - lead[1])
        assert (row.p < 0.05) == (row.ci_low > 0 or row.ci_high < 0)
        assert (row.conclusion == "undecided") == (row.q >= 0.05)
    copies = table[(table["model_1"] == "good") & (table["model_2"] == "copy")]
    assert copies["difference"].tolist() == [0, 0]
    assert (copies["p"] == 1).all()
    better = table[(table["model_1"] == "good") & (table["model_2"] == "")]
    assert (better["difference"] > 0).all()
    # Which condition comes first changes nothing but signs.
    turned = evaluate(choices[::-1], scores, condition="native", analyses=ALL).conditions
    np.testing.assert_allclose(turned["difference"], -table["difference"], atol=1e-12)
    np.testing.assert_allclose(turned["p"], table["p"])


def test_headline_option_lists_its_analysis_first(by_native, tmp_path):
    result = evaluate(*by_native, condition="native", headline="all, native no")
    assert result.models["analysis"].iloc[0] == "all, native no"
    page = result.report(tmp_path).read_text("utf-8")
    assert "Differences between conditions" in page
    assert len(pd.read_csv(tmp_path / "conditions.csv")) == len(result.conditions)
    with pytest.raises(InputError, match="unknown analysis 'natives'; did you mean"):
        evaluate(*by_native, condition="native", headline="natives")
    analyses = (Analysis("natives", factor_levels=(("native", "yes"),)),)
    named = evaluate(*by_native, condition="native", analyses=analyses).models
    assert set(named["n_participants"]) == {len(by_native[0]["participant"].unique()) / 2}
    with pytest.raises(InputError, match="name that column as a condition"):
        evaluate(*by_native, analyses=analyses)
    unknown = (Analysis("natives", factor_levels=(("native", "ja"),)),)
    with pytest.raises(InputError, match="unknown level of native 'ja'"):
        evaluate(*by_native, condition="native", analyses=unknown)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ("yes", {}, "the column 'native' has 1 value, 'yes'; name a column with 2 to 12"),
        (None, {}, "a row has no native (rows 1, "),
        (
            "trial",
            {},
            "has several values of 'native', and so do some pairs; give each participant",
        ),
        ("participant", {}, "the column 'native' has "),
        ("native", {"inference": "signed-rank"}, "condition native cannot be combined"),
        (
            "native",
            {"condition": "nativ"},
            "the condition 'nativ' is not a column of the choices, which have 'participant', ",
        ),
    ],
)
def test_invalid_condition_columns_are_rejected(by_native, values, options, message):
    choices, scores = by_native
    numbers = choices.assign(trial=range(len(choices)))
    choices = choices.assign(native=numbers.get(values, values))
    with pytest.raises(InputError) as error:
        evaluate(choices, scores, **{"condition": "native", **options})
    assert message in str(error.value)


def test_factors_of_pairs_are_compared_within_participants(by_native):
    choices, scores = by_native
    number = choices["sentence_1"].str.removeprefix("first ").astype(int)
    choices["length"] = np.where(number % 2, "long", "short")
    choices["tense"] = np.where(number % 3, "past", "present")
    filler = {"sentence_1": "first 0 0", "sentence_2": "second 0 0", "condition": "filler"}
    shown = choices.iloc[[0]].assign(**filler, length=None, tense="")
    scores = pd.concat([scores, scores.head(2).assign(sentence=["first 0 0", "second 0 0"])])
    choices = pd.concat([choices, shown], ignore_index=True)
    result = evaluate(choices, scores, condition=("length", "tense"), analyses=ALL)
    lengths, tenses = ("short", "long"), ("present", "past")
    names = ["all", *(f"all, length {x}" for x in lengths), *(f"all, tense {x}" for x in tenses)]
    names += [f"all, length {x}, tense {y}" for x in lengths for y in tenses]
    assert list(dict.fromkeys(result.models["analysis"])) == names
    for length, tense in itertools.product(lengths, tenses):
        here = choices[(choices["length"] == length) & (choices["tense"] == tense)]
        alone = evaluate(here, scores, analyses=ALL).models
        rows = result.models.query(f"analysis == 'all, length {length}, tense {tense}'")
        np.testing.assert_array_equal(rows["value"], alone["value"])
        np.testing.assert_array_equal(rows["ci_low"], alone["ci_low"])
    table = result.conditions
    assert set(table["factor"]) == {"length", "tense"}
    value = result.models.set_index(["analysis", "measure", "model"])["value"]
    n = choices["participant"].nunique()
    for row in table.itertuples():
        lead = [
            value[f"all, {row.factor} {level}", row.measure, row.model_1]
            - (value[f"all, {row.factor} {level}", row.measure, row.model_2] if row.model_2 else 0)
            for level in (row.level_1, row.level_2)
        ]
        assert row.difference == pytest.approx(lead[0] - lead[1])
        assert (row.n_participants_1, row.n_participants_2) == (n, n)
    # By conditions of people and by factors of pairs at once.
    both = evaluate(choices, scores, condition=("native", "length"), analyses=ALL)
    assert "all, native no, length long" in set(both.models["analysis"])
    sizes = both.conditions.groupby("factor")["n_participants_1"].first()
    assert sizes["native"] == sizes["length"] / 2
    # Conditions that are the levels themselves, called otherwise, are not analysed twice.
    named = choices.assign(condition=choices["length"].str.cat(choices["tense"]).fillna("filler"))
    models = evaluate(named, scores, condition=("length", "tense")).models
    assert "shortpast" in set(models["analysis"])
    assert "all, length short, tense past" not in set(models["analysis"])


def test_pseudo_items_equal_an_extended_sample() -> None:
    rng = np.random.default_rng(9)
    differences = np.where(rng.random(200) < 0.1, -rng.random(200), 0.0)
    gap = MeanEstimate(differences.mean(), differences.std(ddof=1) / np.sqrt(200), 40.0)
    adjusted = add_pseudo_items(gap, 200, 0.5)
    extended = np.append(differences, [0.5, -0.5])
    assert adjusted.value == pytest.approx(extended.mean())
    assert adjusted.stderr == pytest.approx(extended.std(ddof=1) / np.sqrt(202), rel=0.01)
    assert adjusted.df == 40.0


def test_ceiling_test_error_rate_with_many_participants() -> None:
    """The model predicts the average preference plus noise, so it differs on few items."""
    n, k = 100, 200
    design = CrossedDesign(np.repeat(np.arange(n), k), np.tile(np.arange(k), n))
    rng = np.random.default_rng(10)
    gaps = []
    for _ in range(400):
        preference = 1.5 * rng.normal(size=k)
        votes = np.sign(preference + 1.2 * rng.normal(size=(n, k)))
        model = np.sign(preference + 0.15 * rng.normal(size=k))
        others = np.sign(votes.sum(axis=0) - votes)
        gaps.append(design.estimate(((votes * model - votes * others) / 2).ravel()))
    differences = [gap.value for gap in gaps]
    assert abs(np.mean(differences)) < 2 * np.std(differences) / np.sqrt(400)
    assert np.mean([gap.p_value() < 0.05 for gap in gaps]) > 0.065
    assert np.mean([add_pseudo_items(gap, k, 0.5).p_value() < 0.05 for gap in gaps]) < 0.05


def test_ceiling_test_uses_pseudo_items(make_study) -> None:
    """The interval is centred at the mean over 16 items and two pseudo-items of -1/2 and 1/2."""
    n, k = 12, 16
    choices, scores = make_study(n_people=n, n_pairs=k, noise=2.0)
    result = evaluate(choices, scores, measures=("accuracy",), analyses=(Analysis("all"),))
    data = result.data
    votes = np.zeros((n, k))
    votes[data.participant, data.pair] = np.sign(data.rating)
    others = np.sign(votes.sum(axis=0) - votes)
    design = CrossedDesign(np.repeat(np.arange(n), k), np.tile(np.arange(k), n))
    for name, row in result.models.set_index("model").iterrows():
        model = np.sign(data.log_ratio[:, data.models.index(name)])
        gap = design.estimate(((votes * model - votes * others) / 2).ravel())
        mean = gap.value * k / (k + 2)
        stderr = np.sqrt((k * gap.stderr) ** 2 + 0.5) / (k + 2)
        margin = t.ppf(0.975, gap.df) * stderr
        expected = [mean - margin, mean + margin, 2 * t.sf(abs(mean) / stderr, gap.df)]
        assert row[["gap_ci_low", "gap_ci_high", "p_ceiling"]].tolist() == pytest.approx(expected)
