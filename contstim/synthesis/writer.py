"""Guided sampling: sentences written word by word by a language model.

The next word w after the prefix b is drawn with probability proportional to

    q(w | b)^(1/temperature) exp(guidance sum_m c_m log p_m(w | b)),

where q is the distribution of the writer after a prompt of natural sentences, truncated by top-p
and min-p; c_m is above 0 for accepting and below 0 for rejecting models. A sentence ends where the
writer gives its end a minimum probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.prefixes import COMMA, Prefixes, empty_prefix, empty_prefix_after
from contstim.settings import Count, Natural, one_of, option, settings
from contstim.synthesis.candidates import SharedVocabulary
from contstim.synthesis.problem import Problem
from contstim.text import Sentence, WordList, parse_length_range
from contstim.text.language import Language

# Maximum number of words considered after a prefix, and of words of several tokens among them; and
# the minimum probability of the latter.
_MAX_WORDS, _MAX_LONG, _MIN_LONG = 400, 4, 4e-3
# A word that the writer would continue with at least this probability is a fragment.
_WHOLE = np.log(0.5)


# Marks that end sentences.
_ENDING = ".?!…。！？"


@settings
class WritingOptions:
    """Options of guided sampling.

    Attributes
    ----------
    writer
        Spec of the causal model that writes.
    temperature
        Temperature of the writer's distribution.
    top_p
        Share of the writer's probability mass from which words are drawn.
    min_p
        Minimum probability of a word, as a share of that of the most probable word.
    guidance
        Factor of the compared models' log-probabilities.
    min_end_probability
        Minimum probability that the writer gives the end of a sentence.
    lengths
        Numbers of words, such as ``7-9``. None: from one word less to one word more than the
        natural sentences have.
    marks
        Marks that may end sentences, one character each.
    commas
        ``yes`` or ``no``: whether sentences may contain commas.
    batch_size
        Sentences that are sampled together, after one prompt.
    n_prompts
        Natural sentences in the prompt; 0 for a writer that was trained on single sentences.
    n_samples
        Sentences sampled for each side of a pair, or for a single natural sentence.
    guide
        Spec of a model that guides in place of models that do not score prefixes. Without it,
        these do not guide.
    """

    writer: str = option("contstim:smollm2", "the model that writes", "SPEC")
    temperature: Annotated[float, Field(gt=0, le=100)] = option(
        1 / 1.8, "temperature of the writer's distribution", "NUMBER"
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = option(
        0.95, "share of the writer's probability mass from which words are drawn", "SHARE"
    )
    min_p: Annotated[float, Field(ge=0, le=1)] = option(
        0.01, "minimum probability of a word, as a share of the most probable word's", "SHARE"
    )
    guidance: Annotated[float, Field(ge=0, le=1000)] = option(
        4.5, "factor of the compared models' log-probabilities", "NUMBER"
    )
    min_end_probability: Annotated[float, Field(ge=0, le=1)] = option(
        0.45, "minimum probability that the writer gives the end of a sentence", "PROBABILITY"
    )
    lengths: str | None = option(None, "numbers of words, such as 7-9", "N-M")
    marks: str = option(".", "marks that may end sentences, such as .?!", "MARKS")
    commas: Annotated[str, one_of(("no", "yes"))] = option(
        "no", "whether sentences may contain commas"
    )
    batch_size: Count = option(32, "sentences that are sampled together, after one prompt", "N")
    n_prompts: Natural = option(8, "natural sentences in the prompt", "N")
    n_samples: Count = option(800, "sentences sampled for each side of a pair", "N")
    guide: str | None = option(
        None, "model that guides in place of models that do not score prefixes", "SPEC"
    )

    def __post_init__(self) -> None:
        if self.lengths is not None:
            parse_length_range(self.lengths)
        if not self.marks or {*self.marks} - {*_ENDING}:
            raise InputError(f"marks={self.marks!r} holds what ends no sentence; give .?! or one")


@dataclass(frozen=True)
class SentenceForm:
    """The form of sampled sentences.

    Attributes
    ----------
    shortest, longest
        Minimum and maximum number of words.
    marks
        The marks that may end them.
    commas
        Positions, from 0, whose words are followed by commas; None: wherever the writer draws one.
    words
        By position, from 0, the words that may stand there in place of the vocabulary's.
    """

    shortest: int
    longest: int
    marks: tuple[str, ...] = (".",)
    commas: tuple[int, ...] | None = ()
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A sampled sentence.

    Attributes
    ----------
    sentence
        The sentence.
    log_prob
        Its log-probability under the writer, with its final mark, after the prompt, nats.
    worst
        The log-probability of its least probable word.
    end
        The log-probability of its final mark.
    """

    sentence: str
    log_prob: float
    worst: float
    end: float


def guidance_weights(problem: Problem) -> dict[str, float]:
    """Return c_m by model: positive for accepting models, negative for rejecting ones.

    Rejecting models are weighted by the inverse of their scales, accepting ones equally; each side
    sums to 1 in absolute value, so a word whose probability changes alike under all models is
    neither preferred nor avoided. Models of lower bounds have no weight.
    """
    scales = problem.contrast.scale_by_model
    rejecting = {name: 0.0 - 1.0 / scale / len(scales) for name, scale in scales.items()}
    total, accepting = -sum(rejecting.values()), problem.contrast.accept
    return {
        **{name: c / total for name, c in rejecting.items()},
        **dict.fromkeys(accepting, 1.0 / max(1, len(accepting))),
    }


@dataclass(frozen=True, eq=False)
class _Rows:
    """R sentences that are being written.

    Attributes
    ----------
    number
        The index of each among all sampled sentences, (R,).
    words, commas, log_probs
        Of each the words so far, whether a comma follows each, and what the writer says of each.
    """

    number: IntArray
    words: tuple[tuple[str, ...], ...]
    commas: tuple[tuple[bool, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]

    @classmethod
    def empty(cls, n: int) -> _Rows:
        """Return `n` sentences without a word."""
        return cls(np.arange(n), ((),) * n, ((),) * n, ((),) * n)

    def longer(self, rows: IntArray, words: Sequence[str], log_probs: FloatArray) -> _Rows:
        """Return some of the sentences with a word more each."""
        each = zip(rows.tolist(), words, log_probs.tolist(), strict=True)
        chosen = [(row, word, value) for row, word, value in each]
        return _Rows(
            self.number[rows],
            tuple((*self.words[row], word) for row, word, _ in chosen),
            tuple((*self.commas[row], False) for row, _, _ in chosen),
            tuple((*self.log_probs[row], value) for row, _, value in chosen),
        )

    def add_commas(self, where: BoolArray, log_probs: FloatArray) -> _Rows:
        """Return the sentences with commas behind the last words of some, (R,)."""
        marked = where.tolist()
        pairs = zip(self.commas, marked, strict=True)
        values = zip(self.log_probs, np.where(where, log_probs, 0.0).tolist(), strict=True)
        return replace(
            self,
            commas=tuple((*old[:-1], new) for old, new in pairs),
            log_probs=tuple((*old[:-1], old[-1] + more) for old, more in values),
        )

    def draft(self, row: int, mark: str, end: float, language: Language) -> Draft | None:
        """Return a sentence that ends here; None if it would be read as other words."""
        words = self.words[row]
        after = (*(COMMA * comma for comma in self.commas[row][:-1]), mark)
        before = (language.opening_marks.get(mark, ""), *[""] * (len(words) - 1))
        sentence = Sentence(words, before, after, language)
        if not sentence.round_trips:
            return None
        log_probs = self.log_probs[row]
        return Draft(str(sentence), sum(log_probs) + end, min(log_probs), end)


class SentenceWriter:
    """Samples sentences for a problem.

    Parameters
    ----------
    model
        The writer, a causal model.
    guiding
        c_m and the model, of each compared model; models that do not score prefixes do not guide.
    shared_vocabulary
        The words that may be written, known to all models.
    form
        The form of the sentences.
    options
        The options of sampling.
    guide
        A model that guides in place of models that do not score prefixes.
    """

    def __init__(
        self,
        model: SentenceModel,
        guiding: Sequence[tuple[float, SentenceModel]],
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        options: WritingOptions,
        guide: SentenceModel | None = None,
    ) -> None:
        self.model, self.form, self.options = model, form, options
        self.repeatable = shared_vocabulary.vocabulary.repeatable
        self.language = shared_vocabulary.vocabulary.language
        if not self.language.is_space_delimited:
            raise InputError(
                f"sampled sentences have spaces between words, and "
                f"{self.language.name} has none; use the strategy edit"
            )
        self.lists = shared_vocabulary.lists(form.words)
        substitute = None if guide is None else empty_prefix(guide, self.lists, guide=True)
        shares: dict[Prefixes, float] = {}
        for c, model in guiding:
            if (prefix := empty_prefix(model, self.lists) or substitute) is not None:
                shares[prefix] = shares.get(prefix, 0.0) + c
        self._guiding = [(c, prefix) for prefix, c in shares.items()]
        #: Of the first and of later words, those that the writer would continue.
        self._fragments: tuple[set[int], set[int]] = (set(), set())
        self._masks = {
            position: np.isin(self.lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }

    def write(self, prompt: str, rng: np.random.Generator) -> list[Draft]:
        """Sample sentences after a prompt; only those that end within the lengths are returned."""
        after = empty_prefix_after(self.model, prompt, self.lists)
        here: list[Prefixes] = [after, *(prefix for _, prefix in self._guiding)]
        rows, drafts = _Rows.empty(self.options.batch_size), list[Draft]()
        places = np.zeros(self.options.batch_size, dtype=np.int64)  # all extend one prefix
        for position in range(self.form.longest):
            drawn = self._drawn(here, rows, places, rng)
            if drawn is None:
                break
            chosen, words, log_probs, further = drawn
            listed = here[0].next_words.words
            rows = rows.longer(chosen, [listed[i] for i in words], log_probs)
            others = [beginnings.extend(places[chosen], words) for beginnings in here[1:]]
            here = [further, *others]
            if position + 1 >= self.form.shortest:
                drafts += self._ended(here[0], rows)
            may_follow = self.form.commas is None or position in self.form.commas
            if may_follow and position + 1 < self.form.longest:
                log_probs = here[0].comma_log_probs()
                where = np.ones(len(log_probs), dtype=np.bool_)
                if self.form.commas is None:
                    where = np.log(rng.random(len(log_probs))) < log_probs
                rows = rows.add_commas(where, log_probs)
                here = [beginnings.add_commas(where) for beginnings in here]
            places = np.arange(len(rows.number))
        return drafts

    def _ended(self, here: Prefixes, rows: _Rows) -> list[Draft]:
        """Return the sentences that the writer would end here, each with its likeliest mark."""
        ends = np.array([here.end_log_probs(mark) for mark in self.form.marks])
        best, likely = ends.argmax(axis=0), ends.max(axis=0)
        drafts = (
            rows.draft(row, self.form.marks[best[row]], float(likely[row]), self.language)
            for row in np.flatnonzero(np.exp(likely) >= self.options.min_end_probability).tolist()
        )
        return [draft for draft in drafts if draft is not None]

    def _allowed(self, rows: _Rows, words: WordList) -> BoolArray:
        """Return which words may come next, (R, V): not those that are there, but repeatable."""
        allowed = np.ones((len(rows.words), len(words)), dtype=np.bool_)
        if (mask := self._masks.get(len(rows.words[0]))) is not None:
            allowed &= mask
        for row, written in enumerate(rows.words):
            for folded in {*map(self.language.fold, written)} - self.repeatable:
                allowed[row, words.case_insensitive_index(self.language).get(folded, [])] = False
        return allowed

    def _drawn(
        self,
        here: Sequence[Prefixes],
        rows: _Rows,
        places: IntArray,
        rng: np.random.Generator,
    ) -> tuple[IntArray, IntArray, FloatArray, Prefixes] | None:
        """Draw a next word for each row; None where no row has one.

        Parameters
        ----------
        here, rows, places
            The prefixes under the writer and the guiding models, the rows, and the prefix that
            each row extends.
        rng
            Source of chance.

        Returns
        -------
        rows, words, log_probs
            Which rows have a word, which, and what the writer says of it.
        beginnings
            The rows so far, under the writer.
        """
        allowed = self._allowed(rows, here[0].next_words)[np.unique(places, return_index=True)[1]]
        at, index, log_probs = self._shortlist(here[0], allowed)
        total = np.zeros(len(at))
        for (c, _), prefixes in zip(self._guiding, here[1:], strict=True):
            total += c * prefixes.log_probs(at, index)
        # Guidance rises over the batch: how much of it still reads well depends on the models.
        guidance = self.options.guidance * (rows.number + 1) / self.options.batch_size
        power = 1 / self.options.temperature
        fragments_here = self._fragments[min(len(rows.words[0]), 1)]
        of_row = [np.flatnonzero(at == place) for place in places]
        weights = [
            power * log_probs[o] + factor * total[o]
            for o, factor in zip(of_row, guidance, strict=True)
        ]
        chosen = np.full(len(places), -1, dtype=np.int64)
        while True:
            for row in np.flatnonzero(chosen < 0).tolist():
                allowed = ~np.isin(index[of_row[row]], list(fragments_here))
                if allowed.any():
                    drawn = np.where(allowed, weights[row], -np.inf)
                    noise = rng.gumbel(size=len(drawn))
                    chosen[row] = of_row[row][np.argmax(drawn + noise)]
            there = np.flatnonzero(chosen >= 0)
            if not len(there):
                return None
            picked = chosen[there]
            further = here[0].extend(places[there], index[picked])
            cut = further.word_end_log_probs() < _WHOLE
            fragments = set(index[picked[cut]].tolist()) - fragments_here
            if not fragments:
                return there, index[picked], log_probs[picked], further
            # Words that the writer would continue are excluded from this batch.
            fragments_here |= fragments
            chosen[np.isin(np.where(chosen < 0, -1, index[chosen]), list(fragments))] = -1

    def _shortlist(
        self, here: Prefixes, allowed: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the most probable words of each beginning, and their log-probabilities."""
        upper, exact = here.upper_bounds()
        # Words of several pieces share a first one; each gets its part of it.
        guess = np.where(allowed, upper, -np.inf)
        guess[:, ~exact] -= here.log_group_sizes()[~exact]
        most = min(_MAX_WORDS, guess.shape[1])
        top = np.argpartition(-guess, most - 1, axis=1)[:, :most]
        values = np.take_along_axis(guess, top, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        top, values = np.take_along_axis(top, order, 1), np.take_along_axis(values, order, 1)
        mass = np.exp(values)
        total = np.exp(guess).sum(axis=1, keepdims=True)
        inside = (mass.cumsum(axis=1) - mass < self.options.top_p * total) & np.isfinite(values)
        inside &= mass >= self.options.min_p * mass[:, :1]
        pieced = inside & ~exact[top]
        few = pieced & (pieced.cumsum(axis=1) <= _MAX_LONG) & (mass >= _MIN_LONG * total)
        inside &= ~pieced | few
        rows, places = np.nonzero(inside)
        words, log_probs = top[rows, places], values[rows, places]
        unknown = ~exact[words]
        log_probs[unknown] = here.log_probs(rows[unknown], words[unknown])
        return rows, words, log_probs
