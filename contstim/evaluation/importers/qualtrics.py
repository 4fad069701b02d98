"""Exports of Qualtrics: one row per session and one column per question."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.importers.column_names import TRUTH, match_standard_name, normalise_name
from contstim.evaluation.rows import refuse_rows
from contstim.tables import read_table, require_columns

# Values of the column Status for sessions that are not participants', as text or as code.
_TEST_STATUS = (
    *("survey preview", "survey test", "survey preview spam", "offline survey preview"),
    *("synthetic", "1", "2", "9", "17", "256"),
)
# Columns with the participant id of a recruitment platform.
_PLATFORM_IDS = ("prolificpid", "prolificid", "workerid", "sonaid")
# Columns of session metadata, some of which identify a person.
_METADATA = {
    *("startdate", "enddate", "status", "ipaddress", "progress", "durationinseconds", "finished"),
    *("recordeddate", "responseid", "recipientlastname", "recipientfirstname", "recipientemail"),
    *("externalreference", "locationlatitude", "locationlongitude", "distributionchannel"),
    *("userlanguage", *_PLATFORM_IDS),
}
# Suffixes of the four columns of a timing question. The third is the time on the page in seconds.
_TIMING_SUFFIXES = ("_First Click", "_Last Click", "_Page Submit", "_Click Count")
_PAGE_TIME = "_Page Submit"


def reshape_questions(
    raw: pd.DataFrame, trials: str | Path | pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Reshape a Qualtrics export to one row per session and question.

    Parameters
    ----------
    raw
        Export with one row per session, with or without the rows of question texts and ids.
    trials
        Table of the questions (or its path) with the columns ``question, sentence_1, sentence_2``
        and optionally ``low, high`` (ends of the rating scale), ``timer`` (timing question of the
        same page) and any further columns.

    Returns
    -------
    rows : DataFrame
        ``ResponseId, response, trial``, the columns of `trials` (``low, high`` as ``scale_low,
        scale_high``), ``rt_s`` if there are timers, and further columns of the session.
    excluded : DataFrame
        Exclusion table of previews, tests and unfinished sessions.
    notes : list of str
        Messages about choices that the importer made automatically, one sentence each.

    Raises
    ------
    InputError
        If there is no table of questions, or it or the export lacks a column.
    """
    if trials is None:
        raise InputError(
            "an export of Qualtrics contains answers by question, but no sentences; give them as "
            "--trials CSV, with the columns question (for example Q3), sentence_1 and sentence_2"
        )
    table = trials if isinstance(trials, pd.DataFrame) else read_table(trials, cells="text")
    require_columns(table, ("question", "sentence_1", "sentence_2"), "the table of questions")
    refuse_rows(table["question"].isna(), "the table of questions has no question in {rows}")
    if table.empty:
        raise InputError("the table of questions has no rows; give one for each question")
    questions = list(table["question"].astype(str))
    require_columns(raw, questions, "the Qualtrics export")
    if {"low", "high"} & {*table.columns}:
        require_columns(table, ("low", "high"), "the table of questions")
        is_missing = table[["low", "high"]].isna().any(axis=1)
        refuse_rows(is_missing, "the table of questions has no low or no high in {rows}")
    timers = [""] * len(table)
    if "timer" in table:
        names = table["timer"].fillna("").astype(str).str.removesuffix(_PAGE_TIME)
        timers = [name and name + _PAGE_TIME for name in names]
        require_columns(raw, filter(None, timers), "the Qualtrics export")

    # Exclude previews, tests and unfinished sessions.
    sessions = raw[_count_heading_rows(raw) :]
    rule = _find_exclusion_reasons(sessions)
    is_excluded = rule.notna()
    excluded = pd.DataFrame(
        {
            "rule": rule[is_excluded],
            "participant": sessions.loc[is_excluded, "ResponseId"].astype("str"),
            "n_rows": sessions.loc[is_excluded, questions].notna().sum(axis=1),
            "detail": "by the columns Status, Finished and Progress of Qualtrics",
        }
    )
    sessions, notes = _merge_sessions(sessions[~is_excluded])
    new_names, name_notes = _rename_session_columns(sessions, {*questions, *table.columns})
    session_data = sessions[["ResponseId", *new_names]].rename(columns=new_names)

    # Stack the answers of all questions.
    table = table.assign(trial=table["question"])
    table = table.drop(columns=["timer", "response"], errors="ignore")
    table = table.rename(columns={"low": "scale_low", "high": "scale_high"})
    parts = []
    for (_, question), timer in zip(table.iterrows(), timers, strict=True):
        answers = session_data.assign(response=sessions[question["question"]])
        if timer:
            answers["rt_s"] = sessions[timer]
        parts.append(answers.assign(**question.drop("question").rename(str)))
    return pd.concat(parts, ignore_index=True), excluded, [*notes, *name_notes]


def _count_heading_rows(raw: pd.DataFrame) -> int:
    """Count the rows between the header and the first session of a Qualtrics export.

    Qualtrics writes the texts of the questions in one row and their ids in another. Both rows can
    be missing, for example after the file was edited. `raw` is the export, without its header.
    """
    top = raw.head(2).astype("str")
    # The row of question ids contains texts such as {"ImportId":"QID1"}. Sessions follow it.
    has_ids = top.apply(lambda column: column.str.contains('"ImportId"', regex=False)).any(axis=1)
    if has_ids.any():
        return int(has_ids.to_numpy().nonzero()[0][-1]) + 1
    # Without this row, the first row may still contain the texts of the questions.
    ids = raw["ResponseId"].astype("str").str.strip()
    # Qualtrics calls sessions R_...; the heading of the column in English is "Response ID".
    if len(ids) > 1 and not ids.iloc[0].startswith("R_") and ids[1:].str.startswith("R_").all():
        return 1
    return int(ids.iloc[:1].eq("Response ID").any())


def _find_exclusion_reasons(sessions: pd.DataFrame) -> pd.Series:
    """Return the reason to exclude each session of a Qualtrics export.

    Parameters
    ----------
    sessions
        Export with one row per session. The columns `Status`, `Finished` and `Progress` may be
        missing.

    Returns
    -------
    Series
        ``preview or test`` or ``session not finished``; missing for sessions that are not excluded.
    """

    def read_column(name: str) -> pd.Series:
        cells = sessions.get(name, pd.Series("", index=sessions.index))
        return cells.astype("str").str.strip().str.lower().str.removesuffix(".0")

    # A session is unfinished if `Finished` is false or `Progress` is below 100 per cent.
    progress = pd.to_numeric(read_column("Progress"), errors="coerce")
    is_unfinished = read_column("Finished").map(TRUTH).eq(False) | (progress < 100)
    reasons = pd.Series(None, index=sessions.index, dtype=object)
    reasons[is_unfinished] = "session not finished"
    # A preview or test takes precedence over an unfinished session.
    reasons[read_column("Status").isin(_TEST_STATUS)] = "preview or test"
    return reasons


def _merge_sessions(sessions: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Give all sessions of one participant the same identifier.

    Qualtrics assigns a new `ResponseId` to each session. Sessions belong to the same participant if
    they have the same participant id of a recruitment platform such as Prolific. The `ResponseId`
    of the participant's first session then replaces the others.

    Parameters
    ----------
    sessions
        Export with one row per session and the column `ResponseId`.

    Returns
    -------
    sessions : DataFrame
        The table with one `ResponseId` per participant.
    notes : list of str
        One sentence with the number of participants who have several sessions; empty if there are
        none.
    """
    id_columns = [str(column) for column in sessions if normalise_name(column) in _PLATFORM_IDS]
    # Use the first column with ids of a recruitment platform, such as PROLIFIC_PID, that is not
    # empty.
    id_columns = [column for column in id_columns if sessions[column].notna().any()]
    if not id_columns:
        return sessions, []
    ids = sessions[id_columns[0]].astype("str").str.strip()
    # Sessions without such an id are separate participants.
    ids = ids.where(ids.notna() & (ids != ""), sessions["ResponseId"].astype("str"))
    n_repeated = int(ids[ids.duplicated()].nunique())
    if not n_repeated:
        return sessions, []
    # Give all sessions of a participant the ResponseId of the first one.
    first_response_ids = sessions["ResponseId"].groupby(ids.to_numpy()).transform("first")
    note = (
        f"Participants with several sessions, by {id_columns[0]!r}: {n_repeated}. Each is one "
        "participant, named by the first session; only the first answer to a pair is used."
    )
    return sessions.assign(ResponseId=first_response_ids), [note]


def _rename_session_columns(
    sessions: pd.DataFrame, other_columns: set[str]
) -> tuple[dict[str, str], list[str]]:
    """Select the columns that describe a whole session, such as answers to demographic questions.

    Metadata, timers and empty columns are left out. A column with the name of a standard column is
    renamed. For example, `condition` becomes `session_condition`, because it describes the
    participant, whereas the standard column `condition` describes a sentence pair.

    Parameters
    ----------
    sessions
        Export with one row per session.
    other_columns
        Names of columns that are left out because they do not describe a session, for example
        columns with the answers to questions about a sentence pair.

    Returns
    -------
    new_names : dict of str
        New name of each selected column.
    notes : list of str
        One sentence for each column that is renamed.
    """
    new_names: dict[str, str] = {}
    notes = []
    for column in map(str, sessions):
        # Standard column of a choices table with the same name, for example "condition" for a
        # column "Condition"; empty if there is none.
        standard_name = match_standard_name(column)
        is_metadata = normalise_name(column) in _METADATA or standard_name == "participant"
        is_other_column = column in other_columns and not standard_name
        is_timer = column.endswith(_TIMING_SUFFIXES)
        # Skip columns that do not describe the participant.
        if is_metadata or is_other_column or is_timer or sessions[column].isna().all():
            continue
        # In the choices table, `condition` is the condition of the sentence pair. A column of this
        # name that describes the participant is therefore renamed `session_condition`.
        new_names[column] = f"session_{column}" if standard_name else column
        if standard_name:
            notes.append(
                f"The session's column {column!r} is called {new_names[column]!r}, since it "
                "describes participants, not pairs; to compare them, name "
                f"{new_names[column]!r} as a condition."
            )
    return new_names, notes
