"""What of people leaves: pseudonyms in place of identifiers, listed columns, no address or time.

Columns are published by a list; all others stay, unless they are named. Whatever text is published
is then rid of the identifiers that are known, and of addresses; and before a folder takes its
place its files are searched for them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.tables import CHOICES

#: Columns of a table of choices that are published.
PUBLISHED = (*CHOICES, "expected", "item", "kind", "kind_1", "kind_2", "side_1", "stimulus")
#: Those of a study of contstim's besides, in which none holds what somebody typed, or when. In
#: another table they may.
OF_STUDIES = (
    *("catch", "assignment", "choice", "input", "focus_losses", "hidden_ms", "shown", "late"),
    *("block", "propensity", "available", "pool"),
)

# Of signs and of digits: what is shorter may stand in any text by chance.
_SHORTEST, _SHORTEST_NUMBER = 6, 9
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
#: What is looked for in what is published.
SUSPECTS = {
    "an address of mail": re.compile(r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+"),
    "a network address": re.compile(
        rf"(?<![\d.]){_BYTE}(?:\.{_BYTE}){{3}}(?![\d.])"
        r"|(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){3,7}[0-9A-Fa-f]{1,4}(?![\w:])"
    ),
    "an exact time": re.compile(
        rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
        rf"|\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}},?\s+{_CLOCK}"
        rf"|{_MONTH}[a-z]*\.? \d{{1,2}},? (?:\d{{4}},? )?{_CLOCK}"
        r"|(?<![\w.-])1[4-9]\d{8}(?:\d{3})?(?![\w.])"  # seconds, milliseconds since 1970
    ),
    "a recruiter's identifier": re.compile(
        r"(?<![0-9A-Za-z])(?:[0-9a-f]{24}|(?=\w*\d)A[0-9A-Z]{11,13}|3[0-9A-Z]{29})(?![0-9A-Za-z])"
    ),
}
# Of a time that begins with year and month these stay.
_YEAR_MONTH = re.compile(r"\d{4}-\d\d(?=-)")


@dataclass
class Privacy:
    """What must not leave, and what became of it.

    Attributes
    ----------
    stand_in
        What is published in place of each identifier.
    changes
        What was removed or replaced: where, what, and how.
    """

    stand_in: dict[str, str] = field(default_factory=dict)
    changes: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, identifiers: Iterable[object], stand_in: str) -> None:
        """Have identifiers replaced wherever they stand; those that may be chance stay."""
        for identifier in identifiers:
            text = "" if identifier is None else str(identifier).strip()
            text = unicodedata.normalize("NFC", text)
            if _traceable(text):
                self.stand_in.setdefault(text, stand_in)

    def note(self, where: str, what: str, how: str) -> None:
        """Add to the list of what was removed or replaced, once."""
        if (where, what, how) not in self.changes:
            self.changes.append((where, what, how))

    def text(self, text: str, where: str) -> str:
        """Return a text without identifiers and addresses."""
        for identifier in self._within(text):
            text = re.sub(re.escape(identifier), self.stand_in[identifier], text, flags=re.I)
            self.note(where, "identifiers within texts", "replaced by what stands for them")
        for what, pattern in SUSPECTS.items():
            if pattern.search(text):
                text = pattern.sub(_month_or_removed, text)
                self.note(where, what, "removed; of a time the month stays")
        return text

    def table(self, table: pd.DataFrame, where: str) -> pd.DataFrame:
        """Return a table whose texts are as of `text`."""
        out = table.copy()
        for name in out.columns:
            texts = [c for c in out[name].unique() if isinstance(c, str)]
            changed = {t: new for t in texts if (new := self.text(t, f"{where}, {name}")) != t}
            if changed:
                out[name] = out[name].map(lambda cell, new=changed: new.get(cell, cell))
        return out

    def _within(self, text: str) -> list[str]:
        """Return which identifiers a text holds, in whatever case, the longest first.

        One may be part of another.
        """
        folded = unicodedata.normalize("NFC", text).casefold()
        there = [identifier for identifier in self.stand_in if identifier.casefold() in folded]
        return sorted(there, key=lambda identifier: (-len(identifier), identifier))

    def check(self, contents: Mapping[str, bytes]) -> None:
        """Refuse files in which an identifier stands.

        Raises
        ------
        InputError
            Naming the file, not the identifier.
        """
        for name, content in contents.items():
            text = content.decode("utf-8", "replace")
            if self._within(name) or self._within(text):
                raise InputError(
                    f"{name} would hold an identifier of a participant; take it out of what is "
                    "published"
                )


def without_identifiers(
    choices: pd.DataFrame, privacy: Privacy, others: Iterable[str] = ()
) -> pd.DataFrame:
    """Return choices as they may be published.

    Participants are called p1, p2 and so on, in the order in which they come. Columns that are not
    among `PUBLISHED` or `others` are left out.

    Parameters
    ----------
    choices
        The choices.
    privacy
        Learns who is who, and lists what was done.
    others
        Further columns that are published: of the design, or named by the user.
    """
    people = pd.unique(choices["participant"].astype("str"))
    digits = len(str(len(people)))
    names = {who: f"p{number:0{digits}}" for number, who in enumerate(people, start=1)}
    for who, name in names.items():
        privacy.add([who], name)
    privacy.note("choices, participant", "participants' identifiers", "replaced by p1, p2, ...")
    kept_columns = [c for c in choices if c in {*PUBLISHED, *others}]
    for column in choices:
        if column not in kept_columns:
            privacy.note(f"choices, {column}", "a column that is not on the list", "removed")
    out = choices[kept_columns].assign(participant=choices["participant"].astype("str").map(names))
    return privacy.table(out, "choices").reset_index(drop=True)


def _month_or_removed(match: re.Match[str]) -> str:
    month = _YEAR_MONTH.match(match.group())
    return month.group() if month else "(removed)"


def _traceable(text: str) -> bool:
    """Return whether a text is an identifier that stands nowhere by chance."""
    if text.isdigit():
        return len(text) >= _SHORTEST_NUMBER
    return len(text) >= (2 * _SHORTEST if text.isalpha() else _SHORTEST)


def suspects(folder: Path, names: Iterable[str]) -> list[str]:
    """Return, a line each, which files of a folder seem to hold personal data."""
    faults = []
    for name in names:
        text = (folder / name).read_bytes().decode("utf-8", "replace")
        for what, pattern in SUSPECTS.items():
            if match := pattern.search(text):
                line = text.count("\n", 0, match.start()) + 1
                faults.append(f"{name}, line {line} holds {what}; take it out and publish again")
    return faults
