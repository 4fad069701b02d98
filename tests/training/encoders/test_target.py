"""The regression target of a student, computed by hand."""

import numpy as np
import pytest

from contstim.errors import InputError
from contstim.training.encoders.student import RegressionTarget

# Four sentences of 2, 2, 4 and 4 tokens: the line through the means -10 and -20 is -5 T, and the
# residuals are 1, -1, 2, -2, of variance 10 / 4.
LENGTHS = np.array([2, 2, 4, 4])
SCORES = np.array([-9.0, -11.0, -18.0, -22.0])


def test_regression_target_fits_a_trend_in_length() -> None:
    target = RegressionTarget.fit(SCORES, LENGTHS, is_sum=True)
    assert target.intercept == pytest.approx(0, abs=1e-12)
    assert target.slope == pytest.approx(-5)
    assert target.scale == pytest.approx(np.sqrt(10 / 4))
    assert target.length == 3
    np.testing.assert_allclose(target.trend(LENGTHS), [-10, -10, -20, -20], atol=1e-12)


def test_outputs_are_multiplied_by_length_only_for_sums() -> None:
    output = np.ones(2)
    lengths = np.array([3, 6])
    total = RegressionTarget(0.0, -5.0, 2.0, 3.0, grows=True)
    mean = RegressionTarget(0.0, -5.0, 2.0, 3.0, grows=False)
    np.testing.assert_allclose(total.predict(output, lengths), [-15 + 2, -30 + 4])
    np.testing.assert_allclose(mean.predict(output, lengths), [-15 + 2, -30 + 2])


def test_residuals_are_in_standard_deviations_from_the_trend() -> None:
    target = RegressionTarget.fit(SCORES, LENGTHS, is_sum=True)
    residual = target.residuals(SCORES, LENGTHS)
    np.testing.assert_allclose(residual, np.array([1, -1, 2, -2]) / np.sqrt(2.5), atol=1e-12)
    # Sentences of 2 and 4 tokens, 3 on average: one output counts for two thirds and four thirds.
    outputs = np.array([1.5, -1.5, 1.5, -1.5]) / np.sqrt(2.5)
    np.testing.assert_allclose(target.predict(outputs, LENGTHS), SCORES)
    once = RegressionTarget.fit(SCORES, LENGTHS, is_sum=False)
    np.testing.assert_allclose(once.predict(residual, LENGTHS), SCORES)


def test_scores_determined_by_length_are_refused() -> None:
    with pytest.raises(InputError) as error:
        RegressionTarget.fit(-5.0 * LENGTHS, LENGTHS, is_sum=True)
    assert str(error.value) == (
        "the teacher's scores of 4 sentences are determined by the numbers of tokens; give more "
        "and more varied sentences"
    )
