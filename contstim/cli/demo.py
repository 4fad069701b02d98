"""Demonstrate contstim on the bundled models, in a minute.

Shows readable sentences on which two models disagree, written beforehand by a language model;
searches for further sentences by replacing words; and evaluates two models on bundled choices of
simulated participants. The page index.html in the output folder shows all results.

The option --experiment serves a small experiment in a browser on this machine instead. Repeat the
command to continue with its data.

examples:
  contstim demo --out demo-output
  contstim demo --experiment
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from contstim.cli.application import create_application
from contstim.cli.parameters import OutputFolder, Port, RandomSeed
from contstim.errors import InputError
from contstim.plugins import import_object

app = create_application("demo", __doc__)


@app.default
def demo(
    *,
    out: OutputFolder = "demo-output",
    experiment: bool = False,
    port: Port = 8000,
    seed: RandomSeed = 0,
) -> None:
    """Demonstrate sentence selection and synthesis with bundled models.

    Parameters
    ----------
    out
        output folder
    experiment
        serve a small experiment in a browser instead
    port
        port of the experiment server
    seed
        random seed
    """
    if experiment:
        if find_spec("contstim.experiment") is None:
            raise InputError(
                "--experiment needs the package contstim.experiment, which is missing; leave the "
                "option out"
            )
        # The command line does not depend on the package of the experiment, so load it by name.
        serve_example = import_object("contstim.experiment.commands.experiment:serve_example")
        serve_example(Path(out) / "study", port)
        return
    from contstim.cli.demonstration import demonstrate

    demonstrate(Path(out), seed)
