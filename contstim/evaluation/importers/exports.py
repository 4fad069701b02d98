"""Exports of jsPsych, PCIbex, Gorilla and Qualtrics, and other tables with named columns.

A program is recognised by the columns of its exports, and their columns by name. In other tables,
only columns with standard names are used; the caller names all others, the ends of the scale and
the sides. If something is missing, the error contains the complete call to copy and correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from contstim.errors import InputError, require_known, suggest_names
from contstim.evaluation.choices import CleaningRules, RawChoices
from contstim.evaluation.importers.answers import (
    convert_answers,
    count_buttons,
    guess_scale_ends,
    has_codes,
)
from contstim.evaluation.importers.column_names import NAMES, RESERVED, TRUTH, normalise_name
from contstim.evaluation.importers.jspsych import read_trial_files
from contstim.evaluation.importers.pcibex import is_pcibex, parse_pcibex, separate_sessions
from contstim.evaluation.importers.qualtrics import reshape_questions
from contstim.evaluation.importers.read_call import ReadCall
from contstim.evaluation.rows import concat_exclusions, refuse_rows
from contstim.tables import read_table, require_columns
from contstim.text_files import read_lines

# Columns that only the exports of a program have.
_PROGRAM_COLUMNS = {
    "PCIbex": {"PennElementName", "Value"},
    "Gorilla": {"Participant Private ID"},
    "Qualtrics": {"ResponseId"},
    "jsPsych": {"trial_type", "trial_index"},
}
# Events in Gorilla exports that are not answers.
_GORILLA_EVENTS = ("auto advance", "begin task", "end task", "end of file")
# Whether sentence 1 was on the left, by the cells of a column of sides.
_IS_LEFT = {**dict.fromkeys(("left", "l", "1"), True), **dict.fromkeys(("right", "r", "2"), False)}
# Names of columns that contain true if sentence 1 was on the right.
_SWAP_COLUMNS = ("swapped", "flipped")


def read_export_table(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Read an exported table and recognise the program that wrote it.

    Parameters
    ----------
    source
        Path of a file or folder, or a table that has already been read.

    Returns
    -------
    table : DataFrame
        Rows and columns of the export.
    program : str or None
        ``jsPsych``, ``PCIbex``, ``Gorilla`` or ``Qualtrics``; None if no program is recognised.
    """
    if isinstance(source, pd.DataFrame):
        table = source
    else:
        # Read the lines of a text file. "-" is standard input; Excel and Parquet files are not
        # text.
        path = Path(source)
        is_text = str(source) != "-" and path.is_file() and path.suffix not in (".xlsx", ".parquet")
        lines = [line for _, line in read_lines(source)] if is_text else []
        if is_pcibex(lines):
            return parse_pcibex(lines, str(source)), "PCIbex"
        # Only jsPsych writes JSON, text files, or a folder with one file per participant.
        is_json = bool(lines) and lines[0].lstrip()[:1] in ("[", "{")
        if path.is_dir() or is_json or path.suffix in (".json", ".jsonl", ".txt"):
            table = read_trial_files(path)
        else:
            table = read_table(source, cells="inferred")
    # Recognise the program by columns that only its exports have.
    column_names = {str(column) for column in table.columns}
    for program, required_columns in _PROGRAM_COLUMNS.items():
        if required_columns <= column_names:
            return table, program
    return table, None


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
    """Read human choices from the export of an experiment program, or from another table.

    Each row with two sentences and an answer is one choice. The sentences are in the columns
    `sentence_1` and `sentence_2`. Alternatively, the column `left` contains the sentence that was
    shown on the left, and `right` the sentence on the right. The answer is the chosen sentence, its
    side, a response code, or a number on a scale. Other columns are kept. The notes of the result
    state which columns and which scale were used.

    Parameters
    ----------
    source
        Path of a file, or a table.
    low, high
        Answers at the two ends of the scale. If the table states on which side sentence 1 was
        shown, `low` is the strongest preference for the left sentence, and `high` for the right
        sentence. Otherwise, `low` is the strongest preference for sentence 1, and `high` for
        sentence 2.
    side
        Name of the column with the side of sentence 1, with cells ``left`` and ``right``, or 1 and
        2 (number of the sentence on the left). Default: the column ``side``, or in exports also a
        column such as ``swapped``, if there is one. ``none`` ignores these columns.
    n_choices
        Number of response buttons, if jsPsych recorded button numbers and the table has no column
        `n_choices`.
    trials
        Table of the questions of a Qualtrics export, see `reshape_questions`.
    columns
        Mapping from standard column names to the names in the table.
    program
        Program that wrote the table, if its columns do not show it.

    Raises
    ------
    InputError
        If a column is missing or the meaning of an answer is unknown. The message contains the call
        that reads the table.
    """
    columns = dict(columns or {})
    if side not in (None, "none"):
        columns = {"side": str(side)} | columns
    data, recognised_program = read_export_table(source)
    program = program or recognised_program
    description = f"{program} export" if program else "table"
    side = columns.get("side", side)
    call = ReadCall(source, columns, low=low, high=high, side=side, n_choices=n_choices)
    if trials is not None and program != "Qualtrics":
        raise InputError(
            f"the table of trials has no effect: {source} is no Qualtrics export; leave it out"
        )
    excluded = concat_exclusions()
    decisions: list[str] = []
    if program == "Qualtrics":
        data, excluded, decisions = reshape_questions(data, trials)
    data = data.reset_index(drop=True)

    # Give columns their standard names. Other columns are kept unless their names would clash.
    names = _map_columns(data, columns, program, call)
    data, session_notes = separate_sessions(data, names["participant"])
    clashing_names = RESERVED if program else set(names)
    other_columns = [str(column) for column in data if column not in names.values()]
    other_columns = [column for column in other_columns if column not in clashing_names]
    data = data[[*names.values(), *other_columns]].set_axis([*names, *other_columns], axis=1)

    # A column called rating may contain response codes, which are converted to ratings below.
    has_ends = low is not None or high is not None
    if "rating" in data and (has_ends or has_codes(data["rating"])):
        if "response" not in data:
            data["response"] = data["rating"]
        data = data.drop(columns="rating")
    answer_column = "rating" if "rating" in data else "response"

    # Keep rows with two sentences and an answer.
    if program == "Gorilla":
        answers = data[answer_column].astype("str").str.strip().str.casefold()
        is_event = answers.isin(_GORILLA_EVENTS)
        if is_event.any():
            n_events = int(is_event.sum())
            decisions.append(f"{n_events} rows of Gorilla without an answer were left out.")
            data = data[~is_event]
    is_left = _parse_sides(data["side"], names["side"]) if "side" in names else None
    sentences = _select_sentences(data, is_left)
    is_trial = sentences.notna().all(axis=1) & data[answer_column].notna()
    if not is_trial.any():
        raise InputError(f"no row of the {description} contains two sentences and an answer")
    data, sentences = data[is_trial].copy(), sentences[is_trial]
    if is_left is not None:
        is_left = is_left[is_trial]
        is_swap_column = normalise_name(names["side"]) in _SWAP_COLUMNS
        valid = "true or false" if is_swap_column else "left or right, or 1 or 2"
        message = f"{names['side']} {{value!r}} is not a side ({{rows}}); it must be {valid}"
        refuse_rows(is_left.isna(), message, data["side"])
    elif side is None:
        _refuse_unused_sides(data[other_columns], call)
        if "left" in data and "sentence_1" not in data:
            is_left = pd.Series(True, index=data.index)

    sources = ", ".join(f"{standard} from {name!r}" for standard, name in names.items())
    notes = [f"Read as a {description}: {sources}.", *decisions, *session_notes]
    for rule, n in excluded["rule"].value_counts().items():
        notes.append(f"Sessions left out: {n} ({rule}); excluded.csv names them.")

    # Convert answers to ratings.
    n_buttons = None
    if answer_column == "response" and not has_ends:
        n_buttons = count_buttons(data, program, n_choices, call)
    if n_choices is not None and n_buttons is None:
        raise InputError(
            f"--buttons {n_choices} has no effect: the answers in {source} are no button numbers; "
            "leave it out"
        )
    if answer_column == "response":
        ends = low, high
        data["rating"], note = convert_answers(data, sentences, is_left, ends, n_buttons, call)
        notes.append(note)
    if n_skipped := int((~is_trial).sum()):
        notes.append(
            f"{n_skipped} {'row has' if n_skipped == 1 else 'rows have'} no two sentences and an "
            "answer, for example instructions, and were left out."
        )

    # Replace columns that describe the screen with columns that describe sentences 1 and 2.
    if "expected" in data and is_left is not None:
        expected_side = data["expected"].astype("str").str.strip().str.lower()
        is_side = expected_side.isin(("left", "right"))
        expected_number = (expected_side == "left").eq(is_left).map({True: 1, False: 2})
        data["expected"] = data["expected"].where(~is_side, expected_number)
    converted = ("left", "right", "side", "response", "scale_low", "scale_high")
    data = data.drop(columns=list(converted), errors="ignore")
    if is_left is not None:
        data["side_1"] = is_left.map({True: "left", False: "right"})
    data["sentence_1"], data["sentence_2"] = sentences["sentence_1"], sentences["sentence_2"]
    # In a table of an unknown program, a repeated pair may belong to another participant.
    cleaning = CleaningRules(repeated_trial="error" if program is None else "keep_first")
    # If the ends of the scale are named, every rating between them is valid, as on a slider.
    scale = "slider" if has_ends or "scale_low" in names else None
    return RawChoices(data, cleaning, scale, notes=notes, excluded=excluded)


def _select_sentences(data: pd.DataFrame, is_left: pd.Series | None) -> pd.DataFrame:
    """Return the two sentences of each row in the columns `sentence_1` and `sentence_2`.

    Parameters
    ----------
    data
        Rows of an export with the columns `sentence_1` and `sentence_2`, or with the columns `left`
        and `right` (sentences that were shown on the left and on the right).
    is_left
        Whether sentence 1 was on the left of the screen in each row; None if it always was.
    """
    if {"sentence_1", "sentence_2"} <= set(data.columns):
        return data[["sentence_1", "sentence_2"]]
    # Sentence 1 is the left one, unless a row states that it was on the right.
    left, right = data["left"], data["right"]
    is_right = pd.Series(False, index=data.index) if is_left is None else is_left.eq(False)
    # Exchange the two sentences in rows in which sentence 1 was on the right.
    first, second = left.where(~is_right, right), right.where(~is_right, left)
    return pd.DataFrame({"sentence_1": first, "sentence_2": second})


def _map_columns(
    data: pd.DataFrame, columns: Mapping[str, str], program: str | None, call: ReadCall
) -> dict[str, str]:
    """Find the columns of an export that correspond to the standard columns.

    Parameters
    ----------
    data
        Table as exported.
    columns
        Mapping from standard column names to names in the table, as given by the user. It has
        priority.
    program
        Program that wrote the table; None if unknown. If it is unknown, only columns with standard
        names are used. Other columns are only proposed in the error message.
    call
        Call that read the table. Error messages repeat it with the proposed columns.

    Returns
    -------
    dict of str
        Name of the column in the table, by standard name.

    Raises
    ------
    InputError
        If a required column is unknown. The message contains the call with proposed columns.
    """
    for standard in columns:
        require_known("column", standard, NAMES)
    require_columns(data, columns.values(), "the file")
    other_columns = [str(c) for c in reversed(data.columns) if str(c) not in columns.values()]
    columns_by_name = {normalise_name(column): column for column in other_columns}
    used, proposed = dict(columns), dict(columns)
    for standard, names in NAMES.items():
        candidates = [columns_by_name[name] for name in names if name in columns_by_name]
        is_disabled = standard == "side" and call.options.get("side") == "none"
        if standard in columns or is_disabled or not candidates:
            continue
        if program and standard == "side" and len(candidates) > 1:
            raise InputError(
                f"the file has both {candidates[0]!r} and {candidates[1]!r}; name the column that "
                f"says where sentence 1 was: {call.format_with(side=candidates[0])}"
            )
        if program:
            used[standard] = candidates[0]
        elif standard in data or standard == "trial":
            used[standard] = candidates[0] if standard == "trial" else standard
        proposed[standard] = candidates[0]

    # Required: participant, two sentences, and a rating or response.
    missing, hint = [] if "participant" in used else ["participant"], ""
    if not ({"sentence_1", "sentence_2"} <= set(used) or {"left", "right"} <= set(used)):
        # Propose columns with several words in most cells, which probably contain sentences.
        n_spaces = data.map(lambda cell: str(cell).count(" ")).median()
        free_columns = set(other_columns) - set(proposed.values())
        texts = [str(name) for name in n_spaces.index[n_spaces > 1] if str(name) in free_columns]
        all_names = normalise_name(" ".join([*proposed, *texts]))
        pair = ["left", "right"] if "left" in all_names else ["sentence_1", "sentence_2"]
        # A column with "right" in its name comes last, so that the sides are not exchanged.
        texts.sort(key=lambda name: "right" in normalise_name(name))
        proposed |= zip([name for name in pair if name not in proposed], texts, strict=False)
        missing += pair
        hint = "; write left and right if these are the sides of the screen, else sentence_1 and 2"
    if not ("rating" in used or "response" in used):
        missing.append("response" if "response" in proposed else "rating")
    if missing:
        mapping = {standard: proposed.get(standard, "THEIRS") for standard in missing}
        answers = proposed.get("rating") or proposed.get("response")
        needs_ends = answers is not None and "low" not in call.options
        ends = guess_scale_ends(data[answers]) if needs_ends else {}
        raise InputError(
            f"which columns contain {' and '.join(missing)}? Correct this proposal: "
            f"{call.format_with(mapping, **ends)}{hint}; "
            f"{suggest_names('', [str(c) for c in data.columns], 'it has')}"
        )
    return used


def _parse_sides(sides: pd.Series, name: str) -> pd.Series:
    """Convert a column that states the side of sentence 1 on the screen to Booleans.

    Parameters
    ----------
    sides
        Cells of the column, for example ``left`` and ``right``.
    name
        Name of the column. A column called ``swapped`` or ``flipped`` contains true if sentence 1
        was on the right.

    Returns
    -------
    Series
        True if sentence 1 was on the left, False if it was on the right, and missing if the cell is
        not recognised.
    """
    text = sides.astype("str").str.strip().str.lower().str.removesuffix(".0")  # "1.0" means 1
    if normalise_name(name) in _SWAP_COLUMNS:
        # The column states whether the sentences were swapped: true means that sentence 1 was on
        # the right. An empty cell means that they were not.
        is_left = {key: not is_swapped for key, is_swapped in TRUTH.items()}
        return text.map(is_left).where(sides.notna(), True)
    return text.map(_IS_LEFT)


def _refuse_unused_sides(unused: pd.DataFrame, call: ReadCall) -> None:
    """Raise InputError if an unused column of an export contains only left and right.

    The column may state the side of the screen on which sentence 1 was shown. Ignoring it would
    reverse half of the ratings, so the user has to decide.

    Parameters
    ----------
    unused
        Columns of the export that have not been assigned a meaning.
    call
        Call that read the export. The error message repeats it with the missing argument.
    """
    for column in unused:
        # A column that contains exactly "left" and "right" probably states the side of the screen
        # on which sentence 1 was shown.
        cells = unused[column].dropna().astype("str").str.strip().str.lower()
        if set(cells.unique()) == {"left", "right"}:
            # Give the user the call to repeat for each of the two meanings of the column.
            raise InputError(
                f"the column {column!r} contains left and right, and is not used; to read it as "
                f"the side of sentence 1: {call.format_with(side=column)}; to ignore it: "
                f"{call.format_with(side='none')}"
            )
