"""What an evaluation returns."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from contstim.evaluation.options import EvaluationOptions
from contstim.files import write_whole

__all__ = ["COMPARISON_COLUMNS", "MODEL_COLUMNS", "Evaluation"]

#: Columns of `Evaluation.models`; the first twelve are the ones that stay.
MODEL_COLUMNS = (
    "analysis",
    "measure",
    "model",
    "value",
    "ci_low",
    "ci_high",
    "ceiling_lower",
    "ceiling_upper",
    "n_participants",
    "n_trials",
    "p_ceiling",
    "q_ceiling",
    "effect_ceiling",
    "n_choices",
    "n_choices_ceiling",
    "n_tied_predictions",
    "n_tied_ratings",
    "unit",
    "n_units",
    "p_smallest",
    "test",
    "note",
)
#: Columns of `Evaluation.comparisons`; the first eight are the ones that stay.
COMPARISON_COLUMNS = (
    "analysis",
    "measure",
    "model_1",
    "model_2",
    "difference",
    "p",
    "q",
    "effect",
    "ci_low",
    "ci_high",
    "unit",
    "n_units",
    "p_smallest",
    "test",
    "note",
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Tables that say which model predicts the choices, and how far it is from the ceiling.

    Attributes
    ----------
    models
        One row an analysis, measure and model. `value` is the mean over participants, with its
        interval, noise ceilings on the same trials, and the test against the lower ceiling.
        `note` says why a value is missing.
    comparisons
        One row an analysis, measure and pair of models: `difference` (model 1 minus model 2,
        mean over the participants who have both), signed-rank test, adjusted p, and the
        rank-biserial effect size.
    participants, groups
        The same values for each participant and each group, with their ceilings.
    ceilings
        Noise ceilings of each analysis of all trials, which need no model.
    trials
        One row a pair: counts of choices, mean rating, the models' log-ratios.
    agreement, reliability
        See `agreement_table` and `reliability_table`.
    model_agreement, consistency, natural_preference
        See `contstim.evaluation.matrices`.
    instructive
        The trials that most tell against each model.
    normalisation, token_counts
        Controls, where the scores come with token counts; see `normalisation_control` and
        `token_counts`.
    features
        The control on word features, where features are given; see `feature_control`.
    scores
        The models' log-probabilities of the sentences shown, nats.
    excluded
        What was left out, by which rule.
    summary
        Numbers of participants, trials and choices, and the like.
    levels
        What the bootstrap resampled.
    options, preset
        How it was done.
    notes
        Sentences on decisions taken on the way.
    versions
        Of contstim, Python and the libraries.
    """

    models: pd.DataFrame
    comparisons: pd.DataFrame
    participants: pd.DataFrame
    groups: pd.DataFrame
    ceilings: pd.DataFrame
    trials: pd.DataFrame
    agreement: pd.DataFrame
    reliability: pd.DataFrame
    model_agreement: pd.DataFrame
    consistency: pd.DataFrame
    natural_preference: pd.DataFrame
    instructive: pd.DataFrame
    normalisation: pd.DataFrame
    token_counts: pd.DataFrame
    features: pd.DataFrame
    scores: pd.DataFrame
    excluded: pd.DataFrame
    summary: dict[str, object]
    levels: tuple[str, ...]
    options: EvaluationOptions
    preset: str
    notes: tuple[str, ...]
    versions: dict[str, str]

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: t for name, t in found.items() if isinstance(t, pd.DataFrame)}

    def write_tables(self, folder: str | Path) -> list[Path]:
        """Write each table that has rows, and the two main ones always, as ``NAME.csv``.

        Raises
        ------
        OutputError
            If the folder or a file cannot be written.
        """
        place = Path(folder)
        written = []
        for name, table in self.tables().items():
            if len(table) or name in ("models", "comparisons", "excluded"):
                written.append(place / f"{name}.csv")
                write_whole(written[-1], table.to_csv(index=False))
        return written

    def report(self, folder: str | Path) -> Path:
        """Write the tables, the figures and ``report.html`` to `folder`; return its path.

        Raises
        ------
        OutputError
            If the folder or a file cannot be written.
        """
        # Drawing lives one floor up. It is looked up by name when asked for, so that this
        # floor neither imports nor needs it.
        writer = importlib.import_module("contstim.report")
        return Path(writer.write_report(self, folder))
