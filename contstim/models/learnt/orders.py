"""The same network trained on the same sentences in several orders: how far judgements move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.models.learnt.classifier import graded
from contstim.models.learnt.cola import PARTS, matthews_correlation, read_cola_folder
from contstim.models.learnt.encoder import open_encoder
from contstim.models.learnt.finetuning import rows_of, train_classifier
from contstim.models.learnt.fitting import FitOptions

__all__ = ["OrderStudy", "acrobatic", "order_study"]


def acrobatic(judgements: FloatArray) -> BoolArray:
    """Say after how many orders each sentence's label has flipped.

    Parameters
    ----------
    judgements
        Judgements of S sentences after training in K orders, shape (K, S); positive is
        acceptable.

    Returns
    -------
    array
        Shape (K, S), boolean: whether among the first k orders, k = 1 to K, some call the
        sentence acceptable and some do not.

    Source
    ------
    Vazquez Martinez (2021), section 2.3: a sentence is acrobatic as soon as its label differs
    between one order and the next.
    """
    labels = np.asarray(judgements) > 0
    if labels.ndim != 2 or not labels.size:
        raise InputError(
            f"judgements have the shape {labels.shape}; give orders by sentences, both at least 1"
        )
    ever = np.logical_or.accumulate(labels, axis=0)
    always = np.logical_and.accumulate(labels, axis=0)
    return np.asarray(ever & ~always)


@dataclass(frozen=True, eq=False)
class OrderStudy:
    """Judgements of S sentences after training in K orders.

    Attributes
    ----------
    sentences
        The sentences.
    margins
        Logit margins, shape (K, S).
    mcc
        Matthews' correlation on the out-of-domain development set after each order, (K,).
    """

    sentences: list[str]
    margins: FloatArray
    mcc: FloatArray

    def by_order(self) -> pd.DataFrame:
        """Return `orders` (k), the share `acrobatic` after k orders, and `mcc` of the k-th."""
        share = acrobatic(self.margins).mean(axis=1)
        numbers = np.arange(1, len(share) + 1)
        return pd.DataFrame({"orders": numbers, "acrobatic": share, "mcc": self.mcc})

    def by_sentence(self) -> pd.DataFrame:
        """Return for each sentence how its judgement spreads over orders.

        Columns: `sentence`, `acrobatic`, `acceptable` (share of orders), and mean and standard
        deviation of margin and signed confidence.
        """
        both = np.stack([np.zeros_like(self.margins), self.margins], axis=2)
        sure = np.stack([graded(logits, "confidence") for logits in both])
        return pd.DataFrame(
            {
                "sentence": self.sentences,
                "acrobatic": acrobatic(self.margins)[-1],
                "acceptable": (self.margins > 0).mean(axis=0),
                "margin_mean": self.margins.mean(axis=0),
                "margin_sd": self.margins.std(axis=0),
                "confidence_mean": sure.mean(axis=0),
                "confidence_sd": sure.std(axis=0),
            }
        )


def order_study(
    base: str,
    data: Path,
    sentences: Sequence[str],
    *,
    orders: int = 20,
    options: FitOptions | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> OrderStudy:
    """Fine-tune one initialisation on shuffles of CoLA and judge sentences after each.

    The head's first weights are those of `seed` every time; the k-th order of the sentences is
    that of seed `seed` + k. Nothing else differs.

    Parameters
    ----------
    base, data, options, device
        As for `finetune`.
    sentences
        The S sentences to judge, such as those of LI-Adger. Words that cannot be written count as
        unknown.
    orders
        K.
    seed
        Seed of the head and first seed of the orders.

    Raises
    ------
    InputError
        If `orders` is below 2, and as `finetune`.

    Source
    ------
    Vazquez Martinez (2021), section 2.3.
    """
    if orders < 2:
        raise InputError(f"a study of orders needs at least 2, got {orders}")
    options = FitOptions(layers=2) if options is None else options
    parts = read_cola_folder(data)
    encoder = open_encoder(base, device)
    texts = {PARTS[0]: parts[PARTS[0]].sentences, PARTS[2]: parts[PARTS[2]].sentences}
    rows = {name: rows_of(encoder, found, options.layers, base) for name, found in texts.items()}
    judged = rows_of(encoder, list(sentences), options.layers, base)
    margins, correlations = [], []
    for number in range(orders):
        member, _ = train_classifier(
            encoder,
            rows[PARTS[0]],
            parts[PARTS[0]].labels,
            options,
            seed,
            seed + number,
            f"order {number + 1} of {orders}",
        )
        dev = graded(rows[PARTS[2]].outputs(member), "margin")
        correlations.append(matthews_correlation(parts[PARTS[2]].labels, dev))
        margins.append(graded(judged.outputs(member), "margin"))
    return OrderStudy(list(sentences), np.stack(margins), np.array(correlations))
