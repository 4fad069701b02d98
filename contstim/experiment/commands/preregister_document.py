"""Implementation of `contstim preregister`, which writes a preregistration from study plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from contstim import __version__
from contstim.adaptive import preregistration
from contstim.cli.common import write_output
from contstim.errors import InputError
from contstim.evaluation.options import EvaluationOptions, read_plan
from contstim.files import file_digest
from contstim.pipeline.stages.design import DESIGN_STAGE, DesignOptions
from contstim.pipeline.study import read_study_plan, select_stages
from contstim.settings import read_toml
from contstim.tables import read_table


def write_preregistration(
    plans: Sequence[str], trials: str | None, title: str | None, out: str
) -> None:
    """Write the preregistration of a study.

    Parameters
    ----------
    plans
        Analysis plan, study plan, or both.
    trials
        Table of trials, if any.
    title
        Title of the document, or None for the name of the study.
    out
        File to write, ``-`` for standard output.

    Raises
    ------
    InputError
        If a plan is neither an analysis plan nor a study plan, two plans are of the same kind, or
        the title is not valid text.
    """
    try:
        (title or "").encode()
    except UnicodeEncodeError:
        raise InputError(f"--title {title!r} is not valid Unicode; retype it") from None

    # Sort the plans by kind.
    analysis_keys = {"adaptive", *(field.name for field in fields(EvaluationOptions))}
    study_plans: list[str] = []
    analysis_plans: list[str] = []
    for path in plans:
        keys = set(read_toml(Path(path)))
        if "models" not in keys and keys and not keys & analysis_keys:
            raise InputError(
                f"{path} is no analysis plan (with measures, [exclusions], [sample] or [adaptive]) "
                "and no study plan of `contstim run` (with models); give one of these"
            )
        (study_plans if "models" in keys else analysis_plans).append(path)
    for paths, kind in ((study_plans, "study plans"), (analysis_plans, "analysis plans")):
        if len(paths) > 1:
            raise InputError(f"{paths[0]} and {paths[1]} are both {kind}; give one")

    name, stimuli, options = "Fixed study", "", EvaluationOptions()
    design, adaptive = None, None
    if analysis_plans:
        options = EvaluationOptions(**read_plan(analysis_plans[0]))
        if "adaptive" in read_toml(Path(analysis_plans[0])):
            adaptive = preregistration.read_adaptive_plan(analysis_plans[0])
            name = f"{adaptive.design.capitalize()} study"
    if study_plans:
        plan = read_study_plan(study_plans[0])
        name = plan.study.name
        stages = [stage for stage in select_stages(plan) if stage is not DESIGN_STAGE]
        stimuli = "\n\n".join(filter(None, (stage.describe(plan) for stage in stages)))
        design_options = plan.find_options(DesignOptions)
        if design_options is not None:
            layout = design_options.get_layout()
            n_pairs = sum(DESIGN_STAGE.count_trials(plan).values()) - layout.catch
            design = preregistration.PlannedDesign(
                participants=layout.groups * layout.participants,
                groups=layout.groups,
                pairs_per_participant=n_pairs,
                items_per_participant=n_pairs,
                models=len(plan.models),
                description=DESIGN_STAGE.describe(plan),
            )
    if trials is not None:
        design = preregistration.PlannedDesign.from_trials(read_table(trials, cells="inferred"))

    paragraphs = preregistration.describe_study(options, design, stimuli, adaptive)
    files = [*plans, *([] if trials is None else [trials])]
    digests = [f"- {Path(file).name}: SHA-256 {file_digest(Path(file))}" for file in files]
    paragraphs["Files"] = "\n".join([*digests, f"- contstim {__version__}"])
    with write_output(out, files) as file:
        file.write(preregistration.format_document(title or name, paragraphs))
