"""An experimentalist of AutoRA that asks for the pairs of sentences that models disagree about.

AutoRA (Musslick et al. 2024) closes the loop of experiments, data and models; what is asked next is
chosen by a function from conditions to conditions. It needs nothing of AutoRA here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.errors import InputError, require_whole
from contstim.evaluation.scores import as_source, log_ratios, score_table
from contstim.models.base import SentenceModel
from contstim.models.registry import Models
from contstim.tables import require_columns


def controversial_sample(
    conditions: pd.DataFrame, compared: Models | SentenceModel | str, num_samples: int = 1
) -> pd.DataFrame:
    """Return the pairs of sentences of which two models most decidedly prefer opposite sides.

    Each model's log-ratios of the two sentences count in their standard deviations over the
    conditions. Two models that prefer opposite sides disagree by the smaller of their two
    preferences, and a pair is worth what those two disagree by that disagree most.

    Parameters
    ----------
    conditions
        Pairs of sentences: columns ``sentence_1`` and ``sentence_2``, and any others.
    compared
        Two models at least, or their specs.
    num_samples
        How many pairs.

    Returns
    -------
    DataFrame
        So many rows of `conditions`, those worth most first; of equals the first ones.

    Raises
    ------
    InputError
        If a column is missing, there are fewer than two models, or fewer conditions than wanted.

    Examples
    --------
    >>> pairs = pd.DataFrame(
    ...     {
    ...         "sentence_1": ["The dog slept.", "The dog the slept.", "We saw that dog."],
    ...         "sentence_2": ["The dog the.", "Dog the slept the.", "Dog saw we that."],
    ...     }
    ... )
    >>> controversial_sample(pairs, ["contstim:bigram", "contstim:trigram"]).shape
    (1, 2)

    In a cycle of AutoRA: ``on_state(controversial_sample)(state, compared=models, num_samples=9)``.
    """
    require_columns(conditions, ("sentence_1", "sentence_2"), "the table of conditions")
    require_whole("num_samples", num_samples, 1)
    if num_samples > len(conditions):
        raise InputError(
            f"{num_samples} pairs are wanted of {len(conditions)}; give more, or ask for fewer"
        )
    pairs = conditions[["sentence_1", "sentence_2"]].astype("str")
    wide = score_table(as_source(compared), pairs.to_numpy().ravel().tolist())
    if wide.shape[1] < 2:
        raise InputError(f"only {wide.columns[0]} is compared; name another model as well")
    ratios = log_ratios(wide, pairs)
    spread = ratios.std(axis=0)
    ratios = ratios / np.where(spread > 0, spread, 1.0)
    # Of the surest preference of either side, the smaller one.
    worth = np.minimum(ratios.max(axis=1), -ratios.min(axis=1))
    return conditions.iloc[np.argsort(-worth, kind="stable")[:num_samples]]
