"""Compare nine ways of asking a model which sentence of a minimal pair is acceptable, on BLiMP.

The ways are those of Ide et al. (2025), but for SLOR, which they do not have.

  python experiments/ways-of-asking/blimp.py blimp.zip --kept judged --out accuracy.csv
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import contstim
from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.models.reductions import REDUCTIONS

TEXTS = Path(__file__).parent / "texts"
TEMPLATES = [TEXTS / f"template_{n}.txt" for n in (1, 2, 3)]
QUESTIONS = [TEXTS / f"question_{n}.txt" for n in (1, 2)]


def pairs_of(path: Path, per_paradigm: int, seed: int) -> pd.DataFrame:
    """Draw so many pairs of each paradigm."""
    rng = np.random.default_rng(seed)
    drawn = []
    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".jsonl")):
            rows = [json.loads(line) for line in archive.read(name).decode().splitlines()]
            chosen = sorted(rng.choice(len(rows), size=per_paradigm, replace=False).tolist())
            drawn += [rows[i] for i in chosen]
    table = pd.DataFrame(drawn)
    return table[["UID", "linguistics_term", "sentence_good", "sentence_bad"]]


def with_options(spec: str, **options: object) -> str:
    """Add options to a spec."""
    more = "&".join(f"{key}={value}" for key, value in options.items())
    return f"{spec}{'&' if '?' in spec else '?'}{more}"


Judged = Callable[[pd.DataFrame], pd.Series]


def reduced(spec: str) -> dict[str, Judged]:
    """Judge by the log-probability and by its reductions, scored once for all."""
    scores = dict[str, FloatArray]()

    def judged(pairs: pd.DataFrame, way: str) -> pd.Series:
        if not scores:
            model = contstim.load_model(spec)
            texts = [*pairs["sentence_good"], *pairs["sentence_bad"]]
            totals, unigram = model.totals(texts), model.own_unigram()
            lengths = totals.n_tokens.astype(float)
            scores["LP"] = totals.score
            scores["MeanLP"], scores["PenLP"] = (
                totals.score * REDUCTIONS[name].factor(lengths) for name in ("mean", "pen")
            )
            scores["SLOR"] = (totals.score - unigram.score(texts)) / lengths
        good, bad = np.split(scores[way], 2)
        return pd.Series((good > bad) + 0.5 * (good == bad), index=pairs.index)

    return {way: partial(judged, way=way) for way in ("LP", "MeanLP", "PenLP", "SLOR")}


def higher(spec: str) -> Judged:
    """Judge right where the acceptable sentence has the higher score."""

    def judged(pairs: pd.DataFrame) -> pd.Series:
        model = contstim.load_model(spec)
        good, bad = (model.score(pairs[c].tolist()) for c in ("sentence_good", "sentence_bad"))
        return pd.Series((good > bad) + 0.5 * (good == bad), index=pairs.index)

    return judged


def beside(spec: str, least: float | None = None) -> Judged:
    """Judge by both orders of two sentences in one text.

    Right where the order with the acceptable one as A has the higher score; or, with `least`, the
    mean over both orders of whether A is chosen, its score above `least`, when it should be.
    """

    def judged(pairs: pd.DataFrame) -> pd.Series:
        model = contstim.load_model(spec)
        good, bad = pairs["sentence_good"], pairs["sentence_bad"]
        right = model.score(("A: " + good + " B: " + bad).tolist())
        wrong = model.score(("A: " + bad + " B: " + good).tolist())
        if least is None:
            return pd.Series((right > wrong) + 0.5 * (right == wrong), index=pairs.index)
        return pd.Series(((right > least) * 1.0 + (wrong < least)) / 2, index=pairs.index)

    return judged


def ways(spec: str) -> dict[str, Judged]:
    """Return the ways of asking one model, by name."""
    single = {
        f"in-template {n}": with_options(spec, template=path)
        for n, path in enumerate(TEMPLATES, start=1)
    }
    asked = {
        f"Yes/No {n}": with_options(spec, metric="yesno", prompt=path)
        for n, path in enumerate(QUESTIONS, start=1)
    }
    choice = with_options(spec, metric="yesno", answers="A|B", prompt=TEXTS / "choice.txt")
    return {
        **reduced(spec),
        **{name: higher(one) for name, one in (single | asked).items()},
        "in-template compared": beside(with_options(spec, template=TEXTS / "compared.txt")),
        "A/B": beside(choice, math.log(0.5)),
    }


def table(folder: Path, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracies, those of ways with several texts as their mean, and of their vote."""
    judged = dict[tuple[str, str], pd.Series]()
    for path in sorted(folder.glob("*.csv")):
        column = pd.read_csv(path)
        judged[str(column["model"][0]), str(column["way"][0])] = column["right"]
    for spec in dict.fromkeys(spec for spec, _ in judged):
        for kind, n in (("in-template", len(TEMPLATES)), ("Yes/No", len(QUESTIONS))):
            several = [v for (m, way), v in judged.items() if m == spec and way[:-2] == kind]
            if len(several) == n:
                judged[spec, kind] = sum(several) / len(several)
        votes = [v for (m, way), v in judged.items() if m == spec and way[-1].isdigit()]
        if len(votes) == len(TEMPLATES) + len(QUESTIONS):
            won = (sum(v > 0.5 for v in votes) > len(votes) / 2).astype(float)
            judged[spec, "ensemble"] = won
    whole = {"all": pairs.index, **pairs.groupby("linguistics_term").groups}
    rows = [
        (model, way, term, values[rows].mean(), values[rows].sem(), len(rows))
        for (model, way), values in judged.items()
        for term, rows in whole.items()
    ]
    return pd.DataFrame(rows, columns=["model", "way", "term", "accuracy", "stderr", "n"])


def main() -> None:
    """Judge what is not judged yet, and write the accuracy of each model and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("blimp", type=Path, help="zip of a JSON Lines file for each paradigm")
    parser.add_argument("--per-paradigm", type=int, default=3)
    parser.add_argument("--model", action="append")
    parser.add_argument("--way", action="append", help="do these ways alone")
    parser.add_argument("--kept", type=Path, required=True, help="a folder for what was judged")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    models = args.model or ["contstim:gpt", "contstim:bert", "contstim:smollm2"]
    pairs = pairs_of(args.blimp, args.per_paradigm, seed=0)
    args.kept.mkdir(parents=True, exist_ok=True)
    for spec in models:
        for way, judge in ways(spec).items():
            path = args.kept / f"{spec} {way}.csv".replace("/", "-")
            if path.exists() or way not in (args.way or [way]):
                continue
            start = time.monotonic()
            try:
                right = judge(pairs)
            except InputError as error:
                print(f"{spec}, {way}: {error}", file=sys.stderr)
                continue
            pd.DataFrame({"model": spec, "way": way, "right": right}).to_csv(path, index=False)
            shown = f"{right.mean():.3f} ({time.monotonic() - start:.0f} s)"
            print(f"{spec}, {way}: {shown}", file=sys.stderr, flush=True)
    table(args.kept, pairs).round(4).to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
