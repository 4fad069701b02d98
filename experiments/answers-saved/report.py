"""Tables and figures of the results of `run.py`.

    python experiments/answers-saved/report.py DATA --out results

Writes `results.csv`, `data-sets.csv` and `predicted.csv` to this folder, with the figures
`curves.svg` and `predicted.svg`, and prints the tables of `README.md`.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from data import READERS
from matplotlib.figure import Figure
from run import CONDITIONS, PREDICTED_AT, ROWS, TAU_AT, load

from contstim.adaptive.savings import answers_needed
from contstim.arrays import FloatArray, IntArray
from contstim.drawing import save_figure, series_colour

FOLDER = Path(__file__).parent
TITLES = {
    "blimp": "BLiMP",
    "sprouse": "Sprouse et al.",
    "golan": "Golan et al.",
    "lau": "Lau et al.",
    "events": "EventsAdapt",
}
#: Share of the agreement of the halves at which k is computed.
LEVEL = 0.9


def needed(numbers: IntArray, curve: FloatArray, level: float) -> float:
    """Return the number of answers at which a curve at given numbers reaches a level, or NaN."""
    index = answers_needed(curve, level)
    return float(numbers[int(index) - 1]) if np.isfinite(index) else np.nan


def savings(numbers: IntArray, curves: FloatArray, level: float | None = None) -> FloatArray:
    """Return k of each row of `ROWS` from its curve, shape (rows,); 0 if the level is not reached.

    By default, the level is .9 of the last value of the first row. Without agreement, k is NaN.
    """
    level = LEVEL * curves[0, -1] if level is None else level
    if level <= 0:
        return np.full(len(curves), np.nan)
    answers = np.array([needed(numbers, curve, level) for curve in curves])
    return np.where(np.isfinite(answers), answers[0] / answers, 0.0)


def result_rows(file: Path) -> list[dict[str, object]]:
    """Return the rows of the table for one data set and condition."""
    with np.load(file) as stored:
        numbers, curves, taus = (stored[name] for name in ("numbers", "curves", "tau"))
        seconds = float(stored["seconds"])
    samples = np.array([savings(numbers, sample[:, 0]) for sample in curves[1:]])
    low, high = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    k, near = savings(numbers, curves[0, :, 0]), savings(numbers, curves[0, :, 1])
    agreement = curves[0, 0, 0, -1]
    rows: list[dict[str, object]] = []
    for row, (policy, rule) in enumerate(ROWS):
        curve = curves[0, row, 0]
        rows.append(
            {"policy": policy, "rule": rule, "agreement": agreement}
            | {"answers_90": needed(numbers, curve, LEVEL)}
            | {"answers": needed(numbers, curve, LEVEL * agreement)}
            | {"k": k[row], "k_low": low[row], "k_high": high[row], "k_near_best": near[row]}
            | {f"tau_{n}": taus[0, row, i] for i, n in enumerate(TAU_AT)}
            | {"undefined": np.isnan(samples[:, row]).mean(), "seconds": seconds}
        )
    return rows


def readme_table(results: pd.DataFrame) -> str:
    """Return the table of `README.md`: one row per data set, policy and rule."""
    interval = [f"{row.k:.2g} ({row.k_low:.2g}-{row.k_high:.2g})" for row in results.itertuples()]
    results = results.assign(interval=interval)
    keys = ["data_set", "policy", "rule"]
    by_condition = {c: own.set_index(keys) for c, own in results.groupby("condition")}
    real = by_condition["real"]
    table = real[["answers_90", "answers", "interval", "k_near_best", "tau_100", "tau_500"]].copy()
    table["shuffled"] = by_condition["shuffled"]["interval"]
    table["winner left out"] = by_condition["winner left out"]["interval"]
    for name in ("answers_90", "answers"):
        table[name] = [f"{n:.0f}" if np.isfinite(n) else "-" for n in table[name]]
    table = table.rename(columns={"interval": "k", "answers_90": "to 90 %", "answers": "to .9 A"})
    return table.reset_index().to_markdown(index=False, floatfmt=".2f")


def predicted_rows(stem: Path, labels: dict[str, str]) -> list[dict[str, object]]:
    """Return predicted and realised k of the set and of adaptive choice, naming by accuracy."""
    table = pd.read_csv(f"{stem}-predicted-k.csv").set_index("policy")
    with np.load(stem.with_suffix(".npz")) as stored:
        numbers, curves = stored["numbers"], stored["curves"][:, :, 0]
    realised = savings(numbers, curves[0], PREDICTED_AT)
    samples = [savings(numbers, sample, PREDICTED_AT) for sample in curves[1:]]
    low, high = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    rows = []
    for policy in ("set", "adaptive"):
        row = ROWS.index((policy, "accuracy"))
        k = {"k_predicted": table.loc[policy, "k"], "k": realised[row]}
        k |= {"k_low": low[row], "k_high": high[row]}
        answers = {"random_predicted": table.loc["random", "answers"]}
        answers["random"] = needed(numbers, curves[0, 0], PREDICTED_AT)
        rows.append(labels | {"policy": policy} | answers | k)
    return rows


def describe_data_set(name: str, data: Path, out: Path) -> dict[str, object]:
    """Return sizes of a data set, and how much its models differ."""
    choices, scores, pool, accuracy = load(name, "real", data, out)
    signs = np.sign(pool.log_ratios)
    second, best = np.argsort(accuracy)[-2:]
    pairs = combinations(range(signs.shape[1]), 2)
    return {
        "data_set": name,
        "pairs": len(signs),
        "answers": len(choices.second),
        "participants": len(np.unique(choices.participant)),
        "models": signs.shape[1],
        "best": scores.columns[best],
        "accuracy": accuracy[best],
        "second": scores.columns[second],
        "lead": accuracy[best] - accuracy[second],
        "disagreement": np.mean([(signs[:, i] != signs[:, j]).mean() for i, j in pairs]),
        "disagreement_best": (signs[:, best] != signs[:, second]).mean(),
    }


def draw_curves(names: list[str], out: Path) -> None:
    """Draw the probability of naming the best model, a panel for each data set."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    axes = figure.subplots(2, 3, sharey=True).ravel()
    for ax, name in zip(axes, names, strict=False):
        with np.load(out / f"{name}-real.npz") as stored:
            numbers, curves = stored["numbers"], stored["curves"]
        last = np.searchsorted(numbers, numbers[-1] / 2)
        for row, (policy, _) in enumerate(ROWS[:5]):
            ax.plot(
                numbers[:last:2],
                curves[0, row, 0, :last:2],
                label=policy,
                color=series_colour(row),
                linewidth=1.2,
            )
        ax.axhline(LEVEL * curves[0, 0, 0, -1], color="black", linewidth=0.6, linestyle=":")
        ax.set_title(TITLES[name], fontsize=9)
        ax.set_xscale("log")
        ax.set_ylim(0, 1)
    handles, labels = axes[0].get_legend_handles_labels()
    for ax in axes[len(names) :]:
        ax.axis("off")
    axes[5].legend(handles, labels, frameon=False, loc="center", fontsize=9)
    figure.supxlabel("answers", fontsize=9)
    figure.supylabel("probability of naming the best model", fontsize=9)
    save_figure(figure, FOLDER / "curves.svg")


def draw_predictions(table: pd.DataFrame) -> None:
    """Draw realised k by predicted k."""
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    ax = figure.subplots()
    table = table[(table["k_predicted"] > 0) & (table["k"] > 0)]
    for number, (policy, own) in enumerate(table.groupby("policy")):
        style = {"color": series_colour(number)}
        ax.plot(own["k_predicted"], own["k"], "o", markersize=4, label=policy, **style)
        ax.vlines(own["k_predicted"], own["k_low"].clip(0.02), own["k_high"], lw=0.7, **style)
    ends = [0.2, 20.0]
    ax.plot(ends, ends, color="black", linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("predicted k")
    ax.set_ylabel("realised k")
    ax.legend(frameon=False)
    save_figure(figure, FOLDER / "predicted.svg")


def main() -> None:
    """Write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    rows, predicted = [], []
    finished = [name for name in READERS if (args.out / f"{name}-winner-left-out.npz").exists()]
    for name in finished:
        for condition in CONDITIONS:
            stem = args.out / f"{name}-{condition.replace(' ', '-')}"
            labels = {"data_set": name, "condition": condition}
            own = [labels | row for row in result_rows(stem.with_suffix(".npz"))]
            rows += own
            if condition != "shuffled":
                predicted += predicted_rows(stem, labels)
    results = pd.DataFrame(rows)
    print(readme_table(results))
    results.round(4).to_csv(FOLDER / "results.csv", index=False)
    sizes = pd.DataFrame([describe_data_set(name, args.data, args.out) for name in finished])
    print(sizes.round(3).to_markdown(index=False))
    sizes.round(4).to_csv(FOLDER / "data-sets.csv", index=False)
    table = pd.DataFrame(predicted)
    ratio = np.abs(np.log2(table["k"].replace(0, np.nan) / table["k_predicted"]))
    print(table.round(3).to_markdown(index=False))
    print(f"median |log2(realised / predicted)|: {ratio.median():.2f}")
    table.round(4).to_csv(FOLDER / "predicted.csv", index=False)
    draw_curves(finished, args.out)
    draw_predictions(table)


if __name__ == "__main__":
    main()
