"""Models from a causal network and a tokenizer."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tiny_transformers import SENTENCES, save_checkpoint, save_tokenizer

import contstim
from contstim.errors import InputError, UnknownWordError
from contstim.models.registry import FAMILIES


class Recurrent(torch.nn.Module):
    """A random network of gated recurrent units, which no library of models has."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedded = torch.nn.Embedding(vocabulary, 16)
        self.units = torch.nn.GRU(16, 32, batch_first=True)
        self.output = torch.nn.Linear(32, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.output(self.units(4 * self.embedded(ids))[0])
        return 4 * logits


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> transformers.PreTrainedTokenizerFast:
    return save_tokenizer("gpt2", tmp_path_factory.mktemp("tokenizer"))


def recurrent(n: int, seed: int = 0) -> Recurrent:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Recurrent(n).eval()


def test_logits_model_equals_the_chain_rule(pieces: transformers.PreTrainedTokenizerFast) -> None:
    network = recurrent(len(pieces))
    model = contstim.LogitsModel("mine:gru", lambda ids: network(torch.tensor(ids)), pieces)
    assert len(contstim.check_model(model, SENTENCES)) == 5
    assert str(model.event).startswith("units tokens, start <|endoftext|>, end none")
    # The chain rule, token by token, for one sentence at a time.
    for sentence, score, by_word in zip(
        SENTENCES, model.score(SENTENCES), model.score_words(SENTENCES), strict=True
    ):
        ids = pieces(sentence)["input_ids"]
        total, shares = 0.0, np.zeros(len(sentence.split()))
        for t, token in enumerate(ids):
            with torch.no_grad():
                given = network(torch.tensor([[pieces.bos_token_id, *ids[:t]]]))[0, -1]
            log_p = float(torch.log_softmax(given.double(), 0)[token])
            total += log_p
            shares[pieces.decode(ids[: t + 1]).count(" ")] += log_p
        assert score == pytest.approx(total, abs=1e-4)
        np.testing.assert_allclose(by_word, shares, atol=1e-4)
    choices = contstim.datasets.simulated_choices()
    table = contstim.evaluate(choices, {"Mine": model}).models
    assert set(table["model"]) == {"Mine"}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_logits_model_equals_the_hf_family(name: str, tmp_path: Path) -> None:
    place = save_checkpoint(name, tmp_path / name)
    theirs = contstim.load_model(f"hf:{place}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    network = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    model = contstim.LogitsModel("mine:it", lambda ids: network(torch.tensor(ids)), tokenizer)
    np.testing.assert_allclose(model.score(SENTENCES), theirs.score(SENTENCES), atol=1e-3)
    for here, there in zip(
        model.score_words(SENTENCES), theirs.score_words(SENTENCES), strict=True
    ):
        np.testing.assert_allclose(here, there, atol=1e-3)


def test_logits_model_with_a_tokenizers_object() -> None:
    words = ["<s>", "<unk>", "</s>", "the", "The", "dog", "cat", "ran", "saw", "."]
    cutter = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>")
    )
    cutter.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()

    def mine(spec: contstim.ModelSpec) -> contstim.LogitsModel:
        network = recurrent(len(words), int(spec.location))
        return contstim.LogitsModel(
            spec, lambda ids: network(torch.tensor(ids)), cutter, start=0, end=2, unk=1
        )

    contstim.register_family("gru", "a network of mine", mine)
    try:
        model, other = contstim.load_model("gru:1"), contstim.load_model("gru:2")
        texts = ["The dog ran.", "the cat saw the dog.", "The cat ran"]
        assert "an unknown word is refused by name" in contstim.check_model(model, texts)
        assert model.fingerprint == contstim.load_model("gru:1").fingerprint != other.fingerprint
        (parts,) = model.score_tokens(["The dog ran."])
        assert parts.tokens == ("The", "dog", "ran", ".", "</s>")
        assert parts.word_indices.tolist() == [0, 1, 2, 2, 2]
        with pytest.raises(UnknownWordError, match="'bird' of 'bird.' in 'The bird.'"):
            model.score(["The bird."])
        written = contstim.synthesize(
            "The dog ran.", reject=model, accept=other, vocabulary=vocabulary()
        )
        assert other.score([written.sentence])[0] >= other.score(["The dog ran."])[0]
    finally:
        del FAMILIES["gru"]


def vocabulary() -> contstim.Vocabulary:
    return contstim.Vocabulary.from_words(["The", "dog", "cat", "ran", "saw"])


def letters(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    return [ord(c) % 90 + 1 for c in text], [(i, i + 1) for i in range(len(text))]


def test_logits_model_with_a_function_as_tokenizer() -> None:
    network = recurrent(91)
    model = contstim.LogitsModel(
        "mine:letters", lambda ids: network(torch.tensor(ids)), letters, start=0
    )
    (parts,) = model.score_tokens(["Go  on"])
    assert parts.tokens == ("G", "o", " ", "o", "n")
    assert parts.word_indices.tolist() == [0, 0, 1, 1, 1]
    assert contstim.check_model(model)


@pytest.mark.parametrize(
    "text", ["Il dort\u202f! Oui", "Il dort \u202f! Oui", "Il dort\u00a0! Oui"]
)
def test_words_are_separated_by_any_white_space(text: str) -> None:
    network = recurrent(91)
    model = contstim.LogitsModel(
        "mine:letters", lambda ids: network(torch.tensor(ids)), letters, start=0
    )
    (parts,) = model.score_tokens([text])
    by_word = [""] * parts.n_words
    for unit, word in zip(parts.tokens, parts.word_indices, strict=True):
        by_word[word] += unit
    assert [word.strip() for word in by_word] == text.split()
    model.score_words([text])


def test_networks_that_are_not_causal_are_rejected(
    pieces: transformers.PreTrainedTokenizerFast,
) -> None:
    network = recurrent(len(pieces))

    def backward(ids: np.ndarray) -> torch.Tensor:
        return network(torch.tensor(ids).flip(1)).flip(1)

    for logits, message in (
        (backward, "the logits depend on later tokens or on chance; use a causal"),
        (
            lambda ids: network(torch.tensor(ids))[0],
            f"logits of 1 sequences of 1 tokens have shape (1, {len(pieces)}); return (1, 1, "
            "vocabulary size)",
        ),
    ):
        with pytest.raises(InputError, match=f"^mine:it: {re.escape(message)}"):
            contstim.LogitsModel("mine:it", logits, pieces)
    with pytest.raises(InputError, match="^mine:it: the tokenizer has no start token"):
        contstim.LogitsModel("mine:it", lambda ids: network(torch.tensor(ids)), letters)
    with pytest.raises(InputError, match="^mine:it: 7 is neither a tokenizer nor"):
        contstim.LogitsModel("mine:it", lambda ids: network(torch.tensor(ids)), 7)
