"""See what contstim does, in a minute, on the bundled models.

Shows readable sentences on which two models disagree, written beforehand by a language model;
searches for more, one word at a time, for two pairs of models; evaluates bundled choices of
simulated people; and writes all of it to one page, index.html, in the output folder. With
--experiment it serves a small experiment instead, to be played in a browser of this machine; the
same command continues with its data.

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
    """Run the demonstration.

    Parameters
    ----------
    out
        output folder
    experiment
        serve a small experiment instead
    port
        port of the experiment's server
    seed
        random seed
    """
    if experiment:
        if find_spec("contstim.experiment") is None:
            raise InputError(
                "--experiment needs contstim.experiment, which is missing; leave it out"
            )
        serve_example = import_object("contstim.experiment.commands.experiment:serve_example")
        serve_example(Path(out) / "study", port)
        return
    from contstim.cli.demonstration import demonstrate

    demonstrate(Path(out), seed)
