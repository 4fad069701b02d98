"""Items of an experiment: groups of related sentence pairs.

Sentence pairs that share a sentence, a sentence frame or another origin are not statistically
independent. They form one *item*, together with pairs that are linked to them through other pairs.
Inference treats items as random.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from contstim.text.languages import language_from_script

# Maximum number of words in which two sentences of one frame differ. Longer sentences may differ
# in one word only, because the number of frames grows with the square of the length.
_MAX_GAPS = 2
_MAX_WORDS_FOR_TWO_GAPS = 40


def group_into_items(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Group related sentence pairs into items, and return item numbers from 1.

    Two pairs are related if they have a key in common, for example a sentence. Consider the graph
    with the pairs as vertices and an edge between any two related pairs. The items are its
    connected components.

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
    keys_by_pair = [list(pair_keys) for pair_keys in keys]
    n_pairs = len(keys_by_pair)
    # Build a graph with the pairs and the keys as vertices, and an edge between each pair and its
    # keys. Two pairs with a key in common are connected through this key.
    vertex_by_key: dict[Hashable, int] = {}
    edges = [
        (pair, vertex_by_key.setdefault(key, n_pairs + len(vertex_by_key)))
        for pair, pair_keys in enumerate(keys_by_pair)
        for key in pair_keys
    ]
    rows, columns = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    n_vertices = n_pairs + len(vertex_by_key)
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_vertices, n_vertices))
    _, components = connected_components(graph, directed=False)
    # `factorize` numbers the components from 0 in the order of their first pair.
    return [*map(int, pd.factorize(components[:n_pairs])[0] + 1)]


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
