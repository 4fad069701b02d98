"""Upper bounds from a trie of candidate tokens: validity and budget.

Tests `contstim.models.hf.causal_candidates`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_transformers import tokens_computed

from contstim.models.hf import causal_candidates
from contstim.models.hf.causal_candidates import MAX_BOUND_SENTENCES
from contstim.models.hf.trie import TokenTrie, guess_log_probs
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]

SENTENCE = Sentence.parse("The old dog saw a cat.")
# More words than the budget, of one to six tokens.
STEMS = ["dog", "cat", "un", "bark", "slow", "th", "man", "wo", "old", "zu"]
ENDS = ["", "s", "ed", "ly", "ing", "ers", "ish", "ness", "a", "ful", "y", "ook"]
WORDS = WordList.from_words([a + b for a, b in itertools.product(STEMS, ENDS)])
MANY = WordList.from_words([a + b + c for a, b, c in itertools.product(STEMS, ENDS, ENDS)])


def test_trie_nodes_equal_the_distinct_prefixes() -> None:
    words = [(1,), (1, 2), (1, 2, 3), (1, 4), (5, 2, 3), (5, 2, 6), (5, 2, 6, 7)]
    trie = TokenTrie.from_words(words)
    prefixes = {w[:d] for w in words for d in range(1, len(w) + 1)}
    found = [tuple(p[:d].tolist()) for p, d in zip(trie.paths, trie.depths, strict=True)]
    assert len(found) == len(prefixes)
    assert set(found) == prefixes
    for node, prefix in enumerate(found):
        beyond = sum(w[: len(prefix)] == prefix and len(w) > len(prefix) for w in words)
        assert trie.n_longer[node] == beyond
        assert trie.tokens[node] == prefix[-1]
        above = prefix[:-1]
        assert (found[trie.parents[node]] if above else ()) == above
    assert [found[e] for e in trie.final_nodes] == words
    # Every node's step is its own weight: words add up what leads to them.
    steps = np.array([float(100 ** (len(p) - 1) * p[-1]) for p in found])
    sums = [sum(100.0 ** (d - 1) * w[d - 1] for d in range(1, len(w) + 1)) for w in words]
    np.testing.assert_array_equal(trie.sum_to_words(steps), sums)


def test_nodes_with_most_words_are_chosen_first() -> None:
    words = [(1, 2), (1, 3), (1, 4, 5), (1, 4, 6), (7, 2), (8, 2), (9,)]
    trie = TokenTrie.from_words(words)
    first = np.log(np.array([1, 1, 1, 1, 1, 1, 1, 2, 3, 90]) / 102)
    cost = (0.5, 0.5)
    paths = [
        [
            tuple(trie.paths[n][: trie.depths[n]].tolist())
            for n in trie.select_nodes(first, *cost, budget)
        ]
        for budget in (0.9, 1.0, 2.0, 3.0, 4.0, 99.0)
    ]
    # One is passed by four words, (1, 4) by two, eight and seven by one, eight the likelier.
    assert paths[:4] == [[], [(1,)], [(1,), (1, 4)], [(1,), (1, 4), (8,)]]
    assert [len(p) for p in paths[4:]] == [4, 4]
    chosen = trie.select_nodes(first, *cost, 2.0)
    assert trie.is_covered(chosen).tolist() == [True, True, True, True, False, False, True]


def test_ancestors_of_chosen_nodes_are_chosen() -> None:
    rng = np.random.default_rng(0)
    words = sorted({tuple(rng.integers(0, 3, rng.integers(1, 7)).tolist()) for _ in range(60)})
    trie = TokenTrie.from_words(words)
    spent: list[float] = []
    for budget in range(150):
        # Ties in probability are where the order could go wrong.
        chosen = trie.select_nodes(np.zeros(3), 1.0, 0.5, budget)
        paid = sum(group.ids.size + 0.5 * len(group.nodes) for group in trie.build_inputs(chosen))
        assert paid <= budget
        spent.append(paid)
        assert set(trie.parents[chosen].tolist()) <= {-1, *chosen.tolist()}
    # The next node would have cost at most six tokens and a place.
    assert all(paid > min(budget - 6.5, max(spent) - 0.1) for budget, paid in enumerate(spent))


def test_inputs_predict_each_chosen_node_once() -> None:
    words = [(1, 2, 3), (1, 2, 4), (1, 5, 6), (7, 8), (9, 9, 9, 9)]
    trie = TokenTrie.from_words(words)
    chosen = trie.select_nodes(np.zeros(10), 0.0, 0.0, 0.0)
    assert len(chosen) == (trie.n_longer > 0).sum()
    shown = []
    for group in trie.build_inputs(chosen):
        assert (np.diff(group.rows) >= 0).all()
        for row, position, node in zip(group.rows, group.positions, group.nodes, strict=True):
            depth = trie.depths[node]
            assert position == depth - 1
            assert group.ids[row, :depth].tolist() == trie.paths[node, :depth].tolist()
            shown.append(node)
    assert sorted(shown) == chosen.tolist()
    # One row a branch: (1, 2), (1, 5), (7) and (9, 9, 9).
    assert sum(len(group.ids) for group in trie.build_inputs(chosen)) == 4
    assert trie.build_inputs(chosen[:0]) == []


@pytest.mark.parametrize("name", ["gpt2", "llama", "no-bos", "mamba"])
@pytest.mark.parametrize("options", ["", "end=scored", "words=corrected", "prefix=none"])
def test_scores_are_within_their_bounds(tiny: Tiny, name: str, options: str) -> None:
    model = load_model(f"hf:{tiny(name)}?{options}")
    assert len(WORDS) > MAX_BOUND_SENTENCES
    for position in (0, 2, 5):
        table = model.score_replacements(SENTENCE, position, WORDS)
        scores = table.score(np.arange(len(WORDS)))
        assert (scores <= table.upper_bounds + 1e-4).all()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bounds_are_probabilities_up_to_the_candidate(
    tiny: Tiny, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(f"hf:{tiny(name)}")
    monkeypatch.setattr(causal_candidates, "_CANDIDATES_PER_SENTENCE", 1)
    some = model.score_replacements(SENTENCE, 3, WORDS).upper_bounds
    # A cost that all nodes together do not reach.
    monkeypatch.setattr(model.network, "n_weights", (1, 0))
    every = model.score_replacements(SENTENCE, 3, WORDS).upper_bounds
    texts = [" ".join(["The old dog", word]) for word in WORDS]
    np.testing.assert_allclose(every, model.score(texts), atol=1e-4)
    assert (every <= some + 1e-4).all()


def test_bounds_stay_within_their_budget(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(f"hf:{tiny('gpt2')}")
    few = WordList.from_words(MANY.words[:19])
    first_alone = model.score_replacements(SENTENCE, 3, few).upper_bounds
    table = model.score_replacements(SENTENCE, 3, MANY)
    work: list[tuple[int, int]] = []
    real = model.network.logits

    def spy(ids: torch.Tensor, rows: torch.Tensor, *args: object, **more: object) -> torch.Tensor:
        work.append((ids.numel(), len(rows)))
        return real(ids, rows, *args, **more)

    monkeypatch.setattr(model.network, "logits", spy)
    again = model.score_replacements(SENTENCE, 3, MANY)
    np.testing.assert_array_equal(again.upper_bounds, table.upper_bounds)
    body, head = model.network.n_weights
    chain = model.encode([str(SENTENCE)])[0]
    # As much as the scores of one in ten of the words, of a hundred sentences at most.
    limit = min(MAX_BOUND_SENTENCES, len(MANY) // 10) * (len(chain.ids) * body + head)
    # What stands before, the prefix included, is computed once as well.
    before = chain.scored_positions[np.flatnonzero(chain.word_indices == 3)[0]]
    paid = sum(n * body + m * head for n, m in work) + before * (body + head)
    assert 0.8 * limit < paid <= limit
    trie = model.tokenizer.candidates(SENTENCE, 3, MANY).trie
    assert len(trie.final_nodes) == len(MANY)
    assert 50 < sum(m for _, m in work) < (trie.n_longer > 0).sum()
    # Bounds of the list are nowhere above those by first tokens, and mostly below.
    lower = first_alone - table.upper_bounds[:19]
    assert (lower >= -1e-4).all()
    assert (lower > 0.1).mean() > 0.5
    # A list short enough to be scored is bounded by first tokens alone.
    work.clear()
    model.score_replacements(SENTENCE, 3, few)
    assert work == []


def test_estimates_use_the_regression_on_word_counts() -> None:
    rng = np.random.default_rng(1)
    trie = TokenTrie.from_words(
        sorted({tuple(rng.integers(0, 9, 4).tolist()) for _ in range(2000)})
    )
    begins = Counter(tuple(w[:d]) for w in trie.paths[trie.final_nodes].tolist() for d in range(5))
    every = np.array(
        [begins[tuple(p[:d])] for p, d in zip(trie.paths.tolist(), trie.depths, strict=True)]
    )
    line = -1.0 + 1.5 * np.log(every) - 0.75 * np.log(every[trie.parents])
    chosen = trie.select_nodes(np.zeros(9), 1.0, 0.0, 150.0)
    known = trie.find_children(chosen)[0]
    steps = np.zeros(len(trie.parents))
    steps[known] = line[known]
    guess = guess_log_probs(trie, steps, chosen)
    unknown = np.setdiff1d(np.flatnonzero(trie.depths > 1), known)
    assert 100 < len(unknown) < len(trie.parents) - 100
    np.testing.assert_allclose(guess[unknown], np.minimum(line[unknown], 0.0), atol=1e-9)
    assert not np.delete(guess, unknown).any()
    # From a few values no line is drawn.
    few = guess_log_probs(trie, steps, chosen[:1])
    unknown = np.setdiff1d(np.flatnonzero(trie.depths > 1), trie.find_children(chosen[:1])[0])
    assert (few[unknown] == -3.0).all()
    assert not np.delete(few, unknown).any()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_estimates_include_tokens_that_were_not_computed(tiny: Tiny, name: str) -> None:
    model = load_model(f"hf:{tiny(name)}")
    table = model.score_replacements(SENTENCE, 3, MANY)
    scores = table.score(np.arange(len(MANY)))
    chain, values = model.encode_and_score(str(SENTENCE))
    rest = values[chain.word_indices > 3].sum()
    guessed = table.estimates < table.upper_bounds + rest - 1e-9
    assert 0.2 < guessed.mean() < 1.0
    error = np.abs(scores - table.estimates)[guessed].mean()
    assert error < 0.7 * np.abs(scores - table.upper_bounds - rest)[guessed].mean()
    assert not table.is_exact


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_exact_scores_compute_only_new_tokens(
    tiny: Tiny, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(f"hf:{tiny(name)}")
    tokens = tokens_computed(model, monkeypatch)
    for position in (2, 5):
        table = model.score_replacements(SENTENCE, position, WORDS)
        texts = [str(SENTENCE.replace(position, word)) for word in WORDS]
        whole = np.array([len(encoded.ids) for encoded in model.encode(texts)])
        tokens.clear()
        table.score(np.arange(len(WORDS)))
        # The last token is only predicted.
        assert float(table.cost.n_inputs @ whole) == pytest.approx(sum(tokens) + len(WORDS))
