"""Presentations of trials: choice, rating, self-paced reading, and custom ones.

A *presentation* defines how the page shows a trial and which answers it accepts. It has two parts:
a JavaScript module (interface `Presentation` in ``page/types.d.ts``) that shows the trial, and a
class in this module that declares its fields, checks its answers and provides the texts of a new
study.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import getfile
from pathlib import Path
from typing import ClassVar

from contstim.errors import InputError
from contstim.experiment.answer_details import is_time, parse_detail, read_word_times
from contstim.experiment.options import TrialOptions
from contstim.experiment.vendor import PAGE_FOLDER
from contstim.plugins import Registry

_YES_NO = {"yes": 1, "no": 2}
_COLUMN = re.compile(r"\w{1,64}")
_MODULE_FILE = re.compile(r"[A-Za-z0-9_-]{1,64}\.js")
_SINGLE_SENTENCE_TEXTS = {"practice_again": "single_again", "debrief_text": "single_debrief"}


class Presentation:
    """Base class of presentations: what a trial shows, and which answers are valid.

    This class shows one sentence and accepts any whole number as an answer.

    Parameters
    ----------
    options
        Table ``[trial]`` of the study's settings.

    Attributes
    ----------
    module
        Path of the JavaScript module: relative to the page's scripts, or a file beside the Python
        file that defines the class.
    is_pair
        Whether a trial is a pair of sentences. Answers to pairs are exported as ``choices.csv``.
    required_fields, optional_fields
        Fields of a trial: keys of practice trials and attention checks and, except for pairs,
        columns of the design's table.
    text_keys
        Texts of the page, such as instructions, that this presentation needs in another wording.
        Mapping from the key of the general text to the key of the replacement.
    translations
        Replacement texts by language and key, unless contstim's own translations include them;
        ``en`` is required.
    title, task, practice
        Defaults of a new study: its title, the description of the task in the consent form, and
        TOML tables ``[[practice]]``.
    answer_description
        Possible answers, for the documentation of exported data.
    time_columns
        Names of the times in the additional data of an answer (field ``detail``) that become
        columns of the exported table. None exports every text and number as ``detail_NAME``.
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
    def name(self) -> str:
        """Name in the study's settings, for example ``rating``."""
        return self._options.presentation

    @property
    def scale(self) -> str:
        """Name of the response scale, which must be the same for all answers of a data file."""
        return self.module

    def find_module(self, folder: Path) -> Path:
        """Return the path of the JavaScript module that shows the trials.

        Parameters
        ----------
        folder
            Folder of the study, which contains a custom module.
        """
        if _MODULE_FILE.fullmatch(self._options.presentation):
            return folder / self.module
        bundled = PAGE_FOLDER / self.module
        return bundled if bundled.is_file() else Path(getfile(type(self))).with_name(self.module)

    def translated_texts(self, language: str) -> Mapping[str, str]:
        """Return texts of the experiment page, such as instructions, for this presentation.

        A presentation can replace the general texts of the page. The replacements are in English if
        the presentation has none in `language`.

        Parameters
        ----------
        language
            Code of the language, for example ``de``.

        Returns
        -------
        mapping
            Replacement of each text, by the key of the text.
        """
        return self.translations.get(language, self.translations.get("en", {}))

    def choices(self, fields: Mapping[str, str]) -> Sequence[int] | None:
        """Return the valid answers to a trial.

        Parameters
        ----------
        fields
            Texts that the trial shows, by field.

        Returns
        -------
        sequence of int, or None
            Valid answers. None means that every whole number is valid.
        """
        return None

    def choice_to_rating(self, choice: int, side_1: str) -> float:
        """Convert the choice between two sentences to a rating between -2.5 and 2.5.

        The rating is negative if the participant prefers sentence 1. Its absolute value increases
        with the participant's confidence.

        Parameters
        ----------
        choice
            One of `choices`, from the strongest preference for the left sentence to the strongest
            preference for the right one. The ratings of adjacent choices are equally spaced.
        side_1
            Side of sentence 1, ``left`` or ``right``.

        Raises
        ------
        InputError
            If the choice is invalid.
        """
        choices = sorted(self.choices({}) or ())  # the same for all pairs of sentences
        if type(choice) is not int or choice not in choices:
            raise InputError(f"choice is {choice!r}; it is one of {', '.join(map(str, choices))}")
        # Position of the choice from 0 (strongest preference for the left sentence) to 1 (right).
        position = choices.index(choice) / (len(choices) - 1)
        rating = round(5 * position - 2.5, 6)
        return rating if side_1 == "left" else -rating  # negative for sentence 1

    def expected_answers(self, fields: Mapping[str, str]) -> Sequence[str] | None:
        """Return the expected answers that a trial may define, for example in catch trials.

        Parameters
        ----------
        fields
            Texts that the trial shows, by field.

        Returns
        -------
        sequence of str, or None
            Valid values. None means that every whole number is valid.
        """
        return None

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether a choice is the expected answer.

        Parameters
        ----------
        choice
            Number of the option that the participant chose.
        expected
            Expected answer as text, one of `expected_answers`.
        """
        return choice == int(expected)

    def check_fields(self, fields: Mapping[str, str]) -> None:
        """Check that the texts of a trial can be shown; by default every text is accepted.

        Parameters
        ----------
        fields
            Texts of the trial, by field.

        Raises
        ------
        InputError
            If the text of a field cannot be shown; the message names the field.
        """

    def check_expected(self, fields: Mapping[str, str], expected: str) -> None:
        """Check that the expected answer of a trial is a valid answer.

        Parameters
        ----------
        fields
            Texts of the trial, by field.
        expected
            Expected answer as text, for example ``left``, ``yes`` or a number.

        Raises
        ------
        InputError
            If the expected answer is invalid; the message lists the valid values.
        """
        answers = self.expected_answers(fields)
        if answers is None:  # any whole number is valid
            is_valid = re.fullmatch(r"-?\d{1,6}", expected) is not None
            valid_answers = "a whole number"
        else:
            is_valid = expected in answers
            valid_answers = " or ".join(map(repr, answers)) or "nothing"
        if not is_valid:
            raise InputError(f"expected is {expected!r}; here it is {valid_answers}")

    def check_answer(self, fields: Mapping[str, str], choice: int, detail: str) -> None:
        """Check that an answer to a trial is valid.

        Parameters
        ----------
        fields
            Texts of the trial, by field.
        choice
            Number of the option that the participant chose.
        detail
            Additional data of the answer, a JSON object as text.

        Raises
        ------
        InputError
            If the answer is invalid; the message names the field.
        """
        choices = self.choices(fields)
        if choices is not None and choice not in choices:
            raise InputError(f"choice is {choice}; it is one of {', '.join(map(str, choices))}")
        if abs(choice) > 10**9:  # must fit a 32-bit integer column
            raise InputError(f"choice is {choice}; give at most nine digits")

    def detail_columns(self, detail: str) -> dict[str, str | int | float]:
        """Return the columns to export, by name, from the additional data of an answer.

        In addition to the choice, the JavaScript module of a presentation may send further data,
        such as reading times. The attribute `time_columns` defines which of them are exported.

        Parameters
        ----------
        detail
            Additional data of the answer, a JSON object as text.
        """
        values = parse_detail(detail)
        if self.time_columns is not None:
            times = {name: values.get(name) for name in self.time_columns}
            return {name: time for name, time in times.items() if is_time(time)}
        # A custom presentation may send any data; values that fit into a table cell are exported.
        return {
            f"detail_{name}": value
            for name, value in values.items()
            if isinstance(value, str | int | float) and _COLUMN.fullmatch(name)
        }

    def word_times(self, detail: str) -> list[tuple[str, float]]:
        """Return the words in the order of reading, with their times in milliseconds.

        The times are part of the additional data of an answer to `SelfPacedReading`. For answers
        without such data, the list is empty.

        Parameters
        ----------
        detail
            Additional data of the answer, a JSON object as text.
        """
        try:
            return read_word_times(detail)
        except InputError:
            return []


class PairChoice(Presentation):
    """Trials in which participants choose one of two sentences, with levels of confidence."""

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
    answer_description = (
        "-levels (strongest preference for left) to levels (strongest preference for right), "
        "never 0"
    )
    time_columns: ClassVar[Sequence[str] | None] = ()

    @property
    def scale(self) -> str:
        """Number of confidence levels per sentence, as text."""
        return str(self._options.levels)

    def choices(self, fields: Mapping[str, str]) -> Sequence[int]:
        """Return the answer codes, -n to -1 and 1 to n, for n levels of confidence.

        Negative numbers are choices of the left sentence. The absolute value increases with the
        participant's confidence.
        """
        levels = self._options.levels
        return (*range(-levels, 0), *range(1, levels + 1))

    def expected_answers(self, fields: Mapping[str, str]) -> Sequence[str]:
        """Return the two sides."""
        return ("left", "right")

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether a choice is on the expected side."""
        return (choice < 0) == (expected == "left")


class SentenceRating(Presentation):
    """Trials in which participants rate one sentence on a scale of points, from 1."""

    module = "presentations/rating.js"
    text_keys: ClassVar = {
        "instructions_text": "rating_instructions",
        "trial_prompt": "rating_prompt",
        **_SINGLE_SENTENCE_TEXTS,
    }
    answer_description = "1 (lowest) to the number of points"
    time_columns = ()

    @property
    def scale(self) -> str:
        """Text with the number of points, which distinguishes scales of different lengths."""
        return f"rating of {self._options.points}"

    def choices(self, fields: Mapping[str, str]) -> Sequence[int]:
        """Return the points of the scale."""
        return range(1, self._options.points + 1)

    def expected_answers(self, fields: Mapping[str, str]) -> Sequence[str]:
        """Return the points of the scale."""
        return [str(point) for point in self.choices(fields)]


class SelfPacedReading(Presentation):
    """Trials of self-paced reading: participants read a sentence, then may answer a question.

    The question is answered with yes or no. The choice is 1 for yes, 2 for no, and 0 without a
    question. The additional data of an answer contain the regions of the sentence (``words``) and
    their reading times in milliseconds (``rt_ms``).
    """

    module = "presentations/reading.js"
    optional_fields = ("question",)
    text_keys: ClassVar = {
        "instructions_text": "reading_instructions",
        "instructions_keys": "reading_keys",
        "trial_prompt": "reading_prompt",
        **_SINGLE_SENTENCE_TEXTS,
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

    def check_fields(self, fields: Mapping[str, str]) -> None:
        """Check that vertical bars in a sentence clearly mark the boundaries between regions.

        Participants see one region at a time. By default each word is a region. If the sentence
        contains vertical bars, as in "The old man| the boats.", the parts between them are the
        regions. A bar must directly follow or precede a word, because a bar between spaces may be
        part of the text.
        """
        sentence = fields["sentence"]
        # A bar between spaces is a "word" that consists of bars only.
        if any(set(word) == {"|"} for word in sentence.split()):
            raise InputError(
                f"sentence {sentence[:40]!r} has a bar between spaces; attach a bar that separates "
                "regions to a word ('The old man| the boats.'), and rephrase a sentence with a bar "
                "in its text, which cannot be shown"
            )

    def choices(self, fields: Mapping[str, str]) -> Sequence[int]:
        """Return yes and no as numbers, or 0 without a question."""
        return tuple(_YES_NO.values()) if fields.get("question") else (0,)

    def expected_answers(self, fields: Mapping[str, str]) -> Sequence[str]:
        """Return yes and no, or nothing without a question."""
        return tuple(_YES_NO) if fields.get("question") else ()

    def is_correct(self, choice: int, expected: str) -> bool:
        """Return whether the choice is the expected answer, yes or no."""
        return choice == _YES_NO[expected]

    def check_answer(self, fields: Mapping[str, str], choice: int, detail: str) -> None:
        """Check an answer, which must have a reading time for each region of the sentence."""
        super().check_answer(fields, choice, detail)
        sentence = fields["sentence"]
        # Split into regions as the page does (presentations/reading.js).
        parts = sentence.split("|") if "|" in sentence else re.split(" +", sentence)
        regions = [part.strip() for part in parts if part.strip()]
        if [word for word, _ in read_word_times(detail)] != regions:
            raise InputError(f"the words of the answer differ from the words of {sentence!r}")


class CustomPresentation(Presentation):
    """JavaScript module in the study's folder that shows columns of the design.

    Any whole number is a possible answer.
    """

    def __init__(self, options: TrialOptions) -> None:
        super().__init__(options)
        self.module, self.required_fields = options.presentation, options.columns


class CustomPairPresentation(PairChoice):
    """JavaScript module in the study's folder that shows pairs, with the levels of `PairChoice`."""

    time_columns = None

    def __init__(self, options: TrialOptions) -> None:
        super().__init__(options)
        self.module = options.presentation


#: Presentations by name, except custom modules in a study's folder.
PRESENTATIONS: Registry[type[Presentation]] = Registry(
    "presentation",
    "contstim.presentations",
    {"choice": PairChoice, "rating": SentenceRating, "reading": SelfPacedReading},
    Presentation,
)


def make_presentation(options: TrialOptions) -> Presentation:
    """Create the object that defines how a study shows trials and which answers are valid.

    Parameters
    ----------
    options
        Table ``[trial]`` of the study's settings, with the name of the presentation.

    Raises
    ------
    InputError
        If the presentation does not exist, or columns are given for one that is not custom.
    """
    name = options.presentation
    if _MODULE_FILE.fullmatch(name):  # JavaScript file of a custom presentation
        return (CustomPresentation if options.columns else CustomPairPresentation)(options)
    if name not in PRESENTATIONS:
        raise InputError(
            f"trial.presentation is {name!r}; give one of {', '.join(PRESENTATIONS)}, or a file of "
            "the study's folder such as 'mine.js'"
        )
    if options.columns:
        raise InputError(
            f"trial.columns is {list(options.columns)} with presentation {name!r}; leave it out, "
            "only custom modules have columns"
        )
    return PRESENTATIONS[name](options)
