"""What ``study.toml`` says: small records, each one table of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from urllib.parse import urlsplit

from contstim.errors import InputError, UnknownNameError

__all__ = [
    "OUTCOMES",
    "AllocationOptions",
    "AttentionCheck",
    "Codes",
    "ConsentOptions",
    "PracticePair",
    "Recruiter",
    "SessionOptions",
    "StudyOptions",
]

#: How a session can end; each may have a completion code of its own. `unsent` is no end of a
#: session: its code is shown while answers that were given do not arrive.
OUTCOMES = ("complete", "declined", "failed_checks", "time_limit", "full", "unsent")

_LONGEST = 2000  # characters of a sentence


@dataclass(frozen=True)
class StudyOptions:
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

    name: str
    title: str
    language: str = "en"
    direction: str = "ltr"
    description: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", self.name):
            raise InputError(
                f"study.name is {self.name!r}; use up to 64 letters, digits, '-' and '_'"
            )
        if not self.title.strip() or len(self.title) > 255:
            raise InputError(f"study.title is {self.title[:40]!r}; give 1 to 255 characters")
        if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", self.language):
            raise InputError(f"study.language is {self.language!r}; give a tag such as 'en'")
        if self.direction not in ("ltr", "rtl"):
            raise UnknownNameError.among("study.direction", self.direction, ("ltr", "rtl"))


@dataclass(frozen=True)
class ConsentOptions:
    """``[consent]``: the version that is stored with each consent, and the file of the text."""

    version: str
    file: str = "consent.md"

    def __post_init__(self) -> None:
        if not self.version.strip():
            raise InputError("consent.version is empty; give the version that your board approved")


@dataclass(frozen=True)
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

    time_limit_minutes: float = 0
    minimum_rt_ms: int = 200
    break_every: int = 0
    break_after: tuple[int, ...] = ()
    feedback: bool = False
    failed_checks_from: int = 2

    def __post_init__(self) -> None:
        for name in (
            "time_limit_minutes",
            "minimum_rt_ms",
            "break_every",
            "failed_checks_from",
        ):
            value = getattr(self, name)
            if not 0 <= value <= 100_000:
                raise InputError(f"session.{name} is {value}; give 0 or more")
        for number in self.break_after:
            if number < 1:
                raise InputError(f"session.break_after holds {number}; trials count from 1")

    def breaks(self, n_trials: int) -> list[int]:
        """Return the numbers of the trials after which there is a break, the last excluded."""
        regular = range(self.break_every, n_trials, self.break_every) if self.break_every else ()
        return sorted({number for number in (*regular, *self.break_after) if number < n_trials})


@dataclass(frozen=True)
class AllocationOptions:
    """``[allocation]``: when an abandoned session's assignment goes to the next participant.

    `release_after_minutes` without an answer, 0 for never. Who comes back before the assignment is
    taken gets it back.
    """

    release_after_minutes: float = 0

    def __post_init__(self) -> None:
        if not 0 <= self.release_after_minutes <= 1_000_000:
            raise InputError(
                f"allocation.release_after_minutes is {self.release_after_minutes}; "
                "give 0 (never) or more"
            )


@dataclass(frozen=True)
class Codes:
    """``[recruiter.codes]``: the completion code of each outcome."""

    complete: str | None = None
    declined: str | None = None
    failed_checks: str | None = None
    time_limit: str | None = None
    full: str | None = None
    unsent: str | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            code = getattr(self, item.name)
            if code is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", code):
                raise InputError(
                    f"recruiter.codes.{item.name} is {code!r}; use up to 64 letters, digits, "
                    "'.', '-' and '_'"
                )


@dataclass(frozen=True)
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
    participant: str | None = None
    required: bool = False
    parameters: tuple[str, ...] = ()
    redirect: str | None = None
    codes: Codes = field(default_factory=Codes)

    def __post_init__(self) -> None:
        for name in (*self.parameters, *([self.participant] if self.participant else [])):
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
                raise InputError(f"recruiter: {name!r} is no name of a parameter of an address")
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


@dataclass(frozen=True)
class PracticePair:
    """One ``[[practice]]``: two sentences to try the keys on."""

    left: str
    right: str

    def __post_init__(self) -> None:
        _check_pair("practice", self.left, self.right)


@dataclass(frozen=True)
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

    after: int
    left: str
    right: str
    expected: str

    def __post_init__(self) -> None:
        if self.after < 0:
            raise InputError(f"attention.after is {self.after}; give 0 or more")
        _check_pair("attention", self.left, self.right)
        if self.expected not in ("left", "right"):
            raise UnknownNameError.among("attention.expected", self.expected, ("left", "right"))


def _check_pair(what: str, left: str, right: str) -> None:
    for side, text in (("left", left), ("right", right)):
        if not text.strip() or len(text) > _LONGEST:
            raise InputError(f"{what}.{side} is {text[:40]!r}; give 1 to {_LONGEST} characters")
