"""Test simulated choices of participants."""

import numpy as np
import pandas as pd
import pytest

from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import StudySimulator
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.exclusion import ExclusionRules, exclude
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model

TWELVE = (
    *("dog", "man", "king", "house", "road", "garden"),
    *("letter", "child", "horse", "river", "window", "door"),
)
TEXTS = [t.format(word) for t in ("The {} was here.", "Here were the {}.") for word in TWELVE]


def design_and_scores(n_pairs=60, n_groups=1, seed=0, models=("a", "b", "c")):
    rng = np.random.default_rng(seed)
    rows, scores = [], {}
    for g in range(n_groups):
        for p in range(n_pairs):
            one, two = f"one {g} {p}", f"two {g} {p}"
            rows.append({"group": f"g{g}", "trial": p, "sentence_1": one, "sentence_2": two})
            scores[one] = rng.normal(-40, 5, size=len(models))
            scores[two] = rng.normal(-40, 5, size=len(models))
    wide = pd.DataFrame(scores, index=list(models)).T.rename_axis("sentence").reset_index()
    return pd.DataFrame(rows), wide


@pytest.mark.parametrize("n_groups", [1, 4])
def test_followed_model_reaches_the_noise_ceiling(n_groups):
    design, scores = design_and_scores(n_groups=n_groups)
    simulation = Simulation.from_weights("b", noise=0.7, lapse=0.02)
    choices = simulate_choices(design, scores, simulation, 20, seed=1)
    result = evaluate(choices, scores)
    for _, block in result.models.query("analysis == 'all'").groupby("measure"):
        rows = block.set_index("model")
        assert rows["value"].idxmax() == "b"
        best = rows.loc["b"]
        assert best["ceiling_lower"] <= best["value"] + 0.01
        assert best["value"] <= best["ceiling_upper"] + 0.01
        assert (rows.drop("b")["value"] < best["ceiling_lower"] - 0.2).all()


@pytest.mark.parametrize("natural", [0.0, -200.0])
def test_catch_trials_expect_the_natural_sentence(natural):
    design, scores = design_and_scores(n_pairs=4)
    design["condition"] = ["a", "catch", "catch", "a"]
    shown = design.loc[design["condition"] == "catch", "sentence_1"]
    scores.loc[scores["sentence"].isin(shown), "b"] = natural
    choices = simulate_choices(
        design, scores, Simulation.from_weights("b", noise=0, lapse=0), 2, seed=1
    )
    catch = choices[choices["condition"] == "catch"]
    right = catch["sentence_1"].where(catch["expected"] == 1, catch["sentence_2"])
    assert set(right) == set(shown)
    assert choices.loc[choices["condition"] == "a", "expected"].isna().all()
    rules = ExclusionRules(min_catch_correct=1.0)
    if natural == 0:
        assert len(exclude(choices, rules)[0]) == len(choices)
    else:
        with pytest.raises(InputError, match="leave no choices"):
            exclude(choices, rules)


def test_similarity_increases_with_the_mixture_weight():
    design, scores = design_and_scores(n_pairs=150)
    values = []
    for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
        simulation = Simulation.from_weights({"a": weight, "b": 1 - weight}, noise=0.5)
        choices = simulate_choices(design, scores, simulation, 10, seed=2)
        models = evaluate(choices, scores).models
        values.append(
            models.query("measure == 'signed_rank_cosine' and model == 'a'")["value"].iloc[0]
        )
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.5


def test_noiseless_answers_equal_model_preferences():
    design, scores = design_and_scores(n_pairs=200)
    still = Simulation.from_weights("a", noise=0, lapse=0, confident=0.5, very_confident=1.0)
    choices = simulate_choices(design, scores, still, 1)
    lp = scores.set_index("sentence")["a"]
    ratio = lp.loc[choices["sentence_2"]].to_numpy() - lp.loc[choices["sentence_1"]].to_numpy()
    size = np.abs(ratio) / np.sqrt((ratio**2).mean())
    expected = np.sign(ratio) * np.select([size < 0.5, size < 1.0], [0.5, 1.5], 2.5)
    np.testing.assert_array_equal(choices["rating"], expected)


def test_participants_of_the_design_are_kept():
    design, scores = design_and_scores(n_pairs=6)
    own = pd.concat([design.assign(participant="x"), design.iloc[:2].assign(participant="y")])
    choices = simulate_choices(own, scores, Simulation.from_weights("a"))
    assert choices.groupby("participant").size().to_dict() == {"x": 6, "y": 2}
    again = simulate_choices(own, scores, Simulation.from_weights("a"))
    pd.testing.assert_frame_equal(choices, again)
    none = simulate_choices(design, None, Simulation(), 2)
    assert len(none) == 12


def test_simulation_accepts_the_models_of_evaluate(tmp_path):
    design, _ = design_and_scores(n_pairs=12)
    design["sentence_1"] = [f"The {word} was here." for word in TWELVE]
    design["sentence_2"] = [f"The {word} were here." for word in TWELVE]
    catch = {"sentence_1": "He went home.", "sentence_2": "Home he went.", "condition": "catch"}
    design = pd.concat([design.assign(condition="pairs"), pd.DataFrame([catch])])
    design["group"] = "g"
    texts = [*design["sentence_1"], *design["sentence_2"]]
    file = tmp_path / "scores.csv"
    mine = -20.0 - np.random.default_rng(0).random(len(texts))
    # Of catch trials the table holds nothing.
    rows = {t: m for t, m in zip(texts, mine, strict=True) if "home" not in t.lower()}
    pd.Series(rows, name="mine").rename_axis("sentence").to_csv(file)
    table = f"Mine=table:{file}"
    bigram = load_model("contstim:bigram")
    people = Simulation.from_weights({"Mine": 1, "contstim:bigram": 2})
    listed = simulate_choices(design, [table, "contstim:bigram"], people, 3)
    named = {"Mine": pd.Series(rows), "contstim:bigram": bigram}
    for same in ([table, bigram], {"Mine": f"table:{file}", "contstim:bigram": bigram}, named):
        pd.testing.assert_frame_equal(listed, simulate_choices(design, same, people, 3))
    studies = [
        StudySimulator.from_trials(design, given, ["Mine", "contstim:bigram"], people)
        for given in ([table, "contstim:bigram"], named)
    ]
    np.testing.assert_array_equal(studies[0].latent, studies[1].latent)
    result = evaluate(listed, [table, "contstim:bigram"])
    assert set(result.models["model"]) == {"Mine", "contstim:bigram"}


def test_single_and_unregistered_models_are_accepted():
    design, _ = design_and_scores(n_pairs=12)
    design["sentence_1"] = [f"The {word} was here." for word in TWELVE]
    design["sentence_2"] = [f"Here were the {word}." for word in TWELVE]
    spec = "contstim:bigram?reduction=mean"
    model = load_model(spec)
    people = Simulation.from_weights(spec, noise=0, lapse=0)
    listed = simulate_choices(design, [spec], people, 3)
    for alone in (spec, model):
        pd.testing.assert_frame_equal(simulate_choices(design, alone, people, 3), listed)
        table = evaluate(listed, alone).models
        assert set(table["model"]) == {spec}

    class Unregistered(SentenceModel):
        event, fingerprint, kind = model.event, "0", model.kind

        def in_vocabulary(self, words):
            return model.in_vocabulary(words)

        def score_tokens(self, sentences):
            return model.score_tokens(sentences)

        def score_with_counts(self, sentences):
            return model.score_with_counts(sentences)

    mine = Unregistered(ModelSpec.parse("mine:model"))
    people = Simulation.from_weights("mine:model", noise=0, lapse=0)
    choices = simulate_choices(design, mine, people, 3)
    assert choices["rating"].tolist() == listed["rating"].tolist()
    accuracy = evaluate(choices, {"mine": mine, "other": pd.Series(-model.score(TEXTS), TEXTS)})
    rows = accuracy.models.query("analysis == 'all' and measure == 'accuracy'").set_index("model")
    assert rows["value"].to_dict() == {"mine": 1.0, "other": 0.0}


def test_item_effects_are_shared_and_swap_with_sentences():
    design, scores = design_and_scores(n_pairs=400)
    half = len(design) // 2
    turned = design.rename(columns={"sentence_1": "sentence_2", "sentence_2": "sentence_1"})
    rows = [design.assign(participant=f"p{k}") for k in range(6)]
    rows += [turned.assign(participant=f"q{k}") for k in range(6)]
    pairs = pd.concat(rows).assign(item=lambda t: t["trial"] // 2)
    simulation = Simulation.from_weights("a", noise=0.0, lapse=0.0, item_sd=100.0, shared=0.5)
    choices = simulate_choices(pairs, scores, simulation, seed=5)
    by_pair = choices.assign(
        key=choices[["sentence_1", "sentence_2"]].min(axis=1),
        sign=np.where(choices["sentence_1"].str.startswith("one"), 1, -1) * choices["rating"],
    ).groupby("key")["sign"]
    assert by_pair.nunique().eq(1).all()  # everybody follows the pair's effect, either way round
    first = by_pair.first()
    signs = np.sign([first[f"one 0 {k}"] for k in range(len(design))]).reshape(half, 2)
    # Of two normal numbers with correlation 1/2 the signs are alike in 2/3.
    assert (signs[:, 0] == signs[:, 1]).mean() == pytest.approx(2 / 3, abs=0.1)


def test_slope_sd_varies_between_participants():
    design, scores = design_and_scores(n_pairs=100)
    spread = []
    for slope_sd in (0.0, 1.5):
        simulation = Simulation.from_weights("a", noise=1.0, slope_sd=slope_sd)
        choices = simulate_choices(design, scores, simulation, 60, seed=6)
        spread.append(choices["rating"].abs().groupby(choices["participant"]).mean().std())
    assert spread[1] > 3 * spread[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, s: Simulation(noise=-1), "noise is -1; give at least 0"),
        (lambda d, s: Simulation(noise=1e308), "noise is 1e+308; give at most 1e+06"),
        (lambda d, s: Simulation(lapse=2), "lapse is 2; give at most 1"),
        (lambda d, s: Simulation(confident=3), "give ascending thresholds"),
        (
            lambda d, s: simulate_choices(d, s, Simulation.from_weights("z")),
            "names 'z', which has no",
        ),
        (
            lambda d, s: simulate_choices(d, s, Simulation.from_weights("a"), 0),
            "at least one participant",
        ),
        (lambda d, s: simulate_choices(d[["trial"]], s, Simulation()), "column 'sentence_1'"),
        (
            lambda d, s: simulate_choices(d[:0], s, Simulation()),
            "the design has no rows; give trials or pairs of sentences",
        ),
        (
            lambda d, s: simulate_choices(d.assign(sentence_2=None), s, Simulation()),
            "the design lacks a sentence (rows 1, 2, 3, 4 and 5); fill it in",
        ),
        (lambda d, s: Simulation(shared=2), "shared is 2; give at most 1"),
        (
            lambda d, s: simulate_choices(d, s.assign(a=0.0), Simulation.from_weights("a")),
            "prefers no",
        ),
        (
            lambda d, s: simulate_choices(
                d, s.assign(b=-s["a"]), Simulation.from_weights({"a": 1, "b": 1})
            ),
            "cancel out",
        ),
    ],
)
def test_invalid_simulations_are_rejected(call, message):
    with pytest.raises(InputError) as caught:
        call(*design_and_scores(n_pairs=5))
    assert message in str(caught.value)


def test_lapses_are_uniform_over_ratings():
    design, scores = design_and_scores(n_pairs=200)
    lapsed = simulate_choices(
        design, scores, Simulation.from_weights("a", noise=0, lapse=1), 60, seed=4
    )
    counts = lapsed["rating"].value_counts(normalize=True)
    assert set(counts.index) == {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}
    np.testing.assert_allclose(counts, 1 / 6, atol=0.015)
