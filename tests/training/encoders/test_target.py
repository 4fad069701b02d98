"""What a student learns of a score: worked out by hand."""

import numpy as np
import pytest

from contstim.errors import InputError
from contstim.training.encoders.student import RegressionTarget

# Four sentences of 2, 2, 4 and 4 tokens: the line through the means -10 and -20 is -5 T, and the
# residuals are 1, -1, 2, -2, of variance 10 / 4.
LENGTHS = np.array([2, 2, 4, 4])
SCORES = np.array([-9.0, -11.0, -18.0, -22.0])


def test_the_line_takes_off_what_follows_from_the_length() -> None:
    target = RegressionTarget.fit(SCORES, LENGTHS, grows=True)
    assert target.intercept == pytest.approx(0, abs=1e-12)
    assert target.slope == pytest.approx(-5)
    assert target.scale == pytest.approx(np.sqrt(10 / 4))
    assert target.length == 3
    np.testing.assert_allclose(target.line(LENGTHS), [-10, -10, -20, -20], atol=1e-12)


def test_an_output_counts_for_each_token_of_a_sum_and_once_for_a_mean() -> None:
    output = np.ones(2)
    lengths = np.array([3, 6])
    total = RegressionTarget(0.0, -5.0, 2.0, 3.0, grows=True)
    mean = RegressionTarget(0.0, -5.0, 2.0, 3.0, grows=False)
    np.testing.assert_allclose(total.score(output, lengths), [-15 + 2, -30 + 4])
    np.testing.assert_allclose(mean.score(output, lengths), [-15 + 2, -30 + 2])


def test_what_is_learnt_is_the_distance_from_the_line_in_standard_deviations() -> None:
    target = RegressionTarget.fit(SCORES, LENGTHS, grows=True)
    residual = target.residual(SCORES, LENGTHS)
    np.testing.assert_allclose(residual, np.array([1, -1, 2, -2]) / np.sqrt(2.5), atol=1e-12)
    # Sentences of 2 and 4 tokens, 3 on average: one output counts for two thirds and four thirds.
    outputs = np.array([1.5, -1.5, 1.5, -1.5]) / np.sqrt(2.5)
    np.testing.assert_allclose(target.score(outputs, LENGTHS), SCORES)
    once = RegressionTarget.fit(SCORES, LENGTHS, grows=False)
    np.testing.assert_allclose(once.score(residual, LENGTHS), SCORES)


def test_scores_that_follow_from_length_alone_are_refused() -> None:
    with pytest.raises(InputError) as error:
        RegressionTarget.fit(-5.0 * LENGTHS, LENGTHS, grows=True)
    assert str(error.value) == (
        "the teacher's scores of 4 sentences follow from their lengths alone; give more and more "
        "varied sentences"
    )
