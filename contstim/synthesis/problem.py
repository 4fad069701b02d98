"""Synthesis problems: rejecting models, accepting models, and constraints.

The problem for one rejecting and one accepting model is Eq. 2 of Golan et al. (2023), section 4.6:
minimise log p_reject(s) subject to log p_accept(s) >= log p_accept(n), for a natural sentence n.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InfeasibleError, InputError
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.synthesis.edits import Edits
from contstim.text import Sentence
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

_BOUND = re.compile(
    r"(?P<model>.+?)\s*>=\s*(?P<natural>natural)?"
    r"(?P<number>[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?)?"
)

#: Reading score above which about four in five sampled sentences read as English.
MIN_READING_SCORE = -3.4
_READER = "contstim:smollm2"


@dataclass(frozen=True)
class MinScore:
    """Lower bound on the score of a synthetic sentence under a model.

    Attributes
    ----------
    model
        Model specification string, for example ``contstim:gpt``, or name of the model.
    value
        Minimum score in nats; with `natural`, the minimum minus the score of the natural sentence
        (0 or negative).
    natural
        Whether the bound is relative to the score of the natural sentence.

    Examples
    --------
    >>> str(MinScore("contstim:gpt", -2.0, natural=True))
    'contstim:gpt>=natural-2'
    >>> MinScore("contstim:gpt", -2.0, natural=True).minimum(-30.0)
    -32.0
    """

    model: str
    value: float
    natural: bool = False

    @classmethod
    def parse(cls, text: str) -> MinScore:
        """Create a bound from text such as ``contstim:gpt>=-30`` or ``contstim:gpt>=natural-5``.

        ``natural`` stands for the score of the natural sentence.

        Raises
        ------
        InputError
            If the text does not have this form.
        """
        match = _BOUND.fullmatch(text.strip())
        # The bound is a number, or relative to the score of the natural sentence, minus a number.
        is_relative = match is not None and match["natural"] is not None
        value = 0.0 if is_relative else math.nan
        if match is not None and match["number"] is not None:
            value = float(match["number"])
        if match is None or not math.isfinite(value) or (is_relative and value > 0):
            raise InputError(
                f"{text!r} is not a minimum score; write MODEL>=NUMBER or MODEL>=natural-NUMBER, "
                "in nats, for example contstim:gpt>=natural-5"
            )
        return cls(match["model"], value, is_relative)

    @classmethod
    def readable(cls, score: float = MIN_READING_SCORE, model: str = _READER) -> MinScore:
        """Return a lower bound on the reading score, so that sentences read as English.

        The reading score of a sentence of W words is (1 / W) sum_i log p(w_i | w_1 ... w_i-1) +
        log p(end | sentence), under a causal model after a prompt of natural sentences
        (``reduction=reading``).

        Parameters
        ----------
        score
            Minimum reading score in nats.
        model
            Specification string of the causal model. Default: SmolLM2.

        Notes
        -----
        Of 493 synthetic sentences that were rated without knowledge of their scores, 57 % read as
        English. The reading score separates them from the other sentences with an area under the
        ROC curve of .78 (``experiments/readable``).
        """
        spec = ModelSpec.parse(model)
        options = {"prompt": "natural", **dict(spec.options), "reduction": "reading"}
        return cls(str(replace(spec, options=tuple(sorted(options.items())))), score)

    def minimum(self, natural_score: float) -> float:
        """Return the bound in nats, given the score of the natural sentence in nats."""
        return natural_score + self.value if self.natural else self.value

    def __str__(self) -> str:
        if not self.natural:
            return f"{self.model}>={self.value:g}"
        return f"{self.model}>=natural{self.value:+g}" if self.value else f"{self.model}>=natural"


@dataclass(frozen=True)
class ProblemDefinition:
    """Definition of a synthesis problem: loss and constraints, with models given by name.

    The synthetic sentence s should be improbable under the rejecting models r, and about as
    probable as the natural sentence n under the accepting models a. It solves

        minimise    max_r [log p_r(s) - log p_r(n)] / scale_r        (the loss)
        subject to  log p_a(s) >= log p_a(n) - margin  for every a,

    and satisfies the constraints in `bounds` and `edits`. p_m is the probability under model m.

    Attributes
    ----------
    reject
        Names of the rejecting models. The synthetic sentence should be improbable under them.
    accept
        Names of the accepting models. They should find the synthetic sentence at least as probable
        as the natural sentence, up to `margin`.
    margin
        Maximum decrease of the score of an accepting model, in nats.
    bounds
        Additional lower bounds on scores of the synthetic sentence, also under models that are
        neither rejecting nor accepting.
    edits
        Limits on the changes to the natural sentence.
    scales
        Standard deviation of each rejecting model's scores of natural sentences
        (`standard_deviations`), which makes the scores of several models comparable. Empty for one
        rejecting model: scale_r is then 1, and the loss is in nats.

    Raises
    ------
    InputError
        If there is no rejecting model, if a model occurs twice, or if the margin or the scales are
        invalid.
    """

    reject: tuple[str, ...]
    accept: tuple[str, ...] = ()
    margin: float = 0.0
    bounds: tuple[MinScore, ...] = ()
    edits: Edits = field(default_factory=Edits)
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require_distinct_models("a synthesis needs", (*self.reject, *self.accept))
        if not self.reject:
            raise InputError("a synthesis needs a rejecting model; name at least one")
        # This comparison also refuses NaN.
        if not (isinstance(self.margin, float | int) and 0 <= self.margin < math.inf):
            raise InputError(
                f"the margin is {self.margin!r}; give the maximum decrease of the accepting "
                "models' scores as a number of nats from 0 up"
            )
        if self.scales and len(self.scales) != len(self.reject):
            raise InputError(
                f"{len(self.reject)} rejecting models have {len(self.scales)} scales; give one "
                "scale for each model"
            )
        for name, scale in zip(self.reject, self.scales, strict=False):
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of {name!r} is {scale}; give a number above 0")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models in `reject`, in `bounds` and in `accept`, each once."""
        return tuple(dict.fromkeys((*self.reject, *(b.model for b in self.bounds), *self.accept)))

    @property
    def constraints(self) -> tuple[MinScore, ...]:
        """Lower bounds on scores: `bounds`, followed by one bound for each model in `accept`."""
        # Subtract from 0.0, because the negative of a margin of 0 would be printed as -0.
        accepted = (MinScore(name, 0.0 - self.margin, natural=True) for name in self.accept)
        return (*self.bounds, *accepted)

    @property
    def scale_by_model(self) -> dict[str, float]:
        """Mapping from each name in `reject` to the model's scale; 1 if there are no scales."""
        scales = self.scales or (1.0,) * len(self.reject)
        return dict(zip(self.reject, scales, strict=True))

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the losses of synthetic sentences, which a search minimises.

        The loss of a synthetic sentence s, compared with a natural sentence n, is the maximum of

            [log p_r(s) - log p_r(n)] / scale_r

        over the rejecting models r. The divisor scale_r is the standard deviation of the model's
        scores of natural sentences, or 1 if there is only one model.

        Parameters
        ----------
        scores
            Mapping from the name of a model in `reject` to its scores of S synthetic sentences, in
            nats, shape (S,).
        natural
            Mapping from model name to the score of the natural sentence, in nats.

        Returns
        -------
        array
            Losses, shape (S,). A loss is negative if each rejecting model finds the synthetic
            sentence less probable than the natural one.
        """
        scales = self.scale_by_model.items()
        changes = [(scores[name] - natural[name]) / scale for name, scale in scales]
        return np.asarray(np.max(changes, axis=0))

    def sentence_loss(self, scores: Mapping[str, float], natural: Mapping[str, float]) -> float:
        """Return the loss of one synthetic sentence, see `loss`.

        Parameters
        ----------
        scores, natural
            Mappings from model name to the score of the synthetic and of the natural sentence, in
            nats.
        """
        arrays = {name: np.array([scores[name]]) for name in self.reject}
        return float(self.loss(arrays, natural)[0])

    def rename_models(self, names: Mapping[str, str]) -> ProblemDefinition:
        """Return the problem with its models renamed."""
        return replace(
            self,
            reject=tuple(names[name] for name in self.reject),
            accept=tuple(names[name] for name in self.accept),
            bounds=tuple(replace(bound, model=names[bound.model]) for bound in self.bounds),
        )


@dataclass(frozen=True)
class Problem:
    """Problem of finding a sentence that is improbable under some models but not under others.

    `ProblemDefinition` states the loss and the constraints as formulas. This class has the same
    attributes, with loaded models in place of their names.

    Attributes
    ----------
    reject
        Models under which the synthetic sentence should be improbable.
    accept
        Models under which the synthetic sentence should be at least as probable as the natural one.
    margin
        Maximum decrease, in nats, of the score under a model in `accept`. Default 0: no decrease.
    bounds
        Additional lower bounds on the score of the synthetic sentence: `MinScore` objects, or texts
        such as ``contstim:gpt>=natural-5``.
    edits
        Limits on the changes to the natural sentence.
    scales
        Standard deviation of the scores of natural sentences under each model in `reject`. Required
        for two or more models.
    bound_models
        Models that only occur in `bounds`. Models that are not given here are loaded by their
        specification strings.

    Raises
    ------
    InputError
        If `reject` is empty or contains several models without scales, if a model occurs twice, or
        if the margin, the scales or a bound is invalid.

    Examples
    --------
    >>> bigram, trigram = load_model("contstim:bigram"), load_model("contstim:trigram")
    >>> problem = Problem((bigram,), (trigram,), bounds=("contstim:unigram>=natural-2",))
    >>> [str(constraint) for constraint in problem.definition.constraints]
    ['contstim:unigram>=natural-2', 'contstim:trigram>=natural']
    """

    reject: tuple[SentenceModel, ...]
    accept: tuple[SentenceModel, ...] = ()
    margin: float = 0.0
    bounds: tuple[MinScore, ...] = ()
    edits: Edits = field(default_factory=Edits)
    scales: tuple[float, ...] = ()
    bound_models: tuple[SentenceModel, ...] = ()

    def __post_init__(self) -> None:
        models = {model.name: model for model in (*self.reject, *self.accept, *self.bound_models)}
        bound_models = {model.name: model for model in self.bound_models}
        # Replace specification strings in bounds by names of models, and load missing models.
        names = dict[str, str]()
        for model in models.values():
            names |= {model.spec: model.name, model.name: model.name}
        bounds = list[MinScore]()
        for bound in self.bounds:
            parsed = MinScore.parse(bound) if isinstance(bound, str) else bound
            if parsed.model not in names:
                model = load_model(parsed.model)
                names |= {parsed.model: model.name, model.name: model.name}
                if model.name not in models:
                    models[model.name] = bound_models[model.name] = model
            bounds.append(replace(parsed, model=names[parsed.model]))
        # The dataclass is frozen, so its attributes cannot be assigned directly.
        object.__setattr__(self, "reject", tuple(self.reject))
        object.__setattr__(self, "accept", tuple(self.accept))
        object.__setattr__(self, "bounds", tuple(bounds))
        object.__setattr__(self, "bound_models", tuple(bound_models.values()))
        if len(self.reject) > 1 and not self.scales:
            raise InputError(
                f"{len(self.reject)} rejecting models need scales to make their scores comparable; "
                "give the standard deviations of their scores of natural sentences"
            )

    @cached_property
    def definition(self) -> ProblemDefinition:
        """The same problem, with models given by name."""
        return ProblemDefinition(
            # Rejecting models should find the sentence improbable, accepting models probable.
            reject=tuple(model.name for model in self.reject),
            accept=tuple(model.name for model in self.accept),
            margin=self.margin,
            bounds=self.bounds,
            edits=self.edits,
            scales=self.scales,
        )

    @cached_property
    def models_by_name(self) -> dict[str, SentenceModel]:
        """Mapping from name to model, in the order of `ProblemDefinition.names`."""
        models = {model.name: model for model in (*self.reject, *self.accept, *self.bound_models)}
        return {name: models[name] for name in self.definition.names}

    def min_scores(self, natural: Mapping[str, float]) -> dict[str, float]:
        """Return the minimum score of a synthetic sentence under each model with a constraint.

        The score of a sentence may depend slightly on the batch in which it is computed. The
        minimum is therefore the bound plus this numerical error (`SentenceModel.batch_tolerance`).

        Parameters
        ----------
        natural
            Mapping from model name to the score of the natural sentence, in nats.

        Returns
        -------
        dict
            Mapping from model name to minimum score, in nats.
        """
        min_scores = dict[str, float]()
        for constraint in self.definition.constraints:
            name = constraint.model
            bound = constraint.minimum(natural[name])
            # Add the numerical error, so that the bound is satisfied in every batch.
            minimum = bound + self.models_by_name[name].batch_tolerance
            min_scores[name] = max(minimum, min_scores.get(name, -np.inf))
        return min_scores


def require_distinct_models(need: str, models: Sequence[str]) -> None:
    """Check that a list of models contains no model twice.

    Parameters
    ----------
    need
        First words of the error message, for example ``"a pair needs two"``.
    models
        Names or specification strings of the models.

    Raises
    ------
    InputError
        If a model occurs twice.
    """
    for name in models:
        if models.count(name) > 1:
            raise InputError(
                f"{need} different models, got {name!r} twice; specs that differ in metric or "
                "reduction are different models"
            )


def find_worst_violation(
    constraints: Sequence[MinScore], natural: Mapping[str, float], scores: Mapping[str, float]
) -> tuple[MinScore | None, float]:
    """Find the constraint that a sentence violates by the largest number of nats.

    Parameters
    ----------
    constraints
        Lower bounds on scores.
    natural, scores
        Mappings from model name to the score of the natural sentence and of the checked sentence,
        in nats.

    Returns
    -------
    constraint, violation
        The constraint, and the difference between its minimum and the score in nats. None and 0 if
        the sentence satisfies all constraints.
    """
    most_violated: MinScore | None = None
    # A violation is the number of nats by which the score is below the minimum.
    max_violation = 0.0
    for constraint in constraints:
        name = constraint.model
        violation = constraint.minimum(natural[name]) - scores[name]
        if violation > max_violation:
            most_violated, max_violation = constraint, violation
    return most_violated, max_violation


def require_two_words(text: str, language: Language = ENGLISH) -> None:
    """Check that a natural sentence has at least two words.

    Raises
    ------
    InputError
        If it has only one word.
    """
    if len(language.split(text)) < 2:
        raise InputError(
            f"the natural sentence {text!r} has one word, but a synthesis needs at least two; "
            "leave it out"
        )


def require_feasible_natural(
    sentence: Sentence, constraints: Sequence[MinScore], natural: Mapping[str, float]
) -> None:
    """Check that a natural sentence satisfies the constraints of a search that starts from it.

    Raises
    ------
    InfeasibleError
        If it violates a constraint.
    """
    violated, violation = find_worst_violation(constraints, natural, natural)
    if violated is not None:
        raise InfeasibleError(
            f"the natural sentence {str(sentence)!r} violates {violated} by {violation:.4g}; lower "
            "the bound, or leave the sentence out"
        )


def standard_deviations(
    models: Sequence[SentenceModel], sentences: Sequence[str]
) -> tuple[float, ...]:
    """Return the standard deviation of each model's scores of natural sentences.

    It is the sample standard deviation, with the denominator (number of sentences) - 1.

    Raises
    ------
    InputError
        If there are not at least two sentences with different scores.

    Examples
    --------
    >>> from contstim import pool
    >>> models = [load_model("contstim:bigram"), load_model("contstim:trigram")]
    >>> [round(scale, 1) for scale in standard_deviations(models, pool())]
    [8.8, 9.3]
    """
    return tuple(standard_deviation(model.name, model.score(sentences)) for model in models)


def standard_deviation(name: str, scores: Sequence[float] | FloatArray) -> float:
    """Return the sample standard deviation of the scores (S,) that the model `name` assigns."""
    deviation = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    # Refuse a deviation of 0 or NaN, because scores will be divided by it.
    if not deviation > 0:
        raise InputError(
            f"the scores of {len(scores)} natural sentences do not determine the standard "
            f"deviation of {name!r}, which makes the scores of several models comparable; give "
            "more sentences"
        )
    return deviation
