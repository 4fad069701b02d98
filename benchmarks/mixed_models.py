"""Compare the exported lme4 script with an independent maximum-likelihood fit.

Usage: python benchmarks/mixed_models.py [--data behavior_nov2022_raw.csv] [--models N]
           [--bambi PYTHON]

``contstim evaluate --mixed-models`` is run on simulated tables of choices and, with --data, on the
published table. The exported script ``mixed_glmer.R`` is executed, and its fixed effects are
compared with a fit by Laplace's approximation, computed here in Python from the table of choices.
The exit status is 1 if they differ by more than 0.001. With --bambi, the exported script for bambi
is executed on the simulated tables too, and its posterior means are printed.

R with lme4 must be installed (Debian: r-cran-lme4); PYTHON is an interpreter with bambi.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse import linalg
from scipy.special import expit

from contstim.cli import main as command

TOLERANCE = 1e-3
_EFFECTS = """
source("mixed_glmer.R")
effects <- t(sapply(fits, fixef))
colnames(effects) <- c("intercept", "slope")
write.csv(format(effects, digits = 15), "effects.csv", quote = FALSE)
"""


def simulated(name: str, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate choices with random effects of participants and items, and scores of two models."""
    n_people, n_pairs = {"pairs": (20, 40), "families": (24, 48), "unequal": (30, 60)}[name]
    item = np.arange(n_pairs) // (4 if name == "families" else 1)
    common = rng.normal(size=n_pairs)
    ratios = common[:, None] + rng.normal(size=(n_pairs, 2)) * (0.7, 1.5)
    texts = [(f"Second {p}.", f"First {p}.") for p in range(n_pairs)]  # not in code-point order
    scores = pd.DataFrame(
        [
            (text, *(-40 + side * ratios[p]))
            for p in range(n_pairs)
            for side, text in enumerate(texts[p])
        ],
        columns=["sentence", "a", "b"],
    )
    slope, bias = 1 + 0.5 * rng.normal(size=n_people), 0.4 * rng.normal(size=n_people)
    of_item = 0.8 * rng.normal(size=item.max() + 1)
    rows = []
    for who in range(n_people):
        for trial, p in enumerate(rng.permutation(n_pairs), start=1):
            if name == "unequal" and rng.random() < who / n_people:
                continue
            chance = expit(0.3 + bias[who] + slope[who] * common[p] + of_item[item[p]])
            rating = 2.5 if rng.random() < chance else -2.5
            one, two = texts[p]
            if name == "unequal" and who and rng.random() < 0.5:  # the pair the other way round
                one, two, rating = two, one, -rating
            rows.append((f"p{who}", trial, f"i{item[p]}", "asked", one, two, rating))
        if name == "families":
            rows.append((f"p{who}", 0, "check", "catch", "Good one.", "Bad one.", -2.5))
    columns = ["participant", "trial", "item", "condition", "sentence_1", "sentence_2", "rating"]
    choices = pd.DataFrame(rows, columns=columns)
    if name == "unequal":  # of no item more is known, and to one sentence a model gives nothing
        choices = choices.drop(columns="item")
        scores.loc[6, "a"] = -np.inf
    return choices, scores


def published(path: Path, n_models: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the choices of Golan et al. (2023) from the raw file, including catch trials."""
    raw = pd.read_csv(path)
    names = [c[10:-5] for c in raw if c.startswith("sentence1_") and c.endswith("_prob")]
    sides = [
        raw[[f"sentence{k}", *(f"sentence{k}_{name}_prob" for name in names)]].set_axis(
            ["sentence", *names], axis=1
        )
        for k in (1, 2)
    ]
    scores = pd.concat(sides).drop_duplicates("sentence")[["sentence", *names[:n_models]]]
    choices = pd.DataFrame(
        {
            "participant": raw["subject"],
            "sentence_1": raw["sentence1"],
            "sentence_2": raw["sentence2"],
            "condition": np.where(raw["sentence1_type"].str[0] == "C", "catch", "asked"),
            "rating": np.where(raw["Zone Name"].isin(["resp4", "resp5", "resp6"]), 2.5, -2.5),
        }
    )
    pair = choices[["sentence_1", "sentence_2"]].apply(sorted, axis=1).map(tuple)
    return choices[~pd.DataFrame({"p": pair, "w": raw["subject"]}).duplicated()], scores


def arranged(choices: pd.DataFrame, scores: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per choice with the scaled log-ratios of the models, and the models' names.

    Every pair has the order of sentences of its first row. The column `y` is True if sentence 2 was
    chosen.
    """
    asked = choices[choices["condition"] != "catch"].reset_index(drop=True)
    keys = [tuple(sorted(two)) for two in asked[["sentence_1", "sentence_2"]].to_numpy()]
    pair = pd.factorize(pd.Series(keys))[0]
    first = asked["sentence_1"].to_numpy()[~pd.Series(pair).duplicated()][pair]
    turned = (asked["sentence_1"] != first).to_numpy()
    models = [c for c in scores if c != "sentence"]
    wide = scores.set_index("sentence")[models]
    with np.errstate(invalid="ignore"):
        ratio = wide.loc[asked["sentence_2"]].to_numpy() - wide.loc[asked["sentence_1"]].to_numpy()
    ratio[turned] *= -1
    ratio[~np.isfinite(ratio)] = np.nan
    each = ratio[~pd.Series(pair).duplicated()]
    table = pd.DataFrame(ratio / np.sqrt(np.nanmean(each**2, axis=0)), columns=models)
    table["person"] = pd.factorize(asked["participant"])[0]
    table["pair"] = pair
    table["item"] = pd.factorize(asked["item"])[0] if "item" in asked else pair
    table["y"] = (asked["rating"] > 0).to_numpy() != turned
    return table[np.isfinite(table[models]).all(axis=1)], models


def laplace(table: pd.DataFrame, model: str) -> np.ndarray:
    """Return intercept and slope of maximum likelihood by Laplace's approximation.

    Random effects: intercept and slope of people, correlated, and intercepts of items and, where
    items have several, of pairs.

    Source: Bates et al. (2015), doi 10.18637/jss.v067.i01, for the parameters; Bates (2012),
    lme4's vignette on penalized iteratively reweighted least squares, for the deviance.
    """
    n = len(table)
    y, x = table["y"].to_numpy(float), table[model].to_numpy()
    fixed = np.column_stack([np.ones(n), x])

    def indicator(codes: pd.Series, values: np.ndarray) -> sparse.csc_array:
        return sparse.csc_array((values, (np.arange(n), pd.factorize(codes)[0])))

    person = [indicator(table["person"], values) for values in (np.ones(n), x)]
    groups = ["item"] + ["pair"] * (table["pair"].nunique() > table["item"].nunique())
    others = [indicator(table[name], np.ones(n)) for name in groups]
    sizes = [part.shape[1] for part in (*person, *others)]

    def loaded(theta: np.ndarray) -> sparse.csc_array:
        """Return the random effects' design times the factor of their covariance."""
        a, b, c, *rest = theta
        parts = [a * person[0] + b * person[1], c * person[1]]
        parts += [sd * part for sd, part in zip(rest, others, strict=True)]
        return sparse.csc_array(sparse.hstack(parts))

    modes = np.zeros(sum(sizes))

    def deviance(parameters: np.ndarray) -> float:
        nonlocal modes
        beta, design = parameters[:2], loaded(parameters[2:])
        offset, u = fixed @ beta, modes.copy()
        identity = sparse.identity(len(u), format="csc")

        def penalized(u: np.ndarray) -> float:
            eta = offset + design @ u
            return float(2 * (np.logaddexp(0, eta) - y * eta).sum() + u @ u)

        now = penalized(u)
        for _ in range(100):
            p = expit(offset + design @ u)
            curvature = sparse.csc_array(
                design.T @ design.multiply((p * (1 - p))[:, None]) + identity
            )
            factors = linalg.splu(curvature, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
            step = factors.solve(design.T @ (y - p) - u)
            while (then := penalized(u + step)) > now + 1e-12 and np.abs(step).max() > 1e-12:
                step = step / 2
            u, change, now = u + step, now - then, then
            if abs(change) < 1e-11:
                break
        modes = u
        return now + float(np.log(np.abs(factors.U.diagonal())).sum())

    start = np.r_[0.0, 0.5, np.full(3 + len(others), 0.3)]
    start[3] = 0.0
    fit = minimize(deviance, start, method="Powell", options={"xtol": 1e-4, "ftol": 1e-10})
    fit = minimize(deviance, fit.x, method="BFGS", options={"gtol": 1e-4})
    return np.asarray(fit.x[:2])


def exported(choices: pd.DataFrame, scores: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Run the command and the script that it writes; return what lme4 says of each ratio."""
    choices.to_csv(folder / "choices.csv", index=False)
    scores.to_csv(folder / "scores.csv", index=False)
    files = [str(folder / "choices.csv"), "--scores", str(folder / "scores.csv")]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert command(["evaluate", *files, "--mixed-models", "--out", str(folder)]) == 0
    subprocess.run(["Rscript", "-e", _EFFECTS], cwd=folder, check=True, stdout=-3)
    return pd.read_csv(folder / "effects.csv", index_col=0)


def main() -> int:
    """Print a row a table and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the published file")
    parser.add_argument("--models", type=int, default=9, help="so many of its models (9)")
    parser.add_argument("--bambi", metavar="PYTHON", help="a Python that has bambi")
    options = parser.parse_args()
    tables = {
        name: simulated(name, np.random.default_rng(seed))
        for seed, name in enumerate(("pairs", "families", "unequal"))
    }
    if options.data:
        tables["Golan et al. 2023"] = published(options.data, options.models)
    print("| table | choices | model | lme4: intercept, slope | own fit | largest difference |")
    print("| --- | ---: | --- | --- | --- | ---: |")
    worst, said = 0.0, ""
    for name, (choices, scores) in tables.items():
        with tempfile.TemporaryDirectory() as place:
            effects = exported(choices, scores, Path(place))
            if options.bambi and name in ("pairs", "families", "unequal"):
                script = [options.bambi, "mixed_bambi.py"]
                run = subprocess.run(script, cwd=place, check=True, capture_output=True, text=True)
                said += f"\nbambi, {name}:\n\n{run.stdout}"
        table, models = arranged(choices, scores)
        for model, lme4 in zip(models, effects.to_numpy(), strict=True):
            mine = laplace(table, model)
            apart = float(np.abs(lme4 - mine).max())
            worst = max(worst, apart)
            shown = [f"{two[0]:.5f}, {two[1]:.5f}" for two in (lme4, mine)]
            print(
                f"| {name} | {len(table)} | {model} | {shown[0]} | {shown[1]} | {apart:.1e} |",
                flush=True,
            )
    print(said)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
