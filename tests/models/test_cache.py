"""The score cache: stored scores, their keys, and no repeated scoring."""

import importlib
import importlib.metadata
import json
from pathlib import Path

import pytest

from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.cache import (
    ScoreCache,
    _packages_by_module,
    dependency_names,
    describe_model,
    model_identity,
)
from contstim.models.reductions import ReducedModel
from contstim.models.registry import load_model
from contstim.models.toy import RandomBigramModel

WORDS = ["a", "b", "c", "d"]


def test_cached_sentences_are_not_scored_again(tmp_path: Path) -> None:
    model = RandomBigramModel(WORDS, 1)
    cache = ScoreCache(tmp_path)
    first = cache.score_with_counts(model, ["a b", "b c d", "a b"])
    assert model.n_scored == 2
    again = ScoreCache(tmp_path).score_with_counts(model, ["c c", "b c d"])
    assert model.n_scored == 3
    fresh = RandomBigramModel(WORDS, 1).score_with_counts(["a b", "b c d", "c c"])
    # Numbers are kept as the same float64.
    assert first.score.tolist() == fresh.score[[0, 1, 0]].tolist()
    assert again.score.tolist() == fresh.score[[2, 1]].tolist()
    assert first.n_tokens.tolist() == fresh.n_tokens[[0, 1, 0]].tolist()
    assert first.n_words.tolist() == [2, 3, 2]
    assert first.stderr.tolist() == [0.0, 0.0, 0.0]


def test_cache_depends_on_weights_event_and_versions(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path)
    model = RandomBigramModel(WORDS, 1)
    cache.score_with_counts(model, ["a b"])
    identity = model_identity(model)
    assert set(cache.read(identity)) == {"a b"}
    assert {"contstim", "numpy"} <= set(identity["versions"])
    other_event = RandomBigramModel(WORDS, 1, end=False)
    other_weights = RandomBigramModel(WORDS, 1, sharpness=1.0)
    assert model.spec == other_event.spec == other_weights.spec
    for other in (other_event, other_weights):
        assert not cache.read(model_identity(other))
        assert cache.score_with_counts(other, ["a b"]).score[0] == other.score(["a b"])[0]
    assert not cache.read({**identity, "versions": {"numpy": "0"}})


def test_description_contains_the_score_kind() -> None:
    plain = describe_model(load_model("contstim:unigram"))["score"]
    assert plain == {
        "name": "log-probability",
        "unit": "nats",
        "highest": 0.0,
        "splits_over_words": True,
        "differs_in_nats": True,
    }
    slor = describe_model(load_model("contstim:bigram?reduction=slor"))
    assert slor["score"]["highest"] is None  # as high as a unigram model is low
    assert json.loads(json.dumps(slor, allow_nan=False)) == slor


def _install(folder: Path, name: str, version: str) -> None:
    """Put a package with one module into a folder, as pip would."""
    (folder / f"{name}.py").write_text(
        "from contstim.models.toy import RandomBigramModel\n\n\nclass Own(RandomBigramModel): ...\n"
    )
    info = folder / f"{name}_models-1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}-models\nVersion: {version}\n"
    )
    (info / "top_level.txt").write_text(f"{name}\n")


def test_cache_depends_on_package_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "strangers", "1.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    _packages_by_module.cache_clear()
    model = importlib.import_module("strangers").Own(WORDS, 1)
    monkeypatch.setattr(type(model), "packages", ("pytest", "not-installed"), raising=False)
    try:
        installed = describe_model(model)["packages"]
        assert installed == {"pytest": pytest.__version__, "strangers-models": "1.0"}
        cache = ScoreCache(tmp_path / "scores")
        cache.score_with_counts(model, ["a b"])
        # A model around it depends on the same.
        assert dependency_names(ReducedModel(model, "mean", ModelSpec("own", "mean"))) == (
            "not-installed",
            "pytest",
            "strangers-models",
        )
        assert cache.read(model_identity(model))
        _install(tmp_path, "strangers", "1.1")
        assert not cache.read(model_identity(model))
    finally:
        _packages_by_module.cache_clear()


def test_description_lists_packages_of_model_families() -> None:
    names = {
        "contstim:trigram": "kenlm-ex",
        "contstim:lstm": "torch",
        "contstim:gpt": "transformers",
    }
    for spec, name in names.items():
        found = describe_model(load_model(spec))["packages"]
        assert found[name] == importlib.metadata.version(name)
    assert describe_model(RandomBigramModel(WORDS, 1))["packages"] == {}


def test_cache_sees_scores_of_other_processes(tmp_path: Path) -> None:
    one, two = ScoreCache(tmp_path), ScoreCache(tmp_path)
    model = RandomBigramModel(WORDS, 1)
    assert not one.read(model_identity(model))
    two.score_with_counts(model, ["a b"])
    one.score_with_counts(model, ["a b"])
    assert model.n_scored == 1


def test_unscorable_sentence_leaves_no_cache_file(tmp_path: Path) -> None:
    model = RandomBigramModel(WORDS, 1)
    with pytest.raises(InputError, match="zebra"):
        ScoreCache(tmp_path).score_with_counts(model, ["a b", "zebra"])
    assert not list(tmp_path.rglob("*.json"))


def test_damaged_cache_files_are_reported(tmp_path: Path) -> None:
    model = RandomBigramModel(WORDS, 1)
    ScoreCache(tmp_path).score_with_counts(model, ["a b"])
    (path,) = tmp_path.rglob("*.json")
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")
    with pytest.raises(InputError, match="is not a file of scores") as error:
        ScoreCache(tmp_path).read(model_identity(model))
    assert str(path) in str(error.value)
