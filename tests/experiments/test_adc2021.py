"""Test the tables of the Acceptability Delta Criterion and the study of training orders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from six_pairs import PEOPLE, SIX
from tiny_models import bert, cola, tiny
from tiny_transformers import SENTENCES

from contstim.drawing import save_figure
from contstim.errors import InputError
from contstim.training.options import FitOptions

__all__ = ["bert", "cola", "tiny"]

FOLDER = Path(__file__).parents[2] / "experiments" / "adc2021"


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """Return the modules of the study's scripts."""
    names = ("tables", "orders", "ranking", "figures")
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: __import__(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


# Which pairs each meets, by number: the ADC with 0.5 and 1.
MET = {
    "trigram": ({2, 4}, {2, 4}),
    "PLL": ({1, 3, 5, 6}, {1, 2, 3, 5, 6}),
    # A delta of 0, as in pair 5, has the sign of negative ones.
    "classifier": ({1, 3, 5}, {1, 3, 5, 6}),
}


@pytest.mark.parametrize(
    ("baseline", "model", "delta", "reduced", "overlap"),
    [
        # The trigram meets 2 and 4, so 1, 3, 5 and 6 are left: the PLL meets all four.
        ("trigram", "PLL", 0.5, 4 / 4, 0 / 6),
        ("trigram", "classifier", 0.5, 3 / 4, 0 / 6),
        ("trigram", "PLL", 1.0, 4 / 4, 1 / 6),
        ("trigram", "classifier", 1.0, 4 / 4, 0 / 6),
        # Without the classifier's 1, 3 and 5: the PLL meets 6 of 2, 4 and 6.
        ("classifier", "PLL", 0.5, 1 / 3, 3 / 6),
        # Without the classifier's 1, 3, 5 and 6: the PLL meets 2 of 2 and 4.
        ("classifier", "PLL", 1.0, 1 / 2, 4 / 6),
    ],
)
def test_overlaps_of_six_pairs_by_hand(
    scripts: dict[str, ModuleType],
    baseline: str,
    model: str,
    delta: float,
    reduced: float,
    overlap: float,
) -> None:
    table = scripts["tables"].overlap_table(PEOPLE, SIX, baseline).set_index(["model", "delta"])
    row = table.loc[(model, delta)]
    assert row["original"] == pytest.approx(len(MET[model][delta == 1.0]) / 6)
    assert row["reduced"] == pytest.approx(reduced)
    assert row["overlap"] == pytest.approx(overlap)
    assert row["n_reduced"] == 6 - len(MET[baseline][delta == 1.0])


def test_pairs_without_a_delta_are_excluded(scripts: dict[str, ModuleType]) -> None:
    overlap_table = scripts["tables"].overlap_table
    human = np.array([1.0, 1.0, -0.2, np.nan])
    models = {"a": np.array([0.8, 3.0, 0.1, 1.0]), "b": np.array([0.9, 0.2, -0.1, 1.0])}
    row = overlap_table(human, models, "b", deltas=(0.5,)).iloc[0]
    assert (row["original"], row["reduced"], row["overlap"]) == (1 / 3, 0, 1 / 3)
    assert (row["n_pairs"], row["n_reduced"]) == (3, 1)
    # The baseline meets every pair.
    assert pd.isna(overlap_table(human, models, "b", deltas=(5.0,)).iloc[0]["reduced"])
    with pytest.raises(InputError, match="model 'c' has no pair in common with ratings and base"):
        overlap_table(human, {**models, "c": np.full(4, np.nan)}, "b")


def test_criteria_table_of_a_data_folder(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    judgement = [1.0, -1.0, 0.5, 0.4, 0.3, -0.1]
    ids = ["g1", "u1", "g2", "u2", "g3", "u3"]
    sentences = pd.DataFrame({"id": ids, "sentence": list("abcdef"), "judgement": judgement})
    sentences.to_csv(tmp_path / "sentences_human_me.csv", index=False)
    pairs = {"discard": [None, None, "X"], "gramm_id": ids[::2], "ungramm_id": ids[1::2]}
    pd.DataFrame(pairs).to_csv(tmp_path / "min_pairs.csv", index=False)
    data = scripts["tables"].read_li_adger(tmp_path)
    assert len(data.pairs) == 2
    scores = [-4.0, -4.0, -6.0, -5.0, -5.0, -4.0]
    (row,) = (
        scripts["tables"]
        .criteria_table(data, {"length": pd.Series(scores, ids)})
        .to_dict("records")
    )
    z = stats.zscore(scores)
    assert row["sentence_correlation"] == pytest.approx(stats.pearsonr(judgement, scores)[0])
    # Of two pairs with deltas 2 and .1 of people, one of 0 and one below: -1 is their correlation
    # or 1.
    own = [z[0] - z[1], z[2] - z[3]]
    assert row["pair_correlation"] == pytest.approx(np.sign((own[0] - own[1]) * (2.0 - 0.1)))
    assert [row[name] for name in ("blimp", "adc_5", "n_pairs", "n_sentences")] == [0, 0, 2, 6]


def test_sign_table_of_six_pairs(scripts: dict[str, ModuleType]) -> None:
    table = scripts["tables"].sign_table(PEOPLE, SIX).set_index(["model", "human"])
    # People: + + + - 0 +. Trigram: + + - - + +. PLL: + + + + 0 +. Classifier: + + + + - +.
    assert table.loc[("trigram", "accept")].tolist() == [3, 1]
    assert table.loc[("trigram", "reject")].tolist() == [1, 1]
    assert table.loc[("classifier", "accept")].tolist() == [4, 0]
    assert table.loc[("PLL", "reject")].tolist() == [1, 1]


def test_disagreement_tables_of_six_pairs(scripts: dict[str, ModuleType]) -> None:
    tables = scripts["tables"]
    ids = [f"g{k}" for k in range(1, 7)], [f"u{k}" for k in range(1, 7)]
    judgements = pd.DataFrame({"id": ids[0] + ids[1], "sentence": list("abcdefghijkl")})
    data = tables.DeltaBenchmark(
        name="made/pairs",
        title="Made",
        source="Nobody (2026)",
        judgements=judgements.assign(judgement=[*PEOPLE, *np.zeros(6)]),
        pairs=pd.DataFrame({"gramm_id": ids[0], "ungramm_id": ids[1]}),
    )
    roles = {"trigram": ["trigram"], "masked": ["PLL"], "classifier": ["classifier"]}
    table = tables.disagreement_tables(data, SIX, roles)
    pairs = table.groupby("table")["gramm_id"].agg(list).to_dict()
    # People prefer the unacceptable sentence of pair 4, and neither of pair 5.
    assert pairs == {
        "2.5": ["g4"],
        "2.7": ["g3", "g1", "g5"],
        "2.8": ["g4", "g2"],
        "3.2": ["g4"],
        "3.3": ["g5"],
    }


def test_expert_labels_are_read_from_ids(scripts: dict[str, ModuleType]) -> None:
    ids = pd.Series(["32.1.a.1a.g.01", "32.1.a.1b.*.01", "ch8.150.??.02", "ch8.1.?*.03"])
    assert scripts["tables"].expert_labels(ids).tolist() == [True, False, True, True]


def test_matthews_correlation_by_feature(scripts: dict[str, ModuleType]) -> None:
    annotations = pd.DataFrame(
        {
            "Acceptability": [1, 1, 0, 0, 1, 0],
            "Sentence": list("abcdef"),
            "Question": [1, 1, 1, 1, 0, 0],
            "Imperative": [1, 0, 0, 0, 1, 0],
        }
    )
    restarts = pd.DataFrame(
        {0: [1.0, 2.0, -1.0, -1.0, 1.0, 1.0], 1: [1.0, -1.0, 1.0, -1.0, 1.0, 1.0]}
    )
    table = scripts["tables"].mcc_by_feature(annotations, restarts)
    # All imperatives are acceptable. Of the questions, one restart is right on all, one on half.
    assert table["feature"].tolist() == ["Question"]
    assert table.iloc[0][["n", "mean", "sd", "min", "max"]].tolist() == [4, 0.5, 0.5, 0, 1]


def test_sentence_ranking_equals_logistic_regression(scripts: dict[str, ModuleType]) -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    first, second = np.array([rng.choice(5, 2, replace=False) for _ in range(400)]).T
    wins = rng.random(400) < 1 / (1 + np.exp(0.6 * (first - second)))
    names = np.array(list("abcde"))
    columns = {"sentence_1": names[first], "sentence_2": names[second]}
    choices = pd.DataFrame(columns | {"chosen": np.where(wins, 1, 2)})
    points = scripts["ranking"].rank_sentences(choices)
    assert points.index.tolist() == list("abcde")
    design = (np.eye(5)[first] - np.eye(5)[second])[:, 1:]
    fit = sm.Logit(wins.astype(float), design).fit(disp=0)
    expected = np.array([0.0, *fit.params]) * 400 / np.log(10)
    np.testing.assert_allclose(points.loc[list("abcde")], expected - expected.mean(), atol=3)


def test_published_comparisons_are_complete_or_explained() -> None:
    tables = sorted(FOLDER.parent.glob("*/published.csv"))
    assert tables
    for path in tables:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert list(table) == ["quantity", "ours", "published", "note"]
        assert table["quantity"].is_unique
        unexplained = ((table["ours"] == "") | (table["published"] == "")) & (table["note"] == "")
        assert not unexplained.any(), table.loc[unexplained, "quantity"].tolist()


# Three orders, four sentences: the first never flips, the second flips at the second order and
# not again, the third at the third, the fourth is never acceptable (0 is not).
MARGINS = np.array([[1.0, 2.0, -1.0, -1.0], [0.5, -2.0, -1.0, 0.0], [3.0, -1.0, 1.0, -2.0]])


def test_training_order_tables_by_hand(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    orders = scripts["orders"]
    flipped = orders.acrobatic(MARGINS)
    assert flipped.astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    by_order = orders.table_by_order(MARGINS, np.array([0.1, 0.2, 0.3]))
    by_sentence = orders.table_by_sentence("abcd", MARGINS)
    assert by_order["acrobatic"].tolist() == [0, 0.25, 0.5]
    assert by_order["orders"].tolist() == [1, 2, 3]
    assert by_sentence["acrobatic"].tolist() == [False, True, True, False]
    np.testing.assert_allclose(by_sentence["acceptable"], [1, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(by_sentence["margin_mean"], [1.5, -1 / 3, -1 / 3, -1])
    sure = 1 / (1 + np.exp(-np.array([1.0, 0.5, 3.0])))
    assert by_sentence["confidence_mean"][0] == pytest.approx(sure.mean())
    assert by_sentence["confidence_sd"][0] == pytest.approx(sure.std())
    drawn = orders.order_figure(by_order, by_sentence)
    assert save_figure(drawn, tmp_path / "x.svg").stat().st_size


def test_training_restarts_are_determined_by_the_seed(
    scripts: dict[str, ModuleType], bert: Path, cola: Path
) -> None:
    options = FitOptions(epochs=1, batch=8, layers=1, learning_rate=3e-3)
    study, seeds = scripts["orders"].train_restarts, [(4, 4), (4, 5)]
    margins, mcc = study(str(bert), cola, SENTENCES, seeds, options)
    again, _ = study(str(bert), cola, SENTENCES, seeds, options)
    assert margins.shape == (2, len(SENTENCES))
    assert mcc.shape == (2,)
    np.testing.assert_array_equal(margins, again)
    assert not np.allclose(margins[0], margins[1])
