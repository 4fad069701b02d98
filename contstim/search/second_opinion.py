"""A cheap model's scores beside the rejecting model's own estimates: a student's, mostly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contstim.arrays import BoolArray
from contstim.models.base import Replacements, SentenceModel
from contstim.text.sentence import Sentence, WordList

__all__ = ["SHORTLIST", "estimate_for", "with_estimate"]

#: How many candidates of a position the cheap model scores.
SHORTLIST = 64


def estimate_for(model: SentenceModel, among: Sequence[SentenceModel]) -> SentenceModel | None:
    """Return the student of `model` among some models, or None."""
    for student in among:
        if getattr(student.event, "imitates", None) == model.spec:
            return student
    return None


def with_estimate(
    table: Replacements,
    cheap: SentenceModel,
    sentence: Sentence,
    position: int,
    words: WordList,
    admitted: BoolArray,
    present: float,
) -> Replacements:
    """Add to the estimates of candidates' scores what a cheap model takes them for.

    The candidates with the lowest estimates, `SHORTLIST` of those admitted, are scored by the
    cheap model. What it says is taken relative to the sentence as it is, so that its error on
    this sentence cancels. How much that is worth beside the table's own estimate, if anything, is
    learnt from the exact scores (`Belief`). Bounds, estimates and exact scores stay the model's
    own, so what is found is as sure as without.

    Parameters
    ----------
    table
        The expensive model's replacement scores.
    cheap
        A model whose scores come near to the expensive model's, in the same unit.
    sentence, position, words
        What is replaced.
    admitted
        Which candidates are still open, shape (V,).
    present
        The expensive model's score of `sentence`.
    """
    if table.exact:
        return table
    index = np.flatnonzero(admitted)
    short = index[np.argsort(table.estimate[index], kind="stable")][:SHORTLIST]
    known = cheap.knows([sentence.surface(position, words.words[i]) for i in short])
    short = short[known]
    if len(short) == 0:
        return table
    texts = [str(sentence), *(str(sentence.replace(position, words.words[i])) for i in short)]
    scores = cheap.score(texts)
    opinion = np.full(len(words), np.nan)
    opinion[short] = present + scores[1:] - scores[0]
    return replace(table, opinion=np.minimum(opinion, table.upper))
