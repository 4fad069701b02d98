"""Which words may be tried where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.base import SentenceModel
from contstim.search.problem import Edits
from contstim.text.sentence import Sentence, WordList
from contstim.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class WordReplacement:
    """Proposes, for one position, every vocabulary word that all models know.

    The first position takes the vocabulary's capitalised words, the others its other words. A
    word is not proposed if it stands elsewhere in the sentence (ignoring case), unless it is
    among the repeatable words.

    Attributes
    ----------
    vocabulary
        The words allowed first and elsewhere, and those that may repeat.
    models
        The models that must know a candidate, with the punctuation it would carry.
    """

    vocabulary: Vocabulary
    models: tuple[SentenceModel, ...]
    _lists: dict[tuple[bool | tuple[str, ...], str, str], WordList] = field(
        default_factory=dict, repr=False
    )
    _by_folded: dict[WordList, dict[str, list[int]]] = field(default_factory=dict, repr=False)
    _whole: WordReplacement | None = field(default=None, repr=False)

    def without(self, words: Collection[str]) -> WordReplacement:
        """Return the proposal without some words, given case-folded."""
        if not words:
            return self
        vocabulary = self.vocabulary.without(words)
        return WordReplacement(vocabulary, self.models, _whole=self.whole)

    @property
    def whole(self) -> WordReplacement:
        """The proposal of which this one leaves words out; itself where it leaves out none."""
        return self if self._whole is None else self._whole

    def positions(self, sentence: Sentence) -> list[int]:
        """Return the positions that hold a word; dashes and the like stay as they are."""
        return [i for i, word in enumerate(sentence.words) if any(c.isalnum() for c in word)]

    def may(self, natural: Sentence, sentence: Sentence, edits: Edits) -> bool:
        """Return whether `sentence` can be made of the natural one: by its words and the edits."""
        changed = Edits.differences(natural, sentence)
        lists = dict(edits.words)
        return edits.kept(natural, sentence) and all(
            any(c.isalnum() for c in natural.words[p])
            and sentence.words[p] in self.words(natural, p, lists.get(p))
            and not self._repeats(sentence, p)
            for p in changed
        )

    def _repeats(self, sentence: Sentence, position: int) -> bool:
        """Return whether the word at `position` stands elsewhere as well and may not."""
        word = sentence.words[position].casefold()
        others = (w.casefold() for p, w in enumerate(sentence.words) if p != position)
        return word not in self.vocabulary.repeatable and word in others

    def words(
        self, sentence: Sentence, position: int, listed: tuple[str, ...] | None = None
    ) -> WordList:
        """Return the known candidates for `position`, the same object for like positions.

        Parameters
        ----------
        sentence, position
            The place.
        listed
            Words that may stand there in place of the vocabulary's.

        Raises
        ------
        InputError
            If none of the words may stand there.
        InfeasibleError
            If that is so of listed words.
        """
        before, after = sentence.before[position], sentence.after[position]
        key = (listed or position == 0, before, after)
        found = self._lists.get(key)
        if found is None:
            source = self.vocabulary.at(position) if listed is None else WordList.of(listed)
            surfaces = [before + word + after for word in source]
            known = np.ones(len(source), dtype=np.bool_)
            for model in self.models:
                known &= model.knows(surfaces)
            if not known.any():
                names = " and ".join(model.spec for model in self.models)
                if listed is not None:
                    raise InfeasibleError(
                        f"none of the {len(source)} words listed for position {position} is known "
                        f"to {names} with the punctuation of {sentence.surface(position)!r}; list "
                        "words they know"
                    )
                raise InputError(
                    f"{names} know 0 of the {len(source):,} words that may replace "
                    f"{sentence.surface(position)!r}; give a vocabulary of their language, which "
                    "'contstim vocabulary' makes"
                )
            found = WordList(tuple(w for w, k in zip(source, known, strict=True) if k))
            self._lists[key] = found
        return found

    def allowed(self, sentence: Sentence, position: int, words: WordList) -> BoolArray:
        """Say which of `words` may stand at `position` beside the other words; shape (V,)."""
        by_folded = self._by_folded.get(words)
        if by_folded is None:
            by_folded = defaultdict(list)
            for i, word in enumerate(words):
                by_folded[word.casefold()].append(i)
            self._by_folded[words] = by_folded
        allowed = np.ones(len(words), dtype=np.bool_)
        others: Sequence[str] = sentence.words[:position] + sentence.words[position + 1 :]
        for other in others:
            folded = other.casefold()
            if folded not in self.vocabulary.repeatable:
                allowed[by_folded.get(folded, [])] = False
        return allowed
