"""Base class of causal and masked transformers: tokenisation, batches and candidate words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import ModelFileError
from contstim.models import ModelSpec
from contstim.models.base import ReplacementScores, SentenceModel, TokenScores
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.models.hf.unigram import TokenUnigram
from contstim.progress import track
from contstim.text import Sentence, WordList
from contstim.text.normalise import check_sentences

# Sentences of equal length are prepared in groups of about this number of batches: enough that most
# batches are full, few enough that the prepared token ids need little memory.
_BATCHES_PER_GROUP = 4


@dataclass(frozen=True, eq=False)
class SurroundingTokens:
    """Tokens of a sentence before and after one word, between which other words are inserted.

    Attributes
    ----------
    left, right
        Token ids before and after the word, special tokens included, 1-D arrays.
    scored_left, scored_right
        Positions of the scored tokens in `left` and in `right`, each counted from 0.
    """

    left: IntArray
    right: IntArray
    scored_left: IntArray
    scored_right: IntArray

    @classmethod
    def from_encoded(
        cls, encoded: EncodedSentence, position: int, n_end: int = 0
    ) -> SurroundingTokens | None:
        """Remove the tokens of one word from a sentence.

        Parameters
        ----------
        encoded
            Tokens of the sentence.
        position
            Index of the word, counted from 0.
        n_end
            Number of end-of-sentence tokens, which belong to no word.

        Returns
        -------
        SurroundingTokens or None
            The tokens on both sides of the word; None if the word has no scored token.
        """
        scored = encoded.scored_positions
        # Positions of the word's tokens. The end-of-sentence tokens, which come last, have the
        # index of the last word but do not belong to it.
        n_in_words = len(scored) - n_end
        word_positions = scored[:n_in_words][encoded.word_indices[:n_in_words] == position]
        if len(word_positions) == 0:
            return None
        # Split the sentence before and after the word. Positions on the right are counted from the
        # first token after the word.
        start, stop = int(word_positions[0]), int(word_positions[-1]) + 1
        left, right = encoded.ids[:start], encoded.ids[stop:]
        return cls(left, right, scored[scored < start], scored[scored >= stop] - stop)

    def fill(self, tokens: IntArray) -> IntArray:
        """Insert words into the sentence, and return the token ids of the resulting sentences.

        Each of k words is inserted separately, between the tokens `left` and `right`.

        Parameters
        ----------
        tokens
            Token ids of the k words, each with n tokens, shape (k, n).

        Returns
        -------
        array
            Token ids of the k sentences, each with L tokens, shape (k, L).
        """
        n_words = len(tokens)
        left, right = np.tile(self.left, (n_words, 1)), np.tile(self.right, (n_words, 1))
        return np.hstack([left, tokens, right])

    def scored_positions(self, n: int) -> IntArray:
        """Return the positions of all scored tokens after a word of `n` tokens is inserted."""
        start = len(self.left)
        return np.concatenate(
            [self.scored_left, np.arange(start, start + n), self.scored_right + start + n]
        )


class TransformerModel(SentenceModel):
    """Base class of sentence models that compute scores with a transformer.

    Parameters
    ----------
    spec
        Model specification, for example ``hf:gpt2?reduction=mean``.
    defaults
        Mapping from the options of causal or of masked models to their default values.
    checkpoint
        Network and tokenizer.
    special
        Whether to add the special tokens of the tokenizer to each sentence.

    Attributes
    ----------
    batch_tokens
        Maximum number of tokens in a forward pass.
    prefix
        Ids of the tokens before every sentence, which are not scored.
    end
        Ids of the tokens after every sentence, which are scored.
    """

    def __init__(
        self, spec: ModelSpec, defaults: Mapping[str, str], checkpoint: Checkpoint, *, special: bool
    ) -> None:
        super().__init__(spec.canonical(defaults))
        # Options of causal and masked models, for example the form of the first word.
        shared = SharedOptions.read(spec)
        self.checkpoint = checkpoint
        self.network = checkpoint.network
        self.tokenizer = SubwordTokenizer(checkpoint.tokenizer, shared, self.spec, special=special)
        self.batch_tokens = shared.batch_tokens or self.network.batch_tokens
        # Ids of the tokens before and after every sentence. Causal models replace the empty lists.
        self.prefix: list[int] = []
        self.end: list[int] = []
        # Last result of `encode_and_score`: sentence, its tokens, and their log-probabilities.
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
        """Tokenise S sentences, and add the model's tokens before and after every sentence.

        Raises
        ------
        InputError
            If a sentence is too long for the network or has no scored token.
        """
        checked = check_sentences(sentences)
        encoded_sentences = []
        for sentence, tokens in zip(checked, self.tokenizer.encode(checked), strict=True):
            encoded = self.add_prefix_and_end(sentence, tokens)
            # The network has a maximum number of tokens.
            check_length(sentence, len(encoded.ids), self.checkpoint.max_tokens, self.spec)
            encoded_sentences.append(encoded)
        return encoded_sentences

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return the number of scored tokens of each sentence, shape (S,)."""
        counts = [len(encoded.scored_positions) for encoded in self.encode(sentences)]
        return np.array(counts, dtype=np.int64)

    def add_prefix_and_end(self, sentence: str, encoded: EncodedSentence) -> EncodedSentence:
        """Add the model's prefix and end tokens to a sentence. The base class adds none."""
        return encoded

    @abstractmethod
    def predicted_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Return the log-probabilities from which the score of each sentence is computed.

        A causal model predicts each scored token once. A masked model may predict a token several
        times, from copies of the sentence with different masked tokens.

        Parameters
        ----------
        encoded
            Tokens of S sentences.

        Returns
        -------
        list of array
            Log-probabilities in nats of the predictions for each sentence.
        """

    def to_token_scores(self, encoded: EncodedSentence, log_probs: FloatArray) -> TokenScores:
        """Combine the log-probabilities of `predicted_log_probs` into one for each scored token."""
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
        # A masked model may predict a token several times, from different masked copies.
        log_probs = self.predicted_log_probs(encoded)
        for sentence, sentence_log_probs in zip(sentences, log_probs, strict=True):
            if np.isnan(sentence_log_probs).any():
                raise ModelFileError(
                    f"{self.spec} computes NaN for {sentence!r}; set dtype=float32 in the spec or "
                    "use a checkpoint that is not damaged"
                )
        if len(encoded) == 1:
            # Searches score a sentence and then replacements of its words, so cache the sentence.
            self._last_scored = (sentences[0], encoded[0], log_probs[0])
        return [self.to_token_scores(*pair) for pair in zip(encoded, log_probs, strict=True)]

    def encode_and_score(self, sentence: str) -> tuple[EncodedSentence, FloatArray]:
        """Return the tokens of a sentence and the log-probabilities of `predicted_log_probs`.

        The result for the last sentence is cached.
        """
        if self._last_scored is None or self._last_scored[0] != sentence:
            encoded = self.encode([sentence])
            self._last_scored = (sentence, encoded[0], self.predicted_log_probs(encoded)[0])
        return self._last_scored[1:]

    def iter_groups(
        self, encoded: Sequence[EncodedSentence], n_rows: Sequence[int]
    ) -> Iterator[list[int]]:
        """Group sentences by their number of tokens, so that no padding is needed.

        A group fills a few batches. If there are several groups, a progress bar is shown.

        Parameters
        ----------
        encoded
            Tokens of S sentences.
        n_rows
            Number of rows of token ids that the network computes for each sentence: 1 for causal
            models, the number of masked copies for masked models.

        Yields
        ------
        list of int
            Indices of the sentences of a group.
        """
        max_tokens = _BATCHES_PER_GROUP * self.batch_tokens
        lengths = [len(sentence.ids) for sentence in encoded]
        # Indices of the sentences of each group, and number of tokens of each group.
        groups: list[list[int]] = []
        n_tokens: list[float] = []
        group_length = 0
        # In ascending order of length, start a group at a new length or if the group is full.
        for i in sorted(range(len(encoded)), key=lengths.__getitem__):
            if not groups or lengths[i] != group_length or n_tokens[-1] >= max_tokens:
                groups.append([])
                n_tokens.append(0)
                group_length = lengths[i]
            groups[-1].append(i)
            n_tokens[-1] += lengths[i] * n_rows[i]
        if len(groups) < 2:
            yield from groups
            return
        # Show progress in proportion to the number of tokens.
        yield from track(groups, len(groups), f"scoring with {self.spec}", weights=n_tokens)

    @abstractmethod
    def score_candidates(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each of V candidates.

        The words of the sentence are separated by spaces, so that a candidate does not change the
        tokens of other words.
        """

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each of V candidates."""
        sentence.check_position(position)
        if not self.language.is_space_delimited:
            # A candidate may change the tokens of its neighbours.
            return super().score_replacements(sentence, position, words)
        return self.score_candidates(sentence, position, words)

    def whole_sentence_scorer(
        self, sentence: Sentence, position: int, words: WordList
    ) -> Callable[[IntArray], FloatArray]:
        """Return a function that replaces the word at `position` and scores the whole sentences.

        The function receives the indices in `words` of k candidates for this position, shape (k,).
        It returns the scores of the k sentences in nats, shape (k,).
        """
        return lambda candidates: self.score(
            [str(sentence.replace(position, words.words[i])) for i in candidates]
        )

    def token_scorer(
        self,
        sentence: Sentence,
        position: int,
        words: WordList,
        surrounding: SurroundingTokens,
        score_tokens: Callable[[IntArray], FloatArray],
    ) -> Callable[[IntArray], FloatArray]:
        """Return a function that scores a sentence with each of several candidates for one word.

        A fast function scores the candidates that do not change the tokens of the other words. The
        other candidates are scored as whole sentences.

        Parameters
        ----------
        sentence
            Sentence in which one word is replaced by a candidate.
        position
            Index of the word, counted from 0.
        words
            The V candidates.
        surrounding
            Tokens of the sentence before and after the word.
        score_tokens
            Fast function that maps the token ids of k candidates with n tokens each, shape (k, n),
            to the scores of the sentences, shape (k,).

        Returns
        -------
        callable
            Function from indices of k candidates, shape (k,), to scores in nats, shape (k,).
        """
        all_tokens = self.tokenizer.candidates(sentence, position, words).tokens
        left, right = surrounding.left.tolist(), surrounding.right.tolist()

        def score_candidates(candidates: IntArray) -> FloatArray:
            texts = [str(sentence.replace(position, words.words[i])) for i in candidates]
            # Tokenise the sentences. Find those in which the surrounding words keep their tokens,
            # and group them by the number of tokens of the candidate.
            tokens = [all_tokens[i] for i in candidates]
            changed: list[int] = []
            unchanged_by_length: dict[int, list[int]] = {}
            for k, text_ids in enumerate(self.tokenizer.tokenize(texts)):
                if [*self.prefix, *text_ids, *self.end] == [*left, *tokens[k], *right]:
                    unchanged_by_length.setdefault(len(tokens[k]), []).append(k)
                else:
                    changed.append(k)
            scores = np.empty(len(texts), dtype=np.float64)
            if changed:
                scores[changed] = self.score([texts[k] for k in changed])
            for group in unchanged_by_length.values():
                scores[group] = score_tokens(np.array([tokens[k] for k in group], dtype=np.int64))
            return scores

        return score_candidates

    def token_unigram(self) -> SentenceModel | None:
        """Return the unigram model of this model's tokens."""
        return TokenUnigram(self)
