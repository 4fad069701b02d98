"""Results of searches: synthetic sentences, triplets, and rows of tables.

A triplet consists of a natural sentence and two synthetic sentences. Synthetic sentence 1 is
probable under model 1 (the accepting model) and improbable under model 2 (the rejecting model).
For synthetic sentence 2, the models are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from contstim.columns import SPEC
from contstim.display import displayable

_ATTEMPTS_PER_TRIPLET = 3


@dataclass(frozen=True)
class Step:
    """Step of a search that replaced one word of the sentence.

    Attributes
    ----------
    sweep
        Number of the pass over all positions in which the word was replaced, counted from 1. 0 for
        changes that were made before the first pass because the problem requires them.
    position
        Index of the word in the sentence.
    old, new
        Words before and after the replacement.
    scores
        Score of the new sentence under each model in nats, in the order of
        `SynthesisResult.models`. If several words were replaced together, scores after the last
        replacement.
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
class SynthesisResult:
    """Result of a search for one synthetic sentence.

    The search looks for a sentence that is improbable under the *rejecting* models and remains
    probable under the *accepting* models. Scores are log-probabilities of sentences in nats.

    Attributes
    ----------
    natural
        Natural sentence with which the synthetic sentence is compared.
    sentence
        Synthetic sentence. If the search found none with a lower loss, it equals `natural`.
    models
        Names of all models: the rejecting models, the models for which there is only a lower bound
        on the score, and the accepting models.
    natural_scores, scores
        Scores of `natural` and of `sentence`, in the order of `models`.
    loss
        Maximum over the rejecting models of the score of `sentence` minus the score of `natural`,
        which the search minimises (`ProblemDefinition.loss`). 0 if the sentences are equal.
    steps
        Replacements of words, in the order in which they were made.
    n_scores
        Number of candidate sentences that each model scored. 0 for models that score all words of
        the vocabulary at once.
    strategy
        Name and options of the strategy, for example ``edit?candidates=all``.
    seed, attempt
        Seed of the search, and index of the search among those with the same seed.
    finished
        Whether the search was complete. False if the strategy skipped candidates that might have
        improved the sentence.
    stopped
        Reason why the search was stopped early, for example by a limit on requests to a model
        server. `sentence` is then the best sentence up to that point. Empty otherwise.
    accepting
        Names of the accepting models.
    non_guiding_models
        Names of compared models that did not change the probabilities of the sampled words, because
        they can only score complete sentences. Empty if no sentences were sampled.

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
    strategy: str
    seed: int
    attempt: int
    finished: bool = True
    stopped: str = ""
    accepting: tuple[str, ...] = ()
    non_guiding_models: tuple[str, ...] = ()

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
        """Name of the first model that should find the synthetic sentence improbable."""
        return self.models[0]


@dataclass(frozen=True)
class TableRow:
    """Base class of rows in tables of synthetic sentences.

    Each field of a subclass is a column of the table, except ``extra_columns``. This field contains
    the names and values of further columns, which depend on the models.
    """

    @classmethod
    def columns(cls) -> list[str]:
        """Return the names of the columns that all rows of this class have, in order."""
        return [column.name for column in fields(cls) if column.name != "extra_columns"]

    def to_record(self) -> dict[str, str | float | int]:
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
        Names of the two models. Each accepts one synthetic sentence and rejects the other.
    natural, synthetic_1, synthetic_2
        Natural sentence, synthetic sentence that model 1 accepts and model 2 rejects, and synthetic
        sentence that model 2 accepts and model 1 rejects.
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
    >>> Triplet.from_results(first, second, repeat=1).synthetic_2
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
    def from_results(cls, first: SynthesisResult, second: SynthesisResult, repeat: int) -> Triplet:
        """Combine two results of searches from the same natural sentence into a triplet.

        Parameters
        ----------
        first, second
            Results of the searches for synthetic sentences 1 and 2. Sentence 1 is improbable only
            under model 2, and sentence 2 only under model 1.
        repeat
            Number that distinguishes triplets with the same natural sentence and models, from 1.
        """
        # Model 2 rejects synthetic sentence 1 (finds it improbable), model 1 rejects sentence 2.
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
        # The scores under other models, which only have a lower bound, become extra columns.
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
        """Sum of the decreases in log-probability of both synthetic sentences, in nats.

        Each decrease is from the natural sentence n, under the model that rejects the synthetic
        sentence. Controversiality (Golan et al. 2023, Eq. 4) is therefore
        [log p2(n) - log p2(s1)] + [log p1(n) - log p1(s2)] for synthetic sentences s1 and s2, and
        probabilities p1 and p2 under the two models.
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


def spec_columns(row: TableRow, specs: Mapping[str, str]) -> dict[str, str]:
    """Return the strings from which the two models compared in a row can be loaded.

    Rows that compare two models are triplets: a natural sentence and two synthetic sentences, about
    which models 1 and 2 disagree. A table may give a model a short name, for example ``GPT-2``. The
    extra columns then contain the string that loads the model, for example ``hf:gpt2``.

    Parameters
    ----------
    row
        Row of a table of synthetic sentences.
    specs
        Mapping from the name of each model in the table to its specification string.

    Returns
    -------
    dict
        Values of the columns ``spec_1`` and ``spec_2``. Empty if the row is not a triplet, or if
        every model is named by its specification string.
    """
    if not isinstance(row, Triplet) or all(name == spec for name, spec in specs.items()):
        return {}
    return {f"{SPEC}_1": specs[row.model_1], f"{SPEC}_2": specs[row.model_2]}


@dataclass(frozen=True)
class SentenceRow(TableRow):
    """Synthetic sentence that is improbable under some models and probable under others.

    Each object is a row of a table with the attributes as columns.

    Attributes
    ----------
    reject, accept
        Names of the models that should find the synthetic sentence improbable, and of the models
        that should find it about as probable as the natural sentence, separated by spaces.
    natural, synthetic
        Natural sentence, and synthetic sentence that was generated from it.
    loss
        Loss of the synthetic sentence: in nats if one model should find it improbable, in standard
        deviations of scores if several models should.
    n_replaced
        Number of replacements of words that led from the natural to the synthetic sentence.
    finished
        Whether the search was complete (`SynthesisResult.finished`).
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
    def from_result(
        cls, reject: Sequence[str], accept: Sequence[str], result: SynthesisResult
    ) -> SentenceRow:
        """Convert a search result to the table row of its synthetic sentence.

        Parameters
        ----------
        reject, accept
            Names of the models that should find the synthetic sentence improbable, and of the
            models that should find it about as probable as the natural sentence.
        result
            Result of the search. The scores of both sentences become extra columns, in alphabetical
            order of the models.
        """
        extra_columns = []
        # Add columns for the scores of both sentences under each model, in alphabetical order.
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
Row = Triplet | SentenceRow


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


def make_distinct_triplets(
    pairs: Iterable[tuple[SynthesisResult, SynthesisResult]], per_sentence: int, minimum_drop: float
) -> list[Triplet]:
    """Combine a natural sentence and two synthetic sentences into each of several triplets.

    Triplets with the same sentences as an earlier triplet are left out.

    Parameters
    ----------
    pairs
        Results of two searches that start from the natural sentence. Synthetic sentence 1 should be
        improbable under model 2 only, synthetic sentence 2 under model 1 only. The iterable is
        read only until there are enough triplets.
    per_sentence
        Maximum number of triplets.
    minimum_drop
        Minimum number of nats by which each synthetic sentence must be less probable than the
        natural sentence, under the model that should find it improbable. Other pairs are left out.
    """
    triplets: dict[tuple[str, str], Triplet] = {}  # by the two synthetic sentences
    for first, second in pairs:
        texts = (first.sentence, second.sentence)
        # The loss is the change in log-probability under the model that should find the sentence
        # improbable.
        is_sufficient = all(
            result.is_improved and -result.loss >= minimum_drop for result in (first, second)
        )
        if is_sufficient and texts not in triplets:
            triplets[texts] = Triplet.from_results(first, second, repeat=len(triplets) + 1)
        if len(triplets) == per_sentence:
            break
    return list(triplets.values())
