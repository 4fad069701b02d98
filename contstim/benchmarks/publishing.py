"""Publishing a study: a Psych-DS folder with data, scores, results, README and checksums."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pandas as pd

from contstim.columns import CHOICES
from contstim.errors import InputError, NoDataError
from contstim.evaluation.choices import HumanData, RawChoices, prepare_choices
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.importers import read_choices
from contstim.evaluation.scores import ScoreSource, find_unscored_catch_trials, score_table
from contstim.experiment.exporting import COLUMN_DESCRIPTIONS, Column, format_dataset_description
from contstim.experiment.study import read_study
from contstim.experiment.study_data import read_study_data
from contstim.files import check_new_folder, file_digest, replace_atomically, write_atomically
from contstim.tables import escape_table
from contstim.text.normalise import alphanumeric_key
from contstim.text_files import format_csv

#: Columns of a table of choices that are published; others only on request.
PUBLISHED_COLUMNS = (
    *CHOICES, "kind", "item", "expected", "kind_1", "kind_2", "side_1", "stimulus",
    "block", "propensity",
)  # fmt: skip
CHECKSUMS = "SHA256SUMS"

_COLUMNS = {
    **COLUMN_DESCRIPTIONS,
    "participant": Column("pseudonym of the participant"),
    "trial": Column("number of the trial in the participant's order"),
    "item": Column("item that the sentences belong to"),
    "expected": Column("number of the correct sentence, for trials that have one", "integer"),
    "model": Column("model that scored the sentence"),
    "log_prob": Column("score of the sentence under the model; higher is better", "number"),
}
# Minimum length of participant ids and of sentences for which published files are searched, since
# shorter texts may occur by chance.
_MIN_ID, _MIN_SENTENCE = 6, 12

_README = """\
# {title}

{description}

Authors: {authors}. Licence: {licence}.

{n_participants} participants made {n_choices} choices between the two sentences of {n_pairs} pairs.
{n_excluded} participants were excluded before. Participants have pseudonyms.
{withheld}
## Files

- `{choices}`: one row per choice
{scores}{results}- `dataset_description.json`: description of the data set and its columns
  ([Psych-DS](https://psych-ds.github.io))
- `{checksums}`: SHA-256 of each file

To compare a model of your own with these choices:

    contstim evaluate {choices} {option}--model hf:NAME --out my-results

## Columns

{columns}
"""

_WITHHELD = "\n{} sentences may not be published; numbers replace them.\n"
_SCORES = "- `{}`: score of each sentence under each model\n"
_RESULTS = "- `results/`: evaluation of the choices; `results/report.html` is the report\n"


@dataclass(frozen=True)
class DataSetDescription:
    """Description of a data set that is published.

    Attributes
    ----------
    title
        Title in one line, which also becomes part of the file names.
    description
        Description in a few sentences, for the README.
    authors
        Full names of the authors.
    licence
        Licence of the data, such as ``CC-BY-4.0``.
    language
        Language of the sentences, such as ``en``.
    """

    title: str
    authors: tuple[str, ...]
    licence: str
    description: str = ""
    language: str = "en"


def read_study_choices(folder: str | Path, database: Path | None = None) -> HumanData:
    """Read the choices in a study folder, from participants who answered every trial.

    Parameters
    ----------
    folder
        Study folder.
    database
        Data file; by default the data file in the folder.

    Raises
    ------
    NoDataError
        If nobody has answered every trial.
    InputError
        If the study or its data cannot be read, or it does not ask about pairs of sentences.
    """
    study = read_study(folder)
    if not study.presentation.is_pair:
        raise InputError(
            f"{folder} asks about single sentences, and `publish` needs choices between two; "
            "`contstim experiment export` writes its data as Psych-DS"
        )
    collected = read_study_data(study, database)
    choices = collected.choices
    # Leave out participants who have not answered every trial.
    complete = choices[choices["participant"].isin(collected.complete_participants)]
    if complete.empty:
        raise NoDataError(f"nobody has answered every trial of {folder} yet; publish it then")
    return read_choices(complete, "tidy")


def publish(
    human: HumanData,
    about: DataSetDescription,
    folder: str | Path,
    *,
    scores: ScoreSource | None = None,
    withheld: Iterable[str] = (),
    columns: Sequence[str] = (),
    preset: str = "default",
) -> None:
    """Publish the choices of a study as a Psych-DS data set that others can use without contstim.

    Participants are replaced by pseudonyms, which are numbered in the order of the table. Only
    `PUBLISHED_COLUMNS` are published. Withheld sentences are replaced by numbers, so that the
    published scores can still be evaluated. They are recognised without regard to case,
    punctuation, spaces and Unicode form.

    Parameters
    ----------
    human
        Choices of the participants.
    about
        Description of the data set.
    folder
        Folder to write; it must not exist.
    scores
        Scores of the sentences, by default those read with the choices.
    withheld
        Sentences that must not be published.
    columns
        Further columns of the choices to publish.
    preset
        Preset of the evaluation in ``results``.

    Raises
    ------
    InputError
        If a column is missing, or a file would contain a participant's id or a withheld sentence.
    OutputError
        If the folder exists or cannot be written.

    Examples
    --------
    >>> from contstim import datasets
    >>> human = read_choices(datasets.simulated_choices())
    >>> about = DataSetDescription("Simulated choices", ("Ada Example",), "CC0-1.0")
    >>> scores = datasets.natural_scores()
    >>> publish(human, about, "published", scores=scores)  # doctest: +SKIP
    """
    folder = Path(folder)
    check_new_folder(folder)
    choices = human.choices
    source = human.scores if scores is None else scores
    for column in columns:
        if column not in choices:
            raise InputError(f"the choices have no column {column!r}; leave it out of --columns")
    public_columns = [str(c) for c in choices if c in PUBLISHED_COLUMNS or c in columns]
    withheld_keys = {alphanumeric_key(sentence) for sentence in withheld}
    published, labels = _anonymise_choices(choices, public_columns, withheld_keys)
    tables = {"choices": published}
    if source is not None:
        tables["scores"] = _tabulate_scores(source, choices, labels)

    name = re.sub(r"[^A-Za-z0-9]", "", about.title)[:40] or "study"
    paths = {table: f"data/study-{name}_task-{table}_data.csv" for table in tables}
    column_descriptions = {
        str(column): _COLUMNS.get(str(column), Column("column of the study"))
        for table in tables.values()
        for column in table
    }
    with replace_atomically(folder) as new_folder:
        for table_name, table in tables.items():
            write_atomically(new_folder / paths[table_name], format_csv(escape_table(table)))
        text = format_dataset_description(
            about.title,
            about.description or about.title,
            about.language,
            column_descriptions,
            author=list(about.authors),
            license=about.licence,
        )
        write_atomically(new_folder / "dataset_description.json", text)
        if "scores" in tables:
            data = prepare_choices(RawChoices(published, scale="slider"))
            evaluate(data, tables["scores"], preset=preset).report(new_folder / "results")
        readme = _format_readme(about, human, paths, len(labels), column_descriptions)
        write_atomically(new_folder / "README.md", readme)
        files = sorted(path for path in new_folder.rglob("*") if path.is_file())
        ids = choices["participant"].astype(str).unique()
        _refuse_confidential_text(new_folder, files, ids, withheld_keys)
        sums = [f"{file_digest(path)}  {path.relative_to(new_folder).as_posix()}" for path in files]
        write_atomically(new_folder / CHECKSUMS, "\n".join(sums) + "\n")


def _anonymise_choices(
    choices: pd.DataFrame, columns: Sequence[str], withheld_keys: Collection[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Replace participants by pseudonyms, and withheld sentences by numbered labels.

    Parameters
    ----------
    choices
        Table of choices.
    columns
        Columns to keep.
    withheld_keys
        Withheld sentences, reduced to letters and digits (`alphanumeric_key`).

    Returns
    -------
    published : DataFrame
        Table with the columns to keep.
    labels : dict
        Labels of the withheld sentences, such as ``withheld sentence 1``, by sentence.
    """
    participants = choices["participant"].astype(str)
    # Replace participants by p01, p02, ... in the order of the table.
    ids = participants.unique()
    n_digits = len(str(len(ids)))
    pseudonyms = {name: f"p{n:0{n_digits}}" for n, name in enumerate(ids, start=1)}
    # A withheld sentence must not be published. It is recognised by its letters and digits only,
    # without regard to case, spaces and punctuation.
    labels: dict[str, str] = {}
    for sentence in map(str, pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())):
        if alphanumeric_key(sentence) in withheld_keys:
            labels[sentence] = f"withheld sentence {len(labels) + 1}"

    # Replace withheld sentences in all columns, also in columns other than the two sentences.
    def withhold(cell: object) -> object:
        if isinstance(cell, str) and alphanumeric_key(cell) in withheld_keys:
            return labels.get(cell, "withheld text")
        return cell

    published = choices[[*columns]].map(withhold)
    published = published.assign(participant=participants.map(pseudonyms)).reset_index(drop=True)
    return published, labels


def _tabulate_scores(
    source: ScoreSource, choices: pd.DataFrame, labels: Mapping[str, str]
) -> pd.DataFrame:
    """Return the scores of the sentences in a table of choices, one row per sentence and model.

    Parameters
    ----------
    source
        Scores of the sentences.
    choices
        Table of choices.
    labels
        Labels that replace withheld sentences.
    """
    scored = choices[~find_unscored_catch_trials(choices, source)]
    texts = scored[["sentence_1", "sentence_2"]].to_numpy().ravel().tolist()
    wide = score_table(source, texts)
    long = wide.rename_axis("sentence").reset_index().melt("sentence", var_name="model")
    long = long.rename(columns={"value": "log_prob"})
    return long.assign(sentence=long["sentence"].replace(labels))


def _format_readme(
    about: DataSetDescription,
    human: HumanData,
    paths: Mapping[str, str],
    n_withheld: int,
    columns: Mapping[str, Column],
) -> str:
    """Return the README of a published data set.

    Parameters
    ----------
    about
        Description of the data set.
    human
        Choices of the participants.
    paths
        Paths of the tables in the data set: ``choices`` and, if they are published, ``scores``.
    n_withheld
        Number of withheld sentences.
    columns
        Descriptions of the columns of all tables, by name of the column.
    """
    choices, scores_path = human.choices, paths.get("scores")
    # Optional paragraphs are empty if no scores are published or no sentences are withheld.
    return _README.format(
        title=about.title,
        description=about.description,
        licence=about.licence,
        authors=", ".join(about.authors),
        choices=paths["choices"],
        n_participants=choices["participant"].astype(str).nunique(),
        n_choices=len(choices),
        n_pairs=len(choices[["sentence_1", "sentence_2"]].drop_duplicates()),
        n_excluded=len({*human.excluded["participant"]} - {*choices["participant"]}),
        withheld=_WITHHELD.format(n_withheld) if n_withheld else "",
        scores=_SCORES.format(scores_path) if scores_path else "",
        results=_RESULTS if scores_path else "",
        option=f"--scores {scores_path} " if scores_path else "",
        checksums=CHECKSUMS,
        columns="\n".join(f"- `{name}`: {column.description}" for name, column in columns.items()),
    )


def _refuse_confidential_text(
    folder: Path, files: Iterable[Path], ids: Iterable[str], withheld_keys: Iterable[str]
) -> None:
    """Check that no file contains the id of a participant or a withheld sentence.

    Case is ignored; for withheld sentences, punctuation and spaces are ignored too.

    Parameters
    ----------
    folder
        Folder of the data set.
    files
        Files to search.
    ids
        Ids of the participants. Short ids are not searched, since they may occur by chance.
    withheld_keys
        Withheld sentences, reduced to letters and digits (`alphanumeric_key`).

    Raises
    ------
    InputError
        If a file contains one of them.
    """
    searched_ids = []
    # Do not search for short ids and sentences, which may occur in a file by chance.
    for participant in ids:
        # Ids of letters only may be words, so they must be longer.
        min_length = 2 * _MIN_ID if participant.isalpha() else _MIN_ID
        if len(participant) >= min_length:
            searched_ids.append(participant.casefold())
    searched_keys = [key for key in withheld_keys if len(key) >= _MIN_SENTENCE]
    for path in files:
        # HTML entities such as &amp; are decoded, since the files include an HTML report.
        text = unescape(path.read_bytes().decode("utf-8", "replace"))
        name = path.relative_to(folder).as_posix()
        folded = text.casefold()
        if any(searched_id in folded for searched_id in searched_ids):
            raise InputError(
                f"{name} would contain the id of a participant; remove it from the columns that "
                "are published"
            )
        # Compare letters and digits only, so that punctuation and line breaks hide nothing.
        text_key = alphanumeric_key(text) if searched_keys else ""
        if any(key in text_key for key in searched_keys):
            raise InputError(f"{name} would contain a withheld sentence; remove it from the data")
