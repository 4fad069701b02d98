"""Covering arrays of options: every pair of values is run, or refused by naming both options.

A table lists values of each option of a command: None for an option that is not given, True for a
flag, a tuple for an option that is repeated, and else the words that follow its name. Names without
hyphens are arguments. `relation` may be one of the options; its values are relations between the
command and the same command on changed inputs.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allpairspy import AllPairs
from option_table import options_by_command

from contstim.cli import main

Row = dict[str, Any]
RELATION = "relation"
#: Seconds of processor time from which a row is listed.
SLOW = 2.0
#: Whether all rows run (``make test-combinations``), or only those with two thirds of the pairs.
ALL = os.environ.get("COMBINATIONS") == "all"
#: Whether all rows run until the first fault (``tests/mutation``).
FIRST = os.environ.get("COMBINATIONS") == "first"


@dataclass(frozen=True)
class Outcome:
    """Exit status and printed text of a command."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Relation:
    """A change of the inputs, and the change that it makes to the output.

    Attributes
    ----------
    change
        Changes files of the working folder; returns the row to run.
    undo
        Maps the output of that row to the output of the row as it was.
    view
        Maps either output to the part of it that is compared.
    given
        Values of options with which the relation is run at least once.
    """

    change: Callable[[Row], Row | None]
    undo: Callable[[Any], Any] = lambda output: output
    view: Callable[[Any], Any] = lambda output: output
    given: Row = field(default_factory=dict)


@dataclass
class Combinations:
    """The rows of a table, run one by one.

    Attributes
    ----------
    command
        Words of the command, such as ``select natural``.
    values
        Values of each option.
    inputs
        Folder of input files, which each row gets a copy of.
    judge
        Checks the outcome of a row that was not refused, and returns its output.
    compare
        Asserts that two outputs are equal.
    relations
        Relations by name.
    synonyms
        Other words by which messages name an option.
    statuses
        Exit statuses of rows that are not refused.
    compared
        Values of options with which each relation is run at least once.
    together
        Values of several options that some accepted row has at once.
    one_of
        Groups of options of which a row needs one. A message that only names options of a group
        that are missing is about all of them.
    unaccepted
        Options that need other inputs than the table has; their values are refused in all rows.
    """

    command: str
    values: Mapping[str, Sequence[Any]]
    inputs: Path
    judge: Callable[[Row, Outcome], Any]
    compare: Callable[[Any, Any], None]
    relations: Mapping[str, Relation] = field(default_factory=dict)
    synonyms: Mapping[str, str] = field(default_factory=dict)
    statuses: Sequence[int] = (0,)
    compared: Mapping[str, Any] = field(default_factory=dict)
    together: Sequence[Row] = ()
    one_of: Sequence[Sequence[str]] = ()
    unaccepted: Sequence[str] = ()
    faults: list[str] = field(default_factory=list, init=False)
    refused: dict[frozenset[tuple[str, Any]], str] = field(default_factory=dict, init=False)
    accepted: list[tuple[Row, Any]] = field(default_factory=list, init=False)
    tried: list[Row] = field(default_factory=list, init=False)
    n_rows: int = field(default=0, init=False)

    def check(self, work: Path, inert: Sequence[tuple[str, Any]] = ()) -> None:
        """Run the table; fail with the rows whose output is wrong and the pairs without a row.

        `inert` are values that need not change any output: defaults and limits that do not bind.
        """
        start = time.process_time()
        values = {**self.values}
        if self.relations:
            values[RELATION] = [None, *self.relations]
        names = list(values)
        pairs = {frozenset(pair) for row in _all_pairs(values) for pair in _pairs(row)}
        left = set(pairs)
        rows = [dict(zip(names, found, strict=True)) for found in AllPairs([*values.values()])]
        enough = 0 if ALL or FIRST else len(pairs) / 3
        required = [
            {RELATION: name, **self.compared, **relation.given}
            for name, relation in self.relations.items()
        ]
        required += [
            {name: value}
            for name, listed in self.values.items()
            for value in listed[: 1 if name in self.unaccepted else None]
        ]
        for fixed in [*required, *self.together]:
            self._require(fixed, values, left, work)
        for row in rows:
            if len(left) > enough:
                self._try(row, left, work)
        implied = 0
        while len(left) > enough:
            first = min(left, key=lambda pair: sorted(map(repr, pair)))
            row = self._complete({}, dict(sorted(first)), values, left)
            if row is None:  # every row with this pair has another pair that is refused
                implied += 1
                left.discard(first)
            else:
                self._try(row, left, work)
                if first in left and not any(refused <= row.items() for refused in self.refused):
                    left.discard(first)  # the row is among the faults
        if ALL:
            self._check_effects(values, work, set(inert))
        print(
            f"{self.command}: {len(values) - bool(self.relations)} options, "
            f"{sum(map(len, self.values.values()))} values, {len(self.relations)} relations, "
            f"{len(pairs)} pairs ({len(left)} left), {self.n_rows} rows, "
            f"{len(self.accepted)} of them accepted, "
            f"{sum(len(r) == 2 for r in self.refused)} pairs refused, {implied} implied, "
            f"{time.process_time() - start:.1f} s"
        )
        for refused, text in self.refused.items():
            print(f"  refused: {dict(sorted(refused))}: {text.removeprefix('contstim: ')}")
        assert not self.faults, "\n\n".join(self.faults)

    def _require(
        self,
        fixed: Row,
        values: Mapping[str, Sequence[Any]],
        left: set[frozenset[Any]],
        work: Path,
    ) -> None:
        """Run a row with some values that is not refused, unless there was one."""
        for _ in range(30):
            rows = self.tried if RELATION in fixed else [row for row, _ in self.accepted]
            if self.faults or any(fixed.items() <= row.items() for row in rows):
                return
            row = self._complete({}, fixed, values, left)
            if row is None:
                break
            self._try(row, left, work)
        self.faults.append(f"{self.command}: no row with {fixed} is accepted")

    def _complete(
        self, row: Row, fixed: Row, values: Mapping[str, Sequence[Any]], left: set[frozenset[Any]]
    ) -> Row | None:
        """Return a row with the values of `fixed` and without refused values, or None."""
        if len(row) == len(values):
            return row
        name = next(name for name in values if name not in row)

        def n_new(value: Any) -> int:
            return sum(frozenset([(name, value), item]) in left for item in (row | fixed).items())

        options = [fixed[name]] if name in fixed else sorted(values[name], key=n_new, reverse=True)
        for value in options:
            longer = {**row, name: value}
            if not any(refused <= (fixed | longer).items() for refused in self.refused):
                found = self._complete(longer, fixed, values, left)
                if found is not None:
                    return found
        return None

    def _try(self, row: Row, left: set[frozenset[Any]], work: Path) -> None:
        """Run a row, and take the pairs that it covers from those left."""
        if any(refused <= row.items() for refused in self.refused):
            return
        self.n_rows += 1
        began = time.process_time()
        try:
            outcome, output = self._run(row, work)
            if outcome.status == 2:
                named = _named(row, outcome.err, self.synonyms)
                for group in self.one_of:
                    missing = {(name, None) for name in group}
                    if named and named <= missing <= set(row.items()):
                        named = missing
                refused = frozenset(named)
                assert len(refused) > 1, f"refused, but not by two options: {outcome.err}"
                self.refused[refused] = outcome.err.strip().splitlines()[-1]
                if len(refused) == 2:
                    left.discard(refused)
                return
            self.accepted.append((row, output))
            if row.get(RELATION):
                relation = self.relations[row[RELATION]]
                _, other = self._run(row, work, relation)
                if other is not None:
                    self.tried.append(row)
                    self.compare(relation.view(relation.undo(other)), relation.view(output))
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault of this row
            self._fault(row, error)
        finally:
            if (used := time.process_time() - began) > SLOW:
                print(f"  {used:.1f} s: {' '.join(arguments(row))} {row.get(RELATION)}")
        left.difference_update(map(frozenset, _pairs(row.items())))

    def _run(self, row: Row, work: Path, relation: Relation | None = None) -> tuple[Outcome, Any]:
        """Run a row in a fresh folder; return its outcome, and its output unless it is refused."""
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.inputs, work)
        with contextlib.chdir(work):
            changed = row if relation is None else relation.change(dict(row))
            if changed is None:  # the relation does not hold for such rows
                return Outcome(0, "", ""), None
            before = set(work.rglob("*"))
            outcome = run(self.command, changed)
            new = set(work.rglob("*")) - before
            assert outcome.status in (2, *self.statuses), (
                f"exit status {outcome.status}: {outcome.err}"
            )
            if outcome.status == 2:
                assert relation is None, f"refused only after the change: {outcome.err}"
                assert not new, f"left behind by a refusal: {sorted(new)}"
                return outcome, None
            return outcome, self.judge(changed, outcome)

    def _check_effects(
        self, values: Mapping[str, Sequence[Any]], work: Path, inert: set[tuple[str, Any]]
    ) -> None:
        """Add a fault for each value that gives the output of the first value in every row."""
        for name, listed in values.items():
            for value in listed[1:]:
                rows = [(row, output) for row, output in self.accepted if row[name] == value]
                if (name, value) in inert or not rows or not name.startswith("--"):
                    continue
                if not any(self._differs({**row, name: listed[0]}, old, work) for row, old in rows):
                    self._fault(rows[0][0], AssertionError(f"{name} {value} changes no output"))

    def _differs(self, row: Row, output: Any, work: Path) -> bool:
        """Return whether a row has another output than `output`, or is refused."""
        try:
            outcome, other = self._run(row, work)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault of this row
            self._fault(row, error)
            return True
        try:
            return outcome.status == 2 or bool(self.compare(other, output))
        except AssertionError:
            return True

    def _fault(self, row: Row, error: Exception) -> None:
        text = " ".join(arguments(row))
        at = f" [{row[RELATION]}]" if row.get(RELATION) else ""
        lines = str(error).strip().splitlines()[:12]
        if FIRST:
            raise AssertionError(f"{text}: {error}") from error
        self.faults.append(
            f"contstim {self.command} {text}{at}\n  {type(error).__name__}: " + "\n  ".join(lines)
        )


def require_values(command: str, values: Mapping[str, Sequence[Any]]) -> None:
    """Assert that a table has two to four values of each option of a command, and no others."""
    declared = {option.name for option in options_by_command()[command]}
    listed = {name for name in values if name.startswith("--")}
    assert declared - listed == set(), f"options of {command} without values"
    assert listed - declared == set(), f"values of options that {command} does not have"
    assert all(2 <= len(given) <= 4 for given in values.values())


def on_files(paths: Sequence[str], change: Callable[[str], None]) -> Callable[[Row], Row]:
    """Return a change of the inputs that changes files one by one."""

    def apply(row: Row) -> Row:
        for path in paths:
            change(path)
        return row

    return apply


def run(command: str, row: Row) -> Outcome:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*command.split(), *arguments(row)])
    return Outcome(status, out.getvalue(), err.getvalue())


def arguments(row: Row) -> list[str]:
    """Return the arguments of a row as they are written on the command line."""
    written = []
    for name, value in row.items():
        if value is None or name == RELATION:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            written += [name] * name.startswith("--") + ([] if one is True else shlex.split(one))
    return written


def _named(row: Row, message: str, synonyms: Mapping[str, str]) -> set[tuple[str, Any]]:
    """Return the options of a row that a message names, with their values.

    The message has the option, or its words and its value, or for an argument the value alone.
    """
    found = set()
    for name, value in row.items():
        words = re.escape(name.lstrip("-")).replace(r"\-", "[-_ ]")
        given = value if isinstance(value, tuple) else (str(value),)
        patterns = [rf"{name}(?![\w-])", synonyms.get(name, name)]
        patterns += [rf"(?<![\w-]){words}s?( is)? '?{re.escape(one)}" for one in given]
        if "-" in name.lstrip("-"):
            patterns.append(rf"(?<![\w-]){words}(?![\w-])")
        if not name.startswith("--"):
            patterns = [re.escape(str(value)), synonyms.get(name, re.escape(str(value)))]
        if any(re.search(pattern, message) for pattern in patterns) and name != RELATION:
            found.add((name, value))
    return found


def _pairs(row: Any) -> itertools.combinations[tuple[Any, Any]]:
    return itertools.combinations(row, 2)


def _all_pairs(values: Mapping[str, Sequence[Any]]) -> list[list[tuple[str, Any]]]:
    """Return all pairs of values of two options, each as a row of two."""
    return [
        [(name_1, value_1), (name_2, value_2)]
        for name_1, name_2 in itertools.combinations(values, 2)
        for value_1, value_2 in itertools.product(values[name_1], values[name_2])
    ]
