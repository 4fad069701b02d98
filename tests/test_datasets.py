"""The bundled data sets are consistent with each other and with their docstrings."""

from contstim import datasets
from contstim.columns import TRIPLETS


def test_natural_scores_are_log_probabilities_of_six_models() -> None:
    scores = datasets.natural_scores()
    assert scores.shape == (724, 6)
    assert scores.index.is_unique
    assert (scores < 0).all(axis=None)


def test_models_disagree_on_the_bundled_triplets() -> None:
    triplets = datasets.readable_triplets()
    assert list(triplets.columns[: len(TRIPLETS)]) == list(TRIPLETS)
    assert sorted(triplets.groupby(["model_1", "model_2"]).size()) == [17, 18]
    by_1 = triplets["synthetic_1_lp_1"] - triplets["synthetic_2_lp_1"]
    by_2 = triplets["synthetic_1_lp_2"] - triplets["synthetic_2_lp_2"]
    assert (by_1 > 0).all()
    assert (by_2 < 0).all()


def test_simulated_choices_have_six_groups_of_five_participants() -> None:
    choices = datasets.simulated_choices()
    assert choices["participant"].nunique() == 30
    assert choices["group"].nunique() == 6
    assert {"catch", "natural_controversial"} < {*choices["condition"]}
    written = datasets.readable_triplets()
    shown = {*choices["sentence_1"], *choices["sentence_2"]}
    assert len(shown & {*written["synthetic_1"], *written["synthetic_2"]}) > 20
