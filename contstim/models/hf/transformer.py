"""What causal and masked transformers share: tokens, batches, candidates and own unigrams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, ModelFileError
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.base import (
    Event,
    ReplacementScores,
    SentenceModel,
    TokenScores,
    check_sentences,
)
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.models.registry import bundled_folder
from contstim.progress import track
from contstim.text import Sentence, WordList
from contstim.text_files import read_lines

#: The words of the bundled models' training text and their counts (recipe: models/unigram.py).
WORD_COUNTS = "word_counts.tsv.gz"
# Sentences of one length are handed to the network in groups of this many batches: enough that
# most batches are full, few enough that their inputs take little memory.
_BATCHES_OF_GROUP = 4


@dataclass(frozen=True, eq=False)
class Frame:
    """A sentence around one open word.

    Attributes
    ----------
    left, right
        Ids of the tokens on either side, shapes (P,) and (Q,), special tokens included.
    scored_left, scored_right
        Which of them are scored: places counted from the beginning of each side.
    """

    left: IntArray
    right: IntArray
    scored_left: IntArray
    scored_right: IntArray

    @classmethod
    def of(cls, encoded: EncodedSentence, position: int, n_end: int = 0) -> Frame | None:
        """Open the word at `position`; None if it is not scored.

        The last `n_end` scored tokens are the end of the sentence, which stays.
        """
        n = len(encoded.scored_positions) - n_end
        places = encoded.scored_positions[:n][encoded.word_indices[:n] == position]
        if len(places) == 0:
            return None
        start, stop = int(places[0]), int(places[-1]) + 1
        scored = encoded.scored_positions
        return cls(
            encoded.ids[:start],
            encoded.ids[stop:],
            scored[scored < start],
            scored[scored >= stop] - stop,
        )

    def fill(self, tokens: IntArray) -> IntArray:
        """Return the ids of k sentences with `tokens` (k, n) as the word: shape (k, P + n + Q)."""
        k = len(tokens)
        return np.hstack([np.tile(self.left, (k, 1)), tokens, np.tile(self.right, (k, 1))])

    def scored(self, n: int) -> IntArray:
        """Return the places of all scored tokens when the word has `n` tokens."""
        start = len(self.left)
        return np.concatenate(
            [self.scored_left, np.arange(start, start + n), self.scored_right + start + n]
        )


class TransformerModel(SentenceModel):
    """A transformer as a sentence model.

    Parameters
    ----------
    spec
        The spec.
    defaults
        The options it may have and their defaults.
    checkpoint
        The network and its tokenizer.
    special
        Whether sentences are tokenised with the special tokens that the tokenizer adds by itself.
    """

    def __init__(
        self, spec: ModelSpec, defaults: Mapping[str, str], checkpoint: Checkpoint, *, special: bool
    ) -> None:
        super().__init__(spec.canonical(defaults))
        shared = SharedOptions.read(spec)
        self.checkpoint = checkpoint
        self.network = checkpoint.network
        self.tokenizer = SubwordTokenizer(checkpoint.tokenizer, shared, self.spec, special=special)
        self.budget = shared.batch_tokens or self.network.token_budget
        #: Ids that are put before the tokens of every sentence, and behind them to be scored.
        self.prefix: list[int] = []
        self.end: list[int] = []
        self._last: tuple[str, EncodedSentence, FloatArray] | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.checkpoint.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def batch_tolerance(self) -> float:
        """1e-4 nats; half a nat where the network computes in 16 bits."""
        return self.network.batch_tolerance

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the tokenizer can write each of V words; shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise sentences, prefix and scored end included.

        Raises
        ------
        InputError
            If a sentence is too long for the network, or nothing of it can be predicted.
        """
        listed = check_sentences(sentences)
        encoded = []
        for sentence, tokens in zip(listed, self.tokenizer.encode(listed), strict=True):
            whole = self._surrounded(sentence, tokens)
            check_length(sentence, len(whole.ids), self.checkpoint.max_tokens, self.spec)
            encoded.append(whole)
        return encoded

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return the number of scored tokens of each sentence, (S,)."""
        return np.array([len(e.scored_positions) for e in self.encode(sentences)], dtype=np.int64)

    def _surrounded(self, sentence: str, encoded: EncodedSentence) -> EncodedSentence:
        """Put prefix and end around the tokens of a sentence."""
        return encoded

    @abstractmethod
    def values(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Compute the log-probabilities that make up the score of each sentence: S arrays, nats."""

    @abstractmethod
    def _parts(self, encoded: EncodedSentence, values: FloatArray) -> TokenScores:
        """Return the scored units of a sentence from what `values` gives."""

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of each sentence. See the class for what is scored.

        Raises as the contract says, `InputError` for a sentence longer than the network takes, and
        `ModelFileError` where the network computes NaN, as some do in 16 bits.
        """
        encoded = self.encode(sentences)
        values = self.values(encoded)
        for sentence, terms in zip(sentences, values, strict=True):
            if np.isnan(terms).any():
                raise ModelFileError(
                    f"{self.spec} computes no number for {sentence!r} but NaN; ask for "
                    "dtype=float32, or take a checkpoint that is not damaged"
                )
        if len(encoded) == 1:
            # A search goes on from the sentence that it has just verified.
            self._last = (sentences[0], encoded[0], values[0])
        return [self._parts(e, v) for e, v in zip(encoded, values, strict=True)]

    def encode_and_score(self, sentence: str) -> tuple[EncodedSentence, FloatArray]:
        """Return the tokens of a sentence and its `values`; the last one is remembered."""
        if self._last is None or self._last[0] != sentence:
            encoded = self.encode([sentence])
            self._last = (sentence, encoded[0], self.values(encoded)[0])
        return self._last[1:]

    def _groups(
        self, encoded: Sequence[EncodedSentence], n_rows: Sequence[int]
    ) -> Iterator[list[int]]:
        """Yield sentences of one length in groups of a few batches; each takes `n_rows` inputs."""
        most = _BATCHES_OF_GROUP * self.budget
        groups: list[list[int]] = []
        tokens: list[float] = []
        for i in sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids)):
            length = len(encoded[i].ids)
            alike = groups and length == len(encoded[groups[-1][0]].ids)
            if not alike or tokens[-1] >= most:
                groups.append([])
                tokens.append(0)
            groups[-1].append(i)
            tokens[-1] += length * n_rows[i]
        if len(groups) < 2:
            yield from groups
            return
        yield from track(groups, len(groups), f"scoring with {self.spec}", weights=tokens)

    def _candidate_scores(
        self,
        sentence: Sentence,
        position: int,
        words: WordList,
        frame: Frame | None = None,
        together: Callable[[IntArray], FloatArray] | None = None,
    ) -> Callable[[IntArray], FloatArray]:
        """Return the function from indices of candidates (k,) to their exact scores (k,), nats.

        Parameters
        ----------
        sentence, position, words
            The candidates: `sentence` with the word at `position` replaced by each of `words`.
        frame, together
            The sentence around the word, and the function that scores candidates of one number of
            tokens (k, n) in it; without them every candidate is scored as a whole sentence.
        """
        tokens = self.tokenizer.candidates(sentence, position, words).tokens
        left, right = ([], []) if frame is None else (frame.left.tolist(), frame.right.tolist())

        def score(index: IntArray) -> FloatArray:
            index = np.asarray(index, dtype=np.int64)
            texts = [str(sentence.replace(position, words.words[i])) for i in index]
            groups: dict[int, list[int]] = {}
            for place, ids in enumerate(self.tokenizer.tokenize(texts)):
                candidate = tokens[index[place]]
                # Some tokenizers cut a word differently beside other words.
                fits = [*self.prefix, *ids, *self.end] == [*left, *candidate, *right]
                groups.setdefault(len(candidate) if fits else 0, []).append(place)
            scores = np.empty(len(index), dtype=np.float64)
            for n, places in groups.items():
                if n == 0 or together is None:
                    scores[places] = self.score([texts[p] for p in places])
                else:
                    rows = [tokens[i] for i in index[places]]
                    scores[places] = together(np.array(rows, dtype=np.int64))
            return scores

        return score

    def token_unigram(self) -> SentenceModel | None:
        """Return the unigram probabilities of this model's own tokens."""
        return TokenUnigram(self)


def read_word_counts(path: Path) -> tuple[list[str], IntArray, IntArray]:
    """Read a table with columns `word`, `n`, `n_first` and tabs between them.

    Returns
    -------
    list of str
        Words as they stand between spaces, punctuation attached.
    array, array
        How often each occurs, and how often it is the first of a sentence.

    Raises
    ------
    InputError
        If the file cannot be read or a line is not such a row.
    """
    words: list[str] = []
    counts: list[tuple[int, int]] = []
    for number, line in read_lines(path):
        word, *fields = line.split("\t")
        if number == 1:
            continue
        if len(fields) != 2 or not all(field.isdecimal() for field in fields):
            raise InputError(f"{path}, line {number} is not a word and two counts: {line!r}")
        words.append(word)
        counts.append((int(fields[0]), int(fields[1])))
    n, n_first = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    return words, n, n_first


class TokenUnigram(SentenceModel):
    """The tokens of a transformer with their probabilities apart from any context, for SLOR.

    SLOR takes off what the frequency of a sentence's units explains. Kann et al. (2018) define it
    over the units that the model itself scores, sub-words where these are its units (their
    WPSLOR), and so do we: the sums of both terms and T go over the same units, and every sentence
    that the model can score has a value. (Lau et al. 2017 have models of whole words, for which
    the two agree.)

    Their unigram probabilities come from the model's training text. That of a checkpoint is seldom
    at hand, so tokens are counted in the text of the bundled models, whose words are listed with
    their frequencies: each word is cut into tokens as this tokenizer cuts it, first in a sentence
    and elsewhere. With c the count of a token, N their sum and V the size of the vocabulary,
    p = (c + 1) / (N + V).

    Parameters
    ----------
    model
        The transformer; what it scores of a sentence is scored here.
    path
        Word counts; by default those of the bundled models' training text.
    """

    def __init__(self, model: TransformerModel, path: Path | None = None) -> None:
        super().__init__(ModelSpec("contstim", "unigram", (("units", "tokens"),)))
        self.model = model
        self.path = path or bundled_folder() / WORD_COUNTS
        words, n, n_first = read_word_counts(self.path)
        counts = model.tokenizer.count_tokens(words, n, n_first)
        counts[model.end] += n_first.sum()
        self.log_probs = np.log((counts + 1.0) / (counts.sum() + len(counts)))

    @property
    def event(self) -> Event:
        """The transformer's event."""
        return self.model.event

    @property
    def packages(self) -> tuple[str, ...]:
        """The transformer's: its tokenizer is what words are cut by."""
        return self.model.packages

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the word counts; the tokenizer is part of the transformer's own."""
        return file_digest(self.path)

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the transformer knows each of V words; shape (V,)."""
        return self.model.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Give the units that the transformer scores their unigram log-probabilities."""
        return [
            TokenScores(
                e.units, self.log_probs[e.ids[e.scored_positions]], e.word_indices, e.n_words
            )
            for e in self.model.encode(sentences)
        ]

    @property
    def scores_vocabulary(self) -> bool:
        """Always: no word's share depends on the others."""
        return True

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates, all at once: they change the units of one word alone."""
        sentence.check_position(position)
        parts = self.score_tokens([str(sentence)])[0]
        of_word = parts.word_indices == position
        rest = parts.log_probs[~of_word].sum()
        if position == parts.n_words - 1:
            rest += self.log_probs[self.model.end].sum()
        tokens = self.model.tokenizer.candidates(sentence, position, words).tokens
        # The first word has no units where nothing stands before it.
        scores = [self.log_probs[list(t)].sum() if of_word.any() else 0.0 for t in tokens]
        return ReplacementScores.from_exact_scores(rest + np.array(scores, dtype=np.float64))
