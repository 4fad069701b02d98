"""Students and acceptability classifiers: an encoder with a linear head.

Both compute one score per sentence from the output of the first token, in one forward pass. This
module reads the training records in their folders without importing PyTorch.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from contstim.errors import ModelFileError
from contstim.files import decode_json
from contstim.models import ModelSpec
from contstim.models.base import ScoreKind

#: Name of the model card in the folder of a model.
CARD = "README.md"
#: Name of the training record in the folder of a model.
RECORD = "contstim.json"


def read_record(folder: Path, kind: str) -> dict[str, Any]:
    """Read the training record of a student or classifier, a JSON file beside the trained weights.

    A student is a small network that estimates the scores of another model. A classifier
    distinguishes acceptable from unacceptable sentences.

    Parameters
    ----------
    folder
        Folder of the model.
    kind
        Expected kind of model: ``student`` or ``classifier``.

    Raises
    ------
    ModelFileError
        If the folder does not exist or does not contain a model of this kind.
    """
    try:
        # The training record is a JSON file in the folder of the model, with the name `RECORD`.
        record = decode_json((folder / RECORD).read_text("utf-8"))
    except OSError as error:
        raise ModelFileError(
            f"{str(folder)!r} is not a folder of a {kind} ({RECORD}: {error.strerror}); "
            "check the path"
        ) from None
    except ValueError as error:
        raise ModelFileError(
            f"{RECORD} in {str(folder)!r} is damaged ({error}); train the {kind} again"
        ) from None
    # The key "kind" of the record states whether the model is a student or a classifier.
    found_kind = record.get("kind") if isinstance(record, dict) else None
    if found_kind != kind:
        raise ModelFileError(
            f"{str(folder)!r} contains a {found_kind or 'model of unknown kind'}, not a {kind}"
        )
    return dict(record)


def student_kind(spec: ModelSpec) -> ScoreKind:
    """Describe the scores of a student, a small network that estimates the scores of a teacher.

    The estimates have the same upper bound as the teacher's scores. The bound is infinite if the
    training record cannot be read, for example because it is on another machine.

    Parameters
    ----------
    spec
        Specification of the student, with the path of its folder.
    """
    try:
        teacher = read_record(spec.path, "student")["teacher"]
    except (KeyError, ModelFileError):
        teacher = {}
    upper_bound = teacher.get("highest")  # highest possible score of the teacher
    return ScoreKind(
        name="estimate of a score",
        unit="score",  # the unit is called "score" if it is not the nat
        highest=math.inf if upper_bound is None else float(upper_bound),
        splits_over_words=False,
        # Is the difference between two scores a log-probability ratio in nats? Without a record,
        # assume that the teacher's scores are log-probabilities.
        differs_in_nats=bool(teacher.get("differs_in_nats", True)),
    )


def classifier_kind(spec: ModelSpec) -> ScoreKind:
    """Describe the scores of an acceptability classifier, which are not log-probabilities.

    By default, the score is a signed confidence between -1 (unacceptable) and 1 (acceptable). With
    the option ``output=margin`` of the specification, it is the unbounded difference between the
    logits of the two classes.

    Parameters
    ----------
    spec
        Specification of the classifier, with its options.
    """
    if spec.get("output", "confidence") == "margin":
        name, upper_bound = "margin", math.inf
    else:
        name, upper_bound = "signed confidence", 1.0
    return ScoreKind(
        name=name,
        unit="score",
        highest=upper_bound,
        # The score is not a sum over words, and differences between scores are not in nats.
        splits_over_words=False,
        differs_in_nats=False,
    )
