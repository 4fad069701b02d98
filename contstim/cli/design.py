"""Lay out an experiment, or see what a design can show before money is spent on it.

trials: allocates selected pairs and triplets to groups of participants, so that every group sees
every condition of every model pair equally often and nobody sees a sentence twice; order and sides
are each participant's own. simulate: lets simulated people, who follow one model or a mixture,
answer the trials, so that the whole analysis can be run before there are data. plan: the smallest
p-value that a number of groups can give (of participants, where groups are fewer than six), and
what the correction for many comparisons then asks. power: how often an experiment of each size
would tell two models apart, by simulation.

Examples:
  contstim design plan --groups 10 --comparisons 36
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --groups 5 10
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
  contstim design trials --natural pairs.csv --triplets chosen.csv --groups 10 --participants 10
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from contstim.cli.common import (
    add_seed,
    number,
    output_file,
    positive,
    resamples,
    whole_number,
    write_output,
)
from contstim.errors import InputError
from contstim.models.spec import ModelSpec
from contstim.tables import read_table
from contstim.text.sentences import pool, read_sentences

if TYPE_CHECKING:
    from contstim.evaluation.simulate import Simulation
    from contstim.models.base import SentenceModel


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    trials = actions.add_parser("trials", help="make the trials of every participant")
    trials.add_argument("--natural", metavar="CSV", help="from `contstim select natural`")
    trials.add_argument("--triplets", metavar="CSV", help="from `contstim select triplets`")
    trials.add_argument(
        "--pool",
        metavar="FILE",
        help="natural sentences for random pairs and catch trials (default: the bundled pool)",
    )
    trials.add_argument(
        "--layout", metavar="NAME", help="a published layout: golan2023; or the four numbers below"
    )
    trials.add_argument("--groups", type=positive, metavar="N", help="groups of participants")
    trials.add_argument("--participants", type=positive, metavar="N", help="in each group")
    trials.add_argument(
        "--random-natural", type=whole_number(0), metavar="N", help="random pairs (0)"
    )
    trials.add_argument(
        "--catch", type=whole_number(0), metavar="N", help="shuffled-word trials (0)"
    )
    trials.add_argument(
        "--out", type=output_file, default="-", metavar="CSV", help="(default: standard output)"
    )
    add_seed(trials)
    simulate = actions.add_parser("simulate", help="let simulated people answer the trials")
    simulate.add_argument("trials", help="from `contstim design trials`")
    simulate.add_argument(
        "--follow",
        action="append",
        default=[],
        metavar="SPEC[=WEIGHT]",
        help="a model that people follow; several make a mixture (default: none, all is noise)",
    )
    _add_people(simulate)
    simulate.add_argument(
        "--out", type=output_file, default="-", metavar="CSV", help="(default: standard output)"
    )
    add_seed(simulate)
    power = actions.add_parser("power", help="say how often two models would be told apart")
    power.add_argument("trials", help="from `contstim design trials`, or any pairs of sentences")
    power.add_argument("--compare", nargs=2, required=True, metavar="SPEC")
    power.add_argument(
        "--follow",
        action="append",
        default=[],
        metavar="SPEC[=WEIGHT]",
        help="a model that people follow; several make a mixture (default: the first compared)",
    )
    _add_people(power)
    for option, unit, default in (
        ("--groups", "groups of participants", [10]),
        ("--participants", "participants a group", [10]),
        ("--trials-each", "trials a group (default: all the pairs that a group has)", []),
    ):
        power.add_argument(
            option, nargs="+", type=positive, default=default, metavar="N", help=unit
        )
    power.add_argument("--simulations", type=resamples, default=500, metavar="N", help="(500)")
    power.add_argument(
        "--out", type=output_file, default="-", metavar="CSV", help="(default: standard output)"
    )
    add_seed(power)
    plan = actions.add_parser("plan", help="say what a design can show at best")
    plan.add_argument("--groups", type=positive, required=True, metavar="N")
    plan.add_argument(
        "--participants", type=positive, metavar="N", help="in each group (for fewer than 6 groups)"
    )
    plan.add_argument("--comparisons", type=positive, required=True, metavar="N")
    plan.add_argument(
        "--alpha",
        type=number(above=0, most=1),
        default=0.05,
        metavar="RATE",
        help="(default: 0.05)",
    )


def _add_people(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--noise", type=number(0), default=1.0, metavar="SD", help="against a preference of 1 (1)"
    )
    parser.add_argument(
        "--lapse", type=number(0, 1), default=0.02, metavar="SHARE", help="answers at random (0.02)"
    )


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    from contstim.selection import plan_design

    if args.action == "plan":
        print(plan_design(args.groups, args.comparisons, args.alpha, args.participants))
        return 0
    return {"simulate": _simulate, "power": _power, "trials": _trials}[args.action](args)


def _simulate(args: argparse.Namespace) -> int:
    from contstim.evaluation.simulate import simulate_choices

    models, simulation = _people(args, args.follow)
    scores: Any = {spec: model.score for spec, model in models.items()} or None
    choices = simulate_choices(
        read_table(args.trials, cells="text"), scores, simulation, seed=args.seed
    )
    with write_output(args.out, [args.trials]) as out:
        choices.to_csv(out, index=False, lineterminator="\n")
    return 0


def _power(args: argparse.Namespace) -> int:
    from contstim.evaluation.power import power
    from contstim.models.registry import load_model

    models, simulation = _people(args, args.follow or args.compare[:1])
    compared = [load_model(spec) for spec in args.compare]
    if compared[0].spec == compared[1].spec:
        raise InputError(f"--compare names {compared[0].spec!r} twice; give two models")
    models |= {model.spec: model for model in compared}
    scores: Any = {spec: model.score for spec, model in models.items()}
    design = read_table(args.trials, cells="text")
    for column in ("sentence_1", "sentence_2"):
        if column not in design:
            raise InputError(
                f"{args.trials} has no column {column!r}; give trials or pairs of sentences"
            )
    columns = [c for c in ("sentence_1", "sentence_2", "group") if c in design]
    table = power(
        design[columns].drop_duplicates(),
        scores,
        (compared[0].spec, compared[1].spec),
        simulation,
        args.groups,
        args.participants,
        args.trials_each,
        n_simulations=args.simulations,
        seed=args.seed,
    )
    with write_output(args.out, [args.trials]) as out:
        table.to_csv(out, index=False, lineterminator="\n")
    return 0


def _people(
    args: argparse.Namespace, follow: Sequence[str]
) -> tuple[dict[str, SentenceModel], Simulation]:
    """Load the models that people follow, and say how people answer."""
    from contstim.evaluation.simulate import Simulation
    from contstim.models.registry import load_model

    followed = [_weighted(given) for given in follow]
    models = [(load_model(spec), weight) for spec, weight in followed]
    weights = tuple((model.spec, weight) for model, weight in models)
    simulation = Simulation(weights, noise=args.noise, lapse=args.lapse)
    return {model.spec: model for model, _ in models}, simulation


def _weighted(given: str) -> tuple[str, float]:
    # Options of a spec hold "=" as well; a weight is a number after the last one.
    spec, _, number = given.rpartition("=")
    try:
        weight = float(number)
        ModelSpec.parse(spec)
    except ValueError:  # no number, or one that is the value of the spec's last option
        return given, 1.0
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight {number} of --follow {given!r} is not a number above 0")
    return spec, weight


def _trials(args: argparse.Namespace) -> int:
    from contstim.selection import LAYOUTS, Layout, design_trials, plan_design, read_triplets

    numbers = {
        name: getattr(args, name)
        for name in ("groups", "participants", "random_natural", "catch")
        if getattr(args, name) is not None
    }
    if args.layout is not None and numbers:
        raise InputError(f"give --layout {args.layout} or the numbers of a layout, not both")
    layout = args.layout if args.layout is not None else Layout(**numbers)
    trials = design_trials(
        None if args.natural is None else read_table(args.natural, cells="text"),
        None if args.triplets is None else read_triplets(args.triplets),
        read_sentences(args.pool) if args.pool else pool(),
        layout,
        seed=args.seed,
    )
    with write_output(args.out, [args.natural, args.triplets, args.pool]) as out:
        trials.to_csv(out, index=False, lineterminator="\n")
    resolved = LAYOUTS[layout] if isinstance(layout, str) else layout
    models = {*trials["model_1"].dropna(), *trials["model_2"].dropna()}
    print(f"{trials.attrs['trials']} trials a participant", file=sys.stderr)
    if len(models) > 1:
        comparisons = len(list(combinations(models, 2)))
        plan = plan_design(resolved.groups, comparisons, participants=resolved.participants)
        print(plan, file=sys.stderr)
    return 0
