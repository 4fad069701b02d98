"""BLiMP (Warstadt et al. 2020): 67 paradigms of minimal pairs, and what people said of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.errors import InputError
from contstim.files import json_value
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "alexwarstadt/blimp"
_COMMIT = "3e56b06fcabca9b30822fc66435fca6b1aa40bb1"
_PAIRS = "BLiMP.zip"
_MODELS = "raw_results/summary/models_summary.jsonl"
_PEOPLE = "raw_results/summary/human_validation_summary.csv"
_ANSWERS = "raw_results/all_outputs/human_responses.csv"
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


def _answers(path: Path) -> pd.DataFrame:
    """Read the single choices: five pairs an answered task, one of them a check of attention."""
    places = range(1, 6)
    columns = [f"Input.item_{k}_condition" for k in places] + [f"Answer.Choice{k}" for k in places]
    raw = read_table(path, ["anonCode", *columns], cells="text")
    parts = []
    for k in places:
        condition = raw[f"Input.item_{k}_condition"].str.extract(r"^(.*)ans([12])$")
        sentences = {f"sentence_{i}": raw[f"Input.field_{k}_{i}"] for i in (1, 2)}
        chosen = raw[f"Answer.Choice{k}"].str.extract(r"^([12])\.")[0]
        answers = {"rater": raw["anonCode"], "paradigm": condition[0], "correct": condition[1]}
        parts.append(pd.DataFrame({**answers, **sentences, "chosen": chosen}))
    table = pd.concat(parts, ignore_index=True).dropna(subset=["paradigm", "chosen"])
    return table.assign(correct=table["correct"].astype(int), chosen=table["chosen"].astype(int))


def _choices(folder: Path) -> Benchmark:
    """Read the choices between pairs of the published paradigms; a paradigm is an item."""
    from contstim.benchmarks.choices import ChoiceBenchmark
    from contstim.evaluation.importers import read_choices

    terms = _summary(folder / _MODELS).set_index("UID")["linguistics_term"].drop("overall")
    answers = _answers(folder / _ANSWERS)
    answers = answers[answers["paradigm"].isin(terms.index)]
    table = answers.assign(
        condition=answers["paradigm"].map(terms), item=pd.factorize(answers["paradigm"])[0] + 1
    )
    return ChoiceBenchmark(
        name="blimp/choices",
        title="Five pairs of each paradigm, 20 people's choices between each",
        source="Warstadt et al. (2020)",
        human=read_choices(table.reset_index(drop=True), format="blimp"),
    )


def _pairs(folder: Path) -> Benchmark:
    from contstim.benchmarks.pairs import PairBenchmark
    from contstim.benchmarks.suites import read_blimp

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
            _ANSWERS: (
                "sha256:90c3b986621e00d28678b7619cd0b415a8208dfca9b160942a152a1944c95e4c",
                2_800_632,
            ),
        },
    ),
    benchmarks={"pairs": _pairs, "choices": _choices},
)
