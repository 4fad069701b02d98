"""contstim: controversial stimuli, sentence pairs on which language models disagree.

Most commands of ``contstim`` correspond to one of these functions, which take and return
DataFrames:

- `load_model`: load a model, e.g. ``contstim:gpt`` or ``hf:gpt2``
- `score_sentences`: score sentences under models
- `synthesize`, `synthesize_triplets`: write sentences on which models disagree
- `select_natural_pairs`, `select_triplets`, `select_set`: select the most controversial stimuli
- `design_trials`, `latin_square`: lay out the trials of participants
- `simulate_choices`: simulate participants
- `read_choices`: read choices of participants
- `evaluate`, `summarize`: find out which model predicts the choices
- `datasets`: bundled example tables

    import contstim

    choices = contstim.datasets.simulated_choices()
    result = contstim.evaluate(choices, ["contstim:trigram", "contstim:gpt"])

Each name is imported on first use, so that selection and evaluation do not load PyTorch.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# The type stub contains the module of each public name.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_MODULES = {
    alias.name: str(statement.module)
    for statement in _STUB.body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}

__all__ = sorted(["__version__", *_MODULES])


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("contstim.datasets")
    if name not in _MODULES:
        raise AttributeError(f"module 'contstim' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
