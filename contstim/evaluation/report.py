"""Tables, figures and one page of an evaluation, part after part.

A part is a function that adds to the page what it has to show of an evaluation, and with it the
tables and figures to the folder. Packages bring more by entry points of the group
``contstim.reports``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from contstim.evaluation.answer import (
    analyses_together,
    answer_sentences,
    bounds_text,
    of_same,
    result_sentences,
)
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.wording import (
    condition_sentences,
    exclusion_sentences,
    methods_sentences,
    scope_sentence,
    span,
    standing_sentences,
    stopping_table,
)
from contstim.files import write_whole
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.report.model_figure import feature_figure, normalisation_figure
from contstim.report.page import Page, Stacked
from contstim.report.pair_figures import matrix_figure, percentile_figure
from contstim.report.style import COLUMN_WIDTH, PAGE_WIDTH, save_figure, sheet, svg_text
from contstim.tables import neutral_table, table_text

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

_MOST_PAIRS = 6
_MOST_EXCLUDED = 200
# Of a table of comparisons on the page; the file has all.
_MOST_COMPARISONS = 60
# Inches, of the figure of one analysis, of which two stand beside each other on a wide page.
_HALF_WIDTH = 4.7
_NATS = "nats (units of natural logarithms; one less is 2.7 times less probable)"


class ReportPage(Page):
    """A page whose tables and figures are files of a folder, too.

    Parameters
    ----------
    title
        Of the page.
    folder
        Where files go.

    Examples
    --------
    >>> page = ReportPage("My study", Path())
    >>> page.heading("Numbers")
    >>> page.tabulate("numbers", pd.DataFrame({"n": [1, 2]}))
    >>> pd.read_csv("numbers.csv")["n"].tolist()
    [1, 2]
    """

    def __init__(self, title: str, folder: Path) -> None:
        super().__init__(title)
        self.folder = folder

    def heading(self, text: str, *, folded: bool = True) -> None:
        """Begin a section, which is listed at the top and folded unless it is to be read first."""
        super().heading(text, folded=folded)

    def draw(self, name: str, drawn: Axes, caption: str, narrow: Axes | None = None) -> None:
        """Write a figure as ``NAME.svg`` and show it.

        With the same figure for a narrow page, a journal's column, both are written as PDF and PNG
        as well, and the one that has room is shown.
        """
        svg = svg_text(drawn)
        name = self.distinct(re.sub(r"[^A-Za-z0-9._-]+", "-", name))
        write_whole(self.folder / f"{name}.svg", svg)
        if narrow is None:
            self.figure(svg, caption)
            return
        narrow_svg, files = svg_text(narrow), {}
        write_whole(self.folder / f"{name}-narrow.svg", narrow_svg)
        for stem, axes in ((name, drawn), (f"{name}-narrow", narrow)):
            for ending in ("pdf", "png"):
                save_figure(axes, self.folder / f"{stem}.{ending}")
            width = f"{25.4 * axes.figure.bbox.width / axes.figure.dpi:.0f} mm"
            files[width] = [f"{stem}.{ending}" for ending in ("svg", "pdf", "png")]
        self.figure(svg, caption, narrow_svg, files)

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

    The page begins with the answer, one figure, one table and the methods, as a paper has them;
    the rest is folded. The figure is also written as PDF and PNG, 180 mm wide (``figure.pdf``) and
    90 mm, a column of a journal (``figure-narrow.pdf``).

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
    with waiting("writing the report"):
        place = Path(folder)
        evaluation.write_tables(place)
        page = ReportPage("Which model predicts people's choices", place)
        first, *rest = answer_sentences(evaluation)
        page.paragraph(first, "answer")
        if rest:
            page.paragraph(" ".join(rest))
        for _, part in REPORT_PARTS.items():
            part(evaluation, page)
        path = place / "report.html"
        write_whole(path, str(page))
        return path


def answer_html(evaluation: Evaluation) -> str:
    """Return the answer with its figure and its table as HTML, for a notebook."""
    page = Page("")
    for text in answer_sentences(evaluation):
        page.paragraph(text)
    figure = evaluation.figure(ax=sheet()[0])
    if figure is not None:
        page.figure(svg_text(figure), _figure_caption(evaluation, _shown_first(evaluation)[:1]))
        page.table(result_table(evaluation), caption=_table_caption(evaluation))
    return page.fragment()


def _standing(evaluation: Evaluation, page: ReportPage) -> None:
    if evaluation.standing is None:
        return
    page.heading("How the study stands: posterior, fit and verdict", folded=False)
    page.bullets(standing_sentences(evaluation))
    page.table(evaluation.standing.models)
    page.tabulate("stopping", stopping_table(evaluation.standing))


def _result(evaluation: Evaluation, page: ReportPage) -> None:
    """Add the figure and the table that a paper prints."""
    if evaluation.models.empty:
        rows = evaluation.details.ceilings
        table = rows[["analysis", "measure"]].assign(noise_ceiling=_ceilings(rows))
        shown = table.assign(n_trials=rows["n_trials"], note=rows["note"])
        page.table(shown, caption="Noise ceilings, and the sentence pairs that they rest on.")
        return
    analyses = _shown_first(evaluation)
    if not analyses:
        return
    widths = (PAGE_WIDTH, COLUMN_WIDTH)
    broad, narrow = (evaluation.figure(analyses, None, sheet()[0], width) for width in widths)
    if broad is not None:
        page.draw("figure", broad, _figure_caption(evaluation, analyses), narrow)
    page.table(result_table(evaluation), caption=_table_caption(evaluation))


def _shown_first(evaluation: Evaluation) -> list[str]:
    if evaluation.models["value"].isna().all():
        return []
    return analyses_together(evaluation.models)


def _first_block(evaluation: Evaluation) -> pd.DataFrame:
    """Return the rows of models that the answer is of."""
    models = evaluation.models
    return of_same(models, models[models["value"].notna()].iloc[0])


def result_table(evaluation: Evaluation) -> pd.DataFrame:
    """Return the table that a paper prints, of the first analysis, a row per model, the best first.

    Columns: `#`, its number in the table; `model`; each measure, a value and its interval; of the
    first measure the difference `from ceiling`, the lower one, with its q, and the numbers of the
    models that it is `better than`, with those that it is equivalent to. Noise ceilings have a
    column where models have different ones. Empty without values.
    """
    if evaluation.models["value"].isna().all():
        return pd.DataFrame()
    head = _first_block(evaluation)
    head = head[head["value"].notna()].sort_values("value", ascending=False, kind="stable")
    first = head.iloc[0]
    names = [str(name) for name in head["model"]]
    table = pd.DataFrame({"#": range(1, len(names) + 1), "model": names})
    same = evaluation.models[evaluation.models["analysis"] == first["analysis"]]
    for measure, rows in same.groupby("measure", sort=False):
        values = rows.set_index("model").loc[names]
        name = str(measure).replace("_", " ")
        table[name] = _estimates(values, "value").to_numpy()
        if measure == first["measure"] and not _alike(values, "ceiling_lower", "ceiling_upper"):
            table["noise ceiling"] = _ceilings(values)
    if head["ceiling_lower"].notna().any():
        gap = head["value"] - head["ceiling_lower"]
        table["from ceiling"] = _tests(gap, head["q_ceiling"]).to_numpy()
    if len(names) > 1:
        pairs = of_same(evaluation.comparisons, first)
        better, alike = _relations(pairs, names)
        cells = [Stacked(_ranges(better[m]), _ranges(alike[m], "\u2248 ")) for m in names]
        table["better than"] = pd.Series(cells, dtype=object)
    return table


def _relations(
    pairs: pd.DataFrame, names: Sequence[str]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return for each model the numbers of those that it is better than, and equivalent to."""
    number = {name: i for i, name in enumerate(names, start=1)}
    better: dict[str, list[int]] = {name: [] for name in names}
    alike: dict[str, list[int]] = {name: [] for name in names}
    for row in pairs.to_dict("records"):
        left, right, verdict = str(row["model_1"]), str(row["model_2"]), row["verdict"]
        if left not in number or right not in number:
            continue
        if verdict == "equivalent":
            alike[left].append(number[right])
            alike[right].append(number[left])
        elif verdict in ("model 1", "model 2"):
            winner, loser = (left, right) if verdict == "model 1" else (right, left)
            better[winner].append(number[loser])
    return better, alike


def _ranges(numbers: Iterable[int], before: str = "") -> str:
    """Write numbers with runs of three or more as ranges, ``2, 4-7``, after a text if any."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [[f"{r[0]}\u2013{r[-1]}"] if len(r) > 2 else [str(n) for n in r] for r in runs]
    text = ", ".join(text for run in texts for text in run)
    return text and before + text


def _estimates(rows: pd.DataFrame, column: str) -> pd.Series:
    columns = rows[[column, "ci_low", "ci_high"]].astype(float)
    return columns.apply(lambda row: Stacked.estimate(*row), axis=1).astype(object)


def _tests(p: pd.Series, q: pd.Series) -> pd.Series:
    """Return p-values or differences, each above its p-value among all tests."""
    below = ["" if np.isnan(among) else f"q = {among:.2g}" for among in q]
    return pd.Series(list(map(Stacked, p, below)), p.index, dtype=object)


def _alike(rows: pd.DataFrame, *columns: str) -> bool:
    """Return whether all rows have the same values in some columns, but for rounding."""
    return len(rows[list(columns)].round(9).drop_duplicates()) <= 1


def _ceilings(rows: pd.DataFrame) -> list[str]:
    bounds = zip(rows["ceiling_lower"], rows["ceiling_upper"], strict=True)
    return ["" if low != low else bounds_text(low, upper) for low, upper in bounds]


def _rests_on(rows: pd.DataFrame) -> str:
    """Say on what values rest, and their noise ceiling if they share it."""
    text = f"on {span(rows['n_trials'])} sentence pairs"
    if not _alike(rows, "ceiling_lower", "ceiling_upper"):
        return text
    (ceiling,) = set(_ceilings(rows))
    return f"{text}; noise ceiling {ceiling}" if ceiling else text


def _label(measure: object) -> str:
    label = MEASURES[str(measure)].label
    return f"{label[0].upper()}{label[1:]}"


def _figure_caption(evaluation: Evaluation, analyses: Sequence[str]) -> str:
    rows = _first_block(evaluation)
    of_first = f" ({analyses[0].replace('_', ' ')})" if len(analyses) > 1 else ""
    text = f"{_label(rows['measure'].iloc[0])} of each model, on {span(rows['n_trials'])} sentence "
    text += f"pairs{of_first}."
    if rows["ceiling_lower"].notna().any():
        text += (
            " The grey band is the noise ceiling: the best possible model of these people would "
            "lie between its bounds."
        )
    pairs = of_same(evaluation.comparisons, rows.iloc[0])
    if ((pairs["q"] < ALPHA) & (pairs["difference"] != 0)).any():
        text += (
            " On the right, a filled dot is a model and the open dots are those it beats"
            f"{of_first} at a false discovery rate of {ALPHA:g} (the share of false ones among "
            "such findings)."
        )
    return text


def _table_caption(evaluation: Evaluation) -> str:
    rows = _first_block(evaluation)
    analysis, measure = (str(rows[n].iloc[0]).replace("_", " ") for n in ("analysis", "measure"))
    text = f"The models in the analysis {analysis}, {_rests_on(rows)}"
    text = f"{text.replace('noise ceiling', f'noise ceiling of {measure}')}. Small: 95 % intervals"
    if rows["ceiling_lower"].notna().any():
        text += f"; from ceiling: {measure} less its lower noise ceiling"
    if len(rows) > 1:
        text += f"; better than: numbers of models, by {measure}, q < {ALPHA:g}"
    if (of_same(evaluation.comparisons, rows.iloc[0])["verdict"] == "equivalent").any():
        text += " (\u2248: equivalent to)"
    return f"{text}. {scope_sentence(evaluation, str(rows['unit'].iloc[0]))}"


def _analyses(evaluation: Evaluation, page: ReportPage) -> None:
    """Add a section for each analysis."""
    if evaluation.models.empty:
        return
    page.heading("Each analysis")
    drawn = _shown_first(evaluation)
    first = evaluation.models.iloc[0]
    for analysis, rows in evaluation.models.groupby("analysis", sort=False):
        name = str(analysis)
        page.subheading(name.replace("_", " "), folded=True)
        blocks = [block for _, block in rows.groupby("measure", sort=False)]
        for measure in dict.fromkeys(rows["measure"]):
            label = f"{_label(measure)}. " if len(blocks) > 1 else ""
            page.paragraph(f"{label}{' '.join(result_sentences(evaluation, name, measure))}")
        for block in blocks:
            if drawn != [name] or block["measure"].iloc[0] != first["measure"]:
                _analysis_figure(evaluation, page, block)
        for block in blocks:
            _model_table(page, block)
            _comparison_table(page, block, of_same(evaluation.comparisons, block.iloc[0]))


def _analysis_figure(evaluation: Evaluation, page: ReportPage, rows: pd.DataFrame) -> None:
    analysis, measure = (str(rows[name].iloc[0]) for name in ("analysis", "measure"))
    figure = evaluation.figure(analysis, measure, sheet()[0], _HALF_WIDTH)
    if figure is not None:
        caption = f"{_label(measure)} ({analysis.replace('_', ' ')}), as in Figure 1."
        page.draw(f"models-{analysis}-{measure}", figure, caption)


def _model_table(page: ReportPage, rows: pd.DataFrame) -> None:
    measure = rows["measure"].iloc[0]
    rows = rows.sort_values("value", ascending=False, kind="stable")
    table = rows[["model"]].assign(value=_estimates(rows, "value"))
    if not _alike(rows, "ceiling_lower", "ceiling_upper"):
        table["noise_ceiling"] = _ceilings(rows)
    if not _alike(rows, "n_trials"):
        table["n_trials"] = rows["n_trials"]
    table["p (ceiling)"] = _tests(rows["p_ceiling"], rows["q_ceiling"])
    table["note"] = rows["note"]
    page.table(table, caption=f"{_label(measure)}, {_rests_on(rows)}.")


def _comparison_table(page: ReportPage, models: pd.DataFrame, pairs: pd.DataFrame) -> None:
    """Add the comparisons of an analysis, each with the better model first, by their values."""
    if pairs.empty:
        return
    turned = pairs["difference"] < 0
    sign = turned.map({True: -1.0, False: 1.0})
    first = pairs["model_1"].where(~turned, pairs["model_2"])
    low, high = pairs["ci_low"] * sign, pairs["ci_high"] * sign
    oriented = pairs.assign(
        difference=pairs["difference"] * sign,
        ci_low=low.where(~turned, high),
        ci_high=high.where(~turned, low),
    )
    table = pd.DataFrame(
        {
            "model": first,
            "over": pairs["model_2"].where(~turned, pairs["model_1"]),
            "difference": _estimates(oriented, "difference"),
            "p": _tests(pairs["p"], pairs["q"]),
            "verdict": pairs["verdict"].replace({"model 1": "better", "model 2": "better"}),
            "note": pairs["note"],
        }
    )
    value = models.set_index("model")["value"]
    keys = pd.DataFrame({"a": -table["model"].map(value), "b": -table["over"].map(value)})
    table = table.loc[keys.sort_values(["a", "b"], kind="stable").index]
    caption = f"{_label(models['measure'].iloc[0])}, differences of two models"
    if len(table) > _MOST_COMPARISONS:
        caption += f", the first {_MOST_COMPARISONS} of {len(table)} (all are in comparisons.csv)"
    page.table(table.head(_MOST_COMPARISONS), caption=f"{caption}.")


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
    for number, ((analysis, measure), rows) in enumerate(
        table.groupby(["analysis", "measure"], sort=False)
    ):
        if number:  # the first is part of the answer
            for sentence in condition_sentences(evaluation, str(analysis), str(measure)):
                page.paragraph(sentence)
        levels = rows["level_1"] + " less " + rows["level_2"]
        if len(evaluation.provenance.options.by) > 1:
            levels = rows["by"] + ": " + levels
        lead = rows["model_1"] + (" over " + rows["model_2"]).where(rows["model_2"] != "", "")
        shown = pd.DataFrame({"model": lead, "conditions": levels})
        shown["difference"] = _estimates(rows, "difference")
        shown["p"] = _tests(rows["p"], rows["q"])
        shown = shown.assign(verdict=rows["verdict"], note=rows["note"])
        caption = f"{_label(measure)} ({str(analysis).replace('_', ' ')})"
        if len(set(levels)) == 1:
            shown = shown.drop(columns="conditions")
            caption += f": {levels.iloc[0]}"
        page.table(shown, caption=f"{caption}.")


def _pairs(evaluation: Evaluation, page: ReportPage) -> None:
    if evaluation.models.empty:
        return
    models = [str(name) for name in dict.fromkeys(evaluation.models["model"])]
    pitted = evaluation.pairs.consistency
    pairs = list(dict.fromkeys(tuple(sorted(p)) for p in pitted[["model", "other"]].to_numpy()))
    pairs = [p for p in pairs if set(p) <= set(models)]
    matrices = list(_matrices(evaluation, models))
    if not pairs and not matrices:
        return
    page.heading("Pairs of models")
    scores = evaluation.provenance.scores
    for first, second in pairs[:_MOST_PAIRS]:
        figure = percentile_figure(evaluation.people.trials, scores, first, second, sheet()[0])
        caption = f"Percentiles of the sentences under {first} and {second}; lines join pairs."
        page.draw(f"percentiles-{first}-{second}", figure, caption)
    if len(pairs) > _MOST_PAIRS:
        page.paragraph(f"Only the first {_MOST_PAIRS} of {len(pairs)} pairs of models are drawn.")
    for name, figure, caption in matrices:
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
    page.heading("Methods", folded=False)
    for text in methods_sentences(evaluation):
        page.paragraph(text)
    page.paragraph(" ".join(exclusion_sentences(evaluation)))
    departures = evaluation.provenance.departures
    if departures is not None:
        page.heading("Departures from the analysis plan", folded=False)
        page.bullets(departures or ["None: all was done as planned."])
    if evaluation.provenance.notes:
        page.heading("Notes", folded=False)
        page.bullets(evaluation.provenance.notes)


def _appendix(evaluation: Evaluation, page: ReportPage) -> None:
    """Add who was left out, and what the models are."""
    excluded, units = evaluation.provenance.excluded, evaluation.provenance.units
    if len(excluded):
        page.heading("Who and what was left out")
        page.table(excluded.head(_MOST_EXCLUDED))
    if units:
        page.heading("The models")
        specs = [evaluation.provenance.specs.get(name, name) for name in units]
        page.table(pd.DataFrame({"model": list(units), "spec": specs, "scores in": units.values()}))


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
    rows = evaluation.pairs.instructive
    people = rows["n_rejected"].astype("str") + " of "
    people += (rows["n_preferred"] + rows["n_rejected"]).astype("str")
    shown = rows[["model", "preferred", "rejected"]].assign(
        people=people, log_prob=rows["log_prob_preferred"] - rows["log_prob_rejected"]
    )
    shown.columns = ["model", "it prefers", "people chose", "how many", "its difference"]
    page.table(shown)


#: The parts of a report, in their order.
REPORT_PARTS: Registry[ReportPart] = Registry(
    "report part",
    "contstim.reports",
    {
        "standing": _standing,
        "result": _result,
        "methods": _methods,
        "analyses": _analyses,
        "conditions": _conditions,
        "pairs": _pairs,
        "agreement": _agreement,
        "controls": _controls,
        "instructive": _instructive,
        "appendix": _appendix,
    },
)
