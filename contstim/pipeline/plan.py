"""Study plans: the models and sentences of a study, and the options of its stages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from contstim.errors import InputError
from contstim.models import split_name
from contstim.settings import PositiveInt, Seed, TupleFromList, settings, validate_pattern
from contstim.text import parse_length_range
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_options import WordOptions


@settings
class StudyOptions:
    """Table ``[study]`` of a study plan: options of the whole study.

    Attributes
    ----------
    name
        Name of the study.
    seed
        Seed of the random number generators.
    out
        Folder for the results, relative to the folder of the plan. Default: ``runs/NAME``.
    threads
        Number of PyTorch threads per worker. It can affect the last digits of the scores of neural
        networks.
    """

    name: Annotated[str, validate_pattern(r"\w[\w.-]*", "use letters, digits, '-', '_' and '.'")]
    seed: Seed = 0
    out: str | None = None
    threads: PositiveInt = 1


@settings
class SentenceOptions:
    """Table ``[sentences]`` of a study plan: the natural sentences.

    Attributes
    ----------
    file
        Text file with one sentence per line, or CSV file with a column ``sentence``. Default: the
        natural sentences that are bundled with the package.
    listed
        The sentences themselves, as an alternative to `file`.
    words
        Required number of words per sentence, for example ``8``, or a range, for example ``6-12``.
        Default: no restriction.
    limit
        Maximum number of sentences. If there are more, the first sentences are used.
    """

    file: str | None = None
    listed: TupleFromList[str] = ()
    words: str | None = None
    limit: PositiveInt | None = None

    def __post_init__(self) -> None:
        if self.listed and self.file is not None:
            raise InputError(
                f"sentences.file is {self.file!r} and sentences.listed is given, too; leave out "
                "one of them"
            )
        # Parse the number of words, for example "8" or "6-12", only to refuse invalid text early.
        if self.words is not None:
            parse_length_range(self.words)


@settings
class VocabularyOptions(WordOptions):
    """Table ``[vocabulary]`` of a study plan: words that may occur in synthetic sentences.

    Attributes
    ----------
    file
        File that lists the words. Default: the bundled vocabulary. The inherited options exclude
        some of these words.
    """

    file: str | None = None


@settings
class StageOptions:
    """Base class of stage options that depend on other tables of the study plan."""

    def check(self, plan: StudyPlan) -> None:
        """Raise an `InputError` if the options contradict other tables of the plan."""


_Options = TypeVar("_Options")


@dataclass(frozen=True)
class StudyPlan:
    """Plan of a study: the compared models, the sentences and the options of each stage.

    Attributes
    ----------
    models
        Specification strings of two or more models to compare, such as ``hf:gpt2``. Every two
        models form a pair, in which the model that is listed first is model 1. ``NAME=SPEC`` gives
        a model a name for tables and for other options.
    study, sentences, vocabulary
        Options of the study, of its natural sentences, and of the words in synthetic sentences.
    stages
        Options of the stages to execute, for example a `SynthesisOptions` object for the synthesis
        of sentences; at most one object per stage. Stages that need options are skipped if this
        attribute contains no options for them.
    folder
        Folder of the plan. Relative paths in the plan refer to it.
    loaded_vocabulary
        Words that may occur in synthetic sentences, as an alternative to `vocabulary`.
    """

    models: tuple[str, ...]
    study: StudyOptions
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    stages: tuple[Any, ...] = ()
    folder: Path = field(default_factory=Path.cwd)
    loaded_vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        # Let the options of each stage check that they agree with the rest of the plan.
        for options in self.stages:
            if isinstance(options, StageOptions):
                options.check(self)
        # A comparison needs two models. One model suffices if it only has to find sentences
        # improbable (to reject them), while lower bounds on scores keep them well-formed.
        has_reject = any(getattr(options, "reject", ()) for options in self.stages)
        if len(self.models) < 2 and not (self.models and has_reject):
            raise InputError(f"models lists {len(self.models)} model(s); give at least two specs")
        for spec in self.models:
            if self.models.count(spec) > 1:
                raise InputError(f"models lists {spec!r} twice; keep one of them")
        # Names given as NAME=SPEC must be unique, because tables identify models by name.
        names = [split_name(spec)[0] for spec in (*self.models, *self.extra_models)]
        for name in filter(None, names):
            if names.count(name) > 1:
                raise InputError(f"two models have the name {name!r}; rename one of them")

    def find_options(self, kind: type[_Options]) -> _Options | None:
        """Return the stage options of the class `kind`, or None if the plan has no such stage."""
        return next((options for options in self.stages if isinstance(options, kind)), None)

    def get_options(self, kind: type[_Options]) -> _Options:
        """Return the stage options of the class `kind`, which the plan must contain."""
        options = self.find_options(kind)
        assert options is not None
        return options

    def replace_options(self, kind: type[Any], **values: Any) -> StudyPlan:
        """Return a copy of the plan with new values for some stage options of the class `kind`."""
        stages = tuple(
            replace(options, **values) if isinstance(options, kind) else options
            for options in self.stages
        )
        return replace(self, stages=stages)

    @property
    def out(self) -> Path:
        """Folder of the run: ``study.out``, or ``runs/NAME`` beside the plan."""
        return self.folder / (self.study.out or f"runs/{self.study.name}")

    @property
    def extra_models(self) -> tuple[str, ...]:
        """Specification strings of the models that stages use but the study does not compare."""
        compared = {*self.models, *(split_name(spec)[0] for spec in self.models)}
        extra_models = dict[str, None]()
        for options in self.stages:
            used = getattr(options, "extra_models", ())
            extra_models |= dict.fromkeys(spec for spec in used if spec not in compared)
        return tuple(extra_models)

    def pairs(self) -> list[tuple[str, str]]:
        """Return all pairs of compared models by specification string, in the order of `models`."""
        return list(itertools.combinations(self.models, 2))
