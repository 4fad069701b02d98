"""Study of the metrics of masked language models after Kauf & Ivanova (2023).

Sentence length against negative score, word frequency against word score, correlation with a
causal model, and accuracy on BLiMP, for every metric of one or more masked models.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
from figures import blimp_figure, example_figure, relation_figure
from study import (
    CONTEXTS,
    PLL_METRICS,
    blimp_table,
    by_term,
    context_table,
    correlations,
    example_table,
    masked_model,
    published_correlations,
    read_brown,
    read_events,
    sentence_table,
    split_ratio,
    word_table,
)

from contstim import load_model
from contstim.benchmarks.pairs import read_minimal_pairs
from contstim.drawing import save_figure
from contstim.errors import ContstimError
from contstim.models.hf.metrics import METRICS

HERE = Path(__file__).parent


def main() -> int:
    """Score, and write tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with the folders events and blimp"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for tables and figures")
    parser.add_argument(
        "--model",
        action="append",
        help="a masked model, e.g. hf:FOLDER; can be given several times (contstim:bert)",
    )
    parser.add_argument("--causal", default="contstim:gpt", help="a causal model (contstim:gpt)")
    parser.add_argument(
        "--pairs", type=int, default=10, help="BLiMP pairs drawn of each paradigm (10); 0 for none"
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        choices=METRICS,
        default=list(METRICS),
        help="metrics on BLiMP (all)",
    )
    parser.add_argument(
        "--orders", type=int, default=10, help="word orders of the permutation average (10)"
    )
    parser.add_argument(
        "--contexts", nargs="+", choices=CONTEXTS, default=["word"], help="contexts of words (word)"
    )
    parser.add_argument(
        "--brown", type=int, default=0, help="sentences drawn of the Brown corpus of nltk (0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the BLiMP sample (0)")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except ContstimError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    return 0


def run(arguments: argparse.Namespace) -> None:
    """Score sentences, words and pairs; write tables, figures and ``published.csv``."""
    out: Path = arguments.out
    events = read_events(arguments.data / "events")
    if arguments.brown:
        brown = read_brown(arguments.data, arguments.brown, arguments.seed)
        events = pd.concat([events, brown], ignore_index=True)
    specs = arguments.model or ["contstim:bert"]
    masked = [masked_model(spec, arguments.orders) for spec in specs]
    causal = load_model(arguments.causal)
    out.mkdir(parents=True, exist_ok=True)

    reference = sentence_table(causal, events, ())
    sentences = pd.concat([*(sentence_table(m, events, PLL_METRICS) for m in masked), reference])
    words = pd.concat([word_table(m, events, PLL_METRICS) for m in [*masked, causal]])
    table = correlations(sentences, words, reference)
    contexts = context_table([*masked, causal], events, arguments.contexts)
    examples = pd.concat([example_table(model, list(events["sentence"])) for model in masked])
    published = published_correlations(arguments.data / "events")
    for name, whole in (
        ("sentences", sentences),
        ("words", words),
        ("split_words", split_ratio(words)),
        ("correlations", table),
        ("contexts", contexts),
        ("examples", examples),
        ("published_correlations", published),
    ):
        whole.to_csv(out / f"{name}.csv", index=False)
    wide = table.pivot_table(
        index=["set", "model", "metric"], columns="relation", values="r", sort=False
    )
    print("Pearson correlations\n")
    print(wide.round(2).to_string())
    _draw(out, sentences, words, reference, table)
    for number, (_, tokens) in enumerate(examples.groupby("model", sort=False), start=1):
        save_figure(example_figure(tokens)[0], out / f"figs-2-5-6-and-17-model-{number}.svg")
    ours = compare_relations(table, contexts, split_ratio(words), published)

    if arguments.pairs:
        pairs = read_minimal_pairs(
            arguments.data / "blimp" / "blimp.zip", limit=arguments.pairs, seed=arguments.seed
        )
        models = [*masked, causal]
        blimp = pd.concat([blimp_table(m, pairs, arguments.metrics) for m in models])
        terms = by_term(blimp)
        blimp.to_csv(out / "blimp_paradigms.csv", index=False)
        terms.to_csv(out / "blimp_categories.csv", index=False)
        save_figure(blimp_figure(terms), out / "blimp.svg")
        shown = terms.pivot_table(
            index="term", columns=["model", "metric"], values="accuracy", sort=False
        )
        print(f"\nBLiMP, accuracy on {len(pairs)} pairs\n")
        print(shown.round(3).to_string())
        for (model, metric), group in terms[terms["term"] == "overall"].groupby(
            ["model", "metric"]
        ):
            accuracy = f"{100 * group['accuracy'].iloc[0]:.1f}"
            ours[f"Tables 1 and 3: BLiMP overall, {short_name(model)}, {metric}"] = accuracy
    write_comparison(ours, out)


def short_name(spec: str) -> str:
    """Return the last part of the location of a model, e.g. ``bert-base-cased``."""
    return spec.partition("?")[0].rpartition("/")[2]


def compare_relations(
    table: pd.DataFrame, contexts: pd.DataFrame, split: pd.DataFrame, published: pd.DataFrame
) -> dict[str, str]:
    """Return our number for each correlation, share of split words and published score."""
    ours: dict[str, str] = {}
    figures = {"length_tokens": "Figs. 3A and 7 to 9", "frequency": "Figs. 3B, 12 and 13"}
    figures["causal"] = "Figs. 4, 14 to 16 and 19"
    for row in table[table["relation"].isin(figures)].itertuples():
        part = f"{row.relation}, {row.set}, {short_name(row.model)}, {row.metric}"
        ours[f"{figures[row.relation]}: {part}"] = f"{row.r:.2f}"
    for row in contexts[contexts["context"] != "word"].itertuples():
        part = f"context {row.context}, {row.set}, {short_name(row.model)}, {row.metric}"
        ours[f"Figs. 10 and 11: {part}"] = f"{row.r:.2f}"
    for row in split.itertuples():
        key = f"Table 2: split words, {row.set}, {short_name(row.model)}"
        ours[key] = f"{100 * row.split_ratio:.1f} %"
    for row in published.itertuples():
        ours[f"Fig. 14: published scores, {row.set}, {row.model} with gpt2-xl"] = f"{row.r:.2f}"
    return ours


def write_comparison(ours: dict[str, str], out: Path) -> None:
    """Write ``published.csv``: the rows of the paper, then further quantities of this run."""
    rows = pd.read_csv(HERE / "published.csv", dtype=str, keep_default_na=False)
    rows["ours"] = rows["quantity"].map(ours).fillna("")
    further = [name for name in ours if name not in set(rows["quantity"])]
    note = "Not printed in the paper, or for another model or set."
    extra = pd.DataFrame({"quantity": further, "ours": [ours[name] for name in further]})
    rows = pd.concat([rows, extra.assign(published="", note=note)], ignore_index=True)
    rows.to_csv(out / "published.csv", index=False)


def _draw(
    out: Path,
    sentences: pd.DataFrame,
    words: pd.DataFrame,
    reference: pd.DataFrame,
    table: pd.DataFrame,
) -> None:
    """Write the figures of the first three relations, one each for every set."""
    log_probs = reference.drop_duplicates("sentence").set_index("sentence")["log_prob"]
    dots = sentences.assign(
        surprisal=-sentences["log_prob"], causal=sentences["sentence"].map(log_probs)
    )
    others = dots[~dots["model"].isin(reference["model"])]
    for name in dict.fromkeys(sentences["set"]):
        for relation, points, x, y, labels in (
            ("length_tokens", dots, "n_tokens", "surprisal", ("tokens", "negative score, nats")),
            ("frequency", words, "log_frequency", "log_prob", ("log frequency", "score, nats")),
            ("causal", others, "causal", "log_prob", ("causal score, nats", "score, nats")),
        ):
            figure = relation_figure(
                points[points["set"] == name],
                x,
                y,
                labels,
                table[(table["set"] == name) & (table["relation"] == relation)],
            )
            save_figure(figure[0], out / f"{name}_{relation}.png")


if __name__ == "__main__":
    sys.exit(main())
