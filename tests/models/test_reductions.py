"""SLOR, perplexities and surprisal of table models, compared with their formulas."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contstim.errors import InputError, SpecError, UnknownNameError
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, ScoreKind, ScoringCost, TokenScores
from contstim.models.check import check_model
from contstim.models.reductions import REDUCTIONS, ReducedModel, corpus_perplexity, surprisal
from contstim.models.registry import FAMILIES, load_model, register_family, score_kind
from contstim.models.toy import RandomBigramModel
from contstim.text import Sentence, WordList

WORDS = ["the", "dog", "saw", "a", "cat", "ran"]
SENTENCES = ["the dog saw a cat", "a cat ran", "the dog ran", "dog"]


class _Unigram(RandomBigramModel):
    """The table's first row whatever the context."""

    def __init__(self, seed: int, *, end: bool = True) -> None:
        super().__init__(WORDS, seed, end=end)
        self.log_probs[:] = self.log_probs[0]


def _slor(exact: str = "all") -> ReducedModel:
    inner = RandomBigramModel(WORDS, 1, exact=exact)
    return ReducedModel(inner, "slor", ModelSpec("table", "1"), _Unigram(2))


def test_slor_subtracts_unigram_log_probability() -> None:
    model = _slor()
    inner, unigram = RandomBigramModel(WORDS, 1), _Unigram(2)
    lengths = np.array([len(s.split()) + 1 for s in SENTENCES])
    frequency = [sum(unigram.score_words([s])[0]) for s in SENTENCES]
    expected = (inner.score(SENTENCES) - frequency) / lengths
    np.testing.assert_allclose(model.score(SENTENCES), expected)
    # A sentence as its words' frequencies explain it has SLOR 0.
    same = ReducedModel(_Unigram(2), "slor", ModelSpec("table", "2"), _Unigram(2))
    np.testing.assert_allclose(same.score(SENTENCES), 0, atol=1e-12)
    assert model.event.reduction == f"slor over {unigram.spec}"
    assert (model.score(SENTENCES) > 0).any()


@pytest.mark.parametrize("exact", ["all", "bound", "none"])
def test_slor_passes_check_model(exact: str) -> None:
    assert "at most inf" in check_model(_slor(exact), SENTENCES)[0]


class _SubWords(RandomBigramModel):
    """A table whose long words are two units, and which leaves the first word unscored."""

    @property
    def event(self) -> Event:
        return replace(super().event, units="tokens")

    def score_tokens(self, sentences: list[str]) -> list[TokenScores]:
        found = []
        for p in super().score_tokens(sentences):
            keep = np.flatnonzero(p.word_indices > 0)
            twice = np.repeat(keep, [1 + (len(p.tokens[k]) > 2) for k in keep])
            counts = np.bincount(twice, minlength=len(p.tokens))[twice]
            units = tuple(p.tokens[k] for k in twice)
            found.append(
                TokenScores(units, p.log_probs[twice] / counts, p.word_indices[twice], p.n_words)
            )
        return found

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        return super(RandomBigramModel, self).score_replacements(sentence, position, words)


def test_slor_of_subword_models_passes_check_model() -> None:
    inner = _SubWords(WORDS, 4, exact="none")
    model = ReducedModel(inner, "slor", ModelSpec("table", "4"), _Unigram(2))
    check_model(model, SENTENCES[:3])
    # The unscored first word is not taken off either.
    words = _Unigram(2).score_words(SENTENCES[:1])[0]
    parts = inner.score_tokens(SENTENCES[:1])[0]
    expected = (parts.log_prob - words[1:].sum()) / len(parts.tokens)
    assert model.score(SENTENCES[:1])[0] == pytest.approx(expected)


def test_reduced_scores_cost_at_least_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = _SubWords(WORDS, 4, exact="none")
    plain = inner.score_replacements
    part = np.linspace(0.2, 3.0, len(WORDS))
    monkeypatch.setattr(
        inner, "score_replacements", lambda *a: replace(plain(*a), cost=ScoringCost(part))
    )
    model = ReducedModel(inner, "mean", ModelSpec("table", "4"))
    table = model.score_replacements(Sentence.parse(SENTENCES[0]), 1, WordList.from_words(WORDS))
    assert np.asarray(table.cost.n_inputs).tolist() == np.maximum(part, 1.0).tolist()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_score_kind_of_a_spec_equals_that_of_its_model(name: str) -> None:
    spec = f"contstim:bigram?reduction={name}"
    kind = load_model(spec).kind
    assert score_kind(spec) == kind
    other = {
        **dict.fromkeys(("sum", "end", "worst"), "nats"),
        "pen": "nats, length-penalised",
        "reading": "nats a word",
    }
    assert kind.unit == other.get(name, "nats a token")
    assert (load_model(spec).score(["The dog ran."]) <= kind.highest).all()


def test_score_kind_defaults_to_log_probability() -> None:
    assert score_kind("GPT-2") == score_kind("nowhere:x") == ScoreKind()


def test_perplexity_is_rejected_as_a_reduction() -> None:
    with pytest.raises(SpecError, match="reduction='ppl' in .*: choose one of"):
        load_model("contstim:bigram?reduction=ppl").score(["The dog ran."])


def test_slor_specs_load_and_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    register_family("table", "tables", lambda spec: RandomBigramModel(WORDS, int(spec.location)))
    register_family("uni", "one row", lambda spec: _Unigram(int(spec.location)))
    register_family("open", "one row", lambda spec: _Unigram(int(spec.location), end=False))
    model = load_model("table:5?reduction=slor&unigram=uni:2")
    assert model.spec == "table:5?exact=all&reduction=slor&unigram=uni:2"
    assert load_model(model.spec).score(SENTENCES) == pytest.approx(model.score(SENTENCES))
    for spec, message in {
        "table:5?reduction=slor&unigram=open:2": (
            "'table:5?exact=all' scores the end of a sentence and 'table:2?exact=all' does not; "
            "set end= to the same value in both"
        ),
        "table:5?unigram=uni:2": (
            "unigram= in 'table:5?unigram=uni:2' requires reduction=slor; remove it or add "
            "this option"
        ),
        "table:5?reduction=slur": (
            "reduction='slur' in 'table:5?reduction=slur': did you mean 'slor'?"
        ),
        "table:5?reduction=x": (
            "reduction='x' in 'table:5?reduction=x': choose one of "
            + ", ".join(repr(name) for name in sorted(REDUCTIONS))
        ),
    }.items():
        with pytest.raises(SpecError) as error:
            load_model(spec)
        assert str(error.value) == message


def test_slor_subtracts_only_scored_units() -> None:
    # A unigram model of the same units says what it says itself.
    for options in ("punctuation=drop&", "end=none&", "language=fr&", ""):
        model = load_model(f"contstim:unigram?{options}reduction=slor")
        assert model.score(["The dog, he slept."])[0] == pytest.approx(0, abs=1e-12), options
    # Where marks are part of words, those are scored, and so is their frequency.
    kept = load_model("contstim:unigram?punctuation=keep&unknown=unk&reduction=slor")
    assert "contstim:unigram?unknown=unk" in kept.event.reduction


@pytest.mark.parametrize(
    ("options", "unigram", "message"),
    [
        (
            "punctuation=drop",
            "contstim:unigram",
            "'contstim:unigram' scores punctuation and 'contstim:bigram?punctuation=drop' does "
            "not; set punctuation= to the same value in both",
        ),
        (
            "language=fr",
            "contstim:unigram",
            "'contstim:unigram' splits sentences into words of English, but the sentences are "
            "French; add language=fr to its spec, or use a model with this option",
        ),
    ],
)
def test_slor_rejects_unigrams_of_other_units(options: str, unigram: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        load_model(f"contstim:bigram?{options}&reduction=slor&unigram={unigram}")
    assert str(error.value) == message


def test_slor_without_a_unigram_model_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    monkeypatch.setattr("contstim.models.registry.bundled_models", dict)
    register_family("table", "tables", lambda spec: RandomBigramModel(WORDS, int(spec.location)))
    with pytest.raises(SpecError) as error:
        load_model("table:5?reduction=slor")
    assert str(error.value) == (
        "reduction=slor in 'table:5?reduction=slor' needs a unigram model; add unigram=SPEC, for "
        "example an ARPA file of order 1"
    )


def test_corpus_perplexity_per_token_and_per_word() -> None:
    model = RandomBigramModel(WORDS, 3)
    total = model.score(SENTENCES).sum()
    # 5 + 3 + 3 + 1 words, and an end symbol each.
    assert corpus_perplexity(model, SENTENCES) == pytest.approx(np.exp(-total / 16))
    assert corpus_perplexity(model, SENTENCES, per="word") == pytest.approx(np.exp(-total / 12))
    with pytest.raises(UnknownNameError, match="unknown unit of perplexity 'letter'"):
        corpus_perplexity(model, SENTENCES, per="letter")
    with pytest.raises(InputError, match="a corpus needs at least one sentence, got none"):
        corpus_perplexity(model, [])
    with pytest.raises(InputError, match="gives reduced scores; use the model without"):
        corpus_perplexity(_slor(), SENTENCES)


def test_uniform_model_has_perplexity_of_vocabulary_size() -> None:
    model = RandomBigramModel(WORDS, 3, sharpness=0.0)
    assert corpus_perplexity(model, SENTENCES) == pytest.approx(7)
    bits = surprisal(model, ["the dog"], "bits")[0]
    # The second word carries the end symbol too.
    np.testing.assert_allclose(bits, [np.log2(7), 2 * np.log2(7)])
    np.testing.assert_allclose(surprisal(model, ["the dog"])[0], bits * np.log(2))
    with pytest.raises(UnknownNameError) as error:
        surprisal(model, ["the dog"], "hartley")
    assert str(error.value) == "unknown unit 'hartley'; choose one of 'bits', 'nats'"


def test_unscored_words_have_no_surprisal(tmp_path: Path) -> None:
    class Open(RandomBigramModel):
        def score_words(self, sentences: list[str]) -> list[np.ndarray]:
            words = super().score_words(sentences)
            for values in words:
                values[0] = np.nan
            return words

    model = Open(WORDS, 3, sharpness=0.0, end=False)
    assert np.isnan(surprisal(model, ["the dog"])[0]).tolist() == [True, False]
    assert corpus_perplexity(model, ["the dog", "a cat ran"], per="word") == pytest.approx(7)


def test_reading_reduction_is_mean_word_plus_sentence_end() -> None:
    texts = ["The ship left the harbour.", "He saw her, and she smiled!"]
    plain = load_model("contstim:gpt?prompt=natural")
    reading = load_model("contstim:gpt?prompt=natural&reduction=reading")
    for text, parts in zip(texts, plain.score_tokens(texts), strict=True):
        assert parts.tokens[-1] in (".", "!")
        mean = parts.log_prob / parts.n_words
        expected = mean + parts.log_probs[-1]
        assert reading.score([text])[0] == pytest.approx(expected, abs=1e-4)
    assert not reading.kind.splits_over_words
    with pytest.raises(InputError, match="has no word scores, since"):
        reading.score_words(texts)
    with pytest.raises(InputError, match="not in a scored punctuation mark"):
        reading.score(["The ship left the harbour"])


def test_sentence_end_is_punctuation_and_end_symbol() -> None:
    plain = load_model("contstim:trigram")
    reading = load_model("contstim:trigram?reduction=reading")
    (parts,) = plain.score_tokens(["He saw her."])
    assert parts.tokens[-2:] == (".", "</s>")
    expected = parts.log_prob / 3 + parts.log_probs[-2:].sum()
    assert reading.score(["He saw her."])[0] == pytest.approx(expected)


def test_reading_reduction_rejects_a_word_called_none() -> None:
    model = RandomBigramModel(["none", "saw"], 1, end=False)
    reduced = ReducedModel(model, "reading", ModelSpec("table", "1", (("reduction", "reading"),)))
    with pytest.raises(InputError, match="a sentence ends in 'none', not in a scored"):
        reduced.score(["none saw none"])
