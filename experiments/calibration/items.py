"""How often the default tests err where pairs were made of one another, with and without items.

With ``--cuts``, what other tests would do to the careful cells, accuracy with six items that share
all: a limit of p that finds a difference in `WANTED` of the null studies of the first cell, and
leaving out the items on which the models never differ. Both are shown in the cells beside it too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
from run import NAMES, row_of
from study import Cell, simulate

from contstim.design import CONDITIONS, Layout, design_trials
from contstim.evaluation import evaluate
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.inference.quasi_f import CellDesign
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis

# Of a study laid out by contstim: triplets of each two of three models, groups, people in each, and
# standard deviations of the effects of sentences and of a person's taste, in units of noise.
_PER_PAIR, _GROUPS, _PEOPLE, _SENTENCE, _TASTE = 10, 10, 3, 1.0, 0.25
#: People, items, and pairs of each.
SHAPES = ((15, 6, 4), (30, 6, 8), (20, 12, 4), (30, 24, 4))
#: How much of the variance of predictions and effects the pairs of an item share.
SHARED = (1.0, 0.5, 0.0)
#: Effects of pairs and how much is shared, of the careful cell and of those beside it.
BESIDE = ((1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (1.0, 0.5), (4.0, 0.5), (1.0, 0.0), (4.0, 0.0))
#: The least share of errors that is asked for.
WANTED = 0.035
# So many studies are simulated at once.
_AT_ONCE = 500


def main() -> int:
    """Simulate, and print a row for each shape as the guide has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400, help="a row (400)")
    parser.add_argument("--measure", choices=NAMES, help="only this one")
    parser.add_argument("--effects", type=float, default=1.0, help="of pairs, in units of noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--triplets", action="store_true", help="designs of contstim instead")
    parser.add_argument("--cuts", action="store_true", help="other tests of six items instead")
    arguments = parser.parse_args()
    if arguments.triplets:
        return triplets(arguments.studies, arguments.seed)
    if arguments.cuts:
        return cuts(arguments.studies, arguments.seed)
    measures = NAMES if arguments.measure is None else (arguments.measure,)
    print(
        "| measure | people | items x pairs | shared | without | p < .05 | value | lower | upper |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for measure, (people, items, kin), shared in itertools.product(measures, SHAPES, SHARED):
        cell = Cell("crossed", people, items * kin, arguments.effects, kin=kin, shared=shared)
        seeds = np.random.SeedSequence([people, items, kin, int(10 * shared), arguments.seed])
        rows = [
            row_of(one, measure, arguments.studies, arguments.seed, np.random.default_rng(seeds))
            for one in (replace(cell, named=False), cell)
        ]
        before, now = rows
        print(
            f"| {measure} | {people} | {items} x {kin} | {shared:.0%} | "
            f"{before['error']:.1%} | "
            + "".join(f"{now[name]:.1%} | " for name in ("error", "value", "lower", "upper")),
            flush=True,
        )
    return 0


def cuts(n: int, seed: int) -> int:
    """Print how often p is below .05 and below a higher limit, and by the items that tell alone."""
    heads = [
        "people",
        "items x pairs",
        "effects",
        "shared",
        "p < .05",
        "p < limit",
        "limit",
        "tell",
    ]
    print("".join(f"| {head} " for head in heads) + "|\n" + "| ---: " * len(heads) + "|")
    for people, items, kin in SHAPES[:2]:
        limit = 0.0
        for effects, shared in BESIDE:
            cell = Cell("crossed", people, items * kin, effects, kin=kin, shared=shared)
            place = [people, kin, int(effects), int(10 * shared), seed]
            p, telling = p_values(cell, n, np.random.default_rng(place))
            limit = limit or float(np.quantile(p, WANTED))
            shares = [np.mean(p < ALPHA), np.mean(p <= limit), np.mean(telling < ALPHA)]
            here, higher, some = (f"{share:.1%}" for share in shares)
            print(
                f"| {people} | {items} x {kin} | {effects:g} | {shared:.0%} | {here} | {higher} | "
                f"{limit:.3f} | {some} |",
                flush=True,
            )
    return 0


def p_values(cell: Cell, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the p-values of two models' accuracies in n studies, by all items and by some.

    Shape (2, n): by all, and by those alone on which the models differ; 1 where these are too few.
    """
    design = cell.design(rng)
    whole = CellDesign(design.person, design.item // cell.kin)
    p: list[tuple[float, float]] = []
    while len(p) < n:
        size = min(_AT_ONCE, n - len(p))
        data = simulate(cell, design, size, rng)
        subset = Subset(data, np.arange(len(data.pair)), np.arange(2))
        first, second = (
            MEASURES["accuracy"].cells(subset, ratio[data.pair]).reshape(size, -1)
            for ratio in data.log_ratio.T
        )
        for apart in first - second:
            tells = np.bincount(whole.item, np.abs(apart))[whole.item] > 0
            some = CellDesign(whole.person[tells], whole.item[tells])
            p.append((whole.mean(apart).p(), some.mean(apart[tells]).p() if tells.any() else 1.0))
    return np.nan_to_num(np.transpose(p), nan=1.0)


def triplets(n: int, seed: int) -> int:
    """Print how often one of three equal models is found to be better, by `design_trials`.

    Every sentence has an effect of its own, and each natural sentence is in the triplets of all
    pairs of models.
    """
    rng = np.random.default_rng(seed)
    print("| natural sentences | without | p < .05 |")
    print("| --- | ---: | ---: |")
    for kind in ("of their own", "in three triplets each"):
        found = np.array([one_design(kind == "of their own", rng) for _ in range(n)])
        without, now = found.mean(axis=(0, 2))
        print(f"| {kind} | {without:.1%} | {now:.1%} |", flush=True)
    return 0


def one_design(own: bool, rng: np.random.Generator) -> np.ndarray:
    """Return whether each comparison is found, without items and with them, shape (2, 3)."""
    names = ("a", "b", "c")
    rows = [
        (
            one,
            two,
            f"natural {one + two if own else 'of all'} {k}",
            f"{one} over {two} {k}",
            f"{two} over {one} {k}",
        )
        for one, two in itertools.combinations(names, 2)
        for k in range(_PER_PAIR)
    ]
    columns = ["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]
    table = pd.DataFrame(rows, columns=columns)
    layout = Layout(_GROUPS, _PEOPLE, conditions=CONDITIONS[1:4])
    trials = design_trials(triplets=table, layout=layout, seed=int(rng.integers(2**31)))
    sentences = [str(s) for s in pd.unique(table[columns[2:]].to_numpy().ravel())]
    scores = pd.DataFrame(rng.normal(size=(len(sentences), 3)), index=sentences, columns=names)
    for one, two, natural, first, second in rows:  # each accepts one and rejects the other
        scores.loc[[natural, first, second], one] += [0, 3, -3]
        scores.loc[[natural, first, second], two] += [0, -3, 3]
    felt = pd.Series(_SENTENCE * rng.normal(size=len(sentences)), index=sentences)
    one, two = (trials[name].to_numpy() for name in ("sentence_1", "sentence_2"))
    ratios = scores.loc[two].to_numpy() - scores.loc[one].to_numpy()
    taste = _TASTE * rng.normal(size=(_GROUPS * _PEOPLE, 3))[trials["participant"] - 1]
    liking = ((1 + taste) * ratios).sum(axis=1) / 6 + felt.loc[two].to_numpy()
    liking += rng.normal(size=len(trials)) - felt.loc[one].to_numpy()
    choices = trials.assign(rating=np.where(liking > 0, 2.5, -2.5))
    given = scores.rename_axis("sentence").reset_index()
    return np.array(
        [
            evaluate(data, given, measures=("accuracy",), analyses=(Analysis("all"),))
            .comparisons["p"]
            .to_numpy()
            < ALPHA
            for data in (choices.drop(columns="item"), choices)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
