"""What participants were shown, by its digest: settings, texts, versions of the programs."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from contstim.experiment.study import Study
from contstim.experiment.vendor import page_version
from contstim.files import digest

_PARTS = (
    "study",
    "consent",
    "trial",
    "device",
    "session",
    "allocation",
    "practice",
    "attention",
    "questions",
)


def materials_digest(study: Study) -> str:
    """Return the SHA-256 of what a study shows and how, its trials and consent text apart."""
    return digest(_content(study))


def keep_materials(connection: sqlite3.Connection, study: Study) -> str:
    """Store what a study shows, once, and return its digest; within a transaction."""
    content = _content(study)
    connection.execute("INSERT OR IGNORE INTO materials VALUES (?, ?)", (digest(content), content))
    return digest(content)


def _content(study: Study) -> str:
    content: dict[str, Any] = {
        "contstim": version("contstim"),
        "page": page_version(),
        "texts": dict(study.texts),
        **({} if study.module is None else {"module": study.module}),
        **({} if study.adaptive is None else {"adaptive": asdict(study.adaptive)}),
    }
    for name in _PARTS:
        part = getattr(study, name)
        content[name] = [asdict(one) for one in part] if isinstance(part, tuple) else asdict(part)
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
