"""Lay out the trials of an experiment, simulate choices, and compute statistical power.

examples:
  contstim design trials --triplets chosen.csv --groups 5 --participants 4 --out trials.csv
  contstim design power --difference 0.3 --trials-each 40 80 --figure power.svg
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.common import describe_low_coverage, print_message, write_table
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
from contstim.tables import read_table
from contstim.text import pool, read_sentences

TRIALS = """Lay out the trials of every participant.

Allocates selected pairs and triplets to groups of participants: every group sees every condition of
every pair of models equally often, and nobody sees a sentence twice. With --pairs, lays out pairs
of your own in a Latin square. Order and sides are random for each participant.

examples:
  contstim design trials --triplets chosen.csv --groups 5 --participants 4 --out trials.csv
  contstim design trials --pairs items.csv --factors attractor tense --out trials.csv
"""

MATERIAL = Group.create_ordered("material")
LAYOUT = Group.create_ordered("layout")
OUTPUT = Group.create_ordered("running and output")

Material = Annotated[File | None, Parameter(group=MATERIAL)]
Count = Annotated[int | None, integer_parameter(1), Parameter(group=LAYOUT)]
CountOrNone = Annotated[int | None, integer_parameter(0), Parameter(group=LAYOUT)]

app = create_application("design", __doc__)


def trials(
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
    groups: Count = None,
    participants: Count = None,
    random_natural: CountOrNone = None,
    catch: CountOrNone = None,
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
        pairs of your own, with the columns sentence_1, sentence_2, item, and condition or those of
        --factors; each participant sees each item in one condition
    factors
        columns of --pairs that together are the condition
    sentences
        natural sentences for random pairs and catch trials [bundled pool]
    layout
        published layout: golan2023 [the four numbers below]
    groups
        number of groups of participants [10]
    participants
        number of participants per group [10; with --pairs, 24 in all]
    random_natural
        number of random pairs per participant [0]
    catch
        number of catch trials per participant, sentences against their shuffled words [0]
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.design import LAYOUTS, Layout, design_trials
    from contstim.selection.scores import read_triplets

    given = {
        "groups": groups,
        "participants": participants,
        "random_natural": random_natural,
        "catch": catch,
    }
    numbers: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if pairs is not None:
        others = {
            "natural": natural,
            "triplets": triplets,
            "sentences": sentences,
            "layout": layout,
        }
        unused = [name for name, value in others.items() if value]
        unused += [name for name in numbers if name != "participants"]
        if unused:
            raise InputError(
                f"--{unused[0].replace('_', '-')} has no effect with --pairs, which holds all "
                "trials; leave it out"
            )
        _lay_out_pairs(pairs, numbers, factors, seed, out)
        return
    if factors:
        raise InputError("--factors belongs to --pairs; leave it out")
    if layout is not None and numbers:
        first = next(iter(numbers)).replace("_", "-")
        raise InputError(f"give --layout {layout} or --{first}, not both")
    chosen_layout = layout if layout is not None else Layout(**numbers)
    table = design_trials(
        None if natural is None else read_table(natural, cells="text"),
        None if triplets is None else read_triplets(triplets),
        read_sentences(sentences) if sentences else pool(),
        chosen_layout,
        seed=seed,
    )
    write_table(table, out, [natural, triplets, sentences])
    resolved = LAYOUTS[layout] if layout is not None else Layout(**numbers)
    if out != "-" and not is_stream(Path(out)):
        write_metadata(Path(out), {"layout": asdict(resolved), "seed": seed})
    print_message(f"{format_count(table.attrs['trials'], 'trial')} per participant")
    compared = table[table["model_1"].notna()]
    shown_sentences = {*compared[["sentence_1", "sentence_2"]].to_numpy().flat}
    from_pool = resolved.catch + resolved.random_natural
    if from_pool and not sentences and (share := describe_low_coverage(shown_sentences)):
        print_message(
            "catch trials and random pairs are made of the bundled English sentences, and the "
            f"bundled words have {share} different words of your pairs and triplets; if those are "
            "in another language, give natural sentences of it as --sentences"
        )


def _lay_out_pairs(
    pairs: str, numbers: dict[str, Any], factors: tuple[str, ...], seed: int, out: str
) -> None:
    """Lay out pairs of the researcher's own in a Latin square."""
    from contstim.design.latin import latin_square

    table = latin_square(read_table(pairs, cells="text"), **numbers, factors=factors, seed=seed)
    write_table(table, out, [pairs])
    notes = table.attrs["notes"]
    if out != "-" and not is_stream(Path(out)):
        record = {**numbers, "factors": list(factors), "seed": seed, "notes": notes}
        write_metadata(Path(out), record)
    of_one = table[table["participant"] == table["participant"].iloc[0]]
    n_lists = table.attrs["lists"]
    print_message(
        f"{format_count(len(of_one), 'trial')} per participant, {format_count(n_lists, 'list')}"
    )
    for note in notes:
        print_message(note)


app.command(create_application("trials", TRIALS, trials))
app.command(create_application("simulate", SIMULATE, simulate))
app.command(
    create_application("power", POWER, power, usage="contstim design power [options] [TRIALS]")
)
