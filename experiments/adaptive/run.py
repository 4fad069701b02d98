"""How many trials fewer an adaptive study needs to name the right one of nine models.

    python experiments/adaptive/run.py DATA SETS --out results

DATA is a folder with `natural_log_probs.npz` (nine models, 231,725 natural sentences of Golan et
al. 2023), `natural_selected_360_pairs.csv` and `stimuli_log_probs.csv`, SETS the folder with
`set.csv` that `experiments/set-power/run.py` wrote: the best fixed set, 360 pairs by the log Bayes
factor of an answer. Each model is right in turn; simulated people have the effects of the published
second experiment, five trials each, or others (`misspecified`). Designs: `set`;
`published`, the 360 published natural pairs; `random` pairs of natural sentences; `adaptive`, which
chooses by information, one answer at a time, from 1,525 pairs: for each two models those that tell
them apart best of a million random pairs, and the set's; and `adaptive, published`, which chooses
so from the published pairs alone. All are analysed by the posterior of `contstim.adaptive.Link`.
Recovery after each trial, with its exact 95 % interval, is written to a table a condition and
design and drawn in `adaptive.svg`; with more `--studies` the same command goes on from the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy.special import expit, ndtr
from scipy.stats import binomtest

from contstim.adaptive import AdaptivePlan, Link, PolicyOptions, Pool, Stopping, TrialScheduler
from contstim.adaptive.simulation import simulate_answers
from contstim.drawing import save_figure, series_colour
from contstim.response_model import ResponseModel, log_bayes_factors, log_prob_std
from contstim.selection import read_scores

_SLOPES, _EACH = (0.45, 0.91, 1.8), 5
#: Trials of a study.
_LENGTHS = {
    "set": 240,
    "published": 240,
    "adaptive": 150,
    "adaptive, published": 150,
    "random": 1000,
}
#: Designs that are compared where people or priors are not as supposed.
_FIXED_AND_ADAPTIVE = ("set", "adaptive")


def pools(data: Path, sets: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return g of the designs' pairs under the models."""
    scores = read_scores(data / "natural_log_probs.npz")
    values = scores.to_numpy()
    scaled = values / log_prob_std(values, list(scores.columns))
    usable = np.flatnonzero(np.isfinite(values).all(axis=1))
    people = ResponseModel()

    def preferences(pairs: pd.DataFrame) -> np.ndarray:
        one, two = (pairs[f"sentence_{k}"].to_numpy() for k in (1, 2))
        return people.preferences(scaled[two] - scaled[one])

    fixed = preferences(pd.read_csv(sets / "set.csv"))
    published = preferences(published_pairs(data, values))
    best: list[np.ndarray] = []
    factors: list[np.ndarray] = []
    for _ in range(10):
        drawn = rng.choice(usable, (100_000, 2))
        g = people.preferences(scaled[drawn[:, 1]] - scaled[drawn[:, 0]])
        own = log_bayes_factors(people.probabilities(g))
        kept = np.unique(np.argpartition(-own, 73, axis=0)[:73])
        best.append(g[kept])
        factors.append(own[kept])
    g, own = np.concatenate(best), np.concatenate(factors)
    kept = np.unique(np.argpartition(-own, 73, axis=0)[:73])
    drawn = rng.choice(usable, (20_000, 2))
    natural = people.preferences(scaled[drawn[:, 1]] - scaled[drawn[:, 0]])
    return {
        "set": fixed,
        "published": published,
        "adaptive": np.concatenate([g[kept], fixed]),
        "adaptive, published": published,
        "random": natural,
    }


def published_pairs(data: Path, values: np.ndarray) -> pd.DataFrame:
    """Return the published natural pairs, by the rows of their sentences in the scores.

    A pair with a score of minus infinity under one of the models is left out.
    """
    stimuli = pd.read_csv(data / "stimuli_log_probs.csv").dropna(subset=["npz_row"])
    row = stimuli.drop_duplicates("sentence").set_index("sentence")["npz_row"].astype(int)
    pairs = pd.read_csv(data / "natural_selected_360_pairs.csv")
    found = pd.DataFrame({f"sentence_{k}": row.loc[pairs[f"sentence{k}"]].array for k in (1, 2)})
    finite = np.isfinite(values).all(axis=1)
    return found[finite[found["sentence_1"]] & finite[found["sentence_2"]]]


@dataclass(frozen=True)
class Truth:
    """How simulated people answer; the link of the analysis may be another.

    `curve` is the link; `power` bends g; `prior` is that of the analysis.
    """

    people: ResponseModel = field(default_factory=ResponseModel)
    curve: Callable[[np.ndarray], np.ndarray] = expit
    power: float = 1.0
    prior: tuple[float, ...] = ()

    def felt(self, g: np.ndarray) -> np.ndarray:
        """Return g as people feel it."""
        return np.sign(g) * np.abs(g / 3) ** self.power * 3


def misspecified() -> dict[str, Truth]:
    """Return conditions: how people answer, and what the analysis takes them for."""
    people = ResponseModel()
    return {
        "as supposed": Truth(),
        "flat slope": Truth(replace(people, slope=0.5)),
        "steep slope": Truth(replace(people, slope=2.0)),
        "unlike people": Truth(replace(people, slope_sd=0.9, side_sd=0.8)),
        "large pair effects": Truth(replace(people, item_sd=2.2)),
        "lapses": Truth(replace(people, lapse=0.12)),
        # As steep at 0; and choices as far from one half as g is large.
        "probit": Truth(curve=lambda x: ndtr(x * np.sqrt(2 * np.pi) / 4)),
        "linear": Truth(curve=lambda x: np.clip(0.5 + x / 8, 0, 1)),
        "bent": Truth(power=0.5),
        "misleading prior": Truth(prior=(4.0, 4.0, 1, 1, 1, 1, 1, 1, 1)),
    }


def identify(
    policy: str, g: np.ndarray, truth: Truth, n_trials: int, studies: range, seed: int
) -> np.ndarray:
    """Simulate studies, each model right in turn.

    Returns
    -------
    array
        In how many of them the right model has the largest posterior weight after each trial,
        shape (n_trials,).
    """
    numbers = pd.Series(range(len(g))).astype(str)
    pairs = pd.DataFrame({"sentence_1": "a" + numbers, "sentence_2": "b" + numbers})
    pool = Pool(pairs, tuple(f"model {m}" for m in range(g.shape[1])), g, g)
    plan = AdaptivePlan(
        PolicyOptions(policy, block_size=1),
        Link(slopes=_SLOPES, prior=truth.prior),
        Stopping(participants=n_trials // _EACH),
        trials=_EACH,
        anchors=0,
    )
    named = np.zeros(n_trials)
    for study in studies:
        right, rng = study % g.shape[1], np.random.default_rng([seed, study])
        scheduler = TrialScheduler(replace(plan, seed=study), pool)
        effects = truth.people.item_sd * rng.normal(size=len(g))
        told = simulate_answers(
            scheduler, truth.felt(g[:, right]), effects, truth.people, rng, truth.curve
        )
        for trial, _ in enumerate(told):
            scheduler.update_posterior()
            named[trial] += scheduler.weights.argmax() == right
    return named


def curve(right: np.ndarray, n: int, design: str, condition: str) -> pd.DataFrame:
    """Return recovery after each trial with its exact 95 % interval, from counts of n studies."""
    low, high = np.array([binomtest(round(k), n).proportion_ci() for k in right]).T
    trials = np.arange(1, len(right) + 1)
    table = {"trials": trials, "recovery": right / n, "low": low, "high": high, "studies": n}
    return pd.DataFrame(table).assign(design=design, condition=condition)


def needed(recovery: pd.Series, target: float = 0.95) -> int | None:
    """Return the trials from which on recovery stays at the target, None if it does not."""
    below = np.flatnonzero(recovery < target)
    first = int(below[-1]) + 2 if len(below) else 1
    return first if first <= len(recovery) else None


def draw(table: pd.DataFrame, out: Path) -> None:
    """Draw recovery with its intervals, a panel a condition."""
    conditions = list(dict.fromkeys(table["condition"]))
    designs = list(dict.fromkeys(table["design"]))
    columns = min(5, len(conditions))
    rows = -(-len(conditions) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, condition in zip(axes, conditions, strict=False):
        for design, own in table[table["condition"] == condition].groupby("design", sort=False):
            style = {"color": series_colour(designs.index(design))}
            own = own.iloc[np.unique(np.geomspace(1, len(own), 40).astype(int)) - 1]
            ax.plot(own["trials"], own["recovery"], label=design, **style)
            ax.fill_between(own["trials"], own["low"], own["high"], alpha=0.2, lw=0, **style)
        ax.axhline(0.95, color="black", linewidth=0.6, linestyle=":")
        ax.set_title(condition, fontsize=8)
        ax.set_xscale("log")
    for ax in axes[len(conditions) :]:
        ax.remove()
    axes[0].set_ylim(0, 1)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    axes[0].legend(frameon=False, fontsize=6, loc="lower right")
    figure.supxlabel("trials of all participants together", fontsize=8)
    figure.supylabel("studies in which the right model is named", fontsize=8)
    save_figure(figure, out / "adaptive.svg")


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--studies", type=int, default=999)
    parser.add_argument("--conditions", nargs="+", default=list(misspecified()))
    parser.add_argument("--designs", nargs="+", default=list(_LENGTHS), choices=list(_LENGTHS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    made = pools(args.data, args.sets, np.random.default_rng(0))
    print({name: len(own) for name, own in made.items()}, flush=True)
    tables = []
    for condition in args.conditions:
        truth = misspecified()[condition]
        for design in args.designs:
            if condition != "as supposed" and design not in _FIXED_AND_ADAPTIVE:
                continue
            file = args.out / f"{condition}-{design}.csv".replace(",", "").replace(" ", "-")
            done, right = 0, np.zeros(_LENGTHS[design])
            if file.exists():
                before = pd.read_csv(file)
                done = int(before["studies"].iloc[0])
                right = np.rint(before["recovery"].to_numpy() * done)
            if done < args.studies:
                policy = "information" if design.startswith("adaptive") else "random"
                more = range(done, args.studies)
                right = right + identify(policy, made[design], truth, _LENGTHS[design], more, 1)
                curve(right, args.studies, design, condition).to_csv(file, index=False)
            own = pd.read_csv(file)
            tables.append(own)
            by = [needed(own[name]) for name in ("recovery", "high", "low")]
            at = own.set_index("trials")["recovery"]
            shown = {t: round(float(at[t]), 3) for t in (20, 40, 60, 100, 150)}
            print(
                f"{condition}, {design}: 95 % from {by[0]} trials ({by[1]}-{by[2]}); {shown}",
                flush=True,
            )
    draw(pd.concat(tables), args.out)


if __name__ == "__main__":
    main()
