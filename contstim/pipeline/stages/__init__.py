"""What a study is made of: its plan, its stages, and a run of it.

A stage is one object: its name, its table, its part of the study plan, the stages it needs, its
tasks, and how its table is made from what is finished. It is one file of this package; the scores
of the natural sentences, which the others need, are here.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from contstim.errors import InputError
from contstim.files import json_digest
from contstim.models import split_name
from contstim.models.cache import CachedScore, package_versions
from contstim.models.registry import score_kind
from contstim.pipeline.tasks import score_tasks
from contstim.pipeline.work import ModelRecord, RunStore, StageTable, Task
from contstim.settings import (
    PositiveInt,
    Seed,
    TupleFromList,
    parse_settings,
    settings,
    validate_pattern,
)
from contstim.tables import SCORES, SPEC, UNIT
from contstim.text import parse_length_range, pool, read_sentences
from contstim.text.language import Language
from contstim.text.languages import get_language
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text.word_options import WordOptions
from contstim.text_files import format_csv_rows

if TYPE_CHECKING:
    import pandas as pd


@settings
class StudyOptions:
    """``[study]``: the study's name, and what holds for all of it.

    Attributes
    ----------
    name
        Of the study.
    seed
        Of everything left to chance.
    out
        Where results go.
    threads
        Threads of PyTorch; another number may change a network's last digits.
    """

    name: Annotated[str, validate_pattern(r"\w[\w.-]*", "use letters, digits, '-', '_' and '.'")]
    seed: Seed = 0
    out: str | None = None
    threads: PositiveInt = 1


@settings
class SentenceOptions:
    """``[sentences]``: the natural sentences.

    Attributes
    ----------
    file
        One a line, or a CSV with a column ``sentence``; by default the bundled pool.
    listed
        The sentences themselves, in place of a file.
    words
        Only sentences of this many words, ``8`` or ``6-12``.
    limit
        Only the first so many of them.
    """

    file: str | None = None
    listed: TupleFromList[str] = ()
    words: str | None = None
    limit: PositiveInt | None = None

    def __post_init__(self) -> None:
        if self.listed and self.file is not None:
            raise InputError("sentences has a file and listed ones; leave one of them out")
        if self.words is not None:
            parse_length_range(self.words)


@settings
class VocabularyOptions(WordOptions):
    """``[vocabulary]``: the words that may be written; by default the bundled ones.

    Attributes
    ----------
    file
        The words, and the options say which of them.
    """

    file: str | None = None


@settings
class StageOptions:
    """A stage's table of the study plan that must go with the rest of the plan."""

    def check(self, plan: StudyPlan) -> None:
        """Refuse what does not go with the rest of the plan."""


Options = TypeVar("Options")


@dataclass(frozen=True)
class StudyPlan:
    """A study plan; a stage whose table is left out is left out.

    Attributes
    ----------
    models
        Specs of M >= 2 models; every two of them are a pair, the earlier being model 1. With
        ``NAME=SPEC`` tables call a model NAME, and so may the plan's other tables.
    study, sentences, vocabulary
        The tables that no stage owns.
    stages
        The tables of stages: settings, at most one of each kind.
    folder
        The folder of the file, to which all paths in it are relative.
    words
        The words that may be written, where they are at hand and `vocabulary` names no file.
    """

    models: tuple[str, ...]
    study: StudyOptions
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    stages: tuple[Any, ...] = ()
    folder: Path = field(default_factory=Path.cwd)
    words: Vocabulary | None = None

    def __post_init__(self) -> None:
        for options in self.stages:
            if isinstance(options, StageOptions):
                options.check(self)
        # A single rejecting model is enough if lower bounds take the place of accepting models.
        is_directed = any(getattr(options, "reject", ()) for options in self.stages)
        if len(self.models) < 2 and not (self.models and is_directed):
            raise InputError(f"models lists {len(self.models)} model(s); give at least two specs")
        for spec in self.models:
            if self.models.count(spec) > 1:
                raise InputError(f"models lists {spec!r} twice; keep one of them")
        names = [name for spec in (*self.models, *self.further) if (name := _name(spec))]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two models are called {name!r}; give each a name of its own")

    def get(self, kind: type[Options]) -> Options | None:
        """Return the plan's table of a kind, or None."""
        return next((options for options in self.stages if isinstance(options, kind)), None)

    def table(self, kind: type[Options]) -> Options:
        """Return the plan's table of a kind, which is there."""
        options = self.get(kind)
        assert options is not None
        return options

    def changed(self, kind: type[Any], **values: Any) -> StudyPlan:
        """Return the plan with some values of one stage's table changed."""
        stages = (replace(o, **values) if isinstance(o, kind) else o for o in self.stages)
        return replace(self, stages=tuple(stages))

    @property
    def out(self) -> Path:
        """Where results go: ``study.out``, or ``runs/NAME`` beside the file."""
        return self.folder / (self.study.out or f"runs/{self.study.name}")

    @property
    def further(self) -> tuple[str, ...]:
        """The specs of models that stages name and the study does not compare."""
        named = (spec for options in self.stages for spec in getattr(options, "further", ()))
        known = {*self.models, *map(_name, self.models)}
        return tuple(dict.fromkeys(spec for spec in named if spec not in known))

    def pairs(self) -> list[tuple[str, str]]:
        """Return the model pairs, as given in the file, in order."""
        return list(itertools.combinations(self.models, 2))


def _name(spec: str) -> str:
    """Return the name that a spec as given begins with, or nothing."""
    return split_name(spec)[0]


@dataclass(eq=False)
class Run:
    """A run of a study: its inputs, and what of it is finished.

    Attributes
    ----------
    plan
        What is to be made.
    models
        For each spec as given in the plan, its model.
    versions
        Of the packages that numbers depend on.
    store
        What is finished.
    further
        Likewise the models that stages name and the study does not compare.
    known
        By stage, what it works out once.
    """

    plan: StudyPlan
    models: Mapping[str, ModelRecord]
    versions: Mapping[str, str]
    store: RunStore
    further: Mapping[str, ModelRecord] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict, init=False)

    @property
    def every(self) -> dict[str, ModelRecord]:
        """All models, by spec as given: those compared first, and by the names they were given."""
        there = {**self.models, **self.further}
        return {**there, **{name: m for spec, m in there.items() if (name := _name(spec))}}

    @classmethod
    def of(
        cls,
        plan: StudyPlan,
        store: RunStore,
        describe: Callable[[Iterable[str]], Mapping[str, ModelRecord]],
    ) -> Self:
        """Begin a run; `describe` loads the plan's models for their fingerprints.

        Raises
        ------
        InputError
            If a model, the sentences or the vocabulary cannot be read; if two specs name the
            same model.
        """
        with chdir(plan.folder):
            records = describe((*plan.further, *plan.models))
        models, further = (
            {spec: records[spec] for spec in specs} for specs in (plan.models, plan.further)
        )
        names = [model.name for model in models.values()]
        for given, model in models.items():
            if names.count(model.name) > 1:
                raise InputError(f"models lists {model.name!r} twice, once as {given!r}; keep one")
        return cls(plan, models, package_versions(), store, further)

    @cached_property
    def sentences(self) -> list[str]:
        """The natural sentences, each once, single-spaced, in the order of the file."""
        options = self.plan.sentences
        listed: Sequence[str] = options.listed or pool()
        if options.file is not None:
            listed = read_sentences(self.plan.folder / options.file)
        language = self.language
        clean = list(dict.fromkeys(map(language.normalise_spacing, listed)))
        if options.words is not None:
            least, most = parse_length_range(options.words)
            clean = [s for s in clean if least <= len(language.split(s)) <= most]
        clean = clean[: options.limit]
        if not clean:
            raise InputError(f"no sentence has {options.words} words; change sentences.words")
        return clean

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words that may be written."""
        if self.plan.words is not None:
            return self.plan.words
        options, folder = self.plan.vocabulary, self.plan.folder
        if (path := options.file) is None:
            return options.filter(bundled_vocabulary(), folder)
        words = Vocabulary.read(folder / path, language=options.language)
        return options.filter(words, folder)

    @property
    def language(self) -> Language:
        """What the vocabulary is of, and so the sentences; else what is asked for."""
        if self.plan.vocabulary.file is None and self.plan.words is None:
            return get_language(self.plan.vocabulary.language)
        return self.vocabulary.language

    @cached_property
    def vocabulary_digest(self) -> str:
        """The digest of the vocabulary, which takes a while to compute."""
        return self.vocabulary.digest

    def identity(self, given: str) -> dict[str, Any]:
        """Return what a model's scores depend on: its key in the score cache."""
        return {"model": dict(self.every[given].description), "versions": dict(self.versions)}

    def scores(self, given: str) -> Mapping[str, CachedScore]:
        """Return a model's scores, as far as they are there, by sentence."""
        return self.store.scores.read(self.identity(given))

    def log_probs(self, further: Sequence[str] = ()) -> pd.DataFrame:
        """Return log-probabilities, nats, NaN where not there: a column per model.

        The rows are the natural sentences, and then `further` ones.
        """
        import pandas as pd  # which syntheses alone do without

        columns = {
            model.name: pd.Series(
                {s: row.score for s, row in self.scores(given).items()}, dtype="float64"
            ).reindex([*self.sentences, *further])
            for given, model in self.models.items()
        }
        return pd.DataFrame(columns)

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The columns of tables of scores, as `contstim score` has them."""
        return (*SCORES, UNIT, *[SPEC] * self._has_names)

    def stated(self, model: ModelRecord) -> tuple[str, ...]:
        """Return what the rows of a model end in: its unit, and its spec where one has a name."""
        return (score_kind(model.spec).unit, *[model.spec] * self._has_names)

    @property
    def _has_names(self) -> bool:
        return any(model.name != model.spec for model in self.models.values())

    def n_tokens(self, further: Sequence[str] = ()) -> pd.DataFrame:
        """Return numbers of tokens, NaN where not known; rows and columns as of `log_probs`."""
        import pandas as pd  # which syntheses alone do without

        columns = {
            model.name: pd.Series(
                {s: row.n_tokens or float("nan") for s, row in self.scores(given).items()},
                dtype="float64",
            ).reindex([*self.sentences, *further])
            for given, model in self.models.items()
        }
        return pd.DataFrame(columns)

    def features(self, file: str | None) -> pd.DataFrame | None:
        """Return the columns of sentences in a file that a table of the plan names."""
        if file is None:
            return None
        from contstim.selection.scores import read_features  # only selections look at features

        return read_features(self.plan.folder / file)

    def table(self, stage: Stage) -> StageTable:
        """Return the place of a stage's table."""
        return StageTable(self.store.folder / stage.file)


class Stage(ABC):
    """One stage of a study.

    Attributes
    ----------
    name
        Its name, for ``--stage``.
    file
        The table that it leaves in the run's folder.
    key, options
        Its table of the study plan and what that is read into; a stage without is always there.
    """

    name: ClassVar[str]
    file: ClassVar[str]
    key: ClassVar[str | None] = None
    options: ClassVar[type[Any] | None] = None

    def read(self, table: object) -> Any:
        """Return the options that the stage's table of a study plan holds.

        Raises
        ------
        InputError
            Naming what is wrong by its path.
        """
        assert self.options is not None
        return parse_settings(self.options, table, self.key or self.name)

    def is_in(self, plan: StudyPlan) -> bool:
        """Return whether the plan has the stage."""
        return self.options is None or plan.get(self.options) is not None

    def words(self, plan: StudyPlan) -> str:
        """Return what the plan has done by the stage, in whole sentences; nothing if it adds none.

        Every number is of the plan, or what it leaves to its default.
        """
        return ""

    def rows(self, plan: StudyPlan) -> int:
        """Return how many pairs or triplets the plan has the stage choose; 0 for none."""
        return 0

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        """Return the stages, of the plan or not, whose results the stage is made from."""
        return ()

    def check(self, run: Run) -> None:  # noqa: B027 - most stages refuse nothing
        """Refuse, before anything is done, what cannot be done; the models can be loaded.

        Raises
        ------
        ContstimError
            Naming what is wrong.
        """

    def tasks(self, run: Run) -> list[Task]:
        """Return the tasks, as far as they are known from those that are finished."""
        return []

    def expected(self, run: Run) -> int:
        """Return how many tasks there will be at least, where they are known a few at a time."""
        return 0

    def later(self, run: Run) -> float:
        """Return the seconds of one worker that tasks will take of which none is known yet."""
        return 0.0

    @abstractmethod
    def inputs(self, run: Run) -> Any:
        """Return all that the table depends on besides versions and the stage's options."""

    @abstractmethod
    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        """Return the table as CSV, in the order of the plan, and notes on it.

        Raises
        ------
        ContstimError
            If what there is does not suffice for the stage; the message says why.
        """

    def _all_inputs(self, run: Run) -> Any:
        options = None if self.options is None else asdict(run.plan.table(self.options))
        return [dict(run.versions), options, self.inputs(run)]

    def holds(self, run: Run) -> bool:
        """Return whether the table is there and up to date."""
        return run.table(self).holds(self._all_inputs(run))

    def write(self, run: Run) -> None:
        """Make the table and put it in place."""
        text, notes = self.make(run)
        run.table(self).write(text, self._all_inputs(run), notes)


def notes_of(table: pd.DataFrame) -> dict[str, Any]:
    """Return what a selection says of itself."""
    return {str(name): value for name, value in table.attrs.items()}


class _Score(Stage):
    name = "score"
    file = "scores.csv"

    def words(self, plan: StudyPlan) -> str:
        options, models = plan.sentences, ", ".join(plan.models)
        source = options.file or (
            f"the {len(options.listed)} listed" if options.listed else "contstim's own pool"
        )
        length = "" if options.words is None else f", of {options.words} words"
        limit = "" if options.limit is None else f", the first {options.limit} of them"
        further = f" Further models: {', '.join(plan.further)}." if plan.further else ""
        return (
            f"{len(plan.models)} models are compared: {models}.{further} Natural sentences are "
            f"those of {source}{length}{limit}; every model scores each."
        )

    def tasks(self, run: Run) -> list[Task]:
        models = [*run.models.values(), *run.further.values()]
        return [*score_tasks(models, run.sentences, run.versions)]

    def inputs(self, run: Run) -> Any:
        return json_digest(list(self._rows(run)))

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        rows = list(self._rows(run))
        models = [run.identity(given) for given in run.models]
        missing = len(models) * len(run.sentences) - len(rows)
        return format_csv_rows(run.score_columns, rows), {"missing": missing, "models": models}

    @staticmethod
    def _rows(run: Run) -> Iterator[tuple[object, ...]]:
        for given, model in run.models.items():
            scores, stated = run.scores(given), run.stated(model)
            for sentence in run.sentences:
                if sentence in scores:
                    yield (sentence, model.name, *scores[sentence], *stated)


SCORE = _Score()
