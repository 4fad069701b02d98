"""Data and scripts for mixed models in lme4, brms and bambi."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import HumanData, swap_sides
from contstim.evaluation.scores import log_ratios
from contstim.files import write_whole
from contstim.tables import escape_table
from contstim.text_files import format_csv
from contstim.trial_kinds import EXPERIMENTAL

# The first columns of the table for mixed models.
_FIRST = (
    *("participant", "group", "item", "pair", "trial", "condition", "sentence_1", "sentence_2"),
    *("model_1", "model_2", "rating", "chose_2", "rt_ms"),
)


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


def mixed_model_table(human: HumanData, scores: pd.DataFrame) -> pd.DataFrame:
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
    if human.is_swapped is not None:
        first_row = human.is_swapped.loc[table.index].groupby(pair).transform("first")
        table = swap_sides(table, first_row.to_numpy(bool))
    of_pairs = log_ratios(scores, table[~pair.duplicated()])
    of_pairs[~np.isfinite(of_pairs)] = np.nan
    for column, ratio in zip(made[2:], of_pairs.T, strict=True):
        size = float(np.sqrt(np.nanmean(ratio**2)))
        table[column] = ratio[pair] / (size if size > 0 else 1.0)
    table["pair"], table["chose_2"] = pair + 1, (table["rating"] > 0).astype(np.int64)
    others = [name for name in table if name not in _FIRST]
    return table[[*_FIRST, *others]].reset_index(drop=True)


def write_mixed_models(human: HumanData, scores: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write the table and scripts for lme4, brms and bambi, and return their paths.

    The random effects are those of participants and of items, and of pairs where items have
    several.

    Raises
    ------
    InputError
        As `mixed_model_table`.
    OutputError
        If a file cannot be written.
    """
    table = mixed_model_table(human, scores)
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
        "mixed_models.csv": format_csv(escape_table(table)),
        "mixed_glmer.R": _GLMER.format(**words),
        "mixed_brms.R": _BRMS.format(**words),
        "mixed_bambi.py": _BAMBI.format(**words),
    }
    place = Path(folder)
    for name, text in texts.items():
        write_whole(place / name, text)
    return [place / name for name in texts]
