"""Results of searches: synthetic sentences, triplets, and rows of tables.

A triplet consists of a natural sentence and two synthetic sentences. Synthetic sentence 1 is
probable under model 1 (the accepting model) and improbable under model 2 (the rejecting model).
For synthetic sentence 2, the models are exchanged.
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
_COLOURS = ("#555", "#0072b2", "#b34700")  # natural, synthetic 1, synthetic 2
_WIDTH = 110  # of plots, in pixels


@dataclass(frozen=True)
class Step:
    """The replacement of one word during a search.

    Attributes
    ----------
    sweep
        Number of the pass over all positions, from 1. 0 for changes that the problem requires.
    position
        Index of the word in the sentence.
    old, new
        Words before and after the replacement.
    scores
        Score of the new sentence under each model in nats, in the order of `Synthesis.models`. If
        several words were replaced together, scores after the last replacement.
    n_scores
        Number of candidate sentences that each model has scored so far, in the same order.
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

    The search minimises the loss of a sentence: its decrease in log-probability, compared with the
    natural sentence, under the rejecting models (see `ModelContrast`). Scores are log-probabilities
    of complete sentences in nats.

    Attributes
    ----------
    natural
        Natural sentence.
    sentence
        Synthetic sentence. If the search found no better sentence, it equals `natural`.
    models
        Names of the rejecting models, of the models that only have a lower bound, and of the
        accepting models.
    natural_scores, scores
        Scores of `natural` and of `sentence`, in the order of `models`.
    loss
        Loss of `sentence`; 0 if it equals the natural sentence.
    steps
        Replacements of words, in the order in which they were made.
    n_scores
        Number of candidate sentences that each model scored. 0 for models that score all words of
        the vocabulary at once.
    problem
        Description of the problem, for output files.
    strategy
        Name and options of the strategy, for example ``edit?candidates=all``.
    seed, attempt
        Seed of the search, and number of the attempt with this seed.
    finished
        Whether the search was complete. False if the strategy skipped candidates that might have
        improved the sentence.
    stopped
        Reason why the search was stopped early, for example by a limit on requests to a model
        server. `sentence` is then the best sentence up to that point. Empty otherwise.
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
        note = "No better sentence was found."
        if self.is_changed:
            note = f"{len(self.steps)} replacements; strategy {self.strategy}, seed {self.seed}."
        return format_scores_html(rows, self.models, note)


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
    """Natural sentence with two synthetic sentences on which two models disagree.

    Synthetic sentence 1 is probable under model 1 and improbable under model 2, compared with the
    natural sentence. For synthetic sentence 2, the models are exchanged. Each triplet is a row of a
    table with the attributes as columns.

    Attributes
    ----------
    model_1, model_2
        Names of the models.
    natural, synthetic_1, synthetic_2
        Natural sentence and synthetic sentences.
    natural_lp_1, natural_lp_2
        Log-probabilities of the natural sentence under model 1 and model 2, in nats.
    synthetic_1_lp_1, synthetic_1_lp_2
        Log-probabilities of synthetic sentence 1 under model 1 and model 2, in nats.
    synthetic_2_lp_1, synthetic_2_lp_2
        Log-probabilities of synthetic sentence 2 under model 1 and model 2, in nats.
    repeat
        Number that distinguishes triplets with the same natural sentence and models, from 1.
    strategy, seed
        Strategy and seed of the search.
    extra_columns
        Names and values of further columns: scores of the sentences under the models that only have
        a lower bound.

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
        """Combine two results of searches from the same natural sentence into a triplet.

        Parameters
        ----------
        first, second
            Results with the sentence that is accepted by model 1 (rejected by model 2), and with
            the sentence that is accepted by model 2 (rejected by model 1).
        repeat
            Number that distinguishes triplets with the same natural sentence and models, from 1.
        """
        model_1, model_2 = second.reject, first.reject
        scores_by_kind = {
            "natural": dict(zip(first.models, first.natural_scores, strict=True)),
            "synthetic_1": dict(zip(first.models, first.scores, strict=True)),
            "synthetic_2": dict(zip(second.models, second.scores, strict=True)),
        }
        log_probs = {}
        for kind, scores in scores_by_kind.items():
            log_probs[f"{kind}_lp_1"] = scores[model_1]
            log_probs[f"{kind}_lp_2"] = scores[model_2]
        further_models = [model for model in first.models if model not in (model_1, model_2)]
        extra_columns = tuple(
            (f"{kind}_lp {model}", scores[model])
            for model in further_models
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
        """Controversiality in nats (Golan et al. 2023, Eq. 4).

        It is [log p2(n) - log p2(s1)] + [log p1(n) - log p1(s2)] for natural sentence n, synthetic
        sentences s1 and s2, and probabilities p1 and p2 under the two models.
        """
        return (self.natural_lp_2 - self.synthetic_1_lp_2) + (
            self.natural_lp_1 - self.synthetic_2_lp_1
        )

    @property
    def opposed(self) -> bool:
        """Whether model 1 prefers synthetic sentence 1 and model 2 prefers synthetic sentence 2."""
        return (
            self.synthetic_1_lp_1 > self.synthetic_2_lp_1
            and self.synthetic_1_lp_2 < self.synthetic_2_lp_2
        )

    def _repr_html_(self) -> str:
        """Return the three sentences and their scores as HTML for notebooks."""
        return format_triplet_html(self.row())


def spec_columns(row: TableRow, specs: Mapping[str, str]) -> dict[str, str]:
    """Return columns ``spec_1`` and ``spec_2``, from which the models of a triplet can be loaded.

    The dictionary is empty for other rows, and if all names of models are specification strings.

    Parameters
    ----------
    row
        Row of a table of synthetic sentences.
    specs
        Model specification strings by the names of the models in tables.
    """
    if not isinstance(row, Triplet) or all(name == spec for name, spec in specs.items()):
        return {}
    return {f"{SPEC}_1": specs[row.model_1], f"{SPEC}_2": specs[row.model_2]}


@dataclass(frozen=True)
class ContrastRow(TableRow):
    """Synthetic sentence that is improbable under some models and probable under others.

    Each object is a row of a table with the attributes as columns.

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
        Number of replaced words.
    finished
        Whether the search was complete (`Synthesis.finished`).
    strategy, seed
        Strategy and seed of the search.
    extra_columns
        Names and values of further columns: scores of both sentences under all models.
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
        extra_columns = []
        scores = sorted(zip(result.models, result.natural_scores, result.scores, strict=True))
        for model, natural_score, score in scores:
            extra_columns.append((f"natural_lp {model}", natural_score))
            extra_columns.append((f"synthetic_lp {model}", score))
        return cls(
            reject=" ".join(reject),
            accept=" ".join(accept),
            natural=result.natural,
            synthetic=result.sentence,
            loss=result.loss,
            n_replaced=len(result.steps),
            finished=result.finished,
            strategy=result.strategy,
            seed=result.seed,
            extra_columns=tuple(extra_columns),
        )

    @property
    def synthetic_sentences(self) -> tuple[str, ...]:
        """The synthetic sentence, as a tuple."""
        return (self.synthetic,)


#: Row of a table of synthetic sentences.
Row = Triplet | ContrastRow


def sentences_with_originals(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return all synthetic sentences of a table, and a list with the natural sentence of each."""
    pairs = [(text, row.natural) for row in rows for text in row.synthetic_sentences]
    return [text for text, _ in pairs], [natural for _, natural in pairs]


def max_attempts(per_sentence: int) -> int:
    """Return how many searches may be made to find `per_sentence` different triplets.

    Searches from the same natural sentence can yield equal triplets. More searches than triplets
    are therefore allowed, unless one triplet is enough.
    """
    return 1 if per_sentence == 1 else _ATTEMPTS_PER_TRIPLET * per_sentence


def distinct_triplets(
    pairs: Iterable[tuple[Synthesis, Synthesis]], per_sentence: int, minimum_drop: float
) -> list[Triplet]:
    """Combine results of searches from one natural sentence into triplets without duplicates.

    Parameters
    ----------
    pairs
        Pairs of results: a sentence that model 1 accepts, and a sentence that model 2 accepts. The
        iterable is read only until there are enough triplets.
    per_sentence
        Maximum number of triplets.
    minimum_drop
        Minimum decrease in log-probability under the rejecting model, in nats. Pairs with a smaller
        decrease are left out.
    """
    triplets: dict[tuple[str, str], Triplet] = {}
    for first, second in pairs:
        texts = (first.sentence, second.sentence)
        is_sufficient = all(
            result.is_improved and -result.loss >= minimum_drop for result in (first, second)
        )
        if is_sufficient and texts not in triplets:
            triplets[texts] = Triplet.from_syntheses(first, second, repeat=len(triplets) + 1)
        if len(triplets) == per_sentence:
            break
    return list(triplets.values())


def format_scores_html(
    rows: Sequence[tuple[str, str, Sequence[float]]], models: Sequence[str], note: str = ""
) -> str:
    """Return an HTML table of sentences with their scores under several models.

    Words that differ from the first sentence are bold. A small plot shows each score between the
    lowest and the highest score under the same model.

    Parameters
    ----------
    rows
        Label, text and scores of each sentence. The scores are in the order of `models`.
    models
        Names of the models.
    note
        Text below the table.
    """
    _, first_text, _ = rows[0]
    header = "".join(f"<th colspan=2>{escape(model)}</th>" for model in models)
    scores_by_model = list(zip(*(scores for _, _, scores in rows), strict=True))
    lines = []
    for number, (label, text, scores) in enumerate(rows):
        colour = _COLOURS[number % len(_COLOURS)]
        cells = ""
        for score, model_scores in zip(scores, scores_by_model, strict=True):
            # Place the point of the plot between the lowest and the highest score of the model.
            minimum, maximum = min(model_scores), max(model_scores)
            fraction = (score - minimum) / (maximum - minimum) if maximum > minimum else 0.5
            # The view box keeps the plot complete on pages that shrink images.
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
            f"<td style='text-align:left'>{highlight_changes(first_text, text)}</td>{cells}</tr>"
        )
    note_html = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><tr><th></th><th></th>{header}</tr>{''.join(lines)}</table>{note_html}"


def format_triplet_html(row: Mapping[Any, Any]) -> str:
    """Return an HTML table of the three sentences of a triplet and their scores.

    `row` maps the columns of a table of triplets to their values.
    """
    models = [str(row["model_1"]), str(row["model_2"])]
    labels = {
        "natural": "natural",
        "synthetic_1": f"1: accepted by {models[0]}",
        "synthetic_2": f"2: accepted by {models[1]}",
    }
    sentences = []
    for kind, label in labels.items():
        scores = [float(row[f"{kind}_lp_1"]), float(row[f"{kind}_lp_2"])]
        sentences.append((label, str(row[kind]), scores))
    return format_scores_html(sentences, models)
