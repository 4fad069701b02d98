"""Settings of a study, one class per table of ``study.toml``."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.experiment.recruitment import Recruiter
from contstim.settings import (
    NonNegativeInt,
    PositiveInt,
    TupleFromList,
    settings,
    validate_choice,
    validate_pattern,
)


def _validate_length(maximum: int) -> AfterValidator:
    return validate_pattern(rf"(?s)(?=.*\S).{{1,{maximum}}}", f"give 1 to {maximum} characters")


_Sentence = Annotated[str, _validate_length(2000)]

#: Maximum number of characters of a response to a question, also enforced by the page.
MAX_RESPONSE_LENGTH = 5000

_Name = Annotated[
    str,
    validate_pattern(r"[A-Za-z]\w{0,63}", "use up to 64 letters, digits and '_'; a letter first"),
]


@settings
class PageOptions:
    """Table ``[study]``: name, title and language of the study.

    Attributes
    ----------
    name
        Name in file names and on other servers: letters, digits, ``-`` and ``_``.
    title
        Title shown to participants.
    language
        Language tag, for example ``en`` or ``pt-BR``.
    direction
        Direction of the script: ``ltr`` or ``rtl``.
    description
        Description of the data set, one or two sentences, not shown to participants.
    url
        URL of the page, if known. Used to print the study URL for the recruitment platform.
    """

    name: Annotated[
        str,
        validate_pattern(
            r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "use up to 64 letters, digits, '-' and '_'"
        ),
    ]
    title: Annotated[str, _validate_length(255)]
    language: Annotated[
        str, validate_pattern(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "give a tag such as 'en'")
    ] = "en"
    direction: Annotated[str, validate_choice(("ltr", "rtl"), "study.direction")] = "ltr"
    description: str = ""
    url: Annotated[str, validate_pattern(r"(https?://\S+)?", "give its address, https://...")] = ""


@settings
class ConsentBox:
    """Table ``[[consent.boxes]]``: a checkbox below the consent form.

    Attributes
    ----------
    name
        Name of the checkbox in ``responses.csv``.
    text
        Label of the checkbox; ``[words](https://...)`` is a link.
    required
        Whether participants must tick the checkbox to take part.
    """

    name: _Name
    text: _Sentence
    required: bool = True


@settings
class ConsentOptions:
    """Table ``[consent]``: the consent form.

    Attributes
    ----------
    version
        Version of the form, stored with each consent.
    file
        File of the form in the study's folder.
    boxes
        Checkboxes that participants tick below the text of the form.
    warning
        Content warning above the form, shown before any sentence; empty for none.
    """

    version: Annotated[str, validate_pattern(r".*\S.*", "give the version your board approved")]
    file: str = "consent.md"
    boxes: TupleFromList[ConsentBox] = ()
    warning: Annotated[str, Field(max_length=2000)] = ""


@settings
class SessionOptions:
    """Table ``[session]``: time limits, breaks, and the effect of failed attention checks.

    Attributes
    ----------
    time_limit_minutes
        Time from consent to the last answer in minutes, measured by the server; 0 for no limit.
    minimum_rt_ms
        Minimum response time in milliseconds; the page ignores faster answers.
    break_every
        Maximum number of trials without a break; breaks are evenly spaced. 0 for no breaks.
    break_after
        Positions of further breaks: numbers of trials in the order of presentation.
    feedback
        Whether practice trials confirm on the screen that an answer was received. Other trials give
        no feedback.
    failed_checks_limit
        Number of failed attention checks (without catch trials) from which the outcome of a session
        is ``failed_checks``; 0 for no limit.
    end_immediately
        Whether a session ends when `failed_checks_limit` is reached, rather than after its last
        trial.
    """

    time_limit_minutes: Annotated[float, Field(ge=0, le=100_000)] = 0
    minimum_rt_ms: Annotated[int, Field(ge=0, le=100_000)] = 200
    break_every: Annotated[int, Field(ge=0, le=100_000)] = 0
    break_after: TupleFromList[PositiveInt] = ()
    feedback: bool = False
    failed_checks_limit: Annotated[int, Field(ge=0, le=100_000)] = 2
    end_immediately: bool = False

    def list_breaks(self, n_trials: int) -> list[int]:
        """Return the numbers of the trials after which there is a break.

        Parameters
        ----------
        n_trials
            Number of trials of the session. No break follows the last one.

        Returns
        -------
        list of int
            Trial numbers from 1, sorted.
        """
        breaks = set(self.break_after)
        if self.break_every:
            # Split the session into the smallest number of parts of at most `break_every` trials.
            n_parts = math.ceil(n_trials / self.break_every)
            breaks.update(round(part * n_trials / n_parts) for part in range(1, n_parts))
        return sorted(number for number in breaks if number < n_trials)


@settings
class TrialOptions:
    """Table ``[trial]``: the display and the responses in a trial.

    Attributes
    ----------
    presentation
        How the page shows a trial and collects the response: ``choice`` between two sentences,
        ``rating`` of one sentence, ``reading`` (self-paced, with an optional question), or a name
        that an installed package adds to `PRESENTATIONS`. The file name of a JavaScript module in
        the study's folder, for example ``mine.js``, selects a custom display.
    levels
        Number of confidence levels per sentence of a choice: 3 for six buttons, 1 for a forced
        choice.
    points
        Number of points of a rating scale.
    columns
        Columns of the study's table of trials that the page sends to a custom display, for example
        the name of an image file. If empty, it receives the two sentences of a pair.
    progress
        Position of the progress bar on the page: ``top`` or ``foot``.
    """

    presentation: str = "choice"
    levels: Annotated[int, Field(ge=1, le=4)] = 3
    points: Annotated[int, Field(ge=2, le=9)] = 7
    columns: TupleFromList[Annotated[str, _validate_length(64)]] = ()
    progress: Annotated[str, validate_choice(("top", "foot"), "trial.progress")] = "top"


@settings
class DeviceOptions:
    """Table ``[device]``: requirements on the device, checked before consent.

    Attributes
    ----------
    minimum_width
        Minimum width of the window in CSS pixels; 0 for any.
    touch
        ``allow`` or ``refuse`` devices that have a touch screen only.
    """

    minimum_width: Annotated[int, Field(ge=0, le=10_000)] = 0
    touch: Annotated[str, validate_choice(("allow", "refuse"), "device.touch")] = "allow"


@settings
class AllocationOptions:
    """Table ``[allocation]``: reuse of assignments after sessions were abandoned.

    An assignment is the list of trials for one participant of the design. Participants who return
    get their assignment back if it is still free. Otherwise they continue as additional
    participants of their group.

    Attributes
    ----------
    release_after_minutes
        Time without activity in minutes after which the assignment of a session is free again; 0
        for never.
    reassign_after_minutes
        Minimum time without activity in minutes after which, if no assignment is free, a new
        participant receives the assignment of the longest inactive session; 0 for never.
    reassign_unstarted_after_minutes
        The same time for sessions without any answer.
    sessions_per_client
        Number of sessions that one network address can open within a short time. After that, the
        address can open the same number per hour. 0 for no limit. All participants in a school or
        laboratory may have the same address.
    """

    release_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    reassign_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 10
    reassign_unstarted_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 5
    sessions_per_client: Annotated[int, Field(ge=0, le=1_000_000)] = 40


@settings
class Question:
    """Table ``[[questions]]``: a question before or after the trials.

    Attributes
    ----------
    name
        Name of the question in the data.
    prompt
        Text of the question.
    kind
        ``text``, ``choice`` (one of the options) or ``choices`` (any number of the options).
    when
        ``before`` the instructions, after them (``instructions``), or ``after`` the trials.
        Consecutive questions with the same value are shown on one screen.
    options
        Possible responses to a question of the kind ``choice`` or ``choices``.
    required
        Whether a response is required.
    rows
        Number of lines of a text field.
    admit
        Options that admit a participant (screening question). Any other response ends the session
        with the outcome ``screened_out``, and another participant can take its list of trials.
    correct
        Correct option (comprehension check). The screen is repeated until it is chosen.
    """

    name: _Name
    prompt: _Sentence
    kind: Annotated[str, validate_choice(("text", "choice", "choices"), "questions.kind")] = "text"
    when: Annotated[str, validate_choice(("before", "instructions", "after"), "questions.when")] = (
        "before"
    )
    options: TupleFromList[_Sentence] = ()
    required: bool = True
    rows: Annotated[int, Field(ge=1, le=20)] = 1
    admit: TupleFromList[str] = ()
    correct: str | None = None

    def __post_init__(self) -> None:
        subject = f"the question {self.name!r}"
        needs_options, has_options = self.kind != "text", bool(self.options)
        if needs_options != has_options:
            raise InputError(
                f"{subject} is of kind {self.kind} and has {len(self.options)} options; change one"
            )
        # Answers that admit a participant to the study, or that pass a comprehension check.
        answers = [*self.admit, *([] if self.correct is None else [self.correct])]
        for answer in answers:
            if answer not in self.options:
                raise InputError(f"{subject} has no option {answer!r}; give one of its options")
        if answers and (self.kind != "choice" or not self.required):
            raise InputError(f"{subject} must be a required choice to screen or check people")
        if self.admit and self.when == "after":
            raise InputError(f"{subject} comes after the trials; it cannot screen participants")

    def accepts(self, response: object) -> bool:
        """Return whether a response to the question is valid."""
        if self.kind == "choices":
            if not isinstance(response, list) or len(response) > len(self.options):
                return False
            return all(option in self.options for option in response)
        # A single choice or a text. An empty text means no response.
        if response == "":
            return not self.required
        if self.kind == "choice":
            return response in self.options
        return isinstance(response, str) and len(response) <= MAX_RESPONSE_LENGTH

    def screens_out(self, response: object) -> bool:
        """Return whether a response excludes the participant from the study."""
        return bool(self.admit) and response not in self.admit


@settings
class _FixedTrial:
    """Texts of a practice trial or attention check, which ``study.toml`` defines.

    The presentation of the study (for example, choice or rating) determines which fields are valid.

    Attributes
    ----------
    left, right
        Sentences of a pair.
    sentence
        Single sentence.
    question
        Question about the sentence.
    shown
        Fields of a JavaScript module in the study's folder, by column.
    """

    left: _Sentence | None = None
    right: _Sentence | None = None
    sentence: _Sentence | None = None
    question: _Sentence | None = None
    shown: dict[str, _Sentence] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, str]:
        """Fields that have a value, by name."""
        names = ("left", "right", "sentence", "question")
        fields = {name: getattr(self, name) for name in names}
        return {name: text for name, text in fields.items() if text is not None} | self.shown


@settings
class PracticeTrial(_FixedTrial):
    """Table ``[[practice]]``: a practice trial.

    Attributes
    ----------
    expected
        Expected answer, if any: ``left`` or ``right``, ``yes`` or ``no``, or a number. The trial is
        repeated until this answer is given.
    """

    expected: str | None = None


@settings
class AttentionCheck(_FixedTrial):
    """Table ``[[attention]]``: an attention check, a trial that states which answer to give.

    Attributes
    ----------
    after
        Number of the trial of the design that precedes the check; 0 for the start.
    expected
        Expected answer, as in `PracticeTrial`.
    """

    after: NonNegativeInt = field(kw_only=True)
    expected: str = field(kw_only=True)


@settings
class StudySettings:
    """All settings of a study in its file ``study.toml``.

    Attributes
    ----------
    study, consent, trial, device, session, allocation, recruiter, practice, attention, questions
        Tables of the same names; `recruiter` is None without a recruitment platform.
    adaptive
        Table ``[adaptive]``, not yet checked, for `AdaptivePlan`.
    format
        Version of the file format.
    """

    study: PageOptions
    consent: ConsentOptions
    trial: TrialOptions = field(default_factory=TrialOptions)
    device: DeviceOptions = field(default_factory=DeviceOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    recruiter: Recruiter | None = None
    practice: TupleFromList[PracticeTrial] = ()
    attention: TupleFromList[AttentionCheck] = ()
    questions: TupleFromList[Question] = ()
    adaptive: Any = None
    format: int = 1

    def __post_init__(self) -> None:
        names = [box.name for box in self.consent.boxes]
        names += [question.name for question in self.questions]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two questions have the name {name!r}; give each its own")
