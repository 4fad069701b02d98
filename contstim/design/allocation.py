"""Allocation of trials to groups of participants so that no group sees a sentence twice.

A *cell* of the design is a combination of a condition and a pair of models. Every group receives
the same number of trials of each cell. Trials that share a sentence must be in different groups, as
in graph colouring.

Starting from an initial allocation, trials of the same cell are exchanged between groups to remove
repeated sentences. If this does not succeed, an integer programme finds an allocation or proves
that there is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_array, csr_array, eye_array, kron

from contstim.arrays import IntArray
from contstim.errors import InfeasibleError
from contstim.selection.highs import minimise

_TIME_LIMIT = 60.0  # seconds, of the integer programme


@dataclass(frozen=True, eq=False)
class TrialCells:
    """Trials of an experiment, to be allocated to groups of participants.

    A cell of the design is a combination of a condition and a pair of models. All groups must see
    the same number of trials of each cell.

    Attributes
    ----------
    cells : (n,) array
        Index of the cell to which each of n trials belongs.
    sentences
        Sentences of each trial.
    n_groups
        Number of groups of participants. The number of trials of each cell is a multiple of it.
    """

    cells: IntArray
    sentences: Sequence[tuple[str, ...]]
    n_groups: int

    def group_trials_by_cell(self) -> list[IntArray]:
        """Return the indices of the trials of each cell, one array per cell."""
        # Sort the trials by cell, and split the order where the cell changes.
        order = np.argsort(self.cells, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.cells[order])) + 1)


class _RepeatCounter:
    """Counter of the sentences, or words, that a group of participants sees repeatedly.

    The counts are updated when two trials exchange their groups, which is faster than counting
    again.

    Parameters
    ----------
    texts
        Sentences (or words) of each trial that no group should see twice.
    groups : (n,) array
        Group of each trial.
    """

    def __init__(self, texts: Sequence[frozenset[Hashable]], groups: IntArray) -> None:
        self.texts = texts
        # For each group, how often it sees each sentence (or word).
        self.counts: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)
        for trial, group in enumerate(groups.tolist()):
            self.counts[group].update(texts[trial])

    @property
    def n_repeats(self) -> int:
        """Number of repeats, where a text that a group sees n times counts n - 1."""
        return sum(n - 1 for counts in self.counts.values() for n in counts.values() if n > 1)

    def has_repeat(self, trial: int, group: int) -> bool:
        """Return whether a trial of `group` contains a text that the group sees more than once."""
        counts = self.counts[group]
        return any(counts[text] > 1 for text in self.texts[trial])

    def score_exchange(self, trial: int, other_trial: int, group: int, other_group: int) -> int:
        """Compute the change in the number of repeats if two trials exchanged their groups.

        A repeat is a sentence (or word) that a group of participants has seen before. The counts
        are not updated.

        Parameters
        ----------
        trial, other_trial
            Indices of the two trials.
        group, other_group
            Present groups of `trial` and of `other_trial`.

        Returns
        -------
        int
            Number of repeats after the exchange minus their number before it. Negative if the
            exchange removes repeats.
        """
        counts, other_counts = self.counts[group], self.counts[other_group]
        change = 0
        # Each text (sentence or word) of `trial` moves from `group` to `other_group`. It is a new
        # repeat if `other_group` sees it already. It was a repeat if `group` sees it twice or more.
        for text in self.texts[trial] - self.texts[other_trial]:
            change += (other_counts[text] >= 1) - (counts[text] >= 2)
        # The texts of `other_trial` move in the opposite direction.
        for text in self.texts[other_trial] - self.texts[trial]:
            change += (counts[text] >= 1) - (other_counts[text] >= 2)
        return change

    def exchange(self, trial: int, other_trial: int, group: int, other_group: int) -> None:
        """Update the counts of sentences (or words) in two groups that exchange a trial each.

        Parameters
        ----------
        trial, other_trial
            Indices of the two trials.
        group, other_group
            Groups of `trial` and of `other_trial` before the exchange.
        """
        # Each group loses the texts (sentences or words) of one trial, and gains the texts of the
        # other trial.
        self.counts[group].subtract(self.texts[trial])
        self.counts[group].update(self.texts[other_trial])
        self.counts[other_group].subtract(self.texts[other_trial])
        self.counts[other_group].update(self.texts[trial])


def allocate(trials: TrialCells, start: IntArray, rng: np.random.Generator) -> IntArray:
    """Allocate trials to groups of participants so that no group sees a sentence twice.

    A local search starts from the allocation `start` and exchanges the groups of two trials of the
    same cell (condition and pair of models) until no group sees a sentence twice. If it does not
    succeed, an integer programme is solved.

    Parameters
    ----------
    trials
        Trials with their sentences and cells.
    start : (n,) array
        Initial group of each trial. Each group must have the same number of trials of each cell.
    rng
        Random number generator for the choice between equivalent exchanges.

    Returns
    -------
    (n,) array
        Group of each trial, from 0.

    Raises
    ------
    InfeasibleError
        If no allocation exists, or if none is found within a minute.
    """
    _check_sentence_counts(trials)
    groups = start.copy()
    counter = _RepeatCounter([*map(frozenset, trials.sentences)], groups)
    trials_by_cell = trials.group_trials_by_cell()
    # The number of exchanges grows with the number of repeated sentences.
    for _ in range(200 + 20 * counter.n_repeats):
        if not counter.n_repeats:
            return groups
        # Choose a trial with a repeated sentence, and the best partner for an exchange.
        clashing = [t for t, group in enumerate(groups.tolist()) if counter.has_repeat(t, group)]
        trial = int(rng.choice(clashing))
        group = int(groups[trial])
        # Only trials of the same cell (condition and pair of models) may be exchanged.
        exchangeable = [int(t) for t in trials_by_cell[trials.cells[trial]] if groups[t] != group]
        # Another trial with a repeated sentence may be chosen in the next iteration.
        if not exchangeable:
            continue
        # Change in the number of repeated sentences by each possible exchange.
        changes = np.array(
            [counter.score_exchange(trial, t, group, int(groups[t])) for t in exchangeable]
        )
        # Exchanges that do not change the number of repeats, and a few that increase it, are made
        # to leave local optima.
        other = exchangeable[int(rng.choice(np.flatnonzero(changes == changes.min())))]
        if changes.min() <= 0 or rng.random() < 0.05:
            other_group = int(groups[other])
            counter.exchange(trial, other, group, other_group)
            groups[trial], groups[other] = other_group, group
    return groups if not counter.n_repeats else _allocate_exactly(trials)


def separate_words(
    trials: TrialCells,
    groups: IntArray,
    words: Sequence[frozenset[Hashable]],
    rng: np.random.Generator,
    n_proposals: int = 100_000,
) -> tuple[IntArray, int, int]:
    """Exchange trials between groups of participants so that groups see fewer repeated words.

    Random exchanges of two trials are proposed. Both trials have the same condition and the same
    pair of models, that is, they belong to the same cell of the design. An exchange is accepted if
    it does not increase the number of repeated words or of repeated sentences.

    Parameters
    ----------
    trials
        Trials with their sentences and cells.
    groups : (n,) array
        Group of each trial, such that no group sees a sentence twice.
    words
        Words of each trial that should not be repeated.
    rng
        Random number generator for the proposals.
    n_proposals
        Number of proposed exchanges.

    Returns
    -------
    groups : (n,) array
        New group of each trial. No group sees a sentence twice.
    n_before, n_after : int
        Number of repeated words before and after the exchanges.
    """
    groups = groups.copy()
    sentence_counter = _RepeatCounter([*map(frozenset, trials.sentences)], groups)
    word_counter = _RepeatCounter(words, groups)
    n_before = n_after = word_counter.n_repeats
    trials_by_cell = trials.group_trials_by_cell()
    for trial in rng.integers(len(groups), size=n_proposals).tolist():
        group = int(groups[trial])
        # Only trials with a repeated word are moved.
        if not word_counter.has_repeat(trial, group):
            continue
        # Propose an exchange with a trial of the same cell (condition and pair of models).
        other_trial = int(rng.choice(trials_by_cell[trials.cells[trial]]))
        other_group = int(groups[other_trial])
        if other_group == group:
            continue
        exchange = (trial, other_trial, group, other_group)
        # Accept if it adds neither repeated words nor repeated sentences.
        added_word_repeats = word_counter.score_exchange(*exchange)
        if added_word_repeats <= 0 and sentence_counter.score_exchange(*exchange) <= 0:
            word_counter.exchange(*exchange)
            sentence_counter.exchange(*exchange)
            groups[trial], groups[other_trial] = other_group, group
            n_after += added_word_repeats
    return groups, n_before, n_after


def _check_sentence_counts(trials: TrialCells) -> None:
    """Check three simple reasons for which no allocation of trials to groups exists.

    No group of participants may see a sentence twice. `trials` contains the sentences of each trial
    and the number of groups.

    Raises
    ------
    InfeasibleError
        If a trial shows the same sentence twice; if a sentence occurs in more trials than there are
        groups; or if all three pairs of three sentences are trials and there are fewer than three
        groups.
    """
    counts: Counter[str] = Counter()
    for sentences in trials.sentences:
        if len(set(sentences)) < len(sentences):
            raise InfeasibleError(
                f"a trial would show the sentence {sentences[0]!r} against itself; leave it out"
            )
        counts.update(sentences)
    # The most frequent sentence needs as many groups as it has trials.
    sentence, n = counts.most_common(1)[0] if counts else ("", 0)
    if n > trials.n_groups:
        raise InfeasibleError(
            f"the sentence {sentence!r} is in {n} trials, nobody may see it twice, and the "
            f"number of groups is {trials.n_groups}; use more groups (a triplet makes three "
            "trials, so at least 3), or leave out some pairs or triplets that contain it"
        )
    if trials.n_groups >= 3:
        return
    # Three trials that compare three sentences with each other need three groups, although each
    # sentence occurs in only two of them.
    partners: defaultdict[str, set[str]] = defaultdict(set)
    for first, second in trials.sentences:
        partners[first].add(second)
        partners[second].add(first)
    for first, second in trials.sentences:
        # A third sentence that is compared with both sentences of this trial.
        common = sorted(partners[first] & partners[second])
        if common:
            raise InfeasibleError(
                f"the sentences {first!r}, {second!r} and {common[0]!r} are compared in three "
                f"trials, nobody may see one twice, and the number of groups is "
                f"{trials.n_groups}; use at least 3 groups or fewer conditions"
            )


def _allocate_exactly(trials: TrialCells) -> IntArray:
    """Allocate trials to groups by an integer programme, or prove that it is impossible.

    The programme minimises the number of repeated sentences. Let x_tg = 1 if trial t is in group g
    of G groups, and let e_sg be the number of times that group g sees sentence s, minus 1:

        minimise    sum_sg e_sg
        subject to  sum_g x_tg = 1                                for every trial t,
                    sum_{t of cell c} x_tg = n_trials(c) / G      for every cell c and group g,
                    sum_{t shows s} x_tg - e_sg <= 1              for every sentence s and group g,
                    x_tg in {0, 1}, e_sg >= 0.

    A cell is a combination of a condition and a pair of models.

    Parameters
    ----------
    trials
        Trials with their sentences and cells.

    Returns
    -------
    (n,) array
        Group of each trial, from 0.

    Raises
    ------
    InfeasibleError
        If no allocation exists, or if none is found within a minute.
    """
    n_trials, n_groups = len(trials.cells), trials.n_groups
    # Incidence matrix of sentences (rows) and trials (columns). Only sentences in several trials
    # can be repeated.
    shown_sentences = np.concatenate(trials.sentences)
    sentences, sentence_indices = np.unique(shown_sentences, return_inverse=True)
    trial_indices = np.repeat(np.arange(n_trials), [*map(len, trials.sentences)])
    shows = csr_array((np.ones(len(shown_sentences)), (sentence_indices, trial_indices)))
    is_shared = np.bincount(sentence_indices) > 1
    sentences, shows = sentences[is_shared], shows[is_shared]

    # The variables are x (trials by groups) followed by e (shared sentences by groups). Kronecker
    # products repeat the coefficients of a trial for each group.
    n_x, n_e = n_trials * n_groups, len(sentences) * n_groups
    one_group_per_trial = kron(eye_array(n_trials), np.ones((1, n_groups)))
    is_in_cell = csr_array((np.ones(n_trials), (trials.cells, np.arange(n_trials))))
    per_group = eye_array(n_groups)
    rows = block_array(
        [
            [one_group_per_trial, None],
            [kron(is_in_cell, per_group), None],
            [kron(shows, per_group), -eye_array(n_e)],
        ],
        format="csr",
    )
    n_per_group = np.bincount(trials.cells) // n_groups
    totals = np.hstack([np.ones(n_trials), np.repeat(n_per_group, n_groups)])
    solution = minimise(
        np.repeat([0.0, 1.0], [n_x, n_e]),
        csr_array(rows),
        np.hstack([totals, np.full(n_e, -np.inf)]),
        np.hstack([totals, np.ones(n_e)]),
        integer=np.repeat([True, False], [n_x, n_e]),
        highest=np.repeat([1.0, np.inf], [n_x, n_e]),
        time_limit=_TIME_LIMIT,
    )
    if solution.x is None or (solution.status != "optimal" and solution.x[n_x:].sum() > 0.5):
        raise InfeasibleError(
            f"no allocation to {n_groups} groups that shows every participant each sentence once "
            f"was found in {_TIME_LIMIT:g} s; use more groups or fewer shared sentences"
        )
    x, repeats = solution.x[:n_x].reshape(n_trials, n_groups), solution.x[n_x:]
    n_repeats = round(repeats.sum())
    if not n_repeats:
        return np.asarray(x.argmax(axis=1))
    repeats_by_sentence = repeats.reshape(-1, n_groups).max(axis=1)
    repeated = str(sentences[repeats_by_sentence.argmax()])
    raise InfeasibleError(
        f"no allocation to {n_groups} groups shows every participant each sentence once: at least "
        f"{n_repeats} would be seen twice, for example {repeated!r}; use more groups or replace "
        "the sentence"
    )
