"""Writing a checkpoint so that its folder is there whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from contstim.errors import OutputError
from contstim.files import replacing

__all__ = ["RECORD", "check_new", "write_checkpoint"]

#: Name of the record that tells how a checkpoint came about.
RECORD = "adaptation.json"


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already, and a place that cannot be written to.

    Raises
    ------
    OutputError
        Naming the place.
    """
    if folder.exists():
        raise OutputError(f"{folder} is there already; give a new folder")
    parent = folder.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OutputError(f"cannot write into {parent}; make the folder or give another place")


def write_checkpoint(folder: Path, model: Any, tokenizer: Any, record: dict[str, Any]) -> None:
    """Write network, tokenizer and record into a new folder, on the disk before it has its name.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    with replacing(folder) as temporary:
        temporary.mkdir()
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (temporary / RECORD).write_text(text, encoding="utf-8")
