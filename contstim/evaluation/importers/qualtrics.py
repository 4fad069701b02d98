"""Exports of Qualtrics: one row per session and one column per question."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.importers.column_names import TRUTH, match_role, normalise_name
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
        Sentences about decisions.

    Raises
    ------
    InputError
        If there is no table of questions, or it or the export lacks a column.
    """
    if trials is None:
        raise InputError(
            "an export of Qualtrics holds answers by question, not the sentences; give them as "
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
    rule = _exclusion_rule(sessions)
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
    be missing, for example after the file was edited.
    """
    top = raw.head(2).astype("str")
    has_ids = top.apply(lambda column: column.str.contains('"ImportId"', regex=False)).any(axis=1)
    if has_ids.any():
        return int(has_ids.to_numpy().nonzero()[0][-1]) + 1
    ids = raw["ResponseId"].astype("str").str.strip()
    # Qualtrics calls sessions R_...; the heading of the column in English is "Response ID".
    if len(ids) > 1 and not ids.iloc[0].startswith("R_") and ids[1:].str.startswith("R_").all():
        return 1
    return int(ids.iloc[:1].eq("Response ID").any())


def _exclusion_rule(sessions: pd.DataFrame) -> pd.Series:
    """Find the sessions that are not data of participants.

    The result contains a text for each session: the rule that excludes it (``preview or test`` or
    ``session not finished``), or None if the session is not excluded.
    """
    status, finished, progress = (
        sessions.get(name, pd.Series("", index=sessions.index))
        .astype("str")
        .str.strip()
        .str.lower()
        .str.removesuffix(".0")
        for name in ("Status", "Finished", "Progress")
    )
    is_unfinished = finished.map(TRUTH).eq(False) | (pd.to_numeric(progress, errors="coerce") < 100)
    rule = pd.Series(None, index=sessions.index, dtype=object)
    rule[is_unfinished] = "session not finished"
    rule[status.isin(_TEST_STATUS)] = "preview or test"
    return rule


def _merge_sessions(sessions: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Treat several sessions with the same id of a recruitment platform as one participant.

    All sessions of a participant get the `ResponseId` of the first session. The function returns
    the sessions, and a note if any participant has several sessions.
    """
    columns = [
        str(c) for c in sessions if normalise_name(c) in _PLATFORM_IDS and sessions[c].notna().any()
    ]
    if not columns:
        return sessions, []
    ids = sessions[columns[0]].astype("str").str.strip()
    ids = ids.where(ids.notna() & (ids != ""), sessions["ResponseId"].astype("str"))
    n_repeated = int(ids[ids.duplicated()].nunique())
    if not n_repeated:
        return sessions, []
    first_ids = sessions["ResponseId"].groupby(ids.to_numpy()).transform("first")
    return sessions.assign(ResponseId=first_ids), [
        f"Participants with several sessions, by {columns[0]!r}: {n_repeated}. Each is one "
        "participant, named by the first session; only the first answer to a pair is used."
    ]


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
        Names of the columns with questions, and of the columns of the table of questions.

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
        role = match_role(column)
        if (
            (column in other_columns and not role)
            or normalise_name(column) in _METADATA
            or column.endswith(_TIMING_SUFFIXES)
            or role == "participant"
            or sessions[column].isna().all()
        ):
            continue
        new_names[column] = f"session_{column}" if role else column
        if role:
            notes.append(
                f"The session's column {column!r} is called {new_names[column]!r}, since it "
                "describes participants, not pairs; to compare them, name "
                f"{new_names[column]!r} as a condition."
            )
    return new_names, notes
