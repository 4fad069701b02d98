"""Compare the tables and figures of Vazquez Martinez (2021) with our results.

Usage: python experiments/adc2021/run.py --data FOLDER --out FOLDER [--encoder SPEC] [--restarts N]

FOLDER contains the folders ``li_adger`` and ``cola``. The thesis's classifiers were not published:
classifiers are fine-tuned here, from the bundled BERT unless --encoder names another masked model.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from figures import correlation_figure, feature_figure, overlap_figure, scatter_figure
from orders import train_restarts
from ranking import rank_sentences, simulate_choices
from tables import (
    THESIS_SLOR_SD,
    criteria_table,
    disagreement_tables,
    expert_labels,
    mcc_by_feature,
    meets_criterion,
    model_deltas,
    overlap_table,
    read_li_adger,
    read_published_scores,
    sign_table,
)

from contstim.benchmarks.ratings import DeltaBenchmark
from contstim.drawing import save_figure
from contstim.errors import ContstimError
from contstim.models.registry import load_model
from contstim.training.cola import matthews_correlation
from contstim.training.encoders.classifier import majority_vote, score_logits
from contstim.training.options import FitOptions

HERE = Path(__file__).parent
MASKED = ["bert-base-uncased", "bert-large-uncased", "bert-large-cased"]
CLASSIFIER = "classifier"
#: Acceptable and unacceptable sentence of the pairs of Table 1.5.
EXAMPLE_PAIRS = (
    "32.3.Culicover.7a.g.01 32.3.Culicover.7b.*.01",
    "33.2.bowers.7b.g.07 33.2.bowers.7b.*.07",
)
#: Sentences of Table 1.1 as orders of the words of the first one.
CGI = "colorless green ideas sleep furiously"
CGI_ORDERS = ("01234", "02431", "10234", "10243")


def train_classifiers(
    args: argparse.Namespace, sentences: list[str], annotations: pd.DataFrame
) -> pd.DataFrame:
    """Return the logit margins of all sentences, one column per restart; trained once per folder.

    Restarts that give every development sentence one label are left out (section 2.2).
    """
    path = args.out / "classifiers.csv"
    texts = list(dict.fromkeys([*sentences, *annotations["Sentence"]]))
    if path.exists():
        return pd.read_csv(path, index_col="sentence").loc[texts]
    seeds = [(seed, seed) for seed in range(args.restarts)]
    options = FitOptions(epochs=3, layers=args.layers)
    margins, mcc = train_restarts(args.encoder, args.data / "cola", texts, seeds, options)
    table = pd.DataFrame(margins[mcc != 0].T, index=pd.Index(texts, name="sentence"))
    table.to_csv(path)
    return table


def format_numbers(*values: float, digits: int = 3) -> str:
    """Format numbers of one row of a table."""
    return " / ".join(f"{value:.{digits}f}" for value in values)


def restart_numbers(annotations: pd.DataFrame, predictions: pd.DataFrame) -> dict[str, float]:
    """Return mean, sd, maximum and majority vote of the correlations of restarts (Table 2.1)."""
    mask = (annotations["Domain"] == "Out").to_numpy()
    labels, columns = annotations.loc[mask, "Acceptability"], predictions.to_numpy().T[:, mask]
    mcc = np.array([matthews_correlation(labels, scores) for scores in columns])
    # An odd number of restarts votes; the worst one is left out if their number is even.
    order = np.argsort(-mcc)[: len(mcc) - (len(mcc) + 1) % 2]
    vote = majority_vote([columns[i] for i in order])
    return {
        "best": int(mcc.argmax()),
        "mean": mcc.mean(),
        "sd": mcc.std(),
        "max": mcc.max(),
        "majority": matthews_correlation(labels, vote),
    }


def compare_examples(
    data: DeltaBenchmark, scores: dict[str, pd.Series]
) -> dict[str, tuple[int, int, float]]:
    """Compare z-scores in the example tables of the thesis with z-scores of the published scores.

    Returns the number of values, of those that differ by more than 0.00002, and the largest
    difference of the others, by table.
    """
    printed = pd.read_csv(HERE / "examples.csv", dtype={"table": str}).set_index("id")
    human = data.judgements.set_index("id")["judgement"]
    pll, slor = scores[MASKED[-1]], scores["trigram-slor"]
    # The thesis's mean follows from its standard deviation and the first z-score of Table 2.7.
    first = printed["slor"].dropna().index[0]
    slor_mean = slor[first] - printed.loc[first, "slor"] * THESIS_SLOR_SD
    z_scores = {
        "human": human,
        "pll": (pll - pll.mean()) / pll.std(ddof=0),
        "slor": (slor - slor_mean) / THESIS_SLOR_SD,
    }
    long = pd.concat(
        [
            (values.reindex(printed.index) - printed[name])
            .abs()
            .to_frame("difference")
            .assign(table=printed["table"])
            for name, values in z_scores.items()
        ]
    ).dropna()
    result = {}
    for table, rows in long.groupby("table"):
        differs = rows["difference"] > 2e-5
        result[str(table)] = (
            len(rows),
            int(differs.sum()),
            float(rows["difference"][~differs].max()),
        )
    return result


def rank_permutations() -> tuple[list[int], float]:
    """Rank the 120 orders of the words of Table 1.1.

    Returns the ranks of the four sentences of the table under ``contstim:gpt``, and the rank
    correlation between the scores and the ranking recovered from one simulated choice per pair.
    """
    words = CGI.split()
    texts = [" ".join(order) for order in itertools.permutations(words)]
    scores = pd.Series(load_model("contstim:gpt?unknown=unk").score(texts), texts)
    ranks = scores.rank(ascending=False)
    named = [" ".join(words[int(i)] for i in order) for order in CGI_ORDERS]
    recovered = rank_sentences(simulate_choices(scores, points_per_nat=100.0))
    return [int(ranks[text]) for text in named], float(scores.corr(recovered, method="spearman"))


def reproduce(args: argparse.Namespace) -> dict[str, str]:
    """Write all tables and figures; return our number for each quantity of ``published.csv``."""
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    data = read_li_adger(args.data / "li_adger")
    scores = read_published_scores(args.data / "li_adger")
    annotations = pd.read_csv(
        args.data / "cola" / "grammatical_annotations_major.tsv", sep="\t", quoting=3
    )
    judgements = data.judgements.set_index("id")
    margins = train_classifiers(args, data.sentences, annotations)
    predictions = margins.loc[annotations["Sentence"]]
    restarts = restart_numbers(annotations, predictions)
    best = margins.iloc[:, restarts["best"]]
    confidence = score_logits(np.column_stack([np.zeros(len(best)), best]), "confidence")
    by_text = pd.Series(confidence, margins.index)
    scores[CLASSIFIER] = judgements["sentence"].map(by_text)
    for spec in args.model:
        model = load_model(spec)
        scores[spec] = judgements["sentence"].map(
            pd.Series(model.score(data.sentences), data.sentences)
        )

    labels = expert_labels(data.judgements["id"]).set_axis(judgements.index)
    human, deltas = data.human_deltas(), model_deltas(data, scores)
    criteria = criteria_table(data, scores).set_index("model")
    overlap = overlap_table(human, deltas, "trigram-slor")
    shared = overlap_table(human, deltas, CLASSIFIER)
    signs = sign_table(human, deltas)
    roles = {"trigram": ["trigram-slor"], "masked": MASKED, "classifier": [CLASSIFIER]}
    disagreements = disagreement_tables(data, deltas, roles)
    features = mcc_by_feature(annotations, predictions)
    label_mcc = {}
    for name, by_id in scores.items():
        threshold = 0.0 if name == CLASSIFIER else by_id.mean()
        label_mcc[name] = matthews_correlation(labels.loc[by_id.index], by_id - threshold)
    tables = {"criteria": criteria.reset_index(), "overlap": overlap, "overlap_classifier": shared}
    tables |= {"signs": signs, "disagreements": disagreements, "features": features}
    tables["labels"] = pd.Series(label_mcc, name="mcc").rename_axis("model").reset_index()
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)

    sentence_values = pd.DataFrame({"human z-score": judgements["judgement"]} | scores)
    pair_values = pd.DataFrame({"human delta": human} | deltas)
    save_figure(
        correlation_figure(sentence_values, "sentences"), out / "fig-2-4-and-3-1-correlations.svg"
    )
    save_figure(
        correlation_figure(pair_values, "deltas of pairs"), out / "fig-2-6-and-3-3-correlations.svg"
    )
    standardised = sentence_values.drop(columns="human z-score").apply(
        lambda column: (column - column.mean()) / column.std(ddof=0)
    )
    standardised["human z-score"] = sentence_values["human z-score"]
    figure = scatter_figure(standardised, "human z-score", "model, z-score")
    save_figure(figure, out / "fig-2-5-and-3-2-sentences.svg")
    figure = scatter_figure(pair_values, "human delta", "model delta")
    save_figure(figure, out / "fig-2-7-and-3-4-pairs.svg")
    overall = matthews_correlation(
        annotations["Acceptability"], predictions.iloc[:, restarts["best"]]
    )
    save_figure(feature_figure(features, overall), out / "fig-2-1-features.svg")
    for delta in (0.5, 1.0):
        met = {
            name: meets_criterion(human, deltas[name], delta)
            for name in (MASKED[-1], CLASSIFIER, "trigram-slor")
        }
        save_figure(overlap_figure(met), out / f"overlap-delta-{delta:g}.svg")

    # Our number for each quantity of published.csv.
    ours: dict[str, str] = {}
    criteria_columns = ["blimp", "adc_0.5", "adc_1", "adc_5"]
    for name in (*MASKED, "trigram-slor", "trigram-log-prob", CLASSIFIER):
        numbers = criteria.loc[name, criteria_columns]
        ours[f"Tables 2.4 and 3.1: {name}, BLiMP / ADC 0.5 / 1 / 5"] = format_numbers(*numbers)
        columns = ["sentence_correlation", "pair_correlation"]
        key = f"Table 2.3 and Figs. 2-4 to 3-4: {name}, r of sentences / pairs"
        ours[key] = format_numbers(*criteria.loc[name, columns])
        ours[f"Table 2.2: {name}, MCC with expert labels of LI-Adger"] = f"{label_mcc[name]:.3f}"
        if name.startswith("trigram"):
            continue
        rows = overlap[overlap["model"] == name].set_index("delta")
        numbers = [rows.loc[d, c] for d in (0.5, 1.0) for c in ("original", "reduced", "overlap")]
        ours[f"Tables 2.6 and 3.6: {name}, original / reduced / overlap, ADC 0.5 and 1"] = (
            format_numbers(*numbers)
        )
        if name != CLASSIFIER:
            rows = shared[shared["model"] == name].set_index("delta")
            ours[f"Table 3.7: {name}, overlap with its classifier, ADC 0.5 / 1"] = format_numbers(
                rows.loc[0.5, "overlap"], rows.loc[1.0, "overlap"]
            )
    for name, key in ((MASKED[-1], "PLL of bert-large-cased"), ("trigram-slor", "trigram-slor")):
        count = int(meets_criterion(human, deltas[name], 0.5).sum())
        ours[f"Introduction: pairs that meet ADC 0.5, {key}"] = f"{count} of {len(human)}"
    counts = disagreements["table"].value_counts()
    ours["Table 2.5: pairs that meet BLiMP but not ADC 5, classifier"] = str(counts.get("2.5", 0))
    for number, meaning in (
        ("2.7", "classifier meets ADC 0.5, trigram does not"),
        ("2.8", "trigram meets ADC 0.5, classifier does not"),
        ("3.2", "PLLs meet BLiMP but not ADC 5"),
        ("3.3", "PLLs meet ADC 5 but not BLiMP"),
        ("3.4", "classifier meets ADC 5, PLLs do not"),
        ("3.5", "PLLs meet ADC 5, classifier does not"),
    ):
        ours[f"Table {number}: {meaning}, pairs"] = str(counts.get(number, 0))
    for number, (n_values, n_different, largest) in compare_examples(data, scores).items():
        text = f"{n_values - n_different} of {n_values} values within {largest:.1g}"
        ours[f"Table {number}: printed z-scores of human judgements, PLL and SLOR"] = text
    pairs = data.pairs["gramm_id"] + " " + data.pairs["ungramm_id"]
    examples = [np.flatnonzero(pairs == pair)[0] for pair in EXAMPLE_PAIRS]
    ours["Table 1.5: deltas of the trigram's log-probability"] = format_numbers(
        *deltas["trigram-log-prob"][examples]
    )
    ours["Section 2.4: acceptable / unacceptable sentences"] = f"{labels.sum()} / {(~labels).sum()}"
    numbers = [restarts[name] for name in ("mean", "sd", "max", "majority")]
    ours["Table 2.1: classifier, MCC on CoLA out of domain, mean / sd / maximum / majority"] = (
        format_numbers(*numbers)
    )
    lowest = features.set_index("feature")["mean"].drop("Imperative").idxmin()
    ours["Fig. 2-1: major feature with the lowest MCC"] = str(lowest)
    confusion = signs.set_index(["model", "human"])
    for name in (MASKED[-1], CLASSIFIER):
        pairs = [
            int(confusion.loc[(name, h), m])
            for h in ("accept", "reject")
            for m in ("accept", "reject")
        ]
        ours[f"Confusion of signs, {name}: human and model + + / + - / - + / - -"] = " / ".join(
            map(str, pairs)
        )
    ranks, correlation = rank_permutations()
    ours["Table 1.1: ranks among the 120 orders of the words (cgi.0, .11, .24, .25)"] = " / ".join(
        map(str, ranks)
    )
    ours["Table 1.1: ranking recovered from one choice per pair, rank correlation"] = (
        f"{correlation:.3f}"
    )
    return ours


def main() -> int:
    """Run the study and write ``published.csv``; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of li_adger and cola")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--encoder", default="contstim:bert", help="masked model to fine-tune")
    parser.add_argument("--restarts", type=int, default=5, help="number of classifiers (5)")
    parser.add_argument("--layers", type=int, default=2, help="upper layers to train (2)")
    parser.add_argument("--model", action="append", default=[], help="further model to evaluate")
    args = parser.parse_args()
    try:
        ours = reproduce(args)
    except ContstimError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    published = pd.read_csv(HERE / "published.csv", dtype=str, keep_default_na=False)
    unknown = set(ours) - set(published["quantity"])
    assert not unknown, f"published.csv lacks {sorted(unknown)}"
    published["ours"] = published["quantity"].map(ours).fillna("")
    published.to_csv(args.out / "published.csv", index=False)
    print(published.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
