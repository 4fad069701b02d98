"""Write the preregistration of a study in full sentences.

PLAN is an analysis plan (as for `contstim evaluate --plan`), a study plan (as for `contstim run`),
or one of each. An analysis plan states the number of participants and trials in a table [sample],
or has a table [adaptive] for an adaptive study. Without a study plan, --trials gives the trials,
which must agree with [sample]. Power is simulated for the planned test. After the study,
`contstim evaluate --plan PLAN` reports deviations from the plan.

examples:
  contstim preregister plan.toml --out preregistration.md
  contstim preregister plan.toml --trials trials.csv --out preregistration.md
  contstim preregister study.toml plan.toml --out preregistration.md
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from contstim.cli.application import create_application
from contstim.cli.parameters import STANDARD_OUTPUT, File, OutputFile, Text

app = create_application("preregister", __doc__, usage="contstim preregister [options] PLAN [PLAN]")


@app.default
def preregister(
    *plan: Annotated[File, Parameter(required=True)],
    trials: File | None = None,
    title: Text | None = None,
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """Write the preregistration.

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
    # Loads pandas and SciPy, which the help does without.
    from contstim.experiment.commands.preregister_document import write_preregistration

    write_preregistration(plan, trials, title, out)
