"""Data sets: human data that others published, fetched on demand; small tables that come along.

`fetch` has a published data set at hand, each of which is a module of this package. The tables,
`natural_scores`, `written_triplets` and `simulated_choices`, are to try every call on; they were
made by ``experiments/datasets/make.py`` in the repository, and their people are simulated: they
follow ``contstim:gpt`` with noise.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd

from contstim.datasets.dataset import DataFile, DataSet, FetchedData, github_files
from contstim.plugins import Registry
from contstim.tables import read_table

__all__ = [
    "DATA_SETS",
    "FOLLOWED",
    "DataFile",
    "DataSet",
    "FetchedData",
    "fetch",
    "github_files",
    "natural_scores",
    "simulated_choices",
    "written_triplets",
]

#: Published data sets by name. Installed packages bring more by entry points of the group
#: ``contstim.datasets``.
DATA_SETS: Registry[DataSet] = Registry(
    "data set",
    "contstim.datasets",
    {
        "golan2023": "contstim.datasets.golan2023:GOLAN2023",
        "golan2023-exp1": "contstim.datasets.golan2023:GOLAN2023_EXP1",
        "golan2023-stimuli": "contstim.datasets.golan2023:GOLAN2023_STIMULI",
        "li_adger": "contstim.datasets.li_adger:LI_ADGER",
        "lau2020": "contstim.datasets.lau2020:LAU2020",
        "events": "contstim.datasets.events:EVENTS",
        "sprouse2013": "contstim.datasets.sprouse2013:SPROUSE2013_TASKS",
        "cola": "contstim.datasets.suites:COLA",
        "syntaxgym": "contstim.datasets.suites:SYNTAXGYM",
        "devarda2024": "contstim.datasets.devarda2024:DEVARDA2024",
        "blimp": "contstim.datasets.blimp:BLIMP_PAIRS",
    },
    DataSet,
)

#: The model that the simulated people of `simulated_choices` follow.
FOLLOWED = "contstim:gpt"


def fetch(name: str, source: str | Path | None = None) -> FetchedData:
    """Have a published data set at hand.

    Its files are fetched unless they are in the cache (``$CONTSTIM_CACHE``, or the user's cache),
    and checked by their digests. The first time, what the data set is, whose it is and under which
    terms is printed on standard error.

    Parameters
    ----------
    name
        One of `DATA_SETS`, such as ``golan2023``.
    source
        A folder that has the files, for machines without a network.

    Returns
    -------
    FetchedData
        Its folder, and what can be read from it.

    Raises
    ------
    UnknownNameError
        If there is no such data set.
    InputError
        If a file cannot be had, or has other content than was published.
    OutputError
        If the cache cannot be written to.

    Examples
    --------
    >>> fetch("golan2023").benchmark("exp2").title  # doctest: +SKIP
    'Controversial pairs of six estimates, 30 people'
    """
    from contstim.datasets.fetching import get_files  # half of the time that tables take

    data_set = DATA_SETS[name]
    return FetchedData(data_set, get_files(data_set, None if source is None else Path(source)))


def natural_scores() -> pd.DataFrame:
    """Return log-probabilities of the 724 bundled natural sentences under eight models.

    Returns
    -------
    DataFrame
        Shape (724, 8), nats: the index is the sentence, a column per model: five bundled ones and
        three real ones, SmolLM2, DistilBERT under a head of ours and a trigram of 72,547 words.

    Examples
    --------
    >>> natural_scores()[["contstim:bigram", "contstim:gpt"]].head(2).round(1)
                                                  contstim:bigram  contstim:gpt
    sentence
    The curtains she chose were much too dark.              -52.7         -45.4
    Nobody wanted to work under the new foreman.            -47.2         -46.9
    """
    return _read("natural_scores.csv").set_index("sentence").astype(float)


def written_triplets() -> pd.DataFrame:
    """Return 35 readable triplets for two pairs of bundled models, written by SmolLM2.

    Returns
    -------
    DataFrame
        As :data:`contstim.tables.TRIPLETS`: 18 for the bigram and the trigram, 17 for the trigram
        and the GPT.

    Examples
    --------
    >>> written_triplets()["synthetic_1"].iloc[1]
    'I am afraid of my brother and mother in law.'
    >>> written_triplets()["synthetic_2"].iloc[1]
    'In my youth I was afraid of snakes and spiders too.'
    """
    return _read("triplets.csv")


def simulated_choices() -> pd.DataFrame:
    """Return the choices of 30 simulated people, who follow ``contstim:gpt`` with noise.

    Returns
    -------
    DataFrame
        A row per trial and person, as `evaluate` reads them: six groups of five people, on the
        triplets of `written_triplets`, on natural pairs and on catch trials.

    Examples
    --------
    >>> simulated_choices()[["participant", "trial", "condition", "rating"]].head(2)
       participant  trial               condition  rating
    0            1      1  natural_vs_synthetic_1    -0.5
    1            1      2   natural_controversial     1.5
    """
    return _read("choices.csv")


def _read(name: str) -> pd.DataFrame:
    with as_file(files("contstim") / "data" / name) as path:
        return read_table(path, cells="guessed")
