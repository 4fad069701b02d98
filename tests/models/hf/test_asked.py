"""The probability of Yes against what a network says of the next token, written out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_transformers import refusal, tokens_computed
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.errors import InputError
from contstim.models.check import check_model
from contstim.models.hf.asked import AskedModel
from contstim.models.registry import load_model, score_kind
from contstim.synthesis import synthesize
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]

SENTENCES = ["The dog saw a cat.", "A cat ran.", "don't bark, dog!"]
WORDS = WordList.of(["dog", "cat", "old", "saw", "ran", "fast", "the"])
CHAT = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}A:"


@pytest.fixture
def question(tmp_path: Path) -> Path:
    path = tmp_path / "question.txt"
    path.write_text("the dog. {sentence} A cat?\n", "utf-8")
    return path


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "llama", "no-bos"])
def test_the_answer_written_out(
    tiny: Tiny, name: str, chat: bool, question: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny(name), tmp_path / "checkpoint"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if chat:
        tokenizer.chat_template = CHAT
        tokenizer.save_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder).eval()
    model = load_model(f"hf:{folder}?metric=yesno&prompt={question}&answers=dog|Cat")
    assert isinstance(model, AskedModel)
    words = {word: [] for word in ("dog", "cat")}
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token]).strip().lower()
        if text in words:
            words[text].append(token)
    assert len(words["dog"]) >= 1
    for sentence, score in zip(SENTENCES, model.score(SENTENCES), strict=True):
        text = f"the dog. {sentence} A cat?"
        if chat:
            text = f"{text}\nA:"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if not chat and name != "no-bos":
            ids = [tokenizer.bos_token_id if name == "llama" else tokenizer.eos_token_id, *ids]
        with torch.no_grad():
            p = network(torch.tensor([ids])).logits[0, -1].double().softmax(dim=0)
        yes, no = (float(p[words[word]].sum()) for word in ("dog", "cat"))
        assert score == pytest.approx(np.log(yes / (yes + no)), abs=1e-5)
    how = "by the chat template" if chat else "as it is"
    assert model.event.question.endswith(how)
    listed = tokenizer.convert_ids_to_tokens(words["dog"])
    assert model.event.answers.startswith(" ".join(map(repr, listed)) + " or ")
    assert load_model(model.spec).event == model.event
    check_model(model, SENTENCES, words=["dog", "saw", "us"])


def test_a_chat_template_can_be_left_out(tiny: Tiny, question: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("llama"), tmp_path / "checkpoint"))
    plain = load_model(f"hf:{folder}?metric=yesno&prompt={question}&answers=dog|cat")
    expected = plain.score(SENTENCES)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    asked = f"hf:{folder}?metric=yesno&prompt={question}&answers=dog|cat"
    np.testing.assert_array_equal(load_model(f"{asked}&chat=no").score(SENTENCES), expected)
    assert np.abs(load_model(asked).score(SENTENCES) - expected).max() > 1e-4


def test_what_questions_begin_with_is_computed_once(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("the dog saw a cat. " * 3 + "{sentence} A cat?\n", "utf-8")
    model = load_model(f"hf:{tiny('gpt2')}?metric=yesno&prompt={path}&answers=dog|cat")
    alone = [float(model.score([sentence])[0]) for sentence in SENTENCES]
    np.testing.assert_allclose(model.score(SENTENCES), alone, atol=1e-5)
    computed = tokens_computed(model, monkeypatch)
    model.score(SENTENCES)
    rows = [len(model._question(sentence)) for sentence in SENTENCES]
    # What stands before the sentence is not among what each of three questions computes.
    assert sum(computed) < sum(rows) - 3 * 15
    # Nor of what one that comes later does.
    computed.clear()
    np.testing.assert_allclose(model.score(SENTENCES[:1]), alone[:1], atol=1e-5)
    assert sum(computed) < rows[0] - 15
    assert model.score([]).shape == (0,)


def test_words_have_no_shares(tiny: Tiny, question: Path) -> None:
    model = load_model(f"hf:{tiny('gpt2')}?metric=yesno&prompt={question}&answers=dog|cat")
    assert not model.kind.splits_over_words
    assert score_kind(model.spec) == model.kind
    with pytest.raises(InputError) as error:
        model.parts(SENTENCES)
    assert str(error.value) == (
        f"{model.spec} gives one number a sentence, of which words have no shares; ask for scores "
        "of sentences"
    )


def test_a_question_against_a_probability(tiny: Tiny, question: Path) -> None:
    asked = load_model(f"hf:{tiny('gpt2')}?metric=yesno&prompt={question}&answers=dog|cat")
    scored = load_model(f"hf:{tiny('gpt2')}")
    losses = []
    for reject, accept in ((asked, scored), (scored, asked)):
        found = synthesize(
            "the dog saw us", reject=reject, accept=accept, vocabulary=Vocabulary(WORDS, WORDS)
        )
        before, after = accept.score(["the dog saw us", found.sentence])
        assert after >= before - 1e-6
        losses.append(found.loss)
    assert max(losses) <= 0
    assert min(losses) < -0.01


def test_what_cannot_be_asked(tiny: Tiny, question: Path) -> None:
    spec = f"hf:{tiny('gpt2')}?metric=yesno"
    assert refusal(spec) == (
        f"metric=yesno in '{spec}' needs a question: prompt=FILE, a text with {{sentence}} where "
        "the sentence stands"
    )
    asked = f"{spec}&prompt={question}"
    assert refusal(asked) == (
        f"no token of the vocabulary of '{asked}' is the answer 'yes'; name two words that are "
        "tokens: answers=WORD|WORD"
    )
    assert refusal(f"{asked}&answers=dog") == (
        f"answers='dog' in 'hf:{tiny('gpt2')}?answers=dog&metric=yesno&prompt={question}': give "
        "two words, such as yes|no"
    )
    bert = f"hf:{tiny('bert')}?metric=yesno&prompt={question}"
    assert "yesno" in refusal(bert) or "prompt" in refusal(bert)
