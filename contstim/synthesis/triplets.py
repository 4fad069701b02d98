"""Triplets of many sentences in one process, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from contstim.errors import InputError, require_whole
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.progress import track
from contstim.synthesis import synthesize
from contstim.synthesis.candidates import SharedVocabulary
from contstim.synthesis.coordinate_search import Strategy
from contstim.synthesis.problem import require_distinct_models
from contstim.synthesis.results import (
    Triplet,
    distinct_triplets,
    max_attempts,
    spec_columns,
    triplet_html,
)
from contstim.tables import TRIPLETS
from contstim.text.diversity import DEFAULT_WORD_SHARE, WordShareLimit
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


def synthesize_triplets(
    sentences: Sequence[str],
    pairs: Sequence[tuple[SentenceModel | str, SentenceModel | str]],
    *,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = "edit",
    per_sentence: int = 1,
    seed: int = 0,
    minimum_drop: float = 0.0,
    max_word_share: float = DEFAULT_WORD_SHARE,
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
    per_sentence
        Maximum number of different triplets per natural sentence; each search visits the
        positions in another order.
    minimum_drop
        Minimum decrease of the rejecting model's log-probability, nats.
    strategy, seed, options
        As for :func:`~contstim.synthesis.synthesize`.
    max_word_share
        Maximum share of a pair's synthetic sentences that may contain the same word; below 1 no
        sentence occurs twice (`contstim.text.diversity.WordShareLimit`). 1: no limit.

    Returns
    -------
    TripletTable
        A DataFrame with a row per triplet, columns as :data:`contstim.tables.TRIPLETS`, for
        `select_triplets` and `design_trials`; in a notebook what was changed is bold. Where a
        model has a name, the columns ``spec_1`` and ``spec_2`` hold both specs.

    Raises
    ------
    InputError
        If the two models of a pair are one, if `per_sentence` is below 1, `minimum_drop` negative
        or not finite or `max_word_share` not above 0 and at most 1, and as
        :func:`~contstim.synthesis.synthesize`.

    Examples
    --------
    >>> pair = ("contstim:bigram", "contstim:trigram")
    >>> table = synthesize_triplets(["The ship left at dawn."], [pair])
    >>> table[["natural", "synthetic_2"]].T
                                         0
    natural         The ship left at dawn.
    synthetic_2  The recourse left at two.
    """
    require_whole("per_sentence", per_sentence, 1)
    if not 0 <= minimum_drop < math.inf:  # also refuses NaN
        raise InputError(
            f"the minimum drop must be a number of nats from 0 up, got {minimum_drop}; a sentence "
            "is kept if its log-probability decreases by at least so much"
        )
    words = bundled_vocabulary() if vocabulary is None else vocabulary
    loaded = {m: load_model(m) if isinstance(m, str) else m for pair in pairs for m in pair}
    both_models = [(loaded[first], loaded[second]) for first, second in pairs]
    for models in both_models:
        require_distinct_models("a pair needs two", [model.name for model in models])
    natural = list(dict.fromkeys(map(words.language.normalise_spacing, sentences)))

    def written(sentence: str, shared_vocabulary: SharedVocabulary) -> list[Triplet]:
        model_1, model_2 = shared_vocabulary.models
        ways = (
            [
                synthesize(
                    sentence,
                    reject=reject,
                    accept=accept,
                    strategy=strategy,
                    seed=seed,
                    attempt=attempt,
                    shared_vocabulary=shared_vocabulary,
                    **options,
                )
                for reject, accept in ((model_2, model_1), (model_1, model_2))
            ]
            for attempt in range(max_attempts(per_sentence))
        )
        return distinct_triplets(((a, b) for a, b in ways), per_sentence, minimum_drop)

    rows = list[Triplet]()

    def work() -> Iterator[int]:
        """Write the rows, yielding something for each natural sentence whose triplets stay."""
        for models in both_models:
            done, shared_vocabulary = 0, SharedVocabulary(words, models)
            by_number = dict[int, list[Triplet]]()
            limit = WordShareLimit(natural, 2 * per_sentence, max_word_share, words)
            while (step := limit.next_batch())[0]:
                numbers, barred = step
                limited = shared_vocabulary.without(barred)
                by_number.update((number, written(natural[number], limited)) for number in numbers)
                limit.accept(
                    [
                        [text for row in by_number[n] for text in row.synthetic_sentences]
                        for n in numbers
                    ]
                )
                yield from range(done, done := max(done, limit.n_accepted))
            rows.extend(row for number in range(len(natural)) for row in by_number[number])

    for _ in track(work(), len(both_models) * len(natural), "writing triplets"):
        pass
    specs = {model.name: model.spec for models in both_models for model in models}
    table = [{**row.row(), **spec_columns(row, specs)} for row in rows]
    return TripletTable(table, columns=None if rows else Triplet.columns())
