"""A cheap model's scores in place of the rejecting model's own estimates: a student, mostly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contstim.models.base import BoolArray, Replacements, SentenceModel
from contstim.text import Sentence, WordList

__all__ = ["SHORTLIST", "estimate_for", "with_estimate"]

#: How many candidates of a position the cheap model scores.
SHORTLIST = 64

# Scores that a line is fitted to, at least.
_FEWEST = 8


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
    """Improve the estimates of candidates' scores by those of a cheap model.

    The candidates with the lowest estimates, `SHORTLIST` of those admitted, are scored by the
    cheap model. What it says is taken relative to the sentence as it is, so that its error on
    this sentence cancels, and averaged with the table's own estimate, whose error is of another
    kind. The other candidates' estimates follow by the line through the shortlist. Bounds and
    exact scores stay the model's own, so what is found is as sure as without.

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
    own = table.estimate[short]
    better = present + scores[1:] - scores[0]
    estimate = table.estimate.copy()
    if np.ptp(own) == 0:
        # A table that tells no candidates apart has no opinion to be weighed.
        estimate[:] = better.mean()
    else:
        better = 0.5 * (own + better)
    if len(short) >= _FEWEST and np.ptp(own) > 0:
        slope, intercept = np.polyfit(own, better, 1)
        estimate = intercept + max(float(slope), 0.0) * estimate
    estimate[short] = better
    return replace(table, estimate=np.minimum(estimate, table.upper))
