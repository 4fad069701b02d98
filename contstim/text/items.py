"""Which sentence pairs were made of one another, and so are one item.

Six frames with four pairs each are six draws from the sentences there could be, not 24. Pairs that
share a sentence, or something else that both were made of, are one item, and so are those that
others link.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations

from contstim.text.languages import language_from_script

#: Sentences of so many words in all, but for one or two, seem to be of one frame.
_MOST_APART = 2
# Of longer sentences only single words are let differ: there are too many twos.
_LONG = 40


def number_items(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Return the number of each pair's item, from 1 by first appearance.

    Parameters
    ----------
    keys
        What each pair was made of: its sentences, and what else tells its origin. Two pairs that
        share any of it are one item, and so are pairs that a chain of others links.

    Examples
    --------
    >>> number_items([("a", "b"), ("c", "d"), ("b", "e"), ("f", "e")])
    [1, 2, 1, 1]
    """
    above: list[int] = []
    first: dict[Hashable, int] = {}

    def root(pair: int) -> int:
        while above[pair] != pair:
            above[pair] = above[above[pair]]
            pair = above[pair]
        return pair

    for number, origins in enumerate(keys):
        above.append(number)
        for key in origins:
            earlier, later = sorted((root(first.setdefault(key, number)), root(number)))
            above[later] = earlier
    roots = [root(pair) for pair in range(len(above))]
    names = {pair: name for name, pair in enumerate(dict.fromkeys(roots), start=1)}
    return [names[pair] for pair in roots]


def sentence_frames(sentence: str) -> Iterator[tuple[str | None, ...]]:
    """Yield a sentence with one or two words left out, and more than half of them kept.

    Two sentences have a frame in common if they are as long and all words but these are the same;
    case does not count.

    Examples
    --------
    >>> sorted(set(sentence_frames("The dog barks")) & set(sentence_frames("The cat barks")))
    [('the', None, 'barks')]
    """
    words = language_from_script(sentence).split(sentence.lower())
    most = min(_MOST_APART if len(words) <= _LONG else 1, (len(words) - 1) // 2)
    for number in range(1, most + 1):
        for places in combinations(range(len(words)), number):
            yield tuple(None if place in places else word for place, word in enumerate(words))


def infer_items(pairs: Iterable[tuple[str, str]]) -> list[int]:
    """Return the number of each pair's item by its words: one shares a sentence or a frame.

    Parameters
    ----------
    pairs
        The two sentences of each.

    Examples
    --------
    >>> infer_items([("A dog barks", "Barks a dog"), ("A cat barks", "Barks a cat"), ("Go", "I"),])
    [1, 1, 2]
    """
    return number_items(
        [key for sentence in pair for key in (sentence, *sentence_frames(sentence))]
        for pair in pairs
    )
