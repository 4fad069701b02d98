"""The recurrent sentence model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import (
    Event,
    ReplacementScores,
    ScoringCost,
    SentenceModel,
    TokenScores,
    check_sentences,
)
from contstim.models.devices import resolve_device
from contstim.models.prefixes import COMMA, Prefixes, PrefixModel
from contstim.models.recurrent import RecurrentNetwork, State, load_network
from contstim.models.word_tokenizer import END, START, WORD_OPTIONS, WordTokenizer
from contstim.text import Sentence, WordList

_OPTIONS = {**WORD_OPTIONS, "device": "cpu"}


class RecurrentModel(SentenceModel, PrefixModel):
    """An RNN or LSTM over whole words: log P(s) = sum over t of log p(token t | those before).

    The first token is conditioned on ``<s>``; the end symbol ``</s>`` is scored unless the spec
    says ``end=none``. Sums of exponentials are float32, sums over tokens float64.

    Parameters
    ----------
    network
        The network.
    spec
        Canonical spec, with the options of `WORD_OPTIONS` and ``device``.
    fingerprint
        Hexadecimal digest of the network's file.
    """

    def __init__(self, network: RecurrentNetwork, spec: ModelSpec, fingerprint: str) -> None:
        spec.check_options(_OPTIONS)
        super().__init__(spec.canonical(_OPTIONS))
        vocabulary = network.vocabulary
        self._tokenizer = WordTokenizer.from_spec(vocabulary.ids(), vocabulary.unknown, spec)
        self._end = spec.get_choice("end", ("scored", "none"), _OPTIONS["end"]) == "scored"
        self._network = network.to(resolve_device(spec.get("device", _OPTIONS["device"]), spec))
        self._fingerprint = fingerprint
        # Ids, terms and states of the last sentence whose replacements were asked for: a search
        # asks for one position of a sentence after the other.
        self._last: tuple[bytes, FloatArray, list[State]] | None = None

    @property
    def event(self) -> Event:
        """What is scored."""
        return self._tokenizer.event(START, END if self._end else "none")

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch."""
        return ("torch",)

    @property
    def batch_tolerance(self) -> float:
        """1e-4 nats: matrices are multiplied in single precision, in blocks that batches share."""
        return 1e-4

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the network's file."""
        return self._fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return for each of V bare words whether it has an id of its own; shape (V,)."""
        return self._tokenizer.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of each sentence; see `SentenceModel.score_tokens`."""
        encoded = [self._tokenizer.encode(sentence) for sentence in check_sentences(sentences)]
        scored = self._log_probs([item.ids for item in encoded])
        parts = []
        for item, log_probs in zip(encoded, scored, strict=True):
            units, word_indices = item.tokens, item.word_indices
            if self._end:
                units, word_indices = (*units, END), np.append(word_indices, item.n_words - 1)
            parts.append(TokenScores(units, log_probs, word_indices, item.n_words))
        return parts

    def score(self, sentences: Sequence[str]) -> FloatArray:
        """Return the log-probability of each sentence, (S,), in nats."""
        encoded = [self._tokenizer.encode(sentence) for sentence in check_sentences(sentences)]
        values = self._log_probs([item.ids for item in encoded])
        return np.array([value.sum() for value in values], dtype=np.float64)

    def next_log_probs(self, prefix: str) -> tuple[tuple[str, ...], FloatArray]:
        """Return each token that may follow `prefix`, and its log-probability in nats.

        `prefix` may be empty. The tokens are ``</s>``, ``<unk>`` and the vocabulary's words;
        their probabilities sum to 1.
        """
        network = self._network
        ids = self._tokenizer.encode(prefix).ids if prefix.split() else np.zeros(0, np.int64)
        state = network.run_states(self._started(ids), network.initial_state())[-1]
        tokens = (END, "<unk>", *network.vocabulary.words)
        return tokens, network.next_log_probs(state[0][0])[0].double().cpu().numpy()

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return one beginning without a word; None where marks are part of words."""
        if self._tokenizer.punctuation == "keep":
            return None
        return _Prefixes(self._network, self._tokenizer, self._end, (first, later))

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score `sentence` with the word at `position` replaced by each of V `words`.

        With u the tokens before the position and w a candidate, ``upper`` is log P(u) +
        log p(w | u): what follows can only lower it, each later term being at most 0. The
        ``estimate`` adds the later terms of the sentence as it is. ``score`` runs on from the
        state after u.
        """
        network, vocabulary = self._network, self._network.vocabulary
        slot = self._tokenizer.mask_word(sentence, position, words)
        k, candidates = slot.index, slot.candidates
        now = slot.ids.copy()
        now[k] = self._current(sentence, position)
        terms, states = self._path(now)
        after = network.next_log_probs(states[k][0][0])[0].double().cpu().numpy()
        upper = float(terms[:k].sum()) + np.minimum(after[candidates], 0.0)
        rest = slot.ids[k + 1 :]
        tail = np.append(rest, vocabulary.end) if self._end else rest
        state = states[k]

        def score(index: IntArray) -> FloatArray:
            rows = np.asarray(index, dtype=np.int64)
            totals: FloatArray = upper[rows]
            if len(tail) == 0 or len(rows) == 0:
                return totals
            # The candidate is read from the state before it, then all that follows.
            inputs = [np.append(c, tail[:-1]) for c in candidates[rows]]
            later = network.log_probs(inputs, [tail] * len(rows), start=state)
            totals += np.array([values.sum() for values in later], dtype=np.float64)
            return totals

        return ReplacementScores(
            upper,
            upper + float(terms[k + 1 :].sum()),
            is_exact=False,
            score=score,
            cost=ScoringCost(
                n_inputs=max(len(tail), 1) / len(terms),
                multiply_adds=float(len(terms) * network.n_multiply_adds),
            ),
        )

    def _started(self, ids: IntArray) -> IntArray:
        return np.concatenate([[self._network.vocabulary.start], ids])

    def _log_probs(self, sentences: Sequence[IntArray]) -> list[FloatArray]:
        """Return log-probabilities of each sentence's tokens, the end last where it is scored."""
        inputs, targets = [], []
        for ids in sentences:
            started = self._started(ids)
            ended = np.append(ids, self._network.vocabulary.end)
            inputs.append(started if self._end else started[:-1])
            targets.append(ended if self._end else ended[:-1])
        return self._network.log_probs(inputs, targets)

    def _current(self, sentence: Sentence, position: int) -> int:
        """Return the id of the word at `position`; of the unknown class if it has none."""
        tokenizer = self._tokenizer
        keep = tokenizer.punctuation == "keep"
        token = sentence.surface(position) if keep else sentence.words[position]
        token = token.lower() if tokenizer.case == "lower" else token
        return tokenizer.ids.get(token, self._network.vocabulary.unknown)

    def _path(self, ids: IntArray) -> tuple[FloatArray, list[State]]:
        """Return the terms of a sentence, and the states before its tokens and after its last."""
        key = ids.tobytes()
        if self._last is None or self._last[0] != key:
            states = self._network.run_states(self._started(ids), self._network.initial_state())[1:]
            self._last = (key, self._log_probs([ids])[0], states)
        return self._last[1], self._last[2]


class _Prefixes(Prefixes):
    """Prefixes of sentences under a recurrent network; all words are known at once.

    Parameters
    ----------
    network, tokenizer, end
        The network, its tokens, and whether the end symbol is scored.
    lists, n_words
        As in `Prefixes`.
    state
        The state after each; None: one that nothing but the start symbol has come to.
    """

    def __init__(
        self,
        network: RecurrentNetwork,
        tokenizer: WordTokenizer,
        end: bool,
        lists: tuple[WordList, WordList],
        n_words: int = 0,
        state: State | None = None,
    ) -> None:
        super().__init__(lists, n_words)
        self._network, self._tokenizer, self._end = network, tokenizer, end
        if state is None:
            state = network.run_states(
                np.array([network.vocabulary.start]), network.initial_state()
            )[-1]
        self._state = state
        self._ids = tokenizer.encode_words(self.next_words)
        self._after = network.next_log_probs(state[0][0]).double().cpu().numpy()

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return log p of every word, all exact."""
        return np.minimum(self._after[:, self._ids], 0.0), np.ones(
            len(self.next_words), dtype=np.bool_
        )

    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return what is known, (k,), nats."""
        values: FloatArray = self._after[rows, self._ids[index]]
        return np.minimum(values, 0.0)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return log p of the mark and of ``</s>``, as far as they are scored, (R,), nats."""
        marks, total, here = self._tokenizer.encode_mark(mark), np.zeros(len(self._after)), self
        for token in marks:
            total, here = total + here._after[:, token], here._read([token] * len(total))
        return total + here._after[:, self._network.vocabulary.end] if self._end else total

    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | beginning), (R,), nats."""
        marks = self._tokenizer.encode_mark(COMMA)
        return np.asarray(self._after[:, marks[0]]) if marks else np.zeros(len(self._after))

    def add_commas(self, where: BoolArray) -> Prefixes:
        """Return the beginnings, some with a comma."""
        marks = self._tokenizer.encode_mark(COMMA)
        if not marks:
            return self
        read = self._read(marks * len(where))._state
        both = zip(self._state, read, strict=True)
        marked = torch.from_numpy(where)[None, :, None].to(self._network.device)
        return self._of(self.n_words, tuple(torch.where(marked, new, old) for old, new in both))

    def extend(self, rows: IntArray, index: IntArray) -> Prefixes:
        """Return longer beginnings."""
        at = torch.from_numpy(rows).to(self._network.device)
        chosen = self._of(self.n_words, tuple(part[:, at].contiguous() for part in self._state))
        return chosen._read(self._ids[index].tolist(), 1)

    def _read(self, tokens: Sequence[int], n_words: int = 0) -> _Prefixes:
        """Return the beginnings after a token more each."""
        with torch.no_grad():
            ids = torch.tensor([tokens], device=self._network.device)
            state = self._network.forward(ids, self._state)[1]
        return self._of(self.n_words + n_words, state)

    def _of(self, n_words: int, state: State) -> _Prefixes:
        return _Prefixes(self._network, self._tokenizer, self._end, self.word_lists, n_words, state)


def load_recurrent(spec: ModelSpec) -> RecurrentModel:
    """Load ``rnn:PATH`` or ``lstm:PATH``, a file that `train_recurrent` wrote.

    Options: ``punctuation``, ``case``, ``unknown`` and ``end`` as for every word-level model, and
    ``device``, as PyTorch names it.

    Raises
    ------
    SpecError
        For an unknown option, a device that cannot be used, or a network of the other kind.
    ModelFileError
        If the file is missing, damaged or of another kind.
    """
    spec.check_options(_OPTIONS)
    network, _, digest = load_network(spec.path)
    if network.config.cell != spec.family:
        raise SpecError(
            f"{spec.location!r} holds a network of kind {network.config.cell!r}; "
            f"write {network.config.cell}:{spec.location}"
        )
    return RecurrentModel(network, spec, digest)
