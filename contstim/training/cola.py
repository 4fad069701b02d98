"""Acceptability judgements in the format of CoLA (Warstadt, Singh & Bowman 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.text_files import read_lines

#: Public files of CoLA: training data, and validation data from the same and from other sources.
PARTS = ("in_domain_train", "in_domain_dev", "out_of_domain_dev")


@dataclass(frozen=True, eq=False)
class LabelledSentences:
    """S sentences and their labels (S,), 1 for acceptable and 0 for unacceptable."""

    sentences: list[str]
    labels: IntArray

    def __len__(self) -> int:
        return len(self.sentences)


def read_cola(path: Path) -> LabelledSentences:
    """Read sentences with acceptability labels from a file in the format of CoLA.

    The file is tab-separated and has no header. Its columns are the publication that the sentence
    comes from, the label (1 for acceptable, 0 for unacceptable), the mark of its author (``*`` or
    empty) and the sentence.

    Raises
    ------
    InputError
        If the file does not exist, or a line does not have four columns, a label 0 or 1 and a
        sentence. The message names the file and the line.

    Notes
    -----
    Format: Warstadt, Singh and Bowman (2019), doi 10.1162/tacl_a_00290.
    """
    sentences, labels = [], []
    # Each line has four columns, separated by tabs; there is no header.
    for number, line in read_lines(path):
        cells = line.split("\t")
        if len(cells) != 4:
            raise InputError(
                f"{path}, line {number} has {len(cells)} columns, not the four of CoLA: source, "
                "label, mark, sentence, separated by tabs"
            )
        # The first column (source) and the third (mark of the author) are not used.
        label, sentence = cells[1].strip(), cells[3].strip()
        if label not in ("0", "1"):
            raise InputError(f"{path}, line {number}: write 1 (acceptable) or 0, not {label!r}")
        if not sentence:
            raise InputError(f"{path}, line {number} has no sentence; fill or remove the line")
        sentences.append(sentence)
        labels.append(int(label))
    if not sentences:
        raise InputError(f"{path} contains no sentence; give a file in the format of CoLA")
    return LabelledSentences(sentences, np.array(labels, dtype=np.int64))


def read_cola_folder(folder: Path) -> dict[str, LabelledSentences]:
    """Read the training set and the two development sets of CoLA from a folder.

    CoLA is a corpus of sentences that are labelled as acceptable or unacceptable.

    Parameters
    ----------
    folder
        Folder with one file per set, ``NAME.tsv``, for each name in `PARTS`.

    Returns
    -------
    dict
        Sentences and labels by name of the set.

    Raises
    ------
    InputError
        If a file cannot be read, see `read_cola`, or has only one of the two labels.
    """
    parts = {}
    for name in PARTS:
        path = folder / f"{name}.tsv"
        parts[name] = read_cola(path)
        # A classifier can be neither trained nor evaluated on sentences of a single class.
        if np.ptp(parts[name].labels) == 0:
            raise InputError(
                f"{path} has only the label {parts[name].labels[0]}; a part needs acceptable and "
                "unacceptable sentences"
            )
    return parts


def matthews_correlation(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Compute the Matthews correlation coefficient (MCC) of two binary vectors.

    Parameters
    ----------
    labels, predictions : (S,) arrays
        True and predicted labels; positive numbers and True mean acceptable.

    Returns
    -------
    float
        Correlation between -1 and 1; 0 if one of the vectors is constant.

    Notes
    -----
    Source: Matthews (1975), doi 10.1016/0005-2795(75)90109-9. The value for constant vectors
    follows scikit-learn.
    """
    truth, prediction = (np.asarray(values) > 0 for values in (labels, predictions))
    if truth.shape != prediction.shape:
        raise InputError(f"{truth.shape} labels do not match {prediction.shape} predictions")
    if any(values.all() or not values.any() for values in (truth, prediction)):
        return 0.0
    return float(np.corrcoef(truth.astype(float), prediction.astype(float))[0, 1])
