"""How a trial is shown and answered: two sentences, one to rate, one to read, or another way.

Each is a module of JavaScript (its interface is `Presentation` in ``page/types.d.ts``) and a class
here, which says what a trial of it holds, checks the answers, and has the words of a new study.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from inspect import getfile
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

from contstim.errors import InputError
from contstim.experiment.options import TrialOptions
from contstim.experiment.vendor import PAGE_FOLDER
from contstim.files import decode_json
from contstim.plugins import Registry

_YES_NO = {"yes": 1, "no": 2}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes one
_LONGEST_MS = 1e10
_COLUMN = re.compile(r"\w{1,64}")  # what a module of one's own may name one
_OWN = re.compile(r"[A-Za-z0-9_-]{1,64}\.js")
_SINGLE_TEXTS = {"practice_again": "single_again", "debrief_text": "single_debrief"}


class Presentation:
    """How the trials of a study are shown; by default one sentence, answered by a whole number.

    Parameters
    ----------
    options
        The table ``[trial]``.

    Attributes
    ----------
    module
        The module of JavaScript: one of the page's, relative to its scripts, or a file beside the
        one in which the class stands.
    pair
        Whether a trial is a pair of sentences, whose answers are rows of ``choices.csv``.
    required_fields, optional_fields
        What is shown of a trial: keys of practice and checks and, but of a pair, columns of the
        design's table.
    text_keys
        Texts of the page that it has of its own, by the keys in whose place they are shown.
    translations
        Such texts where they do not come with contstim, by their keys, and by language; there must
        be English.
    title, task, practice
        Of a new study: its title, what its consent form says of the trials, and its practice as
        tables ``[[practice]]``.
    answer_description
        What can be chosen, for messages.
    time_columns
        Names of milliseconds in an answer's detail that are columns of its table; if None, all its
        texts and numbers are, as ``detail_NAME``.
    """

    module: str
    is_pair: ClassVar[bool] = False
    required_fields: tuple[str, ...] = ("sentence",)
    optional_fields: tuple[str, ...] = ()
    text_keys: ClassVar[Mapping[str, str]] = {}
    translations: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    title = "How likely are these sentences?"
    task = "You will see sentences and say how likely you are to come across each of them."
    practice = """\
[[practice]]
sentence = "The dog barked at the postman."

[[practice]]
sentence = "The postman barked dog the at."
"""
    answer_description = "a whole number"
    time_columns: ClassVar[Sequence[str] | None] = None

    def __init__(self, options: TrialOptions) -> None:
        self._options = options

    @property
    def scale(self) -> str:
        """What makes answers mean the same; data are of one scale only."""
        return self.module

    def find_module(self, study: Path) -> Path:
        """Return where the module lies, of a study whose folder is given."""
        if _OWN.fullmatch(self._options.presentation):
            return study / self.module
        shared = PAGE_FOLDER / self.module
        return shared if shared.is_file() else Path(getfile(type(self))).with_name(self.module)

    def translated_texts(self, language: str) -> Mapping[str, str]:
        """Return the texts of its own, by their keys, in a language or else in English."""
        return self.translations.get(language, self.translations.get("en", {}))

    def choices(self, shown: Mapping[str, str]) -> Sequence[int] | None:
        """Return what can be chosen in a trial; None for any whole number."""
        return None

    def rating(self, choice: int, side_1: str) -> float:
        """Turn a choice of a pair into a rating, from -2.5 (sure of sentence 1) to 2.5.

        Parameters
        ----------
        choice
            One of `choices`, the least for sure of the left sentence; their ratings are equally far
            apart.
        side_1
            Where sentence 1 stood, ``left`` or ``right``.

        Raises
        ------
        InputError
            If there is no such choice.
        """
        offered = sorted(self.choices({}) or ())
        if type(choice) is not int or choice not in offered:
            raise InputError(f"choice is {choice!r}; it is one of {', '.join(map(str, offered))}")
        rating = round(5 * offered.index(choice) / (len(offered) - 1) - 2.5, 6)
        return rating if side_1 == "left" else -rating

    def expected_answers(self, shown: Mapping[str, str]) -> Sequence[str] | None:
        """Return what `expected` can be of a trial; None for any whole number."""
        return None

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether a choice is what was expected."""
        return choice == int(expected)

    def check_expected(self, shown: Mapping[str, str], expected: str) -> None:
        """Refuse an expectation that no answer can meet.

        Raises
        ------
        InputError
            Saying what can be expected.
        """
        offered = self.expected_answers(shown)
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
        if abs(choice) > 10**9:  # no column of whole numbers would hold it
            raise InputError(f"choice is {choice}; give at most nine digits")

    def detail_columns(self, detail: str) -> dict[str, str | int | float]:
        """Return what of an answer's detail becomes columns of its table, by their names."""
        given = parse_detail(detail)
        if self.time_columns is not None:
            return {name: time for name in self.time_columns if _is_time(time := given.get(name))}
        return {
            f"detail_{name}": value
            for name, value in given.items()
            if isinstance(value, str | int | float) and _COLUMN.fullmatch(name)
        }

    def word_times(self, detail: str) -> list[tuple[str, float]]:
        """Return the words that an answer's detail has, and the milliseconds of each.

        They are there where the detail is as that of ``reading``.
        """
        try:
            return _words(detail)
        except InputError:
            return []


class PairChoice(Presentation):
    """Two sentences with levels of confidence for each (``choice``)."""

    module = "presentations/choice.js"
    is_pair = True
    required_fields = ("left", "right")
    title = "Which sentence is more likely?"
    task = (
        "You will see pairs of sentences and say which of the two you are more likely to come "
        "across."
    )
    practice = """\
[[practice]]
left = "The dog barked at the postman."
right = "The postman barked dog the at."
expected = "left"

[[practice]]
left = "We painted the kitchen a quick blue."
right = "We painted the kitchen a quiet blue."
expected = "right"
"""
    answer_description = "-levels (left, surest) to levels (right, surest), never 0"
    time_columns: ClassVar[Sequence[str] | None] = ()

    @property
    def scale(self) -> str:
        """The number of levels."""
        return str(self._options.levels)

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return the levels, from surely left to surely right; never 0."""
        levels = self._options.levels
        return (*range(-levels, 0), *range(1, levels + 1))

    def expected_answers(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return the sides."""
        return ("left", "right")

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether a choice is of the side that was expected."""
        return (choice < 0) == (expected == "left")


class SentenceRating(Presentation):
    """One sentence, rated from 1 to the number of points (``rating``)."""

    module = "presentations/rating.js"
    text_keys: ClassVar = {
        "instructions_text": "rating_instructions",
        "trial_prompt": "rating_prompt",
        **_SINGLE_TEXTS,
    }
    answer_description = "1 (lowest) to the number of points"
    time_columns = ()

    @property
    def scale(self) -> str:
        """The number of points."""
        return f"rating of {self._options.points}"

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return the points."""
        return range(1, self._options.points + 1)

    def expected_answers(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return the points."""
        return [str(point) for point in self.choices(shown)]


class SelfPacedReading(Presentation):
    """A sentence read word by word, and then a question of yes or no if it has one (``reading``).

    The choice is 1 for yes, 2 for no, and 0 without a question; the detail has the regions that
    were uncovered (``words``) and for how many milliseconds each was (``rt_ms``).
    """

    module = "presentations/reading.js"
    optional_fields = ("question",)
    text_keys: ClassVar = {
        "instructions_text": "reading_instructions",
        "instructions_keys": "reading_keys",
        "trial_prompt": "reading_prompt",
        **_SINGLE_TEXTS,
    }
    title = "Reading sentences"
    task = "You will read sentences word by word and answer questions about some of them."
    practice = """\
[[practice]]
sentence = "The dog that lives next door barked at the postman."
question = "Did the postman bark?"
expected = "no"

[[practice]]
sentence = "We painted the kitchen a quiet blue before the guests arrived."
"""
    answer_description = "1 for yes, 2 for no; 0 without a question"
    time_columns = ("question_rt_ms",)

    def choices(self, shown: Mapping[str, str]) -> Sequence[int]:
        """Return yes and no, where there is a question."""
        return tuple(_YES_NO.values()) if shown.get("question") else (0,)

    def expected_answers(self, shown: Mapping[str, str]) -> Sequence[str]:
        """Return yes and no, where there is a question."""
        return tuple(_YES_NO) if shown.get("question") else ()

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether yes or no was expected and chosen."""
        return choice == _YES_NO[expected]

    def check_answer(self, shown: Mapping[str, str], choice: int, detail: str) -> None:
        """Refuse an answer that does not have the words of the trial, each with a time."""
        super().check_answer(shown, choice, detail)
        words = [word for word, _ in _words(detail)]
        if words != _regions(shown["sentence"]):
            raise InputError(f"the words of the answer are not those of {shown['sentence']!r}")


class CustomPresentation(Presentation):
    """A module in the study's folder, which is given some columns; any whole number answers."""

    def __init__(self, options: TrialOptions) -> None:
        super().__init__(options)
        self.module, self.required_fields = options.presentation, options.columns


class CustomPairPresentation(PairChoice):
    """A module in the study's folder that shows pairs, with the levels of ``choice``."""

    time_columns = None

    def __init__(self, options: TrialOptions) -> None:
        super().__init__(options)
        self.module = options.presentation


#: Ways to show a trial, but for modules of a study's own.
PRESENTATIONS: Registry[type[Presentation]] = Registry(
    "presentation",
    "contstim.presentations",
    {"choice": PairChoice, "rating": SentenceRating, "reading": SelfPacedReading},
    Presentation,
)


def make_presentation(options: TrialOptions) -> Presentation:
    """Return how trials are shown by the options of a study.

    Raises
    ------
    InputError
        If there is no such presentation, or it has columns and shows none of its own.
    """
    name = options.presentation
    if _OWN.fullmatch(name):
        return (CustomPresentation if options.columns else CustomPairPresentation)(options)
    if name not in PRESENTATIONS:
        raise InputError(
            f"trial.presentation is {name!r}; give one of {', '.join(PRESENTATIONS)}, or a file of "
            "the study's folder such as 'mine.js'"
        )
    if options.columns:
        raise InputError(
            f"trial.columns is {list(options.columns)} with presentation {name!r}; leave it out, "
            "only modules of a study's own have columns"
        )
    return PRESENTATIONS[name](options)


def parse_detail(detail: str) -> dict[str, Any]:
    """Return the detail of an answer, a JSON object; empty if it is none.

    Halves of characters, which JSON can name and no file can hold, are question marks.
    """
    try:
        value = decode_json(detail)
        if _HALF.search(detail):
            value = decode_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _words(detail: str) -> list[tuple[str, float]]:
    value = parse_detail(detail)
    words, times = value.get("words"), value.get("rt_ms")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError("detail has no list of words")
    if not isinstance(times, list) or len(times) != len(words) or not all(map(_is_time, times)):
        raise InputError(f"detail has not a time for each of its {len(words)} words")
    return list(zip(words, times, strict=True))


def _regions(sentence: str) -> list[str]:
    """Return what is uncovered one by one, as the page does (``presentations/reading.js``)."""
    parts = sentence.split("|") if "|" in sentence else re.split(" +", sentence)
    return [part.strip() for part in parts if part.strip()]


def _is_time(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and 0 <= value <= _LONGEST_MS
