"""Probabilities of sentences by bytes: summed over all ways to cut them into tokens.

A model of tokens gives a text several probabilities, one for each way to cut it; the chain rule
over the tokenizer's own way takes one of them. Summed, they are the probability of the text itself,
in which models of different tokenizers can be compared.

Vieira et al. (2025), "From language models over tokens to language models over characters",
arXiv:2412.03719: the probability that a text begins with a string x is the sum over its *covering*,
the token sequences that spell x, with a last token that may go on beyond x and without which x is
not yet covered. (Phan et al. 2025, arXiv:2410.09303, sum the cuts that the tokenizer itself makes.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from operator import itemgetter

import numpy as np
import torch
from scipy.special import logsumexp

from contstim.arrays import FloatArray
from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Hints, Replacements, SentenceParts
from contstim.models.beginnings import Beginnings
from contstim.models.hf.causal import CausalEvent, CausalModel
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import Encoded, SubwordTokenizer, byte_text, bytes_of
from contstim.models.hf.metrics import BYTES
from contstim.models.hf.trie import ROW_TOKENS, plan_rows, takes_trees, tree_logits
from contstim.text import Sentence, WordList

_Tokens = tuple[int, ...]

# Sentences whose tokenisations are looked at together.
_TOGETHER = 8
# Most beginnings of tokenisations of one sentence.
_MOST = 20_000


class ByteModel(CausalModel):
    """A causal model whose score is the log-probability that a text begins with the sentence.

    It is the sum over all ways to cut the sentence into tokens, the last of which may go on beyond
    it (`Vieira et al. 2025 <https://arxiv.org/abs/2412.03719>`_), of the product of the tokens'
    probabilities. Its units are bytes: log p(byte | bytes before). With ``end=scored`` the text
    ends there.

    Of the ways to cut the beginning of a sentence those that have less than ``least_share`` of its
    probability are not followed further: the score is a lower bound. What they would add is at most
    the probability that they have (`bounds`), and what they have in shares says `left_out`; 0 asks
    for all of them, which short texts and small vocabularies allow.

    Parameters
    ----------
    spec
        The spec, with the options of `CausalOptions` but ``words``.
    checkpoint
        The network and its tokenizer.

    Raises
    ------
    SpecError
        If an option does not go with bytes, nothing stands before the first word, or the tokens do
        not tell their bytes.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, checkpoint)
        for key, value, usual in (
            ("words", self.options.words, "tokens"),
            ("unknown", self.tokenizer.options.unknown, "error"),
        ):
            if value != usual:
                raise SpecError(
                    f"{key}={value!r} in {str(spec)!r} does not go with metric={BYTES}; leave it "
                    "out"
                )
        if not self.prefix:
            raise SpecError(
                f"metric={BYTES} in {str(spec)!r}: nothing stands before the first word, from "
                "which its bytes could be predicted; name a token, prefix=TOKEN"
            )
        if not self.tokenizer.forms.marks_space:
            raise SpecError(
                f"metric={BYTES} in {str(spec)!r}: its tokens do not tell which bytes they stand "
                "for; use a model with a byte-level or SentencePiece vocabulary"
            )
        self.vocabulary = ByteVocabulary(self.tokenizer, self.network.n_logits)

    @cached_property
    def _of_tokens(self) -> CausalModel:
        """The same model by tokens."""
        ours = {"metric", "least_share"}
        options = tuple(pair for pair in self._spec.options if pair[0] not in ours)
        return CausalModel(
            ModelSpec(self._spec.family, self._spec.location, options), self.checkpoint
        )

    @property
    def event(self) -> CausalEvent:
        """What is scored."""
        event = vars(super().event)
        metric = f"{BYTES}, over tokenisations of a share above {self.options.least_share:g}"
        return CausalEvent(**{**event, "units": "bytes", "metric": metric})

    @property
    def resolution(self) -> float:
        """The network's, and what a tokenisation has that is left out in one batch alone."""
        return super().resolution + self.options.least_share

    def n_tokens(self, sentences: Sequence[str]) -> None:
        """Return None: how a sentence is cut into tokens makes no difference."""
        return

    def own_unigram(self) -> None:
        """Return None: bytes have no frequency that would tell something of a sentence."""
        return

    def beginnings(self, first: WordList, later: WordList) -> None:
        """Return None: the sum over tokenisations is no sum over words from left to right."""
        return

    def guide(self, first: WordList, later: WordList) -> Beginnings | None:
        """Return the beginning that the model has by tokens."""
        return self._of_tokens.guide(first, later)

    def values(self, encoded: Sequence[Encoded]) -> list[FloatArray]:
        """Compute log p(byte | bytes before), and of the end: S arrays (B,), nats."""
        return [covering.log_probs() for covering in self._coverings(encoded)]

    def _parts(self, encoded: Encoded, values: FloatArray) -> SentenceParts:
        tokens = self._tokens(encoded)
        n_bytes = [len(self.vocabulary.bytes_of[token]) for token in tokens]
        word_of = np.repeat(encoded.word_of[: len(tokens)], n_bytes)
        units = self.vocabulary.units(tokens)
        n_end = len(self.end)
        return SentenceParts(
            (*units, *encoded.units[len(tokens) :]),
            values,
            np.append(word_of, [encoded.n_words - 1] * n_end).astype(np.int64),
            encoded.n_words,
        )

    def left_out(self, sentences: Sequence[str]) -> FloatArray:
        """Return the sum of the shares that were not followed further, of each sentence: (S,).

        A share is the probability of a beginning of a tokenisation over that of its text.
        """
        return np.array([c.left_out() for c in self._coverings(self.encode(sentences))])

    def bounds(self, sentences: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Return between what the log-probability lies, whatever follows what was left out.

        Returns
        -------
        lower, upper
            Shape (S,), nats. The lower bound is the score; of long sentences the upper one says
            little.
        """
        coverings = self._coverings(self.encode(sentences))
        pairs = [(covering.log_probs().sum(), covering.upper()) for covering in coverings]
        lower, upper = np.array(pairs).reshape(-1, 2).T
        return lower, upper

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates for one position, as whole sentences.

        No candidate is more probable than what stands before it. The estimate is how much more
        probable it makes the tokenizer's own tokens.
        """
        by_tokens = self._of_tokens.replacements(sentence, position, words)
        here, by_word = str(sentence), self.score_words([str(sentence)])[0]
        gained = by_tokens.estimate - self._of_tokens.score([here])[0]
        return Replacements(
            np.full(len(words), min(by_word[:position].sum(), 0.0)),
            by_word.sum() + gained,
            exact=False,
            score=self._candidate_scores(sentence, position, words),
            hints=Hints(multiply_adds=by_tokens.hints.multiply_adds),
        )

    def _tokens(self, encoded: Encoded) -> _Tokens:
        """Return the scored tokens of a sentence as its tokenizer cuts it."""
        scored = encoded.scored[: len(encoded.scored) - len(self.end)]
        return tuple(encoded.ids[scored].tolist())

    def _coverings(self, encoded: Sequence[Encoded]) -> Iterator[Covering]:
        """Yield the sum over tokenisations of each sentence."""
        for start in range(0, len(encoded), _TOGETHER):
            some = [self._tokens(e) for e in encoded[start : start + _TOGETHER]]
            coverings = [Covering(self.vocabulary, tokens, self.end) for tokens in some]
            # First the tokenizer's own cuts: against what these have others are measured.
            asked: dict[_Tokens, list[Covering]] = {}
            for covering, tokens in zip(coverings, some, strict=True):
                for n in range(len(tokens) + len(self.end)):
                    asked.setdefault(tokens[:n], []).append(covering)
            while asked:
                for tokens, log_probs in self._after(asked):
                    for covering in asked[tokens]:
                        covering.read(tokens, log_probs)
                asked = {}
                for covering in coverings:
                    for tokens in covering.followed(self.options.least_share):
                        asked.setdefault(tokens, []).append(covering)
                    if len(covering.open) > _MOST:
                        raise InputError(
                            f"{covering.text.decode('utf-8', 'replace').strip()!r} can be cut into "
                            f"tokens in too many ways for least_share={self.options.least_share:g} "
                            f"of {self.spec}; ask for a larger one"
                        )
            yield from coverings

    def _after(self, sequences: Collection[_Tokens]) -> Iterator[tuple[_Tokens, FloatArray]]:
        """Yield sequences of tokens in lexicographic order, with log p(token | sequence), (V,)."""
        ordered = sorted(sequences)
        rows = [np.array([*self.prefix, *tokens], dtype=np.int64) for tokens in ordered]
        most = min(ROW_TOKENS, self.checkpoint.max_tokens or ROW_TOKENS)
        longest = max(map(len, rows))
        trees = plan_rows(rows, most) if 2 * longest <= most else []
        largest = max((len(tree.ids) for tree in trees), default=0)
        if trees and takes_trees(self.network, largest, longest, most, self.prefix):
            for tree in trees:
                last = np.array([path[-1] for path in tree.paths])
                logits = tree_logits(self.network, tree, last)
                yield from zip((ordered[i] for i in tree.sequences), _logs(logits), strict=True)
            return
        for tokens, row in zip(ordered, rows, strict=True):
            yield tokens, _logs(self.network.of_rows([row.tolist()], [[len(row) - 1]])[0])[0]


def _logs(logits: torch.Tensor) -> FloatArray:
    """Return log-probabilities of logits (m, V)."""
    return logits.log_softmax(dim=1).cpu().numpy().astype(np.float64)


class ByteVocabulary:
    """The tokens of a vocabulary in the order of the bytes that they stand for.

    Parameters
    ----------
    tokenizer
        The tokenizer. Its special tokens, and tokens of no byte, are left out.
    n_logits
        Tokens that the network has logits for.
    """

    def __init__(self, tokenizer: SubwordTokenizer, n_logits: int) -> None:
        vocabulary = tokenizer.tokenizer.get_vocab()
        forms = tokenizer.forms
        #: The bytes of each token that stands for any.
        self.bytes_of = {
            token: spelt
            for text, token in vocabulary.items()
            if token < n_logits and not forms.special[token]
            if (spelt := bytes_of(text, forms.mark))
        }
        #: These tokens, ordered by their bytes, shape (N,).
        self.order = np.array(sorted(self.bytes_of, key=lambda token: self.bytes_of[token]))
        self._sorted = [self.bytes_of[token] for token in self.order.tolist()]

    def units(self, tokens: Sequence[int]) -> list[str]:
        """Return the bytes of tokens, each as byte-level vocabularies write it."""
        return list(byte_text(b"".join(self.bytes_of[token] for token in tokens)))

    def spans(self, text: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield which tokens begin with the first 1, 2 ... bytes of a text, while there are any.

        Yields
        ------
        start, alike, stop
            Places ``start`` to ``stop`` of `order`; up to ``alike`` the tokens are these bytes.
        """
        start, stop = 0, len(self._sorted)
        for place, byte in enumerate(text):
            # All tokens between the two begin alike, and go on.
            key = itemgetter(place)
            start = bisect_left(self._sorted, byte, start, stop, key=key)
            stop = bisect_right(self._sorted, byte, start, stop, key=key)
            alike = start
            while alike < stop and len(self._sorted[alike]) == place + 1:
                alike += 1
            if start == stop:
                return
            yield start, alike, stop
            start = alike


class Covering:
    """The probability of the beginnings of a text, while it is summed over tokenisations.

    Parameters
    ----------
    vocabulary
        The vocabulary.
    tokens
        The text, as its tokenizer cuts it.
    end
        The token that ends it, where that is scored, as a list; else an empty list.
    """

    def __init__(self, vocabulary: ByteVocabulary, tokens: _Tokens, end: Sequence[int]) -> None:
        self._vocabulary, self._end = vocabulary, end
        #: The text.
        self.text = b"".join(vocabulary.bytes_of[token] for token in tokens)
        self._mass = np.full(len(self.text) + 1, -np.inf)
        self._mass[0] = 0.0
        self._ended = -np.inf
        #: Tokenisations of beginnings that were not followed yet: where they end, and log p.
        self.open: dict[_Tokens, tuple[int, float]] = {(): (0, 0.0)}
        self._left: list[tuple[int, float]] = []
        self._spans: dict[int, list[tuple[int, int, int]]] = {}

    def read(self, tokens: _Tokens, log_probs: FloatArray) -> None:
        """Follow an open tokenisation by what its model says of the next token, (V,), nats."""
        place, weight = self.open.pop(tokens)
        if place == len(self.text):
            self._ended = np.logaddexp(self._ended, weight + log_probs[self._end].sum())
            return
        if place not in self._spans:
            self._spans[place] = list(self._vocabulary.spans(self.text[place:]))
        ordered = log_probs[self._vocabulary.order]
        for stops, (start, alike, stop) in enumerate(self._spans[place], start=place + 1):
            mass = weight + logsumexp(ordered[start:stop])
            self._mass[stops] = np.logaddexp(self._mass[stops], mass)
            if stops < len(self.text) or self._end:
                for token in self._vocabulary.order[start:alike].tolist():
                    self.open[*tokens, token] = stops, weight + float(log_probs[token])

    def followed(self, least_share: float) -> list[_Tokens]:
        """Leave out those open tokenisations that have less than a share of their text's mass."""
        least = -np.inf if least_share == 0 else np.log(least_share)
        for tokens, (place, weight) in list(self.open.items()):
            if weight - self._mass[place] < least:
                self._left.append(self.open.pop(tokens))
        return list(self.open)

    def log_probs(self) -> FloatArray:
        """Return log p(byte | bytes before), and of the end where it is scored: (B,), nats."""
        steps = np.diff(self._mass)
        if self._end:
            steps = np.append(steps, self._ended - self._mass[-1])
        # Rounding may leave a probability of one a little above it.
        return np.minimum(steps, 0.0)

    def left_out(self) -> float:
        """Return the sum of the shares of what was left out."""
        return float(sum(np.exp(weight - self._mass[place]) for place, weight in self._left))

    def upper(self) -> float:
        """Return the log-probability if the rest were sure after all that was left out, nats."""
        sum_of = self._ended if self._end else self._mass[-1]
        return float(min(logsumexp([sum_of, *(weight for _, weight in self._left)]), 0.0))
