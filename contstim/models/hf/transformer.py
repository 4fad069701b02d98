"""Base class of causal and masked transformers: tokenisation, batches and candidate words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import ModelFileError
from contstim.models import ModelSpec
from contstim.models.base import ReplacementScores, SentenceModel, TokenScores, check_sentences
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.models.hf.unigram import TokenUnigram
from contstim.progress import track
from contstim.text import Sentence, WordList

# Number of batches in a group of sentences of equal length: enough that most batches are full, few
# enough that the inputs need little memory.
_BATCHES_PER_GROUP = 4


@dataclass(frozen=True, eq=False)
class Frame:
    """Tokens of a sentence before and after one word.

    Attributes
    ----------
    left, right
        Token ids before and after the word, special tokens included, 1-D arrays.
    scored_left, scored_right
        Positions of the scored tokens in `left` and in `right`.
    """

    left: IntArray
    right: IntArray
    scored_left: IntArray
    scored_right: IntArray

    @classmethod
    def from_encoded(cls, encoded: EncodedSentence, position: int, n_end: int = 0) -> Frame | None:
        """Remove the word at `position` from a sentence; return None if it is not scored.

        The last `n_end` scored tokens mark the end of the sentence and do not belong to the word.
        """
        scored = encoded.scored_positions
        n_in_words = len(scored) - n_end
        word_positions = scored[:n_in_words][encoded.word_indices[:n_in_words] == position]
        if len(word_positions) == 0:
            return None
        start, stop = int(word_positions[0]), int(word_positions[-1]) + 1
        left, right = encoded.ids[:start], encoded.ids[stop:]
        return cls(left, right, scored[scored < start], scored[scored >= stop] - stop)

    def fill(self, tokens: IntArray) -> IntArray:
        """Return the ids of the sentence with each of k words.

        Parameters
        ----------
        tokens
            Token ids of the words, shape (k, n).

        Returns
        -------
        array
            Token ids, shape (k, L).
        """
        k = len(tokens)
        return np.hstack([np.tile(self.left, (k, 1)), tokens, np.tile(self.right, (k, 1))])

    def scored_positions(self, n: int) -> IntArray:
        """Return the positions of all scored tokens if the word has `n` tokens."""
        start = len(self.left)
        return np.concatenate(
            [self.scored_left, np.arange(start, start + n), self.scored_right + start + n]
        )


class TransformerModel(SentenceModel):
    """Base class of sentence models that score with a transformer.

    Parameters
    ----------
    spec
        The spec.
    defaults
        Options of the family with their defaults.
    checkpoint
        The network and its tokenizer.
    special
        Whether to add the special tokens of the tokenizer to each sentence.

    Attributes
    ----------
    batch_tokens
        Maximum number of tokens in a forward pass.
    prefix
        Token ids before the tokens of every sentence.
    end
        Token ids after the tokens of every sentence, which are scored.
    """

    def __init__(
        self, spec: ModelSpec, defaults: Mapping[str, str], checkpoint: Checkpoint, *, special: bool
    ) -> None:
        super().__init__(spec.canonical(defaults))
        shared = SharedOptions.read(spec)
        self.checkpoint = checkpoint
        self.network = checkpoint.network
        self.tokenizer = SubwordTokenizer(checkpoint.tokenizer, shared, self.spec, special=special)
        self.batch_tokens = shared.batch_tokens or self.network.batch_tokens
        self.prefix: list[int] = []
        self.end: list[int] = []
        self._last_scored: tuple[str, EncodedSentence, FloatArray] | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.checkpoint.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the packages on which scores depend."""
        return PACKAGES

    @property
    def batch_tolerance(self) -> float:
        """Maximum difference between batches: 1e-4 nats, or 0.5 nats in 16 bits."""
        return self.network.batch_tolerance

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the tokenizer can encode each of V words, shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise S sentences, prefix and scored end included.

        Raises
        ------
        InputError
            If a sentence is too long for the network or has no scored token.
        """
        checked = check_sentences(sentences)
        encoded_sentences = []
        for sentence, tokens in zip(checked, self.tokenizer.encode(checked), strict=True):
            encoded = self.add_prefix_and_end(sentence, tokens)
            check_length(sentence, len(encoded.ids), self.checkpoint.max_tokens, self.spec)
            encoded_sentences.append(encoded)
        return encoded_sentences

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return the number of scored tokens of each sentence, shape (S,)."""
        counts = [len(encoded.scored_positions) for encoded in self.encode(sentences)]
        return np.array(counts, dtype=np.int64)

    def add_prefix_and_end(self, sentence: str, encoded: EncodedSentence) -> EncodedSentence:
        """Add prefix and scored end to the tokens of a sentence."""
        return encoded

    @abstractmethod
    def term_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Return the log-probabilities from which each of S sentences is scored, nats."""

    def to_token_scores(self, encoded: EncodedSentence, log_probs: FloatArray) -> TokenScores:
        """Return the scored tokens of a sentence from its `term_log_probs`."""
        return encoded.with_log_probs(log_probs)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of each sentence.

        Raises
        ------
        InputError
            If a sentence cannot be scored or has more tokens than the network accepts.
        UnknownWordError
            If a word is unknown and the option ``unknown`` is ``error``.
        ModelFileError
            If the network computes NaN, as some do in 16 bits.
        """
        encoded = self.encode(sentences)
        log_probs = self.term_log_probs(encoded)
        for sentence, terms in zip(sentences, log_probs, strict=True):
            if np.isnan(terms).any():
                raise ModelFileError(
                    f"{self.spec} computes NaN for {sentence!r}; set dtype=float32 in the spec or "
                    "use a checkpoint that is not damaged"
                )
        if len(encoded) == 1:
            # A search continues from the sentence that it has just verified.
            self._last_scored = (sentences[0], encoded[0], log_probs[0])
        return [self.to_token_scores(*pair) for pair in zip(encoded, log_probs, strict=True)]

    def encode_and_score(self, sentence: str) -> tuple[EncodedSentence, FloatArray]:
        """Return the tokens and `term_log_probs` of a sentence; the last result is cached."""
        if self._last_scored is None or self._last_scored[0] != sentence:
            encoded = self.encode([sentence])
            self._last_scored = (sentence, encoded[0], self.term_log_probs(encoded)[0])
        return self._last_scored[1:]

    def iter_groups(
        self, encoded: Sequence[EncodedSentence], n_rows: Sequence[int]
    ) -> Iterator[list[int]]:
        """Yield indices of sentences of equal length, a few batches at a time, with progress.

        Parameters
        ----------
        encoded
            S sentences.
        n_rows
            Number of inputs of each sentence.
        """
        max_tokens = _BATCHES_PER_GROUP * self.batch_tokens
        groups: list[list[int]] = []
        n_tokens: list[float] = []
        for i in sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids)):
            length = len(encoded[i].ids)
            same_length = groups and length == len(encoded[groups[-1][0]].ids)
            if not same_length or n_tokens[-1] >= max_tokens:
                groups.append([])
                n_tokens.append(0)
            groups[-1].append(i)
            n_tokens[-1] += length * n_rows[i]
        if len(groups) < 2:
            yield from groups
            return
        yield from track(groups, len(groups), f"scoring with {self.spec}", weights=n_tokens)

    @abstractmethod
    def score_candidates(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score V candidates for one position of a sentence in a space-delimited language."""

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score V candidates for one position of a sentence."""
        sentence.check_position(position)
        if not self.language.is_space_delimited:
            # A candidate may change the tokens of its neighbours.
            return super().score_replacements(sentence, position, words)
        return self.score_candidates(sentence, position, words)

    def candidate_scorer(
        self,
        sentence: Sentence,
        position: int,
        words: WordList,
        frame: Frame | None = None,
        score_tokens: Callable[[IntArray], FloatArray] | None = None,
    ) -> Callable[[IntArray], FloatArray]:
        """Return a function that scores candidate words exactly.

        Parameters
        ----------
        sentence, position, words
            `sentence`, and the candidates for the word at `position`.
        frame
            The tokens of the sentence around the word.
        score_tokens
            Function from the tokens of k candidates in `frame`, shape (k, n), to their scores,
            shape (k,). Without it, candidates are scored as whole sentences.

        Returns
        -------
        callable
            Function from indices of k candidates, shape (k,), to scores in nats, shape (k,).
        """
        candidates = self.tokenizer.candidates(sentence, position, words).tokens
        left, right = ([], []) if frame is None else (frame.left.tolist(), frame.right.tolist())

        def score(indices: IntArray) -> FloatArray:
            indices = np.asarray(indices, dtype=np.int64)
            texts = [str(sentence.replace(position, words.words[i])) for i in indices]
            # Group candidates by their number of tokens, 0 for whole sentences.
            groups: dict[int, list[int]] = {}
            for k, ids in enumerate(self.tokenizer.tokenize(texts)):
                candidate = candidates[indices[k]]
                # Some tokenizers split a word differently next to other words.
                fits = [*self.prefix, *ids, *self.end] == [*left, *candidate, *right]
                groups.setdefault(len(candidate) if fits else 0, []).append(k)
            scores = np.empty(len(indices), dtype=np.float64)
            for n, members in groups.items():
                if n == 0 or score_tokens is None:
                    scores[members] = self.score([texts[k] for k in members])
                else:
                    tokens = [candidates[i] for i in indices[members]]
                    scores[members] = score_tokens(np.array(tokens, dtype=np.int64))
            return scores

        return score

    def token_unigram(self) -> SentenceModel | None:
        """Return the unigram model of this model's tokens."""
        return TokenUnigram(self)
