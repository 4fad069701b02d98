"""Models that lie in other packages, found and converted once.

A package is found by the metadata of its installation and never imported. What is made from its
files is kept in a folder of the user's, whole or not at all.
"""

from __future__ import annotations

import glob
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import platformdirs

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.files import file_digest, lock, remove, replacing


def cache_folder() -> Path:
    """Return the folder for converted models: ``$CONTSTIM_CACHE``, or the user's cache."""
    if own := os.environ.get("CONTSTIM_CACHE"):
        return Path(own)
    return platformdirs.user_cache_path("contstim", appauthor=False)


def package_file(model: str, package: str, ending: str, install: str) -> Path:
    """Return the file of an installed package whose name ends in `ending`.

    Parameters
    ----------
    model
        The model that needs it, for messages.
    package
        The package's name, as pip knows it.
    ending
        How the file's name ends.
    install
        What to type to install the package.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    ModelFileError
        If it has no such file.
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            f"{model} is in the package {package}, which is not installed; {install}"
        ) from error
    for entry in files:
        path = Path(str(entry.locate()))
        if entry.name.endswith(ending) and path.is_file():
            return path
    version = importlib.metadata.version(package)
    raise ModelFileError(
        f"{model}: the package {package} {version} has no file *{ending}; install it again"
    )


def digest_of_files(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of files' SHA-256s, in order.

    Raises
    ------
    ModelFileError
        If a file cannot be read.
    """
    whole = hashlib.sha256()
    for path in paths:
        try:
            whole.update(bytes.fromhex(file_digest(path)))
        except OSError as error:
            raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    return whole.hexdigest()[:16]


def convert_once(name: str, write: Callable[[Path], object]) -> Path:
    """Return the file or folder `name` of the cache folder, made by `write` if it is not there.

    It is written beside its place and moved there when it is whole and on the disk, so whatever
    interrupts the writing leaves nothing that could be taken for it. Other processes that want it
    at the same time wait.

    Parameters
    ----------
    name
        Its name, which should change with what it is made from.
    write
        Makes the file or folder at the path it is given.

    Raises
    ------
    OutputError
        If the cache folder cannot be written.
    """
    target = cache_folder() / name
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target.with_name(f".{name}.lock"), str(target), wait=True):
            if not target.exists():
                print(f"converting a model, once, into {target}", file=sys.stderr)
                for left in target.parent.glob(f".{glob.escape(name)}.*.tmp"):
                    remove(left)  # of a conversion that was cut short
                with replacing(target) as temporary:
                    write(temporary)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot write the cache folder {str(target.parent)!r}: {error.strerror or error}; set "
            "CONTSTIM_CACHE to a folder that can be written"
        ) from error
    return target
