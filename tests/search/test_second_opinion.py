"""A cheap model that orders candidates: exact scores still decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tables import TableModel

from contstim import synthesize
from contstim.arrays import BoolArray, FloatArray
from contstim.models.base import Replacements
from contstim.models.learnt.student import StudentEvent
from contstim.search.belief import Belief
from contstim.search.second_opinion import SHORTLIST, estimate_for, with_estimate
from contstim.search.triplets import ModelPair, triplets
from contstim.text.sentence import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

WORDS = [f"{a}{b}" for a in "bcdfghklmn" for b in ("ab", "eb", "ib", "ob", "ub")] + ["the", "dog"]
SENTENCE = "bab the dog kib"
LIST = WordList.of(WORDS)
FREE = Vocabulary(LIST, LIST)


class _Dear(TableModel):
    """Knows nothing of its scores until asked."""

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        table = super().replacements(sentence, position, words)
        flat = np.zeros(len(words))
        return replace(table, upper=flat, estimate=flat - 1.0, exact=False)


class _Ignorant(TableModel):
    """Knows but a few words."""

    def knows(self, words: list[str]) -> BoolArray:
        return np.array([word.startswith("b") for word in words])

    def score(self, sentences: list[str]) -> FloatArray:
        assert all(s.split()[1].startswith(("b", "the")) for s in sentences)
        return super().score(sentences)


def _dear(exact: str = "none") -> _Dear:
    return _Dear(WORDS, 4, exact=exact)


def test_an_opinion_is_the_cheap_models_difference_from_the_present_sentence() -> None:
    dear, cheap = _dear(), TableModel(WORDS, 5)
    sentence, words = Sentence.parse(SENTENCE), WordList.of(WORDS[:4])
    table = replace(dear.replacements(sentence, 1, words), estimate=np.array([-9.0, -7, -8, -5]))
    admitted = np.array([True, True, True, False])
    found = with_estimate(table, cheap, sentence, 1, words, admitted, present=-6.0)
    texts = [str(sentence.replace(1, word)) for word in words]
    rise = cheap.score(texts) - cheap.score([SENTENCE])[0]
    assert found.opinion is not None
    np.testing.assert_allclose(found.opinion[:3], np.minimum(-6.0 + rise[:3], 0.0))
    # One that is ruled out is not scored by the cheap model.
    assert np.isnan(found.opinion[3])
    assert found.estimate is table.estimate
    assert found.upper is table.upper
    assert found.score is table.score


def test_of_words_the_cheap_model_does_not_know_it_has_no_opinion() -> None:
    dear, cheap = _dear(), _Ignorant(WORDS, 4)
    sentence, words = Sentence.parse(SENTENCE), WordList.of(WORDS[:20])
    rng = np.random.default_rng(0)
    table = replace(dear.replacements(sentence, 1, words), estimate=-rng.uniform(5, 30, 20))
    found = with_estimate(table, cheap, sentence, 1, words, np.ones(20, dtype=bool), -6.0)
    assert found.opinion is not None
    known = np.array([word.startswith("b") for word in words])
    np.testing.assert_array_equal(np.isnan(found.opinion), ~known)
    assert SHORTLIST >= 20


@pytest.mark.parametrize("informed", [True, False])
def test_what_an_opinion_is_worth_is_learnt(informed: bool) -> None:
    rng = np.random.default_rng(2)
    estimate = rng.normal(-40.0, 6.0, size=200)
    exact = estimate + rng.normal(0.0, 5.0, size=200)
    other = exact if informed else estimate + rng.normal(0.0, 5.0, size=200)
    opinion = np.where(np.arange(200) % 5 == 0, np.nan, other)
    table = Replacements(
        estimate + 40.0, estimate, exact=False, score=lambda i: exact[i], opinion=opinion
    )
    outlook = Belief().outlook(table, -40.0)
    outlook.learn(np.arange(100), exact[:100])
    index = np.flatnonzero(np.isfinite(opinion))
    index = index[index >= 100]
    error = exact[index] - outlook.predict(index)[0]
    if informed:
        assert np.abs(error).mean() < 1.5
    else:
        # Averaging with a stranger's noise would add 1.1 nats.
        alone = Belief().outlook(replace(table, opinion=None), -40.0)
        alone.learn(np.arange(100), exact[:100])
        without = np.abs(exact[index] - alone.predict(index)[0]).mean()
        assert np.abs(error).mean() < without + 0.3


def test_a_perfect_student_needs_fewer_exact_scores_for_about_the_same_loss() -> None:
    dear, accept = _dear(), TableModel(WORDS, 6)
    student = TableModel(WORDS, 4)
    counts, losses = [], []
    for estimate in (None, student):
        runs = [
            synthesize(
                " ".join(np.random.default_rng(n).choice(WORDS, size=4, replace=False)),
                reject=dear,
                accept=accept,
                vocabulary=FREE,
                strategy="bounded",
                estimate=estimate,
            )
            for n in range(3)
        ]
        counts.append(sum(run.n_scores[0] for run in runs))
        losses.append(np.mean([run.loss for run in runs]))
        assert all(run.estimate == ("" if estimate is None else student.spec) for run in runs)
        for run in runs:
            natural, synthetic = accept.score([run.natural, run.sentence])
            assert synthetic >= natural
    assert counts[1] < 0.7 * counts[0]
    # Another path, another local optimum.
    assert losses[1] <= 0.85 * losses[0]


def test_a_misleading_student_cannot_break_the_constraint() -> None:
    dear, accept = _dear(), TableModel(WORDS, 6)
    found = synthesize(
        SENTENCE,
        reject=dear,
        accept=accept,
        vocabulary=FREE,
        strategy="bounded",
        estimate=TableModel(WORDS, 99),
    )
    natural, synthetic = accept.score([found.natural, found.sentence])
    assert synthetic >= natural
    assert found.loss == pytest.approx(np.diff(dear.score([found.natural, found.sentence]))[0])
    assert found.loss <= 0


class _Student(TableModel):
    """Says whose score it imitates."""

    @property
    def event(self) -> StudentEvent:
        return StudentEvent("words", "none", "none", "keep", imitates=_dear().spec)


def test_triplets_use_a_student_when_its_teacher_rejects() -> None:
    dear, other, student = _dear(), TableModel(WORDS, 6), _Student(WORDS, 4)
    assert estimate_for(dear, [other, student]) is student
    assert estimate_for(other, [student]) is None
    pair = ModelPair.of(dear, other, FREE)
    with_student = triplets(pair, SENTENCE, strategy="bounded", estimates=[student])
    assert with_student
    assert with_student[0].natural == SENTENCE
