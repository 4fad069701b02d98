"""Run the code of the page "My data in R" on a simulated study, and check its numbers.

Usage: python benchmarks/r_page.py [--brms] [--bambi PYTHON]

The study has 24 participants and 40 pairs; ratings and response times are simulated from known
effects. The command and the R and Python code of the page are run in their order. Then

- fixed effects of choices are compared with the exported script ``mixed_glmer.R`` and with the
  independent fit of ``mixed_models.py``;
- fixed effects of response times are compared with statsmodels;
- fixed effects of ratings are printed beside the true values.

The exit status is 1 if compared effects differ by more than 0.001. R with lme4 and ordinal must be
installed (Debian: r-cran-lme4 r-cran-ordinal). --brms also runs the code for brms (r-cran-brms),
and --bambi the code for bambi, by an interpreter PYTHON that has it.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from mixed_models import TOLERANCE, arranged, laplace
from scipy.special import logit

from contstim.cli import main as command

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "r.md"
SLOPE, FASTER = 1.2, -0.15
RATINGS = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
CUTS = (-1.6, -0.7, 0.0, 0.9, 1.8)

_EFFECTS = """
rows <- function(name, fit) data.frame(fit = name, effect = names(fit), value = unname(fit))
effects <- rbind(
  rows("choice_1", fixef(choice_1)), rows("choice_2", fixef(choice_2)),
  rows("rating_1", coef(rating_1)), rows("time_1", fixef(time_1)))
setwd("results")
source("mixed_glmer.R")
setwd("..")
for (k in 1:2) effects <- rbind(effects, rows(paste0("exported_", k), fixef(fits[[k]])))
write.csv(format(effects, digits = 15), "effects.csv", row.names = FALSE)
"""
_EFFECTS_PYTHON = """
time_1.fe_params.rename("value").rename_axis("effect").to_csv("times.csv")
"""


def simulated(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate the choices of a study with catch trials, and the scores of two models."""
    n_people, n_pairs = 24, 40
    true = rng.normal(size=n_pairs)
    true /= np.sqrt((true**2).mean())
    ratios = np.column_stack([true, 0.6 * true + 0.8 * rng.normal(size=n_pairs)])
    texts = [(f"Second {p}.", f"First {p}.") for p in range(n_pairs)]  # not in code-point order
    scores = [
        (text, *(-40 + 6 * side * ratios[p]))
        for p in range(n_pairs)
        for side, text in enumerate(texts[p])
    ]
    slope, lean = SLOPE + 0.4 * rng.normal(size=n_people), 0.4 * rng.normal(size=n_people)
    of_pair, slow = 0.6 * rng.normal(size=n_pairs), 0.3 * rng.normal(size=n_people)
    rows = []
    for who in range(n_people):
        for trial, p in enumerate(rng.permutation(n_pairs), start=1):
            felt = slope[who] * true[p] + lean[who] + of_pair[p] + logit(rng.random())
            rating = RATINGS[np.searchsorted(CUTS, felt)]
            log_rt = 7.6 + FASTER * abs(true[p]) - 0.004 * trial + slow[who] + 0.2 * of_pair[p]
            rt = round(float(np.exp(log_rt + 0.35 * rng.normal())))
            side = ("left", "right")[rng.integers(2)]
            rows.append((f"p{who:02}", trial, "asked", p + 1, *texts[p], rating, rt, side))
        catch = (f"p{who:02}", n_pairs + 1, "catch", 0, "Good one.", "Bad one.", -2.5, 900, "left")
        rows.append(catch)
    columns = ["participant", "trial", "condition", "item", "sentence_1", "sentence_2", "rating"]
    choices = pd.DataFrame(rows, columns=[*columns, "rt_ms", "side_1"])
    choices["rt_ms"] = choices["rt_ms"].where(rng.random(len(choices)) > 0.02)
    return choices, pd.DataFrame(scores, columns=["sentence", "a", "b"])


def blocks(language: str, without: str | None) -> str:
    """Return the code of the page in one language, without blocks that load package `without`."""
    code: list[str] = re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S
    )
    assert code
    loads = rf"(library\({without}\)|import {without})"
    return "\n".join(part for part in code if without is None or not re.search(loads, part))


def main() -> int:
    """Print a row a fit and effect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brms", action="store_true", help="run its blocks too")
    parser.add_argument("--bambi", metavar="PYTHON", help="a Python that has bambi")
    options = parser.parse_args()
    choices, scores = simulated(np.random.default_rng(1))
    with tempfile.TemporaryDirectory() as place, chdir(place):
        choices.to_csv("choices.csv", index=False)
        scores.to_csv("scores.csv", index=False)
        (line,) = blocks("sh", None).splitlines()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert command(shlex.split(line)[1:]) == 0
        Path("page.R").write_text(blocks("r", None if options.brms else "brms") + _EFFECTS)
        run = subprocess.run(["Rscript", "page.R"], stdout=subprocess.PIPE, text=True)
        print(run.stdout, file=sys.stderr)
        run.check_returncode()
        python = blocks("python", None if options.bambi else "bambi") + _EFFECTS_PYTHON
        Path("page.py").write_text(
            f"def page():\n    {python.replace(chr(10), chr(10) + '    ')}\n"
            "\n\nif __name__ == '__main__':\n    page()\n"
        )
        run = subprocess.run(
            [options.bambi or sys.executable, "page.py"], stdout=subprocess.PIPE, text=True
        )
        print(run.stdout, file=sys.stderr)
        run.check_returncode()
        in_r = pd.read_csv("effects.csv").set_index(["fit", "effect"])["value"]
        in_python = pd.read_csv("times.csv").set_index("effect")["value"]
    table, models = arranged(choices, scores)
    print("| fit | effect | page, in R | against | | difference |")
    print("| --- | --- | ---: | --- | ---: | ---: |")
    worst = 0.0

    def compare(fit: str, effect: str, against: str, value: float) -> None:
        nonlocal worst
        apart = abs(in_r[fit, effect] - value)
        worst = max(worst, apart)
        shown = f"{in_r[fit, effect]:.5f} | {against} | {value:.5f} | {apart:.1e}"
        print(f"| {fit} | {effect} | {shown} |")

    for k, model in enumerate(models, start=1):
        for effect, value in zip(("(Intercept)", f"ratio_{k}"), laplace(table, model), strict=True):
            compare(f"choice_{k}", effect, "mixed_glmer.R", in_r[f"exported_{k}", effect])
            compare(f"choice_{k}", effect, "our own fit", value)
    for effect in ("(Intercept)", "size_1", "trial"):
        name = "Intercept" if effect == "(Intercept)" else effect
        compare("time_1", effect, "statsmodels", in_python[name])
    made = f"{in_r['rating_1', 'ratio_1']:.5f} | what it was made with | {SLOPE:.1f}"
    print(f"| rating_1 | ratio_1 | {made} | |")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
