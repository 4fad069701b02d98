"""The parts of `contstim experiment` that bring data back, and what follows from them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import add_exclusions, given_rules, tell, write_rows
from contstim.cli.parsing import CommandParser, new_file, number
from contstim.errors import InputError
from contstim.experiment.schema import PILOT_FILE, backup_data
from contstim.experiment.study import read_study
from contstim.tables import neutral_table

# What reads data loads pandas: each action imports what it needs, so that a server that was killed
# is back without it.
if TYPE_CHECKING:
    import pandas as pd

    from contstim.experiment.collected import Collected


def add_data(actions: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the subcommands."""
    parsers = {}
    for name, (_, what) in ACTIONS.items():
        parsers[name] = parser = actions.add_parser(name, help=what)
        if name != "check-psychds":
            parser.add("study STUDY", "the study's folder")
            add_data_file(parser)
    parsers["export"].add_out_folder()
    what = "also who is who: recruiters' ids by participant (personal data)"
    parsers["export"].add("--ids CSV", what, new_file)
    parsers["export"].add("--all", "choices.csv holds also those who did not answer every trial")
    parsers["import"].add("logs LOG ...", "files of JSON lines, or folders")
    add_exclusions(parsers["replace"], "exclusions, as of `contstim evaluate`")
    parsers["replace"].add("--release", "and release these assignments")
    parsers["replace"].add_out()
    release = parsers["release"]
    release.add("--session ID", "a session whose assignment it is", several=True, default=[])
    release.add("--why TEXT", "", default="excluded")
    release.add("--idle MINUTES", "unfinished, without an answer for so long", number(0))
    parsers["extend"].add("--trials CSV", "from `contstim design trials`", required=True)
    for name in ("close", "reopen"):
        parsers[name].add("--why TEXT", "kept, with the date", default="by hand")
    parsers["backup"].add("--out FILE", "the copy", new_file, required=True)
    what = "code of the last screen, or id of the session or the recruiter"
    parsers["forget"].add("--participant WHO", what, required=True)
    parsers["forget"].add("--why TEXT", "kept, with the date", required=True)
    parsers["check-psychds"].add("folder FOLDER", "with dataset_description.json")


def add_data_file(parser: CommandParser) -> None:
    """Add the options that say which data of a study are meant."""
    which = parser.add_mutually_exclusive_group()
    parser.add("--data FILE", "the data (default: in the study's folder)", new_file, to=which)
    parser.add("--pilot", "read the data of a pilot, which are kept apart", to=which)


def data_file(args: argparse.Namespace) -> Path | None:
    """Return the file that the options name; None for the study's own."""
    if args.pilot:
        return Path(args.study) / PILOT_FILE
    return None if args.data is None else Path(args.data)


def _export(args: argparse.Namespace) -> int:
    from contstim.experiment.collected import read_collected, recruiter_ids
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
        f"participants; {n_left} unfinished sessions are "
        + ("in it, too" if args.all else "left out (--all keeps them)")
    )
    if len(collected.conflicts):
        print(f"{len(collected.conflicts)} second answers to a trial: {folder / 'conflicts.csv'}")
    print(f"{folder / 'psychds'}: a Psych-DS data set, checked")
    if args.ids is not None:
        write_rows(neutral_table(recruiter_ids(study, data_file(args))), str(args.ids))
        print(f"{args.ids}: recruiters' ids, personal data")
    return 0


def _import(args: argparse.Namespace) -> int:
    from contstim.experiment.importing import import_logs

    imported = import_logs(read_study(args.study), map(Path, args.logs), data_file(args))
    for note in imported.notes:
        tell(note)
    print(
        f"{imported.sessions} sessions, {imported.added} new answers, "
        f"of which {imported.conflicts} conflict with earlier ones"
    )
    return 1 if imported.notes else 0


def _replace(args: argparse.Namespace) -> int:
    from contstim.experiment.collected import read_collected
    from contstim.experiment.upkeep import release_sessions, replacement_table

    study = read_study(args.study)
    collected = read_collected(study, data_file(args))
    table = replacement_table(collected, _excluded(collected, args), time.time())
    write_rows(table, args.out)
    tell(f"{len(table)} assignments to replace, of {len(collected.sessions)} sessions")
    if args.release:
        # Who stopped has the place again on coming back, if it is still free.
        sessions = collected.sessions
        stopped = {*sessions.loc[sessions["outcome"] == "unfinished", "session"]}
        why = {
            session: "abandoned" if session in stopped else "excluded"
            for session in table["session"]
        }
        done = release_sessions(study, why, data=data_file(args))
        tell(f"{len(done)} assignments released")
    return 0


def _whole_choices(collected: Collected, what: str) -> pd.DataFrame:
    """Return the choices of those who answered every trial; `what` is said to be of choices."""
    if "choices" not in collected.tables:
        raise InputError(
            f"{what} of choices between two sentences, which this study does not ask for"
        )
    return collected.choices[collected.choices["participant"].isin(collected.whole)]


def _excluded(collected: Collected, args: argparse.Namespace) -> pd.DataFrame:
    """Return which whole participants the rules leave out altogether, and by which rule."""
    import pandas as pd

    from contstim.evaluation.choices import check_choices
    from contstim.evaluation.exclusion import ExclusionRules, exclude

    rules = given_rules(args)
    whole = _whole_choices(collected, "exclusions are") if rules else pd.DataFrame()
    if whole.empty:
        return pd.DataFrame(columns=["rule", "participant", "n_rows", "detail"])
    left, excluded = exclude(check_choices(whole), ExclusionRules(**rules), allow_none=True)
    return excluded[~excluded["participant"].isin(left["participant"])]


def _release(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import release_sessions

    if not args.session and args.idle is None:
        raise InputError("say which assignments: --session ID, or --idle MINUTES")
    why = dict.fromkeys(args.session, args.why)
    done = release_sessions(read_study(args.study), why, args.idle, data_file(args))
    for session in done:
        print(session)
    tell(f"{len(done)} assignments released")
    return 0


def _extend(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import extend_study

    added = extend_study(read_study(args.study), Path(args.trials), data_file(args))
    print(f"{len(added)} assignments added: {added[0]} to {added[-1]}")
    return 0


def _close(args: argparse.Namespace) -> int:
    from contstim.experiment.upkeep import close_study

    closes = args.action == "close"
    close_study(read_study(args.study), args.why, data_file(args), closes)
    print("nobody new is let in; who has begun may finish" if closes else "people are let in again")
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


def _check(args: argparse.Namespace) -> int:
    from contstim.experiment.exporting import check_psychds

    for name, n in check_psychds(args.folder).items():
        print(f"{name}: {n} rows")
    return 0


#: The actions of this module, and what each does.
ACTIONS = {
    "export": (_export, "write choices.csv, other tables and Psych-DS"),
    "import": (_import, "add raw logs of static pages and JATOS"),
    "replace": (_replace, "say whose assignment somebody else should take"),
    "release": (_release, "free assignments for the next participants"),
    "extend": (_extend, "add participants, groups or trials to a study"),
    "close": (_close, "let nobody new in; who has begun may finish"),
    "reopen": (_close, "let people in again"),
    "backup": (_backup, "copy the data, also while the study runs"),
    "forget": (_forget, "delete one participant's data, on request"),
    "check-psychds": (_check, "check a Psych-DS data set"),
}
