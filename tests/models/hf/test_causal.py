"""Causal models against the chain rule, and normalisation of corrected words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_transformers import CAUSAL, SENTENCES, refusal
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.cli import main
from contstim.errors import InputError
from contstim.models.check import check_model
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]

SHORT = ["The dog saw a cat.", "the cats don't bark!", "a dogs ran", "A man saw us."]
PREFIX = {"gpt2": "<|endoftext|>", "llama": "<s>", "no-bos": "none", "mamba": "<|endoftext|>"}


class _Plain:
    """The chain rule with nothing but transformers: all logits of one sentence at a time."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def log_softmax(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            logits = self.model(torch.tensor([ids])).logits[0].double()
        return torch.log_softmax(logits, dim=1).numpy()

    def words(self, text: str, prefix: list[int], end: list[int]) -> list[float]:
        """Return each word's log-probability, tokens grouped by their leading space mark."""
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = prefix + tokens + end
        table = self.log_softmax(ids)
        words: list[float] = []
        for i, token in enumerate(tokens):
            name = self.tokenizer.convert_ids_to_tokens(token)
            if name.startswith(("Ġ", "▁")) or not words:
                words.append(0.0)
            at = len(prefix) + i
            words[-1] += table[at - 1, token] if at else np.nan
        if end:
            words[-1] += table[-2, end[0]]
        return words


def _prefix(plain: _Plain, name: str) -> list[int]:
    if PREFIX[name] == "none":
        return []
    return [plain.tokenizer.convert_tokens_to_ids(PREFIX[name])]


@pytest.mark.parametrize("end", ["none", "scored"])
@pytest.mark.parametrize("name", CAUSAL)
def test_words_follow_the_chain_rule(tiny: Tiny, name: str, end: str) -> None:
    plain = _Plain(tiny(name))
    model = load_model(f"hf:{tiny(name)}?end={end}")
    assert model.event.start == PREFIX[name]
    assert model.event.end == ("none" if end == "none" else plain.tokenizer.eos_token)
    ending = [plain.tokenizer.eos_token_id] if end == "scored" else []
    for sentence, words in zip(SHORT, model.score_words(SHORT), strict=True):
        expected = plain.words(sentence, _prefix(plain, name), ending)
        np.testing.assert_allclose(words, expected, atol=1e-4)
    sums = [np.nansum(w) for w in model.score_words(SHORT)]
    np.testing.assert_allclose(model.score(SHORT), sums, atol=1e-9)


@pytest.mark.parametrize(
    "options", ["", "&end=scored", "&words=corrected", "&words=corrected&end=scored"]
)
@pytest.mark.parametrize("name", CAUSAL)
def test_models_pass_check_model(tiny: Tiny, name: str, options: str) -> None:
    model = load_model(f"hf:{tiny(name)}?punctuation=keep{options}")
    check_model(model, SHORT, words=["dog", "unhappy", "saw", "us", "cat", "at"])
    assert load_model(model.spec).event == model.event


def test_first_word_is_unscored_without_prefix(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    assert model.event.start == "none"
    words = model.score_words(SHORT)
    assert all(np.isnan(w[0]) and np.isfinite(w[1:]).all() for w in words)
    totals = model.score_with_counts(SHORT)
    np.testing.assert_allclose(totals.score, [np.nansum(w) for w in words])
    # Of "a", "Ġdogs", "Ġran" the first is not scored.
    assert totals.n_tokens[2] == 2
    with pytest.raises(InputError) as error:
        model.score(["Dog."])
    assert str(error.value) == (
        f"'Dog.' has one word, and {model.spec} has no prefix to predict it from; write "
        "prefix=bos, prefix=eos or another token in the spec"
    )
    check_model(model, SHORT, words=["dog", "unhappy", "saw"])


def test_bos_is_not_doubled(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('llama')}")
    assert model.checkpoint.tokenizer("dog")["input_ids"][0] == model.prefix[0]
    ids = model.encode(["the dog"])[0].ids.tolist()
    assert [i for i, token in enumerate(ids) if token == model.prefix[0]] == [0]
    assert model.event.first == "spaced"


def test_any_token_can_be_the_prefix(tiny: Tiny) -> None:
    plain = _Plain(tiny("gpt2"))
    model = load_model(f"hf:{tiny('gpt2')}?prefix=.&first=spaced")
    assert (model.event.start, model.event.first) == (".", "spaced")
    expected = plain.words(" the dog ran.", plain.tokenizer(".")["input_ids"], [])
    np.testing.assert_allclose(model.score_words(["the dog ran."])[0], expected, atol=1e-4)


@pytest.mark.parametrize("first", ["auto", "spaced"])
def test_probabilities_of_corrected_words_sum_to_one(first: str, tmp_path: Path) -> None:
    folder = _enumerable(tmp_path)
    model = load_model(f"hf:{folder}?words=corrected&first={first}")
    stopped = load_model(f"hf:{folder}?words=corrected&first={first}&end=scored")
    tokens = load_model(f"hf:{folder}?first={first}")
    plain = _Plain(folder)
    special, spaced, letters = [0, 6], [3, 4, 5], [1, 2]
    for context in ("", "ab a"):
        lead = " " if context and first == "spaced" else ""
        ids = plain.tokenizer(lead + context)["input_ids"]
        mass = np.exp(plain.log_softmax([0, *ids])[-1])
        if context:
            opening = mass[special + spaced].sum()
            stop = np.exp(stopped.score([context])[0] - model.score([context])[0])
            own = model.score([context])[0]
            # What the context's score holds of the boundary after it, words to come replace.
            before = tokens.score([context])[0]
        else:
            opening = mass[special + (spaced if first == "spaced" else letters)].sum()
            stop = mass[special].sum() / opening
            own = before = 0.0
        # All words of up to three letters, and the mass of longer ones: their first four tokens.
        words = ["".join(w) for n in (1, 2, 3) for w in itertools.product("ab", repeat=n)]
        longer = ["".join(w) for w in itertools.product("ab", repeat=4)]
        known = np.exp(model.score([f"{context} {w}" for w in words]) - own).sum()
        rest = np.exp(tokens.score([f"{context} {w}" for w in longer]) - before).sum() / opening
        # The stop of `stopped` is the end's token; the other special token ends a text as well.
        other = mass[6] / opening if context else 0.0
        assert known + rest + stop + other == pytest.approx(1, abs=1e-5)
        plainly = np.exp(tokens.score([f"{context} {w}" for w in words]) - before).sum()
        assert abs(plainly / known - 1) > 0.01


def _enumerable(folder: Path) -> Path:
    """Make a causal model whose words are strings of a and b, so few that they can be summed."""
    vocab = {"<|endoftext|>": 0, "a": 1, "b": 2, "Ġ": 3, "Ġa": 4, "Ġb": 5, "<pad>": 6}
    tokenizer = transformers.GPT2Tokenizer(
        vocab=vocab, merges=[("Ġ", "a"), ("Ġ", "b")], pad_token="<pad>"
    )
    tokenizer.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=7,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=30,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        model.lm_head.weight.normal_()
        # A lone space, which this tokenizer never writes, must not occur: its logit falls by 60.
        model.transformer.ln_f.weight[15] = 0
        model.transformer.ln_f.bias[15] = 1
        model.lm_head.weight[:, 15] = 0
        model.lm_head.weight[3, 15] = -60
    model.save_pretrained(folder)
    return folder


def test_corrected_words_reject_punctuation_context(tiny: Tiny) -> None:
    spec = f"hf:{tiny('gpt2')}?punctuation=context&words=corrected"
    assert refusal(spec) == (
        f"words='corrected' with punctuation='context' in '{spec}': a word ends after its "
        "punctuation marks; leave one of the two options out"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no-bos", "prefix=bos", "prefix='bos' in '{}': its tokenizer has no such token; write prefix=none or a token of its vocabulary"),  # noqa: E501 - one whole message
        ("gpt2", "prefix=qq", "prefix='qq' in '{}' is not a token of its vocabulary; write auto, bos, eos, none or a token"),  # noqa: E501 - one whole message
        ("llama", "first=unspaced", "first='unspaced' in '{}': its tokenizer adds a space before every sentence; leave the option out"),  # noqa: E501 - one whole message
        ("gpt2", "device=gpu", "device='gpu' in '{}' is not available; write cpu, cuda, cuda:1 or mps"),  # noqa: E501 - one whole message
        ("gpt2", "dtype=int8", "dtype='int8' in '{}': choose one of 'bfloat16', 'float16', 'float32', 'float64'"),  # noqa: E501 - one whole message
    ],
)  # fmt: skip
def test_invalid_options_are_reported(tiny: Tiny, name: str, options: str, message: str) -> None:
    spec = f"hf:{tiny(name)}?{options}"
    assert refusal(spec) == message.format(spec)


def test_too_long_sentences_are_rejected(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('gpt2')}")
    with pytest.raises(InputError) as error:
        model.score(["the dog", "dog" + " dog" * 39])
    assert str(error.value) == (
        f"{('dog' + ' dog' * 39)[:60] + '...'!r} has 42 tokens, special tokens included, and "
        f"{model.spec} accepts at most 40; shorten or split the sentence"
    )


def test_16_bit_logits_are_normalised_in_float32(tiny: Tiny) -> None:
    single = load_model(f"hf:{tiny('gpt2')}")
    half = load_model(f"hf:{tiny('gpt2')}?dtype=bfloat16")
    assert half.batch_tolerance > single.batch_tolerance == 1e-4
    values = np.concatenate([p.log_probs for p in half.score_tokens(SENTENCES)])
    # bfloat16 has 8 bits: log-probabilities rounded to it would be multiples of 1/64 or coarser.
    assert (np.abs(values * 64 - np.round(values * 64)) > 1e-3).any()
    np.testing.assert_allclose(half.score(SENTENCES), single.score(SENTENCES), rtol=0.02)
    double = load_model(f"hf:{tiny('gpt2')}?dtype=float64")
    np.testing.assert_allclose(double.score(SENTENCES), single.score(SENTENCES), atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_left_context_is_computed_once(
    tiny: Tiny, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(f"hf:{tiny(name)}")
    sentence = Sentence.parse("The old dog saw a cat")
    words = WordList.from_words(["dog", "cat", "man", "woman"])
    table = model.score_replacements(sentence, 2, words)
    lengths: list[int] = []
    real = model.network.logits

    def spy(ids: torch.Tensor, *args: object, **more: object) -> torch.Tensor:
        lengths.append(ids.shape[1])
        return real(ids, *args, **more)

    monkeypatch.setattr(model.network, "logits", spy)
    scores = table.score(np.arange(4))
    # A candidate and the words after it, of which the last is only predicted.
    n_after = len(model.tokenizer.encode(["x saw a cat"])[0].scored_positions) - 1
    longest = max(len(t) for t in model.tokenizer.candidates(sentence, 2, words).tokens)
    assert max(lengths) <= longest + n_after
    texts = [str(sentence.replace(2, w)) for w in words]
    np.testing.assert_allclose(scores, model.score(texts), atol=1e-4)
    np.testing.assert_allclose(table.estimates[0], scores[0], atol=1e-4)


def test_candidates_for_the_last_word_need_one_pass(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('gpt2')}")
    words = WordList.from_words(["dog", "cat", "man"])
    sentence = Sentence.parse("The old dog saw a cat")
    table = model.score_replacements(sentence, 5, words)
    assert table.is_exact
    texts = [str(sentence.replace(5, w)) for w in words]
    np.testing.assert_allclose(table.estimates, model.score(texts), atol=1e-4)


def test_missing_start_token_is_reported(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("The dog saw a cat.\n", "utf-8")
    spec = f"hf:{tiny('no-bos')}"
    score = ["score", str(tmp_path / "texts.txt"), "--model", "contstim:unigram?unknown=unk"]
    assert main([*score, "--model", spec]) == 0
    printed, messages = capsys.readouterr()
    assert f"note: {spec} has no start token, so the first word of each sentence" in messages
    assert "set one in the spec, e.g. prefix=eos" in messages
    header, other, row = (line.split(",") for line in printed.splitlines())
    assert (header[-1], other[-1], row[-1]) == ("not_scored", "", "first word")
    assert main([*score, "--model", f"{spec}?prefix=eos"]) == 0
    printed, messages = capsys.readouterr()
    assert "note" not in messages
    assert "not_scored" not in printed
