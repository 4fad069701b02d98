"""Test the study of Golan et al. (2023): models of hub.toml and word-vector similarity.

Tests `contstim.models.hf.options`.
"""

import importlib.util
import math
import statistics
import tomllib
from pathlib import Path

import pytest

from contstim.models import ModelSpec
from contstim.models.hf.options import CAUSAL_OPTIONS, MASKED_OPTIONS, CausalOptions, MaskedOptions
from contstim.models.registry import bundled_models
from contstim.pipeline.study import read_study_plan

FOLDER = Path(__file__).parents[2] / "experiments" / "golan2023"
PLAN = FOLDER / "hub.toml"


def test_nine_models_have_the_published_options() -> None:
    specs = list(map(ModelSpec.parse, tomllib.loads(PLAN.read_text("utf-8"))["models"]))
    assert list(map(str, specs)) == list(read_study_plan(PLAN).models)
    gpt, *masked = specs[:5]
    gpt.check_options(CAUSAL_OPTIONS)
    CausalOptions.read(gpt)
    for spec in masked:
        spec.check_options(MASKED_OPTIONS)
        options = MaskedOptions.read(spec)
        assert (options.metric, options.restricted) == ("permutation", True)
        assert options.exact >= 8
    assert masked[1].location == "google/electra-large-generator"
    assert {spec.location for spec in specs[5:]} <= set(bundled_models())


def test_similarity_is_mean_correlation_of_word_vectors(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("golan2023_run", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    vectors = {"dogs": (1.0, 2.0, 4.0), "chase": (3.0, 1.0, 2.0), "cats": (1.5, 2.0, 3.0)}
    file = tmp_path / "vectors.txt"
    lines = (f"{word} {' '.join(map(str, numbers))}" for word, numbers in vectors.items())
    file.write_text("\n".join([*lines, "unused 1 1 1"]) + "\n", encoding="utf-8")

    words = {"dogs", "chase", "cats", "quickly"}
    read = study.read_vectors(file, words)
    assert {word: tuple(vector) for word, vector in read.items()} == vectors
    pairs = (("dogs", "chase"), ("dogs", "cats"), ("chase", "cats"))
    expected = statistics.mean(statistics.correlation(vectors[a], vectors[b]) for a, b in pairs)
    assert study.similarity("Dogs quickly chase cats.", read) == pytest.approx(expected)
    assert math.isnan(study.similarity("Dogs run quickly.", read))
