"""Triplets in one process: of one natural sentence, and of many as a table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.progress import track
from contstim.search import synthesize
from contstim.search.candidates import WordReplacement
from contstim.search.problem import check_different
from contstim.search.results import Synthesis, Triplet, attempts, distinct_triplets, triplet_html
from contstim.search.sweeps import Strategy
from contstim.tables import TRIPLETS
from contstim.text.diversity import MOST_USE, WordLimit
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

_MOST = 20  # triplets of a table that are shown


class TripletTable(pd.DataFrame):
    """A `triplets` table that notebooks show with what was changed in bold; else a DataFrame.

    Examples
    --------
    >>> from contstim import datasets
    >>> table = TripletTable(datasets.written_triplets())
    >>> table.shape, table["natural"].iloc[0]
    ((35, 12), 'The curtains she chose were much too dark.')
    """

    @property
    def _constructor(self) -> type[TripletTable]:
        return TripletTable

    def _repr_html_(self) -> str:
        if not set(TRIPLETS) <= set(self.columns) or not len(self):
            return str(pd.DataFrame(self).to_html(max_rows=_MOST))
        shown = [triplet_html(row) for row in self.head(_MOST).to_dict("records")]
        if len(self) > _MOST:
            shown.append(f"<p>... {len(self) - _MOST} more triplets</p>")
        return "".join(shown)


@dataclass(frozen=True, eq=False)
class ModelPair:
    """Two models and the candidates that both know, shared by all sentences.

    Examples
    --------
    >>> from contstim import load_model
    >>> pair = ModelPair.of(load_model("contstim:bigram"), load_model("contstim:trigram"))
    >>> pair.model_1.spec, pair.model_2.spec
    ('contstim:bigram', 'contstim:trigram')
    """

    model_1: SentenceModel
    model_2: SentenceModel
    proposal: WordReplacement

    @classmethod
    def of(
        cls, model_1: SentenceModel, model_2: SentenceModel, words: Vocabulary | None = None
    ) -> ModelPair:
        """Pair two models that write with `words`, by default the bundled ones.

        Raises
        ------
        InputError
            If the two are one and the same model.
        """
        check_different("a pair needs two", (model_1.name, model_2.name))
        known = bundled_vocabulary() if words is None else words
        return cls(model_1, model_2, WordReplacement(known, (model_1, model_2)))

    def without(self, words: Collection[str]) -> ModelPair:
        """Return the pair, to write without some words, given case-folded."""
        return replace(self, proposal=self.proposal.without(words))


def triplets(
    pair: ModelPair,
    sentence: str,
    *,
    per_sentence: int = 1,
    strategy: str | Strategy | None = None,
    seed: int = 0,
    minimum_drop: float = 0.0,
    **options: Any,
) -> list[Triplet]:
    """Write the synthetic sentences for one natural sentence, both ways round.

    Parameters
    ----------
    pair
        The two models and their candidates.
    sentence
        The natural sentence.
    per_sentence
        How many different triplets to make; each search visits the positions in another order.
    strategy, seed, options
        As for :func:`~contstim.search.synthesize`.
    minimum_drop
        By how many nats each rejecting model's log-probability must fall at least.

    Returns
    -------
    list of Triplet
        At most `per_sentence`: fewer where no sentence falls far enough, or where several
        searches end in the same sentences.

    Raises
    ------
    InputError
        If `per_sentence` is below 1 or `minimum_drop` is negative or not finite, and as
        :func:`~contstim.search.synthesize`.

    Examples
    --------
    >>> from contstim import ModelPair, Vocabulary, load_model
    >>> words = Vocabulary.from_words("The A dog cat sat ran away here".split())
    >>> pair = ModelPair.of(load_model("contstim:bigram"), load_model("contstim:trigram"), words)
    >>> [triplet] = triplets(pair, "The cat sat here.")
    >>> triplet.synthetic_1, triplet.synthetic_2
    ('The cat ran here.', 'A dog away here.')
    """
    if per_sentence < 1:
        raise InputError(f"the triplets a sentence must be at least 1, got {per_sentence}")
    if not 0 <= minimum_drop < math.inf:  # also refuses NaN
        raise InputError(
            f"the minimum drop must be a number of nats from 0 up, got {minimum_drop}; a sentence "
            "is kept if its log-probability falls by at least so much"
        )

    def search(reject: SentenceModel, accept: SentenceModel, attempt: int) -> Synthesis:
        return synthesize(
            sentence,
            reject=reject,
            accept=accept,
            strategy=strategy,
            seed=seed,
            attempt=attempt,
            proposal=pair.proposal,
            **options,
        )

    both_ways = (
        (search(pair.model_2, pair.model_1, attempt), search(pair.model_1, pair.model_2, attempt))
        for attempt in range(attempts(per_sentence))
    )
    return distinct_triplets(both_ways, per_sentence, minimum_drop)


def synthesize_triplets(
    sentences: Sequence[str],
    pairs: Sequence[tuple[SentenceModel | str, SentenceModel | str]],
    *,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy | None = None,
    per_sentence: int = 1,
    seed: int = 0,
    minimum_drop: float = 0.0,
    most_use: float = MOST_USE,
    **options: Any,
) -> TripletTable:
    """Write the triplets of many natural sentences for some pairs of models.

    What ``contstim synthesize --pair`` does, in this process and without keeping what is finished;
    for hours of work use that, or ``contstim run``.

    Parameters
    ----------
    sentences
        The natural sentences; each counts once.
    pairs
        Two models each, or specs of them.
    vocabulary
        The words that may be written; the bundled ones if not given.
    strategy, per_sentence, seed, minimum_drop, options
        As for `triplets`.
    most_use
        In what share of a pair's sentences a word may be, at most, and no sentence comes twice
        (`contstim.text.diversity.WordLimit`); 1: no limit.

    Returns
    -------
    TripletTable
        A DataFrame with a row per triplet, columns as :data:`contstim.tables.TRIPLETS`, for
        `select_triplets` and `design_trials`; in a notebook what was changed is bold.

    Raises
    ------
    InputError
        As `triplets` and `ModelPair.of`; if `most_use` is not above 0 and at most 1.

    Examples
    --------
    >>> from contstim import Vocabulary
    >>> words = Vocabulary.from_words("The A dog cat sat ran away here".split())
    >>> pair = ("contstim:bigram", "contstim:trigram")
    >>> table = synthesize_triplets(["The cat sat here."], [pair], vocabulary=words, most_use=1)
    >>> table[["natural", "synthetic_1", "synthetic_2"]].T
                                 0
    natural      The cat sat here.
    synthetic_1  The cat ran here.
    synthetic_2   A dog away here.
    """
    words = bundled_vocabulary() if vocabulary is None else vocabulary
    loaded = {m: load_model(m) if isinstance(m, str) else m for pair in pairs for m in pair}
    prepared = [ModelPair.of(loaded[one], loaded[two], words) for one, two in pairs]
    natural = list(dict.fromkeys(map(words.language.tidy, sentences)))

    def written(pair: ModelPair, sentence: str) -> list[Triplet]:
        return triplets(
            pair,
            sentence,
            per_sentence=per_sentence,
            strategy=strategy,
            seed=seed,
            minimum_drop=minimum_drop,
            **options,
        )

    rows = list[Triplet]()

    def work() -> Iterator[int]:
        """Write the rows, yielding something for each natural sentence whose triplets stay."""
        for pair in prepared:
            done = 0
            by_number = dict[int, list[Triplet]]()
            limit = WordLimit(natural, 2 * per_sentence, most_use, words)
            while (step := limit.next())[0]:
                numbers, barred = step
                limited = pair.without(barred)
                by_number.update((number, written(limited, natural[number])) for number in numbers)
                limit.take(
                    [[text for row in by_number[n] for text in row.written] for n in numbers]
                )
                yield from range(done, done := max(done, limit.settled))
            rows.extend(row for number in range(len(natural)) for row in by_number[number])

    for _ in track(work(), len(prepared) * len(natural), "writing triplets"):
        pass
    return TripletTable([row.row() for row in rows], columns=None if rows else Triplet.columns())
