"""Adaptive studies on paper: what a plan decides, how often wrongly, and after how many people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binomtest

from contstim.adaptive.conduct import AdaptivePlan, Block, Conductor
from contstim.adaptive.policies import Pool
from contstim.adaptive.standing import Standing, Trials, standing_of, verdicts_of
from contstim.adaptive.verdicts import Verdict
from contstim.arrays import FloatArray
from contstim.errors import InputError, require_known, require_whole
from contstim.progress import track
from contstim.response_model import People


def simulate(
    plan: AdaptivePlan,
    pool: Pool,
    truth: str | Sequence[str] | None = None,
    people: People | None = None,
    *,
    n_studies: int = 300,
    seconds: float = 8.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate studies by a plan, each to its verdict or its last participant.

    Blocks are chosen by the conductor that a server has, and verdicts are those of
    `study_standing`. Participants come one after the other; a study ends where its rule first says
    so.

    Parameters
    ----------
    plan
        The plan, and by its link how people are taken to answer.
    pool
        The pairs that may be asked.
    truth
        The model that people follow; by default each in turn. Several are tied: people follow what
        these have in common, their mean preference where all prefer the same sentence and none
        elsewhere, so that whatever is asked their accuracies are expected to be equal. None of
        them (an empty sequence): people follow no model.
    people
        How people answer; by default as the plan's link has it.
    n_studies
        How many.
    seconds
        Of a trial, for `minutes`.
    seed
        Of all that is random.

    Returns
    -------
    DataFrame
        One row a study: `truth`; `kind` of the verdict, ``go on`` where there is none in the end;
        `model`, the best one, if there is one; `participants` until then; `minutes` of all of
        them, anchors included; `likeliest`, the model of the largest posterior weight by then, and
        that `posterior`; `recovered`, whether it is the one that people follow (False where there
        is not just one); `false_winner`, whether a model is called best that people do not follow
        alone.

    Raises
    ------
    InputError
        If a model is not the pool's, or a number makes no sense.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> from contstim.adaptive import AdaptivePlan, Pool
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_set(scores, n=40, time_limit=5)
    >>> plan = AdaptivePlan(anchors=0)
    >>> pool = Pool.of(pairs, scores, plan.link)
    >>> simulate(plan, pool, "contstim:gpt", n_studies=2)[["truth", "kind", "model"]]
              truth   kind model
    0  contstim:gpt  go on
    1  contstim:gpt  go on
    """
    require_whole("n_studies", n_studies, 1)
    if not seconds > 0:
        raise InputError(f"a trial takes {seconds} seconds; give a number above 0")
    people = people or plan.link.people
    given = (truth,) if isinstance(truth, str) else truth
    for name in given or ():
        require_known("model", name, pool.models)
    rows = []
    for number in track(range(n_studies), n_studies, "simulating studies"):
        follow = (pool.models[number % len(pool.models)],) if given is None else tuple(given)
        rng = np.random.default_rng([seed, number])
        felt = _felt(pool, follow)
        standing, settled = _study(replace(plan, seed=number), pool, felt, people, rng)
        best = settled.models[0] if settled.kind == "best" else ""
        first = standing.models.iloc[int(standing.models["posterior"].argmax())]
        trials = standing.n_answers + settled.n_participants * plan.anchors
        rows.append(
            {
                "truth": " = ".join(follow),
                "kind": settled.kind,
                "model": best,
                "participants": settled.n_participants,
                "minutes": trials * seconds / 60,
                "likeliest": first["model"],
                "posterior": first["posterior"],
                "recovered": follow == (first["model"],),
                "false_winner": best != "" and follow != (best,),
            }
        )
    return pd.DataFrame(rows)


def simulated_decisions(
    plan: AdaptivePlan,
    pool: Pool,
    people: People | None = None,
    *,
    n_studies: int = 300,
    seconds: float = 8.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate a plan under the people it states, and under others.

    Parameters
    ----------
    plan, pool, people, n_studies, seconds, seed
        As for `simulate`; so many studies of each row.

    Returns
    -------
    DataFrame
        One row a condition: `people`; shares of studies, `best` (rightly), `false_winner` with the
        ends `false_low` and `false_high` of its exact 95 % interval, `equivalent`, `futile`,
        `go_on`; `recovered`; `above_95` (the largest posterior weight is above .95); and of
        `participants` and `minutes` until the end the median and the quartiles `_low`, `_high`.
    """
    people = people or plan.link.people
    pair = pool.models[:2]
    conditions = {
        "as stated": (None, people),
        "a tenth more lapses": (None, replace(people, lapse=min(1.0, people.lapse + 0.1))),
        "slopes half as steep": (None, replace(people, slope=people.slope / 2)),
        "leanings to a side, 1 logit": (None, replace(people, side_sd=1.0)),
        f"{' and '.join(pair)} tied": (pair, people),
        "no model followed": ((), people),
    }
    rows = []
    for name, (truth, who) in conditions.items():
        studies = simulate(plan, pool, truth, who, n_studies=n_studies, seconds=seconds, seed=seed)
        low, high = binomtest(int(studies["false_winner"].sum()), n_studies).proportion_ci()
        row = {
            "people": name,
            "best": float(((studies["kind"] == "best") & ~studies["false_winner"]).mean()),
            "false_winner": float(studies["false_winner"].mean()),
            "false_low": low,
            "false_high": high,
            **{
                kind.replace(" ", "_"): float((studies["kind"] == kind).mean())
                for kind in ("equivalent", "futile", "go on")
            },
            "recovered": float(studies["recovered"].mean()),
            "above_95": float((studies["posterior"] > 0.95).mean()),
        }
        for column in ("participants", "minutes"):
            ends = studies[column].quantile([0.5, 0.25, 0.75])
            row |= dict(zip((column, f"{column}_low", f"{column}_high"), ends, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def _felt(pool: Pool, follow: Sequence[str]) -> FloatArray:
    """Return what people who follow these models prefer, shape (N,), in units of g."""
    if not follow:
        return np.zeros(len(pool.pairs))
    g = pool.preferences[:, [pool.models.index(name) for name in follow]]
    agree = np.abs(np.sign(g).sum(axis=1)) == len(follow)
    return np.where(agree, g.mean(axis=1), 0.0)


def simulated_answers(
    conductor: Conductor,
    felt: FloatArray,
    effects: FloatArray,
    people: People,
    rng: np.random.Generator,
    curve: Callable[[FloatArray], FloatArray] = expit,
) -> Iterator[tuple[int, Block, list[float]]]:
    """Let people answer, one after the other, what a conductor issues, until it has no more.

    Parameters
    ----------
    conductor
        Gives the blocks, and takes the answers in.
    felt
        What people prefer, shape (N,), in units of g.
    effects
        Of the pairs, what all people see in them and no model does, logits, shape (N,).
    people
        How strongly people follow, lean to a side and lapse; pairs' effects are those given.
    rng
        The generator of all that is random about people.
    curve
        How probable the right-hand sentence is at a leaning, rising from 0 to 1.

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
        while conductor.left(str(person)):
            block = conductor.issue(str(person))
            conductor.record(block)
            if not block.pairs:
                return
            pairs, sign = list(block.pairs), np.where(block.turned, -1.0, 1.0)
            leaning = sign * (slope * felt[pairs] + effects[pairs]) + side
            passes = curve(leaning[:, None] - cuts) > rng.random((len(pairs), 1))
            lapses = rng.random(len(pairs)) < people.lapse
            at_random = rng.integers(link.n_answers, size=len(pairs))
            on_screen = np.where(lapses, at_random, passes.sum(axis=1))
            ratings = (sign * (on_screen / (link.n_answers - 1) * 5 - 2.5)).tolist()
            for pair, rating in zip(block.pairs, ratings, strict=True):
                conductor.answer(str(person), pair, rating)
            yield person, block, ratings


def _study(
    plan: AdaptivePlan, pool: Pool, felt: FloatArray, people: People, rng: np.random.Generator
) -> tuple[Standing, Verdict]:
    """Return how a study stands where its rule first says stop, or at its end, and the verdict."""
    conductor = Conductor(plan, pool)
    effects = people.item_sd * rng.normal(size=len(felt))
    log: list[tuple[float, ...]] = []
    reached: list[Verdict] = []
    for person, block, ratings in simulated_answers(conductor, felt, effects, people, rng):
        sign = np.where(block.turned, -1.0, 1.0)
        on_screen = (sign * ratings).tolist()
        for row in zip(block.pairs, sign, on_screen, block.propensities, strict=True):
            log.append((person, *row, block.number, block.available))
        ended = not conductor.left(str(person))
        if ended and (not plan.stopping.looks or person + 1 in plan.stopping.looks):
            reached = verdicts_of(*_as_read(log, conductor), plan, every=False)
            if reached[-1].stops:
                break
    if not reached:
        raise InputError(
            f"the pool's {len(pool.pairs)} pairs are too few for a participant's {plan.trials} "
            f"trials and {plan.anchors} anchors; give more, or plan fewer trials"
        )
    return standing_of(*_as_read(log, conductor), plan, every=False), reached[-1]


def _as_read(log: Sequence[tuple[float, ...]], conductor: Conductor) -> tuple[Trials, pd.DataFrame]:
    """Return simulated answers as those of a table are read."""
    person, pair, sign, rating, propensity, block, available = map(np.array, zip(*log, strict=True))
    names = [str(k) for k in range(person[-1] + 1)]
    trials = Trials(person, names, pair, pair, sign, rating, conductor.pool, block)
    size = len(conductor.pool.pairs) - conductor.plan.anchors
    drawn = {"block": block, "propensity": propensity, "available": available, "pool": size}
    return trials, pd.DataFrame(drawn)
