"""`publish`: a finished study in, a folder for others out; and models that are added to one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from contstim import __version__
from contstim.benchmarks.publishing.about import About, ModelSource
from contstim.benchmarks.publishing.documents import review_sentences
from contstim.benchmarks.publishing.folder import (
    PLAN,
    REGISTERED,
    check_folder,
    files_of,
    make_again,
    read_published,
)
from contstim.benchmarks.publishing.material import Material, changed_texts
from contstim.benchmarks.publishing.privacy import without_identifiers
from contstim.benchmarks.publishing.record import (
    RECORD_FILE,
    Record,
    ScoresFile,
    read_folder_record,
)
from contstim.benchmarks.publishing.texts import SourcedTexts, sentence_digest
from contstim.errors import InputError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.options import read_plan
from contstim.evaluation.scores import (
    model_specs,
    score_table,
    score_units,
    token_table,
    unscored_catch,
)
from contstim.experiment.exporting import DESCRIBED, Column
from contstim.experiment.review import Decision
from contstim.files import check_new_folder, digest, replacing, replacing_folder, write_whole
from contstim.tables import SPEC, UNIT, neutral_table, read_table, table_text

_SENTENCES = ("sentence_1", "sentence_2")
_PSEUDONYM = Column("what stands for a participant: p1, p2 and so on, as they come in the table")
_PAIR = {
    f"sentence_{k}": Column(
        f"sentence {k} of the pair, in the order of their letters; if models are named, model {k} "
        "is to prefer it; or sha256: and its digest where it must not be published"
    )
    for k in (1, 2)
}
_OF_SCORES = {
    "sentence": Column("the sentence, or sha256: and its digest where it must not be published"),
    "source": Column("where the sentence is from, as the data card lists"),
    "model": Column("the model, as the data card lists"),
    "log_prob": Column("the model's score of the sentence, in its unit", "number"),
    "n_tokens": Column("tokens that were scored", "integer", "1", least=0),
    "unit": Column("unit of the score"),
    SPEC: Column("how contstim names the model"),
}


def publish(
    material: Material,
    about: About,
    texts: SourcedTexts,
    folder: str | Path,
    *,
    date: str,
    scores: pd.DataFrame | None = None,
    preset: str = "default",
    plan: Path | None = None,
    registered: str = "",
    decisions: Sequence[Decision] = (),
    reviewers: int = 1,
    keep: Iterable[str] = (),
) -> Record:
    """Write a folder that others can use without contstim, and `read_published` reads.

    Parameters
    ----------
    material
        Of `study_material` or `table_material`.
    about, texts
        What the authors say, and of which source each sentence is.
    folder
        Where; nothing may be there.
    date
        Of publication, ISO 8601.
    scores
        Models' scores of the sentences; None: those of the material, if there are any.
    preset, plan
        The analysis: a preset of `evaluate`, and a file with a plan.
    registered
        The text of a preregistration, Markdown.
    decisions, reviewers
        Of a review of the sentences, and how many had to agree.
    keep
        Columns of the choices that are published although they are on no list.

    Raises
    ------
    InputError
        If a sentence has no source or a model none, a column is not there, or a file would hold
        an identifier of a participant or a sentence that must not be published.
    OutputError
        If something is at the folder's place, or it cannot be written.

    Examples
    --------
    >>> from contstim.benchmarks.publishing import read_about, study_material
    >>> about = read_about(Path("about.toml"))  # doctest: +SKIP
    >>> texts = SourcedTexts.read(about, Path())  # doctest: +SKIP
    >>> material = study_material("my-study")  # doctest: +SKIP
    >>> publish(material, about, texts, "published", date="2026-11-25")  # doctest: +SKIP
    """
    folder = Path(folder)
    check_new_folder(folder)
    privacy, human = material.privacy, material.human
    if lacking := [name for name in keep if name not in human.choices]:
        raise InputError(f"--keep {lacking[0]} is no column of the choices; leave it out")
    shown = pd.unique(human.choices[[*_SENTENCES]].to_numpy().ravel())
    sentences = list(dict.fromkeys([*map(str, shown), *material.pool]))
    stimuli = pd.DataFrame(
        {
            "sentence": [texts.published(sentence) for sentence in sentences],
            "source": [texts.source_of(sentence).name for sentence in sentences],
        }
    )
    choices = without_identifiers(human.choices, privacy, {*material.others, *keep})
    for name in choices.columns.difference(["participant"]):
        forms = {t: texts.within(t) for t in choices[name].unique() if isinstance(t, str)}
        choices[name] = choices[name].map(lambda cell, forms=forms: forms.get(cell, cell))
    choices[[*_SENTENCES]] = human.choices[[*_SENTENCES]].map(texts.published).to_numpy()
    source = human.scores if scores is None else scores
    long = None if source is None else _long(source, human, material.pool)
    columns = {**DESCRIBED, **_OF_SCORES, **material.columns, **_PAIR, "participant": _PSEUDONYM}
    record = Record(
        about=about,
        date=date,
        contstim=__version__,
        choices=f"data/study-{about.name}_task-choices_data.csv",
        stimuli=f"data/study-{about.name}_task-stimuli_data.csv",
        preset=preset,
        people=tuple(privacy.text(text, "the data card") for text in material.people),
        review=tuple(review_sentences(decisions, sentences, reviewers)) if decisions else (),
        warning=material.warning,
        columns={
            name: asdict(columns.get(name, Column("a column of the study's own")))
            for name in dict.fromkeys([*choices, *_OF_SCORES])
        },
    )
    contents = {
        record.choices: table_text(neutral_table(choices)),
        record.stimuli: table_text(neutral_table(stimuli)),
    }
    if long is not None:
        long = long.assign(sentence=long["sentence"].map(texts.published))
        record, more = _with_scores(record, long, about.models, date)
        contents |= more
    for name, text in material.files.items():
        if name.endswith(".json"):
            text = changed_texts(text, texts.within)
        contents[name] = privacy.text(text, name)
    if registered:
        contents[REGISTERED] = privacy.text(registered, "the preregistration")
    if plan is not None:
        _check_plan(plan, privacy.stand_in)
        contents[PLAN] = privacy.text(plan.read_text("utf-8"), "the plan")
    contents[RECORD_FILE] = replace(record, removed=tuple(privacy.changes)).text
    with replacing(folder) as place:
        _write(place, folder, contents)
        files = {name: (place / name).read_bytes() for name in files_of(place)}
        privacy.check(files)
        texts.check(sentences, files)
    return record


def add_scores(
    folder: str | Path,
    scores: pd.DataFrame,
    sources: Sequence[ModelSource],
    date: str,
    texts: str | Path | None = None,
) -> Record:
    """Add models' scores to a published folder, and make its tables and pages anew.

    Parameters
    ----------
    folder
        The folder.
    scores
        Scores of all its sentences, of models that are not there yet.
    sources
        Where these models are from.
    date
        Of today, ISO 8601.
    texts
        As for `read_published`.

    Raises
    ------
    InputError
        If a model is there already, has no source or lacks a sentence.
    OutputError
        If the folder cannot be written to.

    Examples
    --------
    >>> source = ModelSource(name="gpt", source="contstim 0.1.0", licence="MIT")
    >>> scores = pd.read_csv("scores.csv")  # doctest: +SKIP
    >>> add_scores("published", scores, [source], "2026-11-25")  # doctest: +SKIP
    """
    folder = Path(folder)
    record, human = read_folder_record(folder), read_published(folder, texts)
    long = _long(scores, human, ())
    stated = set(read_table(folder / record.stimuli, cells="text")["sentence"])
    long = long.assign(
        sentence=[s if s in stated else sentence_digest(s) for s in long["sentence"]]
    )
    record, contents = _with_scores(record, long, sources, date)
    with replacing_folder(folder) as place:
        shutil.copytree(folder, place)
        _write(place, folder, {**contents, RECORD_FILE: record.text})
    return record


def _write(place: Path, folder: Path, contents: Mapping[str, str]) -> None:
    """Write files, make all that is made of them, and refuse what would not be as it should."""
    for name, content in contents.items():
        write_whole(place / name, content)
    make_again(place)
    if faults := check_folder(place):
        raise InputError(f"{folder} would not be as it should: {faults[0]}")


def _long(scores: pd.DataFrame, human: HumanData, pool: Iterable[str]) -> pd.DataFrame:
    """Return the scores of the sentences that are published as one long table."""
    rows = human.choices[~unscored_catch(human.choices, scores)]
    sentences = pd.unique(rows[[*_SENTENCES]].to_numpy().ravel()).tolist()
    sentences = list(dict.fromkeys([*map(str, sentences), *pool]))
    wide = score_table(scores, sentences)
    names = [str(name) for name in wide]
    long = wide.rename_axis(index="sentence").reset_index()
    long = long.melt("sentence", var_name="model", value_name="log_prob")
    if (tokens := token_table(scores, sentences)) is not None:
        counts = tokens.rename_axis(index="sentence").reset_index()
        long["n_tokens"] = counts.melt("sentence")["value"].astype("int64")
    units, specs = score_units(scores, names), model_specs(scores)
    long[UNIT] = long["model"].map(units)
    long[SPEC] = long["model"].map(lambda model: specs.get(model, model))
    return long


def _with_scores(
    record: Record, long: pd.DataFrame, sources: Sequence[ModelSource], date: str
) -> tuple[Record, dict[str, str]]:
    """Return a record with more models, and the files of their scores."""
    source_of = {source.name: source for source in sources}
    files, contents = list(record.scores), {}
    for model, rows in long.groupby("model", sort=False):
        if model in [one.model for one in files]:
            raise InputError(
                f"scores of {model!r} are in the folder; give another version a name of its own, "
                "--model NAME=SPEC"
            )
        if model not in source_of:
            raise InputError(
                f"nothing is said of the model {model!r}; add [[models]] with its name, source and "
                "licence"
            )
        source = source_of[str(model)]
        path = _scores_path(record.about.name, str(model), [one.file for one in files])
        contents[path] = table_text(neutral_table(rows))
        files.append(
            ScoresFile(
                model=str(model),
                file=path,
                sha256=digest(contents[path]),
                date=date,
                version=source.version,
                spec=str(rows[SPEC].iloc[0]),
                source=source.source,
                licence=source.licence,
            )
        )
    return replace(record, scores=tuple(files)), contents


def _scores_path(name: str, model: str, taken: Sequence[str]) -> str:
    """Return a path for a model's scores, named as Psych-DS names files."""
    plain = re.sub(r"[^A-Za-z0-9]", "", model)[:60] or "model"
    for number in range(len(taken) + 1):
        path = f"data/study-{name}_task-scores_model-{plain}{number or ''}_data.csv"
        if path.casefold() not in [other.casefold() for other in taken]:
            return path
    raise AssertionError(model)


def _check_plan(plan: Path, stand_in: Mapping[str, str]) -> None:
    """Refuse a plan that names participants by what cannot be replaced in its text."""
    exclusions = read_plan(plan).get("exclusions")
    for who in exclusions.participants if exclusions is not None else ():
        if who not in stand_in:
            raise InputError(
                f"{plan} leaves out the participant {who!r} by name; leave those rows out of the "
                "choices instead"
            )
