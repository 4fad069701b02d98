"""A table and scripts for mixed models of choices in packages made for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from contstim.evaluation.trials import TrialData
from contstim.files import write_whole

_GLMER = """\
# Mixed logistic regressions of choices on the models' log-ratios: install.packages("lme4")
{names}
library(lme4)
d <- read.csv("mixed_models.csv")
fits <- list(
{fits}
)
print(lapply(fits, summary))
# Which model's log-ratios predict choices best: the lowest AIC.
print(sapply(fits, AIC))
"""
_GLMER_FIT = """\
  {column} = glmer(choice ~ {column} + (1 + {column} | participant) + (1 | item),
    data = d, family = binomial)"""
_BRMS = """\
# The same with posterior distributions: install.packages("brms")
{names}
library(brms)
d <- read.csv("mixed_models.csv")
fit <- brm(choice ~ {sum} + (1 + {sum} | participant) + (1 | item),
  data = d, family = bernoulli())
print(summary(fit))
"""
_BAMBI = """\
# The same in Python: pip install bambi
{names}
import arviz
import bambi
import pandas as pd

d = pd.read_csv("mixed_models.csv")
model = bambi.Model(
    "choice ~ {sum} + (1 + {sum} | participant) + (1 | item)",
    d,
    family="bernoulli",
)
print(arviz.summary(model.fit()))
"""


def mixed_table(data: TrialData) -> pd.DataFrame:
    """Return the choices as mixed models take them.

    Returns
    -------
    DataFrame
        One row a choice with a preference: `participant`, `group`, `item` (number of the pair),
        `condition`, `sentence_1`, `sentence_2`, `rating`, `choice` (1 for sentence 2, 0 for
        sentence 1), and for each model its log p(sentence 2) - log p(sentence 1) divided by the
        root mean square over the pairs, in the columns `ratio_1`, `ratio_2`, ... by the order
        of the models. The log-ratio is NaN where it is infinite.
    """
    rows = np.flatnonzero(data.rating != 0)
    pair, person = data.pair[rows], data.participant[rows]
    table = data.pairs.loc[pair, ["condition", "sentence_1", "sentence_2"]].reset_index(drop=True)
    table.insert(0, "item", pair + 1)
    table.insert(0, "group", data.groups[data.group_of[person]])
    table.insert(0, "participant", data.participants[person])
    table["rating"] = data.rating[rows]
    table["choice"] = (data.rating[rows] > 0).astype(np.int64)
    for m in range(len(data.models)):
        ratio = np.where(np.isfinite(data.log_ratio[:, m]), data.log_ratio[:, m], np.nan)
        size = float(np.sqrt(np.nanmean(ratio**2)))
        table[f"ratio_{m + 1}"] = ratio[pair] / (size if size > 0 else 1.0)
    return table


def write_mixed_models(data: TrialData, folder: str | Path) -> list[Path]:
    """Write `mixed_table` and scripts for lme4, brms and bambi into a folder; return their paths.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    columns = [f"ratio_{m + 1}" for m in range(len(data.models))]
    pairs = zip(columns, data.models, strict=True)
    words = {
        "names": "\n".join(f"# {column}: {' '.join(name.split())}" for column, name in pairs),
        "sum": " + ".join(columns),
        "fits": ",\n".join(_GLMER_FIT.format(column=column) for column in columns),
    }
    texts = {
        "mixed_models.csv": mixed_table(data).to_csv(index=False),
        "mixed_glmer.R": _GLMER.format(**words),
        "mixed_brms.R": _BRMS.format(**words),
        "mixed_bambi.py": _BAMBI.format(**words),
    }
    place = Path(folder)
    for name, text in texts.items():
        write_whole(place / name, text)
    return [place / name for name in texts]
