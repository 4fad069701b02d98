"""Prediction of how many answers a set of sentence pairs and adaptive choice save."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.special import entr, expit, logsumexp

from contstim.adaptive.link import Link
from contstim.adaptive.pool import Pool
from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.response_model import ResponseModel
from contstim.tables import read_table
from contstim.text.normalise import normalise_sentences

#: Possible medians of the slope in the posterior of the adaptive policy.
SLOPES = (0.45, 0.91, 1.8)
PAIR_COLUMNS = ["sentence_1", "sentence_2"]


def read_pairs(path: str | None) -> pd.DataFrame | None:
    """Read sentence pairs, and normalise the sentences as in a table of scores.

    Without a path, the result is None.
    """
    if path is None:
        return None
    return read_table(path, PAIR_COLUMNS)[PAIR_COLUMNS].apply(normalise_sentences)


def predict_saved_answers(
    scores: pd.DataFrame,
    pairs: pd.DataFrame | None = None,
    selected: pd.DataFrame | None = None,
    target: float = 0.9,
    n_answers: int = 3000,
    n_studies: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Predict the number of answers after which the best model is named, for several policies.

    In simulated studies, participants follow each model in turn. The best model has the highest
    expected accuracy over all pairs, including random effects of pairs that no model predicts. Each
    answer is from a different participant. After each answer, the model with the highest accuracy
    so far is named. The policies choose

    - ``random``: random pairs;
    - ``set``: random pairs of `selected`;
    - ``adaptive``: blocks of five pairs with the largest mutual information between answer and
      model, of the pairs that were used least often, for at most 500 answers.

    Parameters
    ----------
    scores : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence and one column per model.
    pairs
        Sentence pairs on which the best model is defined, with the columns `PAIR_COLUMNS`; by
        default up to 1,000 random pairs of the sentences.
    selected
        Sentence pairs of the set, output of `select_set`; by default no set. They are added to
        `pairs` if they are not there.
    target
        Probability of naming the best model.
    n_answers
        Maximum number of answers.
    n_studies
        Number of simulated studies.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        One row per policy: `answers`, the number of answers at which the probability of naming the
        best model reaches the target (missing if it does not), and `k`, the number of the policy
        ``random`` divided by this number.

    Raises
    ------
    InputError
        If a sentence has no score, or there are fewer than two models.

    Examples
    --------
    >>> from contstim import datasets
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]].head(200)
    >>> predict_saved_answers(scores, n_answers=2000).round(1)
         policy  answers    k
    0    random    840.0  1.0
    1  adaptive    406.0  2.1
    """
    response, rng = ResponseModel(), np.random.default_rng(seed)
    if pairs is None:
        labels = rng.permutation(scores.index)[: 2 * min(1000, len(scores) // 2)]
        pairs = pd.DataFrame(labels.reshape(-1, 2), columns=PAIR_COLUMNS)
    if selected is not None and selected.empty:
        raise InputError("the set has no pairs; give a set with pairs, or none")
    # Rows of the set first. Pairs are the same whichever sentence is sentence 1.
    tables = [table[PAIR_COLUMNS].astype(str) for table in (selected, pairs) if table is not None]
    tables = [
        pd.DataFrame(np.sort(table, axis=1), columns=PAIR_COLUMNS).drop_duplicates()
        for table in tables
    ]
    n_set = 0 if selected is None else len(tables[0])
    pool = pd.concat(tables).drop_duplicates()
    preferences = Pool.from_scores(pool, scores, Link()).preferences
    n_pairs, n_models = preferences.shape
    if n_models < 2:
        raise InputError(f"the scores have {n_models} model; give two or more")
    followed = preferences[:, (studies := np.arange(n_studies)) % n_models].T
    effects = response.item_sd * rng.normal(size=followed.shape)
    # Answers that a model predicts minus other answers, for an answer in favour of sentence 2.
    signs = np.sign(preferences)
    best = name_best((expit(response.slope * followed + effects) - 0.5) @ signs, rng)
    curves = np.stack([replace(response, slope=s).probabilities(preferences) for s in SLOPES])
    answers = {}
    n_choices = {"random": n_pairs, "set": n_set, "adaptive": n_pairs}
    for policy in filter(n_choices.get, n_choices):
        correct = np.zeros((n_studies, n_models))
        log_joint = np.zeros((n_studies, len(SLOPES), n_models))
        n_uses, curve = np.zeros((n_studies, n_pairs)), []
        for number in range(min(n_answers, 500) if policy == "adaptive" else n_answers):
            chosen = rng.integers(n_choices[policy], size=n_studies)
            if policy == "adaptive":
                if number % 5 == 0:
                    information = mutual_information(log_joint, curves)
                # Information is below 1 nat, so that pairs with fewer uses have larger values.
                chosen = (information - n_uses).argmax(axis=1)
                n_uses[studies, chosen] += 1
            slopes = response.slope * np.exp(response.slope_sd * rng.normal(size=n_studies))
            logits = slopes * followed[studies, chosen] + effects[studies, chosen]
            logits += response.side_sd * rng.normal(size=n_studies)
            p = response.lapse / 2 + (1 - response.lapse) * expit(logits)
            second = (rng.random(n_studies) < p)[:, None]
            correct += signs[chosen] * np.where(second, 1, -1)
            p_model = curves[:, chosen].transpose(1, 0, 2)
            log_joint += np.log(np.where(second[..., None], p_model, 1 - p_model))
            curve.append((name_best(correct, rng) == best).mean())
        answers[policy] = answers_needed(np.array(curve), target)
    table = pd.DataFrame({"policy": list(answers), "answers": list(answers.values())})
    return table.assign(k=answers["random"] / table["answers"])


def mutual_information(log_joint: FloatArray, curves: FloatArray) -> FloatArray:
    """Compute the mutual information between the next answer and the right model for each pair.

    Parameters
    ----------
    log_joint : (R, H, M) array
        Unnormalised log posterior probability of each combination of a median slope and a model,
        in each of R simulated studies. The slope states how strongly a preference determines the
        choice.
    curves : (H, P, M) array
        Probability of choosing sentence 2 of each of P pairs, given the median slope and the model.

    Returns
    -------
    (R, P) array
        Mutual information in nats, for each study and pair.
    """
    joint = np.exp(log_joint - logsumexp(log_joint, axis=(1, 2), keepdims=True))
    weights = joint.sum(axis=1)[..., None]  # posterior probability of each model
    # The mutual information is H(Σ_m w_m P_m) - Σ_m w_m H(P_m), with the posterior probability w_m
    # of model m, its probability P_m of choosing sentence 2, and the entropy H. `entr` is -x log x.
    # First compute w_m P_m, averaged over the median slopes, and its sum over models. The axes are
    # r: studies, h: median slopes, m: models, p: sentence pairs.
    weighted_probs = np.einsum("rhm,hpm->rmp", joint, curves, optimize=True)
    mixture = weighted_probs.sum(axis=1)
    model_probs = weighted_probs / np.maximum(weights, 1e-300)  # P_m, without division by 0
    conditional_entropy = weights * (entr(model_probs) + entr(1 - model_probs))
    return np.asarray(entr(mixture) + entr(1 - mixture) - conditional_entropy.sum(axis=1))


def name_best(values: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the index of the largest value along the last axis; ties are broken at random."""
    is_best = values > values.max(axis=-1, keepdims=True) - 1e-6
    return np.asarray((is_best * rng.random(values.shape)).argmax(axis=-1))


def answers_needed(curve: FloatArray, level: float) -> float:
    """Return the number of answers at which a non-decreasing fit to a curve reaches a level.

    The curve starts at one answer. The number is NaN if the fit does not reach the level.
    """
    reached = np.flatnonzero(isotonic_regression(curve).x >= level - 1e-9)
    return float(reached[0] + 1) if len(reached) else np.nan
