"""Study plans: what to make, from models and sentences to trials, as one TOML file."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contstim.errors import InputError, UnknownNameError, near_matches
from contstim.search.strategies import OPTION_OF, STRATEGIES, Strategy, strategy
from contstim.selection.design import CONDITIONS, LAYOUTS, Layout
from contstim.selection.triplets import OBJECTIVES, TIES, check_objective
from contstim.strict import build
from contstim.text.sentences import length_range

__all__ = [
    "DesignOptions",
    "NaturalOptions",
    "SentenceOptions",
    "StudyOptions",
    "StudyPlan",
    "SynthesisOptions",
    "TripletOptions",
    "VocabularyOptions",
    "read_study_plan",
]

#: How natural sentences come to the model pairs: each to one pair, or all to all.
STARTS = ("partitioned", "shared")

#: What the strata of triplets are quantiles of.
REFERENCES = ("triplets", "sentences")


def _one_of(path: str, value: str, known: Mapping[str, object] | tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownNameError(f"{path} is {value!r}; {near_matches(value, known)}")


def _at_least(path: str, value: float | None, least: float) -> None:
    if value is not None and not value >= least:
        raise InputError(f"{path} is {value}; give at least {least:g}")


@dataclass(frozen=True)
class StudyOptions:
    """``[study]``: the study's name, the seed of everything left to chance, where results go."""

    name: str
    seed: int = 0
    out: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise InputError(f"study.name is {self.name!r}; use letters, digits, '-', '_' and '.'")
        _at_least("study.seed", self.seed, 0)


@dataclass(frozen=True)
class SentenceOptions:
    """``[sentences]``: the natural sentences.

    Attributes
    ----------
    file
        One a line, or a CSV with a column ``sentence``; by default the bundled pool.
    words
        Only sentences of this many words, ``8`` or ``6-12``.
    limit
        Only the first so many of them.
    """

    file: str | None = None
    words: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.words is not None:
            length_range(self.words)
        _at_least("sentences.limit", self.limit, 1)


@dataclass(frozen=True)
class VocabularyOptions:
    """``[vocabulary]``: the words that may be written; by default the bundled ones."""

    file: str | None = None


@dataclass(frozen=True)
class SynthesisOptions:
    """``[synthesis]``: how sentences are written.

    Attributes
    ----------
    strategy, budget, inputs, candidates
        The word search; for ``bounded`` its exact scores a position and what those of a sentence
        may cost, for ``paper`` the model that sets the candidate threshold.
    starts
        ``partitioned``: the sentences are shuffled by the study's seed and shared out to the model
        pairs in turn, so that each starts one pair's triplets (as published); ``dealt`` means the
        same. ``shared``: every pair may start from every sentence, in an order of its own.
    per_pair
        At most so many start sentences a pair; by default all of its own.
    minimum_drop
        Only triplets in which each rejecting model's log-probability falls by so many nats.
    """

    strategy: str = "bounded"
    budget: int | None = None
    inputs: int | None = None
    candidates: str | None = None
    starts: str = "partitioned"
    per_pair: int | None = None
    minimum_drop: float = 0.0

    def __post_init__(self) -> None:
        if self.starts == "dealt":  # the value's name in plans written before
            object.__setattr__(self, "starts", "partitioned")
        _one_of("synthesis.strategy", self.strategy, STRATEGIES)
        _one_of("synthesis.starts", self.starts, STARTS)
        _at_least("synthesis.per_pair", self.per_pair, 1)
        _at_least("synthesis.budget", self.budget, 1)
        _at_least("synthesis.inputs", self.inputs, 1)
        _at_least("synthesis.minimum_drop", self.minimum_drop, 0)
        for option, owner in OPTION_OF.items():
            if getattr(self, option) is not None and self.strategy != owner:
                raise InputError(
                    f"synthesis.{option} is {getattr(self, option)!r}, but the strategy is "
                    f"{self.strategy!r}; only {owner!r} has this option"
                )

    @property
    def word_search(self) -> str | Strategy:
        """The strategy, as :func:`~contstim.search.search.synthesize` takes it."""
        options = {option: getattr(self, option) for option in OPTION_OF}
        if all(value is None for value in options.values()):
            return self.strategy
        return strategy(self.strategy, **options)


@dataclass(frozen=True)
class NaturalOptions:
    """``[natural]``: the choice of natural pairs; see `select_natural_pairs`.

    ``distinct_words`` leaves out sentences in which a word recurs, the vocabulary's repeatable
    words aside (as published).
    """

    per_pair: int = 10
    accept_from: float = 0.5
    reject_below: float | None = None
    distinct_words: bool = False

    def __post_init__(self) -> None:
        _at_least("natural.per_pair", self.per_pair, 1)


@dataclass(frozen=True)
class TripletOptions:
    """``[triplets]``: the choice of triplets; see `select_triplets`.

    ``reference`` says what the strata are quantiles of: the pair's own ``triplets`` (as
    published), or all natural ``sentences``.
    """

    per_pair: int = 10
    objective: str = "controversiality"
    strata: int = 10
    ties: str = "average"
    reference: str = "triplets"

    def __post_init__(self) -> None:
        _one_of("triplets.objective", self.objective, OBJECTIVES)
        _one_of("triplets.ties", self.ties, TIES)
        _one_of("triplets.reference", self.reference, REFERENCES)
        _at_least("triplets.strata", self.strata, 1)
        if self.per_pair < 1 or self.per_pair % self.strata:
            raise InputError(
                f"triplets.per_pair is {self.per_pair}, not a multiple of {self.strata} strata; "
                "change one of them"
            )


@dataclass(frozen=True)
class DesignOptions:
    """``[design]``: the layout of the experiment, a published one or its numbers.

    ``common_words`` names a file of words; all others are kept from recurring in a group.
    """

    layout: str | None = None
    groups: int | None = None
    participants: int | None = None
    random_natural: int | None = None
    catch: int | None = None
    conditions: tuple[str, ...] | None = None
    common_words: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None:
            _one_of("design.layout", self.layout, LAYOUTS)
            if self._numbers():
                key = next(iter(self._numbers()))
                raise InputError(f"design has a layout and design.{key}; give one or the other")
        for condition in self.conditions or ():
            _one_of("design.conditions", condition, CONDITIONS[:4])
        self.resolved()

    def _numbers(self) -> dict[str, Any]:
        names = ("groups", "participants", "random_natural", "catch", "conditions")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def resolved(self) -> Layout:
        """Return the layout itself."""
        return LAYOUTS[self.layout] if self.layout is not None else Layout(**self._numbers())


@dataclass(frozen=True)
class StudyPlan:
    """A study plan; a table that is left out (but for the first three) leaves out its stage.

    Attributes
    ----------
    models
        Specs of M >= 2 models; every two of them are a pair, the earlier being model 1.
    folder
        The folder of the file, to which all paths in it are relative.
    """

    models: tuple[str, ...]
    study: StudyOptions
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    natural: NaturalOptions | None = None
    synthesis: SynthesisOptions | None = None
    triplets: TripletOptions | None = None
    design: DesignOptions | None = None
    folder: Path = field(default_factory=Path.cwd)

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise InputError(f"models lists {len(self.models)} model(s); give at least two specs")
        for spec in self.models:
            if self.models.count(spec) > 1:
                raise InputError(f"models lists {spec!r} twice; keep one of them")
        if self.triplets is not None and self.synthesis is None:
            raise InputError("[triplets] needs triplets to choose from; add [synthesis]")
        if self.triplets is not None:
            check_objective(self.triplets.objective, self.models)
        if self.design is not None and self.natural is None and self.triplets is None:
            raise InputError("[design] has nothing to lay out; add [natural] or [triplets]")

    @property
    def out(self) -> Path:
        """Where results go: ``study.out``, or ``runs/NAME`` beside the file."""
        return self.folder / (self.study.out or f"runs/{self.study.name}")

    def pairs(self) -> list[tuple[str, str]]:
        """Return the model pairs, as given in the file, in order."""
        return list(itertools.combinations(self.models, 2))


_TABLES = {
    "study": StudyOptions,
    "sentences": SentenceOptions,
    "vocabulary": VocabularyOptions,
    "natural": NaturalOptions,
    "synthesis": SynthesisOptions,
    "triplets": TripletOptions,
    "design": DesignOptions,
}


def read_study_plan(path: str | Path) -> StudyPlan:
    """Read and check a study plan.

    Raises
    ------
    InputError
        Naming the file, and the key by its path; for an unknown key with near matches.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {path} as TOML: {error}") from None
    try:
        return _study_plan(table, path.resolve().parent)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _study_plan(table: Mapping[str, Any], folder: Path) -> StudyPlan:
    known = ("models", *_TABLES)
    for key in table:
        if key not in known:
            raise InputError(f"unknown key {key}; {near_matches(key, known)}")
    models = table.get("models")
    if not isinstance(models, list) or not all(isinstance(spec, str) for spec in models):
        raise InputError(f"models is {models!r}; give a list of model specs, before any table")
    if "study" not in table:
        raise InputError("the table [study] is missing; give at least study.name")
    parts: dict[str, Any] = {
        name: build(kind, table[name], name) for name, kind in _TABLES.items() if name in table
    }
    return StudyPlan(models=tuple(models), folder=folder, **parts)
