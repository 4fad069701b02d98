"""The words that may stand at one position, and what the models of a problem say of them.

A strategy asks for exact scores by plain calls and proposes candidates; a proposal is taken if the
sentence keeps the constraints and lowers the loss on scores computed again. Scores computed
together may differ from those in the last digits, so strategies let candidates within `SLACK` of a
bound through to that verification rather than lose one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import compress

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.base import ReplacementScores, SentenceModel
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import ModelContrast
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_options import same_class_words

#: Nats within which a score computed with others is taken for equal to a bound.
SLACK = 1e-4

_FIRST_BATCH, _LARGEST_BATCH = 16, 256


@dataclass(frozen=True, eq=False)
class SharedVocabulary:
    """Proposes, for one position, every vocabulary word that all models know.

    The first position takes the vocabulary's capitalised words, the others its other words. A
    word is not proposed if it stands elsewhere in the sentence (ignoring case), unless it is
    among the repeatable words.

    Attributes
    ----------
    vocabulary
        The words allowed first and elsewhere, and those that may repeat.
    models
        The models that must know a candidate, with the punctuation it would carry.
    """

    vocabulary: Vocabulary
    models: tuple[SentenceModel, ...]
    _lists: dict[tuple[bool | tuple[str, ...], str, str], WordList] = field(
        default_factory=dict, repr=False
    )
    _whole: SharedVocabulary | None = field(default=None, repr=False)
    _by_kind: dict[tuple[Sentence, str], dict[int, tuple[str, ...]]] = field(
        default_factory=dict, repr=False
    )
    _counts: dict[tuple[WordList, bool, str, str], IntArray] = field(
        default_factory=dict, repr=False
    )
    _by_tokens: dict[tuple[WordList, bool, str, str, tuple[int, ...]], WordList] = field(
        default_factory=dict, repr=False
    )

    def without(self, words: Collection[str]) -> SharedVocabulary:
        """Return the proposal without some words, given case-folded."""
        if not words:
            return self
        vocabulary = self.vocabulary.without_words(words)
        return SharedVocabulary(vocabulary, self.models, _whole=self.whole)

    @property
    def whole(self) -> SharedVocabulary:
        """The proposal of which this one leaves words out; itself where it leaves out none."""
        return self if self._whole is None else self._whole

    def positions(self, sentence: Sentence) -> list[int]:
        """Return the positions that hold a word; dashes and the like stay as they are."""
        return [i for i, word in enumerate(sentence.words) if any(c.isalnum() for c in word)]

    def listed(self, natural: Sentence, edits: Edits) -> dict[int, tuple[str, ...]]:
        """Return by position the words that replace the vocabulary's; none where a word stays."""
        if edits.same_kind is None:
            return dict(edits.words)
        key = natural, edits.same_kind
        if key not in self._by_kind:
            self._by_kind[key] = same_class_words(self.vocabulary, *key)
        return {**self._by_kind[key], **dict(edits.words)}

    def may(self, natural: Sentence, sentence: Sentence, edits: Edits) -> bool:
        """Return whether `sentence` can be made of the natural one: by its words and the edits.

        Every sentence that a search goes on from is one; what is written as one text must be read
        as the same words again.
        """
        lists, open_ = self.listed(natural, edits), self.positions(natural)
        return (
            edits.permits(natural, sentence)
            and all(
                p in open_
                and lists.get(p) != ()
                and sentence.words[p] in self.words(natural, p, lists.get(p))
                and not self._repeats(sentence, p)
                for p in Edits.differences(natural, sentence)
            )
            and sentence.round_trips
            and not (edits.same_tokens and self._splits_differently(natural, sentence))
        )

    def _splits_differently(self, natural: Sentence, sentence: Sentence) -> bool:
        """Return whether a model splits two sentences into different numbers of tokens."""
        both = [str(natural), str(sentence)]
        counts = [model.count_tokens(both) for model in self.models]
        return any(n is not None and n[0] != n[1] for n in counts)

    def with_same_tokens(self, sentence: Sentence, position: int, words: WordList) -> WordList:
        """Return those of `words` that models split into as many tokens as the word at `position`.

        They are counted behind one and the same word, or first in a sentence; the same object is
        returned for like positions.
        """
        before, after = sentence.before[position], sentence.after[position]
        key = words, position == 0, before, after
        if key not in self._counts:
            self._counts[key] = self._n_tokens(sentence, position, words.words)
        table = self._counts[key]
        present = sentence.words[position : position + 1]
        wanted = tuple(self._n_tokens(sentence, position, present)[:, 0].tolist())
        if (*key, wanted) not in self._by_tokens:
            same = (table == np.array(wanted, dtype=np.int64)[:, None]).all(axis=0)
            same |= np.array([word == sentence.words[position] for word in words])
            self._by_tokens[*key, wanted] = WordList(tuple(compress(words, same)))
        return self._by_tokens[*key, wanted]

    def _n_tokens(self, sentence: Sentence, position: int, words: Sequence[str]) -> IntArray:
        """Return how many tokens words have at a position, by the models that cut them, (M, V)."""
        head = self.vocabulary.words_at(0).words[: min(position, 1)]
        empty = ("",) * len(head)
        before, after = ((*empty, marks[position]) for marks in (sentence.before, sentence.after))
        texts = [str(Sentence((*head, w), before, after, sentence.language)) for w in words]
        counts = [model.count_tokens(texts) for model in self.models]
        return np.array([n for n in counts if n is not None], dtype=np.int64).reshape(
            -1, len(words)
        )

    def _repeats(self, sentence: Sentence, position: int) -> bool:
        """Return whether the word at `position` stands elsewhere as well and may not."""
        fold = self.vocabulary.language.fold
        word = fold(sentence.words[position])
        others = (fold(w) for p, w in enumerate(sentence.words) if p != position)
        return word not in self.vocabulary.repeatable and word in others

    def words(
        self, sentence: Sentence, position: int, listed: tuple[str, ...] | None = None
    ) -> WordList:
        """Return the known candidates for `position`, the same object for like positions.

        Parameters
        ----------
        sentence, position
            The place.
        listed
            Words that may stand there in place of the vocabulary's.

        Raises
        ------
        InputError
            If none of the words may stand there.
        InfeasibleError
            If that is so of listed words.
        """
        before, after = sentence.before[position], sentence.after[position]
        key = (listed or position == 0, before, after)
        listing = self._lists.get(key)
        if listing is None:
            source = (
                self.vocabulary.words_at(position)
                if listed is None
                else WordList.from_words(listed)
            )
            is_known = self._known([before + word + after for word in source])
            if not is_known.any():
                names = " and ".join(model.name for model in self.models)
                if listed is not None:
                    raise InfeasibleError(
                        f"none of the {len(source)} words listed for position {position} is known "
                        f"to {names} with the punctuation of {sentence.surface(position)!r}; list "
                        "words they know"
                    )
                raise InputError(
                    f"{names} know 0 of the {len(source):,} words that may replace "
                    f"{sentence.surface(position)!r}; give a vocabulary of their language, which "
                    "'contstim vocabulary' makes"
                )
            listing = WordList(tuple(w for w, k in zip(source, is_known, strict=True) if k))
            self._lists[key] = listing
        return listing

    def lists(self, listed: Mapping[int, Iterable[str]]) -> tuple[WordList, WordList]:
        """Return the words that may come first in a sentence, and later, known to all models.

        Among them are those `listed` for positions. Like words are one object, or are looked up
        once by models all the same.
        """
        place = Sentence(("", ""), ("", ""), ("", ""))
        first, later = (
            _longer(self.words(place, position), self._further(position, listed))
            for position in (0, 1)
        )
        return first, later

    def _further(self, position: int, listed: Mapping[int, Iterable[str]]) -> tuple[str, ...]:
        """Return the known words that are listed for the first or for later positions."""
        words = (word for p, own in listed.items() if min(p, 1) == position for word in own)
        distinct = list(dict.fromkeys(words))
        return tuple(compress(distinct, self._known(distinct))) if distinct else ()

    def _known(self, surfaces: Sequence[str]) -> BoolArray:
        """Return which words all models know, (V,)."""
        known = np.ones(len(surfaces), dtype=np.bool_)
        for model in self.models:
            known &= model.in_vocabulary(surfaces)
        return known

    def allowed(self, sentence: Sentence, position: int, words: WordList) -> BoolArray:
        """Return which of `words` may stand at `position` beside the other words; shape (V,)."""
        allowed = np.ones(len(words), dtype=np.bool_)
        language = self.vocabulary.language
        for other in sentence.words[:position] + sentence.words[position + 1 :]:
            if (folded := language.fold(other)) not in self.vocabulary.repeatable:
                allowed[words.case_insensitive_index(language).get(folded, [])] = False
        return allowed


@lru_cache(maxsize=4)
def extend_models(proposal: SharedVocabulary, model: SentenceModel) -> SharedVocabulary:
    """Return the words that a further model knows, too; looked up once for many sentences."""
    return SharedVocabulary(proposal.vocabulary, (*proposal.models, model))


@lru_cache(maxsize=8)
def _longer(words: WordList, more: tuple[str, ...]) -> WordList:
    """Return a list with more words; itself where it has them all."""
    new = tuple(word for word in more if word not in words)
    return WordList(words.words + new) if new else words


@dataclass
class ScoreCounter:
    """The exact scores that a search has asked for, by model, and their cost in inputs.

    Sentences that are proposed count in `cost` alone.
    """

    n_scores: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0


@dataclass(eq=False)
class Candidates:
    """The V words that may stand at one position, as a strategy sees them.

    Attributes
    ----------
    contrast
        The problem, which defines the loss.
    minimum
        By constrained model, the least score, nats.
    natural, now
        By model, the scores of the natural sentence and of `sentence`, nats.
    tables
        By model, what is known of the scores without asking.
    known
        By model, the exact scores (V,), NaN where they have not been asked for yet.
    allowed
        Which words may stand here, shape (V,).
    rng
        Source of chance.
    verify
        Called with the index of a proposal; returns whether it was taken.
    counter
        The scores that the search of this sentence has asked for so far.
    present
        The candidate that stands here now, if it is among them.
    round
        How often all word searches of this sentence have ended without a replacement.
    sentence, words
        The sentence, and the words that may stand in it here.
    beat
        By model, the scores of the sentence whose loss a proposal's must fall below, if that is
        not `sentence`: where no further word may change, candidates stand in the sentence as it
        is with one change taken back.
    """

    contrast: ModelContrast
    minimum: Mapping[str, float]
    natural: Mapping[str, float]
    now: Mapping[str, float]
    tables: Mapping[str, ReplacementScores]
    known: Mapping[str, FloatArray]
    allowed: BoolArray
    rng: np.random.Generator
    verify: Callable[[int], bool]
    counter: ScoreCounter
    present: int | None
    round: int
    sentence: Sentence
    words: WordList
    beat: Mapping[str, float] | None = None

    @cached_property
    def target(self) -> float:
        """The loss of the sentence as it is, below which a proposal's must fall."""
        beat = self.now if self.beat is None else self.beat
        return self.contrast.sentence_loss(beat, self.natural)

    @property
    def losses_known(self) -> bool:
        """Whether every loss is known without asking for a score."""
        return all(self.tables[name].is_exact for name in self.contrast.reject)

    def costs(self, name: str) -> FloatArray:
        """Return what an exact score of each candidate costs, in inputs, (V,): 0 where known."""
        table = self.tables[name]
        cost = np.asarray(0.0 if table.is_exact else table.cost.n_inputs, dtype=np.float64)
        return np.broadcast_to(cost, table.upper_bounds.shape)

    def promising(self) -> IntArray:
        """Return the candidates that no bound rules out."""
        mask = self.allowed.copy()
        for name, minimum in self.minimum.items():
            mask &= self.tables[name].upper_bounds >= minimum - SLACK
        if self.losses_known:
            mask &= self.contrast.loss(self.known, self.natural) < self.target + SLACK
        return np.flatnonzero(mask)

    def scores(self, name: str, index: IntArray) -> FloatArray:
        """Return exact scores (k,) of candidates `index` (k,), asking for those not known yet."""
        exact = self.known[name]
        if self.tables[name].is_exact:
            return exact[index]
        unknown = index[np.isnan(exact[index])]
        missing = np.array(list(dict.fromkeys(unknown.tolist())), dtype=np.int64)
        if len(missing):
            exact[missing] = self.tables[name].score(missing)
            self.counter.n_scores[name] = self.counter.n_scores.get(name, 0) + len(missing)
            self.counter.cost += float(self.costs(name)[missing].sum())
        return exact[index]

    def filter_feasible(self, index: IntArray) -> IntArray:
        """Return those of `index` that keep every constraint, asking for scores as needed."""
        # What is known at once, or costs least, first.
        for name in sorted(self.minimum, key=lambda name: self.costs(name).min()):
            index = index[self.scores(name, index) >= self.minimum[name] - SLACK]
        return index

    def losses(self, index: IntArray) -> FloatArray:
        """Return the losses (k,) of candidates `index`, asking for scores as needed."""
        scores = {name: self.scores(name, index) for name in self.contrast.reject}
        return self.contrast.loss(scores, self.natural)

    def known_losses(self, scores: Mapping[str, FloatArray]) -> FloatArray:
        """Return the losses (k,) that go with scores (k,), NaN where a score is NaN."""
        needed = {name: scores[name] for name in self.contrast.reject}
        complete = ~np.any([np.isnan(values) for values in needed.values()], axis=0)
        losses = np.full(len(complete), np.nan)
        some = {name: values[complete] for name, values in needed.items()}
        losses[complete] = self.contrast.loss(some, self.natural)
        return losses

    def propose(self, index: int) -> bool:
        """Propose candidate `index`; return whether it was taken, which ends this word search."""
        self.counter.cost += sum(float(self.costs(name)[index]) for name in self.tables)
        return self.verify(index)


def batches(index: IntArray) -> Iterator[IntArray]:
    """Cut `index` into batches that grow, so that an early success costs little."""
    start, size = 0, _FIRST_BATCH
    while start < len(index):
        yield index[start : start + size]
        start, size = start + size, min(2 * size, _LARGEST_BATCH)


def propose_in_order(candidates: Candidates, index: IntArray, losses: FloatArray) -> None:
    """Propose candidates `index` from the lowest of their `losses` upwards until one is taken."""
    for i in np.argsort(losses, kind="stable"):
        if losses[i] >= candidates.target + SLACK or candidates.propose(int(index[i])):
            break
