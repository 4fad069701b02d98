"""The rule by which a study stops: what it may be, and where it ends a study of two models."""

import numpy as np
import pytest

from contstim.adaptive.stopping import Stopping, ends_at
from contstim.adaptive.verdicts import verdicts
from contstim.errors import InputError
from contstim.sampling import CellDesign


def test_a_study_that_goes_by_two_models_ends_where_their_verdict_says():
    stopping = Stopping(rule="looks", looks=(10, 20, 30), participants=30)
    ends = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        person = np.repeat(np.arange(30), 6)
        scores = (rng.random((180, 2)) < (0.62, 0.5)).astype(float)
        first = next(v for v in verdicts(person, scores, ["a", "b"], stopping) if v.stops)
        item, difference = np.arange(len(person)), scores[:, 0] - scores[:, 1]
        means = [
            CellDesign(person[person < look], item[person < look]).mean(difference[person < look])
            for look in stopping.looks
        ]
        number, apart = ends_at(means, stopping, 2)
        assert stopping.looks[number] == first.n_participants
        assert apart == (first.kind == "best")
        ends.append((number, apart))
    assert len(set(ends)) > 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": "looks"}, "stopping.rule is 'looks' with 0 looks; announce some"),
        ({"looks": (10, 100)}, "stopping.rule is 'exact' with 2 looks; give both or neither"),
        ({"rule": "looks", "looks": (20, 10, 100)}, "looks are 20, 10, 100 of 100 participants;"),
        ({"rule": "looks", "looks": (10, 20)}, "give numbers that rise to stopping.participants"),
        ({"rule": "asymptotic", "start": 3}, "start is 3"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        Stopping(**given)
