"""Natural sentences from text files and NLTK corpora, and random samples of them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np

from contstim.errors import InfeasibleError, InputError, UnknownNameError, require_known
from contstim.text import Sentence, find_repeats, strip_no_break_spaces
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH
from contstim.text.normalise import normalise_sentence
from contstim.text.vocabulary import Vocabulary
from contstim.text_files import read_lines

#: Methods that split a text into sentences, see `corpus_sentences`.
SPLITTERS = ("lines", "rule", "punkt", "auto")

#: Requirements on the punctuation of a sentence, see `SentenceRules`.
PUNCTUATION = ("final-only", "any")

_INNER_MARKS = frozenset("'’-")
_FINAL_MARKS = frozenset(".?!…。！？")
_OPENING_QUOTES = "\"'“‘«([{"
# Abbreviations before a full stop that does not end a sentence. "No." is omitted as too ambiguous.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms messrs dr st prof rev hon gen col capt lt sgt maj cmdr gov sen rep mt ft vol vols
    fig figs ch pp vs cf viz e.g i.e jan feb aug sept oct nov dec
    """.split()  # noqa: SIM905 - as a list literal this is 39 lines
)

_PENN_SYMBOLS = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}"}
_ATTACHED_LEFT = frozenset(".,;:?!)]}%…”’»")
_ATTACHED_RIGHT = frozenset("([{$£#“‘«")
_CLITICS = frozenset(["n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "n’t", "’s", "’re", "’ve"])


def corpus_sentences(
    source: str | PathLike[str], split: str = "lines", language: Language = ENGLISH
) -> Iterator[str]:
    """Yield the sentences of a text file or NLTK corpus, with single spaces between words.

    Parameters
    ----------
    source
        UTF-8 text file (gzip-compressed if its name ends in ``.gz``; ``-`` is standard input) or
        ``nltk:NAME`` for an installed NLTK corpus. NLTK searches the folders in the environment
        variable ``NLTK_DATA``.
    split
        Method that splits the text into sentences. ``lines``: one sentence per line. ``rule``:
        paragraphs, separated by blank lines, are split by `split_sentences`. ``punkt``: paragraphs
        are split by NLTK's Punkt model of English. ``auto``: ``punkt`` if it is installed and the
        language is English, otherwise ``rule``. Tokenised NLTK corpora are already split into
        sentences; for other NLTK corpora ``lines`` is the same as ``auto``.
    language
        Language of the text. Default English.

    Raises
    ------
    InputError
        If the source cannot be read, or Punkt is requested but not installed.
    """
    name = str(source)
    # The source is an NLTK corpus, a file with one sentence per line, or a text in paragraphs.
    if name.startswith("nltk:"):
        yield from _read_nltk_sentences(name.removeprefix("nltk:"), split)
    elif split == "lines":
        for _, line in read_lines(source):
            if line.strip():
                yield normalise_sentence(line)
    else:
        splitter = get_splitter(split, language)
        for paragraph in _join_paragraphs(line for _, line in read_lines(source)):
            yield from splitter(paragraph)


def get_splitter(split: str, language: Language = ENGLISH) -> Callable[[str], list[str]]:
    """Return a function that splits a paragraph into sentences.

    Parameters
    ----------
    split
        Method that splits the text. ``rule``: a simple rule for all languages. ``punkt``: NLTK's
        Punkt model of English. ``auto``: ``punkt`` if it is installed and the language is English,
        otherwise ``rule``.
    language
        Language of the paragraph. Default English.

    Returns
    -------
    callable
        Function that maps a paragraph to a list of sentences.

    Raises
    ------
    InputError
        If ``punkt`` is requested but not installed.
    """
    require_known("sentence splitter", split, SPLITTERS)
    if split == "rule" or (split == "auto" and language is not ENGLISH):
        return partial(split_sentences, language=language)
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        punkt = PunktTokenizer("english")
    except LookupError:  # the weights of the Punkt model are not installed
        if split == "auto":
            return split_sentences
        raise InputError(
            "NLTK's Punkt data are not installed; install them (python -m nltk.downloader "
            "punkt_tab) or split by 'rule'"
        ) from None
    return lambda paragraph: list(map(normalise_sentence, punkt.tokenize(paragraph)))


def split_sentences(paragraph: str, language: Language = ENGLISH) -> list[str]:
    """Split a paragraph into sentences by a simple rule.

    A sentence ends after a word with a final ``.``, ``?``, ``!`` or ``…``, possibly followed by
    quotation marks or brackets, if the next word does not begin with a lower-case letter. A full
    stop after a single letter or a common English abbreviation ("Mr.") does not end a sentence.

    Parameters
    ----------
    paragraph
        Text to split.
    language
        Language of the text, which determines its words. Default English.
    """
    sentences: list[str] = []
    sentence: list[str] = []  # words of the current sentence
    words = language.split(paragraph)
    for word, next_word in zip(words, [*words[1:], ""], strict=True):
        sentence.append(word)
        # "Etc. and" continues the sentence. The last word, without a next word, always ends one.
        continues_in_lower_case = next_word.lstrip(_OPENING_QUOTES)[:1].islower()
        if not next_word or (_may_end_sentence(word) and not continues_in_lower_case):
            sentences.append(language.join(sentence))
            sentence = []
    return sentences


def _may_end_sentence(word: str) -> bool:
    """Return whether a sentence can end after a word.

    The word must be followed by final punctuation, and must not be an initial ("J.") or an
    abbreviation ("Mr.").

    Parameters
    ----------
    word
        Word with its punctuation.
    """
    _, core, after = split_word(word.rstrip("'’"))
    # Without a final mark, only a separate ellipsis can end a sentence.
    if not _FINAL_MARKS & set(after):
        return core in {"...", "…"}
    # Marks other than a single full stop always end a sentence.
    if after.strip(")]}\"”»'’") != ".":
        return True
    # A full stop does not end the sentence after the initial of a name or an abbreviation.
    is_initial = len(core) == 1 and core.isalpha() and core != "I"
    return not is_initial and core.lower() not in _ABBREVIATIONS


def _join_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield each block of lines between blank lines as one line."""
    for is_blank, block in groupby(lines, key=lambda line: not line.strip()):
        if not is_blank:
            yield " ".join(block)


def _read_nltk_sentences(name: str, split: str) -> Iterator[str]:
    """Yield the sentences of an installed NLTK corpus.

    Plain texts are split into sentences. Tokenised corpora are already split, and the tokens of
    each sentence are joined into ordinary text.

    Parameters
    ----------
    name
        Name of the corpus, for example ``brown``.
    split
        Method that splits plain text into sentences, as in `corpus_sentences`.
    """
    import nltk.corpus
    from nltk.corpus.reader import CorpusReader, PlaintextCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    corpus: Any = getattr(nltk.corpus, name, None)
    if not isinstance(corpus, LazyCorpusLoader | CorpusReader):
        corpora = [k for k, v in vars(nltk.corpus).items() if isinstance(v, LazyCorpusLoader)]
        raise UnknownNameError.with_suggestions("NLTK corpus", name, corpora)
    try:
        files = corpus.fileids()  # the first use loads the corpus
    except LookupError:
        raise InputError(
            f"NLTK finds no data of {name!r}; set NLTK_DATA to the folder that contains them"
        ) from None

    # Plain text is split into sentences. Other corpora contain sentences as lists of tokens.
    if isinstance(corpus, PlaintextCorpusReader):
        splitter = get_splitter("auto" if split == "lines" else split)
        for file in files:
            for paragraph in _join_paragraphs(str(corpus.raw(file)).splitlines()):
                yield from splitter(paragraph)
    elif name == "treebank":
        for tagged in corpus.tagged_sents():
            # Traces are annotations of the treebank, not words of the text.
            yield detokenize(token for token, tag in tagged if tag != "-NONE-")
    elif hasattr(corpus, "sents"):
        yield from map(detokenize, corpus.sents())
    else:
        raise InputError(f"the NLTK corpus {name!r} contains no sentences; choose another")


def detokenize(tokens: Iterable[str]) -> str:
    """Join the tokens of a tokenised corpus into ordinary text.

    Closing marks and clitics ("n't") are attached to the preceding word and opening marks to the
    following word. Symbols of the Penn Treebank become ordinary quotation marks and brackets,
    and marks that the Brown corpus doubles (``? ?``) become one. Straight quotation marks open
    and close alternately.

    Parameters
    ----------
    tokens
        Words and punctuation marks of one sentence.
    """
    text = previous = ""
    no_space_next = True  # whether the next symbol follows without a space
    in_double = in_single = False  # whether a quotation in double or in single marks is open
    for symbol in tokens:
        if symbol == previous and symbol in "?!;":  # a mark that the Brown corpus doubles
            continue
        # Decide whether a space separates the symbol from the text before and after it.
        mark = _PENN_SYMBOLS.get(symbol, symbol)
        no_space_before = mark in _ATTACHED_LEFT or mark in _CLITICS
        no_space_after = mark in _ATTACHED_RIGHT
        if mark == '"':
            # No space follows an opening quotation mark or precedes a closing one. The Penn
            # Treebank writes opening marks as ``. Straight marks open and close by turns.
            is_opening = symbol == "``" or (symbol == '"' and not in_double)
            no_space_before, no_space_after, in_double = not is_opening, is_opening, is_opening
        elif symbol in {"'", "`"}:
            # Outside a quotation, the mark after "workers" in "the workers ' rights" is a genitive,
            # which is written like a closing mark.
            is_genitive = symbol == "'" and not in_single and previous.endswith("s")
            is_opening = not is_genitive and not in_single
            no_space_before, no_space_after, in_single = not is_opening, is_opening, is_opening
            mark = "'"
        text += mark if no_space_next or no_space_before else f" {mark}"
        no_space_next = no_space_after
        previous = symbol
    return text


@dataclass(frozen=True)
class SentenceRules:
    """Conditions that a sentence of a corpus must satisfy to be sampled.

    Attributes
    ----------
    min_words, max_words
        Minimum and maximum number of words. Default 8.
    vocabulary
        Vocabulary in which all words must be listed. It has separate lists for the first word of a
        sentence and for later words. Default None: any word.
    distinct
        Whether to reject sentences in which a word occurs twice, ignoring case. Default False.
    punctuation
        ``final-only``: one mark at the end, and words of letters, digits, apostrophes and hyphens
        only. ``any``: no restriction.
    final_marks
        Marks that may end the sentence if `punctuation` is ``final-only``.
    repeatable
        Words that may occur twice even if `distinct` is True. If there is a vocabulary, its list of
        repeatable words is used instead.
    language
        Language of the sentences.
    """

    min_words: int = 8
    max_words: int = 8
    vocabulary: Vocabulary | None = None
    distinct: bool = False
    punctuation: str = "final-only"
    final_marks: str = ".?!。？！"
    repeatable: frozenset[str] = ENGLISH.repeatable
    language: Language = ENGLISH

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= self.max_words:
            raise InputError(
                f"no sentence has {self.min_words} to {self.max_words} words; give the minimum "
                "length first, at least 1"
            )
        require_known("punctuation rule", self.punctuation, PUNCTUATION)
        # Case-fold the repeatable words. The class is frozen, so bypass its `__setattr__`.
        folded = frozenset(map(self.language.fold, self.repeatable))
        object.__setattr__(self, "repeatable", folded)

    def rejection_reason(self, text: str) -> str | None:
        """Return the name of the first rule that a sentence violates; None if it satisfies all.

        The rules are checked in the order ``length``, ``punctuation``, ``repeated word``, ``word
        outside the vocabulary``.
        """
        language = self.language
        # Check the number of words first, because it needs no parsing.
        if not self.min_words <= len(language.split(text)) <= self.max_words:
            return "length"
        sentence = Sentence.parse(text, language)
        if self.punctuation == "final-only" and not self._has_only_final_punctuation(sentence):
            return "punctuation"
        folded = list(map(language.fold, sentence.words))
        if self.distinct:
            repeatable = self.repeatable if self.vocabulary is None else self.vocabulary.repeatable
            if find_repeats(folded, repeatable):
                return "repeated word"
        if self.vocabulary is not None:
            words_at = self.vocabulary.words_at
            if any(word not in words_at(i) for i, word in enumerate(sentence.words)):
                return "word outside the vocabulary"
        return None

    def _has_only_final_punctuation(self, sentence: Sentence) -> bool:
        """Return whether a final mark, such as a full stop, is the only punctuation.

        In Spanish, a question or exclamation must also begin with the inverted mark (¿ or ¡).
        """
        *inner, final = map(strip_no_break_spaces, sentence.after)
        # `before` and `after` contain the punctuation before and after each word. Only the last
        # word may be followed by a mark (`final`). Only the first may be preceded by one
        # (`opening`), namely the Spanish ¿ or ¡ that belongs to the final mark.
        opening, *later_openings = sentence.before
        return (
            len(final) == 1
            and final in self.final_marks
            and opening == self.language.opening_marks.get(final, "")
            and not any((*later_openings, *inner))
            and all(map(_has_word_characters, sentence.words))
        )


def _has_word_characters(word: str) -> bool:
    """Return whether a text consists of word characters and begins with a letter or digit.

    Word characters are letters, digits, apostrophes, hyphens and combining marks (accents, vowel
    signs).
    """
    if word.isalpha():
        return True
    return word[0].isalnum() and all(
        c.isalnum() or c in _INNER_MARKS or unicodedata.category(c)[0] == "M" for c in word
    )


@dataclass(frozen=True)
class SampleReport:
    """Report on sampling sentences from a corpus: numbers of sentences read, dropped and sampled.

    Attributes
    ----------
    n_read
        Number of sentences that the corpus contains, before any rule is applied.
    n_dropped
        Number of dropped sentences by reason, for example ``length`` or ``duplicate`` (the same
        words as an earlier sentence, ignoring case and punctuation).
    n_eligible
        Number of sentences that satisfy the rules.
    n_sampled
        Number of sentences that were drawn from the eligible ones.
    """

    n_read: int
    n_dropped: Mapping[str, int]
    n_eligible: int
    n_sampled: int

    def format_reasons(self) -> str:
        """Return the reasons for dropping sentences, with the number of sentences for each."""
        return ", ".join(f"{n} {reason}" for reason, n in self.n_dropped.items()) or "none"

    def __str__(self) -> str:
        return (
            f"{self.n_read} sentences read; dropped: {self.format_reasons()}; "
            f"{self.n_eligible} left, {self.n_sampled} sampled"
        )


def sample_sentences(
    sentences: Iterable[str],
    *,
    n: int | None = None,
    seed: int = 0,
    rules: SentenceRules | None = None,
) -> tuple[list[str], SampleReport]:
    """Sample sentences that satisfy rules (default: eight words), without replacement.

    Parameters
    ----------
    sentences
        Sentences of a text, for example from `contstim.text.corpora.corpus_sentences`.
    n
        Number of sentences to sample. Default None: all eligible sentences, in order.
    seed
        Random seed. For one seed, a larger `n` extends the sample of a smaller one.
    rules
        Conditions that each sampled sentence must satisfy. None means `SentenceRules()`: 8 words
        and one final mark.

    Returns
    -------
    sample
        Sampled sentences, in random order, or in the order of the corpus if `n` is None.
    report
        Numbers of sentences read, dropped and sampled.

    Raises
    ------
    InfeasibleError
        If fewer than `n` sentences are eligible, or none.

    Examples
    --------
    >>> from contstim import pool
    >>> from contstim.text.corpora import SentenceRules
    >>> rules = SentenceRules(min_words=5, max_words=6)
    >>> drawn, report = sample_sentences(pool(), n=2, seed=1, rules=rules)
    >>> drawn
    ['The men were paid in salt.', 'Please do not feed the bears.']
    """
    if n is not None and n < 1:
        raise InputError(f"the number of sentences to sample must be at least 1, got {n}")
    rules = rules or SentenceRules()
    language = rules.language
    n_dropped: Counter[str] = Counter()
    eligible: dict[tuple[str, ...], str] = {}  # by the folded words of the sentence
    for text in sentences:
        reason = rules.rejection_reason(text)
        if reason is None:
            words = tuple(map(language.fold, Sentence.parse(text, language).words))
            if words in eligible:
                reason = "duplicate"
            else:
                eligible[words] = language.normalise_spacing(text)
        if reason is not None:
            n_dropped[reason] += 1

    n_eligible = len(eligible)
    n_read = n_eligible + n_dropped.total()
    report = SampleReport(n_read, dict(n_dropped.most_common()), n_eligible, n or n_eligible)
    if n_eligible < (n or 1):
        raise InfeasibleError(
            f"{n or 'some'} sentences were requested, but only {n_eligible} of {n_read} are "
            f"eligible (dropped: {report.format_reasons()}); relax a rule or give more text"
        )
    texts = list(eligible.values())
    if n is None:
        return texts, report
    order = np.random.default_rng(seed).permutation(n_eligible)
    return [texts[i] for i in order[:n]], report
