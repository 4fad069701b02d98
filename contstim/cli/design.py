"""Lay out the trials of an experiment, simulate choices, and compute statistical power.

examples:
  contstim design trials --triplets chosen.csv --groups 5 --participants 4 --out trials.csv
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
  contstim design power --difference 0.2 --trials-each 40 80 --figure power.svg
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from contstim.cli import SUBCOMMANDS
from contstim.cli.application import create_application
from contstim.cli.common import print_message, write_table
from contstim.cli.design_studies import POWER, SIMULATE, power, simulate
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    Name,
    OutputFile,
    RandomSeed,
    Text,
    integer_parameter,
)
from contstim.errors import InputError, format_count
from contstim.files import is_stream, write_metadata
from contstim.text import pool, read_sentences

TRIALS = """Lay out the trials of every participant.

Divides selected pairs and triplets between groups of participants, so that each participant sees
only a part of them. Every group sees each condition of each pair of models equally often, and no
participant sees a sentence twice. With --pairs, assigns custom sentence pairs in a Latin square
instead. Order and sides are random for each participant.

examples:
  contstim design trials --triplets chosen.csv --groups 5 --participants 4 --out trials.csv
  contstim design trials --pairs items.csv --factors attractor tense --out trials.csv
"""

MATERIAL = Group.create_ordered("material")
LAYOUT = Group.create_ordered("layout")
OUTPUT = Group.create_ordered("running and output")

Material = Annotated[File | None, Parameter(group=MATERIAL)]
PositiveCount = Annotated[int | None, integer_parameter(1), Parameter(group=LAYOUT)]
Count = Annotated[int | None, integer_parameter(0), Parameter(group=LAYOUT)]

app = create_application("design", __doc__)


def lay_out_trials(
    *,
    natural: Material = None,
    triplets: Material = None,
    pairs: Material = None,
    factors: Annotated[
        tuple[Text, ...],
        Parameter(group=MATERIAL, metavar="COLUMN ...", consume_multiple=(1, None)),
    ] = (),
    sentences: Material = None,
    layout: Annotated[Name | None, Parameter(group=LAYOUT)] = None,
    groups: PositiveCount = None,
    participants: PositiveCount = None,
    random_natural: PositiveCount = None,
    catch: PositiveCount = None,
    seed: Annotated[RandomSeed, Parameter(group=OUTPUT)] = 0,
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> None:
    """Lay out trials.

    Parameters
    ----------
    natural
        pairs of natural sentences, output of `contstim select natural`
    triplets
        triplets, output of `contstim select triplets`
    pairs
        pairs of your study, with the columns sentence_1, sentence_2, item, and condition or the
        columns of --factors; each participant sees each item in one condition
    factors
        columns of --pairs that define the condition
    sentences
        natural sentences for random pairs and catch trials [bundled pool]
    layout
        published layout: golan2023 [the four options below]
    groups
        number of groups of participants, between which the trials are divided, so that each
        participant sees only one part [10]
    participants
        number of participants per group [10; with --pairs, 24 in total]
    random_natural
        number of random pairs per participant [0]
    catch
        number of catch trials per participant, which pair a sentence with its shuffled words [0]
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.cli.vocabularies import describe_low_coverage
    from contstim.design import latin, trials
    from contstim.selection.scores import read_triplets
    from contstim.tables import read_table

    layout_options = {
        "groups": groups,
        "participants": participants,
        "random_natural": random_natural,
        "catch": catch,
    }
    numbers: dict[str, Any] = {name: n for name, n in layout_options.items() if n is not None}
    is_file = out != "-" and not is_stream(Path(out))
    if pairs is not None:
        materials = {"natural": natural, "triplets": triplets, "sentences": sentences}
        unused = [name for name, value in (materials | {"layout": layout}).items() if value]
        unused += [name for name in numbers if name != "participants"]
        if unused:
            raise InputError(
                f"--{unused[0].replace('_', '-')} has no effect with --pairs, which contains all "
                "trials; leave it out"
            )
        items = read_table(pairs, cells="text")
        table = latin.latin_square(items, **numbers, factors=factors, seed=seed)
        write_table(table, out, [pairs])
        notes = table.attrs["notes"]
        if is_file:
            metadata = {**numbers, "factors": list(factors), "seed": seed, "notes": notes}
            write_metadata(Path(out), metadata)
        first_participant = table["participant"].iloc[0]
        n_trials = int((table["participant"] == first_participant).sum())
        print_message(
            f"{format_count(n_trials, 'trial')} per participant, "
            f"{format_count(table.attrs['lists'], 'list')}"
        )
        for note in notes:
            print_message(note)
        return
    if factors:
        raise InputError("--factors is for --pairs; leave it out")
    if layout is not None and numbers:
        first = next(iter(numbers)).replace("_", "-")
        raise InputError(f"give --layout {layout} or --{first}, not both")
    table = trials.design_trials(
        None if natural is None else read_table(natural, cells="text"),
        None if triplets is None else read_triplets(triplets),
        read_sentences(sentences) if sentences else pool(),
        layout or trials.Layout(**numbers),
        seed=seed,
    )
    write_table(table, out, [natural, triplets, sentences])
    used_layout = trials.LAYOUTS[layout] if layout is not None else trials.Layout(**numbers)
    if is_file:
        write_metadata(Path(out), {"layout": asdict(used_layout), "seed": seed})
    summary = f"{format_count(table.attrs['trials'], 'trial')} per participant"
    if used_layout.groups > 1:
        n_trials = table["stimulus"].nunique()
        summary += f", of {n_trials} in all, divided between {used_layout.groups} groups"
    print_message(summary)
    # Warn if English fillers are mixed with sentences in another language.
    if (used_layout.catch or used_layout.random_natural) and not sentences:
        compared = table[table["model_1"].notna()]
        coverage = describe_low_coverage({*compared[["sentence_1", "sentence_2"]].to_numpy().flat})
        if coverage:
            print_message(
                "catch trials and random pairs are made of the bundled English sentences, and the "
                f"bundled vocabulary has {coverage} words of your pairs and triplets; if they are "
                "in another language, give natural sentences in that language with --sentences"
            )


app.command(create_application("trials", TRIALS, lay_out_trials))
app.command(create_application("simulate", SIMULATE, simulate))
app.command(
    create_application("power", POWER, power, usage="contstim design power [options] [TRIALS]")
)
for subcommand in SUBCOMMANDS.get("design", ()):
    app.command(subcommand)
