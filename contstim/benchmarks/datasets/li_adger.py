"""LI-Adger: graded judgements of sentences from linguistic articles and a textbook, in pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "hjvm/acceptability_delta_criterion"
_COMMIT = "ea4f26fe49181e7b0eff6d14184f12fe13e71ceb"
_SENTENCES = "data/human_ME_results_li-adger_sentences.csv"
_PAIRS = "data/li-adger_min_pairs.csv"
_MASKED = "output/bert_mlm_results_li-adger_sentences.csv"
_TRIGRAM = "output/li-adger_min_pairs_all_models.csv"

_MEASURES = ("sentence_correlation", "pair_correlation", "blimp", "adc_0.5", "adc_1", "adc_5")
#: Vazquez Martinez (2021), Tables 2.3, 2.4 and 3.1, by model; it gives no correlations of networks.
_PUBLISHED = {
    "trigram, SLOR": (0.368, 0.333, 0.753, 0.301, 0.520, 0.744),
    "trigram, log-probability": (0.131, 0.156, 0.671, 0.165, 0.329, 0.668),
    "bert-base-uncased, PLL": (None, None, 0.852, 0.364, 0.631, 0.849),
    "bert-large-uncased, PLL": (None, None, 0.866, 0.378, 0.658, 0.859),
    "bert-large-cased, PLL": (None, None, 0.871, 0.376, 0.661, 0.868),
    "bert-base-uncased, CoLA": (None, None, 0.915, 0.286, 0.538, 0.902),
    "bert-large-uncased, CoLA": (None, None, 0.917, 0.311, 0.564, 0.907),
    "bert-large-cased, CoLA": (None, None, 0.936, 0.307, 0.561, 0.925),
}


def _figures() -> pd.DataFrame:
    rows = [
        ("all", measure, model, "value", number)
        for model, numbers in _PUBLISHED.items()
        for measure, number in zip(_MEASURES, numbers, strict=True)
        if number is not None
    ]
    table = pd.DataFrame(rows, columns=["analysis", "measure", "model", "quantity", "value"])
    return table.assign(place="Vazquez Martinez (2021), Tables 2.3, 2.4 and 3.1")


def _scores(folder: Path) -> dict[str, pd.Series]:
    """Read the published scores, by sentence id."""
    masked = read_table(folder / _MASKED, ["id"], cells="guessed").set_index("id")
    scores = {
        f"{column.removesuffix('_mlm')}, PLL": masked[column]
        for column in map(str, masked)
        if column.endswith("_mlm")
    }
    pairs = read_table(folder / _TRIGRAM, ["gramm_id", "ungramm_id"], cells="guessed")
    for name, column in (("SLOR", "slor"), ("log-probability", "logProb")):
        sides = [pairs.set_index(f"{side}_id")[f"{column}_{side}"] for side in ("gramm", "ungramm")]
        both = pd.concat(sides).dropna()
        scores[f"trigram, {name}"] = both[~both.index.duplicated()]
    return scores


def _deltas(folder: Path) -> Benchmark:
    from contstim.benchmarks.deltas import DeltaBenchmark
    from contstim.benchmarks.suites import LIAdger

    columns = ("id", "sentence", "judgement")
    pairs = read_table(folder / _PAIRS, ("gramm_id", "ungramm_id", "discard"), cells="guessed")
    return DeltaBenchmark(
        name="li_adger/deltas",
        title="4,178 sentences with magnitude estimates, in 2,365 pairs",
        source="Vazquez Martinez (2021)",
        data=LIAdger(
            read_table(folder / _SENTENCES, columns, cells="guessed"),
            pairs[pairs["discard"].isna()].reset_index(drop=True),
        ),
        scores=_scores(folder),
        figures=_figures(),
    )


LI_ADGER = DataSet(
    name="li_adger",
    title="magnitude estimates of sentences of Linguistic Inquiry and of a textbook, in pairs",
    citation=(
        "Sprouse J, Schuetze CT, Almeida D (2013), Lingua 134, 219-248; Sprouse J, Almeida D "
        "(2012), Journal of Linguistics 48, 609-652; Vazquez Martinez HJ (2021). The Acceptability "
        "Delta Criterion: memorization is not enough. MEng thesis, MIT"
    ),
    licence="none stated",
    terms="Do not pass the files on; the sentences are from published works.",
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _SENTENCES: (
                "sha256:4806f7163550ff18482eab6d07768e9b4f7736e3ebe707b6995bbd6be057e34d",
                343_560,
            ),
            _PAIRS: (
                "sha256:4e13a4ded06ac23d5041f8bd04af4ad273f2784fe624857ff5f7b235c4f5cb1b",
                344_644,
            ),
            _MASKED: (
                "sha256:fe80bcd4b53427891a970d5f53f56e6b1d8a5fe91871d82da2a0e5285a61af74",
                825_754,
            ),
            _TRIGRAM: (
                "sha256:66e0dc36ce93617dba973e584454160988576239cd875af9df7a173810da2b4d",
                2_193_349,
            ),
        },
    ),
    benchmarks={"deltas": _deltas},
)
