"""A cheap model that orders candidates: exact scores still decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tables import TableModel

from contstim import synthesize
from contstim.models.base import BoolArray, FloatArray, Replacements
from contstim.synthesis.second_opinion import SHORTLIST, estimate_for, with_estimate
from contstim.synthesis.triplets import ModelPair, triplets
from contstim.text import Sentence, WordList
from contstim.vocabulary import Vocabulary

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


def test_the_average_of_two_opinions_by_hand() -> None:
    dear, cheap = _dear(), TableModel(WORDS, 5)
    sentence, words = Sentence.parse(SENTENCE), WordList.of(WORDS[:4])
    table = replace(dear.replacements(sentence, 1, words), estimate=np.array([-9.0, -7, -8, -5]))
    admitted = np.array([True, True, True, False])
    found = with_estimate(table, cheap, sentence, 1, words, admitted, present=-6.0)
    texts = [str(sentence.replace(1, word)) for word in words]
    rise = cheap.score(texts) - cheap.score([SENTENCE])[0]
    wanted = 0.5 * (table.estimate + -6.0 + rise)
    np.testing.assert_allclose(found.estimate[:3], np.minimum(wanted[:3], 0.0))
    # One that is ruled out is not scored by the cheap model, and keeps its estimate.
    assert found.estimate[3] == -5.0
    assert found.upper is table.upper
    assert found.score is table.score


def test_words_the_cheap_model_does_not_know_follow_by_the_line() -> None:
    dear, cheap = _dear(), _Ignorant(WORDS, 4)
    sentence, words = Sentence.parse(SENTENCE), WordList.of(WORDS[:20])
    rng = np.random.default_rng(0)
    table = replace(dear.replacements(sentence, 1, words), estimate=-rng.uniform(5, 30, 20))
    found = with_estimate(table, cheap, sentence, 1, words, np.ones(20, dtype=bool), -6.0)
    # Five known words are too few for a line.
    np.testing.assert_array_equal(found.estimate[5:], table.estimate[5:])
    assert SHORTLIST >= 20


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
    def event(self):  # type: ignore[override] # the tests' stand-in for a student's event
        from contstim.models.learnt.student import StudentEvent

        return StudentEvent("words", "none", "none", "keep", imitates=_dear().spec)


def test_triplets_use_a_student_when_its_teacher_rejects() -> None:
    dear, other, student = _dear(), TableModel(WORDS, 6), _Student(WORDS, 4)
    assert estimate_for(dear, [other, student]) is student
    assert estimate_for(other, [student]) is None
    pair = ModelPair.of(dear, other, FREE)
    with_student = triplets(pair, SENTENCE, strategy="bounded", estimates=[student])
    assert with_student
    assert with_student[0].natural == SENTENCE
