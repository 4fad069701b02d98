"""The score cache: what is kept, for whom, and that nothing is scored twice."""

from pathlib import Path

import pytest

from contstim.errors import InputError
from contstim.models.cache import ScoreCache, model_identity
from contstim.models.toy import TableModel

WORDS = ["a", "b", "c", "d"]


def test_what_is_kept_is_not_scored_again(tmp_path: Path) -> None:
    model = TableModel(WORDS, 1)
    cache = ScoreCache(tmp_path)
    first = cache.totals(model, ["a b", "b c d", "a b"])
    assert model.n_scored == 2
    again = ScoreCache(tmp_path).totals(model, ["c c", "b c d"])
    assert model.n_scored == 3
    fresh = TableModel(WORDS, 1).totals(["a b", "b c d", "c c"])
    # Numbers are kept as the same float64.
    assert first.log_prob.tolist() == fresh.log_prob[[0, 1, 0]].tolist()
    assert again.log_prob.tolist() == fresh.log_prob[[2, 1]].tolist()
    assert first.n_tokens.tolist() == fresh.n_tokens[[0, 1, 0]].tolist()
    assert first.n_words.tolist() == [2, 3, 2]
    assert first.stderr.tolist() == [0.0, 0.0, 0.0]


def test_other_weights_events_and_versions_have_scores_of_their_own(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path)
    model = TableModel(WORDS, 1)
    cache.totals(model, ["a b"])
    identity = model_identity(model)
    assert set(cache.read(identity)) == {"a b"}
    assert {"contstim", "numpy"} <= set(identity["versions"])
    other_event = TableModel(WORDS, 1, end=False)
    other_weights = TableModel(WORDS, 1, sharpness=1.0)
    assert model.spec == other_event.spec == other_weights.spec
    for other in (other_event, other_weights):
        assert not cache.read(model_identity(other))
        assert cache.totals(other, ["a b"]).log_prob[0] == other.score(["a b"])[0]
    assert not cache.read({**identity, "versions": {"numpy": "0"}})


def test_what_another_process_adds_is_seen(tmp_path: Path) -> None:
    one, two = ScoreCache(tmp_path), ScoreCache(tmp_path)
    model = TableModel(WORDS, 1)
    assert not one.read(model_identity(model))
    two.totals(model, ["a b"])
    one.totals(model, ["a b"])
    assert model.n_scored == 1


def test_a_sentence_that_cannot_be_scored_keeps_nothing(tmp_path: Path) -> None:
    model = TableModel(WORDS, 1)
    with pytest.raises(InputError, match="zebra"):
        ScoreCache(tmp_path).totals(model, ["a b", "zebra"])
    assert not list(tmp_path.rglob("*.json"))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    model = TableModel(WORDS, 1)
    ScoreCache(tmp_path).totals(model, ["a b"])
    (path,) = tmp_path.rglob("*.json")
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")
    with pytest.raises(InputError, match="is no file of scores") as error:
        ScoreCache(tmp_path).read(model_identity(model))
    assert str(path) in str(error.value)
