"""Write the plan of a study in whole sentences, to be registered before the study.

A PLAN.toml is what `contstim evaluate --plan` reads, the analysis: measures, tests, [exclusions];
with a table [sample] for how many people are asked and what they are paid, or a table [adaptive]
(docs/adaptive.md). Another may be what `contstim run` reads, the stimuli and the design. Instead of
the latter, or where the trials are made by hand, --trials gives the table. What a plan leaves out
has its default, which the document states too; power is that of the test that is planned, by
simulation. After the study `contstim evaluate --plan PLAN.toml` lists where the data and the
analysis depart from it.

Examples:
  contstim preregister PLAN.toml --out preregistration.md
  contstim preregister PLAN.toml --trials trials.csv --out preregistration.md
  contstim preregister STUDY.toml PLAN.toml --out preregistration.md
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import write_output
from contstim.cli.parsing import CommandParser
from contstim.errors import InputError
from contstim.settings import read_toml

if TYPE_CHECKING:
    from contstim.evaluation.preregister import PlannedDesign


def configure(parser: CommandParser) -> None:
    """Add the options."""
    what = "the plan of the analysis, that of the study's stages, or both"
    parser.add_argument("plans", nargs="+", metavar="PLAN.toml", help=what)
    parser.add("--trials CSV", "the trials, as `contstim design trials` writes them")
    parser.add("--title TEXT", "of the document (default: the study's name, or its kind)")
    parser.add_out("FILE")


def run(args: argparse.Namespace) -> int:
    """Write the document."""
    from contstim import __version__
    from contstim.evaluation.options import EvaluationOptions, read_plan
    from contstim.evaluation.preregister import PlannedDesign, study_document, study_paragraphs
    from contstim.files import file_digest
    from contstim.tables import read_table

    try:
        (args.title or "").encode()
    except UnicodeEncodeError:
        raise InputError(f"--title {args.title!r} is not text; write it anew") from None
    # What `contstim run` reads lists models, which no plan of an analysis does.
    of_stages = [path for path in args.plans if "models" in read_toml(Path(path))]
    of_analysis = [path for path in args.plans if path not in of_stages]
    for paths, what in ((of_stages, "of stages"), (of_analysis, "of an analysis")):
        if len(paths) > 1:
            raise InputError(f"{paths[0]} and {paths[1]} are both plans {what}; give one")
    options = EvaluationOptions(**(read_plan(of_analysis[0]) if of_analysis else {}))
    title, design, stimuli = "Fixed study", None, ""
    if options.adaptive is not None:
        title = f"{options.adaptive.design.capitalize()} study"
    if of_stages:
        title, stimuli, design = _of_stages(of_stages[0])
    if args.trials is not None:
        design = PlannedDesign.of_trials(read_table(args.trials, cells="guessed"))
    paragraphs = study_paragraphs(options, design, stimuli)
    files = [*args.plans, *([] if args.trials is None else [args.trials])]
    digests = [f"- {Path(name).name}: SHA-256 {file_digest(Path(name))}" for name in files]
    paragraphs["Files"] = "\n".join([*digests, f"- contstim {__version__}"])
    with write_output(args.out, files) as out:
        out.write(study_document(args.title or title, paragraphs))
    return 0


def _of_stages(path: str) -> tuple[str, str, PlannedDesign | None]:
    """Return name, stimuli and, if it lays out trials, design of a study plan."""
    from contstim.evaluation.preregister import PlannedDesign
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
