"""Scores that are learnt: students of other models, and acceptability classifiers.

Both read one number off the first token's vector of an encoder, in one forward pass a sentence.
Here, torch-free: what their folders say of themselves, files in the format of CoLA, and the measure
that goes with those, which the evaluation takes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError
from contstim.files import json_value
from contstim.models import ModelSpec
from contstim.models.base import ScoreKind
from contstim.tables import numbered_lines

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
        record = json_value((folder / RECORD).read_text("utf-8"))
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
        rises_with_acceptability=bool(teacher.get("rises_with_acceptability", True)),
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


#: The public files of CoLA: to learn from, and to choose by within and outside its sources.
PARTS = ("in_domain_train", "in_domain_dev", "out_of_domain_dev")


@dataclass(frozen=True, eq=False)
class LabelledSentences:
    """S sentences and their labels (S,), 1 acceptable and 0 not."""

    sentences: list[str]
    labels: IntArray

    def __len__(self) -> int:
        return len(self.sentences)


def read_cola(path: Path) -> LabelledSentences:
    """Read a file of four columns between tabs, without header: source, label, mark, sentence.

    Raises
    ------
    InputError
        If there is no such file, or a line has not four columns, a label other than 0 and 1, or
        no sentence; the message names the file and the line.

    Source
    ------
    Warstadt, Singh and Bowman (2019), doi 10.1162/tacl_a_00290.
    """
    sentences, labels = [], []
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != 4:
            raise InputError(
                f"{path}, line {number} has {len(cells)} columns, not the four of CoLA: source, "
                "label, mark, sentence, with tabs between"
            )
        label, sentence = cells[1].strip(), cells[3].strip()
        if label not in ("0", "1"):
            raise InputError(
                f"{path}, line {number} has the label {label!r}; labels are 1, acceptable, and 0"
            )
        if not sentence:
            raise InputError(f"{path}, line {number} has no sentence; fill or remove the line")
        sentences.append(sentence)
        labels.append(int(label))
    if not sentences:
        raise InputError(f"{path} holds no sentence; give a file in the format of CoLA")
    return LabelledSentences(sentences, np.array(labels, dtype=np.int64))


def read_cola_folder(folder: Path) -> dict[str, LabelledSentences]:
    """Read the three files ``PART.tsv`` of `PARTS`.

    Raises
    ------
    InputError
        As `read_cola`; and if a part has sentences of one label only.
    """
    parts = {}
    for name in PARTS:
        path = folder / f"{name}.tsv"
        parts[name] = read_cola(path)
        if np.ptp(parts[name].labels) == 0:
            raise InputError(
                f"{path} has the label {parts[name].labels[0]} alone; a part needs acceptable and "
                "unacceptable sentences"
            )
    return parts


def matthews_correlation(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return Matthews' correlation of two binary vectors; 0 if one of them is constant.

    Source
    ------
    Matthews (1975), doi 10.1016/0005-2795(75)90109-9. The value 0 for a constant vector is the
    convention of scikit-learn.
    """
    truth, guess = (np.asarray(v) > 0 for v in (labels, predictions))
    if truth.shape != guess.shape:
        raise InputError(f"{truth.shape} labels do not match {guess.shape} predictions")
    if truth.all() or not truth.any() or guess.all() or not guess.any():
        return 0.0
    return float(np.corrcoef(truth.astype(float), guess.astype(float))[0, 1])
