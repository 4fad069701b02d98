"""Trials as participants see them, read from the table of a design."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from contstim.errors import InputError
from contstim.experiment.options import AttentionCheck, TrialOptions
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.files import write_atomically
from contstim.text.normalise import normalise_sentence
from contstim.text_files import format_csv_rows, read_csv_rows, read_lines
from contstim.trial_kinds import CATCH, infer_kind

_REQUIRED_COLUMNS = ("participant", "group", "trial", "condition")
_PAIR_COLUMNS = ("sentence_1", "sentence_2", "side_1")
_SIDES = ("left", "right")
_MAX_LENGTH = 2000  # characters of a sentence or a condition
_MAX_TRIALS = 5000  # trials of one participant

#: Condition of trials that are selected while the study runs.
ADAPTIVE = "adaptive"
#: Condition of pairs that all participants see in an adaptive study.
ANCHOR = "anchor"
#: Columns that describe how an adaptive trial was selected: number of its block in the order of
#: issue, probability of the selection, number of pairs that were available, and number of pairs in
#: the pool without anchors.
SELECTION_COLUMNS = ("block", "propensity", "available", "pool")

_PAIRS = make_presentation(TrialOptions())

_Block = Mapping[str, Any] | sqlite3.Row


@dataclass(frozen=True)
class Trial:
    """One trial as one participant sees it.

    An adaptive study selects some trials while it runs. Until then, the trial is a *placeholder*
    without sentences.

    Attributes
    ----------
    id
        For example ``t12`` for stimulus 12 of the design, ``a1`` for the first attention check,
        ``p1`` for the first practice trial. Empty for a placeholder.
    number
        Position in the session, from 1. Practice trials are counted separately.
    kind
        ``choice`` for trials of the design (also if participants rate or read a sentence),
        ``attention`` for attention checks, or ``practice``.
    condition
        Condition in the design. Attention checks and practice trials have the value of `kind`.
    shown
        Texts that the page shows, by field, e.g. ``left`` and ``right`` for a pair of sentences.
        Empty for a placeholder.
    side_1
        Side on which sentence 1 of a pair is shown, ``left`` or ``right``.
    expected
        Expected answer, if any (see `Presentation.is_correct`). In a pair, the side of the expected
        sentence, which in a catch trial is sentence 1.
    row
        Row of the design's table.
    """

    id: str
    number: int
    kind: str
    condition: str
    shown: Mapping[str, str]
    side_1: str | None = None
    expected: str | None = None
    row: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def page_id(self) -> str:
        """Id of the trial on the page, which does not reveal catch trials and attention checks."""
        return self.id if self.kind == "practice" else f"n{self.number}"

    @property
    def is_placeholder(self) -> bool:
        """Whether the sentences of the trial are still to be selected."""
        return not self.shown


@dataclass(frozen=True)
class Design:
    """Design of an experiment: the lists of trials that its participants see.

    An *assignment* is the list of trials for one participant: a group, an order of trials, and
    sides. Participants receive assignments in the order of their arrival. The replacement of an
    excluded participant receives the same assignment.

    Attributes
    ----------
    groups
        Mapping from the number of an assignment to the number of its group, in order.
    trials
        Mapping from the number of an assignment to its trials, in the order of presentation. In an
        adaptive design, trials that are selected while the study runs are placeholders.
    columns
        Columns of the design's table.
    """

    groups: Mapping[int, int]
    trials: Mapping[int, tuple[Trial, ...]]
    columns: tuple[str, ...]

    @property
    def n_trials(self) -> int:
        """Maximum number of trials of an assignment, including attention checks."""
        return max(len(trials) for trials in self.trials.values())

    def count_placeholders(self, assignment: int) -> int:
        """Return the number of placeholders (trials still to be selected) of an assignment."""
        return sum(trial.is_placeholder for trial in self.trials[assignment])


def read_session_trials(
    connection: sqlite3.Connection, design: Design, session: str, assignment: int
) -> tuple[Trial, ...]:
    """Read the trials of a session in the order of presentation.

    In an adaptive study, some of them are stored in the database when they are selected.

    Parameters
    ----------
    connection
        Connection to the study's database.
    design
        Design of the study.
    session
        Id of the session.
    assignment
        Number of the session's assignment: the list of trials for one participant.

    Returns
    -------
    tuple of Trial
        Trials of the assignment, with placeholders for trials that are still to be selected.
    """
    trials = design.trials[assignment]
    if not design.count_placeholders(assignment):
        return trials  # the design is not adaptive
    # Blocks are groups of trials that were selected while the session ran.
    blocks = connection.execute(
        "SELECT * FROM blocks WHERE session = ? ORDER BY number", (session,)
    ).fetchall()
    return fill_placeholders(trials, blocks)


def fill_placeholders(trials: Sequence[Trial], blocks: Sequence[_Block]) -> tuple[Trial, ...]:
    """Replace placeholders in a participant's list of trials by the trials selected for them.

    A placeholder represents a trial that an adaptive study selects while the session runs.

    Parameters
    ----------
    trials
        Trials and placeholders of the participant, as laid out before the study.
    blocks
        Selected trials in the order of selection. A block is a row of the database with the trials
        that were selected at one time.

    Returns
    -------
    tuple of Trial
        Trials of the session. If fewer trials were selected than there are placeholders, the
        remaining placeholders stay. An empty last block means that no more trials will be selected;
        the remaining placeholders are then omitted.
    """
    selected = [(block, pair) for block in blocks for pair in json.loads(block["trials"])]
    n_anchors = sum(trial.condition == ANCHOR for trial in trials)
    is_finished = bool(blocks) and blocks[-1]["trials"] == "[]"
    filled: list[Trial] = []
    for trial in trials:
        if not trial.is_placeholder:
            filled.append(trial)
        elif selected:
            block, (pair, sentence_1, sentence_2, propensity, is_swapped) = selected.pop(0)
            selection = {
                "block": block["number"],
                "propensity": propensity,
                "available": block["available"],
                "pool": block["pairs"] - n_anchors,
            }
            filled.append(
                replace(
                    trial,
                    id=f"t{pair + 1}",
                    condition=ADAPTIVE,
                    shown={
                        "left": sentence_2 if is_swapped else sentence_1,
                        "right": sentence_1 if is_swapped else sentence_2,
                    },
                    side_1="right" if is_swapped else "left",
                    row={**trial.row, "item": str(pair + 1), **selection},
                )
            )
        elif not is_finished:
            filled.append(trial)
    return tuple(filled)


def list_issued(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials that a page may receive: all trials before the first placeholder."""
    return tuple(takewhile(lambda trial: not trial.is_placeholder, trials))


def read_design(
    path: Path, checks: Sequence[AttentionCheck] = (), presentation: Presentation = _PAIRS
) -> Design:
    """Read the table of a design, for example from ``contstim design trials``.

    Parameters
    ----------
    path
        CSV file with one row per participant and trial. Columns: ``participant``, ``group``,
        ``trial``, ``condition``, the texts to show (``sentence_1``, ``sentence_2`` and ``side_1``
        for pairs) and any others. Rows with the same number (see `get_number_column`) show the same
        stimulus; if there are no numbers, rows with the same content do. A row of the condition
        `ADAPTIVE` without sentences is a placeholder for a trial that is selected while the study
        runs.
    checks
        Attention checks to insert between the trials.
    presentation
        How trials are shown and answered; by default as pairs of sentences.

    Returns
    -------
    Design
        Assignments with their trials.

    Raises
    ------
    InputError
        If a column is missing or a row cannot be used. The message names the file and the number of
        the row, from 1 for the first row after the header.
    """
    rows, columns = read_rows(path)
    is_pair = presentation.is_pair
    fields = [name for name in presentation.required_fields if not (is_pair and name in _SIDES)]
    for column in (*_REQUIRED_COLUMNS, *(_PAIR_COLUMNS if is_pair else ()), *fields):
        if column not in columns:
            source = (
                "give the output of `contstim design trials`"
                if is_pair
                else f"the presentation {presentation.name!r} needs it; lay trials out with "
                "`contstim experiment new --stimuli`, or add it"
            )
            raise InputError(f"{path} has no column {column!r}; {source}")

    reader = _DesignReader(presentation)
    for number, row in enumerate(rows, start=1):
        try:
            reader.add_row(row)
        except InputError as error:
            raise InputError(f"{path}, row {number}: {error}") from None
    if not reader.trials:
        raise InputError(f"{path} has no rows; lay out trials with `contstim design trials`")
    for assignment, by_position in reader.trials.items():
        n = len(by_position)
        if sorted(by_position) != list(range(1, n + 1)) or n > _MAX_TRIALS:
            raise InputError(
                f"{path}: the {n} trials of participant {assignment} are not numbered 1 to "
                f"{min(n, _MAX_TRIALS)}"
            )

    # Insert attention checks from the last to the first, because inserting a check shifts the
    # positions after it but not those before it. Then number all trials from 1.
    trials: dict[int, tuple[Trial, ...]] = {}
    for assignment, by_position in sorted(reader.trials.items()):
        sequence = [by_position[position] for position in sorted(by_position)]
        for k, check in sorted(enumerate(checks, start=1), key=lambda pair: -pair[1].after):
            trial = Trial(
                f"a{k}", 0, "attention", "attention", check.content, expected=check.expected
            )
            sequence.insert(check.after, trial)
        trials[assignment] = tuple(
            trial if trial.number == number else replace(trial, number=number)
            for number, trial in enumerate(sequence, start=1)
        )
    return Design(dict(sorted(reader.groups.items())), trials, columns)


class _DesignReader:
    """Reader of the table of a design, row by row.

    It collects the lists of trials of all participants, and checks that the rows are consistent
    with each other.
    """

    def __init__(self, presentation: Presentation) -> None:
        self._presentation = presentation
        self.trials: dict[int, dict[int, Trial]] = {}  # by assignment and position
        self.groups: dict[int, int] = {}
        self._ids: set[tuple[int, str]] = set()
        self._number_by_content: dict[tuple[str, ...], str] = {}
        self._content_by_number: dict[str, tuple[str, ...]] = {}

    def add_row(self, row: Mapping[str, str]) -> None:
        """Check a row of the table, and store its trial in `trials` and its group in `groups`."""
        assignment = _parse_number(row, "participant")
        group = _parse_number(row, "group")
        position = _parse_number(row, "trial")
        number_column = get_number_column(row)
        is_pair = self._presentation.is_pair
        if is_pair and row["condition"] == ADAPTIVE and not row["sentence_1"] + row["sentence_2"]:
            trial = Trial("", position, "choice", ADAPTIVE, {}, row=row)
        else:
            fields, texts, expected = read_row(row, self._presentation)
            models = (row.get("model_1", ""), row.get("model_2", ""))
            content = (*texts, row["condition"], *models)
            if row.get(number_column):
                # Answers refer to the number, so it must identify the content.
                number = str(_parse_number(row, number_column))
                if self._content_by_number.setdefault(number, content) != content:
                    is_item = number_column == "item"
                    hint = "; number the sentences in a column 'stimulus'" if is_item else ""
                    raise InputError(
                        f"{number_column} {number} has other sentences, condition or models "
                        f"before{hint}"
                    )
            else:
                next_number = str(len(self._number_by_content) + 1)
                number = self._number_by_content.setdefault(content, next_number)
            trial = Trial(
                id=f"t{number}",
                number=position,
                kind="choice",
                condition=row["condition"],
                shown=fields,
                side_1=row["side_1"] if is_pair else None,
                expected=expected,
                row=row,
            )

        by_position = self.trials.setdefault(assignment, {})
        if self.groups.setdefault(assignment, group) != group:
            raise InputError(
                f"participant {assignment} is in groups {self.groups[assignment]} and {group}"
            )
        if position in by_position:
            raise InputError(f"participant {assignment} has trial {position} twice")
        if (assignment, trial.id) in self._ids:
            raise InputError(f"participant {assignment} has {number_column} {trial.id[1:]} twice")
        if not trial.is_placeholder:
            self._ids.add((assignment, trial.id))
        by_position[position] = trial


def read_row(
    row: Mapping[str, str], presentation: Presentation
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Read the content of a trial from a row of a design.

    Parameters
    ----------
    row
        Cells by column.
    presentation
        How the trial is shown and answered.

    Returns
    -------
    fields : dict
        Texts that the web page shows, by field.
    texts : tuple of str
        Texts that identify the stimulus, independent of the sides of a pair.
    expected : str or None
        Expected answer: for a pair, the side of the expected sentence, which in catch trials is
        sentence 1 by default.

    Raises
    ------
    InputError
        If a cell cannot be used. The message names the column.
    """
    _check_length("condition", row["condition"])
    fields: dict[str, str] = {}
    texts: tuple[str, ...] = ()
    if presentation.is_pair:
        texts = normalise_pair(row["sentence_1"], row["sentence_2"])
        side = row["side_1"]
        if side not in _SIDES:
            raise InputError(f"side_1 is {side!r}, not 'left' or 'right'")
        sentence_1, sentence_2 = texts
        left, right = (sentence_1, sentence_2) if side == "left" else (sentence_2, sentence_1)
        fields = {"left": left, "right": right}
    for name in (*presentation.required_fields, *presentation.optional_fields):
        text = normalise_sentence(row.get(name, ""))
        is_optional = name not in presentation.required_fields
        if name in fields or (is_optional and not text):
            continue
        _check_length(name, text)
        fields[name] = text
        texts = (*texts, text)
    presentation.check_fields(fields)

    expected = row.get("expected") or None
    if not presentation.is_pair:
        if expected is not None:
            presentation.check_expected(fields, expected)
        return fields, texts, expected
    if expected is None and infer_kind(row["condition"]) == CATCH:
        expected = "1"
    if expected not in (None, "1", "2"):
        raise InputError(f"expected is {expected!r}; give 1 or 2, the right sentence, or nothing")
    if expected == "2":
        return fields, texts, "right" if row["side_1"] == "left" else "left"
    return fields, texts, expected and row["side_1"]


def read_rows(path: Path) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Read a table of trials without interpreting it.

    Parameters
    ----------
    path
        CSV file with a header.

    Returns
    -------
    rows : list of dict
        Cells by column.
    columns : tuple of str
        Names of the columns, in order.

    Raises
    ------
    InputError
        If the file cannot be read, two columns have the same name, or a column has no name or the
        name ``row_id``, which Psych-DS reserves.
    """
    rows = read_csv_rows((line for _, line in read_lines(path)), str(path))
    _, header = next(rows, (0, []))  # an empty file has no header
    for number, name in enumerate(header, start=1):
        if header.count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}; keep one")
        if not name.strip():
            raise InputError(f"{path} has a column without a name, number {number}; name it")
        if name == "row_id":
            raise InputError(f"{path} has a column 'row_id', which Psych-DS reserves; rename it")
    return [dict(zip(header, cells, strict=True)) for _, cells in rows], tuple(header)


def normalise_pair(sentence_1: str, sentence_2: str) -> tuple[str, str]:
    """Return two sentences in canonical form, and check that participants can choose between them.

    Raises
    ------
    InputError
        If the sentences are the same, or one of them is empty or too long.
    """
    first, second = normalise_sentence(sentence_1), normalise_sentence(sentence_2)
    _check_length("sentence_1", first)
    _check_length("sentence_2", second)
    if first == second:
        raise InputError(f"both sentences are {first[:40]!r}")
    return first, second


def get_number_column(columns: Container[str]) -> str:
    """Return the name of the column that numbers the stimuli of a table of trials.

    The name is ``stimulus`` if there is such a column, because ``item`` then numbers items with
    several versions. Otherwise it is ``item``.
    """
    return "stimulus" if "stimulus" in columns else "item"


def write_trials(path: Path, rows: Iterable[Mapping[str, str]], columns: Sequence[str]) -> None:
    """Write a table of trials as a CSV file; cells that a row lacks are empty.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    cells = ([row.get(name, "") for name in columns] for row in rows)
    write_atomically(path, format_csv_rows(columns, cells))


def _parse_number(row: Mapping[str, str], name: str) -> int:
    text = row[name]
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    if not 1 <= number <= 10**9:
        raise InputError(f"{name} is {text!r}; number them 1, 2, 3 ...")
    return number


def _check_length(name: str, text: str) -> None:
    if not text.strip() or len(text) > _MAX_LENGTH:
        raise InputError(f"{name} is {text[:40]!r}; give 1 to {_MAX_LENGTH} characters")
