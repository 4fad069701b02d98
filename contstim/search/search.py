"""The search: one sentence, one rejecting and one accepting model, word by word.

Golan et al. (2023), section 4.6. Positions are visited in random sweeps; at each the strategy may
replace the word; the search ends when no position brings an improvement any more, so that a
sentence written by the exhaustive strategy is a local optimum under all single replacements.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.models.base import Replacements, SentenceModel
from contstim.search.board import ROLES, Ask, Board, Memory, Role, Strategy
from contstim.search.likelihood import likelihood, likelihood_by_name
from contstim.search.objective import Constraint, Objective
from contstim.search.proposals import WordReplacement
from contstim.search.strategies import strategy
from contstim.text.bundled import bundled_vocabulary
from contstim.text.sentence import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

__all__ = ["Search", "Step", "Synthesis", "synthesize"]


@dataclass(frozen=True)
class Step:
    """One replacement that was kept, and the sentence's scores after it, nats.

    `n_scores` counts the exact scores asked for so far, as `Synthesis.n_scores` does.
    """

    sweep: int
    position: int
    old: str
    new: str
    reject_log_prob: float
    accept_log_prob: float
    n_scores: tuple[int, int]


@dataclass(frozen=True)
class Synthesis:
    """A synthetic sentence and how it came about; all scores computed afresh, in nats.

    Attributes
    ----------
    natural, sentence
        The start and the result.
    natural_reject_log_prob, natural_accept_log_prob
        log p_reject(n) and log p_accept(n).
    reject_log_prob, accept_log_prob
        log p_reject(s) and log p_accept(s).
    steps
        Every replacement kept, in order.
    n_scores
        Exact scores of candidates asked of the rejecting and of the accepting model where its
        scores are not known at once; each sentence counts once. (Besides, the natural sentence
        and each sentence that is kept are scored afresh.)
    reject, accept
        The models' specs.
    strategy, seed, attempt
        How it was searched.
    finished
        False if the strategy's inputs did not suffice to look at all candidates that might have
        brought an improvement.
    """

    natural: str
    sentence: str
    natural_reject_log_prob: float
    natural_accept_log_prob: float
    reject_log_prob: float
    accept_log_prob: float
    steps: tuple[Step, ...]
    n_scores: tuple[int, int]
    reject: str
    accept: str
    strategy: str
    seed: int
    attempt: int
    finished: bool = True

    @property
    def loss(self) -> float:
        """The fall log p_reject(s) - log p_reject(n), nats; 0 if nothing was found."""
        return self.reject_log_prob - self.natural_reject_log_prob

    @property
    def changed(self) -> bool:
        """Whether any word was replaced."""
        return self.sentence != self.natural


@dataclass(frozen=True, eq=False)
class _Place:
    """What is known of one position as long as the other words stay."""

    words: WordList
    allowed: BoolArray
    tables: dict[Role, Replacements]
    known: dict[Role, dict[int, float]] = field(default_factory=lambda: {r: {} for r in ROLES})


@dataclass
class Search:
    """Runs word searches over the positions of one sentence.

    Attributes
    ----------
    reject, accept
        The two models.
    proposal
        The candidates at each position.
    strategy
        The word search.
    seed, attempt
        Order the sweeps and the strategy's chance; another attempt searches in another order.
    n_scores
        Exact scores asked of the rejecting and the accepting model so far.
    steps
        The replacements kept so far.
    """

    reject: SentenceModel
    accept: SentenceModel
    proposal: WordReplacement
    strategy: Strategy
    seed: int
    attempt: int = 0
    n_scores: tuple[int, int] = field(default=(0, 0), init=False)
    steps: list[Step] = field(default_factory=list, init=False)
    _memory: Memory = field(default_factory=Memory, init=False)
    _places: dict[int, _Place] = field(default_factory=dict, init=False)

    def run(self, text: str) -> tuple[Sentence, Constraint, Objective, FloatArray]:
        """Search from `text`.

        Returns
        -------
        tuple
            The sentence found, the constraint and objective, and the final scores (2,) under
            the rejecting and the accepting model.
        """
        rng = np.random.default_rng([self.seed, self.attempt, *self._entropy(text)])
        sentence = Sentence.parse(text)
        positions = self.proposal.positions(sentence)
        scores = self._fresh(sentence)
        objective = Objective(float(scores[0]))
        constraint = Constraint(float(scores[1]), self.accept.resolution)
        # Positions that brought nothing since the last replacement; all of them, and it is over,
        # unless some word searches would look further when asked again.
        settled: set[int] = set()
        unfinished: set[int] = set()
        sweep = depth = 0
        while len(settled) < len(positions):
            sweep += 1
            for position in map(int, rng.permutation(positions)):
                if position in settled:
                    continue
                board = self._board(sentence, position, scores, constraint, depth, rng.spawn(1)[0])
                found, more = self._play(board, sentence, position, constraint)
                if found is None:
                    settled.add(position)
                    if more:
                        unfinished.add(position)
                    continue
                old = sentence.words[position]
                self._memory.gain += float(scores[0] - found[1][0])
                sentence, scores = found
                new = sentence.words[position]
                reject, accept = map(float, scores)
                self.steps.append(Step(sweep, position, old, new, reject, accept, self.n_scores))
                settled, unfinished, depth = set(), set(), 0
                # What is known of a position holds as long as the other words stay.
                self._places = {p: x for p, x in self._places.items() if p == position}
            if len(settled) == len(positions) and unfinished:
                settled -= unfinished
                unfinished = set()
                depth += 1
        return sentence, constraint, objective, scores

    @property
    def finished(self) -> bool:
        """Whether no position brought an improvement, and nothing was left out for its cost."""
        return not self._memory.limited

    def _entropy(self, text: str) -> list[int]:
        # Chance depends on the task alone, so a task gives the same result in any order of tasks.
        key = "\n".join([text, self.reject.spec, self.accept.spec])
        return list(np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype=np.uint32))

    def _fresh(self, sentence: Sentence) -> FloatArray:
        text = [str(sentence)]
        return np.array([self.reject.score(text)[0], self.accept.score(text)[0]])

    def _place(self, sentence: Sentence, position: int) -> _Place:
        """Return what is known of a position, computing estimates and bounds if they are not."""
        place = self._places.get(position)
        if place is None:
            words = self.proposal.words(sentence, position)
            allowed = self.proposal.allowed(sentence, position, words)
            reject = self.reject.replacements(sentence, position, words)
            accept = self.accept.replacements(sentence, position, words)
            place = _Place(words, allowed, {"reject": reject, "accept": accept})
            self._places[position] = place
        return place

    def _board(
        self,
        sentence: Sentence,
        position: int,
        scores: FloatArray,
        constraint: Constraint,
        depth: int,
        rng: np.random.Generator,
    ) -> Board:
        place = self._place(sentence, position)
        return Board(
            place.tables["reject"],
            place.tables["accept"],
            place.allowed,
            constraint.minimum,
            float(scores[0]),
            rng,
            present=place.words.index.get(sentence.words[position]),
            accepted=float(scores[1]),
            known=place.known,
            conditional=partial(self._conditional, sentence, position, place),
            depth=depth,
            memory=self._memory,
        )

    def _conditional(
        self, sentence: Sentence, position: int, place: _Place, name: str
    ) -> FloatArray | None:
        """Return bounds on log p(candidate | words before), as `Board.conditional` says."""
        for role, model in zip(ROLES, (self.reject, self.accept), strict=True):
            if name in (role, model.spec):
                return likelihood(model, sentence, position, place.tables[role].upper)
        return likelihood_by_name(name, sentence, position, place.words)

    def _play(
        self, board: Board, sentence: Sentence, position: int, constraint: Constraint
    ) -> tuple[tuple[Sentence, FloatArray] | None, bool]:
        """Try one position.

        Returns
        -------
        tuple
            The changed sentence and its scores, or None; and whether the word search would look
            further.
        """
        words = self._places[position].words
        turn = self.strategy(board)
        answer: FloatArray | bool | None = None
        while True:
            try:
                request = next(turn) if answer is None else turn.send(answer)
            except StopIteration as stop:
                return None, bool(stop.value)
            if isinstance(request, Ask):
                answer = self._answer(board, request)
                continue
            changed = sentence.replace(position, words.words[request.index])
            scores = self._fresh(changed)
            self._memory.cost += sum(float(board.prices(r)[request.index]) for r in ROLES)
            if constraint.admits(scores[1:])[0] and scores[0] < board.below:
                return (changed, scores), False
            answer = False

    def _answer(self, board: Board, request: Ask) -> FloatArray:
        """Give exact scores, computing and counting those that are not known yet."""
        table, known = board.table(request.role), board.known[request.role]
        index = [int(i) for i in request.index]
        missing = [i for i in dict.fromkeys(index) if i not in known]
        if missing:
            scores = table.score(np.array(missing, dtype=np.int64))
            known.update(zip(missing, map(float, scores), strict=True))
            counts = dict(zip(ROLES, self.n_scores, strict=True))
            counts[request.role] += len(missing)
            self.n_scores = counts["reject"], counts["accept"]
            self._memory.cost += float(board.prices(request.role)[missing].sum())
        return np.array([known[i] for i in index])


def synthesize(
    sentence: str,
    *,
    reject: SentenceModel,
    accept: SentenceModel,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = "exhaustive",
    seed: int = 0,
    attempt: int = 0,
    proposal: WordReplacement | None = None,
) -> Synthesis:
    """Write a sentence that `accept` finds no less probable than `sentence` and `reject` far less.

    Minimises log p_reject(s) subject to log p_accept(s) >= log p_accept(n) (Golan et al. 2023,
    Eq. 2) by replacing one word at a time until no position brings an improvement.

    Parameters
    ----------
    sentence
        The natural sentence n to start from, of at least two words.
    reject, accept
        The two models.
    vocabulary
        The words that may be used; the bundled one if not given.
    strategy
        ``exhaustive`` (always the best feasible word), ``first-improvement``, ``bounded`` (a
        budget of exact scores, for models whose scores are dear), or a strategy of your own.
    seed, attempt
        The same seed, attempt, sentence, models and vocabulary give the same result; another
        attempt visits the positions in another order.
    proposal
        Candidates prepared for this pair of models, when many sentences share them.

    Returns
    -------
    Synthesis
        Its sentence keeps the constraint when both sentences are scored afresh; it is the natural
        one itself where no improvement was found.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    InputError
        If the two models are one, if the sentence has one word only, if no vocabulary word may
        stand at a position, or if a model's score is not higher for more acceptable sentences
        (``reduction=ppl``).
    """
    if reject.spec == accept.spec:
        raise InputError(
            f"a synthesis needs two different models, got {reject.spec!r} twice; specs that differ "
            "in metric or reduction are different models"
        )
    if len(sentence.split()) < 2:
        raise InputError(
            f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
        )
    for model in (reject, accept):
        if not model.rises_with_acceptability:
            raise InputError(
                f"{model.spec!r} does not score acceptable sentences higher; choose a reduction "
                "that does, such as sum or mean"
            )
    if proposal is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        proposal = WordReplacement(words, (reject, accept))
    search = Search(reject, accept, proposal, _strategy(strategy), seed, attempt)
    found, constraint, objective, scores = search.run(sentence)
    return Synthesis(
        natural=str(Sentence.parse(sentence)),
        sentence=str(found),
        natural_reject_log_prob=objective.natural,
        natural_accept_log_prob=constraint.natural,
        reject_log_prob=float(scores[0]),
        accept_log_prob=float(scores[1]),
        steps=tuple(search.steps),
        n_scores=search.n_scores,
        reject=reject.spec,
        accept=accept.spec,
        strategy=strategy if isinstance(strategy, str) else repr(strategy),
        seed=seed,
        attempt=attempt,
        finished=search.finished,
    )


def _strategy(name: str | Strategy) -> Strategy:
    return strategy(name) if isinstance(name, str) else name
