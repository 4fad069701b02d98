"""Whole sentences written from the left without chance, for networks: beams, and a pool of them.

A beam search (Lowerre 1976). Of the beginnings b those are kept that have the least

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b),

r being the rejecting models and m those whose scores are to be kept. Each walk aims at the scores
of one natural sentence: at each place lambda is such that about half of the beginnings have no less
than their part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.beginnings import Beginnings
from contstim.search.bounded import Bounded
from contstim.search.candidates import WordReplacement
from contstim.search.fluent import PooledStrategy
from contstim.search.options import LeftwardOptions
from contstim.search.pool import ALIKE_WORDS
from contstim.search.problem import Problem
from contstim.search.sweeps import Search, loaded
from contstim.search.writer import Draft, Form, tilts
from contstim.settings import settings
from contstim.text import Sentence, WordList

# Walks for each side, at least.
_FEWEST = 8
# Words that a walk writes with, at least.
_FEW_WORDS = 20
# Words looked at for each beginning that is kept: as many of those known at once, and of others.
_LOOKED_AT = 4
# Sentences that are ended for each beginning that is kept.
_ENDED = 4
# Beginnings that are scored as sentences for each that is kept, where models are guides.
_JUDGED = 4
# Nats by which beginnings are to score higher than those of the natural sentence, as sentences.
_RESERVE = 5.0
# What mark and end are taken to cost, in words.
_END = 1.0
# What the log of a lambda may change by at one place, step by step.
_STEPS = tuple(1.6 / 2**i for i in range(10))


@settings
class Leftward(LeftwardOptions, PooledStrategy):
    """Write sentences from the left, and keep the beginnings that models disagree on most.

    Each walk aims at one natural sentence, whose scores its sentences are to keep, and writes with
    a random part of the words, so that walks differ. Of its sentences those are given to the pool
    that neither begin nor end alike.

    Of models that do not score from left to right, guides propose words: what a masked model says
    with the words to come hidden, or another model that stands in for it. Of what they propose the
    models' own scores of the beginnings as sentences decide. No writer has a say: what drafts state
    of it is 0.
    """

    prompts: ClassVar[bool] = False

    @property
    def models(self) -> tuple[str, ...]:
        """The stand-in, if there is one."""
        return () if self.guide is None else (self.guide,)

    def batches(self, n_natural: int) -> int:
        """Return how many walks there are."""
        return max(_FEWEST, self.walks * n_natural)

    def form(self, natural: Iterable[str]) -> Form:
        """Return what sentences look like: as long as natural ones, and with their marks."""
        parsed = [Sentence.parse(sentence) for sentence in natural]
        lengths = [len(sentence) for sentence in parsed]
        marks = dict.fromkeys(sentence.after[-1] or "." for sentence in parsed)
        return Form(min(lengths), max(lengths), tuple(marks))

    def beside(self, search: Search) -> list[str]:
        """Return the natural sentence, whose scores are to be kept."""
        return [str(search.start)]

    def run(self, search: Search) -> bool:
        """Write for one natural sentence, take the best, then search by sweeps as ``bounded``."""
        super().run(search)
        return Bounded().run(search)

    def batch(
        self,
        number: int,
        problem: Problem,
        proposal: WordReplacement,
        form: Form,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> list[Draft]:
        """Write sentences that keep the scores of one of the natural ones, each in its turn."""
        aim = Sentence.parse(natural[number % len(natural)])
        walk, least = Walk.of(problem, proposal, form, self, str(aim))
        mark = aim.after[-1] or "."
        written = walk.with_part(self.part, rng).written(len(aim), mark, least, self.width)
        return [Draft(sentence, 0.0, 0.0, 0.0) for sentence in written.unlike()]


@dataclass(frozen=True, eq=False)
class Ended:
    """The sentences that a walk came to, S of them, the best first.

    Attributes
    ----------
    words, mark
        Their words, and what ends them.
    log_probs
        Their scores, shape (M, S), nats.
    """

    words: Sequence[tuple[str, ...]]
    mark: str
    log_probs: FloatArray

    def sentence(self, number: int) -> str:
        """Return one of them as text."""
        return " ".join(self.words[number]) + self.mark

    def unlike(self) -> Iterator[str]:
        """Yield sentences that neither begin nor end as one before."""
        seen: set[tuple[bool, tuple[str, ...]]] = set()
        for number, words in enumerate(self.words):
            folded = tuple(word.casefold() for word in words)
            ends = {(False, folded[:ALIKE_WORDS]), (True, folded[-ALIKE_WORDS:])}
            if not ends & seen:
                seen |= ends
                yield self.sentence(number)


@dataclass(frozen=True, eq=False)
class Walk:
    """What does not change on the way, of M models.

    Attributes
    ----------
    begun
        A beginning without a word under each.
    rests
        By model, what first and later words of several pieces have less than their bounds, about.
    rejecting
        w by model, (M,).
    masks
        By position, from 0, which words may stand there, where not all may.
    repeatable
        The words that may stand in a sentence twice.
    alike
        As `Leftward.most_alike`.
    aim
        The natural sentence.
    judges
        By the numbers of the models that only guide, those that score what is written so far, with
        the mark, as a sentence.
    part
        Of first and of later words, which are written with; None: all.
    """

    begun: Sequence[Beginnings]
    rests: Sequence[tuple[FloatArray, FloatArray]]
    rejecting: FloatArray
    masks: Mapping[int, BoolArray]
    repeatable: frozenset[str]
    alike: int
    aim: str
    judges: Mapping[int, SentenceModel] = field(default_factory=dict)
    part: tuple[BoolArray, BoolArray] | None = None

    @classmethod
    def of(
        cls, problem: Problem, proposal: WordReplacement, form: Form, how: Leftward, aim: str
    ) -> tuple[Walk, FloatArray]:
        """Return the walk, and by model the score to keep beside a natural sentence, (M,).

        Raises
        ------
        InputError
            If there is no model that knows what may follow a beginning.
        """
        every = _begun(problem, proposal, how.guide)
        if not every:
            raise InputError(
                f"none of {' and '.join(problem.names)} knows what may follow a beginning; give a "
                "guide, a model that proposes for them"
            )
        begun = [prepared.begun for prepared in every.values()]
        weights, models = tilts(problem), problem.by_name
        masks = {
            position: np.isin(begun[0].lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }
        walk = cls(
            begun,
            [prepared.rests for prepared in every.values()],
            np.array([max(0.0, -weights.get(name, 0.0)) for name in every]),
            masks,
            frozenset(proposal.vocabulary.repeatable),
            how.most_alike,
            aim,
            {m: models[name] for m, (name, p) in enumerate(every.items()) if p.judged},
        )
        natural = {name: float(model.score([aim])[0]) for name, model in models.items()}
        minima = problem.minima(natural, len(aim.split()))
        return walk, np.array([minima.get(name, -np.inf) for name in every])

    def with_part(self, part: float, rng: np.random.Generator) -> Walk:
        """Return the walk with a random part of the words, or more of them where there are few."""
        first, later = (
            rng.permutation(len(words)) < max(_FEW_WORDS, part * len(words))
            for words in self.begun[0].lists
        )
        return replace(self, part=(first, later))

    def written(self, n_words: int, mark: str, least: FloatArray, width: int) -> Ended:
        """Return sentences that keep scores, of least loss.

        Parameters
        ----------
        n_words, mark
            What they look like.
        least
            By model, the score to keep, nats, (M,); -inf where there is none.
        width
            Beginnings kept at each place.
        """
        here, words = list(self.begun), [()]
        totals = np.zeros((len(here), 1))
        log_lambda, bias = np.zeros(len(here)), np.zeros(len(here))
        paces = self._paces(n_words, mark, least)
        for position in range(n_words):
            now = self._weights(log_lambda, least)
            rows, index, log_probs = self._looked_at(here, words, totals, now, position, width)
            if not len(rows):
                return Ended([], mark, log_probs)
            log_probs += bias[:, None]
            last = position == n_words - 1
            most = width * (_ENDED if last else 1)
            pace = paces[:, position]
            listed = here[0].words.words
            if self.judges:
                log_lambda, few = self._chosen(log_probs, pace, _JUDGED * width, words, rows, index)
                rows, index, log_probs = rows[few], index[few], log_probs[:, few]
                longer = [(*words[row], listed[i]) for row, i in zip(rows, index, strict=True)]
                texts = [" ".join(written) + mark for written in longer]
                for m, judge in self.judges.items():
                    scores = judge.score(texts)
                    bias[m] += np.mean(scores - log_probs[m])
                    log_probs[m] = scores
            log_lambda, few = self._chosen(log_probs, pace, most, words, rows, index)
            rows, index, totals = rows[few], index[few], log_probs[:, few]
            words = [(*words[row], listed[i]) for row, i in zip(rows, index, strict=True)]
            if not last or len(self.judges) < len(here):
                here = [beginnings.followed_by(rows, index) for beginnings in here]
        for m, beginnings in enumerate(here):
            if m not in self.judges:
                totals[m] += beginnings.ends(mark)
        missed = np.maximum(least[:, None] - totals, 0.0).sum(axis=0)
        order = np.lexsort([self.rejecting @ totals, missed])[:width]
        return Ended([words[i] for i in order], mark, totals[:, order])

    def _paces(self, n_words: int, mark: str, least: FloatArray) -> FloatArray:
        """Return what beginnings of each number of words are to keep, (M, words), nats."""
        paces = least[:, None] * np.arange(1, n_words + 1) / (n_words + _END)
        words = self.aim.split()
        texts = [" ".join(words[:n]).rstrip(mark) + mark for n in range(1, n_words)]
        for m, judge in self.judges.items():
            if np.isfinite(least[m]):
                # The natural sentence's own beginnings, as sentences, and then what is to be kept.
                paces[m] = [*(judge.score(texts) + _RESERVE), least[m]]
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
        """Return rows, next words and log-probabilities, (M, k), of what promises most."""
        promise = np.zeros((len(words), len(here[0].words)))
        at_once = np.ones(len(here[0].words), dtype=np.bool_)
        for weight, total, beginnings, rests in zip(weights, totals, here, self.rests, strict=True):
            upper, exact = beginnings.upper()
            promise += weight * (total[:, None] + upper + rests[min(position, 1)])
            at_once &= exact
        promise[~self._allowed(words, here[0].words, position)] = np.inf
        most = _LOOKED_AT * width
        both = [_least(np.where(where, promise, np.inf), most) for where in (at_once, ~at_once)]
        rows, index = np.concatenate(both, axis=1)
        added = [beginnings.log_probs(rows, index) for beginnings in here]
        return rows, index, totals[:, rows] + np.stack(added)

    def _allowed(
        self, beginnings: Sequence[tuple[str, ...]], words: WordList, position: int
    ) -> BoolArray:
        """Return which words may come next, (R, V): not those that are there, but repeatable."""
        allowed = np.ones((len(beginnings), len(words)), dtype=np.bool_)
        if position in self.masks:
            allowed &= self.masks[position]
        elif self.part is not None:
            allowed &= self.part[min(position, 1)]
        for row, written in enumerate(beginnings):
            for word in written:
                folded = word.casefold()
                if folded not in self.repeatable:
                    allowed[row, words.folded.get(folded, [])] = False
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


def _begun(problem: Problem, proposal: WordReplacement, guide: str | None) -> dict[str, _Prepared]:
    """Return, by the name of each model, what is asked on the way."""
    every: dict[str, _Prepared] = {}
    stand_in = None if guide is None else loaded(guide)
    if stand_in is not None:
        proposal = _known_to(proposal, stand_in)
    place = Sentence(("", ""), ("", ""), ("", ""))
    lists = proposal.words(place, 0), proposal.words(place, 1)
    for name, model in problem.by_name.items():
        exact = _prepared(model, lists, judged=False)
        by = exact or _prepared(stand_in or model, lists, judged=True)
        if by is not None:
            every[name] = by
    return every


@lru_cache(maxsize=4)
def _known_to(proposal: WordReplacement, model: SentenceModel) -> WordReplacement:
    """Return the words that a further model knows, too; looked up once for many walks."""
    return WordReplacement(proposal.vocabulary, (*proposal.models, model))


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
