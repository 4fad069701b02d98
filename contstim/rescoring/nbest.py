"""n-best lists: what a recogniser or translator thought possible, with its scores.

The format is described in ``docs/rescoring.md``: JSON lines, one utterance a line.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

from contstim.errors import InputError
from contstim.tables import numbered_lines

__all__ = ["SPLITS", "NBest", "Utterance", "read_nbest"]

#: The parts of an n-best file: weights are tuned on the first and reported on the second.
SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Utterance:
    """One utterance (or source sentence): what was said, and H hypotheses of what it may be.

    Attributes
    ----------
    id
        Its name, of which there is one in a file.
    split
        One of `SPLITS`.
    reference
        What was really said, words between single spaces.
    texts
        The H distinct hypotheses, words between single spaces, in the order given.
    scores
        The first pass's score of each, the higher the better, H numbers.
    group
        What it belongs to (a speaker, a document, a sentence spoken by several voices); the id
        where nothing is said. Groups stand in one part alone, and are what is resampled.
    """

    id: str
    split: str
    reference: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    group: str

    @property
    def best(self) -> int:
        """Index of the first pass's best hypothesis; among equals the first."""
        return self.scores.index(max(self.scores))


@dataclass(frozen=True)
class NBest:
    """n-best lists of both parts.

    Raises
    ------
    InputError
        If an id occurs twice, a group stands in both parts, or a part has no utterance.
    """

    utterances: tuple[Utterance, ...]

    def __post_init__(self) -> None:
        ids: dict[str, str] = {}
        groups: dict[str, str] = {}
        for utterance in self.utterances:
            if utterance.id in ids:
                where = (
                    "in both parts, dev and test; tuning would see what it is tested on"
                    if ids[utterance.id] != utterance.split
                    else f"twice in the part {utterance.split}"
                )
                raise InputError(f"the utterance {utterance.id!r} stands {where}; keep one")
            ids[utterance.id] = utterance.split
            if groups.setdefault(utterance.group, utterance.split) != utterance.split:
                raise InputError(
                    f"the group {utterance.group!r} stands in both parts, dev and test; tuning "
                    "would see what it is tested on; move its utterances into one part"
                )
        for split in SPLITS:
            if not self.part(split):
                raise InputError(
                    f"no utterance has the split {split!r}; mark some: weights are tuned on dev "
                    "and reported on test"
                )

    def part(self, split: str) -> tuple[Utterance, ...]:
        """Return the utterances of one part."""
        return tuple(u for u in self.utterances if u.split == split)

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct hypotheses of all utterances, in order of first occurrence."""
        return tuple(dict.fromkeys(text for u in self.utterances for text in u.texts))

    @property
    def shared_references(self) -> int:
        """Number of distinct references that stand in both parts, compared without case."""
        dev, test = ({u.reference.lower() for u in self.part(split)} for split in SPLITS)
        return len(dev & test)


def read_nbest(path: str | PathLike[str]) -> NBest:
    """Read n-best lists.

    Parameters
    ----------
    path
        A UTF-8 file of JSON lines, gzip-compressed if its name ends in ``.gz``; ``-`` is standard
        input. Blank lines are skipped. Of hypotheses that are alike but for white space the one
        with the highest score is kept, at the place of the first.

    Raises
    ------
    InputError
        Naming file, line and fault.
    """
    name = "standard input" if str(path) == "-" else str(path)
    utterances = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            utterances.append(_utterance(line))
        except InputError as error:
            raise InputError(f"{name}, line {number}: {error}") from None
    if not utterances:
        raise InputError(f"{name} holds no utterance; give one a line, as JSON")
    try:
        return NBest(tuple(utterances))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _utterance(line: str) -> Utterance:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON ({error}); write one object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"this is {_shown(record)}, not an object with the key 'id'")
    # Asked for in this order, so that later messages can name the utterance.
    identity = _text(record, "id", "an utterance")
    what = f"the utterance {identity!r}"
    split = _text(record, "split", what)
    if split not in SPLITS:
        raise InputError(f"{what} has the split {split!r}; write 'dev' or 'test'")
    reference = _text(record, "reference", what)
    group = _text(record, "group", what) if "group" in record else identity
    listed = record.get("hypotheses")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{what} has no list of 'hypotheses'; give at least one")
    found: dict[str, float] = {}
    for place, hypothesis in enumerate(listed, start=1):
        own = f"hypothesis {place} of {what}"
        if not isinstance(hypothesis, dict):
            raise InputError(f"{own} is {_shown(hypothesis)}, not an object with 'text', 'score'")
        text = _text(hypothesis, "text", own)
        score = _score(hypothesis, own)
        found[text] = max(score, found.get(text, -math.inf))
    return Utterance(identity, split, reference, tuple(found), tuple(found.values()), group)


def _text(record: dict[str, Any], key: str, what: str) -> str:
    if record.get(key) is None:
        raise InputError(f"{what} has no {key!r}; add it")
    value = record[key]
    if not isinstance(value, str):
        raise InputError(f"{key!r} of {what} is {_shown(value)}, not text; put it in quotes")
    words = " ".join(value.split())
    if not words:
        raise InputError(f"{key!r} of {what} is empty; fill it or leave that out")
    return words


def _score(record: dict[str, Any], what: str) -> float:
    value = record.get("score")
    if value is None:
        raise InputError(f"{what} has no 'score'; add what the first pass gave it")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"'score' of {what} is {_shown(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"'score' of {what} is {_shown(value)}; give a finite number")
    return number


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
