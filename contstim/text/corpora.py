"""Sentences of one's own text (lines, running text, a corpus of NLTK), and samples of them."""

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

#: How running text is split into sentences, see `corpus_sentences`.
SPLITTERS = ("lines", "rule", "punkt", "auto")

#: What `SentenceRules` may ask of punctuation.
PUNCTUATION = ("final-only", "any")

_INNER_MARKS = frozenset("'’-")
_FINAL = frozenset(".?!…。！？")
_OPENING_QUOTES = "\"'“‘«([{"
# After these a full stop does not end the sentence. "No" is left out: it ends many.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms messrs dr st prof rev hon gen col capt lt sgt maj cmdr gov sen rep mt ft vol vols
    fig figs ch pp vs cf viz e.g i.e jan feb aug sept oct nov dec
    """.split()  # noqa: SIM905 - as a list literal this is 39 lines
)

_QUOTES = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}"}
_CLOSE_UP_LEFT = frozenset(".,;:?!)]}%…”’»")
_CLOSE_UP_RIGHT = frozenset("([{$£#“‘«")
_CLITICS = frozenset(["n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "n’t", "’s", "’re", "’ve"])


def corpus_sentences(
    source: str | PathLike[str], split: str = "lines", language: Language = ENGLISH
) -> Iterator[str]:
    """Yield the sentences of one source, with single spaces between words.

    Parameters
    ----------
    source
        A UTF-8 text file (gzip by ending, ``-`` for standard input), or ``nltk:NAME``: a corpus
        of NLTK whose data the user has (folders named in the variable ``NLTK_DATA``).
    split
        ``lines``: each line of a file is a sentence. ``rule``: running text, paragraphs parted
        by blank lines, split as `split_sentences` says. ``punkt``: the same with NLTK's Punkt
        model of English. ``auto``: ``punkt`` if its data are installed and the language is
        English, else ``rule``. Corpora of NLTK come in sentences, or else are running text, for
        which ``lines`` means ``auto``.
    language
        What cuts running text into words.

    Raises
    ------
    InputError
        For a source that cannot be read, or Punkt asked for and not installed.
    """
    name = str(source)
    if name.startswith("nltk:"):
        yield from _nltk_sentences(name.removeprefix("nltk:"), split)
    elif split == "lines":
        for _, line in read_lines(source):
            if line.strip():
                yield normalise_sentence(line)
    else:
        splitter = get_splitter(split, language)
        for paragraph in _paragraphs(line for _, line in read_lines(source)):
            yield from splitter(paragraph)


def get_splitter(split: str, language: Language = ENGLISH) -> Callable[[str], list[str]]:
    """Return the function that splits a paragraph, for the names in `SPLITTERS` but ``lines``."""
    require_known("way to split sentences", split, SPLITTERS)
    if split == "rule" or (split == "auto" and language is not ENGLISH):
        return partial(split_sentences, language=language)
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        punkt = PunktTokenizer("english")
    except LookupError:
        if split != "punkt":
            return split_sentences
        raise InputError(
            "NLTK's Punkt data are not installed; install them (python -m nltk.downloader "
            "punkt_tab) or split by 'rule'"
        ) from None

    def by_punkt(paragraph: str) -> list[str]:
        return [" ".join(found.split()) for found in punkt.tokenize(paragraph)]

    return by_punkt


def split_sentences(paragraph: str, language: Language = ENGLISH) -> list[str]:
    """Split running text into sentences by a simple rule.

    A sentence ends with a word that closes in ``.``, ``?``, ``!`` or ``…`` (quotation marks and
    brackets may follow) if the next word does not begin in lower case. A full stop after a
    single letter or one of a few English abbreviations ("Mr.") ends no sentence. The rule does
    not see sentences that end in other abbreviations, nor those that begin in lower case.
    """
    sentences: list[str] = []
    words: list[str] = []
    pending = language.split(paragraph)
    for word, following in zip(pending, [*pending[1:], ""], strict=True):
        words.append(word)
        if not following or (
            _may_end(word) and not following.lstrip(_OPENING_QUOTES)[:1].islower()
        ):
            sentences.append(language.join(words))
            words = []
    return sentences


def _may_end(word: str) -> bool:
    _, core, after = split_word(word.rstrip("'’"))
    if not _FINAL & set(after):
        return core in {"...", "…"}
    stopped = after.strip(")]}\"”»'’") == "."
    initial = len(core) == 1 and core.isalpha() and core != "I"
    return not (stopped and (initial or core.lower() in _ABBREVIATIONS))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for blank, block in groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            yield " ".join(block)


def _nltk_sentences(name: str, split: str) -> Iterator[str]:
    import nltk.corpus
    from nltk.corpus.reader import CorpusReader, PlaintextCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    corpus: Any = getattr(nltk.corpus, name, None)
    if not isinstance(corpus, LazyCorpusLoader | CorpusReader):
        corpora = [k for k, v in vars(nltk.corpus).items() if isinstance(v, LazyCorpusLoader)]
        raise UnknownNameError.among("NLTK corpus", name, corpora)
    try:
        files = corpus.fileids()  # the first use loads the corpus
    except LookupError:
        raise InputError(
            f"NLTK finds no data of {name!r}; set NLTK_DATA to the folder that holds them"
        ) from None
    if isinstance(corpus, PlaintextCorpusReader):
        splitter = get_splitter("auto" if split == "lines" else split)
        for file in files:
            for paragraph in _paragraphs(str(corpus.raw(file)).splitlines()):
                yield from splitter(paragraph)
    elif name == "treebank":
        for tagged in corpus.tagged_sents():
            # Traces are tokens of the treebank, not words of the text.
            yield detokenize(token for token, tag in tagged if tag != "-NONE-")
    elif hasattr(corpus, "sents"):
        yield from map(detokenize, corpus.sents())
    else:
        raise InputError(f"the NLTK corpus {name!r} holds no sentences; choose another")


def detokenize(tokens: Iterable[str]) -> str:
    """Join the tokens of a corpus as a writer would have set them.

    Closing marks and clitics ("n't") move to the word before, opening marks to the word after;
    the quotation marks and brackets of the Penn Treebank become the usual ones; the marks that
    the Brown corpus doubles (``? ?``) become one. Straight quotation marks open and close in turn.
    """
    text = ""
    glue = True  # whether the next token joins the text without a space
    open_double = open_single = False
    previous = ""
    for item in tokens:
        mark = _QUOTES.get(item, item)
        if item == previous and item in "?!;":
            continue
        left = mark in _CLOSE_UP_LEFT or mark in _CLITICS
        right = mark in _CLOSE_UP_RIGHT
        if mark == '"':
            right = item == "``" or (item == '"' and not open_double)
            left, open_double = not right, right
        elif item in {"'", "`"}:
            # "the workers '" is a genitive unless a quotation is open.
            genitive = item == "'" and not open_single and previous.endswith("s")
            right = not genitive and not open_single
            left, open_single = not right, right
            mark = "'"
        text += mark if glue or left else " " + mark
        glue = right
        previous = item
    return text


@dataclass(frozen=True)
class SentenceRules:
    """Which sentences of a text may be sampled.

    Attributes
    ----------
    min_words, max_words
        The shortest and longest sentence, in words.
    vocabulary
        If given, each word must be allowed where it stands.
    distinct
        Whether no word may occur twice, ignoring case, but for `repeatable` ones.
    punctuation
        ``final-only``: one mark, at the end, and words of letters, digits, apostrophes and
        hyphens. ``any``: as it comes.
    final_marks
        The marks that may end the sentence, for ``final-only``.
    block
        Words that no sentence may hold, ignoring case.
    repeatable
        Words that `distinct` allows twice, where no vocabulary says so.
    language
        What cuts sentences into words.
    """

    min_words: int = 8
    max_words: int = 8
    vocabulary: Vocabulary | None = None
    distinct: bool = False
    punctuation: str = "final-only"
    final_marks: str = ".?!。？！"
    block: frozenset[str] = frozenset()
    repeatable: frozenset[str] = ENGLISH.repeatable
    language: Language = ENGLISH

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= self.max_words:
            raise InputError(
                f"no sentence has {self.min_words} to {self.max_words} words; give the shortest "
                "length first, at least 1"
            )
        require_known("punctuation rule", self.punctuation, PUNCTUATION)
        object.__setattr__(self, "block", frozenset(map(self.language.fold, self.block)))
        folded = frozenset(map(self.language.fold, self.repeatable))
        object.__setattr__(self, "repeatable", folded)

    def rejection_reason(self, text: str) -> str | None:
        """Return why `text` may not be sampled, the first reason that holds, or None.

        The reasons, in order: ``length``, ``punctuation``, ``blocked word``, ``repeated word``,
        ``word outside the vocabulary``.
        """
        language = self.language
        if not self.min_words <= len(language.split(text)) <= self.max_words:
            return "length"
        sentence = Sentence.parse(text, language)
        if self.punctuation == "final-only" and not self._plain(sentence):
            return "punctuation"
        folded = list(map(language.fold, sentence.words))
        if not self.block.isdisjoint(folded):
            return "blocked word"
        if self.distinct:
            repeatable = self.repeatable if self.vocabulary is None else self.vocabulary.repeatable
            if find_repeats(folded, repeatable):
                return "repeated word"
        if self.vocabulary is not None and self.vocabulary.unlisted_words(sentence.words):
            return "word outside the vocabulary"
        return None

    def _plain(self, sentence: Sentence) -> bool:
        *inner, last = map(strip_no_break_spaces, sentence.after)
        marked = len(last) == 1 and last in self.final_marks
        opening, *others = sentence.before
        return (
            marked
            and opening == self.language.opening_marks.get(last, "")
            and not any((*others, *inner))
            and all(map(_wordlike, sentence.words))
        )


def _wordlike(word: str) -> bool:
    return word.isalpha() or (
        word[0].isalnum()
        and all(c.isalnum() or c in _INNER_MARKS or unicodedata.category(c)[0] == "M" for c in word)
    )


@dataclass(frozen=True)
class SampleReport:
    """What became of the sentences of a text.

    Attributes
    ----------
    read
        How many sentences were read.
    dropped
        How many were dropped, by reason: by `SentenceRules.rejection_reason`, and ``duplicate``
        (the same words as an earlier one, ignoring case and punctuation).
    kept
        How many were left to sample from.
    sampled
        How many were sampled.
    """

    read: int
    dropped: Mapping[str, int]
    kept: int
    sampled: int

    def __str__(self) -> str:
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.dropped.items()) or "none"
        return (
            f"{self.read} sentences read; dropped: {reasons}; {self.kept} left, "
            f"{self.sampled} sampled"
        )


def sample_sentences(
    sentences: Iterable[str],
    *,
    n: int | None = None,
    seed: int = 0,
    rules: SentenceRules | None = None,
) -> tuple[list[str], SampleReport]:
    """Draw natural sentences, each at most once, from those that `rules` admit.

    Parameters
    ----------
    sentences
        The sentences of a text, for example from `contstim.text.corpora.corpus_sentences`.
    n
        How many to draw, every admitted sentence being equally probable; None: all of them, in
        the order of the text.
    seed
        Seed of the draw. The same sentences, rules and seed give the same sample, and a larger
        `n` the same sentences and more.
    rules
        What to admit; by default `SentenceRules()`: eight words and one final mark.

    Returns
    -------
    sample
        The sentences drawn, in the order of the draw.
    report
        How many were dropped for which reason.

    Raises
    ------
    InfeasibleError
        If fewer than `n` sentences are admitted, or none.

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
    language, read = rules.language, 0
    dropped: Counter[str] = Counter()
    by_words: dict[tuple[str, ...], str] = {}
    for text in sentences:
        read += 1
        reason = rules.rejection_reason(text)
        if reason is None:
            words = tuple(map(language.fold, Sentence.parse(text, language).words))
            if words in by_words:
                reason = "duplicate"
            else:
                by_words[words] = language.normalise_spacing(text)
        if reason is not None:
            dropped[reason] += 1
    admitted = list(by_words.values())
    report = SampleReport(read, dict(dropped.most_common()), len(by_words), n or len(by_words))
    if len(admitted) < (n or 1):
        reasons = ", ".join(f"{k} {reason}" for reason, k in report.dropped.items())
        raise InfeasibleError(
            f"{n or 'some'} sentences were asked for, but of {read} read only {len(admitted)} fit "
            f"(dropped: {reasons or 'none'}); relax a rule or give more text"
        )
    if n is None:
        return admitted, report
    order = np.random.default_rng(seed).permutation(len(admitted))
    return [admitted[i] for i in order[:n]], report
