"""Export of data and scripts for mixed models in lme4, brms and bambi."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import HumanData, swap_sides
from contstim.evaluation.scores import log_ratios
from contstim.files import write_atomically
from contstim.tables import escape_table
from contstim.text_files import format_csv
from contstim.trial_kinds import EXPERIMENTAL

# First columns of the exported table.
_FIRST_COLUMNS = (
    *("participant", "group", "item", "pair", "trial", "condition", "sentence_1", "sentence_2"),
    *("model_1", "model_2", "rating", "chose_2", "rt_ms"),
)


def mixed_model_table(human: HumanData, scores: pd.DataFrame) -> pd.DataFrame:
    """Return a table of choices from which mixed models can be fitted.

    Parameters
    ----------
    human
        Choices. Sentences that the importer exchanged are exchanged back. All rows of a pair get
        the order of its first row.
    scores
        Scores of S sentences by M models, shape (S, M), higher for better sentences, with the
        sentences as index.

    Returns
    -------
    DataFrame
        One row per experimental choice with a preference, with all columns of the choices and

        - `pair`: number of the pair;
        - `chose_2`: 1 for sentence 2, 0 for sentence 1;
        - `ratio_1`, `ratio_2`, ...: log p(sentence 2) - log p(sentence 1) of each model, divided by
          its root mean square over pairs; NaN if it is infinite.

        A column of the choices with one of these names is renamed to ``NAME_given``.

    Raises
    ------
    InputError
        If there is no experimental choice with a preference, or no model.
    """
    if scores.empty:
        raise InputError("mixed models need scores: give models or scores (--model or --scores)")
    ratio_columns = [f"ratio_{m + 1}" for m in range(len(scores.columns))]
    # A logistic regression needs a choice of one of the two sentences.
    is_used = (human.choices["kind"] == EXPERIMENTAL) & (human.choices["rating"] != 0)
    table = human.choices[is_used]
    if table.empty:
        raise InputError("the only preferences are in catch trials; there is nothing to fit")
    # Do not overwrite columns of the user that have the name of a new column.
    new_columns = ["pair", "chose_2", *ratio_columns]
    table = table.rename(columns={name: f"{name}_given" for name in new_columns})

    # Give each pair the order of sentences of its first row.
    pair = table.groupby(["sentence_1", "sentence_2"], sort=False).ngroup()
    if human.is_swapped is not None:
        is_swapped = human.is_swapped.loc[table.index].groupby(pair).transform("first")
        table = swap_sides(table, is_swapped.to_numpy(bool))

    # Compute one log-ratio per pair and model, scale it, and copy it to all choices of the pair.
    ratios = log_ratios(scores, table[~pair.duplicated()])
    ratios[~np.isfinite(ratios)] = np.nan
    for column, ratio in zip(ratio_columns, ratios.T, strict=True):
        root_mean_square = float(np.sqrt(np.nanmean(ratio**2)))
        table[column] = ratio[pair] / (root_mean_square if root_mean_square > 0 else 1.0)
    table["pair"], table["chose_2"] = pair + 1, (table["rating"] > 0).astype(np.int64)
    other_columns = [name for name in table if name not in _FIRST_COLUMNS]
    return table[[*_FIRST_COLUMNS, *other_columns]].reset_index(drop=True)


def write_mixed_models(human: HumanData, scores: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write a table of choices, and scripts that fit mixed models to it with lme4, brms and bambi.

    The scripts fit the regressions of choices, response times and ratings on the models' log-ratios
    that are described in the guide to mixed models. If items have several pairs, pairs have random
    intercepts too. The scripts read the table by its path relative to the working directory.

    Parameters
    ----------
    human, scores
        Choices and scores, as in `mixed_model_table`.
    folder
        Folder to which the files are written.

    Returns
    -------
    list of Path
        Paths of the files.

    Raises
    ------
    InputError
        If there is no experimental choice with a preference, or no model.
    OutputError
        If a file cannot be written.
    """
    table = mixed_model_table(human, scores)
    columns = [f"ratio_{m + 1}" for m in range(len(scores.columns))]
    hypotheses = [f"{second} > {first}" for first, second in combinations(columns, 2)]
    # Items with several pairs need random intercepts for pairs within items.
    has_nested_pairs = table["pair"].nunique() > table["item"].nunique()
    # Texts that replace the placeholders {table}, {sum}, ... of the templates.
    fields = {
        "table": json.dumps((Path(folder) / "mixed_models.csv").as_posix(), ensure_ascii=False),
        "sum": " + ".join(columns),
        "quoted": ", ".join(f'"{column}"' for column in columns),
        "items": "(1 | item) + (1 | pair)" if has_nested_pairs else "(1 | item)",
        "choices": ", ".join(f"choice_{m + 1}" for m in range(len(columns))),
        "hypotheses": ", ".join(f'"{text}"' for text in hypotheses or ["ratio_1 > 0"]),
    }
    # The name of a model is written into a comment, so it must not contain a line break.
    names = [" ".join(str(name).split()) for name in scores.columns]
    models = [{"m": m, "name": name} for m, name in enumerate(names, start=1)]
    texts = {"mixed_models.csv": format_csv(escape_table(table))}
    for name in ("mixed_glmer.R", "mixed_brms.R", "mixed_bambi.py"):
        template = files("contstim") / "templates" / f"{name}.txt"
        # A line of the template that contains {m} is repeated for each model.
        texts[name] = "".join(
            line.format(**fields, **model)
            for line in template.read_text("utf-8").splitlines(keepends=True)
            for model in (models if "{m}" in line else models[:1])
        )
    for name, text in texts.items():
        write_atomically(Path(folder) / name, text)
    return [Path(folder) / name for name in texts]
