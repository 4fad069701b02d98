"""Find out which model predicts people's choices, and how far it is from the noise ceiling.

The noise ceiling is how well the best possible model could do, given how much people differ. Reads
choices from jsPsych, PCIbex, Gorilla, Qualtrics, contstim, or any table if you name its columns.
Writes tables, a figure and report.html into a folder, and prints the result. Trials with a word
outside a model's vocabulary are excluded for all models, unless the spec has ?unknown=unk.

examples:
  contstim evaluate choices.csv --model contstim:trigram --model contstim:lstm --out results
  contstim evaluate choices.csv --scores scores.csv --exclude "catch<0.75" --out results
  Compare two data sets:
    contstim evaluate first.csv second.csv --scores scores.csv --condition file --out results
  Choices from another program, rated from 1 to 7:
    contstim evaluate mine.csv --column participant=subject --low 1 --high 7 --out results
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.common import print_message, report_model
from contstim.cli.parameters import (
    File,
    Name,
    OutputFolder,
    RandomSeed,
    Spec,
    Text,
    float_parameter,
    integer_parameter,
)
from contstim.errors import InputError, require_known

if TYPE_CHECKING:
    from contstim.evaluation.choices import HumanData

app = create_application(
    "evaluate", __doc__, usage="contstim evaluate --out FOLDER [options] CHOICES [CHOICES ...]"
)
DATA = Group.create_ordered("data")
MODELS = Group.create_ordered("models")
ANALYSIS = Group.create_ordered("analysis")
OUTPUT = Group.create_ordered("output")

Items = Annotated[Literal["random", "fixed"] | None, Parameter(group=ANALYSIS, metavar="WHICH")]
Equivalence = Annotated[
    float | None, float_parameter(metavar="SHARE", above=0, below=1), Parameter(group=ANALYSIS)
]


@Parameter(name="*", group=DATA)
@dataclass(frozen=True)
class ChoiceFormat:
    """Format of files with choices.

    Attributes
    ----------
    format
        format of the choices: auto (recognises jsPsych, PCIbex, Gorilla and Qualtrics), tidy,
        jspsych, golan2023, or a format of an installed package
    column
        names of columns in your table, e.g. participant=Vp,rating=Urteil
    low
        answer code for the strongest preference for sentence 1 (with --side: for the left
        sentence), a number or a word
    high
        answer code for the strongest preference for sentence 2 (with --side: for the right
        sentence)
    side
        column with the side of sentence 1 (left, right) or the sentence on the left (1, 2); none
        uses no column [the column side, and in exports columns such as swapped]
    buttons
        number of buttons of a trial (jsPsych)
    """

    format: Name = "auto"
    column: Annotated[tuple[Text, ...], Parameter(metavar="OURS=THEIRS")] = ()
    low: Annotated[Text | None, Parameter(metavar="CODE")] = None
    high: Annotated[Text | None, Parameter(metavar="CODE")] = None
    side: Annotated[Name | None, Parameter(metavar="COLUMN")] = None
    buttons: Annotated[int | None, integer_parameter(2, 100)] = None

    def read(
        self, files: list[str], trials: str | None = None, separate: bool = False
    ) -> HumanData:
        """Read choices from files.

        Parameters
        ----------
        files
            Paths of the files.
        trials
            Path of the sentences of each question, for Qualtrics.
        separate
            Whether the files are separate data sets rather than parts of one.

        Returns
        -------
        HumanData
            Choices of all files.
        """
        from contstim.evaluation.importers import FORMATS, combine_choices, jspsych, read_choices

        require_known("--format", self.format, FORMATS)
        if self.buttons is not None and self.format not in ("auto", "jspsych"):
            raise InputError(f"--buttons {self.buttons} is for --format jspsych, not {self.format}")
        options: dict[str, Any] = {
            "low": self.low,
            "high": self.high,
            "columns": parse_columns(self.column) or None,
            "side": self.side,
            "trials": trials,
        }
        if self.format != "auto":
            for name, value in options.items():
                if value is not None:
                    labels = {"columns": "--column", "trials": "the table of trials"}
                    option = labels.get(name, f"--{name}")
                    raise InputError(
                        f"{option} describes a custom format, not --format {self.format}; leave "
                        "one of them out"
                    )
            options = {}
        if self.format == "auto" or self.buttons is not None:
            options["n_choices"] = self.buttons
        if len(set(files)) < len(files):
            raise InputError("a file of choices is named twice; name each file once")
        complete, notes = jspsych.drop_partial_files([Path(path) for path in files])
        for note in notes:
            print_message(note)
        choices = [read_choices(str(path), self.format, **options) for path in complete]
        if len(choices) == 1:
            return choices[0]
        # Name the data sets by their files, or by their paths if two files have one name.
        names = [path.name.split(".")[0] for path in complete]
        if len(set(names)) < len(names):
            names = [str(path) for path in complete]
        return combine_choices(dict(zip(names, choices, strict=True)), separate)


def parse_columns(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of ``--column``, which give the names of columns in a user's table.

    Returns a mapping from contstim's name for a column to its name in the table.

    Raises
    ------
    InputError
        If a value is not ``OURS=THEIRS``.
    """
    columns = {}
    # One text may contain several assignments, "participant=subject,item=trial". Names of columns
    # may contain commas, so split at a comma only if an assignment follows it.
    for pair in chain.from_iterable(re.split(r",(?=\w+=)", text) for text in texts):
        # `ours` is the column name in contstim, `theirs` the column name in the table.
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(f"--column {pair!r} is not OURS=THEIRS, e.g. participant=subject")
        columns[ours] = theirs
    return columns


AS_RECOGNISED = ChoiceFormat()


@app.default
def evaluate_choices(
    choices: File,
    /,
    *more_choices: Annotated[File, Parameter(show=False)],
    choice_format: ChoiceFormat = AS_RECOGNISED,
    trials: Annotated[File | None, Parameter(group=DATA)] = None,
    participant_table: Annotated[File | None, Parameter(group=DATA)] = None,
    model: Annotated[tuple[Spec, ...], Parameter(group=MODELS, metavar="[NAME=]SPEC")] = (),
    scores: Annotated[File | None, Parameter(group=MODELS)] = None,
    measure: Annotated[tuple[Name, ...], Parameter(group=ANALYSIS)] = (),
    condition: Annotated[tuple[Name, ...], Parameter(group=ANALYSIS, metavar="COLUMN")] = (),
    items: Items = None,
    exclude: Annotated[tuple[Text, ...], Parameter(group=ANALYSIS, metavar="RULE")] = (),
    equivalence: Equivalence = None,
    preset: Annotated[Name, Parameter(group=ANALYSIS)] = "default",
    plan: Annotated[File | None, Parameter(group=ANALYSIS)] = None,
    out: Annotated[OutputFolder, Parameter(group=OUTPUT)],
    mixed_models: Annotated[bool, Parameter(group=OUTPUT)] = False,
    seed: Annotated[RandomSeed | None, Parameter(group=OUTPUT)] = None,
) -> None:
    """Evaluate models on choices.

    Parameters
    ----------
    choices
        tables of choices: parts of one data set, or with --condition file separate data sets
    more_choices
        further tables of choices
    trials
        trials: table with the sentences of each question (Qualtrics)
    participant_table
        table with one row per participant, joined by the column 'participant'
    model
        model that scores the sentences
    scores
        log-probabilities, e.g. from `contstim score`
    measure
        accuracy, signed_rank_cosine or speed [the first two]
    condition
        factor of participants or items, to test its interaction with models
    items
        treatment of items: random (results generalise to new items) or fixed [random]
    exclude
        exclusion rule for participants (catch<SHARE, median-rt<MS, trials<N, participants=FILE) or
        single trials (rt<MS, rt>MS)
    equivalence
        equivalence margin, as a share of the range from chance to the noise ceiling [0.1]
    preset
        preset of the analysis: default, or golan2023 as published
    plan
        study plan (TOML) with further settings of the analysis, e.g. preregistered; deviations are
        reported
    out
        folder for tables, a figure and report.html
    mixed_models
        also write data and scripts for lme4, brms and bambi
    seed
        random seed [0]
    """
    from contstim.evaluation import evaluate, exclusion, importers, options, summary
    from contstim.evaluation import scores as score_tables
    from contstim.models.registry import load_models
    from contstim.tables import read_table

    rules = exclusion.parse_rules(exclude)
    planned = {} if plan is None else options.read_plan(plan)
    conditions = condition or planned.get("condition", ())
    human = choice_format.read([choices, *more_choices], trials, separate="file" in conditions)
    if participant_table is not None:
        participants = read_table(participant_table, cells="text")
        human = importers.join_participants(human, participants)
    table = read_table(scores) if scores else None
    exclusions = replace(options.preset_options(preset, **planned).exclusions, **rules)
    exclusion.check_rules(human.choices, exclusions)
    changes: dict[str, Any] = {
        "measures": tuple(dict.fromkeys(measure)),
        "condition": tuple(condition),
        "items": items,
        "equivalence": equivalence,
        "seed": seed,
        "exclusions": exclusions if rules else None,
    }
    changes = {name: value for name, value in changes.items() if value not in (None, ())}
    if model:
        models = load_models(model)
        for loaded_model in models:
            report_model(loaded_model)
        strict_models = [m for m in models if m.event.unknown == "error"]
        human = exclusion.exclude_unknown_words(human, strict_models)
        to_score = human.choices
        if table is not None:
            to_score = to_score[~score_tables.find_unscored_catch_trials(to_score, table)]
        model_scores = score_tables.model_scores(models, to_score)
        table = model_scores if table is None else score_tables.join_scores(table, model_scores)
    result = evaluate(human, table, preset, plan=plan, **changes)
    for note in result.provenance.notes:
        print_message(note)
    folder = Path(out)
    result.report(folder, mixed_models)
    for sentence in (*summary.describe_sample(result), "", *summary.summarize(result), ""):
        print(sentence)
    if result.models.empty:
        columns = ["analysis", "measure", "ceiling_lower", "ceiling_upper"]
        printed = result.details.ceilings[columns]
    else:
        columns = ["analysis", "measure", "model", "value", "ci_low", "ci_high", "ceiling_lower"]
        printed = result.models[columns]
    print(printed.to_string(index=False, float_format="%.3f"))
    print(f"\n{folder / 'report.html'}")
