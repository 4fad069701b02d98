"""The kinds of `contstim experiment` that read or change the data of a study."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from contstim.cli.common import print_message, write_table
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    NewFile,
    OutputFile,
    OutputFolder,
    Text,
    float_parameter,
)
from contstim.errors import InputError
from contstim.experiment.schema import PILOT_FILE, backup_data
from contstim.experiment.study import read_study

# Reading data loads pandas, which a server does without: it is back the sooner after a crash.
if TYPE_CHECKING:
    import pandas as pd

    from contstim.experiment.study_data import StudyData

EXPORT = """Write choices.csv, further tables and a Psych-DS data set.

examples:
  contstim experiment export my-study --out collected
"""

IMPORT = """Add the logs of static pages and of JATOS to the data of a study.

examples:
  contstim experiment import my-study jatos_results.txt
"""

REPLACE = """List the assignments that other participants should take.

An assignment is the order and sides of the trials of a participant. Listed are those of
participants who stopped, and of those whom the rules of --exclude leave out.

examples:
  contstim experiment replace my-study --exclude "catch<0.91" --release --out replace.csv
"""

RELEASE = """Make assignments available to the next participants.

examples:
  contstim experiment release my-study --timeout 120
"""

EXTEND = """Add participants, groups or trials to a study.

examples:
  contstim experiment extend my-study --trials more.csv
"""

CLOSE = """Admit no further participants; those who have begun may finish.

examples:
  contstim experiment close my-study --reason "the money is spent"
"""

REOPEN = """Admit participants again.

examples:
  contstim experiment reopen my-study
"""

BACKUP = """Copy the data of a study, also while it is served.

examples:
  contstim experiment backup my-study --out backups/monday.sqlite3
"""

FORGET = """Delete the data of one participant, on request.

examples:
  contstim experiment forget my-study --participant 3F2A9C1B --reason "asked by mail"
"""

CHECK_PSYCHDS = """Check a Psych-DS data set.

examples:
  contstim experiment check-psychds collected/psychds
"""


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
    """Data of a study.

    Attributes
    ----------
    data
        data file of the study [in the study folder]
    pilot
        use the data of a pilot of the study, which are stored apart
    """

    data: NewFile | None = None
    pilot: bool = False

    def file(self, study: str) -> Path | None:
        """Return the data file; None for the one in the study folder."""
        if self.pilot and self.data is not None:
            raise InputError("give either --data or --pilot, which has a data file of its own")
        if self.pilot:
            return Path(study) / PILOT_FILE
        return None if self.data is None else Path(self.data)


STUDY_FOLDER_DATA = DataOptions()


def export(
    study: File,
    /,
    *,
    all: bool = False,
    ids: NewFile | None = None,
    data: DataOptions = STUDY_FOLDER_DATA,
    out: OutputFolder,
) -> None:
    """Write the tables of a study.

    Parameters
    ----------
    study
        folder of the study
    all
        include participants who did not answer every trial in choices.csv
    ids
        table to write of the recruiter's identifiers by participant (personal data) [none]
    out
        folder to write
    """
    from contstim.experiment.exporting import write_export
    from contstim.experiment.study_data import read_recruiter_ids, read_study_data
    from contstim.tables import escape_table  # loads pandas

    described = read_study(study)
    collected = read_study_data(described, data.file(study))
    folder = Path(out)
    write_export(described, collected, folder, all)
    whole = collected.complete_participants
    main = "choices" if "choices" in collected.tables else "answers"
    chosen = collected.tables[main]
    if not all:
        chosen = chosen[chosen["participant"].isin(whole)]
    n_left = len(collected.sessions) - len(whole)
    print(
        f"{folder / main}.csv: {len(chosen)} {main} of {chosen['participant'].nunique()} "
        f"participants; {n_left} unfinished sessions are "
        + ("in it, too" if all else "left out (--all keeps them)")
    )
    if len(collected.conflicts):
        print(f"{len(collected.conflicts)} second answers to a trial: {folder / 'conflicts.csv'}")
    print(f"{folder / 'psychds'}: a Psych-DS data set, checked")
    if ids is not None:
        write_table(escape_table(read_recruiter_ids(described, data.file(study))), ids)
        print(f"{ids}: recruiters' ids, personal data")


def import_data(
    study: File,
    /,
    *logs: Annotated[File, Parameter(name="LOGS", required=True)],
    data: DataOptions = STUDY_FOLDER_DATA,
) -> int:
    """Add logs to the data of a study.

    Parameters
    ----------
    study
        folder of the study
    logs
        files of JSON lines, or folders
    """
    from contstim.experiment.importing import import_logs

    imported = import_logs(read_study(study), map(Path, logs), data.file(study))
    for note in imported.notes:
        print_message(note)
    print(
        f"{imported.sessions} sessions, {imported.added} new answers, "
        f"of which {imported.conflicts} conflict with earlier ones"
    )
    return 1 if imported.notes else 0


def replace(
    study: File,
    /,
    *,
    exclude: Annotated[tuple[Text, ...], Parameter(metavar="RULE")] = (),
    release: bool = False,
    data: DataOptions = STUDY_FOLDER_DATA,
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """List the assignments to replace.

    Parameters
    ----------
    study
        folder of the study
    exclude
        rule of exclusion: catch<SHARE, rt<MS, rt>MS, median-rt<MS, trials<N, or participants=FILE
    release
        release these assignments
    out
        output table [standard output]
    """
    from contstim.experiment.maintenance import release_sessions, replacement_table
    from contstim.experiment.study_data import read_study_data

    described = read_study(study)
    collected = read_study_data(described, data.file(study))
    table = replacement_table(collected, _excluded(collected, exclude), time.time())
    write_table(table, out)
    print_message(f"{len(table)} assignments to replace, of {len(collected.sessions)} sessions")
    if release:
        # Who stopped has the place again on coming back, if it is still free.
        sessions = collected.sessions
        stopped = {*sessions.loc[sessions["outcome"] == "unfinished", "session"]}
        why = {
            session: "abandoned" if session in stopped else "excluded"
            for session in table["session"]
        }
        done = release_sessions(described, why, data=data.file(study))
        print_message(f"{len(done)} assignments released")


def _excluded(collected: StudyData, rules: tuple[str, ...]) -> pd.DataFrame:
    """Return which whole participants the rules leave out altogether, and by which rule."""
    import pandas as pd

    from contstim.evaluation.choices import check_choices
    from contstim.evaluation.exclusion import ExclusionRules, exclude, parse_rules

    if rules and "choices" not in collected.tables:
        raise InputError(
            "exclusions are of choices between two sentences, which this study does not ask for; "
            "leave out --exclude"
        )
    whole = pd.DataFrame()
    if rules:
        whole = collected.choices[
            collected.choices["participant"].isin(collected.complete_participants)
        ]
    if whole.empty:
        return pd.DataFrame(columns=["rule", "participant", "n_rows", "detail"])
    given = ExclusionRules(**parse_rules(rules))
    left, excluded = exclude(check_choices(whole), given, allow_none=True)
    return excluded[~excluded["participant"].isin(left["participant"])]


def release(
    study: File,
    /,
    *,
    session: Annotated[tuple[Text, ...], Parameter(metavar="ID")] = (),
    timeout: Annotated[float | None, float_parameter(0, metavar="MINUTES")] = None,
    reason: Text = "excluded",
    data: DataOptions = STUDY_FOLDER_DATA,
) -> None:
    """Release assignments.

    Parameters
    ----------
    study
        folder of the study
    session
        session whose assignment is released
    timeout
        time without an answer after which an unfinished session is released, in minutes
    reason
        reason, stored with the date
    """
    from contstim.experiment.maintenance import release_sessions

    if not session and timeout is None:
        raise InputError("say which assignments: --session ID, or --timeout MINUTES")
    reasons = dict.fromkeys(session, reason)
    done = release_sessions(read_study(study), reasons, timeout, data.file(study))
    for name in done:
        print(name)
    print_message(f"{len(done)} assignments released")


def extend(study: File, /, *, trials: File, data: DataOptions = STUDY_FOLDER_DATA) -> None:
    """Extend a study.

    Parameters
    ----------
    study
        folder of the study
    trials
        trials, output of `contstim design trials`
    """
    from contstim.experiment.maintenance import extend_study

    added = extend_study(read_study(study), Path(trials), data.file(study))
    print(f"{len(added)} assignments added: {added[0]} to {added[-1]}")


def close(
    study: File, /, *, reason: Text = "by hand", data: DataOptions = STUDY_FOLDER_DATA
) -> None:
    """Close a study.

    Parameters
    ----------
    study
        folder of the study
    reason
        reason, stored with the date
    """
    from contstim.experiment.maintenance import close_study

    close_study(read_study(study), reason, data.file(study), True)
    print("nobody new is let in; who has begun may finish")


def reopen(
    study: File, /, *, reason: Text = "by hand", data: DataOptions = STUDY_FOLDER_DATA
) -> None:
    """Reopen a study.

    Parameters
    ----------
    study
        folder of the study
    reason
        reason, stored with the date
    """
    from contstim.experiment.maintenance import close_study

    close_study(read_study(study), reason, data.file(study), False)
    print("people are let in again")


def backup(study: File, /, *, data: DataOptions = STUDY_FOLDER_DATA, out: NewFile) -> None:
    """Copy the data.

    Parameters
    ----------
    study
        folder of the study
    out
        file to write
    """
    backup_data(read_study(study), Path(out), data.file(study))
    print(f"{out}: the data as they were when the command was given")


def forget(
    study: File,
    /,
    *,
    participant: Annotated[Text, Parameter(metavar="WHO")],
    reason: Text,
    data: DataOptions = STUDY_FOLDER_DATA,
) -> None:
    """Delete the data of a participant.

    Parameters
    ----------
    study
        folder of the study
    participant
        code on the participant's last screen, or identifier of the session or by the recruiter
    reason
        reason, stored with the date
    """
    from contstim.experiment.maintenance import delete_participant

    code = delete_participant(read_study(study), participant, reason, data.file(study))
    print(f"{code} is deleted; copies, exports and files for import that you have are not")


def check_data_set(folder: File, /) -> None:
    """Check a Psych-DS data set.

    Parameters
    ----------
    folder
        folder with dataset_description.json
    """
    from contstim.experiment.exporting import check_psychds

    for name, n in check_psychds(folder).items():
        print(f"{name}: {n} rows")


#: Kinds by name: help text and function.
KINDS: dict[str, tuple[str, Callable[..., int | None]]] = {
    "export": (EXPORT, export),
    "import": (IMPORT, import_data),
    "replace": (REPLACE, replace),
    "release": (RELEASE, release),
    "extend": (EXTEND, extend),
    "close": (CLOSE, close),
    "reopen": (REOPEN, reopen),
    "backup": (BACKUP, backup),
    "forget": (FORGET, forget),
    "check-psychds": (CHECK_PSYCHDS, check_data_set),
}
