"""Settings of the recruitment platform: outcomes, completion codes, and URLs."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Annotated
from urllib.parse import urlsplit

from contstim.errors import InputError
from contstim.settings import TupleFromList, settings, validate_pattern

#: Outcomes of a session; each may have its own completion code. `unsent` does not end the session:
#: its code is shown while answers cannot be sent to the server.
OUTCOMES = (
    "complete", "declined", "screened_out", "failed_checks", "time_limit", "full", "unsent"
)  # fmt: skip

_Code = Annotated[
    str, validate_pattern(r"[A-Za-z0-9._-]{1,64}", "use up to 64 letters, digits, '.', '-' and '_'")
]

#: Name of a URL query parameter.
_Parameter = Annotated[
    str, validate_pattern(r"[A-Za-z0-9_-]{1,64}", "that is not the name of a URL query parameter")
]


@settings
class Codes:
    """Table ``[recruiter.codes]``: completion codes for the recruitment platform.

    A participant enters a completion code on the platform, which then pays or returns the
    submission. There is one code for each outcome of a session. None: no code.

    Attributes
    ----------
    complete
        Code after all trials and screening questions were answered.
    declined
        Code after the participant did not consent.
    screened_out
        Code after a response to a screening question that excludes the participant.
    failed_checks
        Code after too many failed attention checks. Default: the code of complete sessions.
    time_limit
        Code after the time limit of the session.
    full
        Code if all lists of trials are taken by other participants.
    unsent
        Code that is shown while answers cannot be sent to the server.
    """

    complete: _Code | None = None
    declined: _Code | None = None
    screened_out: _Code | None = None
    failed_checks: _Code | None = None
    time_limit: _Code | None = None
    full: _Code | None = None
    unsent: _Code | None = None


#: Placeholders for ids in the study URL, by recruitment platform and URL query parameter.
_PLACEHOLDERS = {
    "prolific": {name: f"{{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")},
    "sona": {"": "%SURVEY_CODE%"},
}


@settings
class Recruiter:
    """Table ``[recruiter]``: the recruitment platform, such as Prolific.

    Attributes
    ----------
    name
        ``prolific``, ``sona``, ``mturk``, or any other name, shown to participants.
    participant
        URL query parameter with the participant id of the platform.
    required
        Whether a participant id is required to take part.
    parameters
        Further URL query parameters to store.
    redirect
        URL to which participants return. ``{code}`` is replaced by the completion code,
        ``{participant}`` by the participant id, and names in `parameters` by their values. Without
        ``{code}``, only participants with complete sessions are redirected, because the URL may
        credit them.
    codes
        Completion codes, table ``[recruiter.codes]``.
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
        # Names in braces that the page replaces in the URL.
        fields = ["code", *(["participant"] if self.participant else []), *self.parameters]
        for name in re.findall(r"\{(\w*)\}", self.redirect):
            if name not in fields:
                available = ", ".join(f"{{{key}}}" for key in fields)
                raise InputError(
                    f"recruiter.redirect contains {{{name}}}; the page fills in {available} there"
                )

    def is_valid_id(self, text: str) -> bool:
        """Return whether a text can be a participant id: 1 to 128 letters, digits and ``_.@-``."""
        return bool(re.fullmatch(r"[A-Za-z0-9_.@-]{1,128}", text))

    def check_recruiter_id(self, recruiter_id: str | None) -> None:
        """Check the id that a recruitment platform, such as Prolific, has given to a participant.

        Raises
        ------
        InputError
            If the id is missing although it is required, or if it is not a valid id.
        """
        if self.required and not recruiter_id:
            raise InputError(f"the participant's id ({self.participant}) is missing")
        if recruiter_id and not self.is_valid_id(recruiter_id):
            raise InputError(
                f"the participant's id is {recruiter_id!r}, which no platform gives; open the "
                "study from the recruitment platform's page again"
            )

    @property
    def title(self) -> str:
        """Name of the recruitment platform as shown to participants."""
        return {"prolific": "Prolific", "sona": "SONA", "mturk": "MTurk"}.get(self.name, self.name)

    def make_completion_link(self, outcome: str) -> tuple[str | None, str | None]:
        """Return how participants return to the recruitment platform after an outcome.

        If the settings have no code for failed checks, the code of complete sessions is used.

        Parameters
        ----------
        outcome
            Outcome of a session, such as ``complete``; one of `OUTCOMES`.

        Returns
        -------
        code : str or None
            Completion code to show, if the settings have one.
        redirect : str or None
            URL to which the page redirects, if any. The code is filled in; the page fills in other
            names in braces.
        """
        code: str | None = getattr(self.codes, outcome)
        if code is None and outcome == "failed_checks":
            code = self.codes.complete
        # Return the completion code to show, and the URL to which the page redirects.
        if self.redirect is None:
            return code, None
        if "{code}" in self.redirect:
            return code, None if code is None else self.redirect.replace("{code}", code)
        # A URL without a code may credit every participant who opens it, so that only participants
        # with complete sessions are redirected.
        return code, self.redirect if outcome == "complete" else None

    def make_study_url(self, page: str) -> str:
        """Return the study URL for the recruitment platform, with placeholders for ids.

        Parameters
        ----------
        page
            URL of the page without a query.

        Returns
        -------
        str
            URL to enter on the platform, which replaces the placeholders for every participant.
        """
        placeholders = _PLACEHOLDERS.get(self.name, {})
        # SONA has one placeholder, for any parameter; other platforms have one per parameter.
        default = placeholders.get("", "...")
        query = []
        if self.participant is not None:
            query.append(f"{self.participant}={placeholders.get(self.participant, default)}")
        for name in self.parameters:
            if name in placeholders:
                query.append(f"{name}={placeholders[name]}")
        return f"{page}?{'&'.join(query)}" if query else page
