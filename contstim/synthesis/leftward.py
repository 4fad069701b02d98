"""Whole sentences written from the left without chance, for networks: beams, then a climb.

A beam search (Lowerre 1976). Of the beginnings b those are kept that have the least

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b),

r being the rejecting models and m those whose scores are to be kept. At each place lambda is such
that about half of the beginnings have no less than their part of these scores. What a word of
several pieces has is guessed of its first piece and of what the others have elsewhere; it is known
once the word is read, which the next place needs at any rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import SentenceModel
from contstim.models.beginnings import COMMA, Beginnings
from contstim.settings import settings
from contstim.synthesis.bounded import Bounded
from contstim.synthesis.candidates import Spent, known_to
from contstim.synthesis.options import LeftwardOptions
from contstim.synthesis.problem import Problem, most_broken
from contstim.synthesis.sweeps import Search, loaded
from contstim.synthesis.writer import tilts
from contstim.text import Sentence, WordList
from contstim.text.diversity import ALIKE_WORDS

# Beginnings that are kept where scores to keep are known at once, and elsewhere; where a model
# scores them as sentences, which costs more; and how many times more these are than those of one
# kind.
_WIDTHS, _JUDGED_WIDTH, _KINDS = (64, 256), 96, 4
# Words that a walk writes with, at least.
_FEW_WORDS = 20
# Longer beginnings that are chosen from for each that is kept.
_LOOKED_AT = 16
# Times as many walks, at most, where none has written a sentence that keeps the constraints.
_AGAIN = 3
# Sentences of a walk that are verified, at most.
_VERIFIED = 4
# Nats by which beginnings are to score higher than those of the natural sentence, as sentences.
_RESERVE = 5.0
# What mark and end are taken to cost, in words; and what that is multiplied with, or divided by,
# for the next walk: less where a part of the sentences keep the scores.
_END, _PART, _CHANGE = 1.0, 0.25, 1.5
# What the log of a lambda may change by at one place, step by step.
_STEPS = tuple(1.6 / 2**i for i in range(10))


@settings
class Leftward(LeftwardOptions, Bounded):
    """Write sentences from the left, keep the beginnings that models disagree on most, then climb.

    Each walk writes with a random part of the words, so that walks differ; words of the natural
    sentence and those that may be repeated are always among them. The best sentence of all walks
    that keeps the constraints is taken; with ``climb="yes"`` its words are then replaced one at a
    time, as by ``bounded``.

    Where a model does not score from left to right, a `guide` proposes words: another model that
    stands in for it, or itself, which then says what it thinks of a word with those to come hidden
    if it is a masked one. The model's own scores of the beginnings as sentences say which to go on
    with. Where no guide is named, masked models guide themselves whose sentences cost an input a
    token (`guides_itself`). Where there is no guide for a model, few words may change, the loss
    has no weights or nothing written keeps the constraints, it is ``bounded``.
    """

    starts_at_natural: ClassVar[bool] = False

    @property
    def complete(self) -> bool:
        """Whether no single replacement improves a result: if it climbs without a budget."""
        return self.climb == "yes" and super().complete

    @property
    def models(self) -> tuple[str, ...]:
        """The stand-in, if there is one."""
        return () if self.guide is None else (self.guide,)

    def run(self, search: Search) -> bool:
        """Take the best sentence of the walks; if asked for, or there is none, search by sweeps."""
        may_write = search.problem.edits.most is None and len(search.positions) > 1
        walk = Walk.of(search, self) if may_write else None
        written = False
        if walk is not None:
            rng = search.chance()
            for number in range(_AGAIN * self.walks):
                if written and number >= self.walks:
                    break
                sentences, log_probs = walk.with_part(self.part, rng).written(walk.width)
                for sentence in sentences[:_VERIFIED]:
                    if search.take(sentence):
                        written = True
                        break
                walk = walk.after(log_probs)
        problem, n_words = search.problem, len(search.start)
        broken, _ = most_broken(problem.constraints, search.natural, search.now, n_words)
        # Where the natural sentence breaks a constraint, only what was written can be gone on with.
        if broken is not None:
            return True
        return False if written and self.climb == "no" else super().run(search)


@dataclass(frozen=True, eq=False)
class Walk:
    """What does not change on the way to sentences beside a natural one, of M models.

    Attributes
    ----------
    natural
        The natural sentence; its marks are kept.
    least
        By model, the score to keep, nats, (M,); -inf where there is none.
    begun
        A beginning without a word under each.
    rests
        By model, what first and later words of several pieces have less than their bounds, about.
    rejecting
        w by model, (M,).
    masks
        By position which words may stand there.
    listed
        The positions that have words of their own, none of which are left out.
    repeatable
        The words that may stand in a sentence twice.
    width, alike
        As `Leftward.width` and `Leftward.most_alike`.
    judges
        By the numbers of the models that a guide stands in for, these models, which score what is
        written so far, with the mark, as a sentence.
    part
        Of first and of later words, which are written with; None: all.
    reserve
        What is kept for the end, as a multiple of what the first walk keeps.
    spent
        Where what the judges score is counted.
    """

    natural: Sentence
    least: FloatArray
    begun: Sequence[Beginnings]
    rests: Sequence[tuple[FloatArray, FloatArray]]
    rejecting: FloatArray
    masks: Sequence[BoolArray]
    listed: frozenset[int]
    repeatable: frozenset[str]
    width: int
    alike: int
    judges: Mapping[int, SentenceModel] = field(default_factory=dict)
    part: tuple[BoolArray, BoolArray] | None = None
    reserve: float = 1.0
    spent: Spent = field(default_factory=Spent)

    @classmethod
    def of(cls, search: Search, how: Leftward) -> Walk | None:
        """Return what a search's walks share; None where none can be written."""
        problem, natural = search.problem, search.start
        if problem.objective.parts is None:
            return None
        listed = dict(problem.edits.words)
        at = {p: search.words(p).words for p in search.positions}
        special = {p: at.get(p, natural.words[p : p + 1]) for p in range(len(natural))}
        special = {p: words for p, words in special.items() if p in listed or p not in at}
        stand_in, proposal = None, search.proposal.whole
        if how.guide is not None:
            stand_in = problem.by_name.get(how.guide) or loaded(how.guide)
            proposal = known_to(proposal, stand_in)
        lists = proposal.lists(special)
        every = _begun(problem, lists, stand_in)
        if not every:
            return None
        weights, models = tilts(problem), problem.by_name
        width = _WIDTHS[any(not models[name].at_once for name in search.minimum)]
        if any(prepared.judged for prepared in every.values()):
            width = _JUDGED_WIDTH
        width = how.width or width
        return cls(
            natural,
            np.array([search.minimum.get(name, -np.inf) for name in every]),
            [prepared.begun for prepared in every.values()],
            [prepared.rests for prepared in every.values()],
            np.array([max(0.0, -weights.get(name, 0.0)) for name in every]),
            [_mask(lists[min(p, 1)], {**at, **special}[p]) for p in range(len(natural))],
            frozenset(special),
            frozenset(proposal.vocabulary.repeatable),
            width,
            how.most_alike or max(1, width // _KINDS),
            {m: models[name] for m, (name, p) in enumerate(every.items()) if p.judged},
            spent=search.spent,
        )

    def with_part(self, part: float, rng: np.random.Generator) -> Walk:
        """Return the walk with a random part of the words, or more of them where there are few."""
        language = self.natural.language
        always = {*map(language.fold, self.natural.words)} | self.repeatable
        parts = []
        for words in self.begun[0].lists:
            chosen = rng.permutation(len(words)) < max(_FEW_WORDS, part * len(words))
            chosen[[i for word in always for i in words.folded(language).get(word, [])]] = True
            parts.append(chosen)
        return replace(self, part=(parts[0], parts[1]))

    def after(self, log_probs: FloatArray) -> Walk:
        """Return the walk to come next: with less in reserve if what was written (M, S) kept it."""
        n_kept = int(np.all(log_probs >= self.least[:, None], axis=0).sum())
        enough = n_kept > _PART * log_probs.shape[1]
        return replace(self, reserve=self.reserve * (1 / _CHANGE if enough else _CHANGE))

    def written(self, width: int) -> tuple[list[Sentence], FloatArray]:
        """Return sentences that keep scores, of least loss, and all others behind them.

        Parameters
        ----------
        width
            Beginnings kept at each place.

        Returns
        -------
        sentences
            S of them.
        log_probs
            Their scores, shape (M, S), nats.
        """
        here, words, n_words = list(self.begun), [()], len(self.natural)
        totals = np.zeros((len(here), 1))
        log_lambda, bias = np.zeros(len(here)), np.zeros(len(here))
        paces = self._paces()
        for position in range(n_words):
            now = self._weights(log_lambda, self.least)
            rows, index, guessed = self._looked_at(here, words, totals, now, position, width)
            if not len(rows):
                return [], guessed
            guessed += bias[:, None]
            pace = paces[:, position]
            log_lambda, few = self._chosen(guessed, pace, width, words, rows, index)
            rows, index, totals = rows[few], index[few], totals[:, rows[few]]
            listed, last = here[0].words.words, position == n_words - 1
            words = [(*words[row], listed[i]) for row, i in zip(rows, index, strict=True)]
            for m, beginnings in enumerate(here):
                if m in self.judges:
                    totals[m] = self._judged(self.judges[m], words)
                    here[m] = beginnings if last else beginnings.followed_by(rows, index)
                else:
                    added, here[m] = beginnings.read(rows, index)
                    totals[m] += added
            bias += (totals - guessed[:, few]).mean(axis=1)
            if not last and self.natural.after[position].startswith(COMMA):
                where = np.ones(len(rows), dtype=np.bool_)
                for m, beginnings in enumerate(here):
                    totals[m] += 0.0 if m in self.judges else beginnings.commas()
                    here[m] = beginnings.with_commas(where)
        for m, beginnings in enumerate(here):
            if m not in self.judges:
                totals[m] += beginnings.ends(self.natural.after[-1])
        missed = np.maximum(self.least[:, None] - totals, 0.0).sum(axis=0)
        order = np.lexsort([self.rejecting @ totals, missed])[:width]
        return [self._begun_by(words[i]) for i in order], totals[:, order]

    def _judged(self, judge: SentenceModel, words: Sequence[tuple[str, ...]]) -> FloatArray:
        """Return a judge's scores of beginnings as sentences, and count them."""
        counts = self.spent.n_scores
        counts[judge.name] = counts.get(judge.name, 0) + len(words)
        return judge.score([str(self._begun_by(begun)) for begun in words])

    def _begun_by(self, words: tuple[str, ...]) -> Sentence:
        """Return a beginning as a sentence, with the natural one's marks."""
        n, natural = len(words), self.natural
        after = (*natural.after[: n - 1], natural.after[-1])
        return Sentence(words, natural.before[:n], after, natural.language)

    def _paces(self) -> FloatArray:
        """Return what beginnings of each number of words are to keep, (M, words), nats."""
        n_words, words = len(self.natural), self.natural.words
        paces = self.least[:, None] * np.arange(1, n_words + 1) / (n_words + _END * self.reserve)
        texts = [str(self._begun_by(words[:n])) for n in range(1, n_words)]
        for m, judge in self.judges.items():
            if np.isfinite(self.least[m]):
                # The natural sentence's own beginnings, as sentences, and then what is to be kept.
                paces[m] = [*(judge.score(texts) + _RESERVE * self.reserve), self.least[m]]
        return paces

    def _weights(self, log_lambda: FloatArray, least: FloatArray) -> FloatArray:
        """Return what log-probabilities are multiplied with, (M,)."""
        return self.rejecting - np.where(np.isfinite(least), np.exp(log_lambda), 0.0)

    def _chosen(
        self,
        log_probs: FloatArray,
        pace: FloatArray,
        most: int,
        words: Sequence[tuple[str, ...]],
        rows: IntArray,
        index: IntArray,
    ) -> tuple[FloatArray, IntArray]:
        """Return log lambda, and which of k longer beginnings to go on with, the best first."""
        log_lambda = self._settled(log_probs, pace, most)
        order = np.argsort(self._weights(log_lambda, pace) @ log_probs, kind="stable")
        return log_lambda, order[self._unlike(words, rows[order], index[order], most)]

    def _settled(self, log_probs: FloatArray, pace: FloatArray, most: int) -> FloatArray:
        """Return log lambda (M,) under which half of the best keep the pace (M,)."""
        log_lambda = np.zeros(len(pace))
        for step in _STEPS:
            promise = self._weights(log_lambda, pace) @ log_probs
            best = np.argpartition(promise, most)[:most] if len(promise) > most else slice(None)
            enough = (log_probs[:, best] >= pace[:, None]).mean(axis=1) >= 0.5
            log_lambda = log_lambda + np.where(enough, -step, step)
        return log_lambda

    def _looked_at(
        self,
        here: Sequence[Beginnings],
        words: Sequence[tuple[str, ...]],
        totals: FloatArray,
        weights: FloatArray,
        position: int,
        width: int,
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return rows, next words and likely log-probabilities, (M, k), of what promises most."""
        guessed = np.stack(
            [
                total[:, None] + beginnings.upper()[0] + rests[min(position, 1)]
                for total, beginnings, rests in zip(totals, here, self.rests, strict=True)
            ]
        )
        promise = np.tensordot(weights, guessed, axes=1)
        promise[~self._allowed(words, here[0].words, position)] = np.inf
        rows, index = _least(promise, _LOOKED_AT * width)
        return rows, index, guessed[:, rows, index]

    def _allowed(
        self, beginnings: Sequence[tuple[str, ...]], words: WordList, position: int
    ) -> BoolArray:
        """Return which words may come next, (R, V): not those that are there, but repeatable."""
        allowed = np.ones((len(beginnings), len(words)), dtype=np.bool_)
        allowed &= self.masks[position]
        if self.part is not None and position not in self.listed:
            allowed &= self.part[min(position, 1)]
        language = self.natural.language
        for row, written in enumerate(beginnings):
            for folded in {*map(language.fold, written)} - self.repeatable:
                allowed[row, words.folded(language).get(folded, [])] = False
        return allowed

    def _unlike(
        self,
        words: Sequence[tuple[str, ...]],
        rows: IntArray,
        index: IntArray,
        width: int,
    ) -> IntArray:
        """Return which to go on with, the first ones of those that are not too many of a kind."""
        lasts, firsts = Counter[int](), Counter[tuple[str, ...]]()
        chosen: list[int] = []
        for number, (row, last) in enumerate(zip(rows.tolist(), index.tolist(), strict=True)):
            first = words[row][:ALIKE_WORDS]
            if lasts[last] < self.alike and (
                len(first) < ALIKE_WORDS or firsts[first] < self.alike
            ):
                lasts[last] += 1
                firsts[first] += 1
                chosen.append(number)
                if len(chosen) == width:
                    break
        return np.array(chosen, dtype=np.int64)


def _least(values: FloatArray, most: int) -> IntArray:
    """Return rows and columns of the least finite values, (2, k), at most so many."""
    flat = values.ravel()
    index = np.argpartition(flat, min(most, len(flat)) - 1)[:most]
    return np.stack(np.unravel_index(index[np.isfinite(flat[index])], values.shape))


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A beginning without a word, and by how much words have less than their bounds, about.

    That is known of first words; of later ones it is what they do after the most probable first.
    """

    begun: Beginnings
    rests: tuple[FloatArray, FloatArray]
    judged: bool


def _mask(words: WordList, some: Sequence[str]) -> BoolArray:
    """Return which words are among some, (V,)."""
    mask = np.zeros(len(words), dtype=np.bool_)
    mask[[words.index[word] for word in some if word in words.index]] = True
    return mask


def _begun(
    problem: Problem, lists: tuple[WordList, WordList], stand_in: SentenceModel | None
) -> dict[str, _Prepared]:
    """Return, by the name of each model, what is asked on the way; nothing where one has none."""
    every: dict[str, _Prepared] = {}
    for name, model in problem.by_name.items():
        by = _prepared(model, lists, judged=False)
        if by is None and (guide := stand_in or (model if model.guides_itself else None)):
            by = _prepared(guide, lists, judged=True)
        if by is None:
            return {}
        every[name] = by
    return every


@lru_cache(maxsize=8)
def _prepared(
    model: SentenceModel, lists: tuple[WordList, WordList], judged: bool
) -> _Prepared | None:
    begun = model.guide(*lists) if judged else model.beginnings(*lists)
    if begun is None:
        return None
    upper, exact = begun.upper()
    # Some words are known at once to most models.
    bounds = np.where(exact, upper[0], -np.inf) if exact.any() else upper[0]
    later = begun.followed_by(np.zeros(1, dtype=np.int64), np.array([bounds.argmax()]))
    return _Prepared(begun, (_rest(begun), _rest(later)), judged)


def _rest(beginnings: Beginnings) -> FloatArray:
    """Return what words have less than their bounds after one beginning, (V,), nats."""
    upper, exact = beginnings.upper()
    rest = np.zeros(len(exact))
    index = np.flatnonzero(~exact)
    rest[index] = beginnings.log_probs(np.zeros_like(index), index) - upper[0, index]
    return rest
