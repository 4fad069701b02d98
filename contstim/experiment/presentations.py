"""How a trial is shown and answered: two sentences, one to rate, one to read, or a study's own way.

Each is a module of the page's scripts (``page/presentations``; its interface is `Presentation` in
``page/types.d.ts``) and a class here, which says what a trial of it holds and checks the answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, TypeGuard

from contstim.errors import InputError
from contstim.experiment.options import TrialOptions
from contstim.files import json_value

_YES_NO = {"yes": 1, "no": 2}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes one
_LONGEST_MS = 1e10
_COLUMN = re.compile(r"\w{1,64}")  # what a module of one's own may name one
_SINGLE_TEXTS = {"practice_again": "single_again", "debrief_text": "single_debrief"}


class Presentation:
    """How the trials of a study are shown.

    Parameters
    ----------
    options
        The table ``[trial]``.

    Attributes
    ----------
    module
        The page's module, relative to its scripts; a study's own is in the study's folder.
    needed, optional
        What is shown of a trial: columns of the design's table, keys of practice and checks.
    texts
        Texts of the page that it has of its own, by the keys in whose place they are shown.
    answers
        What can be chosen, for messages.
    """

    module: str
    needed: tuple[str, ...] = ("sentence",)
    optional: tuple[str, ...] = ()
    texts: ClassVar[Mapping[str, str]] = {}
    answers = "a whole number"

    def __init__(self, options: TrialOptions) -> None:
        self._options = options

    @property
    def scale(self) -> str:
        """What makes answers mean the same; data are of one scale only."""
        return self.module

    def choices(self, shown: Mapping[str, str]) -> Sequence[int] | None:
        """Return what can be chosen in a trial; None for any whole number."""
        return None

    def expectations(self, shown: Mapping[str, str]) -> Sequence[str] | None:
        """Return what `expected` can be of a trial; None for any whole number."""
        return None

    def check_expected(self, shown: Mapping[str, str], expected: str) -> None:
        """Refuse an expectation that no answer can meet.

        Raises
        ------
        InputError
            Saying what can be expected.
        """
        offered = self.expectations(shown)
        if offered is None and re.fullmatch(r"-?\d{1,6}", expected):
            return
        if offered is None or expected not in offered:
            those = "a whole number" if offered is None else " or ".join(map(repr, offered))
            raise InputError(f"expected is {expected!r}; here it is {those or 'nothing'}")

    def check_answer(self, shown: Mapping[str, str], choice: int, detail: str) -> None:
        """Refuse an answer that the trial cannot have.

        Raises
        ------
        InputError
            Naming the field.
        """
        offered = self.choices(shown)
        if offered is not None and choice not in offered:
            raise InputError(f"choice is {choice}; it is one of {', '.join(map(str, offered))}")

    def columns(self, detail: str) -> dict[str, str | int | float]:
        """Return what of an answer's detail becomes columns of its table, by their names."""
        return {}

    def words(self, detail: str) -> list[tuple[str, float]]:
        """Return the words that an answer's detail has, and the milliseconds of each."""
        return []


class TwoSentences(Presentation):
    """Two sentences with levels of confidence for each (``choice``)."""

    module = "presentations/choice.js"
    needed = ("left", "right")
    answers = "-levels (left, surest) to levels (right, surest), never 0"

    @property
    def scale(self) -> str:
        """The number of levels."""
        return str(self._options.levels)

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return the levels, from surely left to surely right; never 0."""
        levels = self._options.levels
        return (*range(-levels, 0), *range(1, levels + 1))

    def expectations(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return the sides."""
        return ("left", "right")


class OneSentence(Presentation):
    """One sentence, rated from 1 to the number of points (``rating``)."""

    module = "presentations/rating.js"
    texts: ClassVar = {
        "instructions_text": "rating_instructions",
        "trial_prompt": "rating_prompt",
        **_SINGLE_TEXTS,
    }
    answers = "1 (lowest) to the number of points"

    @property
    def scale(self) -> str:
        """The number of points."""
        return f"rating of {self._options.points}"

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return the points."""
        return range(1, self._options.points + 1)

    def expectations(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return the points."""
        return [str(point) for point in self.choices(shown)]


class SelfPacedReading(Presentation):
    """A sentence read word by word, and then a question of yes or no if it has one (``reading``).

    The choice is 1 for yes, 2 for no, and 0 without a question; the detail has the regions that
    were uncovered (``words``) and for how many milliseconds each was (``rt_ms``).
    """

    module = "presentations/reading.js"
    optional = ("question",)
    texts: ClassVar = {
        "instructions_text": "reading_instructions",
        "instructions_keys": "reading_keys",
        "trial_prompt": "reading_prompt",
        **_SINGLE_TEXTS,
    }
    answers = "1 for yes, 2 for no; 0 without a question"

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return yes and no, where there is a question."""
        return tuple(_YES_NO.values()) if shown.get("question") else (0,)

    def expectations(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return yes and no, where there is a question."""
        return tuple(_YES_NO) if shown.get("question") else ()

    def check_answer(self, shown: Mapping[str, str], choice: int, detail: str) -> None:
        """Refuse an answer without a time for each word."""
        super().check_answer(shown, choice, detail)
        self.words(detail)

    def columns(self, detail: str) -> dict[str, str | int | float]:
        """Return the time of the question, where there was one."""
        time = read_detail(detail).get("question_rt_ms")
        return {"question_rt_ms": time} if _is_time(time) else {}

    def words(self, detail: str) -> list[tuple[str, float]]:
        """Return the words that were read, and for how many milliseconds each."""
        return _words(detail)


class OwnModule(Presentation):
    """A module in the study's folder; the choice is any whole number, the detail any JSON value."""

    def __init__(self, options: TrialOptions) -> None:
        super().__init__(options)
        self.module, self.needed = options.presentation, options.columns

    def check_answer(self, shown: Mapping[str, str], choice: int, detail: str) -> None:
        """Refuse a choice that no column of whole numbers holds."""
        if abs(choice) > 10**9:
            raise InputError(f"choice is {choice}; give at most nine digits")

    def columns(self, detail: str) -> dict[str, str | int | float]:
        """Return all texts and numbers that have a plain name, as ``detail_NAME``."""
        return {
            f"detail_{name}": value
            for name, value in read_detail(detail).items()
            if isinstance(value, str | int | float) and _COLUMN.fullmatch(name)
        }

    def words(self, detail: str) -> list[tuple[str, float]]:
        """Return the words that were read, where the detail is as that of ``reading``."""
        try:
            return _words(detail)
        except InputError:
            return []


def presentation_of(options: TrialOptions) -> Presentation:
    """Return how trials are shown by the options of a study."""
    known = {"choice": TwoSentences, "rating": OneSentence, "reading": SelfPacedReading}
    return known.get(options.presentation, OwnModule)(options)


def is_right(choice: int, expected: str) -> bool:
    """Return whether a choice is what was expected: a side, yes or no, or a number."""
    if expected in ("left", "right"):
        return (choice < 0) == (expected == "left")
    return choice == (_YES_NO[expected] if expected in _YES_NO else int(expected))


def read_detail(detail: str) -> dict[str, Any]:
    """Return the detail of an answer, a JSON object; empty if it is none.

    Halves of characters, which JSON can name and no file can hold, are question marks.
    """
    try:
        value = json_value(detail)
        if _HALF.search(detail):
            value = json_value(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _words(detail: str) -> list[tuple[str, float]]:
    value = read_detail(detail)
    words, times = value.get("words"), value.get("rt_ms")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError("detail has no list of words")
    if not isinstance(times, list) or len(times) != len(words) or not all(map(_is_time, times)):
        raise InputError(f"detail has not a time for each of its {len(words)} words")
    return list(zip(words, times, strict=True))


def _is_time(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and 0 <= value <= _LONGEST_MS
