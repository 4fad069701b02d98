"""Distillation: training sentences, reproducibility and rejected inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from labelled_sentences import WORDS, sentences
from tiny_transformers import SENTENCES, save_checkpoint

from contstim import load_model
from contstim.errors import InputError, ModelFileError, OutputError, SpecError
from contstim.models import ModelSpec
from contstim.models.cache import ScoreCache
from contstim.models.toy import RandomBigramModel
from contstim.text.languages import get_language
from contstim.training.distillation import distill
from contstim.training.options import FitOptions


def test_teacher_without_encoder_needs_a_base(bert: Path, tmp_path: Path) -> None:
    teacher = RandomBigramModel(WORDS, 1)
    text = [s.removesuffix(".") for s in sentences(60, 1)]
    with pytest.raises(ModelFileError):
        distill(teacher, text, tmp_path / "out")
    options = FitOptions(epochs=1, learning_rate=1e-3)
    record = distill(teacher, text, tmp_path / "out", base=str(bert), options=options)
    assert record["teacher"]["spec"] == teacher.spec
    model = load_model(f"student:{tmp_path / 'out'}")
    assert np.isfinite(model.score(text)).all()


def test_seed_determines_the_student_and_scores_are_cached(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = load_model(f"hf:{bert}?metric=pll&reduction=mean")
    options = FitOptions(epochs=1, layers=1)
    text = sentences(60, 2)
    cache = tmp_path / "cache"
    first = distill(teacher, text, tmp_path / "a", options=options, cache=cache, seed=3)
    monkeypatch.setattr(
        type(teacher), "score_with_counts", lambda *_: pytest.fail("the teacher was asked again")
    )
    distill(teacher, text, tmp_path / "b", options=options, cache=cache, seed=3)
    other = distill(teacher, text, tmp_path / "c", options=options, cache=cache, seed=4)
    scores = [load_model(f"student:{tmp_path / name}").score(SENTENCES) for name in "abc"]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])
    assert first["heldout"] != other["heldout"]
    assert load_model(f"student:{tmp_path / 'a'}").event.reduction == "mean"
    with pytest.raises(SpecError) as error:
        load_model(f"student:{tmp_path / 'a'}?reduction=pen")
    assert "'mean' scores are not sums of log-probabilities" in str(error.value)
    assert ScoreCache(cache).folder.is_dir()


def test_held_out_sentences_and_unknown_words_are_excluded(bert: Path, tmp_path: Path) -> None:
    text = [*sentences(40, 1, least=4), "The £ ran.", "the dog " * 30 + "ran."]
    held = sentences(40, 1, least=4)[:10]
    record = distill(
        load_model(f"hf:{bert}?metric=pll"),
        text,
        tmp_path / "out",
        heldout=held,
        options=FitOptions(epochs=1, layers=1),
    )
    assert record["training"]["sentences"] == len(set(text) - set(held)) - 2
    assert record["training"]["left_out"] == 2
    assert record["heldout"]["sentences"] == len(set(held))


def test_invalid_distillations_are_rejected(bert: Path, student: Path, tmp_path: Path) -> None:
    teacher = load_model(f"hf:{bert}?metric=pll")
    with pytest.raises(OutputError) as taken:
        distill(teacher, sentences(60, 1), student)
    assert str(taken.value) == f"{student} exists; choose another folder, or remove it"
    with pytest.raises(InputError, match="1 training and 0 held-out sentences, of 1 and 0"):
        distill(teacher, ["the dog ran."], tmp_path / "x")
    with pytest.raises(InputError, match="cannot train 3 layers of a network that has 2"):
        distill(teacher, sentences(60, 1), tmp_path / "x", options=FitOptions(layers=3))
    with pytest.raises(InputError, match="precision is 'float8'; did you mean"):
        FitOptions(precision="float8")
    with pytest.raises(InputError, match="learning_rate is .*; give more than 0"):
        FitOptions(learning_rate=0.0)
    with pytest.raises(InputError, match="(epochs|batch) is 0; give at least 1"):
        FitOptions(epochs=0)


@pytest.mark.parametrize("name", ["gpt2", "xlm"])
def test_base_must_be_bidirectional_with_separate_layers(
    name: str, bert: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    folder = save_checkpoint(name, tmp_path / name)
    teacher = load_model(f"hf:{bert}?metric=pll")
    with pytest.raises(ModelFileError) as error:
        distill(
            teacher,
            sentences(60, 1),
            tmp_path / "x",
            base=str(folder),
            options=FitOptions(layers=1),
        )
    assert "\n" not in str(error.value)
    wanted = {"gpt2": "no bidirectional encoder", "xlm": "not a single list of layers"}
    assert wanted[name] in str(error.value)


def test_words_are_divided_by_the_language_of_the_teacher(bert: Path, tmp_path: Path) -> None:
    teacher = RandomBigramModel([*WORDS, "l'", "!"], 1)
    teacher._spec = ModelSpec.parse("table:1?language=fr")
    teacher.tokenizer = replace(teacher.tokenizer, punctuation="split", language=get_language("fr"))
    text = ["l'" + s.removesuffix(".") + " !" for s in sentences(60, 1)]
    options = FitOptions(epochs=1, layers=1)
    record = distill(teacher, text, tmp_path / "out", base=str(bert), options=options)
    assert record["training"]["left_out"] == 0
