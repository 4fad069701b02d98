"""Plan of an adaptive study, and a scheduler that chooses its trials based on previous answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.adaptive import policies
from contstim.adaptive.link import Link
from contstim.adaptive.pool import Pool
from contstim.adaptive.posterior import ModelPosterior
from contstim.adaptive.stopping import Stopping
from contstim.arrays import BoolArray, FloatArray
from contstim.display import displayable
from contstim.errors import InputError, format_count
from contstim.settings import NonNegativeInt, PositiveInt, Seed, settings
from contstim.text.languages import language_from_script

# Maximum number of blocks of answers that update the posterior before a new block is chosen. The
# limit bounds the time that a participant waits.
_MAX_UPDATES = 3


@settings
class AdaptivePlan:
    """Plan of an adaptive study, fixed before its start.

    Each participant answers *anchors*, which are sentence pairs that all participants see, and
    trials that a policy chooses from a pool of pairs, several at a time.

    Attributes
    ----------
    trial_selection
        Name of the policy that chooses the trials, with its options.
    link
        Assumed distribution of answers, given the preference of a model.
    stopping
        Rule for stopping the data collection.
    trials
        Number of chosen trials per participant.
    anchors
        Number of anchors, which each participant sees in addition.
    max_pending
        Maximum number of blocks (groups of trials that are chosen together) that wait for missing
        answers to an earlier block. Answers to these blocks do not update the posterior. When one
        more block is chosen, the earlier block is skipped.
    auto_close
        Whether the server admits no more participants once the stopping rule is satisfied.
    seed
        Random seed of all choices.

    Examples
    --------
    >>> plan = AdaptivePlan(trials=30, stopping=Stopping(participants=60))
    >>> plan.trial_selection.policy, plan.stopping.participants, plan.anchors
    ('information', 60, 24)
    """

    trial_selection: policies.PolicyOptions = policies.PolicyOptions()
    link: Link = Link()
    stopping: Stopping = Stopping()
    trials: Annotated[int, Field(ge=1, le=5000)] = 40
    anchors: NonNegativeInt = 24
    max_pending: PositiveInt = 200
    auto_close: bool = False
    seed: Seed = 0

    @property
    def is_fixed(self) -> bool:
        """Whether the trials are fixed before the study."""
        return self.trial_selection.implementation.is_fixed_before_study

    @property
    def design(self) -> str:
        """Kind of design, ``fixed`` or ``adaptive``."""
        return "fixed" if self.is_fixed else "adaptive"


@displayable
@dataclass(frozen=True)
class Block:
    """Trials that are chosen together for one participant, and are shown one after the other.

    Attributes
    ----------
    number
        Index of the block in the order in which blocks were chosen, from 0.
    participant
        Identifier of the participant.
    pairs
        Indices of the chosen pairs in the pool.
    propensities
        Probability with which the policy chose each pair, given the pairs chosen before.
    n_available
        Number of pairs that could be chosen.
    n_processed
        Number of earlier blocks that were processed before this block was chosen: their answers had
        updated the posterior, or they had been skipped.
    swapped_sides
        Whether sentence 2 of each pair is shown on the left.
    skipped_blocks
        Numbers of the blocks with missing answers that were skipped since the previous block.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0)
    >>> scheduler = TrialScheduler(plan, Pool.from_scores(pairs, scores, plan.link))
    >>> block = scheduler.choose_next_block("p1")
    >>> block.number, block.participant, len(block.pairs), block.n_available
    (0, 'p1', 5, 40)
    """

    number: int
    participant: str
    pairs: tuple[int, ...]
    propensities: tuple[float, ...]
    n_available: int
    n_processed: int
    swapped_sides: tuple[bool, ...]
    skipped_blocks: tuple[int, ...] = ()


class TrialScheduler:
    """Scheduler that chooses the trials of an adaptive study based on previous answers.

    A *block* is a group of trials that are chosen for one participant at the same time. The
    posterior probabilities of the models are updated one block at a time, in the order in which the
    blocks were chosen. The order in which answers arrive is ignored, because it would favour the
    answers of fast participants. Replaying the same blocks and answers restores a bitwise identical
    state.

    Parameters
    ----------
    plan
        Plan of the study.
    pool
        Sentence pairs to choose from. The first `plan.anchors` of them, the anchors, are shown to
        all participants and never chosen.

    Raises
    ------
    InputError
        If the pool has no pairs besides the anchors.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0)
    >>> scheduler = TrialScheduler(plan, Pool.from_scores(pairs, scores, plan.link))
    >>> block = scheduler.choose_next_block("p1")
    >>> scheduler.record_block(block)
    >>> for pair in block.pairs:
    ...     scheduler.record_answer("p1", pair, rating=2.5)
    >>> len(scheduler.answers)
    5
    """

    def __init__(self, plan: AdaptivePlan, pool: Pool) -> None:
        if plan.anchors >= len(pool.pairs):
            raise InputError(
                f"the pool has {format_count(len(pool.pairs), 'pair')}, all of them used as the "
                f"{format_count(plan.anchors, 'anchor')}; give fewer anchors or a larger pool"
            )
        self.plan, self.pool = plan, pool
        self.posterior = ModelPosterior(plan.link, len(pool.models), plan.trials)
        #: Blocks of trials that have been recorded, in the order of choice.
        self.blocks: list[Block] = []
        #: Index of each answer on the rating scale, by participant and pair.
        self.answers: dict[tuple[str, int], int] = {}
        self._n_processed = 0  # blocks that have updated the posterior or have been skipped
        self._grid_positions = policies.grid_positions(pool.preferences, self.posterior.quadrature)
        # Masks of the pairs that may still be shown, by participant.
        self._available: dict[str, BoolArray] = {}
        # Sentence pairs that have been shown, each with its participant.
        self._issued_pairs: set[tuple[str, int]] = set()
        # Pairs with an answer that has updated the posterior.
        self._used_pairs: set[int] = set()
        self._blocks_by_participant: dict[str, list[Block]] = {}
        self._skipped_blocks: list[int] = []
        # Distinct words of each pair, since policies avoid repeating words within a block.
        texts = (pool.pairs["sentence_1"] + " " + pool.pairs["sentence_2"]).astype(str)
        self._words = [frozenset(language_from_script(text).split(text.lower())) for text in texts]

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {format_count(len(self.pool.models), 'model')} and "
            f"{format_count(len(self.pool.pairs), 'pair')}; blocks issued: {len(self.blocks)}, "
            f"answers: {len(self.answers)}>"
        )

    @property
    def weights(self) -> FloatArray:
        """Posterior probabilities of the models at the last update, shape (M,)."""
        return self.posterior.weights

    def update_posterior(self, max_blocks: int = 1) -> None:
        """Update the posterior with the answers to at most `max_blocks` further blocks.

        A *block* is a group of trials that were chosen at the same time. Blocks are used in the
        order in which they were chosen, up to the first block with missing answers.
        """
        n_processed = self._n_processed
        limit = min(len(self.blocks), n_processed + max_blocks)
        while n_processed < limit and self._is_answered(self.blocks[n_processed]):
            n_processed += 1
        self._process_blocks(n_processed, ())

    def choose_next_block(self, participant: str, max_trials: int = 5000) -> Block:
        """Choose the next block (group of trials) for a participant.

        The posterior is first updated with answers to earlier blocks, in the order in which the
        blocks were chosen. To keep the waiting time short, at most three of the blocks that have
        not been used yet are added. The participant need not have answered all earlier blocks. The
        caller must store the returned block and pass it to `record_block`.

        Parameters
        ----------
        participant
            Identifier of the participant.
        max_trials
            Maximum number of trials in the block.

        Returns
        -------
        Block
            Chosen trials; without trials if no pairs are available.

        Raises
        ------
        InputError
            If the participant already has all trials of the plan.
        """
        if self._n_issued(participant) >= self.plan.trials:
            raise InputError(
                f"participant {participant!r} already has the {self.plan.trials} trials of the "
                "plan; end the session"
            )
        # A block is a group of trials that were chosen together. It is processed when it has
        # updated the posterior or has been skipped. Only a few more blocks are processed now, so
        # that the participant does not wait long.
        n_blocks, n_processed = len(self.blocks), self._n_processed
        skipped_blocks = list(self._skipped_blocks)
        n_processed_before = self.blocks[-1].n_processed if self.blocks else 0
        limit = min(n_blocks, n_processed_before + _MAX_UPDATES)
        # Use blocks in the order in which they were chosen. A block with missing answers stops the
        # updates until `max_pending` later blocks have been chosen. It is then skipped.
        while n_processed < limit:
            if not self._is_answered(self.blocks[n_processed]):
                if n_blocks < n_processed + self.plan.max_pending:
                    break
                skipped_blocks.append(n_processed)
            n_processed += 1
        self._skipped_blocks = skipped_blocks
        return self._update_and_choose(participant, max_trials, n_processed, skipped_blocks)

    def reissue(self, block: Block) -> Block:
        """Repeat the choice of a recorded block, to verify the log of a study.

        The result equals `block` if previous blocks, answers, pool and plan are unchanged.
        """
        participant = block.participant
        n_left = self.n_remaining(participant)
        return self._update_and_choose(participant, n_left, block.n_processed, block.skipped_blocks)

    def _update_and_choose(
        self, participant: str, max_trials: int, n_processed: int, skipped_blocks: Sequence[int]
    ) -> Block:
        """Update the posterior with answers, then choose the next trials of a participant.

        A *block* is a group of trials that are chosen together.

        Parameters
        ----------
        participant
            Identifier of the participant.
        max_trials
            Maximum number of trials to choose.
        n_processed
            Number of blocks to use for the posterior, in the order of choice.
        skipped_blocks
            Numbers of the blocks to ignore, because answers are missing.
        """
        self._process_blocks(n_processed, skipped_blocks)  # updates the posterior
        number = len(self.blocks)
        state = policies.PolicyState(
            grid_positions=self._grid_positions,
            preferences=self.pool.preferences,
            available=self._available_pairs(participant),
            weights=self.posterior.weights,
            answer_curves=self.posterior.answer_curves(participant),
        )
        # Each block has its own random stream, so that its choice can be repeated later.
        rng = np.random.default_rng([self.plan.seed, number])
        options = self.plan.trial_selection
        n_left = self.plan.trials - self._n_issued(participant)
        options = replace(options, block_size=min(max_trials, n_left, options.block_size))
        # The propensity of a pair is the probability with which it was chosen.
        values = policies.acquisition_values(options, state)
        pairs, propensities = policies.choose_block(options, state, rng, self._words, values)
        return Block(
            number=number,
            participant=participant,
            pairs=tuple(pairs),
            propensities=tuple(propensities),
            n_available=int((values > -np.inf).sum()),
            n_processed=n_processed,
            # Sentence 1 is shown on the left or on the right at random.
            swapped_sides=tuple((rng.random(len(pairs)) < 0.5).tolist()),
            skipped_blocks=tuple(skipped_blocks),
        )

    def n_remaining(self, participant: str) -> int:
        """Return the number of trials that a participant still has to see.

        The number is 0 if the last block was empty because no pairs were available.
        """
        blocks = self._blocks_by_participant.get(participant, [])
        if blocks and not blocks[-1].pairs:
            return 0
        return self.plan.trials - self._n_issued(participant)

    def pending_blocks(self, participant: str) -> list[Block]:
        """Return the participant's blocks with missing answers, in the order of choice."""
        blocks = self._blocks_by_participant.get(participant, [])
        return [block for block in blocks if not self._is_answered(block)]

    def _available_pairs(self, participant: str) -> BoolArray:
        """Return a mask of the sentence pairs that a participant may still see, shape (P,).

        The caller may change the returned array to mark pairs as used. In adaptive studies all
        participants share one array, because each pair is shown to one participant only.
        """
        key = participant if self.plan.is_fixed else ""
        # Initially, all pairs but the anchors are available.
        after_anchors = np.arange(len(self.pool.pairs)) >= self.plan.anchors
        return self._available.setdefault(key, after_anchors)

    def _n_issued(self, participant: str) -> int:
        return sum(len(block.pairs) for block in self._blocks_by_participant.get(participant, []))

    def _is_answered(self, block: Block) -> bool:
        return all((block.participant, pair) in self.answers for pair in block.pairs)

    def record_block(self, block: Block) -> None:
        """Record that the trials of a block are shown to the participant.

        Parameters
        ----------
        block
            Trials that were chosen together. Blocks are recorded in the order of their numbers.

        Raises
        ------
        InputError
            If the block is not the next one, or contains a pair that is not available.
        """
        if block.number != len(self.blocks):
            raise InputError(
                f"block {block.number} is not the next block, {len(self.blocks)}; record blocks in "
                "the order of issue"
            )
        # Mask of the pairs that the participant may still see; it is changed in place.
        available = self._available_pairs(block.participant)
        for pair in block.pairs:
            if not 0 <= pair < len(available) or not available[pair]:
                raise InputError(
                    f"block {block.number} contains pair {pair}, which is not available; restore "
                    "the pool and the log of the study"
                )
        # Deleted participants share the identifier "" and, in fixed studies, may repeat pairs.
        if block.participant or not self.plan.is_fixed:
            available[list(block.pairs)] = False
        self._issued_pairs.update((block.participant, pair) for pair in block.pairs)
        self._blocks_by_participant.setdefault(block.participant, []).append(block)
        self.blocks.append(block)
        self._skipped_blocks = []  # the recorded block contains the numbers

    def record_answer(self, participant: str, pair: int, rating: float) -> None:
        """Record a participant's rating of a pair; only the first rating of a pair counts.

        Parameters
        ----------
        participant
            Identifier of the participant.
        pair
            Index of the sentence pair in the pool.
        rating
            Rating from -2.5 (strongest preference for sentence 1) to 2.5 (for sentence 2).

        Raises
        ------
        InputError
            If no recorded block shows the pair to the participant, or the rating is not on the
            scale.
        """
        if (participant, pair) not in self._issued_pairs:
            raise InputError(
                f"pair {pair} was not issued to participant {participant!r}; record its block first"
            )
        self.answers.setdefault((participant, pair), self.plan.link.encode_rating(rating))

    def replay(self, blocks: Sequence[Block], ratings: Mapping[tuple[str, int], float]) -> None:
        """Restore the state of a study from its recorded blocks and ratings.

        The posterior is restored as it was when the last block was chosen. Blocks with deleted
        answers are skipped.

        Parameters
        ----------
        blocks
            All blocks (groups of trials chosen together) in the order in which they were chosen.
        ratings
            Rating of each answered trial, by the participant's identifier and the index of the
            sentence pair in the pool.
        """
        for block in blocks:
            self.record_block(block)
        for (participant, pair), rating in ratings.items():
            self.record_answer(participant, pair, rating)
        for block in blocks:
            self._process_blocks(block.n_processed, block.skipped_blocks)

    def _process_blocks(self, n_processed: int, skipped_blocks: Sequence[int]) -> None:
        """Update the posterior with the answers to blocks that have not been processed yet.

        A *block* is a group of trials that were chosen together.

        Parameters
        ----------
        n_processed
            Total number of blocks to process, including those that have been processed before.
        skipped_blocks
            Numbers of blocks to leave out. Blocks with missing answers are left out, too.
        """
        for number in range(self._n_processed, n_processed):
            block = self.blocks[number]  # a group of trials that were chosen together
            if number in skipped_blocks or not self._is_answered(block):
                continue
            for pair, is_swapped in zip(block.pairs, block.swapped_sides, strict=True):
                # In fixed studies, only the first answer to a pair is independent evidence.
                if pair in self._used_pairs:
                    continue
                self._used_pairs.add(pair)
                answer = self.answers[block.participant, pair]
                preferences = self.pool.preferences[pair]
                # The posterior needs answers and preferences by side of the screen. If sentence 2
                # was on the left, reverse the answer indices 0, ..., C - 1 and the preferences.
                if is_swapped:
                    answer = self.plan.link.n_answers - 1 - answer
                    preferences = -preferences
                self.posterior.add_answer(block.participant, preferences, answer)
        self._n_processed = n_processed
