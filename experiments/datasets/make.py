"""Make the tables that come with contstim, ``contstim.datasets``, and the README's picture.

``python experiments/datasets/make.py [scores|triplets|choices|picture ...]`` makes them in this
order; each needs those before it. See README.md beside this file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import contstim
from contstim.cli.demonstration import PAIRS
from contstim.datasets import FOLLOWED_MODEL
from contstim.design import Layout, Simulation, simulate_choices
from contstim.drawing import save_figure
from contstim.selection import controversiality
from contstim.selection.figure import triplet_figure

MODELS = ("bigram", "trigram", "rnn", "lstm", "gpt", "smollm2")
NATURAL, TRIPLETS, CHOICES = "natural_scores.csv", "triplets.csv", "choices.csv"
GROUPS, PEOPLE = 6, 5
#: Triplets from pools that a language model wrote, by pair, and which are taken: no natural
#: sentence for both pairs.
WRITTEN = Path(__file__).parents[1] / "readable" / "triplets"
FILES = ("bigram-trigram-3.4.csv", "gpt-trigram-3.4.csv")
READABLE = {pair: WRITTEN / file for pair, file in zip(PAIRS, FILES, strict=True)}
TAKEN = (slice(0, 18), slice(18, 35))
#: Columns of a triplet with its models the other way round.
OTHER_WAY = {
    "model_1": "model_2",
    "model_2": "model_1",
    "synthetic_1": "synthetic_2",
    "synthetic_2": "synthetic_1",
    "natural_lp_1": "natural_lp_2",
    "natural_lp_2": "natural_lp_1",
    "synthetic_1_lp_1": "synthetic_2_lp_2",
    "synthetic_2_lp_2": "synthetic_1_lp_1",
    "synthetic_1_lp_2": "synthetic_2_lp_1",
    "synthetic_2_lp_1": "synthetic_1_lp_2",
}


def make_scores(folder: Path) -> None:
    """Score the bundled natural sentences under six models."""
    sentences = contstim.pool()
    table = pd.DataFrame({"sentence": sentences})
    for name in MODELS:
        model = contstim.load_model(f"contstim:{name}")
        table[model.spec] = model.score(sentences).round(4)
        print(model.spec, flush=True)
    table.to_csv(folder / NATURAL, index=False, lineterminator="\n")


def make_triplets(folder: Path) -> None:
    """Take readable triplets of the demonstration's pairs of models."""
    tables = []
    for (one, two), taken in zip(PAIRS, TAKEN, strict=True):
        table = pd.read_csv(READABLE[one, two])
        if table["model_1"][0] != one:
            table = table.rename(columns=OTHER_WAY)[table.columns]
        tables.append(table.iloc[taken])
    pd.concat(tables).round(4).to_csv(folder / TRIPLETS, index=False, lineterminator="\n")


def make_choices(folder: Path) -> None:
    """Lay out an experiment and let simulated people go through it."""
    scores = pd.read_csv(folder / NATURAL, index_col="sentence")
    triplets = pd.read_csv(folder / TRIPLETS)
    specs = sorted({spec for pair in PAIRS for spec in pair})
    eight = [text for text in scores.index if len(text.split()) == 8]
    free = [text for text in eight if text not in set(triplets["natural"])]
    natural = contstim.select_natural_pairs(scores.loc[free, specs], per_pair=12)
    best = contstim.select_triplets(triplets, per_pair=12, strata=4)
    layout = Layout(groups=GROUPS, participants=PEOPLE, catch=2)
    trials = contstim.design_trials(natural, best, free, layout, seed=1)
    shown = pd.unique(trials[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    models = {spec: contstim.load_model(spec) for spec in specs}
    table = pd.DataFrame({spec: m.score(shown) for spec, m in models.items()}, index=shown)
    people = Simulation.from_weights(FOLLOWED_MODEL, noise=0.8)
    choices = simulate_choices(trials, table, people, seed=1)
    choices.to_csv(folder / CHOICES, index=False, lineterminator="\n")


def make_picture(folder: Path) -> None:
    """Draw the best triplets of the trigram and the GPT, for the README."""
    scores = pd.read_csv(folder / NATURAL, index_col="sentence")
    triplets = pd.read_csv(folder / TRIPLETS)
    one, two = PAIRS[-1]
    own = triplets[triplets["model_2"] == two]
    best = own.iloc[(-controversiality(own)).argsort(kind="stable")[:6]]
    eight = scores[[len(str(text).split()) == 8 for text in scores.index]].iloc[::2]
    figure = triplet_figure(best, eight[one].tolist(), eight[two].tolist())
    save_figure(figure, Path("docs/_static/triplets.svg"))


STEPS = {
    "scores": make_scores,
    "triplets": make_triplets,
    "choices": make_choices,
    "picture": make_picture,
}


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--out", type=Path, default=Path("contstim/data"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for step in args.steps:
        STEPS[step](args.out)


if __name__ == "__main__":
    main()
