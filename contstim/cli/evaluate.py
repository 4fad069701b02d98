"""Find out which model predicts people's choices, how surely, and how far it is from the ceiling.

The noise ceiling is how well the best possible model could do, given how much people differ. Reads
choices from jsPsych, PCIbex, Gorilla, Qualtrics, contstim, or any table whose columns are named.
Writes tables, a figure and report.html into a folder, and prints the result. Trials with a word
that a model does not know are left out for all models; ?unknown=unk in its spec keeps them.

examples:
  contstim evaluate choices.csv --model contstim:trigram --model contstim:lstm --out results
  contstim evaluate choices.csv --scores scores.csv --exclude "catch<0.75" --out results
  contstim evaluate first.csv second.csv --scores scores.csv --condition file --out results
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
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.evaluation.choices import HumanData

app = create_application(
    "evaluate", __doc__, usage="Usage: contstim evaluate [options] CHOICES [CHOICES ...]"
)
DATA = Group.create_ordered("data")
MODELS = Group.create_ordered("models")
ANALYSIS = Group.create_ordered("analysis")
OUTPUT = Group.create_ordered("output")


@Parameter(name="*", group=DATA)
@dataclass(frozen=True)
class ChoiceFormat:
    """How files of choices are read.

    Attributes
    ----------
    format
        format of the choices: auto (recognises jsPsych, PCIbex, Gorilla and Qualtrics), tidy,
        jspsych, golan2023, or a format of an installed package
    column
        names of columns in your table, e.g. participant=Vp,rating=Urteil
    low
        answer that means certain of sentence 1, or of the left one: a number or a word
    high
        answer that means certain of sentence 2, or of the right one
    side
        column that says which sentence was on the left; none if there is no such column
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
        """Return the choices of all files; `trials` has the sentences of Qualtrics questions."""
        described = {
            "low": self.low,
            "high": self.high,
            "columns": _read_columns(self.column) or None,
            "side": self.side,
            "trials": trials,
        }
        return _read_files(files, self.format, described, self.buttons, separate)


AS_RECOGNISED = ChoiceFormat()


@app.default
def evaluate_choices(
    choices: File,
    /,
    *more_choices: File,
    choice_format: ChoiceFormat = AS_RECOGNISED,
    trials: Annotated[File | None, Parameter(group=DATA)] = None,
    participant_table: Annotated[File | None, Parameter(group=DATA)] = None,
    model: Annotated[tuple[Spec, ...], Parameter(group=MODELS, metavar="[NAME=]SPEC")] = (),
    scores: Annotated[File | None, Parameter(group=MODELS)] = None,
    measure: Annotated[tuple[Name, ...], Parameter(group=ANALYSIS)] = (),
    condition: Annotated[tuple[Name, ...], Parameter(group=ANALYSIS, metavar="COLUMN")] = (),
    items: Annotated[
        Literal["random", "fixed"] | None, Parameter(group=ANALYSIS, metavar="WHICH")
    ] = None,
    exclude: Annotated[tuple[Text, ...], Parameter(group=ANALYSIS, metavar="RULE")] = (),
    equivalence: Annotated[
        float | None, float_parameter(metavar="SHARE", above=0, below=1), Parameter(group=ANALYSIS)
    ] = None,
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
        table of choices; several are parts of one data set, or with --condition file separate ones
    more_choices
        further tables
    trials
        trials: the sentences of each question (Qualtrics)
    participant_table
        table with one row per participant, joined by the column participant
    model
        model that scores the sentences
    scores
        log-probabilities, e.g. from `contstim score`
    measure
        accuracy, signed_rank_cosine, speed [the first two]
    condition
        factor of participants or items; its interaction with models is tested
    items
        random (results generalise to new items) or fixed [random]
    exclude
        rule of exclusion: catch<SHARE, rt<MS, rt>MS, median-rt<MS, trials<N, or participants=FILE
    equivalence
        margin of equivalence, share of the range from chance to the noise ceiling [0.1]
    preset
        preset: default, or golan2023, the published analysis
    plan
        plan of the analysis (TOML) with any further setting; deviations are reported
    out
        folder for tables, figure and report.html
    mixed_models
        also write data and scripts for lme4, brms and bambi
    seed
        random seed [0]
    """
    from contstim.evaluation.evaluate import evaluate
    from contstim.evaluation.exclusion import check_rules, exclude_unknown_words, parse_rules
    from contstim.evaluation.exclusion import exclude as apply_rules
    from contstim.evaluation.importers import join_participants
    from contstim.evaluation.options import preset_options, read_plan
    from contstim.evaluation.scores import find_unscored_catch, join_scores, model_scores
    from contstim.evaluation.summary import describe_sample, summarize
    from contstim.models.registry import load_models

    rules = parse_rules(exclude)
    files = [choices, *more_choices]
    planned = {} if plan is None else read_plan(plan)
    conditions = condition or planned.get("condition", ())
    human = choice_format.read(files, trials, separate="file" in conditions)
    if participant_table is not None:
        human = join_participants(human, read_table(participant_table, cells="text"))
    table = read_table(scores) if scores else None
    if mixed_models and table is None and human.scores is None and not model:
        raise InputError("--mixed-models needs --model or --scores")
    changes: dict[str, Any] = {
        name: value
        for name, value in (
            ("measures", tuple(dict.fromkeys(measure))),
            ("condition", tuple(condition)),
            ("items", items),
            ("equivalence", equivalence),
            ("seed", seed),
        )
        if value not in (None, ())
    }
    exclusions = replace(preset_options(preset, **planned).exclusions, **rules)
    check_rules(human.choices, exclusions)
    if rules:
        changes["exclusions"] = exclusions
    if model:
        models = load_models(model)
        for loaded in models:
            report_model(loaded)
        human = exclude_unknown_words(human, [m for m in models if m.event.unknown == "error"])
        to_score = human.choices
        if table is not None:
            to_score = to_score[~find_unscored_catch(to_score, table)]
        scored = model_scores(models, to_score)
        table = scored if table is None else join_scores(table, scored)
    folder = Path(out)
    result = evaluate(human, table, preset, plan=plan, **changes)
    for note in result.provenance.notes:
        print_message(note)
    result.report(folder)
    if mixed_models:
        from contstim.evaluation.mixed import write_mixed_models

        included, _ = apply_rules(human.choices, result.provenance.options.exclusions)
        wide = result.provenance.scores.set_index("sentence")
        write_mixed_models(replace(human, choices=included), wide, folder)
    for sentence in (*describe_sample(result), "", *summarize(result), ""):
        print(sentence)
    columns = ["analysis", "measure", "model", "value", "ci_low", "ci_high", "ceiling_lower"]
    if result.models.empty:
        columns = ["analysis", "measure", "ceiling_lower", "ceiling_upper"]
    shown = result.details.ceilings if result.models.empty else result.models
    print(shown[columns].to_string(index=False, float_format="%.3f"))
    print(f"\n{folder / 'report.html'}")


def _read_files(
    files: list[str], format: str, described: dict[str, Any], buttons: int | None, separate: bool
) -> HumanData:
    """Return the choices of all files."""
    from contstim.evaluation.importers import FORMATS, combine_choices, read_choices
    from contstim.evaluation.importers.jspsych import drop_partial_files

    require_known("--format", format, FORMATS)
    if buttons is not None and format not in ("auto", "jspsych"):
        raise InputError(f"--buttons {buttons} is for --format jspsych, not {format}")
    if format == "auto":
        options = {**described, "n_choices": buttons}
    elif any(value is not None for value in described.values()):
        named = {"columns": "column"}
        first = next(named.get(n, n) for n, value in described.items() if value is not None)
        raise InputError(f"--{first} describes a file of your own, not --format {format}")
    else:
        options = {} if buttons is None else {"n_choices": buttons}
    if len(set(files)) < len(files):
        raise InputError("a file of choices is given twice; give each once")
    complete, notes = drop_partial_files([Path(path) for path in files])
    paths = [str(path) for path in complete]
    for note in notes:
        print_message(note)
    if len(paths) == 1:
        return read_choices(paths[0], format, **options)
    names = [path.name.split(".")[0] for path in complete]
    if len(set(names)) < len(names):
        names = paths
    return combine_choices(
        {n: read_choices(path, format, **options) for n, path in zip(names, paths, strict=True)},
        separate,
    )


def _read_columns(given: tuple[str, ...]) -> dict[str, str]:
    """Return what --column says, by the names of contstim."""
    columns = {}
    # A comma separates assignments only: names of columns may contain commas.
    for pair in chain.from_iterable(re.split(r",(?=\w+=)", pairs) for pairs in given):
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(
                f"--column {pair!r} does not read OURS=THEIRS, e.g. participant=subject"
            )
        columns[ours] = theirs
    return columns
