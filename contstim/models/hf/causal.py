"""Causal language models as sentence models: the chain rule from left to right."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, ScoringCost, TokenScores
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.network import KVCache
from contstim.models.hf.options import CAUSAL_OPTIONS, CausalOptions
from contstim.models.hf.transformer import Frame, TransformerModel
from contstim.models.hf.trie import (
    ROW_TOKENS,
    TokenTree,
    TokenTrie,
    guess_log_probs,
    pack_trees,
    supports_trees,
    tree_logits,
)
from contstim.models.prefixes import PrefixModel
from contstim.text import Sentence, WordList, default_prompt, format_prompt, read_sentences

if TYPE_CHECKING:
    from contstim.models.hf.prefixes import CausalPrefixes

#: The bounds of all candidates may cost as much as the scores of this many sentences like the
#: present one, each computed as one input.
MAX_BOUND_SENTENCES = 100
# Nor may they cost more than the scores of one in so many of the candidates.
_ONE_IN = 10
# Tokens of a prefix that is computed once for many sentences.
_LONG_PREFIX = 16
# Trees cost more a token than plain rows: they are used if they leave at most this share of them.
_LARGEST_SHARE_OF_TREES = 0.7

# What is predicted from one place of a row, nats: the log-probability of the token that follows,
# and, for corrected words, of a token that ends a word and of one that the first word begins with.
_PREDICTION = np.dtype([("token", np.float64), ("boundary", np.float64), ("start", np.float64)])
_Predictions = NDArray[np.void]


@dataclass(frozen=True)
class CausalEvent(Event):
    """What a causal model scores.

    Attributes
    ----------
    first
        Form of the first word: ``spaced``, ``unspaced``, or ``unmarked`` where the vocabulary
        does not mark white space.
    words
        ``tokens``: a word's probability is the product of its tokens'. ``corrected``: it is also
        the probability that the word ends there.
    """

    first: str = "unmarked"
    words: str = "tokens"


@dataclass(frozen=True, eq=False)
class _Beginning:
    """What stands before the open word, computed once.

    Attributes
    ----------
    log_prob
        Log-probability of the scored tokens before the word, nats, less the opening of the first
        word where words are corrected.
    first
        Log-probability of every token as the word's first, shape (V,), nats.
    branch
        What candidates go on from, or None where the network keeps nothing that can be branched.
    """

    log_prob: float
    first: FloatArray
    branch: KVCache | None


class CausalModel(TransformerModel, PrefixModel):
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
        super().__init__(spec, CAUSAL_OPTIONS, checkpoint, special=False)
        self.options = CausalOptions.read(spec)
        self.prefix = [*self._prefix(), *self._prompt()]
        self.end = self._end()
        self.corrected = self.options.words == "corrected"
        if self.corrected:
            self._check_correction()
        forms = self.tokenizer.token_classes
        n, device = self.network.n_logits, self.network.device
        # Tokens of neither class (special, or logits without a token) end a word and a start.
        self.boundary = _everything_but(forms.is_continuing, n, device)
        others = forms.is_continuing if self.tokenizer.first == "spaced" else forms.is_starting
        self.opening = _everything_but(others, n, device)
        self._kept: tuple[torch.Tensor, KVCache] | None = None
        # What the first scored word is divided by: the second, where the first is a condition.
        self._divisor = "start" if self.prefix else "boundary"

    def _prefix(self) -> list[int]:
        """Return the ids of what stands before the first word."""
        tokenizer, asked = self.checkpoint.tokenizer, self.options.prefix
        if asked == "none":
            return []
        if asked == "auto":
            opening = self.tokenizer.leading_special_ids or (tokenizer.bos_token_id,)
            return [token for token in opening if token is not None]
        named = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}
        token = named[asked] if asked in named else tokenizer.get_vocab().get(asked)
        if token is not None:
            return [int(token)]
        raise SpecError(
            f"prefix={asked!r} in {self.spec!r}"
            + (
                ": its tokenizer has no such token; write prefix=none or a token of its vocabulary"
                if asked in named
                else " is not a token of its vocabulary; write auto, bos, eos, none or a token"
            )
        )

    def _prompt(self) -> list[int]:
        """Return the ids of the text before the sentence."""
        asked = self.options.prompt
        if asked == "none":
            return []
        text = default_prompt() if asked == "natural" else format_prompt(read_sentences(asked))
        return self.tokenizer.tokenize_text(text)

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
        if not self.tokenizer.token_classes.marks_space:
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
        bare, prompt = self._prefix(), self._prompt()
        start = " ".join(convert(bare)) or "none"
        if prompt:
            text = digest(",".join(map(str, prompt)))[:16]
            start = f"{start} and a text of {len(prompt)} tokens, {text}"
        return CausalEvent(
            units="tokens",
            start=start,
            end=" ".join(convert(self.end)) or "none",
            punctuation=self.tokenizer.options.punctuation,
            case=self.tokenizer.case,
            unknown=self.tokenizer.options.unknown,
            first=self.tokenizer.first,
            words=self.options.words,
        )

    def _surrounded(self, sentence: str, encoded: EncodedSentence) -> EncodedSentence:
        """Put prefix and end around the tokens of a sentence."""
        ids = np.array([*self.prefix, *encoded.ids, *self.end], dtype=np.int64)
        # Without a prefix the first word is what the others are conditioned on.
        scored = np.flatnonzero(encoded.word_indices >= (0 if self.prefix else 1))
        if len(scored) == 0:
            raise InputError(
                f"{sentence!r} has one word, and {self.spec} has nothing to predict it from; "
                "give a prefix"
            )
        n_words, n_end = encoded.n_words, len(self.end)
        end_units = self.checkpoint.tokenizer.convert_ids_to_tokens(self.end)
        places = np.append(
            encoded.scored_positions[scored] + len(self.prefix), [len(ids) - 1] * n_end
        )
        word_indices = np.append(encoded.word_indices[scored], [n_words - 1] * n_end)
        return EncodedSentence(
            ids,
            places.astype(np.int64),
            word_indices.astype(np.int64),
            (*(encoded.units[k] for k in scored), *end_units),
            n_words,
        )

    def _parts(self, encoded: EncodedSentence, values: FloatArray) -> TokenScores:
        return TokenScores(encoded.units, values, encoded.word_indices, encoded.n_words)

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) in nats that sum to the score of each sentence.

        Without a prefix the first word's probability is missing: NaN.
        """
        words = super().score_words(sentences)
        if not self.prefix:
            for values in words:
                values[0] = np.nan
        return words

    def values(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Compute the log-probabilities of each sentence's scored units: S arrays (T,), nats.

        Where many sentences begin alike, what they share is computed once.
        """
        if len(self.prefix) >= _LONG_PREFIX and (begun := self._begun()) is not None:
            groups = self._batched(encoded)
            return [value for group in groups for value in self._gone_on(*begun, group)]
        shared = self.tree_log_probs(encoded)
        if shared is not None:
            return shared
        values: list[FloatArray] = [np.zeros(0)] * len(encoded)
        for group in self._groups(encoded, [1] * len(encoded)):
            ids = np.array([encoded[i].ids for i in group])
            positions = [self._positions(encoded[i]) for i in group]
            rows = np.repeat(np.arange(len(group)), [len(p) for p in positions])
            table = self._predict(ids, rows, np.concatenate(positions))
            cuts = np.cumsum([len(p) for p in positions])[:-1]
            for i, predictions in zip(group, np.split(table, cuts), strict=True):
                values[i] = self._unit_log_probs(encoded[i], predictions)
        return values

    def _batched(self, encoded: Sequence[EncodedSentence]) -> Iterator[Sequence[EncodedSentence]]:
        """Yield groups of which the network computes each at once."""
        longest = max((len(e.ids) for e in encoded), default=1)
        size = max(1, self.budget // longest)
        for first in range(0, len(encoded), size):
            yield encoded[first : first + size]

    def _begun(self) -> tuple[torch.Tensor, KVCache] | None:
        """Return the logits of the prefix, and what is kept of it; None if nothing goes on so."""
        from contstim.models.hf.prefixes import can_extend  # which short prefixes do without

        if self._kept is None and can_extend(self.network, self.prefix[:1]):
            self._kept = self.network.begin(np.array(self.prefix, dtype=np.int64))
        return self._kept

    def _gone_on(
        self, logits: torch.Tensor, before: KVCache, encoded: Sequence[EncodedSentence]
    ) -> list[FloatArray]:
        """Compute what `values` gives from the keys and values of the prefix."""
        n = len(self.prefix)
        tokens = [tuple(e.ids[n:].tolist()) for e in encoded]
        beyond = before.extend(self.network, [0] * len(tokens), tokens, every=True)[1]
        values = []
        for e, of_sentence in zip(
            encoded, torch.split(beyond, [len(t) for t in tokens]), strict=True
        ):
            positions = self._positions(e)
            following = e.ids[np.minimum(positions + 1, len(e.ids) - 1)]
            read = torch.cat([logits[-1:], of_sentence])[torch.from_numpy(positions - n + 1)]
            values.append(self._unit_log_probs(e, self._predictions(read, following)))
        return values

    def tree_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray] | None:
        """Compute what `values` gives by trees of tokens, each shared token once.

        Returns
        -------
        list or None
            S arrays (T,), nats; None where sentences share too little or are longer than half a
            row, or where the network takes no trees as large as theirs.
        """
        if len(encoded) < 2:
            return None
        positions = [self._positions(e) for e in encoded]
        # Nothing is predicted from a last token unless a correction asks for it.
        used = [e.ids[: int(p.max()) + 1] for e, p in zip(encoded, positions, strict=True)]
        # A row is no longer than an input may be.
        most = min(ROW_TOKENS, self.checkpoint.max_tokens or ROW_TOKENS)
        longest = max(map(len, used))
        if 2 * longest > most:
            return None
        rows = pack_trees(used, most)
        sizes = [len(row.ids) for row in rows]
        if sum(sizes) > _LARGEST_SHARE_OF_TREES * sum(map(len, used)):
            return None
        if not supports_trees(self.network, max(sizes), longest, most, self.prefix):
            return None
        values: list[FloatArray] = [np.zeros(0)] * len(encoded)
        for row in rows:
            for number, predictions in self._predict_tree(row, encoded, positions):
                values[number] = self._unit_log_probs(encoded[number], predictions)
        return values

    def _predict_tree(
        self, row: TokenTree, encoded: Sequence[EncodedSentence], positions: Sequence[IntArray]
    ) -> list[tuple[int, _Predictions]]:
        """Predict what the sentences of one row need, each place and following token once."""
        pairs = []
        for number, path in zip(row.sequences, row.paths, strict=True):
            ids, at = encoded[number].ids, positions[number]
            following = ids[np.minimum(at + 1, len(ids) - 1)]
            pairs.append(np.stack([path[at], following], axis=1))
        distinct, which = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
        logits = tree_logits(self.network, row, distinct[:, 0])
        table = self._predictions(logits, distinct[:, 1])
        cuts = np.cumsum([len(p) for p in pairs])[:-1]
        return [
            (number, table[index])
            for number, index in zip(row.sequences, np.split(which.reshape(-1), cuts), strict=True)
        ]

    def _positions(self, encoded: EncodedSentence) -> IntArray:
        """Return the places to predict from: before each scored unit, and, to correct, the last."""
        positions = encoded.scored_positions - 1
        if self.corrected and not self.end:
            positions = np.append(positions, len(encoded.ids) - 1)
        return positions

    def _unit_log_probs(self, encoded: EncodedSentence, predictions: _Predictions) -> FloatArray:
        """Turn the predictions (R,) at `_positions` into log-probabilities of the units (T,)."""
        n = len(encoded.scored_positions)
        values = np.array(predictions["token"][:n], dtype=np.float64)
        if not self.corrected:
            return values
        n_in_words = n - len(self.end)
        word_indices = encoded.word_indices[:n_in_words]
        first = np.flatnonzero(np.diff(word_indices, prepend=-1))
        last = np.flatnonzero(np.diff(word_indices, append=-1))
        boundary = predictions["boundary"]
        divisors = boundary[first].copy()
        divisors[0] = predictions[self._divisor][0]
        values[first] -= divisors
        values[last] += boundary[last + 1]
        values[n_in_words:] -= boundary[n_in_words:n]
        # Rounding may leave a probability of one a little above it.
        return np.minimum(values, 0.0)

    def _predict(
        self, ids: IntArray, rows: IntArray, positions: IntArray, before: KVCache | None = None
    ) -> _Predictions:
        """Predict from places of rows of one length.

        Parameters
        ----------
        ids
            Token ids, shape (N, L).
        rows, positions
            The places, shape (R,), rows ascending.
        before
            What all rows go on from, if anything.

        Returns
        -------
        array
            Fields as `_PREDICTION`, shape (R,); the last place of a row has any token follow it.
        """
        following = ids[rows, np.minimum(positions + 1, ids.shape[1] - 1)]
        # Nothing is predicted from the last token unless a correction asks for it.
        used = ids[:, : int(positions.max()) + 1]
        table = np.zeros(len(rows), dtype=_PREDICTION)
        for batch, logits in self.network.iter_logits(used, rows, positions, self.budget, before):
            table[batch] = self._predictions(logits, following[batch])
        return table

    def _predictions(self, logits: torch.Tensor, following: IntArray) -> _Predictions:
        """Return the predictions of logits (m, V) for the tokens that follow (m,)."""
        log_probs = logits.log_softmax(dim=1)
        wanted = torch.from_numpy(following).to(logits.device)
        table = np.zeros(len(following), dtype=_PREDICTION)
        table["token"] = log_probs.gather(1, wanted[:, None])[:, 0].cpu().numpy()
        if self.corrected:
            table["boundary"] = log_probs[:, self.boundary].logsumexp(dim=1).cpu().numpy()
            table["start"] = log_probs[:, self.opening].logsumexp(dim=1).cpu().numpy()
        return table

    def with_context(self, text: str) -> CausalModel:
        """Return the model of sentences that come after a text, with the same spec."""
        model = copy.copy(self)
        model.prefix = [*self.prefix, *self.tokenizer.tokenize_text(text)]
        model._divisor = "start"
        model._last = model._kept = None
        return model

    def empty_prefix(self, first: WordList, later: WordList) -> CausalPrefixes | None:
        """Return one beginning without a word; None where nothing stands before the first one."""
        from contstim.models.hf.prefixes import CausalPrefixes  # which scoring does without

        writes = self.prefix and self.language.is_space_delimited  # with spaces between words
        return CausalPrefixes.begun(self, (first, later)) if writes else None

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates for one position.

        The words before the position are computed once. The forward pass that does it gives the
        bound for the whole list: the probability of what comes before and of a candidate's first
        token. Exact scores of chosen candidates start from the cached keys and values of the
        words before.
        """
        if (
            not self.language.is_space_delimited
        ):  # a candidate may change the tokens of its neighbours
            return super().score_replacements(sentence, position, words)
        sentence.check_position(position)
        encoded, values = self.encode_and_score(str(sentence))
        candidates = self.tokenizer.candidates(sentence, position, words)
        n_tokens = candidates.n_tokens
        multiply_adds = float(len(encoded.ids) * sum(self.network.n_weights))
        frame = Frame.of(encoded, position, len(self.end))
        if frame is None or len(frame.left) == 0:
            # Without a prefix the first word is what the others are conditioned on.
            whole = np.full(len(words), values.sum())
            return ReplacementScores(
                np.zeros(len(words)),
                whole,
                is_exact=False,
                score=self._candidate_scores(sentence, position, words),
                cost=ScoringCost(multiply_adds=multiply_adds, n_tokens=n_tokens),
            )
        beginning = self._begin(encoded, frame, int(n_tokens.max(initial=1)))
        trie = candidates.trie
        steps, chosen = self._beyond(beginning, frame, trie, len(encoded.ids))
        upper = np.minimum(beginning.log_prob + trie.sums(steps), 0.0)
        computed = bool(trie.covered(chosen).all())
        estimate = upper + values[encoded.word_indices > position].sum()
        if not computed:
            estimate += trie.sums(guess_log_probs(trie, steps, chosen))
        cost, score = np.ones(len(words)), self._candidate_scores(sentence, position, words)
        if beginning.branch is not None:
            n_own = n_tokens + len(frame.right)
            cost = n_own / (n_own + len(frame.left))
            together = partial(self._continued, beginning, frame)
            score = self._candidate_scores(sentence, position, words, frame, together)
        return ReplacementScores(
            upper.copy(),
            estimate,
            is_exact=computed and len(frame.right) == 0 and not self.corrected,
            score=score,
            cost=ScoringCost(cost, multiply_adds, n_tokens),
        )

    def _begin(self, encoded: EncodedSentence, frame: Frame, most: int) -> _Beginning:
        """Compute what stands before the open word, which has at most `most` tokens.

        Candidates go on from it where the network has been seen to do so rightly.
        """
        longest = len(frame.left) + most + len(frame.right)
        keep = self.network.can_extend(longest, self.checkpoint.max_tokens, self.prefix)
        logits, before = self.network.begin(frame.left, keep=keep)
        branch = None if before.cache is None else before
        predictions = self._predictions(logits, np.append(frame.left[1:], 0))
        log_prob = float(predictions["token"][frame.scored_left - 1].sum())
        if self.corrected:
            # The factors of a sentence telescope to its two ends; this is the first.
            log_prob -= float(predictions[self._divisor][encoded.scored_positions[0] - 1])
        first = logits[-1].log_softmax(dim=0).to(torch.float64).cpu().numpy()
        return _Beginning(log_prob, first, branch)

    def _beyond(
        self, beginning: _Beginning, frame: Frame, trie: TokenTrie, length: int
    ) -> tuple[FloatArray, IntArray]:
        """Return log p(token | tokens above it) of the trie's nodes, and the nodes looked beyond.

        Below the nodes that `MAX_BOUND_SENTENCES` of `length` tokens allow, values are
        known; elsewhere they stay 0, so that sums along a word's way bound its log-probability.
        """
        steps = np.zeros(len(trie.parent), dtype=np.float64)
        top = np.flatnonzero(trie.depth == 1)
        steps[top] = beginning.first[trie.token[top]]
        most = min(MAX_BOUND_SENTENCES, len(trie.end) // _ONE_IN)
        if beginning.branch is None or most < 2:
            # So few candidates cost little more to score than to bound.
            return steps, np.zeros(0, dtype=np.int64)
        body, head = self.network.n_weights
        spent = len(frame.left) * (body + head)
        budget = most * (length * body + head) - spent
        chosen = trie.choose(beginning.first, (body, head), budget)
        for group in trie.rows(chosen):
            for batch, logits in self.network.iter_logits(
                group.ids, group.rows, group.positions, self.budget, beginning.branch
            ):
                children, place = trie.edges(group.nodes[batch])
                at = torch.from_numpy(place).to(logits.device)
                token = torch.from_numpy(trie.token[children]).to(logits.device)
                values = logits[at, token] - logits.logsumexp(dim=1)[at]
                steps[children] = values.to(torch.float64).cpu().numpy()
        return steps, chosen

    def _continued(self, beginning: _Beginning, frame: Frame, tokens: IntArray) -> FloatArray:
        """Score candidates (k, n) from the cached keys and values of what stands before."""
        k, n = tokens.shape
        start = len(frame.left)
        ids = np.hstack([tokens, np.tile(frame.right, (k, 1))])
        scores = beginning.log_prob + beginning.first[ids[:, 0]]
        places = frame.scored(n)
        positions = places[places > start] - 1 - start
        n_units = len(positions)
        ending = self.corrected and not self.end
        if ending:
            positions = np.append(positions, ids.shape[1] - 1)
        if len(positions) == 0:
            return np.asarray(scores)
        table = self._predict(
            ids,
            np.repeat(np.arange(k), len(positions)),
            np.tile(positions, k),
            beginning.branch,
        ).reshape(k, len(positions))
        scores += table["token"][:, :n_units].sum(axis=1)
        if ending:
            scores += table["boundary"][:, -1]
        return np.asarray(scores)


def _everything_but(members: BoolArray, n: int, device: torch.device) -> torch.Tensor:
    """Return the ids below `n` that are not among `members`."""
    kept = np.ones(n, dtype=np.bool_)
    kept[: len(members)][members[:n]] = False
    return torch.from_numpy(np.flatnonzero(kept)).to(device)
