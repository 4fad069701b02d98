"""Exports of jsPsych, PCIbex, Gorilla, Qualtrics and PsychLing-101, recognised by their columns.

What a file cannot say is asked for: what an answer means, which sentence was on which side, and for
Qualtrics, which holds answers by question, the sentences of each question.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import Cleaning, RawChoices, stack_exclusions
from contstim.evaluation.importers.answers import (
    are_codes,
    buttons,
    left_is_first,
    ratings_of,
    where_first,
)
from contstim.evaluation.importers.columns import RESERVED, find_columns
from contstim.evaluation.importers.qualtrics import rows_of_questions
from contstim.tables import numbered_lines, read_table, require_columns

# The columns that only a program's exports have.
_PROGRAMS = {
    "PCIbex": {"PennElementName", "Value"},
    "Gorilla": {"Participant Private ID"},
    "Qualtrics": {"ResponseId"},
    "jsPsych": {"trial_type", "trial_index"},
    "PsychLing-101": {"participant_id", "trial_order", "response"},
}


def recognised(table: pd.DataFrame) -> str | None:
    """Return which program's export a table is, by its columns; None where it is of none."""
    columns = {str(column) for column in table.columns}
    return next((name for name, needed in _PROGRAMS.items() if needed <= columns), None)


def read_export(
    source: str | Path | pd.DataFrame,
    *,
    low: str | float | None = None,
    high: str | float | None = None,
    side: str | None = None,
    n_choices: int | None = None,
    trials: str | Path | pd.DataFrame | None = None,
    columns: dict[str, str] | None = None,
    program: str | None = None,
) -> RawChoices:
    """Read an export of jsPsych, PCIbex (PennController), Gorilla or Qualtrics, or one like them.

    A row is a trial if it holds two sentences and an answer. The sentences are ``sentence_1`` and
    ``sentence_2`` (or A and B), or ``left`` and ``right`` as shown, with ``left_is`` (1 or 2) as
    the trial lists of contstim have it. An answer is the sentence itself, its side, a code, or a
    number on a scale. In a table of no known program, cells tell what names of columns do not. The
    ends of a scale of numbers are those that most participants used, where no column of sides puts
    in doubt what they are about. What was taken for what is said in the notes; other columns are
    kept.

    Parameters
    ----------
    source
        A path, or a table already read.
    low, high
        The answers that mean sure of sentence 1 and sure of sentence 2; where sides are known,
        sure of the left and of the right one.
    side
        The column that tells where sentence 1 was: left or right, or 1 or 2 (which sentence was on
        the left).
    n_choices
        Of buttons numbered from 0 as jsPsych numbers them, which does not write down how many there
        are: 0 is sure of sentence 1 or, where sides are known, of the left one. A column
        `n_choices`, where filled, goes before it.
    trials
        For Qualtrics, a table of the questions: ``question, sentence_1, sentence_2``, perhaps
        ``low, high`` (the ends of its scale) and ``timer`` (the question that times its page), and
        whatever else is known of them, such as ``condition``, or ``expected`` (1 or 2) of catch
        trials.
    columns
        Columns that are not found by themselves: ours, theirs.
    program
        Whose export it is, such as ``jsPsych``, where its columns do not tell.

    Raises
    ------
    InputError
        If a column is lacking, or the file does not tell what an answer means; the message says
        what to add.
    """
    columns = ({} if side is None else {"side": side}) | (columns or {})
    data, recognised_as = read_recognised(source)
    program = program or recognised_as
    kind = f"{program} export" if program else "table"
    excluded, decisions = stack_exclusions(), list[str]()
    if program == "Qualtrics":
        data, excluded, decisions = rows_of_questions(data, trials)
    if program in (None, "Qualtrics"):
        # Such tables are the researcher's own, their columns of these names ours.
        ours = ("expected", "scale_low", "scale_high")
        columns = {name: name for name in ours if name in data} | columns
    data = data.reset_index(drop=True)
    taken, guesses = find_columns(data, columns, kind, by_cells=program is None)
    data, shared = _sessions_apart(data, taken["participant"])
    others = [c for c in data if c not in taken.values() and c not in RESERVED]
    data = data[[*taken.values(), *others]].set_axis([*taken, *others], axis=1)
    coded = low is not None or high is not None
    counted = "response" in data and not coded
    if "rating" in data and (coded or are_codes(data["rating"])):
        data = data.rename(columns={} if "response" in data else {"rating": "response"})
        data = data.drop(columns="rating", errors="ignore")
    side = taken.get("side", "")
    both = _sentences(data, side)
    answer = "rating" if "rating" in data else "response"
    shown = both.notna().all(axis=1) & data[answer].notna()
    if not shown.any():
        raise InputError(f"no row of the {kind} holds two sentences and an answer")
    data, both = data[shown].copy(), both[shown]
    left = left_is_first(data, side)
    sources = ", ".join(f"{ours} from {theirs!r}" for ours, theirs in taken.items())
    notes = [f"Read as a {kind}: {sources}.", *guesses, *decisions, *shared]
    for rule, n in excluded["rule"].value_counts().items():
        notes.append(f"Sessions left out: {n} ({rule}); excluded.csv names them.")
    if answer == "response":
        n_buttons = buttons(data, program, n_choices) if counted else None
        data["rating"], how = ratings_of(data, both, left, low, high, n_buttons)
        notes.append(how)
    if n_passed := len(shown) - int(shown.sum()):
        notes.append(
            f"{n_passed} {'row holds' if n_passed == 1 else 'rows hold'} no two sentences and an "
            "answer, as those of instructions do, and were left out; if trials are among them, "
            "name their columns with --column OURS=THEIRS."
        )
    if "expected" in data and left is not None:
        sides = data["expected"].astype("str").str.strip().str.lower()
        by_side = (sides == "left").eq(left).map({True: 1, False: 2})
        data["expected"] = data["expected"].where(~sides.isin(("left", "right")), by_side)
    used = ("left", "right", "side", "response", "scale_low", "scale_high")
    data = data.drop(columns=[c for c in used if c in data])
    if left is not None:
        data["side_1"] = left.map({True: "left", False: "right"})
    data["sentence_1"], data["sentence_2"] = both["sentence_1"], both["sentence_2"]
    # In a table of one's own a pair that comes again may be another person's.
    cleaning = Cleaning(repeated_trial="error" if program is None else "keep_first")
    # Whoever says the ends of a scale may have a slider.
    scale = "slider" if coded or "scale_low" in taken else None
    return RawChoices(data, cleaning, scale, notes=notes, excluded=excluded)


def read_recognised(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Read a table or file; return it with the program whose export it is, None if of none."""
    if isinstance(source, pd.DataFrame):
        return source, recognised(source)
    place = Path(source)
    lines = []
    if str(source) != "-" and place.is_file():
        lines = [line for _, line in numbered_lines(source)]
    if any(re.match(r"# \d+\. ", line) for line in lines[:50]):
        return _rows_of_pcibex(lines, str(source)), "PCIbex"
    whole = place.is_dir() or place.suffix in (".json", ".jsonl")
    trials = whole or (lines and lines[0].lstrip()[:1] in ("[", "{"))
    if trials:
        from contstim.evaluation.importers.jspsych import read_trials  # JSON, which few files are

        table = read_trials(place)
    else:
        table = read_table(source, cells="guessed")
    return table, recognised(table)


def _rows_of_pcibex(lines: list[str], name: str) -> pd.DataFrame:
    """Return the answers in a results file of PCIbex, whose comments name the columns."""
    header: list[str] = []
    rows = []
    for number, line in enumerate(lines, start=1):
        named = re.match(r"# (\d+)\. (.*?)\.?$", line)
        if named:
            header = [*header[: int(named[1]) - 1], named[2]]
        elif line.strip() and not line.startswith("#"):
            # Commas, ends of lines and per cent signs of texts come as codes.
            cells = [
                re.sub("%(2C|0A|0D|25)", lambda code: chr(int(code[1], 16)), cell, flags=re.I)
                for cell in next(csv.reader([line]))
            ]
            if len(cells) > len(header):
                raise InputError(
                    f"{name}, line {number} has {len(cells)} cells, its header {len(header)}; if "
                    "sentences hold commas, write these as %2C, or the sentences in quotes"
                )
            rows.append(dict(zip(header, cells, strict=False)))
    table = pd.DataFrame(rows)
    require_columns(table, ("PennElementName", "Parameter", "Value"), f"the PCIbex file {name}")
    who = [c for c in ("Results reception time", "Order number of item") if c in table]
    who += [c for c in table.columns if c.startswith("MD5 hash")]
    if "EventTime" in table:
        table["EventTime"] = pd.to_numeric(table["EventTime"], errors="coerce")
    started = table[table["Value"].eq("Start") | table["Parameter"].eq("Start")]
    answers = table[table["Parameter"].isin(("Selection", "Choice", "PressedKey"))]
    if "EventTime" in table and who:
        first = started.drop_duplicates(who).set_index(who)["EventTime"]
        begun = answers[who].merge(first.rename("begun"), left_on=who, right_index=True, how="left")
        answers = answers.assign(rt=answers["EventTime"] - begun["begun"].to_numpy())
    return answers.replace("", pd.NA)


def _sessions_apart(data: pd.DataFrame, who: str) -> tuple[pd.DataFrame, list[str]]:
    """Return answers with a participant per session where one hash of PCIbex has several.

    The hash is of a person's address, which the people of a laboratory share; whoever is sent the
    same trial in several results is several people, or one who took part again: a note says so.
    """
    time, trial = "Results reception time", "Order number of item"
    if not who.startswith("MD5 hash") or not {time, trial} <= {*data.columns}:
        return data, []
    times = data.groupby([who, trial])[time].nunique()
    hashes = times[times > 1].index.get_level_values(who).unique()
    rows = data[who].isin(hashes)
    if not rows.any():
        return data, []
    apart = data[who].astype("str") + " " + data[time].astype("str")
    note = (
        f"Participants who share an address (MD5 hash): {apart[rows].nunique()} with "
        f"{len(hashes)}, told apart by {time!r}; if they are one person who took part again, leave "
        "the later ones out (--exclude)."
    )
    return data.assign(**{who: data[who].where(~rows, apart)}), [note]


def _sentences(data: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return sentences 1 and 2 of each row, from these columns or from left and right.

    The file calls the column of sides `side`, which says how its cells are read.
    """
    if {"sentence_1", "sentence_2"} <= set(data.columns):
        return data[["sentence_1", "sentence_2"]]
    left, right = data["left"], data["right"]
    turned = where_first(data["side"], side).eq(False) if "side" in data else left.isna() & False
    return pd.DataFrame(
        {"sentence_1": left.where(~turned, right), "sentence_2": right.where(~turned, left)}
    )
