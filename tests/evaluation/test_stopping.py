"""The stopping rule: what it may be, and where a study of two models ends."""

import numpy as np
import pytest

from contstim.adaptive.interim import conclusions
from contstim.errors import InputError
from contstim.evaluation.inference.quasi_f import CellDesign
from contstim.evaluation.stopping import Stopping, first_crossing


def test_two_models_differ_where_the_conclusion_says():
    stopping = Stopping(analyses=(10, 20, 30), participants=30, margin=1e-6)
    ends = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        person = np.repeat(np.arange(30), 6)
        scores = (rng.random((180, 2)) < (0.62, 0.5)).astype(float)
        first = next(v for v in conclusions(person, scores, ["a", "b"], stopping) if v.stops)
        item, difference = np.arange(len(person)), scores[:, 0] - scores[:, 1]
        means = [
            CellDesign(person[person < n], item[person < n]).mean(difference[person < n])
            for n in stopping.analyses
        ]
        number, differs = first_crossing(means, stopping, 2)
        assert stopping.analyses[number] == first.n_participants
        assert differs == (first.kind == "best")
        ends.append((number, differs))
    assert len(set(ends)) >= 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"analyses": (20, 10, 100)}, "analyses are 20, 10, 100 of 100 participants; give ascend"),
        ({"analyses": (10, 20)}, "ascending numbers that end with stopping.participants"),
        ({"start": 3}, "start is 3"),
        ({"alpha": 1.0}, "alpha is 1.0; give less than 1"),
    ],
)
def test_an_impossible_rule_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        Stopping(**given)
