"""Models in GGUF files, compared with transformers.

Tests `contstim.models.engines.llama`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import write_gguf
from tiny_transformers import SENTENCES, refusal

from contstim.errors import InputError, MissingExtraError, ModelFileError
from contstim.models.check import check_model
from contstim.models.engines import llama
from contstim.models.registry import load_model

needs_llama = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("llama_cpp", "gguf", "accelerate")),
    reason="llama-cpp-python, gguf or accelerate is not installed",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file in float32."""
    folder = tmp_path_factory.mktemp("gguf")
    write_gguf(folder / "tiny.gguf", folder, "F32")
    return folder / "tiny.gguf"


@needs_llama
@pytest.mark.parametrize("prefix", ["none", "bos", "eos", "<|endoftext|>"])
def test_gguf_scores_equal_transformers(whole: Path, prefix: str) -> None:
    model, other = (
        load_model(f"gguf:{whole}?prefix={prefix}"),
        load_model(f"hf:{whole}?prefix={prefix}"),
    )
    sentences = [*SENTENCES, "Ünïcode, 日本 dogs ran 🐕 fast."]
    assert model.batch_tolerance < 0.01
    np.testing.assert_allclose(
        model.score(sentences), other.score(sentences), atol=model.batch_tolerance
    )
    for here, there in zip(model.score_words(sentences), other.score_words(sentences), strict=True):
        np.testing.assert_allclose(here, there, atol=model.batch_tolerance)
    assert model.event.start == other.event.start


@needs_llama
def test_gguf_model_passes_check_model(whole: Path) -> None:
    model = load_model(f"gguf:{whole}?prefix=bos")
    check_model(model, SENTENCES, words=["dog", "saw", "us"])
    again = load_model(model.spec)
    assert (again.spec, again.event, again.fingerprint) == (
        model.spec,
        model.event,
        model.fingerprint,
    )
    assert model.packages == ("llama-cpp-python",)


@needs_llama
@pytest.mark.parametrize("begins", [False, True])
def test_start_token_is_not_doubled(tmp_path: Path, begins: bool) -> None:
    write_gguf(tmp_path / "tiny.gguf", tmp_path, "F32", begins=begins)
    model = load_model(f"gguf:{tmp_path}/tiny.gguf")
    assert model.event.start == "~"
    other = load_model(f"hf:{tmp_path}/tiny.gguf")
    np.testing.assert_allclose(model.score(SENTENCES), other.score(SENTENCES), atol=1e-3)
    for prefix, start in (("none", "none"), ("eos", "}")):
        assert load_model(f"gguf:{tmp_path}/tiny.gguf?prefix={prefix}").event.start == start


@needs_llama
def test_special_tokens_in_a_sentence_are_text(whole: Path) -> None:
    model = load_model(f"gguf:{whole}?prefix=bos")
    (parts,) = model.score_tokens(["The dog <|endoftext|> ran."])
    assert "<|endoftext|>" not in parts.tokens
    assert "".join(parts.tokens) == "The dog <|endoftext|> ran."


@needs_llama
def test_four_bit_scores_are_near_transformers(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tmp_path)
    here, there = load_model(f"gguf:{path}?prefix=bos"), load_model(f"hf:{path}?prefix=bos")
    apart = np.abs(here.score(SENTENCES) - there.score(SENTENCES))
    # llama.cpp rounds activations to 8 bits beside weights of 4.
    assert 1e-4 < apart.max() < 2


@needs_llama
def test_invalid_options_and_long_sentences_are_rejected(whole: Path, tmp_path: Path) -> None:
    assert refusal(f"gguf:{whole}?prefix=dog%20cat") == (
        f"prefix='dog cat' in 'gguf:{whole}?prefix=dog%20cat' is not a token of its vocabulary; "
        "write auto, bos, eos, none or a token"
    )
    assert refusal(f"gguf:{whole}?threads=0").endswith("give a whole number >= 1")
    with pytest.raises(
        InputError, match="tokens, but the maximum of gguf:.* is 16; leave it out, or set a larger"
    ):
        load_model(f"gguf:{whole}?context=16").score(["The dog ran. " * 9])
    with pytest.raises(InputError, match="is 40;"):  # as the file says
        load_model(f"gguf:{whole}").score(["The dog ran. " * 20])
    (tmp_path / "torn.gguf").write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(
        ModelFileError, match="llama.cpp cannot load .*; check that it is a complete"
    ):
        load_model(f"gguf:{tmp_path}/torn.gguf")


def test_missing_files_and_packages_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFileError) as error:
        load_model(f"gguf:{tmp_path}/no.gguf")
    assert str(error.value) == f"no file '{tmp_path}/no.gguf'; give the path of a GGUF file"
    monkeypatch.setattr(llama, "find_spec", lambda name: None)
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(MissingExtraError) as missing:
        load_model(f"gguf:{tmp_path}/a.gguf")
    assert str(missing.value) == (
        f"'gguf:{tmp_path}/a.gguf' needs the package llama-cpp-python; pip install "
        "llama-cpp-python, or read the file with hf:"
    )
