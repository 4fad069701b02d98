"""BLiMP (Warstadt et al. 2020): 67 paradigms of minimal pairs, and what people said of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.datasets.dataset import DataSet, github_files
from contstim.errors import InputError
from contstim.files import json_value
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.evaluation.benchmarks import Benchmark

_REPOSITORY = "alexwarstadt/blimp"
_COMMIT = "3e56b06fcabca9b30822fc66435fca6b1aa40bb1"
_PAIRS = "BLiMP.zip"
_MODELS = "raw_results/summary/models_summary.jsonl"
_PEOPLE = "raw_results/summary/human_validation_summary.csv"
# The models' columns, and what the paper calls them.
_NAMES = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}


def _summary(path: Path) -> pd.DataFrame:
    try:
        rows = [json_value(line) for line in path.read_text("utf-8").splitlines()]
        return pd.DataFrame(rows)[["UID", "linguistics_term", *_NAMES]].rename(columns=_NAMES)
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} is not BLiMP's summary of models ({error})") from None


def _figures(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the summary that are about several paradigms."""
    overall = summary[summary["UID"] == "overall"]
    table = overall.melt("linguistics_term", list(_NAMES.values()), "model", "value")
    analysis = table.pop("linguistics_term").replace("overall", "all")
    place = "Warstadt et al. (2020), Table 3, as corrected in models_summary.jsonl"
    return table.assign(analysis=analysis, measure="accuracy", quantity="value", place=place)


def _pairs(folder: Path) -> Benchmark:
    from contstim.evaluation.benchmarks.pairs import PairBenchmark
    from contstim.evaluation.suites import read_blimp

    summary = _summary(folder / _MODELS)
    people = read_table(folder / _PEOPLE, ["Condition", "total_mean"], cells="guessed")
    terms = summary.set_index("UID")["linguistics_term"].drop("overall")
    pairs = read_blimp(folder / _PAIRS).rename(columns={"uid": "paradigm"})
    # In two paradigms the pairs are of another phenomenon than the paper has them.
    pairs["kind"] = [
        terms.get(uid, term) for uid, term in zip(pairs["paradigm"], pairs["term"], strict=True)
    ]
    return PairBenchmark(
        name="blimp/pairs",
        title="Minimal pairs of 67 paradigms, 1,000 of each",
        source="Warstadt et al. (2020)",
        pairs=pairs,
        accuracies=summary.set_index("UID")[list(_NAMES.values())].drop("overall"),
        people=people.set_index("Condition")["total_mean"],
        figures=_figures(summary),
    )


BLIMP_PAIRS = DataSet(
    name="blimp",
    title="minimal pairs of 67 paradigms, with the share of people who agree",
    citation=(
        "Warstadt A, Parrish A, Liu H, Mohananey A, Peng W, Wang S-F, Bowman SR (2020). BLiMP: the "
        "benchmark of linguistic minimal pairs for English. TACL 8, 377-392, doi "
        "10.1162/tacl_a_00321"
    ),
    licence="CC BY 4.0",
    terms="Whoever passes it on names its authors and says what was changed.",
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _PAIRS: (
                "sha256:172a1a714d72e72a89e8384dd531483f3d0f8a9aee3d33dccaf7992d8cecbb73",
                2_354_164,
            ),
            _MODELS: (
                "sha256:d54b1b361559eec9182f89930d5012af89d1a35d8e2ff435637b3166e2e3037a",
                10_064,
            ),
            _PEOPLE: (
                "sha256:ea0e7c21de6b9df2fd8a94d0b175e84ea57627e4cbfa1fcba4ef8b3d0fba1b2d",
                3_057,
            ),
        },
    ),
    benchmarks={"pairs": _pairs},
)
