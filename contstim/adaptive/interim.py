"""Interim analysis of a running study: posterior, goodness of fit and conclusion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from contstim.adaptive.anytime_valid import log_e_value
from contstim.adaptive.conclusions import Conclusion, apply_stopping_rule, participant_means
from contstim.adaptive.pool import Pool
from contstim.adaptive.posterior import ModelPosterior, softmax
from contstim.adaptive.scheduler import AdaptivePlan
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayable
from contstim.errors import InputError, NoDataError, format_count
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.trial_kinds import EXPERIMENTAL, add_trial_kinds

#: Condition of anchors: trials that all participants see and that no policy chooses.
ANCHOR_CONDITION = "anchor"


@displayable
@dataclass(frozen=True, eq=False)
class InterimResult:
    """Result of an interim analysis of an adaptive study.

    Attributes
    ----------
    models
        One row per model with the columns

        - `model`: name of the model;
        - `posterior`: posterior probability that answers follow the model;
        - `log_e_value`: logarithm of the e-value, the evidence against the hypothesis that answers
          follow the model and the assumed distribution of answers;
        - `accuracy`: mean accuracy over the participants who finished; NaN if nobody has.
    conclusions
        Conclusion of the stopping rule after each participant who finished.
    n_chosen_answers
        Number of answers to trials that were chosen adaptively.
    n_posterior_answers
        Number of answers in `n_chosen_answers` on which the posterior is based: the first
        answer to each pair, unless it is in the middle of the rating scale.
    n_participants
        Number of participants with at least one answer.
    """

    models: pd.DataFrame
    conclusions: list[Conclusion]
    n_chosen_answers: int
    n_posterior_answers: int
    n_participants: int

    @property
    def stops(self) -> bool:
        """Whether the stopping rule of the plan is satisfied."""
        return bool(self.conclusions) and self.conclusions[-1].stops

    @property
    def first_stop(self) -> Conclusion | None:
        """First conclusion that satisfied the stopping rule, if any."""
        return next((conclusion for conclusion in self.conclusions if conclusion.stops), None)

    @property
    def pairs(self) -> pd.DataFrame:
        """Current differences between models, see `Conclusion.pairs`.

        If there are p-values, `q` is adjusted for all pairs of models (Benjamini-Hochberg).
        """
        table = self.conclusions[-1].pairs if self.conclusions else pd.DataFrame()
        return table.assign(q=benjamini_hochberg(table["p"].to_numpy())) if "p" in table else table

    @property
    def summary(self) -> list[str]:
        """Posterior, goodness of fit and conclusion in sentences."""
        ranked = self.models.sort_values("posterior", ascending=False, kind="stable")
        # Models with their posterior probabilities, the most probable first.
        posterior = ", ".join(f"{row.model} {row.posterior:.3f}" for row in ranked.itertuples())
        # A large e-value is evidence that the answers do not follow the model.
        fits = ", ".join(f"{row.model} {row.log_e_value:.1f}" for row in self.models.itertuples())
        last = self.conclusions[-1].text if self.conclusions else "continue: nobody has finished"
        return [
            f"posterior: {posterior} (based on the first answers to "
            f"{format_count(self.n_posterior_answers, 'pair')})",
            "the posterior assumes that one of the models is right; if two models are equally "
            "good, it eventually favours one of them by chance, unlike the conclusion",
            f"fit: log e-values against each model with this link: {fits}",
            f"conclusion: {last}",
        ]

    def __str__(self) -> str:
        lines = [
            f"{format_count(self.n_chosen_answers, 'answer')} of "
            f"{format_count(self.n_participants, 'participant')}",
            *self.summary,
        ]
        # Difference in accuracy between two models, with confidence interval and p-values, if any.
        for row in self.pairs.to_dict("records"):
            interval = f"({row['low']:+.3f} to {row['high']:+.3f})"
            if "q" in row:  # p-value adjusted for the number of pairs of models
                interval += f", p = {row['p']:.2g}, q = {row['q']:.2g}"
            difference = f"{row['model_1']} - {row['model_2']}: {row['difference']:+.3f}"
            lines.append(f"  {difference} {interval}{' significant' if row['differs'] else ''}")
        if self.first_stop is not None:
            n_participants = format_count(self.first_stop.n_participants, "participant")
            lines.append(f"could have stopped after {n_participants}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ChosenTrials:
    """Answers to the T trials that were chosen adaptively in a study, in the order of choice.

    Attributes
    ----------
    participant, pair, item : (T,) arrays of int
        Index of the participant, of the sentence pair in `pool`, and of the item (a group of
        dependent pairs) in each trial.
    side_sign : (T,) array
        1 if sentence 1 was on the left, -1 if it was on the right.
    screen_rating : (T,) array
        Rating by side of the screen: negative for the left sentence, positive for the right one.
    arrival : (T,) array of int
        Rank of the time at which the answer arrived.
    participant_names
        Identifiers of the participants, by their index.
    pool
        Sentence pairs and the preferences of the models.
    """

    participant: IntArray
    pair: IntArray
    item: IntArray
    side_sign: FloatArray
    screen_rating: FloatArray
    arrival: IntArray
    participant_names: list[str]
    pool: Pool

    @property
    def screen_preferences(self) -> FloatArray:
        """Preferences of the models for the right sentence (in SD of log-probability), (T, M)."""
        return self.side_sign[:, None] * self.pool.preferences[self.pair]

    @property
    def accuracy(self) -> FloatArray:
        """Whether each model prefers the chosen sentence, shape (T, M); ties are 0.5."""
        agreement = np.sign(self.screen_preferences) * np.sign(self.screen_rating)[:, None]
        return (agreement + 1) / 2

    def assign_finishing_ranks(self, n_trials: int) -> tuple[IntArray, BoolArray]:
        """Rank the participants by the time at which they finished, from 0 for the first.

        Parameters
        ----------
        n_trials
            Number of answers after which a participant has finished.

        Returns
        -------
        ranks : (T,) array of int
            Rank of each answer's participant, -1 for participants who have not finished.
        is_finished : (T,) array of bool
            Whether each answer's participant has finished.
        """
        n_participants = len(self.participant_names)
        n_answers = np.bincount(self.participant, minlength=n_participants)
        has_finished = n_answers >= n_trials
        # Arrival time (as a rank) of each participant's last answer.
        last_arrival = np.zeros(n_participants, dtype=np.int64)
        np.maximum.at(last_arrival, self.participant, self.arrival)
        # Participants in the order of their last answers, without the unfinished ones.
        order = np.argsort(last_arrival, kind="stable")
        order = order[has_finished[order]]
        # Rank 0 for the participant who finished first; -1 for unfinished participants.
        rank_by_participant = np.full(n_participants, -1)
        rank_by_participant[order] = np.arange(len(order))
        # Return one value per answer instead of one per participant.
        return rank_by_participant[self.participant], has_finished[self.participant]


def max_chosen_trials(choices: pd.DataFrame) -> int:
    """Return the largest number of chosen trials that a participant answered, at least 1."""
    answers = choices[find_chosen_trials(choices)]
    return int(answers.groupby("participant").size().max()) if len(answers) else 1


def find_chosen_trials(choices: pd.DataFrame) -> BoolArray:
    """Return a mask of the rows that are answers to trials chosen by the policy.

    A policy chooses trials for each participant of an adaptive study. Catch trials, practice
    trials, and *anchors* (trials that all participants see) are not chosen by it.

    Parameters
    ----------
    choices
        Table with one row per trial and participant and the columns ``participant``,
        ``sentence_1``, ``sentence_2`` and ``rating``; optionally ``kind`` and ``condition``.

    Returns
    -------
    array of bool
        Whether each row is a chosen trial with a rating.
    """
    for column in ("participant", "sentence_1", "sentence_2", "rating"):
        if column not in choices:
            raise InputError(f"the choices have no column {column!r}; give one row per trial")
    # Exclude trials without a rating, catch trials and practice trials.
    table = add_trial_kinds(choices)
    is_answered = pd.to_numeric(table["rating"], errors="coerce").notna()
    mask = is_answered & (table["kind"] == EXPERIMENTAL)
    # Exclude anchors, which all participants see, so that the policy has not chosen them.
    if "condition" in table:
        mask &= table["condition"] != ANCHOR_CONDITION
    return mask.to_numpy(dtype=np.bool_)


def alphabetical_pairs(choices: pd.DataFrame) -> tuple[pd.DataFrame, BoolArray]:
    """Return the sentences of each row in alphabetical order, and a mask of the exchanged rows.

    Parameters
    ----------
    choices
        Table with the columns `sentence_1` and `sentence_2`.

    Returns
    -------
    pairs : DataFrame
        The columns `sentence_1` and `sentence_2` in alphabetical order.
    is_swapped : array of bool
        Whether the sentences of each row were exchanged.
    """
    pairs = choices[["sentence_1", "sentence_2"]].astype(str)
    is_swapped = np.asarray(pairs["sentence_1"] > pairs["sentence_2"])
    pairs[is_swapped] = pairs.loc[is_swapped, ["sentence_2", "sentence_1"]].to_numpy()
    return pairs, is_swapped


def interim_analysis(
    choices: pd.DataFrame, log_probs: pd.DataFrame, plan: AdaptivePlan, last_only: bool = False
) -> InterimResult:
    """Analyse the choices of a running study.

    Conclusions are based on the participants who answered all trials of the plan, in the order in
    which they finished. Participants who leave early are excluded.

    Parameters
    ----------
    choices
        Table with one row per trial and participant and the columns

        - ``participant``, ``sentence_1``, ``sentence_2`` and ``rating``;
        - ``kind``, ``condition`` and ``expected`` (optional): only experimental trials that are not
          anchors (pairs that all participants see) are used;
        - ``item`` (optional): group of related sentence pairs;
        - ``block`` (optional): number of the group of trials that were chosen together, which
          defines the order of trials; by default the order of rows;
        - ``side_1`` (optional): side of sentence 1 on the screen; by default left;
        - ``received_at`` (optional): time of the answer; by default the order of rows.
    log_probs : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence and one column per model.
    plan
        Plan of the study.
    last_only
        If True, draw a conclusion only after the last participant, otherwise after each one.

    Raises
    ------
    NoDataError
        If there are no answers to chosen trials.
    InputError
        If columns or scores are missing.
    """
    rows = np.flatnonzero(find_chosen_trials(choices))
    if not len(rows):
        raise NoDataError("there are no answers to chosen trials yet; wait for some")
    if "block" in choices:
        blocks = pd.to_numeric(choices["block"], errors="coerce").to_numpy(dtype=np.float64)[rows]
        if np.isnan(blocks).any():
            raise InputError("a chosen trial has no block number; fill in the column block")
        rows = rows[np.argsort(blocks, kind="stable")]
    table = normalise_trials(choices.iloc[rows])
    arrival = np.asarray(rows, dtype=np.int64)
    if "received_at" in table and table["received_at"].notna().all():
        times = pd.to_datetime(table["received_at"], utc=True, format="ISO8601")
        arrival = np.asarray(times.rank(method="dense"), dtype=np.int64)

    # The posterior estimates the bias to one side of the screen, so ratings and preferences are
    # needed by side. Without a column `side_1`, sentence 1 is assumed to have been on the left.
    pairs, is_swapped = alphabetical_pairs(table)
    is_on_right = table["side_1"] == "right" if "side_1" in table else np.zeros(len(table), bool)
    side_sign = np.where(is_on_right, -1.0, 1.0)
    pair_codes, keys = pd.factorize(pd.MultiIndex.from_frame(pairs))
    participant_codes, names = pd.factorize(table["participant"].astype(str))
    distinct_pairs = pd.DataFrame(list(keys), columns=pairs.columns)
    trials = ChosenTrials(
        participant=np.asarray(participant_codes, dtype=np.int64),
        pair=np.asarray(pair_codes, dtype=np.int64),
        item=encode_items(table),
        # In the pool, the sentences of a pair are in alphabetical order.
        side_sign=np.where(is_swapped, -side_sign, side_sign),
        screen_rating=side_sign * table["rating"].to_numpy(dtype=np.float64),
        arrival=arrival,
        participant_names=[str(name) for name in names],
        pool=Pool.from_scores(distinct_pairs, log_probs, plan.link),
    )
    return analyse_trials(trials, plan, last_only)


def analyse_trials(
    trials: ChosenTrials, plan: AdaptivePlan, last_only: bool = False
) -> InterimResult:
    """Compute the posterior, the goodness of fit and the conclusions from chosen trials.

    The goodness of fit of a model is an e-value: a likelihood ratio that is large if the answers
    contradict the model. Its numerator is the mean likelihood of all models and of their average,
    a further model with the mean preferences. Its denominator is the likelihood of the tested
    model, maximised over its median slope.

    Parameters
    ----------
    trials
        Answers to chosen trials.
    plan
        Plan of the study, with the assumed distribution of answers and the stopping rule.
    last_only
        If True, draw a conclusion only after the last participant, otherwise after each one.
    """
    models, link = list(trials.pool.models), plan.link
    n_models = len(models)
    # Add the average of all models as a further model, after the others.
    preferences = trials.screen_preferences
    preferences = np.column_stack([preferences, preferences.mean(axis=1)])

    # Only the first answer to each pair is independent, given the model. Ratings in the middle
    # of the scale choose neither sentence.
    first_answers = np.sort(np.unique(trials.pair, return_index=True)[1])
    used_trials = first_answers[trials.screen_rating[first_answers] != 0].tolist()
    max_answers = int(np.bincount(trials.participant).max())
    posterior = ModelPosterior(replace(link, prior=()), n_models + 1, max_answers)
    for trial in used_trials:
        answer = link.encode_rating(float(trials.screen_rating[trial]))
        posterior.add_answer(int(trials.participant[trial]), preferences[trial], answer)
    log_evidence = posterior.log_evidence
    # The average of the models is an alternative in e-values, but has no posterior probability.
    # The tiny constant avoids the logarithm of 0.
    log_prior = np.log(link.prior_weights(n_models) + 1e-300)
    log_equal_weights = np.full(n_models + 1, -np.log(n_models + 1))
    log_e_values = [
        log_e_value(log_evidence, log_equal_weights, log_likelihood)
        for log_likelihood in posterior.log_likelihood[:-1]
    ]

    ranks, is_finished = trials.assign_finishing_ranks(plan.trials)
    accuracy = np.full(n_models, np.nan)
    if is_finished.any():
        means = participant_means(ranks[is_finished], trials.accuracy[is_finished])
        accuracy = means.mean(axis=0)
    table = pd.DataFrame(
        {
            "model": models,
            "posterior": softmax(log_prior + log_evidence[:-1]),
            "log_e_value": log_e_values,
            "accuracy": accuracy,
        }
    )
    return InterimResult(
        models=table,
        conclusions=draw_conclusions(trials, plan, last_only),
        n_chosen_answers=len(trials.pair),
        n_posterior_answers=len(used_trials),
        n_participants=len(trials.participant_names),
    )


def draw_conclusions(
    trials: ChosenTrials, plan: AdaptivePlan, last_only: bool = False
) -> list[Conclusion]:
    """Apply the stopping rule of a plan to the participants who answered all their trials.

    Parameters
    ----------
    trials
        Answers to chosen trials.
    plan
        Plan with the number of trials per participant and the stopping rule.
    last_only
        If True, draw a conclusion only after the last participant, otherwise after each one.

    Returns
    -------
    list of Conclusion
        One conclusion per participant, or the last one; empty if nobody has finished.
    """
    ranks, is_finished = trials.assign_finishing_ranks(plan.trials)
    # Participants who left early are excluded. The others are numbered in the order in which they
    # finished, because the stopping rule is applied after each of them.
    if not is_finished.any():
        return []
    return apply_stopping_rule(
        participant=ranks[is_finished],
        scores=trials.accuracy[is_finished],
        models=list(trials.pool.models),
        stopping=plan.stopping,
        last_only=last_only,
        item=trials.item[is_finished],
    )
