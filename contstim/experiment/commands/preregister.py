"""Write the plan of a study in whole sentences, to be preregistered.

PLAN.toml is an analysis plan, as `contstim evaluate --plan` reads it, with a table [sample] for the
number of participants and trials, or a table [adaptive] for an adaptive study. STUDY.toml is a
study plan, as `contstim run` reads it. --trials gives the trials of a study that has no study plan;
they must agree with [sample]. Power is simulated for the planned test. After the study `contstim
evaluate --plan PLAN.toml` reports deviations.

examples:
  contstim preregister PLAN.toml --out preregistration.md
  contstim preregister PLAN.toml --trials trials.csv --out preregistration.md
  contstim preregister STUDY.toml PLAN.toml --out preregistration.md
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from contstim.cli.application import create_application
from contstim.cli.common import write_output
from contstim.cli.parameters import STANDARD_OUTPUT, File, OutputFile, Text
from contstim.errors import InputError
from contstim.files import file_digest
from contstim.settings import read_toml
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.adaptive.preregistration import PlannedDesign


app = create_application("preregister", __doc__, usage="contstim preregister [options] PLAN [PLAN]")


@app.default
def preregister(
    *plan: Annotated[File, Parameter(required=True)],
    trials: File | None = None,
    title: Text | None = None,
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """Write the document.

    Parameters
    ----------
    plan
        analysis plan, study plan, or both (TOML)
    trials
        trials, output of `contstim design trials`
    title
        title of the document [name of the study]
    out
        output document [standard output]
    """
    from contstim import __version__
    from contstim.adaptive.preregistration import (
        PlannedDesign,
        describe_study,
        format_document,
        read_adaptive_plan,
    )
    from contstim.evaluation.options import EvaluationOptions, read_plan

    try:
        (title or "").encode()
    except UnicodeEncodeError:
        raise InputError(f"--title {title!r} is not text; write it anew") from None
    of_stages: list[str] = []
    of_analysis: list[str] = []
    analysis_keys = {"adaptive", *(field.name for field in fields(EvaluationOptions))}
    for path in plan:
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
    name, design, stimuli = "Fixed study", None, ""
    if adaptive is not None:
        name = f"{adaptive.design.capitalize()} study"
    if of_stages:
        name, stimuli, design = _of_stages(of_stages[0])
    if trials is not None:
        design = PlannedDesign.from_trials(read_table(trials, cells="inferred"))
    paragraphs = describe_study(options, design, stimuli, adaptive)
    files = [*plan, *([] if trials is None else [trials])]
    digests = [f"- {Path(file).name}: SHA-256 {file_digest(Path(file))}" for file in files]
    paragraphs["Files"] = "\n".join([*digests, f"- contstim {__version__}"])
    with write_output(out, files) as file:
        file.write(format_document(title or name, paragraphs))


def _of_stages(path: str) -> tuple[str, str, PlannedDesign | None]:
    """Return name, stimuli and, if it lays out trials, design of a study plan."""
    from contstim.adaptive.preregistration import PlannedDesign
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
