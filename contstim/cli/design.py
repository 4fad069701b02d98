"""Lay out an experiment, or see what a design can show before money is spent on it.

trials: allocates selected pairs and triplets to groups of participants, so that every group sees
every condition of every model pair equally often and nobody sees a sentence twice; or lays out
pairs of your own in a Latin square (--items); order and sides are each participant's own. simulate:
lets simulated people, who follow one model or a mixture, answer the trials, so that the whole
analysis can be run before there are data. power: how often `contstim evaluate` finds that models
differ, or how many people it takes, by its default test on simulated studies: of trials and models
(--compare), of a stated difference of accuracy (--difference), or of studies like one at hand
(--pilot). plan: the smallest difference that a design finds in 80 % of studies. recovery: how often
the right one of many models comes out best. power --plan: what the plan of an adaptive study
decides, how often wrongly, and after how many people (its pool of pairs is the CSV), also where
people are not as it states.

Examples:
  contstim design plan --participants 50 --trials-each 36 --comparisons 36
  contstim design power --difference 0.2 --trials-each 40 80 --figure power.svg
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --participants 10 20
  contstim design power --pilot choices.csv --scores scores.csv --trials-each 40
  contstim design power --difference 0.2 --trials-each 40 --looks 3
  contstim design power pairs.csv --plan plan.toml --scores scores.csv --figure plan.svg
  contstim design recovery set.csv pairs.csv --scores scores.csv --random 360 --figure curves.svg
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
  contstim design trials --natural pairs.csv --triplets chosen.csv --groups 10 --participants 10
  contstim design trials --items pairs.csv --factors attractor number --participants 32
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

from contstim.cli import design_studies
from contstim.cli.common import small_share, tell, write_rows
from contstim.cli.parsing import CommandParser, given, number, positive, whole_number
from contstim.errors import InputError
from contstim.experiment.trials import write_record
from contstim.files import is_stream
from contstim.tables import read_table
from contstim.text import pool, read_sentences


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_trials(actions.add_parser("trials", help="make the trials of every participant"))
    design_studies.add_studies(actions)
    plan = actions.add_parser("plan", help="say what a design can show at best")
    plan.add("--participants N", "in each group", positive, required=True)
    plan.add("--trials-each N", "pairs that each of them judges", positive, required=True)
    plan.add("--groups N", "of participants, with pairs of their own", positive, default=1)
    plan.add("--comparisons N", "of models", positive, default=1)
    plan.add("--per-item N", "pairs of one item", positive, default=1)
    plan.add("--alpha RATE", "", number(above=0, most=1), default=0.05)
    plan.add_seed()


def _add_trials(parser: CommandParser) -> None:
    parser.add("--natural CSV", "from `contstim select natural`")
    parser.add("--triplets CSV", "from `contstim select triplets`")
    parser.add(
        "--items CSV",
        "pairs of your own in a Latin square: sentence_1, sentence_2, item, and condition or "
        "--factors; each participant sees each item in one condition; fillers and catch trials are "
        "items of one version",
    )
    what = "columns of --items, whose values together are the condition"
    parser.add("--factors COLUMN ...", what)
    what = "natural sentences for random pairs and catch trials (default: the bundled pool)"
    parser.add("--pool FILE", what)
    parser.add("--layout NAME", "a published layout: golan2023; or the four numbers below")
    parser.add("--groups N", "groups of participants (default: 10)", positive)
    what = "in each group (default: 10); with --items in all (default: 24)"
    parser.add("--participants N", what, positive)
    parser.add("--random-natural N", "random pairs (default: 0)", whole_number(0))
    what = "catch trials, sentences against their shuffled words (default: 0)"
    parser.add("--catch N", what, whole_number(0))
    parser.add_out()
    parser.add_seed()


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    return {**design_studies.SIMULATED, "plan": _plan, "trials": _trials}[args.action](args)


def _plan(args: argparse.Namespace) -> int:
    from contstim.design.planning import plan_design

    plan = plan_design(
        args.participants,
        args.trials_each,
        args.comparisons,
        groups=args.groups,
        kin=args.per_item,
        alpha=args.alpha,
        seed=args.seed,
    )
    print(plan)
    return 0


def _latin_square(args: argparse.Namespace, numbers: Sequence[str]) -> int:
    """Lay out pairs of the researcher's own."""
    from contstim.design.latin import latin_square

    others = ("natural", "triplets", "pool", "layout")
    unused = [name for name in others if getattr(args, name)]
    unused += [name for name in numbers if name != "participants"]
    if unused:
        option = "--" + unused[0].replace("_", "-")
        raise InputError(
            f"{option} has no effect with --items, which holds all trials; leave it out"
        )
    items = read_table(args.items, cells="text")
    chosen = {} if args.participants is None else {"participants": args.participants}
    trials = latin_square(items, **chosen, factors=args.factors or (), seed=args.seed)
    write_rows(trials, args.out, [args.items])
    notes = trials.attrs["notes"]
    if args.out != "-" and not is_stream(Path(args.out)):
        options = {**chosen, "factors": args.factors or [], "seed": args.seed, "notes": notes}
        write_record(Path(args.out), options)
    of_one = trials[trials["participant"] == trials["participant"].iloc[0]]
    tell(f"{len(of_one)} trials per participant, {trials.attrs['lists']} lists")
    for note in notes:
        tell(note)
    return 0


def _trials(args: argparse.Namespace) -> int:
    from contstim.design import LAYOUTS, Layout, design_trials
    from contstim.design.planning import plan_design
    from contstim.selection import read_triplets

    numbers = given(args, Layout)
    if args.items is not None:
        return _latin_square(args, [*numbers])
    if args.factors is not None:
        raise InputError("--factors belongs to --items; leave it out")
    if args.layout is not None and numbers:
        raise InputError(f"give --layout {args.layout} or the numbers of a layout, not both")
    layout = args.layout if args.layout is not None else Layout(**numbers)
    natural = None if args.natural is None else read_table(args.natural, cells="text")
    triplets = None if args.triplets is None else read_triplets(args.triplets)
    trials = design_trials(
        natural,
        triplets,
        read_sentences(args.pool) if args.pool else pool(),
        layout,
        seed=args.seed,
    )
    read = [args.natural, args.triplets, args.pool]
    write_rows(trials, args.out, read)
    resolved = LAYOUTS[layout] if isinstance(layout, str) else layout
    if args.out != "-" and not is_stream(Path(args.out)):
        write_record(Path(args.out), {"layout": asdict(resolved), "seed": args.seed})
    models = {*trials["model_1"].dropna(), *trials["model_2"].dropna()}
    tell(f"{trials.attrs['trials']} trials per participant")
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
        compared = trials[trials["model_1"].notna()]
        shown = compared[["group", "sentence_1", "sentence_2", "item"]].drop_duplicates()
        pairs = min(len(rows) for _, rows in shown.groupby("group"))
        items = int(shown.groupby("group")["item"].nunique().min())
        plan = plan_design(
            resolved.participants,
            pairs,
            comparisons,
            groups=resolved.groups,
            kin=-(-pairs // items),
        )
        tell(plan)
    return 0
