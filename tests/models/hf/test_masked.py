"""Masked models against brute-force enumeration of masked inputs and orders."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_transformers import MASKED, refusal
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertTokenizer

from contstim.errors import InputError, UnknownWordError
from contstim.models.check import check_model
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.metrics import METRICS
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]

# Up to five words; in some vocabularies words of two to four tokens among them.
SHORT = ["The dog saw a cat.", "the cats don't", "a dogs ran us!", "Dog."]


class _Brute:
    """Scores written out with nothing but transformers: one row a forward pass, all logits."""

    def __init__(self, folder: Path, restricted: bool) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder).eval()
        self.restricted = restricted
        self.classes = self._class()
        added = self.tokenizer.added_tokens_decoder.items()
        self.special = [*self.tokenizer.all_special_ids, *(i for i, t in added if t.special)]
        self.known: dict[tuple[int, ...], np.ndarray] = {}
        self.terms: dict[tuple[tuple[int, ...], int, int], float] = {}

    def words(self, sentence: str) -> tuple[list[int], list[list[int]]]:
        """Return the ids and the places of each word's tokens, word by word."""
        ids = self.tokenizer(sentence)["input_ids"]
        byte_level = "Ġ" in "".join(self.tokenizer.get_vocab())
        places, at = [], 1
        for i, word in enumerate(sentence.split()):
            text = " " + word if i and byte_level else word
            n = len(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            places.append(list(range(at, at + n)))
            at += n
        assert at == len(ids) - 1
        return ids, places

    def _class(self) -> np.ndarray:
        """Return for every token whether it begins a word (ends one, for XLM), by its text."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        if any(t.endswith("</w>") for t in tokens):
            return np.array([t.endswith("</w>") for t in tokens])
        if any(t.startswith("Ġ") for t in tokens):
            text_of = self.tokenizer.convert_tokens_to_string
            return np.array([text_of([t])[:1].isspace() for t in tokens])
        return np.array([not t.startswith("##") for t in tokens])

    def term(self, ids: list[int], hidden: frozenset[int], place: int) -> float:
        """Return log p(token at `place`) with the tokens at `hidden` masked."""
        row = tuple(self.tokenizer.mask_token_id if p in hidden else t for p, t in enumerate(ids))
        if row not in self.known:
            with torch.no_grad():
                self.known[row] = self.model(torch.tensor([row])).logits[0].double().numpy()
        key = (row, place, ids[place])
        if key not in self.terms:
            logits = self.known[row][place]
            kept = np.ones(len(logits), dtype=bool)
            if self.restricted:
                kept[len(self.classes) :] = False
                kept[: len(self.classes)] = self.classes == self.classes[ids[place]]
                kept[self.special] = False
            log_prob = logits[ids[place]] - np.log(np.exp(logits[kept]).sum())
            self.terms[key] = float(log_prob)
        return self.terms[key]

    def score(self, sentence: str, metric: str) -> float:
        ids, words = self.words(sentence)
        flat = [p for word in words for p in word]
        if metric == "permutation":
            return self._permutation(ids, words)
        total = 0.0
        for word in words:
            for p in word:
                hidden = {
                    "pll": [p],
                    "pll-word-l2r": [q for q in word if q >= p],
                    "pll-whole-word": word,
                    "pll-sentence-l2r": [q for q in flat if q >= p],
                }[metric]
                total += self.term(ids, frozenset(hidden), p)
        return total

    def _permutation(self, ids: list[int], words: list[list[int]]) -> float:
        scores = []
        for order in itertools.permutations(range(len(words))):
            hidden = {p for word in words for p in word}
            total = 0.0
            for w in order:
                by_order = []
                for inner in itertools.permutations(words[w]):
                    now = set(hidden)
                    value = 0.0
                    for p in inner:
                        value += self.term(ids, frozenset(now), p)
                        now.remove(p)
                    by_order.append(value)
                total += np.mean(by_order)
                hidden -= set(words[w])
            scores.append(total)
        return float(np.mean(scores))


@pytest.mark.parametrize("restricted", ["no", "yes"])
@pytest.mark.parametrize("name", MASKED)
def test_every_metric_equals_brute_force(tiny: Tiny, name: str, restricted: str) -> None:
    brute = _Brute(tiny(name), restricted == "yes")
    for metric in METRICS:
        expected = [brute.score(sentence, metric) for sentence in SHORT]
        one = load_model(f"hf:{tiny(name)}?metric={metric}&restricted={restricted}")
        np.testing.assert_allclose(one.score(SHORT), expected, atol=1e-4)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", MASKED)
def test_models_pass_check_model(tiny: Tiny, name: str, metric: str) -> None:
    model = load_model(f"hf:{tiny(name)}?metric={metric}&restricted=yes")
    lines = check_model(model, SHORT, words=["dog", "saw", "us", "dogs"])
    assert len(lines) == 5
    assert load_model(model.spec).event == model.event


def test_words_are_separated_by_spaces(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('bert')}")
    assert isinstance(model, MaskedModel)
    (encoded,) = model.encode(["the cats don't bark!"])
    assert encoded.units == ("the", "cat", "##s", "don", "'", "t", "bark", "!")
    assert encoded.word_lengths == (1, 2, 3, 2)
    (encoded,) = load_model(f"hf:{tiny('roberta')}").encode(["the cats don't bark!"])
    assert encoded.units[3:] == ("Ġdo", "n", "'t", "Ġbark", "!")
    assert encoded.word_lengths == (1, 2, 3, 2)


def test_whole_word_masking_of_a_contraction(tiny: Tiny) -> None:
    brute = _Brute(tiny("bert"), restricted=False)
    ids, words = brute.words("the don't ran")
    assert [len(w) for w in words] == [1, 3, 1]
    model = load_model(f"hf:{tiny('bert')}?metric=pll-whole-word")
    expected = [sum(brute.term(ids, frozenset(w), p) for p in w) for w in words]
    np.testing.assert_allclose(model.score_words(["the don't ran"])[0], expected, atol=1e-4)


def test_punctuation_is_scored_or_context(tiny: Tiny) -> None:
    brute = _Brute(tiny("bert"), restricted=False)
    ids, words = brute.words("a dog ran.")
    assert [len(w) for w in words] == [1, 1, 2]
    context = load_model(f"hf:{tiny('bert')}?punctuation=context&metric=pll")
    assert context.event.punctuation == "context"
    expected = [brute.term(ids, frozenset([p]), p) for p in (1, 2, 3)]
    np.testing.assert_allclose(context.score_words(["a dog ran."])[0], expected, atol=1e-4)
    kept = load_model(f"hf:{tiny('bert')}?metric=pll")
    final = brute.term(ids, frozenset([4]), 4)
    assert kept.score(["a dog ran."])[0] == pytest.approx(sum(expected) + final, abs=1e-4)
    check_model(context, SHORT, words=["dog", "unhappy", "saw"])


def test_punctuation_inside_a_sentence_is_scored(tiny: Tiny) -> None:
    context = load_model(f"hf:{tiny('bert')}?punctuation=context")
    assert [len(p.tokens) for p in context.score_tokens(["ran, dog !", "a dog ran, !"])] == [4, 5]


def test_padding_side_of_the_tokenizer_is_irrelevant(tiny: Tiny, tmp_path: Path) -> None:
    scores = []
    for side in ("left", "right"):
        folder = tmp_path / side
        AutoModelForMaskedLM.from_pretrained(tiny("roberta")).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(tiny("roberta"), padding_side=side)
        tokenizer.save_pretrained(folder)
        scores.append(load_model(f"hf:{folder}").score(SHORT))
    np.testing.assert_array_equal(scores[0], scores[1])


def test_scores_do_not_depend_on_batch_size(tiny: Tiny) -> None:
    wide = load_model(f"hf:{tiny('bert')}?metric=permutation")
    narrow = load_model(f"hf:{tiny('bert')}?metric=permutation&batch_tokens=1")
    np.testing.assert_allclose(wide.score(SHORT), narrow.score(SHORT), atol=1e-5)
    alone = np.concatenate([wide.score([s]) for s in SHORT])
    np.testing.assert_allclose(wide.score(SHORT), alone, atol=1e-5)
    words = WordList.from_words(["dog", "unhappy", "ran"])
    both = [
        m.score_replacements(Sentence.parse("the old dog saw us"), 2, words) for m in (wide, narrow)
    ]
    np.testing.assert_allclose(*(table.score(np.arange(3)) for table in both), atol=1e-5)


def test_equal_sentences_have_equal_scores(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=permutation")
    scores = model.score([SHORT[0], *SHORT, SHORT[0]])
    assert scores[0] == scores[1] == scores[-1]


def test_two_metrics_share_one_network(tiny: Tiny) -> None:
    one = load_model(f"hf:{tiny('bert')}?metric=pll")
    other = load_model(f"hf:{tiny('bert')}?metric=permutation")
    assert one.checkpoint is other.checkpoint
    assert one.event != other.event
    assert one.fingerprint == other.fingerprint


def test_each_masked_input_is_computed_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=permutation")
    assert isinstance(model, MaskedModel)
    rows: list[tuple[int, ...]] = []
    real = model.network.logits

    def spy(ids: torch.Tensor, *args: object, **more: object) -> torch.Tensor:
        rows.extend(tuple(row) for row in ids.tolist())
        return real(ids, *args, **more)

    monkeypatch.setattr(model.network, "logits", spy)
    model.score(["The dog saw a cat."])
    assert len(rows) == len(set(rows))
    # 31 sets of hidden words; for each of 16 that hide "cat.", two with one token of it shown.
    assert len(rows) == 31 + 16 * 2


def test_sampled_scores_have_a_standard_error(tiny: Tiny) -> None:
    exact = load_model(f"hf:{tiny('bert')}?metric=permutation")
    sampled = load_model(f"hf:{tiny('bert')}?metric=permutation&exact=1&orders=40")
    totals = sampled.score_with_counts(SHORT)
    assert (totals.stderr[:3] > 0).all()
    assert (exact.score_with_counts(SHORT).stderr == 0).all()
    difference = np.abs(totals.score - exact.score(SHORT))
    assert (difference <= 4 * totals.stderr + 1e-4).all()
    again = load_model(f"hf:{tiny('bert')}?metric=permutation&exact=1&orders=40&seed=1")
    assert again.score(SHORT)[0] != totals.score[0]
    check_model(sampled, SHORT, words=["dog", "unhappy", "saw"])


def test_replacement_bounds_and_estimates(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=permutation")
    sentence = Sentence.parse("the old dog saw us")
    words = WordList.from_words(["dog", "cat", "man", "unhappy", "ran", "dogs"])
    table = model.score_replacements(sentence, 2, words)
    scores = table.score(np.arange(len(words)))
    assert (scores <= table.upper_bounds + 1e-4).all()
    # The present word's estimate is its score, for nothing is guessed.
    assert table.estimates[0] == pytest.approx(scores[0], abs=1e-4)
    assert table.estimates[0] == pytest.approx(model.score([str(sentence)])[0], abs=1e-4)


def _completion(folder: Path, sentence: Sentence, position: int, words: WordList) -> np.ndarray:
    """Return the log-probability of each word with all of its tokens masked."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForMaskedLM.from_pretrained(folder).eval()
    values = []
    for word in words:
        ids = torch.tensor([tokenizer(str(sentence.replace(position, word)))["input_ids"]])
        own = tokenizer(word, add_special_tokens=False)["input_ids"]
        places = torch.arange(1 + position, 1 + position + len(own))  # after [CLS] and short words
        assert ids[0, places].tolist() == own
        ids[0, places] = tokenizer.mask_token_id
        with torch.inference_mode():
            logits = network(ids).logits[0, places].log_softmax(dim=1)
        values.append(float(logits[torch.arange(len(own)), torch.tensor(own)].sum()))
    return np.array(values)


def test_estimates_without_inputs_that_mask_the_whole_word(tiny: Tiny) -> None:
    # Under pll every input that reads a token of a longer word shows its others.
    model = load_model(f"hf:{tiny('bert')}?metric=pll")
    words = WordList.from_words(
        ["dog", "unhappy", "dogs", "cats", "olds", "mans", "cat", "happily"]
    )
    table = model.score_replacements(Sentence.parse("the old dog saw us"), 2, words)
    assert table.cost.n_tokens is not None
    completion = _completion(tiny("bert"), Sentence.parse("the old dog saw us"), 2, words)
    groups = [
        np.flatnonzero(table.cost.n_tokens == n) for n in np.unique(table.cost.n_tokens) if n > 1
    ]
    assert max(len(group) for group in groups) > 1
    for group in groups:
        order = group[np.argsort(completion[group])]
        assert (np.diff(table.estimates[order]) > 1e-6).all()
        assert (table.estimates[group] < table.upper_bounds[group] - 0.1).all()


def _message(error: type[Exception], spec: str, sentences: list[str]) -> str:
    with pytest.raises(error) as caught:
        load_model(spec).score(sentences)
    return str(caught.value)


def test_unscorable_sentences_are_reported(tiny: Tiny) -> None:
    spec = f"hf:{tiny('bert')}"
    assert _message(UnknownWordError, spec, ["the dog saw ☃ us"]) == (
        f"{spec} does not know '☃' in 'the dog saw ☃ us'; leave the sentence out, or ask for "
        "unknown=unk"
    )
    assert load_model(spec + "?unknown=unk").score(["the dog saw ☃ us"])[0] < 0
    assert _message(InputError, spec, ["the [MASK] ran"]) == (
        f"'[MASK]' in 'the [MASK] ran' contains '[MASK]', a special token of {spec}; leave the "
        "sentence out"
    )
    long = "dog " * 50
    assert _message(InputError, spec, ["the dog", long]) == (
        f"{long[:60] + '...'!r} has 52 tokens, special tokens included, and {spec} accepts at "
        "most 40; shorten or split the sentence"
    )
    assert _message(UnknownWordError, f"hf:{tiny('xlm')}", ["the dog saw ☃ us"]) == (
        f"hf:{tiny('xlm')} does not know '☃' in 'the dog saw ☃ us'; leave the sentence out, or "
        "ask for unknown=unk"
    )


def test_position_embeddings_limit_the_sentence_length(tiny: Tiny) -> None:
    # RoBERTa counts positions from two, so 42 of them take 40 tokens.
    model = load_model(f"hf:{tiny('roberta')}?metric=pll")
    fits = "The" + " dog" * 37
    assert np.isfinite(model.score([fits])).all()
    with pytest.raises(InputError, match="has 41 tokens"):
        model.score([fits + " dog"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("metric=pl", "metric='pl' in '{}': did you mean 'pll'?"),
        ("orders=7", "orders='7' in '{}': give an even number of at least 4"),
        ("restricted=yes&unknown=unk", "restricted=yes with unknown=unk in '{}': the unknown-word token belongs to neither class; leave one of the two options out"),  # noqa: E501 - one whole message
        ("exact=x", "exact='x' in '{}': give a whole number of at least 1"),
        ("first=spaced", "first='spaced' in '{}': its vocabulary does not mark white space; leave the option out"),  # noqa: E501 - one whole message
        ("prefix=none", "unknown option 'prefix' in '{}'; choose one of 'batch_tokens', 'code', 'device', 'dtype', 'exact', 'first', 'language', 'metric', 'orders', 'punctuation', 'restricted', 'revision', 'seed', 'unknown'"),  # noqa: E501 - one whole message
    ],
)  # fmt: skip
def test_invalid_options_are_reported(tiny: Tiny, options: str, message: str) -> None:
    spec = f"hf:{tiny('bert')}?{options}"
    assert refusal(spec) == message.format(spec)


def test_form_of_the_first_word(tiny: Tiny) -> None:
    plain = load_model(f"hf:{tiny('roberta')}")
    spaced = load_model(f"hf:{tiny('roberta')}?first=spaced")
    assert (plain.event.first, spaced.event.first) == ("unspaced", "spaced")
    assert plain.encode(["dog ran"])[0].units == ("do", "g", "Ġran")
    assert spaced.encode(["dog ran"])[0].units == ("Ġdog", "Ġran")
    check_model(spaced, SHORT, words=["dog", "us"])


def test_restricted_needs_a_word_boundary_marker(tiny: Tiny, tmp_path: Path) -> None:
    # A WordPiece vocabulary of whole words alone, without ## pieces.
    folder = tmp_path / "unmarked"
    shutil.copytree(tiny("bert"), folder)
    old = AutoTokenizer.from_pretrained(folder)
    vocab = {token.replace("##", "+"): i for token, i in old.get_vocab().items()}
    assert len(vocab) == len(old.get_vocab())
    BertTokenizer(vocab=vocab, do_lower_case=False).save_pretrained(folder)
    spec = f"hf:{folder}?restricted=yes"
    assert refusal(spec) == (
        f"restricted=yes in {spec!r}: its vocabulary does not distinguish word-starting from "
        "word-continuing tokens; leave the option out"
    )
    assert np.isfinite(load_model(f"hf:{folder}").score(["the old dog saw us"]))[0]


def test_control_tokens_are_not_words(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('modernbert')}")
    assert not model.in_vocabulary(["<|end|>"])[0]
    with pytest.raises(InputError, match=r"'<\|end\|>' in 'a <\|end\|>' contains '<\|end\|>'"):
        model.score(["a <|end|>"])


def test_unknown_unk_needs_an_unknown_word_token(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "no-unk"
    shutil.copytree(tiny("roberta"), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.unk_token = None
    tokenizer.save_pretrained(folder)
    spec = f"hf:{folder}?unknown=unk"
    assert refusal(spec) == (
        f"unknown='unk' in {spec!r}: its tokenizer has no unknown-word token with known character "
        "offsets; leave the option out"
    )
    assert np.isfinite(load_model(f"hf:{folder}").score(["the old dog saw us"]))[0]
