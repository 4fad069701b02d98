"""Result of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.columns import SPEC, UNIT
from contstim.display import displayable, format_table_html
from contstim.evaluation.choices import HumanData
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.mixed import write_mixed_models
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.trials import TrialData
from contstim.files import write_atomically
from contstim.models.registry import score_kind
from contstim.tables import escape_table
from contstim.text_files import format_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Columns of `Evaluation.models`. The columns after `q_ceiling` depend on the inference, see
#: `InferenceResult`.
MODEL_COLUMNS = (
    *("analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_upper", "n_participants", "n_trials", "p_ceiling", "q_ceiling"),
    *("effect_ceiling", "p_chance", "stderr", "df"),
    *("ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("ceiling_upper_ci_low", "ceiling_upper_ci_high", "gap_ci_low", "gap_ci_high"),
    *("n_choices", "n_choices_ceiling", "n_tied_predictions", "n_tied_ratings"),
    *("unit", "n_units", "p_smallest", "test", "note"),
)
#: Columns of `Evaluation.comparisons`. The columns after `effect` depend on the inference.
COMPARISON_COLUMNS = (
    *("analysis", "measure", "model_1", "model_2", "difference", "p", "q", "effect"),
    *("ci_low", "ci_high", "stderr", "df", "margin", "p_equivalence", "conclusion"),
    *("unit", "n_units", "p_smallest", "test", "note"),
)
#: Columns of `Evaluation.conditions`.
CONDITION_COLUMNS = (
    *("analysis", "measure", "factor", "level_1", "level_2", "model_1", "model_2", "difference"),
    *("p", "q", "ci_low", "ci_high", "stderr", "df", "n_participants_1", "n_participants_2"),
    *("conclusion", "note"),
)


@displayable
@dataclass(frozen=True)
class Summary:
    """Numbers of participants, trials and choices.

    Attributes
    ----------
    n_participants, n_groups, n_trials, n_choices
        Numbers after exclusions; a trial is a pair of sentences.
    n_choices_read
        Number of choices before exclusions.
    trials_per_participant, participants_per_trial
        Minimum, median and maximum of the number of trials of a participant, and of the number of
        participants of a trial.
    median_rt_ms
        Median response time in milliseconds; None if response times are unknown.
    catch_correct
        Minimum and mean over participants of the proportion of correct catch trials; None without
        catch trials.
    models
        Names of the evaluated models.
    """

    n_participants: int
    n_groups: int
    n_trials: int
    n_choices: int
    n_choices_read: int
    trials_per_participant: tuple[int, float, int]
    participants_per_trial: tuple[int, float, int]
    median_rt_ms: float | None
    catch_correct: tuple[float, float] | None
    models: tuple[str, ...]


@displayable
@dataclass(frozen=True, eq=False)
class DetailTables:
    """Detailed tables of an evaluation.

    Attributes
    ----------
    participants, groups
        Values and noise ceilings of each participant and of each group.
    ceilings
        Noise ceilings of the analyses of all trials, which require no model.
    trials
        One row per sentence pair, see `contstim.evaluation.agreement.trial_table`.
    agreement, reliability
        Agreement among participants and reliability of their mean ratings, see `agreement_table`
        and `reliability_table` in the same module.
    model_agreement
        Proportion of pairs on which two models prefer the same sentence.
    """

    participants: pd.DataFrame
    groups: pd.DataFrame
    ceilings: pd.DataFrame
    trials: pd.DataFrame
    agreement: pd.DataFrame
    reliability: pd.DataFrame
    model_agreement: pd.DataFrame


@displayable
@dataclass(frozen=True, eq=False)
class Provenance:
    """Data, options and versions from which an evaluation was computed.

    Attributes
    ----------
    scores
        Scores of the sentences, one column per model; higher is better.
    units
        Unit of each model's scores.
    specs
        Model specification string (such as ``hf:gpt2``) of each model with a different name.
    events
        For each model with a known definition of its scores, a description of the text to which
        the model assigns a probability, for example the sentence with its end-of-sentence token.
    excluded
        Number of excluded rows by rule and participant, see `ExclusionLog.table`.
    levels
        Levels at which the bootstrap draws with replacement, for example participants and items.
        Empty if there is no bootstrap.
    options
        Options of the evaluation.
    preset
        Name of the preset from which the options derive.
    notes
        Messages about choices that the program made automatically, one sentence each.
    deviations
        Messages about deviations from the analysis plan; None if there is no plan.
    versions
        Versions of contstim, Python and libraries.
    """

    scores: pd.DataFrame
    units: dict[str, str]
    specs: dict[str, str]
    events: dict[str, str]
    excluded: pd.DataFrame
    levels: tuple[str, ...]
    options: EvaluationOptions
    preset: str
    notes: tuple[str, ...]
    deviations: tuple[str, ...] | None
    versions: dict[str, str]

    @property
    def scores_with_units(self) -> pd.DataFrame:
        """Scores as a table from which they can be read again with their units.

        The table has one column per model if the names of the models imply the units of the scores,
        for example nats. Otherwise it has one row per sentence and model, with a column for the
        unit.
        """
        if self.units == {model: score_kind(model).unit for model in self.units}:
            # The names of the models imply the units, so no column of units is needed.
            return self.scores
        # One row per sentence and model.
        long = self.scores.melt("sentence", var_name="model", value_name="log_prob")
        long[UNIT] = long["model"].map(self.units)
        if self.specs:
            long[SPEC] = long["model"].map(lambda model: self.specs.get(model, model))
        return long


@displayable
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Result of an evaluation: how well each model predicts the choices.

    Attributes
    ----------
    models
        One row per analysis, measure and model: mean `value` over participants with its confidence
        interval, noise ceilings on the same trials, and the test against the lower ceiling. `note`
        states the reason for a missing value.
    comparisons
        One row per analysis, measure and pair of models: `difference` (model 1 minus model 2, mean
        over participants with both values), confidence interval, p-value, adjusted p-value and
        rank-biserial effect size, see `InferenceResult`.
    details
        Further tables.
    summary
        Numbers of participants, trials and choices.
    provenance
        Scores, options and software versions from which the results were computed.
    conditions
        Comparison of the levels of a factor: one row per analysis, measure, pair of levels, and
        model or pair of models. `difference` is the value at level 1 minus the value at level 2.
        For a pair of models, it is the interaction of model and factor.
    data
        Choices, items and predictions of the models as arrays.
    human
        Choices of the participants after exclusions, one row per choice.

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
    human: HumanData
    conditions: pd.DataFrame

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by name."""
        fields = {**vars(self), **vars(self.details), **vars(self.provenance)}
        return {name: value for name, value in fields.items() if isinstance(value, pd.DataFrame)}

    def write_tables(self, folder: str | Path) -> list[Path]:
        """Write the tables to a folder as ``NAME.csv``.

        Empty tables are not written, except models, comparisons and exclusions. Text is escaped for
        spreadsheets, see `contstim.tables.escape_text`.

        Parameters
        ----------
        folder
            Folder of the files, which is created if necessary.

        Returns
        -------
        list of Path
            Paths of the files.

        Raises
        ------
        OutputError
            If the folder or a file cannot be written.
        """
        paths = []
        for name, table in {**self.tables(), "scores": self.provenance.scores_with_units}.items():
            if len(table) or name in ("models", "comparisons", "excluded"):
                paths.append(Path(folder) / f"{name}.csv")
                write_atomically(paths[-1], format_csv(escape_table(table)))
        return paths

    def figure(
        self, analysis: str | None = None, measure: str | None = None, ax: Axes | None = None
    ) -> Axes | None:
        """Draw the performance of all models in one analysis, according to one measure.

        Parameters
        ----------
        analysis, measure
            Names of the analysis and of the measure; by default, the first that has values.
        ax
            Axes to draw on; new axes by default.

        Returns
        -------
        Axes or None
            Axes of `contstim.evaluation.figure.model_figure`; None if no model has a value.
        """
        from contstim.evaluation.figure import model_figure  # loads Matplotlib

        # Rows of models with a value that match the requested analysis and measure.
        rows = self.models[self.models["value"].notna()]
        for column, name in (("analysis", analysis), ("measure", measure)):
            if name is not None:
                rows = rows[rows[column] == name]
        if rows.empty:
            return None
        # Draw the first of the remaining combinations of analysis and measure.
        first = rows.iloc[0]
        units = self.details.groups if first["unit"] == "group" else self.details.participants
        # Restrict all three tables to this analysis and measure.
        models, comparisons, units = (
            table[(table["analysis"] == first["analysis"]) & (table["measure"] == first["measure"])]
            for table in (self.models, self.comparisons, units)
        )
        measure_drawn = MEASURES[first["measure"]]
        label, chance = measure_drawn.label, measure_drawn.chance
        return model_figure(models, comparisons, units, ax=ax, label=label, chance=chance)

    def __str__(self) -> str:
        from contstim.evaluation.summary import summarize  # circular import

        return "\n".join(summarize(self))

    def _repr_html_(self) -> str:
        """Return the summary, the figure and collapsed tables as HTML."""
        from contstim.drawing import create_axes, render_svg  # loads Matplotlib

        axes = self.figure(ax=create_axes()[0])
        figure = "" if axes is None else render_svg(axes)
        # Each table can be opened by a click on its name.
        tables = "".join(format_table_html(name, table) for name, table in self.tables().items())
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())
        return paragraphs + figure + tables

    def report(self, folder: str | Path, mixed_models: bool = False) -> Path:
        """Write tables, figures and the page ``report.html`` to a folder.

        Parameters
        ----------
        folder
            Folder of the files, which is created if necessary.
        mixed_models
            Whether to also write data and scripts for mixed models, see `write_mixed_models`.

        Returns
        -------
        Path
            Path of ``report.html``.

        Raises
        ------
        InputError
            If data for mixed models are requested, but no model was evaluated.
        OutputError
            If the folder or a file cannot be written.
        """
        from contstim.evaluation.report import write_report  # loads Matplotlib

        if mixed_models:
            write_mixed_models(self.human, self.provenance.scores.set_index("sentence"), folder)
        return write_report(self, folder)
