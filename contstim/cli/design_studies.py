"""Simulated studies of a design: choices of participants, and statistical power.

The kinds simulate and power of `contstim design`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from contstim.cli.common import check_figure_path, print_message, write_table
from contstim.cli.evaluate import AS_RECOGNISED, ChoiceFormat
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    NewFile,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Share,
    Spec,
    Text,
    float_parameter,
    integer_parameter,
)
from contstim.errors import InputError
from contstim.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

    from contstim.design.studies import StudySimulator
    from contstim.models.base import SentenceModel

SIMULATE = """Let simulated participants answer the trials of a design.

examples:
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
"""

POWER = """Compute the statistical power of a study, or the number of participants it needs.

Simulates studies and tests each as `contstim evaluate` does. Studies come from a table of trials
and the models that are compared, from a stated difference in accuracy, or from the choices of a
pilot study. The table also has the recovery, the share of studies in which the model that
participants follow is the best of all.

examples:
  contstim design power --difference 0.3 --trials-each 40 80 --figure power.svg
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --participants 10 20
  contstim design power --pilot-choices choices.csv --scores scores.csv --trials-each 40
"""

STUDIES = Group.create_ordered("where studies come from")
PILOT = Group.create_ordered("how the pilot is read, as in `contstim evaluate`")
SIZE = Group.create_ordered("size of a study")
PEOPLE = Group.create_ordered("how participants answer")
OUTPUT = Group.create_ordered("running and output")

Numbers = Annotated[
    tuple[PositiveInteger, ...], Parameter(group=SIZE, metavar="N ...", consume_multiple=(1, None))
]
Follow = Annotated[tuple[Text, ...], Parameter(group=PEOPLE, metavar="SPEC[=WEIGHT]")]
Noise = Annotated[float | None, float_parameter(0, 1e6, "SD"), Parameter(group=PEOPLE)]
Effect = Annotated[float | None, float_parameter(0, 100, "SD"), Parameter(group=PEOPLE)]
Out = Annotated[OutputFile, Parameter(group=OUTPUT)]
Seeded = Annotated[RandomSeed, Parameter(group=OUTPUT)]


def simulate(
    trials: File,
    /,
    *,
    follow: Follow = (),
    noise: Noise = None,
    lapse: Annotated[Share | None, Parameter(group=PEOPLE)] = None,
    slope_sd: Annotated[float | None, float_parameter(0, 2, "SD"), Parameter(group=PEOPLE)] = None,
    item_sd: Effect = None,
    shared: Annotated[Share | None, Parameter(group=PEOPLE)] = None,
    seed: Seeded = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Let simulated participants answer trials.

    Parameters
    ----------
    trials
        trials, output of `contstim design trials`
    follow
        model that participants follow; several models form a mixture with weights (repeatable)
    noise
        standard deviation of the noise of an answer, relative to the preference [1]
    lapse
        share of random answers [0.02]
    slope_sd
        standard deviation over participants of the log strength of the preference [0]
    item_sd
        standard deviation of the effects of pairs that no model predicts, relative to the
        preference [0]
    shared
        share of the variance of these effects that the pairs of an item have in common [0.5]
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.design.simulate import Simulation, simulate_choices

    models, weights = _load_followed(follow)
    effects = {"noise": noise, "lapse": lapse, "slope_sd": slope_sd}
    effects |= {"item_sd": item_sd, "shared": shared}
    given: dict[str, Any] = {name: value for name, value in effects.items() if value is not None}
    table = read_table(trials, cells="text")
    choices = simulate_choices(table, models or None, Simulation(weights, **given), seed=seed)
    write_table(choices, out, [trials])


#: Options of `design power` that only some sources of studies have.
_OPTIONS_OF_SOURCE = {
    "difference": {"item_sd"},
    "pilot_choices": {"trials", "compare", "scores", "format"},
    "trials": {"trials", "compare", "scores", "follow", "noise", "item_sd"},
}


def power(
    trials: File | None = None,
    /,
    *,
    compare: Annotated[
        tuple[Spec, ...], Parameter(group=STUDIES, metavar="SPEC ...", consume_multiple=(1, None))
    ] = (),
    scores: Annotated[File | None, Parameter(group=STUDIES)] = None,
    difference: Annotated[float | None, float_parameter(0, 1), Parameter(group=STUDIES)] = None,
    pilot_choices: Annotated[File | None, Parameter(group=STUDIES)] = None,
    pilot_format: Annotated[ChoiceFormat, Parameter(group=PILOT)] = AS_RECOGNISED,
    participants: Numbers = (),
    trials_each: Numbers = (),
    target: Annotated[Share, Parameter(group=SIZE)] = 0.8,
    follow: Follow = (),
    noise: Noise = None,
    item_sd: Effect = None,
    simulations: Annotated[int, integer_parameter(1, 10**6), Parameter(group=OUTPUT)] = 1000,
    figure: Annotated[NewFile | None, Parameter(group=OUTPUT)] = None,
    seed: Seeded = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Compute power.

    Parameters
    ----------
    trials
        trials or pairs of sentences; with --pilot-choices, sentences of each question
        (Qualtrics)
    compare
        models that are compared
    scores
        log-probabilities of the sentences under the models that are compared
    difference
        difference in accuracy between two models, on pairs on which they disagree
    pilot_choices
        choices of a pilot study, in any format that `contstim evaluate` reads
    participants
        number of participants per group [as many as --target takes]
    trials_each
        number of trials per participant [all pairs of a group, or 40]
    target
        power that is to be reached
    follow
        model that participants follow; several models form a mixture with weights (repeatable) [the
        first that is compared]
    noise
        standard deviation of the noise of an answer, relative to the preference [1]
    item_sd
        standard deviation of the effects of pairs that no model predicts, relative to the
        preference [0; with --difference 0.75, relative to the noise]
    simulations
        number of simulated studies of each size
    figure
        figure of the result (.svg, .pdf or .png)
    seed
        random seed
    out
        output table [standard output]
    """
    import pandas as pd

    from contstim.design.figures import power_figure
    from contstim.design.power import power_curve, required_sample_size
    from contstim.design.studies import GOLAN2023_PARTICIPANTS, StudySimulator
    from contstim.drawing import create_axes, save_figure
    from contstim.evaluation.summary import describe_disagreement

    sources = {"difference": difference, "pilot_choices": pilot_choices}
    named = [name for name, value in sources.items() if value is not None]
    if len(named) > 1 or not (named or trials):
        raise InputError("give one of a table of trials, --difference and --pilot-choices")
    source = named[0] if named else "trials"
    given: dict[str, Any] = {"trials": trials, "compare": compare, "scores": scores}
    given |= {"follow": follow, "noise": noise, "item_sd": item_sd}
    given["format"] = None if pilot_format == AS_RECOGNISED else pilot_format
    for name, value in given.items():
        if value not in (None, ()) and name not in _OPTIONS_OF_SOURCE[source]:
            options = {"trials": "the table of trials", "format": "the format of a pilot"}
            option = options.get(name, "--" + name.replace("_", "-"))
            other = "a table of trials" if source == "trials" else "--" + source.replace("_", "-")
            raise InputError(f"{option} has no effect with {other}; leave it out")
    if source != "difference" and bool(compare) == bool(scores):
        raise InputError("give the models that are compared: either --compare or --scores")
    check_figure_path(None if figure is None else Path(figure))
    effects: dict[str, Any] = {"noise": noise, "item_sd": item_sd}
    effects = {name: value for name, value in effects.items() if value is not None}
    if difference is not None:
        simulator = StudySimulator.from_difference(
            difference, replace(GOLAN2023_PARTICIPANTS, **effects)
        )
    elif pilot_choices is not None:
        simulator = _simulate_pilot(pilot_format, pilot_choices, trials, compare, scores)
    else:
        simulator = _simulate_trials(str(trials), compare, scores, follow, effects)
    if difference is None:
        for line in describe_disagreement(simulator.models, simulator.ratios):
            print_message(line)
    numbers = trials_each or (simulator.default_trials,)
    if participants:
        table = power_curve(simulator, participants, numbers, simulations, seed)
    else:
        parts = []
        for n_trials in numbers:
            needed, tried = required_sample_size(simulator, n_trials, target, simulations, seed)
            parts.append(tried)
            for row in needed.to_dict("records"):
                print_message(_describe_need({str(k): v for k, v in row.items()}, target, tried))
        table = pd.concat(parts, ignore_index=True)
    write_table(table, out, [trials, pilot_choices, scores])
    if figure is not None:
        axes = create_axes(table["measure"].nunique())
        power_figure(table, target, axes)
        save_figure(axes[0], Path(figure))


def _simulate_pilot(
    format: ChoiceFormat,
    pilot: str,
    questions: str | None,
    compare: tuple[str, ...],
    scores: str | None,
) -> StudySimulator:
    """Return simulated studies like a pilot, and print the differences that it found."""
    from contstim.design.studies import StudySimulator
    from contstim.evaluation.evaluate import evaluate
    from contstim.evaluation.exclusion import exclude_unknown_words
    from contstim.evaluation.scores import model_scores
    from contstim.models.registry import load_models

    human = format.read([pilot], questions)
    if compare:
        models = load_models(compare)
        human = exclude_unknown_words(human, [m for m in models if m.event.unknown == "error"])
        table = model_scores(models, human.choices)
    else:
        table = read_table(str(scores))
    for note in human.notes:
        print_message(note)
    evaluation = evaluate(human, table)
    simulator = StudySimulator.from_pilot(evaluation.data)
    for row in evaluation.comparisons.query("analysis == 'all'").itertuples():
        print_message(
            f"pilot: {row.model_1} minus {row.model_2}, {row.measure}: {row.difference:.3f} "
            f"({row.ci_low:.3f} to {row.ci_high:.3f}); power is that of the estimate itself"
        )
    return simulator


def _simulate_trials(
    trials: str,
    compare: tuple[str, ...],
    scores: str | None,
    follow: tuple[str, ...],
    effects: dict[str, Any],
) -> StudySimulator:
    """Return simulated studies with the pairs of a table."""
    from contstim.design.simulate import Simulation, require_pairs
    from contstim.design.studies import StudySimulator
    from contstim.models.registry import load_model, load_models
    from contstim.selection.scores import read_scores

    design = read_table(trials, cells="text")
    require_pairs(design, trials)
    if scores is not None:
        table = read_scores(scores)
        names = [str(column) for column in table.columns]
        # A mixture may name the table's models only.
        followed = [_read_weight(text, names) for text in follow or names[:1]]
        simulation = Simulation(tuple(followed), **effects)
        return StudySimulator.from_trials(design, table, names, simulation)
    models, weights = _load_followed(follow or compare[:1])
    compared = [load_model(spec) for spec in compare]
    names = [model.name for model in compared]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--compare names {name!r} twice; give different models")
    models = {model.name: model for model in load_models([*models.values(), *compared])}
    return StudySimulator.from_trials(design, models, names, Simulation(weights, **effects))


def _describe_need(row: dict[str, Any], target: float, tried: pd.DataFrame) -> str:
    """Say how many participants a comparison takes."""
    import pandas as pd

    keys = ["analysis", "measure", "model_1", "model_2"]
    curve = tried[(tried[keys] == [row[key] for key in keys]).all(axis=1)]
    n_groups, n_trials = (int(curve[name].iloc[0]) for name in ("n_groups", "n_trials"))
    what = f"{row['model_1']} and {row['model_2']}, {row['measure']}"
    what += "" if row["analysis"] == "all" else f" ({row['analysis']})"
    what += f", {n_trials} trials each" + f", {n_groups} groups" * (n_groups > 1)
    if not pd.isna(row["n_participants"]):
        group = " per group" * (n_groups > 1)
        high = "more than tried" if pd.isna(row["high"]) else row["high"]
        return (
            f"{what}: {target:.0%} power takes {row['n_participants']} participants{group} "
            f"({row['low']} to {high} within the Monte Carlo error)"
        )
    reached = f"{curve['power'].max():.0%} with up to {curve['n_participants'].max()} participants"
    if curve["power"].max() >= target:  # reached by one size, missed by a larger one
        return (
            f"{what}: power is about {target:.0%}, at most {reached}; simulate more studies "
            "(--simulations) or use more pairs"
        )
    return f"{what}: power is at most {reached}; use more pairs, or pairs that differ more"


def _load_followed(
    follow: tuple[str, ...],
) -> tuple[dict[str, SentenceModel], tuple[tuple[str, float], ...]]:
    """Load the models that participants follow; return them and their weights by name."""
    from contstim.models.registry import load_model, load_models

    followed = [_read_weight(text) for text in follow]
    models = [load_model(spec) for spec, _ in followed]
    weights = tuple((m.name, weight) for m, (_, weight) in zip(models, followed, strict=True))
    distinct = load_models(models) if models else []
    return {model.name: model for model in distinct}, weights


def _read_weight(text: str, names: list[str] | None = None) -> tuple[str, float]:
    """Return a spec, or one of `names`, and its weight, 1 by default."""
    from contstim.models import ModelSpec

    # Options of a spec contain "=" as well; a weight is a number after the last one.
    spec, _, number = text.rpartition("=")
    try:
        weight = float(number)
        if names is None:
            ModelSpec.parse(spec)
    except ValueError:  # no number, or the value of the spec's last option
        return text, 1.0
    if names is not None and text in names:
        return text, 1.0
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight {number} of --follow {text!r} is not a number above 0")
    return spec, weight
