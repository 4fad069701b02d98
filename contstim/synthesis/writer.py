"""Sentences written from the left by a language model, tilted towards what a problem wants.

The next word w after the beginning b is drawn with probability proportional to

    q(w | b)^power exp(tilt sum_m c_m log p_m(w | b)),

q being the writer's distribution after a prompt of natural sentences, cut to its most probable
share; c_m is above 0 for models that are to accept the sentence and below 0 for those that are to
reject it. A sentence ends only where the writer would end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.beginnings import COMMA, Beginnings
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.options import FluentOptions
from contstim.synthesis.problem import Problem
from contstim.text import Sentence, WordList
from contstim.text.language import Language

# Words that are looked at after a beginning, at most, and of several pieces; and how probable
# those must be.
_MOST, _MOST_PIECED, _LEAST_PIECED = 400, 4, 4e-3
# A word that the writer would go on spelling with at least this probability is a fragment.
_WHOLE = np.log(0.5)


@dataclass(frozen=True)
class Form:
    """What written sentences look like.

    Attributes
    ----------
    shortest, longest
        Their numbers of words.
    marks
        The marks that may end them.
    commas
        By position, from 0, the words that commas follow; None: those after which the writer would
        have one.
    words
        By position, from 0, the words that may stand there in place of the vocabulary's; one word
        alone is fixed.
    """

    shortest: int
    longest: int
    marks: tuple[str, ...] = (".",)
    commas: tuple[int, ...] | None = ()
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A sentence as it was written.

    Attributes
    ----------
    sentence
        The sentence.
    log_prob
        Of its words and its mark under the writer, after the prompt, nats.
    worst
        Of its least probable word.
    end
        Of the mark.
    """

    sentence: str
    log_prob: float
    worst: float
    end: float


def tilts(problem: Problem) -> dict[str, float]:
    """Return c_m by model: what the problem wants of each model's log-probability.

    The rejecting models' are the objective's weights, averaged over its parts; the accepting
    models' are alike and add up to as much, so that a word of like change under all changes
    nothing. Floors filter, and tilt nothing.

    Raises
    ------
    InputError
        If the objective is no sum, nor the greatest of sums, of scores.
    """
    parts = problem.objective.parts
    if parts is None:
        raise InputError(f"{problem.objective} has no weights to write by; choose another loss")
    rejecting: dict[str, float] = {}
    for part in parts:
        for name, weight in part.items():
            rejecting[name] = rejecting.get(name, 0.0) - weight / len(parts)
    total = -sum(rejecting.values())
    accepting = [name for name in problem.accepting if name not in rejecting]
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
        Which of all that were begun, (R,).
    words, commas, log_probs
        Of each the words so far, whether a comma follows each, and what the writer says of each.
    """

    number: IntArray
    words: tuple[tuple[str, ...], ...]
    commas: tuple[tuple[bool, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]

    @classmethod
    def begun(cls, n: int) -> _Rows:
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

    def with_commas(self, where: BoolArray, log_probs: FloatArray) -> _Rows:
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
        before = (language.opened.get(mark, ""), *[""] * (len(words) - 1))
        sentence = Sentence(words, before, after, language)
        if not sentence.reads_back:
            return None
        log_probs = self.log_probs[row]
        return Draft(str(sentence), sum(log_probs) + end, min(log_probs), end)


class SentenceWriter:
    """Writes sentences for a problem.

    Parameters
    ----------
    model
        The writer, a causal model.
    tilting
        By model, c_m and the model; those that do not score from left to right do not tilt.
    proposal
        The words that may be written, known to all models.
    form
        What the sentences look like.
    how
        How they are written.
    guide
        What tilts in place of models that do not score from left to right.
    """

    def __init__(
        self,
        model: SentenceModel,
        tilting: Sequence[tuple[float, SentenceModel]],
        proposal: WordReplacement,
        form: Form,
        how: FluentOptions,
        guide: SentenceModel | None = None,
    ) -> None:
        self.model, self.form, self.how = model, form, how
        self.repeatable = proposal.vocabulary.repeatable
        self.language = proposal.vocabulary.language
        if not self.language.plain:
            raise InputError(
                f"what writes sentences from the left puts spaces between words, as "
                f"{self.language.name} does not; choose the strategy beam, bounded or exhaustive"
            )
        self.lists = proposal.lists(form.words)
        stand_in = None if guide is None else guide.guide(*self.lists)
        shares: dict[Beginnings, float] = {}
        for c, model in tilting:
            if (begun := model.beginnings(*self.lists) or stand_in) is not None:
                shares[begun] = shares.get(begun, 0.0) + c
        self._tilting = [(c, begun) for begun, c in shares.items()]
        #: Of the first and of later words, those that the writer would go on spelling.
        self._fragments: tuple[set[int], set[int]] = (set(), set())
        self._masks = {
            position: np.isin(self.lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }

    def write(self, prompt: str, rng: np.random.Generator) -> list[Draft]:
        """Write sentences after a prompt; how many end within the lengths is left to chance."""
        after = self.model.after(prompt).beginnings(*self.lists)
        assert after is not None  # something stands before the first word
        here: list[Beginnings] = [after, *(begun for _, begun in self._tilting)]
        rows, drafts = _Rows.begun(self.how.rows), list[Draft]()
        places = np.zeros(self.how.rows, dtype=np.int64)  # all rows go on from one beginning
        for position in range(self.form.longest):
            drawn = self._drawn(here, rows, places, rng)
            if drawn is None:
                break
            chosen, words, log_probs, further = drawn
            listed = here[0].words.words
            rows = rows.longer(chosen, [listed[i] for i in words], log_probs)
            others = [beginnings.followed_by(places[chosen], words) for beginnings in here[1:]]
            here = [further, *others]
            if position + 1 >= self.form.shortest:
                drafts += self._ended(here[0], rows)
            may_follow = self.form.commas is None or position in self.form.commas
            if may_follow and position + 1 < self.form.longest:
                log_probs = here[0].commas()
                where = np.ones(len(log_probs), dtype=np.bool_)
                if self.form.commas is None:
                    where = np.log(rng.random(len(log_probs))) < log_probs
                rows = rows.with_commas(where, log_probs)
                here = [beginnings.with_commas(where) for beginnings in here]
            places = np.arange(len(rows.number))
        return drafts

    def _ended(self, here: Beginnings, rows: _Rows) -> list[Draft]:
        """Return the sentences that the writer would end here, each with its likeliest mark."""
        ends = np.array([here.ends(mark) for mark in self.form.marks])
        best, likely = ends.argmax(axis=0), ends.max(axis=0)
        drafts = (
            rows.draft(row, self.form.marks[best[row]], float(likely[row]), self.language)
            for row in np.flatnonzero(np.exp(likely) >= self.how.ends).tolist()
        )
        return [draft for draft in drafts if draft is not None]

    def _allowed(self, rows: _Rows, words: WordList) -> BoolArray:
        """Return which words may come next, (R, V): not those that are there, but repeatable."""
        allowed = np.ones((len(rows.words), len(words)), dtype=np.bool_)
        if (mask := self._masks.get(len(rows.words[0]))) is not None:
            allowed &= mask
        for row, written in enumerate(rows.words):
            for folded in {*map(self.language.fold, written)} - self.repeatable:
                allowed[row, words.folded(self.language).get(folded, [])] = False
        return allowed

    def _drawn(
        self,
        here: Sequence[Beginnings],
        rows: _Rows,
        places: IntArray,
        rng: np.random.Generator,
    ) -> tuple[IntArray, IntArray, FloatArray, Beginnings] | None:
        """Draw a next word for each row; None where no row has one.

        Parameters
        ----------
        here, rows, places
            The beginnings under the writer and the tilting models, the rows, and which beginning
            each of them goes on from.
        rng
            Source of chance.

        Returns
        -------
        rows, words, log_probs
            Which rows have a word, which, and what the writer says of it.
        beginnings
            The rows so far, under the writer.
        """
        allowed = self._allowed(rows, here[0].words)[np.unique(places, return_index=True)[1]]
        at, index, log_probs = self._shortlist(here[0], allowed)
        total = np.zeros(len(at))
        for (c, _), tilting in zip(self._tilting, here[1:], strict=True):
            total += c * tilting.log_probs(at, index)
        # Rows are tilted from a little to wholly: how much still reads well depends on the models.
        tilts = self.how.tilt * (rows.number + 1) / self.how.rows
        fragments_here = self._fragments[min(len(rows.words[0]), 1)]
        of_row = [np.flatnonzero(at == place) for place in places]
        weights = [
            self.how.power * log_probs[o] + tilt * total[o]
            for o, tilt in zip(of_row, tilts, strict=True)
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
            further = here[0].followed_by(places[there], index[picked])
            cut = further.word_ends() < _WHOLE
            fragments = set(index[picked[cut]].tolist()) - fragments_here
            if not fragments:
                return there, index[picked], log_probs[picked], further
            # Words that the writer would go on spelling are written nowhere in this batch.
            fragments_here |= fragments
            chosen[np.isin(np.where(chosen < 0, -1, index[chosen]), list(fragments))] = -1

    def _shortlist(
        self, here: Beginnings, allowed: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the most probable words of each beginning, and their log-probabilities."""
        upper, exact = here.upper()
        # Words of several pieces share a first one; each gets its part of it.
        guess = np.where(allowed, upper, -np.inf)
        guess[:, ~exact] -= here.crowd()[~exact]
        most = min(_MOST, guess.shape[1])
        top = np.argpartition(-guess, most - 1, axis=1)[:, :most]
        values = np.take_along_axis(guess, top, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        top, values = np.take_along_axis(top, order, 1), np.take_along_axis(values, order, 1)
        mass = np.exp(values)
        total = np.exp(guess).sum(axis=1, keepdims=True)
        inside = (mass.cumsum(axis=1) - mass < self.how.share * total) & np.isfinite(values)
        inside &= mass >= self.how.least * mass[:, :1]
        pieced = inside & ~exact[top]
        few = pieced & (pieced.cumsum(axis=1) <= _MOST_PIECED) & (mass >= _LEAST_PIECED * total)
        inside &= ~pieced | few
        rows, places = np.nonzero(inside)
        words, log_probs = top[rows, places], values[rows, places]
        unknown = ~exact[words]
        log_probs[unknown] = here.log_probs(rows[unknown], words[unknown])
        return rows, words, log_probs
