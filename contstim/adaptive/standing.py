"""How a study stands: posterior, fit and verdict from its choices so far; and its replay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.policies import Pool, View, choose_block, places_of
from contstim.adaptive.posterior import ModelPosterior, Nodes, softmax
from contstim.adaptive.sequences import fit_e_value
from contstim.adaptive.verdicts import Verdict, person_means, verdicts
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError, NoDataError
from contstim.tables import CATCH, FILLERS

#: Conditions whose trials say nothing of the models.
NOT_COUNTED = ("anchor", "practice", *CATCH, *FILLERS)
_COIN = 0.1  # share of a coin in predictions, which bounds log scores


@displayed
@dataclass(frozen=True, eq=False)
class Standing:
    """What a study's choices say by now, in three ways.

    Attributes
    ----------
    models
        One row per model: `model`, `posterior` (weight), `log_e_against` (log e-value against "this
        model with this link"), `accuracy` (mean over the participants counted, NaN without
        any).
    verdicts
        After each participant counted; empty while there is none.
    n_answers, n_counted
        Answers to chosen trials, and those of them that the posterior counts: the first to each
        pair.
    n_participants
        Who entered; who of them is counted, `verdicts` says.
    """

    models: pd.DataFrame
    verdicts: list[Verdict]
    n_answers: int
    n_counted: int
    n_participants: int

    @property
    def stops(self) -> bool:
        """Whether the study may stop by the rule of its plan."""
        return bool(self.verdicts) and self.verdicts[-1].stops

    @property
    def settled(self) -> Verdict | None:
        """The first verdict by which the study could have stopped; None: not yet."""
        return next((verdict for verdict in self.verdicts if verdict.stops), None)

    @property
    def pairs(self) -> pd.DataFrame:
        """Differences of every two models by now, see `Verdict.pairs`; empty without verdicts."""
        return self.verdicts[-1].pairs if self.verdicts else pd.DataFrame()

    @property
    def sentences(self) -> list[str]:
        """Posterior, fit and verdict, a sentence each."""
        weights = self.models.sort_values("posterior", ascending=False, kind="stable")
        posterior = zip(weights["model"], weights["posterior"], strict=True)
        shown = ", ".join(f"{model} {weight:.3f}" for model, weight in posterior)
        against = zip(self.models["model"], self.models["log_e_against"], strict=True)
        fits = ", ".join(f"{model} {value:.1f}" for model, value in against)
        last = self.verdicts[-1].text if self.verdicts else "go on: nobody has finished"
        return [
            f"posterior: {shown} (by the first answers to {self.n_counted} pairs)",
            "the posterior supposes that one of the models is right; where two are tied, it comes "
            "to favour either by chance, and only the verdict tells a tie from a difference",
            f"fit: log e-values against each model with this link: {fits}",
            f"verdict: {last}",
        ]

    def __str__(self) -> str:
        lines = [f"{self.n_answers} answers of {self.n_participants} participants", *self.sentences]
        since = []
        for place, row in enumerate(self.pairs.to_dict("records")):
            model_1, model_2, apart = row["model_1"], row["model_2"], row["apart"]
            ends = f"({row['low']:+.3f} to {row['high']:+.3f})"
            difference = f"{model_1} - {model_2}: {row['difference']:+.3f}"
            lines.append(f"  {difference} {ends}{' apart' if apart else ''}")
            if apart:
                first = next(v for v in self.verdicts if v.pairs["apart"].iloc[place])
                since.append(f"{model_1} and {model_2} after {first.n_participants}")
        if since:
            lines.append(f"  first apart: {', '.join(since)} participants")
        if self.settled is not None:
            n = self.settled.n_participants
            people = f"{n} participant{'s' * (n != 1)}"
            lines.append(f"could have stopped after {people}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Trials:
    """Chosen trials in the order of issue: T rows and the pool of their pairs."""

    person: IntArray
    names: list[str]
    pair: IntArray
    item: IntArray
    sign: FloatArray  # -1 where the pool's sentence 2 stood on the left, or was called sentence 1
    rating: FloatArray  # as the trial's row has it
    pool: Pool
    rows: IntArray

    @property
    def preferences(self) -> FloatArray:
        """The models' preferences for what was on the right, shape (T, M)."""
        return self.sign[:, None] * self.pool.preferences[self.pair]

    @property
    def most(self) -> int:
        """The most trials of a participant."""
        return int(np.bincount(self.person).max())

    @property
    def accuracy(self) -> FloatArray:
        """Whether the choice is the one that each model prefers, ties counting half."""
        return (np.sign(self.preferences) * np.sign(self.rating)[:, None] + 1) / 2


def most_trials(choices: pd.DataFrame) -> int:
    """Return the most chosen trials that a participant has answered, 1 if there are none."""
    own = choices[is_chosen(choices)]
    return int(own.groupby("participant").size().max()) if len(own) else 1


def is_chosen(choices: pd.DataFrame) -> BoolArray:
    """Return which rows are answers to chosen trials, or in a fixed study to those of its pairs."""
    for column in ("participant", "sentence_1", "sentence_2", "rating"):
        if column not in choices:
            raise InputError(f"the choices have no column {column!r}; give one row per trial")
    counted = pd.to_numeric(choices["rating"], errors="coerce").fillna(0).to_numpy() != 0
    if "condition" in choices:
        counted &= ~choices["condition"].isin(NOT_COUNTED).to_numpy()
    if "expected" in choices:  # catch trials, whatever their condition is called
        counted &= choices["expected"].isna().to_numpy()
    return np.asarray(counted)


def ordered_pairs(choices: pd.DataFrame) -> tuple[pd.DataFrame, BoolArray]:
    """Return each row's two sentences in one order, and in which rows they were exchanged."""
    given = choices[["sentence_1", "sentence_2"]].astype(str)
    swapped = np.asarray(given["sentence_1"] > given["sentence_2"])
    given[swapped] = given.loc[swapped, ["sentence_2", "sentence_1"]].to_numpy()
    return given, swapped


def _trials(choices: pd.DataFrame, log_probs: pd.DataFrame, plan: AdaptivePlan) -> Trials:
    rows = np.flatnonzero(is_chosen(choices))
    if not len(rows):
        raise NoDataError("there are no answers to chosen trials yet; wait for some")
    if "block" in choices:
        block = pd.to_numeric(choices["block"], errors="coerce").to_numpy(dtype=np.float64)[rows]
        if np.isnan(block).any():
            raise InputError("a chosen trial has no block number; fill in the column block")
        rows = rows[np.argsort(block, kind="stable")]
    table = choices.iloc[rows]
    ordered, swapped = ordered_pairs(table)
    pair, keys = pd.factorize(pd.MultiIndex.from_frame(ordered))
    pairs = pd.DataFrame(list(keys), columns=["sentence_1", "sentence_2"])
    sign = np.where(swapped, -1.0, 1.0)
    rating = table["rating"].to_numpy(dtype=np.float64)
    if "side_1" in table:
        left = (table["side_1"] == "right").to_numpy()
        sign, rating = np.where(left, -sign, sign), np.where(left, -rating, rating)
    person, names = pd.factorize(table["participant"].astype(str))
    return Trials(
        np.asarray(person, dtype=np.int64),
        [str(name) for name in names],
        np.asarray(pair, dtype=np.int64),
        _items(table, pair),
        sign,
        rating,
        Pool.of(pairs, log_probs, plan.link),
        rows,
    )


def _items(table: pd.DataFrame, pair: IntArray) -> IntArray:
    """Return the code of each trial's item, its pair where the table names none."""
    own = pd.Series([("pair", number) for number in pair.tolist()], index=table.index)
    if "item" in table:
        unnamed = table["item"].isna() | (table["item"] == "")
        own = own.where(unnamed, [("item", name) for name in table["item"]])
    return np.asarray(pd.factorize(own)[0], dtype=np.int64)


def study_standing(
    choices: pd.DataFrame, log_probs: pd.DataFrame, plan: AdaptivePlan, every: bool = True
) -> Standing:
    """Say how a study stands.

    Parameters
    ----------
    choices
        One row per trial and participant: ``participant``, ``sentence_1``, ``sentence_2`` and
        ``rating``; where there are such ``condition`` (trials of `NOT_COUNTED` are left out),
        ``expected`` (those that have it, catch trials, are left out too),
        ``item`` (the same for pairs that were made of one another), ``block`` (the order of issue,
        failing which rows are in order), ``side_1`` (where sentence 1 stood, failing which leanings
        are taken to be to sentence 2), and, to speak of the pool, ``propensity``,
        ``available`` and ``pool`` (how many pairs could be drawn at first, anchors
        left out).
    log_probs
        Shape (S, M), as for `Pool.of`.
    plan
        What was planned.
    every
        Whether verdicts are asked for after each participant, or only the last.

    Raises
    ------
    InputError
        If there are no answers, or columns or scores are missing.

    Notes
    -----
    The verdict counts participants in the order in which they entered, up to the first who has not
    finished, unless so many entered since that they must have left (`AdaptivePlan.together`).
    """
    trials = _trials(choices, log_probs, plan)
    return standing_of(trials, choices.iloc[trials.rows], plan, every)


def standing_of(
    trials: Trials, table: pd.DataFrame, plan: AdaptivePlan, every: bool = True
) -> Standing:
    """Say how a study stands by its chosen trials, whose `table` tells how each was drawn."""
    models = list(trials.pool.models)
    answers = np.array([plan.link.answer_of(r) for r in trials.rating.tolist()])
    g = trials.preferences
    new = np.sort(np.unique(trials.pair, return_index=True)[1]).tolist()
    # One alternative more: people follow what the models have in common.
    posterior = ModelPosterior(replace(plan.link, prior=()), len(models) + 1, trials.most)
    for t in new:
        posterior.add(int(trials.person[t]), np.append(g[t], g[t].mean()), int(answers[t]))
    evidence = posterior.log_evidence
    weights = softmax(np.log(plan.link.weights_of(len(models)) + 1e-300) + evidence[:-1])
    even = np.full(len(evidence), -np.log(len(evidence)))
    e_values = [fit_e_value(evidence, even, model) for model in posterior.log_likelihood[:-1]]
    reached = verdicts_of(trials, table, plan, every)
    table = pd.DataFrame({"model": models, "posterior": weights, "log_e_against": e_values})
    table["accuracy"] = np.nan
    counted = _counted(trials.person, plan)
    if counted.any():
        means = person_means(trials.person[counted], trials.accuracy[counted])
        table["accuracy"] = means.mean(axis=0)
    return Standing(table, reached, len(answers), len(new), len(trials.names))


def verdicts_of(
    trials: Trials, table: pd.DataFrame, plan: AdaptivePlan, every: bool = True
) -> list[Verdict]:
    """Return the verdicts of `standing_of` alone, none while nobody has finished."""
    answers = np.array([plan.link.answer_of(r) for r in trials.rating.tolist()])
    scores, bounds = _scores(trials, answers, plan)
    if plan.stopping.over == "pool":
        scores, bounds = _over_pool(table, scores, bounds, plan)
    counted = _counted(trials.person, plan)
    if not counted.any():
        return []
    person, item, models = trials.person[counted], trials.item[counted], list(trials.pool.models)
    return verdicts(person, scores[counted], models, plan.stopping, bounds, every, item)


def _scores(
    trials: Trials, answers: IntArray, plan: AdaptivePlan
) -> tuple[FloatArray, tuple[float, float]]:
    """Return the models' scores of the answers, shape (T, M), and bounds of their differences."""
    if plan.stopping.measure == "accuracy":
        return trials.accuracy, (-1.0, 1.0)
    # Predicted by the link as it was before the study, the same for everybody.
    nodes, g = Nodes(plan.link, 1), trials.preferences
    slopes = np.exp(nodes.log_prior)[None]
    state = np.broadcast_to(nodes.weights, (1, len(nodes.log_prior), len(nodes.weights)))
    curve = nodes.curves(state, slopes)[0].astype(np.float64)
    predicted = np.empty(g.shape)
    for answer in range(len(curve)):
        given = answers == answer
        predicted[given] = np.interp(g[given], nodes.grid, curve[answer])
    coin = _COIN / len(curve)
    most = float(np.log((1 - _COIN + coin) / coin))
    return np.log((1 - _COIN) * predicted + coin), (-most, most)


def _over_pool(
    table: pd.DataFrame, scores: FloatArray, bounds: tuple[float, float], plan: AdaptivePlan
) -> tuple[FloatArray, tuple[float, float]]:
    for column in ("propensity", "available", "pool"):
        if column not in table:
            raise InputError(
                f"the choices have no column {column!r}, without which nothing can be said about "
                "the pool; give stopping.over = 'asked'"
            )
    propensity, available, size = (
        pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
        for name in ("propensity", "available", "pool")
    )
    epsilon = plan.choosing.at_random
    enough = propensity >= epsilon / available * (1 - 1e-9)
    if not enough.all():
        row = int(np.argmin(enough))
        raise InputError(
            f"propensity {propensity[row]:g} is below choosing.epsilon / available = "
            f"{epsilon / available[row]:g}; give the epsilon that the study had"
        )
    if "block" in table:  # so few pairs had been issued before
        before = pd.to_numeric(table["block"]).to_numpy(dtype=np.float64) * plan.choosing.block
        if (size - available > before).any():
            row = int(np.argmax(size - available - before))
            raise InputError(
                f"pool is {size[row]:g} and available is {available[row]:g}, when at most "
                f"{before[row]:g} pairs had been issued; give as pool the pairs that could be "
                "drawn at first, without anchors"
            )
    return pool_scores(scores, propensity, size), (bounds[0] / epsilon, bounds[1] / epsilon)


def pool_scores(
    scores: FloatArray, propensities: FloatArray, size: FloatArray | float
) -> FloatArray:
    """Return values whose mean is an unbiased estimate of the mean score over the pool.

    Parameters
    ----------
    scores
        Of answers, in the order of issue, each pair once, shape (T, M).
    propensities
        Of the trials, given those before, shape (T,).
    size
        Pairs that could be drawn at first, N; anchors could not.

    Returns
    -------
    array
        (Σ_{s<t} y_s + y_t / π_t) / N, shape (T, M): what is asked already is known, what is left is
        estimated by the trial drawn from it (Horvitz and Thompson 1952; Farquhar, Gal and
        Rainforth 2021, arXiv 2101.11665).
    """
    before = scores.cumsum(axis=0) - scores
    return np.asarray((before + scores / propensities[:, None]) / np.reshape(size, (-1, 1)))


def _counted(person: IntArray, plan: AdaptivePlan) -> BoolArray:
    """Return which trials count: of participants in order, up to the first who is still at it."""
    counts = np.bincount(person)
    done = (counts >= plan.trials) | (np.arange(len(counts)) < len(counts) - plan.together)
    last = int(np.argmin(done)) if not done.all() else len(done)
    return np.asarray(person < last)


def replay(
    choices: pd.DataFrame, log_probs: pd.DataFrame, plan: AdaptivePlan
) -> tuple[pd.DataFrame, Standing]:
    """Ask a finished study's participants again, by the plan's policy, what they have answered.

    Parameters
    ----------
    choices, log_probs
        As for `study_standing`.
    plan
        Its policy chooses `trials` of each participant's own trials, pairs that were asked of
        nobody first.

    Returns
    -------
    tuple
        The rows that were asked, in order, with ``block`` and ``propensity``, and how the study
        would have stood.

    Raises
    ------
    InputError
        If the plan speaks of the pool, or as for `study_standing`.
    """
    if plan.stopping.over == "pool":
        raise InputError(
            "a replay asks each participant's own pairs again, which says nothing of the pool; "
            "give stopping.over = 'asked'"
        )
    trials = _trials(choices, log_probs, plan)
    posterior = ModelPosterior(plan.link, len(trials.pool.models), plan.trials)
    places = places_of(trials.pool.preferences, posterior.nodes)
    asked = np.zeros(len(trials.pool.pairs), dtype=bool)
    issued: list[tuple[int, int, float]] = []  # row, block and propensity
    number = 0
    for person in range(len(trials.names)):
        rows_of_person = np.flatnonzero(trials.person == person)
        pairs_of_person = trials.pair[rows_of_person]
        row_of = dict(zip(pairs_of_person.tolist(), rows_of_person.tolist(), strict=True))
        answered = np.zeros(len(asked), dtype=bool)
        answered[pairs_of_person] = True
        done = 0
        while done < plan.trials and answered.any():
            fresh = answered & ~asked
            open_to = fresh if fresh.any() else answered
            curves = posterior.curves(person)
            view = View(places, trials.pool.preferences, open_to, posterior.weights, curves)
            rng = np.random.default_rng([plan.seed, number])
            least = min(plan.choosing.block, plan.trials - done)
            pairs, propensities = choose_block(replace(plan.choosing, block=least), view, rng)
            for pair, propensity in zip(pairs, propensities, strict=True):
                t = row_of[pair]
                if not asked[pair]:
                    answer = plan.link.answer_of(float(trials.rating[t]))
                    preferences = trials.sign[t] * trials.pool.preferences[pair]
                    posterior.add(person, preferences, answer)
                asked[pair], answered[pair] = True, False
                issued.append((int(trials.rows[t]), number, propensity))
            done += len(pairs)
            number += 1
    rows, blocks, propensities = (list(part) for part in zip(*issued, strict=True))
    table = choices.iloc[rows].assign(block=blocks, propensity=propensities)
    return table, study_standing(table, log_probs, plan)
