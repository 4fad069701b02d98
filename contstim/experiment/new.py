"""A new study folder, for a researcher to edit."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from contstim.errors import InputError, OutputError
from contstim.experiment.study import Study, read_study
from contstim.experiment.texts import default_source
from contstim.experiment.trials import read_design
from contstim.files import write_whole
from contstim.tables import numbered_lines

__all__ = ["new_study"]

_CONSENT = """\
You are invited to take part in a study on language by [[the researchers and their institution]].

You will see pairs of sentences and say which of the two is more likely. This takes about \
[[number]] minutes. [[What participants receive.]]

We store your answers, how long they took, whether the page was left meanwhile, and whether you \
used keyboard, mouse or touch. Your participant id is kept apart from your answers and is not \
published. [[Where data are stored, for how long, and what is published.]]

Taking part is voluntary. You can stop at any time by closing the page, without giving a reason. \
[[How to have data deleted.]]

Questions: [[name and address]]. Approval: [[board and number]].
"""


def new_study(folder: str | Path, trials: str | Path) -> Study:
    """Write a study folder around a table of trials and return the study.

    Parameters
    ----------
    folder
        Where; it must not exist or be empty. Its name becomes the study's.
    trials
        What ``contstim design trials`` wrote; it is copied.

    Raises
    ------
    InputError
        If the folder holds something, or the table cannot be used.
    OutputError
        If the place cannot be written to.
    """
    folder, trials = Path(folder), Path(trials)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is there already and not empty; choose another folder")
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}") from None
    read_design(trials)  # says what is wrong before anything is written
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-_")[:64] or "study"
    template = (files("contstim.experiment") / "template.toml").read_text("utf-8")
    table = "".join(f"{line}\n" for _, line in numbered_lines(trials))
    write_whole(folder / "trials.csv", table)
    write_whole(folder / "consent.md", _CONSENT)
    write_whole(folder / "texts.toml", default_source())
    write_whole(folder / "study.toml", template.replace("{name}", json.dumps(name), 1))
    return read_study(folder)
