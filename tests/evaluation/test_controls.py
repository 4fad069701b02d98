"""What trials say without a test: controls, and agreement of people and models.

Tests `contstim.evaluation.controls` and `contstim.evaluation.agreement`.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize

from contstim.errors import InputError
from contstim.evaluation import (
    align_choices,
    benjamini_hochberg,
    check_choices,
    evaluate,
    score_table,
)
from contstim.evaluation.controls import (
    feature_control,
    normalisation_control,
    normalisation_predictors,
    token_counts,
)
from contstim.evaluation.trials import TrialData


@pytest.fixture
def data_and_tables(make_study):
    study, scores = make_study(n_people=10, n_pairs=14)
    choices = align_choices(check_choices(study))
    sentences = [*choices["sentence_1"], *choices["sentence_2"]]
    wide = score_table(scores, sentences)
    rng = np.random.default_rng(2)
    tokens = pd.DataFrame(
        rng.integers(5, 12, size=wide.shape).astype(float), index=wide.index, columns=wide.columns
    )
    return TrialData.of(choices, wide), wide, tokens


def test_penalty_by_hand():
    values = normalisation_predictors(np.array(-36.0), np.array(7.0))
    np.testing.assert_allclose(values, [-36, -36 / 7, -36 / 2**0.8])


def test_normalisation_is_a_logistic_regression_leaving_each_pair_out(data_and_tables):
    data, wide, tokens = data_and_tables
    table = normalisation_control(data, wide, tokens)
    model = data.models[0]
    predictors = [
        normalisation_predictors(
            wide[model].loc[data.pairs[s]].to_numpy(), tokens[model].loc[data.pairs[s]].to_numpy()
        )
        for s in ("sentence_1", "sentence_2")
    ]
    x = (predictors[1] - predictors[0])[data.pair]
    x /= np.sqrt(((predictors[1] - predictors[0]) ** 2).mean(axis=0))
    y = (data.rating > 0).astype(float)

    def fit(rows):
        def loss(beta):
            eta = x[rows] @ beta
            return np.logaddexp(0, eta).sum() - (y[rows] * eta).sum()

        return minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x

    right = 0.0
    for pair in range(data.n_pairs):
        out = data.pair == pair
        eta = x[out] @ fit(~out)
        right += ((eta > 0) == (y[out] > 0)).sum()
    row = table.iloc[0]
    assert row["accuracy_normalised"] == pytest.approx(right / len(y))
    np.testing.assert_allclose(
        row[["weight_lp", "weight_mean_lp", "weight_pen_lp"]].astype(float), fit(y > -1), rtol=1e-3
    )
    ratio = data.log_ratio[data.pair, 0]
    assert row["accuracy"] == pytest.approx(((ratio > 0) == (y > 0)).mean())


def test_normalisation_edge_cases(data_and_tables):
    data, wide, tokens = data_and_tables
    one = normalisation_control(data, wide, tokens * 0 + 8)
    assert one["gain"].abs().max() < 1  # three equal predictors still have a solution
    impossible = wide.copy()
    impossible.iloc[0] = -np.inf
    assert normalisation_control(data, impossible, tokens)["accuracy_normalised"].notna().all()
    with pytest.raises(InputError, match="a count must be positive"):
        normalisation_control(data, wide, tokens * 0)
    with pytest.raises(InputError, match="no token counts"):
        normalisation_control(data, wide, tokens.drop(columns="a"))


def test_perfectly_told_apart_choices_are_said_to_be_so(make_study):
    study, scores = make_study(n_people=2, n_pairs=40)
    model = scores.set_index("sentence")["a"]
    ratio = model.loc[study["sentence_2"]].to_numpy() - model.loc[study["sentence_1"]].to_numpy()
    study["rating"] = np.where(ratio > 0, 2.5, -2.5)
    choices = align_choices(check_choices(study))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    tokens = wide * 0 + np.resize([7.0, 9.0, 8.0], len(wide))[:, None]
    table = normalisation_control(TrialData.of(choices, wide), wide, tokens).set_index("model")
    assert "told apart perfectly" in table.loc["a", "note"]
    assert table.loc["b", "note"] == ""


def test_token_counts_by_loop(data_and_tables):
    data, wide, tokens = data_and_tables
    table = token_counts(data, tokens).set_index("model")
    for model in data.models:
        tally = {"more": 0, "equal": 0, "fewer": 0}
        for pair in data.pairs.itertuples():
            if model not in (pair.model_1, pair.model_2):
                continue
            first, second = pair.sentence_1, pair.sentence_2
            if wide.loc[first, model] > wide.loc[second, model]:
                first, second = second, first
            d = tokens.loc[second, model] - tokens.loc[first, model]
            tally["more" if d > 0 else "fewer" if d < 0 else "equal"] += 1
        assert table.loc[model, ["more", "equal", "fewer"]].to_dict() == tally
        expected = stats.binomtest(tally["more"], tally["more"] + tally["fewer"]).pvalue
        assert table.loc[model, "p"] == pytest.approx(expected)


def test_published_token_counts():
    # Golan et al. (2023), supplementary table of five models; its p are adjusted ones.
    counts = [(24, 3), (6, 16), (12, 7), (4, 28), (2, 22)]
    p = [stats.binomtest(more, more + fewer).pvalue for more, fewer in counts]
    published = [0.0001, 0.0656, 0.3593, 0.0001, 0.0001]
    np.testing.assert_allclose(benjamini_hochberg(p), published, atol=6e-5)


def test_feature_control_by_loop(data_and_tables):
    data, wide, _ = data_and_tables
    rng = np.random.default_rng(5)
    features = pd.DataFrame({"f": rng.normal(size=len(wide))}, index=wide.index)
    row = feature_control(data, features).iloc[1]
    own, theirs = [], []
    for p, pair in enumerate(data.pairs.itertuples()):
        if "b" not in (pair.model_1, pair.model_2):
            continue
        votes = np.sign(data.rating[data.pair == p]).sum()
        if votes == 0:
            continue
        step = features.loc[pair.sentence_2, "f"] - features.loc[pair.sentence_1, "f"]
        own.append(np.sign(data.log_ratio[p, 1]) * step)
        theirs.append(np.sign(votes) * step)
    assert (row["model"], row["n_trials"]) == ("b", len(own))
    test = stats.ttest_rel(own, theirs)
    assert (row["t"], row["p"]) == pytest.approx((test.statistic, test.pvalue))
    with pytest.raises(InputError, match="28 sentences have no features"):
        feature_control(data, features.iloc[:0])
    with pytest.raises(InputError, match="has two rows of features; keep one$"):
        feature_control(data, pd.concat([features, features]))
    with pytest.raises(InputError, match="^the feature 'f' is not of numbers; leave it out$"):
        feature_control(data, features.astype(str))


def test_a_model_that_prefers_what_people_do_differs_by_nothing(data_and_tables):
    data, wide, _ = data_and_tables
    votes = np.bincount(data.pair, weights=np.sign(data.rating), minlength=data.n_pairs)
    alike = replace(
        data, log_ratio=np.where(votes == 0, 1.0, votes)[:, None] * np.ones(len(data.models))
    )
    features = pd.DataFrame({"f": np.arange(len(wide)) ** 2.0}, index=wide.index)
    for _, row in feature_control(alike, features).iterrows():
        assert row["model_difference"] == row["people_difference"] != 0
        assert row["difference"] == 0
        assert row["model_half_width"] == row["people_half_width"] > 0
        assert np.isnan(row["p"])
        assert row["note"] == "fewer than two pairs, or no variation of the difference"


def test_choices_that_all_tie_and_no_feature_leave_nothing_to_control(make_study, tmp_path):
    study, scores = make_study(n_people=3)
    long = scores.melt("sentence", var_name="model", value_name="log_prob").assign(n_tokens=5)
    features = pd.DataFrame(index=long["sentence"].unique())
    result = evaluate(study.assign(rating=0.0), long, features=features)
    assert result.controls.normalisation.empty
    assert result.controls.features.empty
    result.report(tmp_path)
    assert (tmp_path / "report.html").exists()
