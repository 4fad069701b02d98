"""Write the plan of a study in whole sentences, to be preregistered.

PLAN.toml is an analysis plan, as `contstim evaluate --plan` reads it, with a table [sample] for the
number of participants and trials, or a table [adaptive] for an adaptive study. STUDY.toml is a
study plan, as `contstim run` reads it. --trials gives the trials of a study that has no study plan;
they must agree with [sample]. Power is simulated for the planned test. After the study `contstim
evaluate --plan PLAN.toml` reports deviations.

Examples:
  contstim preregister PLAN.toml --out preregistration.md
  contstim preregister PLAN.toml --trials trials.csv --out preregistration.md
  contstim preregister STUDY.toml PLAN.toml --out preregistration.md
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import write_output
from contstim.cli.parsing import CommandParser
from contstim.errors import InputError
from contstim.settings import read_toml

if TYPE_CHECKING:
    from contstim.adaptive.preregister import PlannedDesign


def configure(parser: CommandParser) -> None:
    """Add the options."""
    what = "analysis plan, study plan, or both"
    parser.add_argument("plans", nargs="+", metavar="PLAN.toml", help=what)
    parser.add("--trials CSV", "table of trials, e.g. from `contstim design trials`")
    parser.add("--title TEXT", "title of the document [name of the study]")
    parser.add_out("FILE")


def run(args: argparse.Namespace) -> int:
    """Write the document."""
    from contstim import __version__
    from contstim.adaptive.preregister import (
        PlannedDesign,
        read_adaptive_plan,
        study_document,
        study_paragraphs,
    )
    from contstim.evaluation.options import EvaluationOptions, read_plan
    from contstim.files import file_digest
    from contstim.tables import read_table

    try:
        (args.title or "").encode()
    except UnicodeEncodeError:
        raise InputError(f"--title {args.title!r} is not text; write it anew") from None
    of_stages: list[str] = []
    of_analysis: list[str] = []
    analysis_keys = {"adaptive", *(field.name for field in fields(EvaluationOptions))}
    for path in args.plans:
        keys = set(read_toml(Path(path)))
        if "models" not in keys and keys and not keys & analysis_keys:
            raise InputError(
                f"{path} is no analysis plan (with measures, [exclusions], [sample] or [adaptive]) "
                "and no study plan of `contstim run` (with models); give one of these"
            )
        (of_stages if "models" in keys else of_analysis).append(path)
    for paths, what in ((of_stages, "study plans"), (of_analysis, "analysis plans")):
        if len(paths) > 1:
            raise InputError(f"{paths[0]} and {paths[1]} are both {what}; give one")
    options = EvaluationOptions(**(read_plan(of_analysis[0]) if of_analysis else {}))
    adaptive = None
    if of_analysis and "adaptive" in read_toml(Path(of_analysis[0])):
        adaptive = read_adaptive_plan(of_analysis[0])
    title, design, stimuli = "Fixed study", None, ""
    if adaptive is not None:
        title = f"{adaptive.design.capitalize()} study"
    if of_stages:
        title, stimuli, design = _of_stages(of_stages[0])
    if args.trials is not None:
        design = PlannedDesign.of_trials(read_table(args.trials, cells="guessed"))
    paragraphs = study_paragraphs(options, design, stimuli, adaptive)
    files = [*args.plans, *([] if args.trials is None else [args.trials])]
    digests = [f"- {Path(name).name}: SHA-256 {file_digest(Path(name))}" for name in files]
    paragraphs["Files"] = "\n".join([*digests, f"- contstim {__version__}"])
    with write_output(args.out, files) as out:
        out.write(study_document(args.title or title, paragraphs))
    return 0


def _of_stages(path: str) -> tuple[str, str, PlannedDesign | None]:
    """Return name, stimuli and, if it lays out trials, design of a study plan."""
    from contstim.adaptive.preregister import PlannedDesign
    from contstim.pipeline.running import read_study_plan, stages_of
    from contstim.pipeline.stages.design import DESIGN, DesignOptions

    plan = read_study_plan(path)
    paragraphs = [stage.words(plan) for stage in stages_of(plan) if stage is not DESIGN]
    stimuli = "\n\n".join(filter(None, paragraphs))
    options = plan.get(DesignOptions)
    if options is None:
        return plan.study.name, stimuli, None
    layout, trials = options.resolved(), sum(DESIGN.trials(plan).values())
    people, pairs = layout.groups * layout.participants, trials - layout.catch
    words, models = DESIGN.words(plan), len(plan.models)
    design = PlannedDesign(people, layout.groups, pairs, pairs, trials, models, words)
    return plan.study.name, stimuli, design
