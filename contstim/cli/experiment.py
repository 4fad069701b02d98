"""Run the experiment with people in a browser, and bring their choices back as tables.

new: writes a study folder around the trials of `contstim design trials`: study.toml (all settings),
consent.md, texts.toml (every text of the page, to translate) and trials.csv. check: says what is
wrong with a study folder, or what it holds. build: fetches the npm files of the page, once. static:
writes a study for any web host, its data by a DataPipe-style endpoint or saved by participants.
jatos: writes a study archive that JATOS imports.

Examples:
  contstim experiment new my-study --trials trials.csv
  contstim experiment check my-study
  contstim experiment static my-study --out site
  contstim experiment jatos my-study --out my-study.jzip
"""

from __future__ import annotations

import argparse

from contstim.cli.experiment_pages import ACTIONS, add_pages, run_pages
from contstim.experiment.new import new_study
from contstim.experiment.study import Study, read_study


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="write a study folder, to edit")
    new.add_argument("study", metavar="STUDY", help="the folder to make")
    new.add_argument("--trials", required=True, metavar="CSV", help="from `contstim design trials`")
    check = actions.add_parser("check", help="check a study folder")
    check.add_argument("study", metavar="STUDY", help="the study's folder")
    add_pages(actions)


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    if args.action in ACTIONS:
        return run_pages(args)
    if args.action == "new":
        _describe(new_study(args.study, args.trials))
        print(f"next: edit {args.study}/study.toml and {args.study}/consent.md")
    else:
        _describe(read_study(args.study))
    return 0


def _describe(study: Study) -> None:
    design = study.design
    groups = len(set(design.groups.values()))
    print(
        f"{study.study.name}: {len(design.groups)} seats in {groups} groups, {design.n_trials} "
        f"trials each, {len(study.practice)} practice trials"
    )
    for note in study.notes:
        print(f"note: {note}")
