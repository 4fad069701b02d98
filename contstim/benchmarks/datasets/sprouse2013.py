"""Sprouse, Schuetze and Almeida (2013): forced choices, Likert ratings and magnitude estimates."""

from __future__ import annotations

import io
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.errors import InputError
from contstim.tables import read_table, require_columns

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "jmerch/slor-acceptability-satiation"
_COMMIT = "582930600bac401ee721c6f45597f0c720009988"
_FOLDER = "acceptability_modeling/data/Sprouse2013"
_MATERIALS = f"{_FOLDER}/SSA.Materials.xlsx"
_CHOICES = f"{_FOLDER}/FC experiment/FC.logistic.csv"
_RATINGS = {
    "likert": f"{_FOLDER}/LS experiment/LI.ls.results.csv",
    "magnitude": f"{_FOLDER}/ME experiment/LI.me.results.csv",
}
_SOURCE = "Sprouse et al. (2013)"
_COLUMNS = ["Bad ID", "Bad sentence", "Good ID", "Good sentence"]


def _materials(folder: Path) -> pd.DataFrame:
    """Read the pairs; ids are matched without spaces and case, in which the files differ."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown extension", UserWarning)
        rows = read_table(folder / _MATERIALS, cells="text")
    heads = rows.index[rows.iloc[:, 0] == _COLUMNS[0]]
    if not len(heads):
        raise InputError(f"{folder / _MATERIALS} has no row that begins with {_COLUMNS[0]!r}")
    below = rows.loc[heads[0] + 1 :]
    table = below.set_axis(rows.loc[heads[0]].astype(str).tolist(), axis=1)
    require_columns(table, _COLUMNS, str(folder / _MATERIALS))
    table = table[_COLUMNS].set_axis(["bad_id", "bad", "good_id", "good"], axis=1)
    return table.dropna().assign(**{c: _plain(table[c]) for c in ("bad_id", "good_id")})


def _plain(ids: pd.Series) -> pd.Series:
    return ids.astype("str").str.replace(r"\s", "", regex=True).str.lower()


def _answers(path: Path) -> pd.DataFrame:
    """Read a file of answers below its lines of comments, which are in another encoding."""
    lines = path.read_text("latin-1").splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("participant,")), None)
    if begin is None:
        raise InputError(f"{path} has no line that begins with participant,")
    return pd.read_csv(io.StringIO("\n".join(lines[begin:])), dtype={"item": str})


def _forced_choice(folder: Path) -> Benchmark:
    from contstim.benchmarks.choices import ChoiceBenchmark
    from contstim.evaluation.importers import read_choices

    answers = _answers(folder / _CHOICES)
    bad = answers[~answers["item"].str.startswith("good.")].reset_index(drop=True)
    pairs = _materials(folder).drop_duplicates("bad_id").set_index("bad_id")
    ids = _plain(bad["item"])
    has_text = ids.isin(pairs.index)
    table = pd.DataFrame(
        {
            "participant": bad["participant"],
            "survey": bad["survey"],
            "order": bad["order"],
            "bad_sentence": ids.map(pairs["bad"]),
            "good_sentence": ids.map(pairs["good"]),
            "chose_good": 1 - bad["judgment"],
            "item": pd.factorize(ids.str.replace(r"\.\d+$", "", regex=True))[0] + 1,
        }
    )
    return ChoiceBenchmark(
        name="sprouse2013/forced_choice",
        title="Pairs of 150 phenomena of Linguistic Inquiry, 307 people",
        source=_SOURCE,
        human=read_choices(table[has_text], format="sprouse2013"),
    )


def _graded(folder: Path, task: str) -> Benchmark:
    """Read the ratings, as z-scores within participants."""
    from contstim.benchmarks.ratings import RatingBenchmark

    answers = _answers(folder / _RATINGS[task])
    pairs = _materials(folder)
    ids = pd.concat([pairs["bad_id"], pairs["good_id"]])
    texts = pd.concat([pairs["bad"], pairs["good"]]).set_axis(ids)
    item = _plain(answers["item"])
    ratings = pd.DataFrame(
        {
            "participant": answers["participant"],
            "item": item.str.replace(r"\.\d+$", "", regex=True),
            "sentence": item.map(texts[~texts.index.duplicated()]),
            "rating": answers["zscores"],
        }
    ).dropna()
    return RatingBenchmark(
        name=f"sprouse2013/{task}",
        title=f"Sentences of 150 phenomena of Linguistic Inquiry, {task}, as z-scores",
        source=_SOURCE,
        ratings=ratings.drop_duplicates(["participant", "sentence"]),
    )


SPROUSE2013_TASKS = DataSet(
    name="sprouse2013",
    title="forced choices, Likert ratings and magnitude estimates of the same sentences",
    citation=(
        "Sprouse J, Schuetze CT, Almeida D (2013). A comparison of informal and formal "
        "acceptability judgments using a random sample from Linguistic Inquiry 2001-2010. Lingua "
        "134, 219-248, doi 10.1016/j.lingua.2013.07.002"
    ),
    licence="none stated",
    terms=(
        "The files say that they are for verifying the published analyses, and ask to contact Jon "
        "Sprouse about novel research. Do not pass them on."
    ),
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}/{_FOLDER}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _MATERIALS: (
                "sha256:8fbedba9b77795cac25f6015f4b3d259c01a4423ed9d19f9f0071c9a38bc028f",
                132_146,
            ),
            _CHOICES: (
                "sha256:4821091d1500b431a00c14bb16a71161d2dff06d4a2a2dc06f49c317b972cc46",
                1_779_531,
            ),
            _RATINGS["likert"]: (
                "sha256:6a0d294c66648224d32c049868f0a7abe8279c1fd740866addee8815c7a10789",
                1_985_471,
            ),
            _RATINGS["magnitude"]: (
                "sha256:7078c35c9568312ca4b10573e70f22377c53147b703d8446725dd8229780f87a",
                2_032_069,
            ),
        },
    ),
    benchmarks={
        "forced_choice": _forced_choice,
        **{task: partial(_graded, task=task) for task in _RATINGS},
    },
)
