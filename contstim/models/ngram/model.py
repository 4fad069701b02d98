"""N-gram sentence models, with log-probabilities from KenLM."""

from __future__ import annotations

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
)
from contstim.models.ngram import NgramLevel, NgramTable, ReplacementScorer
from contstim.models.ngram.arpa import is_kenlm_binary, read_arpa, read_unigrams, write_arpa
from contstim.models.ngram.prefixes import NgramPrefixes
from contstim.models.prefixes import Prefixes, PrefixModel, ScoredPrefixes
from contstim.models.word_tokenizer import (
    END,
    START,
    UNKNOWN,
    WORD_OPTIONS,
    MaskedSentence,
    WordTokenizer,
)
from contstim.text import Sentence, WordList, tokenize_word
from contstim.text.normalise import check_sentences

_NATS = float(np.log(10.0))
_NO_UNKNOWN_WORD = -100.0  # log10 probability that KenLM returns if the model has no <unk>
_UNKNOWN_NAMES = (UNKNOWN, "<UNK>")
_MAX_CACHED_WORDS = 1_000_000
# "lm/read_arpa.cc:156 in void lm::ReadEnd(...) threw FormatLoadException because ..."
_SOURCE_LOCATION = re.compile(r"[^\s(]+:\d+ in .* threw \w+(?: because `.*?')?\.\s*")


class _BinaryVocabulary(Mapping[str, int]):
    """Word ids of a KenLM binary.

    KenLM can test whether a binary contains a word, but cannot list the words. Each word therefore
    gets the next unused id when it is looked up for the first time. Id 0 is the unknown word.
    """

    def __init__(self, model: kenlm.Model) -> None:
        self.model = model
        self.words: list[str] = [UNKNOWN]
        self.ids: dict[str, int] = {}

    def __getitem__(self, word: str) -> int:
        word_id = self.ids.get(word)
        if word_id is None:
            # KenLM also has the start and end symbols, which are no words.
            is_word = word.isprintable() and word not in (START, END) and word in self.model
            if not is_word:
                raise KeyError(word)
            # On its first use, the word gets the next unused id.
            word_id = self.ids[word] = len(self.words)
            self.words.append(word)
        return word_id

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class _TokenCache(dict[str, str]):
    """Mapping from words to their tokens, separated by spaces, for example ``said.`` to ``said .``.

    KenLM requires text in this form. A word is tokenised when it is first looked up. An unknown
    token is replaced by ``<unk>`` or leads to an `UnknownWordError`, depending on the options of
    the tokenizer.
    """

    def __init__(self, tokenizer: WordTokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, word: str) -> str:
        # Python calls this method for words that are not in the cache.
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        tokenizer = self.tokenizer
        tokens = []
        # Split the word from its punctuation marks, if the model scores them separately.
        for token in tokenize_word(word, tokenizer.punctuation):
            if tokenizer.case == "lower":
                token = tokenizer.language.lower(token)
            if token not in tokenizer.ids:
                if tokenizer.unknown == "error":
                    raise UnknownWordError(token)
                token = UNKNOWN
            tokens.append(token)
        # KenLM expects tokens that are separated by spaces.
        self[word] = text = " ".join(tokens)
        return text


class NgramModel(SentenceModel, PrefixModel):
    """An n-gram model from an ARPA file or KenLM binary.

    The first word is conditioned on the start symbol ``<s>``. The score includes the end symbol
    ``</s>`` unless the option ``end`` is ``none``. The other options are described in
    `contstim.models.word_tokenizer.WORD_OPTIONS`.

    Parameters
    ----------
    spec
        Model specification, for example ``ngram:my.arpa.gz?punctuation=split``.

    Attributes
    ----------
    order
        Length of the longest n-grams.
    path
        File of the model.
    is_binary
        Whether the file is a KenLM binary.

    Raises
    ------
    ModelFileError
        If the file is missing, is truncated, or has a different format.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(WORD_OPTIONS)
        super().__init__(spec.canonical(WORD_OPTIONS))
        end = spec.get_choice("end", ("scored", "none"), WORD_OPTIONS["end"])
        self.scores_end = end == "scored"
        self.path = spec.path
        self.is_binary = is_kenlm_binary(self.path)
        self._loaded_state = _file_state(self.path)
        unknown_id: int | None
        ids: Mapping[str, int]
        if self.is_binary:
            self._model = _load_kenlm(self.path)
            self.order: int = self._model.order
            # A binary does not list its words. Find out whether it has an unknown-word symbol from
            # the log-probability of a control character, which is no word.
            ids = _BinaryVocabulary(self._model)
            log_prob = self._model.score("\x7f", bos=False, eos=False)
            unknown_id = 0 if log_prob > _NO_UNKNOWN_WORD else None
        else:
            # An ARPA file lists its words. The unknown-word symbol may be written in two ways.
            self.order, words, log_probs = read_unigrams(self.path)
            special = {START, END, *_UNKNOWN_NAMES}
            ids = {word: i for i, word in enumerate(words) if word not in special}
            unknown_id = next((words.index(name) for name in _UNKNOWN_NAMES if name in words), None)
            # KenLM cannot load files without bigrams.
            if self.order > 1:
                self._model = _load_kenlm(self.path)
            else:
                self._model = _load_unigrams(words, log_probs)
        self._tokenizer = WordTokenizer.from_spec(ids, unknown_id, spec)
        self._tokens = _TokenCache(self._tokenizer)

    @property
    def event(self) -> Event:
        """Definition of the score: probability of the words and, optionally, of ``</s>``."""
        # The tokenizer adds how words, punctuation and case are treated.
        return self._tokenizer.event(START, END if self.scores_end else "none")

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the distributions that provide KenLM's query module."""
        return ("kenlm-ex", "kenlm")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file. Raises `ModelFileError` if it has changed since it was loaded."""
        self._check_unchanged()
        return file_digest(self.path)

    @cached_property
    def _scorer(self) -> ReplacementScorer | None:
        """Scorer of replacements; None if KenLM must score them (see `score_replacements`)."""
        if self.is_binary:
            return None
        self._check_unchanged()
        table = read_arpa(self.path)
        return None if table is None else ReplacementScorer(table)

    def _check_unchanged(self) -> None:
        if _file_state(self.path) != self._loaded_state:
            raise ModelFileError(
                f"{str(self.path)!r} was changed or removed after it was loaded; load the model "
                "again"
            )

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words is in the vocabulary, shape (V,)."""
        return self._tokenizer.in_vocabulary(words)

    def _log10_probs(self, sentence: str) -> list[float]:
        """Return the base-10 log-probability of each scored token of a sentence."""
        try:
            words = self._tokenizer.language.split(sentence)
            # Text of the sentence as KenLM expects it: tokens that are separated by spaces.
            text = " ".join([self._tokens[word] for word in words])
        except UnknownWordError:
            text = ""
        if not text or text.isspace():
            self._tokenizer.encode(sentence)  # raises an error that names the word and sentence
        # KenLM's method `score` would add the log-probabilities in single precision.
        token_scores = self._model.full_scores(text, eos=self.scores_end)
        return [log_prob for log_prob, _ngram_length, _is_unknown in token_scores]

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score S sentences and count their tokens and words.

        Raises the errors of `score_tokens`.
        """
        texts = check_sentences(sentences)
        log10_probs = [self._log10_probs(text) for text in texts]  # one list of tokens per sentence
        n_words = [len(self.language.split(text)) for text in texts]
        return SentenceScores(
            score=np.array([sum(values) for values in log10_probs], dtype=np.float64) * _NATS,
            n_tokens=np.array([len(values) for values in log10_probs], dtype=np.int64),
            n_words=np.array(n_words, dtype=np.int64),
            stderr=np.zeros(len(texts)),  # The scores are exact.
        )

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of S sentences, including the end symbol if it is scored.

        Raises
        ------
        InputError
            If a sentence has no words.
        UnknownWordError
            If the model does not know a word, unless the spec contains ``unknown=unk``.
        """
        end = END if self.scores_end else None
        scores = []
        for sentence in check_sentences(sentences):
            encoded = self._tokenizer.encode(sentence)
            # Convert base-10 logarithms to nats.
            log_probs = np.array(self._log10_probs(sentence), dtype=np.float64) * _NATS
            scores.append(encoded.with_log_probs(log_probs, end))
        return scores

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return an empty sentence prefix, which can be extended word by word.

        Searches use prefixes to score unfinished sentences.

        Parameters
        ----------
        first, later
            Words that may be the first word of a sentence, and words that may follow.

        Returns
        -------
        Prefixes or None
            The empty prefix; None if the model cannot score unfinished sentences.
        """
        if self._tokenizer.punctuation == "keep":
            # Tokens include punctuation marks. The token of the last word would depend on the mark
            # after it, which an unfinished sentence does not have yet.
            return None
        word_lists = first, later
        if self._scorer is None:
            # KenLM binaries do not list their n-grams: score each prefix as a text without end.
            options = {**dict(self._spec.options), "end": "none"}
            without_end = NgramModel(replace(self._spec, options=tuple(sorted(options.items()))))
            return ScoredPrefixes(without_end, self, word_lists)
        return NgramPrefixes(self._scorer, self._tokenizer, self.scores_end, word_lists)

    @property
    def scores_vocabulary(self) -> bool:
        """True, because exact scores of all candidate words cost little."""
        return True

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with the word at `position` replaced by each of V `words`.

        All scores are exact. For ARPA files, `ReplacementScorer` computes the scores of all
        candidates at once; it reads the file on first use. KenLM scores the candidates one at a
        time if the file is a KenLM binary, which does not list its n-grams, or if an n-gram lacks
        the (n-1)-gram of its last words.
        """
        masked = self._tokenizer.mask_word(sentence, position, words)
        # `masked` contains the token ids of the sentence without the word, and of the candidates.
        # If the n-grams are not known, let KenLM score the candidates one at a time.
        if self._scorer is None:
            return ReplacementScores.from_exact_scores(self._query_candidates(masked) * _NATS)
        # Score the sentence with every word of the vocabulary, and select the candidates.
        ids = self._scorer.table.ids
        tokens = [ids[START], *masked.ids.tolist()]
        if self.scores_end:
            tokens.append(ids[END])
        log_probs = self._scorer.score(tokens, masked.index + 1)[masked.candidates]
        return ReplacementScores.from_exact_scores(log_probs * _NATS)

    def _query_candidates(self, masked: MaskedSentence) -> FloatArray:
        """Return the base-10 log-probability of a sentence with each candidate, shape (V,).

        Words that do not depend on the candidate are scored once, and other words once for each
        distinct candidate.
        """
        names = self._words_by_id
        query = self._model.BaseScore
        context = kenlm.State()
        self._model.BeginSentenceWrite(context)
        constant = 0.0
        for word_id in masked.ids[: masked.index].tolist():
            next_state = kenlm.State()
            constant += query(context, names[word_id], next_state)
            context = next_state

        # Only the next N-1 words have the candidate in their context.
        following = [names[word_id] for word_id in masked.ids[masked.index + 1 :].tolist()]
        if self.scores_end:
            following.append(END)
        n_affected = self._model.order - 1
        distinct_ids, inverse = np.unique(masked.candidates, return_inverse=True)
        totals = np.empty(len(distinct_ids))
        state, next_state = kenlm.State(), kenlm.State()
        for i, word_id in enumerate(distinct_ids.tolist()):
            totals[i] = query(context, names[word_id], state)
            for name in following[:n_affected]:
                totals[i] += query(state, name, next_state)
                state, next_state = next_state, state
        # Score the remaining words once. After N-1 words, the state of KenLM does not depend on the
        # candidate, so continue with the state after the last candidate.
        for name in following[n_affected:]:
            constant += query(state, name, next_state)
            state, next_state = next_state, state
        return totals[inverse] + constant

    @cached_property
    def _words_by_id(self) -> Sequence[str]:
        """Words by token id, ``<unk>`` for ids without a word."""
        ids = self._tokenizer.ids
        if isinstance(ids, _BinaryVocabulary):
            return ids.words
        # The ids of special symbols (start, end and unknown word) are not in `ids`, but may be
        # higher than the other ids.
        n_special = len(_UNKNOWN_NAMES) + 2
        words = [UNKNOWN] * (max(ids.values(), default=0) + 1 + n_special)
        for word, word_id in ids.items():
            words[word_id] = word
        return words


def _file_state(path: Path) -> tuple[int, int, int] | None:
    """Return values that differ after a file has been changed or replaced; None if it is missing.

    The values are the modification time, the size and the inode.
    """
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _load_kenlm(path: Path) -> kenlm.Model:
    """Load a file with KenLM, without its progress bar and its warnings."""
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    # KenLM has no option that silences all output, so redirect standard error (file descriptor 2)
    # to the null device, and restore it at the end.
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        return kenlm.Model(str(path), config)
    except (OSError, RuntimeError, ValueError) as error:
        # Remove the location in the source code of KenLM from its message.
        reason = _SOURCE_LOCATION.sub("", " ".join(str(error).split()))
        raise ModelFileError(
            f"KenLM cannot load {str(path)!r}, which may be truncated or damaged: {reason}"
        ) from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _load_unigrams(words: Sequence[str], log_probs: FloatArray) -> kenlm.Model:
    """Load a unigram model with KenLM, which requires at least one bigram.

    The bigram ``<s> </s>`` is added with the log-probability of the unigram ``</s>``, which changes
    no score. `log_probs` are base-10 log-probabilities of the V words, shape (V,).
    """
    n_words = len(words)
    ids = {word: i for i, word in enumerate(words)}
    for symbol in (START, END):
        if symbol not in ids:
            raise ModelFileError(f"the 1-grams lack {symbol}; the file is damaged")
    # The key of a bigram is (id of the first word) * V + (id of the second word).
    key = np.array([ids[START] * n_words + ids[END]], dtype=np.int64)
    unigrams = NgramLevel(np.arange(n_words), log_probs, np.zeros(n_words))
    bigrams = NgramLevel(key, log_probs[[ids[END]]], np.zeros(1))
    # KenLM reads models only from files.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unigrams.arpa"
        write_arpa(NgramTable(tuple(words), (unigrams, bigrams)), path, digits=9)
        return _load_kenlm(path)
