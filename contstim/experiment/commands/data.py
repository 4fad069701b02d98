"""Kinds of `contstim experiment` that read or change the data of a study.

Functions of `contstim.experiment` are imported on first use: some of them load pandas, which would
slow down the help and the start of a server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from contstim import experiment
from contstim.cli.common import print_message
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    NewFile,
    OutputFile,
    OutputFolder,
    Text,
    float_parameter,
)
from contstim.errors import InputError, format_count


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
    """Options that select the data file of a study.

    Attributes
    ----------
    data
        data file of the study [data file in the study folder]
    pilot
        use the data of a pilot run
    """

    data: NewFile | None = None
    pilot: bool = False

    def get_file(self, study: str) -> Path | None:
        """Return the data file, or None for the default file in the study folder."""
        if self.pilot and self.data is not None:
            raise InputError("give either --data or --pilot, which has a separate data file")
        if self.pilot:
            return Path(study) / experiment.PILOT_FILE
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
    """Write choices.csv, further tables and a Psych-DS data set.

    examples:
      contstim experiment export my-study --out collected

    Parameters
    ----------
    study
        folder of the study
    all
        include choices of participants who did not answer every trial
    ids
        table to write with the participant ids of the recruitment platform, which are personal data
        [none]
    out
        folder to write
    """
    settings = experiment.read_study(study)
    collected = experiment.read_study_data(settings, data.get_file(study))
    folder = Path(out)
    experiment.write_export(settings, collected, folder, all)

    # Report how many rows of the main table were written. Studies that do not show pairs of
    # sentences have a table of answers instead of choices.
    name = "choices" if "choices" in collected.tables else "answers"
    table = collected.tables[name]
    complete = collected.complete_participants
    if not all:
        table = table[table["participant"].isin(complete)]
    n_incomplete = len(collected.sessions) - len(complete)
    print(
        f"{folder / name}.csv: {len(table)} {name} of {table['participant'].nunique()} "
        f"participants; {n_incomplete} unfinished sessions are "
        + ("included" if all else "left out (--all includes them)")
    )
    if len(collected.conflicts):
        print(f"{len(collected.conflicts)} second answers to a trial: {folder / 'conflicts.csv'}")
    print(f"{folder / 'psychds'}: a Psych-DS data set")
    if ids is not None:
        recruiter_ids = experiment.read_recruiter_ids(settings, data.get_file(study))
        experiment.write_csv(Path(ids), recruiter_ids)
        print(f"{ids}: ids of the recruitment platform, which are personal data")


def import_data(
    study: File,
    /,
    *logs: Annotated[File, Parameter(name="LOGS", required=True)],
    data: DataOptions = STUDY_FOLDER_DATA,
) -> int:
    """Add the logs of static pages or JATOS to the data of a study.

    examples:
      contstim experiment import my-study jatos_results.txt

    Parameters
    ----------
    study
        folder of the study
    logs
        files of JSON lines, or folders that contain them
    """
    result = experiment.import_logs(
        experiment.read_study(study), map(Path, logs), data.get_file(study)
    )
    for note in result.notes:
        print_message(note)
    print(
        f"{result.sessions} sessions, {result.added_answers} new answers, "
        f"of which {result.conflicting_answers} conflict with earlier ones"
    )
    return 1 if result.notes else 0  # exit status 1 if something was left out


def replace(
    study: File,
    /,
    *,
    exclude: Annotated[tuple[Text, ...], Parameter(metavar="RULE")] = (),
    release: bool = False,
    data: DataOptions = STUDY_FOLDER_DATA,
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """List participants to replace, with their lists of trials (assignments).

    A participant has to be replaced after stopping early, or if a rule of --exclude excludes all of
    the participant's choices. With --release, new participants get the same lists of trials.

    examples:
      contstim experiment replace my-study --exclude "catch<0.91" --release --out replace.csv

    Parameters
    ----------
    study
        folder of the study
    exclude
        exclusion rule: catch<SHARE, rt<MS, rt>MS, median-rt<MS, trials<N, or participants=FILE
        (repeatable)
    release
        make the listed assignments available to new participants
    out
        output table [standard output]
    """
    from contstim.experiment.commands.replacement import list_replacements

    list_replacements(study, exclude, release, data.get_file(study), out)


def release(
    study: File,
    /,
    *,
    session: Annotated[tuple[Text, ...], Parameter(metavar="ID")] = (),
    timeout: Annotated[float | None, float_parameter(0, metavar="MINUTES")] = None,
    reason: Text = "excluded",
    data: DataOptions = STUDY_FOLDER_DATA,
) -> None:
    """Make the lists of trials (assignments) of sessions available to new participants.

    examples:
      contstim experiment release my-study --timeout 120

    Parameters
    ----------
    study
        folder of the study
    session
        session to release (repeatable)
    timeout
        time without an answer after which unfinished sessions are released, in minutes [none]
    reason
        reason to store with the date, for --session
    """
    if not session and timeout is None:
        raise InputError("name the assignments to release: --session ID, or --timeout MINUTES")
    # An assignment is the list of trials for one participant. Released ones are free for others.
    reasons = dict.fromkeys(session, reason)
    released = experiment.release_sessions(
        experiment.read_study(study), reasons, timeout, data.get_file(study)
    )
    for name in released:
        print(name)
    print_message(f"{format_count(len(released), 'assignment')} released")


def extend(study: File, /, *, trials: File, data: DataOptions = STUDY_FOLDER_DATA) -> None:
    """Extend the design of a study by more participants or groups.

    examples:
      contstim experiment extend my-study --trials more.csv

    Parameters
    ----------
    study
        folder of the study
    trials
        trials of the additional participants, output of `contstim design trials`
    """
    added = experiment.extend_study(
        experiment.read_study(study), Path(trials), data.get_file(study)
    )
    print(f"{format_count(len(added), 'assignment')} added: {added[0]} to {added[-1]}")


def close(
    study: File, /, *, reason: Text = "by hand", data: DataOptions = STUDY_FOLDER_DATA
) -> None:
    """Admit no more participants; open sessions continue.

    examples:
      contstim experiment close my-study --reason "the money is spent"

    Parameters
    ----------
    study
        folder of the study
    reason
        reason to store with the date
    """
    experiment.close_study(experiment.read_study(study), reason, data.get_file(study), closed=True)
    print("no more participants are admitted; open sessions continue")


def reopen(
    study: File, /, *, reason: Text = "by hand", data: DataOptions = STUDY_FOLDER_DATA
) -> None:
    """Admit participants again.

    examples:
      contstim experiment reopen my-study

    Parameters
    ----------
    study
        folder of the study
    reason
        reason to store with the date
    """
    experiment.close_study(experiment.read_study(study), reason, data.get_file(study), closed=False)
    print("participants are admitted again")


def backup(study: File, /, *, data: DataOptions = STUDY_FOLDER_DATA, out: NewFile) -> None:
    """Copy the data of a study, also while a server writes them.

    examples:
      contstim experiment backup my-study --out backups/monday.sqlite3

    Parameters
    ----------
    study
        folder of the study
    out
        file to write
    """
    experiment.backup_data(experiment.read_study(study), Path(out), data.get_file(study))
    print(f"{out}: copy of the data at the time of the command")


def forget(
    study: File,
    /,
    *,
    participant: Annotated[Text, Parameter(metavar="ID")],
    reason: Text,
    data: DataOptions = STUDY_FOLDER_DATA,
) -> None:
    """Delete the data of one participant, on request.

    examples:
      contstim experiment forget my-study --participant 3F2A9C1B --reason "asked by mail"

    Parameters
    ----------
    study
        folder of the study
    participant
        code on the participant's last screen, session id, or participant id of the recruiter
    reason
        reason to store with the date
    """
    code = experiment.delete_participant(
        experiment.read_study(study), participant, reason, data.get_file(study)
    )
    print(f"{code} is deleted from the data, but not from copies, exports and logs to import")


#: Functions by kind.
KINDS: dict[str, Callable[..., int | None]] = {
    "export": export,
    "import": import_data,
    "replace": replace,
    "release": release,
    "extend": extend,
    "close": close,
    "reopen": reopen,
    "backup": backup,
    "forget": forget,
}
