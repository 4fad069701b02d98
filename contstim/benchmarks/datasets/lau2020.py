"""Lau et al. (2020): sentences, some after round-trip translation, rated in three contexts."""

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

_REPOSITORY = "jhlau/acceptability-prediction-in-context"
_COMMIT = "0a274d1d9f70f389ddc6b6d796bd8f815833056c"
_PLACE = "human-ratings/context-{}-ratings.csv"
_TITLES = {
    "none": "250 sentences rated alone",
    "real": "250 sentences rated after the text that they are from",
    "random": "250 sentences rated after another text",
}
#: The best correlation of a model that sees the sentence alone, with ratings of it alone: BERT,
#: uncased, by PenLP. People are said to reach .75 (one of them, with the mean of the others) and
#: .92 (the means of halves of them); drawn in these ways from these files they are .750 and .921.
_BEST_ALONE = {"bert_uncased_penlp": 0.70}


def _ratings(folder: Path, context: str) -> Benchmark:
    """Read ratings in one kind of context; models score the sentences alone in all three."""
    from contstim.benchmarks import FIGURE_COLUMNS, no_figures
    from contstim.benchmarks.ratings import RatingBenchmark

    path = folder / _PLACE.format(context)
    table = read_table(path, ["sentence", "full-ratings"], cells="text")
    answers = table["full-ratings"].str.split(",").set_axis(table["sentence"]).explode()
    try:
        rating = answers.astype(float)
    except ValueError as error:
        raise InputError(f"{path} has a rating that is not a number ({error})") from None
    figures = no_figures()
    if context == "none":
        place = "Lau et al. (2020), of models without context"
        rows = [("all", "correlation", name, "value", r, place) for name, r in _BEST_ALONE.items()]
        figures = pd.DataFrame(rows, columns=list(FIGURE_COLUMNS))
    return RatingBenchmark(
        name=f"lau2020/{context}",
        title=_TITLES[context],
        source="Lau et al. (2020)",
        ratings=rating.rename("rating").rename_axis("sentence").reset_index(),
        figures=figures,
    )


LAU2020 = DataSet(
    name="lau2020",
    title="acceptability of 250 sentences in three contexts, ten to twenty single ratings of each",
    citation=(
        "Lau JH, Armendariz C, Lappin S, Purver M, Shu C (2020). How furiously can colorless green "
        "ideas sleep? Sentence acceptability in context. TACL 8, 296-310, doi 10.1162/tacl_a_00315"
    ),
    licence="Apache 2.0",
    terms="Whoever passes the files on keeps the licence with them and says what was changed.",
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _PLACE.format("none"): (
                "sha256:b3db734911da9636e36d7ee57ef3e53a66dd10bfc0832b8df24c8dfebdfed5fd",
                46_400,
            ),
            _PLACE.format("real"): (
                "sha256:a36f4bfe8d05cf4f4f01827a9772b901b672d57a92991f72023a4fe9240da1fe",
                141_398,
            ),
            _PLACE.format("random"): (
                "sha256:f1d26417e8f93cfe87c506b965cbb423eee3039f7025f5e35f035c7876aec6b5",
                141_502,
            ),
        },
    ),
    benchmarks={context: partial(_ratings, context=context) for context in _TITLES},
)
