"""Published data sets: their licences, their files, and where to get them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files as package_files
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from contstim.display import displayable
from contstim.errors import ContstimError, InputError, require_known
from contstim.files import cache_folder, file_digest
from contstim.plugins import Registry

if TYPE_CHECKING:
    from contstim.benchmarks.benchmark import Benchmark

#: A function that reads a benchmark from the files of a data set, which have their published names.
Reader = Callable[[Mapping[str, Path]], "Benchmark"]


@dataclass(frozen=True)
class DataFile:
    """A file of a published data set.

    Attributes
    ----------
    name
        Name of the file, without folders.
    size
        Size in bytes.
    sha256
        SHA-256 of the content, 64 hexadecimal digits.
    url
        URL of the file.
    """

    name: str
    size: int
    sha256: str
    url: str


@displayable
@dataclass(frozen=True, eq=False, kw_only=True)
class DataSet:
    """Published human data on sentences.

    Attributes
    ----------
    name
        Name in commands and in `fetch`.
    title
        One line of description.
    citation
        Authors, title, place of publication and DOI.
    licence
        Short name such as ``MIT``, or ``none stated``.
    terms
        Conditions of the licence, in one or two sentences.
    source
        URL of the web page that publishes the data.
    files
        Published files, which are downloaded together.
    benchmarks
        Functions that read a benchmark from the files, by the name of the benchmark.

    Examples
    --------
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
    benchmarks: Mapping[str, Reader]

    @property
    def card(self) -> str:
        """Title, source, citation and licence, one per line."""
        return (
            f"{self.name}: {self.title}\nSource: {self.source}\nCite: {self.citation}\n"
            f"Licence: {self.licence}. {self.terms}"
        )


class MissingFileError(InputError):
    """Error for a folder that lacks a file of a data set."""


class _Files(dict[str, Path]):
    """Local paths of a data set's files, by published file name.

    Access to a file that is not there raises `MissingFileError`, which names its URL.
    """

    def __init__(self, data_set: DataSet, source: Path | None) -> None:
        super().__init__()
        self.data_set, self.source = data_set, source

    def __missing__(self, name: str) -> Path:
        file = next(file for file in self.data_set.files if file.name == name)
        raise MissingFileError(
            f"{self.source} has no file {name} as {self.data_set.name} was published; download "
            f"{file.url} into it"
        )


@displayable
@dataclass(frozen=True, eq=False)
class FetchedData:
    """A data set with its files on this machine.

    Attributes
    ----------
    data_set
        Description of the data set.
    files
        Local paths by published file name.
    notes
        Notes on files that differ from the published ones.

    Examples
    --------
    >>> fetch("golan2023").benchmark("exp2").title  # doctest: +SKIP
    'Pairs on which two scores of one model disagree, 30 participants'
    """

    data_set: DataSet
    files: Mapping[str, Path]
    notes: tuple[str, ...] = field(default=())

    def benchmark(self, name: str = "") -> Benchmark:
        """Read a benchmark of the data set from its files.

        Parameters
        ----------
        name
            Name of the benchmark; by default the first one.

        Raises
        ------
        UnknownNameError
            If the data set has no benchmark of this name.
        InputError
            If its files are missing or cannot be read.
        """
        readers = self.data_set.benchmarks
        # By default, read the first benchmark.
        chosen = name or next(iter(readers), "")
        require_known(f"benchmark of {self.data_set.name}", chosen, readers)
        # A reader converts the files of the data set to a benchmark.
        try:
            return readers[chosen](self.files)
        except ContstimError:
            raise
        except (ValueError, LookupError) as error:
            raise InputError(
                f"the files of {self.data_set.name} are not as they were published ({error}); "
                f"download them from {self.data_set.source}"
            ) from error


def _bundled_data_sets() -> dict[str, DataSet]:
    """Read the descriptions of the bundled data sets from the file ``data_sets.toml``.

    Returns
    -------
    dict
        Data sets by name. Their files are not downloaded yet.
    """
    text = (package_files("contstim.benchmarks") / "data_sets.toml").read_text("utf-8")
    data_sets = {}
    for name, declared in tomllib.loads(text).items():
        repository, commit = declared["repository"], declared["commit"]
        # Files are downloaded from a fixed commit, so that their content cannot change.
        raw_url = f"https://raw.githubusercontent.com/{repository}/{commit}/"
        files = tuple(
            DataFile(Path(path).name, size, sha256, raw_url + quote(path))
            for path, size, sha256 in declared["files"]
        )
        # A data set may have several benchmarks. Their files are read on demand.
        benchmarks: dict[str, Reader] = {}
        for part, options in declared["benchmarks"].items():
            benchmarks[part] = partial(
                _read_benchmark, name=f"{name}/{part}", reference=declared["reference"], **options
            )
        data_sets[name] = DataSet(
            name=name,
            title=declared["title"],
            citation=declared["citation"],
            licence=declared["licence"],
            terms=declared["terms"],
            source=f"https://github.com/{repository}/tree/{commit}",
            files=files,
            benchmarks=benchmarks,
        )
    return data_sets


def _read_benchmark(
    files: Mapping[str, Path],
    *,
    name: str,
    reference: str,
    title: str,
    reader: str,
    published_results: list[list[object]] | None = None,
    place: str = "",
    **options: Any,
) -> Benchmark:
    """Read a benchmark that is declared in ``data_sets.toml``.

    Parameters
    ----------
    files
        Local paths by published file name.
    name, title, reference
        Name, one-line description and publication of the benchmark.
    reader
        Name of the function in `READERS` that converts the files to a benchmark.
    published_results
        Results printed in the publication: rows in the order of
        `PUBLISHED_RESULT_COLUMNS`, without the last column, `place`.
    place
        Table or page of the printed results.
    **options
        Further arguments of the reader.
    """
    from contstim.benchmarks import readers  # loads the evaluation, which listing does without
    from contstim.benchmarks.benchmark import published_table

    shared = {"name": name, "title": title, "source": reference}
    table = published_table((*row, place) for row in published_results or ())
    return readers.READERS[reader](files, {**shared, "published_results": table}, **options)


#: Published data sets by name. Installed packages add more by entry points of the group
#: ``contstim.datasets``.
DATA_SETS: Registry[DataSet] = Registry(
    "data set", "contstim.datasets", _bundled_data_sets(), DataSet
)


def data_folder(data_set: DataSet) -> Path:
    """Return the folder of a data set in the cache (``$CONTSTIM_CACHE`` or the user's cache)."""
    return cache_folder() / "datasets" / data_set.name


def fetch(name: str, source: str | Path | None = None) -> FetchedData:
    """Return a published data set, downloaded or from a folder.

    Downloaded files are checked by their SHA-256 and stay in the cache. Source, citation and
    licence are printed on standard error before the first download.

    Parameters
    ----------
    name
        Name in `DATA_SETS`, such as ``golan2023``.
    source
        Folder with the published files, which are then not downloaded. Files are identified by
        their content, otherwise by name in any case; a note reports content that differs from the
        published file.

    Raises
    ------
    UnknownNameError
        If there is no such data set.
    InputError
        If a file cannot be downloaded, or its content differs from the published file.

    Examples
    --------
    >>> fetch("golan2023").benchmark("exp2").title  # doctest: +SKIP
    'Pairs on which two scores of one model disagree, 30 participants'
    """
    data_set = DATA_SETS[name]
    if source is not None:
        return _find_files(data_set, Path(source))
    return FetchedData(data_set, _download_files(data_set))


def _find_files(data_set: DataSet, source: Path) -> FetchedData:
    """Find the files of a data set in a folder by their content, otherwise by their names.

    Missing files raise an error only when they are read, since a benchmark may not need them all.

    Parameters
    ----------
    data_set
        Data set with the sizes and digests of its files.
    source
        Folder to search, including its subfolders.

    Returns
    -------
    FetchedData
        Paths of the files that were found. A note reports content that differs from the published
        file.

    Raises
    ------
    InputError
        If there is no such folder.
    """
    if not source.is_dir():
        raise InputError(f"there is no folder {source}; give one with files of {data_set.name}")
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    files = _Files(data_set, source)
    notes: list[str] = []
    # Prefer a file with the published content, whatever its name. Otherwise use a file with the
    # published name, and note that its content differs. Comparing sizes first saves hashing.
    for file in data_set.files:
        same_content = (
            p for p in paths if p.stat().st_size == file.size and file_digest(p) == file.sha256
        )
        same_name = (p for p in paths if p.name.casefold() == file.name.casefold())
        if path := next(same_content, None):
            files[file.name] = path
        elif path := next(same_name, None):
            files[file.name] = path
            notes.append(
                f"{path} differs from the published file (SHA-256 {file_digest(path)[:12]}... "
                f"instead of {file.sha256[:12]}...)"
            )
    return FetchedData(data_set, files, tuple(notes))


def _download_files(data_set: DataSet) -> dict[str, Path]:
    """Download the files of a data set that the cache lacks; return all paths by file name."""
    import pooch  # loads requests, which reading from a folder does without

    folder = data_folder(data_set)
    # Before the first download, show the citation and the licence of the data set.
    if not folder.exists():
        print(data_set.card, f"Kept in {folder}", sep="\n", file=sys.stderr)
    # pooch stores downloads in a folder and checks their digests.
    pooch.get_logger().setLevel("ERROR")
    store = pooch.create(
        folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}" for file in data_set.files},
        urls={file.name: file.url for file in data_set.files},
    )
    # Download the files that are missing, and check the digests of all files.
    files = {}
    for file in data_set.files:
        try:
            path = store.fetch(file.name, downloader=partial(_download_bounded, size=file.size))
        except (ValueError, OSError) as error:  # requests' errors are OSErrors
            raise InputError(
                f"{file.name} of {data_set.name} cannot be downloaded ({error}); try again later, "
                f"or download {file.url} and name its folder, --from FOLDER"
            ) from error
        files[file.name] = Path(path)
    return files


class _BoundedFile(FileIO):
    """File open for writing that refuses more bytes than the published file has.

    A download from a faulty or malicious server therefore cannot fill the disk.
    """

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, "wb")
        self._n_remaining = size

    def write(self, content: Any, /) -> int:
        """Write bytes; raise ValueError beyond the maximum size."""
        self._n_remaining -= len(content)
        if self._n_remaining < 0:
            raise ValueError("the server sends more than the size of the published file")
        return super().write(content)


def _download_bounded(url: str, output_file: str, store: Any, *, size: int) -> None:
    """Download a file for `pooch`, but stop when the server sends more than `size` bytes."""
    from pooch import HTTPDownloader

    with _BoundedFile(output_file, size) as file:
        HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)(url, file, store)
