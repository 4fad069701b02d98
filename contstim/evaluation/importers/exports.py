"""Exports of jsPsych, PCIbex, Gorilla, Qualtrics and PsychLing-101, recognised by their columns.

What a file cannot say is asked for: what an answer means, which sentence was on which side, and for
Qualtrics, which holds answers by question, the sentences of each question.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from contstim.errors import InputError, require_known
from contstim.evaluation.choices import (
    Cleaning,
    RawChoices,
    name_rows,
    refuse_rows,
    rescale,
    stack_exclusions,
)
from contstim.evaluation.items import guessed_items
from contstim.tables import numbered_lines, read_table, require_columns

# Names by which columns go, without case, spaces and marks; the first one found is taken.
_NAMES = {
    "participant": (
        *("participant", "participantid", "participantprivateid", "subject", "subjectid", "subj"),
        *("prolificpid", "workerid", "responseid", "md5hashofparticipantsipaddress", "id"),
    ),
    "group": ("group", "designgroup", "list", "counterbalance"),
    "item": ("item", "itemid", "itemnumber"),
    "trial": ("trial", "trialid", "trialnumber", "ordernumberofitem", "trialindex"),
    "condition": ("condition", "trialcondition"),
    "model_1": ("model1",),
    "model_2": ("model2",),
    "sentence_1": ("sentence1", "sentencea"),
    "sentence_2": ("sentence2", "sentenceb"),
    "left": ("left", "sentenceleft", "leftsentence"),
    "right": ("right", "sentenceright", "rightsentence"),
    "side": ("side1", "sidea", "side", "leftis", "swapped", "flipped"),
    "rating": ("rating",),
    "response": ("response", "answer", "choice", "value"),
    "rt_ms": ("rtms", "rt", "reactiontime"),
    "rt_s": ("rts",),
    "n_choices": ("nchoices",),
    "expected": (),  # of other programs' columns of this name nothing is known
}
# What would be misread under these names; other columns are kept.
_RESERVED = {*_NAMES, "side_1", "kind_1", "kind_2"}
# The columns that only a program's exports have.
_PROGRAMS = {
    "PCIbex": {"PennElementName", "Value"},
    "Gorilla": {"Participant Private ID"},
    "Qualtrics": {"ResponseId"},
    "jsPsych": {"trial_type", "trial_index"},
    "PsychLing-101": {"participant_id", "trial_order", "response"},
}
# What Qualtrics calls sessions of nobody: by text, and by code where numbers are exported.
_NOBODYS = (
    *("survey preview", "survey test", "survey preview spam", "offline survey preview"),
    *("synthetic", "1", "2", "9", "17", "256"),
)
# Where sentence 1 was shown, by what a column of sides holds. Columns that say whether the two
# were turned round hold truth values.
_SIDES = {"left": True, "l": True, "right": False, "r": False, "1": True, "2": False}
_TURNED = ("swapped", "flipped")
# What programs write for true and false, in lower case.
_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_ASK_SIDE = (
    "say which column tells where sentence 1 was: --side COLUMN (left or right), or, if it was "
    "always on the left, --low left --high right"
)


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
    number on a scale. What was taken for what is said in the notes; other columns are kept.

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
        For Qualtrics, a table of the questions: ``question, sentence_1, sentence_2`` and whatever
        else is known of them, such as ``condition``, or ``expected`` (1 or 2) of catch trials.
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
    excluded = stack_exclusions()
    if program == "Qualtrics":
        data, excluded = _rows_of_questions(data, trials)
        # The table of questions is the researcher's own, its column of this name ours.
        columns = {name: name for name in ("expected",) if name in data} | columns
    data = data.reset_index(drop=True)
    taken = _taken(data, columns)
    data, shared = _sessions_apart(data, taken.get("participant", ""))
    others = [c for c in data if c not in taken.values() and c not in _RESERVED]
    data = data[[*taken.values(), *others]].set_axis([*taken, *others], axis=1)
    if low is not None or high is not None:  # the answers are codes, whatever their column is named
        data = data.rename(columns={} if "response" in data else {"rating": "response"})
        data = data.drop(columns="rating", errors="ignore")
    both = _sentences(data, kind)
    answer = "rating" if "rating" in data else "response"
    if answer not in data:
        raise InputError(
            f"the {kind} has no column of answers; name it with --column response=THEIRS"
        )
    shown = both.notna().all(axis=1) & data[answer].notna()
    if not shown.any():
        raise InputError(f"no row of the {kind} holds two sentences and an answer")
    data, both = data[shown].copy(), both[shown]
    left = _left_is_first(data, taken)
    sources = ", ".join(f"{ours} from {theirs!r}" for ours, theirs in taken.items())
    notes = [f"Read as a {kind}: {sources}.", *shared]
    for rule, n in excluded["rule"].value_counts().items():
        notes.append(f"Sessions left out: {n} ({rule}); excluded.csv names them.")
    if answer == "response":
        buttons = _buttons(data, program, n_choices) if low is None and high is None else None
        data["rating"], how = _ratings(data, both, left, low, high, buttons)
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
    data = data.drop(columns=[c for c in ("left", "right", "side", "response") if c in data])
    if left is not None:
        data["side_1"] = left.map({True: "left", False: "right"})
    data["sentence_1"], data["sentence_2"] = both["sentence_1"], both["sentence_2"]
    guess = None if "item" in data else guessed_items(data)
    if guess is not None:
        data["item"], note = guess
        notes.append(note)
    kept_first = Cleaning(repeated_trial="keep_first")
    # Whoever says the ends of a scale may have a slider.
    scale = None if low is None or high is None else "slider"
    return RawChoices(
        data, kept_first, scale, notes=notes, excluded=excluded, items_guessed=guess is not None
    )


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


def _rows_of_questions(
    raw: pd.DataFrame, trials: str | Path | pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an export of Qualtrics, a row per person, as a row per person and question.

    What is left out comes with it: previews, tests and sessions that were not finished.
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
    sessions = raw[_first_answer(raw) :]
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
    parts = [
        people[["ResponseId"]].assign(
            response=people[question["question"]],
            trial=question["question"],
            **{str(k): v for k, v in question.items() if k not in ("question", "response")},
        )
        for question in table.to_dict("records")
    ]
    return pd.concat(parts, ignore_index=True), excluded


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
    unfinished = finished.map(_TRUTH).eq(False) | (pd.to_numeric(progress, errors="coerce") < 100)
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


def theirs_for(ours: str, present: Sequence[str]) -> str:
    """Return which of the columns of a file may be one of ours, or nothing."""
    names = {**_NAMES, "rating": (*_NAMES["rating"], *_NAMES["response"])}[ours]
    plain = {_plain(column): column for column in reversed(present)}
    return next((plain[name] for name in names if name in plain), "")


def _plain(name: object) -> str:
    """Return a name of a column in small letters, without spaces and marks."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _taken(data: pd.DataFrame, given: dict[str, str]) -> dict[str, str]:
    """Return, by our names, the columns that are used."""
    for ours in given:
        require_known("column", ours, _NAMES)
    require_columns(data, given.values(), "the file")
    plain = {_plain(column): str(column) for column in reversed(data.columns)}
    taken = {}
    for ours, names in _NAMES.items():
        present = [plain[name] for name in names if name in plain]
        if ours in given:
            taken[ours] = given[ours]
        elif ours == "side" and len(present) > 1:
            raise InputError(
                f"the file has both {present[0]!r} and {present[1]!r}; say which tells where "
                "sentence 1 was: --side COLUMN"
            )
        elif present:
            taken[ours] = present[0]
    if "participant" not in taken:
        raise InputError(
            "no column of the file tells the participants; name it with --column participant=THEIRS"
        )
    return taken


def _sentences(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return sentences 1 and 2 of each row, from these columns or from left and right."""
    if {"sentence_1", "sentence_2"} <= set(data.columns):
        return data[["sentence_1", "sentence_2"]]
    if not {"left", "right"} <= set(data.columns):
        raise InputError(
            f"the {kind} has no two columns of sentences; name them with "
            "--column sentence_1=THEIRS --column sentence_2=THEIRS, or left and right"
        )
    left, right = data["left"], data["right"]
    turned = _where(data["side"], "side").eq(False) if "side" in data else left.isna() & False
    return pd.DataFrame(
        {"sentence_1": left.where(~turned, right), "sentence_2": right.where(~turned, left)}
    )


def _left_is_first(data: pd.DataFrame, taken: dict[str, str]) -> pd.Series | None:
    """Return in which rows sentence 1 was on the left; None if that is not known."""
    if "side" in data:
        first = _where(data["side"], taken["side"])
        if first.isna().any():
            bad = first.isna()
            what = "true or false" if _is_turned(taken["side"]) else "left or right, or 1 or 2"
            raise InputError(
                f"{taken['side']} {data.loc[bad, 'side'].iloc[0]!r} is not a side "
                f"({name_rows(bad)}); it must be {what}"
            )
        return first.astype(bool)
    if "left" in data and "sentence_1" not in data:
        return pd.Series(True, index=data.index)
    return None


def _where(sides: pd.Series, name: str) -> pd.Series:
    """Return True where sentence 1 is on the left, False where on the right, else missing."""
    text = sides.astype("str").str.strip().str.lower().str.removesuffix(".0")
    if _is_turned(name):
        return text.map({k: not v for k, v in _TRUTH.items()}).where(sides.notna(), True)
    return text.map(_SIDES)


def _is_turned(name: str) -> bool:
    """Return whether a column says in which rows the two sentences were exchanged."""
    return _plain(name) in _TURNED


def _buttons(data: pd.DataFrame, program: str | None, n_choices: int | None) -> pd.Series | None:
    """Return how many buttons there were in each row; None if the answers are no numbers of them.

    They are counted from 0, as jsPsych does.
    """
    counted = n_choices is not None or "n_choices" in data or program == "jsPsych"
    if not counted or pd.to_numeric(data["response"], errors="coerce").isna().any():
        return None
    given = pd.Series(n_choices, index=data.index, dtype=object)
    if "n_choices" in data:
        given = data["n_choices"].astype(object).where(data["n_choices"].notna(), given)
    refuse_rows(
        given.isna(),
        "the data do not say how many buttons there were ({rows}); add a column 'n_choices' or "
        "give the number: n_choices=2, on the command line --buttons 2",
    )
    buttons = pd.to_numeric(given, errors="coerce").astype(float)
    odd = ~((buttons >= 2) & (buttons % 1 == 0))  # the remainder of infinity is missing
    refuse_rows(odd, "n_choices {value!r} is not a number of buttons, at least 2 ({rows})", given)
    return buttons


def _by_button(answers: pd.Series, buttons: pd.Series) -> pd.Series:
    codes = pd.to_numeric(answers)
    ratings = pd.Series(0.0, index=answers.index)
    for n in buttons.unique():
        rows = buttons == n
        off = f"response {{value:g}} is not one of {n:g} buttons ({{rows}})"
        refuse_rows(rows & ~codes.between(0, n - 1), off, codes)
        ratings[rows] = rescale(codes[rows], 0, n - 1)
    return ratings


def _ratings(
    data: pd.DataFrame,
    both: pd.DataFrame,
    left: pd.Series | None,
    low: str | float | None,
    high: str | float | None,
    buttons: pd.Series | None,
) -> tuple[pd.Series, str]:
    """Return the ratings that the answers mean, and a sentence on how they were read."""
    answers = data["response"]
    text = answers.astype("str").str.strip()
    lower = text.str.lower()
    chosen = [text == both[name].astype("str").str.strip() for name in ("sentence_1", "sentence_2")]
    if (chosen[0] | chosen[1]).all():
        return chosen[1].map({True: 2.5, False: -2.5}), "An answer is the sentence chosen."
    if low is None and lower.isin(("left", "right")).all():
        if left is None:
            raise InputError(f"the answers are left and right; {_ASK_SIDE}")
        low, high = "left", "right"
    if low is None and buttons is not None:
        low, ratings, how = 0, _by_button(answers, buttons), "The answers are numbers of buttons"
    elif low is None or high is None:
        kinds = list(dict.fromkeys(text))
        shown = ", ".join(map(repr, kinds[:4])) + (" ..." if len(kinds) > 4 else "")
        raise InputError(
            f"the answers are {shown}; say which of them mean sure of sentence 1 and of sentence 2 "
            "(or of the left and the right one): --low CODE --high CODE"
        )
    else:
        ratings, how = _by_code(answers, lower, low, high)
    if left is None:
        return ratings, f"{how}; {low} is sure of sentence 1."
    return ratings.where(left, -ratings), f"{how}; {low} is sure of the left sentence."


def _by_code(
    answers: pd.Series, lower: pd.Series, low: str | float, high: str | float
) -> tuple[pd.Series, str]:
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = (math.nan, math.nan)
    if not all(map(math.isfinite, ends)):
        codes = {str(low).strip().lower(): -2.5, str(high).strip().lower(): 2.5}
        ratings = lower.map(codes)
        if len(codes) < 2:
            raise InputError(f"--low and --high are both {low!r}; give two answers")
        if ratings.isna().any():
            bad = ratings.isna()
            raise InputError(
                f"the answer {answers[bad].tolist()[0]!r} is neither {low!r} nor {high!r} "
                f"({name_rows(bad)}); leave such rows out, or name other codes"
            )
        return ratings, f"The answers are {low!r} and {high!r}"
    return rescale(answers, *ends), f"The answers are numbers from {ends[0]:g} to {ends[1]:g}"
