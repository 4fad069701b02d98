"""Subcommands simulate and power of `contstim design`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from contstim.cli.common import write_table
from contstim.cli.evaluate import AS_RECOGNISED, ChoiceFormat
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    FigureFile,
    File,
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

SIMULATE = """Simulate the choices of participants in the trials of a design.

examples:
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
"""

POWER = """Compute the statistical power of a study, or the number of participants it needs.

Simulates studies and tests each as `contstim evaluate` does. The studies are based on a difference
in accuracy, on a table of trials and the models to compare, or on the choices of a pilot study. The
output has one row per size and comparison, with the power and the recovery: the proportion of
studies in which the model that participants follow is the best of all.

examples:
  contstim design power --difference 0.2 --trials-each 40 80 --figure power.svg
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --participants 10 20
  contstim design power --pilot-choices choices.csv --scores scores.csv --trials-each 40
"""

STUDIES = Group.create_ordered("basis of the studies")
PILOT = Group.create_ordered("format of the pilot choices, as in `contstim evaluate`")
SIZE = Group.create_ordered("size of a study")
PARTICIPANTS = Group.create_ordered("simulated participants")
OUTPUT = Group.create_ordered("running and output")

Numbers = Annotated[
    tuple[PositiveInteger, ...], Parameter(group=SIZE, metavar="N ...", consume_multiple=(1, None))
]
Follow = Annotated[tuple[Text, ...], Parameter(group=PARTICIPANTS, metavar="SPEC[=WEIGHT]")]
Noise = Annotated[float | None, float_parameter(0, 1e6, "SD"), Parameter(group=PARTICIPANTS)]
Effect = Annotated[float | None, float_parameter(0, 100, "SD"), Parameter(group=PARTICIPANTS)]
SlopeSD = Annotated[float | None, float_parameter(0, 2, "SD"), Parameter(group=PARTICIPANTS)]
Out = Annotated[OutputFile, Parameter(group=OUTPUT)]
Seed = Annotated[RandomSeed, Parameter(group=OUTPUT)]


def simulate(
    trials: File,
    /,
    *,
    follow: Follow = (),
    noise: Noise = None,
    lapse: Annotated[Share | None, Parameter(group=PARTICIPANTS)] = None,
    slope_sd: SlopeSD = None,
    item_sd: Effect = None,
    shared: Annotated[Share | None, Parameter(group=PARTICIPANTS)] = None,
    seed: Seed = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Simulate choices.

    Parameters
    ----------
    trials
        trials, output of `contstim design trials`
    follow
        model that determines the choices, or several models with weights (repeatable)
    noise
        standard deviation of the response noise, relative to the root mean square of the
        preferences [1]
    lapse
        share of random responses [0.02]
    slope_sd
        standard deviation over participants of the log strength of the preference [0]
    item_sd
        standard deviation of item effects that no model predicts, relative to the root mean square
        of the preferences [0]
    shared
        share of the variance of item effects that all pairs of an item have in common [0.5]
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.cli import study_simulation

    # Options that are not given keep the defaults of the simulation.
    effects = {"noise": noise, "lapse": lapse, "slope_sd": slope_sd}
    effects |= {"item_sd": item_sd, "shared": shared}
    options: dict[str, Any] = {name: value for name, value in effects.items() if value is not None}
    choices = study_simulation.simulate_participants(trials, follow, options, seed)
    write_table(choices, out, [trials])


_DEFAULT_TARGET = 0.8
#: Options of `design power` that require a certain basis of the studies.
_OPTIONS_BY_BASIS = {
    "difference": {"item_sd"},
    "pilot_choices": {"trials", "compare", "scores", *vars(AS_RECOGNISED)},
    "trials": {"trials", "compare", "scores", "follow", "noise", "item_sd"},
}


def power(
    trials: File | None = None,
    /,
    *,
    difference: Annotated[float | None, float_parameter(0, 1), Parameter(group=STUDIES)] = None,
    compare: Annotated[
        tuple[Spec, ...], Parameter(group=STUDIES, metavar="SPEC ...", consume_multiple=(1, None))
    ] = (),
    scores: Annotated[File | None, Parameter(group=STUDIES)] = None,
    pilot_choices: Annotated[File | None, Parameter(group=STUDIES)] = None,
    pilot_format: Annotated[ChoiceFormat, Parameter(group=PILOT)] = AS_RECOGNISED,
    participants: Numbers = (),
    trials_each: Numbers = (),
    target: Annotated[Share | None, Parameter(group=SIZE)] = None,
    follow: Follow = (),
    noise: Noise = None,
    item_sd: Effect = None,
    simulations: Annotated[int, integer_parameter(1, 10**6), Parameter(group=OUTPUT)] = 1000,
    figure: Annotated[FigureFile | None, Parameter(group=OUTPUT)] = None,
    seed: Seed = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Compute power.

    Parameters
    ----------
    trials
        trials or sentence pairs; with --pilot-choices, sentences of each question (Qualtrics)
    difference
        difference in accuracy (0 to 1) between two models, on pairs on which they disagree
    compare
        models to compare
    scores
        log-probabilities of the sentences under the models to compare
    pilot_choices
        choices of a pilot study, in any format that `contstim evaluate` reads
    participants
        number of participants per group [as many as --target needs]
    trials_each
        number of trials per participant [all pairs of a group; 40 with --difference or
        --pilot-choices]
    target
        target power [0.8]
    follow
        model that determines the simulated choices, or several models with weights (repeatable)
        [the first model to compare]
    noise
        standard deviation of the response noise, relative to the root mean square of the
        preferences [1]
    item_sd
        standard deviation of item effects that no model predicts, relative to the root mean square
        of the preferences [0; with --difference 0.75, relative to the noise]
    simulations
        number of simulated studies of each size
    figure
        figure of the result (.svg, .pdf or .png)
    seed
        random seed
    out
        output table [standard output]
    """
    bases = {"difference": difference, "pilot_choices": pilot_choices}
    named_bases = [name for name, value in bases.items() if value is not None]
    if len(named_bases) > 1 or not (named_bases or trials):
        raise InputError("give one of a table of trials, --difference and --pilot-choices")
    basis = named_bases[0] if named_bases else "trials"
    options: dict[str, Any] = {"trials": trials, "compare": compare, "scores": scores}
    options |= {"follow": follow, "noise": noise, "item_sd": item_sd}
    options |= vars(pilot_format)
    for name, value in options.items():
        is_set = value not in (None, ()) and value != vars(AS_RECOGNISED).get(name)
        if is_set and name not in _OPTIONS_BY_BASIS[basis]:
            label = "the table of trials" if name == "trials" else "--" + name.replace("_", "-")
            basis_label = "a table of trials" if basis == "trials" else f"--{basis}"
            raise InputError(
                f"{label} has no effect with {basis_label.replace('_', '-')}; leave it out"
            )
    if basis != "difference" and bool(compare) == bool(scores):
        raise InputError("give the models to compare: either --compare or --scores")
    if participants and figure is None and target is not None:
        raise InputError(
            "--target has no effect with --participants and without --figure; leave it out"
        )
    target = _DEFAULT_TARGET if target is None else target
    from contstim.cli import study_simulation

    effects: dict[str, Any] = {"noise": noise, "item_sd": item_sd}
    effects = {name: value for name, value in effects.items() if value is not None}
    if difference is not None:
        simulator = study_simulation.simulate_difference(difference, effects)
    elif pilot_choices is not None:
        simulator = study_simulation.build_pilot_simulator(
            pilot_format, pilot_choices, trials, compare, scores
        )
    else:
        simulator = study_simulation.build_simulator(str(trials), compare, scores, follow, effects)
    table = study_simulation.compute_power(
        simulator, participants, trials_each, target, simulations, seed
    )
    write_table(table, out, [trials, pilot_choices, scores])
    if figure is not None:
        from contstim import drawing
        from contstim.design.figures import power_figure

        axes = drawing.create_axes(table["measure"].nunique())
        power_figure(table, target, axes)
        drawing.save_figure(axes[0], Path(figure))
