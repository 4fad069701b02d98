"""Test agreement among participants and among models."""

from itertools import combinations

import numpy as np
import pytest

from contstim.evaluation import align_choices, check_choices, score_table
from contstim.evaluation.agreement import agreement_table, model_agreement_table
from contstim.evaluation.trials import TrialData


@pytest.fixture
def data(make_study):
    study, scores = make_study(n_people=10, n_pairs=14)
    choices = align_choices(check_choices(study))
    return TrialData.from_choices(
        choices, score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    )


def test_agreement_of_models_by_loop(data):
    data.log_ratio[3, 0] = 0.0  # no preference
    table = model_agreement_table(data).query("condition == 'all'")
    for (i, j), (_, row) in zip(combinations(range(3), 2), table.iterrows(), strict=True):
        signs = [(np.sign(r[i]), np.sign(r[j])) for r in data.log_ratio]
        share = np.mean([1.0 if a == b else 0.5 if 0 in (a, b) else 0.0 for a, b in signs])
        assert row["agreement"] == pytest.approx(share)
        assert (row["n_disagree"], row["n_trials"]) == (sum(a != b for a, b in signs), 14)


def test_agreement_of_participants_by_loop(data):
    row = agreement_table(data).query("condition == 'all'").iloc[0]
    majority = []
    for pair in range(data.n_pairs):
        share = (data.rating[data.pair == pair] > 0).mean()
        majority.append(max(share, 1 - share))
    assert row["majority"] == pytest.approx(np.mean(majority))
    assert row["near_unanimous"] == pytest.approx(np.mean(np.array(majority) >= 0.9))
