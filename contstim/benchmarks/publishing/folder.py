"""A published folder: its files, what is made of them, reading it back, and checking it.

What cannot be made again is the record, the tables below ``data/``, ``plan.toml`` and
``materials/``. Everything else is made of these, after a model is added anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from contstim import __version__
from contstim.benchmarks.choices import ChoiceBenchmark
from contstim.benchmarks.datasets import DataSet, FetchedData
from contstim.benchmarks.publishing.croissant import croissant
from contstim.benchmarks.publishing.documents import (
    citation_file,
    data_card,
    ethics_page,
    plan_page,
)
from contstim.benchmarks.publishing.harness import harness_files
from contstim.benchmarks.publishing.privacy import suspects
from contstim.benchmarks.publishing.record import (
    RECORD_FILE,
    Record,
    ScoresFile,
    read_folder_record,
)
from contstim.benchmarks.publishing.texts import is_digest, read_withheld
from contstim.benchmarks.running import run_benchmarks
from contstim.benchmarks.writing import write_run
from contstim.errors import ContstimError, InputError, ValidationError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.importers import ColumnMapping, read_mapped
from contstim.evaluation.options import preset_options, read_plan
from contstim.evaluation.scores import score_table
from contstim.experiment.exporting import Column, check_psychds, described_text
from contstim.files import file_digest, json_value, write_whole
from contstim.tables import read_table
from contstim.trial_kinds import EXPERIMENTAL

#: The analysis plan, the text that was registered, and the list of digests.
PLAN, REGISTERED, SUMS = "plan.toml", "materials/preregistration.md", "SHA256SUMS"


def read_published(folder: str | Path, texts: str | Path | None = None) -> HumanData:
    """Read the choices of a published folder, and the scores of all models that are in it.

    Parameters
    ----------
    folder
        The folder.
    texts
        A file with the sentences that it withholds, see `read_withheld`; without it their digests
        stand in their place, and only models whose scores are there can be evaluated.

    Raises
    ------
    InputError
        If the folder or the file cannot be read, or the file lacks sentences.

    Examples
    --------
    >>> from contstim import evaluate
    >>> evaluate(read_published("published"))  # doctest: +SKIP
    """
    folder = Path(folder)
    record = read_folder_record(folder)
    choices = read_table(folder / record.choices, cells="guessed")
    tables = [_scores_of(folder, listed) for listed in record.scores]
    scores = pd.concat(tables, ignore_index=True) if tables else None
    if texts is not None:
        there = read_withheld(Path(texts))
        columns = ["sentence_1", "sentence_2"]
        withheld = {s for name in columns for s in choices[name] if is_digest(s)}
        if lacking := withheld - set(there):
            raise InputError(
                f"{texts} lacks {len(lacking)} of the {len(withheld)} sentences that {folder} "
                "withholds; give a file that has all"
            )
        choices[columns] = choices[columns].replace(there)
        if scores is not None:
            scores = scores.assign(sentence=scores["sentence"].replace(there))
    # Ratings are from -2.5 to 2.5 by now, of whatever scale.
    return replace(read_mapped(choices, ColumnMapping((), scale="slider")), scores=scores)


def _scores_of(folder: Path, listed: ScoresFile) -> pd.DataFrame:
    """Read the scores of a model, and refuse those of others."""
    table = read_table(folder / listed.file, ["sentence", "model", "log_prob"])
    others = [name for name in table["model"].unique() if name != listed.model]
    if others:
        raise InputError(
            f"{folder / listed.file} has scores of {others[0]!r}, and {RECORD_FILE} lists it as of "
            f"{listed.model!r}"
        )
    return table


def published_data(folder: str | Path, texts: str | Path | None = None) -> FetchedData:
    """Return a published folder as a data set whose files are at hand, with its benchmark.

    Parameters
    ----------
    folder, texts
        As for `read_published`, which is called when the benchmark is asked for.

    Raises
    ------
    InputError
        If it is no published folder.

    Examples
    --------
    >>> published_data("published").benchmark().judge().results  # doctest: +SKIP
    """
    folder = Path(folder)
    record = read_folder_record(folder)
    about = record.about
    data_set = DataSet(
        name=about.name,
        title=about.title,
        citation=about.citation or about.cited(record.date),
        licence=about.licence,
        terms="README.md has the licences of texts and models.",
        source=about.url or str(folder),
        files=(),
        benchmarks={"choices": lambda place: _benchmark(place, record, texts)},
    )
    return FetchedData(data_set, folder)


def _benchmark(folder: Path, record: Record, texts: str | Path | None) -> ChoiceBenchmark:
    about = record.about
    families = [author.family for author in about.authors]
    by = " and ".join(families) if len(families) < 3 else f"{families[0]} et al."
    plan = folder / PLAN
    options: dict[str, Any] = {"preset": record.preset}
    return ChoiceBenchmark(
        name=f"{about.name}/choices",
        title=about.title,
        source=f"{by} ({record.date[:4]})",
        human=read_published(folder, texts),
        options={**options, "plan": plan} if plan.is_file() else options,
        sources={scores.model: _whence(scores) for scores in record.scores},
    )


def _whence(scores: ScoresFile) -> str:
    """Return where the scores of a model are from: source, version, licence and date."""
    version = f"version {scores.version}" if scores.version else ""
    parts = (scores.source, version, scores.licence, f"added {scores.date}")
    return "; ".join(part for part in parts if part)


def make_again(folder: Path) -> None:
    """Make all that is made of a folder's record and tables: documents, metadata, results, digests.

    Raises
    ------
    InputError
        If the record or a table cannot be used.
    OutputError
        If a file cannot be written.
    """
    record = read_folder_record(folder)
    about = record.about
    run = run_benchmarks([published_data(folder).benchmark()], [], folder)
    (benchmark,), (judgement,) = run.benchmarks.values(), run.judgements.values()
    assert isinstance(benchmark, ChoiceBenchmark)
    assert judgement.evaluation is not None
    choices, planned = benchmark.human.choices, judgement.evaluation.provenance
    paths = [record.stimuli, record.choices, *(one.file for one in record.scores)]
    contents = {path: (folder / path).read_bytes() for path in paths}
    tables = {path: read_table(folder / path) for path in paths}
    columns = {name: _column(name, values) for name, values in record.columns.items()}
    columns = {name: c for name, c in columns.items() if any(name in t for t in tables.values())}
    words = {name: column.description for name, column in columns.items()}
    facts = _facts(record, choices)
    files = _files(record, folder)
    registered = folder / REGISTERED
    values = croissant(about, record.date, contents, tables, words, {**facts, **files})
    made: dict[str, str | bytes] = {
        "dataset_description.json": described_text(
            about.title,
            about.description,
            about.language,
            columns,
            version=about.version,
            license=about.licence,
            datePublished=record.date,
            author=[f"{one.given} {one.family}" for one in about.authors],
        ),
        "croissant.json": json.dumps(values, ensure_ascii=False, indent=1) + "\n",
        "CITATION.cff": citation_file(about, record.date),
        "ETHICS.md": ethics_page(
            about, record.people, record.review, record.warning, record.removed
        ),
        "PLAN.md": plan_page(
            registered.read_text("utf-8") if registered.is_file() else "",
            planned.departures,
        ),
        "README.md": data_card(about, record.date, facts, record.scores, files, words),
        **{
            f"lm_eval/{name}": content
            for name, content in harness_files(
                about.name, about.title, about.version, choices, planned.options.exclusions
            ).items()
        },
    }
    for name, content in made.items():
        write_whole(folder / name, content)
    write_run(run, folder / "results", reports=False)
    check_psychds(folder)
    sums = [f"{file_digest(folder / name)}  {name}" for name in files_of(folder) if name != SUMS]
    write_whole(folder / SUMS, "\n".join(sums) + "\n")


def _column(name: str, given: Mapping[str, Any]) -> Column:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    try:
        return Column(**values)
    except TypeError:
        raise InputError(
            f"{RECORD_FILE}: columns.{name} is {dict(given)}; describe it as `contstim publish` "
            "does"
        ) from None


def files_of(folder: Path) -> list[str]:
    """Return the paths of a folder's files below it, in order."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def _files(record: Record, folder: Path) -> dict[str, str]:
    """Return what files hold, by their paths."""
    described = {
        record.stimuli: "the sentences and where each is from",
        record.choices: "what people chose, a row per trial and person",
        **{one.file: f"scores of the sentences under {one.model}" for one in record.scores},
        PLAN: "the analysis plan",
        "PLAN.md": "what was registered, and what departs from it",
        "ETHICS.md": "people, review of the sentences, what was removed",
        "results/": "the table of models and a page of it, index.html, with all that was computed",
        "lm_eval/": "a task for the lm-evaluation-harness",
        "croissant.json": "metadata, Croissant 1.1 with RAI",
        RECORD_FILE: "the same for contstim",
        SUMS: "digests of all files: sha256sum -c SHA256SUMS",
    }
    absent = [] if (folder / PLAN).is_file() else [PLAN]
    return {path: what for path, what in described.items() if path not in absent}


def _facts(record: Record, choices: pd.DataFrame) -> dict[str, str]:
    """Return what was counted and done, in sentences."""
    pairs = choices.groupby(["sentence_1", "sentence_2"])["participant"].nunique()
    compared = choices[choices["kind"] == EXPERIMENTAL]
    n = len(compared[["sentence_1", "sentence_2"]].drop_duplicates())
    people = choices["participant"].nunique()
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    withheld = sum(is_digest(text) for text in sentences)
    digests = (
        f" Digests stand for {withheld} of the {len(sentences)} sentences." if withheld else ""
    )
    return {
        "task": (
            f"People were shown two sentences and asked: {record.about.question} A rating is "
            "negative for sentence 1; its size says how sure they were, where that was asked."
        ),
        "collection": (
            f"{people} participants made {len(choices)} choices between the sentences of "
            f"{len(pairs)} pairs, of which {n} compare models."
        ),
        "answers": f"{int(pairs.min())} to {int(pairs.max())}, on the median {pairs.median():g}",
        "processing": (
            f"Participants have pseudonyms; columns not on a list were left out, as ETHICS.md says."
            f"{digests}"
        ),
        "personal": (
            "None: recruiters' identifiers, free texts, addresses and times of day were removed or "
            "replaced, as ETHICS.md lists."
        ),
        "made": f"contstim {record.contstim}, contstim publish",
    }


def check_folder(folder: str | Path) -> list[str]:
    """Return the faults of a published folder, a line each; none if it is as it should be.

    Checked are the record, that every file is there and has its digest, Psych-DS, Croissant's
    digests, that choices can be read and every model has scores of them, that each sentence's
    source lets it be published, that the task is what is made of the choices, and that no table
    holds what `SUSPECTS` has.

    Raises
    ------
    InputError
        If there is no such folder.

    Examples
    --------
    >>> check_folder("published")  # doctest: +SKIP
    ['README.md is not as SHA256SUMS has it; it was changed']
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    faults = _wrong_sums(folder)
    try:
        record = read_folder_record(folder)
    except InputError as error:
        return [*faults, str(error)]
    for check in (_wrong_psychds, _wrong_croissant, _wrong_choices, _wrong_texts, _wrong_task):
        faults += check(folder, record)
    tables = [name for name in files_of(folder) if name.startswith(("data/", "materials/"))]
    return faults + suspects(folder, tables)


def _wrong_sums(folder: Path) -> list[str]:
    path = folder / SUMS
    if not path.is_file():
        return [f"there is no {SUMS}; make the folder with `contstim publish`"]
    stated = dict(
        line.partition("  ")[::2][::-1] for line in path.read_text("utf-8", "replace").splitlines()
    )
    there = [name for name in files_of(folder) if name != SUMS]
    faults = [f"{name} is in {SUMS} and not in the folder" for name in stated if name not in there]
    for name in there:
        if name not in stated:
            faults.append(f"{name} is not in {SUMS}; was it added by hand?")
        elif file_digest(folder / name) != stated[name]:
            faults.append(f"{name} is not as {SUMS} has it; it was changed")
    return faults


def _wrong_psychds(folder: Path, record: Record) -> list[str]:
    try:
        check_psychds(folder)
    except (ValidationError, InputError) as error:
        return [f"Psych-DS: {error}"]
    return []


def _wrong_croissant(folder: Path, record: Record) -> list[str]:
    path = folder / "croissant.json"
    try:
        value = json_value(path.read_text("utf-8"))
        stated = {part["@id"]: part["sha256"] for part in value["distribution"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"{path.name} is no Croissant metadata: {error!r}"]
    wanted = [record.stimuli, record.choices, *(one.file for one in record.scores)]
    faults = [f"{path.name} does not list {name}" for name in wanted if name not in stated]
    for name, sha256 in stated.items():
        if (folder / name).is_file() and file_digest(folder / name) != sha256:
            faults.append(f"{path.name} has another digest of {name}")
    needed = ("dataLimitations", "dataBiases", "dataUseCases", "dataSocialImpact",
              "personalSensitiveInformation", "hasSyntheticData")  # fmt: skip
    faults += [f"{path.name} lacks rai:{key}" for key in needed if f"rai:{key}" not in value]
    return faults


def _wrong_choices(folder: Path, record: Record) -> list[str]:
    faults = []
    for listed in record.scores:
        path = folder / listed.file
        if path.is_file() and file_digest(path) != listed.sha256:
            faults.append(f"{listed.file} is not as {RECORD_FILE} has it; add it again")
    try:
        human = read_published(folder)
        _scored(human)
    except ContstimError as error:
        faults.append(f"the choices cannot be evaluated: {error}")
    return faults


def _scored(human: HumanData) -> None:
    if human.scores is not None:
        rows = human.choices[human.choices["kind"] == EXPERIMENTAL]
        sentences = pd.concat([rows["sentence_1"], rows["sentence_2"]])
        score_table(human.scores, pd.unique(sentences).tolist())


def _wrong_texts(folder: Path, record: Record) -> list[str]:
    try:
        stimuli = read_table(folder / record.stimuli, ("sentence", "source"), cells="text")
    except ContstimError as error:
        return [str(error)]
    sources = {text.name: text for text in record.about.texts}
    faults = []
    for sentence, source in zip(stimuli["sentence"], stimuli["source"], strict=True):
        if source not in sources:
            faults.append(f"{record.stimuli}: the source {source!r} is not among [[texts]]")
        elif not (sources[source].redistribute or is_digest(sentence)):
            faults.append(
                f"{record.stimuli}: {sentence!r} is of {source!r}, which must not be published"
            )
    listed = set(stimuli["sentence"])
    columns = {record.choices: ["sentence_1", "sentence_2"]}
    columns |= {scores.file: ["sentence"] for scores in record.scores}
    for name, with_texts in columns.items():
        try:
            table = read_table(folder / name, with_texts, cells="text")
        except ContstimError:
            continue  # said of the choices
        for sentence in pd.unique(table[with_texts].to_numpy().ravel()):
            if sentence not in listed:
                faults.append(f"{name}: {sentence!r} is not in {record.stimuli}, so of no source")
    return list(dict.fromkeys(faults))


def _wrong_task(folder: Path, record: Record) -> list[str]:
    """Compare the task with what is made of the choices; its functions run as code."""
    try:
        choices = read_published(folder).choices
        plan = folder / PLAN
        planned = preset_options(record.preset, **(read_plan(plan) if plan.is_file() else {}))
        about = record.about
        made = harness_files(about.name, about.title, about.version, choices, planned.exclusions)
    except ContstimError:
        return []  # said of the choices
    faults = []
    place = folder / "lm_eval"
    for name in sorted({*made, *(files_of(place) if place.is_dir() else ())}):
        path = place / name
        if not path.is_file():
            faults.append(f"lm_eval/{name} is missing")
        elif path.read_bytes() != made.get(name):
            faults.append(
                f"lm_eval/{name} is not what contstim {__version__} makes of the choices; read it "
                "before the harness runs it"
            )
    return faults
