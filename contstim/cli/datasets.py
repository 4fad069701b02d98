"""List published human data, and fetch them.

A data set is fetched once, checked by its digests, and kept in the cache (a folder that
CONTSTIM_CACHE names); before that, whose it is and under which terms is said. `contstim benchmark`
fetches what it needs.

Examples:
  contstim datasets list
  contstim datasets fetch golan2023
  contstim datasets fetch golan2023 --from downloads/contstimlang
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.benchmarks.datasets import DATA_SETS, fetch
from contstim.benchmarks.datasets.fetching import data_folder
from contstim.cli.parsing import CommandParser


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="list data sets, what they are and where they are kept")
    command = actions.add_parser("fetch", help="have the files of a data set at hand")
    command.add("name", "a data set, see `contstim datasets list`")
    add_source(command)


def add_source(parser: CommandParser) -> None:
    """Add ``--from``, a folder with the files of a data set."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FOLDER",
        type=Path,
        help="take the files from this folder, whatever they are called there: they are recognised "
        "by their digests; for machines without a network",
    )


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    if args.action == "list":
        for name, data_set in DATA_SETS.items():
            print(f"{name:<20} {data_set.title}; licence: {data_set.licence}")
            place = data_folder(data_set)
            if place.exists():
                print(f"{'':<20} in {place}")
        return 0
    data = fetch(args.name, args.source)
    print(data.folder)
    for name in data.data_set.benchmarks:
        print(f"benchmark  {args.name}/{name}")
    for name in data.data_set.tables:
        print(f"table      {name}")
    return 0
