"""Acceptability Delta Criterion on LI-Adger: the published scores, and any further models."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from tables import criteria_table, overlap_table, read_li_adger

from contstim.benchmarks.ratings import DeltaBenchmark
from contstim.models import ModelSpec
from contstim.models.registry import bundled_models

# Vazquez Martinez (2021), Tables 2.3 and 3.1; they give no correlations of the masked models.
# The classifiers' scores were not published, so of those rows only the thesis's figures are known.
PUBLISHED = pd.DataFrame(
    [
        ("trigram", "trigram-slor", 0.368, 0.333, 0.753, 0.301, 0.520, 0.744),
        ("trigram", "trigram-log-prob", 0.131, 0.156, 0.671, 0.165, 0.329, 0.668),
        ("PLL", "bert-base-uncased", None, None, 0.852, 0.364, 0.631, 0.849),
        ("PLL", "bert-large-uncased", None, None, 0.866, 0.378, 0.658, 0.859),
        ("PLL", "bert-large-cased", None, None, 0.871, 0.376, 0.661, 0.868),
        ("classifier", "bert-base-uncased-cola", None, None, 0.915, 0.286, 0.538, 0.902),
        ("classifier", "bert-large-uncased-cola", None, None, 0.917, 0.311, 0.564, 0.907),
        ("classifier", "bert-large-cased-cola", None, None, 0.936, 0.307, 0.561, 0.925),
    ],
    columns=[
        *("kind", "model", "sentence_correlation", "pair_correlation"),
        *("blimp", "adc_0.5", "adc_1", "adc_5"),
    ],
)
KINDS = ["trigram", "n-gram", "network", "PLL", "student", "classifier"]
# Tables 2.6 and 3.6: original, reduced and overlap with the trigram's SLOR.
PUBLISHED_OVERLAP = pd.DataFrame(
    [
        ("bert-base-uncased", 0.5, 0.364, 0.323, 0.1387),
        ("bert-base-uncased", 1.0, 0.631, 0.553, 0.3658),
        ("bert-large-uncased", 0.5, 0.378, 0.333, 0.1450),
        ("bert-large-uncased", 1.0, 0.658, 0.586, 0.3751),
        ("bert-large-cased", 0.5, 0.376, 0.335, 0.1421),
        ("bert-large-cased", 1.0, 0.661, 0.589, 0.3780),
        ("bert-base-uncased-cola", 0.5, 0.286, 0.294, 0.0808),
        ("bert-base-uncased-cola", 1.0, 0.538, 0.546, 0.276),
        ("bert-large-uncased-cola", 0.5, 0.311, 0.309, 0.0951),
        ("bert-large-uncased-cola", 1.0, 0.564, 0.557, 0.296),
        ("bert-large-cased-cola", 0.5, 0.307, 0.313, 0.0884),
        ("bert-large-cased-cola", 1.0, 0.561, 0.560, 0.292),
    ],
    columns=["model", "delta", "original", "reduced", "overlap"],
)
# Table 3.7: pairs that the PLL and the classifier of one BERT both meet.
PUBLISHED_BOTH = pd.DataFrame(
    [
        ("bert-base-uncased", "bert-base-uncased-cola", 0.0905, 0.3425),
        ("bert-large-uncased", "bert-large-uncased-cola", 0.0973, 0.3729),
        ("bert-large-cased", "bert-large-cased-cola", 0.0989, 0.3704),
    ],
    columns=["model", "classifier", "overlap_0.5", "overlap_1"],
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


def kind_of(spec: str, metric: str) -> str:
    """Say what kind of score a model gives, in the words of the tables."""
    parsed = ModelSpec.parse(spec)
    bundled = parsed.family == "contstim"
    family = bundled_models()[parsed.location].family if bundled else parsed.family
    if family == "hf":
        return "network" if metric == "chain" else "PLL"
    return {"ngram": "n-gram", "rnn": "network", "lstm": "network"}.get(family, family)


def criteria(
    data: DeltaBenchmark, scores: dict[str, pd.Series], kinds: dict[str, str]
) -> pd.DataFrame:
    """Return Tables 2.4 and 3.1: every model's criteria, ours beside the thesis's."""
    own = criteria_table(data, scores)
    own.insert(0, "kind", [kinds[model] for model in own["model"]])
    both = own.merge(PUBLISHED, on=["kind", "model"], how="outer", suffixes=("", "_thesis"))
    order = both["kind"].map(KINDS.index)
    return both.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def overlaps(
    data: DeltaBenchmark, scores: dict[str, pd.Series], kinds: dict[str, str]
) -> pd.DataFrame:
    """Return Tables 2.6 and 3.6: overlap with the trigram's SLOR, and the reduced shares."""
    own = _overlap(data, scores, "trigram-slor")
    both = own.merge(
        PUBLISHED_OVERLAP, on=["model", "delta"], how="outer", suffixes=("", "_thesis")
    )
    known = {**dict(zip(PUBLISHED["model"], PUBLISHED["kind"], strict=True)), **kinds}
    both.insert(0, "kind", both["model"].map(known))
    order = both["kind"].map(KINDS.index)
    return both.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def _overlap(data: DeltaBenchmark, scores: dict[str, pd.Series], baseline: str) -> pd.DataFrame:
    deltas = {name: data.model_deltas(series) for name, series in scores.items()}
    return overlap_table(data.human_deltas(), deltas, baseline)


def both_met(
    data: DeltaBenchmark, scores: dict[str, pd.Series], kinds: dict[str, str]
) -> pd.DataFrame:
    """Return Table 3.7: the pairs that a PLL and a classifier both meet, for each two of them."""
    rows = []
    for classifier in (model for model in scores if kinds[model] == "classifier"):
        chosen = {m: s for m, s in scores.items() if kinds[m] == "PLL" or m == classifier}
        table = _overlap(data, chosen, classifier)
        for model, own in table.groupby("model", sort=False):
            met = own.set_index("delta")["overlap"]
            rows.append((model, classifier, met[0.5], met[1.0]))
    own = pd.DataFrame(rows, columns=PUBLISHED_BOTH.columns).assign(source="here")
    thesis = PUBLISHED_BOTH.assign(source="thesis")
    return pd.concat([own, thesis], ignore_index=True) if rows else thesis


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the LI-Adger files")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        help="a further model spec to score, e.g. contstim:trigram or classifier:FOLDER",
    )
    arguments = parser.parse_args()
    data = read_li_adger(arguments.data)
    scores = published_scores(arguments.data)
    kinds = dict(zip(PUBLISHED["model"], PUBLISHED["kind"], strict=True))
    for spec in arguments.model:
        # Imported only here: the published scores need no model.
        from contstim.models.registry import load_model

        model = load_model(spec)
        kinds[model.spec] = kind_of(model.spec, model.event.metric)
        distinct = list(dict.fromkeys(data.judgements["sentence"]))
        by_text = pd.Series(model.score(distinct), index=distinct)
        scores[model.spec] = data.judgements.set_index("id")["sentence"].map(by_text)
    tables = {
        "criteria": criteria(data, scores, kinds),
        "overlap": overlaps(data, scores, kinds),
        "both": both_met(data, scores, kinds),
    }
    columns = [c for name in PUBLISHED.columns[2:] for c in (name, f"{name}_thesis")]
    shown = tables["criteria"][["kind", "model", *columns, "n_sentences", "n_pairs"]]
    print("Correlations with people, BLiMP criterion, Acceptability Delta Criterion\n")
    print(shown.round(3).to_string(index=False, na_rep=""))
    print("\nOverlap with the trigram's SLOR, and the score without the pairs that it meets\n")
    print(tables["overlap"].round(4).to_string(index=False, na_rep=""))
    print("\nPairs that a masked model and a classifier both meet\n")
    print(tables["both"].round(4).to_string(index=False, na_rep=""))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            table.to_csv(arguments.out / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
