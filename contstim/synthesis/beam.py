"""Beam search for whole sentences of low loss, word by word from left to right.

The beam search (Lowerre 1976) handles the constraints by Lagrangian relaxation (Fisher 1981). A
pass over the positions keeps the prefixes b with the lowest

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b),

with rejecting models r and constrained models m. After each pass, lambda_m increases if the
sentence with the lowest Lagrangian violates the constraint on m, and decreases otherwise. Narrow
passes come first; passes of full width start from the lambda that these found. The last word is
chosen by the constraints first and then by the loss.

The log-probability of a word of several tokens is first estimated from its first token and from its
other tokens after another prefix. It is exact as soon as the word is part of a prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel, scores_vocabulary
from contstim.models.prefixes import COMMA, Prefixes, PrefixModel, empty_prefix
from contstim.settings import PositiveInt, settings, validate_choice
from contstim.synthesis.candidates import ScoreCounter
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edit import Edit
from contstim.synthesis.shared_vocabulary import extend_models
from contstim.synthesis.strategy import Strategy, load_cached_model
from contstim.synthesis.writer import guidance_weights
from contstim.text import Sentence, WordList
from contstim.text.diversity import N_EDGE_WORDS

# Default beam width: in general; if only the constrained models score all words at once; and if a
# model scores each prefix as a sentence, which is most expensive.
_WIDTH, _CONSTRAINED_WIDTH, _SCORED_WIDTH = 256, 64, 96
# Default ratio of the width to the diversity cap.
_WIDTH_PER_CAP = 4
# Minimum number of words in a random part of the vocabulary.
_MIN_WORDS = 20
# Number of extensions considered per prefix of the beam width.
_N_EXTENSIONS = 16
# Maximum number of restarts, relative to the option, until a sentence satisfies the constraints.
_MAX_RESTART_FACTOR = 3
# Maximum number of sentences per pass that are scored again.
_MAX_VERIFIED = 4
# Changes of log lambda after each narrow pass, and the ratio of the full to the narrow width.
_STEPS, _NARROWING = (0.8, 0.4, 0.2, 0.1), 4


@settings
class Beam(Strategy):
    """Write whole sentences by beam search, from left to right.

    1. Narrow passes find the weights of the constraints (Lagrange multipliers).
    2. Restarts of full width search for sentences with these weights. All passes but the last use a
       random part of the vocabulary, in addition to repeatable words and the words of the natural
       sentence and of the best sentence so far.
    3. The best sentence of all passes that satisfies the constraints is the result.

    All models must score prefixes. A masked model that needs one input per token, such as one with
    ``metric=pll``, proposes words itself, and its scores of the prefixes as sentences decide. Other
    models without prefix scores need a `guide`.

    Attributes
    ----------
    n_restarts
        Number of passes of full width per sentence.
    width
        Number of prefixes kept at each position. None: 256; 64 if the constrained models but not
        all models score all words at once; 96 if a model scores prefixes as sentences.
    diversity_cap
        Maximum number of kept prefixes with the same last word, and with the same first three
        words. None: a quarter of the width.
    vocabulary_fraction
        Fraction of the vocabulary that each pass but the last uses.
    refine
        ``yes`` or ``no``: whether single words of the result are replaced afterwards, as by
        ``edit``.
    guide
        Spec of a model that proposes words in place of models that do not score prefixes.
    """

    starts_at_natural: ClassVar[bool] = False
    supports_edits: ClassVar[bool] = False

    n_restarts: PositiveInt = 2
    width: PositiveInt | None = None
    diversity_cap: PositiveInt | None = None
    vocabulary_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    refine: Annotated[str, validate_choice(("no", "yes"))] = "no"
    guide: str | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Spec of the guide, if there is one."""
        return () if self.guide is None else (self.guide,)

    def run(self, search: Search) -> bool:
        """Run all passes, and offer the best sentences of each pass to the search.

        The search accepts a sentence if it is better than its current sentence. After each pass,
        log lambda of a constraint increases if the constraint was violated, and decreases
        otherwise. Spare passes follow if no feasible sentence was found. With `refine`, single
        words of the result are then replaced.
        """
        beam, rng = BeamSearch.from_search(search, self), search.spawn_rng()
        full, fraction = beam.width, self.vocabulary_fraction
        # Each pass: change of log lambda, beam width, fraction of the vocabulary.
        passes = [(step, max(1, full // _NARROWING), fraction) for step in _STEPS]
        passes += [(_STEPS[-1], full, fraction)] * (self.n_restarts - 1)
        passes += [(_STEPS[-1], full, 1.0)]
        spare = [(_STEPS[1], full, 1.0)] * (_MAX_RESTART_FACTOR - 1) * self.n_restarts
        log_lambda, is_feasible = np.zeros(len(beam.min_scores)), False
        for number, (step, width, word_fraction) in enumerate(passes + spare):
            if is_feasible and number >= len(passes):
                break
            restricted = beam.restrict_words(word_fraction, rng, search.sentence)
            sentences, _, slack = restricted.run_pass(width, log_lambda)
            is_feasible |= any(search.accept(sentence) for sentence in sentences[:_MAX_VERIFIED])
            log_lambda = log_lambda + np.where(slack >= 0.0, -step, step)
        if is_feasible and self.refine == "yes":
            return Edit().run(search)
        return True


@dataclass(frozen=True, eq=False)
class BeamSearch:
    """Beam search for sentences of the form of one natural sentence, under M models.

    Attributes
    ----------
    natural
        Natural sentence, which provides the number of words and the punctuation.
    min_scores
        Minimum scores in nats, (M,); -inf for unconstrained models.
    empty_prefixes
        Empty prefix under each model.
    offsets
        Estimated differences (V,) between the log-probabilities of words and their upper bounds,
        for first and for later words under each model.
    weights
        Weights w of the models in the loss, (M,); 0 for models that do not reject.
    word_masks
        Masks (V,) of the permitted words, by position.
    fixed_positions
        Positions without a word, which do not change.
    repeatable_words
        Words that may occur twice in a sentence, case-folded.
    width, diversity_cap
        Options of `Beam`.
    sentence_scorers
        Models that score prefixes as sentences, by their index.
    vocabulary_masks
        Masks (V,) of the first and of the later words to use; None for all.
    counter
        Counter of the scores by `sentence_scorers`.
    """

    natural: Sentence
    min_scores: FloatArray
    empty_prefixes: Sequence[Prefixes]
    offsets: Sequence[tuple[FloatArray, FloatArray]]
    weights: FloatArray
    word_masks: Sequence[BoolArray]
    fixed_positions: frozenset[int]
    repeatable_words: frozenset[str]
    width: int
    diversity_cap: int
    sentence_scorers: Mapping[int, SentenceModel] = field(default_factory=dict)
    vocabulary_masks: tuple[BoolArray, BoolArray] | None = None
    counter: ScoreCounter = field(default_factory=ScoreCounter)

    @classmethod
    def from_search(cls, search: Search, options: Beam) -> BeamSearch:
        """Prepare the beam search for one sentence.

        Raises
        ------
        InputError
            If a model does not score prefixes and there is no guide.
        """
        problem, natural, models = search.problem, search.natural, search.problem.models_by_name
        words = {p: search.words_at(p).words for p in search.positions}
        fixed = {p: natural.words[p : p + 1] for p in range(len(natural)) if p not in words}
        vocabulary, guide = search.shared_vocabulary.unrestricted, None
        if options.guide is not None:
            guide = models.get(options.guide) or load_cached_model(options.guide)
            vocabulary = extend_models(vocabulary, guide)
        lists = vocabulary.first_and_later_words(fixed)
        word_masks = []
        for position in range(len(natural)):
            listed = lists[min(position, 1)]
            mask = np.zeros(len(listed), dtype=np.bool_)
            permitted = {**words, **fixed}[position]
            mask[[listed.index[word] for word in permitted if word in listed.index]] = True
            word_masks.append(mask)

        # Models without prefix scores use their own proposals or those of the guide.
        starts, sentence_scorers = list[_Start](), dict[int, SentenceModel]()
        for number, (name, model) in enumerate(models.items()):
            start = _prepare_start(model, lists, is_guide=False)
            if start is None:
                is_self_guided = isinstance(model, PrefixModel) and model.is_self_guided
                proposer = guide or (model if is_self_guided else None)
                if proposer is not None:
                    start = _prepare_start(proposer, lists, is_guide=True)
                sentence_scorers[number] = model
            if start is None:
                raise InputError(
                    f"the strategy 'beam' needs models that score prefixes, and {name!r} does not; "
                    "use the strategy 'edit', or name a model that proposes words for it, such as "
                    "beam?guide=contstim:gpt"
                )
            starts.append(start)

        are_cheap = {name: scores_vocabulary(model) for name, model in models.items()}
        width = options.width or _WIDTH
        if options.width is None and sentence_scorers:
            width = _SCORED_WIDTH
        elif options.width is None and not all(are_cheap.values()):
            constrained_are_cheap = all(are_cheap[name] for name in search.min_scores)
            width = _CONSTRAINED_WIDTH if constrained_are_cheap else _WIDTH
        weights = guidance_weights(problem)
        return cls(
            natural,
            np.array([search.min_scores.get(name, -np.inf) for name in models]),
            [prefix for prefix, _ in starts],
            [offsets for _, offsets in starts],
            np.array([max(0.0, -weights.get(name, 0.0)) for name in models]),
            word_masks,
            frozenset(fixed),
            frozenset(vocabulary.vocabulary.repeatable),
            width,
            options.diversity_cap or max(1, width // _WIDTH_PER_CAP),
            sentence_scorers,
            counter=search.counter,
        )

    def restrict_words(
        self, fraction: float, rng: np.random.Generator, sentence: Sentence
    ) -> BeamSearch:
        """Return a beam search that uses a random fraction of the vocabulary.

        Different words in each pass make the passes find different sentences. The words of the
        natural sentence, the words of `sentence` and the repeatable words are always included.
        """
        language = self.natural.language
        included = {*map(language.fold, self.natural.words + sentence.words)}
        included |= self.repeatable_words
        masks = []
        for words in self.empty_prefixes[0].word_lists:
            mask = rng.permutation(len(words)) < max(_MIN_WORDS, fraction * len(words))
            indices_by_word = words.case_insensitive_index(language)
            mask[[i for word in included for i in indices_by_word.get(word, [])]] = True
            masks.append(mask)
        return replace(self, vocabulary_masks=(masks[0], masks[1]))

    def run_pass(
        self, width: int, log_lambda: FloatArray
    ) -> tuple[list[Sentence], FloatArray, FloatArray]:
        """Run one pass of beam search, from the first to the last position.

        At each position, all prefixes of the beam are extended by one word. The extensions with the
        lowest Lagrangian form the next beam. M is the number of models.

        Parameters
        ----------
        width
            Number of prefixes kept at each position.
        log_lambda
            Logarithm of the Lagrange multiplier lambda of each model, relative to the sum of the
            weights, shape (M,).

        Returns
        -------
        sentences
            List of S sentences. Sentences that satisfy the constraints come first, in the order of
            their losses.
        log_probs
            Score of each sentence under each model in nats, shape (M, S).
        slack
            Slack of each constraint for the sentence with the lowest Lagrangian: its score minus
            the minimum score, in nats, shape (M,). Negative if it violates the constraint.
        """
        beam, words, n_words = list(self.empty_prefixes), [()], len(self.natural)
        totals, bias, slack = np.zeros((len(beam), 1)), np.zeros(len(beam)), -self.min_scores
        # The Lagrangian of a sentence is the sum of factor * log-probability over the models.
        multipliers = self.weights.sum() * np.exp(log_lambda)
        factors = self.weights - np.where(np.isfinite(self.min_scores), multipliers, 0.0)
        final_mark = self.natural.after[-1]
        for position in range(n_words):
            is_last = position == n_words - 1
            rows, indices, estimates = self._extend(beam, words, totals, factors, position, width)
            if not len(rows):
                return [], estimates, np.full(len(beam), -np.inf)
            estimates += bias[:, None]
            order = np.argsort(factors @ estimates, kind="stable")
            if is_last:
                for m, prefixes in enumerate(beam):
                    if m not in self.sentence_scorers and position:
                        estimates[m] += prefixes.end_log_probs(final_mark).mean()
                slack = estimates[:, order[0]] - self.min_scores
                # Alternate between both orders, because estimates may be wrong. Keep the first
                # occurrence of each sentence.
                by_constraint = self._order_sentences(estimates)
                mixed = np.stack([by_constraint, order], axis=1).ravel()
                order = mixed[np.sort(np.unique(mixed, return_index=True)[1])]

            # Keep the best prefixes and compute their exact log-probabilities.
            selected = order[self._diverse(words, rows[order], indices[order], width)]
            rows, indices, totals = rows[selected], indices[selected], totals[:, rows[selected]]
            next_words = beam[0].next_words.words
            words = [(*words[row], next_words[i]) for row, i in zip(rows, indices, strict=True)]
            for m, prefixes in enumerate(beam):
                if m in self.sentence_scorers:
                    model, counts = self.sentence_scorers[m], self.counter.n_scores
                    counts[model.name] = counts.get(model.name, 0) + len(words)
                    totals[m] = model.score([str(self._sentence(prefix)) for prefix in words])
                    beam[m] = prefixes if is_last else prefixes.extend(rows, indices)
                else:
                    word_scores, beam[m] = prefixes.score_and_extend(rows, indices)
                    totals[m] += word_scores
            # Correct later estimates by the mean error so far.
            bias += (totals - estimates[:, selected]).mean(axis=1)
            if not is_last and self.natural.after[position].startswith(COMMA):
                has_comma = np.ones(len(rows), dtype=np.bool_)
                for m, prefixes in enumerate(beam):
                    totals[m] += 0.0 if m in self.sentence_scorers else prefixes.comma_log_probs()
                    beam[m] = prefixes.add_commas(has_comma)
        for m, prefixes in enumerate(beam):
            if m not in self.sentence_scorers:
                totals[m] += prefixes.end_log_probs(final_mark)
        order = self._order_sentences(totals)[:width]
        return [self._sentence(words[i]) for i in order], totals[:, order], slack

    def _order_sentences(self, scores: FloatArray) -> IntArray:
        """Sort sentences by the sum of their constraint violations, then by their losses.

        `scores` has the shape (M, S) for M models and S sentences. Returns the indices (S,) of the
        sentences in this order.
        """
        violations = np.maximum(self.min_scores[:, None] - scores, 0.0).sum(axis=0)
        return np.lexsort([self.weights @ scores, violations])

    def _sentence(self, words: tuple[str, ...]) -> Sentence:
        """Combine the words of a prefix with the punctuation of the natural sentence."""
        n, natural = len(words), self.natural
        after = (*natural.after[: n - 1], natural.after[-1])
        return Sentence(words, natural.before[:n], after, natural.language)

    def _extend(
        self,
        beam: Sequence[Prefixes],
        words: Sequence[tuple[str, ...]],
        totals: FloatArray,
        factors: FloatArray,
        position: int,
        width: int,
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the k extensions of prefixes with the lowest estimated Lagrangian.

        Parameters
        ----------
        beam, words, totals
            R prefixes under each of M models, the words of each prefix, and the log-probabilities
            of the prefixes in nats, shape (M, R).
        factors
            Factor of each model's log-probability in the Lagrangian, shape (M,).
        position, width
            Position of the next word, and the beam width.

        Returns
        -------
        rows, indices
            Index of the prefix and index of the next word of each extension, shape (k,).
        estimates
            Estimated log-probabilities of the extensions in nats, (M, k).
        """
        bounds = [prefixes.upper_bounds()[0] for prefixes in beam]
        offsets = np.stack([pair[min(position, 1)] for pair in self.offsets])
        is_allowed = self._is_allowed(words, beam[0].next_words, position)
        columns = np.flatnonzero(is_allowed.any(axis=0))
        # Estimated Lagrangian of each prefix (row) with each permitted next word (column).
        lagrangian = np.add.outer(factors @ totals, factors @ offsets[:, columns])
        for factor, bound in zip(factors, bounds, strict=True):
            lagrangian += factor * bound[:, columns]
        lagrangian[~is_allowed[:, columns]] = np.inf

        # Select the lowest finite values.
        values = lagrangian.ravel()
        n_selected = _N_EXTENSIONS * width
        selected = np.argpartition(values, min(n_selected, len(values)) - 1)[:n_selected]
        selected = selected[np.isfinite(values[selected])]
        rows, selected_columns = np.unravel_index(selected, lagrangian.shape)
        indices = columns[selected_columns]
        word_scores = np.stack([bound[rows, indices] for bound in bounds]) + offsets[:, indices]
        return rows, indices, totals[:, rows] + word_scores

    def _is_allowed(
        self, prefixes: Sequence[tuple[str, ...]], words: WordList, position: int
    ) -> BoolArray:
        """Return which of V words may follow each of R prefixes, as a mask (R, V).

        A word is allowed if it is permitted at this position and does not already occur in the
        prefix. Repeatable words may occur again.
        """
        is_allowed = np.ones((len(prefixes), len(words)), dtype=np.bool_)
        is_allowed &= self.word_masks[position]
        if self.vocabulary_masks is not None and position not in self.fixed_positions:
            is_allowed &= self.vocabulary_masks[min(position, 1)]
        language = self.natural.language
        indices_by_word = words.case_insensitive_index(language)
        for row, prefix in enumerate(prefixes):
            for word in {*map(language.fold, prefix)} - self.repeatable_words:
                is_allowed[row, indices_by_word.get(word, [])] = False
        return is_allowed

    def _diverse(
        self, words: Sequence[tuple[str, ...]], rows: IntArray, indices: IntArray, width: int
    ) -> IntArray:
        """Select extensions so that the beam remains diverse.

        Each extension consists of a prefix (index `rows` in `words`) and a last word (`indices`).
        They are considered in their order, best first, until `width` of them are selected. An
        extension is skipped if `diversity_cap` selected extensions have the same last word, or the
        same first words. Returns the positions of the selected extensions in `rows`.
        """
        last_counts, first_counts = Counter[int](), Counter[tuple[str, ...]]()
        selected: list[int] = []
        for number, (row, last) in enumerate(zip(rows.tolist(), indices.tolist(), strict=True)):
            first = words[row][:N_EDGE_WORDS]
            if last_counts[last] >= self.diversity_cap:
                continue
            if len(first) == N_EDGE_WORDS and first_counts[first] >= self.diversity_cap:
                continue
            last_counts[last] += 1
            first_counts[first] += 1
            selected.append(number)
            if len(selected) == width:
                break
        return np.array(selected, dtype=np.int64)


#: The empty prefix under a model, and the offsets of first and of later words (see `BeamSearch`).
_Start = tuple[Prefixes, tuple[FloatArray, FloatArray]]


@lru_cache(maxsize=8)
def _prepare_start(
    model: SentenceModel, lists: tuple[WordList, WordList], is_guide: bool
) -> _Start | None:
    """Prepare the start of a beam search for one model. Return None if it scores no prefixes.

    An offset is the difference between the log-probability of a word and its upper bound. Offsets
    of first words are exact. Offsets of later words are estimated after the most probable first
    word.
    """
    prefix = empty_prefix(model, lists, guide=is_guide)
    if prefix is None:
        return None
    upper, is_exact = prefix.upper_bounds()
    # Select the most probable first word, if possible among words with exact log-probabilities.
    log_probs = np.where(is_exact, upper[0], -np.inf) if is_exact.any() else upper[0]
    later = prefix.extend(np.zeros(1, dtype=np.int64), np.array([log_probs.argmax()]))
    return prefix, (_offsets(prefix), _offsets(later))


def _offsets(prefix: Prefixes) -> FloatArray:
    """Return the log-probabilities (V,) of words after one prefix minus their upper bounds."""
    upper, is_exact = prefix.upper_bounds()
    offsets = np.zeros(len(is_exact))
    indices = np.flatnonzero(~is_exact)
    offsets[indices] = prefix.log_probs(np.zeros_like(indices), indices) - upper[0, indices]
    return offsets
