"""How far an acceptability classifier's judgements of LI-Adger depend on the order of training.

Usage: python experiments/adc2021/orders.py BASE --cola FOLDER --li-adger FOLDER --out FOLDER

Fine-tunes one initialisation of BASE (contstim:bert, or any folder of a masked model) on CoLA in
several orders (Vazquez Martinez 2021, section 2.3), and writes `orders.csv`, `sentences.csv` and
`orders.svg`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from tables import read_li_adger

from contstim.arrays import BoolArray, FloatArray
from contstim.drawing import create_axes, save_figure, series_colour
from contstim.models.devices import limit_torch_threads
from contstim.training.cola import PARTS, matthews_correlation, read_cola_folder
from contstim.training.encoders.classifier import score_logits
from contstim.training.encoders.network import load_encoder
from contstim.training.finetuning import prepare_sentences, train_classifier
from contstim.training.options import FitOptions


def train_restarts(
    base: str,
    data: Path,
    sentences: Sequence[str],
    seeds: Sequence[tuple[int, int]],
    options: FitOptions,
) -> tuple[FloatArray, FloatArray]:
    """Fine-tune an encoder on CoLA K times and score S sentences after each training.

    Parameters
    ----------
    base
        Encoder to start from.
    data
        Folder of CoLA.
    sentences
        The sentences.
    seeds
        Seed of the initial weights of the head and seed of the order of the training sentences, for
        each of the K trainings.
    options
        Training options.

    Returns
    -------
    tuple
        Logit margins, shape (K, S), and the Matthews correlations on the out-of-domain development
        set, shape (K,).
    """
    parts, encoder = read_cola_folder(data), load_encoder(base, "cpu")
    texts = {"scored": list(sentences)}
    texts |= {name: list(parts[name].sentences) for name in (PARTS[0], PARTS[2])}
    rows = {
        name: prepare_sentences(encoder, part, options.layers, base) for name, part in texts.items()
    }
    margins, correlations = [], []
    for number, (head_seed, order_seed) in enumerate(seeds, start=1):
        label, labels = f"training {number} of {len(seeds)}", parts[PARTS[0]].labels
        member, _ = train_classifier(
            encoder, rows[PARTS[0]], labels, options, head_seed, order_seed, label
        )
        development = score_logits(rows[PARTS[2]].outputs(member), "margin")
        correlations.append(matthews_correlation(parts[PARTS[2]].labels, development))
        margins.append(score_logits(rows["scored"].outputs(member), "margin"))
    return np.stack(margins), np.array(correlations)


def acrobatic(margins: FloatArray) -> BoolArray:
    """Return after how many orders each sentence's label has flipped, (K, S).

    Whether among the first k orders, k = 1 to K, some call the sentence acceptable and some do not
    (Vazquez Martinez 2021, section 2.3); a positive margin is acceptable.
    """
    labels = margins > 0
    ever = np.logical_or.accumulate(labels, axis=0)
    always = np.logical_and.accumulate(labels, axis=0)
    return np.asarray(ever & ~always)


def table_by_order(margins: FloatArray, mcc: FloatArray) -> pd.DataFrame:
    """Return `orders` (k), the share `acrobatic` after k orders, and `mcc` of the k-th."""
    share = acrobatic(margins).mean(axis=1)
    return pd.DataFrame({"orders": np.arange(1, len(share) + 1), "acrobatic": share, "mcc": mcc})


def table_by_sentence(sentences: Sequence[str], margins: FloatArray) -> pd.DataFrame:
    """Return for each sentence how its judgement spreads over orders.

    Columns: `sentence`, `acrobatic`, `acceptable` (share of orders), and mean and standard
    deviation of margin and signed confidence.
    """
    both = np.stack([np.zeros_like(margins), margins], axis=2)
    sure = np.stack([score_logits(logits, "confidence") for logits in both])
    return pd.DataFrame(
        {
            "sentence": list(sentences),
            "acrobatic": acrobatic(margins)[-1],
            "acceptable": (margins > 0).mean(axis=0),
            "margin_mean": margins.mean(axis=0),
            "margin_sd": margins.std(axis=0),
            "confidence_mean": sure.mean(axis=0),
            "confidence_sd": sure.std(axis=0),
        }
    )


def order_figure(by_order: pd.DataFrame, by_sentence: pd.DataFrame) -> Figure:
    """Draw the share of sentences whose label ever flips against orders, and the score's spread.

    Left: the share of acrobatic sentences after k orders, and Matthews' correlation of each
    network, after Vazquez Martinez (2021), Fig. 2-3. Right: for each sentence the standard
    deviation of its signed confidence over orders against the mean; filled: acrobatic.
    """
    left, right = create_axes(2)
    left.figure.set_size_inches(6.6, 2.9)
    left.plot(by_order["orders"], by_order["acrobatic"], color=series_colour(0), label="acrobatic")
    left.plot(
        by_order["orders"], by_order["mcc"], color=series_colour(1), linewidth=0.8, label="MCC"
    )
    left.set_ylim(bottom=min(0.0, float(by_order["mcc"].min())))
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set_xlabel("training orders of one initialisation")
    left.set_ylabel("share of sentences; correlation")
    left.legend(frameon=False, fontsize=7)
    for flips, label in ((False, "label never flips"), (True, "acrobatic")):
        rows = by_sentence[by_sentence["acrobatic"] == flips]
        entry, tint = f"{label} ({len(rows):,})", series_colour(0) if flips else "0.6"
        mean, spread = rows["confidence_mean"], rows["confidence_sd"]
        right.plot(mean, spread, "o", ms=1.8, color=tint, label=entry)
    right.set_xlabel("mean score over orders (signed confidence)")
    right.set_ylabel("standard deviation over orders")
    right.legend(frameon=False, fontsize=7)
    return left.figure


def main() -> None:
    """Train, and write tables and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("--cola", type=Path, required=True)
    parser.add_argument("--li-adger", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sentences = list(dict.fromkeys(read_li_adger(args.li_adger).judgements["sentence"]))
    options = FitOptions(epochs=args.epochs, layers=args.layers)
    with limit_torch_threads(args.threads):
        # The head starts from the same weights, and only the order of the sentences differs.
        seeds = [(args.seed, args.seed + k) for k in range(args.orders)]
        margins, mcc = train_restarts(args.base, args.cola, sentences, seeds, options)
    by_order, by_sentence = table_by_order(margins, mcc), table_by_sentence(sentences, margins)
    args.out.mkdir(parents=True, exist_ok=True)
    by_order.to_csv(args.out / "orders.csv", index=False)
    by_sentence.to_csv(args.out / "sentences.csv", index=False)
    save_figure(order_figure(by_order, by_sentence), args.out / "orders.svg")
    print(by_order.round(4).to_string(index=False))
    kinds = by_sentence.groupby("acrobatic")[["margin_sd", "confidence_sd"]].mean()
    print(f"\nMean standard deviation of a sentence's score over orders\n\n{kinds.round(3)}")


if __name__ == "__main__":
    main()
