"""Limits on the edits that turn a natural sentence into a synthetic one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from contstim.errors import InputError
from contstim.text import Sentence
from contstim.text.language import DIRECTION_MARKS, split_word

#: Property that a word shares with the word it replaces: word class or Penn Treebank tag.
WordKind = Literal["class", "tag"]


@dataclass(frozen=True)
class Edits:
    """Limits on the changes that turn a natural sentence into a synthetic sentence.

    A position is the index of a word in the sentence, counted from 0.

    Attributes
    ----------
    max_changes
        Maximum number of words that differ from the natural sentence; 1 for minimal pairs. None: no
        limit.
    fixed
        Positions that must not change.
    changed
        Positions that must change.
    words
        Allowed words at some positions, as pairs of a position and a tuple of words. If the tuple
        does not contain the natural word at this position, the word must change.
    adjacent_agreement
        Whether adjacent words must agree as the language requires (``a`` and ``an``), except where
        they disagree in the natural sentence.
    same_tokens
        Whether the number of tokens of the sentence must not change under any model.
    same_kind
        Property that a word must share with the word it replaces: ``class``, the word class, or
        ``tag``, the Penn Treebank tag (a plural replaces a plural). Words without a tag do not
        change. None: no restriction.

    Raises
    ------
    InputError
        If a position is negative, occurs twice, or is both fixed and to be changed; if more
        positions must change than may change; if a list of words is empty or contains white space
        or punctuation.

    Examples
    --------
    >>> Edits.parse("max=3,fixed=0+1,same-class").fixed
    (0, 1)
    """

    max_changes: int | None = None
    fixed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    words: tuple[tuple[int, tuple[str, ...]], ...] = ()
    adjacent_agreement: bool = False
    same_tokens: bool = False
    same_kind: WordKind | None = None

    def __post_init__(self) -> None:
        # Check positions that must not change ("fixed"), must change, or have a list of words.
        for kind, positions in self._positions.items():
            for position in positions:
                if position < 0:
                    raise InputError(f"position {position} ({kind}) is negative; count from 0")
                if positions.count(position) > 1:
                    raise InputError(f"position {position} occurs twice ({kind}); give it once")
                if kind != "fixed" and position in self.fixed:
                    raise InputError(f"position {position} is both fixed and {kind}; choose one")
        if self.max_changes is not None and self.max_changes < max(1, len(self.changed)):
            raise InputError(
                f"max_changes is {self.max_changes}, but {max(1, len(self.changed))} words must "
                "change; allow more changes"
            )
        if self.same_kind not in (None, *get_args(WordKind)):
            raise InputError(f"same_kind is {self.same_kind!r}; give 'class' or 'tag'")
        for position, words in self.words:
            for word in words or ("",):
                if not word or word.split() != [word] or split_word(word)[1] != word:
                    raise InputError(
                        f"the words for position {position} include {word!r}; list words without "
                        "white space and surrounding punctuation"
                    )
                if not DIRECTION_MARKS.isdisjoint(word):
                    raise InputError(
                        f"the words for position {position} include {word!a}, which contains an "
                        "invisible mark of text direction; remove the mark"
                    )

    @classmethod
    def parse(cls, text: str) -> Edits:
        """Create limits from text, for example ``max=3,fixed=0+1,same-class``.

        The limits are separated by commas. POSITIONS are indices of words from 0, joined by ``+``.

        - ``max=N``: at most N words may change.
        - ``fixed=POSITIONS``: the words at these positions must not change.
        - ``changed=POSITIONS``: the words at these positions must change.
        - ``words=POSITION:WORD+WORD``: only these words are allowed at the position. This limit may
          be given for several positions.
        - ``agreement``: adjacent words must agree, as in ``an apple``.
        - ``same-tokens``: the number of tokens must not change under any model.
        - ``same-class``: a word may only be replaced by a word of the same word class.
        - ``same-tag``: a word may only be replaced by a word with the same Penn Treebank tag.

        Raises
        ------
        InputError
            If the text contains anything else, sets a limit twice, or the limits are invalid.
        """
        attributes: dict[str, Any] = {}  # values of all attributes except `words`, by name
        words: list[tuple[int, tuple[str, ...]]] = []  # positions with their allowed words
        for limit in filter(None, (part.strip() for part in text.split(","))):
            # A limit has the form NAME=VALUE, words=POSITION:WORD+WORD or FLAG.
            name, equals, value = limit.partition("=")
            position, colon, joined_words = value.partition(":")
            positions = value.split("+")  # for "fixed" and "changed"
            if name == "words" and colon and _is_position(position):
                words.append((int(position), tuple(joined_words.split("+"))))
                continue
            field_value: Any
            if name in ("fixed", "changed") and all(map(_is_position, positions)):
                field, field_value = name, tuple(map(int, positions))
            elif name == "max" and _is_position(value):
                field, field_value = "max_changes", int(value)
            elif name in _FLAGS and not equals:
                field, field_value = _FLAGS[name]
            else:
                raise InputError(
                    f"{limit!r} is not a limit on edits; write max=3, fixed=0+2, changed=1, "
                    "words=1:dog+cat, agreement, same-tokens, same-class or same-tag"
                )
            if field in attributes:
                raise InputError(f"the edits {text!r} set {field} twice; set it once")
            attributes[field] = field_value
        return cls(**attributes, words=tuple(words))

    def __str__(self) -> str:
        # Write the limits in the form that `parse` reads, and leave out those that are not set.
        parts = [] if self.max_changes is None else [f"max={self.max_changes}"]
        for name, positions in {"fixed": self.fixed, "changed": self.changed}.items():
            if positions:
                parts.append(f"{name}={'+'.join(map(str, positions))}")
        parts += [f"words={position}:{'+'.join(words)}" for position, words in self.words]
        parts += [flag for flag, (name, value) in _FLAGS.items() if getattr(self, name) == value]
        return ",".join(parts)

    @property
    def _positions(self) -> dict[str, tuple[int, ...]]:
        """Positions in `fixed`, `changed` and `words`, with a description of each as the key."""
        with_words = tuple(position for position, _ in self.words)
        return {"fixed": self.fixed, "to be changed": self.changed, "with words": with_words}

    def check(self, natural: Sentence) -> None:
        """Check that all positions to which limits refer exist in a natural sentence.

        Parameters
        ----------
        natural
            Natural sentence to which the limits will be applied.

        Raises
        ------
        InputError
            If a position is beyond the end of the sentence.
        """
        for kind, positions in self._positions.items():
            # The kind of limit is, for example, "fixed". Positions are indices of words.
            for position in positions:
                if position >= len(natural):
                    raise InputError(
                        f"position {position} ({kind}) is beyond the end of {str(natural)!r}; "
                        f"its {len(natural)} words have positions 0 to {len(natural) - 1}"
                    )

    def required_positions(self, natural: Sentence) -> tuple[int, ...]:
        """Return the positions at which a natural sentence must change.

        These are the positions in `changed`, and the positions in `words` at which the natural word
        is not allowed.
        """
        disallowed = [p for p, words in self.words if natural.words[p] not in words]
        return tuple(dict.fromkeys([*self.changed, *disallowed]))

    def permits(self, natural: Sentence, sentence: Sentence) -> bool:
        """Return whether the changes from a natural sentence are within the limits.

        Limits on tokens and on word classes are not checked here (see `SharedVocabulary`).

        Parameters
        ----------
        natural
            Natural sentence.
        sentence
            Sentence with the same number of words, some of which may be different.
        """
        changes = self.changed_positions(natural, sentence)
        if self.max_changes is not None and len(changes) > self.max_changes:
            return False
        # Fixed words must not change, and required positions must change.
        if changes & {*self.fixed} or not changes.issuperset(self.required_positions(natural)):
            return False
        # Adjacent words must agree ("an apple"), but errors of the natural sentence may remain.
        new_errors = set(sentence.agreement_errors).difference(natural.agreement_errors)
        return not (self.adjacent_agreement and new_errors)

    @staticmethod
    def changed_positions(natural: Sentence, sentence: Sentence) -> set[int]:
        """Return the positions at which two sentences of equal length have different words."""
        pairs = zip(natural.words, sentence.words, strict=True)
        return {position for position, (old, new) in enumerate(pairs) if old != new}


# Attribute and value of each limit that is written without a value.
_FLAGS: dict[str, tuple[str, Any]] = {
    "agreement": ("adjacent_agreement", True),
    "same-tokens": ("same_tokens", True),
    "same-class": ("same_kind", "class"),
    "same-tag": ("same_kind", "tag"),
}


def _is_position(text: str) -> bool:
    """Return whether a text consists of ASCII digits only. `int` would accept other texts too."""
    return text.isascii() and text.isdigit()
