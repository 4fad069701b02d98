"""Vocabulary words that all compared models know, by position in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress

import numpy as np

from contstim.arrays import BoolArray, IntArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.base import SentenceModel
from contstim.synthesis.edits import Edits
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_options import same_class_words


@dataclass(frozen=True, eq=False)
class SharedVocabulary:
    """Words of a vocabulary that all compared models know.

    A model knows a word if it can score the word with the punctuation around it. The vocabulary has
    one list of words for the first position of a sentence and one for later positions. No word may
    occur twice in a sentence (ignoring case) unless the vocabulary declares it repeatable.

    Word lists are cached. Positions with the same punctuation have the same `WordList` object, so
    that models look up its words only once.

    Attributes
    ----------
    vocabulary
        Words for the first position and for later positions, and words that may be repeated.
    models
        Models that must know each word.
    """

    vocabulary: Vocabulary
    models: tuple[SentenceModel, ...]
    _unrestricted: SharedVocabulary | None = field(default=None, repr=False)
    _word_lists: dict[tuple[bool | tuple[str, ...], str, str], WordList] = field(
        default_factory=dict, repr=False
    )
    _same_class_words: dict[tuple[Sentence, str], dict[int, tuple[str, ...]]] = field(
        default_factory=dict, repr=False
    )
    _same_length_words: dict[tuple[WordList, bool, str, str, tuple[int, ...]], WordList] = field(
        default_factory=dict, repr=False
    )

    def exclude(self, words: Collection[str]) -> SharedVocabulary:
        """Return a copy of the vocabulary without some words.

        Parameters
        ----------
        words
            Case-folded words to exclude.

        Returns
        -------
        SharedVocabulary
            Remaining words, without their frequencies.
        """
        if not words:
            return self
        # Filter the words for the first position and for later positions of a sentence.
        fold = self.vocabulary.language.fold
        first, elsewhere = (
            WordList(tuple(word for word in listed if fold(word) not in words))
            for listed in (self.vocabulary.first, self.vocabulary.elsewhere)
        )
        vocabulary = replace(self.vocabulary, first=first, elsewhere=elsewhere, frequencies={})
        return SharedVocabulary(vocabulary, self.models, _unrestricted=self.unrestricted)

    @property
    def unrestricted(self) -> SharedVocabulary:
        """The vocabulary before any words were excluded."""
        return self if self._unrestricted is None else self._unrestricted

    def word_positions(self, sentence: Sentence) -> list[int]:
        """Return the positions of words with a letter or digit, which excludes dashes."""
        return [i for i, word in enumerate(sentence.words) if any(c.isalnum() for c in word)]

    def restricted_words(self, natural: Sentence, edits: Edits) -> dict[int, tuple[str, ...]]:
        """Return the allowed words at each position where limits on edits restrict them.

        Parameters
        ----------
        natural
            Natural sentence that is edited.
        edits
            Limits on the changes to the sentence.

        Returns
        -------
        dict
            Mapping from position to allowed words. Unrestricted positions are missing. An empty
            tuple means that the word at this position must not change.
        """
        if edits.same_kind is None:
            return dict(edits.words)
        key = natural, edits.same_kind
        if key not in self._same_class_words:
            self._same_class_words[key] = same_class_words(self.vocabulary, *key)
        return {**self._same_class_words[key], **dict(edits.words)}

    def permits(self, natural: Sentence, sentence: Sentence, edits: Edits) -> bool:
        """Return whether a natural sentence may be changed into another sentence.

        The new words must be in the vocabulary and must not repeat other words, the changes must be
        within the limits, and parsing the text of the sentence must give the same words. Scores are
        not considered.

        Parameters
        ----------
        natural
            Natural sentence.
        sentence
            Changed sentence with the same number of words.
        edits
            Limits on the changes, for example on their number.
        """
        if not edits.permits(natural, sentence):
            return False
        positions = self.word_positions(natural)
        restricted = self.restricted_words(natural, edits)
        # Each new word must be allowed at its position, and must not repeat another word.
        folded = [self.vocabulary.language.fold(word) for word in sentence.words]
        counts = Counter(folded)
        for position in Edits.changed_positions(natural, sentence):
            options = restricted.get(position)
            if position not in positions or options == ():
                return False
            if sentence.words[position] not in self.words_at(natural, position, options):
                return False
            word = folded[position]
            if counts[word] > 1 and word not in self.vocabulary.repeatable:
                return False
        if not sentence.round_trips:
            return False
        if edits.same_tokens:
            texts = [str(natural), str(sentence)]
            token_counts = [model.count_tokens(texts) for model in self.models]
            return all(n is None or n[0] == n[1] for n in token_counts)
        return True

    def words_at(
        self, sentence: Sentence, position: int, options: tuple[str, ...] | None = None
    ) -> WordList:
        """Return the words that may be used at one position of a sentence.

        These are the words that all models know with the punctuation around this position.

        Parameters
        ----------
        sentence
            Sentence that provides the punctuation around the word.
        position
            Index of the word in the sentence.
        options
            Words to use instead of the vocabulary, for example because the limits on edits list
            them.

        Returns
        -------
        WordList
            Words that all models know. The same object is returned for all positions with the same
            `options` and punctuation.

        Raises
        ------
        InputError
            If the models know no vocabulary word.
        InfeasibleError
            If the models know none of `options`.
        """
        before, after = sentence.before[position], sentence.after[position]
        # The result depends only on the punctuation around the word, and on whether the position is
        # the first. It is cached, so that models can recognise the same list object.
        key = (options or position == 0, before, after)
        if key in self._word_lists:
            return self._word_lists[key]
        words = self.vocabulary.words_at(position).words
        if options is not None:
            words = tuple(dict.fromkeys(options))
        is_known = self._is_known([before + word + after for word in words])
        if not is_known.any():
            names = " and ".join(model.name for model in self.models)
            surface = sentence.surface(position)
            if options is not None:
                raise InfeasibleError(
                    f"none of the {len(words)} words listed for position {position} is known to "
                    f"{names} with the punctuation of {surface!r}; list words they know"
                )
            raise InputError(
                f"{names} know 0 of the {len(words):,} words that may replace {surface!r}; give a "
                "vocabulary of their language, for example one made by 'contstim vocabulary'"
            )
        self._word_lists[key] = WordList(tuple(compress(words, is_known)))
        return self._word_lists[key]

    def list_first_and_later_words(
        self, words_by_position: Mapping[int, Iterable[str]]
    ) -> tuple[WordList, WordList]:
        """Return the words that can begin a sentence, and the words that can occur later.

        Both lists contain the words of the vocabulary and additional words, if all models know
        them.

        Parameters
        ----------
        words_by_position
            Additional words for some positions, which need not be in the vocabulary.

        Returns
        -------
        first_words, later_words
            Words for position 0 and for all later positions.
        """
        unpunctuated = Sentence(words=("", ""), before=("", ""), after=("", ""))
        # Find the vocabulary words that all models know without punctuation. `words_at` uses only
        # the punctuation of the sentence and not its words, which are therefore empty.
        first, later = self.words_at(unpunctuated, 0), self.words_at(unpunctuated, 1)
        # Append the additional words that all models know.
        first_words = words_by_position.get(0, ())
        later_words = [w for p, words in words_by_position.items() if p > 0 for w in words]
        first = _append_words(first, self._select_known(first_words))
        return first, _append_words(later, self._select_known(later_words))

    def _select_known(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the distinct words among `words` that all models know without punctuation."""
        distinct = list(dict.fromkeys(words))
        return tuple(compress(distinct, self._is_known(distinct))) if distinct else ()

    def filter_by_n_tokens(self, sentence: Sentence, position: int, words: WordList) -> WordList:
        """Return the words with the same number of tokens as one word of a sentence.

        The numbers of tokens must be equal under every model. The word of the sentence itself is
        always included.

        Parameters
        ----------
        sentence
            Sentence that contains the word.
        position
            Index of the word in the sentence.
        words
            Words to filter.
        """
        before, after = sentence.before[position], sentence.after[position]
        present_word = sentence.words[position]
        # Number of tokens of the present word under each model, shape (models, 1).
        required = self._count_tokens(sentence, position, [present_word])
        key = words, position == 0, before, after, tuple(required[:, 0].tolist())
        if key not in self._same_length_words:
            counts = self._count_tokens(sentence, position, words.words)  # (models, words)
            is_equal = (counts == required).all(axis=0)
            is_equal |= np.array([word == present_word for word in words])
            self._same_length_words[key] = WordList(tuple(compress(words, is_equal)))
        return self._same_length_words[key]

    def _count_tokens(self, sentence: Sentence, position: int, words: Sequence[str]) -> IntArray:
        """Return the number of tokens of V words under M models that use tokens, shape (M, V).

        Parameters
        ----------
        sentence
            Sentence that provides the punctuation around each word.
        position
            Position of this punctuation in the sentence.
        words
            Words to tokenise.
        """
        first = self.vocabulary.words_at(0).words[:1] if position else ()
        # The number of tokens of a word depends on the space before it. At a later position, the
        # word therefore follows an arbitrary first word.
        before = (*("" for _ in first), sentence.before[position])
        after = (*("" for _ in first), sentence.after[position])
        texts = [str(Sentence((*first, w), before, after, sentence.language)) for w in words]
        counts = [model.count_tokens(texts) for model in self.models]
        rows = [n for n in counts if n is not None]  # None: the model uses whole words
        return np.array(rows, dtype=np.int64).reshape(-1, len(words))

    def _is_known(self, surfaces: Sequence[str]) -> BoolArray:
        """Return a mask (V,) of the words that all models know.

        `surfaces` contains V words with the punctuation around them.
        """
        is_known = np.ones(len(surfaces), dtype=np.bool_)
        for model in self.models:
            is_known &= model.in_vocabulary(surfaces)
        return is_known

    def is_unrepeated(self, sentence: Sentence, position: int, words: WordList) -> BoolArray:
        """Return which of V words would not be a repetition at a position, as a mask (V,).

        A word is a repetition if it occurs at another position of the sentence (ignoring case) and
        the vocabulary does not declare it repeatable.
        """
        language = self.vocabulary.language
        indices_by_word = words.case_insensitive_index(language)
        # Exclude, ignoring case, the words at all other positions of the sentence.
        is_unrepeated = np.ones(len(words), dtype=np.bool_)
        for other in sentence.words[:position] + sentence.words[position + 1 :]:
            folded = language.fold(other)
            if folded not in self.vocabulary.repeatable:
                is_unrepeated[indices_by_word.get(folded, [])] = False
        return is_unrepeated


@lru_cache(maxsize=4)
def extend_models(vocabulary: SharedVocabulary, model: SentenceModel) -> SharedVocabulary:
    """Return the part of a shared vocabulary that one more model knows.

    The last results are cached, because many sentences use the same models.
    """
    return SharedVocabulary(vocabulary.vocabulary, (*vocabulary.models, model))


@lru_cache(maxsize=8)
def _append_words(words: WordList, appended: tuple[str, ...]) -> WordList:
    """Append words that are missing in a list; return the same object if no word is missing."""
    new = tuple(word for word in appended if word not in words)
    return WordList(words.words + new) if new else words
