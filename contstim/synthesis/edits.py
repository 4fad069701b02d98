"""Limits on the edits that turn a natural sentence into a synthetic one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from contstim.errors import InputError
from contstim.text import Sentence
from contstim.text.language import split_word

#: What a word shares with the word that it replaces: its word class or its Penn Treebank tag.
WordKind = Literal["class", "tag"]

# Invisible characters that change the direction in which text is displayed.
_DIRECTION_MARKS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


@dataclass(frozen=True)
class Edits:
    """Limits on what may change in the natural sentence; positions are those of its words, from 0.

    Attributes
    ----------
    max_changes
        Maximum number of words that differ from the natural sentence; None for any number. One
        gives minimal pairs.
    fixed
        Positions whose words stay.
    changed
        Positions whose words must differ from those of the natural sentence.
    words
        Positions with the only words that may stand there. Where the natural word is not among
        them, it must change.
    agreement
        Whether adjacent words must agree as the language requires (``a`` and ``an``), except where
        the natural sentence already lacks it.
    same_tokens
        Whether each model must split the sentence into as many tokens as the natural one.
    same_kind
        ``class``: a word replaces one of its own word class; ``tag``: one of its own Penn Treebank
        tag, so that a plural replaces a plural. Words without a tag stay. None: any word.

    Raises
    ------
    InputError
        If a position is negative, given twice, or both fixed and to be changed; if fewer changes
        are allowed than positions must change; if a list of words is empty or holds something
        that is not a bare word.

    Examples
    --------
    >>> Edits.parse("max=3,fixed=0+1,same-class").fixed
    (0, 1)
    """

    max_changes: int | None = None
    fixed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    words: tuple[tuple[int, tuple[str, ...]], ...] = ()
    agreement: bool = False
    same_tokens: bool = False
    same_kind: WordKind | None = None

    def __post_init__(self) -> None:
        for kind, positions in self._positions.items():
            for position in positions:
                if position < 0:
                    raise InputError(f"position {position} ({kind}) is negative; count from 0")
                if positions.count(position) > 1:
                    raise InputError(f"position {position} is given twice as {kind}; once will do")
                if kind != "fixed" and position in self.fixed:
                    raise InputError(f"position {position} is both fixed and {kind}; choose one")
        if self.max_changes is not None and self.max_changes < max(1, len(self.changed)):
            raise InputError(
                f"at most {self.max_changes} words may change, but {max(1, len(self.changed))} "
                "must; allow more"
            )
        if self.same_kind not in (None, *get_args(WordKind)):
            raise InputError(f"same_kind is {self.same_kind!r}; give 'class' or 'tag'")
        for position, words in self.words:
            for word in words or ("",):
                if not word or word.split() != [word] or split_word(word)[1] != word:
                    raise InputError(
                        f"the words for position {position} hold {word!r}; list words without "
                        "white space or the punctuation around them"
                    )
                if not _DIRECTION_MARKS.isdisjoint(word):
                    raise InputError(
                        f"the words for position {position} hold {word!a}, which has an invisible "
                        "mark of text direction; remove the mark"
                    )

    @classmethod
    def parse(cls, text: str) -> Edits:
        """Read a rule: parts separated by commas, such as ``max=3,fixed=0+1,same-class``.

        The parts are ``max=N``, ``fixed=POSITIONS``, ``changed=POSITIONS``,
        ``words=POSITION:WORD+WORD`` (repeatable), ``agreement``, ``same-tokens``, ``same-class``
        and ``same-tag``; POSITIONS are numbers joined by ``+``.

        Raises
        ------
        InputError
            If a part has another form or is given twice, and as the class.
        """
        values: dict[str, Any] = {}
        words: list[tuple[int, tuple[str, ...]]] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            position, colon, listed = value.partition(":")
            numbers = value.split("+")
            if name == "words" and colon and _is_position(position):
                words.append((int(position), tuple(listed.split("+"))))
                continue
            setting: Any
            if name in ("fixed", "changed") and all(map(_is_position, numbers)):
                field, setting = name, tuple(map(int, numbers))
            elif name == "max" and _is_position(value):
                field, setting = "max_changes", int(value)
            elif name in _FLAGS and not equals:
                field, setting = _FLAGS[name]
            else:
                raise InputError(
                    f"{part!r} is not a limit on edits; write max=3, fixed=0+2, changed=1, "
                    "words=1:dog+cat, agreement, same-tokens, same-class or same-tag"
                )
            if field in values:
                raise InputError(f"the edits {text!r} give {field} twice; give it once")
            values[field] = setting
        return cls(**values, words=tuple(words))

    def __str__(self) -> str:
        limit = () if self.max_changes is None else (f"max={self.max_changes}",)
        flags = (f for f, (field, value) in _FLAGS.items() if getattr(self, field) == value)
        positions = {"fixed": self.fixed, "changed": self.changed}
        joined = (f"{name}={'+'.join(map(str, p))}" for name, p in positions.items() if p)
        words = (f"words={position}:{'+'.join(listed)}" for position, listed in self.words)
        return ",".join((*limit, *joined, *words, *flags))

    @property
    def _positions(self) -> dict[str, tuple[int, ...]]:
        listed = tuple(position for position, _ in self.words)
        return {"fixed": self.fixed, "to be changed": self.changed, "with words": listed}

    def check(self, natural: Sentence) -> None:
        """Refuse positions that a sentence does not have.

        Raises
        ------
        InputError
            Naming the position.
        """
        for kind, positions in self._positions.items():
            for position in positions:
                if position >= len(natural):
                    raise InputError(
                        f"position {position} ({kind}) is beyond the end of {str(natural)!r}; "
                        f"its {len(natural)} words have positions 0 to {len(natural) - 1}"
                    )

    def required(self, natural: Sentence) -> tuple[int, ...]:
        """Return the positions of a natural sentence whose words must change."""
        unlisted = (p for p, words in self.words if natural.words[p] not in words)
        return tuple(dict.fromkeys((*self.changed, *unlisted)))

    def permits(self, natural: Sentence, sentence: Sentence) -> bool:
        """Return whether a sentence changes no more of the natural one than allowed, and enough."""
        changes = self.differences(natural, sentence)
        return (
            (self.max_changes is None or len(changes) <= self.max_changes)
            and not changes.intersection(self.fixed)
            and changes.issuperset(self.required(natural))
            and (
                not self.agreement
                or set(sentence.agreement_errors) <= set(natural.agreement_errors)
            )
        )

    @staticmethod
    def differences(natural: Sentence, sentence: Sentence) -> set[int]:
        """Return the positions at which two sentences of one length have different words."""
        pairs = zip(natural.words, sentence.words, strict=True)
        return {position for position, (old, new) in enumerate(pairs) if old != new}


_FLAGS: dict[str, tuple[str, Any]] = {
    "agreement": ("agreement", True),
    "same-tokens": ("same_tokens", True),
    "same-class": ("same_kind", "class"),
    "same-tag": ("same_kind", "tag"),
}


def _is_position(text: str) -> bool:
    return text.isascii() and text.isdigit()
