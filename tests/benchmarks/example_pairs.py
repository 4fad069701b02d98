"""A small benchmark of minimal pairs."""

from __future__ import annotations

import pandas as pd

from contstim.benchmarks.benchmark import published_table
from contstim.benchmarks.pairs import PairBenchmark


def sentence_pairs(n: int = 4) -> pd.DataFrame:
    """Return n pairs of each of four paradigms, in words that the bundled models know."""
    verbs = {"number": ("run", "runs"), "tense": ("ran", "running"), "order": ("sat", "the")}
    verbs["none"] = ("slept", "sleep the")
    nouns = ("dogs", "boys", "girls", "men", "women", "horses", "children", "friends")
    rows = [
        (uid, "all" if uid == "none" else "verbs", f"The {noun} {good}.", f"The {noun} {bad}.")
        for uid, (good, bad) in verbs.items()
        for noun in nouns[:n]
    ]
    return pd.DataFrame(rows, columns=["paradigm", "phenomenon", "sentence_good", "sentence_bad"])


def pair_benchmark(name: str = "made/pairs") -> PairBenchmark:
    """Return a benchmark of the pairs with one published model and human accuracies."""
    paradigms = ["number", "tense", "order", "none"]
    figure = ("all", "accuracy", "old", "value", 0.625, "Table 1")
    return PairBenchmark(
        name=name,
        title="Made pairs",
        source="Nobody (2026)",
        pairs=sentence_pairs().replace({"phenomenon": {"all": "other"}}),
        accuracies=pd.DataFrame({"old": [0.5, 0.75, 1.0, 0.25]}, index=paradigms),
        human_accuracies=pd.Series([0.9, 1.0, 0.8, 0.9], index=paradigms),
        published_results=published_table([figure]),
    )
