"""Writing a checkpoint so that its folder is there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contstim.files import replacing

__all__ = ["write_checkpoint"]

# Name of the record that tells how a checkpoint came about.
_RECORD = "adaptation.json"


def write_checkpoint(folder: Path, model: Any, tokenizer: Any, record: dict[str, Any]) -> None:
    """Write network, tokenizer and record into a new folder, on the disk before it has its name.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (temporary / _RECORD).write_text(text, encoding="utf-8")
