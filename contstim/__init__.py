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

from contstim.lazy import attach_stub

__version__ = "0.1.0"

__getattr__, _names = attach_stub(__name__, __file__)
__all__ = sorted(["__version__", *_names])


def __dir__() -> list[str]:
    return __all__
