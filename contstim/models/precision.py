"""What precision does to a model: how far scores move, and which of two sentences wins.

For one checkpoint in several precisions, or computed by several engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, betaincinv

from contstim.arrays import BoolArray, FloatArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import Models, load_models

#: How sure bounds are, from one side.
CONFIDENCE = 0.95
#: Margins at which winners are counted, nats.
MARGINS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Flips:
    """How often another precision has another winner, among pairs that are far enough apart.

    Attributes
    ----------
    margin
        By how much the sentences of a pair differ at least under the reference, nats.
    pairs, flipped
        How many such pairs there are, and in how many of them the other model has another winner,
        or none.
    upper
        Upper bound of the rate among such pairs, with 95 % confidence (Clopper & Pearson 1934); NaN
        without pairs.

    Examples
    --------
    >>> apart, there = np.array([-3.0, 0.5, 2.0]), np.array([-2.0, -0.1, 2.5])
    >>> comparison = PrecisionComparison("float32", "4 bits", there - apart, apart, there)
    >>> comparison.flips(1.0).pairs, comparison.flips(1.0).flipped
    (2, 0)
    """

    margin: float
    pairs: int
    flipped: int
    upper: float


@displayed
@dataclass(frozen=True, eq=False)
class PrecisionComparison:
    """A model beside the same in another precision, the reference, on P pairs of sentences.

    Attributes
    ----------
    reference, model
        What the two are called.
    score_differences
        Score of the model less that of the reference, a sentence each, shape (S,), nats.
    reference_pairs, pairs
        Score of the first sentence of a pair less that of the second, under either, shape (P,),
        nats.

    Examples
    --------
    >>> apart, there = np.array([-3.0, 0.5, 2.0]), np.array([-2.0, -0.1, 2.5])
    >>> comparison = PrecisionComparison("float32", "4 bits", there - apart, apart, there)
    >>> comparison.flipped, comparison.margin()[0]
    (array([False,  True, False]), 1.0)
    """

    reference: str
    model: str
    score_differences: FloatArray
    reference_pairs: FloatArray
    pairs: FloatArray

    @property
    def moved(self) -> FloatArray:
        """By how much the difference of a pair moves, shape (P,), nats."""
        return np.abs(self.pairs - self.reference_pairs)

    @property
    def flipped(self) -> BoolArray:
        """Which pairs have another winner, or none where the reference has one, shape (P,)."""
        return np.asarray(np.sign(self.pairs) != np.sign(self.reference_pairs))

    def flips(self, margin: float = 0.0) -> Flips:
        """Count the pairs of another winner among those at least `margin` nats apart."""
        among = np.abs(self.reference_pairs) >= margin
        n, k = int(among.sum()), int(self.flipped[among].sum())
        upper = np.nan if not n else 1.0 if k == n else float(betaincinv(k + 1, n - k, CONFIDENCE))
        return Flips(margin, n, k, upper)

    def margin(self, share: float = 0.95) -> tuple[float, float]:
        """Return a number of nats, and of how many pairs the difference moves by no more.

        With 95 % confidence it is that share of all pairs of which these are a sample, at least,
        whatever the distribution (Wilks 1941). The winner of a pair changes only if its difference
        moves by more than it is: so among all pairs those that are this margin apart under the
        reference and have another winner are at most the rest.

        Parameters
        ----------
        share
            The share that is wanted; with too few pairs it is less, and the largest move the
            margin.
        """
        if not 0 < share < 1:
            raise InputError(f"share is {share}; give a number between 0 and 1")
        moved = np.sort(self.moved)
        n = len(moved)
        # P(the k-th smallest of n exceeds the quantile) = P(fewer than k of n are below it).
        sure = bdtr(np.arange(n), n, share) >= CONFIDENCE
        if sure.any():
            return float(moved[int(np.argmax(sure))]), share
        return float(moved[-1]), float((1 - CONFIDENCE) ** (1 / n))

    def lines(self, share: float = 0.95) -> list[str]:
        """Return the comparison in words, the margin that of `share`."""
        margin, sure = self.margin(share)
        scores = np.abs(self.score_differences)
        rates = [
            f"  {flips.margin:>4g} nats apart or more: {flips.pairs:>6,} pairs, "
            f"{flips.flipped:>5,} with another winner ({flips.flipped / flips.pairs:.1%}, "
            f"with 95 % confidence at most {flips.upper:.1%})"
            for flips in map(self.flips, MARGINS)
            if flips.pairs
        ]
        return [
            self.model,
            f"  scores move by {scores.mean():.3g} nats on average, {scores.max():.3g} at most; "
            f"differences of a pair by {self.moved.mean():.3g} and {self.moved.max():.3g}",
            *rates,
            f"  margin: {margin:.3g} nats, by which the differences of {sure:.1%} of such pairs "
            "move at most, with 95 % confidence",
        ]


def compare_precisions(
    models: Models, pairs: Sequence[tuple[str, str]]
) -> list[PrecisionComparison]:
    """Compare models with the first of them, on pairs of sentences.

    Parameters
    ----------
    models
        The reference, and at least one more: as a rule one checkpoint in several precisions, or
        computed by several engines.
    pairs
        Pairs of sentences, shape (P, 2); a sentence may be in several.

    Raises
    ------
    InputError
        If there are not two models or no pair, if their scores are of different kinds, or if a
        sentence cannot be scored.

    Examples
    --------
    >>> pairs = [("The dog slept.", "The slept dog."), ("A cat ran away.", "A cat away ran.")]
    >>> (comparison,) = compare_precisions(["contstim:gpt", "contstim:gpt?dtype=bfloat16"], pairs)
    >>> comparison.flips().flipped
    0
    """
    reference, *others = load_models(models)
    if not others:
        raise InputError(f"{reference.name!r} is alone; name the same model in another precision")
    if not pairs:
        raise InputError("there are no pairs of sentences; give at least one")
    for other in others:
        if other.kind != reference.kind:
            raise InputError(
                f"{other.name!r} gives a {other.kind.name} and {reference.name!r} a "
                f"{reference.kind.name}; compare scores of one kind"
            )
    places = {text: place for place, text in enumerate(dict.fromkeys(t for p in pairs for t in p))}
    first, second = (np.array([places[pair[side]] for pair in pairs]) for side in (0, 1))

    def scores(model: SentenceModel) -> tuple[FloatArray, FloatArray]:
        values = model.score(list(places))
        return values, values[first] - values[second]

    values, of_pairs = scores(reference)
    return [
        PrecisionComparison(reference.name, other.name, those - values, of_pairs, pairs_there)
        for other in others
        for those, pairs_there in [scores(other)]
    ]
