"""Data sets that others published: what one is, its files, and what is read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from contstim.display import displayed
from contstim.errors import require_known

if TYPE_CHECKING:
    import pandas as pd

    from contstim.benchmarks import Benchmark


@dataclass(frozen=True)
class DataFile:
    """A file of a data set, which is the same wherever it comes from.

    Attributes
    ----------
    path
        Where it is below the data set's folder, with ``/``; mostly as where it was published.
    digest
        ``sha256:`` and the SHA-256 of its bytes; or ``git:`` and the name of its git object, where
        a commit says no more of a file. Empty if it is not known: then the file is not fetched.
    size
        Its bytes; None if that is not known.
    addresses
        Where it can be had, in the order in which they are tried.

    Examples
    --------
    >>> from contstim.benchmarks.datasets import DATA_SETS
    >>> file = DATA_SETS["golan2023"].files[0]
    >>> file.size, file.digest[:15]
    (1727546, 'sha256:e1606c56')
    """

    path: str
    digest: str
    size: int | None
    addresses: tuple[str, ...]


def github_files(
    repository: str, commit: str, files: Mapping[str, tuple[str, int | None]]
) -> tuple[DataFile, ...]:
    """Return files of a GitHub repository as they are at a commit, with two mirrors.

    The mirrors are jsDelivr, and the archive of Software Heritage, which has files by digest.

    Parameters
    ----------
    repository
        ``owner/name``.
    commit
        40 hexadecimal digits.
    files
        From path to digest, as of `DataFile`, and size.

    Examples
    --------
    >>> file = github_files("owner/name", "f5304ae", {"data.csv": ("sha256:e16", 12)})[0]
    >>> file.addresses[0]
    'https://raw.githubusercontent.com/owner/name/f5304ae/data.csv'
    """
    kinds = {"sha256": "sha256", "git": "sha1_git"}
    made = []
    for path, (digest, size) in files.items():
        kind, _, digits = digest.partition(":")
        place = quote(path)
        addresses = (
            f"https://raw.githubusercontent.com/{repository}/{commit}/{place}",
            f"https://cdn.jsdelivr.net/gh/{repository}@{commit}/{place}",
            f"https://archive.softwareheritage.org/api/1/content/{kinds[kind]}:{digits}/raw/",
        )
        made.append(DataFile(path, digest, size, addresses))
    return tuple(made)


@displayed
@dataclass(frozen=True, eq=False, kw_only=True)
class DataSet:
    """Human data on sentences that somebody published.

    Attributes
    ----------
    name
        What commands and `fetch` call it.
    title
        What it is, in a line.
    citation
        Who made it, where, and its DOI.
    licence
        A short name, ``MIT``, or ``none stated``.
    terms
        What that lets one do, in a sentence or two.
    source
        The address of the place where it was published.
    files
        Its files.
    benchmarks
        From the name of each benchmark that it holds to a reader of its folder.
    tables
        From the name of each further table to a reader of its folder.
    missing
        Why some or all of its files cannot be fetched, in a sentence; or nothing.

    Examples
    --------
    >>> from contstim.benchmarks.datasets import DATA_SETS
    >>> DATA_SETS["blimp"].licence, sorted(DATA_SETS["blimp"].benchmarks)
    ('CC BY 4.0', ['choices', 'pairs'])
    """

    name: str
    title: str
    citation: str
    licence: str
    terms: str
    source: str
    files: tuple[DataFile, ...]
    benchmarks: Mapping[str, Callable[[Path], Benchmark]] = field(default_factory=dict)
    tables: Mapping[str, Callable[[Path], pd.DataFrame]] = field(default_factory=dict)
    missing: str = ""

    @property
    def card(self) -> str:
        """What it is, whose, and under which terms, as lines of text."""
        lines = (
            f"{self.name}: {self.title}",
            f"Source: {self.source}",
            f"Cite: {self.citation}",
            f"Licence: {self.licence}. {self.terms}",
            self.missing,
        )
        return "\n".join(line for line in lines if line)


@displayed
@dataclass(frozen=True, eq=False)
class FetchedData:
    """A data set whose files are at hand.

    Attributes
    ----------
    data_set
        Which.
    folder
        Where its files are.

    Examples
    --------
    >>> from contstim.benchmarks.datasets import fetch
    >>> fetch("golan2023-stimuli").table("natural_scores").shape  # doctest: +SKIP
    (231725, 9)
    """

    data_set: DataSet
    folder: Path

    def benchmark(self, name: str = "") -> Benchmark:
        """Return one of its benchmarks, by default the first.

        Raises
        ------
        UnknownNameError
            If there is none of that name.
        InputError
            If its files cannot be read.
        """
        readers = self.data_set.benchmarks
        chosen = name or next(iter(readers), "")
        require_known(f"benchmark of {self.data_set.name}", chosen, readers)
        return readers[chosen](self.folder)

    def table(self, name: str) -> pd.DataFrame:
        """Return one of its further tables.

        Raises
        ------
        UnknownNameError
            If there is none of that name.
        InputError
            If its files cannot be read.
        """
        require_known(f"table of {self.data_set.name}", name, self.data_set.tables)
        return self.data_set.tables[name](self.folder)
