"""Lay out an experiment, or see what a design can show before money is spent on it.

trials: allocates selected pairs and triplets to groups of participants, so that every group sees
every condition of every model pair equally often and nobody sees a sentence twice; order and sides
are each participant's own. simulate: lets simulated people, who follow one model or a mixture,
answer the trials, so that the whole analysis can be run before there are data. plan: the smallest
p-value that a number of groups can give (of participants, where groups are fewer than six), and
what the correction for many comparisons then asks. power: how often an experiment of each size
would tell two models apart (--compare), or name the right one of many (--scores), by simulation;
and what the plan of an adaptive study decides, how often wrongly, and after how many people
(--plan, with its pool of pairs and --scores), also where people are not as it states.

Examples:
  contstim design plan --groups 10 --comparisons 36
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --groups 5 10
  contstim design power set.csv pairs.csv --scores scores.csv --random 360 --figure power.svg
  contstim design power pairs.csv --scores scores.csv --plan plan.toml --figure plan.svg
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
  contstim design trials --natural pairs.csv --triplets chosen.csv --groups 10 --participants 10
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contstim.cli.common import (
    add_decisions,
    add_people,
    approved,
    people_of,
    small_share,
    tell,
    write_rows,
)
from contstim.cli.parsing import (
    CommandParser,
    given,
    new_file,
    number,
    output_file,
    positive,
    simulations,
    whole_number,
)
from contstim.errors import InputError
from contstim.experiment.trials import write_record
from contstim.files import is_stream
from contstim.models import ModelSpec
from contstim.tables import read_table
from contstim.text import pool, read_sentences

if TYPE_CHECKING:
    from contstim.evaluation.simulate import Simulation
    from contstim.models.base import SentenceModel


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_trials(actions.add_parser("trials", help="make the trials of every participant"))
    simulate = actions.add_parser("simulate", help="let simulated people answer the trials")
    simulate.add("trials", "from `contstim design trials`")
    _add_people(simulate, "none, all is noise")
    simulate.add_out()
    simulate.add_seed()
    _add_power(actions.add_parser("power", help="say how often models would be told apart"))
    plan = actions.add_parser("plan", help="say what a design can show at best")
    plan.add("--groups N", "groups of participants", positive, required=True)
    plan.add("--participants N", "in each group (for fewer than 6 groups)", positive)
    plan.add("--comparisons N", "of models", positive, required=True)
    plan.add("--alpha RATE", "", number(above=0, most=1), default=0.05)


def _add_trials(parser: CommandParser) -> None:
    parser.add("--natural CSV", "from `contstim select natural`")
    parser.add("--triplets CSV", "from `contstim select triplets`")
    what = "natural sentences for random pairs and catch trials (default: the bundled pool)"
    parser.add("--pool FILE", what)
    parser.add("--layout NAME", "a published layout: golan2023; or the four numbers below")
    parser.add("--groups N", "groups of participants (default: 10)", positive)
    parser.add("--participants N", "in each group (default: 10)", positive)
    parser.add("--random-natural N", "random pairs (default: 0)", whole_number(0))
    what = "catch trials, sentences against their shuffled words (default: 0)"
    parser.add("--catch N", what, whole_number(0))
    add_decisions(parser)
    parser.add_out()
    parser.add_seed()


def _add_power(parser: CommandParser) -> None:
    parser.add_argument(
        "trials",
        nargs="+",
        metavar="[NAME=]CSV",
        help="from `contstim design trials` or `contstim select`, or any pairs of sentences; "
        "several, side by side, with --scores",
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--compare", nargs=2, metavar="SPEC", help="tell these two apart")
    parser.add(
        "--scores SCORES",
        "name the right one of these models: log-probabilities of natural sentences and those of "
        "the designs, as for `contstim select`",
        to=asked,
    )
    _add_people(parser, "the first compared")
    parser.add("--groups N ...", "groups of participants (default: 10)", positive)
    what = "participants a group (default: 10); with --scores the most of all (default: 100)"
    parser.add("--participants N ...", what, positive)
    what = "trials a group (default: all the pairs that a group has); with --scores (default: 20)"
    parser.add("--trials-each N ...", what, positive)
    what = "experiments that are simulated (default: 500; with --scores 2000)"
    parser.add("--simulations N", what, simulations)
    many = parser.add_argument_group("with --scores")
    parser.add("--random N", "a design of N random pairs beside the others", positive, to=many)
    parser.add(
        "--decision",
        "how the best model is identified (default: log-score)",
        choices=("log-score", "accuracy"),
        to=many,
    )
    parser.add("--target SHARE", "of studies (default: 0.95)", number(0, 1), to=many)
    parser.add("--model-pairs CSV", "how well each two models are told apart", output_file, to=many)
    parser.add("--figure FILE", "curves and matrices, .svg, .pdf or .png", new_file, to=many)
    planned = parser.add_argument_group("with --plan and --scores, of an adaptive study")
    what = "the plan, with a table [adaptive]; the CSV is the pool of pairs"
    parser.add("--plan TOML", what, to=planned)
    what = "of a trial, for the minutes that people take (default: 8)"
    parser.add("--seconds S", what, number(above=0), to=planned)
    add_people(parser, "slope", "slope_sd", "side_sd", "item_sd")
    parser.add_out()
    parser.add_seed()


def _add_people(parser: CommandParser, nobody: str) -> None:
    what = f"a model that people follow; several make a mixture (default: {nobody})"
    parser.add("--follow SPEC[=WEIGHT]", what, several=True, default=[])
    what = "of the answers, against a preference of 1 (default: 1)"
    parser.add("--noise SD", what, number(0, 1e6))
    parser.add("--lapse SHARE", "answers at random (default: 0.02)", number(0, 1))


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
    trials = read_table(args.trials, cells="text")
    choices = simulate_choices(trials, models or None, simulation, seed=args.seed)
    write_rows(choices, args.out, [args.trials])
    return 0


#: Options of `design power` that only comparing two models, and only naming one of many, has.
_OF_TWO = ("follow", "groups", "noise")
_OF_MANY = ("random", "decision", "target", "model_pairs", "figure")
_PEOPLE = ("slope", "slope_sd", "side_sd", "item_sd")


def _power(args: argparse.Namespace) -> int:
    if args.plan is not None:
        return _power_of_plan(args)
    if args.seconds is not None:
        raise InputError("--seconds belongs to --plan; leave it out")
    way, other = ("--scores", _OF_TWO) if args.scores else ("--compare", (*_OF_MANY, *_PEOPLE))
    for name in other:
        if getattr(args, name) not in (None, []):
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} has no effect with {way}; leave it out")
    return _power_of_many(args) if args.scores else _power_of_two(args)


def _power_of_plan(args: argparse.Namespace) -> int:
    from contstim.adaptive import Pool
    from contstim.adaptive.posterior import Nodes
    from contstim.adaptive.simulation import simulated_decisions
    from contstim.evaluation.options import read_adaptive_plan
    from contstim.people import People
    from contstim.report.pair_figures import decisions_figure
    from contstim.report.style import save_figure, sheet
    from contstim.selection import read_scores

    figureless = [name for name in _OF_MANY if name != "figure"]
    for name in (*_OF_TWO, *figureless, "participants", "trials_each", "compare"):
        if getattr(args, name) not in (None, []):
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} has no effect with --plan; leave it out")
    if len(args.trials) > 1:
        raise InputError("--plan takes one table of pairs, the pool; give one")
    plan = read_adaptive_plan(args.plan)
    nodes = Nodes(plan.link, plan.trials)
    pool = Pool.of(read_table(args.trials[0], cells="text"), read_scores(args.scores), nodes)
    chosen = {"n_studies": args.simulations, "seconds": args.seconds}
    table = simulated_decisions(
        plan,
        pool,
        replace(plan.link.people, **given(args, People)),
        seed=args.seed,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    write_rows(table, args.out, [args.plan, args.scores, *args.trials])
    if args.figure is not None:
        save_figure(decisions_figure(table, sheet(2))[0], args.figure)
    for row in table.to_dict("records"):
        tell(
            f"{row['people']}: right model best in {row['best']:.0%} of studies, a wrong one in "
            f"{row['false_winner']:.1%} ({row['false_low']:.1%} to {row['false_high']:.1%}); "
            f"{row['participants']:.0f} participants until the end; the posterior is above .95 "
            f"for some model in {row['above_95']:.0%}"
        )
    return 0


def _power_of_many(args: argparse.Namespace) -> int:
    from contstim.evaluation.recovery import recovery
    from contstim.report.pair_figures import recovery_figure
    from contstim.report.style import save_figure, sheet
    from contstim.selection import read_scores

    designs: dict[str, Any] = {}
    for design in args.trials:
        # A name comes before the first "=", which a path may hold as well.
        name, _, path = design.partition("=")
        if not path or os.path.exists(design):
            name, path = Path(design).stem, design
        if name in designs:
            raise InputError(f"two designs are called {name!r}; give one as NAME={path}")
        designs[name] = read_table(path, cells="text")
    if args.random:
        designs["random"] = args.random
    if args.figure is not None and args.figure.suffix not in (".svg", ".pdf", ".png"):
        raise InputError(
            f"--figure {args.figure} does not end in .svg, .pdf or .png; choose one of these"
        )
    for option in ("participants", "trials_each"):
        if len(getattr(args, option) or [1]) > 1:
            name = option.replace("_", "-")
            raise InputError(f"--{name} takes one number with --scores, the most that are tried")
    chosen = {
        "n_participants": args.participants and args.participants[0],
        "trials_each": args.trials_each and args.trials_each[0],
        "n_studies": args.simulations,
        "decision": args.decision,
        "target": args.target,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    recovered = recovery(
        designs, read_scores(args.scores), people_of(args), seed=args.seed, **chosen
    )
    read = [args.scores, *args.trials]
    for place, table in ((args.out, recovered.curve), (args.model_pairs, recovered.model_pairs)):
        if place is not None:
            write_rows(table, place, read)
    if args.figure is not None:
        axes = sheet(1 + recovered.curve["design"].nunique())
        recovery_figure(recovered.curve, recovered.model_pairs, recovered.target, axes)
        save_figure(axes[0], args.figure)
    tell(recovered)
    return 0


def _power_of_two(args: argparse.Namespace) -> int:
    from contstim.evaluation.scores import unscored_catch
    from contstim.evaluation.simulate import power, require_pairs
    from contstim.models.registry import load_model

    if len(args.trials) > 1:
        raise InputError(f"--compare takes one design, not {len(args.trials)}; give one")
    (trials,) = args.trials
    models, simulation = _people(args, args.follow or args.compare[:1])
    compared = [load_model(spec) for spec in args.compare]
    if compared[0].spec == compared[1].spec:
        raise InputError(f"--compare names {compared[0].spec!r} twice; give two models")
    models |= {model.spec: model for model in compared}
    design = read_table(trials, cells="text")
    require_pairs(design, str(trials))
    design = design[~unscored_catch(design, models)]
    columns = [c for c in ("sentence_1", "sentence_2", "group") if c in design]
    table = power(
        design[columns].drop_duplicates(),
        models,
        (compared[0].spec, compared[1].spec),
        simulation,
        args.groups or [10],
        args.participants or [10],
        args.trials_each or [],
        n_simulations=args.simulations or 500,
        seed=args.seed,
    )
    write_rows(table, args.out, [trials])
    return 0


def _people(
    args: argparse.Namespace, follow: Sequence[str]
) -> tuple[dict[str, SentenceModel], Simulation]:
    """Load the models that people follow, and say how people answer."""
    from contstim.evaluation.simulate import Simulation
    from contstim.models.registry import load_model

    followed = [_weighted(text) for text in follow]
    models = [(load_model(spec), weight) for spec, weight in followed]
    weights = tuple((model.spec, weight) for model, weight in models)
    simulation = Simulation(weights, **given(args, Simulation))
    return {model.spec: model for model, _ in models}, simulation


def _weighted(text: str) -> tuple[str, float]:
    # Options of a spec hold "=" as well; a weight is a number after the last one.
    spec, _, number = text.rpartition("=")
    try:
        weight = float(number)
        ModelSpec.parse(spec)
    except ValueError:  # no number, or one that is the value of the spec's last option
        return text, 1.0
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight {number} of --follow {text!r} is not a number above 0")
    return spec, weight


def _trials(args: argparse.Namespace) -> int:
    from contstim.selection import LAYOUTS, Layout, design_trials, plan_design, read_triplets

    numbers = given(args, Layout)
    if args.layout is not None and numbers:
        raise InputError(f"give --layout {args.layout} or the numbers of a layout, not both")
    layout = args.layout if args.layout is not None else Layout(**numbers)
    natural = None if args.natural is None else read_table(args.natural, cells="text")
    triplets = None if args.triplets is None else read_triplets(args.triplets)
    trials = design_trials(
        None if natural is None else approved(args, natural),
        None if triplets is None else approved(args, triplets),
        read_sentences(args.pool) if args.pool else pool(),
        layout,
        seed=args.seed,
    )
    read = [args.natural, args.triplets, args.pool, *(args.decisions or ())]
    write_rows(trials, args.out, read)
    resolved = LAYOUTS[layout] if isinstance(layout, str) else layout
    if args.out != "-" and not is_stream(Path(args.out)):
        write_record(Path(args.out), {"layout": asdict(resolved), "seed": args.seed})
    models = {*trials["model_1"].dropna(), *trials["model_2"].dropna()}
    tell(f"{trials.attrs['trials']} trials a participant")
    chosen = trials.loc[trials["model_1"].notna(), ["sentence_1", "sentence_2"]]
    from_pool = resolved.catch + resolved.random_natural
    if from_pool and not args.pool and (share := small_share({*chosen.to_numpy().flat})):
        tell(
            "catch trials and random pairs are made of the bundled English sentences, and the "
            f"bundled words have {share} different words of your pairs and triplets; if those are "
            "in another language, give natural sentences of it as --pool"
        )
    if len(models) > 1:
        comparisons = len(list(combinations(models, 2)))
        plan = plan_design(resolved.groups, comparisons, participants=resolved.participants)
        tell(plan)
    return 0
