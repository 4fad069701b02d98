"""Allocation of trials to groups: cells shared equally, no sentence twice in a group.

A *cell* is a model pair under a condition. Its trials are allocated to the groups equally. Two
trials that share a sentence must go to different groups: a colouring of the trials. The start is
Latin: comparison k of triplet number p goes to group p + k. Sentences that several model pairs
share are then separated by exchanges within cells, and, should those not suffice, by an integer
programme, which either finds an allocation or proves that there is none.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import IntArray
from contstim.errors import InfeasibleError
from contstim.progress import waiting

_EXACT_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class TrialCells:
    """Trials to be allocated.

    Attributes
    ----------
    cells
        The cell of each of n trials, shape (n,), numbered from 0.
    members
        The sentences of each trial.
    groups
        Number of groups, G; every cell has a multiple of G trials.
    """

    cells: IntArray
    members: Sequence[tuple[str, ...]]
    groups: int

    def cell_members(self) -> list[IntArray]:
        """Return the trials of each cell."""
        order = np.argsort(self.cells, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.cells[order])) + 1)


class _Tally:
    """How often each group meets each key (sentence or word), and how many are repeats."""

    def __init__(self, keys: Sequence[frozenset[Hashable]], allocated: IntArray) -> None:
        self.keys = keys
        self.counts: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)
        for trial, group in enumerate(allocated.tolist()):
            self.counts[group].update(keys[trial])

    @property
    def repeats(self) -> int:
        """Number of meetings beyond the first, over groups and keys."""
        return sum(c - 1 for count in self.counts.values() for c in count.values() if c > 1)

    def repeated(self, trial: int, group: int) -> bool:
        """Return whether `group` meets a key of `trial`, one of its trials, more than once."""
        count = self.counts[group]
        return any(count[key] > 1 for key in self.keys[trial])

    def change(self, trial: int, other: int, group_one: int, group_two: int) -> int:
        """Return by how much repeats grow when trials `trial` and `other` change groups."""
        first, second = self.counts[group_one], self.counts[group_two]
        growth = 0
        for key in self.keys[trial] - self.keys[other]:
            growth += (second[key] >= 1) - (first[key] >= 2)
        for key in self.keys[other] - self.keys[trial]:
            growth += (first[key] >= 1) - (second[key] >= 2)
        return growth

    def exchange(self, one: int, two: int, group_one: int, group_two: int) -> None:
        """Carry the exchange out."""
        for group, gone, come in ((group_one, one, two), (group_two, two, one)):
            self.counts[group].subtract(self.keys[gone])
            self.counts[group].update(self.keys[come])


def allocate(trials: TrialCells, start: IntArray, rng: np.random.Generator) -> IntArray:
    """Allocate the trials to groups 0..G-1 so that no group meets a sentence twice.

    Parameters
    ----------
    trials
        The trials.
    start
        An allocation that shares every cell equally, shape (n,), with few repeats.
    rng
        For the choice among equal exchanges.

    Returns
    -------
    array
        The group of each trial, shape (n,).

    Raises
    ------
    InfeasibleError
        If there is no such allocation, or none was found in a minute; it names a sentence.
    """
    _refuse_crowds(trials)
    allocated = start.copy()
    tally = _Tally([frozenset(members) for members in trials.members], allocated)
    cells = trials.cell_members()
    for _ in range(200 + 20 * tally.repeats):
        if not tally.repeats:
            return allocated
        clashing = [t for t, g in enumerate(allocated.tolist()) if tally.repeated(t, g)]
        trial = int(rng.choice(clashing))
        cell = cells[trials.cells[trial]]
        others = [int(t) for t in cell if allocated[t] != allocated[trial]]
        if not others:
            continue
        group = int(allocated[trial])
        growth = np.array([tally.change(trial, t, group, int(allocated[t])) for t in others])
        # Exchanges that change nothing are taken too: they lead out of dead ends.
        other = others[int(rng.choice(np.flatnonzero(growth == growth.min())))]
        if growth.min() <= 0 or rng.random() < 0.05:
            to = int(allocated[other])
            tally.exchange(trial, other, group, to)
            allocated[trial], allocated[other] = to, group
    return allocated if not tally.repeats else _allocate_exactly(trials)


def separate_words(
    trials: TrialCells,
    allocated: IntArray,
    words: Sequence[frozenset[Hashable]],
    rng: np.random.Generator,
    proposals: int = 100_000,
) -> tuple[IntArray, int, int]:
    """Exchange trials within cells so that groups meet fewer words repeatedly.

    Parameters
    ----------
    trials, allocated
        An allocation without a repeated sentence, which it remains.
    words
        For each trial the words whose repeats count.
    rng
        For the proposals.
    proposals
        Number of exchanges tried.

    Returns
    -------
    array, int, int
        The new allocation, and the number of repeated words before and after.
    """
    allocated = allocated.copy()
    sentences = _Tally([frozenset(members) for members in trials.members], allocated)
    tally = _Tally(words, allocated)
    before = after = tally.repeats
    cells = trials.cell_members()
    for trial in rng.integers(len(allocated), size=proposals).tolist():
        group = int(allocated[trial])
        if not tally.repeated(trial, group):
            continue
        other = int(rng.choice(cells[trials.cells[trial]]))
        to = int(allocated[other])
        if to == group:
            continue
        growth = tally.change(trial, other, group, to)
        if growth <= 0 and sentences.change(trial, other, group, to) <= 0:
            tally.exchange(trial, other, group, to)
            sentences.exchange(trial, other, group, to)
            allocated[trial], allocated[other] = to, group
            after += growth
    return allocated, before, after


def _refuse_crowds(trials: TrialCells) -> None:
    """Refuse what cannot be allocated for a reason that is plain to see."""
    count: Counter[str] = Counter()
    for members in trials.members:
        if len(set(members)) < len(members):
            raise InfeasibleError(
                f"a trial would show the sentence {members[0]!r} against itself; leave it out"
            )
        count.update(members)
    if not count:
        return
    sentence, most = count.most_common(1)[0]
    if most > trials.groups:
        raise InfeasibleError(
            f"the sentence {sentence!r} is in {most} trials, nobody may see it twice, and the "
            f"number of groups is {trials.groups}; use more groups, or leave out some of the "
            "pairs or triplets that have it"
        )
    # Three comparisons of three sentences need three groups though each sentence is in two only.
    if trials.groups < 3:
        partners: defaultdict[str, set[str]] = defaultdict(set)
        for first, second in trials.members:
            partners[first].add(second)
            partners[second].add(first)
        for first, second in trials.members:
            third = sorted(partners[first] & partners[second])
            if third:
                raise InfeasibleError(
                    f"the sentences {first!r}, {second!r} and {third[0]!r} are compared in three "
                    f"trials, nobody may see one twice, and the number of groups is "
                    f"{trials.groups}; use at least 3 groups or fewer conditions"
                )


def _allocate_exactly(trials: TrialCells) -> IntArray:
    """Allocate by integer programming, or prove that it cannot be done."""
    import pulp

    n, groups = len(trials.cells), range(trials.groups)
    of_sentence: defaultdict[str, list[int]] = defaultdict(list)
    for trial, members in enumerate(trials.members):
        for sentence in members:
            of_sentence[sentence].append(trial)
    shared = {s: shown for s, shown in of_sentence.items() if len(shown) > 1}
    count = range(len(shared))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PuLP announces here what its next major will drop
        x = [[pulp.LpVariable(f"x{t}_{g}", cat="Binary") for g in groups] for t in range(n)]
        extra = [[pulp.LpVariable(f"e{s}_{g}", lowBound=0) for g in groups] for s in count]
        problem = pulp.LpProblem("allocation", pulp.LpMinimize)
        problem += pulp.lpSum(e for row in extra for e in row)
        for row in x:
            problem += pulp.lpSum(row) == 1
        for cell in trials.cell_members():
            for g in groups:
                problem += pulp.lpSum(x[t][g] for t in cell) == len(cell) // trials.groups
        for shown, row in zip(shared.values(), extra, strict=True):
            for g in groups:
                problem += pulp.lpSum(x[t][g] for t in shown) - row[g] <= 1
        with waiting("laying out trials", _EXACT_SECONDS):
            problem.solve(pulp.HiGHS(msg=False, timeLimit=_EXACT_SECONDS, threads=1))
    proven = problem.sol_status == pulp.LpSolutionOptimal
    least = round(pulp.value(problem.objective) or 0.0)
    values = [[v.varValue or 0.0 for v in row] for row in x]
    allocated: IntArray = np.argmax(np.array(values), axis=1).astype(np.int64)
    repeats = _Tally([frozenset(members) for members in trials.members], allocated).repeats
    shares = (
        np.bincount(allocated[cell], minlength=trials.groups) for cell in trials.cell_members()
    )
    if repeats == 0 and all(np.ptp(share) == 0 for share in shares):
        return allocated
    if proven:
        twice = next(s for s, shown in shared.items() if len({*allocated[shown]}) < len(shown))
        raise InfeasibleError(
            f"no allocation to {trials.groups} groups shows every participant each sentence once: "
            f"at least {least} would be seen twice, for example {twice!r}; use more groups or "
            "replace the sentence"
        )
    raise InfeasibleError(
        f"no allocation to {trials.groups} groups that shows every participant each sentence once "
        f"was found in {_EXACT_SECONDS:g} s; use more groups or fewer shared sentences"
    )
