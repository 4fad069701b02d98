"""Results of searches: synthetic sentences, triplets, and rows of tables.

A triplet is a natural sentence and two synthetic ones. Synthetic sentence 1 is accepted by model 1
and rejected by model 2, sentence 2 the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any

from contstim.display import displayed
from contstim.tables import SPEC
from contstim.text import highlight_changes

_ATTEMPTS_PER_TRIPLET = 3
_COLOURS = ("#555", "#0072b2", "#b34700")
_WIDTH = 110  # of the small figures, pixels


@dataclass(frozen=True)
class Step:
    """One word that was replaced.

    Attributes
    ----------
    sweep, position
        Number of the pass over the positions, and the position.
    old, new
        The words before and after.
    scores
        Scores of the sentence afterwards, nats, in the order of the problem's models; for words
        that were replaced together, scores after the last of them.
    n_scores
        Exact scores by each model so far, counted as in `Synthesis.n_scores`.
    """

    sweep: int
    position: int
    old: str
    new: str
    scores: tuple[float, ...]
    n_scores: tuple[int, ...]


@displayed
@dataclass(frozen=True)
class Synthesis:
    """A synthetic sentence and how it was found; all scores are computed again, in nats.

    Attributes
    ----------
    natural, sentence
        The natural sentence and the result, which is the natural one if nothing was found.
    models
        Names of the problem's models: the rejecting ones, those of bounds, the accepting ones.
    natural_scores, scores
        Their scores of both sentences.
    loss
        The loss of the result; 0 if nothing was found.
    steps
        The replacements, in order.
    n_scores
        Exact scores of candidates by each model that does not score all candidates at once. Each
        sentence counts once. Scores of the natural sentence and of accepted sentences, which are
        computed again, do not count.
    problem
        The problem as text.
    strategy, seed, attempt
        The strategy with its options (`contstim.synthesis.parse_strategy` reads it), and the seed.
    finished
        False if limits of the strategy excluded candidates that might have brought an improvement.
    stopped
        The reason if a budget of requests ended the search early; the sentence is then the best
        one so far.
    accepting
        Names of the accepting models.

    Examples
    --------
    >>> import contstim
    >>> models = {"reject": "contstim:bigram", "accept": "contstim:trigram"}
    >>> result = contstim.synthesize("The ship left at dawn.", **models)
    >>> result.sentence, result.strategy
    ('The recourse left at two.', 'edit')
    """

    natural: str
    sentence: str
    models: tuple[str, ...]
    natural_scores: tuple[float, ...]
    scores: tuple[float, ...]
    loss: float
    steps: tuple[Step, ...]
    n_scores: tuple[int, ...]
    problem: str
    strategy: str
    seed: int
    attempt: int
    finished: bool = True
    stopped: str = ""
    accepting: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether any word was replaced."""
        return self.sentence != self.natural

    @property
    def is_improved(self) -> bool:
        """Whether the sentence differs from the natural one and has a lower loss."""
        return self.is_changed and self.loss < 0

    @property
    def reject(self) -> str:
        """The spec of the first model, for a pair the rejecting one."""
        return self.models[0]

    @property
    def accept(self) -> str:
        """The spec of the accepting model; of several the first, of none the last model's."""
        return (*self.accepting, self.models[-1])[0]

    @property
    def natural_reject_log_prob(self) -> float:
        """Log p_reject(n)."""
        return self.natural_scores[0]

    @property
    def natural_accept_log_prob(self) -> float:
        """Log p_accept(n)."""
        return self.natural_scores[self.models.index(self.accept)]

    @property
    def reject_log_prob(self) -> float:
        """Log p_reject(s)."""
        return self.scores[0]

    @property
    def accept_log_prob(self) -> float:
        """Log p_accept(s)."""
        return self.scores[self.models.index(self.accept)]

    def _repr_html_(self) -> str:
        """Return both sentences with their scores, which notebooks show."""
        rows = [
            ("natural", self.natural, self.natural_scores),
            ("synthetic", self.sentence, self.scores),
        ]
        note = f"{len(self.steps)} replacements; strategy {self.strategy}, seed {self.seed}."
        return scored_html(rows, self.models, note if self.is_changed else "Nothing was found.")


@dataclass(frozen=True)
class TableRow:
    """A row of a table of synthetic sentences."""

    @classmethod
    def columns(cls) -> list[str]:
        """Return the columns that every row of this kind has, in order."""
        return [column.name for column in fields(cls) if column.name != "others"]

    def row(self) -> dict[str, str | float | int]:
        """Return the table row, columns in order."""
        values = asdict(self)
        others = values.pop("others")
        return {**values, **dict(others)}


@displayed
@dataclass(frozen=True)
class Triplet(TableRow):
    """One row of the `triplets` table; log-probabilities in nats.

    ``natural_lp_k``, ``synthetic_1_lp_k``, ``synthetic_2_lp_k`` are under model k. `repeat`
    counts the triplets made from one natural sentence and model pair, from 1. `strategy` and `seed`
    are those of the search. `others` are further columns: the scores of the three sentences by
    each further model with a bound.

    Examples
    --------
    >>> import contstim
    >>> models = "contstim:bigram", "contstim:trigram"
    >>> both = [
    ...     contstim.synthesize("The ship left at dawn.", reject=r, accept=a)
    ...     for r, a in (models[::-1], models)
    ... ]
    >>> Triplet.from_syntheses(*both, repeat=1).synthetic_2
    'The recourse left at two.'
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
    strategy: str = ""
    seed: int = 0
    others: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_syntheses(cls, first: Synthesis, second: Synthesis, repeat: int) -> Triplet:
        """Join the synthesis that model 1 accepts and the one that model 2 accepts."""
        # Each way's rejecting model stands first in it; the accepting one may stand anywhere.
        model_1, model_2 = second.reject, first.reject
        natural, *synthetic = (
            dict(zip(way.models, scores, strict=True))
            for way, scores in (
                (first, first.natural_scores),
                (first, first.scores),
                (second, second.scores),
            )
        )
        return cls(
            model_1=model_1,
            model_2=model_2,
            natural=first.natural,
            synthetic_1=first.sentence,
            synthetic_2=second.sentence,
            natural_lp_1=natural[model_1],
            natural_lp_2=natural[model_2],
            synthetic_1_lp_1=synthetic[0][model_1],
            synthetic_1_lp_2=synthetic[0][model_2],
            synthetic_2_lp_1=synthetic[1][model_1],
            synthetic_2_lp_2=synthetic[1][model_2],
            repeat=repeat,
            strategy=first.strategy,
            seed=first.seed,
            others=tuple(
                (f"{which}_lp {model}", scores[model])
                for model in first.models
                if model not in (model_1, model_2)
                for which, scores in zip(
                    ("natural", "synthetic_1", "synthetic_2"), (natural, *synthetic), strict=True
                )
            ),
        )

    @property
    def synthetic_sentences(self) -> tuple[str, str]:
        """The synthetic sentences."""
        return self.synthetic_1, self.synthetic_2

    @property
    def controversiality(self) -> float:
        """Sum of both decreases, nats (Golan et al. 2023, Eq. 4)."""
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

    def _repr_html_(self) -> str:
        """Return the three sentences with their scores, which notebooks show."""
        return triplet_html(self.row())


def spec_columns(row: TableRow, specs: Mapping[str, str]) -> dict[str, str]:
    """Return the columns ``spec_1`` and ``spec_2`` of a triplet, where a model has a name.

    Parameters
    ----------
    row
        A row of a table.
    specs
        The spec of each model, by what tables call it.
    """
    if not isinstance(row, Triplet) or all(name == spec for name, spec in specs.items()):
        return {}
    return {f"{SPEC}_1": specs[row.model_1], f"{SPEC}_2": specs[row.model_2]}


@dataclass(frozen=True)
class ContrastRow(TableRow):
    """A sentence that some models reject and others accept.

    Attributes
    ----------
    reject, accept
        Names of the rejecting and of the accepting models, separated by spaces.
    natural, synthetic
        The sentences.
    loss
        The loss of `synthetic`: nats for one rejecting model, standard deviations for several.
    n_replaced, finished
        The number of replacements, and `Synthesis.finished`.
    strategy, seed
        Those of the search.
    others
        Further columns: the scores of both sentences by every model of the problem.
    """

    reject: str
    accept: str
    natural: str
    synthetic: str
    loss: float
    n_replaced: int
    finished: bool
    strategy: str = ""
    seed: int = 0
    others: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_synthesis(
        cls, reject: Sequence[str], accept: Sequence[str], result: Synthesis
    ) -> ContrastRow:
        """Return the row of a synthesis, models in alphabetical order."""
        scores = sorted(zip(result.models, result.natural_scores, result.scores, strict=True))
        return cls(
            " ".join(reject),
            " ".join(accept),
            result.natural,
            result.sentence,
            result.loss,
            len(result.steps),
            result.finished,
            result.strategy,
            result.seed,
            tuple(
                (f"{which}_lp {model}", score)
                for model, *both in scores
                for which, score in zip(("natural", "synthetic"), both, strict=True)
            ),
        )

    @property
    def synthetic_sentences(self) -> tuple[str, ...]:
        """The synthetic sentence."""
        return (self.synthetic,)


#: A row of a table of synthetic sentences.
Row = Triplet | ContrastRow


def sentences_with_originals(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return the synthetic sentences, and for each the natural one it was made from."""
    both = [(text, row.natural) for row in rows for text in row.synthetic_sentences]
    return [text for text, _ in both], [natural for _, natural in both]


def max_attempts(per_sentence: int) -> int:
    """Return the maximum number of searches of both sides for so many different triplets."""
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
        enough = all(s.is_improved and -s.loss >= minimum_drop for s in (first, second))
        if enough and texts not in distinct:
            distinct[texts] = Triplet.from_syntheses(first, second, repeat=len(distinct) + 1)
        if len(distinct) == per_sentence:
            break
    return list(distinct.values())


def scored_html(
    rows: Sequence[tuple[str, str, Sequence[float]]], models: Sequence[str], note: str = ""
) -> str:
    """Return a table of sentences with their scores, what differs from the first one in bold.

    Beside each model's scores a small figure has them on one line.

    Parameters
    ----------
    rows
        What a sentence is, the sentence, and its score under each model.
    models
        Their names.
    note
        A sentence below the table.
    """
    natural = rows[0][1]
    head = "".join(f"<th colspan=2>{escape(model)}</th>" for model in models)
    spans = [[row[2][k] for row in rows] for k in range(len(models))]
    lines = []
    for number, (label, text, scores) in enumerate(rows):
        colour = _COLOURS[number % len(_COLOURS)]
        cells = "".join(
            f"<td style='text-align:right'>{score:.1f}</td><td>{_dot(score, span, colour)}</td>"
            for score, span in zip(scores, spans, strict=True)
        )
        lines.append(
            f"<tr><td style='color:{colour}'>{escape(label)}</td>"
            f"<td style='text-align:left'>{highlight_changes(natural, text)}</td>{cells}</tr>"
        )
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><tr><th></th><th></th>{head}</tr>{''.join(lines)}</table>{below}"


def _dot(score: float, span: Sequence[float], colour: str) -> str:
    """Return a drawing of a score between the lowest and the highest of `span`."""
    low, high = min(span), max(span)
    x = 6 + (_WIDTH - 12) * ((score - low) / (high - low) if high > low else 0.5)
    return (
        # Pages that shrink drawings to their column would cut this one without a view box.
        f"<svg width='{_WIDTH}' height='12' viewBox='0 0 {_WIDTH} 12' style='max-width:none' "
        f"role='img' aria-label='{score:.1f}'>"
        f"<line x1='6' x2='{_WIDTH - 6}' y1='6' y2='6' stroke='#ccc'/>"
        f"<circle cx='{x:.1f}' cy='6' r='4' fill='{colour}'/></svg>"
    )


def triplet_html(row: Mapping[Any, Any]) -> str:
    """Return one row of a `triplets` table as HTML."""
    models = [str(row["model_1"]), str(row["model_2"])]
    return scored_html(
        [
            (label, str(row[kind]), [float(row[f"{kind}_lp_{k}"]) for k in (1, 2)])
            for label, kind in (
                ("natural", "natural"),
                (f"1: accepted by {models[0]}", "synthetic_1"),
                (f"2: accepted by {models[1]}", "synthetic_2"),
            )
        ],
        models,
    )
