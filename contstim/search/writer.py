"""Sentences written from the left by a language model, tilted towards what a problem wants.

The next word w after the beginning b is drawn with probability proportional to

    q(w | b)^power exp(tilt sum_m c_m log p_m(w | b)),

q being the writer's distribution after a prompt of natural sentences, cut to its most probable
share; c_m is above 0 for models that are to accept the sentence and below 0 for those that are to
reject it. A sentence ends only where the writer would end it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.beginnings import COMMA, Beginnings
from contstim.search.candidates import WordReplacement
from contstim.search.problem import Problem
from contstim.settings import Count, one_of, option, settings
from contstim.text import Sentence, WordList, is_closing, length_range

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
        Whether commas may stand in them.
    words
        By position, from 0, the words that may stand there in place of the vocabulary's; one word
        alone is fixed.
    """

    shortest: int
    longest: int
    marks: tuple[str, ...] = (".",)
    commas: bool = False
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@settings
class Writing:
    """How sentences are written.

    Attributes
    ----------
    writer
        The spec of the model that writes: a causal one.
    power
        What the writer's probabilities are raised to.
    share
        The most probable share of the words that is drawn from.
    tilt
        By what the models' log-probabilities are multiplied.
    ends
        The writer's least probability of the mark that ends a sentence.
    lengths
        Numbers of words, ``7-9``; None: from a word less to a word more than in the natural ones.
    marks
        The marks that may end sentences, each one character.
    commas
        ``yes`` or ``no``: whether commas may stand in sentences.
    rows
        Sentences that are begun together, after one prompt.
    prompt
        Natural sentences of the prompt.
    """

    writer: str = option("contstim:smollm2", "the model that writes", "SPEC")
    power: Annotated[float, Field(ge=0, le=100)] = option(
        1.8, "what the writer's probabilities are raised to", "NUMBER"
    )
    share: Annotated[float, Field(gt=0, le=1)] = option(
        0.95, "the most probable share of words that is drawn from", "SHARE"
    )
    tilt: Annotated[float, Field(ge=0, le=1000)] = option(
        4.5, "by what the models' log-probabilities are multiplied", "NUMBER"
    )
    ends: Annotated[float, Field(ge=0, le=1)] = option(
        0.45, "the writer's least probability of the mark that ends a sentence", "PROBABILITY"
    )
    lengths: str | None = option(
        None, "numbers of words, such as 7-9 (default: a word less to a word more than in the "
        "natural sentences)", "N-M"
    )
    marks: str = option(".", "the marks that may end sentences, such as .?!", "MARKS")
    commas: Annotated[str, one_of(("no", "yes"))] = option(
        "no", "whether commas may stand in sentences: no or yes", "YES"
    )
    rows: Count = option(32, "sentences that are begun together, after one prompt", "N")
    prompt: Count = option(8, "natural sentences of the prompt", "N")

    def __post_init__(self) -> None:
        if self.lengths is not None:
            length_range(self.lengths)
        if not is_closing(self.marks):
            raise InputError(f"marks={self.marks!r} holds what ends no sentence; give .?! or one")

    def form(self, natural: Iterable[str]) -> Form:
        """Return what sentences look like that are written beside natural ones."""
        if self.lengths is not None:
            shortest, longest = length_range(self.lengths)
        else:
            words = [len(sentence.split()) for sentence in natural]
            shortest, longest = max(2, min(words) - 1), max(words) + 1
        return Form(shortest, longest, tuple(self.marks), self.commas == "yes")


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


@dataclass(eq=False)
class _Rows:
    """The sentences that are being written, R of them, so far."""

    words: list[tuple[str, ...]]
    commas: list[tuple[bool, ...]]
    log_probs: list[tuple[float, ...]]

    def chosen(self, rows: IntArray) -> _Rows:
        return _Rows(*([values[i] for i in rows] for values in vars(self).values()))


class Writer:
    """Writes sentences for a problem.

    Parameters
    ----------
    model
        The writer, a causal model.
    tilting
        By model, c_m and the model; those that know nothing of the next word do not tilt.
    proposal
        The words that may be written, known to all models.
    form
        What the sentences look like.
    how
        How they are written.
    """

    def __init__(
        self,
        model: SentenceModel,
        tilting: Sequence[tuple[float, SentenceModel]],
        proposal: WordReplacement,
        form: Form,
        how: Writing,
    ) -> None:
        self.model, self.form, self.how = model, form, how
        self.repeatable = proposal.vocabulary.repeatable
        place = Sentence(("", ""), ("", ""), ("", ""))
        self.lists = (proposal.words(place, 0), proposal.words(place, 1))
        self._tilting = [
            (c, begun) for c, model in tilting if (begun := model.beginnings(*self.lists))
        ]
        self._masks = {
            position: np.isin(self.lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }

    def write(self, prompt: str, rng: np.random.Generator) -> list[Draft]:
        """Write sentences after a prompt; how many end within the lengths is left to chance."""
        after = self.model.after(prompt).beginnings(*self.lists)
        here: list[Beginnings] = [after, *(begun for _, begun in self._tilting)]
        rows = _Rows([()], [()], [()])
        finished: list[Draft] = []
        for position in range(self.form.longest):
            if position and self.form.commas:
                here, rows = self._with_commas(here, rows, rng)
            n = self.how.rows if position == 0 else 1
            at, words, log_probs = self._drawn(here, rows, n, rng)
            if not len(at):
                break
            rows = rows.chosen(at)
            listed = here[0].words.words
            rows.words = [(*old, listed[i]) for old, i in zip(rows.words, words, strict=True)]
            rows.commas = [(*old, False) for old in rows.commas]
            rows.log_probs = [
                (*old, float(new)) for old, new in zip(rows.log_probs, log_probs, strict=True)
            ]
            here = [beginnings.followed_by(at, words) for beginnings in here]
            whole = here[0].word_ends() >= _WHOLE
            if position + 1 >= self.form.shortest:
                finished += self._ended(here[0], rows, whole)
            self._alive = whole
        return finished

    def _ended(self, here: Beginnings, rows: _Rows, whole: BoolArray) -> list[Draft]:
        """Return the sentences that the writer would end here."""
        ends = {mark: here.ends(mark) for mark in self.form.marks}
        finished = []
        for i in np.flatnonzero(whole):
            mark = max(ends, key=lambda mark: ends[mark][i])
            end = float(ends[mark][i])
            if end >= np.log(self.how.ends):
                words, commas = rows.words[i], rows.commas[i]
                after = (*(COMMA * c for c in commas[:-1]), mark)
                sentence = Sentence(words, ("",) * len(words), after)
                worst = min(rows.log_probs[i])
                total = sum(rows.log_probs[i]) + end
                finished.append(Draft(str(sentence), total, worst, end))
        return finished

    def _allowed(self, rows: _Rows, words: WordList, position: int) -> BoolArray:
        """Return which words may come next, (R, V): not those that are there, but repeatable."""
        allowed = np.ones((len(rows.words), len(words)), dtype=np.bool_)
        if position in self._masks:
            allowed &= self._masks[position]
        for row, written in enumerate(rows.words):
            for word in written:
                folded = word.casefold()
                if folded not in self.repeatable:
                    allowed[row, words.folded.get(folded, [])] = False
        return allowed

    def _drawn(
        self, here: Sequence[Beginnings], rows: _Rows, n: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Draw `n` next words for each row: rows, words, and the writer's log-probabilities."""
        position = len(rows.words[0])
        allowed = self._allowed(rows, here[0].words, position)
        if position:
            allowed &= self._alive[:, None]
        at, words, log_probs = self._shortlist(here[0], allowed)
        total = self.how.power * log_probs
        for (c, _), beginnings in zip(self._tilting, here[1:], strict=True):
            total = total + self.how.tilt * c * beginnings.log_probs(at, words)
        chosen = []
        for row in np.unique(at):
            of_row = np.flatnonzero(at == row)
            weights = np.exp(total[of_row] - total[of_row].max())
            drawn = rng.choice(of_row, size=n, p=weights / weights.sum())
            chosen.extend(drawn.tolist())
        return at[chosen], words[chosen], log_probs[chosen]

    def _shortlist(
        self, here: Beginnings, allowed: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the most probable words of each row, and their log-probabilities."""
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
        pieced = inside & ~exact[top]
        few = pieced & (pieced.cumsum(axis=1) <= _MOST_PIECED) & (mass >= _LEAST_PIECED * total)
        inside &= ~pieced | few
        rows, places = np.nonzero(inside)
        words, log_probs = top[rows, places], values[rows, places]
        unknown = ~exact[words]
        log_probs[unknown] = here.log_probs(rows[unknown], words[unknown])
        return rows, words, log_probs

    def _with_commas(
        self, here: list[Beginnings], rows: _Rows, rng: np.random.Generator
    ) -> tuple[list[Beginnings], _Rows]:
        """Put a comma behind some rows, as probably as the writer would."""
        chance = here[0].commas()
        where = (np.log(rng.random(len(chance))) < chance) & self._alive
        rows.commas = [(*c[:-1], bool(w)) for c, w in zip(rows.commas, where, strict=True)]
        rows.log_probs = [
            (*p[:-1], p[-1] + float(lp) * bool(w))
            for p, lp, w in zip(rows.log_probs, chance, where, strict=True)
        ]
        return [beginnings.with_commas(where) for beginnings in here], rows
