"""Transformers with reductions, and in a synthesis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.check import check_model
from contstim.models.reductions import corpus_perplexity, surprisal
from contstim.models.registry import FAMILIES, load_model
from contstim.synthesis import synthesize
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]

SENTENCES = ["The dog saw a cat.", "the cats don't bark!", "a dogs ran"]
NATURAL = "The old dog saw a cat."
VOCABULARY = Vocabulary(
    WordList.from_words(["The", "A", "Dogs"]),
    WordList.from_words(
        [
            *("dog", "dogs", "cat", "cats", "man", "woman", "saw", "ran", "bark", "barks"),
            *("barked", "old", "unhappy", "fast", "slowly", "a", "the", "us"),
        ]
    ),
    frozenset({"the", "a"}),
)


@pytest.mark.parametrize("reduction", ["mean", "pen", "slor"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "no-bos"])
def test_reduced_models_pass_check_model(tiny: Tiny, name: str, reduction: str) -> None:
    # Any model of words serves to see that SLOR is computed; here another transformer's.
    other = f"&unigram=hf:{tiny('llama')}".replace(":", "%3A") if reduction == "slor" else ""
    model = load_model(f"hf:{tiny(name)}?reduction={reduction}{other}")
    check_model(model, SENTENCES, words=["dog", "unhappy", "us"])
    assert load_model(model.spec).event == model.event


@pytest.mark.parametrize("name", ["bert", "gpt2", "no-bos"])
def test_positions_outside_the_sentence_are_rejected(tiny: Tiny, name: str) -> None:
    model, words = load_model(f"hf:{tiny(name)}"), WordList.from_words(["dog"])
    for scorer in (model, model.token_unigram()):
        for position in (-1, 3):
            with pytest.raises(InputError) as error:
                scorer.score_replacements(Sentence.parse("a dog ran"), position, words)
            assert str(error.value) == f"position {position} is outside the 3 words of 'a dog ran'"


@pytest.mark.parametrize(
    ("reject", "accept"),
    [
        ("gpt2", "bert?metric=permutation&restricted=yes"),
        ("bert?metric=pll", "bert?metric=pll-word-l2r"),
        ("roberta?metric=pll-sentence-l2r", "llama?words=corrected"),
    ],
)
def test_synthesize_satisfies_its_constraint(tiny: Tiny, reject: str, accept: str) -> None:
    models = []
    for text in (reject, accept):
        name, _, options = text.partition("?")
        models.append(load_model(f"hf:{tiny(name)}?{options}" if options else f"hf:{tiny(name)}"))
    found = synthesize(
        NATURAL, reject=models[0], accept=models[1], vocabulary=VOCABULARY, strategy="edit"
    )
    assert found.is_changed
    assert models[1].score([found.sentence])[0] >= models[1].score([NATURAL])[0]
    assert models[0].score([found.sentence])[0] < models[0].score([NATURAL])[0]


def test_surprisal_and_perplexity_of_tokens(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('no-bos')}")
    bits = surprisal(model, SENTENCES, "bits")
    assert all(np.isnan(b[0]) and (b[1:] > 0).all() for b in bits)
    totals = model.score_with_counts(SENTENCES)
    expected = np.exp(-totals.score.sum() / totals.n_tokens.sum())
    assert corpus_perplexity(model, SENTENCES) == pytest.approx(expected)
    # Of 5 + 4 + 3 words the first three are not predicted.
    expected = np.exp(-totals.score.sum() / 9)
    assert corpus_perplexity(model, SENTENCES, per="word") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "preset"), [("bert", "metric=permutation"), ("gpt2", "end=scored")]
)
def test_alias_keeps_its_presets(tiny: Tiny, name: str, preset: str) -> None:
    key, _, value = preset.partition("=")
    presets = ((key, value),)
    alias = ModelSpec("contstim", "small", presets)
    model = FAMILIES["hf"].load(ModelSpec("hf", str(tiny(name)), presets, alias))
    assert model.spec == "contstim:small"
    plain = load_model(f"hf:{tiny(name)}?{preset}")
    assert model.event == plain.event
    np.testing.assert_array_equal(model.score(SENTENCES), plain.score(SENTENCES))
