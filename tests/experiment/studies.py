"""Designs and study folders shared by the tests of the experiment."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from contstim.design.trials import Layout, design_trials
from contstim.experiment.study import Study, read_study

ATTENTION = """
[[attention]]
after = 2
left = "Choose this."
right = "Not this."
expected = "left"

[[attention]]
after = 0
left = "Not this."
right = "Choose this."
expected = "right"
"""

RECRUITER = """
[recruiter]
name = "prolific"
participant = "PROLIFIC_PID"
parameters = ["STUDY_ID"]
redirect = "https://app.prolific.com/submissions/complete?cc={code}"

[recruiter.codes]
complete = "DONE1"
declined = "NO2"
"""


def make_trials(groups: int = 2, participants: int = 2, pairs: int = 2) -> pd.DataFrame:
    """Lay out `pairs` natural pairs per group, two random pairs and two catch trials."""
    natural = pd.DataFrame(
        {
            "model_1": "m1",
            "model_2": "m2",
            "sentence_1": [f"Number {i} stood here first." for i in range(groups * pairs)],
            "sentence_2": [f"Number {i} came there last." for i in range(groups * pairs)],
        }
    )
    pool = [f"The {i} old men walked home again, slowly." for i in range(40)]
    layout = Layout(groups, participants, random_natural=2, catch=2)
    return design_trials(natural, pool=pool, layout=layout, seed=3)


def edit(study: Study, old: str, new: str) -> Study:
    """Change something in ``study.toml`` and read the study again."""
    path = study.folder / "study.toml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return read_study(study.folder)


def add(study: Study, text: str) -> Study:
    """Add tables to ``study.toml`` and read the study again."""
    path = Path(study.folder) / "study.toml"
    path.write_text(path.read_text("utf-8") + "\n" + text, "utf-8")
    return read_study(study.folder)
