"""Items of an experiment: groups of related sentence pairs.

Sentence pairs that share a sentence, a sentence frame or another origin are not statistically
independent. They form one *item*, together with pairs that are linked to them through other pairs.
Inference treats items as random.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations

from contstim.text.languages import language_from_script

# Maximum number of words in which two sentences of one frame differ. Longer sentences may differ
# in one word only, because the number of frames grows with the square of the length.
_MAX_GAPS = 2
_MAX_WORDS_FOR_TWO_GAPS = 40


def group_into_items(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Group related sentence pairs into items, and return item numbers from 1.

    Two pairs are related if they have a key in common, for example a sentence. Consider the graph
    with the pairs as vertices and an edge between any two related pairs. The items are its
    connected components. They are found by the union-find algorithm with path halving (Tarjan and
    van Leeuwen 1984).

    Parameters
    ----------
    keys
        Keys of each pair: its sentences, and other sources from which it was made, such as a frame
        (a sentence with one word left open).

    Returns
    -------
    list of int
        Number of the item of each pair. Items are numbered from 1 in the order of their first pair.

    Examples
    --------
    >>> group_into_items([("a", "b"), ("c", "d"), ("b", "e"), ("f", "e")])
    [1, 2, 1, 1]
    """
    parents: list[int] = []
    # Forest in which each tree is a component: `parents` maps each pair to its parent, and roots to
    # themselves. The root is the first pair of its component.
    pair_by_key: dict[Hashable, int] = {}

    def find_root(pair: int) -> int:
        """Return the root of the tree that contains `pair`."""
        while parents[pair] != pair:
            parents[pair] = parents[parents[pair]]  # path halving, which shortens later searches
            pair = parents[pair]
        return pair

    for pair, pair_keys in enumerate(keys):
        parents.append(pair)
        for key in pair_keys:
            # Merge the component of this pair with the component of the first pair with this key.
            first_pair = pair_by_key.setdefault(key, pair)
            earlier_root, later_root = sorted((find_root(first_pair), find_root(pair)))
            parents[later_root] = earlier_root
    # Number the trees from 1 in the order of their first pair.
    roots = [find_root(pair) for pair in range(len(parents))]
    numbers = {root: number for number, root in enumerate(dict.fromkeys(roots), start=1)}
    return [numbers[root] for root in roots]


def sentence_frames(sentence: str) -> Iterator[tuple[str | None, ...]]:
    """Yield the frames of a sentence, in which one or two words are left open.

    A frame is a tuple of the words in lower case, with None in place of each open word. Fewer than
    half of the words are open. Two sentences of the same length that differ in one or two words
    have a frame in common.

    Examples
    --------
    >>> sorted(set(sentence_frames("The dog barks")) & set(sentence_frames("The cat barks")))
    [('the', None, 'barks')]
    """
    words = language_from_script(sentence).split(sentence.lower())
    max_gaps = _MAX_GAPS if len(words) <= _MAX_WORDS_FOR_TWO_GAPS else 1
    for n_gaps in range(1, min(max_gaps, (len(words) - 1) // 2) + 1):
        for gaps in combinations(range(len(words)), n_gaps):
            yield tuple(None if i in gaps else word for i, word in enumerate(words))


def infer_items(pairs: Iterable[tuple[str, str]]) -> list[int]:
    """Infer which sentence pairs belong to the same item.

    Pairs belong to the same item if their sentences are equal or differ in only one or two words.

    Parameters
    ----------
    pairs
        First and second sentence of each pair.

    Returns
    -------
    list of int
        Number of the item of each pair, counted from 1.

    Examples
    --------
    >>> infer_items([("A dog barks", "Barks a dog"), ("A cat barks", "Barks a cat"), ("Go", "I"),])
    [1, 1, 2]
    """
    return group_into_items(
        [key for sentence in pair for key in (sentence, *sentence_frames(sentence))]
        for pair in pairs
    )
