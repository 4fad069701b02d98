"""Texts in which a sentence stands: what is said before it, and after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contstim.errors import SpecError

_MARK = "{sentence}"


@dataclass(frozen=True)
class Template:
    """A text around a sentence.

    Attributes
    ----------
    before, after
        What stands on either side of it.
    """

    before: str
    after: str

    @classmethod
    def read(cls, path: str, spec: str) -> Template:
        """Read a UTF-8 file that says by ``{sentence}`` where the sentence stands.

        Raises
        ------
        SpecError
            If the file cannot be read, or does not say it once.
        """
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                f"cannot read the text {path!r} that {spec!r} names ({error}); give a UTF-8 file"
            ) from None
        if text.count(_MARK) != 1:
            raise SpecError(
                f"the text {path!r} that {spec!r} names has {text.count(_MARK)} places for a "
                f"sentence; write {_MARK} where it stands, once"
            )
        return cls(*text.removesuffix("\n").split(_MARK))

    def around(self, sentence: str) -> str:
        """Return the text with a sentence."""
        return f"{self.before}{sentence}{self.after}"

    def __str__(self) -> str:
        return self.around(_MARK)
