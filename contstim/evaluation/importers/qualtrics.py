"""Exports of Qualtrics, a row per session and a column per question, as a row per answer."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.importers.names import TRUTH, match_role, plain
from contstim.evaluation.rows import refuse_rows
from contstim.tables import read_table, require_columns

# What Qualtrics calls sessions of nobody: by text, and by code where numbers are exported.
_NOBODYS = (
    *("survey preview", "survey test", "survey preview spam", "offline survey preview"),
    *("synthetic", "1", "2", "9", "17", "256"),
)
# Columns by which a recruiting platform knows people.
_PERSONS = ("prolificpid", "prolificid", "workerid", "sonaid")
# Columns on the session, of which some tell who somebody is.
_OF_SESSION = {
    *("startdate", "enddate", "status", "ipaddress", "progress", "durationinseconds", "finished"),
    *("recordeddate", "responseid", "recipientlastname", "recipientfirstname", "recipientemail"),
    *("externalreference", "locationlatitude", "locationlongitude", "distributionchannel"),
    *("userlanguage", *_PERSONS),
}
# A question of the kind Timing is four columns; seconds until the page was left are one of them.
_TIMING = ("_First Click", "_Last Click", "_Page Submit", "_Click Count")
_SECONDS = "_Page Submit"
# A number that a text explains.
_STATED = re.compile(r"(?<![\w.,+*/-])(-?\d+)\s*=")


def reshape_questions(
    raw: pd.DataFrame, trials: str | Path | pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return an export of Qualtrics as a row per person and question.

    Parameters
    ----------
    raw
        The export: a row per session, perhaps below the texts and ids of the questions.
    trials
        A table of the questions: ``question, sentence_1, sentence_2``, perhaps ``low, high``, the
        ends of its scale, ``timer``, the question that times its page, and whatever else is known
        of it.

    Returns
    -------
    rows
        ``ResponseId``, ``response``, ``trial``, perhaps ``rt_s`` and ``scale_low, scale_high``,
        what is known of the question, and the session's further columns.
    excluded
        Previews, tests and sessions that were not finished, as `HumanData` has it.
    notes
        Sentences on what was decided.

    Raises
    ------
    InputError
        If there is no table of questions, or it or the export lacks a column.
    """
    if trials is None:
        raise InputError(
            "an export of Qualtrics holds answers by question, not the sentences; give them as "
            "--trials CSV, with the columns question (such as Q3), sentence_1 and sentence_2"
        )
    table = trials if isinstance(trials, pd.DataFrame) else read_table(trials, cells="text")
    require_columns(table, ("question", "sentence_1", "sentence_2"), "the table of questions")
    refuse_rows(table["question"].isna(), "the table of questions has no question in {rows}")
    if table.empty:
        raise InputError("the table of questions has no rows; give one for each question")
    questions = list(table["question"].astype(str))
    require_columns(raw, questions, "the Qualtrics export")
    first = _first_answer(raw)
    table = _with_ends(table, raw[:first][questions])
    if "low" in table or "high" in table:
        require_columns(table, ("low", "high"), "the table of questions")
        lacking = table[["low", "high"]].isna().any(axis=1)
        refuse_rows(lacking, "the table of questions has no low or no high in {rows}")
    timers, notes = _timers(raw, table)
    sessions = raw[first:]
    rule = _why_left_out(sessions)
    people, others = sessions[rule.isna()], sessions[rule.notna()]
    excluded = pd.DataFrame(
        {
            "rule": rule[rule.notna()],
            "participant": others["ResponseId"].astype("str"),
            "n_rows": others[questions].notna().sum(axis=1),
            "detail": "by the columns Status, Finished and Progress of Qualtrics",
        }
    )
    people, again = _one_of_each(people)
    further, renamed = _further(people, {*questions, *table.columns})
    about = people[["ResponseId", *further]].rename(columns=further)
    table = table.assign(trial=table["question"]).drop(
        columns=["timer", "response"], errors="ignore"
    )
    table = table.rename(columns={"low": "scale_low", "high": "scale_high"})
    parts = []
    for (_, of_question), timer in zip(table.iterrows(), timers, strict=True):
        answers = about.assign(response=people[of_question["question"]])
        if timer:
            answers["rt_s"] = people[timer]
        parts.append(answers.assign(**of_question.drop("question").rename(str)))
    return pd.concat(parts, ignore_index=True), excluded, [*notes, *again, *renamed]


def _with_ends(table: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return a table of questions with the ends that their texts state: ``1 = surely the first``.

    Parameters
    ----------
    table
        Of the questions, whose own columns go before.
    texts
        The rows of texts and ids above the answers, a column per question.
    """
    if {"low", "high"} & {*table.columns}:
        return table
    stated = [
        {int(n) for cell in cells.head(1).dropna() for n in _STATED.findall(str(cell))}
        for _, cells in texts.items()
    ]
    if any(len(numbers) < 2 for numbers in stated):
        return table
    return table.assign(low=[min(n) for n in stated], high=[max(n) for n in stated])


def _timers(raw: pd.DataFrame, table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the column with each question's time, or '', and a note.

    A question's timer is named in the table, or stands beside it: where questions and timers take
    turns in the export, each page has one of both.
    """
    questions = list(table["question"].astype(str))
    if "timer" in table:
        given = table["timer"].fillna("").astype(str).str.removesuffix(_SECONDS)
        timers = [name and name + _SECONDS for name in given]
        require_columns(raw, filter(None, timers), "the Qualtrics export")
        return timers, []
    nothing = [""] * len(questions)
    columns = [c for c in map(str, raw.columns) if c in questions or c.endswith(_SECONDS)]
    there = [c for c in columns if c not in questions]
    if not there:
        return nothing, []
    turns = [c in questions for c in columns]
    if len(there) != len(questions) or any(a == b for a, b in pairwise(turns)):
        return nothing, [
            f"{there[0]!r} and others time pages, but not one for each question; to have response "
            "times, name each question's in a column 'timer' of the table of questions."
        ]
    asked = [c for c in columns if c in questions]
    beside = dict(zip(asked, there, strict=True))
    return [beside[name] for name in questions], [
        f"Response times are those of the page timers, such as {beside[questions[0]]!r} of "
        f"{questions[0]!r}; if that is wrong, name each in a column 'timer' of the table of "
        "questions."
    ]


def _one_of_each(people: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return sessions under the first id of each person, who may have taken part again."""
    columns = [str(c) for c in people if plain(c) in _PERSONS and people[c].notna().any()]
    if not columns:
        return people, []
    who = people[columns[0]].astype("str").str.strip()
    who = who.where(who.notna() & (who != ""), people["ResponseId"].astype("str"))
    first = people["ResponseId"].groupby(who.to_numpy()).transform("first")
    n_again = int(who[who.duplicated()].nunique())
    if not n_again:
        return people, []
    return people.assign(ResponseId=first), [
        f"People with several sessions, by {columns[0]!r}: {n_again}. Each is one participant, "
        "called as in the first session, and of two answers to one pair the first counts."
    ]


def _further(people: pd.DataFrame, taken: set[str]) -> tuple[dict[str, str], list[str]]:
    """Return the columns that may say something of a person, as embedded data do, and notes.

    Such as would be taken for one of ours, which are of trials, get another name: a condition of
    people is none of pairs.
    """
    names: dict[str, str] = {}
    notes = []
    for column in map(str, people):
        ours = match_role(column)
        if (
            (column in taken and not ours)
            or plain(column) in _OF_SESSION
            or column.endswith(_TIMING)
            or ours == "participant"
            or people[column].isna().all()
        ):
            continue
        names[column] = f"session_{column}" if ours else column
        if ours:
            notes.append(
                f"The session's column {column!r} is called {names[column]!r}, since it is of "
                f"people and not of pairs; to compare them, name {names[column]!r} as a condition."
            )
    return names, notes


def _why_left_out(sessions: pd.DataFrame) -> pd.Series:
    """Return by which rule each session of Qualtrics is left out; missing where it is not."""
    status, finished, progress = (
        sessions.get(name, pd.Series("", index=sessions.index))
        .astype("str")
        .str.strip()
        .str.lower()
        .str.removesuffix(".0")
        for name in ("Status", "Finished", "Progress")
    )
    unfinished = finished.map(TRUTH).eq(False) | (pd.to_numeric(progress, errors="coerce") < 100)
    rule = pd.Series(None, index=sessions.index, dtype=object)
    rule[unfinished] = "session not finished"
    rule[status.isin(_NOBODYS)] = "preview or test"
    return rule


def _first_answer(raw: pd.DataFrame) -> int:
    """Return the first row of an export of Qualtrics that is a person's.

    Above it stand the questions' texts, in whatever language, and their ids as ``{"ImportId":
    ...}``; people are called ``R_...`` unless somebody gave them other names.
    """
    top = raw.head(2).astype("str")
    of_ids = top.apply(lambda column: column.str.contains('"ImportId"', regex=False)).any(axis=1)
    if of_ids.any():
        return int(of_ids.to_numpy().nonzero()[0][-1]) + 1
    ids = raw["ResponseId"].astype("str").str.strip()
    texts = len(ids) > 1 and not ids.iloc[0].startswith("R_") and ids[1:].str.startswith("R_").all()
    return int(texts or ids.iloc[:1].eq("Response ID").any())
