"""de Varda et al. (2024): cloze probability and predictability of words in 205 sentences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from contstim.datasets.dataset import DataSet, github_files
from contstim.tables import read_table

_REPOSITORY = "Andrea-de-Varda/prediction-resource"
_COMMIT = "7162734da00a9a3c81d5ebaec65bdf6d59e931fc"
_CLOZE = "ratings_and_cloze.csv"


def _cloze(folder: Path) -> pd.DataFrame:
    return read_table(folder / _CLOZE, ["sentence", "word", "sent_id"], cells="guessed")


DEVARDA2024 = DataSet(
    name="devarda2024",
    title="cloze probability and rated predictability of the words of 205 sentences",
    citation=(
        "de Varda AG, Marelli M, Amenta S (2024). Cloze probability, predictability ratings, and "
        "computational estimates for 205 English sentences, aligned with existing EEG and reading "
        "time data. Behavior Research Methods 56, doi 10.3758/s13428-023-02261-8"
    ),
    licence="none stated",
    terms="Do not pass the files on.",
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _CLOZE: (
                "sha256:316fd66ca2b413e8cd198077c6f4b464f9d11660625dca1c27797f8a8ab68586",
                272_310,
            ),
        },
    ),
    tables={"cloze": _cloze},
    missing=(
        "It is about words within sentences: there is a table and no benchmark. Reading times and "
        "EEG aligned with it are others' and are not fetched."
    ),
)
