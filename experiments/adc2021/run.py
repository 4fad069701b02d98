"""Acceptability Delta Criterion on LI-Adger: the published scores, and any further models."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from contstim.evaluation.suites import LIAdger

# Vazquez Martinez (2021), Tables 2.3 and 3.1; they give no correlations of the masked models.
PUBLISHED = pd.DataFrame(
    [
        ("bert-base-uncased", None, None, 0.852, 0.364, 0.631, 0.849),
        ("bert-large-uncased", None, None, 0.866, 0.378, 0.658, 0.859),
        ("bert-large-cased", None, None, 0.871, 0.376, 0.661, 0.868),
        ("trigram-slor", 0.368, 0.333, 0.753, 0.301, 0.520, 0.744),
        ("trigram-log-prob", 0.131, 0.156, 0.671, 0.165, 0.329, 0.668),
    ],
    columns=[
        *("model", "sentence_correlation", "pair_correlation"),
        *("blimp", "adc_0.5", "adc_1", "adc_5"),
    ],
)
# Table 3.6: original, reduced and overlap with the trigram's SLOR.
PUBLISHED_OVERLAP = pd.DataFrame(
    [
        ("bert-base-uncased", 0.5, 0.364, 0.323, 0.1387),
        ("bert-base-uncased", 1.0, 0.631, 0.553, 0.3658),
        ("bert-large-uncased", 0.5, 0.378, 0.333, 0.1450),
        ("bert-large-uncased", 1.0, 0.658, 0.586, 0.3751),
        ("bert-large-cased", 0.5, 0.376, 0.335, 0.1421),
        ("bert-large-cased", 1.0, 0.661, 0.589, 0.3780),
    ],
    columns=["model", "delta", "original", "reduced", "overlap"],
)


def published_scores(folder: Path) -> dict[str, pd.Series]:
    """Read the scores that come with the data, by sentence id."""
    pll = pd.read_csv(folder / "published_bert_pll.csv.gz").set_index("id")
    scores = {column.removesuffix("_mlm"): pll[column] for column in pll if column.endswith("_mlm")}
    pairs = pd.read_csv(folder / "min_pairs_scores.csv.gz")
    for name, column in (("trigram-slor", "slor"), ("trigram-log-prob", "logProb")):
        sides = [pairs.set_index(f"{side}_id")[f"{column}_{side}"] for side in ("gramm", "ungramm")]
        both = pd.concat(sides).dropna()
        scores[name] = both[~both.index.duplicated()]
    return scores


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the LI-Adger files")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV")
    parser.add_argument(
        "--model", action="append", default=[], help="a further model spec to score"
    )
    arguments = parser.parse_args()
    data = LIAdger.read(arguments.data)
    scores = published_scores(arguments.data)
    for spec in arguments.model:
        # Imported only here: the published scores need no model.
        from contstim.models.registry import load_model

        model = load_model(spec)
        scores[spec] = data.score(lambda texts, model=model: model.score(texts))
    keys = ["model"]
    criteria = data.evaluate(scores)
    both = criteria.merge(PUBLISHED, on=keys, how="left", suffixes=("", "_thesis"))
    overlap = data.overlap(scores, "trigram-slor")
    both_overlap = overlap.merge(
        PUBLISHED_OVERLAP, on=["model", "delta"], how="left", suffixes=("", "_thesis")
    )
    print("Correlations with people, BLiMP criterion, Acceptability Delta Criterion\n")
    columns = [c for pair in PUBLISHED.columns[1:] for c in (pair, f"{pair}_thesis")]
    print(both[["model", *columns, "n_sentences", "n_pairs"]].round(3).to_string(index=False))
    print("\nOverlap with the trigram's SLOR, and the score without the pairs that it meets\n")
    print(both_overlap.drop(columns="note").round(4).to_string(index=False))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        both.to_csv(arguments.out / "criteria.csv", index=False)
        both_overlap.to_csv(arguments.out / "overlap.csv", index=False)


if __name__ == "__main__":
    main()
