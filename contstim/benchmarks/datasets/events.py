"""Kauf et al. (2023): how plausible people find events, and what language models make of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.errors import InputError
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "carina-kauf/lm-event-knowledge"
_COMMIT = "ac6fca04224b47498895cc7ee4dc4d8d771666af"
_PEOPLE = "analyses/clean_data/clean_{}_human_dat.csv"
_SCORES = "model_scores/{}/{}.{}.txt"
#: Of each set with single ratings what its files of scores begin with, and its title.
_SETS = {
    "EventsAdapt": ("new-EventsAdapt", "Plausible and implausible events, active and passive"),
    "EventsRev": ("ev1", "Events and the same with agent and patient exchanged"),
}
#: From a model to what its file is called, and the sign that makes the higher score the better.
_MODELS = {
    "gpt2-xl": ("gpt2-xl.sentence-LL", 1),
    "gpt-j": ("gpt-j.sentence-LL", 1),
    "mpt-30b": ("mpt-30b.sentence-LL", 1),
    "bert-large-cased, PLL": ("bert-large-cased.sentence-PLL", 1),
    "roberta-large, PLL": ("roberta-large.sentence-PLL", 1),
    "deberta-xxlarge-v2, PLL": ("deberta-xxlarge-v2.sentence-PLL", 1),
    "LSTM": ("tinylstm.surprisal_scores", -1),
}


def _scores(folder: Path, name: str) -> pd.DataFrame:
    begin, _ = _SETS[name]
    columns = {}
    for model, (file, sign) in _MODELS.items():
        path = folder / _SCORES.format(name, begin, file)
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip()]
        try:
            pairs = [(row[1].strip(), sign * float(row[2])) for row in rows]
        except (IndexError, ValueError) as error:
            raise InputError(f"{path} is not a file of scores ({error})") from None
        score = pd.Series(dict(reversed(pairs)))  # of a sentence that is there twice the first
        columns[model] = score
    return pd.DataFrame(columns)


def _ratings(folder: Path, name: str) -> Benchmark:
    from contstim.benchmarks.ratings import RatingBenchmark

    needed = ["WorkerId", "Score", "ItemNum", "Sentence"]
    table = read_table(folder / _PEOPLE.format(name), needed, cells="guessed")
    # Identifiers of a marketplace's workers: a number each.
    person = pd.factorize(table["WorkerId"])[0] + 1
    return RatingBenchmark(
        name=f"events/{name}",
        title=_SETS[name][1],
        source="Kauf et al. (2023)",
        ratings=pd.DataFrame(
            {
                "participant": person,
                "item": table["ItemNum"],
                "sentence": table["Sentence"].str.strip(),
                "rating": table["Score"],
            }
        ).dropna(subset=["rating"]),
        scores=_scores(folder, name),
    )


EVENTS = DataSet(
    name="events",
    title="plausibility of events, single ratings and seven models' scores",
    citation=(
        "Kauf C, Ivanova AA, Rambelli G, Chersoni E, She JS, Chowdhury Z, Fedorenko E, Lenci A "
        "(2023). Event knowledge in large language models: the gap between the impossible and the "
        "unlikely. Cognitive Science 47, e13386, doi 10.1111/cogs.13386"
    ),
    licence="none stated",
    terms=(
        "Do not pass the files on: they hold identifiers of the workers who answered, which are "
        "replaced by numbers on reading."
    ),
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            "analyses/clean_data/clean_EventsAdapt_human_dat.csv": (
                "sha256:dc55bbcb5eb6ffbc7d89e7f4ad27b12a84364f54b770a29ecaa2ac768b5e6281",
                3_272_233,
            ),
            "analyses/clean_data/clean_EventsRev_human_dat.csv": (
                "sha256:6896b6978b3d3046e49fea3f24326408ae4d61bc01bf341f8894b6fbe35ec41e",
                276_770,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.gpt2-xl.sentence-LL.txt": (
                "sha256:78f44645cec2b1741f115ee08ef0947a6de09eed305a4fb78fd532861fae8334",
                110_691,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.gpt-j.sentence-LL.txt": (
                "sha256:d962285fef793be7361f032072e884e4a16d53f7e1a7bea23c3862cb88e8da3f",
                110_570,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.mpt-30b.sentence-LL.txt": (
                "sha256:d3d7f70d19c996ee7c68fb4f43966bea7b8e14573af0f0d23a49c6a2159b0b3a",
                110_844,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.bert-large-cased.sentence-PLL.txt": (
                "sha256:713f0b00fbd9bc1790b2bc1ddc5a1bb095f27f6ebe13e834b026ab54a8e9bd69",
                110_450,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.roberta-large.sentence-PLL.txt": (
                "sha256:e98339fc2618e43b6650379d445fe0959954ed81033df9602663329f1668c70f",
                110_405,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.deberta-xxlarge-v2.sentence-PLL.txt": (
                "sha256:a8777af3454720c5c8abf98a7d3a9f30c724681a7b2c5c16bdee96e9de4d0eda",
                109_855,
            ),
            "model_scores/EventsAdapt/new-EventsAdapt.tinylstm.surprisal_scores.txt": (
                "sha256:4eb167402c6a5ca9de8b7399e16218078a285d560d638026cd69b65abeb706a0",
                167_516,
            ),
            "model_scores/EventsRev/ev1.gpt2-xl.sentence-LL.txt": (
                "sha256:ebc3d664dcb84ec1aea92bb0a22fff783c310a5d6c9f2a440ee3304b368a0683",
                5_282,
            ),
            "model_scores/EventsRev/ev1.gpt-j.sentence-LL.txt": (
                "sha256:ab5afac2e834fc6e490e1e95e8c709be5bc78c3a9b217690934c2297e25e8709",
                5_281,
            ),
            "model_scores/EventsRev/ev1.mpt-30b.sentence-LL.txt": (
                "sha256:a1a296416db24025a31dacda17203e5def1132e07ac80a400fa3f9b7f82451d2",
                5_292,
            ),
            "model_scores/EventsRev/ev1.bert-large-cased.sentence-PLL.txt": (
                "sha256:134546c84faa38229e16703c0b4178bbb2e8588c8dddd3a2ee6131694feaa04c",
                5_287,
            ),
            "model_scores/EventsRev/ev1.roberta-large.sentence-PLL.txt": (
                "sha256:6634f964ad2edd6a3c48d38f4f2cad7dcba7eb437796d70488920b1dbff2989c",
                5_280,
            ),
            "model_scores/EventsRev/ev1.deberta-xxlarge-v2.sentence-PLL.txt": (
                "sha256:389d0d5447e38e5422a72d200fd498bf06843b45e7d6de45fccff2848e53085d",
                5_256,
            ),
            "model_scores/EventsRev/ev1.tinylstm.surprisal_scores.txt": (
                "sha256:6b6057be158d13687025a9caf5da6c995fc3998a504ba76aba8fda43057a1564",
                8_100,
            ),
        },
    ),
    benchmarks={name: partial(_ratings, name=name) for name in _SETS},
    missing="DTFit, the third set, has no single ratings and is not among them.",
)
