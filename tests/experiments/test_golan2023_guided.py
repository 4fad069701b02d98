"""Test the guided search of Golan et al. (2023)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from fake_packages import install
from scipy import stats
from tiny_models import bert, tiny
from tiny_transformers import SENTENCES

from contstim import check_strategy, load_model, synthesize
from contstim.synthesis import parse_strategy
from contstim.synthesis.candidates import Candidates
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

__all__ = ["bert", "tiny"]

FILE = Path(__file__).parents[2] / "experiments" / "golan2023" / "guided_search.py"
WORDS = tuple(dict.fromkeys(word.strip(".").lower() for s in SENTENCES for word in s.split()))


@pytest.fixture
def guided(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FILE.parent))
    yield __import__("guided_search")
    sys.modules.pop("guided_search", None)


def test_regression_line_equals_least_squares(guided: ModuleType) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(-8, 3, 20)
    y = -30 + 0.7 * x + rng.normal(0, 1, 20)
    expected = stats.linregress(x, y)
    assert guided.regression_line(x, y) == pytest.approx((expected.intercept, expected.slope))
    assert guided.regression_line(np.ones(3), np.array([1.0, 2.0, 6.0])) == (3.0, 0.0)


@pytest.fixture
def problem(bert: Path) -> tuple[Problem, SharedVocabulary]:
    masked = load_model(f"hf:{bert}?metric=pll&unknown=unk")
    bigram = load_model("contstim:bigram?unknown=unk")
    words = ("dog", "cat", "man", "woman", "old", "fast", "slowly", "saw", "ran", "barks")
    first = WordList(("The", "A"))
    vocabulary = Vocabulary(first, WordList(words), WordList(("the", "a")))
    return Problem((masked,), (bigram,)), SharedVocabulary(vocabulary, (masked, bigram))


def test_approximate_score_equals_the_masked_word_score(
    guided: ModuleType, problem: tuple[Problem, SharedVocabulary]
) -> None:
    sentence, position = Sentence.parse("The dog saw a cat."), 1
    candidates = Search(*problem, sentence, seed=0).candidates(position)
    masked, _ = problem[0].models_by_name.values()
    texts = [str(sentence.replace(position, word)) for word in candidates.words]
    whole_word = load_model(masked.spec.replace("metric=pll", "metric=pll-whole-word"))
    expected = [scores[position] for scores in whole_word.score_words(texts)]
    log_probs = guided._completion_log_probs(masked, candidates, position)
    np.testing.assert_allclose(log_probs, expected, atol=1e-4)


def test_candidate_with_lowest_predicted_loss_is_scored_next(
    guided: ModuleType, problem: tuple[Problem, SharedVocabulary], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = Sentence.parse("The dog saw a cat.")
    candidates = Search(*problem, sentence, seed=0).candidates(1)
    masked, bigram = problem[0].models_by_name.values()
    texts = [str(sentence.replace(1, word)) for word in candidates.words]
    # Approximate scores that are correlated with the exact ones.
    exact = masked.score(texts)
    x = exact + np.random.default_rng(0).normal(0, 2, len(exact))
    feasible = np.flatnonzero(candidates.is_allowed & (bigram.score(texts) >= -1000))
    candidates.min_scores[bigram.spec] = -1000.0
    extremes = [feasible[choose(x[feasible])] for choose in (np.argmax, np.argmin)]
    known = [candidates.current_index, *extremes]
    slope, intercept = np.polyfit(x[known], exact[known], 1)
    predicted = np.where(np.isin(np.arange(len(x)), known), exact, intercept + slope * x)
    target = exact[candidates.current_index]
    options = [i for i in feasible if i not in known or (i in extremes and exact[i] < target)]
    # Extremes are known already and are refused by `verify`.
    order = sorted(options, key=predicted.__getitem__)
    rank, expected = next((n, i) for n, i in enumerate(order, start=1) if i not in known)

    scored: list[int] = []
    compute = type(candidates).scores

    def record(self: Candidates, name: str, indices: np.ndarray) -> np.ndarray:
        scored.extend(indices.tolist() if name == masked.spec else [])
        return compute(self, name, indices)

    monkeypatch.setattr(type(candidates), "scores", record)
    monkeypatch.setattr(candidates, "verify", lambda _: False)
    search = guided._GuidedWordSearch(candidates, {masked.spec: x})
    search.run(search.score_other_models(candidates.find_promising()), max_failures=rank)
    assert sorted(scored[:2]) == sorted(extremes)
    assert list(dict.fromkeys(scored))[2:] == [expected]


@pytest.mark.parametrize("swap", [False, True])
def test_results_satisfy_the_constraint_on_fresh_scores(
    guided: ModuleType, problem: tuple[Problem, SharedVocabulary], swap: bool
) -> None:
    reject, accept = list(problem[0].models_by_name.values())[:: -1 if swap else 1]
    for text in ("The dog saw a cat.", "A old man ran fast."):
        result = synthesize(
            text,
            reject=reject,
            accept=accept,
            shared_vocabulary=problem[1],
            strategy=guided.GuidedSearch(),
        )
        (natural, found) = accept.score([text, result.sentence])
        assert found >= natural
        losses = np.diff(reject.score([text, result.sentence]))
        assert losses[0] == pytest.approx(result.loss, abs=1e-4)
        assert result.loss <= 0


def test_threshold_is_lowered_until_enough_words_pass(guided: ModuleType) -> None:
    log_probs, indices = np.array([-3.0, -11.0, -14.9, -15.1, -40.0]), np.arange(5)
    strategy = guided.GuidedSearch(minimum=3)
    assert strategy._filter_likely(log_probs, indices).tolist() == [0, 1, 2]
    assert guided.GuidedSearch(minimum=1)._filter_likely(log_probs, indices).tolist() == [0]
    assert strategy._filter_likely(log_probs, indices[3:]).tolist() == [3, 4]


def test_guided_strategy_is_registered_and_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.read_text("utf-8")
    entries = {"contstim.strategies": "guided = guided_search:GuidedSearch"}
    install(tmp_path / "packages", monkeypatch, "guided_search", text, entries)
    strategy = parse_strategy("guided?failures=3")
    assert strategy.failures == 3
    assert len(check_strategy(strategy)) == 4
