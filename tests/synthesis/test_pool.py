"""Assignment of sampled sentences to natural sentences, and its forecast.

Tests `contstim.synthesis.pool` and `contstim.synthesis.forecast`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from contstim.synthesis.forecast import count_expected_triplets, explain_shortfall, find_stop_reason
from contstim.synthesis.pool import (
    DIVERSITY_CAP,
    Request,
    SentencePool,
    assign_sentences,
    synthesize_from_pool,
)
from contstim.synthesis.problem import MinScore, ProblemDefinition

NATURAL = ["n one two.", "n three four."]


def _pool(seed: int, n: int) -> SentencePool:
    rng = np.random.default_rng(seed)
    words = np.array(["red", "big", "old", "new", "sad", "low"])
    sentences = list(dict.fromkeys(" ".join(rng.choice(words, 4)) + "." for _ in range(n)))
    scores = {
        model: {text: float(rng.normal(-20, 4)) for text in [*sentences, *NATURAL]}
        for model in ("a", "b", "f")
    }
    return SentencePool(tuple(sentences), scores, {"a": 0.1, "b": 0.0, "f": 0.0})


def _requests(*bounds: MinScore) -> list[Request]:
    both = (
        ProblemDefinition(("b",), ("a",), bounds=bounds),
        ProblemDefinition(("a",), ("b",), bounds=bounds),
    )
    return [Request(text, problem) for text in NATURAL for problem in both]


def _assign(
    pool: SentencePool,
    requests: list[Request],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Assign sentences to requests that do not form triplets."""
    rows = [[request] for request in requests]
    assigned = assign_sentences(pool, rows, None, diversity_cap, max_word_share)
    return [None if texts is None else texts[0] for texts in assigned]


def _gain(pool: SentencePool, place: Request, text: str) -> float | None:
    """Return the fall of what rejects, None where a constraint is broken, sentence by sentence."""
    (reject,), (accept,) = place.problem.reject, place.problem.accept
    scores = pool.scores
    for bound in place.problem.bounds:
        if scores[bound.model][text] < bound.value:
            return None
    if scores[accept][text] < scores[accept][place.natural] + pool.batch_tolerance[accept]:
        return None
    fall = scores[reject][place.natural] - scores[reject][text]
    return fall if fall > 0 else None


@pytest.mark.parametrize("seed", range(6))
def test_assignment_equals_brute_force(seed: int) -> None:
    pool, places = _pool(seed, 7), _requests(MinScore("f", -22.0))
    best: tuple[int, float] = (0, 0.0)
    for chosen in itertools.product([None, *pool.sentences], repeat=len(places)):
        used = [text for text in chosen if text is not None]
        gains = [
            _gain(pool, place, text)
            for place, text in zip(places, chosen, strict=True)
            if text is not None
        ]
        if len(set(used)) == len(used) and None not in gains:
            best = max(best, (len(used), sum(g for g in gains if g is not None)))
    given = _assign(pool, places, diversity_cap=100)
    gains = [_gain(pool, p, t) for p, t in zip(places, given, strict=True) if t is not None]
    assert None not in gains
    assert (len(gains), sum(g for g in gains if g is not None)) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, None])
def test_best_triplets_are_chosen(seed: int, most: int | None) -> None:
    pool, places = _pool(seed, 7), _requests()
    best: tuple[int, float] = (0, 0.0)
    for chosen in itertools.product([None, *pool.sentences], repeat=len(places)):
        n_filled = [2 - chosen[k : k + 2].count(None) for k in (0, 2)]
        used = [text for text in chosen if text is not None]
        if 1 in n_filled or len(set(used)) < len(used) or sum(n_filled) > 2 * (most or 2):
            continue
        gains = [
            _gain(pool, place, text)
            for place, text in zip(places, chosen, strict=True)
            if text is not None
        ]
        if None not in gains:
            best = max(best, (len(gains) // 2, sum(g for g in gains if g is not None)))
    given = assign_sentences(pool, [places[:2], places[2:]], most, diversity_cap=100)
    pairs = zip(places, (text for texts in given for text in texts or (None, None)), strict=True)
    gains = [_gain(pool, place, text) for place, text in pairs if text is not None]
    assert None not in gains
    assert (len(gains) // 2, sum(g for g in gains if g is not None)) == pytest.approx(best)


def _pool_for_all() -> SentencePool:
    """Return a pool in which each of sixteen sentences is valid for one problem of each triplet."""
    scores: dict[str, dict[str, float]] = {
        model: dict.fromkeys(NATURAL, -19.0) for model in ("a", "b", "f")
    }
    for i in range(16):
        text = f"s{i} a b{i}."
        scores["a"][text], scores["b"][text] = (-9.0, -29.0) if i % 2 else (-29.0, -9.0)
        scores["f"][text] = -20.0
    return SentencePool(tuple(f"s{i} a b{i}." for i in range(16)), scores, {})


@pytest.mark.parametrize("n_natural", [3, 60])
def test_assignment_with_many_valid_sentences_is_complete(n_natural: int) -> None:
    """All of 150 sentences are valid for each request, of which 100 are considered."""
    rng = np.random.default_rng(n_natural)
    natural = [f"n{i} e f." for i in range(n_natural)]
    scores = {"a": dict.fromkeys(natural, -19.0), "b": dict.fromkeys(natural, -9.0)}
    drops = rng.uniform(1, 30, 150)
    for i, drop in enumerate(drops.tolist()):
        scores["a"][f"s{i} a b{i}."], scores["b"][f"s{i} a b{i}."] = -9.0, -9.0 - drop
    pool = SentencePool(tuple(f"s{i} a b{i}." for i in range(150)), scores, {})
    problem = ProblemDefinition(("b",), ("a",))
    given = _assign(pool, [Request(text, problem) for text in natural])
    assert None not in given
    assert len(set(given)) == n_natural
    total = sum(-9.0 - scores["b"][text] for text in given if text is not None)
    if n_natural == 3:
        assert total == pytest.approx(np.sort(drops)[-3:].sum())


def test_triplets_of_one_natural_sentence_are_chosen_together() -> None:
    pool, places = _pool_for_all(), _requests()
    rows = [places[:2], places[2:], places[:2], places[2:]]
    given = assign_sentences(pool, rows, max_natural=1)
    is_chosen = [texts is not None for texts in given]
    assert is_chosen in ([True, False, True, False], [False, True, False, True])
    assert len({text for texts in given for text in texts or ()}) == 4
    assert None not in assign_sentences(pool, rows)


def test_forecast_is_limited_for_each_pair_of_models() -> None:
    pool, places = _pool_for_all(), _requests()
    # No sentence satisfies the bound of the second pair of models.
    hopeless = _requests(MinScore("f", -5.0))
    rows = [places[:2], places[2:], hopeless[:2], hopeless[2:]]
    assert count_expected_triplets(pool, rows, 3) == 2
    assert count_expected_triplets(pool, rows, 3, max_triplets=1) == 1


def test_pairs_without_natural_sentences_have_no_losses() -> None:
    assert _pool(1, 9).is_usable([]).shape == (0, len(_pool(1, 9).sentences))
    assert assign_sentences(_pool(1, 9), []) == []


def test_drop_below_the_minimum_is_no_improvement() -> None:
    pool, request = _pool(3, 40), _requests()[0]
    drops = -pool.losses(request)
    limited = -pool.losses(replace(request, minimum_drop=4.0))
    is_usable = ~np.isnan(drops)
    assert 0 < (drops[is_usable] >= 4).sum() < is_usable.sum()
    np.testing.assert_array_equal(limited, np.where(drops >= 4, drops, np.nan))


def test_assignment_limits_shared_first_and_last_words() -> None:
    pool = _pool(1, 60)
    for most in (1, 2):
        given = [
            text for text in _assign(pool, _requests(), diversity_cap=most) if text is not None
        ]
        for part in (slice(0, 3), slice(-3, None)):
            kinds = [tuple(text.rstrip(".").split()[part]) for text in given]
            assert max(map(kinds.count, kinds)) <= most


@pytest.mark.parametrize("seed", range(8))
def test_limited_assignment_fills_the_most_requests(seed: int) -> None:
    rng = np.random.default_rng([2, seed])
    some = ["amber", "copper", "crimson", "marble", "velvet", "violet"]
    written = [" ".join([*rng.choice(some, 3, replace=False), f"a{i}."]) for i in range(9)]
    scores = {
        model: {text: float(rng.normal(-20, 4)) for text in [*written, *NATURAL]}
        for model in ("a", "b")
    }
    pool, places = SentencePool(tuple(written), scores, dict.fromkeys("ab", 0.0)), _requests()
    gains = [{t: g for t in written if (g := _gain(pool, p, t)) is not None} for p in places]
    best = (0, 0.0)
    for chosen in itertools.product(*([None, *own] for own in gains)):
        used = [text for text in chosen if text is not None]
        counts = Counter(word for text in used for word in text.split())
        if len(set(used)) == len(used) and max(counts.values(), default=0) <= 2:
            gain = sum(own[t] for own, t in zip(gains, chosen, strict=True) if t is not None)
            best = max(best, (len(used), gain))
    given = _assign(pool, places, diversity_cap=100, max_word_share=0.02)
    pairs = zip(gains, given, strict=True)
    assert sum(text is not None for text in given) == best[0]
    assert sum(own[t] for own, t in pairs if t is not None) == pytest.approx(best[1])


def test_limit_on_sentences_with_the_same_word() -> None:
    rng = np.random.default_rng(4)
    # Sentences of different words, with or without "moss" and "fern".
    marked = ["moss fern", "moss it", "fern it", "it so"]
    written = [f"a{i} {marked[rng.integers(4)]} b{i}." for i in range(400)]
    pool = _pool(1, 0)
    scores = {
        model: {**by_sentence, **dict.fromkeys(NATURAL, -9.0)}
        | {text: float(rng.normal(-9, 4)) for text in written}
        for model, by_sentence in pool.scores.items()
    }
    # Of 20 natural sentences, four contain "moss". There are 40 requests for each of two pairs.
    natural = [f"{'moss' if i < 4 else 'reed'} n{i} it so." for i in range(20)]
    scores = {m: {**own, **dict.fromkeys(natural, -9.0)} for m, own in scores.items()}
    pool = SentencePool(tuple(dict.fromkeys(written)), scores, {})
    places = [
        Request(text, ProblemDefinition((one,), (two,)))
        for pair in (("a", "b"), ("b", "f"))
        for text in natural
        for one, two in (pair, pair[::-1])
    ]

    def most(share: float) -> dict[str, int]:
        given = _assign(pool, places, diversity_cap=100, max_word_share=share)
        assert sum(text is not None for text in given) > 50
        return {
            word: max(
                sum(word in (text or "").split() for text in own)
                for own in (given[:40], given[40:])
            )
            for word in ("moss", "fern", "it")
        }

    without, limited, tenth = most(1.0), most(0.02), most(0.1)
    assert min(without.values()) > 8
    assert (limited["moss"], limited["fern"]) == (8, 2)
    assert (tenth["moss"], tenth["fern"]) == (8, 4)
    # "it" is a frequent word, which is not limited.
    assert limited["it"] > 8


def test_results_contain_the_scores_of_the_pool() -> None:
    pool, places = _pool(2, 30), _requests()
    given = _assign(pool, places)
    made = [row for (row,) in synthesize_from_pool(pool, [[p] for p in places], seed=5)]
    for place, text, synthesis in zip(places, given, made, strict=True):
        assert synthesis.sentence == (place.natural if text is None else text)
        assert synthesis.scores == tuple(
            pool.scores[m][synthesis.sentence] for m in synthesis.models
        )
        if text is not None:
            gain = _gain(pool, place, text)
            assert gain is not None
            assert -synthesis.loss == pytest.approx(gain)


def test_explain_shortfall_counts_satisfied_constraints() -> None:
    bound = MinScore("f", -20.0)
    pool, places = _pool(3, 40), _requests(bound)
    counts = explain_shortfall(pool, [places])
    keeps = [pool.scores["f"][t] >= -20.0 for t in pool.sentences]
    assert counts[str(bound)] == sum(keeps)
    left = [sum(_gain(pool, p, t) is not None for t in pool.sentences) for p in places]
    assert counts["all constraints, with a negative loss"] == np.median(left)


@pytest.mark.parametrize(
    ("gains", "n_found", "n_expected", "reason"),
    [
        ([9, 10, 10, 10, 10], 4, 4, None),  # fewer than five rounds after the first
        ([10, 9, 9, 9, 9, 11.5], 4, 4, "the last 5 rounds improved the loss by at most 15%"),
        ([10, 9, 9, 9, 9, 11.6], 4, 4, None),  # an improvement of 16%
        ([10, 9, 9, 9, 9, 10], 3, 4, None),  # a further triplet is expected
        ([10, 9, 9, 9, 9, 10], 3, 3, "none are expected in the next 5 rounds"),
        ([99, 10, 9, 9, 9, 9, 11], 4, 4, "the last 5 rounds improved the loss by at most 15%"),
        ([0, 0, 0, 0, 0, 0], 0, 0, "none are expected in the next 5 rounds"),
    ],
)
def test_sampling_stops_without_improvement_in_five_rounds(
    gains: list[float], n_found: int, n_expected: int, reason: str | None
) -> None:
    assert find_stop_reason(gains, 0.15, n_found, 4, n_expected) == reason


@pytest.mark.parametrize("factor", [1, 2, 5])
def test_forecast_equals_a_larger_assignment(factor: int) -> None:
    """A pool in which each sentence occurs several times; each request has a usable sentence."""
    pool, requests = _pool(2, 5), _requests()
    copies = {f"{text[:-1]} {k}.": text for text in pool.sentences for k in range(factor)}
    scores = {
        model: {**by_sentence, **{copy: by_sentence[text] for copy, text in copies.items()}}
        for model, by_sentence in pool.scores.items()
    }
    larger = SentencePool(tuple(copies), scores, pool.batch_tolerance)
    n_filled = sum(text is not None for text in _assign(larger, requests, diversity_cap=1000))
    assert count_expected_triplets(pool, [[t] for t in requests], factor) == n_filled


def test_forecast_interpolates_between_integer_factors() -> None:
    # All four requests can use the same two sentences only, so that two or four are fulfilled.
    scores = {"a": {"s a b.": -9.0, "s c d.": -9.0}, "b": {"s a b.": -29.0, "s c d.": -29.0}}
    scores = {model: own | {f"n{i} e f.": -19.0 for i in range(4)} for model, own in scores.items()}
    problem = ProblemDefinition(("b",), ("a",))
    requests = [[Request(f"n{i} e f.", problem)] for i in range(4)]
    pool = SentencePool(("s a b.", "s c d."), scores, {})
    forecasts = [count_expected_triplets(pool, requests, factor) for factor in (1, 1.4, 1.6, 2, 3)]
    assert forecasts == [2, 3, 3, 4, 4]


@pytest.mark.parametrize(("seed", "n_complete"), [(1, 0), (2, 1), (3, 2)])
def test_forecast_for_the_same_pool_counts_complete_triplets(seed: int, n_complete: int) -> None:
    pool, requests = _pool(seed, 8 if seed != 2 else 5), _requests()
    is_assigned = [text is not None for text in _assign(pool, requests, diversity_cap=1000)]
    assert all(is_assigned[:2]) + all(is_assigned[2:]) == n_complete
    assert count_expected_triplets(pool, [requests[:2], requests[2:]], 1) == n_complete


def test_forecast_is_close_to_the_result_of_more_samples() -> None:
    n_forecast = n_found = n_first = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        sampled, natural = [f"s{i} a b." for i in range(300)], [f"n{i} c d." for i in range(30)]
        scores = {
            model: dict(zip([*sampled, *natural], rng.normal(-20, 4, 330).tolist(), strict=True))
            for model in ("a", "b")
        }
        # Few sentences are as probable under model a as the improbable natural sentences.
        scores["a"] |= {text: scores["a"][text] + 7 for text in natural}
        requests = [Request(text, ProblemDefinition(("b",), ("a",))) for text in natural]
        pools = [SentencePool(tuple(sampled[:n]), scores, {}) for n in (60, 300)]
        found = [sum(map(bool, _assign(p, requests, diversity_cap=1000))) for p in pools]
        n_first, n_found = n_first + found[0], n_found + found[1]
        n_forecast += count_expected_triplets(pools[0], [[t] for t in requests], 5.0)
    assert n_first < 0.7 * n_found
    assert n_forecast == pytest.approx(n_found, rel=0.12)
