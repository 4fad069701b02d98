"""What engines have answered, kept so that nothing is asked and paid for twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contstim.errors import InputError
from contstim.files import digest_of, json_value, write_whole
from contstim.models.engines import Echo

# Of what is on no disk, how many texts stay.
_MOST = 50_000


class Answers:
    """Answers of one engine, kept in memory and, if there is a folder, on the disk.

    A folder may hold those of several engines, and several processes may share it: each request
    is a file, written whole.

    Parameters
    ----------
    folder
        Where they are kept; made when the first come. None: nowhere.
    engine
        Which engine it is.

    Raises
    ------
    InputError
        If a file is damaged.
    """

    def __init__(self, folder: Path | None, engine: str) -> None:
        self._folder = None if folder is None else folder / digest_of(engine)
        self._engine = engine
        # As text, which takes a tenth of the memory.
        self._lines: dict[str, str] = {}
        #: By how much two scores of a text differed when the engine was first tried, if it was.
        self.resolution: float | None = None
        for path in [] if self._folder is None else sorted(self._folder.glob("*.json")):
            try:
                record = json_value(path.read_text("utf-8"))
                self._lines.update({a["text"]: json.dumps(a) for a in record["answers"]})
                self.resolution = record.get("resolution", self.resolution)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path} is no file of answers ({error}); remove it") from None

    def __contains__(self, text: str) -> bool:
        return text in self._lines

    def __getitem__(self, text: str) -> Echo:
        answer = json.loads(self._lines[text])
        values = [np.nan if v is None else v for v in answer["log_probs"]]
        nothing = np.full(len(values), np.nan)
        tokens, starts = tuple(answer["tokens"]), np.array(answer["starts"], dtype=np.int64)
        return Echo(tokens, starts, np.array(values, dtype=np.float64), nothing, nothing)

    def add(self, texts: Sequence[str], echoes: Sequence[Echo], **more: float) -> None:
        """Keep the answers of a request; they are on the disk when this returns.

        Raises
        ------
        OutputError
            If the folder cannot be written to.
        """
        answers = [_record(text, echo) for text, echo in zip(texts, echoes, strict=True)]
        self._lines.update({answer["text"]: json.dumps(answer) for answer in answers})
        if self._folder is None:
            while len(self._lines) > max(_MOST, len(texts)):
                del self._lines[next(iter(self._lines))]
            return
        record = {"engine": self._engine, **more, "answers": answers}
        name = f"{digest_of(list(texts))}.json"
        write_whole(self._folder / name, json.dumps(record, ensure_ascii=False, indent=0) + "\n")


def _record(text: str, echo: Echo) -> Mapping[str, Any]:
    return {
        "text": text,
        "tokens": list(echo.tokens),
        "starts": echo.starts.tolist(),
        "log_probs": [None if np.isnan(value) else float(value) for value in echo.log_probs],
    }
