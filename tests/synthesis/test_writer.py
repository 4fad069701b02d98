"""Form, probabilities and guidance of sampled sentences.

Tests `contstim.synthesis.writer` and `contstim.synthesis.drafts`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from contstim import load_model
from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.hf.prefixes import CausalPrefixes
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.writer import (
    SamplingOptions,
    SentenceForm,
    SentenceWriter,
    guidance_weights,
)
from contstim.text import Sentence
from contstim.text.vocabulary import Vocabulary

WORDS = [
    *("The", "A", "He", "ship", "dog", "king", "house", "door", "left", "saw", "was", "of"),
    *("the", "a", "in", "his", "old", "man", "and", "at", "night", "blacksmith", "river", "to"),
]
# The writer of these tests was trained on single sentences.
PROMPT = ""


@pytest.fixture(scope="module")
def models() -> dict[str, SentenceModel]:
    """The bundled models that are quick."""
    return {name: load_model(f"contstim:{name}") for name in ("bigram", "trigram", "gpt", "bert")}


def _writer(
    models: dict[str, SentenceModel],
    form: SentenceForm,
    how: SamplingOptions,
    *guiding: tuple[float, str],
) -> SentenceWriter:
    chosen = [(c, models[name]) for c, name in guiding]
    proposal = SharedVocabulary(Vocabulary.from_words(WORDS), tuple(models.values()))
    return SentenceWriter(models["gpt"], chosen, proposal, form, how)


def test_sampled_sentences_satisfy_their_form(models: dict[str, SentenceModel]) -> None:
    repeatable = Vocabulary.from_words(WORDS).repeatable
    form = SentenceForm(
        3, 5, (".", "?"), commas=None, words={1: ("ship", "queen")}
    )  # no "queen" there
    how = SamplingOptions(min_end_probability=0.0, batch_size=24)
    drafts = _writer(models, form, how, (1.0, "trigram"), (-1.0, "bigram")).write(
        PROMPT, np.random.default_rng(1)
    )
    assert len(drafts) > 24
    for draft in drafts:
        sentence = Sentence.parse(draft.sentence)
        assert 3 <= len(sentence) <= 5
        assert sentence.after[-1] in form.marks
        assert set(sentence.after[:-1]) <= {"", ","}
        assert sentence.words[1] in ("ship", "queen")
        assert set(sentence.words) <= {*WORDS, "queen"}
        once = [word for word in map(str.casefold, sentence.words) if word not in repeatable]
        assert len(set(once)) == len(once)
    assert any("," in draft.sentence for draft in drafts)
    assert any("queen" in draft.sentence for draft in drafts)


def test_draft_scores_equal_scores_of_finished_sentences(
    models: dict[str, SentenceModel],
) -> None:
    form, how = SentenceForm(3, 4), SamplingOptions(min_end_probability=0.0, batch_size=8)
    drafts = _writer(models, form, how).write(PROMPT, np.random.default_rng(2))
    after = models["gpt"].with_context(PROMPT)
    for draft in drafts:
        (parts,) = after.score_tokens([draft.sentence])
        assert draft.log_prob == pytest.approx(parts.log_prob, abs=1e-3)
        assert draft.end == pytest.approx(parts.log_probs[-1], abs=1e-3)


def test_sentence_ends_satisfy_min_end_probability(
    models: dict[str, SentenceModel],
) -> None:
    how = SamplingOptions(min_end_probability=0.02, batch_size=32)
    drafts = _writer(models, SentenceForm(3, 6), how).write(PROMPT, np.random.default_rng(3))
    assert drafts
    assert all(draft.end >= np.log(0.02) for draft in drafts)


def test_sentences_below_a_reading_score_are_not_completed(
    models: dict[str, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    how = SamplingOptions(min_end_probability=0.0, batch_size=200)
    real, n_extended = CausalPrefixes.extend, list[int]()

    def count(self: CausalPrefixes, rows: IntArray, indices: IntArray) -> CausalPrefixes:
        n_extended.append(len(rows))
        return real(self, rows, indices)

    monkeypatch.setattr(CausalPrefixes, "extend", count)
    after = models["gpt"].with_context(PROMPT)

    def write(minimum: float | None) -> np.ndarray:
        """Return the reading scores of sampled sentences."""
        form = SentenceForm(3, 6, min_reading_score=minimum)
        drafts = _writer(models, form, how).write(PROMPT, np.random.default_rng(3))
        texts = [draft.sentence for draft in drafts]
        log_probs = [tokens.log_probs for tokens in after.score_tokens(texts)]
        n_words = [len(text.split()) for text in texts]
        pairs = zip(log_probs, n_words, strict=True)
        return np.array([sum(values[:-1]) / n + values[-1] for values, n in pairs])

    scores = write(None)
    n_without, minimum = sum(n_extended), float(np.median(scores))
    readable = write(minimum)
    assert readable.min() >= minimum - 1e-3
    # Almost no sentence above the bound is lost.
    assert len(readable) == pytest.approx(len(scores) / 2, rel=0.2)
    # Prefixes that cannot reach a higher bound are dropped.
    n_extended.clear()
    assert write(-2.5).size == 0
    assert sum(n_extended) < 0.9 * n_without


def test_unguided_words_follow_the_writer_distribution(models: dict[str, SentenceModel]) -> None:
    how = SamplingOptions(
        temperature=1.0,
        top_p=1.0,
        min_p=0.0,
        guidance=0.0,
        min_end_probability=0.0,
        batch_size=4000,
    )
    writer = _writer(models, SentenceForm(1, 1), how)
    drafts = writer.write(PROMPT, np.random.default_rng(4))
    begun = models["gpt"].with_context(PROMPT).empty_prefix(*writer.word_lists)
    assert begun is not None
    words = writer.word_lists[0].words
    rows, index = np.zeros(len(words), dtype=np.int64), np.arange(len(words))
    expected = np.exp(begun.log_probs(rows, index))
    expected /= expected.sum()
    counts = Counter(draft.sentence.rstrip(".") for draft in drafts)
    shares = np.array([counts[word] for word in words]) / len(drafts)
    assert shares == pytest.approx(expected, abs=0.03)


def test_guidance_moves_sentences_towards_the_contrast(models: dict[str, SentenceModel]) -> None:
    def gap(guidance: float) -> float:
        how = SamplingOptions(
            guidance=guidance,
            min_end_probability=0.0,
            top_p=1.0,
            min_p=0.0,
            temperature=1.0,
            batch_size=48,
        )
        writer = _writer(models, SentenceForm(5, 5), how, (1.0, "bigram"), (-1.0, "gpt"))
        texts = [d.sentence for d in writer.write(PROMPT, np.random.default_rng(5))]
        return float((models["bigram"].score(texts) - models["gpt"].score(texts)).mean())

    assert gap(6.0) > gap(0.0) + 3


def test_models_without_prefix_scores_do_not_guide(models: dict[str, SentenceModel]) -> None:
    form, how = SentenceForm(3, 3), SamplingOptions(min_end_probability=0.0, batch_size=8)
    mean = {**models, "mean": load_model("contstim:trigram?reduction=mean")}
    writers = [_writer(mean, form, how, (1.0, "mean")), _writer(mean, form, how)]
    guided, unguided = (writer.write(PROMPT, np.random.default_rng(6)) for writer in writers)
    assert guided == unguided
    assert [writer.non_guiding_models for writer in writers] == [(mean["mean"].name,), ()]


def test_masked_models_guide_by_proposing_words(models: dict[str, SentenceModel]) -> None:
    form = SentenceForm(4, 4)
    how = SamplingOptions(min_end_probability=0.0, top_p=1.0, min_p=0.0, batch_size=48)
    scores = []
    for guiding in ([], [(1.0, "bert")]):
        writer = _writer(models, form, how, *guiding)
        drafts = writer.write(PROMPT, np.random.default_rng(6))
        scores.append(models["bert"].score([draft.sentence for draft in drafts]).mean())
        assert writer.non_guiding_models == ()
    assert scores[1] > scores[0] + 1


def test_commas_are_placed_at_the_given_positions(models: dict[str, SentenceModel]) -> None:
    form, how = (
        SentenceForm(4, 4, commas=(1,)),
        SamplingOptions(min_end_probability=0.0, batch_size=8),
    )
    drafts = _writer(models, form, how).write(PROMPT, np.random.default_rng(3))
    after = models["gpt"].with_context(PROMPT)
    assert drafts
    for draft in drafts:
        assert Sentence.parse(draft.sentence).after == ("", ",", "", ".")
        assert draft.log_prob == pytest.approx(after.score([draft.sentence])[0], abs=1e-3)


def test_seed_determines_the_drafts(models: dict[str, SentenceModel]) -> None:
    form, how = SentenceForm(3, 4), SamplingOptions(min_end_probability=0.0, batch_size=8)

    def written(seed: int) -> list[str]:
        writer = _writer(models, form, how, (1.0, "trigram"), (-1.0, "gpt"))
        return [d.sentence for d in writer.write(PROMPT, np.random.default_rng(seed))]

    assert written(7) == written(7) != written(8)


def test_guidance_weights_are_inverse_scales(models: dict[str, SentenceModel]) -> None:
    bigram, trigram, gpt = (models[name] for name in ("bigram", "trigram", "gpt"))
    pair = Problem((bigram,), (trigram,))
    assert guidance_weights(pair) == {bigram.spec: -1.0, trigram.spec: 1.0}
    several = Problem(
        (bigram, gpt), (trigram,), 0.0, (MinScore(gpt.spec, -90.0),), scales=(2.0, 6.0)
    )
    # A nat of the one that varies less counts for more; both count for as much as one accepts.
    assert guidance_weights(several) == pytest.approx(
        {bigram.spec: -0.75, gpt.spec: -0.25, trigram.spec: 1.0}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marks": "a"}, "marks='a' contains a mark that ends no sentence; give some of .?!"),
        ({"marks": ".,"}, "marks='.,' contains a mark that ends no sentence; give some of .?!"),
        ({"lengths": "seven"}, "'seven' is not a length in words; write 8 or 6-12"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_invalid_sampling_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        SamplingOptions(**options)
