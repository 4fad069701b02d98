"""Scores of networks with windows, chunks, recurrent states or unusual positions.

Tests `contstim.models.hf.kv_cache`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_transformers import save_network, save_tokenizer

from contstim.arrays import FloatArray
from contstim.models.hf.kv_cache import supports_cache
from contstim.models.hf.token_tree import supports_tree_cache
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

WINDOW = 16
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
# The sliding and chunked ones; one whose rows are bounded by its positions; one that counts
# positions from elsewhere; and three that keep states which rows cannot go on from.
NETWORKS: dict[str, dict[str, Any]] = {
    "olmo3": {**SMALL, **SLIDING},
    "mistral": {**SMALL, "sliding_window": WINDOW},
    "cohere2": {**SMALL, **SLIDING},
    "modernbert-decoder": {
        **SMALL,
        "local_attention": 2 * WINDOW,
        "layer_types": SLIDING["layer_types"],
    },
    "llama4_text": {
        **SMALL,
        "attention_chunk_size": WINDOW,
        "intermediate_size_mlp": 48,
        "num_local_experts": 2,
        "layer_types": ["chunked_attention", "full_attention"],
    },
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 2,
        "attention_types": [[["global", "local"], 1]],
        "window_size": WINDOW,
        "max_position_embeddings": 64,
    },
    "roberta": {**SMALL, "is_decoder": True},
    "lfm2": {**SMALL, "layer_types": ["conv", "full_attention"]},
    "falcon_h1": {
        **SMALL,
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_d_state": 4,
        "mamba_chunk_size": WINDOW,
    },
    "xlstm": {"hidden_size": 128, "num_blocks": 2, "num_heads": 2, "chunk_size": WINDOW},
    # Of these sizes transformers computes nothing that keeps its states.
    "xlstm of odd sizes": {"hidden_size": 96, "num_blocks": 2, "num_heads": 3},
}
SHORT = [
    f"The dog {verb}{mark}" for verb in ("saw", "ran", "barked") for mark in (".", "!", " us.")
]
BEGINNING = "The old man's dogs saw a cat, don't bark and then"
LONG = [f"{BEGINNING} {end}" for end in ("ran.", "ran fast!", "a woman barked.", "the cat saw.")]


def make_checkpoint(name: str, folder: Path) -> Path:
    """Make a tiny checkpoint of an architecture of transformers with a tokenizer of bytes."""
    tokenizer = save_tokenizer("gpt2", folder)
    architecture = name.partition(" ")[0]
    config = transformers.CONFIG_MAPPING[architecture](vocab_size=len(tokenizer), **NETWORKS[name])
    torch.manual_seed(0)
    save_network(transformers.AutoModelForCausalLM.from_config(config), folder)
    return folder


def score_by_transformers(folder: Path, sentences: list[str]) -> FloatArray:
    """Return scores by transformers, each sentence by itself."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    scores = []
    for sentence in sentences:
        ids = torch.tensor([[0, *tokenizer(sentence)["input_ids"]]])
        with torch.inference_mode():
            logits = network(input_ids=ids, use_cache=False).logits
        log_probs = logits[0, :-1].double().log_softmax(dim=1)
        scores.append(float(log_probs.gather(1, ids[0, 1:, None]).sum()))
    return np.array(scores)


@pytest.fixture(scope="module", params=NETWORKS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name: str = request.param
    return make_checkpoint(name, tmp_path_factory.mktemp(name))


def test_scores_do_not_depend_on_shared_prefixes(folder: Path) -> None:
    model = load_model(f"hf:{folder}")
    lengths = [len(encoded.ids) for encoded in model.encode(LONG)]
    assert min(lengths) > WINDOW
    for sentences in (SHORT, LONG, LONG[:2] + SHORT):
        np.testing.assert_allclose(
            model.score(sentences), score_by_transformers(folder, sentences), atol=1e-4
        )


def test_scores_after_a_prompt_equal_transformers(folder: Path, tmp_path: Path) -> None:
    """The prompt fits into the window, but the prompt and a sentence do not."""
    (tmp_path / "prompt.txt").write_text("A cat.", encoding="utf-8")
    model = load_model(f"hf:{folder}?prompt={tmp_path / 'prompt.txt'}")
    encoded_sentences = model.encode(LONG)
    assert len(model.prefix) <= WINDOW < min(len(encoded.ids) for encoded in encoded_sentences)
    n_prompt = len(model.prefix) - 1
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    expected = []
    for encoded in encoded_sentences:
        ids = torch.from_numpy(encoded.ids)[None]
        with torch.inference_mode():
            log_probs = network(input_ids=ids, use_cache=False).logits[0, :-1].double()
        log_probs = log_probs.log_softmax(dim=1).gather(1, ids[0, 1:, None])
        expected.append(float(log_probs[n_prompt:].sum()))
    np.testing.assert_allclose(model.score(LONG), expected, atol=1e-4)


def test_prefix_scores_beyond_a_window_sum_to_sentence_scores(folder: Path) -> None:
    model = load_model(f"hf:{folder}")
    words = Sentence.parse("The old man saw a cat and then the dogs barked at us.").words
    word_list = WordList.from_words(sorted(set(words)))
    prefixes = model.empty_prefix(word_list, word_list)
    assert prefixes is not None
    total, row = 0.0, np.array([0])
    for word in words:
        index = np.array([word_list.words.index(word)])
        total += float(prefixes.log_probs(row, index)[0])
        prefixes = prefixes.extend(row, index)
    total += float(prefixes.end_log_probs(".")[0])
    sentence = " ".join(words) + "."
    assert len(model.encode([sentence])[0].ids) > WINDOW
    assert total == pytest.approx(score_by_transformers(folder, [sentence])[0], abs=1e-3)


def test_replacement_scores_equal_transformers(folder: Path) -> None:
    model = load_model(f"hf:{folder}")
    words = WordList.from_words(["saw", "unhappy", "a", "us", "woman"])
    for text, position in ((SHORT[0], 1), (LONG[0], 2), (LONG[0], 9), (LONG[0], 10)):
        sentence = Sentence.parse(text)
        found = model.score_replacements(sentence, position, words)
        expected = score_by_transformers(
            folder, [str(sentence.replace(position, w)) for w in words.words]
        )
        np.testing.assert_allclose(found.score(np.arange(len(words))), expected, atol=1e-4)
        assert (found.upper_bounds > expected - 1e-4).all()


def test_sequences_within_a_window_are_shared(tmp_path: Path) -> None:
    model = load_model(f"hf:{make_checkpoint('mistral', tmp_path)}")
    assert model.tree_log_probs(model.encode(SHORT)) is not None
    assert model.tree_log_probs(model.encode(LONG)) is None
    sentence = Sentence.parse(LONG[0])
    words = WordList.from_words(["saw", "ran"])
    # What stands before a candidate is computed once on either side of the window.
    assert (np.asarray(model.score_replacements(sentence, 10, words).cost.n_inputs) < 1).all()


def test_errors_with_large_tree_caches_are_detected(tmp_path: Path) -> None:
    """The network computes other logits if more than 500 tokens are cached."""
    network = load_model(f"hf:{make_checkpoint('mistral', tmp_path)}").network
    assert supports_tree_cache(network, 12, ())
    logits = network.logits

    def compute(ids: torch.Tensor, *args: Any, **inputs: Any) -> torch.Tensor:
        cache = inputs.get("past_key_values")
        n_cached = 0 if cache is None else cache.get_seq_length()
        values = logits(ids, *args, **inputs)
        return values.flip(1) if n_cached > 500 else values

    network.logits = compute
    network.checks.clear()
    assert not supports_tree_cache(network, 12, ())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_windows_are_detected_in_16_bits(tmp_path: Path, dtype: str) -> None:
    model = load_model(f"hf:{make_checkpoint('mistral', tmp_path)}?dtype={dtype}")
    assert model.tree_log_probs(model.encode(SHORT)) is not None
    assert model.tree_log_probs(model.encode(LONG)) is None
    assert supports_cache(model.network, 32, None, model.prefix)
