"""Options that select words of a vocabulary: frequency, word lists, names, case, word class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

from pydantic import Field

from contstim.errors import InputError, require_known
from contstim.settings import TupleFromList, settings, validate_choice
from contstim.text import Sentence, read_words
from contstim.text.frequencies import check_wordfreq_language, has_frequencies, zipf_frequency
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_tables import read_word_rows

#: Penn Treebank tags (Marcus et al. 1993) by word class.
WORD_CLASSES: Mapping[str, frozenset[str]] = {
    name: frozenset(tags.split())
    for name, tags in {
        "noun": "NN NNS",
        "name": "NNP NNPS",
        "verb": "VB VBD VBG VBN VBP VBZ MD",
        "adjective": "JJ JJR JJS",
        "adverb": "RB RBR RBS WRB",
        "pronoun": "PRP PRP$ WP WP$ EX",
        "determiner": "DT PDT WDT",
        "preposition": "IN TO RP",
        "conjunction": "CC",
        "number": "CD",
        "interjection": "UH",
        "other": "FW LS POS SYM",
    }.items()
}

_CLASS_BY_TAG = {tag: name for name, tags in WORD_CLASSES.items() for tag in tags}

#: Treatments of letter case, see `WordOptions`.
CASINGS = ("listed", "sentence", "lower")


@cache
def offensive_words() -> Mapping[str, int]:
    """Return the level of each offensive English word or phrase, in lower case.

    The level is 2 if the word is likely to be meant offensively, 1 if it may be, and 0 if this is
    unlikely. Most words of level 0 are harmless ("fire").

    Notes
    -----
    Source: the lists ``cuss`` 2.2.0, which has levels, and ``better-profanity`` 0.7.0, which has
    none and is included with level 1. Both have the MIT licence; see ``contstim/data/README.md``.
    """
    with as_file(files("contstim") / "data" / "offensive.csv") as path:
        return {row["word"]: int(row["level"]) for row in read_word_rows(path)[0]}


@settings
class WordOptions:
    """Options that select the words of a vocabulary. By default all words are used, as listed.

    Attributes
    ----------
    min_zipf
        Minimum Zipf frequency in wordfreq: log10 of the occurrences per billion words.
    language
        Code of the language of words, sentences and frequencies. The default ``en`` stands for
        the language of the vocabulary.
    allow, block
        Files with one word per line, matched as whole words, ignoring case. Words in `allow` are
        used whatever the other options say, in the case of the file if the vocabulary does not
        list them. Words in `block` are never used.
    offensive
        Minimum level of the offensive words to exclude, see `offensive_words`.
    names
        False excludes words that are only listed with a capital. True allows them within
        sentences. Default None: as listed.
    casing
        ``listed``: words as in the vocabulary. ``sentence``: capitalised forms of the words
        allowed elsewhere are also allowed first. ``lower``: all words in lower case.
    part_of_speech
        Word classes (``noun``, ``verb``) or Penn Treebank tags (``NNS``). Words that can have
        none of them are excluded.

    Examples
    --------
    >>> WordOptions(min_zipf=3.0, names=False).non_defaults
    {'min_zipf': 3.0, 'names': False}
    """

    min_zipf: Annotated[float, Field(ge=0, le=10)] | None = None
    language: str = "en"
    allow: TupleFromList[str] = ()
    block: TupleFromList[str] = ()
    offensive: Annotated[int, Field(ge=0, le=2)] | None = None
    names: bool | None = None
    casing: Annotated[str, validate_choice(CASINGS)] = "listed"
    part_of_speech: TupleFromList[str] = ()

    def __post_init__(self) -> None:
        expand_classes(self.part_of_speech)

    @property
    def non_defaults(self) -> dict[str, object]:
        """Mapping from option name to value, for all options that differ from their defaults."""
        values = {name: getattr(self, name) for name in WordOptions.__annotations__}
        defaults = WordOptions()
        return {name: v for name, v in values.items() if v != getattr(defaults, name)}

    def read_lists(
        self, folder: Path, language: Language = ENGLISH
    ) -> tuple[dict[str, str], frozenset[str]]:
        """Read the files of allowed and blocked words.

        Parameters
        ----------
        folder
            Folder of the study plan, to which relative paths of word lists refer.
        language
            Language of the words. Default English.

        Returns
        -------
        allowed
            Allowed words as written in their file, by case-folded word.
        blocked
            Case-folded blocked words.

        Raises
        ------
        InputError
            If a file cannot be read, or a word is allowed and blocked.
        """
        allowed, blocked = (
            # Read the files of a list as a mapping from case-folded word to the word in the file.
            {language.fold(word): word for name in names for word in read_words(folder / name)}
            for names in (self.allow, self.block)
        )
        for word in sorted(allowed.keys() & blocked.keys()):
            raise InputError(f"the word {word!r} is allowed and blocked; remove it from one list")
        return allowed, frozenset(blocked)

    def blocked_words(self, folder: Path, language: Language = ENGLISH) -> frozenset[str]:
        """Return the case-folded words that sentences must not contain.

        These are the words of the lists in `block` and, if `offensive` is set, offensive words.

        Parameters
        ----------
        folder
            Folder of the study plan, to which relative paths of word lists refer.
        language
            Language of the words. Default English.

        Raises
        ------
        InputError
            If `offensive` is set and no list of offensive words of the language is bundled.
        """
        allowed, blocked = self.read_lists(folder, language)
        # Without a minimum level of offensiveness, only the words listed by users are blocked.
        if self.offensive is None:
            return blocked
        if language.offensive_list != "bundled":
            raise InputError(
                f"offensive = {self.offensive} has no list for {language.name}: "
                f"{offensive_source(language)}; give a list of your own as block"
            )
        # Words that users explicitly allow are not blocked, even if they are offensive.
        levels = offensive_words().items()
        offensive = {word.casefold() for word, level in levels if level >= self.offensive}
        return blocked | (offensive - allowed.keys())

    def check_not_blocked(
        self, words: Iterable[str], folder: Path, language: Language = ENGLISH
    ) -> None:
        """Check that users have not listed a word as a replacement and also blocked it.

        Parameters
        ----------
        words
            Words that users list as replacements for words of natural sentences.
        folder
            Folder of the study plan, to which relative paths of word lists refer.
        language
            Language of the words. Default English.

        Raises
        ------
        InputError
            If a word is blocked; the message names the first one.
        """
        blocked = self.blocked_words(folder, language)
        for word in words:
            if not blocked.isdisjoint(_matched_forms(word, language)):
                raise InputError(
                    f"the edits list {word!r}, which is blocked; remove it from one of the lists"
                )

    def filter(self, vocabulary: Vocabulary, folder: Path) -> Vocabulary:
        """Return a copy of a vocabulary with only the words that the options select.

        Parameters
        ----------
        vocabulary
            Vocabulary from which words are selected.
        folder
            Folder of the study plan, to which relative paths of word lists refer.

        Raises
        ------
        InputError
            If a list cannot be read; if a word is allowed and blocked; if `min_zipf` is set and
            wordfreq does not cover the language; if `part_of_speech` is set, the vocabulary has
            no tags and NLTK's tagger is not installed; or if no word remains.
        """
        if not self.non_defaults:
            return vocabulary
        if self.language != "en":
            check_wordfreq_language(self.language)
        language = vocabulary.language
        code = language.code if self.language == "en" else self.language
        if self.min_zipf is not None and not has_frequencies(code):
            raise InputError(
                f"min_zipf = {self.min_zipf:g} needs word frequencies, and wordfreq has none for "
                f"{code!r}; name the language as wordfreq does, or leave min_zipf out"
            )
        allowed, listed_as_blocked = self.read_lists(folder, language)
        blocked = self.blocked_words(folder, language)
        tags = expand_classes(self.part_of_speech)
        if tags and not vocabulary.tags:
            vocabulary = tag_words(vocabulary)
        # Find the lower-case forms of all words that are not names. In German, where all nouns are
        # capitalised, capitalised words within sentences need not be names.
        common_words = {
            language.lower(word)
            for word in vocabulary.elsewhere
            if language.capitalises_nouns or word == language.lower(word)
        }

        names, selected = set[str](), set[str]()
        for word in dict.fromkeys((*vocabulary.first, *vocabulary.elsewhere)):
            lower = language.lower(word)
            if word != lower and word not in language.capitals and lower not in common_words:
                names.add(word)
            is_unwanted_name = self.names is False and word in names
            is_rare = self.min_zipf is not None and zipf_frequency(word, code) < self.min_zipf
            # If parts of speech are required, the word must be able to have one of their tags.
            lacks_tag = bool(tags) and tags.isdisjoint(vocabulary.tags.get(word.lower(), ()))
            # Blocked words are excluded, and other words of the list `allow` are selected, whatever
            # the other options require.
            is_blocked = not blocked.isdisjoint(_matched_forms(word, language))
            is_suitable = not (is_unwanted_name or is_rare or lacks_tag)
            if not is_blocked and (is_suitable or language.fold(word) in allowed):
                selected.add(word)
        first = [word for word in vocabulary.first if word in selected]
        elsewhere = [word for word in vocabulary.elsewhere if word in selected]

        # Add the allowed words that the vocabulary does not list.
        for folded in sorted(allowed.keys() - set(map(language.fold, elsewhere))):
            if listed_as_blocked.isdisjoint(_matched_forms(folded, language)):
                elsewhere.append(allowed[folded])
                first.append(language.capitalise(allowed[folded]))

        if self.names:
            lower_elsewhere = set(map(language.lower, elsewhere))
            elsewhere += [
                w for w in first if w in names and language.lower(w) not in lower_elsewhere
            ]
        if self.casing == "sentence":
            first += map(language.capitalise, elsewhere)
        elif self.casing == "lower":
            first = list(map(language.lower, first))
            elsewhere = list(map(language.lower, elsewhere))
        if not first or not elsewhere:
            position = "elsewhere" if first else "first"
            options = ", ".join(f"{name} = {value!r}" for name, value in self.non_defaults.items())
            raise InputError(
                f"no word of the vocabulary that is allowed {position} satisfies {options}; "
                "relax an option"
            )
        return vocabulary.with_words(first, elsewhere)


def offensive_source(language: Language) -> str:
    """Describe, for messages, where a list of offensive words of a language can be found.

    Examples
    --------
    >>> from contstim.text.languages import get_language
    >>> offensive_source(get_language("he"))
    'no list is known for this language'
    """
    if language.offensive_list == "bundled":
        return "a list is bundled with contstim"
    if not language.offensive_list:
        return "no list is known for this language"
    return f"one list is {language.offensive_list}"


def expand_classes(names: Iterable[str]) -> frozenset[str]:
    """Return the Penn Treebank part-of-speech tags of word classes such as ``noun``.

    Parameters
    ----------
    names
        Names of word classes, or tags such as ``NNS``, which are returned unchanged.

    Raises
    ------
    UnknownNameError
        If a name is neither a word class nor a tag.
    """
    tags: set[str] = set()
    for name in names:
        require_known("part of speech", name, [*WORD_CLASSES, *_CLASS_BY_TAG])
        tags |= WORD_CLASSES.get(name, {name})
    return frozenset(tags)


def tag_words(vocabulary: Vocabulary) -> Vocabulary:
    """Return a copy of a vocabulary with one part-of-speech tag per word.

    NLTK's tagger for English (averaged perceptron; Honnibal 2013) predicts the tag of each word
    without the context of a sentence.

    Parameters
    ----------
    vocabulary
        Vocabulary of English words.

    Raises
    ------
    InputError
        If NLTK's data do not include the weights of the tagger.
    """
    from nltk.tag.perceptron import PerceptronTagger  # the import takes a second

    try:
        tagger = PerceptronTagger()
    except LookupError:
        raise InputError(
            "parts of speech of these words need NLTK's tagger, whose weights are not on this "
            "machine; run: python -m nltk.downloader averaged_perceptron_tagger_eng, or give the "
            "vocabulary a column 'tags'"
        ) from None
    # Tag each word separately, that is, without the context of a sentence.
    words = dict.fromkeys(word.lower() for word in (*vocabulary.first, *vocabulary.elsewhere))
    tags = {}
    for word in words:
        [(_, tag)] = tagger.tag([word])
        tags[word] = (tag,)
    return replace(vocabulary, tags=tags)


def same_class_words(
    vocabulary: Vocabulary, sentence: Sentence, similarity: str
) -> dict[int, tuple[str, ...]]:
    """Return replacements of the same part of speech for each word of a sentence.

    Parameters
    ----------
    vocabulary
        Candidate words, with part-of-speech tags.
    sentence
        Sentence in which words are replaced.
    similarity
        ``class``: candidates that can belong to the most frequent word class of the original word,
        for example nouns. ``tag``: candidates that can have its most frequent tag, so that a plural
        is replaced by a plural.

    Returns
    -------
    dict
        Mapping from position to candidates. Words without tags, such as names, have no candidates,
        and separate punctuation marks have no entry.
    """
    words = {}
    for position, word in enumerate(sentence.words):
        if not any(map(str.isalnum, word)):
            continue  # a separate punctuation mark
        # Replacements need the most frequent tag of the word, for example NNS (plural noun), or a
        # tag of the same class, for example any noun.
        word_tags = vocabulary.tags.get(word.lower(), ())
        tags = frozenset(word_tags[:1])
        if similarity == "class" and word_tags:
            tags = WORD_CLASSES.get(_CLASS_BY_TAG.get(word_tags[0], ""), tags)
        words[position] = _words_with_tags(vocabulary, position == 0, tags)
    return words


@cache
def _words_with_tags(
    vocabulary: Vocabulary, is_first: bool, tags: frozenset[str]
) -> tuple[str, ...]:
    """Return the words of a vocabulary that can have one of several part-of-speech tags.

    Parameters
    ----------
    vocabulary
        Words with their tags.
    is_first
        Whether to return words for the first position of a sentence or for all other positions.
    tags
        Penn Treebank tags.
    """
    words = vocabulary.first if is_first else vocabulary.elsewhere
    return tuple(w for w in words if not tags.isdisjoint(vocabulary.tags.get(w.lower(), ())))


def _matched_forms(word: str, language: Language) -> set[str]:
    """Return the case-folded forms of a word that are looked up in lists of blocked words.

    These are the word, the word without a possessive ending ("'s"), and the parts of a word with
    hyphens.
    """
    folded = language.fold(word)
    return {folded, re.sub("['’]s$", "", folded), *re.split("[-–]", folded)}
