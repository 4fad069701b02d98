"""Writing small files so that each is there whole or not at all, whatever dies."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from contstim.errors import OutputError

__all__ = ["digest_of", "write_whole"]


def digest_of(value: Any) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of a JSON value, keys in order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def write_whole(path: Path, text: str) -> None:
    """Put `text` (UTF-8) at `path` in one step and on the disk before returning.

    The text goes to a temporary file beside `path`, which is synchronised and renamed; then the
    folder is synchronised. That holds on local disks and on the network file systems of clusters:
    readers see the old file or the new one, and a file that was seen survives a power cut.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    # Another process, on another machine too, may write the same file at the same time.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        _make_folder(path.parent)
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _synchronise(path.parent)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _synchronise(folder.parent)


def _synchronise(folder: Path) -> None:
    if os.name != "posix":
        return  # Windows cannot open folders; its renames are journalled.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
