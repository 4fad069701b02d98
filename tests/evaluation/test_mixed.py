import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, MissingExtraError
from contstim.evaluation.importers import read_choices
from contstim.evaluation.mixed import fit_bradley_terry, mixed_table, write_mixed_models
from contstim.evaluation.trials import TrialData


def choices(abilities, n_people=16, n_pairs=30, item_sd=1.0, person_sd=0.4, seed=0):
    rng = np.random.default_rng(seed)
    models = list(abilities)
    quirk = person_sd * rng.normal(size=(n_people, len(models)))
    rows = []
    for a in range(len(models)):
        for b in range(a + 1, len(models)):
            for p in range(n_pairs):
                item = item_sd * rng.normal()
                for i in range(n_people):
                    eta = abilities[models[b]] - abilities[models[a]] + item
                    eta += quirk[i, b] - quirk[i, a]
                    second = rng.random() < 1 / (1 + np.exp(-eta))
                    rows.append(
                        {
                            "participant": f"s{i}",
                            "sentence_1": f"A {a} {b} {p}",
                            "sentence_2": f"B {a} {b} {p}",
                            "model_1": models[a],
                            "model_2": models[b],
                            "rating": 2.5 if second else -2.5,
                        }
                    )
    return pd.DataFrame(rows)


def test_abilities_and_spreads_are_recovered():
    pytest.importorskip("statsmodels", reason="an optional package, of the extra 'mixed'")
    truth = {"x": -1.0, "y": 0.2, "z": 0.8}
    fit = fit_bradley_terry(choices(truth))
    table = fit.abilities.set_index("model")
    assert table["ability"].sum() == pytest.approx(0, abs=1e-9)
    for model, value in truth.items():
        row = table.loc[model]
        assert abs(row["ability"] - value) < 3 * row["sd"]
        # Thirty pairs of spread 1 against each of two models leave about 0.1 of doubt.
        assert 0.05 < row["sd"] < 0.3
        assert row["n_choices"] == 2 * 16 * 30
    assert 0.7 < fit.item_sd < 1.4
    assert 0.15 < fit.participant_sd < 0.8
    pair = fit.comparisons.set_index(["model_1", "model_2"]).loc[("x", "z")]
    assert pair["difference"] == pytest.approx(
        table.loc["x", "ability"] - table.loc["z", "ability"]
    )
    assert pair["win"] == pytest.approx(1 / (1 + np.exp(-pair["difference"])))
    assert pair["high"] < 0


def test_models_that_never_meet_are_not_compared():
    pytest.importorskip("statsmodels", reason="an optional package, of the extra 'mixed'")
    first = choices({"x": 0.0, "y": 1.0}, 6, 10)
    second = choices({"u": 1.0, "v": 0.0}, 6, 10, seed=1)
    second[["sentence_1", "sentence_2"]] += " u"
    fit = fit_bradley_terry(pd.concat([first, second]))
    assert fit.abilities.groupby("component")["model"].apply(list).tolist() == [
        ["u", "v"],
        ["x", "y"],
    ]
    np.testing.assert_allclose(fit.abilities.groupby("component")["ability"].sum(), 0, atol=1e-9)
    assert fit.comparisons[["model_1", "model_2"]].to_numpy().tolist() == [["u", "v"], ["x", "y"]]
    assert fit.comparisons["difference"].iloc[0] > 0 > fit.comparisons["difference"].iloc[1]


def test_choices_of_one_side_alone_are_refused():
    pytest.importorskip("statsmodels", reason="an optional package, of the extra 'mixed'")
    one = choices({"x": 0.0, "y": 1.0}, 3, 4).assign(sentence_1="a", rating=2.5)
    one["sentence_2"] = [f"b {trial}" for trial in range(len(one))]
    with pytest.raises(InputError) as caught:
        fit_bradley_terry(one)
    assert str(caught.value) == (
        "every choice is for the same side of its pair; the mixed model needs both"
    )


def test_sides_do_not_matter():
    pytest.importorskip("statsmodels", reason="an optional package, of the extra 'mixed'")
    table = choices({"x": 0.0, "y": 1.0}, 6, 10)
    turned = table.rename(
        columns={
            "sentence_1": "sentence_2",
            "sentence_2": "sentence_1",
            "model_1": "model_2",
            "model_2": "model_1",
        }
    ).assign(rating=-table["rating"])
    one, two = fit_bradley_terry(table), fit_bradley_terry(turned)
    pd.testing.assert_frame_equal(one.abilities, two.abilities)


def test_without_statsmodels_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.genmod.bayes_mixed_glm", None)
    with pytest.raises(MissingExtraError, match=r"contstim\[mixed\]"):
        fit_bradley_terry(choices({"x": 0.0, "y": 1.0}, 2, 2))


def test_choices_without_targets(monkeypatch):
    library = SimpleNamespace(BinomialBayesMixedGLM=None)  # loaded before choices are looked at
    monkeypatch.setitem(sys.modules, "statsmodels.genmod.bayes_mixed_glm", library)
    table = choices({"x": 0.0, "y": 1.0}, 2, 2).drop(columns=["model_1", "model_2"])
    with pytest.raises(InputError, match="pits two models"):
        fit_bradley_terry(table)


def test_items_are_those_of_the_analysis(make_study, tmp_path):
    study, scores = make_study(n_people=6)
    wide = scores.set_index("sentence")
    numbers = {
        "none": (None, 20),
        # Pairs of no item are items of their own.
        "some": (study["trial"].where(study["trial"] > 5).floordiv(3), 5 + 5),
    }
    for name, (item, n_items) in numbers.items():
        human = read_choices(study.assign(item=item))
        assert TrialData.of(human.choices).n_items == n_items
        table = mixed_table(human, wide)
        assert table["item"].notna().all()
        assert table["item"].nunique() == n_items
        assert table.groupby("pair")["item"].nunique().eq(1).all()
        assert table.groupby("item")["pair"].nunique().max() == (1 if name == "none" else 3)
        write_mixed_models(human, wide, tmp_path / name)
        script = (tmp_path / name / "mixed_glmer.R").read_text("utf-8")
        assert ("+ (1 | pair)" in script) == (name == "some")
