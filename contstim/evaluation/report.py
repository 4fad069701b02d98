"""Report of an evaluation: tables, figures and an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.drawing import create_axes, render_svg, save_figure
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.methods import methods_paragraphs
from contstim.evaluation.summary import describe_sample, summarize
from contstim.files import write_atomically
from contstim.page import Page, format_estimate

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

# Maximum number of rows of a table in the report; the CSV file has all rows.
_MAX_ROWS = 200


def write_report(evaluation: Evaluation, folder: str | Path) -> Path:
    """Write the results of an evaluation to a folder, with an HTML page for readers.

    The folder contains every table as CSV, the figure as SVG, PDF and PNG, and ``report.html`` with
    summary, figure, tables and methods.

    Parameters
    ----------
    evaluation
        Result of `evaluate`.
    folder
        Folder of the files, which is created if necessary.

    Returns
    -------
    Path
        Path of ``report.html``.

    Raises
    ------
    OutputError
        If the folder or a file cannot be written.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> write_report(result, "results").name  # doctest: +SKIP
    'report.html'
    """
    folder = Path(folder)
    evaluation.write_tables(folder)
    provenance = evaluation.provenance
    page = Page("Which model predicts people's choices")
    conclusion, *details = summarize(evaluation)
    page.paragraph(" ".join(describe_sample(evaluation)))
    page.paragraph(conclusion, strong=True)
    page.paragraph(" ".join(details))
    figure = evaluation.figure(ax=create_axes()[0])
    if figure is not None:
        for suffix in ("svg", "pdf", "png"):
            save_figure(figure, folder / f"figure.{suffix}")
        row = evaluation.models[evaluation.models["value"].notna()].iloc[0]
        label = MEASURES[row["measure"]].label
        page.figure(
            render_svg(figure),
            f"{label[0].upper()}{label[1:]} by model (analysis {row['analysis']}). Grey: noise "
            "ceiling, from its lower to its upper bound. In each column on the right, a filled "
            "dot marks a model that is significantly better than models with open dots.",
        )
    _add_results(evaluation, page)
    if len(provenance.excluded):
        page.heading("Exclusions")
        _add_table(page, provenance.excluded, "excluded.csv")
    page.heading("Methods")
    for text in methods_paragraphs(evaluation):
        page.paragraph(text)
    if provenance.deviations is not None:
        page.heading("Deviations from the analysis plan")
        page.bullets(provenance.deviations or ["None."])
    if provenance.notes:
        page.heading("Notes")
        page.bullets(provenance.notes)
    if provenance.units:
        page.heading("Models")
        specs = [provenance.specs.get(name, name) for name in provenance.units]
        units = provenance.units
        table = pd.DataFrame({"model": [*units], "spec": specs, "unit": [*units.values()]})
        _add_table(page, table.assign(event=table["model"].map(provenance.events)), "scores.csv")
    path = folder / "report.html"
    write_atomically(path, str(page))
    return path


def _add_results(evaluation: Evaluation, page: Page) -> None:
    """Add the result tables to the page of a report.

    The models and comparisons of the first analysis come first, then the models in the other
    analyses, then the differences between conditions.

    Parameters
    ----------
    evaluation
        Result of `evaluate`.
    page
        HTML page, to which headings and tables are added.
    """
    models, comparisons = evaluation.models, evaluation.comparisons
    if models.empty:
        _add_table(page, evaluation.details.ceilings, "ceilings.csv")
        return
    ceilings = zip(models["ceiling_lower"], models["ceiling_upper"], strict=True)
    table = models[["analysis", "measure", "model"]].assign(
        value=_format_estimates(models, "value"),
        noise_ceiling=[
            "" if np.isnan(low) else f"{low:.3f} to {high:.3f}" for low, high in ceilings
        ],
        value_minus_lower_ceiling=models["value"] - models["ceiling_lower"],
        q_ceiling=models["q_ceiling"],
        n_trials=models["n_trials"],
        note=models["note"],
    )
    first, *other_analyses = dict.fromkeys(models["analysis"])
    page.heading(f"Models ({first}; 95 % intervals)")
    first_models = table[table["analysis"] == first].drop(columns="analysis")
    _add_table(page, first_models, "models.csv")
    first_pairs = comparisons[comparisons["analysis"] == first]
    if len(first_pairs):
        page.heading(f"Comparisons ({first})")
        pairs = _format_differences(first_pairs, ["measure", "model_1", "model_2"])
        _add_table(page, pairs, "comparisons.csv")
    if other_analyses:
        page.heading("Other analyses and conditions")
        _add_table(page, table[table["analysis"] != first], "models.csv")
    if len(evaluation.conditions):
        page.heading("Differences between conditions")
        columns = ["analysis", "measure", "factor", "level_1", "level_2", "model_1", "model_2"]
        _add_table(page, _format_differences(evaluation.conditions, columns), "conditions.csv")


def _format_differences(table: pd.DataFrame, key_columns: list[str]) -> pd.DataFrame:
    """Return differences as text with confidence intervals, and their tests.

    `key_columns` are the columns that identify a difference.
    """
    columns = table[[*key_columns, "difference", "p", "q", "conclusion", "note"]]
    return columns.assign(difference=_format_estimates(table, "difference"))


def _format_estimates(table: pd.DataFrame, column: str) -> list[str]:
    """Format each estimate in a column with its confidence interval as text."""
    estimates = table[[column, "ci_low", "ci_high"]].astype(float)
    return [format_estimate(*row) for row in estimates.itertuples(index=False)]


def _add_table(page: Page, table: pd.DataFrame, file: str) -> None:
    """Add a table to the page, without empty columns and without rows after the first 200.

    If rows are left out, the caption names the CSV file that contains all rows.
    """
    columns = (table.notna() & (table != "")).any()
    caption = f"The first {_MAX_ROWS} of {len(table)} rows; {file} has all."
    rows = table.loc[:, columns].head(_MAX_ROWS)
    page.table(rows, caption if len(table) > _MAX_ROWS else "")
