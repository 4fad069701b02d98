"""Kneser-Ney estimates against brute force and the lmplz of KenLM.

Tests `contstim.training.ngram`.
"""

import itertools
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from toy_corpus import sentences, write

from contstim.errors import InputError
from contstim.models.ngram import NgramTable
from contstim.models.ngram.arpa import read_arpa
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.training.ngram import NgramVocabulary, train_ngram


class BruteForce:
    """Modified Kneser-Ney by dictionaries: Chen and Goodman (1998), section 3 and equation 26."""

    def __init__(self, lines: list[str], order: int, vocabulary: set[str], fallback=None) -> None:
        self.vocabulary = vocabulary  # without <s>
        texts = [[START, *line.split(), END] for line in lines]
        self._children: dict[int, dict[tuple[str, ...], dict[str, int]]] = {}
        self.raw = {
            n: Counter(
                tuple(text[i - n + 1 : i + 1])
                for text in texts
                for i in range(1, len(text))
                if i - n + 1 >= 0
            )
            for n in range(1, order + 1)
        }
        self.adjusted: dict[int, dict[tuple[str, ...], int]] = {order: dict(self.raw[order])}
        for n in range(1, order):
            before = defaultdict(set)
            for gram in self.raw[n + 1]:
                before[gram[1:]].add(gram[0])
            self.adjusted[n] = {
                gram: count if gram[0] == START else len(before[gram])
                for gram, count in self.raw[n].items()
            }
        self.discounts = {}
        for n in range(1, order + 1):
            of = Counter(self.adjusted[n].values())
            found = [-1.0]
            if of[1] and of[2] and of[3]:
                y = of[1] / (of[1] + 2 * of[2])
                found = [k - (k + 1) * y * of[k + 1] / of[k] for k in (1, 2, 3)]
            estimated = all(0 <= d <= k for k, d in enumerate(found, start=1))
            self.discounts[n] = (0.0, *(found if estimated else fallback))

    def children(self, history: tuple[str, ...]) -> dict[str, int]:
        n = len(history) + 1
        if n not in self._children:
            found: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
            for gram, count in self.adjusted[n].items():
                found[gram[:-1]][gram[-1]] = count
            self._children[n] = found
        return self._children[n].get(history, {})

    def prob(self, word: str, history: tuple[str, ...]) -> float:
        n = len(history) + 1
        lower = self.prob(word, history[1:]) if history else 1 / len(self.vocabulary)
        counts = self.children(history)
        total = sum(counts.values())
        if not total:
            return lower
        discount = self.discounts[n]
        freed = sum(discount[min(a, 3)] for a in counts.values()) / total
        own = counts.get(word, 0)
        return max(own - discount[min(own, 3)], 0) / total + freed * lower


def table_prob(table: NgramTable, word: str, history: tuple[str, ...]) -> float:
    """The probability by the definition of a back-off model, one n-gram at a time."""
    size = len(table.words)

    def place(gram: tuple[str, ...]) -> int:
        found = table.ids[gram[0]]
        for n, name in enumerate(gram[1:], start=1):
            keys = table.levels[n].keys.tolist()
            key = found * size + table.ids[name]
            if key not in keys:
                return -1
            found = keys.index(key)
        return found

    gram = (*history, word)
    at = place(gram)
    if at >= 0:
        return 10 ** table.levels[len(gram) - 1].log_probs[at]
    context = place(history)
    weight = 0.0 if context < 0 else table.levels[len(history) - 1].log_backoffs[context]
    return 10**weight * table_prob(table, word, history[1:])


def histories(table: NgramTable) -> list[tuple[str, ...]]:
    """Every history of up to order - 1 words that a sentence can have."""
    names = [w for w in table.words if w not in (START, END)]
    found: list[tuple[str, ...]] = [()]
    for n in range(1, table.order):
        found += list(itertools.product(names, repeat=n))
        found += [(START, *rest) for rest in itertools.product(names, repeat=n - 1)]
    return found


def train_table(tmp_path: Path, lines: list[str], **options) -> NgramTable:
    out = tmp_path / "model.arpa"
    train_ngram(write(tmp_path / "text.txt", lines), out, **options)
    table = read_arpa(out)
    assert table is not None
    return table


FALLBACK = (0.4, 0.9, 1.3)


def check_against(expected: BruteForce, table: NgramTable, n: int, seed: int = 0) -> None:
    """Compare the probabilities of all words after `n` histories taken at random."""
    rng = np.random.default_rng(seed)
    seen = [g[:-1] for grams in expected.raw.values() for g in grams]
    names = [w for w in table.words if w not in (START, END)]
    chosen: list[tuple[str, ...]] = [(), (START,)] if table.order > 1 else [()]
    for _ in range(n // 2):
        chosen.append(seen[rng.integers(len(seen))])
        length = rng.integers(table.order)
        chosen.append(tuple(rng.choice(names, size=length)))
    for history in dict.fromkeys(chosen):
        for word in sorted(expected.vocabulary):
            assert table_prob(table, word, history) == pytest.approx(
                expected.prob(word, history), rel=3e-6
            ), (word, history)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_equal_brute_force(tmp_path: Path, order: int) -> None:
    lines = sentences(400, n_words=300, seed=order)
    words = {w for line in lines for w in line.split()} | {END, UNKNOWN}
    table = train_table(tmp_path, lines, order=order)
    check_against(BruteForce(lines, order, words), table, 24)


@pytest.mark.parametrize("order", [2, 3])
def test_unknown_class_has_the_counts_of_excluded_words(tmp_path: Path, order: int) -> None:
    lines = sentences(n_words=60, seed=order)
    counts = Counter(w for line in lines for w in line.split())
    kept = {w for w, n in counts.items() if n >= 4}
    mapped = [" ".join(w if w in kept else UNKNOWN for w in line.split()) for line in lines]
    expected = BruteForce(mapped, order, kept | {END, UNKNOWN}, FALLBACK)
    by_count = train_table(
        tmp_path, lines, order=order, vocabulary=NgramVocabulary(min_count=4), fallback=FALLBACK
    )
    check_against(expected, by_count, 20)
    listed = NgramVocabulary((*sorted(kept), "never-seen"))
    table = train_table(tmp_path, lines, order=order, vocabulary=listed, fallback=FALLBACK)
    check_against(
        BruteForce(mapped, order, {*kept, END, UNKNOWN, "never-seen"}, FALLBACK), table, 20
    )


def test_closed_vocabulary_has_no_unknown_class(tmp_path: Path) -> None:
    lines = sentences()
    table = train_table(
        tmp_path, lines, order=3, vocabulary=NgramVocabulary(closed=True), fallback=FALLBACK
    )
    words = {w for line in lines for w in line.split()} | {END}
    assert set(table.words) == words | {START}
    check_against(BruteForce(lines, 3, words, FALLBACK), table, 20)


def context_sums(table: NgramTable) -> np.ndarray:
    """The mass over all words after every history a sentence of the toy language can have."""
    names = [w for w in table.words if w not in (START, END)]
    histories: list[tuple[str, ...]] = [()]
    for n in range(1, table.order):
        histories += itertools.product(names, repeat=n)
        histories += [(START, *rest) for rest in itertools.product(names, repeat=n - 1)]
    return np.array(
        [sum(table_prob(table, w, h) for w in table.words if w != START) for h in histories]
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"entropy": 1e-4},
        {"entropy": 1e-2},
        {"entropy": 3e-3},
        {"vocabulary": NgramVocabulary(min_count=100)},
    ],
    ids=str,
)
def test_probabilities_sum_to_one_in_every_context(tmp_path: Path, options: dict) -> None:
    whole = train_table(tmp_path, sentences(), order=3, fallback=FALLBACK)
    table = train_table(tmp_path, sentences(), order=3, fallback=FALLBACK, **options)
    np.testing.assert_allclose(context_sums(table), 1, atol=1e-6)
    if options:
        assert sum(len(x.keys) for x in table.levels) < sum(len(x.keys) for x in whole.levels)


def test_probabilities_equal_lmplz(tmp_path: Path) -> None:
    # Numbers from KenLM's lmplz (sources of the package kenlm 0.3.0):
    # lmplz -o 3 --discount_fallback 0.5 1 1.5 --text LMPLZ_TEXT
    table = train_table(tmp_path, LMPLZ_TEXT, order=3, fallback=(0.5, 1, 1.5))
    rows = [line.split("\t") for line in LMPLZ_OUTPUT.strip().splitlines()]
    assert sum(len(level.keys) for level in table.levels) == len(rows)
    size = len(table.words)
    for log_prob, text, weight in rows:
        gram = text.split()
        place = table.ids[gram[0]]
        for n, word in enumerate(gram[1:], start=1):
            keys = table.levels[n].keys
            place = int(np.searchsorted(keys, place * size + table.ids[word]))
            assert table.levels[n].keys[place] % size == table.ids[word]
        level = table.levels[len(gram) - 1]
        assert level.log_probs[place] == pytest.approx(float(log_prob), abs=2e-6)
        assert level.log_backoffs[place] == pytest.approx(float(weight), abs=2e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 0}, "the order of an n-gram model must be at least 1, got 0"),
        ({"entropy": -1.0}, "the entropy threshold must be 0 or more, got -1.0"),
        (
            {"fallback": (0.5, 1.0, 4.0)},
            "fallback discounts must lie in 0 to 1, 2 and 3, got (0.5, 1.0, 4.0)",
        ),
        (
            {"fallback": (1.0,)},
            "there must be three fallback discounts, for counts 1, 2 and 3 or more, got (1.0,)",
        ),
        (
            {"punctuation": "cut"},
            "punctuation must be one of keep, split, drop, got 'cut'",
        ),
        (
            {},
            "Kneser-Ney discounts cannot be estimated from this text, since no 1-gram has the "
            "adjusted count 1; use more text, a lower order, or give fallback discounts, such as "
            "--fallback 0.5,1,1.5",
        ),
    ],
    ids=str,
)
def test_invalid_options_are_rejected(tmp_path: Path, options: dict, message: str) -> None:
    text = write(tmp_path / "text.txt", sentences())
    with pytest.raises(InputError) as raised:
        train_ngram(text, tmp_path / "out.arpa", **options)
    assert str(raised.value) == message
    assert not (tmp_path / "out.arpa").exists()


LMPLZ_TEXT = [
    "the dog saw the cat",
    "the cat saw a dog",
    "a dog ran",
    "the dog ran and the cat ran",
]
LMPLZ_OUTPUT = """
-1.0377885	<unk>	0
0	<s>	-0.040117208
-1.0377885	</s>	0
-1.0377885	the	-0.040117208
-0.9569653	dog	-0.30103
-0.9569653	saw	-0.18905623
-0.8487323	cat	-0.18905623
-0.9569653	a	-0.4522977
-0.9569653	ran	-0.34584233
-0.8487323	and	-0.18905623
-0.87267286	dog </s>	0
-0.752123	cat </s>	0
-0.32540298	ran </s>	0
-1.0779057	<s> the	-0.30103
-0.6274851	saw the	-0.30103
-0.38483417	and the	-0.30103
-0.7237466	the dog	-0.30103
-0.16365726	a dog	-0.30103
-0.84331876	dog saw	-0.30103
-0.72332424	cat saw	-0.30103
-0.8888495	the cat	-0.30103
-0.7237466	<s> a	-0.30103
-0.6056943	saw a	-0.30103
-0.4216614	dog ran	-0.30103
-0.72332424	cat ran	-0.30103
-0.74103737	ran and	-0.30103
-0.49889374	a dog </s>	0
-0.59320945	the cat </s>	0
-0.31304553	dog ran </s>	0
-0.13291205	cat ran </s>	0
-0.20908733	dog saw the	0
-0.15111691	ran and the	0
-0.36877137	<s> the dog	0
-0.074164845	<s> a dog	0
-0.074164845	saw a dog	0
-0.4925195	the dog saw	0
-0.58300483	the cat saw	0
-0.6359182	<s> the cat	0
-0.24827194	saw the cat	0
-0.24827194	and the cat	0
-0.20484442	cat saw a	0
-0.3571707	the dog ran	0
-0.3571707	a dog ran	0
-0.58300483	the cat ran	0
-0.46754122	dog ran and	0
"""
