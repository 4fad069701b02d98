"""Recovery of the right model: closed forms, what cannot be told, intervals, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from contstim.cli import main
from contstim.design.recovery import Recovery, recovery
from contstim.errors import InputError
from contstim.response_model import log_bayes_factors
from contstim.selection import People

PLAIN = People(slope=1.0, slope_sd=0.0, side_sd=0.0, item_sd=0.0, lapse=0.0)


def scores(n=400, models=3, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) + rng.normal(size=(n, models))
    return pd.DataFrame(
        values, columns=[f"m{k}" for k in range(models)], index=[f"s{i}" for i in range(n)]
    )


def named(chances, n, other):
    """Return how often n answers of probability `chances` name their model against another."""
    hits = np.arange(n + 1)
    ratio = hits * np.log(chances / other) + (n - hits) * np.log((1 - chances) / (1 - other))
    weight = (ratio > 1e-9) + 0.5 * (np.abs(ratio) < 1e-9)
    return float(binom.pmf(hits, n, chances) @ weight)


def test_two_models_and_one_pair_are_a_binomial():
    frame = pd.DataFrame({"a": [0.0, 2, 1, -1], "b": [0.0, 1, 2, -1]}, index=list("wxyz"))
    pair = pd.DataFrame({"sentence_1": ["w"], "sentence_2": ["x"]})
    found = recovery(
        {"one": pair}, frame, PLAIN, n_participants=12, trials_each=3, n_studies=20_000
    )
    p, q = (1 / (1 + np.exp(-frame.loc["x"] / frame.std(ddof=0)))).tolist()
    for row in found.curve.itertuples():
        expected = (named(p, row.n_trials, q) + named(q, row.n_trials, p)) / 2
        assert row.recovery == pytest.approx(expected, abs=0.012)
        assert row.low < row.recovery < row.high
    assert found.curve["n_trials"].tolist() == list(range(3, 39, 3))
    (model_pair,) = found.model_pairs.itertuples()
    assert model_pair.separated == 0
    assert model_pair.log_bayes_factor == pytest.approx(
        float(log_bayes_factors(np.array([p, q]))[0]), abs=1e-6
    )


@pytest.mark.parametrize("decision", ["log-score", "accuracy"])
def test_fresh_people_and_pairs_answer_independently(decision):
    """With one trial a person and a pair, effects only make answers less certain."""
    people = People(slope=1.2, slope_sd=0.6, side_sd=0.5, item_sd=1.5, lapse=0.05)
    n = 25
    half = np.arange(1.0, n + 1)
    frame = pd.DataFrame({"a": np.r_[0 * half, half * 0 + 1], "b": np.r_[half * 0 + 1, 0 * half]})
    frame.index = [f"s{k}" for k in range(2 * n)]
    pairs = pd.DataFrame({"sentence_1": frame.index[:n], "sentence_2": frame.index[n:]})
    found = recovery(
        {"all": pairs},
        frame,
        people,
        n_participants=n,
        trials_each=1,
        n_studies=8000,
        decision=decision,
    )
    p = float(people.probabilities(np.array(2.0)))
    for row in found.curve.itertuples():
        assert row.recovery == pytest.approx(named(p, row.n_trials, 1 - p), abs=0.02)
    assert found.model_pairs["separated"].tolist() == [1.0]


def test_effects_that_are_shared_cost_trials():
    """The same answers from few people on few pairs tell less than from many."""
    frame = scores()
    pairs = pd.DataFrame({"sentence_1": frame.index[:200], "sentence_2": frame.index[200:]})
    people = People(slope_sd=0.8, item_sd=2.0)
    last = {}
    for name, design, each in (
        ("fresh", pairs, 1),
        ("few pairs", pairs[:5], 1),
        ("few people", pairs, 40),
    ):
        found = recovery(
            {name: design},
            frame,
            people,
            n_participants=200 // each,
            trials_each=each,
            n_studies=1200,
        )
        last[name] = found.curve["recovery"].iloc[-1]
    assert last["fresh"] > last["few pairs"] + 0.1
    assert last["fresh"] >= last["few people"] - 0.02


def test_models_of_one_preference_share_their_studies():
    frame = scores()
    frame["m2"] = 2 * frame["m0"] + 1
    strong = People(slope=20.0, slope_sd=0.0, item_sd=0.0)
    found = recovery(
        {"random": 50}, frame, strong, n_participants=20, trials_each=10, n_studies=600
    )
    assert found.curve["recovery"].iloc[-1] == pytest.approx(2 / 3, abs=1e-9)
    assert found.needed["n_trials"].isna().all()
    apart = found.model_pairs.set_index(["model_1", "model_2"])["log_bayes_factor"]
    assert apart["m0", "m2"] == pytest.approx(0, abs=1e-12)


def test_a_pair_is_the_same_whichever_sentence_comes_first():
    pairs = pd.DataFrame({"sentence_1": ["s1", "s5"], "sentence_2": ["s2", "s4"]})
    turned = pairs.rename(columns={"sentence_1": "sentence_2", "sentence_2": "sentence_1"})
    sizes = {"n_participants": 4, "trials_each": 3, "n_studies": 60}
    once, twice = (
        recovery({"mine": table}, scores(), **sizes).curve
        for table in (pairs, pd.concat([pairs, turned]))
    )
    pd.testing.assert_frame_equal(once, twice)


def test_catch_trials_and_fillers_are_no_pairs_of_a_design():
    pairs = pd.DataFrame({"sentence_1": ["s1", "s5"], "sentence_2": ["s2", "s4"]})
    others = pd.DataFrame({"sentence_1": ["s6", "s8"], "sentence_2": ["s7", "no scores"]})
    others["condition"] = ["filler", "catch"]
    sizes = {"n_participants": 4, "trials_each": 3, "n_studies": 60}
    once, with_others = (
        recovery({"mine": table}, scores(), **sizes).model_pairs
        for table in (pairs, pd.concat([pairs.assign(condition="main"), others]))
    )
    pd.testing.assert_frame_equal(once, with_others)


def test_what_is_needed_is_where_the_curve_stays_above():
    frame = scores(models=4)
    found = recovery(
        {"a": 60, "b": 60}, frame, n_participants=60, trials_each=10, n_studies=800, target=0.7
    )
    for need in found.needed.itertuples():
        curve = found.curve[found.curve["design"] == need.design].set_index("n_trials")
        assert (curve.loc[need.n_trials :, "recovery"] >= 0.7).all()
        assert curve.loc[need.n_trials - 10, "recovery"] < 0.7
        assert need.low <= need.n_trials <= need.high
        assert need.n_participants * 10 == need.n_trials
    again = recovery({"a": 60}, frame, n_participants=60, trials_each=10, n_studies=800, target=0.7)
    first = found.curve[found.curve["design"] == "a"]
    pd.testing.assert_frame_equal(again.curve, first)


@pytest.mark.parametrize(
    ("design", "options", "message"),
    [
        (0, {}, "0 random pairs are asked for, 400 sentences with finite scores make 1 to 200"),
        (201, {}, "201 random pairs are asked for, 400 sentences with finite scores make 1 to 200"),
        (5, {"n_studies": 0}, "n_studies is 0; give a whole number of at least 1"),
        (5, {"target": 1.0}, "target is 1.0; give a share between 0 and 1"),
        (
            5,
            {"n_studies": 10**9},
            "1000000000 studies of 100 participants with 20 trials are more than 400000000 "
            "answers; ask for fewer",
        ),
        (
            pd.DataFrame({"sentence_1": ["s1"], "sentence_2": ["gone"]}),
            {},
            "design mine: sentence 'gone' has no finite score under every model; score it or "
            "leave its pair out",
        ),
        (
            pd.DataFrame({"sentence_1": ["s1", "s2"], "sentence_2": ["s3", "s2"]}),
            {},
            "design mine pairs 's2' with itself; leave such pairs out",
        ),
        (
            pd.DataFrame({"sentence_1": ["s1"]}),
            {},
            "design mine has no column 'sentence_2'; give pairs of sentences",
        ),
    ],
)
def test_refusals(design, options, message):
    with pytest.raises(InputError) as caught:
        recovery({"mine": design}, scores(), **options)
    assert str(caught.value) == message
    with pytest.raises(InputError) as caught:
        recovery({"mine": 5}, scores(models=1))
    assert str(caught.value) == "1 model cannot be compared with others; give two or more"
    with pytest.raises(InputError) as caught:
        recovery({}, scores())
    assert str(caught.value) == "no design is given; name one or more"
    with pytest.raises(InputError) as caught:
        recovery({"mine": 5}, pd.concat([scores(), scores()[:1]]))
    assert str(caught.value) == f"{str(scores().index[0])!r} has two rows of scores; keep one"


def test_what_is_printed_claims_no_significance_and_counts_one_participant_in_the_singular():
    needed = {"design": "set", "n_participants": 1, "n_trials": 40, "low": 40, "high": 80}
    pairs = {"design": "set", "model_1": "a", "model_2": "b", "log_bayes_factor": 0.40381}
    found = Recovery(pd.DataFrame(), pd.DataFrame([needed]), pd.DataFrame([pairs]), 0.95)
    assert str(found) == (
        "set: the right model comes out first in 95% of simulated studies from 40 trials of 1 "
        "participant on (40 to 80 by the error of simulation), significantly or not; hardest to "
        "tell apart: a and b, 0.4038 nats per answer"
    )


def test_the_command(tmp_path, capsys):
    frame = scores(models=4)
    file = tmp_path / "scores.csv"
    frame.to_csv(file, index_label="sentence")
    for name, step in (("set", 2), ("pairs", 5)):
        own = frame.index[::step]
        half = len(own) // 2
        pairs = pd.DataFrame({"sentence_1": own[:half], "sentence_2": own[half : 2 * half]})
        pairs.to_csv(tmp_path / f"{name}.csv", index=False)
    out, matrix, figure = (tmp_path / name for name in ("curve.csv", "matrix.csv", "figure.svg"))
    argv = ["design", "recovery", str(tmp_path / "set.csv"), f"other={tmp_path / 'pairs.csv'}"]
    many = [*argv, "--scores", str(file)]
    options = ["--random", "50", "--participants", "30", "--simulations", "200", "--out", str(out)]
    options += ["--model-pairs", str(matrix), "--figure", str(figure)]
    assert main([*many, *options, "--target", "0.6"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in err] == ["set", "other", "random"]
    assert all("first in 60% of simulated studies" in line for line in err)
    assert all(" nats per answer" in line for line in err)
    curve = pd.read_csv(out)
    assert curve.groupby("design").size().to_dict() == {"other": 30, "random": 30, "set": 30}
    assert len(pd.read_csv(matrix)) == 3 * 6
    assert "trials of all participants together" in figure.read_text("utf-8")
    for options, message in (
        (
            [*argv, str(tmp_path / "set.csv"), "--scores", str(file)],
            f"two designs are called 'set'; give one as NAME={tmp_path / 'set.csv'}",
        ),
        (
            [*many, "--figure", "x.gif"],
            "--figure x.gif does not end in .svg, .pdf or .png; choose one of these",
        ),
    ):
        assert main(options) == 2
        assert capsys.readouterr().err == f"contstim: {message}\n"
    one = tmp_path / "one.csv"
    frame[["m0"]].to_csv(one, index_label="sentence")
    assert main([*argv, "--scores", str(one)]) == 2
    assert capsys.readouterr().err == (
        "contstim: 1 model cannot be compared with others; give two or more\n"
    )


def test_a_pair_effect_is_not_averaged_out_by_more_people():
    """On one pair the majority is right in the end as often as the effect leaves its sign."""
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}, index=["x", "y"])
    pair = pd.DataFrame({"sentence_1": ["x"], "sentence_2": ["y"]})
    people = People(slope=1.0, slope_sd=0.0, side_sd=0.0, item_sd=3.0, lapse=0.0)
    found = recovery(
        {"one": pair}, frame, people, n_participants=801, trials_each=1, n_studies=4000
    )
    # Log-ratios are 2 standard deviations.
    assert found.curve["recovery"].iloc[-1] == pytest.approx(norm.cdf(2 / 3), abs=0.025)
