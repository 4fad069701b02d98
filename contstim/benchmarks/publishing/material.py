"""What there is to publish: of a study folder with its data, or of a table of choices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.benchmarks.publishing.privacy import OF_STUDIES, Privacy
from contstim.errors import InputError, NoDataError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.importers import read_choices
from contstim.experiment.adaptive import scores_path
from contstim.experiment.collected import Collected, read_collected, recruiter_ids
from contstim.experiment.exporting import DESCRIBED, Column, data_dictionary
from contstim.experiment.study import Study, read_study
from contstim.selection.scores import read_score_table
from contstim.tables import UNIT, read_table

# Where an answer is of fewer people, counts are not given.
_FEW = 5
_OF_TABLES = {
    "item": Column("the item that the sentences are of"),
    "expected": Column("which sentence is right, 1 or 2, where one is", "integer", levels=(1, 2)),
    "trial": Column("number of the trial in the participant's order"),
    "stimulus": Column("number of the sentences in the design", "integer", least=1),
}


@dataclass(frozen=True)
class Material:
    """What there is to publish.

    Attributes
    ----------
    human
        The choices, with scores if there are any.
    privacy
        Knows identifiers, and lists what is removed.
    title, description, language, name
        As far as they are stated.
    people
        Sentences on who took part.
    warning
        The content warning that participants were shown.
    others
        Columns that are published besides `PUBLISHED`: of studies, and of the design.
    columns
        What columns hold.
    pool
        Further sentences that are published with their scores.
    files
        Further texts, by their paths in the folder.
    """

    human: HumanData
    privacy: Privacy
    name: str = ""
    title: str = ""
    description: str = ""
    language: str = "en"
    people: tuple[str, ...] = ()
    warning: str = ""
    others: tuple[str, ...] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    pool: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def table_material(human: HumanData) -> Material:
    """Return what a table of choices has to publish.

    Examples
    --------
    >>> from contstim import datasets
    >>> table_material(read_choices(datasets.simulated_choices())).people
    ('30 participants are in the table of choices.',)
    """
    n = human.choices["participant"].nunique()
    people = [f"{n} participants are in the table of choices."]
    if left_out := len({*human.excluded["participant"]} - {*human.choices["participant"]}):
        people.append(f"{left_out} more were left out while it was read.")
    described = {**DESCRIBED, **_OF_TABLES}
    other = Column("a column of the table")
    columns = {str(name): described.get(str(name), other) for name in human.choices}
    return Material(human, Privacy(), people=tuple(people), columns=columns)


def study_material(folder: str | Path, data: Path | None = None) -> Material:
    """Return what a study folder has to publish: the choices of all who answered every trial.

    Parameters
    ----------
    folder
        The study folder.
    data
        The data file; by default in the folder.

    Raises
    ------
    NoDataError
        If nobody has answered every trial.
    InputError
        If the study or its data cannot be read, or it does not ask about pairs of sentences.

    Examples
    --------
    >>> study_material("my-study").people[0]  # doctest: +SKIP
    '34 people began, 30 answered every trial, and their choices are published.'
    """
    study = read_study(folder)
    if not study.presentation.pair:
        raise InputError(
            f"{folder} asks about single sentences, and a benchmark is of pairs; "
            "`contstim experiment export` writes its data as Psych-DS"
        )
    collected = read_collected(study, data)
    whole = collected.choices[collected.choices["participant"].isin(collected.whole)]
    if whole.empty:
        raise NoDataError(f"nobody has answered every trial of {folder} yet; publish it then")
    human = read_choices(whole, "tidy")
    scores, pool = None, ()
    if study.adaptive is not None:
        given = read_score_table(scores_path(study))
        wide = given.log_probs.rename_axis("sentence").reset_index()
        scores = wide.melt("sentence", var_name="model", value_name="log_prob")
        scores[UNIT] = scores["model"].map(given.units)
        pairs = read_table(study.folder / "pool.csv", cells="text")
        pool = tuple(pd.unique(pairs[["sentence_1", "sentence_2"]].to_numpy().ravel()))
    privacy = _known(study, collected, data)
    _tables_left_out(collected, privacy)
    return Material(
        HumanData(human.choices, scores, human.excluded, human.notes),
        privacy,
        name=study.study.name,
        title=study.study.title,
        description=study.study.description,
        language=study.study.language,
        people=tuple(_people(study, collected)),
        warning=study.consent.warning,
        others=(*OF_STUDIES, *study.design.columns),
        columns=data_dictionary(study, [whole]),
        pool=pool,
        files=_texts_of(study),
    )


def _known(study: Study, collected: Collected, data: Path | None) -> Privacy:
    """Return the identifiers that the data hold."""
    privacy = Privacy()
    ids = recruiter_ids(study, data)
    for column in ids.columns.drop("participant"):
        privacy.add(ids[column].dropna(), "(removed)")
    for column in ("session", "code"):
        privacy.add(collected.sessions[column].dropna(), "(removed)")
    return privacy


def _tables_left_out(collected: Collected, privacy: Privacy) -> None:
    reasons = {
        "sessions": "codes, sessions and times; their numbers are given",
        "allocations": "times",
        "events": "times and free texts",
        "responses": "free texts and what people said of themselves; counts are given",
        "conflicts": "times",
        "checks": "answers to checks of attention",
        "practice": "answers in practice",
    }
    for name, why in reasons.items():
        if len(collected.tables.get(name, ())):
            privacy.note(name, why, "the table was removed")
    if len(collected.choices.loc[~collected.choices["participant"].isin(collected.whole)]):
        privacy.note("choices", "answers of those who did not answer every trial", "removed")
    privacy.note("study.toml", "the recruiter, with addresses and codes", "removed")


def _people(study: Study, collected: Collected) -> Iterable[str]:
    """Yield sentences on who took part; of what they said of themselves, no count of few people."""
    sessions = collected.sessions
    whole = sessions[sessions["participant"].isin(collected.whole)]
    yield (
        f"{len(sessions)} people began, {len(whole)} answered every trial, and their choices are "
        "published."
    )
    outcomes = Counter(sessions["outcome"].astype(str))
    yield "Outcomes: " + ", ".join(f"{name} {n}" for name, n in sorted(outcomes.items())) + "."
    months = sorted({str(moment)[:7] for moment in whole["started_at"].dropna()})
    if months:
        span = months[0] if len(months) == 1 else f"{months[0]} to {months[-1]}"
        yield f"Months of the data: {span}."
    yield f"It took them {whole['minutes'].median():.0f} minutes on the median."
    shown = whole["catch_shown"].sum()
    if shown:
        yield f"They answered {whole['catch_right'].sum() / shown:.1%} of catch trials rightly."
    yield (
        f"They agreed to version {study.consent.version} of the consent form, SHA-256 "
        f"{study.consent_sha256}."
    )
    responses = collected.responses[collected.responses["participant"].isin(collected.whole)]
    for question in study.questions:
        answers = responses.loc[responses["question"] == question.name]
        if question.kind != "choice" or answers.empty:
            continue
        counts = answers.drop_duplicates("participant", keep="last")["response"].value_counts()
        if counts.min() < _FEW:  # of the others and the sum it would follow how many they are
            yield f"{question.prompt} (counts are not given: an answer is of fewer than {_FEW})"
        else:
            given = (f"{option}: {counts.get(option, 0)}" for option in question.options)
            yield f"{question.prompt} {'; '.join(given)}."


def _texts_of(study: Study) -> dict[str, str]:
    """Return the consent form and what was shown besides trials, without the recruiter."""
    shown: dict[str, Any] = {
        name: _plain(getattr(study, name))
        for name in ("study", "trial", "device", "session", "practice", "attention", "questions")
    }
    shown["study"].pop("url")
    if study.adaptive is not None:
        shown["adaptive"] = _plain(study.adaptive)
    shown["texts"] = dict(study.texts)
    return {
        "materials/consent.txt": study.consent_text + "\n",
        "materials/study.json": json.dumps(shown, ensure_ascii=False, indent=1) + "\n",
    }


def _plain(value: Any) -> Any:
    """Return settings, or several of them, as a JSON value."""
    return [asdict(one) for one in value] if isinstance(value, tuple) else asdict(value)


def changed_texts(text: str, change: Callable[[str], str]) -> str:
    """Return a JSON text in which each text within was changed, but for keys."""

    def within(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [within(part) for part in value]
        return {k: within(v) for k, v in value.items()} if isinstance(value, dict) else value

    return json.dumps(within(json.loads(text)), ensure_ascii=False, indent=1) + "\n"
