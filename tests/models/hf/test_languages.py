"""Tokenisation in languages without spaces between words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import transformers
from tiny_transformers import save_network
from unspaced import segment_by

from contstim import load_model, synthesize
from contstim.errors import InputError
from contstim.models.base import check_sentence_language
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence
from contstim.text.language import Language
from contstim.text.languages import LANGUAGES
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_rules import WordRules

WORDS = ("猫", "狗", "上海", "北京", "去", "看见", "今天", "喜欢", "上", "海水")
TEXT = ["猫去上海。", "今天狗看见猫。", "狗喜欢北京。", "猫喜欢海水。", "今天狗去北京。"]


@pytest.fixture
def unspaced(monkeypatch: pytest.MonkeyPatch) -> Language:
    language = Language(code="xx", name="Unspaced", segment=segment_by(WORDS), has_case=False)
    monkeypatch.setitem(LANGUAGES._objects, "xx", language)
    return language


def save_tiny_checkpoint(folder: Path, core: tokenizers.Tokenizer) -> str:
    """Write a tiny checkpoint with a tokenizer of its own; return its spec."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, **special)
    tokenizer.save_pretrained(folder)
    sizes = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1}
    config = transformers.GPT2Config(n_positions=64, n_embd=16, n_layer=1, n_head=2, **sizes)
    save_network(transformers.GPT2LMHeadModel(config), folder)
    return f"hf:{folder}"


def make_character_model(folder: Path) -> str:
    """Make a model whose every token is a character."""
    letters = sorted({c for text in TEXT for c in text} | {c for word in WORDS for c in word})
    vocabulary = ["<s>", "</s>", "<unk>", "<pad>", *letters]
    core = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({t: i for i, t in enumerate(vocabulary)}, unk_token="<unk>")
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), behavior="isolated")
    return save_tiny_checkpoint(folder, core)


def make_merged_token_model(folder: Path) -> str:
    """Make a model with a token that holds two words."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trainer = tokenizers.trainers.BpeTrainer(
        special_tokens=["<s>", "</s>", "<unk>", "<pad>"], min_frequency=1, vocab_size=80
    )
    core.train_from_iterator(TEXT * 20, trainer)
    return save_tiny_checkpoint(folder, core)


def test_tokens_are_assigned_to_words_without_spaces(unspaced: Language, tmp_path: Path) -> None:
    spec = make_character_model(tmp_path / "c")
    model = load_model(f"{spec}?language=xx")
    check_sentence_language(model, unspaced, TEXT)
    plain = load_model(spec)
    np.testing.assert_allclose(model.score(TEXT), plain.score(TEXT), atol=1e-5)
    words = model.score_words(TEXT)
    assert [len(values) for values in words] == [len(unspaced.split(text)) for text in TEXT]
    np.testing.assert_allclose([v.sum() for v in words], model.score(TEXT), atol=1e-5)
    assert "language=xx" in model.spec
    with pytest.raises(InputError) as error:
        check_sentence_language(plain, unspaced, TEXT)
    assert str(error.value).endswith(
        "splits sentences into words of English, but the sentences are Unspaced; add language=xx "
        "to its spec, or use a model with this option"
    )


@pytest.mark.parametrize("reduction", ["", "&reduction=mean"])
def test_tokens_spanning_two_words_are_rejected(
    unspaced: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reduction: str
) -> None:
    spec = make_merged_token_model(tmp_path / "m")
    model = load_model(f"{spec}?language=xx{reduction}")
    good = load_model(f"{make_character_model(tmp_path / 'c')}?language=xx")
    asked: list[object] = []
    monkeypatch.setattr(type(good), "score", lambda self, texts: asked.append(texts))
    words = Vocabulary.from_words(WORDS, rules=WordRules(language=unspaced))
    with pytest.raises(
        InputError, match=r"token '.+' spans two words of '今天狗去北京。'; .*language=xx"
    ):
        synthesize(TEXT[-1], reject=good, accept=model, vocabulary=words)
    assert not asked


def test_replacements_equal_sentence_scores_without_spaces(
    unspaced: Language, tmp_path: Path
) -> None:
    spec = make_character_model(tmp_path / "c")
    model = load_model(f"{spec}?language=xx")
    words = Vocabulary.from_words(WORDS, rules=WordRules(language=unspaced))
    proposal = SharedVocabulary(words, (model,))
    sentence = Sentence.parse(TEXT[0], unspaced)
    listed = proposal.words_at(sentence, 1)
    table = model.score_replacements(sentence, 1, listed)
    expected = model.score([str(sentence.replace(1, word)) for word in listed])
    np.testing.assert_allclose(table.score(np.arange(len(listed))), expected, atol=1e-5)
    other = load_model(f"{spec}?language=xx&reduction=mean")
    problem = Problem((model,), (other,))
    result = synthesize(TEXT[1], problem=problem, vocabulary=words, strategy="edit")
    written = Sentence.parse(result.sentence, unspaced)
    assert written.round_trips
    assert written.after[-1] == "。"
