"""Recurrent sentence models: an RNN or LSTM over words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, ScoringCost, SentenceModel, TokenScores
from contstim.models.devices import resolve_device
from contstim.models.prefixes import COMMA, Prefixes, PrefixModel
from contstim.models.recurrent import RecurrentNetwork, State, load_network
from contstim.models.word_tokenizer import END, START, WORD_OPTIONS, WordTokenizer
from contstim.text import Sentence, WordList
from contstim.text.normalise import check_sentences

_OPTIONS = {**WORD_OPTIONS, "device": "cpu"}


class RecurrentModel(SentenceModel, PrefixModel):
    """An RNN or LSTM over words: log P(s) = sum over tokens t of log p(t | preceding tokens).

    The first token is conditioned on the start symbol ``<s>``. The score includes the end symbol
    ``</s>`` unless the option ``end`` is ``none``. The softmax is computed in float32, sums over
    tokens in float64.

    Parameters
    ----------
    network
        Recurrent network.
    spec
        Model specification, for example ``lstm:PATH?case=lower``, with the options of
        `WORD_OPTIONS` and ``device``, a PyTorch device.
    fingerprint
        Hexadecimal digest of the file of the network.
    """

    def __init__(self, network: RecurrentNetwork, spec: ModelSpec, fingerprint: str) -> None:
        spec.check_options(_OPTIONS)
        super().__init__(spec.canonical(_OPTIONS))
        vocabulary = network.vocabulary
        self._tokenizer = WordTokenizer.from_spec(vocabulary.ids(), vocabulary.unknown, spec)
        # Whether the score includes the probability that the sentence ends.
        end = spec.get_choice("end", ("scored", "none"), _OPTIONS["end"])
        self._scores_end = end == "scored"
        self._network = network.to(resolve_device(spec.get("device", _OPTIONS["device"]), spec))
        self._fingerprint = fingerprint
        # Token ids, log-probabilities and states of the last sentence with scored replacements.
        # Searches score several positions of one sentence in succession.
        self._last_sentence: tuple[bytes, FloatArray, list[State]] | None = None

    @property
    def event(self) -> Event:
        """Definition of the score: probability of the words and, optionally, of ``</s>``."""
        # The tokenizer adds how words, punctuation and case are treated.
        return self._tokenizer.event(START, END if self._scores_end else "none")

    @property
    def packages(self) -> tuple[str, ...]:
        """Name of the distribution of PyTorch."""
        return ("torch",)

    @property
    def batch_tolerance(self) -> float:
        """1e-4 nats, because float32 matrix products depend on the other sentences of a batch."""
        return 1e-4

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file of the network."""
        return self._fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words is in the vocabulary, shape (V,)."""
        return self._tokenizer.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of S sentences; see `SentenceModel.score_tokens`."""
        encoded = [self._tokenizer.encode(sentence) for sentence in check_sentences(sentences)]
        log_probs = self._log_probs([sentence.ids for sentence in encoded])
        end = END if self._scores_end else None
        pairs = zip(encoded, log_probs, strict=True)
        return [sentence.with_log_probs(values, end) for sentence, values in pairs]

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return the empty prefix, from which sentences are written word by word.

        The result is None if punctuation marks are part of the tokens. The token of a word then
        depends on the mark after it, which is not yet known.
        """
        if self._tokenizer.punctuation == "keep":
            return None
        return _RecurrentPrefixes(self._network, self._tokenizer, self._scores_end, (first, later))

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with the word at `position` replaced by each of V `words`.

        Let u be the tokens before the word and w a candidate. The upper bound of the score is
        log P(u) + log p(w | u), because the log-probability of each later token is at most 0. The
        estimate adds the log-probabilities of the later tokens in the original sentence. For exact
        scores, the network continues from its state after u.
        """
        network, vocabulary = self._network, self._network.vocabulary
        tokenizer = self._tokenizer
        masked = tokenizer.mask_word(sentence, position, words)
        index, candidates = masked.index, masked.candidates

        # Restore the original token in place of the mask; an unknown word has the id of `<unk>`.
        surface = sentence.surface(position)
        token = surface if tokenizer.punctuation == "keep" else sentence.words[position]
        token = token.lower() if tokenizer.case == "lower" else token
        ids = masked.ids.copy()
        ids[index] = tokenizer.ids.get(token, vocabulary.unknown)
        key = ids.tobytes()
        if self._last_sentence is None or self._last_sentence[0] != key:
            states = network.run_states(self._with_start(ids), network.initial_state())[1:]
            self._last_sentence = (key, self._log_probs([ids])[0], states)
        _, token_log_probs, states = self._last_sentence

        state = states[index]
        hidden, *_ = state
        next_log_probs = network.next_log_probs(hidden[0])[0].double().cpu().numpy()
        candidate_log_probs = np.minimum(next_log_probs[candidates], 0.0)
        upper_bounds = float(token_log_probs[:index].sum()) + candidate_log_probs
        following = ids[index + 1 :]
        if self._scores_end:
            following = np.append(following, vocabulary.end)

        def score(indices: IntArray) -> FloatArray:
            # `upper_bounds` contains the log-probability of the tokens up to the candidate.
            rows = np.asarray(indices, dtype=np.int64)
            scores: FloatArray = upper_bounds[rows]
            if len(following) == 0 or len(rows) == 0:
                return scores
            # Add the log-probabilities of the following tokens, given the candidate. `state` is the
            # state of the network before the candidate.
            inputs = [np.append(candidate, following[:-1]) for candidate in candidates[rows]]
            log_probs = network.log_probs(inputs, [following] * len(rows), start=state)
            scores += np.array([values.sum() for values in log_probs], dtype=np.float64)
            return scores

        return ReplacementScores(
            upper_bounds,
            upper_bounds + float(token_log_probs[index + 1 :].sum()),
            is_exact=False,
            score=score,
            cost=ScoringCost(
                n_inputs=max(len(following), 1) / len(token_log_probs),
                multiply_adds=float(len(token_log_probs) * network.n_multiply_adds),
            ),
        )

    def _with_start(self, ids: IntArray) -> IntArray:
        """Return token ids with the id of the start symbol before them."""
        return np.concatenate([[self._network.vocabulary.start], ids])

    def _log_probs(self, sentences: Sequence[IntArray]) -> list[FloatArray]:
        """Return the log-probabilities of the tokens of S sentences in nats, one array each.

        `sentences` are the token ids of each sentence. If the end symbol is scored, its
        log-probability is the last element.
        """
        inputs = [self._with_start(ids) for ids in sentences]
        targets = [np.append(ids, self._network.vocabulary.end) for ids in sentences]
        if not self._scores_end:
            inputs = [ids[:-1] for ids in inputs]
            targets = [ids[:-1] for ids in targets]
        return self._network.log_probs(inputs, targets)


class _RecurrentPrefixes(Prefixes):
    """R unfinished sentences (prefixes) of equal length, with the state of a recurrent network.

    By default, there is one empty prefix.

    Parameters
    ----------
    network, tokenizer
        Recurrent network and its tokenizer.
    scores_end
        Whether the end symbol is scored.
    word_lists
        Two word lists: words for the first position of a sentence, and words for later positions.
    n_words
        Number of words in each prefix.
    state
        State of the network after each prefix. Default: the state after the start symbol.
    """

    def __init__(
        self,
        network: RecurrentNetwork,
        tokenizer: WordTokenizer,
        scores_end: bool,
        word_lists: tuple[WordList, WordList],
        n_words: int = 0,
        state: State | None = None,
    ) -> None:
        # The base class selects `next_words`: words for the first position of a sentence if the
        # prefixes are empty (`n_words` is 0), otherwise words for later positions.
        super().__init__(word_lists, n_words)
        self._network, self._tokenizer, self._scores_end = network, tokenizer, scores_end
        # State of the network after each prefix, by default after the start symbol.
        if state is None:
            start = np.array([network.vocabulary.start])
            state = network.run_states(start, network.initial_state())[-1]
        self._state = state
        self._ids = tokenizer.encode_words(self.next_words)
        # The first array of the state contains the hidden units of the R prefixes, shape (1, R, H).
        self._next_log_probs = network.next_log_probs(state[0][0]).double().cpu().numpy()

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return log p(word | prefix) in nats, shape (R, V). All of these bounds are exact."""
        log_probs = np.minimum(self._next_log_probs[:, self._ids], 0.0)
        return log_probs, np.ones(len(self.next_words), dtype=np.bool_)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return log p(word | prefix) in nats for k pairs of a prefix and a word, shape (k,)."""
        values: FloatArray = self._next_log_probs[rows, self._ids[indices]]
        return np.minimum(values, 0.0)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the log-probability that each prefix ends with a punctuation mark, shape (R,).

        It includes the mark and the end of the sentence, if the model scores them, in nats.
        """
        prefixes, totals = self, np.zeros(len(self._next_log_probs))
        # Chain rule: log p(mark | prefix) + log p(end | prefix and mark).
        for token in self._tokenizer.encode_mark(mark):
            totals = totals + prefixes._next_log_probs[:, token]
            prefixes = prefixes._append_tokens([token] * len(totals))
        if self._scores_end:
            totals = totals + prefixes._next_log_probs[:, self._network.vocabulary.end]
        return totals

    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | prefix) in nats, shape (R,); 0 if commas are not scored."""
        comma = self._tokenizer.encode_mark(COMMA)
        if not comma:
            return np.zeros(len(self._next_log_probs))
        return np.asarray(self._next_log_probs[:, comma[0]])

    def add_commas(self, is_marked: BoolArray) -> Prefixes:
        """Return the prefixes with a comma appended to some of them."""
        comma = self._tokenizer.encode_mark(COMMA)
        if not comma:
            return self
        # A state has arrays of shape (1, prefixes, hidden units). Compute the states after a comma
        # for all prefixes, and use them for the marked prefixes.
        with_comma = self._append_tokens(comma * len(is_marked))._state
        mask = torch.from_numpy(is_marked)[None, :, None].to(self._network.device)
        parts = zip(self._state, with_comma, strict=True)
        return self._with_state(tuple(torch.where(mask, new, old) for old, new in parts))

    def extend(self, rows: IntArray, indices: IntArray) -> Prefixes:
        """Return k prefixes that are one word longer."""
        selected = torch.from_numpy(rows).to(self._network.device)
        prefixes = self._with_state(tuple(part[:, selected].contiguous() for part in self._state))
        return prefixes._append_tokens(self._ids[indices].tolist(), 1)

    def _append_tokens(self, tokens: Sequence[int], n_new_words: int = 0) -> _RecurrentPrefixes:
        """Return the prefixes with one token appended to each.

        `tokens` are the R token ids. `n_new_words` is 1 if the tokens are words, and 0 if they are
        punctuation marks.
        """
        with torch.no_grad():
            ids = torch.tensor([tokens], device=self._network.device)
            return self._with_state(self._network.forward(ids, self._state)[1], n_new_words)

    def _with_state(self, state: State, n_new_words: int = 0) -> _RecurrentPrefixes:
        n_words = self.n_words + n_new_words
        return _RecurrentPrefixes(
            self._network, self._tokenizer, self._scores_end, self.word_lists, n_words, state
        )


def load_recurrent(spec: ModelSpec) -> RecurrentModel:
    """Load a recurrent sentence model.

    Parameters
    ----------
    spec
        Model specification ``rnn:PATH`` or ``lstm:PATH``, with the options of `WORD_OPTIONS` and
        ``device``, a PyTorch device. `contstim.training.recurrent.train_recurrent` writes the file.

    Raises
    ------
    SpecError
        If an option is unknown, the device is not available, or the file contains a network of
        the other kind.
    ModelFileError
        If the file is missing, is damaged, or has a different format.
    """
    spec.check_options(_OPTIONS)
    network, _, fingerprint = load_network(spec.path)
    # The families "rnn" and "lstm" have the names of the recurrent units (cells).
    if network.config.cell != spec.family:
        raise SpecError(
            f"{spec.location!r} contains a network of kind {network.config.cell!r}; "
            f"write {network.config.cell}:{spec.location}"
        )
    return RecurrentModel(network, spec, fingerprint)
