"""Published human data sets, fetched on demand."""

from __future__ import annotations

from pathlib import Path

from contstim.benchmarks.datasets.dataset import DataFile, DataSet, FetchedData, github_files
from contstim.plugins import Registry

__all__ = [
    "DATA_SETS",
    "DataFile",
    "DataSet",
    "FetchedData",
    "fetch",
    "github_files",
]

#: Published data sets by name. Installed packages bring more by entry points of the group
#: ``contstim.datasets``.
DATA_SETS: Registry[DataSet] = Registry(
    "data set",
    "contstim.datasets",
    {
        "golan2023": "contstim.benchmarks.datasets.golan2023:GOLAN2023",
        "golan2023-exp1": "contstim.benchmarks.datasets.golan2023:GOLAN2023_EXP1",
        "golan2023-stimuli": "contstim.benchmarks.datasets.golan2023:GOLAN2023_STIMULI",
        "li_adger": "contstim.benchmarks.datasets.li_adger:LI_ADGER",
        "lau2020": "contstim.benchmarks.datasets.lau2020:LAU2020",
        "events": "contstim.benchmarks.datasets.events:EVENTS",
        "sprouse2013": "contstim.benchmarks.datasets.sprouse2013:SPROUSE2013_TASKS",
        "cola": "contstim.benchmarks.datasets.suites:COLA",
        "syntaxgym": "contstim.benchmarks.datasets.suites:SYNTAXGYM",
        "devarda2024": "contstim.benchmarks.datasets.devarda2024:DEVARDA2024",
        "blimp": "contstim.benchmarks.datasets.blimp:BLIMP_PAIRS",
    },
    DataSet,
)


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
    from contstim.benchmarks.datasets.fetching import get_files  # half of the time that tables take

    data_set = DATA_SETS[name]
    return FetchedData(data_set, get_files(data_set, None if source is None else Path(source)))
