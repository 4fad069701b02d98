"""Coordinate search over the words of one sentence, and the interface of search strategies.

Golan et al. (2023), section 4.6. Positions are visited in random order; at each a word search may
replace the word. The search ends when no position brings an improvement any more, so that a
sentence found by ``edit?candidates=all`` is a local optimum under all single replacements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import compress, islice
from typing import ClassVar

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InfeasibleError
from contstim.files import digest
from contstim.models.base import (
    ReplacementScores,
    SentenceModel,
    check_sentence_language,
    scores_vocabulary,
)
from contstim.models.registry import load_model
from contstim.synthesis.candidates import SLACK, Candidates, ScoreCounter, SharedVocabulary
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem, require_feasible_start, worst_violation
from contstim.synthesis.results import Step
from contstim.text import Sentence, WordList

# Places kept of models whose scores are known at once.
_KEPT = 32
# Words whose exact scores are asked for at a position that must change, those that seem best.
_TRIED = 64


class Strategy(ABC):
    """A search strategy; write your own as a frozen dataclass whose fields are its options.

    Attributes
    ----------
    starts_at_natural
        Whether the search starts from the natural sentence, which must then satisfy the
        constraints.
    supports_edits
        Whether the strategy honours `Edits`.
    is_pooled
        Whether it samples one pool of sentences for a set of natural sentences.

    Examples
    --------
    >>> from contstim import synthesize
    >>> from contstim.synthesis.candidates import propose_in_order
    >>> @dataclass(frozen=True)
    ... class BestOfHundred(Strategy):
    ...     def search_word(self, candidates):
    ...         some = candidates.rng.permutation(candidates.promising())[:100]
    ...         some = candidates.filter_feasible(some)
    ...         propose_in_order(candidates, some, candidates.losses(some))
    ...         return False
    >>> models = {"reject": "contstim:trigram", "accept": "contstim:bigram"}
    >>> found = synthesize("The dog slept.", **models, strategy=BestOfHundred())
    >>> round(found.loss, 1)
    -2.6
    """

    starts_at_natural: ClassVar[bool] = True
    supports_edits: ClassVar[bool] = True
    is_pooled: ClassVar[bool] = False

    def run(self, search: Search) -> bool:
        """Search from the natural sentence, by coordinate search with `search_word`.

        Strategies that learn from one position for the next keep what they learn in an object
        made here, since equal strategies must search alike.

        Returns
        -------
        bool
            False if limits of the strategy excluded candidates that might have brought an
            improvement.
        """
        search.optimize(self.search_word)
        return True

    @property
    def models(self) -> tuple[str, ...]:
        """Specs of models that the strategy uses besides those of the problem."""
        return ()

    @property
    def is_exhaustive(self) -> bool:
        """Whether it ends only where no single replacement improves, whatever the models."""
        return False

    @abstractmethod
    def search_word(self, candidates: Candidates) -> bool:
        """Search for a better word at one position and propose what is found.

        Returns
        -------
        bool
            Whether it ended early and would search further in a later `Candidates.round`.
        """


@lru_cache(maxsize=2)
def load_cached_model(spec: str) -> SentenceModel:
    """Return a model that a strategy uses; the last ones stay loaded for the next sentence."""
    return load_model(spec)


@dataclass(frozen=True, eq=False)
class _Place:
    """What is known of one position as long as the other words stay."""

    words: WordList
    allowed: BoolArray
    tables: dict[str, ReplacementScores]

    @cached_property
    def known(self) -> dict[str, FloatArray]:
        """By model, the exact scores (V,), NaN where they have not been asked for yet."""
        return {
            name: table.estimates if table.is_exact else np.full(len(self.words), np.nan)
            for name, table in self.tables.items()
        }

    def of(self, left: BoolArray) -> _Place:
        """Return the place with some of its words (V,), all scores known."""
        scores = {name: values[left] for name, values in self.known.items()}
        return _Place(
            WordList(tuple(compress(self.words, left))),
            self.allowed[left],
            {name: ReplacementScores.from_exact_scores(v) for name, v in scores.items()},
        )


@dataclass(eq=False)
class Search:
    """One sentence on its way from the natural one.

    Attributes
    ----------
    problem
        What is wanted.
    shared_vocabulary
        The words that may stand at each position.
    sentence
        The natural sentence; then the sentence as it is. What must change has changed before
        anything is searched.
    start
        The natural sentence.
    seed, attempt
        Order the sweeps and the strategy's chance; another attempt searches in another order.
    at_natural
        Whether the natural sentence must keep the constraints.
    natural, now
        By model, the scores of the natural sentence and of the sentence as it is, nats.
    minimum
        By constrained model, the least score, nats.
    steps
        The replacements kept so far.
    counter
        Exact scores asked for so far.
    """

    problem: Problem
    shared_vocabulary: SharedVocabulary
    sentence: Sentence
    seed: int
    attempt: int = 0
    at_natural: bool = True
    steps: list[Step] = field(default_factory=list, init=False)
    counter: ScoreCounter = field(init=False)

    def __post_init__(self) -> None:
        self._models = self.problem.models_by_name
        self.counter = ScoreCounter(dict.fromkeys(self._models, 0))
        self.start = self.sentence
        self.positions = self._positions()
        self.required = self.problem.edits.required(self.start)
        for model in self._models.values():
            check_sentence_language(model, self.start.language, [str(self.start)])
        self.natural = self.now = self.scores(self.sentence)
        self.minimum = self.problem.min_scores(self.natural)
        self._places: dict[tuple[int, Sentence], dict[str, _Place]] = {}
        self._n_sweeps = 0
        # Chance depends on the task alone, so a task gives the same result in any order of tasks.
        key = "\n".join([str(self.sentence), *self._models])
        entropy = np.frombuffer(bytes.fromhex(digest(key))[:16], dtype=np.uint32)
        self._rng = np.random.default_rng([self.seed, self.attempt, *map(int, entropy)])
        if self.at_natural:
            require_feasible_start(self.start, self.problem.contrast.constraints, self.natural)
        if self.required:
            self._apply_required_edits()

    def scores(self, sentence: Sentence) -> dict[str, float]:
        """Score a sentence by every model, nats."""
        text = [str(sentence)]
        return {name: float(model.score(text)[0]) for name, model in self._models.items()}

    def loss(self, scores: dict[str, float]) -> float:
        """Return the loss of a sentence with these scores."""
        return self.problem.contrast.sentence_loss(scores, self.natural)

    def optimize(self, search_word: Callable[[Candidates], bool], *, sifted: bool = False) -> None:
        """Visit positions in random sweeps until a word search brings nothing at any of them.

        Word searches that would search further (`Strategy.search_word`) are called again then.

        Parameters
        ----------
        search_word
            The word search.
        sifted
            Whether to leave out, before other models are asked anything, the candidates that
            models rule out whose scores are known at once.
        """
        positions = self.positions
        # Positions that brought nothing since the last replacement; all of them, and it is over,
        # unless some word searches would look further.
        settled: set[int] = set()
        unfinished: set[int] = set()
        round_ = 0
        while len(settled) < len(positions):
            self._n_sweeps += 1
            for position in map(int, self._rng.permutation(positions)):
                if position in settled:
                    continue
                n_steps = len(self.steps)
                more = False
                for base in self._bases(position):
                    if sifted and not self._left(position, base).any():
                        continue
                    more |= search_word(self.candidates(position, round_, base, sifted=sifted))
                    if len(self.steps) > n_steps:
                        break
                if len(self.steps) > n_steps:
                    settled, unfinished, round_ = set(), set(), 0
                    continue
                settled.add(position)
                if more:
                    unfinished.add(position)
            if len(settled) == len(positions) and unfinished:
                settled -= unfinished
                unfinished = set()
                round_ += 1

    def words(self, position: int) -> WordList:
        """Return the words that may stand at `position` as far as the other words allow."""
        listed = self.shared_vocabulary.listed(self.start, self.problem.edits).get(position)
        words = self.shared_vocabulary.words(self.start, position, listed)
        if self.problem.edits.same_tokens:
            return self.shared_vocabulary.with_same_tokens(self.start, position, words)
        return words

    def candidates(
        self,
        position: int,
        round_: int = 0,
        base: Sentence | None = None,
        *,
        sifted: bool = False,
    ) -> Candidates:
        """Return the words that may stand at `position` of the sentence as it is, or of `base`.

        `sifted` leaves out those that models rule out whose scores are known at once, where the
        problem has others.
        """
        sentence = self.sentence if base is None else base
        place = self._place(position, sentence, sifted)
        return Candidates(
            contrast=self.problem.contrast,
            minimum=self.minimum,
            natural=self.natural,
            now=self.now if sentence == self.sentence else self.scores(sentence),
            tables=place.tables,
            known=place.known,
            allowed=place.allowed,
            rng=self.chance(),
            verify=lambda index: self.take(sentence.replace(position, place.words.words[index])),
            counter=self.counter,
            present=place.words.index.get(sentence.words[position]),
            round=round_,
            sentence=sentence,
            words=place.words,
            beat=self.now,
        )

    def may(self, sentence: Sentence) -> bool:
        """Return whether words may be replaced as in `sentence`, whatever its scores."""
        return self.shared_vocabulary.may(self.start, sentence, self.problem.edits)

    def take(self, changed: Sentence) -> bool:
        """Go on from another sentence; say whether that was done.

        It is if its words may stand there and if, on scores computed again, the constraints are
        kept and the loss falls.
        """
        if not self.may(changed):
            return False
        text, scores = [str(changed)], dict[str, float]()
        # What costs little first.
        by_cost = sorted(self._models.items(), key=lambda item: not scores_vocabulary(item[1]))
        for name, model in by_cost:
            scores[name] = float(model.score(text)[0])
            if scores[name] < self.minimum.get(name, -np.inf):
                return False
        scores = {name: scores[name] for name in self._models}
        if not self.loss(scores) < self.loss(self.now):
            return False
        self._go(changed, scores)
        return True

    def chance(self) -> np.random.Generator:
        """Return a source of chance of its own."""
        return self._rng.spawn(1)[0]

    def _go(self, changed: Sentence, scores: dict[str, float]) -> None:
        n_scores, values = tuple(self.counter.n_scores.values()), tuple(scores.values())
        for p in sorted(Edits.differences(self.sentence, changed)):
            old, new = self.sentence.words[p], changed.words[p]
            self.steps.append(Step(self._n_sweeps, p, old, new, values, n_scores))
        self.sentence, self.now = changed, scores
        # What is known of a position holds as long as the other words stay.
        live = {_without(b, p) for p in self.positions for b in self._bases(p)}
        self._places = {key: place for key, place in self._places.items() if key in live}

    def _bases(self, position: int) -> list[Sentence]:
        """Return the sentences in which the word at `position` may be replaced.

        The sentence as it is; or, where as many words differ from the natural sentence's as may,
        and that at `position` does not, the sentence with one of them taken back.
        """
        edits = self.problem.edits
        changed = Edits.differences(self.start, self.sentence)
        if edits.max_changes is None or len(changed) < edits.max_changes or position in changed:
            return [self.sentence]
        back = [p for p in sorted(changed) if p not in self.required]
        bases = [self.sentence.replace(p, self.start.words[p]) for p in back]
        return [base for base in bases if self.may(base)]

    def _positions(self) -> list[int]:
        """Return the positions whose words may change; refuse edits that cannot be met."""
        edits, natural = self.problem.edits, self.start
        edits.check(natural)
        words, required = self.shared_vocabulary.positions(natural), edits.required(natural)
        for p in required:
            if p not in words:
                raise InfeasibleError(
                    f"position {p} is to be changed, but {natural.words[p]!r} of {str(natural)!r} "
                    "is not a word; choose another position"
                )
        if edits.max_changes is not None and edits.max_changes < len(required):
            raise InfeasibleError(
                f"at most {edits.max_changes} words of {str(natural)!r} may change, but "
                f"{len(required)} must: {', '.join(natural.words[p] for p in required)}; allow "
                "more changes"
            )
        listed = self.shared_vocabulary.listed(natural, edits)
        positions = [p for p in words if p not in edits.fixed and listed.get(p) != ()]
        if not positions and (edits.fixed or edits.same_kind):
            raise InfeasibleError(
                f"the edits let no word of {str(natural)!r} change; let one change"
            )
        return positions

    def _apply_required_edits(self) -> None:
        """Change the words that must change, and others if needed to satisfy the constraints.

        One position at a time gets the word that leaves most slack above the most violated
        constraint, until all are satisfied.

        Raises
        ------
        InfeasibleError
            If no single replacement brings the sentence closer.
        """
        sentence, room = self.start, -np.inf
        for k, p in enumerate(self.required):
            sentence, room = self._roomiest(sentence, p, -np.inf, self.required[k + 1 :])
        settled = False
        while room < 0 and not settled:
            settled = True
            for p in self.positions:
                another, more = self._roomiest(sentence, p, room)
                if more > room:
                    sentence, room, settled = another, more, False
        scores = self.scores(sentence)
        violated, missing = worst_violation(self.problem.contrast.constraints, self.natural, scores)
        if violated is not None:
            raise InfeasibleError(
                f"no sentence was found that makes the required edits of {str(self.start)!r} and "
                f"satisfies {violated}: {str(sentence)!r} misses it by {missing:.4g}; lower the "
                "bound, or let more words change"
            )
        self._go(sentence, scores)

    def _roomiest(
        self, sentence: Sentence, position: int, room: float, later: tuple[int, ...] = ()
    ) -> tuple[Sentence, float]:
        """Return a sentence with another word at a position, and its room above the constraints.

        Of the words that seem to leave most room, that which does; if more than `room`. The
        positions to change `later` have their old words yet.
        """
        edits = self.problem.edits
        others = Edits.differences(self.start, sentence) | {*self.required}
        if edits.max_changes is not None and len(others | {position}) > edits.max_changes:
            return sentence, room
        candidates = self.candidates(position, 0, sentence)
        mask = candidates.allowed.copy()
        natural = candidates.words.index.get(self.start.words[position])
        if natural is not None and position in self.required:
            mask[natural] = False
        index = np.flatnonzero(mask)
        rooms = np.full(len(index), np.inf)
        for name, minimum in self.minimum.items():
            rooms = np.minimum(rooms, candidates.tables[name].estimates[index] - minimum)
        fitting = (
            i
            for i in index[np.argsort(-rooms, kind="stable")].tolist()
            if self._fits(sentence.replace(position, candidates.words.words[i]), position, later)
        )
        index = np.array([*islice(fitting, _TRIED)], dtype=np.int64)
        if not len(index):
            if position not in self.required:
                return sentence, room
            raise InfeasibleError(
                f"position {position} of {str(self.start)!r} is to be changed, but no other word "
                "may stand there; allow more words"
            )
        rooms = np.full(len(index), np.inf)
        for name, minimum in self.minimum.items():
            rooms = np.minimum(rooms, candidates.scores(name, index) - minimum)
        best = int(rooms.argmax())
        if not rooms[best] > room:
            return sentence, room
        word = candidates.words.words[index[best]]
        return sentence.replace(position, word), float(rooms[best])

    def _fits(self, sentence: Sentence, position: int, later: tuple[int, ...]) -> bool:
        """Return whether the word at a position may stand there, as far as its neighbours stay."""
        if not later:
            return self.may(sentence)
        first = max((p + 1 for p in later if p < position), default=0)
        end = min((p for p in later if p > position), default=len(sentence))
        words, before, after = (
            part[first:end] for part in (sentence.words, sentence.before, sentence.after)
        )
        around = Sentence(words, before, after, sentence.language)
        apart = {*around.agreement_errors} - {*self.start.agreement_errors}
        return around.round_trips and not (self.problem.edits.agreement and apart)

    def _place(self, position: int, sentence: Sentence, sifted: bool) -> _Place:
        """Return what is known of a position, computing estimates and bounds if they are not."""
        at_once = self._known(position, sentence)
        if len(at_once.tables) == len(self._models):
            return at_once
        # The loss only falls, so that what was left out once stays out.
        by_kind = self._places[_without(sentence, position)]
        kind = "sifted" if sifted and at_once.tables else "whole"
        if kind not in by_kind:
            place = at_once
            if kind == "sifted":
                left = self._left(position, sentence)
                present = at_once.words.index.get(sentence.words[position])
                if present is not None:
                    left[present] = True
                # What models keep of whole lists is worth more than a few words less.
                place = at_once.of(left) if 2 * left.sum() < len(left) else at_once
            tables = {
                name: place.tables.get(name)
                or model.score_replacements(sentence, position, place.words)
                for name, model in self._models.items()
            }
            by_kind[kind] = replace(place, tables=tables)
        return by_kind[kind]

    def _known(self, position: int, sentence: Sentence) -> _Place:
        """Return what is known of a position at once, by the models that know it so."""
        key = _without(sentence, position)
        by_kind = self._places.get(key, {})
        if "at once" not in by_kind:
            words = self.words(position)
            allowed = self.shared_vocabulary.allowed(sentence, position, words)
            tables = {
                name: model.score_replacements(sentence, position, words)
                for name, model in self._models.items()
                if scores_vocabulary(model)
            }
            by_kind["at once"] = _Place(words, allowed, tables)
            # What is known at once is known again at once.
            if len(tables) < len(self._models) or len(self._places) < _KEPT:
                self._places[key] = by_kind
        return by_kind["at once"]

    def _left(self, position: int, sentence: Sentence) -> BoolArray:
        """Return which words may improve the sentence for all that is known at once, (V,)."""
        place = self._known(position, sentence)
        left = place.allowed.copy()
        if sentence == self.sentence and sentence.words[position] in place.words:
            left[place.words.index[sentence.words[position]]] = False
        for name, minimum in self.minimum.items():
            if name in place.tables:
                left &= place.known[name] >= minimum - SLACK
        if all(name in place.tables for name in self.problem.contrast.reject):
            losses = self.problem.contrast.loss(place.known, self.natural)
            left &= losses < self.loss(self.now) + SLACK
        return left


def _without(sentence: Sentence, position: int) -> tuple[int, Sentence]:
    """Return a position and what stands around it."""
    return position, sentence.replace(position, "")
