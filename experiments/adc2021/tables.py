"""LI-Adger as the published files contain it, and the tables of the thesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.benchmarks.ratings import DeltaBenchmark
from contstim.errors import InputError
from contstim.tables import read_table
from contstim.training.cola import matthews_correlation

#: Standard deviation of the trigram's SLOR in the thesis. The 16 z-scores of Tables 2.7 and 2.8 are
#: an exact linear function of the published scores with this factor.
THESIS_SLOR_SD = 0.31972341
#: Standard deviations in the thesis that differ from the published scores, by score name.
THESIS_SDS = {"trigram-slor": THESIS_SLOR_SD}


def read_li_adger(folder: Path) -> DeltaBenchmark:
    """Read ``sentences_human_me.csv`` and ``min_pairs.csv``, without discarded pairs."""
    columns = ("id", "sentence", "judgement")
    sentences = read_table(folder / "sentences_human_me.csv", columns, cells="inferred")
    columns = ("gramm_id", "ungramm_id", "discard")
    pairs = read_table(folder / "min_pairs.csv", columns, cells="inferred")
    return DeltaBenchmark(
        name="li_adger",
        title="LI-Adger",
        source="Vazquez Martinez (2021)",
        judgements=sentences,
        pairs=pairs[pairs["discard"].isna()].reset_index(drop=True),
    )


def read_published_scores(folder: Path) -> dict[str, pd.Series]:
    """Read the published scores of masked models and of the trigram, by sentence id."""
    pll = pd.read_csv(folder / "published_bert_pll.csv.gz").set_index("id")
    scores = {column.removesuffix("_mlm"): pll[column] for column in pll if column.endswith("_mlm")}
    pairs = pd.read_csv(folder / "min_pairs_scores.csv.gz")
    for name, column in (("trigram-slor", "slor"), ("trigram-log-prob", "logProb")):
        sides = [pairs.set_index(f"{side}_id")[f"{column}_{side}"] for side in ("gramm", "ungramm")]
        by_id = pd.concat(sides).dropna()
        scores[name] = by_id[~by_id.index.duplicated()]
    return scores


def expert_labels(ids: pd.Series) -> pd.Series:
    """Return which sentences experts accept: all without the mark ``*`` in their ids."""
    return ~ids.str.contains(".*.", regex=False)


def model_deltas(data: DeltaBenchmark, scores: Mapping[str, pd.Series]) -> dict[str, FloatArray]:
    """Return the deltas of each model, shape (P,), in the standard deviations of the thesis."""
    return {
        name: data.model_deltas(by_id)
        * (by_id.std(ddof=0) / THESIS_SDS.get(name, by_id.std(ddof=0)))
        for name, by_id in scores.items()
    }


def meets_criterion(human: FloatArray, model: FloatArray, delta: float) -> BoolArray:
    """Return which pairs meet the Acceptability Delta Criterion, as counted in the thesis.

    A delta of 0 counts as negative. The library treats its sign as neither positive nor negative
    (`contstim.benchmarks.estimates.acceptability_delta_criterion`), which excludes two of the 2,365
    pairs: their two sentences have equal scores under every model.
    """
    return np.asarray(((human > 0) == (model > 0)) & (np.abs(human - model) < delta))


def criteria_table(
    data: DeltaBenchmark, scores: Mapping[str, pd.Series], deltas: Sequence[float] = (0.5, 1.0, 5.0)
) -> pd.DataFrame:
    """Return correlations with human judgements and the shares of pairs that meet criteria.

    Columns: `model`, `sentence_correlation`, `pair_correlation`, `blimp`, ``adc_DELTA`` for each,
    `n_pairs` (pairs in which both deltas are known), `n_sentences`.

    Parameters
    ----------
    data
        Sentences and pairs.
    scores
        Scores by sentence id, for each model.
    deltas
        Largest deviations, in standard deviations.
    """
    human_deltas, judgements = data.human_deltas(), data.judgements.set_index("id")["judgement"]
    deltas_by_model, rows = model_deltas(data, scores), []
    for model, by_id in scores.items():
        joined = pd.concat([judgements, by_id.rename("score")], axis=1, join="inner").dropna()
        has_both = ~np.isnan(human_deltas) & ~np.isnan(deltas_by_model[model])
        human, predicted = human_deltas[has_both], deltas_by_model[model][has_both]
        row = {
            "model": model,
            "sentence_correlation": np.corrcoef(*joined.to_numpy(float).T)[0, 1],
            "pair_correlation": np.corrcoef(human, predicted)[0, 1],
            "blimp": (predicted > 0).mean(),
        }
        for delta in deltas:
            row[f"adc_{delta:g}"] = meets_criterion(human, predicted, delta).mean()
        rows.append(row | {"n_pairs": len(predicted), "n_sentences": len(joined)})
    return pd.DataFrame(rows)


def overlap_table(
    human_deltas: FloatArray,
    deltas_by_model: Mapping[str, FloatArray],
    baseline: str,
    deltas: Sequence[float] = (0.5, 1.0),
) -> pd.DataFrame:
    """Return how much of each model's success is shared with a baseline.

    Columns: `model`, `delta`; `original`, the share of pairs that meet the Acceptability Delta
    Criterion; `reduced`, the same without the pairs that the baseline meets, if any are left;
    `overlap`, the share of all pairs that both meet; `n_pairs`, `n_reduced`. Pairs count if human
    judgements, model and baseline have a delta.

    Source
    ------
    Vazquez Martinez (2021), Tables 2.6, 3.6 and 3.7.
    """
    rows = []
    for model in (name for name in deltas_by_model if name != baseline):
        columns = np.stack([human_deltas, deltas_by_model[model], deltas_by_model[baseline]])
        human, predicted, baseline_deltas = columns[:, ~np.isnan(columns).any(axis=0)]
        if not len(human):
            raise InputError(f"model {model!r} has no pair in common with ratings and baseline")
        for delta in deltas:
            met = meets_criterion(human, predicted, delta)
            met_by_baseline = meets_criterion(human, baseline_deltas, delta)
            left = met[~met_by_baseline]
            reduced = float(left.mean()) if len(left) else None
            shares = float(met.mean()), reduced, float((met & met_by_baseline).mean())
            rows.append((model, delta, *shares, len(human), len(left)))
    columns = ["model", "delta", "original", "reduced", "overlap", "n_pairs", "n_reduced"]
    return pd.DataFrame(rows, columns=columns)


def sign_table(human_deltas: FloatArray, deltas_by_model: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Count pairs by the signs of the human and the model delta.

    Columns: `model`, `human` (``accept`` if the human delta is positive, else ``reject``),
    `accept` and `reject` (number of pairs with this sign of the model's delta).
    """
    rows = []
    for model, predicted in deltas_by_model.items():
        has_both = ~np.isnan(human_deltas) & ~np.isnan(predicted)
        for label, side in (("accept", human_deltas > 0), ("reject", human_deltas <= 0)):
            counts = [
                int((has_both & side & sign).sum()) for sign in (predicted > 0, predicted <= 0)
            ]
            rows.append((model, label, *counts))
    return pd.DataFrame(rows, columns=["model", "human", "accept", "reject"])


def mcc_by_feature(annotations: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the Matthews correlation with expert labels among the sentences with each feature.

    Features whose sentences all have the same label are left out.

    Parameters
    ----------
    annotations
        Columns `Acceptability` (1 or 0), and one column of 0 and 1 per syntactic feature.
    predictions
        Scores of the same sentences, positive for acceptable, with one column per restart.

    Returns
    -------
    DataFrame
        `feature`, `n` (number of sentences), `mean`, `sd`, `min` and `max` over restarts.

    Source
    ------
    Warstadt and Bowman (2019), Fig. 1; Vazquez Martinez (2021), Fig. 2-1.
    """
    features = [name for name in annotations if set(annotations[name].unique()) <= {0, 1}]
    rows = []
    for feature in (name for name in features if name != "Acceptability"):
        mask = (annotations[feature] == 1).to_numpy()
        labels = annotations.loc[mask, "Acceptability"].to_numpy()
        if np.ptp(labels) == 0:
            continue
        values = np.array([matthews_correlation(labels, c[mask]) for c in predictions.to_numpy().T])
        summary = values.mean(), values.std(), values.min(), values.max()
        rows.append((feature, int(mask.sum()), *summary))
    return pd.DataFrame(rows, columns=["feature", "n", "mean", "sd", "min", "max"])


def disagreement_tables(
    data: DeltaBenchmark, deltas_by_model: Mapping[str, FloatArray], roles: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Return the pairs on which criteria or models disagree, largest human difference first.

    Parameters
    ----------
    data
        Sentences and pairs.
    deltas_by_model
        Deltas of each model, shape (P,).
    roles
        Names of the models with the role `trigram`, `masked` and `classifier`.

    Returns
    -------
    DataFrame
        `table` (number in the thesis), `gramm_id`, `ungramm_id`, `human_delta` and the delta of the
        last model of the first role, `model_delta`.

    Source
    ------
    Vazquez Martinez (2021), Tables 2.5, 2.7, 2.8 and 3.2 to 3.5.
    """
    human = data.human_deltas()

    def all_meet(role: str, delta: float) -> BoolArray:
        met = [meets_criterion(human, deltas_by_model[name], delta) for name in roles[role]]
        return np.all(met, axis=0)

    def all_prefer(role: str, *, acceptable: bool) -> BoolArray:
        return np.all([(deltas_by_model[name] > 0) == acceptable for name in roles[role]], axis=0)

    def none_meet(role: str, delta: float) -> BoolArray:
        met = [meets_criterion(human, deltas_by_model[name], delta) for name in roles[role]]
        return ~np.any(met, axis=0)

    masks = {
        "2.5": (
            "classifier",
            all_prefer("classifier", acceptable=True) & none_meet("classifier", 5),
        ),
        "2.7": ("classifier", all_meet("classifier", 0.5) & none_meet("trigram", 0.5)),
        "2.8": ("trigram", all_meet("trigram", 0.5) & none_meet("classifier", 0.5)),
        "3.2": ("masked", all_prefer("masked", acceptable=True) & none_meet("masked", 5)),
        "3.3": ("masked", all_meet("masked", 5) & all_prefer("masked", acceptable=False)),
        "3.4": ("classifier", all_meet("classifier", 5) & none_meet("masked", 5)),
        "3.5": ("masked", all_meet("masked", 5) & none_meet("classifier", 5)),
    }
    parts = []
    for number, (role, mask) in masks.items():
        part = data.pairs.loc[mask, ["gramm_id", "ungramm_id"]].copy()
        part["human_delta"] = human[mask]
        part["model_delta"] = deltas_by_model[roles[role][-1]][mask]
        order = (part["human_delta"] - part["model_delta"]).abs().sort_values(ascending=False).index
        parts.append(part.loc[order].assign(table=number))
    columns = ["table", "gramm_id", "ungramm_id", "human_delta", "model_delta"]
    return pd.concat(parts, ignore_index=True)[columns]
