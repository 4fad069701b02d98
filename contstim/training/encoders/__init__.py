"""Scores that are learnt: students of other models, and acceptability classifiers.

Both compute one number from the first token's vector of an encoder, in one forward pass per
sentence. This module reads the records in their folders, without torch.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from contstim.errors import ModelFileError
from contstim.files import decode_json
from contstim.models import ModelSpec
from contstim.models.base import ScoreKind

#: The file of a folder that says what the model is and what it reaches.
CARD = "README.md"
#: The file of a folder that says, as JSON, how the model was made.
RECORD = "contstim.json"


def read_record(folder: Path, kind: str) -> dict[str, Any]:
    """Read what a folder says of itself.

    Raises
    ------
    ModelFileError
        If there is no such folder, or it does not hold a learnt model of this `kind`.
    """
    try:
        record = decode_json((folder / RECORD).read_text("utf-8"))
    except OSError as error:
        raise ModelFileError(
            f"{str(folder)!r} is not a folder of a {kind} ({RECORD}: {error.strerror}); "
            "check the path"
        ) from None
    except ValueError as error:
        raise ModelFileError(
            f"{RECORD} in {str(folder)!r} is damaged ({error}); make the {kind} again"
        ) from None
    kind_found = record.get("kind") if isinstance(record, dict) else None
    if kind_found != kind:
        raise ModelFileError(
            f"{str(folder)!r} holds a {kind_found or 'thing unknown'}, not a {kind}"
        )
    return dict(record)


def student_kind(spec: ModelSpec) -> ScoreKind:
    """Return what a student's score is: an estimate that exceeds no score of its teacher.

    Of its teacher nothing is known where the folder is not to be read, as on another machine.
    """
    try:
        teacher = read_record(spec.path, "student")["teacher"]
    except (KeyError, ModelFileError):
        teacher = {}
    highest = teacher.get("highest")
    return ScoreKind(
        "estimate of a score",
        "score",
        math.inf if highest is None else float(highest),
        splits_over_words=False,
        # Older records do not say it.
        differs_in_nats=bool(teacher.get("differs_in_nats", True)),
    )


def classifier_kind(spec: ModelSpec) -> ScoreKind:
    """Return what a classifier's score is: the probability of no sentence."""
    margin = spec.get("output", "confidence") == "margin"
    return ScoreKind(
        "margin" if margin else "signed confidence",
        "score",
        math.inf if margin else 1.0,
        splits_over_words=False,
        differs_in_nats=False,
    )
