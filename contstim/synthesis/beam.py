"""Beam search for whole sentences of low loss, word by word from left to right.

A beam search (Lowerre 1976) with Lagrangian relaxation of the constraints (Fisher 1981). One pass
keeps the prefixes b that minimise

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b),

where r are the rejecting models and m the constrained ones. After each pass lambda_m increases if
the sentence of lowest Lagrangian violates the constraint on m, and decreases otherwise. Narrow
passes come first; passes of full width use the lambda that they found. The last word is chosen by
the constraints and then by the loss. The log-probability of a word of several tokens is estimated
from its first token and from the rest of the word after another prefix; it becomes exact once the
word is read.
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
from contstim.settings import Count, one_of, option, settings
from contstim.synthesis.candidates import Candidates, ScoreCounter, extend_models
from contstim.synthesis.coordinate_search import Search, Strategy, load_cached_model
from contstim.synthesis.edit import Edit
from contstim.synthesis.writer import guidance_weights
from contstim.text import Sentence, WordList
from contstim.text.diversity import N_EDGE_WORDS

# Default beam widths: where all constrained scores are known at once, elsewhere, and where a model
# scores each prefix as a sentence, which costs most; and the default width over the diversity cap.
_WIDTHS, _SCORED_WIDTH, _KINDS = (64, 256), 96, 4
# Minimum number of words in a random part of the vocabulary.
_FEW_WORDS = 20
# Extensions considered per prefix that is kept.
_EXTENSIONS = 16
# How many times as many restarts are made, at most, while no sentence satisfies the constraints.
_MORE_RESTARTS = 3
# Sentences of one pass that are verified, at most.
_VERIFIED = 4
# Steps by which log lambda changes after each narrow pass, and the part of the width that they use.
_STEPS, _NARROW = (0.8, 0.4, 0.2, 0.1), 4


@settings
class Beam(Strategy):
    """Write whole sentences from left to right, keeping the prefixes of lowest loss.

    Narrow passes first find how strongly to weight the constraints; restarts of full width follow.
    All passes but the last use a random part of the vocabulary, together with repeatable words and
    the words of the natural sentence and of the best sentence so far. The best sentence of all
    passes that satisfies the constraints is taken.

    All models must score prefixes. A masked model whose sentences cost one input per token, such
    as ``pll``, proposes words itself, and its scores of the prefixes as sentences decide; other
    models without prefix scores need a `guide`.

    Attributes
    ----------
    n_restarts
        Restarts of full width per sentence.
    width
        Prefixes kept at each position. None: 256; 64 where all constrained scores and not all
        others are known at once; 96 where a model scores prefixes as sentences.
    diversity_cap
        Maximum number of prefixes kept that end with the same word, and of those that begin with
        the same three. None: a quarter of the width.
    vocabulary_fraction
        Share of the vocabulary that each pass but the last uses.
    refine
        ``yes`` or ``no``: whether words of the result are then replaced one at a time, as by
        ``edit``.
    guide
        Spec of a model that proposes words for models that do not score prefixes.
    """

    starts_at_natural: ClassVar[bool] = False
    supports_edits: ClassVar[bool] = False

    n_restarts: Count = option(2, "restarts of full width per sentence", "N")
    width: Count | None = option(None, "prefixes kept at each position", "N")
    diversity_cap: Count | None = option(
        None, "prefixes that may end, or begin, with the same words", "N"
    )
    vocabulary_fraction: Annotated[float, Field(gt=0, le=1)] = option(
        0.5, "share of the vocabulary that each pass but the last uses", "SHARE"
    )
    refine: Annotated[str, one_of(("no", "yes"))] = option(
        "no", "whether words of the result are then replaced one at a time"
    )
    guide: str | None = option(
        None, "model that proposes words for models that do not score prefixes", "SPEC"
    )

    @property
    def models(self) -> tuple[str, ...]:
        """The guide, if there is one."""
        return () if self.guide is None else (self.guide,)

    def run(self, search: Search) -> bool:
        """Take the best sentence of the restarts; with `refine`, then replace single words."""
        beam, rng, has_sentence = BeamSearch.from_search(search, self), search.chance(), False
        log_lambda = np.zeros(len(beam.minimum))
        narrow, wide = max(1, beam.width // _NARROW), beam.width
        passes = [(step, narrow, self.vocabulary_fraction) for step in _STEPS]
        passes += [(_STEPS[-1], wide, self.vocabulary_fraction)] * (self.n_restarts - 1)
        passes += [(_STEPS[-1], wide, 1.0)]
        spare = [(_STEPS[1], wide, 1.0)] * (_MORE_RESTARTS - 1) * self.n_restarts
        for number, (step, width, fraction) in enumerate(passes + spare):
            if has_sentence and number >= len(passes):
                break
            part = beam.with_part(fraction, rng, search.sentence)
            sentences, _, slack = part.write(width, log_lambda)
            has_sentence |= any(search.take(sentence) for sentence in sentences[:_VERIFIED])
            log_lambda = log_lambda + np.where(slack >= 0.0, -step, step)
        if has_sentence and self.refine == "yes":
            return Edit().run(search)
        return True

    def search_word(self, candidates: Candidates) -> bool:
        """Replace no single word."""
        return False


@dataclass(frozen=True, eq=False)
class BeamSearch:
    """The beam search beside one natural sentence, under M models.

    Attributes
    ----------
    natural
        The natural sentence, whose punctuation is kept.
    minimum
        By model, the minimum score, nats, (M,); -inf where there is none.
    prefixes
        The empty prefix under each model.
    offsets
        By model, estimates of the log-probability less its bound, of words of several tokens: for
        first words and for later ones.
    weights
        w by model, (M,).
    masks
        By position, the words that may stand there.
    fixed
        Positions that hold no word, and stay as they are.
    repeatable
        Words that a sentence may contain twice.
    width, diversity_cap
        As in `Beam`.
    scored
        Models without prefix scores, by their index, which score prefixes as sentences.
    part
        The part of the first and of the later words that is used; None for all.
    counter
        Counts the scores of `scored`.
    """

    natural: Sentence
    minimum: FloatArray
    prefixes: Sequence[Prefixes]
    offsets: Sequence[tuple[FloatArray, FloatArray]]
    weights: FloatArray
    masks: Sequence[BoolArray]
    fixed: frozenset[int]
    repeatable: frozenset[str]
    width: int
    diversity_cap: int
    scored: Mapping[int, SentenceModel] = field(default_factory=dict)
    part: tuple[BoolArray, BoolArray] | None = None
    counter: ScoreCounter = field(default_factory=ScoreCounter)

    @classmethod
    def from_search(cls, search: Search, options: Beam) -> BeamSearch:
        """Return the beam search of one sentence.

        Raises
        ------
        InputError
            If a model scores no prefixes and there is no guide.
        """
        problem, natural = search.problem, search.start
        words_at = {p: search.words(p).words for p in search.positions}
        fixed = {p: natural.words[p : p + 1] for p in range(len(natural)) if p not in words_at}
        guide, shared_vocabulary = None, search.shared_vocabulary.whole
        if options.guide is not None:
            guide = problem.models_by_name.get(options.guide) or load_cached_model(options.guide)
            shared_vocabulary = extend_models(shared_vocabulary, guide)
        lists, models = shared_vocabulary.lists(fixed), problem.models_by_name
        prepared = dict[str, _Prepared]()
        for name, model in models.items():
            start = _prepare(model, lists, scored=False)
            if start is None and (proposer := guide or _own_guide(model)):
                start = _prepare(proposer, lists, scored=True)
            if start is None:
                raise InputError(
                    f"the strategy 'beam' needs models that score prefixes, and {name!r} does not; "
                    "use the strategy 'edit', or name a model that proposes words for it, such as "
                    "beam?guide=contstim:gpt"
                )
            prepared[name] = start
        scored = {m: models[name] for m, (name, p) in enumerate(prepared.items()) if p.scored}
        constrained_at_once = all(scores_vocabulary(models[name]) for name in search.minimum)
        usual = _WIDTHS[not constrained_at_once or all(map(scores_vocabulary, models.values()))]
        width = options.width or (_SCORED_WIDTH if scored else usual)
        weights = guidance_weights(problem)
        return cls(
            natural,
            np.array([search.minimum.get(name, -np.inf) for name in prepared]),
            [start.prefix for start in prepared.values()],
            [start.offsets for start in prepared.values()],
            np.array([max(0.0, -weights.get(name, 0.0)) for name in prepared]),
            [_mask(lists[min(p, 1)], {**words_at, **fixed}[p]) for p in range(len(natural))],
            frozenset(fixed),
            frozenset(shared_vocabulary.vocabulary.repeatable),
            width,
            options.diversity_cap or max(1, width // _KINDS),
            scored,
            counter=search.counter,
        )

    def with_part(
        self, fraction: float, rng: np.random.Generator, sentence: Sentence
    ) -> BeamSearch:
        """Return the search with a random part of the words, always including a sentence's."""
        language = self.natural.language
        always = {*map(language.fold, self.natural.words + sentence.words)} | self.repeatable
        parts = []
        for words in self.prefixes[0].word_lists:
            chosen = rng.permutation(len(words)) < max(_FEW_WORDS, fraction * len(words))
            chosen[
                [i for word in always for i in words.case_insensitive_index(language).get(word, [])]
            ] = True
            parts.append(chosen)
        return replace(self, part=(parts[0], parts[1]))

    def write(
        self, width: int, log_lambda: FloatArray
    ) -> tuple[list[Sentence], FloatArray, FloatArray]:
        """Write sentences: first those that satisfy the constraints, by loss, then the others.

        Parameters
        ----------
        width
            Prefixes kept at each position.
        log_lambda
            Logarithms of the multipliers lambda, relative to the sum of the weights, (M,).

        Returns
        -------
        sentences
            S of them.
        log_probs
            Their scores, shape (M, S), nats.
        slack
            Scores less their minima of the sentence of lowest Lagrangian, (M,), nats.
        """
        here, words, n_words = list(self.prefixes), [()], len(self.natural)
        totals, bias, slack = np.zeros((len(here), 1)), np.zeros(len(here)), -self.minimum
        multipliers = self.weights.sum() * np.exp(log_lambda)
        factors = self.weights - np.where(np.isfinite(self.minimum), multipliers, 0.0)
        for position in range(n_words):
            last = position == n_words - 1
            rows, index, guessed = self._extensions(here, words, totals, factors, position, width)
            if not len(rows):
                return [], guessed, np.full(len(here), -np.inf)
            guessed += bias[:, None]
            order = np.argsort(factors @ guessed, kind="stable")
            if last:
                for m, prefixes in enumerate(here):
                    if m not in self.scored and position:
                        guessed[m] += prefixes.end_log_probs(self.natural.after[-1]).mean()
                slack = guessed[:, order[0]] - self.minimum
                missed = np.maximum(self.minimum[:, None] - guessed, 0.0).sum(axis=0)
                # Estimates may be wrong, so half of the sentences are those of lowest Lagrangian.
                mixed = np.stack([np.lexsort([self.weights @ guessed, missed]), order], 1).ravel()
                order = mixed[np.sort(np.unique(mixed, return_index=True)[1])]
            few = order[self._diverse(words, rows[order], index[order], width)]
            rows, index, totals = rows[few], index[few], totals[:, rows[few]]
            listed = here[0].next_words.words
            words = [(*words[row], listed[i]) for row, i in zip(rows, index, strict=True)]
            for m, prefixes in enumerate(here):
                if m in self.scored:
                    totals[m] = self._scores(self.scored[m], words)
                    here[m] = prefixes if last else prefixes.extend(rows, index)
                else:
                    added, here[m] = prefixes.score_and_extend(rows, index)
                    totals[m] += added
            bias += (totals - guessed[:, few]).mean(axis=1)
            if not last and self.natural.after[position].startswith(COMMA):
                where = np.ones(len(rows), dtype=np.bool_)
                for m, prefixes in enumerate(here):
                    totals[m] += 0.0 if m in self.scored else prefixes.comma_log_probs()
                    here[m] = prefixes.add_commas(where)
        for m, prefixes in enumerate(here):
            if m not in self.scored:
                totals[m] += prefixes.end_log_probs(self.natural.after[-1])
        missed = np.maximum(self.minimum[:, None] - totals, 0.0).sum(axis=0)
        order = np.lexsort([self.weights @ totals, missed])[:width]
        return [self._sentence(words[i]) for i in order], totals[:, order], slack

    def _scores(self, model: SentenceModel, words: Sequence[tuple[str, ...]]) -> FloatArray:
        """Return a model's scores of prefixes as sentences, and count them."""
        counts = self.counter.n_scores
        counts[model.name] = counts.get(model.name, 0) + len(words)
        return model.score([str(self._sentence(prefix)) for prefix in words])

    def _sentence(self, words: tuple[str, ...]) -> Sentence:
        """Return a prefix as a sentence, with the punctuation of the natural one."""
        n, natural = len(words), self.natural
        after = (*natural.after[: n - 1], natural.after[-1])
        return Sentence(words, natural.before[:n], after, natural.language)

    def _extensions(
        self,
        here: Sequence[Prefixes],
        words: Sequence[tuple[str, ...]],
        totals: FloatArray,
        weights: FloatArray,
        position: int,
        width: int,
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return rows, next words and estimated log-probabilities, (M, k), of the best prefixes."""
        tables = [prefixes.upper_bounds()[0] for prefixes in here]
        offsets = [pair[min(position, 1)] for pair in self.offsets]
        allowed = self._allowed(words, here[0].next_words, position)
        listed = np.flatnonzero(allowed.any(axis=0))
        promise = np.add.outer(weights @ totals, weights @ np.stack(offsets)[:, listed])
        for weight, table in zip(weights, tables, strict=True):
            promise += weight * table[:, listed]
        promise[~allowed[:, listed]] = np.inf
        rows, columns = _smallest(promise, _EXTENSIONS * width)
        index = listed[columns]
        added = [t[rows, index] + o[index] for t, o in zip(tables, offsets, strict=True)]
        return rows, index, totals[:, rows] + np.stack(added)

    def _allowed(
        self, prefixes: Sequence[tuple[str, ...]], words: WordList, position: int
    ) -> BoolArray:
        """Return which words may come next, (R, V): no word twice unless it is repeatable."""
        allowed = np.ones((len(prefixes), len(words)), dtype=np.bool_)
        allowed &= self.masks[position]
        if self.part is not None and position not in self.fixed:
            allowed &= self.part[min(position, 1)]
        language = self.natural.language
        for row, written in enumerate(prefixes):
            for folded in {*map(language.fold, written)} - self.repeatable:
                allowed[row, words.case_insensitive_index(language).get(folded, [])] = False
        return allowed

    def _diverse(
        self,
        words: Sequence[tuple[str, ...]],
        rows: IntArray,
        index: IntArray,
        width: int,
    ) -> IntArray:
        """Return the indices of the first prefixes that respect the diversity cap."""
        lasts, firsts = Counter[int](), Counter[tuple[str, ...]]()
        chosen: list[int] = []
        for number, (row, last) in enumerate(zip(rows.tolist(), index.tolist(), strict=True)):
            first = words[row][:N_EDGE_WORDS]
            if lasts[last] < self.diversity_cap and (
                len(first) < N_EDGE_WORDS or firsts[first] < self.diversity_cap
            ):
                lasts[last] += 1
                firsts[first] += 1
                chosen.append(number)
                if len(chosen) == width:
                    break
        return np.array(chosen, dtype=np.int64)


def _smallest(values: FloatArray, n: int) -> IntArray:
    """Return rows and columns of the n smallest finite values, (2, k <= n)."""
    flat = values.ravel()
    index = np.argpartition(flat, min(n, len(flat)) - 1)[:n]
    return np.stack(np.unravel_index(index[np.isfinite(flat[index])], values.shape))


def _mask(words: WordList, some: Sequence[str]) -> BoolArray:
    """Return which words are among some, (V,)."""
    mask = np.zeros(len(words), dtype=np.bool_)
    mask[[words.index[word] for word in some if word in words.index]] = True
    return mask


@dataclass(frozen=True, eq=False)
class _Prepared:
    """The empty prefix under a model, and the offsets of its words (`BeamSearch.offsets`).

    Offsets are exact for first words; those of later words follow the most probable first word.
    """

    prefix: Prefixes
    offsets: tuple[FloatArray, FloatArray]
    scored: bool


def _own_guide(model: SentenceModel) -> SentenceModel | None:
    """Return the model if it proposes words for its own sentences."""
    return model if isinstance(model, PrefixModel) and model.is_self_guided else None


@lru_cache(maxsize=8)
def _prepare(
    model: SentenceModel, lists: tuple[WordList, WordList], scored: bool
) -> _Prepared | None:
    prefix = empty_prefix(model, lists, guide=scored)
    if prefix is None:
        return None
    upper, exact = prefix.upper_bounds()
    bounds = np.where(exact, upper[0], -np.inf) if exact.any() else upper[0]
    later = prefix.extend(np.zeros(1, dtype=np.int64), np.array([bounds.argmax()]))
    return _Prepared(prefix, (_offsets(prefix), _offsets(later)), scored)


def _offsets(prefix: Prefixes) -> FloatArray:
    """Return the log-probabilities of words after one prefix less their bounds, (V,), nats."""
    upper, exact = prefix.upper_bounds()
    offsets = np.zeros(len(exact))
    index = np.flatnonzero(~exact)
    offsets[index] = prefix.log_probs(np.zeros_like(index), index) - upper[0, index]
    return offsets
