"""Synthesis problems: models that must reject a sentence, models that must accept it, and limits.

The problem of one rejecting and one accepting model is Eq. 2 of Golan et al. (2023), section 4.6:
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
    r"(?P<model>.+?)\s*>=\s*(?P<natural>natural)?(?P<number>[-+]?[0-9.]+(e[-+]?[0-9]+)?)?"
)

#: The minimum reading score at which about four of five sampled sentences read as English.
MIN_READING_SCORE = -3.4
_READER = "contstim:smollm2"


@dataclass(frozen=True)
class MinScore:
    """A lower bound on the score of a model, nats.

    Attributes
    ----------
    model
        Spec of the model.
    value
        The bound; if `natural`, the bound less the score of the natural sentence.
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
        """Read a bound: ``MODEL>=VALUE``, ``MODEL>=natural`` or ``MODEL>=natural-MARGIN``.

        Raises
        ------
        InputError
            If the text has another form.
        """
        parsed = _BOUND.fullmatch(text.strip())
        natural = parsed is not None and parsed["natural"] is not None
        try:
            value = float((parsed and parsed["number"]) or (0.0 if natural else "none"))
        except ValueError:
            value = math.nan
        if parsed is None or not math.isfinite(value) or (natural and value > 0):
            raise InputError(
                f"{text!r} is not a minimum score; write MODEL>=NUMBER or MODEL>=natural-NUMBER, "
                "in nats, for example contstim:gpt>=natural-5"
            )
        return cls(parsed["model"], value, natural)

    @classmethod
    def readable(cls, score: float = MIN_READING_SCORE, model: str = _READER) -> MinScore:
        """Return the bound that most sentences which read as English satisfy.

        The score is that of a causal model, SmolLM2, after a prompt of natural sentences: the mean
        log-probability per word plus that of the end of the sentence (``reduction=reading``).

        Notes
        -----
        Of 493 sentences judged blind, this score separates those that read as English (57 %) from
        the others with an area under the curve of .78 (``experiments/readable``).
        """
        spec = ModelSpec.parse(model)
        options = {"prompt": "natural", **dict(spec.options), "reduction": "reading"}
        return cls(str(replace(spec, options=tuple(sorted(options.items())))), score)

    def minimum(self, natural_score: float) -> float:
        """Return the bound for a natural sentence of the given score."""
        return natural_score + self.value if self.natural else self.value

    def __str__(self) -> str:
        if not self.natural:
            return f"{self.model}>={self.value:g}"
        return f"{self.model}>=natural{self.value:+g}" if self.value else f"{self.model}>=natural"


@dataclass(frozen=True)
class ModelContrast:
    """The statement of a problem, with models given by their names.

    Minimise max over r in `reject` of [log p_r(s) - log p_r(n)] / scale_r, subject to
    log p_a(s) >= log p_a(n) - margin for every a in `accept`, to `bounds` and to `edits`.

    Attributes
    ----------
    reject, accept
        Models that must reject the sentence, and models that must accept it.
    margin
        Maximum decrease of the score of an accepting model, nats.
    bounds
        Further lower bounds on scores, of any models.
    edits
        Limits on what may change in the natural sentence.
    scales
        For each rejecting model the standard deviation of its scores of natural sentences
        (`standard_deviations`). Required for several models; without them the loss is in nats.

    Raises
    ------
    InputError
        If there is no rejecting model, if a model is given twice, or if the margin or the scales
        are invalid.
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
            raise InputError("no model is to reject the sentences; name at least one")
        # Also refuses NaN.
        if not (isinstance(self.margin, float | int) and 0 <= self.margin < math.inf):
            raise InputError(
                f"the margin is {self.margin!r}; give the nats by which the score of an accepting "
                "model may decrease, from 0 up"
            )
        if self.scales and len(self.scales) != len(self.reject):
            raise InputError(
                f"{len(self.reject)} rejecting models have {len(self.scales)} scales; give one each"
            )
        for name, scale in zip(self.reject, self.scales, strict=False):
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of {name!r} is {scale}; give a number above 0")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all models, the rejecting ones first."""
        return tuple(dict.fromkeys((*self.reject, *(b.model for b in self.bounds), *self.accept)))

    @property
    def constraints(self) -> tuple[MinScore, ...]:
        """All lower bounds: the further ones, then those of the accepting models."""
        # Without a margin 0.0, not -0.0, which would be another text.
        accepted = (MinScore(name, 0.0 - self.margin, natural=True) for name in self.accept)
        return (*self.bounds, *accepted)

    @property
    def scale_by_model(self) -> dict[str, float]:
        """The scale of each rejecting model, 1 without scales."""
        scales = self.scales or (1.0,) * len(self.reject)
        return dict(zip(self.reject, scales, strict=True))

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the loss of sentences with the given scores, by model arrays of one shape."""
        scales = self.scale_by_model.items()
        changes = [(scores[name] - natural[name]) / scale for name, scale in scales]
        return np.asarray(np.max(changes, axis=0))

    def sentence_loss(self, scores: Mapping[str, float], natural: Mapping[str, float]) -> float:
        """Return the loss of one sentence; `scores` may hold further models."""
        return float(self.loss({n: np.array([scores[n]]) for n in self.reject}, natural)[0])

    def rename_models(self, names: Mapping[str, str]) -> ModelContrast:
        """Return the contrast with other names for its models."""
        return replace(
            self,
            reject=tuple(names[name] for name in self.reject),
            accept=tuple(names[name] for name in self.accept),
            bounds=tuple(replace(bound, model=names[bound.model]) for bound in self.bounds),
        )


@dataclass(frozen=True)
class Problem:
    """A synthesis problem over any number of models.

    Attributes
    ----------
    reject, accept, margin, edits, scales
        As in `ModelContrast`, with the models themselves.
    bounds
        Further lower bounds on scores, as `MinScore` or as text (``contstim:gpt>=natural-5``).
    bound_models
        Models of `bounds` that neither reject nor accept; loaded by their specs where missing.

    Raises
    ------
    InputError
        As `ModelContrast`; if several models reject and there are no scales; if a bound cannot be
        read.

    Examples
    --------
    >>> bigram, trigram = load_model("contstim:bigram"), load_model("contstim:trigram")
    >>> problem = Problem((bigram,), (trigram,), bounds=("contstim:unigram>=natural-2",))
    >>> [str(constraint) for constraint in problem.contrast.constraints]
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
        names = {called: m.name for m in models.values() for called in (m.spec, m.name)}
        bounds, others = list[MinScore](), {model.name: model for model in self.bound_models}
        for bound in (MinScore.parse(b) if isinstance(b, str) else b for b in self.bounds):
            if bound.model not in names:
                model = load_model(bound.model)
                names |= {bound.model: model.name, model.name: model.name}
                if model.name not in models:
                    models[model.name] = others[model.name] = model
            bounds.append(replace(bound, model=names[bound.model]))
        for name, value in {
            "reject": tuple(self.reject),
            "accept": tuple(self.accept),
            "bounds": tuple(bounds),
            "bound_models": tuple(others.values()),
        }.items():
            object.__setattr__(self, name, value)
        if len(self.reject) > 1 and not self.scales:
            raise InputError(
                f"{len(self.reject)} rejecting models need scales, by which their scores compare; "
                "give the standard deviations of their scores of natural sentences"
            )

    @cached_property
    def contrast(self) -> ModelContrast:
        """The problem with the names of its models."""
        return ModelContrast(
            tuple(model.name for model in self.reject),
            tuple(model.name for model in self.accept),
            self.margin,
            self.bounds,
            self.edits,
            self.scales,
        )

    @cached_property
    def models_by_name(self) -> dict[str, SentenceModel]:
        """The models by name, the rejecting ones first."""
        given = {model.name: model for model in (*self.reject, *self.accept, *self.bound_models)}
        return {name: given[name] for name in self.contrast.names}

    def min_scores(self, natural: Mapping[str, float]) -> dict[str, float]:
        """Return the minimum score by constrained model, its `batch_tolerance` above the bound.

        The last digits of a network's scores depend on the batch; with this slack the constraint
        is satisfied in any batch.
        """
        minima = dict[str, float]()
        for constraint in self.contrast.constraints:
            name = constraint.model
            minimum = constraint.minimum(natural[name]) + self.models_by_name[name].batch_tolerance
            minima[name] = max(minimum, minima.get(name, -np.inf))
        return minima


def require_distinct_models(need: str, models: Sequence[str]) -> None:
    """Refuse a model that is given twice where there is `need` of different ones."""
    for name in models:
        if models.count(name) > 1:
            raise InputError(
                f"{need} different models, got {name!r} twice; specs that differ in metric or "
                "reduction are different models"
            )


def worst_violation(
    constraints: Sequence[MinScore], natural: Mapping[str, float], scores: Mapping[str, float]
) -> tuple[MinScore | None, float]:
    """Return the constraint that scores violate by most, and by how many nats; None, 0 if none."""
    worst: tuple[MinScore | None, float] = (None, 0.0)
    for constraint in constraints:
        missing = constraint.minimum(natural[constraint.model]) - scores[constraint.model]
        if missing > worst[1]:
            worst = constraint, missing
    return worst


def require_two_words(text: str, language: Language = ENGLISH) -> None:
    """Refuse a sentence that is too short to start from.

    Raises
    ------
    InputError
        If it has one word only.
    """
    if len(language.split(text)) < 2:
        raise InputError(
            f"a sentence to start from needs at least two words, got {text!r}; leave it out"
        )


def require_feasible_start(
    sentence: Sentence, constraints: Sequence[MinScore], natural: Mapping[str, float]
) -> None:
    """Refuse a natural sentence that violates a constraint itself: edits start from it.

    Raises
    ------
    InfeasibleError
        Naming the constraint, and by how much it is violated.
    """
    violated, missing = worst_violation(constraints, natural, natural)
    if violated is not None:
        raise InfeasibleError(
            f"the natural sentence {str(sentence)!r} violates {violated} by {missing:.4g}; lower "
            "the bound, or leave the sentence out"
        )


def standard_deviations(
    models: Sequence[SentenceModel], sentences: Sequence[str]
) -> tuple[float, ...]:
    """Return the standard deviation (n - 1) of each model's scores of sentences, as `scales`.

    Raises
    ------
    InputError
        If there are not at least two sentences of different scores.

    Examples
    --------
    >>> from contstim import pool
    >>> models = [load_model("contstim:bigram"), load_model("contstim:trigram")]
    >>> [round(scale, 1) for scale in standard_deviations(models, pool())]
    [8.8, 9.3]
    """
    return tuple(standard_deviation(model.name, model.score(sentences)) for model in models)


def standard_deviation(name: str, scores: Sequence[float] | FloatArray) -> float:
    """Return the standard deviation (n - 1) of one model's scores of natural sentences."""
    deviation = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    if not deviation > 0:
        raise InputError(
            f"{len(scores)} natural sentences do not determine the standard deviation of {name!r}, "
            "by which the scores of several models compare; give more of them"
        )
    return deviation
