"""What an evaluation returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.display import displayed, table_html
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.trials import TrialData
from contstim.files import write_whole
from contstim.models.registry import score_kind
from contstim.tables import SPEC, UNIT, escape_table
from contstim.text_files import format_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Columns of `Evaluation.models`; the first twelve are the ones that stay. An inference fills its
#: own of the others, see `InferenceResult`.
MODEL_COLUMNS = (
    *("analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_upper", "n_participants", "n_trials", "p_ceiling", "q_ceiling"),
    *("effect_ceiling", "p_chance", "stderr", "df"),
    *("ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("ceiling_upper_ci_low", "ceiling_upper_ci_high", "gap_ci_low", "gap_ci_high"),
    *("n_choices", "n_choices_ceiling", "n_tied_predictions", "n_tied_ratings"),
    *("unit", "n_units", "p_smallest", "test", "note"),
)
#: Columns of `Evaluation.comparisons`; the first eight are the ones that stay.
COMPARISON_COLUMNS = (
    *("analysis", "measure", "model_1", "model_2", "difference", "p", "q", "effect"),
    *("ci_low", "ci_high", "stderr", "df", "margin", "p_equivalence", "conclusion"),
    *("participants_needed", "items_needed", "unit", "n_units", "p_smallest", "test", "note"),
)


#: Columns of `Evaluation.conditions`.
CONDITION_COLUMNS = (
    *("analysis", "measure", "factor", "level_1", "level_2", "model_1", "model_2", "difference"),
    *("p", "q", "ci_low", "ci_high", "stderr", "df", "n_participants_1", "n_participants_2"),
    *("conclusion", "note"),
)


@displayed
@dataclass(frozen=True)
class Summary:
    """Who did what.

    Attributes
    ----------
    n_participants, n_groups, n_trials, n_choices
        Of what was analysed; a trial is a pair of sentences.
    n_choices_read
        Before exclusions.
    has_disjoint_groups
        Whether no pair was seen by two groups.
    trials_per_participant, participants_per_trial
        Least, median and most.
    median_rt_ms
        Median response time, or None without times.
    catch_correct
        Share of catch trials right, of the participant with fewest and on average, or None.
    models
        Their names.
    """

    n_participants: int
    n_groups: int
    n_trials: int
    n_choices: int
    n_choices_read: int
    has_disjoint_groups: bool
    trials_per_participant: tuple[int, float, int]
    participants_per_trial: tuple[int, float, int]
    median_rt_ms: float | None
    catch_correct: tuple[float, float] | None
    models: tuple[str, ...]


@displayed
@dataclass(frozen=True, eq=False)
class DetailTables:
    """Tables behind the means, see `contstim.evaluation.agreement` for the last four.

    Attributes
    ----------
    participants, groups
        The values of `Evaluation.models` for each participant and each group, with ceilings.
    ceilings
        Noise ceilings of each analysis of all trials, which need no model.
    trials
        One row per sentence pair: number of choices, mean rating, log-ratio of each model.
    agreement, reliability
        Agreement among participants.
    model_agreement
        For each pair of models, the number of sentence pairs on which they disagree.
    """

    participants: pd.DataFrame
    groups: pd.DataFrame
    ceilings: pd.DataFrame
    trials: pd.DataFrame
    agreement: pd.DataFrame
    reliability: pd.DataFrame
    model_agreement: pd.DataFrame


@displayed
@dataclass(frozen=True, eq=False)
class Provenance:
    """What the tables were made from, and how.

    Attributes
    ----------
    scores
        The models' scores of the sentences shown; the higher score is the better.
    units
        The unit of each model's scores.
    specs
        The specs of models that were given names.
    excluded
        What was left out, by which rule.
    levels
        What the bootstrap resampled.
    options, preset
        How it was done.
    notes
        Sentences on decisions taken on the way.
    deviations
        Sentences on what was not done as planned; None without an analysis plan.
    versions
        Of contstim, Python and the libraries.
    """

    scores: pd.DataFrame
    units: dict[str, str]
    specs: dict[str, str]
    excluded: pd.DataFrame
    levels: tuple[str, ...]
    options: EvaluationOptions
    preset: str
    notes: tuple[str, ...]
    deviations: tuple[str, ...] | None
    versions: dict[str, str]

    @property
    def scores_with_units(self) -> pd.DataFrame:
        """`scores` for a file: a row per model too, with units that its name does not tell."""
        if self.units == {model: score_kind(model).unit for model in self.units}:
            return self.scores
        long = self.scores.melt("sentence", var_name="model", value_name="log_prob")
        long[UNIT] = long["model"].map(self.units)
        if self.specs:
            long[SPEC] = long["model"].map(lambda model: self.specs.get(model, model))
        return long


@displayed
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Tables that say which model predicts the choices, and how far it is from the ceiling.

    Attributes
    ----------
    models
        One row per analysis, measure and model. `value` is the mean over participants, with its
        interval, noise ceilings on the same trials, and the test against the lower ceiling.
        `note` says why a value is missing.
    comparisons
        One row per analysis, measure and pair of models: `difference` (model 1 minus model 2,
        mean over the participants who have both) with its interval, p-value, adjusted p and
        rank-biserial effect size; see `InferenceResult`.
    details
        Further tables.
    summary
        Numbers of participants, trials and choices, and the like.
    provenance
        What the tables were made from, and how.
    conditions
        With a column of conditions of participants, one row per analysis, measure, two of these
        conditions (levels), and one or two models: by how much the value of model 1 is higher in
        level 1 than in level 2; with model 2 by how much its lead over model 2 is, the interaction
        of model and condition. See `contrast_of`.
    data
        The choices that were analysed, for further tables.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> type(result).__name__, list(result.models.columns[:3])
    ('Evaluation', ['analysis', 'measure', 'model'])
    """

    models: pd.DataFrame
    comparisons: pd.DataFrame
    details: DetailTables
    summary: Summary
    provenance: Provenance
    data: TrialData
    conditions: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=[*CONDITION_COLUMNS])
    )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by name."""
        groups = (self, self.details, self.provenance)
        values = {name: value for group in groups for name, value in vars(group).items()}
        return {name: t for name, t in values.items() if isinstance(t, pd.DataFrame)}

    def write_tables(self, folder: str | Path) -> list[Path]:
        """Write each table that has rows, and the two main ones always, as ``NAME.csv``.

        Cells are made neutral for spreadsheets, see `contstim.tables.escape_text`.

        Raises
        ------
        OutputError
            If the folder or a file cannot be written.
        """
        place = Path(folder)
        written = []
        for name, table in {**self.tables(), "scores": self.provenance.scores_with_units}.items():
            if len(table) or name in ("models", "comparisons", "excluded"):
                written.append(place / f"{name}.csv")
                write_whole(written[-1], format_csv(escape_table(table)))
        return written

    def figure(
        self, analysis: str | None = None, measure: str | None = None, ax: Axes | None = None
    ) -> Axes | None:
        """Draw one analysis by one measure, by default the first that has values.

        Returns
        -------
        Axes or None
            See `contstim.evaluation.figure.model_figure`; None if no model has a value there.
        """
        from contstim.evaluation.figure import model_figure  # loads Matplotlib

        rows = self.models[self.models["value"].notna()]
        for column, name in (("analysis", analysis), ("measure", measure)):
            if name is not None:
                rows = rows[rows[column] == name]
        if rows.empty:
            return None
        first = rows.iloc[0]
        units = self.details.groups if first["unit"] == "group" else self.details.participants
        models, comparisons, units = (
            table[(table["analysis"] == first["analysis"]) & (table["measure"] == first["measure"])]
            for table in (self.models, self.comparisons, units)
        )
        kind = MEASURES[first["measure"]]
        return model_figure(models, comparisons, units, ax=ax, label=kind.label, chance=kind.chance)

    def __str__(self) -> str:
        from contstim.evaluation.summary import summarize  # it needs this class

        return "\n".join(summarize(self))

    def _repr_html_(self) -> str:
        """Return the summary, its figure and the folded tables."""
        from contstim.drawing import sheet, svg_text  # loads Matplotlib

        drawn = self.figure(ax=sheet()[0])
        drawing = "" if drawn is None else svg_text(drawn)
        tables = "".join(table_html(name, table) for name, table in self.tables().items())
        return (
            "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines()) + drawing + tables
        )

    def report(self, folder: str | Path) -> Path:
        """Write tables, a figure and ``report.html`` to a folder; return the path of the page.

        Raises
        ------
        OutputError
            If the folder or a file cannot be written.
        """
        from contstim.evaluation.report import write_report  # loads Matplotlib

        return write_report(self, folder)
