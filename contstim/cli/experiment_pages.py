"""The parts of `contstim experiment` that make the page and write it for other hosts."""

from __future__ import annotations

import argparse

from contstim.cli.common import add_out_folder, new_file

#: The actions of this module.
PAGE_ACTIONS = ("build", "static", "jatos")


def add_pages(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands ``build``, ``static`` and ``jatos``."""
    actions.add_parser("build", help="fetch the page's npm files, by lock file; needs npm")
    static = actions.add_parser("static", help="write the study as a folder for any web host")
    static.add_argument("study", metavar="STUDY", help="the study's folder")
    add_out_folder(static)
    static.add_argument(
        "--endpoint",
        metavar="URL",
        help="takes the data as DataPipe does (default: each participant saves a file)",
    )
    static.add_argument("--experiment-id", metavar="ID", help="of the experiment at the endpoint")
    jatos = actions.add_parser("jatos", help="write the study as an archive that JATOS imports")
    jatos.add_argument("study", metavar="STUDY", help="the study's folder")
    jatos.add_argument(
        "--out", required=True, type=new_file, metavar="JZIP", help="the archive to write"
    )


def run_pages(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    from contstim.experiment.pages import write_jatos, write_static
    from contstim.experiment.study import read_study
    from contstim.experiment.vendor import fetch_on_first_use, fetch_vendor

    if args.action == "build":
        for path in fetch_vendor():
            print(path)
        return 0
    fetch_on_first_use()
    study = read_study(args.study)
    for note in study.notes:
        print(f"note: {note}")
    if args.action == "static":
        print(write_static(study, args.out, args.endpoint, args.experiment_id))
    else:
        print(write_jatos(study, args.out))
    return 0
