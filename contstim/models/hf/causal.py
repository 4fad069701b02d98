"""Causal language models: sentences scored from left to right by the chain rule."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import ReplacementScores
from contstim.models.hf import token_tree
from contstim.models.hf.causal_candidates import score_causal_candidates
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.kv_cache import KVCache
from contstim.models.hf.options import CAUSAL_OPTIONS, CausalEvent, CausalOptions
from contstim.models.hf.prefixes import CausalPrefixes
from contstim.models.hf.transformer import TransformerModel
from contstim.models.prefixes import PrefixModel
from contstim.text import Sentence, WordList, default_prompt, format_prompt, read_sentences

# Minimum number of tokens of a prefix from which its keys and values are cached.
_MIN_CACHED_PREFIX = 16
# Maximum ratio of the number of tokens in trees to the number in separate rows at which trees are
# used. A token costs more in a tree of sentences than in a row with one sentence.
_MAX_TREE_SHARE = 0.7

# Log-probabilities at one position in nats, see `CausalModel.predict`.
_PREDICTION = np.dtype([("token", np.float64), ("boundary", np.float64), ("start", np.float64)])
_Predictions = NDArray[np.void]


class CausalModel(TransformerModel, PrefixModel):
    """Causal language model: log P(s) = sum_t log p(t | prefix, earlier tokens).

    The prefix consists of the special tokens that the tokenizer adds before a sentence. Without
    these, it is the BOS token or, if the tokenizer has none, empty. With an empty prefix the first
    word has no probability: its entry of `score_words` is NaN, and the score is the log-probability
    of the other words given the first. Sentences of one word are then refused. The end of the
    sentence is scored only with the option ``end=scored``, because the training texts of most
    models do not end after a sentence.

    The probability of a word is the product of its tokens' probabilities. If tokens include the
    white space before a word, this product omits the probability that the word ends, and the
    probabilities of all words do not sum to 1. With the option ``words=corrected`` they do
    (Oh & Schuler 2024; Pimentel & Meister 2024):

        p(w | c) = p(tokens of w | c) P(B | c, w) / P(B | c),

    where c is the context of word w and B is the set of tokens that cannot continue a word: special
    tokens and tokens that start with white space. For a first word without a space before it, the
    divisor is the probability of all tokens that do not start with white space, given the prefix.
    In the product over a sentence, all divisors cancel except the first, and all numerators except
    the last.

    Parameters
    ----------
    spec
        Model specification, for example ``hf:gpt2?prefix=bos``, with options of `CAUSAL_OPTIONS`.
    checkpoint
        Network and tokenizer.

    Attributes
    ----------
    corrects_white_space
        Whether word probabilities are corrected for white space (``words=corrected``).
    boundary_ids
        Ids of the tokens that cannot continue a word, the set B.
    start_ids
        Ids of the tokens with which the first word can start, and of special tokens.
    first_divisor
        Divisor of the first scored word: ``start``, the probability of `start_ids`, or
        ``boundary``, the probability of `boundary_ids`.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, CAUSAL_OPTIONS, checkpoint, special=False)
        self.options = CausalOptions.read(spec)
        self._prefix_ids = self._find_prefix_ids()
        self._prompt_ids: list[int] = []
        prompt = self.options.prompt
        if prompt != "none":
            is_natural = prompt == "natural"
            text = default_prompt() if is_natural else format_prompt(read_sentences(prompt))
            self._prompt_ids = self.tokenizer.tokenize_text(text)
        self.prefix = [*self._prefix_ids, *self._prompt_ids]
        if self.options.end == "scored":
            end_id = checkpoint.tokenizer.eos_token_id
            if end_id is None:
                raise SpecError(
                    f"end='scored' in {self.spec!r}: its tokenizer has no end-of-sequence token; "
                    "leave the option out"
                )
            self.end = [int(end_id)]

        classes = self.tokenizer.token_classes
        self.corrects_white_space = self.options.words == "corrected"
        if self.corrects_white_space and not classes.marks_space:
            raise SpecError(
                f"words='corrected' in {self.spec!r}: its vocabulary does not mark the white space "
                "before words; leave the option out"
            )
        if self.corrects_white_space and self.tokenizer.options.punctuation == "context":
            raise SpecError(
                f"words='corrected' with punctuation='context' in {self.spec!r}: a word ends after "
                "its punctuation marks; leave one of the two options out"
            )
        is_spaced = self.tokenizer.first == "spaced"
        cannot_start = classes.is_continuing if is_spaced else classes.is_starting
        self.boundary_ids = self._exclude_ids(classes.is_continuing)
        self.start_ids = self._exclude_ids(cannot_start)
        # Without a prefix, the first scored word is the second word.
        self.first_divisor = "start" if self.prefix else "boundary"
        self._prefix_cache: tuple[torch.Tensor, token_tree.TreeCache] | None = None

    def _exclude_ids(self, is_excluded: BoolArray) -> torch.Tensor:
        """Return the ids of all logits in ascending order, without the excluded tokens."""
        # Networks may have more logits than the vocabulary has tokens.
        ids = np.setdiff1d(np.arange(self.network.n_logits), np.flatnonzero(is_excluded))
        return torch.from_numpy(ids).to(self.network.device)

    def _find_prefix_ids(self) -> list[int]:
        """Return the ids of the tokens before every sentence, according to the option ``prefix``.

        The list is empty for ``none``.
        """
        tokenizer, option = self.checkpoint.tokenizer, self.options.prefix
        if option == "none":
            return []
        if option == "auto":
            # The special tokens that the tokenizer adds before a sentence, else the start token
            # (BOS), else none.
            token_ids = self.tokenizer.leading_special_ids or (tokenizer.bos_token_id,)
            return [token_id for token_id in token_ids if token_id is not None]
        # The start token (BOS), the end token (EOS), or any other token of the vocabulary.
        special_ids = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}
        if option in special_ids:
            token_id = special_ids[option]
            problem = (
                ": its tokenizer has no such token; write prefix=none or a token of its vocabulary"
            )
        else:
            token_id = tokenizer.get_vocab().get(option)
            problem = " is not a token of its vocabulary; write auto, bos, eos, none or a token"
        if token_id is None:
            raise SpecError(f"prefix={option!r} in {self.spec!r}{problem}")
        return [int(token_id)]

    @property
    def event(self) -> CausalEvent:
        """Definition of the score: probability of a sentence's tokens after the start token."""
        convert = self.checkpoint.tokenizer.convert_ids_to_tokens
        # Tokens before every sentence, for example "<s>". A prompt, which is a text before the
        # sentence, is identified by its length and a digest of its tokens.
        start = " ".join(convert(self._prefix_ids)) or "none"
        if self._prompt_ids:
            prompt_digest = digest(",".join(map(str, self._prompt_ids)))[:16]
            start = f"{start} and a text of {len(self._prompt_ids)} tokens, {prompt_digest}"
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

    def add_prefix_and_end(self, sentence: str, encoded: EncodedSentence) -> EncodedSentence:
        """Add the prefix and the end-of-sentence token to a sentence, and select the scored tokens.

        The prefix is not scored, but the end is. Without a prefix, the first word is not scored
        either, because no token predicts it. `sentence` is the text for the error message.

        Raises
        ------
        InputError
            If no token would be scored.
        """
        ids = np.array([*self.prefix, *encoded.ids, *self.end], dtype=np.int64)
        first_scored_word = 0 if self.prefix else 1
        scored = np.flatnonzero(encoded.word_indices >= first_scored_word)
        if len(scored) == 0:
            raise InputError(
                f"{sentence!r} has one word, and {self.spec} has no prefix to predict it from; "
                "write prefix=bos, prefix=eos or another token in the spec"
            )
        # The prefix moves the tokens of the sentence to higher positions.
        positions = encoded.scored_positions[scored] + len(self.prefix)
        word_indices = encoded.word_indices[scored]
        tokens = [encoded.units[t] for t in scored]
        # Score the end-of-sentence token, the last token, as part of the last word.
        if self.end:
            positions = np.append(positions, len(ids) - 1)
            word_indices = np.append(word_indices, encoded.n_words - 1)
            tokens += self.checkpoint.tokenizer.convert_ids_to_tokens(self.end)
        return EncodedSentence(ids, positions, word_indices, tuple(tokens), encoded.n_words)

    def predicted_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Return the log-probability of each scored token of S sentences.

        The network processes tokens that several sentences have in common only once, if it supports
        this: either a long prefix (start token or prompt) before all sentences, or first words that
        are equal in several sentences. Otherwise it processes each sentence as a whole.

        Parameters
        ----------
        encoded
            Tokens of the S sentences.

        Returns
        -------
        list of array
            One array for each sentence, with one value in nats per scored token.
        """
        if len(self.prefix) >= _MIN_CACHED_PREFIX:
            # Process a long prefix only once. None: the network does not support this.
            from_cache = self.cached_log_probs(encoded)
            if from_cache is not None:
                return from_cache
        # Process equal first words only once. None: too few are equal, or no support.
        from_trees = self.tree_log_probs(encoded)
        if from_trees is not None:
            return from_trees
        # Otherwise process each sentence as a whole. Sentences of a group have equal length L.
        log_probs: list[FloatArray] = [np.zeros(0)] * len(encoded)
        for group in self.iter_groups(encoded, [1] * len(encoded)):
            ids = np.array([encoded[i].ids for i in group])  # (sentences, L)
            # Predict the scored tokens of all sentences at once, and split them by sentence.
            positions = [self._prediction_positions(encoded[i]) for i in group]
            counts = [len(sentence_positions) for sentence_positions in positions]
            rows = np.repeat(np.arange(len(group)), counts)
            predictions = self.predict_rows(ids, rows, np.concatenate(positions))
            parts = np.split(predictions, np.cumsum(counts)[:-1])
            for i, sentence_predictions in zip(group, parts, strict=True):
                log_probs[i] = self._token_log_probs(encoded[i], sentence_predictions)
        return log_probs

    def cached_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray] | None:
        """Compute the log-probabilities of tokens from cached keys and values of the prefix.

        The prefix is the text before every sentence, for example a prompt. Tokens with which
        several sentences begin are computed once (tree attention). The result has one array for
        each sentence, with one value per scored token, in nats. It is None if the network cannot
        continue sentences of this length from cached keys and values.
        """
        positions = [self._prediction_positions(sentence) for sentence in encoded]
        n_prefix = len(self.prefix)
        # Tokens after the prefix, up to the last position that predicts a token.
        sequences = [
            sentence.ids[n_prefix : max(n_prefix, int(sentence_positions.max())) + 1]
            for sentence, sentence_positions in zip(encoded, positions, strict=True)
        ]
        longest = n_prefix + max(map(len, sequences), default=0)
        if not token_tree.supports_tree_cache(self.network, longest, self.prefix[:1]):
            return None
        # Run the network on the prefix only once. Later calls use the same keys and values.
        if self._prefix_cache is None:
            ids = np.array(self.prefix, dtype=np.int64)
            self._prefix_cache = token_tree.TreeCache.prefill(self.network, ids, use_cache=True)
        # Merge sentences that begin with the same tokens into trees, within the network's limit.
        max_tokens = token_tree.MAX_ROW_TOKENS
        if self.checkpoint.max_tokens:
            max_tokens = min(max_tokens, self.checkpoint.max_tokens - n_prefix)
        trees = token_tree.pack_trees(sequences, max_tokens)
        return self._log_probs_from_trees(encoded, positions, trees, self._prefix_cache)

    def tree_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray] | None:
        """Compute the log-probabilities of tokens by tree attention.

        Sentences that begin with the same tokens are merged into trees, so that these tokens are
        computed once.

        Returns
        -------
        list of array or None
            One array for each sentence, with one value in nats per scored token. None if the
            sentences share too few tokens, if a sentence has more than half of the maximum number
            of tokens of a tree, or if the network does not support trees of this size.
        """
        if len(encoded) < 2:
            return None
        # The network reads each sentence up to the last position from which it predicts a token.
        positions, sequences = [], []
        for sentence in encoded:
            sentence_positions = self._prediction_positions(sentence)
            positions.append(sentence_positions)
            sequences.append(sentence.ids[: int(sentence_positions.max()) + 1])
        max_tokens = min(
            token_tree.MAX_ROW_TOKENS, self.checkpoint.max_tokens or token_tree.MAX_ROW_TOKENS
        )
        depth = max(map(len, sequences))
        # A tree must have room for at least two sentences.
        if 2 * depth > max_tokens:
            return None
        # Sentences that begin with the same tokens share nodes of a tree. Trees are worthwhile only
        # if the nodes are much fewer than the tokens.
        trees = token_tree.pack_trees(sequences, max_tokens)
        sizes = [len(tree.ids) for tree in trees]
        if sum(sizes) > _MAX_TREE_SHARE * sum(map(len, sequences)):
            return None
        if not token_tree.supports_trees(self.network, max(sizes), depth, max_tokens, self.prefix):
            return None
        return self._log_probs_from_trees(encoded, positions, trees)

    def _log_probs_from_trees(
        self,
        encoded: Sequence[EncodedSentence],
        positions: Sequence[IntArray],
        trees: Sequence[token_tree.TokenTree],
        prefix: tuple[torch.Tensor, token_tree.TreeCache] | None = None,
    ) -> list[FloatArray]:
        """Compute the log-probability of each scored token of S sentences by tree attention.

        In a tree, sequences that begin with the same tokens share nodes, and the network computes
        each node once. `positions` are the positions in each sentence at which the next token is
        predicted. `prefix` contains the logits and the cached keys and values of the tokens before
        every sentence; it is None if the trees contain these tokens. The result has one array for
        each sentence, with one log-probability per scored token, in nats.
        """
        log_probs: list[FloatArray] = [np.zeros(0)] * len(encoded)
        n_cached = 0 if prefix is None else len(self.prefix)
        for tree in trees:
            # A prediction is identified by two numbers: a node of the tree, and the token that
            # follows it in the sentence. Each distinct pair of numbers is predicted once, for all
            # sentences that contain it. The last token of a cached prefix is numbered -1.
            pairs = []
            for number, path in zip(tree.sequences, tree.paths, strict=True):
                ids = encoded[number].ids
                # No token follows the last one. Its index is clipped, and the value is not used.
                next_tokens = ids[np.minimum(positions[number] + 1, len(ids) - 1)]
                # Position -1, the last token of the prefix, reads the appended last element.
                nodes = np.append(path, -1)[positions[number] - n_cached]
                pairs.append(np.stack([nodes, next_tokens], axis=1))
            distinct, inverse = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
            nodes = distinct[:, 0]
            if prefix is None:
                logits = token_tree.tree_logits(self.network, tree, nodes)
            else:
                # The logits at the prefix are known. Its pairs, with node -1, are sorted first.
                prefix_logits, past = prefix
                logits = token_tree.tree_logits(self.network, tree, nodes[nodes >= 0], past)
                n_first = len(nodes) - len(logits)
                logits = torch.cat([prefix_logits[-1:].expand(n_first, -1), logits])
            predictions = self.predict(logits, distinct[:, 1])
            # Distribute the predictions of the distinct pairs to the sentences.
            offsets = np.cumsum([len(sentence_pairs) for sentence_pairs in pairs])[:-1]
            parts = np.split(inverse.reshape(-1), offsets)
            for number, indices in zip(tree.sequences, parts, strict=True):
                log_probs[number] = self._token_log_probs(encoded[number], predictions[indices])
        return log_probs

    def _prediction_positions(self, encoded: EncodedSentence) -> IntArray:
        """Return the positions at which predictions of the network are needed for a score.

        Each scored token is predicted at the position before it. With the option
        ``words=corrected``, the score also includes the probability that the last word ends, which
        is predicted at the last token.
        """
        positions = encoded.scored_positions - 1
        if self.corrects_white_space and not self.end:
            positions = np.append(positions, len(encoded.ids) - 1)
        return positions

    def _token_log_probs(self, encoded: EncodedSentence, predictions: _Predictions) -> FloatArray:
        """Return the log-probability in nats of each scored token of a sentence, shape (T,).

        With the option ``words=corrected``, the log-probability of each word is

            sum of log p(token) + log p(word ends here) - log p(previous word has ended).

        The second term is added to the last token of the word, and the third is subtracted from its
        first token. Otherwise, each token has log p(token). `predictions` is the result of
        `predict` at the positions of `_prediction_positions`.
        """
        n_tokens = len(encoded.scored_positions)
        log_probs = np.array(predictions["token"][:n_tokens], dtype=np.float64)
        if not self.corrects_white_space:
            return log_probs
        n_in_words = n_tokens - len(self.end)
        word_indices = encoded.word_indices[:n_in_words]
        # The word index changes at the first token of a word, and after its last token.
        first_tokens = np.flatnonzero(np.diff(word_indices, prepend=-1))
        last_tokens = np.flatnonzero(np.diff(word_indices, append=-1))
        # Corrected: p(tokens) p(the word ends after them) / p(the previous word has ended).
        # `boundary[t]` is the log-probability that a word ends before token t.
        boundary = predictions["boundary"]
        log_divisors = boundary[first_tokens].copy()
        # The divisor of the first word is the probability that the next token can start a word.
        log_divisors[0] = predictions[self.first_divisor][0]
        log_probs[first_tokens] -= log_divisors
        log_probs[last_tokens] += boundary[last_tokens + 1]
        # The end-of-sentence token is one of the tokens that end a word, so it is divided as well.
        log_probs[n_in_words:] -= boundary[n_in_words:n_tokens]
        # Rounding may raise a probability of 1 slightly.
        return np.minimum(log_probs, 0.0)

    def predict_rows(
        self, ids: IntArray, rows: IntArray, positions: IntArray, past: KVCache | None = None
    ) -> _Predictions:
        """Predict the next token at selected positions of token sequences of equal length.

        Parameters
        ----------
        ids
            Token ids of R sequences of length L, one per row, shape (R, L).
        rows
            Index of the row of each of m predictions, in ascending order, shape (m,).
        positions
            Position of each prediction, counted from 0 within its row, shape (m,).
        past
            Cached keys and values of tokens that precede every sequence.

        Returns
        -------
        array
            Structured array of `predict`, shape (m,). No token follows the last position of a row,
            so the field ``token`` is undefined there.
        """
        next_tokens = ids[rows, np.minimum(positions + 1, ids.shape[1] - 1)]  # clipped at the end
        # Tokens after the last selected position do not influence the predictions.
        used_ids = ids[:, : int(positions.max()) + 1]
        predictions = np.zeros(len(rows), dtype=_PREDICTION)
        for batch, logits in self.network.iter_logits(
            used_ids, rows, positions, self.batch_tokens, past
        ):
            predictions[batch] = self.predict(logits, next_tokens[batch])
        return predictions

    def predict(self, logits: torch.Tensor, next_tokens: IntArray) -> _Predictions:
        """Convert logits to the log-probabilities from which a sentence score is computed.

        Parameters
        ----------
        logits
            Logits at m positions over a vocabulary of V tokens, shape (m, V).
        next_tokens
            Id of the token after each position, shape (m,).

        Returns
        -------
        array
            Structured array, shape (m,), with the log-probabilities of three events, in nats.
            ``token``: the next token equals `next_tokens`. ``boundary``: the next token cannot
            continue a word. ``start``: the next token can start the first word. The last two
            are 0 unless the model has the option ``words=corrected``.
        """
        log_probs = logits.log_softmax(dim=1)  # (positions, vocabulary)
        targets = torch.from_numpy(next_tokens).to(logits.device)
        predictions = np.zeros(len(next_tokens), dtype=_PREDICTION)
        predictions["token"] = log_probs.gather(1, targets[:, None])[:, 0].cpu().numpy()
        if self.corrects_white_space:
            # To correct word probabilities for white space, the score also needs
            # log p(the next token cannot continue a word) and log p(it can start the first word).
            predictions["boundary"] = log_probs[:, self.boundary_ids].logsumexp(dim=1).cpu().numpy()
            predictions["start"] = log_probs[:, self.start_ids].logsumexp(dim=1).cpu().numpy()
        return predictions

    def with_context(self, text: str) -> CausalModel:
        """Return a copy of the model, with the same specification, that scores continuations.

        The tokens of the text are added to the prefix.
        """
        model = copy.copy(self)
        model.prefix = [*self.prefix, *self.tokenizer.tokenize_text(text)]
        model.first_divisor = "start"
        model._last_scored = model._prefix_cache = None
        return model

    def empty_prefix(self, first: WordList, later: WordList) -> CausalPrefixes | None:
        """Return an empty sentence prefix, which can be extended word by word.

        Parameters
        ----------
        first, later
            Words for the first position, and words for later positions of a sentence.

        Returns
        -------
        CausalPrefixes or None
            Empty prefix; None if the model has no token before the first word, or if the language
            does not separate words by spaces.
        """
        if not self.prefix or not self.language.is_space_delimited:
            return None
        return CausalPrefixes.empty(self, (first, later))

    def score_candidates(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidate words for one position; see `score_causal_candidates`."""
        return score_causal_candidates(self, sentence, position, words)
