"""What a synthetic sentence is wanted for: a loss to lower and scores to keep, over any models.

The problem of one rejecting and one accepting model is Eq. 2 of Golan et al. (2023), section 4.6:
minimise log p_reject(s) subject to log p_accept(s) >= log p_accept(n), for a natural sentence n.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.base import SentenceModel
from contstim.text import Sentence
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH


@dataclass(frozen=True)
class Objective(ABC):
    """A loss to lower, made of the scores of some models; write your own as a frozen dataclass.

    The loss must not fall when a score rises: a sentence is the better, the less its models find
    in it.

    Attributes
    ----------
    models
        Specs of the models whose scores it reads.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class SumOfFalls(Objective):
    ...     def loss(self, scores, natural):
    ...         return sum(scores[name] - natural[name] for name in self.models)
    >>> SumOfFalls(("a", "b")).of_one({"a": -42.0, "b": -33.0}, {"a": -30.0, "b": -30.0})
    -15.0
    """

    models: tuple[str, ...]

    @classmethod
    def of(cls, models: tuple[str, ...], scales: tuple[float, ...] = ()) -> Objective:
        """Return the loss of some rejecting models.

        Parameters
        ----------
        models
            Their specs.
        scales
            By how much each one's scores of natural sentences vary; none for one model, whose loss
            is in nats.
        """
        return cls(models)

    @abstractmethod
    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the loss of each sentence; lower is better.

        Parameters
        ----------
        scores
            By model, the sentences' scores: arrays of one shape, finite.
        natural
            By model, the score of the natural sentence; a model of a constraint is among them.

        Returns
        -------
        array
            Of the shape of the scores.
        """

    def of_one(self, scores: Mapping[str, float], natural: Mapping[str, float]) -> float:
        """Return the loss of one sentence, of whose scores there may be more than it reads."""
        own = {name: np.array([scores[name]]) for name in self.models}
        return float(self.loss(own, natural)[0])

    @property
    def weights(self) -> Mapping[str, float] | None:
        """By model, w in loss = sum of w (score - natural); None for a loss of another form.

        Guided searches know the distribution of such a loss in closed form; that of others they
        sample.
        """
        return None

    @property
    def parts(self) -> Sequence[Mapping[str, float]] | None:
        """Weights as in `weights` of each part, for a loss that is the greatest of some parts.

        None for a loss of another form. Searches that look further than a word at a time, and
        certificates, go by the parts.
        """
        return None if self.weights is None else (self.weights,)


@dataclass(frozen=True, repr=False)
class Fall(Objective):
    """How far its models' scores have fallen, on average: the loss of Eq. 2 for one model.

    Attributes
    ----------
    scales
        What counts as a fall by one, of each model, such as the standard deviations of their
        scores of natural sentences; by default 1, one nat.

    Raises
    ------
    InputError
        If there are not as many scales as models, or one is not above 0.

    Examples
    --------
    >>> Fall(("contstim:gpt",)).of_one({"contstim:gpt": -42.0}, {"contstim:gpt": -30.0})
    -12.0
    """

    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.scales and len(self.scales) != len(self.models):
            raise InputError(
                f"{len(self.models)} rejecting models have {len(self.scales)} scales; give one each"
            )
        for name, scale in zip(self.models, self.scales, strict=False):
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of {name!r} is {scale}; give a number above 0")

    @classmethod
    def of(cls, models: tuple[str, ...], scales: tuple[float, ...] = ()) -> Objective:
        """Return the loss of some rejecting models.

        Raises
        ------
        InputError
            If they are several and have no scales.
        """
        if len(models) > 1 and not scales:
            raise InputError(
                f"{len(models)} rejecting models need scales, by which their falls compare; "
                "give the standard deviations of their scores of natural sentences"
            )
        return cls(models, scales)

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the mean over models of (score(s) - score(n)) / scale."""
        first, *others = (w * (scores[name] - natural[name]) for name, w in self._shares.items())
        return sum(others, start=first)

    @property
    def weights(self) -> Mapping[str, float] | None:
        """Each model's share, over its scale."""
        return self._shares

    @property
    def _scale(self) -> dict[str, float]:
        return dict(zip(self.models, self.scales or (1.0,) * len(self.models), strict=True))

    @property
    def _shares(self) -> dict[str, float]:
        return {name: 1.0 / len(self.models) / scale for name, scale in self._scale.items()}

    def __repr__(self) -> str:
        scales = f", scales={self.scales}" if self.scales else ""
        return f"{type(self).__name__}(models={self.models}{scales})"


@dataclass(frozen=True, repr=False)
class LeastFall(Fall):
    """How far the score has fallen that has fallen least: every model is to reject the sentence.

    Examples
    --------
    >>> natural, scores = {"a": -30.0, "b": -30.0}, {"a": -42.0, "b": -33.0}
    >>> LeastFall(("a", "b"), scales=(6.0, 6.0)).of_one(scores, natural)
    -0.5
    >>> Fall(("a", "b"), scales=(6.0, 6.0)).of_one(scores, natural)
    -1.25
    """

    @classmethod
    def of(cls, models: tuple[str, ...], scales: tuple[float, ...] = ()) -> Objective:
        """Return the loss of some rejecting models: of one alone, its fall."""
        return super().of(models, scales) if len(models) > 1 else Fall(models, scales)

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the maximum over models of (score(s) - score(n)) / scale."""
        changes = [(scores[name] - natural[name]) / scale for name, scale in self._scale.items()]
        return np.asarray(np.max(changes, axis=0))

    @property
    def weights(self) -> None:
        """None: the loss is no sum over models."""
        return None

    @property
    def parts(self) -> Sequence[Mapping[str, float]]:
        """Each model's fall."""
        return [{name: 1.0 / scale} for name, scale in self._scale.items()]


@dataclass(frozen=True)
class Constraint(ABC):
    """A lower bound on one model's score; write your own as a frozen dataclass.

    Attributes
    ----------
    model
        The model's spec.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class HalfAgain(Constraint):
    ...     def minimum(self, natural, n_words):
    ...         return 1.5 * natural
    >>> HalfAgain("contstim:gpt").minimum(natural=-30.0, n_words=8)
    -45.0
    """

    model: str
    #: Whether it says that the model is to accept the sentence, not only to let it pass.
    accepts: ClassVar[bool] = False

    @abstractmethod
    def minimum(self, natural: float, n_words: int) -> float:
        """Return the least score a sentence may have.

        Parameters
        ----------
        natural
            The model's score of the natural sentence.
        n_words
            How many words that has, and so every sentence made of it.
        """


@dataclass(frozen=True)
class Accepted(Constraint):
    """The model finds the sentence no less probable than the natural one, but for `margin` nats.

    Examples
    --------
    >>> str(Accepted("contstim:gpt", margin=2.0))
    'contstim:gpt>=natural-2'
    >>> Accepted("contstim:gpt", margin=2.0).minimum(natural=-30.0, n_words=8)
    -32.0
    """

    margin: float = 0.0
    accepts: ClassVar[bool] = True

    def minimum(self, natural: float, n_words: int) -> float:
        """Return score(n) - margin."""
        return natural - self.margin

    def __str__(self) -> str:
        return (
            f"{self.model}>=natural{-self.margin:+g}" if self.margin else f"{self.model}>=natural"
        )


@dataclass(frozen=True)
class Floor(Constraint):
    """The model's score stays above a value, whether or not it has another part in the problem.

    Attributes
    ----------
    value
        The value, nats; if `natural`, what is added to the natural sentence's score, below 0.
    natural
        Whether the value counts from the natural sentence's score.
    per_word
        Whether scores are divided by the number of words. (For a floor per token, name the model
        with ``reduction=mean``.)

    Examples
    --------
    >>> str(Floor("contstim:gpt", -2.0, natural=True))
    'contstim:gpt>=natural-2'
    """

    value: float
    natural: bool = False
    per_word: bool = False

    def minimum(self, natural: float, n_words: int) -> float:
        """Return the value, times the words if it is per word, from score(n) if that counts."""
        value = self.value * n_words if self.per_word else self.value
        return natural + value if self.natural else value

    def __str__(self) -> str:
        natural = f"natural{self.value:+g}" if self.value else "natural"
        value = natural if self.natural else f"{self.value:g}"
        return f"{self.model}{'/word' if self.per_word else ''}>={value}"


@dataclass(frozen=True)
class Edits:
    """What of the natural sentence may change; positions are those of its words, from 0.

    Attributes
    ----------
    most
        How many words may differ from the natural sentence's, at most; None: any number. One
        makes minimal pairs.
    fixed
        Positions whose words stay.
    changed
        Positions whose words must differ from the natural sentence's.
    words
        Positions with the words that may stand there in place of the vocabulary's.
    agree
        Whether neighbours must go together as the language has it (``a`` and ``an``), but for
        those of the natural sentence.
    same_tokens
        Whether each model that cuts words into tokens must have as many of the sentence as of the
        natural one: what models disagree about is then not how they cut it.

    Raises
    ------
    InputError
        If a position is negative, given twice, or both fixed and to be changed, if fewer changes
        are allowed than positions must change, or if a list of words is empty.

    Examples
    --------
    >>> from contstim import load_model, problem_of
    >>> models = [load_model("contstim:bigram")], [load_model("contstim:trigram")]
    >>> problem_of(*models, edits=Edits(most=1)).edits.most
    1
    """

    most: int | None = None
    fixed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    words: tuple[tuple[int, tuple[str, ...]], ...] = ()
    agree: bool = False
    same_tokens: bool = False

    def __post_init__(self) -> None:
        for kind, positions in self._given.items():
            for position in positions:
                if position < 0:
                    raise InputError(f"position {position} ({kind}) is negative; count from 0")
                if positions.count(position) > 1:
                    raise InputError(f"position {position} is given twice as {kind}; once will do")
                if kind != "fixed" and position in self.fixed:
                    raise InputError(f"position {position} is both fixed and {kind}; choose one")
        if self.most is not None and self.most < max(1, len(self.changed)):
            raise InputError(
                f"at most {self.most} words may change, but {max(1, len(self.changed))} must; "
                "allow more"
            )
        for position, words in self.words:
            for word in words or ("",):
                if not word or word.split() != [word] or split_word(word)[1] != word:
                    raise InputError(
                        f"the words for position {position} hold {word!r}; list words without "
                        "white space or the punctuation around them"
                    )

    @property
    def _given(self) -> dict[str, tuple[int, ...]]:
        listed = tuple(position for position, _ in self.words)
        return {"fixed": self.fixed, "to be changed": self.changed, "with words": listed}

    def check(self, natural: Sentence) -> None:
        """Refuse positions that a sentence does not have.

        Raises
        ------
        InputError
            Naming the position.
        """
        for kind, positions in self._given.items():
            for position in positions:
                if position >= len(natural):
                    raise InputError(
                        f"position {position} ({kind}) is beyond the end of {str(natural)!r}; "
                        f"its {len(natural)} words have positions 0 to {len(natural) - 1}"
                    )

    def limited_to(self, words: Mapping[int, tuple[str, ...]]) -> Edits:
        """Return the edits with words for positions that have none yet; without any they stay."""
        listed = dict(self.words)
        open_ = {p: own for p, own in words.items() if p not in listed and p not in self.fixed}
        return replace(
            self,
            fixed=(*self.fixed, *(p for p, own in open_.items() if not own)),
            words=(*self.words, *((p, own) for p, own in open_.items() if own)),
        )

    def kept(self, natural: Sentence, sentence: Sentence) -> bool:
        """Return whether a sentence changes no more of the natural one than it may, and enough."""
        differs = self.differences(natural, sentence)
        return (
            (self.most is None or len(differs) <= self.most)
            and not differs.intersection(self.fixed)
            and differs.issuperset(self.changed)
            and (not self.agree or set(sentence.disagreements) <= set(natural.disagreements))
        )

    @staticmethod
    def differences(natural: Sentence, sentence: Sentence) -> set[int]:
        """Return the positions at which two sentences of one length have different words."""
        pairs = zip(natural.words, sentence.words, strict=True)
        return {position for position, (old, new) in enumerate(pairs) if old != new}


@dataclass(frozen=True)
class Problem:
    """An objective to lower and constraints to keep, over any number of models.

    Attributes
    ----------
    models
        Every model that the objective or a constraint names, in any order.
    objective, constraints
        What is wanted.
    edits
        What of the natural sentence may change.

    Raises
    ------
    InputError
        If a model is missing, given twice or without a part in the problem.

    Examples
    --------
    >>> from contstim import load_model
    >>> problem = Problem.pair(load_model("contstim:bigram"), load_model("contstim:trigram"))
    >>> problem.constraints
    (Accepted(model='contstim:trigram', margin=0.0),)
    """

    models: tuple[SentenceModel, ...]
    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    edits: Edits = field(default_factory=Edits)

    def __post_init__(self) -> None:
        if not self.objective.models:
            raise InputError(f"{self.objective} reads the score of no model; name at least one")
        given = [model.name for model in self.models]
        for name in self.names:
            if name not in given:
                raise InputError(
                    f"the problem speaks of the model {name!r} but has {', '.join(given) or 'none'}"
                    "; add it to models"
                )
        for model in self.models:
            if given.count(model.name) > 1:
                raise InputError(f"the problem has the model {model.name!r} twice; give it once")
            if model.name not in self.names:
                raise InputError(
                    f"neither objective nor constraints speak of the model {model.name!r}; leave "
                    "it out"
                )

    @classmethod
    def pair(cls, reject: SentenceModel, accept: SentenceModel) -> Problem:
        """Return the problem of Eq. 2: `reject` finds the sentence improbable, `accept` does not.

        Raises
        ------
        InputError
            If both are one model, and as `Problem`.
        """
        check_different("a synthesis needs two", (reject.name, accept.name))
        return cls((reject, accept), Fall((reject.name,)), (Accepted(accept.name),))

    @property
    def names(self) -> tuple[str, ...]:
        """The models' specs, those of the objective first."""
        constrained = (constraint.model for constraint in self.constraints)
        return tuple(dict.fromkeys((*self.objective.models, *constrained)))

    @property
    def accepting(self) -> tuple[str, ...]:
        """The specs of the models that are to accept the sentence."""
        return tuple(dict.fromkeys(c.model for c in self.constraints if c.accepts))

    @property
    def by_name(self) -> dict[str, SentenceModel]:
        """The models by spec, in the order of `names`."""
        given = {model.name: model for model in self.models}
        return {name: given[name] for name in self.names}

    @property
    def at_once(self) -> bool:
        """Whether all models know the scores of a whole vocabulary at once, as n-grams do."""
        return all(model.at_once for model in self.models)

    def minima(self, natural: Mapping[str, float], n_words: int) -> dict[str, float]:
        """Return the least score by constrained model, its `resolution` above what is asked for.

        Scores of a network move in the last digits with the batch they stand in; with that much
        to spare a constraint holds in any batch.
        """
        models, least = self.by_name, dict[str, float]()
        for constraint in self.constraints:
            name = constraint.model
            minimum = constraint.minimum(natural[name], n_words) + models[name].resolution
            least[name] = max(minimum, least.get(name, -np.inf))
        return least

    def __str__(self) -> str:
        edits = () if self.edits == Edits() else (self.edits,)
        return "; ".join(map(repr, (self.objective, *self.constraints, *edits)))


def check_different(need: str, models: Sequence[str]) -> None:
    """Refuse a model that is given twice, by its spec, where there is `need` of different ones."""
    for name in models:
        if models.count(name) > 1:
            raise InputError(
                f"{need} different models, got {name!r} twice; specs that differ in metric or "
                "reduction are different models"
            )


def most_broken(
    constraints: Sequence[Constraint],
    natural: Mapping[str, float],
    scores: Mapping[str, float],
    n_words: int,
) -> tuple[Constraint | None, str]:
    """Return the constraint that scores break by most, and by how much; (None, "0") if none.

    The amount is in the constraint's unit, nats per word for a floor per word.
    """
    worst: Constraint | None = None
    most = 0.0
    for constraint in constraints:
        missed = constraint.minimum(natural[constraint.model], n_words) - scores[constraint.model]
        if missed > most:
            worst, most = constraint, missed
    if isinstance(worst, Floor) and worst.per_word:
        return worst, f"{most / n_words:.4g} a word"
    return worst, f"{most:.4g}"


def check_start(text: str, language: Language = ENGLISH) -> None:
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


def check_natural(
    sentence: Sentence, constraints: Sequence[Constraint], natural: Mapping[str, float]
) -> None:
    """Refuse a natural sentence that breaks a constraint itself: searches begin at it.

    Raises
    ------
    InfeasibleError
        Naming the constraint, and by how much it is broken.
    """
    broken, missed = most_broken(constraints, natural, natural, len(sentence))
    if broken is not None:
        raise InfeasibleError(
            f"the natural sentence {str(sentence)!r} breaks {broken} by {missed}; ask for less, or "
            "leave the sentence out"
        )
