"""The tables that stages leave, each with what it was made from, to know whether it still holds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contstim.files import digest_of, file_digest, write_whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StageTable", "csv_text", "frame_text"]


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; floats are written so that they read back as the same float64."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([repr(float(v)) if isinstance(v, float) else v for v in row])
    return text.getvalue()


def frame_text(frame: pd.DataFrame) -> str:
    """Return a table as CSV, without its index; missing values are empty."""
    plain = frame.astype(object).where(frame.notna(), "")
    return csv_text([str(name) for name in frame.columns], plain.itertuples(index=False, name=None))


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON value")


@dataclass(frozen=True)
class StageTable:
    """A stage's CSV file and, beside it, ``FILE.meta.json``: its inputs, digest and notes."""

    path: Path

    @property
    def meta(self) -> Path:
        """The file beside it."""
        return self.path.with_name(self.path.name + ".meta.json")

    def holds(self, inputs: Any) -> bool:
        """Return whether the file is whole and was made from `inputs`, JSON values."""
        try:
            meta = json.loads(self.meta.read_text("utf-8"))
            same = meta["sha256"] == self.sha256 is not None
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return bool(same and meta["inputs"] == digest_of(inputs))

    @property
    def sha256(self) -> str | None:
        """Digest of the file's bytes; None if it is not there."""
        if not self.path.is_file():
            return None
        return file_digest(self.path)

    @property
    def notes(self) -> dict[str, Any] | None:
        """What is noted beside it; None if that cannot be read."""
        try:
            notes = json.loads(self.meta.read_text("utf-8"))["notes"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return notes if isinstance(notes, dict) else None

    def write(self, text: str, inputs: Any, notes: dict[str, Any]) -> None:
        """Put the table in place; without its meta file, written last, it does not hold."""
        write_whole(self.path, text)
        meta = {"inputs": digest_of(inputs), "sha256": self.sha256, "notes": notes}
        text = json.dumps(meta, indent=1, ensure_ascii=False, default=_plain) + "\n"
        write_whole(self.meta, text)
