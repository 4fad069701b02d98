"""Triplets: a natural sentence and two synthetic ones, one for each way round of two models.

Synthetic sentence 1 is accepted by model 1 and rejected by model 2, sentence 2 the reverse
("1 is what model 1 prefers").
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.progress import track
from contstim.search.candidates import WordReplacement
from contstim.search.search import Synthesis, reached_columns, synthesize
from contstim.search.strategies import DEFAULT
from contstim.search.sweeps import Strategy
from contstim.text.diversity import MOST_USE, WordLimit
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

if TYPE_CHECKING:
    from contstim.search.display import TripletTable

_ATTEMPTS_PER_TRIPLET = 3


@dataclass(frozen=True)
class Triplet:
    """One row of the `triplets` table (DESIGN, section 4); log-probabilities in nats.

    ``natural_lp_k``, ``synthetic_1_lp_k``, ``synthetic_2_lp_k`` are under model k. `repeat`
    counts the triplets made from one natural sentence and model pair, from 1. `others` are further
    columns: the three sentences' scores by each model of a floor that is neither; where it was
    asked for, what part of the possible each synthetic sentence reached.
    """

    model_1: str
    model_2: str
    natural: str
    synthetic_1: str
    synthetic_2: str
    natural_lp_1: float
    natural_lp_2: float
    synthetic_1_lp_1: float
    synthetic_1_lp_2: float
    synthetic_2_lp_1: float
    synthetic_2_lp_2: float
    repeat: int = 1
    others: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, first: Synthesis, second: Synthesis, repeat: int) -> Triplet:
        """Join the synthesis that model 1 accepts and the one that model 2 accepts."""
        return cls(
            model_1=first.accept,
            model_2=first.reject,
            natural=first.natural,
            synthetic_1=first.sentence,
            synthetic_2=second.sentence,
            natural_lp_1=first.natural_accept_log_prob,
            natural_lp_2=first.natural_reject_log_prob,
            synthetic_1_lp_1=first.accept_log_prob,
            synthetic_1_lp_2=first.reject_log_prob,
            synthetic_2_lp_1=second.reject_log_prob,
            synthetic_2_lp_2=second.accept_log_prob,
            repeat=repeat,
            others=tuple(
                (f"{which}_lp {model}", score)
                for k, model in list(enumerate(first.models))[1:-1]
                for which, score in (
                    ("natural", first.natural_scores[k]),
                    ("synthetic_1", first.scores[k]),
                    ("synthetic_2", second.scores[second.models.index(model)]),
                )
            )
            + reached_columns({"reached_1": first, "reached_2": second}),
        )

    @property
    def written(self) -> tuple[str, str]:
        """The synthetic sentences."""
        return self.synthetic_1, self.synthetic_2

    @property
    def controversiality(self) -> float:
        """Sum of both falls, nats (Golan et al. 2023, Eq. 4); larger is more controversial."""
        return (self.natural_lp_2 - self.synthetic_1_lp_2) + (
            self.natural_lp_1 - self.synthetic_2_lp_1
        )

    @property
    def opposed(self) -> bool:
        """Whether the models order the two synthetic sentences oppositely."""
        return (
            self.synthetic_1_lp_1 > self.synthetic_2_lp_1
            and self.synthetic_1_lp_2 < self.synthetic_2_lp_2
        )

    def row(self) -> dict[str, str | float | int]:
        """Return the triplet as a table row, columns in the order of the table."""
        values = asdict(self)
        others = values.pop("others")
        return {**values, **dict(others)}

    def _repr_html_(self) -> str:
        """Return the three sentences with their scores, which notebooks show."""
        from contstim.search.display import triplet_html  # needs pandas

        return triplet_html(self.row())


@dataclass(frozen=True, eq=False)
class ModelPair:
    """Two models and the candidates that both know, shared by all sentences."""

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
        if model_1.spec == model_2.spec:
            raise InputError(
                f"a pair needs two different models, got {model_1.spec!r} twice; specs that differ "
                "in metric or reduction are different models"
            )
        known = bundled_vocabulary() if words is None else words
        return cls(model_1, model_2, WordReplacement(known, (model_1, model_2)))

    def without(self, words: Collection[str]) -> ModelPair:
        """Return the pair, to write without some words, given case-folded."""
        return replace(self, proposal=self.proposal.without(words))


def check_request(per_sentence: int, minimum_drop: float) -> None:
    """Refuse a number of triplets or a drop that cannot be meant."""
    if per_sentence < 1:
        raise InputError(f"the triplets a sentence must be at least 1, got {per_sentence}")
    if not 0 <= minimum_drop < math.inf:  # also refuses NaN
        raise InputError(
            f"the minimum drop must be a number of nats from 0 up, got {minimum_drop}; a sentence "
            "is kept if its log-probability falls by at least so much"
        )


def triplets(
    pair: ModelPair,
    sentence: str,
    *,
    per_sentence: int = 1,
    strategy: str | Strategy = DEFAULT,
    seed: int = 0,
    minimum_drop: float = 0.0,
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
    strategy, seed
        As for :func:`~contstim.search.search.synthesize`.
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
        :func:`~contstim.search.search.synthesize`.
    """
    check_request(per_sentence, minimum_drop)

    def search(reject: SentenceModel, accept: SentenceModel, attempt: int) -> Synthesis:
        return synthesize(
            sentence,
            reject=reject,
            accept=accept,
            strategy=strategy,
            seed=seed,
            attempt=attempt,
            proposal=pair.proposal,
        )

    both_ways = (
        (search(pair.model_2, pair.model_1, attempt), search(pair.model_1, pair.model_2, attempt))
        for attempt in range(attempts(per_sentence))
    )
    return distinct_triplets(both_ways, per_sentence, minimum_drop)


def synthesize_triplets(
    sentences: Sequence[str],
    pairs: Sequence[tuple[SentenceModel, SentenceModel]],
    *,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = DEFAULT,
    per_sentence: int = 1,
    seed: int = 0,
    minimum_drop: float = 0.0,
    most_use: float = MOST_USE,
) -> TripletTable:
    """Write the triplets of many natural sentences for some pairs of models.

    What ``contstim synthesize --pair`` does, in this process and without keeping what is finished;
    for hours of work use that, or ``contstim run``.

    Parameters
    ----------
    sentences
        The natural sentences; each counts once.
    pairs
        Two models each.
    vocabulary
        The words that may be written; the bundled ones if not given.
    strategy, per_sentence, seed, minimum_drop
        As for `triplets`.
    most_use
        In what share of a pair's sentences a word may be, at most, and no sentence comes twice
        (`contstim.text.diversity.WordLimit`); 1: no limit.

    Returns
    -------
    TripletTable
        A DataFrame with a row a triplet, columns as :data:`contstim.tables.TRIPLETS`, for
        `select_triplets` and `design_trials`; in a notebook what was changed is bold.

    Raises
    ------
    InputError
        As `triplets` and `ModelPair.of`; if `most_use` is not above 0 and at most 1.
    """
    from contstim.search.display import TripletTable  # needs pandas

    words = bundled_vocabulary() if vocabulary is None else vocabulary
    prepared = [ModelPair.of(one, two, words) for one, two in pairs]
    natural = list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))

    def written(pair: ModelPair, sentence: str) -> list[Triplet]:
        return triplets(
            pair,
            sentence,
            per_sentence=per_sentence,
            strategy=strategy,
            seed=seed,
            minimum_drop=minimum_drop,
        )

    rows = list[Triplet]()

    def work() -> Iterator[int]:
        """Write the rows, yielding something for each natural sentence whose triplets stay."""
        for pair in prepared:
            done = 0
            found = dict[int, list[Triplet]]()
            limit = WordLimit(natural, 2 * per_sentence, most_use, words)
            while (step := limit.next())[0]:
                numbers, barred = step
                own = pair.without(barred)
                found.update((number, written(own, natural[number])) for number in numbers)
                limit.take([[text for row in found[n] for text in row.written] for n in numbers])
                yield from range(done, done := max(done, limit.settled))
            rows.extend(row for number in range(len(natural)) for row in found[number])

    for _ in track(work(), len(prepared) * len(natural), "writing triplets"):
        pass
    values = [row.row() for row in rows]
    columns = None if values else [f.name for f in fields(Triplet) if f.name != "others"]
    return TripletTable(values, columns=columns)


def attempts(per_sentence: int) -> int:
    """Return how often both ways are searched, at most, for so many different triplets."""
    return 1 if per_sentence == 1 else _ATTEMPTS_PER_TRIPLET * per_sentence


def distinct_triplets(
    both_ways: Iterable[tuple[Synthesis, Synthesis]], per_sentence: int, minimum_drop: float
) -> list[Triplet]:
    """Join syntheses to different triplets, taking no more of them than are needed.

    Parameters
    ----------
    both_ways
        Syntheses from one natural sentence: what model 1 accepts and what model 2 accepts.
    per_sentence, minimum_drop
        As for `triplets`.
    """
    distinct: dict[tuple[str, str], Triplet] = {}
    for first, second in both_ways:
        texts = (first.sentence, second.sentence)
        enough = all(s.changed and -s.loss >= minimum_drop for s in (first, second))
        if enough and texts not in distinct:
            distinct[texts] = Triplet.of(first, second, repeat=len(distinct) + 1)
        if len(distinct) == per_sentence:
            break
    return list(distinct.values())
