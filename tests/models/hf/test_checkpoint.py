"""Kinds, limits and fingerprints of checkpoints, and messages for unusable ones.

Tests `contstim.models.hf`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_transformers import save_network, save_tokenizer

from contstim.errors import InputError, MissingExtraError, ModelFileError, SpecError
from contstim.models import ModelSpec
from contstim.models.hf import checkpoint
from contstim.models.hf.causal import CausalModel
from contstim.models.hf.checkpoint import Checkpoint, load_checkpoint
from contstim.models.hf.masked import MaskedModel
from contstim.models.registry import load_model

Tiny = Callable[[str], Path]

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}


def _refusal(spec: str) -> str:
    with pytest.raises(ModelFileError) as error:
        load_model(spec)
    return str(error.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a WordPiece tokenizer and no network."""
    save_tokenizer("bert", tmp_path)
    return tmp_path


def test_networks_that_compute_nan_are_rejected(tiny: Tiny, tmp_path: Path) -> None:
    for name in ("bert", "gpt2"):
        folder = tmp_path / name
        shutil.copytree(tiny(name), folder)
        network = load_model(f"hf:{folder}").network.model
        with torch.no_grad():
            network.get_input_embeddings().weight.fill_(torch.nan)
        network.save_pretrained(folder)
        for options in ("", "?reduction=mean"):
            with pytest.raises(ModelFileError) as error:
                load_model(f"hf:{folder}{options}").score(["the dog ran"])
            assert str(error.value) == (
                f"hf:{folder} computes NaN for 'the dog ran'; set dtype=float32 in the spec or use "
                "a checkpoint that is not damaged"
            )


def test_configuration_determines_the_kind_of_model(tiny: Tiny, folder: Path) -> None:
    assert isinstance(load_model(f"hf:{tiny('bert')}"), MaskedModel)
    assert isinstance(load_model(f"hf:{tiny('gpt2')}"), CausalModel)
    config = transformers.BertConfig(vocab_size=120, is_decoder=True, **SMALL)
    save_network(transformers.BertLMHeadModel(config), folder)
    model = load_model(f"hf:{folder}")
    assert isinstance(model, CausalModel)
    # It has no BOS, and its template's [CLS] stands before every sentence.
    assert model.event.start == "[CLS]"
    assert np.isfinite(model.score(["the dog ran"])).all()
    with pytest.raises(SpecError) as error:
        load_model(f"hf:{folder}?words=corrected")
    assert str(error.value) == (
        f"words='corrected' in 'hf:{folder}?words=corrected': its vocabulary does not mark the "
        "white space before words; leave the option out"
    )
    with pytest.raises(SpecError) as error:
        load_model(f"hf:{folder}?end=scored")
    assert str(error.value) == (
        f"end='scored' in 'hf:{folder}?end=scored': its tokenizer has no end-of-sequence token; "
        "leave the option out"
    )


@pytest.mark.parametrize(
    ("architecture", "kind", "more"),
    [
        ("XLNetLMHeadModel", "xlnet", {"d_model": 32, "n_layer": 1, "n_head": 2, "d_inner": 48}),
        ("BertGenerationDecoder", "bert-generation", SMALL),
        ("RobertaForCausalLM", "roberta", SMALL),
    ],
)
def test_networks_that_attend_to_later_words_are_refused(
    tmp_path: Path, architecture: str, kind: str, more: dict[str, Any]
) -> None:
    tokenizer = save_tokenizer("gpt2", tmp_path)
    config = transformers.CONFIG_MAPPING[kind](vocab_size=len(tokenizer), **more)
    save_network(getattr(transformers, architecture)(config), tmp_path)
    assert _refusal(f"hf:{tmp_path}") == (
        f"'{tmp_path}' is a model of type {kind!r} with predictions that depend on later words, so "
        "it has no left-to-right log-probabilities; use a causal checkpoint (a decoder of the BERT "
        "family has is_decoder in its configuration)"
    )


def test_causal_xlm_is_a_causal_model(tmp_path: Path) -> None:
    tokenizer = save_tokenizer("xlm", tmp_path)
    more = {"emb_dim": 32, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 40}
    n = max(tokenizer.get_vocab().values()) + 1
    config = transformers.XLMConfig(vocab_size=n, causal=True, **more)
    save_network(transformers.XLMWithLMHeadModel(config), tmp_path)
    network = transformers.XLMWithLMHeadModel.from_pretrained(tmp_path).eval()
    ids = torch.tensor([tokenizer("the old dog ran")["input_ids"][:-1]])  # the last is </s>
    log_probs = network(input_ids=ids).logits[0, :-1].detach().log_softmax(dim=1)
    model = load_model(f"hf:{tmp_path}")
    assert isinstance(model, CausalModel)
    assert model.event.start == "<s>"
    expected = float(log_probs.gather(1, ids[0, 1:, None]).sum())
    assert model.score(["the old dog ran"])[0] == pytest.approx(expected, abs=1e-4)


def test_max_tokens_of_a_network_with_alibi_positions(tmp_path: Path) -> None:
    tokenizer = save_tokenizer("gpt2", tmp_path)
    more = {"d_model": 32, "n_layers": 1, "n_heads": 2, "max_seq_len": 16}
    config = transformers.MptConfig(vocab_size=len(tokenizer), **more)
    save_network(transformers.MptForCausalLM(config), tmp_path)
    with pytest.raises(InputError) as error:
        load_model(f"hf:{tmp_path}").score(["the " * 15 + "dog"])
    assert str(error.value).endswith(
        f"hf:{tmp_path} accepts at most 16; shorten or split the sentence"
    )


def test_checkpoints_without_a_trained_head_are_rejected(folder: Path) -> None:
    config = transformers.BertConfig(vocab_size=120, **SMALL)
    save_network(transformers.BertModel(config), folder)
    message = _refusal(f"hf:{folder}")
    assert message == (
        f"'{folder}' has no trained language-model head: the checkpoint lacks 6 weights, among "
        "them cls.predictions.bias; use a checkpoint that was trained to predict words (for "
        "ELECTRA, the generator)"
    )


def test_electra_discriminator_is_rejected(folder: Path) -> None:
    config = transformers.ElectraConfig(vocab_size=120, embedding_size=16, **SMALL)
    save_network(transformers.ElectraForPreTraining(config), folder)
    assert _refusal(f"hf:{folder}") == (
        f"'{folder}' has no trained language-model head: the checkpoint lacks 5 weights, among "
        "them generator_lm_head.bias; use a checkpoint that was trained to predict words (for "
        "ELECTRA, the generator)"
    )


def test_models_of_unsupported_types_are_rejected(folder: Path) -> None:
    config = transformers.ViTConfig(
        image_size=8, patch_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.ViTModel(config).save_pretrained(folder)
    assert _refusal(f"hf:{folder}") == (
        f"'{folder}' is a model of type 'vit', which transformers can load neither as a causal nor "
        "as a masked language model; use a model of one of these kinds"
    )


def test_locations_without_a_checkpoint_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "nothing"
    assert _refusal(f"hf:{missing}") == (
        f"'{missing}' is not a folder; give the folder of a checkpoint, a .gguf file or a name on "
        "the Hugging Face hub"
    )
    assert _refusal(f"hf:{missing}.gguf") == (
        f"no file '{missing}.gguf'; give the path of a GGUF file"
    )
    assert _refusal(f"hf:{tmp_path}").startswith(
        f"cannot load '{tmp_path}': transformers cannot read it ("
    )
    # A name on the hub, with an empty cache and no network.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = _refusal("hf:some-one/some-model")
    assert message.startswith(
        "cannot load 'some-one/some-model': it is neither in the local cache of the Hugging Face "
        "hub nor can it be downloaded ("
    )
    assert "\n" not in message


def test_missing_packages_for_gguf_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    for name in ("accelerate", "gguf"):
        monkeypatch.setattr(
            "contstim.models.hf.pretrained.find_spec",
            lambda package, name=name: None if package == name else package,
        )
        with pytest.raises(MissingExtraError) as error:
            load_model(f"hf:{file}")
        assert str(error.value) == (
            f"reading '{file}' needs the package {name}; install it with pip install {name}"
        )


def test_tokenizers_without_a_mask_token_are_rejected(tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    for file in tmp_path.glob("token*"):
        file.unlink()
    save_tokenizer("gpt2", tmp_path)
    assert _refusal(f"hf:{tmp_path}") == (
        f"neither tokenizer nor configuration of '{tmp_path}' defines a mask token; use a "
        "masked language model"
    )


def test_fingerprint_depends_on_weights_and_tokenizer(tiny: Tiny, tmp_path: Path) -> None:
    first = load_model(f"hf:{tiny('bert')}").fingerprint
    same = tmp_path / "same"
    shutil.copytree(tiny("bert"), same)
    assert load_model(f"hf:{same}").fingerprint == first
    save_network(transformers.BertForMaskedLM.from_pretrained(tiny("bert")), same, seed=2)
    assert load_model(f"hf:{same}").fingerprint != first
    other = tmp_path / "other"
    shutil.copytree(tiny("bert"), other)
    vocab = transformers.AutoTokenizer.from_pretrained(tiny("bert")).get_vocab()
    transformers.BertTokenizer(vocab=vocab, do_lower_case=True).save_pretrained(other)
    assert load_model(f"hf:{other}").event.case == "lower"
    assert load_model(f"hf:{other}").fingerprint != first


def test_fingerprint_depends_on_the_configuration(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(tiny("bert"), folder)
    model = load_model(f"hf:{folder}?metric=pll")
    first, score = model.fingerprint, model.score(["the dog ran"])[0]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    model = load_model(f"hf:{folder}?metric=pll")
    assert abs(model.score(["the dog ran"])[0] - score) > 0.01
    assert model.fingerprint != first
    (folder / "config.json").write_text(json.dumps({**config, "transformers_version": "0"}))
    assert load_model(f"hf:{folder}?metric=pll").fingerprint == first
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.mask_token = "[UNK]"
    tokenizer.save_pretrained(folder)
    assert load_model(f"hf:{folder}?metric=pll").fingerprint != first


def test_changed_file_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    spec = ModelSpec("hf", str(file))

    def read(*_: object) -> Checkpoint:
        network: Any = file.read_bytes()
        return Checkpoint("causal", network, None, None)

    monkeypatch.setattr(checkpoint, "_read_checkpoint", read)
    file.write_bytes(b"one")
    first = load_checkpoint(spec)
    assert load_checkpoint(spec) is first
    file.write_bytes(b"another")
    assert load_checkpoint(spec).network == b"another"


def test_tokens_spanning_two_words_are_rejected(tmp_path: Path) -> None:
    import tokenizers

    from contstim.errors import InputError

    core = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={"▁": 0, "a": 1, "b": 2, "▁a": 3, "▁a▁": 4, "<s>": 5},
            merges=[("▁", "a"), ("▁a", "▁")],
        )
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>")
    tokenizer.save_pretrained(tmp_path)
    config = transformers.GPT2Config(vocab_size=7, n_embd=8, n_layer=1, n_head=1)
    save_network(transformers.GPT2LMHeadModel(config), tmp_path)
    model = load_model(f"hf:{tmp_path}")
    # The white space that ends the first token stands before "b", and is none of its characters.
    assert [len(p.tokens) for p in model.score_tokens(["a b"])] == [2]
    core = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={"▁": 0, "a": 1, "b": 2, "▁a": 3, "▁b": 4, "▁a▁b": 6, "<s>": 5},
            merges=[("▁", "a"), ("▁", "b"), ("▁a", "▁b")],
        )
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError) as error:
        load_model(f"hf:{tmp_path}").score_tokens(["a b"])
    assert str(error.value) == (
        f"token '▁a▁b' spans two words of 'a b'; hf:{tmp_path} cannot be scored word by word"
    )


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_damaged_files_are_rejected(tiny: Tiny, tmp_path: Path, file: str) -> None:
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    message = _refusal(f"hf:{tmp_path}")
    assert message.startswith(f"cannot load '{tmp_path}': transformers cannot read it (")
    assert "\n" not in message


def test_tokenizers_of_another_model_are_rejected(tiny: Tiny, folder: Path) -> None:
    config = transformers.BertConfig(vocab_size=50, **SMALL)
    save_network(transformers.BertForMaskedLM(config), folder)
    n = len(transformers.AutoTokenizer.from_pretrained(folder))
    assert _refusal(f"hf:{folder}") == (
        f"the tokenizer of '{folder}' has {n} tokens and its network 50; use tokenizer and "
        "weights of the same model"
    )


# A tokenizer and a network of transformers each, masked, with what its configuration needs.
SPECIAL = {"max_position_embeddings": 42, "pad_token_id": 1, **SMALL}
XMOD = {"languages": ["en_XX", "de_DE"], **SPECIAL}
FLAUBERT = {
    "emb_dim": 32,
    "n_layers": 2,
    "n_heads": 2,
    "max_position_embeddings": 40,
    "mask_token_id": 4,
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("xmod", {**XMOD, "default_language": "de_DE"}),
        ("ibert", SPECIAL),
        ("ibert", {**SPECIAL, "quant_mode": True}),
        ("yoso", {**SPECIAL, "use_expectation": True}),
    ],
)
def test_networks_without_selector_equal_transformers(
    tmp_path: Path, name: str, more: dict[str, Any]
) -> None:
    tokenizer = save_tokenizer("roberta", tmp_path)
    config = transformers.CONFIG_MAPPING[name](vocab_size=len(tokenizer), **more)
    save_network(transformers.AutoModelForMaskedLM.from_config(config), tmp_path)
    network = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    sentences = ["The old dog saw a cat.", "the cat ran"]
    expected = []
    for sentence in sentences:
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        places = torch.arange(1, len(ids) - 1)
        rows = ids.repeat(len(places), 1)
        rows[torch.arange(len(places)), places] = tokenizer.mask_token_id
        with torch.inference_mode():
            logits = torch.cat([network(input_ids=row[None]).logits for row in rows])
        log_probs = logits.double().log_softmax(dim=2)
        expected.append(float(log_probs[torch.arange(len(places)), places, ids[places]].sum()))
    found = load_model(f"hf:{tmp_path}?metric=pll").score(sentences)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("tokens", "name", "more", "reason"),
    [
        (
            "roberta",
            "xmod",
            XMOD,
            "Input language unknown. Please call `XmodPreTrainedModel.set_default_language()`",
        ),
        (
            "xlm",
            "flaubert",
            {**FLAUBERT, "pre_norm": True},
            "'EncoderDecoderCache' object is not subscriptable",
        ),
        (
            "roberta",
            "yoso",
            {**SPECIAL, "use_expectation": False},
            "'NoneType' object has no attribute 'fast_hash'",
        ),
    ],
)
def test_networks_that_fail_a_forward_pass_are_rejected(
    tmp_path: Path, tokens: str, name: str, more: dict[str, Any], reason: str
) -> None:
    tokenizer = save_tokenizer(tokens, tmp_path)
    n = max(tokenizer.get_vocab().values()) + 1
    config = transformers.CONFIG_MAPPING[name](vocab_size=n, **more)
    save_network(transformers.AutoModelForMaskedLM.from_config(config), tmp_path)
    assert _refusal(f"hf:{tmp_path}") == (
        f"'{tmp_path}' is a model of type {name!r} that cannot be computed from token ids alone "
        f"({reason}); use another checkpoint"
    )
