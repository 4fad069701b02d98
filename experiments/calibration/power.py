"""Power by `contstim design power` compared with the share of significant simulated studies.

The power of a design is computed by `contstim.design.power_curve`. Independent studies are
simulated by `simulate_choices` and analysed as in `evaluate`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from contstim.design.power import power_curve
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import GOLAN2023_PARTICIPANTS, StudySimulator
from contstim.evaluation import evaluate
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.inference.crossed import QuasiFInference
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.tables import result_tables
from contstim.evaluation.trials import TrialData, default_analyses
from contstim.evaluation.values import compute_values

# Studies of each design that go through `evaluate` as well; and pilots.
_THROUGH_EVALUATE, _PILOTS = 5, 20
#: From a seed to the trials, the scores and the people of a study, and how many there are a group.
Study = Callable[[int], tuple[pd.DataFrame, pd.DataFrame, Simulation, int]]


@dataclass(frozen=True)
class Design:
    """A design, as the command takes it and as studies of it are made.

    Attributes
    ----------
    name
        What it is.
    studies
        For `power_curve`: one, or one of each of several pilots.
    size
        Participants, trials and groups.
    study
        What makes one.
    """

    name: str
    studies: Sequence[StudySimulator]
    size: tuple[int, int, int]
    study: Study


def main() -> int:
    """Simulate, and print a row for each design as the guide has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000, help="a design (2000)")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of designs, from 1")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| design | people x pairs | measure | power | found by `evaluate` |")
    print("| --- | --- | --- | ---: | ---: |")
    for number, design in enumerate(designs(arguments.seed), 1):
        if arguments.only and number not in arguments.only:
            continue
        print("\n".join(rows(design, arguments.studies, arguments.seed)), flush=True)
    return 0


def rows(design: Design, n: int, seed: int) -> list[str]:
    """Return a row for each measure, of the first two models over all trials."""
    people, trials, groups = design.size
    powers = [
        power_curve(studies, (people,), (trials,), n_simulations=n, seed=seed)
        for studies in design.studies
    ]
    pair = powers[0].iloc[0][["model_1", "model_2"]].tolist()
    hits: dict[str, list[bool]] = {}
    for number in range(n):
        table, scores, simulation, each = design.study(seed + number)
        choices = simulate_choices(table, scores, simulation, each, seed=seed + number)
        scores = scores.drop(columns="people", errors="ignore")
        compared = comparisons(choices, scores)
        if number < _THROUGH_EVALUATE:
            whole = evaluate(choices, scores).comparisons
            np.testing.assert_allclose(compared["q"], whole["q"], rtol=1e-12)
        for row in of_pair(compared, pair).itertuples():
            hits.setdefault(str(row.measure), []).append(row.q < ALPHA)
    size = f"{people} x {trials}" + f", {groups} groups" * (groups > 1)
    lines = []
    for measure, finds in hits.items():
        low, high = binomtest(sum(finds), n).proportion_ci()
        share = f"{100 * np.mean(finds):.1f} ({100 * low:.1f} to {100 * high:.1f})"
        by_measure = [of_pair(each, pair).set_index("measure")["power"] for each in powers]
        values = 100 * np.array([each[measure] for each in by_measure])
        text = f"{values.mean():.1f}"
        if len(values) > 1:
            text += f" ({values.min():.0f} to {values.max():.0f})"
        lines.append(f"| {design.name} | {size} | {measure} | {text} | {share} |")
    return lines


def of_pair(table: pd.DataFrame, pair: list[str]) -> pd.DataFrame:
    """Return the rows of two models over all trials."""
    these = (table[["model_1", "model_2"]] == pair).all(axis=1)
    return table[these & (table["analysis"] == "all")]


def comparisons(choices: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons that `evaluate` makes by default."""
    options = EvaluationOptions()
    data = TrialData.from_choices(choices, scores.set_index("sentence"))
    outcomes = (
        outcome
        for analysis in default_analyses(data.pairs)
        for outcome in compute_values(data, analysis, options)
    )
    return result_tables(outcomes, QuasiFInference(options.items, options.equivalence), options)[1]


def designs(seed: int) -> list[Design]:
    """Return the designs, the last one with power from pilots."""
    return [
        stated(0.0, 20, 40),
        stated(0.5, 5, 20),
        stated(0.3, 12, 20),
        stated(0.2, 20, 40),
        stated(0.25, 30, 48, kin=4),
        laid_out("three models, one followed", 3, 5, 20),
        laid_out("a mixture", 2, 20, 30, mixture=(0.7, 0.3)),
        laid_out("items of three", 2, 10, 36, kin=3, noise=2.0),
        laid_out("groups with pairs of their own", 2, 4, 10, groups=4, noise=2.0),
        from_pilots(0.2, 15, 40, seed),
    ]


def stated(difference: float, people: int, pairs: int, kin: int = 1) -> Design:
    """Return a design of a stated difference of accuracy."""
    studies = StudySimulator.from_difference(difference, GOLAN2023_PARTICIPANTS, kin)

    def study(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Simulation, int]:
        rng = np.random.default_rng([1, seed])
        ratios = np.abs(rng.normal(size=(pairs, 2))) * [1.0, -1.0]
        table, scores = tables(ratios, kin)
        unit = max(
            float(studies.latent[0]), 1e-9
        )  # a mixture's preferences have root mean square 1
        scores["people"] = [0.0, 1.0] * pairs
        units = ("noise", "item_sd", "confident", "very_confident")
        scaled = {name: getattr(GOLAN2023_PARTICIPANTS, name) / unit for name in units}
        if difference == 0:  # nobody prefers anything
            return table, scores, GOLAN2023_PARTICIPANTS, people
        return (
            table,
            scores,
            replace(GOLAN2023_PARTICIPANTS, weights=(("people", 1.0),), **scaled),
            people,
        )

    items = f", items of {kin}" * (kin > 1)
    return Design(
        f"accuracies differ by {difference:g}{items}", [studies], (people, pairs, 1), study
    )


def laid_out(
    name: str,
    n_models: int,
    people: int,
    pairs: int,
    *,
    mixture: tuple[float, ...] = (1.0,),
    kin: int = 1,
    groups: int = 1,
    noise: float = 1.0,
) -> Design:
    """Return a design of trials and models that people follow."""
    rng = np.random.default_rng([2, n_models, people, pairs, kin, groups])
    ratios = rng.normal(size=(groups * pairs, n_models))
    table, scores = tables(ratios, kin)
    table["group"] = np.arange(groups * pairs) // pairs
    models = [column for column in scores if column != "sentence"]
    weights = tuple(zip(models, mixture, strict=False))
    shared = 1.0 if kin > 1 else 0.5
    simulation = replace(GOLAN2023_PARTICIPANTS, weights=weights, shared=shared, noise=noise)
    studies = StudySimulator.from_trials(table, scores, models, simulation)
    return Design(
        name, [studies], (people, pairs, groups), lambda _: (table, scores, simulation, people)
    )


def from_pilots(difference: float, people: int, pairs: int, seed: int) -> Design:
    """Return a design with its power estimated from pilots."""
    large, small = stated(difference, 60, 120), stated(difference, people, pairs)
    pilots: list[StudySimulator] = []
    for number in range(_PILOTS):
        table, scores, simulation, each = large.study(seed + number)
        choices = simulate_choices(table, scores, simulation, each, seed=seed + number)
        scores = scores.drop(columns="people").set_index("sentence")
        pilots.append(StudySimulator.from_pilot(TrialData.from_choices(choices, scores)))
    name = f"{_PILOTS} pilots of 60 x 120 (mean and range)"
    return Design(name, pilots, small.size, small.study)


def tables(ratios: np.ndarray, kin: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return trials and scores of pairs with these log-ratios, (K, M)."""
    first, second = ([f"{word} {pair}" for pair in range(len(ratios))] for word in ("one", "two"))
    table = pd.DataFrame({"sentence_1": first, "sentence_2": second})
    table["item"] = np.arange(len(ratios)) // kin
    values = np.stack([np.zeros_like(ratios), ratios], axis=1).reshape(-1, ratios.shape[1])
    names = ["first", "second", "third", "fourth"][: ratios.shape[1]]
    scores = pd.DataFrame(values, columns=names)
    scores.insert(
        0, "sentence", [text for both in zip(first, second, strict=True) for text in both]
    )
    return table, scores


if __name__ == "__main__":
    sys.exit(main())
