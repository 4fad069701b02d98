r"""Publish a finished study as a Psych-DS folder that others can use without contstim.

STUDY is a study folder whose data are collected, or a table of choices. The folder contains the
choices with pseudonyms, the scores, the evaluation, a README, a description of the data set and
checksums. Sentences of --withhold are replaced by numbers.

examples:
  contstim publish my-study --title "Who walked home" --author "Ada Example" --licence CC-BY-4.0 \
    --scores scores.csv --out published
  contstim publish choices.csv --title "Walks" --author "A. Example" --author "B. Example" \
    --licence CC0-1.0 --model contstim:gpt --withhold licensed.txt --out published
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.parameters import File, Name, OutputFolder, Spec, Text
from contstim.errors import InputError
from contstim.text import read_sentences

CONTENT = Group.create_ordered("description")
DATA = Group.create_ordered("data")
MODELS = Group.create_ordered("scores and results")
OUTPUT = Group.create_ordered("output")

app = create_application("publish", __doc__)


@app.default
def publish(
    study: File,
    /,
    *,
    title: Annotated[Text, Parameter(group=CONTENT)],
    author: Annotated[tuple[Text, ...], Parameter(group=CONTENT, metavar="NAME")],
    licence: Annotated[Name, Parameter(group=CONTENT)],
    description: Annotated[Text, Parameter(group=CONTENT)] = "",
    language: Annotated[Text, Parameter(group=CONTENT, metavar="CODE")] = "en",
    data: Annotated[File | None, Parameter(group=DATA)] = None,
    format: Annotated[Name, Parameter(group=DATA)] = "auto",
    columns: Annotated[tuple[Text, ...], Parameter(group=DATA, metavar="COLUMN")] = (),
    withhold: Annotated[File | None, Parameter(group=DATA)] = None,
    scores: Annotated[File | None, Parameter(group=MODELS)] = None,
    model: Annotated[tuple[Spec, ...], Parameter(group=MODELS, metavar="[NAME=]SPEC")] = (),
    cache: Annotated[OutputFolder | None, Parameter(group=MODELS)] = None,
    preset: Annotated[Name, Parameter(group=MODELS)] = "default",
    out: Annotated[OutputFolder, Parameter(group=OUTPUT)],
) -> None:
    """Write the choices, scores and results of a finished study to a folder for publication.

    Parameters
    ----------
    study
        study folder, or table of choices as `contstim evaluate` reads it
    title
        title of the data set
    author
        full name of an author
    licence
        licence of the data, such as CC-BY-4.0
    description
        description of the data set in a few sentences, for its README
    language
        language of the sentences
    data
        data file of the study [in the study folder]
    format
        format of a table of choices
    columns
        further column of the choices to publish
    withhold
        file of sentences that must not be published, one per line or in a column `sentence`
    scores
        log-probabilities of the sentences, output of `contstim score`
    model
        model that scores the sentences
    cache
        folder of saved scores of --model [scores are not saved]
    preset
        preset of the evaluation
    out
        folder to write; it must not exist
    """
    from contstim.benchmarks import publishing
    from contstim.evaluation.importers import read_choices
    from contstim.evaluation.scores import join_scores, model_scores
    from contstim.models.registry import load_models
    from contstim.tables import read_table

    # The choices come from the folder of a study, or from a table in one of several formats.
    if Path(study).is_dir():
        if format != "auto":
            raise InputError(f"--format {format} is for tables, not for the folder {study}")
        human = publishing.read_study_choices(study, None if data is None else Path(data))
    elif data is not None:
        raise InputError(f"--data {data} is for a study folder, not for a table, {study}")
    else:
        human = read_choices(study, format)
    table = None if scores is None else read_table(scores)
    if model:
        new_scores = model_scores(load_models(model), human.choices, cache)
        table = new_scores if table is None else join_scores(table, new_scores)
    publishing.publish(
        human,
        publishing.DataSetDescription(title, author, licence, description, language),
        out,
        scores=table,
        withheld=() if withhold is None else read_sentences(withhold),
        columns=columns,
        preset=preset,
    )
    print(f"{out}: published; read README.md and look through the files before you pass them on")
