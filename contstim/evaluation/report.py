"""Tables, figures and one page, from an evaluation's tables only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes

from contstim.evaluation.answer import answer_sentences, result_sentences
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.wording import (
    exclusion_sentences,
    methods_sentences,
    scope_sentence,
    span,
    standing_sentences,
)
from contstim.files import write_whole
from contstim.progress import waiting
from contstim.report.model_figure import (
    feature_figure,
    model_figure,
    normalisation_figure,
)
from contstim.report.page import Page
from contstim.report.pair_figures import matrix_figure, percentile_figure
from contstim.report.style import sheet, svg_text

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

_MOST_PAIRS = 6
_NATS = "nats (units of natural logarithms; one less is 2.7 times less probable)"
_MODEL_COLUMNS = (
    *("model", "value", "ci_low", "ci_high", "ceiling_lower", "ceiling_upper"),
    *("n_participants", "n_trials", "n_choices"),
    *("p_ceiling", "q_ceiling", "effect_ceiling", "note"),
)
_COMPARISON_COLUMNS = (
    *("model_1", "model_2", "difference", "ci_low", "ci_high", "p", "q", "effect"),
    *("verdict", "p_equivalence", "more_people", "more_sentences"),
    *("n_units", "p_smallest", "test", "note"),
)


def write_report(evaluation: Evaluation, folder: str | Path) -> Path:
    """Write every table as CSV, every figure as SVG, and ``report.html``; return the page's path.

    Raises
    ------
    OutputError
        If the folder or a file cannot be written.
    """
    with waiting("writing the report"):
        return _write(evaluation, Path(folder))


def _write(evaluation: Evaluation, place: Path) -> Path:
    evaluation.write_tables(place)
    page = Page("Which model predicts people's choices")
    if answer := " ".join(answer_sentences(evaluation)):
        page.paragraph(answer)
    if evaluation.standing is not None:
        page.heading("The adaptive study: posterior, fit and verdict")
        page.bullets(standing_sentences(evaluation))
        page.table(evaluation.standing.models)
        page.table(evaluation.standing.pairs)
    if len(evaluation.models):
        _model_parts(evaluation, page, place)
        _pair_parts(evaluation, page, place)
    else:
        page.heading("Noise ceilings")
        page.table(evaluation.details.ceilings)
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
        page.table(evaluation.provenance.excluded.head(200))
    if evaluation.provenance.notes:
        page.heading("Notes")
        page.bullets(evaluation.provenance.notes)
    page.heading("Agreement among people")
    page.table(evaluation.people.agreement)
    page.table(evaluation.people.reliability)
    _control_parts(evaluation, page, place)
    if len(evaluation.pairs.instructive):
        page.heading("Trials that tell against each model")
        page.paragraph(
            "For each model the trials on which most people chose the sentence that it rejects. "
            f"{_units(evaluation.provenance.units)}"
        )
        page.table(evaluation.pairs.instructive)
    path = place / "report.html"
    write_whole(path, str(page))
    return path


def _units(units: dict[str, str]) -> str:
    """Return which models' scores are in nats and which are not."""
    others = [f"of {name}: {unit}" for name, unit in units.items() if unit != "nats"]
    if not others:
        return f"Log-probabilities are in {_NATS}."
    return f"Scores are log-probabilities in {_NATS}, except {'; '.join(others)}."


def _add(page: Page, place: Path, name: str, drawn: Axes, caption: str) -> None:
    svg = svg_text(drawn)
    name = page.distinct(re.sub(r"[^A-Za-z0-9._-]+", "-", name))
    write_whole(place / f"{name}.svg", svg)
    page.figure(svg, caption)


def _model_parts(evaluation: Evaluation, page: Page, place: Path) -> None:
    """Add a section for each analysis and measure; the figure of the first goes before them all."""
    keys = ["analysis", "measure"]
    blocks = list(evaluation.models.groupby(keys, sort=False))
    answered = len(blocks) > 0 and _model_figure(evaluation, page, place, blocks[0][1])
    for number, ((analysis, measure), rows) in enumerate(blocks):
        page.heading(f"{str(analysis).replace('_', ' ')}: {str(measure).replace('_', ' ')}")
        for sentence in result_sentences(evaluation, str(analysis), str(measure)):
            page.paragraph(sentence)
        if number or not answered:
            _model_figure(evaluation, page, place, rows)
        compared = _part(evaluation.comparisons, rows)
        for table, columns in ((rows, _MODEL_COLUMNS), (compared, _COMPARISON_COLUMNS)):
            page.table(table, columns)
            if len(table):
                page.paragraph(scope_sentence(evaluation, str(rows["unit"].iloc[0])))


def _part(table: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return what `table` has of the analysis and measure that `rows` are of."""
    here = rows.iloc[0]
    same = (table["analysis"] == here["analysis"]) & (table["measure"] == here["measure"])
    part: pd.DataFrame = table[same]
    return part


def _model_figure(evaluation: Evaluation, page: Page, place: Path, rows: pd.DataFrame) -> bool:
    """Draw an analysis by one measure; return whether there was anything to draw."""
    if rows["value"].isna().all():
        return False
    analysis, measure, unit = (str(rows[name].iloc[0]) for name in ("analysis", "measure", "unit"))
    details = evaluation.details
    units = _part(details.groups if unit == "group" else details.participants, rows)
    kind, compared = MEASURES[measure], _part(evaluation.comparisons, rows)
    figure = model_figure(
        *(rows, compared, units), ax=sheet()[0], label=kind.label, chance=kind.chance
    )
    caption = (
        f"{kind.label[0].upper()}{kind.label[1:]} of each model; {span(rows['n_trials'])} sentence "
        "pairs a model. "
        "Grey: noise ceiling, between whose bounds the best possible model of these people would "
        "be. Right: filled, a model; open, those that it beats at a false discovery rate of 0.05 "
        "(the share of false ones among such findings)."
    )
    _add(page, place, f"models-{analysis}-{measure}", figure, caption)
    return True


def _pair_parts(evaluation: Evaluation, page: Page, place: Path) -> None:
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
        _add(page, place, f"percentiles-{first}-{second}", figure, caption)
    if len(pairs) > _MOST_PAIRS:
        page.paragraph(f"Only the first {_MOST_PAIRS} of {len(pairs)} pairs of models are drawn.")
    for name, figure, caption in _matrices(evaluation, models):
        _add(page, place, name, figure, caption)


def _matrices(evaluation: Evaluation, models: list[str]) -> Iterator[tuple[str, Axes, str]]:
    if len(models) < 2:
        return
    for condition, block in evaluation.pairs.model_agreement.groupby("condition", sort=False):
        n = int(block["n_trials"].iloc[0])
        yield (
            f"agreement-{condition}",
            matrix_figure(
                *(block, "model_1", "model_2", "agreement", models),
                *("pairs ordered alike", 0.5, True, sheet()[0]),
            ),
            f"Share of the {n} sentence pairs ({condition}) that two models order alike.",
        )
    for condition, block in evaluation.pairs.consistency.groupby("condition", sort=False):
        known = block[block["other"].isin(models)]
        if known.empty:
            continue
        yield (
            f"consistency-{condition}",
            matrix_figure(known, "model", "other", "accuracy", models, "accuracy", ax=sheet()[0]),
            f"Accuracy of the model of each row on the pairs ({condition}) that pit it against "
            f"that of the column; {span(known['n_trials'])} pairs a cell.",
        )
    table = evaluation.pairs.natural_preference
    if len(table):
        names = list(dict.fromkeys([*models, *table["accepts"], *table["rejects"]]))
        yield (
            "natural-preference",
            matrix_figure(
                *(table, "accepts", "rejects", "natural_chosen", names, "natural chosen"),
                ax=sheet()[0],
            ),
            "Share of choices of the natural over the synthetic sentence that the row's model "
            f"accepts and the column's rejects; {span(table['n_trials'])} pairs a cell.",
        )


def _control_parts(evaluation: Evaluation, page: Page, place: Path) -> None:
    controls = evaluation.controls
    if len(controls.normalisation):
        page.heading("Control: length normalisation")
        page.table(controls.normalisation)
        caption = (
            "Accuracy of a mix of log-probability, MeanLP and PenLP fitted on the other sentence "
            "pairs, against that of the log-probability alone."
        )
        figure = normalisation_figure(controls.normalisation, sheet()[0])
        _add(page, place, "normalisation", figure, caption)
    for name, table in (
        ("token counts", controls.token_counts),
        ("word features", controls.features),
    ):
        if len(table):
            page.heading(f"Control: {name}")
            page.table(table)
            page.paragraph(scope_sentence(evaluation, "pair"))
    if len(controls.features):
        for feature in dict.fromkeys(controls.features["feature"].astype("str")):
            figure = feature_figure(controls.features, feature, ax=sheet()[0])
            caption = (
                f"Mean {feature.replace('_', ' ')} of the preferred minus the rejected sentence, "
                "for models and for people on the same pairs."
            )
            _add(page, place, f"feature-{feature}", figure, caption)
