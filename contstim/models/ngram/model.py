"""N-gram models of any source, queried through KenLM."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import kenlm
import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import ModelFileError, UnknownWordError
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.base import (
    Event,
    ReplacementScores,
    SentenceModel,
    SentenceScores,
    TokenScores,
    check_sentences,
)
from contstim.models.ngram import BackOff, NgramLevel, NgramTable, ReplacementScorer
from contstim.models.ngram.arpa import is_kenlm_binary, read_arpa, read_unigrams, write_arpa
from contstim.models.prefixes import Prefixes, PrefixModel
from contstim.models.word_tokenizer import (
    END,
    START,
    UNKNOWN,
    WORD_OPTIONS,
    MaskedSentence,
    WordTokenizer,
)
from contstim.text import Sentence, WordList, tokenize_word

_NATS = float(np.log(10.0))
_MISSING_UNKNOWN = -100.0  # what KenLM gives unknown words where the file has no <unk>
_UNKNOWN_NAMES = (UNKNOWN, "<UNK>")
_MEMORY = 1_000_000
# "lm/read_arpa.cc:156 in void lm::ReadEnd(...) threw FormatLoadException because ..."
_SOURCE_PLACE = re.compile(r"[^\s(]+:\d+ in .* threw \w+(?: because `.*?')?\.\s*")


class _BinaryVocabulary(Mapping[str, int]):
    """The words of a KenLM binary, which can be asked for but not listed; ids as they are asked."""

    def __init__(self, model: kenlm.Model) -> None:
        self.model = model
        self.words: list[str] = [UNKNOWN]
        self.ids: dict[str, int] = {}

    def __getitem__(self, word: str) -> int:
        number = self.ids.get(word)
        if number is None:
            is_word = word.isprintable() and word not in (START, END) and word in self.model
            if not is_word:
                raise KeyError(word)
            number = self.ids[word] = len(self.words)
            self.words.append(word)
        return number

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class _Pieces(dict[str, str]):
    """Remembers for each whitespace-separated word its tokens as KenLM is to read them."""

    def __init__(self, tokenizer: WordTokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, word: str) -> str:
        if len(self) >= _MEMORY:
            self.clear()
        ids, lower = self.tokenizer.ids, self.tokenizer.case == "lower"
        pieces = []
        for token in tokenize_word(word, self.tokenizer.punctuation):
            name = self.tokenizer.language.lower(token) if lower else token
            if name not in ids:
                if self.tokenizer.unknown == "error":
                    raise UnknownWordError(token)
                name = UNKNOWN
            pieces.append(name)
        self[word] = text = " ".join(pieces)
        return text


class NgramModel(SentenceModel, PrefixModel):
    """An n-gram model in an ARPA file or KenLM binary.

    The first word is conditioned on ``<s>``; the probability of ``</s>`` is part of the score
    unless the spec says ``end=none``. The other options are those of word-level models
    (`contstim.models.word_tokenizer.WORD_OPTIONS`).

    Parameters
    ----------
    spec
        Its location is the file.

    Attributes
    ----------
    order
        Length of the longest n-grams.
    path
        The file.
    binary
        Whether it is a KenLM binary.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated or of another format.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(WORD_OPTIONS)
        super().__init__(spec.canonical(WORD_OPTIONS))
        self.path = spec.path
        self.scores_end = (
            spec.get_choice("end", ("scored", "none"), WORD_OPTIONS["end"]) == "scored"
        )
        self.is_binary = is_kenlm_binary(self.path)
        self._loaded = _state(self.path)
        unknown: int | None
        ids: Mapping[str, int]
        if self.is_binary:
            self._model = _load_kenlm(self.path)
            self.order: int = self._model.order
            ids = _BinaryVocabulary(self._model)
            probe = self._model.score("\x7f", bos=False, eos=False)
            unknown = 0 if probe > _MISSING_UNKNOWN else None
        else:
            self.order, words, log_probs = read_unigrams(self.path)
            special = {START, END, *_UNKNOWN_NAMES}
            ids = {word: i for i, word in enumerate(words) if word not in special}
            unknown = next((words.index(name) for name in _UNKNOWN_NAMES if name in words), None)
            if self.order > 1:
                self._model = _load_kenlm(self.path)
            else:
                self._model = _load_unigrams(words, log_probs)
        self._tokenizer = WordTokenizer.from_spec(ids, unknown, spec)
        self._pieces = _Pieces(self._tokenizer)

    @property
    def event(self) -> Event:
        """What is scored."""
        return self._tokenizer.event(START, END if self.scores_end else "none")

    @property
    def packages(self) -> tuple[str, ...]:
        """KenLM's query module, by either of its names."""
        return ("kenlm-ex", "kenlm")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file; raises `ModelFileError` where it is no longer the one loaded."""
        return file_digest(self._same_file())

    @cached_property
    def _table(self) -> NgramTable | None:
        return None if self.is_binary else read_arpa(self._same_file())

    def _same_file(self) -> Path:
        """Return the path of the file, which must be the one that was loaded."""
        if _state(self.path) != self._loaded:
            raise ModelFileError(
                f"{str(self.path)!r} was changed or removed after it was loaded; load the model "
                "again"
            )
        return self.path

    @cached_property
    def _replacer(self) -> ReplacementScorer | None:
        return None if self._table is None else ReplacementScorer(self._table)

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V bare words is in the vocabulary; shape (V,)."""
        return self._tokenizer.in_vocabulary(words)

    def _text(self, sentence: str) -> str:
        """Return the sentence's tokens as KenLM is to read them, single spaces between."""
        try:
            text = " ".join(map(self._pieces.__getitem__, self._tokenizer.language.split(sentence)))
        except UnknownWordError:
            text = ""
        if not text or text.isspace():
            self._tokenizer.encode(sentence)  # refuses the sentence with the whole message
        return text

    def _terms(self, sentence: str) -> list[float]:
        """Return the base-10 log-probability of each scored token."""
        # KenLM's own `score` adds these up in single precision, which is too coarse for us.
        terms = self._model.full_scores(self._text(sentence), eos=self.scores_end)
        return [log_prob for log_prob, _, _ in terms]

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences and count their units. Raises as `score_tokens` does."""
        listed = check_sentences(sentences)
        sums, n_tokens = [], []
        for sentence in listed:
            terms = self._terms(sentence)
            sums.append(sum(terms))
            n_tokens.append(len(terms))
        return SentenceScores(
            np.array(sums, dtype=np.float64) * _NATS,
            np.array(n_tokens, dtype=np.int64),
            np.array([len(self.language.split(sentence)) for sentence in listed], dtype=np.int64),
            np.zeros(len(listed)),
        )

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token, and the sentence's end where it counts.

        Raises
        ------
        InputError
            For a sentence without words.
        UnknownWordError
            For a word the model does not know, unless the spec says ``unknown=unk``.
        """
        parts = []
        for sentence in check_sentences(sentences):
            encoded = self._tokenizer.encode(sentence)
            terms = self._terms(sentence)
            units, word_indices = encoded.tokens, encoded.word_indices
            if self.scores_end:
                units = (*units, END)
                word_indices = np.append(word_indices, encoded.n_words - 1)
            log_probs = np.array(terms, dtype=np.float64) * _NATS
            parts.append(TokenScores(units, log_probs, word_indices, encoded.n_words))
        return parts

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return one beginning without a word; None where marks are part of words."""
        # Scoring does without these.
        from contstim.models.ngram.prefixes import NgramPrefixes
        from contstim.models.prefixes import ScoredPrefixes

        lists = first, later
        if self._tokenizer.punctuation == "keep":
            return None
        if self._table is None or self._replacer is None:
            options = {**dict(self._spec.options), "end": "none"}
            bare = NgramModel(replace(self._spec, options=tuple(sorted(options.items()))))
            return ScoredPrefixes(bare, self, lists)
        table = BackOff(self._table, self._tokenizer, self.scores_end)
        return NgramPrefixes(table, self._replacer, lists)

    @property
    def scores_vocabulary(self) -> bool:
        """Always: all candidates are looked up."""
        return True

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score `sentence` with the word at `position` replaced by each of V `words`, all exactly.

        For ARPA files all candidates are scored in one step over arrays of the n-grams, read when
        first needed; for KenLM binaries, which do not list their n-grams, by one KenLM query a
        candidate and term.
        """
        slot = self._tokenizer.mask_word(sentence, position, words)
        if self._replacer is not None and self._table is not None:
            ids = [self._table.ids[START], *slot.ids.tolist()]
            if self.scores_end:
                ids.append(self._table.ids[END])
            scores = self._replacer.score(ids, slot.index + 1)[slot.candidates] * _NATS
        else:
            scores = self._query_each(slot) * _NATS
        return ReplacementScores.from_exact_scores(scores)

    def _query_each(self, slot: MaskedSentence) -> FloatArray:
        """Score each candidate by KenLM, state by state: shape (V,), base 10."""
        names = self._names
        base, order = self._model.BaseScore, self._model.order
        state = kenlm.State()
        self._model.BeginSentenceWrite(state)
        ids = slot.ids.tolist()
        fixed = 0.0
        for word in ids[: slot.index]:
            after = kenlm.State()
            fixed += base(state, names[word], after)
            state = after
        rest = [names[word] for word in ids[slot.index + 1 :]]
        if self.scores_end:
            rest.append(END)
        near, far = rest[: order - 1], rest[order - 1 :]
        state_now, other = kenlm.State(), kenlm.State()
        distinct, place = np.unique(slot.candidates, return_inverse=True)
        totals = np.empty(len(distinct))
        for i, word in enumerate(distinct.tolist()):
            total = base(state, names[word], state_now)
            for name in near:
                total += base(state_now, name, other)
                state_now, other = other, state_now
            totals[i] = total
        for name in far:  # by now every candidate has left the context
            fixed += base(state_now, name, other)
            state_now, other = other, state_now
        return totals[place] + fixed

    @cached_property
    def _names(self) -> Sequence[str]:
        ids = self._tokenizer.ids
        if isinstance(ids, _BinaryVocabulary):
            return ids.words
        names = [UNKNOWN] * (max(ids.values(), default=0) + 1 + len(_UNKNOWN_NAMES) + 2)
        for word, number in ids.items():
            names[number] = word
        return names


def _state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does, None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load_kenlm(path: Path) -> kenlm.Model:
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        with _quiet():
            return kenlm.Model(str(path), config)
    except (OSError, RuntimeError, ValueError) as error:
        reason = _SOURCE_PLACE.sub("", " ".join(str(error).split()))
        raise ModelFileError(
            f"KenLM cannot load {str(path)!r}, which may be truncated or damaged: {reason}"
        ) from error


def _load_unigrams(words: Sequence[str], log_probs: FloatArray) -> kenlm.Model:
    """Load a unigram model, which KenLM takes only with a bigram that changes nothing."""
    size = len(words)
    ids = {word: i for i, word in enumerate(words)}
    missing = {START, END} - set(ids)
    if missing:
        raise ModelFileError(f"the 1-grams lack {missing.pop()}")
    key = ids[START] * size + ids[END]
    flat = np.zeros(1)
    table = NgramTable(
        tuple(words),
        (
            NgramLevel(np.arange(size), log_probs, np.zeros(size)),
            NgramLevel(np.array([key], dtype=np.int64), log_probs[[ids[END]]], flat),
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unigrams.arpa"
        write_arpa(table, path, digits=9)
        return _load_kenlm(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what C++ prints to standard error nowhere; KenLM has no switch for all of it."""
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
