"""Stages of a study, and the state of a run.

Each stage of a study reads the tables of other stages, executes tasks and writes one table. The
modules of this package define one stage each.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from contstim.columns import SCORES, SPEC, UNIT
from contstim.errors import InputError
from contstim.models import split_name
from contstim.models.cache import CachedScore, package_versions
from contstim.models.registry import score_kind
from contstim.pipeline.model_records import ModelRecord
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.store import RunStore, StageTable
from contstim.pipeline.tasks import Task
from contstim.text import parse_length_range, pool, read_sentences
from contstim.text.language import Language
from contstim.text.languages import get_language
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary


@dataclass(eq=False)
class Run:
    """Run of a study, with its plan, its models and the results so far.

    Attributes
    ----------
    plan
        Models, sentences and options of the study.
    models
        Mapping from specification string, for example ``hf:gpt2``, to a record that identifies the
        model. It contains the models that the study compares.
    versions
        Mapping from package name to version, for all packages that results depend on.
    store
        Folder with the results of finished tasks.
    extra_models
        Mapping from specification string to record, for models that the study uses but does not
        compare.
    stage_data
        Mapping from the name of a stage to data that the stage creates once and uses again later in
        the run.
    """

    plan: StudyPlan
    models: Mapping[str, ModelRecord]
    versions: Mapping[str, str]
    store: RunStore
    extra_models: Mapping[str, ModelRecord] = field(default_factory=dict)
    stage_data: dict[str, Any] = field(default_factory=dict, init=False)

    @classmethod
    def from_plan(
        cls,
        plan: StudyPlan,
        store: RunStore,
        describe_models: Callable[[Iterable[str]], Mapping[str, ModelRecord]],
    ) -> Self:
        """Create a run from a study plan, with a record that identifies each model.

        Parameters
        ----------
        plan
            Models, sentences and options of the study.
        store
            Folder for the results of tasks.
        describe_models
            Function that loads models and returns a mapping from specification string to record,
            for example `contstim.pipeline.engine.Executor.describe_models`.

        Raises
        ------
        InputError
            If a model cannot be loaded, or if two specification strings describe the same model.
        """
        with chdir(plan.folder):
            records = describe_models((*plan.extra_models, *plan.models))
        models = {spec: records[spec] for spec in plan.models}
        extra_models = {spec: records[spec] for spec in plan.extra_models}
        # Refuse two specification strings that describe the same model.
        names = [model.name for model in models.values()]
        for spec, model in models.items():
            if names.count(model.name) > 1:
                raise InputError(f"models lists {model.name!r} twice, once as {spec!r}; keep one")
        return cls(plan, models, package_versions(), store, extra_models)

    @property
    def all_models(self) -> dict[str, ModelRecord]:
        """Mapping from specification string, and from name in the plan, to the model's record."""
        by_spec = {**self.models, **self.extra_models}
        by_name = {split_name(spec)[0]: model for spec, model in by_spec.items()}
        return by_spec | {name: model for name, model in by_name.items() if name}

    @cached_property
    def sentences(self) -> list[str]:
        """Natural sentences of the study with normalised spacing, without duplicates.

        The plan lists the sentences or names a file; otherwise, the bundled sentences are used.

        Raises
        ------
        InputError
            If no sentence has the required number of words.
        """
        options, language = self.plan.sentences, self.language
        # The sentences are in a file, listed in the plan, or those bundled with the package.
        texts: Sequence[str] = options.listed or pool()
        if options.file is not None:
            texts = read_sentences(self.plan.folder / options.file)
        # Remove duplicates, which may differ in their spacing, but keep the order.
        sentences = list(dict.fromkeys(map(language.normalise_spacing, texts)))
        if options.words is not None:
            shortest, longest = parse_length_range(options.words)
            sentences = [s for s in sentences if shortest <= len(language.split(s)) <= longest]
        if not sentences:
            raise InputError(f"no sentence has {options.words} words; change sentences.words")
        return sentences[: options.limit]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Words of synthetic sentences."""
        if self.plan.loaded_vocabulary is not None:
            return self.plan.loaded_vocabulary
        # Otherwise, read a file or use the bundled vocabulary. The options exclude some words.
        options, folder = self.plan.vocabulary, self.plan.folder
        if options.file is None:
            return options.filter(bundled_vocabulary(), folder)
        words = Vocabulary.read(folder / options.file, language=options.language)
        return options.filter(words, folder)

    @property
    def language(self) -> Language:
        """Language of the sentences: the language of a custom vocabulary or of the options."""
        if self.plan.vocabulary.file is None and self.plan.loaded_vocabulary is None:
            return get_language(self.plan.vocabulary.language)
        return self.vocabulary.language

    def read_scores(self, spec: str) -> Mapping[str, CachedScore]:
        """Return a mapping from sentence to its score under a model, for all scores so far.

        Parameters
        ----------
        spec
            Specification string or name of the model in the plan.
        """
        return self.store.score_cache.read(self.all_models[spec].identity(self.versions))

    @property
    def score_columns(self) -> tuple[str, ...]:
        """Columns of tables of scores, as in ``contstim score``."""
        return (*SCORES, UNIT, SPEC) if self._has_names else (*SCORES, UNIT)

    def score_rows(self, sentences: Collection[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table with the score of each sentence under each compared model.

        The rows are sorted by model, then by sentence. Sentences without a score are left out.

        Parameters
        ----------
        sentences
            Sentences to include in the table.

        Yields
        ------
        tuple
            Values of one row, in the order of the columns `score_columns`.
        """
        for spec, model in self.models.items():
            scores = self.read_scores(spec)
            # The last columns are the unit of the scores and, if a model has a custom name, the
            # specification strings of the models.
            model_values = [score_kind(model.spec).unit]
            if self._has_names:
                model_values.append(model.spec)
            for sentence in sentences:
                if sentence in scores:
                    yield (sentence, model.name, *scores[sentence], *model_values)

    @property
    def _has_names(self) -> bool:
        return any(model.name != model.spec for model in self.models.values())

    def get_table(self, stage: Stage) -> StageTable:
        """Return the table of a stage."""
        return StageTable(self.store.folder / stage.file)


@dataclass(frozen=True)
class StageStatus:
    """Progress of a stage, a part of a study that executes tasks and writes one table.

    Attributes
    ----------
    stage
        Name of the stage.
    n_tasks
        Number of tasks; a lower bound until all tasks are known.
    n_done
        Number of tasks whose result is stored.
    errors
        Error messages of the tasks that failed and are not tried again.
    table_state
        State of the table: ``up to date``, ``out of date`` or ``not made``.
    remaining_seconds
        Expected duration of the remaining tasks with one worker. None if it is unknown.
    """

    stage: str
    n_tasks: int
    n_done: int
    errors: tuple[str, ...]
    table_state: str
    remaining_seconds: float | None


class Stage(ABC):
    """Base class of the stages of a study, each of which executes tasks and writes one table.

    Attributes
    ----------
    name
        Name of the stage, for example ``synthesis``.
    file
        File name of the table in the folder of the run.
    key
        Name of the table of options in the study plan (TOML file). None if the stage has no
        options; it is then part of every study.
    options
        Class to which this table of options is converted. None if the stage has no options.
    """

    name: ClassVar[str]
    file: ClassVar[str]
    key: ClassVar[str | None] = None
    options: ClassVar[type[Any] | None] = None

    def is_in(self, plan: StudyPlan) -> bool:
        """Return whether the stage is part of a study."""
        return self.options is None or plan.find_options(self.options) is not None

    def describe(self, plan: StudyPlan) -> str:
        """Describe the stage in full sentences, for the preregistration of a study.

        The text contains all numbers of the plan. It is empty if the stage needs no description.
        """
        return ""

    def count_rows(self, plan: StudyPlan) -> int:
        """Return the number of pairs or triplets that the stage selects, which may be 0."""
        return 0

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        """Return the stages on which this stage depends, whether or not the plan contains them."""
        return ()

    def check(self, run: Run) -> None:  # noqa: B027 - most stages have nothing to check
        """Check, before any task is executed, that the stage can succeed.

        Raises
        ------
        ContstimError
            If the options contradict the models or the sentences.
        """

    def tasks(self, run: Run) -> list[Task]:
        """Return all tasks that are known so far. Their results can lead to further tasks."""
        return []

    def count_expected_tasks(self, run: Run) -> int:
        """Return a lower bound on the number of tasks, for the progress bar.

        It is needed if not all tasks are known from the start.
        """
        return 0

    @abstractmethod
    def collect_inputs(self, run: Run) -> Any:
        """Collect everything on which the table depends, as JSON values.

        The values decide whether the table is up to date: it is made again only if they change.
        Versions and options need not be included, because they are added for all stages.
        """

    @abstractmethod
    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        """Return the table as CSV text, and notes on it as JSON values.

        Raises
        ------
        ContstimError
            If the results do not suffice for the table.
        """

    def _collect_all_inputs(self, run: Run) -> Any:
        options = None if self.options is None else asdict(run.plan.get_options(self.options))
        return [dict(run.versions), options, self.collect_inputs(run)]

    def is_current(self, run: Run) -> bool:
        """Return whether the table exists and is up to date."""
        return run.get_table(self).is_current(self._collect_all_inputs(run))

    def write_table(self, run: Run) -> None:
        """Make the table and write it to the folder of the run."""
        text, notes = self.make_table(run)
        run.get_table(self).write(text, self._collect_all_inputs(run), notes)

    def compute_status(self, run: Run) -> StageStatus:
        """Return the progress of the stage: numbers of tasks, errors and the state of its table.

        Parameters
        ----------
        run
            Run of the study, from which the results of finished tasks are read.
        """
        tasks = self.tasks(run)
        missing = run.store.find_missing(tasks)
        errors = [f"{task}: {error}" for task in missing if (error := run.store.read_error(task))]
        missing_keys = {task.key for task in missing}
        # Durations of the finished tasks, in seconds.
        durations = run.store.read_durations(t for t in tasks if t.key not in missing_keys)

        table = "not made"
        if not missing and self.is_current(run):
            table = "up to date"
        elif run.get_table(self).path.exists():
            table = "out of date"

        # While results are missing, further tasks may become known.
        n_done, n_tasks = len(tasks) - len(missing), len(tasks)
        if missing:
            n_tasks = max(n_tasks, self.count_expected_tasks(run))
        # The remaining time is unknown until the first task has ended.
        remaining_seconds = None
        if durations:
            remaining_seconds = statistics.fmean(durations) * (n_tasks - n_done)
        return StageStatus(self.name, n_tasks, n_done, tuple(errors), table, remaining_seconds)
