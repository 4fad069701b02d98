"""Beam search for whole sentences of low loss, word by word from left to right.

A beam search (Lowerre 1976). The prefixes b are kept that minimise

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b),

where r are the rejecting models and m the constrained ones. At each position lambda is chosen such
that about half of the prefixes have at least the share of each constrained score that is due after
so many words. The log-probability of a word of several tokens is estimated from its first token
and from the rest of the word after another prefix; it becomes exact once the word is read.
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
from contstim.models.prefixes import COMMA, Prefixes, PrefixModel, prefixes_of
from contstim.settings import Count, one_of, option, settings
from contstim.synthesis.candidates import Candidates, ScoreCounter, known_to
from contstim.synthesis.coordinate_search import Search, Strategy, loaded
from contstim.synthesis.edit import Edit
from contstim.synthesis.writer import guidance_weights
from contstim.text import Sentence, WordList
from contstim.text.diversity import ALIKE_WORDS

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
# Nats by which prefixes must score higher than those of the natural sentence, scored as sentences.
_SCORED_SLACK = 5.0
# The slack at the end of the sentence, in words; and the factor by which the next pass changes it:
# down if more than this share of the sentences satisfied the constraints, else up.
_END, _SHARE, _CHANGE = 1.0, 0.25, 1.5
# Steps by which log lambda changes at one position.
_STEPS = tuple(1.6 / 2**i for i in range(10))


@settings
class Beam(Strategy):
    """Write whole sentences from left to right, keeping the prefixes of lowest loss.

    Each restart uses a random part of the vocabulary, so that restarts differ; words of the natural
    sentence and repeatable words are always included. The best sentence of all restarts that
    satisfies the constraints is taken.

    All models must score prefixes. A masked model whose sentences cost one input per token, such
    as ``pll``, proposes words itself, and its scores of the prefixes as sentences decide; other
    models without prefix scores need a `guide`.

    Attributes
    ----------
    n_restarts
        Restarts per sentence.
    width
        Prefixes kept at each position. None: 256; 64 where all constrained scores and not all
        others are known at once; 96 where a model scores prefixes as sentences.
    diversity_cap
        Maximum number of prefixes kept that end with the same word, and of those that begin with
        the same three. None: a quarter of the width.
    vocabulary_fraction
        Share of the vocabulary that each restart uses.
    refine
        ``yes`` or ``no``: whether words of the result are then replaced one at a time, as by
        ``edit``.
    guide
        Spec of a model that proposes words for models that do not score prefixes.
    """

    starts_at_natural: ClassVar[bool] = False
    takes_edits: ClassVar[bool] = False

    n_restarts: Count = option(2, "restarts per sentence", "N")
    width: Count | None = option(None, "prefixes kept at each position", "N")
    diversity_cap: Count | None = option(
        None, "prefixes that may end, or begin, with the same words", "N"
    )
    vocabulary_fraction: Annotated[float, Field(gt=0, le=1)] = option(
        0.75, "share of the vocabulary that each restart uses", "SHARE"
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
        for number in range(_MORE_RESTARTS * self.n_restarts):
            if has_sentence and number >= self.n_restarts:
                break
            part = beam.with_part(self.vocabulary_fraction, rng)
            sentences, log_probs = part.write(beam.width)
            has_sentence |= any(search.take(sentence) for sentence in sentences[:_VERIFIED])
            beam = beam.with_slack_after(log_probs)
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
    slack
        The slack at the end of the sentence, as a multiple of that of the first pass.
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
    slack: float = 1.0
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
        guide, proposal = None, search.proposal.whole
        if options.guide is not None:
            guide = problem.by_name.get(options.guide) or loaded(options.guide)
            proposal = known_to(proposal, guide)
        lists, models = proposal.lists(fixed), problem.by_name
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
            frozenset(proposal.vocabulary.repeatable),
            width,
            options.diversity_cap or max(1, width // _KINDS),
            scored,
            counter=search.counter,
        )

    def with_part(self, fraction: float, rng: np.random.Generator) -> BeamSearch:
        """Return the search with a random part of the words; more of them if they are few."""
        language = self.natural.language
        always = {*map(language.fold, self.natural.words)} | self.repeatable
        parts = []
        for words in self.prefixes[0].lists:
            chosen = rng.permutation(len(words)) < max(_FEW_WORDS, fraction * len(words))
            chosen[[i for word in always for i in words.folded(language).get(word, [])]] = True
            parts.append(chosen)
        return replace(self, part=(parts[0], parts[1]))

    def with_slack_after(self, log_probs: FloatArray) -> BeamSearch:
        """Return the next pass, with less slack if enough scores, (M, S), are feasible."""
        n_feasible = int(np.all(log_probs >= self.minimum[:, None], axis=0).sum())
        enough = n_feasible > _SHARE * log_probs.shape[1]
        return replace(self, slack=self.slack * (1 / _CHANGE if enough else _CHANGE))

    def write(self, width: int) -> tuple[list[Sentence], FloatArray]:
        """Write sentences: first those that satisfy the constraints, by loss, then the others.

        Parameters
        ----------
        width
            Prefixes kept at each position.

        Returns
        -------
        sentences
            S of them.
        log_probs
            Their scores, shape (M, S), nats.
        """
        here, words, n_words = list(self.prefixes), [()], len(self.natural)
        totals = np.zeros((len(here), 1))
        log_lambda, bias = np.zeros(len(here)), np.zeros(len(here))
        targets = self._targets()
        for position in range(n_words):
            now = self._factors(log_lambda, self.minimum)
            rows, index, guessed = self._extensions(here, words, totals, now, position, width)
            if not len(rows):
                return [], guessed
            guessed += bias[:, None]
            target = targets[:, position]
            log_lambda, few = self._select(guessed, target, width, words, rows, index)
            rows, index, totals = rows[few], index[few], totals[:, rows[few]]
            listed, last = here[0].words.words, position == n_words - 1
            words = [(*words[row], listed[i]) for row, i in zip(rows, index, strict=True)]
            for m, prefixes in enumerate(here):
                if m in self.scored:
                    totals[m] = self._scores(self.scored[m], words)
                    here[m] = prefixes if last else prefixes.followed_by(rows, index)
                else:
                    added, here[m] = prefixes.read(rows, index)
                    totals[m] += added
            bias += (totals - guessed[:, few]).mean(axis=1)
            if not last and self.natural.after[position].startswith(COMMA):
                where = np.ones(len(rows), dtype=np.bool_)
                for m, prefixes in enumerate(here):
                    totals[m] += 0.0 if m in self.scored else prefixes.commas()
                    here[m] = prefixes.with_commas(where)
        for m, prefixes in enumerate(here):
            if m not in self.scored:
                totals[m] += prefixes.ends(self.natural.after[-1])
        missed = np.maximum(self.minimum[:, None] - totals, 0.0).sum(axis=0)
        order = np.lexsort([self.weights @ totals, missed])[:width]
        return [self._sentence(words[i]) for i in order], totals[:, order]

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

    def _targets(self) -> FloatArray:
        """Return the score due after each number of words, (M, words), nats."""
        n_words, words = len(self.natural), self.natural.words
        targets = self.minimum[:, None] * np.arange(1, n_words + 1) / (n_words + _END * self.slack)
        texts = [str(self._sentence(words[:n])) for n in range(1, n_words)]
        for m, model in self.scored.items():
            if np.isfinite(self.minimum[m]):
                # The prefixes of the natural sentence, scored as sentences, and then the minimum.
                targets[m] = [*(model.score(texts) + _SCORED_SLACK * self.slack), self.minimum[m]]
        return targets

    def _factors(self, log_lambda: FloatArray, minimum: FloatArray) -> FloatArray:
        """Return the factors of log-probabilities in the objective, (M,)."""
        return self.weights - np.where(np.isfinite(minimum), np.exp(log_lambda), 0.0)

    def _select(
        self,
        log_probs: FloatArray,
        target: FloatArray,
        width: int,
        words: Sequence[tuple[str, ...]],
        rows: IntArray,
        index: IntArray,
    ) -> tuple[FloatArray, IntArray]:
        """Return log lambda, (M,), and which of k longer prefixes to keep, the best first."""
        log_lambda = np.zeros(len(target))
        for step in _STEPS:
            promise = self._factors(log_lambda, target) @ log_probs
            best = np.argpartition(promise, width)[:width] if len(promise) > width else slice(None)
            enough = (log_probs[:, best] >= target[:, None]).mean(axis=1) >= 0.5
            log_lambda = log_lambda + np.where(enough, -step, step)
        order = np.argsort(self._factors(log_lambda, target) @ log_probs, kind="stable")
        return log_lambda, order[self._diverse(words, rows[order], index[order], width)]

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
        guessed = np.stack(
            [
                total[:, None] + prefixes.upper()[0] + offsets[min(position, 1)]
                for total, prefixes, offsets in zip(totals, here, self.offsets, strict=True)
            ]
        )
        promise = np.tensordot(weights, guessed, axes=1)
        promise[~self._allowed(words, here[0].words, position)] = np.inf
        rows, index = _smallest(promise, _EXTENSIONS * width)
        return rows, index, guessed[:, rows, index]

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
                allowed[row, words.folded(language).get(folded, [])] = False
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
            first = words[row][:ALIKE_WORDS]
            if lasts[last] < self.diversity_cap and (
                len(first) < ALIKE_WORDS or firsts[first] < self.diversity_cap
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
    return model if isinstance(model, PrefixModel) and model.guides_itself else None


@lru_cache(maxsize=8)
def _prepare(
    model: SentenceModel, lists: tuple[WordList, WordList], scored: bool
) -> _Prepared | None:
    prefix = prefixes_of(model, lists, guide=scored)
    if prefix is None:
        return None
    upper, exact = prefix.upper()
    bounds = np.where(exact, upper[0], -np.inf) if exact.any() else upper[0]
    later = prefix.followed_by(np.zeros(1, dtype=np.int64), np.array([bounds.argmax()]))
    return _Prepared(prefix, (_offsets(prefix), _offsets(later)), scored)


def _offsets(prefix: Prefixes) -> FloatArray:
    """Return the log-probabilities of words after one prefix less their bounds, (V,), nats."""
    upper, exact = prefix.upper()
    offsets = np.zeros(len(exact))
    index = np.flatnonzero(~exact)
    offsets[index] = prefix.log_probs(np.zeros_like(index), index) - upper[0, index]
    return offsets
