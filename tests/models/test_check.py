"""`check_model` accepts valid models and finds planted faults."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import (
    InputError,
    SpecError,
    UnknownNameError,
    UnknownWordError,
    ValidationError,
)
from contstim.models import ModelSpec
from contstim.models.base import ReplacementScores, SentenceScores, TokenScores
from contstim.models.check import check_model
from contstim.models.reductions import REDUCTIONS, ReducedModel
from contstim.models.registry import FAMILIES, load_model, register_family
from contstim.models.toy import RandomBigramModel, check_normalisation
from contstim.text import Sentence, WordList

WORDS = ["the", "dog", "saw", "a", "cat", "ran"]
SENTENCES = ["the dog saw a cat", "a cat ran", "the dog ran", "dog"]


@pytest.mark.parametrize("exact", ["all", "bound", "none"])
def test_check_model_accepts_a_valid_model(exact: str) -> None:
    lines = check_model(RandomBigramModel(WORDS, 1, exact=exact), SENTENCES)
    assert len(lines) == 5


class _Shifted(RandomBigramModel):
    """Scores the second and later sentences of a batch a little too high."""

    def score_tokens(self, sentences: list[str]) -> list[TokenScores]:
        found = super().score_tokens(sentences)
        for part in found[1:]:
            part.log_probs[0] -= 0.01
        return found


class _Forgetful(RandomBigramModel):
    """Leaves the end symbol to no word."""

    def score_words(self, sentences: list[str]) -> list[np.ndarray]:
        return [words * 0.99 for words in super().score_words(sentences)]


class _Overbound(RandomBigramModel):
    """Gives a bound that some candidate exceeds."""

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        table = super().score_replacements(sentence, position, words)
        return ReplacementScores(
            table.upper_bounds - 1, table.estimates, table.is_exact, table.score
        )


class _Misplaced(RandomBigramModel):
    """Replaces the word at the wrong position."""

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        return super().score_replacements(sentence, (position + 1) % len(sentence), words)


class _Uncomputed(RandomBigramModel):
    """Gives NaN where a replacement's score was not computed."""

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        table = super().score_replacements(sentence, position, words)
        return replace(table, score=lambda index: np.full(len(index), np.nan))


class _Unbounded(RandomBigramModel):
    """Gives NaN for a bound."""

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        table = super().score_replacements(sentence, position, words)
        return replace(table, upper_bounds=np.full(len(words), np.nan))


class _Totalled(RandomBigramModel):
    """SentenceScores are not the scores."""

    def score_with_counts(self, sentences: list[str]) -> SentenceScores:
        totals = super().score_with_counts(sentences)
        return replace(totals, score=np.full(len(sentences), np.nan))

    def score(self, sentences: list[str]) -> FloatArray:
        return super().score_with_counts(sentences).score


class _Lenient(RandomBigramModel):
    """Gives an unknown word the score of a known one."""

    def score_tokens(self, sentences: list[str]) -> list[TokenScores]:
        return super().score_tokens([s.replace("qzxqvqzxq", "dog") for s in sentences])


class _Sweeping(RandomBigramModel):
    """Answers once for all words."""

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        return super().in_vocabulary(words)[:1]


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (_Shifted, "one at a time|in reverse order|differently"),
        (_Forgetful, "as the sum of its word scores"),
        (_Overbound, "above its bound"),
        (_Misplaced, "as a whole"),
        (_Uncomputed, "as nan on demand"),
        (_Unbounded, "above its bound nan"),
        (_Totalled, "as nan by score_with_counts"),
        (_Sweeping, "in_vocabulary returns bool of shape"),
        (_Lenient, "but event.unknown is 'error'"),
    ],
)
def test_check_model_rejects_faulty_models(faulty: type[RandomBigramModel], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        check_model(faulty(WORDS, 1), SENTENCES)


def test_check_normalisation_of_a_toy_language() -> None:
    closed, opened = RandomBigramModel(WORDS[:3], 2), RandomBigramModel(WORDS[:3], 2, end=False)
    check_normalisation(closed, opened, WORDS[:3], length=4)
    closed.log_probs[:, 0] += 0.1
    with pytest.raises(ValidationError, match="strings of 1 words have total probability"):
        check_normalisation(closed, opened, WORDS[:3], length=4)


def test_check_model_uses_the_language_of_the_model() -> None:
    texts = ["L'homme dort.", "Le chien qu'il voit mange.", "Elle dort ici, non ?"]
    done = check_model(
        load_model("contstim:unigram?language=fr&unknown=unk"), texts, ["dog", "man"]
    )
    assert "word scores sum to sentence scores, one for each word" in done


@pytest.mark.parametrize("exact", ["all", "bound", "none"])
def test_positions_outside_the_sentence_are_rejected(exact: str) -> None:
    model, words = RandomBigramModel(WORDS, 1, exact=exact), WordList(("cat",))
    for position in (-1, 2):
        with pytest.raises(InputError) as error:
            model.score_replacements(Sentence.parse("the dog"), position, words)
        assert str(error.value) == f"position {position} is outside the 2 words of 'the dog'"


def test_unknown_words_are_reported() -> None:
    with pytest.raises(UnknownWordError) as error:
        RandomBigramModel(WORDS, 1).score(["the dog barked"])
    assert str(error.value) == (
        "table:1?exact=all does not know 'barked' in 'the dog barked'; leave the sentence out, use "
        "a model trained with the word, or set unknown=unk"
    )


def test_unpaired_surrogates_are_rejected(tiny: Callable[[str], Path]) -> None:
    with pytest.raises(InputError) as error:
        load_model(f"hf:{tiny('gpt2')}").score(["the dog", "the \ud83d dog"])
    assert str(error.value) == (
        "sentence 2, 'the \\ud83d dog', contains an unpaired surrogate; replace it by the whole "
        "character"
    )


def test_reductions_weight_the_log_probability() -> None:
    lengths = np.array([1.0, 4.0, 10.0])
    np.testing.assert_allclose(REDUCTIONS["sum"].length_factor(lengths), 1)
    np.testing.assert_allclose(REDUCTIONS["mean"].length_factor(lengths), [1, 0.25, 0.1])
    # ((5 + T) / 6) ** 0.8 at T = 1, 4, 10, worked out by hand: 1, 1.5 ** 0.8, 2.5 ** 0.8.
    np.testing.assert_allclose(
        1 / REDUCTIONS["pen"].length_factor(lengths), [1, 1.3831619, 2.0813830], 1e-6
    )
    with pytest.raises(UnknownNameError) as error:
        ReducedModel(RandomBigramModel(WORDS, 3), "meen", ModelSpec("table", "3"))
    assert str(error.value) == "unknown reduction 'meen'; did you mean 'mean'?"


@pytest.mark.parametrize("name", ["mean", "pen"])
@pytest.mark.parametrize("exact", ["all", "bound", "none"])
def test_reduced_models_pass_check_model(name: str, exact: str) -> None:
    inner = RandomBigramModel(WORDS, 3, exact=exact)
    spec = ModelSpec("table", "3", (("reduction", name),))
    model = ReducedModel(inner, name, spec)
    check_model(model, SENTENCES)
    assert model.event.reduction == name
    totals = inner.score_with_counts(SENTENCES)
    np.testing.assert_allclose(
        model.score(SENTENCES), totals.score * REDUCTIONS[name].length_factor(totals.n_tokens * 1.0)
    )


def test_load_model_of_registered_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    register_family("table", "tables", lambda spec: RandomBigramModel(WORDS, int(spec.location)))
    model = load_model("table:5?reduction=mean")
    assert model.spec == "table:5?exact=all&reduction=mean"
    assert model.event.reduction == "mean"
    with pytest.raises(UnknownNameError) as error:
        load_model("ngrm:x")
    assert str(error.value) == "unknown model family 'ngrm'; did you mean 'ngram'?"
    with pytest.raises(UnknownNameError) as error:
        load_model("contstim:trigam")
    assert "unknown bundled model 'trigam'; did you mean 'trigram'" in str(error.value)
    with pytest.raises(SpecError) as spec_error:
        load_model("table:5?reduction=meen")
    assert str(spec_error.value) == (
        "reduction='meen' in 'table:5?reduction=meen': did you mean 'mean'?"
    )
