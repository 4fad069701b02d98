"""An enumerable toy language: so few words that all strings can be summed.

Whatever a family does with batches, padding, boundary symbols and word grouping, the
probabilities it gives over the toy language must add up. With an end symbol a language has
endlessly many strings, so the sum runs over one length at a time: of all strings that begin with
L given words, either the end follows or one more word does,

    sum over s of length L of P(s, open) =
        sum over s of length L of P(s, end) + sum over s of length L + 1 of P(s, open),

where ``open`` leaves the end unscored. The identity holds exactly for a model that is normalised
at every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from contstim.errors import ValidationError
from contstim.models.base import SentenceModel

__all__ = ["all_strings", "check_normalisation", "mass"]


def all_strings(words: Sequence[str], length: int) -> list[str]:
    """Return every string of `length` words over `words`, V ** length of them."""
    return [" ".join(string) for string in itertools.product(words, repeat=length)]


def mass(model: SentenceModel, words: Sequence[str], length: int) -> float:
    """Return the summed probability of all strings of `length` words."""
    return float(np.exp(model.score(all_strings(words, length))).sum())


def check_normalisation(
    closed: SentenceModel,
    opened: SentenceModel,
    words: Sequence[str],
    length: int = 3,
    tolerance: float = 1e-5,
) -> None:
    """Check that a model over `words` gives probability exactly 1 in all.

    Parameters
    ----------
    closed, opened
        The same model with the end scored and with the end unscored.
    words
        Every word the model can predict.
    length
        Longest strings summed, at least 1.
    tolerance
        Allowed departure of each sum.

    Raises
    ------
    ValidationError
        Saying which sum is off, and by how much.
    """
    before = mass(opened, words, 1)
    for n in range(1, length + 1):
        after = mass(opened, words, n + 1)
        ended = mass(closed, words, n)
        if abs(before - ended - after) > tolerance:
            raise ValidationError(
                f"{closed.spec}: strings of {n} words have mass {before:.8f}, but those that end "
                f"there ({ended:.8f}) and those that go on ({after:.8f}) sum to {ended + after:.8f}"
            )
        before = after
