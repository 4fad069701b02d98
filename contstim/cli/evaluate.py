"""Find out from people's choices which model was right, how far from the ceiling, how surely.

The noise ceiling is how well the best possible model could do, people differing as they do.
Reads a table of choices (a row per trial and participant), scores its sentences under models or
takes their log-probabilities from a table, and writes models.csv, comparisons.csv, further tables,
figures and one self-contained report.html into the output folder. Trials with a word that a model
does not know are left out, for all models, and reported; ?unknown=unk in its spec keeps them.

Examples:
  contstim evaluate choices.csv --model contstim:trigram --model contstim:lstm --out results
  contstim evaluate choices.csv --scores scores.csv --out results
  contstim evaluate choices.csv --model contstim:gpt --model table:mine.csv --out results
  contstim evaluate first.csv second.csv --scores scores.csv --out results
  contstim evaluate mine.csv --column participant=subject --low 1 --high 7 --out results
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

from contstim.cli.common import add_exclusions, given_rules, tell, tell_model
from contstim.cli.parsing import CommandParser, given, whole_number
from contstim.errors import InputError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.exclusion import check_rules, exclude, leave_out_unknown
from contstim.evaluation.importers import (
    FORMATS,
    read_choices,
    together,
    with_people,
)
from contstim.evaluation.importers.jspsych import complete_files
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import PRESETS, EvaluationOptions, preset_options, read_plan
from contstim.evaluation.scores import (
    joined_scores,
    model_scores,
    unscored_catch,
)
from contstim.evaluation.summary import describe_sample, summarize
from contstim.models.registry import load_models
from contstim.response_model import unit_sentence
from contstim.tables import read_list, read_table


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = (
        "the file of choices; several are one table, with the file's name as condition (--by) "
        "unless each has one participant"
    )
    parser.add_argument("choices", nargs="+", help=what)
    parser.add(
        "--format",
        "auto (the default): exports of jsPsych, PCIbex, Gorilla and Qualtrics are recognised by "
        "their columns; tidy: the columns participant, group, trial, condition, sentence_1, "
        "sentence_2, model_1, model_2, rating (-2.5 to 2.5, negative for sentence 1), rt_ms; the "
        "columns of any other file are named by --column",
        choices=sorted(FORMATS),
        default="auto",
    )
    what = (
        "a column of the tidy table, or left or right, and its name in the file; several with "
        "commas between: participant=Vp,rating=Urteil"
    )
    parser.add("--column OURS=THEIRS", what, several=True, default=[])
    parser.add(
        "--buttons N", "how many buttons a trial has in jsPsych's data", whole_number(2, 100)
    )
    parser.add(
        "--low CODE",
        "the answer that means sure of sentence 1, or of the left one: a number or a word",
    )
    parser.add("--high CODE", "the answer that means sure of sentence 2, or the right one")
    parser.add(
        "--side COLUMN",
        "the column that says where sentence 1 was, left or right (1 or 2: which sentence was on "
        "the left); none: no column does",
    )
    what = (
        "for Qualtrics, the sentences of each question: question, sentence_1, sentence_2, perhaps "
        "low, high (the ends of its scale) and timer"
    )
    parser.add("--trials CSV", what)
    parser.add("--scores CSV", "log-probabilities, as `contstim score` writes them")
    parser.add(
        "--model [NAME=]SPEC",
        "a model to score the sentences with, such as table:FILE.csv for log-probabilities from "
        "elsewhere; tables and figures call it NAME, if it has one",
        several=True,
        default=[],
    )
    parser.add_cache("keep and reuse the scores of --model in this folder")
    add_exclusions(parser, "exclusions, each reported in excluded.csv and the page")
    what = "leave out these participants: one a line, or a CSV with a column 'participant'"
    parser.add("--exclude FILE", what)
    what = (
        "what is known of participants, joined to the choices, for --by: a column 'participant' "
        "and others, or responses.csv of an experiment"
    )
    parser.add("--people CSV", what)
    what = "golan2023: the published analysis, choice by choice; default: that of contstim"
    parser.add("--preset", what, choices=sorted(PRESETS), default="default")
    parser.add(
        "--plan TOML",
        "the analysis plan: options by name, e.g. margin = 0.1 and [exclusions]; the report lists "
        "what departs from it",
    )
    what = "accuracy, signed_rank_cosine (default: these two), speed, or one that a package brings"
    parser.add("--measure NAME", what, choices=MEASURES, several=True, default=[])
    parser.add_fields(EvaluationOptions, unset=True)
    what = "also write mixed_models.csv and scripts for mixed models in lme4, brms and bambi"
    parser.add("--mixed-models", what)
    parser.add_out_folder()
    parser.add_seed(planned=True)


def run(args: argparse.Namespace) -> int:
    """Evaluate and write."""
    if args.buttons is not None and args.format not in ("auto", "jspsych"):
        raise InputError(f"--buttons {args.buttons} is for --format jspsych, not {args.format}")
    human = _all_choices(args)
    if args.people is not None:
        human = with_people(human, read_table(args.people, cells="text"))
    scores = read_table(args.scores) if args.scores else None
    if args.mixed_models and scores is None and human.scores is None and not args.model:
        raise InputError("--mixed-models needs --model or --scores")
    planned = {} if args.plan is None else read_plan(args.plan)
    rules = given_rules(args)
    if args.exclude is not None:
        rules["participants"] = read_list(args.exclude, "participant")
    exclusions = replace(preset_options(args.preset, **planned).exclusions, **rules)
    check_rules(human.choices, exclusions)
    if args.model:
        models = load_models(args.model)
        for model in models:
            tell_model(model)
        human = leave_out_unknown(human, [m for m in models if m.event.unknown == "error"])
        choices = human.choices
        if scores is not None:
            choices = choices[~unscored_catch(choices, scores)]
        scored = model_scores(models, choices, args.cache)
        scores = scored if scores is None else joined_scores(scores, scored)
    for note in human.notes:
        tell(note)
    changes = given(args, EvaluationOptions)
    if args.measure:
        changes["measures"] = tuple(dict.fromkeys(args.measure))
    if len(args.choices) > 1 and "file" in human.choices:
        changes.setdefault("by", ("file",))
    if rules:
        changes["exclusions"] = exclusions
    folder = Path(args.out)
    result = evaluate(human, scores, args.preset, plan=args.plan, **changes)
    for note in result.provenance.notes:
        if note not in human.notes:
            tell(note)
    result.report(folder)
    source = human.scores if scores is None else scores
    if args.mixed_models and source is not None:
        from contstim.evaluation.mixed import write_mixed_models

        included, _ = exclude(human.choices, result.provenance.options.exclusions)
        wide = result.provenance.scores.set_index("sentence")
        write_mixed_models(replace(human, choices=included), wide, folder)
    options = result.provenance.options
    if len(result.models) and options.inference == "signed-rank":
        tell(unit_sentence(result.summary.n_groups, options.min_groups))
    for sentence in (*describe_sample(result), "", *summarize(result), ""):
        print(sentence)
    columns = ["analysis", "measure", "model", "value", "ci_low", "ci_high", "ceiling_lower"]
    if result.models.empty:
        columns = ["analysis", "measure", "ceiling_lower", "ceiling_upper"]
    table = result.details.ceilings if result.models.empty else result.models
    print(table[columns].to_string(index=False, float_format="%.3f"))
    print(f"\n{folder / 'report.html'}")
    return 0


def _all_choices(args: argparse.Namespace) -> HumanData:
    """Read the choices of all files."""
    if len(set(args.choices)) < len(args.choices):
        raise InputError("a file of choices is given twice; give each once")
    files, notes = complete_files([Path(path) for path in args.choices])
    paths = [str(path) for path in files]
    for note in notes:
        tell(note)
    if len(paths) == 1:
        return _choices(paths[0], args)
    names = [path.name.split(".")[0] for path in files]
    if len(set(names)) < len(names):
        names = paths
    return together({n: _choices(path, args) for n, path in zip(names, paths, strict=True)})


def _choices(path: str, args: argparse.Namespace) -> HumanData:
    """Read the choices of a file, as the options say of it."""
    described = {
        "low": args.low,
        "high": args.high,
        "columns": _columns(args) or None,
        "side": args.side,
        "trials": args.trials,
    }
    if args.format != "auto":
        if any(value is not None for value in described.values()):
            raise InputError(
                "--column, --low, --high, --side and --trials describe a file of your own, not "
                f"--format {args.format}"
            )
        options = {} if args.buttons is None else {"n_choices": args.buttons}
        return read_choices(path, args.format, **options)
    return read_choices(path, **described, n_choices=args.buttons)


def _columns(args: argparse.Namespace) -> dict[str, str]:
    """Return what --column says, by our names."""
    columns = {}
    # A comma stands between two assignments only: names of columns may hold commas.
    for pair in chain.from_iterable(re.split(r",(?=\w+=)", pairs) for pairs in args.column):
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(
                f"--column {pair!r} does not read OURS=THEIRS, e.g. participant=subject"
            )
        columns[ours] = theirs
    return columns
