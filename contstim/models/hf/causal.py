"""Causal language models as sentence models: the chain rule from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.models.base import Replacements, SentenceParts, as_sentences
from contstim.models.hf.causal_shared import shared_values
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.events import CausalEvent
from contstim.models.hf.limits import check_length
from contstim.models.hf.options import CAUSAL_OPTIONS, CausalOptions
from contstim.models.hf.transformer import TransformerModel
from contstim.models.hf.unigram import ScoredTokens
from contstim.models.spec import ModelSpec
from contstim.text.sentence import Sentence, WordList

__all__ = ["CausalModel", "Chain"]


@dataclass(frozen=True, eq=False)
class Chain:
    """One sentence as a chain of predictions.

    Attributes
    ----------
    encoded
        Its tokens.
    ids
        Prefix, tokens and, where it is scored, the end, shape (L,).
    places
        Where in `ids` the T scored units stand, shape (T,); each is predicted from the place
        before it.
    word_of
        The word of each scored unit, shape (T,).
    units
        The scored units as the vocabulary writes them.
    """

    encoded: Encoded
    ids: IntArray
    places: IntArray
    word_of: IntArray
    units: tuple[str, ...]


class CausalModel(TransformerModel):
    """A causal language model: log P(s) = sum_t log p(t | prefix and tokens before t).

    What stands before the first word is the ``prefix``: by default what the tokenizer puts there
    by itself, else its BOS token, else nothing. Where nothing stands there the first word cannot
    be predicted: its entry of `score_words` is NaN, the event says ``start none``, and the score
    is the log-probability of the other words given the first, as `n_tokens` counts. A sentence of
    one word is then refused.

    The end of the sentence is not scored unless ``end=scored``: a text does not end with its
    sentence, and sub-word models are trained on texts.

    A word's probability is by default the product of its tokens' (``words=tokens``), so the score
    is the plain chain rule. Where tokens carry the white space before them, that leaves out
    whether the word ends there, and words do not sum to 1. ``words=corrected`` (Oh & Schuler 2024;
    Pimentel & Meister 2024) gives

        p(w | c) = p(tokens of w | c) P(B | c, w) / P(B | c),

    with B the tokens that do not continue a word: those that begin with white space, and special
    tokens, the end of the text among them. Then the words and the stop sum to 1 after every
    context. Before an unspaced first word the divisor is P(tokens without white space, or
    special | prefix) instead. Over a sentence the factors telescope to one at either end.

    Parameters
    ----------
    spec
        The spec, with the options of `CAUSAL_OPTIONS`.
    checkpoint
        The network and its tokenizer.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, checkpoint, CAUSAL_OPTIONS, special=False)
        self.options = CausalOptions.read(spec)
        self.prefix = self._prefix()
        self.end = self._end()
        self.corrected = self.options.words == "corrected"
        if self.corrected:
            self._check_correction()
        forms = self.tokenizer.forms
        n, device = self.network.n_logits, self.network.device
        # Tokens of neither class (special, or logits without a token) end a word and a start.
        self._boundary = _everything_but(forms.continuing, n, device)
        first = forms.continuing if self.tokenizer.first == "spaced" else forms.starting
        self._initial = _everything_but(first, n, device)
        self._last: tuple[str, Chain, FloatArray] | None = None

    def _prefix(self) -> list[int]:
        """Return the ids of what stands before the first word."""
        tokenizer, wish = self.checkpoint.tokenizer, self.options.prefix
        if wish == "none":
            return []
        if wish == "auto":
            if self.tokenizer.opening:
                return list(self.tokenizer.opening)
            return [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        if wish in ("bos", "eos"):
            token = tokenizer.bos_token_id if wish == "bos" else tokenizer.eos_token_id
            if token is None:
                raise SpecError(
                    f"prefix={wish!r} in {self.spec!r}: its tokenizer has no such token; write "
                    "prefix=none or a token of its vocabulary"
                )
            return [int(token)]
        token = tokenizer.get_vocab().get(wish)
        if token is None:
            raise SpecError(
                f"prefix={wish!r} in {self.spec!r} is not a token of its vocabulary; write auto, "
                "bos, eos, none or a token"
            )
        return [int(token)]

    def _end(self) -> list[int]:
        if self.options.end == "none":
            return []
        if self.checkpoint.tokenizer.eos_token_id is None:
            raise SpecError(
                f"end='scored' in {self.spec!r}: its tokenizer has no end-of-sequence token; leave "
                "the option out"
            )
        return [int(self.checkpoint.tokenizer.eos_token_id)]

    def _check_correction(self) -> None:
        if not self.tokenizer.forms.marks_space:
            raise SpecError(
                f"words='corrected' in {self.spec!r}: its vocabulary does not mark the white space "
                "before words; leave the option out"
            )
        if self.tokenizer.options.punctuation == "context":
            raise SpecError(
                f"words='corrected' with punctuation='context' in {self.spec!r}: a word ends after "
                "its marks; leave one of the two out"
            )

    @property
    def event(self) -> CausalEvent:
        """What is scored."""
        convert = self.checkpoint.tokenizer.convert_ids_to_tokens
        return CausalEvent(
            units="tokens",
            start=" ".join(convert(self.prefix)) or "none",
            end=" ".join(convert(self.end)) or "none",
            punctuation=self.tokenizer.options.punctuation,
            case=self.tokenizer.case,
            unknown=self.tokenizer.options.unknown,
            first=self.tokenizer.first,
            words=self.options.words,
        )

    def chains(self, sentences: Sequence[str]) -> list[Chain]:
        """Tokenise sentences and put prefix and end around them.

        Raises
        ------
        InputError
            If a sentence is too long, or if nothing of it can be predicted.
        """
        listed = as_sentences(sentences)
        end_units = tuple(self.checkpoint.tokenizer.convert_ids_to_tokens(self.end))
        found = []
        for sentence, e in zip(listed, self.tokenizer.encode(listed), strict=True):
            ids = np.array([*self.prefix, *e.ids, *self.end], dtype=np.int64)
            # Without a prefix the first word is what the others are conditioned on.
            kept = np.flatnonzero(e.word_of >= (0 if self.prefix else 1))
            if len(kept) == 0:
                raise InputError(
                    f"{sentence!r} has one word, and {self.spec} has nothing to predict it from; "
                    "give a prefix"
                )
            places = np.concatenate(
                [e.scored[kept] + len(self.prefix), [len(ids) - 1] * len(self.end)]
            ).astype(np.int64)
            word_of = np.concatenate([e.word_of[kept], [e.n_words - 1] * len(self.end)])
            check_length(sentence, len(ids), self.checkpoint.max_tokens, self.spec)
            units = (*(e.units[k] for k in kept), *end_units)
            found.append(Chain(e, ids, places, word_of.astype(np.int64), units))
        return found

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Score every token of each sentence; without a prefix, every token after the first word's.

        Raises as the contract says, and `InputError` for a sentence longer than the network takes.
        """
        chains = self.chains(sentences)
        return [
            SentenceParts(c.units, values, c.word_of, c.encoded.n_words)
            for c, values in zip(chains, self.values(chains), strict=True)
        ]

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) in nats that sum to the score of each sentence.

        Without a prefix the first word's probability is missing: NaN.
        """
        words = super().score_words(sentences)
        if not self.prefix:
            for values in words:
                values[0] = np.nan
        return words

    def scored_tokens(self, sentences: Sequence[str]) -> list[ScoredTokens]:
        """Return the tokens of each sentence that are scored, the end after them."""
        return [
            ScoredTokens(c.units, c.ids[c.places], c.word_of, c.encoded.n_words)
            for c in self.chains(sentences)
        ]

    @property
    def end_ids(self) -> Sequence[int]:
        """Ids of the end symbol where it is scored."""
        return self.end

    def values(self, chains: Sequence[Chain]) -> list[FloatArray]:
        """Compute the log-probabilities of each chain's scored units: S arrays (T,), nats.

        Where many sentences begin alike, what they share is computed once.
        """
        shared = shared_values(self, chains)
        if shared is not None:
            return shared
        found: list[FloatArray] = [np.zeros(0)] * len(chains)
        ids_of = [chain.ids for chain in chains]
        for group in self.groups(ids_of, [1] * len(chains)):
            ids = np.array([chains[i].ids for i in group])
            reads = [self.reads(chains[i]) for i in group]
            rows = np.repeat(np.arange(len(group)), [len(r) for r in reads])
            table = self.read(ids, rows, np.concatenate(reads))
            cuts = np.cumsum([len(r) for r in reads])[:-1]
            for i, values in zip(group, np.split(table, cuts), strict=True):
                found[i] = self.from_reads(chains[i], values)
        return found

    def reads(self, chain: Chain) -> IntArray:
        """Return the places read: before each scored unit, and the last one for a correction."""
        reads = chain.places - 1
        if self.corrected and not self.end:
            reads = np.append(reads, len(chain.ids) - 1)
        return reads

    def from_reads(self, chain: Chain, table: FloatArray) -> FloatArray:
        """Turn what was read (R, 3) into log-probabilities of the scored units (T,)."""
        n = len(chain.places)
        values = table[:n, 0].copy()
        if not self.corrected:
            return values
        n_words = n - len(self.end)
        word_of = chain.word_of[:n_words]
        first = np.flatnonzero(np.diff(word_of, prepend=-1))
        last = np.flatnonzero(np.diff(word_of, append=-1))
        boundary = table[:, 1]
        opening = boundary[first].copy()
        if self.prefix:
            opening[0] = table[0, 2]
        values[first] -= opening
        values[last] += boundary[last + 1]
        values[n_words:] -= boundary[n_words:n]
        # Rounding may leave a probability of one a little above it.
        return np.minimum(values, 0.0)

    def read(self, ids: IntArray, rows: IntArray, positions: IntArray) -> FloatArray:
        """Read log-probabilities off rows of one length.

        Parameters
        ----------
        ids
            Token ids, shape (N, L).
        rows, positions
            The places read, shape (R,), rows ascending.

        Returns
        -------
        array
            Shape (R, 3), nats: the log-probability of the token that follows the place (of some
            token, after the last), and, for corrected words, of a boundary and of a start.
        """
        following = ids[rows, np.minimum(positions + 1, ids.shape[1] - 1)]
        # Nothing is read off the last token unless a correction asks for it.
        used = ids[:, : int(positions.max()) + 1]
        table = np.zeros((len(rows), 3), dtype=np.float64)
        for read, logits in self.network.batches(used, rows, positions, self.budget):
            table[read] = self.look_up(logits, following[read])
        return table

    def look_up(self, logits: torch.Tensor, following: IntArray) -> FloatArray:
        """Return the columns of `read` for logits (m, V) and the tokens that follow (m,)."""
        log_probs = logits.log_softmax(dim=1)
        wanted = torch.from_numpy(following).to(logits.device)
        columns = [log_probs.gather(1, wanted[:, None])[:, 0]]
        if self.corrected:
            columns.append(log_probs[:, self._boundary].logsumexp(dim=1))
            columns.append(log_probs[:, self._initial].logsumexp(dim=1))
        table = np.zeros((len(following), 3), dtype=np.float64)
        table[:, : len(columns)] = torch.stack(columns, dim=1).cpu().numpy()
        return table

    def base(self, sentence: str) -> tuple[Chain, FloatArray]:
        """Return the chain of a sentence and its values; the last one is remembered."""
        if self._last is None or self._last[0] != sentence:
            chain = self.chains([sentence])[0]
            self._last = (sentence, chain, self.values([chain])[0])
        return self._last[1:]

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates for one position.

        The words before the position are computed once. The forward pass that does it gives the
        bound for the whole list: the probability of what comes before and of a candidate's first
        token. Exact scores of chosen candidates start from the cached keys and values of the
        words before.
        """
        from contstim.models.hf.causal_replacements import causal_replacements

        return causal_replacements(self, sentence, position, words)


def _everything_but(members: BoolArray, n: int, device: torch.device) -> torch.Tensor:
    """Return the ids below `n` that are not among `members`."""
    kept = np.ones(n, dtype=np.bool_)
    kept[: len(members)][members[:n]] = False
    return torch.from_numpy(np.flatnonzero(kept)).to(device)
