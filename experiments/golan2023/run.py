"""Compare the results of Golan et al. (2023) with ours, as far as their data are published.

Usage: python experiments/golan2023/run.py --data FOLDER --out FOLDER [--vectors FILE]

FOLDER contains the folder ``golan2023``. FILE has one word vector per line: the word and its
numbers, separated by spaces, as in the files of GloVe.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import contstim
from contstim.arrays import FloatArray, IntArray
from contstim.drawing import create_axes, save_figure
from contstim.errors import ContstimError
from contstim.models.hf import metrics
from contstim.models.hf.options import MaskedOptions
from contstim.selection import (
    read_scores,
    select_natural_pairs,
    select_triplets,
)

HERE = Path(__file__).parent
MODELS = ["gpt2", "roberta", "electra", "bert", "xlm", "lstm", "rnn", "trigram", "bigram"]
TRIPLET_COLUMNS = {"m1": "model_1", "m2": "model_2", "N": "natural"}
TRIPLET_COLUMNS |= {"S1": "synthetic_1", "S2": "synthetic_2"}
TRIPLET_COLUMNS |= {f"lp_N_given_m{k}": f"natural_lp_{k}" for k in (1, 2)}
TRIPLET_COLUMNS |= {f"lp_S{s}_given_m{k}": f"synthetic_{s}_lp_{k}" for s in (1, 2) for k in (1, 2)}


def single_order(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions, seed: int
) -> metrics.MaskingPlan:
    """Score a sentence by the chain rule over one random order of its words.

    A token is predicted from the words earlier in the order and the earlier tokens of its word.
    """
    rank = np.random.default_rng(seed).permutation(len(layout))[word_indices]
    tokens = np.arange(len(word_indices))
    is_later_word = rank[None, :] > rank[:, None]
    is_same_word = word_indices[None, :] == word_indices[:, None]
    return metrics.one_mask_per_token(
        is_later_word | (is_same_word & (tokens[None, :] >= tokens[:, None]))
    )


def variation_over_orders(spec: str, sentences: list[str], n_orders: int = 12) -> pd.DataFrame:
    """Return mean, standard deviation and coefficient of variation of the score over word orders.

    The column `stderr` is the standard error of the mean over 100 orders.
    """
    scores = []
    for seed in range(n_orders):
        metrics.METRICS[f"order-{seed}"] = partial(single_order, seed=seed)
        scores.append(contstim.load_model(f"{spec}?metric=order-{seed}").score(sentences))
    table = pd.DataFrame({"sentence": sentences, "mean": np.mean(scores, axis=0)})
    table["sd"] = np.std(scores, axis=0, ddof=1)
    table["coefficient_of_variation"] = table["sd"] / table["mean"].abs()
    table["stderr"] = table["sd"] / np.sqrt(100)
    return table


def split_words(sentence: str) -> list[str]:
    """Return the words of a sentence in lower case, without the full stop."""
    return sentence.lower().rstrip(".").split()


def similarity(sentence: str, vectors: dict[str, FloatArray]) -> float:
    """Return the mean correlation between the vectors of all pairs of words (section 7.3)."""
    known = [vectors[word] for word in split_words(sentence) if word in vectors]
    if len(known) < 2:
        return float("nan")
    return float(np.corrcoef(known)[np.triu_indices(len(known), 1)].mean())


def read_vectors(path: Path, words: set[str]) -> dict[str, FloatArray]:
    """Read the vectors of words from a file of word vectors, one word per line."""
    vectors = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            word, *numbers = line.rstrip().split(" ")
            if word in words:
                vectors[word] = np.array(numbers, dtype=np.float64)
    return vectors


def feature_preferences(folder: Path, feature: str) -> pd.DataFrame:
    """Return for each model whether it prefers sentences with a high value of a feature.

    A one-sample t test compares the synthetic sentence that a model accepts with the synthetic
    sentence that it rejects, over the pairs that target the model.
    """
    values = pd.read_csv(folder / "stimuli_log_probs.csv").drop_duplicates("sentence")
    values = values.set_index("sentence")[feature]
    triplets = pd.read_csv(folder / "synthetic_exp1_best10.csv")
    difference = (
        values.reindex(triplets["S1"]).to_numpy() - values.reindex(triplets["S2"]).to_numpy()
    )
    rows = []
    for model in MODELS:
        first, second = triplets["m1"] == model, triplets["m2"] == model
        own = np.concatenate([difference[first], -difference[second]])
        test = stats.ttest_1samp(own[~np.isnan(own)], 0.0)
        rows.append((model, np.nanmean(own), test.pvalue))
    table = pd.DataFrame(rows, columns=["model", "difference", "p"])
    return table.assign(q=stats.false_discovery_control(table["p"]))


def format_preferences(table: pd.DataFrame) -> str:
    """Name the models with a significant preference for high and for low values."""
    significant = table[table["q"] < 0.05]
    high, low = (significant.loc[sign * significant["difference"] > 0, "model"] for sign in (1, -1))
    return f"high: {', '.join(high) or 'none'}; low: {', '.join(low) or 'none'}"


def reproduce(args: argparse.Namespace) -> dict[str, str]:
    """Write tables and a figure; return our number for each quantity of ``published.csv``."""
    folder, out = args.data / "golan2023", args.out
    out.mkdir(parents=True, exist_ok=True)
    ours: dict[str, str] = {}

    pairs = select_natural_pairs(read_scores(folder / "natural_log_probs.npz"), 10)
    pairs.to_csv(out / "natural_pairs.csv", index=False)
    ours["Eq. 5: natural pairs, sum of ranks of 360 pairs"] = f"{pairs.attrs['objective']:.2f}"
    triplets = pd.read_csv(folder / "synthetic_exp1_100_per_pair.csv").rename(
        columns=TRIPLET_COLUMNS
    )
    chosen = select_triplets(triplets, 10, "worst-rank", ties="row-order")
    ours["Section 4.8: selected triplets, sum of worst ranks"] = f"{chosen.attrs['objective']:.0f}"
    ours["Section 4.6: share of optimised sentences that satisfy the constraint"] = (
        f"{(triplets['synthetic_1_lp_1'] >= triplets['natural_lp_1']).mean():.3f}"
    )

    human = contstim.read_choices(folder / "behavior_nov2022_raw.csv", format="golan2023")
    result = contstim.evaluate(human.choices, human.scores, preset="golan2023")
    models = result.models[result.models["analysis"] == "targeted"]
    models.to_csv(out / "experiment_2.csv", index=False)
    accuracy = models[models["measure"] == "accuracy"].set_index("model")["value"]
    for name in ("bert", "electra", "roberta"):
        ours[f"Ext. Data Fig. 5b: {name}, accuracy of orders / PLL"] = (
            f"{accuracy[name]:.3f} / {accuracy[f'{name}_has_a_mouth']:.3f}"
        )

    sentences = [text for text in contstim.pool() if len(text.split()) == 8][:10]
    variation = variation_over_orders("contstim:bert", sentences)
    variation.to_csv(out / "variation_over_orders.csv", index=False)
    ours["Section 4.2: mean coefficient of variation over word orders"] = (
        f"{variation['coefficient_of_variation'].mean():.3f} (stderr of 100 orders: "
        f"{variation['stderr'].mean():.2f} nats)"
    )
    (ax,) = create_axes()
    ax.figure.set_size_inches(3.4, 2.6)
    ax.errorbar(range(len(variation)), variation["mean"], variation["sd"], fmt="o", markersize=3)
    ax.set(xlabel="sentence", ylabel="score over word orders, nats")
    save_figure(ax, out / "section-4-2-variation-over-word-orders.svg")

    for feature, name in (
        ("mean_pairwise_glove_corr", "GloVe correlation"),
        # In spite of its name, this column increases with the frequency of the words.
        ("mean_neg_log_word_freq", "word frequency"),
    ):
        table = feature_preferences(folder, feature)
        table.to_csv(out / f"{feature}.csv", index=False)
        ours[f"Fig. S3: models with a preference, {name}"] = format_preferences(table)
    if args.vectors:
        stimuli = pd.read_csv(folder / "stimuli_log_probs.csv")
        words = {word for text in stimuli["sentence"] for word in split_words(text)}
        vectors = read_vectors(args.vectors, words)
        stimuli["similarity"] = [similarity(text, vectors) for text in stimuli["sentence"]]
        stimuli.to_csv(out / "similarity.csv", index=False)
        r = stimuli["similarity"].corr(stimuli["mean_pairwise_glove_corr"])
        ours["Section 7.3: GloVe correlations from --vectors, r with the published ones"] = (
            f"{r:.3f}"
        )
    return ours


def main() -> int:
    """Run the study and write ``published.csv``; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the folder golan2023")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--vectors", type=Path, help="word vectors, e.g. glove.6B.300d.txt")
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
