"""The bundled transformers: file sizes, `check_model` and known contrasts."""

import numpy as np
import pytest

from contstim import check_model, load_model
from contstim.models.base import SentenceModel
from contstim.models.registry import bundled_folder
from contstim.text import pool
from contstim.text.language import split_word

SPECS = ["contstim:gpt", "contstim:bert?metric=pll", "contstim:bert?metric=permutation"]


@pytest.fixture(scope="module", params=SPECS)
def model(request: pytest.FixtureRequest) -> SentenceModel:
    return load_model(request.param)


def test_bundled_transformers_pass_check_model(model: SentenceModel) -> None:
    assert model.spec in SPECS
    assert len(check_model(model, ["The dog saw.", "He left.", "It was she."], ["house"])) == 5


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_bundled_folders_are_at_most_ten_megabytes(name: str) -> None:
    files = list((bundled_folder() / name).iterdir())
    assert sum(file.stat().st_size for file in files) < 10e6
    assert {file.suffix for file in files} == {".json", ".safetensors"}


def test_natural_sentences_score_higher_than_shuffled_ones(model: SentenceModel) -> None:
    rng = np.random.default_rng(0)
    natural = [s for s in pool() if len(s.split()) == 8][:3]
    shuffled = []
    for sentence in natural:
        *words, last = sentence.split()
        before, core, final = split_word(last)
        words.append(before + core)
        shuffled.append(" ".join(words[i] for i in rng.permutation(len(words))) + final)
    assert (model.score(natural) > model.score(shuffled)).all()
    good, bad = model.score(["The men were very tired.", "The men was very tired."])
    assert good > bad
