"""What simulated people do with a design: answer its trials, and tell models apart or not.

The subcommands simulate, power and recovery of `contstim design`.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contstim.cli.common import add_people, check_figure, people_of, tell, write_rows
from contstim.cli.parsing import (
    CommandParser,
    given,
    new_file,
    number,
    output_file,
    positive,
    simulations,
)
from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

    from contstim.design.simulate import Simulation
    from contstim.design.studies import Studies
    from contstim.evaluation.stopping import Stopping
    from contstim.models.base import SentenceModel


def add_studies(actions: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the subcommands."""
    simulate = actions.add_parser("simulate", help="let simulated people answer the trials")
    simulate.add("trials", "from `contstim design trials`")
    _add_people(simulate, "none, all is noise")
    simulate.add_out()
    simulate.add_seed()
    _add_power(actions.add_parser("power", help="say how often a difference would be found"))
    _add_recovery(actions.add_parser("recovery", help="say how often the right model is best"))


def _add_power(parser: CommandParser) -> None:
    parser.add_argument(
        "trials",
        nargs="?",
        metavar="CSV",
        help="with --compare: from `contstim design trials` or `contstim select`, or "
        "any pairs of sentences",
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--compare", nargs="+", metavar="SPEC", help="models that are told apart on the trials"
    )
    what = "of accuracy between two models, on pairs on which they disagree"
    parser.add("--difference NUMBER", what, number(0, 1), to=asked)
    what = "choices of a study like those planned; with --scores"
    parser.add("--pilot CSV", what, to=asked)
    parser.add("--scores SCORES", "of the models, for --pilot")
    _add_people(parser, "the first compared", for_power=True)
    what = "groups of participants (default: as many as the trials have, or 1)"
    parser.add("--groups N ...", what, positive)
    what = "participants a group (default: as many as --target takes)"
    parser.add("--participants N ...", what, positive)
    what = "pairs that each judges (default: all that a group has, or 40)"
    parser.add("--trials-each N ...", what, positive)
    parser.add("--per-item N", "pairs of one item, with --difference (default: 1)", positive)
    what = "of studies in which a difference is to be found (default: 0.8)"
    parser.add("--target SHARE", what, number(0, 1))
    what = "looks at equal steps, at each of which the study may stop (default: 1, at its end)"
    parser.add("--looks N", what, positive)
    what = "at which of them the error is spent: obrien-fleming, late (default); pocock, alike"
    parser.add("--spending NAME", what)
    parser.add("--simulations N", "studies simulated (default: 1000)", simulations)
    parser.add("--figure FILE", "power over people, .svg, .pdf or .png", new_file)
    parser.add_out()
    parser.add_seed()


def _add_recovery(parser: CommandParser) -> None:
    parser.add_argument(
        "trials",
        nargs="+",
        metavar="[NAME=]CSV",
        help="from `contstim design trials` or `contstim select`, or any pairs of sentences; "
        "several are put side by side",
    )
    what = "log-probabilities of natural sentences and those of the designs, as for select"
    parser.add("--scores SCORES", what, required=True)
    parser.add("--participants N", "the most that are tried (default: 100)", positive)
    parser.add("--trials-each N", "trials of each (default: 20)", positive)
    parser.add("--simulations N", "studies simulated (default: 2000)", simulations)
    parser.add("--random N", "a design of N random pairs beside the others", positive)
    parser.add(
        "--decision",
        "how the best model is identified (default: log-score)",
        choices=("log-score", "accuracy"),
    )
    parser.add("--target SHARE", "of studies (default: 0.95)", number(0, 1))
    parser.add("--model-pairs CSV", "how well each two models are told apart", output_file)
    parser.add("--figure FILE", "curves and matrices, .svg, .pdf or .png", new_file)
    add_people(parser, "slope", "slope_sd", "side_sd", "item_sd", "lapse")
    parser.add_out()
    parser.add_seed()


def _add_people(parser: CommandParser, nobody: str, *, for_power: bool = False) -> None:
    def otherwise(plain: str, stated: str) -> str:
        more = f"; with --difference {stated}" if for_power else ""
        return f" (default: {plain}{more})"

    what = f"a model that people follow; several make a mixture (default: {nobody})"
    parser.add("--follow SPEC[=WEIGHT]", what, several=True, default=[])
    what = "of the answers, against a preference of 1 (default: 1)"
    parser.add("--noise SD", what, number(0, 1e6))
    what = "answers at random" + otherwise("0.02", "0.011")
    parser.add("--lapse SHARE", what, number(0, 1))
    what = "of the logarithm of how strongly people follow" + otherwise("0", "0.47")
    parser.add("--slope-sd SD", what, number(0, 2))
    what = "of what everybody sees in a pair and no model does, as the noise"
    parser.add("--item-sd SD", what + otherwise("0", "0.75"), number(0, 100))
    what = "of the variance of that, common to the pairs of an item (default: 0.5)"
    parser.add("--shared SHARE", what, number(0, 1))


def _simulate(args: argparse.Namespace) -> int:
    from contstim.design.simulate import simulate_choices

    models, simulation = _people(args, args.follow)
    trials = read_table(args.trials, cells="text")
    choices = simulate_choices(trials, models or None, simulation, seed=args.seed)
    write_rows(choices, args.out, [args.trials])
    return 0


def _recovery(args: argparse.Namespace) -> int:
    from contstim.design.recovery import recovery
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
    check_figure(args.figure)
    chosen = {
        "n_participants": args.participants,
        "trials_each": args.trials_each,
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


#: Options of `design power` that only some of its sources of studies have.
_OF_SOURCE = {
    "compare": (*("trials", "follow", "noise", "lapse", "slope_sd", "item_sd", "shared"),),
    "difference": ("lapse", "slope_sd", "item_sd", "shared", "per_item"),
    "pilot": ("scores",),
}


def _power(args: argparse.Namespace) -> int:
    import pandas as pd

    from contstim.design.planning import people_needed, power
    from contstim.report.pair_figures import power_figure
    from contstim.report.style import save_figure, sheet

    (source,) = (name for name in _OF_SOURCE if getattr(args, name) is not None)
    for name in {name for names in _OF_SOURCE.values() for name in names}:
        if name not in _OF_SOURCE[source] and getattr(args, name) not in (None, []):
            option = "the table of trials" if name == "trials" else "--" + name.replace("_", "-")
            raise InputError(f"{option} has no effect with --{source}; leave it out")
    check_figure(args.figure)
    studies, groups, trials = _studies(args, source)
    target = args.target or 0.8
    ask = {
        "n_simulations": args.simulations or 1000,
        "seed": args.seed,
        "stopping": _looks(args),
    }
    if args.participants:
        table = power(studies, args.participants, trials, groups, **ask)
    else:
        parts = []
        for n_groups, n_trials in product(groups, trials):
            needed, tried = people_needed(studies, n_trials, n_groups, target, **ask)
            parts.append(tried)
            for row in needed.to_dict("records"):
                tell(_needed_sentence(row, n_groups, n_trials, target, tried))
        table = pd.concat(parts, ignore_index=True)
    write_rows(table, args.out, [args.trials, args.pilot, args.scores])
    if args.figure is not None:
        axes = sheet(table["measure"].nunique())
        power_figure(table, target, axes)
        save_figure(axes[0], args.figure)
    return 0


def _looks(args: argparse.Namespace) -> Stopping | None:
    """Return the rule of the looks that are asked for, of as many participants as looks."""
    from contstim.evaluation.stopping import Stopping

    if args.looks is None and args.spending is not None:
        raise InputError("--spending has no effect without --looks; give their number")
    if args.looks in (None, 1):
        return None
    looks = tuple(range(1, args.looks + 1))
    spending = args.spending or "obrien-fleming"
    return Stopping(analyses=looks, participants=args.looks, spending=spending)


def _needed_sentence(
    row: dict[Hashable, Any], groups: int, trials: int, target: float, tried: pd.DataFrame
) -> str:
    """Say how many people a difference takes."""
    import pandas as pd

    what = f"{row['model_1']} and {row['model_2']} by {row['measure']}"
    if row["analysis"] != "all":
        what += f" ({row['analysis']})"
    size = f"{trials} trials each" + f", {groups} groups" * (groups > 1)
    keys = ["analysis", "measure", "model_1", "model_2"]
    here = tried[(tried[keys] == [row[key] for key in keys]).all(axis=1)]
    if not pd.isna(row["n_participants"]):
        each = " a group" * (groups > 1)
        high = "more than tried" if pd.isna(row["high"]) else row["high"]
        text = (
            f"{what}: found in {target:.0%} of studies from {row['n_participants']} participants"
            f"{each} on ({row['low']} to {high} by the error of simulation); {size}"
        )
        if "looks" not in tried:
            return text
        nearest = here.loc[(here["n_participants"] - row["n_participants"]).abs().idxmin()]
        once = "more than were tried" if pd.isna(row["alone"]) else row["alone"]
        return (
            f"{text}; with {len(nearest['looks'].split())} looks that is the most there can be: of "
            f"at most {nearest['n_participants']} participants a study has "
            f"{nearest['mean_participants']:.1f} on average, and looked at once it takes {once}"
        )
    if here["power"].max() >= target:  # reached by one size, missed by a larger one
        return (
            f"{what}: whether it is found in {target:.0%} of studies is within the error of "
            f"simulation ({here['power'].max():.0%} at most, with up to "
            f"{here['n_participants'].max()} participants); simulate more studies (--simulations), "
            f"or take more pairs; {size}"
        )
    return (
        f"{what}: found in no more than {here['power'].max():.0%} of studies, with up to "
        f"{here['n_participants'].max()} participants; it takes more pairs, or more different "
        f"ones; {size}"
    )


def _studies(args: argparse.Namespace, source: str) -> tuple[Studies, list[int], list[int]]:
    """Return where simulated studies come from, and the numbers of groups and of pairs."""
    from contstim.design.simulate import Simulation, require_pairs
    from contstim.design.studies import FITTED, PilotStudies, StatedStudies, TrialStudies
    from contstim.evaluation.evaluate import evaluate_file
    from contstim.models.registry import load_model, load_models

    groups, trials = args.groups or [1], args.trials_each or [40]
    if source == "difference":
        people = replace(FITTED, **given(args, Simulation))
        return StatedStudies(args.difference, people, args.per_item or 1), groups, trials
    if source == "pilot":
        if args.scores is None:
            raise InputError("--pilot needs the scores of the models; give --scores")
        pilot = evaluate_file(args.pilot, scores=args.scores)
        for row in pilot.comparisons.query("analysis == 'all'").itertuples():
            tell(
                f"pilot: {row.model_1} less {row.model_2} by {row.measure} {row.difference:.3f} "
                f"({row.ci_low:.3f} to {row.ci_high:.3f}); what follows takes the middle"
            )
        return PilotStudies.of(pilot.data), groups, trials
    if args.trials is None:
        raise InputError("--compare needs a table of trials or pairs; give one")
    models, simulation = _people(args, args.follow or args.compare[:1])
    compared = [load_model(spec) for spec in args.compare]
    names = [model.name for model in compared]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--compare names {name!r} twice; give different models")
    models = {model.name: model for model in load_models([*models.values(), *compared])}
    design = read_table(args.trials, cells="text")
    require_pairs(design, args.trials)
    laid_out = TrialStudies.of(design, models, names, simulation)
    groups = args.groups or [len(laid_out.members)]
    return laid_out, groups, args.trials_each or [min(map(laid_out.most_pairs, groups))]


def _people(
    args: argparse.Namespace, follow: Sequence[str]
) -> tuple[dict[str, SentenceModel], Simulation]:
    """Load the models that people follow, and say how people answer."""
    from contstim.design.simulate import Simulation
    from contstim.models.registry import load_model, load_models

    followed = [_weighted(text) for text in follow]
    models = [load_model(spec) for spec, _ in followed]
    weights = tuple((m.name, weight) for m, (_, weight) in zip(models, followed, strict=True))
    simulation = Simulation(weights, **given(args, Simulation))
    distinct = load_models(models) if models else []
    return {model.name: model for model in distinct}, simulation


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


#: The actions of this module.
SIMULATED = {"simulate": _simulate, "power": _power, "recovery": _recovery}
