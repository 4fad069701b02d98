"""Which words of a vocabulary may be used: by frequency, lists, names, case and part of speech."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from contstim.errors import InputError, require_known
from contstim.settings import Several, one_of, option, settings
from contstim.text import Sentence, read_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import (
    Vocabulary,
    check_wordfreq_language,
    has_frequencies,
    read_word_rows,
)

if TYPE_CHECKING:
    from nltk.tag.perceptron import PerceptronTagger

#: Classes of words, by the Penn Treebank tags that belong to them (Marcus et al. 1993).
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

_CLASS_OF = {tag: name for name, tags in WORD_CLASSES.items() for tag in tags}

#: How words are written: as the vocabulary has them; every word elsewhere also first, with a
#: capital; all in lower case.
CASINGS = ("listed", "sentence", "lower")


@cache
def offensive_words() -> Mapping[str, int]:
    """Return the listed offensive words and phrases, in lower case, with their levels.

    Level 2 is likely to be meant offensively, 1 perhaps, 0 unlikely: most such words are harmless
    ("fire"). A word of the second list alone, which has no levels, has level 1.

    Notes
    -----
    Source: the lists ``cuss`` 2.2.0, which has the levels, and ``better-profanity`` 0.7.0, both
    under the MIT licence; see ``contstim/data/README.md``.
    """
    with as_file(files("contstim") / "data" / "offensive.csv") as path:
        return {row["word"]: int(row["level"]) for row in read_word_rows(path)[0]}


@settings
class WordOptions:
    """Which words of a vocabulary may be used. Without options: all of them, as listed.

    Attributes
    ----------
    min_zipf
        The least Zipf frequency in wordfreq: log10 of occurrences per thousand million words.
    language
        Language of words and sentences, and of the frequencies, as wordfreq names it; where it is
        English, that which the vocabulary says.
    allow, block
        Files of words, one a line: those to use whatever the other options say, and those never
        to use. Case does not count; words match as wholes. A word to use that the vocabulary does
        not list inside sentences is written there as in its file.
    offensive
        Leave out the offensive words of this level or more (`offensive_words`).
    names
        False leaves out words that are listed with a capital only; True allows them inside
        sentences.
    casing
        ``listed``: as the vocabulary has them. ``sentence``: every word that may stand inside may
        open a sentence, with a capital. ``lower``: all words in lower case.
    part_of_speech
        Classes (``noun``, ``verb``) or Penn Treebank tags (``NNS``): words that can be one.

    Examples
    --------
    >>> WordOptions(min_zipf=3.0, names=False).non_defaults
    {'min_zipf': 3.0, 'names': False}
    """

    min_zipf: Annotated[float, Field(ge=0, le=10)] | None = option(
        None,
        "leave out words of a lower Zipf frequency in wordfreq (3 is once in a million words)",
        "ZIPF",
    )
    language: str = option(
        "en",
        "language of words, sentences and those frequencies (default: the vocabulary's)",
        "CODE",
    )
    allow: Several[str] = option(
        (), "words to use whatever the other options say, one a line", "FILE"
    )
    block: Several[str] = option((), "words never to use, one a line, whatever their case", "FILE")
    offensive: Annotated[int, Field(ge=0, le=2)] | None = option(
        None,
        "leave out words of the bundled list of offensive words: 2, those that are likely to be "
        "meant so; 1, also those that may be; 0, all",
        "LEVEL",
    )
    names: bool | None = option(
        None,
        "allow words that are listed with a capital only inside sentences, or leave them out",
    )
    casing: Annotated[str, one_of(CASINGS)] = option(
        "listed",
        "words as listed (the default); 'sentence': those that may stand inside may also open a "
        "sentence, with a capital; 'lower': all in lower case",
    )
    part_of_speech: Several[str] = option(
        (),
        "keep words that can be of this class (noun, verb, ...) or Penn Treebank tag",
        "CLASS",
    )

    def __post_init__(self) -> None:
        expand_classes(self.part_of_speech)

    @property
    def non_defaults(self) -> dict[str, object]:
        """The options that are not at their defaults."""
        usual = WordOptions()
        names = WordOptions.__annotations__
        return {n: v for n in names if (v := getattr(self, n)) != getattr(usual, n)}

    def read_lists(
        self, folder: Path, language: Language = ENGLISH
    ) -> tuple[dict[str, str], frozenset[str]]:
        """Return the allowed and the blocked words; case does not count.

        Parameters
        ----------
        folder
            What paths of the lists are relative to.
        language
            Of the words.

        Returns
        -------
        allowed
            As it is last written, by the word case-folded.
        blocked
            Case-folded.

        Raises
        ------
        InputError
            If a file cannot be read or holds no word, or a word is in both lists.
        """
        allowed, blocked = (
            {language.fold(word): word for name in names for word in read_words(folder / name)}
            for names in (self.allow, self.block)
        )
        for word in sorted(allowed.keys() & blocked.keys()):
            raise InputError(f"the word {word!r} is allowed and blocked; take it off one list")
        return allowed, frozenset(blocked)

    def blocked_words(self, folder: Path, language: Language = ENGLISH) -> frozenset[str]:
        """Return the words never to use, case-folded: the blocked ones and the offensive ones.

        Raises
        ------
        InputError
            If offensive words of a language are asked for of which contstim brings no list.
        """
        allowed, blocked = self.read_lists(folder, language)
        if self.offensive is None:
            return blocked
        if language.offensive_list != "bundled":
            raise InputError(
                f"offensive = {self.offensive} has no list for {language.name}: "
                f"{offensive_source(language)}; give a list of your own as block"
            )
        levels = offensive_words().items()
        offensive = {word.casefold() for word, level in levels if level >= self.offensive}
        return blocked | (offensive - allowed.keys())

    def check_not_blocked(
        self, words: Iterable[str], folder: Path, language: Language = ENGLISH
    ) -> None:
        """Refuse words that are never to be used.

        Raises
        ------
        InputError
            Naming the first of them.
        """
        blocked = self.blocked_words(folder, language)
        for word in words:
            if not blocked.isdisjoint(_forms(word, language)):
                raise InputError(
                    f"the edits list {word!r}, which is blocked; take it off one of the lists"
                )

    def filter(self, vocabulary: Vocabulary, folder: Path) -> Vocabulary:
        """Return the vocabulary with the words that may be used.

        Parameters
        ----------
        vocabulary
            The words to choose from.
        folder
            What paths of the lists are relative to.

        Raises
        ------
        InputError
            If a list cannot be read, a word is on both lists, `min_zipf` is of a language that
            wordfreq does not have, parts of speech are asked for and neither the vocabulary has
            tags nor NLTK its tagger, or no word is left.
        """
        if not self.non_defaults:
            return vocabulary
        if self.language != "en":
            check_wordfreq_language(self.language)
        spoken = vocabulary.language
        code = spoken.code if self.language == "en" else self.language
        if self.min_zipf is not None and not has_frequencies(code):
            raise InputError(
                f"min_zipf = {self.min_zipf:g} goes by frequencies, and wordfreq has none of "
                f"{code!r}; name the language as wordfreq does, or leave min_zipf out"
            )
        allowed, never = self.read_lists(folder, spoken)
        blocked = self.blocked_words(folder, spoken)
        wanted = expand_classes(self.part_of_speech)
        if wanted and not vocabulary.tags:
            vocabulary = tag_words(vocabulary)
        # Where nouns have capitals, those that may stand inside are no names.
        lower = {
            spoken.lower(word)
            for word in vocabulary.elsewhere
            if spoken.noun_cues or word == spoken.lower(word)
        }

        def fits(word: str) -> bool:
            folded = spoken.fold(word)
            if not blocked.isdisjoint(_forms(word, spoken)):
                return False
            if folded in allowed:
                return True
            if self.names is False and _is_name(word, lower, spoken):
                return False
            if self.min_zipf is not None:
                from wordfreq import zipf_frequency

                if zipf_frequency(word, code) < self.min_zipf:
                    return False
            return not wanted or not wanted.isdisjoint(vocabulary.tags.get(word.lower(), ()))

        first = [word for word in vocabulary.first if fits(word)]
        elsewhere = [word for word in vocabulary.elsewhere if fits(word)]
        added = [
            allowed[folded]
            for folded in sorted(allowed.keys() - set(map(spoken.fold, elsewhere)))
            if never.isdisjoint(_forms(folded, spoken))
        ]
        elsewhere += added
        first += map(spoken.capitalise, added)
        if self.names:
            inside = set(map(spoken.lower, elsewhere))
            elsewhere += [
                w for w in first if _is_name(w, lower, spoken) and spoken.lower(w) not in inside
            ]
        if self.casing == "sentence":
            first += map(spoken.capitalise, elsewhere)
        elif self.casing == "lower":
            first, elsewhere = (list(map(spoken.lower, words)) for words in (first, elsewhere))
        if not first or not elsewhere:
            where = "inside" if first else "first"
            raise InputError(
                f"no word that may stand {where} is left of the vocabulary's by "
                f"{', '.join(f'{name} = {value!r}' for name, value in self.non_defaults.items())}; "
                "ask for less"
            )
        return vocabulary.with_words(first, elsewhere)


def _is_name(word: str, lower: Collection[str], language: Language) -> bool:
    small = language.lower(word)
    return word != small and word not in language.capitals and small not in lower


def offensive_source(language: Language) -> str:
    """Return where a list of a language's offensive words can be had, in a few words.

    Examples
    --------
    >>> from contstim.text.languages import get_language
    >>> offensive_source(get_language("he"))
    'none is known for this language'
    """
    if language.offensive_list == "bundled":
        return "comes with contstim"
    if not language.offensive_list:
        return "none is known for this language"
    return f"a list of them is {language.offensive_list}"


def expand_classes(names: Iterable[str]) -> frozenset[str]:
    """Return the Penn Treebank tags of classes of words; a tag stands for itself.

    Raises
    ------
    UnknownNameError
        For what is neither.
    """
    found: set[str] = set()
    for name in names:
        require_known("part of speech", name, [*WORD_CLASSES, *_CLASS_OF])
        found |= WORD_CLASSES.get(name, {name})
    return frozenset(found)


def load_tagger() -> PerceptronTagger:
    """Return NLTK's part-of-speech tagger for English (an averaged perceptron; Honnibal 2013).

    Raises
    ------
    InputError
        If its weights are not among NLTK's data on this machine.
    """
    from nltk.tag.perceptron import PerceptronTagger

    try:
        return PerceptronTagger()
    except LookupError:
        raise InputError(
            "parts of speech of these words need NLTK's tagger, whose weights are not on this "
            "machine; run: python -m nltk.downloader averaged_perceptron_tagger_eng, or give the "
            "vocabulary a column 'tags'"
        ) from None


def tag_words(vocabulary: Vocabulary) -> Vocabulary:
    """Return a vocabulary with the tag that NLTK's tagger gives each word standing alone.

    Raises
    ------
    InputError
        As `tagger`.
    """
    model = load_tagger()
    words = dict.fromkeys(w.lower() for w in (*vocabulary.first, *vocabulary.elsewhere))
    return replace(vocabulary, tags={word: (model.tag([word])[0][1],) for word in words})


def same_class_words(
    vocabulary: Vocabulary, sentence: Sentence, likeness: str
) -> dict[int, tuple[str, ...]]:
    """Return for each position of a sentence the words that may replace its word.

    Parameters
    ----------
    vocabulary
        The words, with tags.
    sentence
        The natural sentence.
    likeness
        ``class``: words that can be of the class that the word has most often. ``tag``: words that
        can have its most frequent tag, so that a plural replaces a plural.

    Returns
    -------
    dict
        For `Edits.words`. The position of a word without tags, such as a name, has no words.
    """
    replacing = {}
    for position, word in enumerate(sentence.words):
        if any(c.isalnum() for c in word):
            tags = frozenset(vocabulary.tags.get(word.lower(), ())[:1])
            if likeness == "class":
                tags = frozenset(
                    t for tag in tags for t in WORD_CLASSES.get(_CLASS_OF.get(tag, ""), tags)
                )
            replacing[position] = _having(vocabulary, position == 0, tags)
    return replacing


@cache
def _having(vocabulary: Vocabulary, first: bool, tags: frozenset[str]) -> tuple[str, ...]:
    words = vocabulary.first if first else vocabulary.elsewhere
    return tuple(w for w in words if not tags.isdisjoint(vocabulary.tags.get(w.lower(), ())))


def find_offensive(sentence: str, level: int) -> list[str]:
    """Return the listed offensive words and phrases of a level or more that a sentence holds.

    They match as whole words, whatever their case: "Scunthorpe" holds none.
    """
    text = f" {' '.join(_PARTS.findall(sentence.casefold()))} "
    return [word for word, its, parts in _phrases() if its >= level and parts in text]


@cache
def _phrases() -> tuple[tuple[str, int, str], ...]:
    """Return each listed word or phrase, its level, and its words between spaces."""
    return tuple(
        (word, level, f" {' '.join(_PARTS.findall(word))} ")
        for word, level in offensive_words().items()
    )


_PARTS = re.compile(r"[^\W_]+")


def _forms(word: str, language: Language) -> set[str]:
    """Return a word and the parts of a compound, case-folded, without a possessive ending."""
    folded = language.fold(word)
    return {folded, re.sub("['’]s$", "", folded), *re.split("[-–]", folded)}
