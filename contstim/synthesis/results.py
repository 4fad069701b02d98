"""Results of searches: synthetic sentences, triplets, and rows of tables.

A triplet consists of a natural sentence and two synthetic sentences. Model 1 accepts synthetic
sentence 1 and rejects synthetic sentence 2; model 2 does the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any

from contstim.display import displayable
from contstim.tables import SPEC
from contstim.text import highlight_changes

_ATTEMPTS_PER_TRIPLET = 3
_COLOURS = ("#555", "#0072b2", "#b34700")
_WIDTH = 110  # of plots, in pixels


@dataclass(frozen=True)
class Step:
    """The replacement of one word during a search.

    Attributes
    ----------
    sweep
        Number of the pass over the positions, from 1; 0 for required edits.
    position
        Position of the word.
    old, new
        Words before and after the replacement.
    scores
        Scores of the sentence afterwards in nats, in the order of the problem's models. If several
        words were replaced together, scores after the last replacement.
    n_scores
        Number of exact scores by each model so far, as in `Synthesis.n_scores`.
    """

    sweep: int
    position: int
    old: str
    new: str
    scores: tuple[float, ...]
    n_scores: tuple[int, ...]


@displayable
@dataclass(frozen=True)
class Synthesis:
    """Result of a search for one synthetic sentence.

    All scores are in nats. They were computed for the complete sentences after the search.

    Attributes
    ----------
    natural
        Natural sentence with which the search began.
    sentence
        Synthetic sentence. If no better sentence was found, it equals `natural`.
    models
        Names of all models of the problem: rejecting models, models that only have a lower bound,
        accepting models.
    natural_scores, scores
        Scores of `natural` and of `sentence`, in the order of `models`.
    loss
        Loss of `sentence`, the quantity that the search minimises (see
        `contstim.synthesis.problem.ModelContrast`). 0 if no better sentence was found.
    steps
        Word replacements, in the order in which they were made.
    n_scores
        Number of candidate sentences that each model scored exactly. 0 for models that score all
        words of the vocabulary at once.
    problem
        Description of the problem, for output files.
    strategy
        Name and options of the strategy, for example ``edit?candidates=all``. The text can be read
        by `contstim.synthesis.parse_strategy`.
    seed, attempt
        Seed of the search, and number of the attempt with this seed.
    finished
        False if limits of the strategy excluded candidates that might have improved the sentence.
    stopped
        Reason why the search ended early, for example because the budget of requests to a model
        server was used up. `sentence` is then the best sentence until that point. Empty otherwise.
    accepting
        Names of the accepting models.
    filter_only
        Names of the compared models that did not guide the sampling of sentences, because they do
        not score prefixes.

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
    filter_only: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the synthetic sentence differs from the natural one."""
        return self.sentence != self.natural

    @property
    def is_improved(self) -> bool:
        """Whether the synthetic sentence has a lower loss than the natural one."""
        return self.is_changed and self.loss < 0

    @property
    def reject(self) -> str:
        """Name of the first rejecting model."""
        return self.models[0]

    def _repr_html_(self) -> str:
        """Return both sentences and their scores as HTML for notebooks."""
        rows = [
            ("natural", self.natural, self.natural_scores),
            ("synthetic", self.sentence, self.scores),
        ]
        note = f"{len(self.steps)} replacements; strategy {self.strategy}, seed {self.seed}."
        return format_scores_html(
            rows, self.models, note if self.is_changed else "No better sentence was found."
        )


@dataclass(frozen=True)
class TableRow:
    """Base class of the rows of tables of synthetic sentences.

    Each field of a subclass is a column of the table. The field ``extra_columns`` contains the
    names and values of further columns, which depend on the models.
    """

    @classmethod
    def columns(cls) -> list[str]:
        """Return the names of the columns that all rows of this class have, in order."""
        return [column.name for column in fields(cls) if column.name != "extra_columns"]

    def row(self) -> dict[str, str | float | int]:
        """Return the row as a dictionary, with the extra columns last."""
        values = asdict(self)
        extra_columns = values.pop("extra_columns")
        return {**values, **dict(extra_columns)}


@displayable
@dataclass(frozen=True)
class Triplet(TableRow):
    """A row of the table of triplets.

    Attributes
    ----------
    model_1, model_2
        Names of the models.
    natural, synthetic_1, synthetic_2
        Natural sentence, and synthetic sentences that model 1 and model 2 accept.
    natural_lp_1, natural_lp_2
        Log-probabilities of the natural sentence under model 1 and model 2, in nats.
    synthetic_1_lp_1, synthetic_1_lp_2
        Log-probabilities of synthetic sentence 1.
    synthetic_2_lp_1, synthetic_2_lp_2
        Log-probabilities of synthetic sentence 2.
    repeat
        Number of the triplet among those from the same natural sentence and models, from 1.
    strategy, seed
        Strategy and seed of the search.
    extra_columns
        Names and values of further columns: scores by the models of further bounds.

    Examples
    --------
    >>> import contstim
    >>> models = "contstim:bigram", "contstim:trigram"
    >>> first, second = (
    ...     contstim.synthesize("The ship left at dawn.", reject=reject, accept=accept)
    ...     for reject, accept in (models[::-1], models)
    ... )
    >>> Triplet.from_syntheses(first, second, repeat=1).synthetic_2
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
    extra_columns: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_syntheses(cls, first: Synthesis, second: Synthesis, repeat: int) -> Triplet:
        """Join two syntheses from one natural sentence.

        Parameters
        ----------
        first, second
            Syntheses of the sentences that model 1 and model 2 accept.
        repeat
            Number of the triplet among those from the same natural sentence and models.
        """
        model_1, model_2 = second.reject, first.reject
        scores_by_kind = {
            "natural": dict(zip(first.models, first.natural_scores, strict=True)),
            "synthetic_1": dict(zip(first.models, first.scores, strict=True)),
            "synthetic_2": dict(zip(second.models, second.scores, strict=True)),
        }
        log_probs = {
            f"{kind}_lp_{number}": scores[model]
            for kind, scores in scores_by_kind.items()
            for number, model in ((1, model_1), (2, model_2))
        }
        extra_columns = tuple(
            (f"{kind}_lp {model}", scores[model])
            for model in first.models
            if model not in (model_1, model_2)
            for kind, scores in scores_by_kind.items()
        )
        return cls(
            model_1=model_1,
            model_2=model_2,
            natural=first.natural,
            synthetic_1=first.sentence,
            synthetic_2=second.sentence,
            **log_probs,
            repeat=repeat,
            strategy=first.strategy,
            seed=first.seed,
            extra_columns=extra_columns,
        )

    @property
    def synthetic_sentences(self) -> tuple[str, str]:
        """Both synthetic sentences."""
        return self.synthetic_1, self.synthetic_2

    @property
    def controversiality(self) -> float:
        """Sum of the decreases under the rejecting models, in nats (Golan et al. 2023, Eq. 4)."""
        return (self.natural_lp_2 - self.synthetic_1_lp_2) + (
            self.natural_lp_1 - self.synthetic_2_lp_1
        )

    @property
    def opposed(self) -> bool:
        """Whether the two models order the synthetic sentences oppositely."""
        return (
            self.synthetic_1_lp_1 > self.synthetic_2_lp_1
            and self.synthetic_1_lp_2 < self.synthetic_2_lp_2
        )

    def _repr_html_(self) -> str:
        """Return the three sentences and their scores as HTML for notebooks."""
        return format_triplet_html(self.row())


def spec_columns(row: TableRow, specs: Mapping[str, str]) -> dict[str, str]:
    """Return the columns ``spec_1`` and ``spec_2`` of a triplet.

    The dictionary is empty if all models are called by their specs.

    Parameters
    ----------
    row
        Row of a table.
    specs
        Specs of the models, by their names in tables.
    """
    if not isinstance(row, Triplet) or all(name == spec for name, spec in specs.items()):
        return {}
    return {f"{SPEC}_1": specs[row.model_1], f"{SPEC}_2": specs[row.model_2]}


@dataclass(frozen=True)
class ContrastRow(TableRow):
    """A row of the table of sentences that some models reject and others accept.

    Attributes
    ----------
    reject, accept
        Names of the rejecting and of the accepting models, separated by spaces.
    natural, synthetic
        Natural and synthetic sentence.
    loss
        Loss of the synthetic sentence: in nats for one rejecting model, in standard deviations for
        several.
    n_replaced
        Number of replacements.
    finished
        Attribute `finished` of the `Synthesis`.
    strategy, seed
        Strategy and seed of the search.
    extra_columns
        Names and values of further columns: scores of both sentences by all models.
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
    extra_columns: tuple[tuple[str, float], ...] = ()

    @classmethod
    def from_synthesis(
        cls, reject: Sequence[str], accept: Sequence[str], result: Synthesis
    ) -> ContrastRow:
        """Convert the result of a search to a row of the table.

        Parameters
        ----------
        reject, accept
            Names of the rejecting and of the accepting models.
        result
            Result of the search. The extra columns contain its scores in alphabetical order of the
            models.
        """
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
                column
                for model, natural, synthetic in scores
                for column in (
                    (f"natural_lp {model}", natural),
                    (f"synthetic_lp {model}", synthetic),
                )
            ),
        )

    @property
    def synthetic_sentences(self) -> tuple[str, ...]:
        """The synthetic sentence, as a tuple."""
        return (self.synthetic,)


#: Row of a table of synthetic sentences.
Row = Triplet | ContrastRow


def sentences_with_originals(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return two lists: all synthetic sentences of a table, and the natural sentence of each."""
    pairs = [(text, row.natural) for row in rows for text in row.synthetic_sentences]
    return [text for text, _ in pairs], [natural for _, natural in pairs]


def max_attempts(per_sentence: int) -> int:
    """Return the maximum number of searches for one natural sentence and pair of models.

    Searches can yield equal triplets. To find `per_sentence` different triplets, several times as
    many searches may be made.
    """
    return 1 if per_sentence == 1 else _ATTEMPTS_PER_TRIPLET * per_sentence


def distinct_triplets(
    pairs: Iterable[tuple[Synthesis, Synthesis]], per_sentence: int, minimum_drop: float
) -> list[Triplet]:
    """Combine pairs of syntheses from one natural sentence into triplets without duplicates.

    Parameters
    ----------
    pairs
        For each attempt, the synthesis of a sentence that model 1 accepts and of a sentence that
        model 2 accepts. The iterable is read only until there are enough triplets.
    per_sentence
        Maximum number of triplets.
    minimum_drop
        Minimum decrease of the rejecting model's log-probability, in nats.
    """
    triplets: dict[tuple[str, str], Triplet] = {}
    for first, second in pairs:
        texts = (first.sentence, second.sentence)
        is_sufficient = all(s.is_improved and -s.loss >= minimum_drop for s in (first, second))
        if is_sufficient and texts not in triplets:
            triplets[texts] = Triplet.from_syntheses(first, second, repeat=len(triplets) + 1)
        if len(triplets) == per_sentence:
            break
    return list(triplets.values())


def format_scores_html(
    rows: Sequence[tuple[str, str, Sequence[float]]], models: Sequence[str], note: str = ""
) -> str:
    """Return an HTML table of sentences with their scores.

    Words that differ from the first sentence are bold. A small plot shows each score between the
    lowest and the highest score under the same model.

    Parameters
    ----------
    rows
        Label, text and scores of each sentence; the scores in the order of `models`.
    models
        Names of the models.
    note
        Text below the table.
    """
    natural = rows[0][1]
    header = "".join(f"<th colspan=2>{escape(model)}</th>" for model in models)
    ranges = [(min(column), max(column)) for column in zip(*(row[2] for row in rows), strict=True)]
    lines = []
    for number, (label, text, scores) in enumerate(rows):
        colour = _COLOURS[number % len(_COLOURS)]
        cells = ""
        for score, (minimum, maximum) in zip(scores, ranges, strict=True):
            # Place the point of the plot between the minimum and the maximum of the column.
            fraction = (score - minimum) / (maximum - minimum) if maximum > minimum else 0.5
            # The view box keeps the plot whole on pages that shrink images to the column width.
            cells += (
                f"<td style='text-align:right'>{score:.1f}</td>"
                f"<td><svg width='{_WIDTH}' height='12' viewBox='0 0 {_WIDTH} 12' "
                f"style='max-width:none' role='img' aria-label='{score:.1f}'>"
                f"<line x1='6' x2='{_WIDTH - 6}' y1='6' y2='6' stroke='#ccc'/>"
                f"<circle cx='{6 + (_WIDTH - 12) * fraction:.1f}' cy='6' r='4' fill='{colour}'/>"
                "</svg></td>"
            )
        lines.append(
            f"<tr><td style='color:{colour}'>{escape(label)}</td>"
            f"<td style='text-align:left'>{highlight_changes(natural, text)}</td>{cells}</tr>"
        )
    note_html = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><tr><th></th><th></th>{header}</tr>{''.join(lines)}</table>{note_html}"


def format_triplet_html(row: Mapping[Any, Any]) -> str:
    """Return an HTML table of one triplet, given its row as a mapping."""
    models = [str(row["model_1"]), str(row["model_2"])]
    return format_scores_html(
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
