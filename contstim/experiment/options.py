"""What ``study.toml`` says: small records, each one table of the file."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.settings import (
    NonNegativeInt,
    PositiveInt,
    TupleFromList,
    settings,
    validate_choice,
    validate_pattern,
)

#: How a session can end; each may have a completion code of its own. `unsent` is no end of a
#: session: its code is shown while answers that were given do not arrive.
OUTCOMES = (
    "complete", "declined", "screened_out", "failed_checks", "time_limit", "full", "unsent"
)  # fmt: skip


def _text_of(longest: int) -> AfterValidator:
    return validate_pattern(rf"(?s)(?=.*\S).{{1,{longest}}}", f"give 1 to {longest} characters")


_Sentence = Annotated[str, _text_of(2000)]

#: Characters of what is written in answer to a question; the page's fields hold no more.
MAX_RESPONSE_LENGTH = 5000

_Name = Annotated[
    str,
    validate_pattern(r"[A-Za-z]\w{0,63}", "use up to 64 letters, digits and '_'; a letter first"),
]

_Code = Annotated[
    str, validate_pattern(r"[A-Za-z0-9._-]{1,64}", "use up to 64 letters, digits, '.', '-' and '_'")
]

#: The name of a parameter of a web address.
_Parameter = Annotated[
    str, validate_pattern(r"[A-Za-z0-9_-]{1,64}", "that is not a name of a parameter of an address")
]


@settings
class PageOptions:
    """``[study]``: what the study is called and the script it is written in.

    Attributes
    ----------
    name
        Letters, digits, ``-`` and ``_``; names files, and is the experiment's id elsewhere.
    title
        What participants see.
    language
        A language tag, ``en`` or ``pt-BR``.
    direction
        ``ltr`` or ``rtl``.
    description
        One or two sentences for the data set; participants do not see them.
    url
        The page's address for participants, if it is known: part of what the recruiter is given.
    """

    name: Annotated[
        str,
        validate_pattern(
            r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "use up to 64 letters, digits, '-' and '_'"
        ),
    ]
    title: Annotated[str, _text_of(255)]
    language: Annotated[
        str, validate_pattern(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "give a tag such as 'en'")
    ] = "en"
    direction: Annotated[str, validate_choice(("ltr", "rtl"), "study.direction")] = "ltr"
    description: str = ""
    url: Annotated[
        str, validate_pattern(r"(https?://\S+)?", "give the page's address, https://...")
    ] = ""


@settings
class ConsentBox:
    """One ``[[consent.boxes]]``: something to tick below the consent form.

    Attributes
    ----------
    name
        What the data call it; whether it was ticked is an answer among ``responses.csv``.
    text
        What stands beside it; ``[words](https://...)`` is a link.
    required
        Whether nobody takes part who does not tick it.
    """

    name: _Name
    text: _Sentence
    required: bool = True


@settings
class ConsentOptions:
    """``[consent]``: the version that is stored with each consent, the file of the text, boxes.

    Attributes
    ----------
    warning
        A content warning, shown above the text; empty for none. Who declines has seen nothing.
    """

    version: Annotated[
        str, validate_pattern(r".*\S.*", "give the version that your board approved")
    ]
    file: str = "consent.md"
    boxes: TupleFromList[ConsentBox] = ()
    warning: Annotated[str, Field(max_length=2000)] = ""


@settings
class SessionOptions:
    """``[session]``: how a session runs.

    Attributes
    ----------
    time_limit_minutes
        From consent to the last answer, measured by the server across reloads; 0 for none.
    minimum_rt_ms
        Answers given sooner after the sentences appear are ignored by the page.
    break_every
        At most so many trials without a break: they are parted evenly; 0 for none.
    break_after
        Breaks after these trials (counted as participants see them), besides.
    feedback
        Whether practice trials say that an answer was taken.
    failed_checks_from
        A session with this many failed attention checks (``[[attention]]``; catch trials do not
        count) ends with the outcome ``failed_checks``; 0 for never.
    end_immediately
        Whether it ends at the check that was one too many, or after the last trial.
    """

    time_limit_minutes: Annotated[float, Field(ge=0, le=100_000)] = 0
    minimum_rt_ms: Annotated[int, Field(ge=0, le=100_000)] = 200
    break_every: Annotated[int, Field(ge=0, le=100_000)] = 0
    break_after: TupleFromList[PositiveInt] = ()
    feedback: bool = False
    failed_checks_from: Annotated[int, Field(ge=0, le=100_000)] = 2
    end_immediately: bool = False

    def list_breaks(self, n_trials: int) -> list[int]:
        """Return the numbers of the trials after which there is a break, the last excluded."""
        parts = -(-n_trials // self.break_every) if self.break_every else 1
        regular = (round(part * n_trials / parts) for part in range(1, parts))
        return sorted({number for number in (*regular, *self.break_after) if number < n_trials})


@settings
class TrialOptions:
    """``[trial]``: how a trial is shown and asked about.

    Attributes
    ----------
    presentation
        ``choice``: which of two sentences; ``rating``: one sentence on a scale; ``reading``:
        self-paced reading, with a question afterwards where the design has one; or one that an
        installed package brings (see `PRESENTATIONS`). Or a module of JavaScript in the study's
        folder, such as ``mine.js``.
    levels
        Of a choice, levels of confidence for each sentence: 3 for six buttons, 1 for a forced
        choice.
    points
        Of a rating, points of the scale.
    columns
        Columns of the design that a module of the study's own is given; without any it is given
        pairs.
    progress
        Where the page says how far the session is: ``top`` or ``foot``.
    """

    presentation: str = "choice"
    levels: Annotated[int, Field(ge=1, le=4)] = 3
    points: Annotated[int, Field(ge=2, le=9)] = 7
    columns: TupleFromList[Annotated[str, _text_of(64)]] = ()
    progress: Annotated[str, validate_choice(("top", "foot"), "trial.progress")] = "top"


@settings
class DeviceOptions:
    """``[device]``: who is asked, before consent, to come back with another device.

    Attributes
    ----------
    minimum_width
        The least width of the window, in CSS pixels; 0 for any.
    touch
        ``allow``, or ``refuse`` devices whose only pointer is a finger.
    """

    minimum_width: Annotated[int, Field(ge=0, le=10_000)] = 0
    touch: Annotated[str, validate_choice(("allow", "refuse"), "device.touch")] = "allow"


@settings
class AllocationOptions:
    """``[allocation]``: when an abandoned session's assignment goes to the next participant.

    Who comes back before the assignment is taken gets it back; who comes later goes on all the
    same, as one more of the group.

    Attributes
    ----------
    release_after_minutes
        A session without a sign of life for so long is released; 0 for never.
    reassign_after_minutes
        When no assignment is free, the session that has been silent longest, so long at least,
        gives its own to a newcomer; 0 for never.
    reassign_unstarted_after_minutes
        The same for a session that has answered no trial yet.
    sessions_per_client
        Sessions that one network address may open at once, and as many again every hour; 0 for any
        number. A school or laboratory may have one address.
    """

    release_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    reassign_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 10
    reassign_unstarted_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 5
    sessions_per_client: Annotated[int, Field(ge=0, le=1_000_000)] = 40


@settings
class Codes:
    """``[recruiter.codes]``: the completion code of each outcome."""

    complete: _Code | None = None
    declined: _Code | None = None
    screened_out: _Code | None = None
    failed_checks: _Code | None = None
    time_limit: _Code | None = None
    full: _Code | None = None
    unsent: _Code | None = None


#: What stands for ids in the address that is given to a recruiter, by its name and the parameter.
_PLACEHOLDERS = {
    "prolific": {name: f"{{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")},
    "sona": {"": "%SURVEY_CODE%"},
}


@settings
class Recruiter:
    """``[recruiter]``: where participants come from and go back to.

    Attributes
    ----------
    name
        ``prolific``, ``sona``, ``mturk`` or any other, as participants are told it.
    participant
        The parameter of the page's address that holds the recruiter's id of the participant.
    required
        Whether nobody takes part without it.
    parameters
        Other parameters that are stored.
    redirect
        Where participants return to: ``{code}`` stands for the completion code, ``{participant}``
        for the participant's id, and names of `parameters` for what the address held. Without
        ``{code}`` it is for complete sessions only, since it may be the page that credits them.
    codes
        Completion codes; the table ``[recruiter.codes]``.
    """

    name: str
    participant: _Parameter | None = None
    required: bool = False
    parameters: TupleFromList[_Parameter] = ()
    redirect: str | None = None
    codes: Codes = field(default_factory=Codes)

    def __post_init__(self) -> None:
        if self.required and not self.participant:
            raise InputError("recruiter.required is true; say which parameter in participant")
        if self.redirect is None:
            return
        parts = urlsplit(self.redirect)
        if parts.scheme != "https" or not parts.netloc:
            raise InputError(f"recruiter.redirect is {self.redirect!r}; give an https address")
        filled_in = ["code", *(["participant"] if self.participant else []), *self.parameters]
        for name in re.findall(r"\{(\w*)\}", self.redirect):
            if name not in filled_in:
                offered = ", ".join(f"{{{key}}}" for key in filled_in)
                raise InputError(
                    f"recruiter.redirect holds {{{name}}}; the page fills in {offered} there"
                )

    def is_valid_id(self, text: str) -> bool:
        """Return whether a participant's id is one that this recruiter may give."""
        return bool(re.fullmatch(r"[A-Za-z0-9_.@-]{1,128}", text))

    def check_id(self, who: str | None) -> None:
        """Refuse who comes without a participant's id that is needed, or with one that is none.

        Raises
        ------
        InputError
            Naming the parameter or the id.
        """
        if self.required and not who:
            raise InputError(f"the participant's id ({self.participant}) is missing")
        if who and not self.is_valid_id(who):
            raise InputError(
                f"the participant's id is {who!r}, which no recruiter gives; open the study from "
                "the recruiter's page again"
            )

    @property
    def title(self) -> str:
        """The name as participants read it."""
        return {"prolific": "Prolific", "sona": "SONA", "mturk": "MTurk"}.get(self.name, self.name)

    def make_completion_link(self, outcome: str) -> tuple[str | None, str | None]:
        """Return the completion code of `outcome` and the address to return to.

        Where failed checks have no code of their own, it is that of a complete session. Names in
        braces other than ``{code}`` stay: the page fills them in.
        """
        code: str | None = getattr(self.codes, outcome)
        if code is None and outcome == "failed_checks":
            code = self.codes.complete
        redirect = self.redirect
        if redirect is not None and outcome != "complete" and "{code}" not in redirect:
            redirect = None
        if redirect is None or ("{code}" in redirect and code is None):
            return code, None
        return code, redirect.replace("{code}", code or "")

    def make_study_url(self, page: str) -> str:
        """Return what to give the recruiter as the study's address, `page` being the page's own."""
        placeholders = _PLACEHOLDERS.get(self.name, {})
        names = [name for name in (self.participant, *self.parameters) if name]
        query = [
            f"{name}={placeholders.get(name) or placeholders.get('', '...')}"
            for name in names
            if name == self.participant or name in placeholders
        ]
        return f"{page}?{'&'.join(query)}" if query else page


@settings
class Question:
    """One ``[[questions]]``: something asked before or after the trials.

    Attributes
    ----------
    name
        What the data call it.
    prompt
        The question.
    kind
        ``text``, ``choice`` (one of the options) or ``choices`` (any of them).
    when
        ``before`` the instructions, after them (``instructions``), or ``after`` the trials.
        Questions of one kind that follow each other stand on one screen.
    options
        What can be chosen.
    required
        Whether it must be answered.
    rows
        Lines of the field of a text.
    admit
        A screener: who chooses none of these cannot take part, the session ends as
        ``screened_out`` and its assignment is free again.
    correct
        A check of understanding: the screen is shown again until this is the answer.
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
        where = f"the question {self.name!r}"
        if (self.kind == "text") != (not self.options):
            raise InputError(f"{where} is a {self.kind} with {len(self.options)} options; check it")
        wanted = [*self.admit, *([] if self.correct is None else [self.correct])]
        for answer in wanted:
            if answer not in self.options:
                raise InputError(f"{where} has no option {answer!r}; write it as among options")
        if wanted and (self.kind != "choice" or not self.required):
            raise InputError(f"{where} must be a required choice to screen or check people")
        if self.admit and self.when == "after":
            raise InputError(f"{where} comes after the trials; it cannot say who takes part")

    def accepts(self, response: object) -> bool:
        """Return whether that can be answered."""
        if self.kind == "choices":
            chosen = response if isinstance(response, list) else [None]
            return len(chosen) <= len(self.options) and all(one in self.options for one in chosen)
        if response == "":
            return not self.required
        if self.kind == "choice":
            return response in self.options
        return isinstance(response, str) and len(response) <= MAX_RESPONSE_LENGTH

    def screens_out(self, response: object) -> bool:
        """Return whether who answers so cannot take part."""
        return bool(self.admit) and response not in self.admit


@settings
class _Shown:
    """What a trial outside the design shows; which of it depends on the presentation.

    Attributes
    ----------
    left, right
        Two sentences.
    sentence, question
        One sentence, and what is asked about it.
    shown
        What a module of the study's own shows, by the names of its columns.
    """

    left: _Sentence | None = None
    right: _Sentence | None = None
    sentence: _Sentence | None = None
    question: _Sentence | None = None
    shown: dict[str, _Sentence] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, str]:
        """What is shown, by its names."""
        names = ("left", "right", "sentence", "question")
        own = {name: value for name in names if (value := getattr(self, name)) is not None}
        return own | self.shown


@settings
class PracticeTrial(_Shown):
    """One ``[[practice]]``: a trial to try the keys on.

    With `expected` (``left`` or ``right``, ``yes`` or ``no``, or a number), it is shown again until
    that is answered.
    """

    expected: str | None = None


@settings
class AttentionCheck(_Shown):
    """One ``[[attention]]``: a trial whose text says what to answer.

    Attributes
    ----------
    after
        It is shown after this trial of the design (0: before the first).
    expected
        What to answer, as of `PracticeTrial`.
    """

    after: NonNegativeInt = field(kw_only=True)
    expected: str = field(kw_only=True)


@settings
class StudySettings:
    """All that ``study.toml`` says.

    Attributes
    ----------
    study, consent, trial, device, session, allocation, recruiter, practice, attention, questions
        Its tables; `recruiter` is None where there is none.
    adaptive
        The table ``[adaptive]`` as it stands there, for `AdaptivePlan`.
    format
        Of the file.
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
        names = [box.name for box in self.consent.boxes] + [one.name for one in self.questions]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two questions have the name {name!r}; give each its own")
