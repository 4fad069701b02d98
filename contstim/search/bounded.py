"""The guided word search: exact scores where most is to be gained, within a budget."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.search.belief import Outlook, expected_gain
from contstim.search.board import ROLES, SLACK, Ask, Board, Pick, Role, Turn
from contstim.search.plain import exhaustive

__all__ = ["Bounded"]

# The cheaper model is asked for so many candidates at once, and may be asked for this many times
# the budget at most.
_CHEAP_BATCH, _CHEAP_RATIO = 32, 128
# Inputs of one sentence: so many, or so many scores of the natural sentence.
_INPUTS, _SCORES = 25_000, 48
# A position at which nothing was found is left when the next score promises less than this part of
# what scores have brought so far.
_LEAST = 1 / 8
_LARGEST_BATCH = 256
_NO_LIMIT = 2**40


@dataclass(frozen=True)
class Bounded:
    """Spend at most `budget` exact scores of the dearer model a position, the most promising first.

    Candidates whose upper bound already breaks the accepting model's constraint are never scored.
    Of the rest that one is taken next which promises the greatest gain, the expected fall of the
    loss times the probability that the accepting model admits it (Gardner et al. 2014, Eq. 6);
    what its score costs beside others is not weighed, for dear words are those of many tokens,
    on which models disagree most.
    Both follow from estimates that are corrected by the exact scores known so far (`Belief`).
    A candidate is scored by the model whose scores cost less first, and by the other only if it
    is still in the running.

    A position is left with the best candidate found as soon as the next score promises less than
    scores have brought so far (the marginal value theorem, Charnov 1976). Where nothing is found,
    it is left when the next one promises less than an eighth of that, or after `first` scores.
    Positions left for the latter reason are looked at further once no other brings anything, each
    time with twice the scores, up to the budget.

    With ``budget=None`` a position is left only when no candidate is left that bounds or scores
    do not rule out; the result is then that of ``exhaustive``.

    Attributes
    ----------
    budget
        Most exact scores asked of the model whose scores cost more, at one position of one
        sentence; the cheaper one may be asked for as many times more as its scores are cheaper,
        128 at most. None: no limit.
    first
        The budget at which a position is left first.
    inputs
        Most that the exact scores of one sentence may cost, in inputs of the models
        (`Replacements.price`; what candidates share is not counted). Candidates for whose score
        and whose verification not enough is left are not scored. By default 25,000, or what 48
        scores of the natural sentence by both models cost, if that is more. Not looked at without
        a budget.
    """

    budget: int | None = 64
    first: int = 4
    inputs: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("first", self.first)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; give at least 1 exact score a position")
        if self.inputs is not None and self.inputs < 1:
            raise InputError(f"inputs is {self.inputs}; give at least 1 input a sentence")

    def __call__(self, board: Board) -> Turn:
        """Run the word search on one position's `board`."""
        if board.accept.exact and board.reject.exact:
            return (yield from exhaustive(board))
        return (yield from _Visit.begin(board, self._allowance(board)).play())

    def _allowance(self, board: Board) -> _Allowance:
        if self.budget is None:
            return _Allowance(_NO_LIMIT, np.inf, final=True, patient=True)
        now = min(self.budget, self.first * 2**board.depth)
        if board.memory.price is None:
            board.memory.price = sum(_present_price(board, role) for role in ROLES)
        inputs = max(_INPUTS, _SCORES * board.memory.price) if self.inputs is None else self.inputs
        return _Allowance(now, inputs, final=now == self.budget, patient=False)


@dataclass(frozen=True)
class _Allowance:
    """Exact scores of the dearer model allowed; most inputs of the whole sentence.

    Besides, whether that is all; whether to use it up.
    """

    limit: int
    inputs: float
    final: bool
    patient: bool


@dataclass(eq=False)
class _Visit:
    """One word search.

    Attributes
    ----------
    outlook
        What each model's scores are likely to be.
    values
        Exact scores of the V candidates by role, NaN where not known.
    open
        The candidates that no bound rules out.
    cheap, dear
        The role whose scores cost less (`Board.work`), and the other.
    refused
        Candidates that did not hold when picked.
    """

    board: Board
    allowance: _Allowance
    outlook: dict[Role, Outlook]
    values: dict[Role, FloatArray]
    open: IntArray
    cheap: Role
    dear: Role
    refused: set[int] = field(default_factory=set)

    @classmethod
    def begin(cls, board: Board, allowance: _Allowance) -> _Visit:
        """Gather what is known before any score is asked for."""
        present: dict[Role, float] = {"reject": board.below, "accept": board.accepted}
        outlook: dict[Role, Outlook] = {}
        values: dict[Role, FloatArray] = {}
        for role in ROLES:
            table, known = board.table(role), board.known[role]
            outlook[role] = board.memory.belief[role].outlook(table, present[role])
            values[role] = np.full(len(table.upper), np.nan)
            if table.exact:
                values[role] = table.estimate
            elif known:
                seen = np.array(list(known), dtype=np.int64)
                values[role][seen] = list(known.values())
                # Later positions learnt from these when they were asked for.
                outlook[role].learn(seen, values[role][seen], keep=False)
        index = board.open()
        if board.present is not None:
            index = index[index != board.present]
        # Candidates that no model can tell apart are left to chance.
        index = index[board.rng.permutation(len(index))]
        first = board.work("reject") < board.work("accept")
        cheap, dear = ROLES if first else ROLES[::-1]
        return cls(board, allowance, outlook, values, index, cheap, dear)

    def play(self) -> Turn:
        """Score, and pick the best of the candidates scored."""
        while True:
            more = yield from self._look()
            best = self._best()
            if best is None:
                return more
            if self._verification(best) > self._left():
                self.board.memory.limited = True
                return False
            if (yield Pick(best)):
                return False
            self.refused.add(best)

    def _look(self) -> Turn:
        """Score until it is time to pick or to leave; say whether more would be scored later."""
        while True:
            running = self._running()
            if not len(running):
                return False
            chance, gain = self._chance(running), self._gain(running)
            ready = ~np.isnan(self.values[self.cheap][running])
            promise = np.where(ready, chance * gain, 0.0)
            surest = float(promise.max())
            batch = running[self._worth_asking(running, ready, surest)]
            if len(batch):
                yield from self._ask(self.cheap, self._payable(self.cheap, batch))
                continue
            room = self.allowance.limit - self._spent(self.dear)
            if room <= 0 or (not ready.any() and self._room() <= 0):
                return not self.allowance.final
            if not ready.any() or self._enough(surest):
                return False
            size = min(room, 1 + self._spent(self.dear) // 8, _LARGEST_BATCH)
            order = np.argsort(-promise, kind="stable")
            chosen = running[order[ready[order]][:size]]
            yield from self._ask(self.dear, self._payable(self.dear, chosen))

    def _worth(self, role: Role) -> float:
        """Return what a score by one of the models amounts to, in scores of the dearer one."""
        dear = self.board.work(self.dear)
        return self.board.work(role) / dear if dear else 0.0

    def _ask(self, role: Role, index: IntArray) -> Generator[Ask | Pick, FloatArray | bool, None]:
        self.board.memory.n_scores += self._worth(role) * len(index)
        exact = yield from self.board.scores(role, index)
        self.values[role][index] = exact
        self.outlook[role].learn(index, exact)

    def _cost(self, index: IntArray) -> FloatArray:
        """Return what it costs to know candidates, and to verify them or the best so far, (k,)."""
        best = self._best()
        found = 0.0 if best is None else self._verification(best)
        unknown = {role: np.isnan(self.values[role][index]) for role in ROLES}
        scores = sum(self.board.prices(role)[index] * unknown[role] for role in ROLES)
        return np.asarray(scores + np.maximum(self._verification(index), found))

    def _verification(self, index: IntArray | int) -> FloatArray:
        """Return what it costs to score sentences afresh that are kept."""
        return np.asarray(sum(self.board.prices(role)[index] for role in ROLES))

    def _left(self) -> float:
        return self.allowance.inputs - self.board.memory.cost

    def _payable(self, role: Role, index: IntArray) -> IntArray:
        """Return as many of `index` as can be scored by `role` and any one of them be kept."""
        price = self.board.prices(role)[index]
        later = np.maximum.accumulate(self._cost(index) - price)
        cost = np.cumsum(price) + later
        # Each can be paid alone, whatever rounding says.
        return index[: max(1, int(np.searchsorted(cost, self._left(), side="right")))]

    def _spent(self, role: Role) -> int:
        return 0 if self.board.table(role).exact else int((~np.isnan(self.values[role])).sum())

    def _improving(self) -> IntArray:
        """Return the candidates known to keep the constraint and to improve."""
        kept = self.values["accept"][self.open] >= self.board.minimum - SLACK
        lower = self.values["reject"][self.open] < self.board.below + SLACK
        found = self.open[kept & lower]
        return found[~np.isin(found, list(self.refused))]

    def _best(self) -> int | None:
        found = self._improving()
        if not len(found):
            return None
        return int(found[self.values["reject"][found].argmin()])

    def _target(self) -> float:
        """Return what a candidate's rejecting score must fall below."""
        best = self._best()
        return self.board.below if best is None else float(self.values["reject"][best])

    def _running(self) -> IntArray:
        """Return the candidates not fully known that bounds and scores leave in the running."""
        accept, reject = self.values["accept"][self.open], self.values["reject"][self.open]
        cut = self._target() + (SLACK if self._best() is None else 0.0)
        out = (accept < self.board.minimum - SLACK) | (reject >= cut)
        out |= ~np.isnan(accept) & ~np.isnan(reject)
        running = self.open[~out]
        payable = self._cost(running) <= self._left()
        self.board.memory.limited |= not bool(payable.all())
        return running[payable]

    def _chance(self, index: IntArray) -> FloatArray:
        """Return the probability that each candidate keeps the constraint, (k,)."""
        mean, deviation = self.outlook["accept"].predict(index)
        known = self.values["accept"][index]
        chance = ndtr((mean - self.board.minimum) / deviation)
        return np.where(np.isnan(known), chance, 1.0)

    def _gain(self, index: IntArray, more_than: FloatArray | float = 0.0) -> FloatArray:
        """Return by how much each is expected to lower the best loss, beyond `more_than` nats."""
        mean, deviation = self.outlook["reject"].predict(index)
        known = self.values["reject"][index]
        target = self._target() - more_than
        gain = expected_gain(target, mean, deviation)
        return np.where(np.isnan(known), gain, np.maximum(target - known, 0.0))

    def _worth_asking(self, running: IntArray, ready: BoolArray, surest: float) -> IntArray:
        """Return which of `running` the cheaper model is to score before the dearer goes on.

        Those that may well promise more than `surest`, the best promise among those it has
        scored, nats; none if all together are not worth their cost.
        """
        unready = np.flatnonzero(~ready)
        room = self._room()
        if not len(unready) or room <= 0:
            return unready[:0]
        index = running[unready]
        chance = np.maximum(self._chance(index), 1e-300)
        if self.cheap == "accept":
            hope = chance * np.maximum(self._gain(index) - surest, 0.0)
        else:
            hope = chance * self._gain(index, surest / chance)
        size = min(room, max(_CHEAP_BATCH, self._spent(self.cheap) // 4), _LARGEST_BATCH)
        order = np.argsort(-hope, kind="stable")[:size]
        cost = self._worth(self.cheap) * len(order)
        asked_for = surest if ready.any() else self._least()
        if hope[order].sum() <= asked_for * cost and not self._must(ready):
            return unready[:0]
        return unready[order]

    def _room(self) -> int:
        """Return how many candidates the cheaper model may still be asked for."""
        worth = self._worth(self.cheap)
        ratio = int(min(1.0 / worth, _CHEAP_RATIO)) if worth else 1
        return self.allowance.limit * ratio - self._spent(self.cheap)

    def _must(self, ready: BoolArray) -> bool:
        """Whether to go on though nothing is promised, which is so without a budget."""
        return self.allowance.patient and not ready.any()

    def _least(self) -> float:
        """Return the nats a score below which nothing more is asked for here."""
        memory = self.board.memory
        if self.allowance.patient or memory.n_scores == 0:
            return 0.0
        return memory.gain / memory.n_scores * _LEAST

    def _enough(self, surest: float) -> bool:
        """Whether the next score promises too little, `surest` nats, to go on."""
        if self.allowance.patient:
            return False
        memory = self.board.memory
        if self._best() is None:
            return surest <= self._least()
        return memory.gain == 0 or surest * memory.n_scores <= memory.gain


def _present_price(board: Board, role: Role) -> float:
    """Return what a score of the sentence as it is would cost, or of one with a short word."""
    price = board.prices(role)
    return float(price.min() if board.present is None else price[board.present])
