"""Exports of jsPsych, PCIbex, Gorilla and Qualtrics, and tables with named columns.

A program is recognised by its columns, and its columns by their names. For any other table nothing
is assumed: columns, ends of the scale and sides are what the caller names. What is lacking is asked
for with the complete call, to be copied and corrected.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from contstim.errors import InputError, near_matches, require_known
from contstim.evaluation.choices import CleaningRules, RawChoices
from contstim.evaluation.importers.jspsych import read_trial_files
from contstim.evaluation.importers.names import NAMES, RESERVED, TRUTH, plain
from contstim.evaluation.importers.qualtrics import reshape_questions
from contstim.evaluation.ratings import is_on_known_scale, rescale
from contstim.evaluation.rows import concat_exclusions, format_rows, refuse_rows
from contstim.tables import read_table, require_columns
from contstim.text_files import read_lines

# The columns that only a program's exports have.
_PROGRAMS = {
    "PCIbex": {"PennElementName", "Value"},
    "Gorilla": {"Participant Private ID"},
    "Qualtrics": {"ResponseId"},
    "jsPsych": {"trial_type", "trial_index"},
}
# Rows in exports of Gorilla that are nobody's answers.
_NO_ANSWER = ("auto advance", "begin task", "end task", "end of file")
# Where sentence 1 was, by the cells of a column of sides.
_SIDES = {**dict.fromkeys(("left", "l", "1"), True), **dict.fromkeys(("right", "r", "2"), False)}
_SWAPPED = ("swapped", "flipped")  # columns that hold truth values instead


def recognised(table: pd.DataFrame) -> str | None:
    """Return the program whose export a table is, by its columns; None if unknown."""
    columns = {str(column) for column in table.columns}
    return next((name for name, needed in _PROGRAMS.items() if needed <= columns), None)


def read_export_table(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Read a table or file and recognise the program that wrote it, None if unknown."""
    if isinstance(source, pd.DataFrame):
        return source, recognised(source)
    path = Path(source)
    lines = []
    if str(source) != "-" and path.is_file() and path.suffix not in (".xlsx", ".parquet"):
        lines = [line for _, line in read_lines(source)]
    if any(re.match(r"# \d+\. ", line) for line in lines[:50]):
        return _read_pcibex(lines, str(source)), "PCIbex"
    is_json = bool(lines) and lines[0].lstrip()[:1] in ("[", "{")
    if path.is_dir() or is_json or path.suffix in (".json", ".jsonl", ".txt"):
        table = read_trial_files(path)
    else:
        table = read_table(source, cells="inferred")
    return table, recognised(table)


def _read_pcibex(lines: list[str], name: str) -> pd.DataFrame:
    """Return the answers in a results file of PCIbex, whose comments name the columns.

    PCIbex writes no quotes: commas, line ends and per cent signs in texts are codes.
    """
    header: list[str] = []
    rows = []
    for number, line in enumerate(lines, start=1):
        named = re.match(r"# (\d+)\. (.*?)\.?$", line)
        if named:
            header = [*header[: int(named[1]) - 1], named[2]]
        elif line.strip() and not line.startswith("#"):
            cells = [
                re.sub("%(2C|0A|0D|25)", lambda code: chr(int(code[1], 16)), cell, flags=re.I)
                for cell in line.split(",")
            ]
            if len(cells) != len(header):
                raise InputError(
                    f"{name}, line {number} has {len(cells)} cells, its header {len(header)}; "
                    "PCIbex writes a comma within a text as %2C, so the line was changed: take the "
                    "file as PCIbex wrote it"
                )
            rows.append(dict(zip(header, cells, strict=True)))
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
    return answers.replace(["", "NULL"], pd.NA).reset_index(drop=True)


def _separate_sessions(data: pd.DataFrame, who: str) -> tuple[pd.DataFrame, list[str]]:
    """Return answers with a participant per session where one hash of PCIbex has several.

    The hash is that of an address, which a laboratory's participants share.
    """
    time, trial = "Results reception time", "Order number of item"
    if not who.startswith("MD5 hash") or not {time, trial} <= {*data.columns}:
        return data, []
    times = data.groupby([who, trial])[time].nunique()
    hashes = times[times > 1].index.get_level_values(who).unique()
    rows = data[who].isin(hashes)
    if not rows.any():
        return data, []
    session = data[who].astype("str") + " " + data[time].astype("str")
    note = (
        f"Participants who share an address (MD5 hash): {session[rows].nunique()} with "
        f"{len(hashes)}, told apart by {time!r}; if they are one person who took part again, "
        "exclude the later ones."
    )
    return data.assign(**{who: data[who].where(~rows, session)}), [note]


class _Call:
    """The call that reads a table, to show it completed: a command, or Python for a DataFrame."""

    def __init__(self, source: object, columns: Mapping[str, str], **options: object) -> None:
        self._source = source
        self._columns = {ours: name for ours, name in columns.items() if ours != "side"}
        self.options = {key: value for key, value in options.items() if value is not None}
        if "side" in columns:
            self.options["side"] = columns["side"]

    def complete(self, columns: Mapping[str, str] | None = None, **options: object) -> str:
        """Return the call with further columns and options."""
        columns = {**self._columns, **(columns or {})}
        options = {**self.options, **options}
        if isinstance(self._source, pd.DataFrame):
            given = {**({"columns": columns} if columns else {}), **options}
            return f"read_choices(table, {', '.join(f'{k}={v!r}' for k, v in given.items())})"
        words = ["contstim evaluate", shlex.quote(str(self._source))]
        if columns:
            pairs = ",".join(f"{ours}={theirs}" for ours, theirs in columns.items())
            words += ["--column", shlex.quote(pairs)]
        names = {"n_choices": "buttons"}
        for key, value in options.items():
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += [f"--{names.get(key, key)}", shlex.quote(text)]
        return " ".join(words)


def read_export(
    source: str | Path | pd.DataFrame,
    *,
    low: str | float | None = None,
    high: str | float | None = None,
    side: str | None = None,
    n_choices: int | None = None,
    trials: str | Path | pd.DataFrame | None = None,
    columns: Mapping[str, str] | None = None,
    program: str | None = None,
) -> RawChoices:
    """Read the export of a program, or a table whose columns are named.

    The sentences are in ``sentence_1`` and ``sentence_2``, or in ``left`` and ``right`` as shown.
    An answer is the sentence itself, its side, a code, or a number on a scale. The notes say what
    was used; other columns are kept.

    Parameters
    ----------
    source
        A path, or a table already read.
    low, high
        The answers that mean certain of sentence 1 and of sentence 2; where sides are known,
        certain of the left and of the right one.
    side
        The column that says where sentence 1 was: left or right, or 1 or 2 (which sentence was on
        the left). ``none``: no column does.
    n_choices
        Number of buttons that jsPsych numbers from 0, unless a column `n_choices` has it.
    trials
        For Qualtrics, a table of the questions: ``question, sentence_1, sentence_2``, perhaps
        ``low, high`` (the ends of its scale) and ``timer`` (the question that times its page), and
        further columns such as ``condition`` or ``expected``.
    columns
        Names of columns: that of the choices table, that of the file.
    program
        The program that wrote the file, if its columns do not tell.

    Raises
    ------
    InputError
        If a column is lacking, or the file does not say what an answer means; the message shows the
        call that reads it.
    """
    has_side = side not in (None, "none")
    columns = ({"side": str(side)} if has_side else {}) | dict(columns or {})
    data, recognised_as = read_export_table(source)
    program = program or recognised_as
    kind = f"{program} export" if program else "table"
    call = _Call(source, columns, low=low, high=high, n_choices=n_choices)
    excluded, decisions = concat_exclusions(), list[str]()
    if program == "Qualtrics":
        data, excluded, decisions = reshape_questions(data, trials)
    data = data.reset_index(drop=True)
    taken = _find_columns(data, columns, program, call)
    data, shared = _separate_sessions(data, taken["participant"])
    others = [str(c) for c in data if c not in taken.values()]
    others = [c for c in others if c not in (RESERVED if program else taken)]
    data = data[[*taken.values(), *others]].set_axis([*taken, *others], axis=1)
    coded = low is not None or high is not None
    if "rating" in data and (coded or has_codes(data["rating"])):
        data = data.rename(columns={} if "response" in data else {"rating": "response"})
        data = data.drop(columns="rating", errors="ignore")
    answer = "rating" if "rating" in data else "response"
    if program == "Gorilla":
        no_answer = data[answer].astype("str").str.strip().str.casefold().isin(_NO_ANSWER)
        if n := int(no_answer.sum()):
            decisions.append(f"{n} rows of Gorilla without an answer were left out.")
            data = data[~no_answer]
    name = taken.get("side", "")
    is_left = _sentence_1_on_left(data["side"], name) if name else None
    both = _sentences(data, is_left)
    shown = both.notna().all(axis=1) & data[answer].notna()
    if not shown.any():
        raise InputError(f"no row of the {kind} holds two sentences and an answer")
    data, both = data[shown].copy(), both[shown]
    if is_left is not None:
        is_left = is_left[shown]
        bad = is_left.isna()
        what = "true or false" if plain(name) in _SWAPPED else "left or right, or 1 or 2"
        message = f"{name} {{value!r}} is not a side ({{rows}}); it must be {what}"
        refuse_rows(bad, message, data["side"])
    elif side is None:
        _refuse_unused_sides(data, others, call)
        if "left" in data and "sentence_1" not in data:
            is_left = pd.Series(True, index=data.index)
    sources = ", ".join(f"{ours} from {theirs!r}" for ours, theirs in taken.items())
    notes = [f"Read as a {kind}: {sources}.", *decisions, *shared]
    for rule, n in excluded["rule"].value_counts().items():
        notes.append(f"Sessions left out: {n} ({rule}); excluded.csv names them.")
    if answer == "response":
        numbers = None if coded else _buttons(data, program, n_choices, call)
        data["rating"], how = _ratings(data, both, is_left, (low, high), numbers, call)
        notes.append(how)
    if n_passed := len(shown) - int(shown.sum()):
        notes.append(
            f"{n_passed} {'row holds' if n_passed == 1 else 'rows hold'} no two sentences and an "
            "answer, as those of instructions do, and were left out."
        )
    if "expected" in data and is_left is not None:
        sides = data["expected"].astype("str").str.strip().str.lower()
        by_side = (sides == "left").eq(is_left).map({True: 1, False: 2})
        data["expected"] = data["expected"].where(~sides.isin(("left", "right")), by_side)
    used = ("left", "right", "side", "response", "scale_low", "scale_high")
    data = data.drop(columns=[c for c in used if c in data])
    if is_left is not None:
        data["side_1"] = is_left.map({True: "left", False: "right"})
    data["sentence_1"], data["sentence_2"] = both["sentence_1"], both["sentence_2"]
    # In a table of no known program a pair that comes again may be another participant's.
    cleaning = CleaningRules(repeated_trial="error" if program is None else "keep_first")
    # Whoever names the ends of a scale may have a slider.
    scale = "slider" if coded or "scale_low" in taken else None
    return RawChoices(data, cleaning, scale, notes=notes, excluded=excluded)


def _find_columns(
    data: pd.DataFrame, given: Mapping[str, str], program: str | None, call: _Call
) -> dict[str, str]:
    """Return the columns to use: ours, theirs. Ask for those that are lacking."""
    for ours in given:
        require_known("column", ours, NAMES)
    require_columns(data, given.values(), "the file")
    free = [str(c) for c in reversed(data.columns) if str(c) not in given.values()]
    by_plain, named = {plain(column): column for column in free}, dict(given)
    proposed = dict(given)
    for ours, names in NAMES.items():
        present = [by_plain[name] for name in names if name in by_plain]
        if ours in given or not present:
            continue
        if program and ours == "side" and len(present) > 1:
            raise InputError(
                f"the file has both {present[0]!r} and {present[1]!r}; name the column that says "
                f"where sentence 1 was: {call.complete(side=present[0])}"
            )
        if program or ours in data:
            named[ours] = ours if ours in data and not program else present[0]
        proposed[ours] = present[0]
    by_side = {"left", "right"} & {*proposed}
    sentences = ["left", "right"] if by_side else ["sentence_1", "sentence_2"]
    lacking = [] if "participant" in named else ["participant"]
    if not ({"sentence_1", "sentence_2"} <= {*named} or {"left", "right"} <= {*named}):
        lacking += sentences
    if not {"rating", "response"} & {*named}:
        lacking.append("response" if "response" in proposed else "rating")
    if lacking:
        mapping = {ours: proposed.get(ours, "THEIRS") for ours in lacking}
        options: dict[str, object] = {}
        answers = proposed.get("rating") or proposed.get("response")
        if answers is not None and "low" not in call.options:
            options = _propose_ends(data[answers])
        raise InputError(
            f"which columns hold {' and '.join(lacking)}? Correct what is wrong in: "
            f"{call.complete(mapping, **options)}; "
            f"{near_matches('', [str(c) for c in data.columns], 'it has')}"
        )
    return named


def _propose_ends(answers: pd.Series) -> dict[str, object]:
    """Return ends of the scale to propose: the lowest and highest number, or two codes."""
    numbers = pd.to_numeric(answers, errors="coerce").dropna()
    if len(numbers) and len(numbers) == answers.notna().sum():
        return {"low": float(numbers.min()), "high": float(numbers.max())}
    codes = sorted(set(answers.dropna().astype("str")))
    return {"low": codes[0], "high": codes[1]} if len(codes) == 2 else {}


def _sentence_1_on_left(sides: pd.Series, name: str) -> pd.Series:
    """Return True where sentence 1 is on the left, False where on the right, else missing."""
    text = sides.astype("str").str.strip().str.lower().str.removesuffix(".0")
    if plain(name) in _SWAPPED:
        return text.map({k: not v for k, v in TRUTH.items()}).where(sides.notna(), True)
    return text.map(_SIDES)


def _sentences(data: pd.DataFrame, is_left: pd.Series | None) -> pd.DataFrame:
    """Return sentences 1 and 2 of each row, from these columns or from left and right."""
    if {"sentence_1", "sentence_2"} <= set(data.columns):
        return data[["sentence_1", "sentence_2"]]
    left, right = data["left"], data["right"]
    turned = left.isna() & False if is_left is None else is_left.eq(False)
    return pd.DataFrame(
        {"sentence_1": left.where(~turned, right), "sentence_2": right.where(~turned, left)}
    )


def _refuse_unused_sides(data: pd.DataFrame, others: list[str], call: _Call) -> None:
    """Refuse a table with an unused column of left and right: it may be that of sides."""
    for column in others:
        cells = data[column].dropna().astype("str").str.strip().str.lower()
        if set(cells.unique()) == {"left", "right"}:
            raise InputError(
                f"the column {column!r} holds left and right, and is not used; if it says where "
                f"sentence 1 was: {call.complete(side=column)}; if not: "
                f"{call.complete(side='none')}"
            )


def _buttons(
    data: pd.DataFrame, program: str | None, n_choices: int | None, call: _Call
) -> pd.Series | None:
    """Return the number of buttons of each row; None if answers are no numbers of buttons."""
    counted = n_choices is not None or "n_choices" in data or program == "jsPsych"
    if not counted or pd.to_numeric(data["response"], errors="coerce").isna().any():
        return None
    given = pd.Series(n_choices, index=data.index, dtype=object)
    if "n_choices" in data:
        given = data["n_choices"].astype(object).where(data["n_choices"].notna(), given)
    refuse_rows(
        given.isna(),
        "the data do not say how many buttons there were ({rows}); add a column 'n_choices', or "
        f"give the number: {call.complete(n_choices=2)}",
    )
    numbers = pd.to_numeric(given, errors="coerce").astype(float)
    odd = ~((numbers >= 2) & (numbers % 1 == 0))  # the remainder of infinity is missing
    refuse_rows(odd, "n_choices {value!r} is not a number of buttons, at least 2 ({rows})", given)
    return numbers


def _ratings(
    data: pd.DataFrame,
    both: pd.DataFrame,
    is_left: pd.Series | None,
    ends: tuple[str | float | None, str | float | None],
    n_buttons: pd.Series | None,
    call: _Call,
) -> tuple[pd.Series, str]:
    """Return the ratings that answers mean, and a sentence on how they were read."""
    answers = data["response"]
    text = answers.astype("str").str.strip()
    lower = text.str.lower()
    chosen = [text == both[name].astype("str").str.strip() for name in both]
    if (chosen[0] | chosen[1]).all():
        return chosen[1].map({True: 2.5, False: -2.5}), "An answer is the sentence chosen."
    low, high = ends
    if low is None and high is None and n_buttons is None and lower.isin(["left", "right"]).all():
        if is_left is None:
            raise InputError(
                "the answers are left and right; name the column that says where sentence 1 was: "
                f"{call.complete(side='COLUMN')}; or, if it was always on the left: "
                f"{call.complete(low='left', high='right')}"
            )
        low, high = "left", "right"
    if low is not None and high is not None:
        ratings, how = _by_code(answers, lower, low, high)
    elif n_buttons is not None:
        low, how = 0, "The answers are numbers of buttons"
        codes, ratings = pd.to_numeric(answers), pd.Series(0.0, index=answers.index)
        for n in n_buttons.unique():
            rows = n_buttons == n
            off = f"response {{value:g}} is not one of {n:g} buttons ({{rows}})"
            refuse_rows(rows & ~codes.between(0, n - 1), off, codes)
            ratings[rows] = rescale(codes[rows], 0, n - 1)
    elif {"scale_low", "scale_high"} & {*data.columns} and low is high is None:
        require_columns(data, ("scale_low", "scale_high"), "the table with the ends of the scale")
        for name in ("scale_low", "scale_high"):
            refuse_rows(
                data[name].isna(), f"{name} is missing ({{rows}}); give both ends of each scale"
            )
        parts = [
            _by_code(
                of_scale["response"],
                lower[of_scale.index],
                of_scale["scale_low"].iloc[0],
                of_scale["scale_high"].iloc[0],
            )[0]
            for _, of_scale in data.groupby(["scale_low", "scale_high"])
        ]
        ratings, low = pd.concat(parts).loc[data.index], "low"
        how = "The ends of each scale, low and high, are given"
    else:
        codes_given = list(dict.fromkeys(text))
        shown = ", ".join(map(repr, codes_given[:4])) + (" ..." if len(codes_given) > 4 else "")
        proposed = {"low": "CODE", "high": "CODE"} | _propose_ends(answers)
        raise InputError(
            f"the answers are {shown}; which of them mean certain of sentence 1 and of sentence 2 "
            f"(or of the left and the right one)? Correct what is wrong in: "
            f"{call.complete(None, **proposed)}"
        )
    first = f"{low:g}" if isinstance(low, float) else low
    if is_left is None:
        return ratings, f"{how}; {first} is certain of sentence 1."
    return ratings.where(is_left, -ratings), f"{how}; {first} is certain of the left sentence."


def has_codes(ratings: pd.Series) -> bool:
    """Return whether a column of ratings holds codes, not ratings from -2.5 to 2.5."""
    given = ratings.dropna()
    numbers = pd.to_numeric(given, errors="coerce")
    return bool(
        numbers.isna().any() or ((numbers % 1 == 0).all() and not is_on_known_scale(numbers))
    )


def _by_code(
    answers: pd.Series, lower: pd.Series, low: str | float, high: str | float
) -> tuple[pd.Series, str]:
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = (math.nan, math.nan)
    if all(map(math.isfinite, ends)):
        how = f"The answers are numbers from {ends[0]:g} to {ends[1]:g}"
        return rescale(answers, *ends), how
    codes = {str(low).strip().lower(): -2.5, str(high).strip().lower(): 2.5}
    if len(codes) < 2:
        raise InputError(f"low and high are both {low!r}; give two answers")
    ratings = lower.map(codes)
    bad = ratings.isna()
    if bad.any():
        raise InputError(
            f"the answer {answers[bad].tolist()[0]!r} is neither {low!r} nor {high!r} "
            f"({format_rows(bad)}); leave such rows out, or name other codes"
        )
    return ratings, f"The answers are {low!r} and {high!r}"
