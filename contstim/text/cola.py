"""Acceptability judgements in the format of CoLA (Warstadt, Singh & Bowman 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.text_files import read_lines

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
    for number, line in read_lines(path):
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
