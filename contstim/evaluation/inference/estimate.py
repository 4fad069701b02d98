"""Estimates with standard errors: t tests, confidence intervals and equivalence tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class MeanEstimate:
    """An estimated mean with a standard error and degrees of freedom.

    Attributes
    ----------
    value
        Estimated mean, or difference between means, in the unit of the measure.
    stderr
        Standard error. NaN if there are too few participants or items, 0 if all values are equal.
    df
        Degrees of freedom of the t distribution.
    item_share
        Share of the squared standard error that is due to items; NaN if unknown.

    Examples
    --------
    >>> estimate = MeanEstimate(value=0.2, stderr=0.1, df=20.0)
    >>> round(estimate.p_value(), 3)
    0.059
    >>> low, high = estimate.interval()
    >>> round(low, 3), round(high, 3)
    (-0.009, 0.409)
    """

    value: float
    stderr: float
    df: float
    item_share: float = np.nan

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided confidence interval, value ± t(df) · stderr."""
        margin = float(stdtrit(self.df, (1 + level) / 2)) * self.stderr
        return self.value - margin, self.value + margin

    def p_value(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of the t test that the mean equals `null`."""
        # Without variation, the hypothesis is certainly true or certainly false.
        if self.stderr == 0.0:
            return 1.0 if self.value == null else 0.0
        # p = 2 P(T > |value - null| / SE), with T of the t distribution.
        return float(2 * stdtr(self.df, -abs(self.value - null) / self.stderr))

    def p_equivalence(self, margin: float) -> float:
        """Return the p-value of the two one-sided tests of equivalence with zero.

        The null hypothesis is that the mean differs from 0 by at least `margin` (Schuirmann 1987,
        doi 10.1007/BF01068419): p = P(T < (abs(value) - margin) / stderr).
        """
        if self.stderr == 0.0:
            return 0.0 if abs(self.value) < margin else 1.0
        return float(stdtr(self.df, (abs(self.value) - margin) / self.stderr))

    def fisher_z(self, chance: float, maximum: float = 1.0) -> MeanEstimate | None:
        """Return the estimate on Fisher's z scale.

        With s = (value - chance) / (maximum - chance), z = artanh(s), and by the delta method
        stderr(z) = stderr / ((1 - s²) (maximum - chance)). For an accuracy, z is half the logit.

        Parameters
        ----------
        chance
            Value of a model that guesses, at which z = 0.
        maximum
            Largest possible value, at which z is infinite.

        Returns
        -------
        MeanEstimate or None
            None if abs(s) is not below 1, or if the standard error is 0 or missing.
        """
        scale = maximum - chance
        # s = (value - chance) / (maximum - chance), between -1 and 1 for possible values.
        share = (self.value - chance) / scale
        # z is infinite at s = ±1, and a comparison with NaN is false.
        if not (self.stderr > 0 and abs(share) < 1.0 - 1e-9):
            return None
        # Delta method: SE(z) = SE / ((1 - s²) (maximum - chance)), and z = artanh(s).
        stderr = self.stderr / ((1.0 - share * share) * scale)
        return replace(self, value=float(np.arctanh(share)), stderr=stderr)

    def bounded_interval(self, chance: float, maximum: float = 1.0) -> tuple[float, float]:
        """Return the 95 % confidence interval for a measure with a largest possible value.

        The interval is symmetric on Fisher's z scale, so it cannot extend beyond the maximum. If z
        is not defined, the t interval is used. Its ends are clipped to the possible values of the
        measure, which are symmetric about chance: the minimum is 2 * chance - maximum. If the
        estimate itself is below this minimum, the t interval is not clipped.

        Parameters
        ----------
        chance
            Value of a model that guesses.
        maximum
            Largest possible value.

        Returns
        -------
        low, high : float
            Ends of the interval.
        """
        transformed = self.fisher_z(chance, maximum)
        if transformed is not None:
            # Transform the ends back: chance + (maximum - chance) tanh(z).
            ends = np.tanh(transformed.interval())
            low, high = chance + (maximum - chance) * ends
            return float(low), float(high)
        # Without z, use the t interval. It must still contain the value itself after clipping.
        low, high = self.interval()
        minimum = 2 * chance - maximum
        if self.value < minimum - 1e-9:
            return low, high
        return max(low, min(minimum, self.value)), min(high, max(maximum, self.value))

    def p_chance(self, chance: float, maximum: float = 1.0) -> float:
        """Return the two-sided p-value of the t test that the mean equals chance.

        The test uses Fisher's z scale, see `fisher_z`, or the original scale if z is not defined.
        """
        # On the z scale, a value at chance is 0.
        transformed = self.fisher_z(chance, maximum)
        return self.p_value(chance) if transformed is None else transformed.p_value()
