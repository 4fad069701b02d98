"""How far an acceptability classifier's judgements of LI-Adger depend on the order of training.

Usage: python experiments/adc2021/orders.py BASE --cola FOLDER --li-adger FOLDER --out FOLDER

Fine-tunes one initialisation of BASE (contstim:bert, or any folder of a masked model) on CoLA in
several orders (Vazquez Martinez 2021, section 2.3), and writes `orders.csv`, `sentences.csv` and
`orders.svg`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.evaluation.suites import LIAdger
from contstim.models.devices import torch_threads
from contstim.report.model_figure import order_figure
from contstim.report.style import save_figure
from contstim.training.finetuning import order_study
from contstim.training.options import FitOptions


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
    sentences = list(dict.fromkeys(LIAdger.read(args.li_adger).sentences["sentence"]))
    options = FitOptions(epochs=args.epochs, layers=args.layers)
    with torch_threads(args.threads):
        study = order_study(
            args.base, args.cola, sentences, orders=args.orders, options=options, seed=args.seed
        )
    by_order, by_sentence = study.by_order(), study.by_sentence()
    args.out.mkdir(parents=True, exist_ok=True)
    by_order.to_csv(args.out / "orders.csv", index=False)
    by_sentence.to_csv(args.out / "sentences.csv", index=False)
    save_figure(order_figure(by_order, by_sentence)[0], args.out / "orders.svg")
    print(by_order.round(4).to_string(index=False))
    kinds = by_sentence.groupby("acrobatic")[["margin_sd", "confidence_sd"]].mean()
    print(f"\nMean standard deviation of a sentence's score over orders\n\n{kinds.round(3)}")


if __name__ == "__main__":
    main()
