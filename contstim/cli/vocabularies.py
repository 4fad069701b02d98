"""Vocabularies and languages for commands, read from files or detected in texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from contstim.cli.common import print_message
from contstim.text.corpora import corpus_sentences
from contstim.text.diversity import folded_words
from contstim.text.language import Language
from contstim.text.languages import detect_language, get_language
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text.word_options import WordOptions
from contstim.text.word_rules import WordRules
from contstim.text.word_tables import read_word_rows

# Minimum fraction of a text's distinct words that a vocabulary of the same language contains.
_MIN_COVERAGE = 0.25


def read_vocabulary(path: str | None, options: WordOptions | None = None) -> Vocabulary:
    """Read a vocabulary file and select words from it.

    Words with apostrophes, hyphens or digits and single letters are accepted, because they are
    listed on purpose. Words that cannot be used are reported on standard error.

    Parameters
    ----------
    path
        Path of the file; ``-`` is standard input, None the bundled English vocabulary.
    options
        Language and selection of the words; by default all words, in English.

    Returns
    -------
    Vocabulary
        The selected words.
    """
    options = options or WordOptions()
    if path is None:
        return options.filter(bundled_vocabulary(), Path())
    # Accept all listed words, such as words with apostrophes or digits.
    rules = WordRules(characters="any", exclude=frozenset())
    vocabulary = Vocabulary.read(path, rules=rules, language=options.language)
    if path != "-":
        rows, *_ = read_word_rows(path)
        # A row that allows no position only states that its word may occur twice.
        words = [row["word"] for row in rows if not row.get("first") == row.get("elsewhere") == "0"]
        usable = {*vocabulary.first, *vocabulary.elsewhere}
        # Report the words of the file that are missing from the vocabulary.
        unusable = [word for word in dict.fromkeys(words) if word not in usable]
        if unusable:
            examples = ", ".join(map(repr, unusable[:3])) + (" ..." if len(unusable) > 3 else "")
            print_message(
                f"{path}: {len(unusable)} entries left out, which are not single words or are "
                f"allowed at no position: {examples}"
            )
    return options.filter(vocabulary, Path())


def resolve_language(code: str | None, paths: Sequence[str]) -> Language:
    """Return the language with a code or, by default, the language detected in a text.

    Parameters
    ----------
    code
        Code of the language, e.g. ``en``.
    paths
        Text files. The language is detected in the first one, if it is a regular file, and
        reported on standard error unless it is English.

    Returns
    -------
    Language
        The language; English if nothing else is known.
    """
    path = Path(paths[0]) if paths else None
    if code is not None or path is None or not path.is_file():
        return get_language(code or "en")
    # Without a code, detect the language from the text.
    language = detect_language(corpus_sentences(path))
    if language.code != "en":
        print_message(f"{path} seems to be {language.name}; set another with --language CODE")
    return language


def describe_low_coverage(sentences: Iterable[str], vocabulary: Vocabulary | None = None) -> str:
    """Check whether a vocabulary contains at least a quarter of the distinct words of a text.

    Lower coverage suggests that the text is in a different language from the vocabulary. The result
    is meant for a warning.

    Parameters
    ----------
    sentences
        Sentences of the text.
    vocabulary
        Vocabulary; by default the bundled English vocabulary.

    Returns
    -------
    str
        If less than a quarter of the distinct words are in the vocabulary, their number and the
        total, e.g. ``"1 of the 7"``. Otherwise an empty string.
    """
    sentence_words = {word for sentence in sentences for word in folded_words(sentence)}
    vocabulary = vocabulary or bundled_vocabulary()
    known_words = {word.casefold() for word in (*vocabulary.first, *vocabulary.elsewhere)}
    shared_words = sentence_words & known_words
    # Low coverage suggests that text and vocabulary are in different languages.
    if len(shared_words) >= _MIN_COVERAGE * len(sentence_words):
        return ""
    return f"{len(shared_words):,} of the {len(sentence_words):,}"
