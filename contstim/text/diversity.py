"""How varied the words of a set of sentences are, and a limit on how often a word may come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from contstim.errors import InputError
from contstim.text.sentence import split_word

#: Sentences of a set that may have one word whatever their number.
ALWAYS = 2


def words_of(sentence: str) -> list[str]:
    """Return a sentence's words, case-folded and without the punctuation around them."""
    cores = (split_word(word)[1].casefold() for word in sentence.split())
    return [core for core in cores if any(c.isalnum() for c in core)]


def overused(
    natural: Sequence[str],
    written: Sequence[Sequence[str]],
    share: float,
    barred: Sequence[Collection[str]] | None = None,
) -> tuple[list[int], frozenset[str]]:
    """Say which sentences of a set should be written again, and without which words.

    A word may be in so large a share of the sentences, in two where that is more, and in as many
    as it would be in if the set were the natural sentences themselves: "the" need not become rare.
    Where more have it, the last of those that got it, rather than kept it, are to lose it.

    Parameters
    ----------
    natural
        S natural sentences.
    written
        For each, the sentences made of it.
    share
        The share, above 0 and at most 1.
    barred
        For each, words that could not be written; all the same it may hold them.

    Returns
    -------
    list of int
        The natural sentences whose sentences brought a word into too many; none if there is none.
    frozenset of str
        The words that they brought, and those that have come as often as they may. They are the
        same for all of them, so that what searches learn of a list of words serves every one.

    Raises
    ------
    InputError
        If the share is no such number.
    """
    check_share(share)
    before = [{*words_of(sentence)} for sentence in natural]
    after = [Counter(w for text in own for w in {*words_of(text)}) for own in written]
    total, usual = Counter[str](), Counter[str]()
    for old, new, own in zip(before, after, written, strict=True):
        total.update(new)
        usual.update(dict.fromkeys(old, len(own)))
    most = max(ALWAYS, math.floor(share * sum(map(len, written)) + 1e-9))
    excess = {w: n - max(most, usual[w]) for w, n in total.items() if n > max(most, usual[w])}
    full = {word for word, n in total.items() if n >= most >= usual[word]}
    again = []
    for index in reversed(range(len(before))):
        kept = {*before[index], *(barred[index] if barred is not None else ())}
        put = {w for w in after[index] if w not in kept and excess.get(w, 0) > 0}
        if put:
            again.append(index)
            full |= put
            for word in put:
                excess[word] -= after[index][word]
    return again[::-1], frozenset(full if again else ())


def check_share(share: float) -> None:
    """Refuse a share of sentences that cannot be meant.

    Raises
    ------
    InputError
        Naming it.
    """
    if not 0 < share <= 1:  # also refuses NaN
        raise InputError(
            f"a word may be in the share {share} of the sentences; give one above 0, up to 1"
        )


@dataclass(frozen=True)
class Diversity:
    """How varied the words of a set are.

    Attributes
    ----------
    sentences, words, distinct
        Numbers of sentences, of their words, and of different ones, ignoring case.
    share
        Different words as a share of the words (type-token ratio); it falls with the size of a set.
    most_frequent
        The words that most sentences have, with the share that has each.
    above
        The words in more than 2 % of the sentences that the reference sentences have less often.
    length
        Mean number of words.
    zipf
        Mean Zipf frequency of the words, by wordfreq; unlisted words count 0.
    """

    sentences: int
    words: int
    distinct: int
    share: float
    most_frequent: tuple[tuple[str, float], ...]
    above: tuple[tuple[str, float], ...]
    length: float
    zipf: float

    def row(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        values = asdict(self)
        return {
            key: {word: round(part, 4) for word, part in value}
            if isinstance(value, tuple)
            else round(value, 4)
            for key, value in values.items()
        }


#: The share of sentences above which `Diversity.above` names a word, and the default limit.
MOST_USE = 0.02


def diversity(
    sentences: Iterable[str], natural: Iterable[str] = (), language: str = "en"
) -> Diversity:
    """Say how varied the words of sentences are.

    Parameters
    ----------
    sentences
        The set, at least one sentence.
    natural
        Sentences to compare with.
    language
        Language of the Zipf frequencies, as wordfreq names it.

    Raises
    ------
    InputError
        If there is no sentence, or none has a word.
    """
    from wordfreq import zipf_frequency

    lists = [words_of(sentence) for sentence in sentences]
    words = [word for own in lists for word in own]
    if not words:
        raise InputError("the diversity of no words was asked for; give sentences with words")
    reference = [{*words_of(sentence)} for sentence in natural]
    usual = Counter(word for own in reference for word in own)
    counts = Counter(word for own in lists for word in {*own})
    shares = sorted(
        ((word, n / len(lists)) for word, n in counts.items()), key=lambda pair: (-pair[1], pair[0])
    )
    return Diversity(
        sentences=len(lists),
        words=len(words),
        distinct=len({*words}),
        share=len({*words}) / len(words),
        most_frequent=tuple(shares[:5]),
        above=tuple(
            (word, part)
            for word, part in shares
            if part > max(MOST_USE, usual[word] / max(1, len(reference))) and counts[word] > ALWAYS
        ),
        length=len(words) / len(lists),
        zipf=sum(zipf_frequency(word, language) for word in words) / len(words),
    )


def diversity_line(synthetic: Iterable[str], natural: Iterable[str]) -> str:
    """Return in a line how varied the words of written sentences are beside natural ones."""
    before, after = list(natural), list(synthetic)
    if not (any(map(words_of, before)) and any(map(words_of, after))):
        return "words: none"
    own, usual = diversity(after, before), diversity(before)
    above = ", ".join(f"{word!r} in {part:.1%}" for word, part in own.above[:3]) or "none"
    return (
        f"words: {own.distinct} different ones of {own.words} ({own.share:.0%}; natural "
        f"{usual.share:.0%}), Zipf frequency {own.zipf:.2f} (natural {usual.zipf:.2f}), in more "
        f"than {MOST_USE:.0%} of the sentences and more than naturally: {above}"
    )
