"""Conducting an adaptive study: what is issued to whom, and what is known when it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.policies import (
    PolicyOptions,
    PolicyState,
    Pool,
    acquisition,
    choose_block,
    grid_positions,
)
from contstim.adaptive.posterior import Link, ModelPosterior
from contstim.arrays import BoolArray, FloatArray
from contstim.display import displayable, format_html
from contstim.errors import InputError
from contstim.evaluation.stopping import Stopping
from contstim.settings import NonNegativeInt, PositiveInt, Seed, settings
from contstim.text.languages import language_from_script

_AT_ONCE = 3  # blocks whose answers are taken in when another is issued


@settings
class AdaptivePlan:
    """What is fixed before an adaptive study begins.

    Attributes
    ----------
    trial_selection, link, stopping
        How trials are chosen, how participants are assumed to answer, and when the study may stop.
    trials
        Number of chosen trials of each participant.
    anchors
        Number of further pairs that everybody is asked.
    max_pending
        A block without all its answers delays those issued after it until this number of blocks
        has been issued; then it is skipped.
    auto_close
        Whether the server admits no more participants once the rule says stop.
    seed
        Random seed of all choices.

    Examples
    --------
    >>> plan = AdaptivePlan(trials=30, stopping=Stopping(participants=60))
    >>> plan.trial_selection.policy, plan.stopping.participants, plan.anchors
    ('information', 60, 24)
    """

    trial_selection: PolicyOptions = PolicyOptions()
    link: Link = Link()
    stopping: Stopping = Stopping()
    trials: Annotated[int, Field(ge=1, le=5000)] = 40
    anchors: NonNegativeInt = 24
    max_pending: PositiveInt = 200
    auto_close: bool = False
    seed: Seed = 0

    @property
    def design(self) -> str:
        """``fixed`` or ``adaptive``."""
        return "fixed" if self.trial_selection.implementation.is_fixed else "adaptive"

    def _repr_html_(self) -> str:
        """Return the fields, as HTML for notebooks."""
        return format_html(self)


@displayable
@dataclass(frozen=True)
class Block:
    """Trials issued to a participant at once.

    Attributes
    ----------
    number
        From 0, in the order of issue.
    participant
        Who gets it.
    pairs, propensities
        Numbers of the pool's pairs, and how probable each choice was, given those before.
    n_available
        Number of pairs that could be chosen when the block was begun.
    version
        Number of first blocks whose answers the policy knew, except skipped ones.
    swapped_sides
        Whether sentence 2 is shown on the left.
    skipped_blocks
        Blocks that were skipped since the block before.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0)
    >>> block = Conductor(plan, Pool.from_scores(pairs, scores, plan.link)).issue("p1")
    >>> block.number, block.participant, len(block.pairs), block.n_available
    (0, 'p1', 5, 40)
    """

    number: int
    participant: str
    pairs: tuple[int, ...]
    propensities: tuple[float, ...]
    n_available: int
    version: int
    swapped_sides: tuple[bool, ...]
    skipped_blocks: tuple[int, ...] = ()


class Conductor:
    """Issues blocks and takes answers; the same log gives the same state, to the last bit.

    Answers are taken in by the order of issue, not of arrival: the first answers in are those of
    the fastest people. A block is taken in when all blocks before it are, or were passed over.

    Parameters
    ----------
    plan
        The plan.
    pool
        The pairs; the first `plan.anchors` of them are anchors, and never issued in blocks.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0)
    >>> conductor = Conductor(plan, Pool.from_scores(pairs, scores, plan.link))
    >>> block = conductor.issue("p1")
    >>> conductor.record_block(block)
    >>> for pair in block.pairs:
    ...     conductor.record_answer("p1", pair, rating=2.5)
    >>> len(conductor.answers)
    5
    """

    def __init__(self, plan: AdaptivePlan, pool: Pool) -> None:
        if plan.anchors >= len(pool.pairs):
            raise InputError(
                f"{plan.anchors} anchors leave none of the pool's {len(pool.pairs)} pairs to "
                "choose; give fewer, or a larger pool"
            )
        self.plan, self.pool = plan, pool
        self.posterior = ModelPosterior(plan.link, len(pool.models), plan.trials)
        self.blocks: list[Block] = []
        self.answers: dict[tuple[str, int], int] = {}  # by participant and pair
        self._version = 0  # blocks that are taken in
        self._places = grid_positions(pool.preferences, self.posterior.quadrature)
        self._available: dict[str, BoolArray] = {}  # by whom a pair is asked once, see `_open_to`
        self._asked: set[tuple[str, int]] = set()  # pairs of the blocks, by participant
        self._learnt: set[int] = set()  # pairs whose first answer the posterior has
        self._of: dict[str, list[Block]] = {}
        self._skipped_blocks: list[int] = []  # since the block that was last recorded
        both = (pool.pairs["sentence_1"] + " " + pool.pairs["sentence_2"]).astype(str)
        self._words = [frozenset(language_from_script(text).split(text.lower())) for text in both]

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {len(self.pool.models)} models and {len(self.pool.pairs)} "
            f"pairs; blocks issued: {len(self.blocks)}, answers: {len(self.answers)}>"
        )

    def _repr_html_(self) -> str:
        """Return the weights of the models by now, which notebooks show."""
        weights = pd.DataFrame({"model": self.pool.models, "weight": self.weights})
        text = repr(self).strip("<>")
        return f"<p>{text}</p>{weights.to_html(index=False, float_format='{:.3f}'.format)}"

    def process_answers(self, most: int = 1) -> None:
        """Take in the answers to so many blocks, those that are due and have all of them."""
        version = self._version
        last = min(len(self.blocks), version + most)
        while version < last and self._answered(self.blocks[version]):
            version += 1
        self._update_posterior(version, ())

    def issue(self, participant: str, most: int = 5000) -> Block:
        """Choose a block for a participant, who has answered or not what was issued before.

        It has `most` trials at most. The block counts as issued once it is recorded: write it
        down first, then call `record`. Of answers that are due, those to `_AT_ONCE` blocks are
        taken in: when the slowest of many people answers, many are, and nobody is to wait for them.

        Raises
        ------
        InputError
            If the participant was issued the plan's trials already.
        """
        if self._issued(participant) >= self.plan.trials:
            raise InputError(
                f"participant {participant!r} was issued the plan's {self.plan.trials} trials "
                "already; plan more, or end the session"
            )
        number, version = len(self.blocks), self._version
        skipped_blocks = list(self._skipped_blocks)
        before = self.blocks[-1].version if self.blocks else 0
        while version < min(number, before + _AT_ONCE):
            block = self.blocks[version]
            if not self._answered(block):
                if version + self.plan.max_pending > number:
                    break
                skipped_blocks.append(version)
            version += 1
        self._skipped_blocks = skipped_blocks
        return self._chosen(participant, most, version, skipped_blocks)

    def reissue(self, block: Block) -> Block:
        """Choose the next block again, by what `block` was chosen by.

        It is equal to `block`, to the last bit of its propensities, if blocks, answers, pool and
        plan are those by which `block` was chosen.
        """
        left = self.n_remaining(block.participant)
        return self._chosen(block.participant, left, block.version, block.skipped_blocks)

    def _chosen(
        self, participant: str, most: int, version: int, skipped_blocks: Sequence[int]
    ) -> Block:
        self._update_posterior(version, skipped_blocks)
        number = len(self.blocks)
        weights, curves = self.posterior.weights, self.posterior.answer_curves(participant)
        available = self._open_to(participant)
        state = PolicyState(self._places, self.pool.preferences, available, weights, curves)
        rng = np.random.default_rng([self.plan.seed, number])
        most = min(most, self.plan.trials - self._issued(participant))
        choosing = replace(
            self.plan.trial_selection, block_size=min(most, self.plan.trial_selection.block_size)
        )
        values = acquisition(choosing, state)
        pairs, propensities = choose_block(choosing, state, rng, self._words, values)
        return Block(
            number,
            participant,
            tuple(pairs),
            tuple(propensities),
            int((values > -np.inf).sum()),
            version,
            tuple((rng.random(len(pairs)) < 0.5).tolist()),
            tuple(skipped_blocks),
        )

    def n_remaining(self, participant: str) -> int:
        """Return how many trials a participant may still be issued; 0 once the pool has run out."""
        blocks = self._of.get(participant, [])
        if blocks and not blocks[-1].pairs:
            return 0
        return self.plan.trials - self._issued(participant)

    def _open_to(self, participant: str) -> BoolArray:
        """Return which pairs may be asked: nobody was asked them, or, laid out, not this one."""
        whose = participant if self.plan.trial_selection.implementation.is_fixed else ""
        fresh = np.arange(len(self.pool.pairs)) >= self.plan.anchors
        return self._available.setdefault(whose, fresh)

    def _issued(self, participant: str) -> int:
        return sum(len(block.pairs) for block in self._of.get(participant, []))

    def pending_blocks(self, participant: str) -> list[Block]:
        """Return the blocks of a participant that wait for answers, in the order of issue."""
        blocks = self._of.get(participant, [])
        return [block for block in blocks if not self._answered(block)]

    def _answered(self, block: Block) -> bool:
        return all((block.participant, pair) in self.answers for pair in block.pairs)

    def record_block(self, block: Block) -> None:
        """Take an issued block in, just made or read from a log.

        Raises
        ------
        InputError
            If it is not the next one, or a pair of it was issued already.
        """
        if block.number != len(self.blocks):
            raise InputError(f"block {block.number} comes where {len(self.blocks)} is due")
        available = self._open_to(block.participant)
        for pair in block.pairs:
            if not 0 <= pair < len(available) or not available[pair]:
                raise InputError(f"block {block.number} issues pair {pair}, which is not available")
        if block.participant or not self.plan.trial_selection.implementation.is_fixed:
            available[list(block.pairs)] = False
        self._asked.update((block.participant, pair) for pair in block.pairs)
        self._of.setdefault(block.participant, []).append(block)
        self.blocks.append(block)
        self._skipped_blocks = []

    def record_answer(self, participant: str, pair: int, rating: float) -> None:
        """Take a participant's answer to an issued pair in; what comes twice counts once.

        Raises
        ------
        InputError
            If the pair was not issued to the participant or there is no such rating.
        """
        if (participant, pair) not in self._asked:
            raise InputError(f"pair {pair} was not issued to participant {participant!r}")
        self.answers.setdefault((participant, pair), self.plan.link.encode_rating(rating))

    def replay(self, blocks: Sequence[Block], answers: dict[tuple[str, int], float]) -> None:
        """Take a whole log in: blocks in the order of issue, ratings by participant and pair.

        The posterior is then what it was when the last block was issued. A block whose answers were
        deleted since is passed over.
        """
        for block in blocks:
            self.record_block(block)
        for (participant, pair), rating in answers.items():
            self.record_answer(participant, pair, rating)
        for block in blocks:
            self._update_posterior(block.version, block.skipped_blocks)

    @property
    def weights(self) -> FloatArray:
        """The posterior weights of the models, as the last block's choice knew them."""
        return self.posterior.weights

    def _update_posterior(self, version: int, skipped_blocks: Sequence[int]) -> None:
        for number in range(self._version, version):
            block = self.blocks[number]
            if number in skipped_blocks or not self._answered(block):
                continue
            for pair, swapped_sides in zip(block.pairs, block.swapped_sides, strict=True):
                if pair in self._learnt:  # laid out: others answered it, which is no new pair
                    continue
                self._learnt.add(pair)
                answer = self.answers[block.participant, pair]
                preferences = self.pool.preferences[pair]
                if swapped_sides:  # as seen on the screen
                    preferences, answer = -preferences, self.plan.link.n_answers - 1 - answer
                self.posterior.add_answer(block.participant, preferences, answer)
        self._version = version
