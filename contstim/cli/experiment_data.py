"""The parts of `contstim experiment` that bring data back, and what follows from them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import (
    add_exclusions,
    add_out,
    add_out_folder,
    add_seed,
    given_rules,
    new_file,
    number,
    write_rows,
)
from contstim.errors import InputError
from contstim.experiment.schema import PILOT_FILE, backup_data
from contstim.experiment.study import read_study

# What reads data loads pandas: each action imports what it needs, so that a server that was killed
# is back without it.
if TYPE_CHECKING:
    import pandas as pd

    from contstim.experiment.collected import Collected


def add_data(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands."""
    export = _study_parser(actions, "export", "write choices.csv, other tables and Psych-DS")
    add_out_folder(export)
    export.add_argument(
        "--all",
        action="store_true",
        help="choices.csv holds also those who did not answer every trial",
    )
    importing = _study_parser(actions, "import", "add raw logs of static pages and JATOS")
    importing.add_argument("logs", nargs="+", metavar="LOG", help="files of JSON lines, or folders")
    pay = _study_parser(actions, "pay", "say who is to be paid (personal data)")
    pay.add_argument("--bonus", type=number(0), metavar="AMOUNT", help="for complete sessions")
    pay.add_argument(
        "--bonus-from",
        type=number(0, 1),
        default=0.0,
        metavar="SHARE",
        help="of catch trials right (0)",
    )
    add_out(pay)
    replace = _study_parser(actions, "replace", "say whose assignment somebody else should take")
    add_exclusions(replace, "exclusions, as of `contstim evaluate`")
    replace.add_argument("--release", action="store_true", help="and release these assignments")
    add_out(replace)
    release = _study_parser(actions, "release", "give assignments to whoever comes next")
    release.add_argument(
        "--session",
        action="append",
        default=[],
        metavar="ID",
        help="may be given several times",
    )
    release.add_argument("--why", default="excluded", metavar="TEXT", help="(excluded)")
    release.add_argument(
        "--idle",
        type=number(0),
        metavar="MINUTES",
        help="unfinished, without an answer for so long",
    )
    extend = _study_parser(actions, "extend", "add participants, groups or trials to a study")
    extend.add_argument(
        "--trials", required=True, metavar="CSV", help="from `contstim design trials`"
    )
    backup = _study_parser(actions, "backup", "copy the data, also while the study runs")
    backup.add_argument("--out", required=True, type=new_file, metavar="FILE", help="the copy")
    forget = _study_parser(actions, "forget", "delete one participant's data, on request")
    forget.add_argument(
        "--participant",
        required=True,
        metavar="WHO",
        help="code of the last screen, or id of the session or the recruiter",
    )
    forget.add_argument("--why", required=True, metavar="TEXT", help="kept, with the date")
    auditing = _study_parser(actions, "audit", "flag suspicious participants")
    auditing.add_argument(
        "--scores", metavar="CSV", help="log-probabilities, as `contstim score` writes them"
    )
    auditing.add_argument(
        "--model", action="append", default=[], metavar="SPEC", help="a model to score with"
    )
    auditing.add_argument(
        "--alpha",
        type=number(above=0, most=1),
        default=0.05,
        metavar="RATE",
        help="false discovery rate (0.05)",
    )
    add_out_folder(auditing)
    add_seed(auditing)
    check = actions.add_parser("check-psychds", help="check a Psych-DS data set")
    check.add_argument("folder", metavar="FOLDER", help="with dataset_description.json")


def _study_parser(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, what: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=what)
    parser.add_argument("study", metavar="STUDY", help="the study's folder")
    add_data_file(parser)
    return parser


def add_data_file(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which data of a study are meant."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--data", type=new_file, metavar="FILE", help="the data (default: in the study's folder)"
    )
    which.add_argument(
        "--pilot", action="store_true", help="the data of a pilot, which are kept apart"
    )


def data_file(args: argparse.Namespace) -> Path | None:
    """Return the file that the options name; None for the study's own."""
    if args.pilot:
        return Path(args.study) / PILOT_FILE
    return None if args.data is None else Path(args.data)


def _export(args: argparse.Namespace) -> int:
    from contstim.experiment.collected import read_collected
    from contstim.experiment.exporting import write_export

    study = read_study(args.study)
    collected = read_collected(study, data_file(args))
    folder = Path(args.out)
    write_export(study, collected, folder, args.all)
    whole = collected.whole
    main = "choices" if "choices" in collected.tables else "answers"
    chosen = collected.tables[main]
    if not args.all:
        chosen = chosen[chosen["participant"].isin(whole)]
    n_left = len(collected.sessions) - len(whole)
    print(
        f"{folder / main}.csv: {len(chosen)} {main} of {chosen['participant'].nunique()} "
        f"participants; {n_left} sessions are not whole"
        + (" and stand there too" if args.all else " and left out (--all keeps them)")
    )
    if len(collected.conflicts):
        print(f"{len(collected.conflicts)} second answers to a trial: {folder / 'conflicts.csv'}")
    print(f"{folder / 'psychds'}: a Psych-DS data set, checked")
    return 0


def _import(args: argparse.Namespace) -> int:
    from contstim.experiment.importing import import_logs

    found = import_logs(read_study(args.study), map(Path, args.logs), data_file(args))
    for note in found.notes:
        print(note, file=sys.stderr)
    print(
        f"{found.sessions} sessions, {found.added} new answers, of which {found.conflicts} "
        "conflict with earlier ones"
    )
    return 1 if found.notes else 0


def _pay(args: argparse.Namespace) -> int:
    from contstim.experiment.collected import read_collected, recruiter_ids
    from contstim.experiment.upkeep import Bonus, pay_table

    study = read_study(args.study)
    bonus = None if args.bonus is None else Bonus(args.bonus, args.bonus_from)
    collected = read_collected(study, data_file(args))
    table = pay_table(collected, recruiter_ids(study, data_file(args)), bonus)
    write_rows(table, args.out)
    counts = table["pay"].value_counts()
    print(", ".join(f"{name} {n}" for name, n in counts.items()) or "no session", file=sys.stderr)
    return 0


def _replace(args: argparse.Namespace) -> int:
    from contstim.experiment.collected import read_collected
    from contstim.experiment.upkeep import release_sessions, replacement_table

    study = read_study(args.study)
    collected = read_collected(study, data_file(args))
    table = replacement_table(collected, _excluded(collected, args))
    write_rows(table, args.out)
    if args.release:
        why = dict.fromkeys(table["session"], "excluded")
        done = release_sessions(study, why, data=data_file(args))
        print(f"{len(done)} assignments released", file=sys.stderr)
    return 0


def _excluded(collected: Collected, args: argparse.Namespace) -> pd.DataFrame:
    """Return which whole participants the rules leave out altogether, and by which rule."""
    import pandas as pd

    from contstim.evaluation.choices import check_choices
    from contstim.evaluation.exclusion import ExclusionRules, exclude

    rules = given_rules(args)
    whole = collected.choices[collected.choices["participant"].isin(collected.whole)]
    if not rules or whole.empty:
        return pd.DataFrame(columns=["rule", "participant", "n_rows", "detail"])
    kept, excluded = exclude(check_choices(whole), ExclusionRules(**rules))
    return excluded[~excluded["participant"].isin(kept["participant"])]


def _release(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import release_sessions

    if not args.session and args.idle is None:
        raise InputError("say which assignments: --session ID, or --idle MINUTES")
    why = dict.fromkeys(args.session, args.why)
    done = release_sessions(read_study(args.study), why, args.idle, data_file(args))
    for session in done:
        print(session)
    print(f"{len(done)} assignments released", file=sys.stderr)
    return 0


def _extend(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import extend_study

    added = extend_study(read_study(args.study), Path(args.trials), data_file(args))
    print(f"{len(added)} assignments added: {added[0]} to {added[-1]}")
    return 0


def _backup(args: argparse.Namespace) -> int:
    backup_data(read_study(args.study), Path(args.out), data_file(args))
    print(f"{args.out}: the data as they were when the command was given")
    return 0


def _forget(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import forget_participant

    code = forget_participant(read_study(args.study), args.participant, args.why, data_file(args))
    print(f"{code} is deleted; copies, exports and files for import that you have are not")
    return 0


def _audit(args: argparse.Namespace) -> int:
    import pandas as pd

    from contstim.evaluation.audit import audit
    from contstim.experiment.collected import read_collected
    from contstim.models.registry import load_model
    from contstim.selection.scores import read_scores

    if bool(args.scores) == bool(args.model):
        raise InputError("give --scores, or --model once or more")
    if not 0 < args.alpha < 1:
        raise InputError(f"--alpha {args.alpha} is not between 0 and 1")
    collected = read_collected(read_study(args.study), data_file(args))
    choices = collected.choices[collected.choices["participant"].isin(collected.whole)]
    if choices.empty:
        raise InputError("nobody has answered every trial yet; there is nothing to audit")
    if args.scores:
        scores = read_scores(args.scores)
    else:
        rows = choices[choices["condition"] != "catch"]
        sentences = pd.unique(pd.concat([rows["sentence_1"], rows["sentence_2"]])).tolist()
        models = [load_model(spec) for spec in dict.fromkeys(args.model)]
        columns = {model.spec: model.score(sentences) for model in models}
        scores = pd.DataFrame(columns, index=sentences)
    found = audit(choices, scores, alpha=args.alpha, seed=args.seed)
    found.write(Path(args.out))
    flags = found.flags
    for row in flags.to_dict("records"):
        print(f"{row['participant']}: {row['reason']} ({row['detail']})")
    print(f"{flags['participant'].nunique()} participants have a flag: {args.out}/audit.md")
    return 0


def _check(args: argparse.Namespace) -> int:
    from contstim.experiment.exporting import check_psychds

    for name, n in check_psychds(args.folder).items():
        print(f"{name}: {n} rows")
    return 0


_RUN = {
    "export": _export,
    "import": _import,
    "pay": _pay,
    "replace": _replace,
    "release": _release,
    "extend": _extend,
    "backup": _backup,
    "forget": _forget,
    "audit": _audit,
    "check-psychds": _check,
}

#: The actions of this module.
DATA_ACTIONS = tuple(_RUN)


def run_data(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    return _RUN[args.action](args)
