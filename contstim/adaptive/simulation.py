"""Simulation of adaptive studies: what a plan concludes, and after how many participants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit

from contstim.adaptive.conductor import AdaptivePlan, Block, Conductor
from contstim.adaptive.interim import (
    ChosenTrials,
    Conclusion,
    InterimResult,
    analyse_trials,
    draw_conclusions,
)
from contstim.adaptive.policies import Pool
from contstim.arrays import FloatArray
from contstim.errors import InputError, require_integer, require_known
from contstim.progress import track
from contstim.response_model import ResponseModel


def simulate(
    plan: AdaptivePlan,
    pool: Pool,
    truth: str | Sequence[str] | None = None,
    people: ResponseModel | None = None,
    *,
    n_studies: int = 300,
    seconds: float = 8.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate studies by a plan, each until its conclusion or its last participant.

    Blocks are chosen by the conductor that a server uses. Participants come one after the other; a
    study ends as soon as its rule says so.

    Parameters
    ----------
    plan
        The plan, with the link by which participants are assumed to answer.
    pool
        The pairs that may be asked.
    truth
        The model that participants follow; by default each in turn. Several are tied: participants
        follow their mean preference where all of them prefer the same sentence, and nothing
        elsewhere. None of them (an empty sequence): participants follow no model.
    people
        How participants answer; by default as the plan's link assumes.
    n_studies
        Number of studies.
    seconds
        Duration of a trial, for `minutes`.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        One row per study: `truth`; `kind` of the conclusion; `model`, the best one, if any;
        `participants` until then; `minutes` of all of them, anchors included; `most_probable`, the
        model of the largest posterior weight, and that `posterior`; `recovered`, whether it is the
        one that participants follow (False unless there is just one); `false_winner`, whether a
        model is called best that participants do not follow alone.

    Raises
    ------
    InputError
        If the pool lacks a model, or a number is out of range.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> from contstim.adaptive import AdaptivePlan, Pool, Stopping
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0, trials=4, stopping=Stopping(participants=5))
    >>> pool = Pool.from_scores(pairs, scores, plan.link)
    >>> simulate(plan, pool, "contstim:gpt", n_studies=2)[["truth", "kind", "participants"]]
              truth          kind  participants
    0  contstim:gpt  inconclusive             5
    1  contstim:gpt  inconclusive             5
    """
    require_integer("n_studies", n_studies, 1)
    if not seconds > 0:
        raise InputError(f"a trial takes {seconds} seconds; give a number above 0")
    people = people or plan.link.response_model
    given = (truth,) if isinstance(truth, str) else truth
    for name in given or ():
        require_known("model", name, pool.models)
    rows = []
    for number in track(range(n_studies), n_studies, "simulating studies"):
        follow = (pool.models[number % len(pool.models)],) if given is None else tuple(given)
        rng = np.random.default_rng([seed, number])
        preferences = _preferences(pool, follow)
        result, conclusion = _study(replace(plan, seed=number), pool, preferences, people, rng)
        best = conclusion.models[0] if conclusion.kind == "best" else ""
        first = result.models.iloc[int(result.models["posterior"].argmax())]
        trials = result.n_answers + conclusion.n_participants * plan.anchors
        rows.append(
            {
                "truth": " = ".join(follow),
                "kind": conclusion.kind,
                "model": best,
                "participants": conclusion.n_participants,
                "minutes": trials * seconds / 60,
                "most_probable": first["model"],
                "posterior": first["posterior"],
                "recovered": follow == (first["model"],),
                "false_winner": best != "" and follow != (best,),
            }
        )
    return pd.DataFrame(rows)


def _preferences(pool: Pool, follow: Sequence[str]) -> FloatArray:
    """Return the preferences of participants who follow these models, shape (N,)."""
    if not follow:
        return np.zeros(len(pool.pairs))
    g = pool.preferences[:, [pool.models.index(name) for name in follow]]
    agree = np.abs(np.sign(g).sum(axis=1)) == len(follow)
    return np.where(agree, g.mean(axis=1), 0.0)


def simulate_answers(
    conductor: Conductor,
    preferences: FloatArray,
    effects: FloatArray,
    people: ResponseModel,
    rng: np.random.Generator,
    curve: Callable[[FloatArray], FloatArray] = expit,
) -> Iterator[tuple[int, Block, list[float]]]:
    """Let participants answer, one after the other, until the conductor has no more pairs.

    Parameters
    ----------
    conductor
        Issues the blocks, and receives the answers.
    preferences
        Preferences of the participants, shape (N,), in units of g.
    effects
        Effects of the pairs that no model captures, logits, shape (N,).
    people
        How strongly participants follow, lean to a side and lapse.
    rng
        Random generator of the participants.
    curve
        Probability of the right-hand sentence as a function of the leaning, from 0 to 1.

    Yields
    ------
    tuple
        Number of the participant, block, and ratings of its pairs, negative for the pool's
        sentence 1.
    """
    link = conductor.plan.link
    cuts = np.array([-t for t in reversed(link.thresholds)] + [0.0, *link.thresholds])
    for person in range(conductor.plan.stopping.participants):
        slope = people.slope * np.exp(people.slope_sd * rng.normal())
        side = people.side_sd * rng.normal()
        while conductor.n_remaining(str(person)):
            block = conductor.issue(str(person))
            conductor.record_block(block)
            if not block.pairs:
                return
            pairs, sign = list(block.pairs), np.where(block.swapped_sides, -1.0, 1.0)
            leaning = sign * (slope * preferences[pairs] + effects[pairs]) + side
            passes = curve(leaning[:, None] - cuts) > rng.random((len(pairs), 1))
            lapses = rng.random(len(pairs)) < people.lapse
            at_random = rng.integers(link.n_answers, size=len(pairs))
            on_screen = np.where(lapses, at_random, passes.sum(axis=1))
            ratings = (sign * (on_screen / (link.n_answers - 1) * 5 - 2.5)).tolist()
            for pair, rating in zip(block.pairs, ratings, strict=True):
                conductor.record_answer(str(person), pair, rating)
            yield person, block, ratings


def _study(
    plan: AdaptivePlan,
    pool: Pool,
    preferences: FloatArray,
    people: ResponseModel,
    rng: np.random.Generator,
) -> tuple[InterimResult, Conclusion]:
    """Return the interim result and the conclusion where a study ends."""
    conductor = Conductor(plan, pool)
    effects = people.item_sd * rng.normal(size=len(preferences))
    log: list[tuple[float, ...]] = []
    reached: list[Conclusion] = []
    for person, block, ratings in simulate_answers(conductor, preferences, effects, people, rng):
        sign = np.where(block.swapped_sides, -1.0, 1.0)
        for row in zip(block.pairs, sign, sign * ratings, strict=True):
            log.append((person, *row))
        ended = not conductor.n_remaining(str(person))
        if ended and (not plan.stopping.analyses or person + 1 in plan.stopping.analyses):
            reached = draw_conclusions(_chosen_trials(log, pool), plan, after_each=False) or reached
            if reached and reached[-1].stops:
                break
    if not reached:
        raise InputError(
            f"the pool's {len(pool.pairs)} pairs are too few for a participant's {plan.trials} "
            f"trials and {plan.anchors} anchors; give more, or plan fewer trials"
        )
    return analyse_trials(_chosen_trials(log, pool), plan, after_each=False), reached[-1]


def _chosen_trials(log: Sequence[tuple[float, ...]], pool: Pool) -> ChosenTrials:
    """Return simulated answers as those of a table are read."""
    person, pair, sign, rating = map(np.array, zip(*log, strict=True))
    names = [str(k) for k in range(person[-1] + 1)]
    return ChosenTrials(person, names, pair, pair, sign, rating, pool, np.arange(len(person)))
