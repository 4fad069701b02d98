"""Simulation of adaptive studies, to predict their conclusions and sample sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit

from contstim.adaptive.conclusions import Conclusion
from contstim.adaptive.interim import ChosenTrials, InterimResult, analyse_trials, draw_conclusions
from contstim.adaptive.pool import Pool
from contstim.adaptive.scheduler import AdaptivePlan, Block, TrialScheduler
from contstim.arrays import FloatArray
from contstim.errors import InputError, format_count, require_integer, require_known
from contstim.progress import track
from contstim.response_model import ResponseModel


def simulate(
    plan: AdaptivePlan,
    pool: Pool,
    truth: str | Sequence[str] | None = None,
    response_model: ResponseModel | None = None,
    *,
    n_studies: int = 300,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate adaptive studies until they stop or reach the maximum number of participants.

    Simulated participants take part one after the other, and answer according to a known model.
    Trials are chosen as in real studies, based on previous answers.

    Parameters
    ----------
    plan
        Plan of the study.
    pool
        Sentence pairs from which trials are chosen.
    truth
        Name of the model that participants follow; by default each model in turn. If several are
        named, participants follow their mean preference on pairs on which all of them agree, and
        have no preference on other pairs. With an empty sequence, they follow no model.
    response_model
        Distribution of answers; by default ``plan.link.response_model``.
    n_studies
        Number of studies.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        One row per study with the columns

        - `truth`: names of the models that participants follow;
        - `kind`: conclusion, which is ``best``, ``equivalent``, ``inconclusive`` or ``continue``;
        - `model`: best model according to the conclusion, if any;
        - `participants`: number of participants;
        - `most_probable` and `posterior`: model with the highest posterior probability, and this
          probability;
        - `recovered`: whether the most probable model is the only true one;
        - `false_winner`: whether there is a best model that is not the only true one.

    Raises
    ------
    InputError
        If `truth` is not in the pool, or a number is out of range.

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
    response_model = response_model or plan.link.response_model
    named_models = (truth,) if isinstance(truth, str) else truth
    for name in named_models or ():
        require_known("model", name, pool.models)
    rows = []
    for number in track(range(n_studies), n_studies, "simulating studies"):
        model_in_turn = pool.models[number % len(pool.models)]
        true_models = (model_in_turn,) if named_models is None else tuple(named_models)
        preferences = _mean_preferences(pool, true_models)
        rng = np.random.default_rng([seed, number])
        result, conclusion = _simulate_study(
            replace(plan, seed=number), pool, preferences, response_model, rng
        )
        best = conclusion.models[0] if conclusion.kind == "best" else ""
        most_probable = result.models.iloc[int(result.models["posterior"].argmax())]
        rows.append(
            {
                "truth": " = ".join(true_models),
                "kind": conclusion.kind,
                "model": best,
                "participants": conclusion.n_participants,
                "most_probable": most_probable["model"],
                "posterior": most_probable["posterior"],
                "recovered": true_models == (most_probable["model"],),
                "false_winner": best != "" and true_models != (best,),
            }
        )
    return pd.DataFrame(rows)


def _mean_preferences(pool: Pool, models: tuple[str, ...]) -> FloatArray:
    """Return the mean preference of some models for sentence 2 of each pair, shape (P,).

    The preference is 0 for pairs on which the models disagree. Without models, it is 0 for all
    pairs.
    """
    if not models:
        return np.zeros(len(pool.pairs))
    preferences = pool.preferences[:, [pool.models.index(name) for name in models]]
    is_unanimous = np.abs(np.sign(preferences).sum(axis=1)) == len(models)
    return np.where(is_unanimous, preferences.mean(axis=1), 0.0)


def simulate_answers(
    scheduler: TrialScheduler,
    preferences: FloatArray,
    item_effects: FloatArray,
    response_model: ResponseModel,
    rng: np.random.Generator,
    choice_curve: Callable[[FloatArray], FloatArray] = expit,
) -> Iterator[tuple[int, Block, list[float]]]:
    """Simulate the answers of participants, who take part one after the other.

    The simulation ends after the maximum number of participants of the stopping rule, or when no
    pairs are left.

    Parameters
    ----------
    scheduler
        Scheduler that chooses blocks of trials; the answers are recorded in it.
    preferences : (P,) array
        Participants' mean preferences g for sentence 2.
    item_effects : (P,) array
        Effects of the pairs in logits that no model predicts.
    response_model
        Distributions of slopes, side biases and lapses.
    rng
        Random number generator.
    choice_curve
        Probability of choosing the right-hand sentence as a function of the logit.

    Yields
    ------
    participant : int
        Number of the participant, from 0.
    block : Block
        Trials that were chosen together.
    ratings : list of float
        Rating of each trial, negative for sentence 1 and positive for sentence 2.
    """
    link = scheduler.plan.link
    for participant in range(scheduler.plan.stopping.participants):
        name = str(participant)
        # The slope states how strongly preferences determine choices; log-normal distribution.
        slope = response_model.slope * np.exp(response_model.slope_sd * rng.normal())
        side_bias = response_model.side_sd * rng.normal()
        while scheduler.n_remaining(name):
            block = scheduler.choose_next_block(name)
            scheduler.record_block(block)
            if not block.pairs:
                return  # no pairs are left
            pairs = list(block.pairs)
            # 1 if sentence 2 is on the right, -1 if it is on the left.
            side_sign = np.where(block.swapped_sides, -1.0, 1.0)
            # Logits of choosing the right-hand sentence.
            logits = side_sign * (slope * preferences[pairs] + item_effects[pairs]) + side_bias
            # Cumulative link model: the answer is the number of cut points that are exceeded.
            exceedances = choice_curve(logits[:, None] - link.cut_points)
            n_exceeded = (exceedances > rng.random((len(pairs), 1))).sum(axis=1)
            # In a lapse, the participant answers at random.
            is_lapse = rng.random(len(pairs)) < response_model.lapse
            random_answers = rng.integers(link.n_answers, size=len(pairs))
            answers = np.where(is_lapse, random_answers, n_exceeded)
            # Answers from 0 (left) to C - 1 become ratings from -2.5 to 2.5. A positive rating is
            # then a preference for the right-hand sentence, and finally for sentence 2.
            screen_ratings = answers / (link.n_answers - 1) * 5 - 2.5
            ratings = (side_sign * screen_ratings).tolist()
            for pair, rating in zip(pairs, ratings, strict=True):
                scheduler.record_answer(name, pair, rating)
            yield participant, block, ratings


def _simulate_study(
    plan: AdaptivePlan,
    pool: Pool,
    preferences: FloatArray,
    response_model: ResponseModel,
    rng: np.random.Generator,
) -> tuple[InterimResult, Conclusion]:
    """Simulate one study until the stopping rule is satisfied or no participants are left.

    Parameters
    ----------
    plan, pool
        Plan of the study, and the sentence pairs from which trials are chosen.
    preferences : (P,) array
        Participants' mean preferences for sentence 2.
    response_model
        Distributions of slopes, side biases, pair effects and lapses.
    rng
        Random number generator.

    Returns
    -------
    result : InterimResult
        Analysis of all answers.
    conclusion : Conclusion
        Conclusion at the end of the study.
    """
    scheduler, analyses = TrialScheduler(plan, pool), plan.stopping.analyses
    # Random effects of the sentence pairs, which no model predicts, for the whole study.
    item_effects = response_model.item_sd * rng.normal(size=len(preferences))
    log: list[tuple[float, ...]] = []
    conclusion: Conclusion | None = None
    for participant, block, ratings in simulate_answers(
        scheduler, preferences, item_effects, response_model, rng
    ):
        # Log ratings by side: negative for the left-hand sentence, positive for the right-hand one.
        side_signs = np.where(block.swapped_sides, -1.0, 1.0)
        for pair, sign, rating in zip(block.pairs, side_signs, ratings, strict=True):
            log.append((participant, pair, sign, sign * rating))
        # Apply the stopping rule when a participant has finished: after each participant or, if
        # interim analyses are prespecified, after these numbers of participants.
        has_finished = not scheduler.n_remaining(str(participant))
        if has_finished and (not analyses or participant + 1 in analyses):
            conclusions = draw_conclusions(collect_trials(log, pool), plan, last_only=True)
            conclusion = conclusions[-1] if conclusions else conclusion
            if conclusion is not None and conclusion.stops:
                break
    if conclusion is None:
        raise InputError(
            f"the pool has {format_count(len(pool.pairs), 'pair')}, too few for the {plan.trials} "
            f"trials and {plan.anchors} anchors of a participant; give more pairs or plan fewer "
            "trials"
        )
    return analyse_trials(collect_trials(log, pool), plan, last_only=True), conclusion


def collect_trials(log: Sequence[tuple[float, ...]], pool: Pool) -> ChosenTrials:
    """Convert the log of a simulated study to the input of `analyse_trials`.

    Parameters
    ----------
    log
        Answers, each a tuple of four numbers: participant, pair in the pool, 1 if sentence 1 was on
        the left or -1 if it was on the right, and rating (negative for the left-hand sentence).
    pool
        Sentence pairs and the preferences of the models.
    """
    participant, pair, side_sign, screen_rating = map(np.array, zip(*log, strict=True))
    item = pair  # each pair is a separate item
    arrival = np.arange(len(participant))
    names = [str(number) for number in range(participant[-1] + 1)]
    return ChosenTrials(participant, pair, item, side_sign, screen_rating, arrival, names, pool)
