"""A custom data set: minimal pairs of two verbs in a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contstim.benchmarks.data_sets import DataFile, DataSet
from contstim.benchmarks.pairs import PairBenchmark
from contstim.tables import read_table

__all__ = ["TWO_VERBS"]


def _pairs(files: Mapping[str, Path]) -> PairBenchmark:
    table = read_table(files["pairs.csv"], ["verb", "good", "bad", "people"])
    names = {"verb": "paradigm", "good": "sentence_good", "bad": "sentence_bad"}
    return PairBenchmark(
        name="two-verbs/pairs",
        title="Agreement of two verbs",
        source="Somebody (2026)",
        pairs=table.rename(columns=names).assign(phenomenon="agreement"),
        human_accuracies=table.groupby("verb")["people"].mean(),
    )


TWO_VERBS = DataSet(
    name="two-verbs",
    title="agreement of two verbs, with the share of people who agree",
    citation="Somebody (2026). Two verbs. Unpublished.",
    licence="CC0",
    terms="Anything goes.",
    source="http://example.org/two-verbs",
    files=(DataFile("pairs.csv", 175, "DIGEST", "http://example.org/pairs.csv"),),
    benchmarks={"pairs": _pairs},
)
