"""LI-Adger as these files have it, and the thesis's tables of criteria and overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.benchmarks.ratings import DeltaBenchmark, acceptability_delta_criterion
from contstim.errors import InputError
from contstim.tables import read_table


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


def criteria_table(
    data: DeltaBenchmark, scores: Mapping[str, pd.Series], deltas: Sequence[float] = (0.5, 1.0, 5.0)
) -> pd.DataFrame:
    """Return correlations with people on sentences and pairs, and the shares that meet criteria.

    Columns: `model`, `sentence_correlation`, `pair_correlation`, `blimp`, ``adc_DELTA`` for each,
    `n_pairs` (those for which both deltas are known), `n_sentences`.

    Parameters
    ----------
    data
        Sentences and pairs.
    scores
        From model to scores by sentence id.
    deltas
        Largest deviations, in standard deviations.
    """
    people, judged = data.human_deltas(), data.judgements.set_index("id")["judgement"]
    rows = []
    for model, by_id in scores.items():
        both = pd.concat([judged, by_id.rename("score")], axis=1, join="inner").dropna()
        model_deltas = data.model_deltas(by_id)
        there = ~np.isnan(people) & ~np.isnan(model_deltas)
        human, own = people[there], model_deltas[there]
        row = {
            "model": model,
            "sentence_correlation": np.corrcoef(*both.to_numpy(float).T)[0, 1],
            "pair_correlation": np.corrcoef(human, own)[0, 1],
            "blimp": (own > 0).mean(),
        }
        for delta in deltas:
            row[f"adc_{delta:g}"] = acceptability_delta_criterion(human, own, delta).mean()
        rows.append(row | {"n_pairs": len(own), "n_sentences": len(both)})
    return pd.DataFrame(rows)


def overlap_table(
    human_deltas: FloatArray,
    model_deltas: Mapping[str, FloatArray],
    baseline: str,
    deltas: Sequence[float] = (0.5, 1.0),
) -> pd.DataFrame:
    """Return how far each model's success is that of a baseline.

    Columns: `model`, `delta`; `original`, the share of pairs that meet the Acceptability Delta
    Criterion; `reduced`, the same after the pairs that the baseline meets are removed, if any are
    left; `overlap`, the share of all pairs that both meet; `n_pairs`, `n_reduced`. Pairs are those
    for which people, model and baseline have a delta.

    Source
    ------
    Vazquez Martinez (2021), Tables 2.6, 3.6 and 3.7.
    """
    rows = []
    for model in (name for name in model_deltas if name != baseline):
        columns = np.stack([human_deltas, model_deltas[model], model_deltas[baseline]])
        people, own, other = columns[:, ~np.isnan(columns).any(axis=0)]
        if not len(people):
            raise InputError(f"model {model!r} has no pair in common with ratings and baseline")
        for delta in deltas:
            met = acceptability_delta_criterion(people, own, delta)
            base = acceptability_delta_criterion(people, other, delta)
            left = met[~base]
            reduced = float(left.mean()) if len(left) else None
            shares = float(met.mean()), reduced, float((met & base).mean())
            rows.append((model, delta, *shares, len(people), len(left)))
    columns = ["model", "delta", "original", "reduced", "overlap", "n_pairs", "n_reduced"]
    return pd.DataFrame(rows, columns=columns)
