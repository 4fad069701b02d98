"""Compare the tables and figures of Salazar et al. (2020) with our results.

Usage: python experiments/salazar2020/run.py --data FOLDER --out FOLDER [--model SPEC] [--pairs N]

FOLDER contains the folders ``blimp`` and ``corpus``, and optionally ``nbest``; see README.md.
By default, small bundled models are scored; --model selects other models.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import linregress

from contstim.benchmarks.pairs import read_minimal_pairs
from contstim.benchmarks.rescoring import COLUMNS, rescore
from contstim.drawing import create_axes, save_figure
from contstim.errors import ContstimError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_models
from contstim.tables import read_table
from contstim.text import read_sentences

HERE = Path(__file__).parent
MODELS = ("contstim:gpt?unknown=unk", "contstim:bert?metric=pll&unknown=unk")
#: Positions that Fig. 4 shows need a minimum number of sentences.
MIN_SENTENCES = 20
CATEGORIES = {
    "masked": "Table 7: anaphor / argument structure / binding / control / determiner / ellipsis / "
    "filler gap / irregular / island / NPI / quantifiers / subject-verb, masked model",
    "causal": "Table 7: the same categories, causal model",
}
EXAMPLE = ("Raymond is selling this sketch.", "Raymond is selling this sketches.")


def token_table(model: SentenceModel, sentences: list[str]) -> pd.DataFrame:
    """Return `sentence`, `position` (from 1) and `log_prob` of the tokens of distinct sentences."""
    distinct = list(dict.fromkeys(sentences))
    rows = [
        (sentence, position, log_prob)
        for sentence, scores in zip(distinct, model.score_tokens(distinct), strict=True)
        for position, log_prob in enumerate(scores.log_probs, start=1)
    ]
    return pd.DataFrame(rows, columns=["sentence", "position", "log_prob"])


def pseudo_perplexity(tokens: pd.DataFrame, sentences: list[str]) -> float:
    """Return exp(-sum of log-probabilities / number of tokens) of sentences (section 2.3)."""
    by_sentence = tokens.groupby("sentence")["log_prob"].agg(["sum", "size"]).loc[sentences]
    return float(np.exp(-by_sentence["sum"].sum() / by_sentence["size"].sum()))


def position_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the mean cross-entropy by position of the token, in nats, with the sample size."""
    table = tokens.groupby("position")["log_prob"].agg(["mean", "size"]).reset_index()
    table["mean"] = -table["mean"]
    return table.set_axis(["position", "cross_entropy", "n_sentences"], axis=1)


def length_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the number of tokens and the negative score of each sentence."""
    table = tokens.groupby("sentence", sort=False)["log_prob"].agg(["size", "sum"]).reset_index()
    table["sum"] = -table["sum"]
    return table.set_axis(["sentence", "n_tokens", "surprisal"], axis=1)


def category_table(tokens: pd.DataFrame, pairs: pd.DataFrame) -> pd.Series:
    """Return the accuracy in per cent by category of BLiMP, with ``overall``."""
    scores = tokens.groupby("sentence")["log_prob"].sum()
    good, bad = (scores.loc[pairs[f"sentence_{name}"]].to_numpy() for name in ("good", "bad"))
    accuracy = pd.Series(
        100.0 * (good > bad), pairs["term"].replace("s-selection", "argument_structure")
    )
    categories = accuracy.groupby(level=0).mean()
    return pd.concat([pd.Series({"overall": accuracy.mean()}), categories])


def read_nbest(folder: Path) -> dict[str, tuple[str, pd.DataFrame]]:
    """Read n-best lists by name, with the metric to compute.

    ``translations.csv`` is a table with a column `language`. ``dev-NAME.am.json`` and
    ``test-NAME.am.json`` are recognition hypotheses in the format of the authors' repository.
    """
    lists: dict[str, tuple[str, pd.DataFrame]] = {}
    for path in sorted(folder.glob("dev-*.am.json")):
        rows = []
        for split in ("dev", "test"):
            file = path.with_name(path.name.replace("dev-", f"{split}-", 1))
            for utterance, entry in json.loads(file.read_text("utf-8")).items():
                for key, hypothesis in entry.items():
                    if key != "ref" and hypothesis["text"].strip():
                        text = hypothesis["text"].strip()
                        row = (utterance, text, hypothesis["score"], entry["ref"], split)
                        # The authors end each hypothesis with a full stop.
                        rows.append((*row, f"{text[0].upper()}{text[1:]}."))
        table = pd.DataFrame(rows, columns=[*COLUMNS, "split", "sentence"])
        lists[path.name.removeprefix("dev-").removesuffix(".am.json")] = ("wer", table)
    if (folder / "translations.csv").exists():
        table = read_table(folder / "translations.csv", (*COLUMNS, "language"), cells="text")
        lists["translations"] = ("bleu", table)
    return lists


def position_figure(tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw the mean cross-entropy by position, one line per model (Fig. 4)."""
    (ax,) = create_axes()
    ax.figure.set_size_inches(4.5, 3)
    for name, table in tables.items():
        shown = table[table["n_sentences"] >= MIN_SENTENCES]
        ax.plot(shown["position"], shown["cross_entropy"], marker="o", markersize=3, label=name)
    ax.set(xlabel="position of the token", ylabel="cross-entropy, nats", ylim=(0, None))
    ax.legend(frameon=False, fontsize=7)
    return ax.figure


def length_figure(tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw the negative score against the number of tokens, with a linear fit."""
    (ax,) = create_axes()
    ax.figure.set_size_inches(4.5, 3)
    for index, (name, table) in enumerate(tables.items()):
        fit = linregress(table["n_tokens"], table["surprisal"])
        ax.scatter(table["n_tokens"], table["surprisal"], s=6, alpha=0.5, color=f"C{index}")
        ends = np.array([table["n_tokens"].min(), table["n_tokens"].max()])
        label = f"{name}: r = {fit.rvalue:.2f}"
        ax.plot(ends, fit.intercept + fit.slope * ends, color=f"C{index}", label=label)
    ax.set(xlabel="number of tokens", ylabel="negative score, nats", ylim=(0, None))
    ax.legend(frameon=False, fontsize=7)
    return ax.figure


def reproduce(args: argparse.Namespace) -> dict[str, str]:
    """Write all tables and figures; return our number for each quantity of ``published.csv``."""
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    pairs = read_minimal_pairs(args.data / "blimp" / "blimp.zip", limit=args.pairs, seed=0)
    good, bad = pairs["sentence_good"].tolist(), pairs["sentence_bad"].tolist()
    natural = read_sentences(args.data / "corpus" / "heldout.txt.gz")
    natural = list(dict.fromkeys(s for s in natural if 5 <= len(s.split()) <= 20))[: args.sentences]
    human = pd.read_csv(args.data / "blimp" / "human_validation_summary.csv")
    human = human[human["Condition"].isin(pairs["paradigm"])]  # BLiMP left two paradigms out
    ours = {"Table 7: human accuracy, overall": f"{100 * human['total_mean'].mean():.1f}"}
    positions, lengths, categories, perplexities = {}, {}, {}, []
    models = load_models(args.model or list(MODELS))
    kinds = {}
    for model in models:
        name = model.spec.partition("?")[0]
        kinds[name] = "causal" if model.event.metric == "chain" else "masked"
        tokens = token_table(model, [*good, *bad])
        categories[name] = category_table(tokens, pairs)
        values = [pseudo_perplexity(tokens, sentences) for sentences in (good, bad)]
        perplexities.append((name, *values, values[1] / values[0]))
        natural_tokens = token_table(model, natural)
        perplexity = pseudo_perplexity(natural_tokens, natural)
        positions[name] = position_table(natural_tokens)
        lengths[name] = length_table(natural_tokens)
        ours[f"Section 2.3: (pseudo-)perplexity by token of natural text, {kinds[name]} model"] = (
            f"{perplexity:.1f}"
        )
        ours[f"Table 7: PPPL acceptable / unacceptable / ratio, {kinds[name]} model"] = (
            f"{values[0]:.1f} / {values[1]:.1f} / {values[1] / values[0]:.2f}"
        )
        curve = positions[name].set_index("position")["cross_entropy"]
        ours[f"Fig. 4: cross-entropy at positions 1 / 2 / 3 / 6 / 10, {kinds[name]} model"] = (
            " / ".join(f"{curve.get(position, np.nan):.2f}" for position in (1, 2, 3, 6, 10))
        )
        fit = linregress(lengths[name]["n_tokens"], lengths[name]["surprisal"])
        ours[
            f"Section 4.3: negative score by length, slope / intercept / r, {kinds[name]} model"
        ] = f"{fit.slope:.2f} / {fit.intercept:.1f} / {fit.rvalue:.2f}"
        if kinds[name] == "causal":
            scores = model.score(list(EXAMPLE))
            ours["Section 4.1: scores of 'this sketch' / 'this sketches', causal model"] = (
                f"{scores[0]:.1f} / {scores[1]:.1f}"
            )
        overall, *by_category = (f"{value:.1f}" for value in categories[name])
        ours[f"Table 7: overall, {kinds[name]} model"] = overall
        ours[CATEGORIES[kinds[name]]] = " / ".join(by_category)
    columns = ["model", "acceptable", "unacceptable", "ratio"]
    pd.DataFrame(perplexities, columns=columns).to_csv(out / "perplexities.csv", index=False)
    pd.DataFrame(categories).rename_axis("category").to_csv(out / "categories.csv")
    for file, tables in (("positions", positions), ("lengths", lengths)):
        pd.concat(tables, names=["model"]).reset_index(level=0).to_csv(
            out / f"{file}.csv", index=False
        )
    save_figure(position_figure(positions), out / "fig-4-cross-entropy-by-position.svg")
    save_figure(length_figure(lengths), out / "section-4-3-score-by-length.svg")

    for name, (metric, table) in read_nbest(args.data / "nbest").items():
        results, _ = rescore(table, models, metric)
        results.to_csv(out / f"rescoring-{name}.csv", index=False)
        if name == "translations":
            wide = results.pivot_table("value", "system", "language", sort=False)
            wide.to_csv(out / "rescoring-by-language.csv")
            changes = results[results["system"] == models[-1].name]
            text = "; ".join(f"{r.language} {r.change:+.1f}" for r in changes.itertuples())
            ours["Section 3: change of BLEU by language, one multilingual model"] = text
        else:
            values = results.set_index("system")["value"]
            numbers = [values[key] for key in ("baseline", models[-1].name, "oracle")]
            key = f"Section 3: test-{name} of LibriSpeech, WER of baseline / rescored / oracle"
            ours[key] = " / ".join(f"{100 * value:.2f}" for value in numbers)
    return ours


def main() -> int:
    """Run the study and write ``published.csv``; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--model", action="append", help="a causal or masked model (repeatable)")
    parser.add_argument("--pairs", type=int, default=3, help="BLiMP pairs of each paradigm (3)")
    parser.add_argument("--sentences", type=int, default=150, help="natural sentences (150)")
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
