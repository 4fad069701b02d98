"""Entropy pruning against relative entropies computed from all probabilities."""

import math
from pathlib import Path

import numpy as np
from test_kneser_ney import FALLBACK, table_prob
from toy_corpus import sentences, write

from contstim.models.ngram import NgramTable
from contstim.models.word_tokenizer import START
from contstim.training.ngram import NgramVocabulary, count_ngrams, kneser_ney, read_corpus
from contstim.training.pruning import prune_by_entropy, round_probabilities


def bigram_model(tmp_path: Path) -> tuple[NgramTable, np.ndarray]:
    text = write(tmp_path / "t.txt", sentences(60))
    corpus = read_corpus([text], NgramVocabulary())
    counts = count_ngrams(corpus, 2)
    table = kneser_ney(counts, corpus.words, FALLBACK)
    after = np.bincount(counts[1].keys // len(corpus.words), weights=counts[1].raw)
    return table, after / after.sum()


def remove_bigram(table: NgramTable, gone: int) -> NgramTable:
    """The model less one bigram, its context's back-off weight set so that the sum stays 1."""
    size = len(table.words)
    unigrams, bigrams = table.levels
    keep = np.arange(len(bigrams.keys)) != gone
    context = bigrams.keys[gone] // size
    kept = keep & (bigrams.keys // size == context)
    rest = 1 - (10 ** bigrams.log_probs[kept]).sum()
    below = 1 - (10 ** unigrams.log_probs[bigrams.keys[kept] % size]).sum()
    weights = unigrams.log_backoffs.copy()
    weights[context] = math.log10(rest / below)
    pruned = bigrams._replace(
        keys=bigrams.keys[keep],
        log_probs=bigrams.log_probs[keep],
        log_backoffs=bigrams.log_backoffs[keep],
    )
    return NgramTable(table.words, (unigrams._replace(log_backoffs=weights), pruned))


def test_pruning_removes_ngrams_below_the_threshold(tmp_path: Path) -> None:
    table, frequencies = bigram_model(tmp_path)
    size = len(table.words)
    predicted = [w for w in table.words if w != START]
    losses = []
    for i, key in enumerate(table.levels[1].keys.tolist()):
        history = (table.words[key // size],)
        smaller = remove_bigram(table, i)
        terms = [
            (table_prob(table, w, history), table_prob(smaller, w, history)) for w in predicted
        ]
        divergence = sum(p * math.log(p / q) for p, q in terms)
        losses.append(math.expm1(frequencies[key // size] * divergence))
    for threshold in np.quantile(losses, [0.1, 0.35, 0.6, 0.9]):
        pruned = prune_by_entropy(table, [frequencies], threshold)
        expected = table.levels[1].keys[np.array(losses) >= threshold]
        assert pruned.levels[1].keys.tolist() == expected.tolist()


def test_rounded_probabilities_still_sum_to_one(tmp_path: Path) -> None:
    table, _ = bigram_model(tmp_path)
    rounded = round_probabilities(table, 2)
    assert np.array_equal(rounded.levels[1].log_probs, np.round(table.levels[1].log_probs, 2))
    below = sum(table_prob(rounded, w, ()) for w in table.words if w != START)
    assert abs(below - 1) > 1e-5
    for history in table.words[3:]:
        total = sum(table_prob(rounded, w, (history,)) for w in table.words if w != START)
        assert abs(total - 1) < abs(below - 1)  # only what the unigrams' own rounding leaves
