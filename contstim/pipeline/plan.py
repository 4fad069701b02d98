"""Study plans: what to make, from models and sentences to trials, as one TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contstim.errors import InputError, UnknownNameError, near_matches
from contstim.pipeline.stage import (
    SentenceOptions,
    Stage,
    StudyOptions,
    StudyPlan,
    VocabularyOptions,
)
from contstim.pipeline.stages.design import DESIGN
from contstim.pipeline.stages.natural import NATURAL
from contstim.pipeline.stages.score import SCORE
from contstim.pipeline.stages.set import SET
from contstim.pipeline.stages.synthesize import SYNTHESIZE
from contstim.pipeline.stages.triplets import TRIPLETS_STAGE
from contstim.settings import build, read_toml

#: The stages in their order; one more is a file of `contstim.pipeline.stages` and a line here.
STAGES: tuple[Stage, ...] = (
    SCORE,
    NATURAL,
    SYNTHESIZE,
    TRIPLETS_STAGE,
    SET,
    DESIGN,
)

_TABLES = {"study": StudyOptions, "sentences": SentenceOptions, "vocabulary": VocabularyOptions}


def read_study_plan(path: str | Path) -> StudyPlan:
    """Read and check a study plan.

    Raises
    ------
    InputError
        Naming the file, and the key by its path; for an unknown key with near matches.
    """
    path = Path(path)
    table = read_toml(path)
    try:
        return _study_plan(table, path.resolve().parent)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _study_plan(table: Mapping[str, Any], folder: Path) -> StudyPlan:
    of_stages = {stage.key: stage.options for stage in STAGES if stage.key and stage.options}
    keys = ("models", *_TABLES, *of_stages)
    for key in table:
        if key not in keys:
            raise InputError(f"unknown key {key}; {near_matches(key, keys)}")
    models = table.get("models")
    if not isinstance(models, list) or not all(isinstance(spec, str) for spec in models):
        raise InputError(f"models is {models!r}; give a list of model specs, before any table")
    if "study" not in table:
        raise InputError("the table [study] is missing; give at least study.name")
    parts: dict[str, Any] = {
        key: build(kind, table[key], key) for key, kind in _TABLES.items() if key in table
    }
    stages = tuple(build(kind, table[key], key) for key, kind in of_stages.items() if key in table)
    return StudyPlan(models=tuple(models), stages=stages, folder=folder, **parts)


def stages_of(plan: StudyPlan, last: str | None = None) -> list[Stage]:
    """Return the stages of a study, in order; up to `last`, only those that it needs.

    Raises
    ------
    UnknownNameError
        If `last` is none of them.
    """
    there = [stage for stage in STAGES if stage.is_in(plan)]
    if last is None:
        return there
    names = [stage.name for stage in there]
    if last not in names:
        raise UnknownNameError.among("stage of this study", last, names)
    needed = {there[names.index(last)]}
    for stage in reversed(STAGES):
        if stage in needed:
            needed.update(stage.needs(plan))
    return [stage for stage in there if stage in needed]
