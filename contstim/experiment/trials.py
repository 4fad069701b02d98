"""The design's trials as participants see them: one list an assignment, all resolved."""

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

_LAYOUT = ("participant", "group", "trial", "condition")
_PAIR = ("sentence_1", "sentence_2", "side_1")
_SIDES = ("left", "right")
_MODELS = ("model_1", "model_2")
_LONGEST = 2000  # characters of a sentence or a name
_MOST = 5000  # trials of one participant
_SOURCE = {  # of the table, by whether it is of pairs
    True: "give what `contstim design trials` writes",
    False: "lay trials out with `contstim experiment new --stimuli`, or add it",
}

#: The condition of trials that are chosen while the study runs.
ADAPTIVE = "adaptive"
#: The condition of pairs of its pool that everybody is asked, and that are never chosen.
ANCHOR = "anchor"
#: What each chosen trial's row says of its choice: number of its block (the order of issue), how
#: probable it was, the pairs that could be chosen then, and at first: the pool without anchors.
SELECTION_COLUMNS = ("block", "propensity", "available", "pool")
_CHOICE = make_presentation(TrialOptions())

_Block = Mapping[str, Any] | sqlite3.Row


@dataclass(frozen=True)
class Trial:
    """One trial as one participant sees it.

    Attributes
    ----------
    id
        Its id: ``t`` and the number of what is shown, the same for all of a group who see the same
        sentences; ``a1`` ... for attention checks, ``p1`` ... for practice.
    number
        Its place in the session, from 1; practice is counted apart.
    kind
        ``choice`` (of the design, whatever its presentation), ``attention`` or ``practice``.
    condition
        As in the design; for the others the kind.
    shown
        What the page shows of it, by the names of the presentation.
    side_1
        Where sentence 1 of a pair stands, ``left`` or ``right``.
    expected
        What is right, if anything is (see `Presentation.is_correct`): of an attention check; in a
        catch trial the side of sentence 1; else as the design's column ``expected`` says, of a
        pair the side of the sentence that it numbers.
    row
        The design's row, for the tables that are made in the end.
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
        """By what the page knows it: nothing that tells a catch trial or a check from others."""
        return self.id if self.kind == "practice" else f"n{self.number}"

    @property
    def is_blank(self) -> bool:
        """Whether it is still to be chosen."""
        return not self.shown


@dataclass(frozen=True)
class Design:
    """All assignments of an experiment.

    An assignment is one participant of the design's table: a group, an order and sides. People
    take assignments as they come; whoever replaces an excluded participant takes the same one.

    Attributes
    ----------
    groups
        The group of each assignment, by the assignment's number, in order.
    trials
        The trials of each assignment, in the order of presentation; in an adaptive design those
        that are chosen while the study runs are blank.
    columns
        The columns of the design's table, for exports.
    """

    groups: Mapping[int, int]
    trials: Mapping[int, tuple[Trial, ...]]
    columns: tuple[str, ...]

    @property
    def n_trials(self) -> int:
        """The most trials of any assignment, attention checks counted."""
        return max(len(own) for own in self.trials.values())

    def count_blank(self, assignment: int) -> int:
        """Return how many trials of an assignment are still to be chosen."""
        return sum(trial.is_blank for trial in self.trials[assignment])

    def list_assignments(self, group: int) -> list[int]:
        """Return the assignments of a group, in order; empty if there is no such group."""
        return [assignment for assignment, own in self.groups.items() if own == group]


def session_trials(
    connection: sqlite3.Connection, design: Design, session: str, assignment: int
) -> tuple[Trial, ...]:
    """Return the trials of a session, in order; those that are still to be chosen are blank."""
    trials = design.trials[assignment]
    if not design.count_blank(assignment):
        return trials
    blocks = connection.execute(
        "SELECT * FROM blocks WHERE session = ? ORDER BY number", (session,)
    ).fetchall()
    return fill_blanks(trials, blocks)


def fill_blanks(trials: Sequence[Trial], blocks: Sequence[_Block]) -> tuple[Trial, ...]:
    """Return an assignment's trials with those that blocks of one session brought.

    A fixed design has one block, its own; in an adaptive one blocks are chosen while the study
    runs, and stand in the data file with all that the choice was made by. Blank trials that are
    left stay, or go if a block says that there are no more.
    """
    chosen = [(block, one) for block in blocks for one in json.loads(block["trials"])]
    anchors = sum(trial.condition == ANCHOR for trial in trials)
    ended = bool(blocks) and blocks[-1]["trials"] == "[]"
    whole: list[Trial] = []
    for trial in trials:
        if trial.is_blank and chosen:
            whole.append(_chosen(trial, *chosen.pop(0), anchors))
        elif not trial.is_blank or not ended:
            whole.append(trial)
    return tuple(whole)


def list_issued(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials that a page may have: those before the first that is still blank."""
    return tuple(takewhile(lambda trial: not trial.is_blank, trials))


def _chosen(blank: Trial, block: _Block, choice: Sequence[Any], anchors: int) -> Trial:
    pair, *sentences, propensity, swapped = choice
    left, right = reversed(sentences) if swapped else sentences
    made = (block["number"], propensity, block["available"], block["pairs"] - anchors)
    row = {**blank.row, "item": str(pair + 1), **dict(zip(SELECTION_COLUMNS, made, strict=True))}
    return replace(
        blank,
        id=f"t{pair + 1}",
        condition=ADAPTIVE,
        shown={"left": left, "right": right},
        side_1="right" if swapped else "left",
        row=row,
    )


def read_design(
    path: Path, checks: Sequence[AttentionCheck] = (), presentation: Presentation = _CHOICE
) -> Design:
    """Read the table that ``contstim design trials`` wrote.

    Parameters
    ----------
    path
        A CSV file with a row per participant and trial: ``participant, group, trial, condition``,
        what is shown (of pairs ``sentence_1, sentence_2, side_1``), mostly ``model_1, model_2``,
        and others; `get_number_column` says which rows show the same, failing which equal rows do.
        A row of the condition `ADAPTIVE` without sentences is a place for a trial chosen later.
    checks
        Attention checks to put between.
    presentation
        How trials are shown.

    Raises
    ------
    InputError
        Naming the file and, of a fault in a row, its number (1: the first after the header).
    """
    rows, columns = read_rows(path)
    pair = presentation.is_pair
    needed = [name for name in presentation.required_fields if not (pair and name in _SIDES)]
    for column in (*_LAYOUT, *(_PAIR if pair else ()), *needed):
        if column not in columns:
            raise InputError(f"{path} has no column {column!r}; {_SOURCE[pair]}")
    assignments = _Assignments(presentation)
    for number, row in enumerate(rows, start=1):
        try:
            assignments.add(row)
        except InputError as error:
            raise InputError(f"{path}, row {number}: {error}") from None
    if not assignments.trials:
        raise InputError(f"{path} has no rows; lay out trials with `contstim design trials`")
    for assignment, places in assignments.trials.items():
        if sorted(places) != list(range(1, len(places) + 1)) or len(places) > _MOST:
            raise InputError(
                f"{path}: the {len(places)} trials of participant {assignment} are not numbered "
                f"1 to {min(len(places), _MOST)}"
            )
    trials = {a: _with_checks(places, checks) for a, places in sorted(assignments.trials.items())}
    return Design(dict(sorted(assignments.groups.items())), trials, columns)


class _Assignments:
    """The assignments of a table, filled row by row."""

    def __init__(self, presentation: Presentation) -> None:
        self._presentation = presentation
        self.trials: dict[int, dict[int, Trial]] = {}  # by assignment and place
        self.groups: dict[int, int] = {}
        self._seen: set[tuple[int, str]] = set()
        self._items: dict[tuple[str, ...], str] = {}
        self._contents: dict[str, tuple[str, ...]] = {}

    def add(self, row: Mapping[str, str]) -> None:
        assignment, group, place = (_whole(row, name) for name in ("participant", "group", "trial"))
        pair = self._presentation.is_pair
        if pair and row["condition"] == ADAPTIVE and not row["sentence_1"] + row["sentence_2"]:
            trial = Trial("", place, "choice", ADAPTIVE, {}, row=row)
        else:
            shown, identity, expected = read_row(row, self._presentation)
            content = (*identity, row["condition"], *(row.get(name, "") for name in _MODELS))
            trial = Trial(
                id=f"t{self._item(row, content)}",
                number=place,
                kind="choice",
                condition=row["condition"],
                shown=shown,
                side_1=row["side_1"] if pair else None,
                expected=expected,
                row=row,
            )
        places = self.trials.setdefault(assignment, {})
        if self.groups.setdefault(assignment, group) != group:
            raise InputError(
                f"participant {assignment} is in groups {self.groups[assignment]} and {group}"
            )
        if place in places:
            raise InputError(f"participant {assignment} has trial {place} twice")
        if (assignment, trial.id) in self._seen:
            raise InputError(
                f"participant {assignment} has {get_number_column(row)} {trial.id[1:]} twice"
            )
        if not trial.is_blank:
            self._seen.add((assignment, trial.id))
        places[place] = trial

    def _item(self, row: Mapping[str, str], content: tuple[str, ...]) -> str:
        name = get_number_column(row)
        if not row.get(name):
            return self._items.setdefault(content, str(len(self._items) + 1))
        number = str(_whole(row, name))
        # The same number must be the same sentences, or answers could not be told apart.
        if self._contents.setdefault(number, content) != content:
            hint = "" if name == "stimulus" else "; number what is shown in a column 'stimulus'"
            raise InputError(
                f"{name} {number} has other sentences, condition or models before{hint}"
            )
        return number


def read_row(
    row: Mapping[str, str], presentation: Presentation
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Return what a row of a design shows, what makes it that trial, and what is expected, if any.

    Raises
    ------
    InputError
        Naming the cell.
    """
    _check_text("condition", row["condition"])
    shown, identity = _pair(row) if presentation.is_pair else ({}, ())
    for name in (*presentation.required_fields, *presentation.optional_fields):
        text = normalise_sentence(row.get(name, ""))
        if name in shown or not (text or name in presentation.required_fields):
            continue
        _check_text(name, text)
        shown, identity = {**shown, name: text}, (*identity, text)
    if presentation.is_pair:
        return shown, identity, _side_expected(row)
    if row.get("expected"):
        presentation.check_expected(shown, row["expected"])
    return shown, identity, row.get("expected") or None


def read_rows(path: Path) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Read the rows of a table of trials and the names of its columns, in order.

    Raises
    ------
    InputError
        If the file cannot be read, or has two columns of one name, one without a name, or one
        that Psych-DS reserves.
    """
    rows = read_csv_rows((line for _, line in read_lines(path)), str(path))
    _, header = next(rows, (0, []))
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path} has two columns {twice!r}; keep one")
    for number, name in enumerate(header, start=1):
        if not name.strip():
            raise InputError(f"{path} has a column without a name, number {number}; name it")
        if name == "row_id":
            raise InputError(f"{path} has a column 'row_id', which Psych-DS reserves; rename it")
    return [dict(zip(header, cells, strict=True)) for _, cells in rows], tuple(header)


def normalise_pair(sentence_1: str, sentence_2: str) -> tuple[str, str]:
    """Return two sentences, single-spaced, as people can choose between them.

    Raises
    ------
    InputError
        If they are one sentence, or one of them is empty or too long.
    """
    first, second = normalise_sentence(sentence_1), normalise_sentence(sentence_2)
    _check_text("sentence_1", first)
    _check_text("sentence_2", second)
    if first == second:
        raise InputError(f"both sentences are {first[:40]!r}")
    return first, second


def get_number_column(columns: Container[str]) -> str:
    """Return the column of a table of trials that numbers what is shown.

    It is ``stimulus`` where items are the researcher's, each in several versions, else ``item``.
    """
    return "stimulus" if "stimulus" in columns else "item"


def write_trials(path: Path, rows: Iterable[Mapping[str, str]], columns: Sequence[str]) -> None:
    """Write a table of trials.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    write_atomically(
        path, format_csv_rows(columns, ([row.get(name, "") for name in columns] for row in rows))
    )


def _whole(row: Mapping[str, str], name: str) -> int:
    text = row[name]
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    if not 1 <= number <= 10**9:
        raise InputError(f"{name} is {text!r}; number them 1, 2, 3 ...")
    return number


def _check_text(name: str, text: str) -> None:
    if not text.strip() or len(text) > _LONGEST:
        raise InputError(f"{name} is {text[:40]!r}; give 1 to {_LONGEST} characters")


def _pair(row: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what a pair of sentences shows, and what makes it that pair."""
    first, second = normalise_pair(row["sentence_1"], row["sentence_2"])
    side = row["side_1"]
    if side not in ("left", "right"):
        raise InputError(f"side_1 is {side!r}, not 'left' or 'right'")
    left, right = (first, second) if side == "left" else (second, first)
    return {"left": left, "right": right}, (first, second)


def _side_expected(row: Mapping[str, str]) -> str | None:
    """Return the side of the right sentence, if one is: of a catch trial the natural one, 1."""
    is_catch = infer_kind(row["condition"]) == CATCH
    given = row.get("expected") or ("1" if is_catch else "")
    if given not in ("", "1", "2"):
        raise InputError(f"expected is {given!r}; give 1 or 2, the right sentence, or nothing")
    sides = row["side_1"], "right" if row["side_1"] == "left" else "left"
    return sides[int(given) - 1] if given else None


def _with_checks(
    places: Mapping[int, Trial], checks: Sequence[AttentionCheck]
) -> tuple[Trial, ...]:
    """Put attention checks between the trials of an assignment and number all of them."""
    shown = sorted(places.values(), key=lambda trial: trial.number)
    # From the last to the first, so that those before keep their places.
    for k, check in sorted(enumerate(checks, start=1), key=lambda pair: -pair[1].after):
        trial = Trial(f"a{k}", 0, "attention", "attention", check.content, expected=check.expected)
        shown.insert(check.after, trial)
    return tuple(
        trial if trial.number == number else replace(trial, number=number)
        for number, trial in enumerate(shown, start=1)
    )
