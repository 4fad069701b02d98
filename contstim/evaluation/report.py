"""Tables, figures and one page of an evaluation, part after part.

A part is a function that adds to the page what it has to show of an evaluation, and with it the
tables and figures to the folder. Packages bring more by entry points of the group
``contstim.reports``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes

from contstim.evaluation.answer import answer_sentences, of_same, result_sentences
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.wording import (
    condition_sentences,
    exclusion_sentences,
    methods_sentences,
    scope_sentence,
    span,
    standing_sentences,
)
from contstim.files import write_whole
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.report.model_figure import feature_figure, normalisation_figure
from contstim.report.page import Page
from contstim.report.pair_figures import matrix_figure, percentile_figure
from contstim.report.style import sheet, svg_text
from contstim.tables import neutral_table, table_text

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

_MOST_PAIRS = 6
_MOST_EXCLUDED = 200
_NATS = "nats (units of natural logarithms; one less is 2.7 times less probable)"
# What the page shows of the two main tables; the files have all columns.
_MODEL_COLUMNS = (
    *("model", "value", "ci_low", "ci_high", "ceiling_lower", "ceiling_upper"),
    *("n_trials", "p_ceiling", "q_ceiling", "note"),
)
_COMPARISON_COLUMNS = (
    *("model_1", "model_2", "difference", "ci_low", "ci_high", "p", "q", "verdict"),
    *("p_smallest", "note"),
)

_CONDITION_COLUMNS = (
    *("level_1", "level_2", "model_1", "model_2", "difference", "ci_low", "ci_high", "p", "q"),
    *("verdict", "note"),
)


class ReportPage(Page):
    """A page whose tables and figures are files of a folder, too.

    Parameters
    ----------
    title
        Of the page.
    folder
        Where files go.
    """

    def __init__(self, title: str, folder: Path) -> None:
        super().__init__(title)
        self.folder = folder

    def draw(self, name: str, drawn: Axes, caption: str) -> None:
        """Write a figure as ``NAME.svg`` and show it."""
        svg = svg_text(drawn)
        name = self.distinct(re.sub(r"[^A-Za-z0-9._-]+", "-", name))
        write_whole(self.folder / f"{name}.svg", svg)
        self.figure(svg, caption)

    def tabulate(
        self, name: str, table: pd.DataFrame, columns: Iterable[str] | None = None
    ) -> None:
        """Write a table as ``NAME.csv`` and show it, or some of its columns."""
        write_whole(self.folder / f"{name}.csv", table_text(neutral_table(table)))
        self.table(table, columns)


#: Adds to a page what it shows of an evaluation; nothing where there is nothing to show.
ReportPart = Callable[["Evaluation", ReportPage], None]


def write_report(evaluation: Evaluation, folder: str | Path) -> Path:
    """Write every table as CSV, every figure as SVG, and ``report.html``; return the page's path.

    Raises
    ------
    OutputError
        If the folder or a file cannot be written.
    """
    with waiting("writing the report"):
        place = Path(folder)
        evaluation.write_tables(place)
        page = ReportPage("Which model predicts people's choices", place)
        if answer := " ".join(answer_sentences(evaluation)):
            page.paragraph(answer)
        for _, part in REPORT_PARTS.items():
            part(evaluation, page)
        path = place / "report.html"
        write_whole(path, str(page))
        return path


def _standing(evaluation: Evaluation, page: ReportPage) -> None:
    if evaluation.standing is None:
        return
    page.heading("How the study stands: posterior, fit and verdict")
    page.bullets(standing_sentences(evaluation))
    page.table(evaluation.standing.models)
    page.table(evaluation.standing.pairs)


def _models(evaluation: Evaluation, page: ReportPage) -> None:
    """Add a section for each analysis; the figure of the first goes before them all."""
    if evaluation.models.empty:
        page.heading("Noise ceilings")
        page.table(evaluation.details.ceilings)
        return
    blocks = list(evaluation.models.groupby(["analysis", "measure"], sort=False))
    answered = _model_figure(evaluation, page, blocks[0][1])
    last = ""
    for number, ((analysis, measure), rows) in enumerate(blocks):
        if analysis != last:
            page.heading(str(analysis).replace("_", " "))
        page.subheading(str(measure).replace("_", " "))
        for sentence in result_sentences(evaluation, str(analysis), str(measure)):
            page.paragraph(sentence)
        if not number:
            page.paragraph(scope_sentence(evaluation, str(rows["unit"].iloc[0])))
        if number or not answered:
            _model_figure(evaluation, page, rows)
        compared = of_same(evaluation.comparisons, rows.iloc[0])
        verdict, better = compared["verdict"], compared["model_1"]
        better = better.where(verdict == "model 1", compared["model_2"]) + " is better"
        verdict = verdict.mask(verdict.isin(["model 1", "model 2"]), better)
        compared = compared.assign(verdict=verdict)
        for table, columns in ((rows, _MODEL_COLUMNS), (compared, _COMPARISON_COLUMNS)):
            noted = (table["note"] != "").any()
            page.table(table, columns if noted else columns[:-1])
        last = str(analysis)


def _model_figure(evaluation: Evaluation, page: ReportPage, rows: pd.DataFrame) -> bool:
    """Draw an analysis by one measure; return whether there was anything to draw."""
    analysis, measure = (str(rows[name].iloc[0]) for name in ("analysis", "measure"))
    figure = evaluation.figure(analysis, measure, sheet()[0])
    if figure is None:
        return False
    label = MEASURES[measure].label
    caption = (
        f"{label[0].upper()}{label[1:]} of each model, on {span(rows['n_trials'])} "
        "sentence pairs. The grey band is the noise ceiling: the best possible model of these "
        "people would lie between its bounds. On the right, a filled dot is a model and the open "
        "dots below it are those it beats at a false discovery rate of 0.05 (the share of false "
        "ones among such findings)."
    )
    page.draw(f"models-{analysis}-{measure}", figure, caption)
    return True


def _conditions(evaluation: Evaluation, page: ReportPage) -> None:
    table = evaluation.conditions
    if table.empty:
        return
    page.heading(f"Conditions ({', '.join(evaluation.provenance.options.by)})")
    page.paragraph(
        "By how much a model is better in one condition than in another and, where two models are "
        "named, by how much the lead of the first over the second is larger: the interaction of "
        "model and condition."
    )
    for (analysis, measure), rows in table.groupby(["analysis", "measure"], sort=False):
        page.subheading(f"{analysis}, {str(measure).replace('_', ' ')}")
        for sentence in condition_sentences(evaluation, str(analysis), str(measure)):
            page.paragraph(sentence)
        noted = (rows["note"] != "").any()
        page.table(rows, _CONDITION_COLUMNS if noted else _CONDITION_COLUMNS[:-1])


def _pairs(evaluation: Evaluation, page: ReportPage) -> None:
    if evaluation.models.empty:
        return
    models = [str(name) for name in dict.fromkeys(evaluation.models["model"])]
    page.heading("Pairs of models")
    pitted = evaluation.pairs.consistency
    pairs = list(dict.fromkeys(tuple(sorted(p)) for p in pitted[["model", "other"]].to_numpy()))
    pairs = [p for p in pairs if set(p) <= set(models)]
    for first, second in pairs[:_MOST_PAIRS]:
        figure = percentile_figure(
            evaluation.people.trials, evaluation.provenance.scores, first, second, sheet()[0]
        )
        caption = f"Percentiles of the sentences under {first} and {second}; lines join pairs."
        page.draw(f"percentiles-{first}-{second}", figure, caption)
    if len(pairs) > _MOST_PAIRS:
        page.paragraph(f"Only the first {_MOST_PAIRS} of {len(pairs)} pairs of models are drawn.")
    for name, figure, caption in _matrices(evaluation, models):
        page.draw(name, figure, caption)


def _matrices(evaluation: Evaluation, models: list[str]) -> Iterator[tuple[str, Axes, str]]:
    if len(models) < 2:
        return
    for condition, block in evaluation.pairs.model_agreement.groupby("condition", sort=False):
        n = int(block["n_trials"].iloc[0])
        names, label = ("model_1", "model_2", "agreement"), "pairs ordered alike"
        yield (
            f"agreement-{condition}",
            matrix_figure(block, *names, models, label, symmetric=True, ax=sheet()[0]),
            f"Share of the {n} sentence pairs ({condition}) that two models order alike.",
        )
    for condition, block in evaluation.pairs.consistency.groupby("condition", sort=False):
        scored = block[block["other"].isin(models)]
        if scored.empty:
            continue
        yield (
            f"consistency-{condition}",
            matrix_figure(scored, "model", "other", "accuracy", models, "accuracy", ax=sheet()[0]),
            f"Accuracy of the model of each row on the pairs ({condition}) that pit it against "
            f"that of the column; {span(scored['n_trials'])} pairs per cell.",
        )
    table = evaluation.pairs.natural_preference
    if len(table):
        order = list(dict.fromkeys([*models, *table["accepts"], *table["rejects"]]))
        names = ("accepts", "rejects", "natural_chosen")
        yield (
            "natural-preference",
            matrix_figure(table, *names, order, "natural chosen", ax=sheet()[0]),
            "Share of choices of the natural over the synthetic sentence that the row's model "
            f"accepts and the column's rejects; {span(table['n_trials'])} pairs per cell.",
        )


def _methods(evaluation: Evaluation, page: ReportPage) -> None:
    page.heading("Methods")
    for text in methods_sentences(evaluation):
        page.paragraph(text)
    departures = evaluation.provenance.departures
    if departures is not None:
        page.heading("Departures from the analysis plan")
        page.bullets(departures or ["None: all was done as planned."])
    page.heading("Exclusions")
    page.bullets(exclusion_sentences(evaluation))
    if len(evaluation.provenance.excluded):
        page.table(evaluation.provenance.excluded.head(_MOST_EXCLUDED))
    if evaluation.provenance.notes:
        page.heading("Notes")
        page.bullets(evaluation.provenance.notes)


def _agreement(evaluation: Evaluation, page: ReportPage) -> None:
    page.heading("Agreement among people")
    page.table(evaluation.people.agreement)
    page.table(evaluation.people.reliability)


def _controls(evaluation: Evaluation, page: ReportPage) -> None:
    controls = evaluation.controls
    if len(controls.normalisation):
        page.heading("Control: length normalisation")
        page.table(controls.normalisation)
        caption = (
            "Accuracy of a mix of log-probability, MeanLP and PenLP fitted on the other sentence "
            "pairs, against that of the log-probability alone."
        )
        figure = normalisation_figure(controls.normalisation, sheet()[0])
        page.draw("normalisation", figure, caption)
    tables = {"token counts": controls.token_counts, "word features": controls.features}
    for name, table in tables.items():
        if len(table):
            page.heading(f"Control: {name}")
            page.table(table)
            page.paragraph(scope_sentence(evaluation, "pair"))
    for feature in dict.fromkeys(controls.features["feature"].astype("str")):
        figure = feature_figure(controls.features, feature, ax=sheet()[0])
        caption = (
            f"Mean {feature.replace('_', ' ')} of the preferred minus the rejected sentence, "
            "for models and for people on the same pairs."
        )
        page.draw(f"feature-{feature}", figure, caption)


def _instructive(evaluation: Evaluation, page: ReportPage) -> None:
    if evaluation.pairs.instructive.empty:
        return
    page.heading("Trials that tell against each model")
    units = evaluation.provenance.units
    others = [f"of {name}: {unit}" for name, unit in units.items() if unit != "nats"]
    what = f"Scores are log-probabilities in {_NATS}, except {'; '.join(others)}."
    if not others:
        what = f"Log-probabilities are in {_NATS}."
    page.paragraph(
        f"For each model the trials on which most people chose the sentence that it rejects. {what}"
    )
    page.table(evaluation.pairs.instructive)


#: The parts of a report, in their order.
REPORT_PARTS: Registry[ReportPart] = Registry(
    "report part",
    "contstim.reports",
    {
        "standing": _standing,
        "models": _models,
        "conditions": _conditions,
        "pairs": _pairs,
        "methods": _methods,
        "agreement": _agreement,
        "controls": _controls,
        "instructive": _instructive,
    },
)
