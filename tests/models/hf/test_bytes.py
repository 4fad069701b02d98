"""Probabilities by bytes against all tokenisations of short texts, written out one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_transformers import SENTENCES, refusal
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.errors import InputError
from contstim.models.check import check_model
from contstim.models.hf.bytes import ByteModel
from contstim.models.hf.causal import CausalModel
from contstim.models.registry import load_model, score_kind
from contstim.synthesis import synthesize
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]

SHORT = ["a dog saw", "The cat", "don't bark", "Ä dog"]
#: Of each tokenizer, a token that its byte-level or SentencePiece vocabulary begins with.
START = {"gpt2": "<|endoftext|>", "llama": "<s>", "no-bos": "<|endoftext|>"}


def _bytes_of(token: str, name: str) -> bytes:
    """Return what a token of the tiny tokenizers stands for, by their decoders."""
    if name == "llama":
        return token.replace("▁", " ").encode()
    table = {chr(b): b for b in range(33, 127)}
    table |= {chr(b): b for b in (*range(161, 173), *range(174, 256))}
    spare = [b for b in range(256) if b not in table.values()]
    # Bytes that no character of their own stands for, space among them, have the next ones.
    table |= {chr(256 + i): b for i, b in enumerate(spare)}
    return bytes(table[c] for c in token)


def _coverings(text: bytes, pieces: dict[int, bytes]) -> Iterator[tuple[list[int], bool]]:
    """Yield every covering of a text, and whether it ends where the text does."""
    for token, piece in pieces.items():
        if len(piece) >= len(text):
            if piece.startswith(text):
                yield [token], piece == text
        elif text.startswith(piece):
            for rest, exact in _coverings(text[len(piece) :], pieces):
                yield [token, *rest], exact


def _written_out(folder: Path, name: str, sentence: str) -> tuple[float, float]:
    """Return log P(a text begins with the sentence), and log P(it is the sentence)."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    special = set(tokenizer.all_special_ids)
    pieces = {
        i: _bytes_of(token, name) for token, i in tokenizer.get_vocab().items() if i not in special
    }
    own = tokenizer(sentence, add_special_tokens=False)["input_ids"]
    text = b"".join(pieces[i] for i in own)
    start, end = tokenizer.convert_tokens_to_ids(START[name]), tokenizer.eos_token_id
    begins, ends = [], []
    for tokens, exact in _coverings(text, pieces):
        with torch.no_grad():
            logs = network(torch.tensor([[start, *tokens]])).logits[0].double().log_softmax(dim=1)
        log_prob = sum(float(logs[k, token]) for k, token in enumerate(tokens))
        begins.append(log_prob)
        if exact:
            ends.append(log_prob + float(logs[len(tokens), end]))
    assert len(begins) >= 4
    return float(np.logaddexp.reduce(begins)), float(np.logaddexp.reduce(ends))


def _spec(folder: Path, name: str, more: str = "") -> str:
    return f"hf:{folder}?metric=bytes&dtype=float64&prefix={START[name]}{more}"


@pytest.mark.parametrize("name", ["gpt2", "llama", "no-bos"])
def test_all_tokenisations_written_out(tiny: Tiny, name: str) -> None:
    texts = SHORT[: 3 if name == "llama" else 4]
    expected = [_written_out(tiny(name), name, text) for text in texts]
    model = load_model(_spec(tiny(name), name, "&least_share=0"))
    ended = load_model(_spec(tiny(name), name, "&least_share=0&end=scored"))
    np.testing.assert_allclose(model.score(texts), [e[0] for e in expected], atol=1e-6, rtol=0)
    np.testing.assert_allclose(ended.score(texts), [e[1] for e in expected], atol=1e-6, rtol=0)


def test_what_is_left_out_lies_within_the_bounds(tiny: Tiny) -> None:
    whole = load_model(_spec(tiny("gpt2"), "gpt2", "&least_share=0"))
    cut = load_model(_spec(tiny("gpt2"), "gpt2", "&least_share=0.2"))
    assert isinstance(whole, ByteModel)
    assert isinstance(cut, ByteModel)
    np.testing.assert_array_equal(whole.left_out(SHORT), 0.0)
    exact = whole.score(SHORT)
    np.testing.assert_allclose(whole.bounds(SHORT), [exact, exact])
    lower, upper = cut.bounds(SHORT)
    np.testing.assert_array_equal(lower, cut.score(SHORT))
    assert (lower < exact - 1e-3).any()
    assert (lower <= exact).all()
    assert (exact <= upper + 1e-9).all()
    assert (cut.left_out(SHORT) > 0).any()
    plain = load_model(f"hf:{tiny('gpt2')}?dtype=float64")
    assert (plain.score(SHORT) <= lower + 1e-9).all(), "the tokenizer's own cut is one of all"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_contract(tiny: Tiny, name: str) -> None:
    model = load_model(f"hf:{tiny(name)}?metric=bytes&least_share=0.01")
    check_model(model, SENTENCES[:3], words=["dog", "saw", "us"])
    assert load_model(model.spec).event == model.event
    assert model.event.units == "bytes"
    assert model.event.metric == "bytes, over tokenisations of a share above 0.01"
    assert score_kind(model.spec) == model.kind


def test_units_are_bytes_of_words(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('gpt2')}?metric=bytes&least_share=0.01&end=scored")
    parts = model.parts(["Ä dog ran."])[0]
    assert parts.units == (*"Ã", *"Ħ", *"Ġdog", *"Ġran.", "<|endoftext|>")
    assert parts.word_of.tolist() == [0] * 2 + [1] * 4 + [2] * 6
    mean = load_model(f"hf:{tiny('gpt2')}?metric=bytes&least_share=0.01&end=scored&reduction=mean")
    assert mean.score(["Ä dog ran."])[0] == pytest.approx(parts.log_prob / 12)
    slor = load_model(f"hf:{tiny('gpt2')}?metric=bytes&reduction=slor")
    assert slor.event.reduction == "slor over contstim:unigram?end=none"


def test_each_row_alone_where_a_network_takes_no_trees(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"hf:{tiny('gpt2')}?metric=bytes&least_share=0.01"
    expected = load_model(spec).score(SENTENCES)
    monkeypatch.setattr("contstim.models.hf.bytes.takes_trees", lambda *_: False)
    np.testing.assert_allclose(load_model(spec).score(SENTENCES), expected, atol=1e-4)


def test_bytes_against_another_tokenizer(tiny: Tiny) -> None:
    plain = load_model(f"hf:{tiny('gpt2')}")
    other = load_model(f"hf:{tiny('llama')}")
    by_bytes = load_model(f"hf:{tiny('gpt2')}?metric=bytes&least_share=0.01")
    words = WordList.of(["dog", "cat", "old", "saw", "ran", "fast", "the"])
    losses = []
    for reject, accept in ((other, by_bytes), (by_bytes, other)):
        result = synthesize(
            "the dog saw us", reject=reject, accept=accept, vocabulary=Vocabulary(words, words)
        )
        before, after = accept.score(["the dog saw us", result.sentence])
        assert after >= before - 1e-3
        losses.append(result.loss)
    assert min(losses) < -0.01
    # What guides the writing of sentences is the model by tokens.
    assert isinstance(plain, CausalModel)
    assert by_bytes.beginnings(words, words) is None
    guide, beginning = by_bytes.guide(words, words), plain.beginnings(words, words)
    assert guide is not None
    assert beginning is not None
    np.testing.assert_allclose(guide.upper()[0], beginning.upper()[0])


def test_what_has_no_bytes(tiny: Tiny) -> None:
    spec = f"hf:{tiny('gpt2')}?least_share=0.1"
    assert refusal(spec) == f"least_share='0.1' in '{spec}' goes with metric=bytes; leave it out"
    spec = f"hf:{tiny('gpt2')}?least_share=2&metric=bytes"
    assert refusal(spec) == f"least_share='2' in '{spec}': give a number from 0 to below 1"
    spec = f"hf:{tiny('gpt2')}?metric=bytes&words=corrected"
    assert refusal(spec) == (
        f"words='corrected' in '{spec}' does not go with metric=bytes; leave it out"
    )
    spec = f"hf:{tiny('no-bos')}?metric=bytes"
    assert refusal(spec) == (
        f"metric=bytes in '{spec}': nothing stands before the first word, from which its bytes "
        "could be predicted; name a token, prefix=TOKEN"
    )


def test_too_many_ways(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.models.hf.bytes._MOST", 5)
    model = load_model(f"hf:{tiny('gpt2')}?metric=bytes&least_share=0")
    with pytest.raises(InputError) as error:
        model.score(["the dogs bark slowly, old man"])
    assert str(error.value) == (
        "'the dogs bark slowly, old man' can be cut into tokens in too many ways for least_share=0 "
        f"of {model.spec}; ask for a larger one"
    )
