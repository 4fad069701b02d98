"""What ``study.toml`` says: small records, each one table of the file."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.settings import Count, Natural, Several, matching, one_of, settings

__all__ = [
    "OUTCOMES",
    "AllocationOptions",
    "AttentionCheck",
    "Codes",
    "ConsentOptions",
    "PageOptions",
    "PracticePair",
    "Recruiter",
    "SessionOptions",
]

#: How a session can end; each may have a completion code of its own. `unsent` is no end of a
#: session: its code is shown while answers that were given do not arrive.
OUTCOMES = ("complete", "declined", "failed_checks", "time_limit", "full", "unsent")


def _text_of(longest: int) -> AfterValidator:
    return matching(rf"(?s)(?=.*\S).{{1,{longest}}}", f"give 1 to {longest} characters")


_Sentence = Annotated[str, _text_of(2000)]

_Code = Annotated[
    str, matching(r"[A-Za-z0-9._-]{1,64}", "use up to 64 letters, digits, '.', '-' and '_'")
]

#: The name of a parameter of a web address.
_Parameter = Annotated[
    str, matching(r"[A-Za-z0-9_-]{1,64}", "that is no name of a parameter of an address")
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
    """

    name: Annotated[
        str,
        matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "use up to 64 letters, digits, '-' and '_'"),
    ]
    title: Annotated[str, _text_of(255)]
    language: Annotated[
        str, matching(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "give a tag such as 'en'")
    ] = "en"
    direction: Annotated[str, one_of(("ltr", "rtl"), "study.direction")] = "ltr"
    description: str = ""


@settings
class ConsentOptions:
    """``[consent]``: the version that is stored with each consent, and the file of the text."""

    version: Annotated[str, matching(r".*\S.*", "give the version that your board approved")]
    file: str = "consent.md"


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
        A break after each so many trials; 0 for none.
    break_after
        Breaks after these trials (counted as participants see them), besides.
    feedback
        Whether practice trials say that an answer was taken.
    failed_checks_from
        A session with this many failed attention checks (``[[attention]]``; catch trials do not
        count) ends with the outcome ``failed_checks``; 0 for never.
    """

    time_limit_minutes: Annotated[float, Field(ge=0, le=100_000)] = 0
    minimum_rt_ms: Annotated[int, Field(ge=0, le=100_000)] = 200
    break_every: Annotated[int, Field(ge=0, le=100_000)] = 0
    break_after: Several[Count] = ()
    feedback: bool = False
    failed_checks_from: Annotated[int, Field(ge=0, le=100_000)] = 2

    def breaks(self, n_trials: int) -> list[int]:
        """Return the numbers of the trials after which there is a break, the last excluded."""
        regular = range(self.break_every, n_trials, self.break_every) if self.break_every else ()
        return sorted({number for number in (*regular, *self.break_after) if number < n_trials})


@settings
class AllocationOptions:
    """``[allocation]``: when an abandoned session's assignment goes to the next participant.

    Who comes back before the assignment is taken gets it back; who comes later goes on all the
    same, as one more of the group.

    Attributes
    ----------
    release_after_minutes
        A session without a sign of life for so long is released; 0 for never.
    hand_on_after_minutes
        When no assignment is free, the session that has been silent longest, so long at least,
        gives its own to a newcomer; 0 for never.
    hand_on_unbegun_after_minutes
        The same for a session that has answered no trial yet.
    """

    release_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    hand_on_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 10
    hand_on_unbegun_after_minutes: Annotated[float, Field(ge=0, le=1_000_000)] = 5


@settings
class Codes:
    """``[recruiter.codes]``: the completion code of each outcome."""

    complete: _Code | None = None
    declined: _Code | None = None
    failed_checks: _Code | None = None
    time_limit: _Code | None = None
    full: _Code | None = None
    unsent: _Code | None = None


@settings
class Recruiter:
    """``[recruiter]``: where participants come from and go back to.

    Attributes
    ----------
    name
        ``prolific``, or any other.
    participant
        The parameter of the page's address that holds the recruiter's id of the participant.
    required
        Whether nobody takes part without it.
    parameters
        Other parameters that are stored.
    redirect
        Where participants return to; ``{code}`` stands for the completion code.
    codes
        Completion codes; the table ``[recruiter.codes]``.
    """

    name: str
    participant: _Parameter | None = None
    required: bool = False
    parameters: Several[_Parameter] = ()
    redirect: str | None = None
    codes: Codes = field(default_factory=Codes)

    def __post_init__(self) -> None:
        if self.required and not self.participant:
            raise InputError("recruiter.required is true; say which parameter in participant")
        if self.redirect is not None:
            parts = urlsplit(self.redirect)
            if parts.scheme != "https" or not parts.netloc:
                raise InputError(f"recruiter.redirect is {self.redirect!r}; give an https address")

    def link(self, outcome: str) -> tuple[str | None, str | None]:
        """Return the completion code of `outcome` and the address to return to.

        Where failed checks have no code of their own, it is that of a complete session.
        """
        code: str | None = getattr(self.codes, outcome)
        if code is None and outcome == "failed_checks":
            code = self.codes.complete
        if self.redirect is None or ("{code}" in self.redirect and code is None):
            return code, None
        return code, self.redirect.replace("{code}", code or "")


@settings
class PracticePair:
    """One ``[[practice]]``: two sentences to try the keys on."""

    left: _Sentence
    right: _Sentence


@settings
class AttentionCheck:
    """One ``[[attention]]``: a trial whose text says what to answer.

    Attributes
    ----------
    after
        It is shown after this trial of the design (0: before the first).
    left, right
        What stands on the two sides.
    expected
        The side to choose, ``left`` or ``right``.
    """

    after: Natural
    left: _Sentence
    right: _Sentence
    expected: Annotated[str, one_of(("left", "right"), "attention.expected")]
