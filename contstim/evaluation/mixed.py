"""Mixed models of choices: a logistic one of Bradley and Terry's kind, and data for lme4, brms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse import csgraph, linalg
from scipy.special import expit

from contstim.arrays import FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError, MissingExtraError
from contstim.evaluation.choices import (
    HumanData,
    align_choices,
    check_choices,
    turn_pairs,
)
from contstim.evaluation.scores import log_ratios
from contstim.files import write_whole
from contstim.tables import neutral_table, table_text
from contstim.trial_kinds import EXPERIMENTAL

_ABILITY_PRIOR = 2.0
_LOG_SD_PRIOR = 1.0
_MOST_STEPS = 200
_CONVERGED = 1e-8

# The first columns of the table for mixed models.
_FIRST = (
    *("participant", "group", "item", "pair", "trial", "condition", "sentence_1", "sentence_2"),
    *("model_1", "model_2", "rating", "chose_2", "rt_ms"),
)


@displayed
@dataclass(frozen=True, eq=False)
class BradleyTerry:
    """A fitted model.

    Attributes
    ----------
    abilities
        One row per model: `ability` (logits, mean 0 within its component), posterior `sd`, `low`
        and `high` (95 %), `n_choices`, `component`. Only models of one component, joined by
        trials directly or through others, can be compared.
    comparisons
        One row two models of a component: `difference`, `sd`, `low`, `high`, and `win`, the
        probability that a participant without quirks chooses the sentence of the first on a
        pair without quirks.
    item_sd, participant_sd
        Standard deviations, in logits, of the effects of pairs and of participants on a model.

    Examples
    --------
    >>> from contstim import datasets
    >>> result = fit_bradley_terry(datasets.simulated_choices())
    >>> result.comparisons[["model_1", "model_2", "win"]].round(2).head(2)
               model_1           model_2   win
    0  contstim:bigram      contstim:gpt  0.28
    1  contstim:bigram  contstim:trigram  0.60
    """

    abilities: pd.DataFrame
    comparisons: pd.DataFrame
    item_sd: float
    participant_sd: float


def fit_bradley_terry(choices: pd.DataFrame) -> BradleyTerry:
    """Fit how able each targeted model is to name the sentence that people choose.

    On a trial whose sentences models 1 and 2 prefer, a participant chooses that of model 2 with
    log-odds ability(2) - ability(1) + pair effect + participant's effect on 2 - that on 1. Pairs
    and participants are crossed random effects. The standard deviations of the random effects are
    found by variational Bayes (priors: normal with mean 0 and standard deviation 2 on abilities,
    1 on log standard deviations); given those, abilities and their standard deviations come
    from the joint mode of all effects and the curvature there (Laplace), because variational
    standard deviations leave out that pairs are a sample. Choices that prefer neither sentence,
    and trials without targets, take no part.

    Parameters
    ----------
    choices
        A choices table with `model_1` and `model_2`.

    Raises
    ------
    MissingExtraError
        If statsmodels is not installed.
    InputError
        If no trial targets models, or every choice is of the same side in code-point order.

    Source
    ------
    Bradley and Terry (1952), doi 10.2307/2334029, with crossed random effects after Baayen,
    Davidson and Bates (2008), doi 10.1016/j.jml.2007.12.005; fitted by `BinomialBayesMixedGLM`.

    Examples
    --------
    >>> from contstim import datasets
    >>> result = fit_bradley_terry(datasets.simulated_choices())
    >>> result.abilities[["model", "ability"]].round(1)
                  model  ability
    0   contstim:bigram     -0.2
    1      contstim:gpt      0.8
    2  contstim:trigram     -0.6
    """
    try:
        from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM
    except ImportError as error:
        raise MissingExtraError(
            "the mixed model needs the package statsmodels; install it with pip install statsmodels"
        ) from error
    table = align_choices(check_choices(choices))
    table = table[table["model_1"].notna() & (table["rating"] != 0)].reset_index(drop=True)
    if table.empty:
        raise InputError("no choice is on a trial that pits two models against each other")
    models = sorted({*table["model_1"], *table["model_2"]})
    # +1 for the model that prefers sentence 2, -1 for the other, shape (trials, M).
    first, second = (
        table[name].to_numpy(dtype=object)[:, None] == np.array(models, dtype=object)
        for name in ("model_1", "model_2")
    )
    signs = second.astype(np.float64) - first
    touch = sparse.csr_array(np.abs(signs).T @ np.abs(signs))
    labels = np.asarray(csgraph.connected_components(touch, directed=False)[1], dtype=np.int64)
    # All models but the first of each component have a parameter of their own.
    fixed = np.setdiff1d(np.arange(len(labels)), np.unique(labels, return_index=True)[1])
    random, kinds = _random_effects(table, signs)
    y = np.asarray(table["rating"] > 0, dtype=np.float64)
    if np.ptp(y) == 0:
        raise InputError(
            "every choice is for the same side of its pair; the mixed model needs both"
        )
    model = BinomialBayesMixedGLM(
        y, signs[:, fixed], random, kinds, vcp_p=_LOG_SD_PRIOR, fe_p=_ABILITY_PRIOR
    )
    n_parameters = len(fixed) + 2 + random.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflow on the way; the end is checked
        # A fixed start; the library's own would be drawn from numpy's global state.
        fit = model.fit_vb(mean=np.zeros(n_parameters), sd=np.full(n_parameters, 0.5))
    spread = np.exp(np.asarray(fit.vcp_mean))
    if not np.isfinite(spread).all():
        raise InputError("the mixed model did not converge on these choices")
    mean, covariance = _laplace(y, sparse.csr_array(signs[:, fixed]), random, spread[kinds])
    # From parameters to abilities with mean 0 in each component.
    full = np.zeros((len(labels), len(fixed)))
    full[fixed, np.arange(len(fixed))] = 1.0
    same = labels[:, None] == labels[None, :]
    loading = full - (same / same.sum(axis=1, keepdims=True)) @ full
    ability, covariance = loading @ mean, loading @ covariance @ loading.T
    sd = np.sqrt(np.diag(covariance))
    abilities = pd.DataFrame(
        {
            "model": models,
            "ability": ability,
            "sd": sd,
            "low": ability - 1.96 * sd,
            "high": ability + 1.96 * sd,
            "n_choices": (signs != 0).sum(axis=0),
            "component": labels + 1,
        }
    )
    compared = _comparisons(models, labels, ability, covariance)
    return BradleyTerry(abilities, compared, float(spread[0]), float(spread[1]))


def _random_effects(table: pd.DataFrame, signs: FloatArray) -> tuple[sparse.csr_matrix, IntArray]:
    """Return the design of the effects of pairs and of participants on models, and their kinds."""
    item, items = pd.factorize(table["sentence_1"] + "\t" + table["sentence_2"])
    person, people = pd.factorize(table["participant"])
    n, n_models = signs.shape
    by_item = sparse.csr_matrix((np.ones(n), (np.arange(n), item)), shape=(n, len(items)))
    at, model = np.nonzero(signs)
    columns, shape = person[at] * n_models + model, (n, len(people) * n_models)
    by_person = sparse.csr_matrix((signs[at, model], (at, columns)), shape=shape)
    occurs = np.asarray(abs(by_person).sum(axis=0)).ravel() > 0
    by_person = by_person[:, occurs]
    kinds = np.repeat(np.arange(2), [len(items), occurs.sum()])
    return sparse.hstack([by_item, by_person]).tocsr(), kinds


def _laplace(
    y: FloatArray,
    fixed: sparse.csr_array[np.float64],
    random: sparse.csr_matrix,
    spread: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the mode of the fixed effects and their covariance, given the random effects' sd."""
    design = sparse.csc_array(sparse.hstack([fixed, random]))
    n_fixed = fixed.shape[1]
    precision = np.concatenate([np.full(n_fixed, 1 / _ABILITY_PRIOR**2), 1 / spread**2])
    effects = np.zeros(design.shape[1])
    for _ in range(_MOST_STEPS):
        p = 1 / (1 + np.exp(-np.clip(design @ effects, -30, 30)))
        weighted = design.multiply((p * (1 - p))[:, None])
        curvature = sparse.csc_array(design.T @ weighted + sparse.diags_array(precision))
        factors = linalg.splu(curvature)
        step = factors.solve(design.T @ (y - p) - precision * effects)
        # The log-posterior is concave; a bounded step keeps the first ones from overshooting.
        effects += step / max(1.0, float(np.abs(step).max()) / 2)
        if np.abs(step).max() < _CONVERGED:
            break
    else:
        raise InputError("the mixed model did not converge on these choices")
    unit = np.zeros((design.shape[1], n_fixed))
    unit[:n_fixed, :n_fixed] = np.eye(n_fixed)
    return effects[:n_fixed], np.asarray(factors.solve(unit)[:n_fixed])


def _comparisons(
    models: list[str], labels: IntArray, ability: FloatArray, covariance: FloatArray
) -> pd.DataFrame:
    rows = []
    for i, j in combinations(range(len(models)), 2):
        if labels[i] == labels[j]:
            d = float(ability[i] - ability[j])
            s = float(np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))
            rows.append((models[i], models[j], d, s, d - 1.96 * s, d + 1.96 * s, float(expit(d))))
    columns = ["model_1", "model_2", "difference", "sd", "low", "high", "win"]
    return pd.DataFrame(rows, columns=columns)


_GLMER = """\
# Mixed logistic regressions of choices on the models' log-ratios: install.packages("lme4")
{names}
library(lme4)
d <- read.csv("mixed_models.csv")
# One set of rows for all models, or their AICs could not be compared.
d <- d[complete.cases(d[c({quoted})]), ]
# By default the fixed effects may be off in the third digit.
control <- glmerControl(optimizer = "bobyqa", tolPwrss = 1e-12)
fits <- list(
{fits}
)
print(lapply(fits, summary))
# Which model's log-ratios predict choices best: the lowest AIC.
print(sapply(fits, AIC))
"""
_GLMER_FIT = """\
  {column} = glmer(chose_2 ~ {column} + (1 + {column} | participant) + {items},
    data = d, family = binomial, control = control)"""
_BRMS = """\
# The same with posterior distributions: install.packages("brms"). This script has not been run.
{names}
library(brms)
d <- read.csv("mixed_models.csv")
fit <- brm(chose_2 ~ {sum} + (1 + {sum} | participant) + {items},
  data = d, family = bernoulli())
print(summary(fit))
"""
_BAMBI = """\
# The same in Python: pip install bambi
{names}
import arviz
import bambi
import pandas as pd


def main():
    d = pd.read_csv("mixed_models.csv")
    model = bambi.Model(
        "chose_2 ~ {sum} + (1 + {sum} | participant) + {items}",
        d,
        family="bernoulli",
        dropna=True,
    )
    # What holds of all people and pairs; without var_names each one's own effects come too.
    print(arviz.summary(model.fit(), var_names=["Intercept", {quoted}]).to_string())


if __name__ == "__main__":  # the chains may be processes of their own
    main()
"""


def mixed_table(human: HumanData, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the choices as mixed models take them.

    Parameters
    ----------
    human
        What people chose. Where it says which pairs were turned round while reading, they are
        turned back; a pair stands as in its first row throughout.
    scores
        Log-probabilities in nats, shape (S, M), the sentences as index; or other scores, higher
        for better sentences.

    Returns
    -------
    DataFrame
        One row per choice with a preference, catch trials and fillers left out: the choices with
        all their columns; `pair` (its number) and `item`, which is the pair where the data name
        none; `chose_2` (1 for sentence 2, 0 for sentence 1);
        and for each model its log p(sentence 2) - log p(sentence 1) divided by the root mean square
        over the pairs, in the columns `ratio_1`, `ratio_2`, ... by the order of the models. A ratio
        is NaN where it is infinite. A column of the data whose name is needed is called
        ``NAME_given``.

    Raises
    ------
    InputError
        If no choice is left.
    """
    made = ["pair", "chose_2", *(f"ratio_{m + 1}" for m in range(len(scores.columns)))]
    table = human.choices[(human.choices["kind"] == EXPERIMENTAL) & (human.choices["rating"] != 0)]
    if table.empty:
        raise InputError("the only preferences are in catch trials; there is nothing to fit")
    table = table.rename(columns={name: f"{name}_given" for name in made})
    pair = table.groupby(["sentence_1", "sentence_2"], sort=False).ngroup()
    if human.turned is not None:
        first_row = human.turned.loc[table.index].groupby(pair).transform("first")
        table = turn_pairs(table, first_row.to_numpy(bool))
    of_pairs = log_ratios(scores, table[~pair.duplicated()])
    of_pairs[~np.isfinite(of_pairs)] = np.nan
    for column, ratio in zip(made[2:], of_pairs.T, strict=True):
        size = float(np.sqrt(np.nanmean(ratio**2)))
        table[column] = ratio[pair] / (size if size > 0 else 1.0)
    table["pair"], table["chose_2"] = pair + 1, (table["rating"] > 0).astype(np.int64)
    others = [name for name in table if name not in _FIRST]
    return table[[*_FIRST, *others]].reset_index(drop=True)


def write_mixed_models(human: HumanData, scores: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write `mixed_table` and scripts for lme4, brms and bambi into a folder; return their paths.

    The random effects are those of participants and of items, and of pairs where items have
    several.

    Raises
    ------
    InputError
        As `mixed_table`.
    OutputError
        If a file cannot be written.
    """
    table = mixed_table(human, scores)
    columns = [f"ratio_{m + 1}" for m in range(len(scores.columns))]
    pairs = zip(columns, map(str, scores.columns), strict=True)
    nested = table["pair"].nunique() > table["item"].nunique()
    items = "(1 | item)" + " + (1 | pair)" * nested
    words = {
        "names": "\n".join(f"# {column}: {' '.join(name.split())}" for column, name in pairs),
        "sum": " + ".join(columns),
        "quoted": ", ".join(f'"{column}"' for column in columns),
        "items": items,
        "fits": ",\n".join(_GLMER_FIT.format(column=column, items=items) for column in columns),
    }
    texts = {
        "mixed_models.csv": table_text(neutral_table(table)),
        "mixed_glmer.R": _GLMER.format(**words),
        "mixed_brms.R": _BRMS.format(**words),
        "mixed_bambi.py": _BAMBI.format(**words),
    }
    place = Path(folder)
    for name, text in texts.items():
        write_whole(place / name, text)
    return [place / name for name in texts]
