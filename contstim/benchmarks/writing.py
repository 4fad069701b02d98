"""The folder of a benchmark run: tables, the evaluations' reports, and one page."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from contstim.benchmarks import HERE, Judgement
from contstim.benchmarks.running import BenchmarkRun
from contstim.errors import InputError
from contstim.evaluation.report import ReportPage, write_report
from contstim.evaluation.result import Evaluation
from contstim.files import check_replaceable, replacing_folder, write_whole
from contstim.report.model_figure import model_figure
from contstim.report.page import Stacked
from contstim.report.style import COLUMN_WIDTH, PAGE_WIDTH, sheet
from contstim.tables import neutral_table, table_text

#: The page of a run, and what tells that a folder is one's.
PAGE, PROVENANCE = "index.html", "provenance.json"
_TOP = "the lower noise ceiling"


def check_results_folder(folder: Path) -> None:
    """Refuse a place where something else than the results of benchmarks is.

    Raises
    ------
    InputError
        Naming it.
    OutputError
        If it is the working folder or around it, which is not replaced.
    """
    check_replaceable(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / PROVENANCE).exists():
        raise InputError(
            f"{folder} has something else than the results of benchmarks; choose another folder"
        )


def write_run(run: BenchmarkRun, folder: str | Path, *, reports: bool = True) -> Path:
    """Write the results of benchmarks, whole or not at all; return the path of their page.

    ``results.csv`` has all of them; below, in a folder for each benchmark, its scores, further
    tables, published figures beside what was computed, and the report of the evaluation where
    people chose.

    Parameters
    ----------
    run
        What was run.
    folder
        Where; results of benchmarks that are there are replaced.
    reports
        Whether reports are written of evaluations, or their tables alone.

    Raises
    ------
    InputError
        If the folder has something else.
    OutputError
        If it cannot be written.

    Examples
    --------
    >>> from contstim.benchmarks.datasets import fetch
    >>> from contstim.benchmarks.running import run_benchmarks
    >>> run = run_benchmarks([fetch("blimp").benchmark()], [], "scores")  # doctest: +SKIP
    >>> write_run(run, "results").name  # doctest: +SKIP
    'index.html'
    """
    place = Path(folder)
    check_results_folder(place)
    with replacing_folder(place) as temporary:
        temporary.mkdir(parents=True)
        _write(run, temporary, reports)
    return place / PAGE


def _write(run: BenchmarkRun, folder: Path, reports: bool) -> None:
    for name, judgement in run.judgements.items():
        place = folder / folder_name(name)
        _write_judgement(run, name, judgement, place)
        if judgement.evaluation is not None:
            (write_report if reports else Evaluation.write_tables)(judgement.evaluation, place)
    provenance = {
        "benchmarks": {name: benchmark.title for name, benchmark in run.benchmarks.items()},
        "models": list(run.models),
        "versions": dict(run.versions),
    }
    text = json.dumps(provenance, indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / PROVENANCE, text)
    page = ReportPage("How well models predict people", folder)
    _fill(run, page)
    write_whole(folder / "results.csv", table_text(neutral_table(run.results)))
    write_whole(folder / PAGE, str(page))


def folder_name(name: str) -> str:
    """Return what the folder of a benchmark is called."""
    return name.replace("/", "-")


def _write_judgement(run: BenchmarkRun, name: str, judgement: Judgement, folder: Path) -> None:
    tables = {"results": judgement.results, **judgement.details}
    compared = run.benchmarks[name].compared(judgement.results)
    if len(compared):
        tables["published"] = compared
    for stem, table in tables.items():
        write_whole(folder / f"{stem}.csv", table_text(neutral_table(table)))
    scores = run.scores[name]
    if judgement.evaluation is None and scores is not None:
        packed = gzip.compress(table_text(neutral_table(scores)).encode(), mtime=0)
        write_whole(folder / "scores.csv.gz", packed)


def _fill(run: BenchmarkRun, page: ReportPage) -> None:
    headlines = run.headlines
    several = len(run.benchmarks) > 1
    sentences = headline_sentences(run)
    page.paragraph(sentences[0], "answer")
    for sentence in sentences[1:]:
        page.paragraph(sentence)
    if several:
        table = share_table(headlines)
        page.table(
            table.rename(columns={name: Stacked(*name.split("/", 1)) for name in run.benchmarks}),
            caption="Share of the way from chance to the lower noise ceiling, with 95 % intervals; "
            "where a benchmark has no ceiling, or a figure no scores, the value itself, in "
            "brackets.",
        )
    for name, judgement in run.judgements.items():
        _fill_benchmark(run, name, judgement, page, folded=several)
    page.heading("What was computed")
    page.paragraph(
        f"contstim {run.versions['contstim']}. A model's share is 1 where it predicts people as "
        f"well as {_TOP}, and 0 where it guesses; its interval combines those of the ceiling and "
        "of the distance to it. results.csv has every analysis and measure, provenance.json what "
        "each model is; scores, tables and reports are in a folder for each benchmark."
    )


def _fill_benchmark(
    run: BenchmarkRun, name: str, judgement: Judgement, page: ReportPage, folded: bool
) -> None:
    benchmark = run.benchmarks[name]
    page.heading(f"{name}: {benchmark.title}", folded=folded)
    rows = run.headlines[run.headlines["benchmark"] == name]
    label = benchmark.label(benchmark.headline[1])
    figures = [_figure(rows, label, width) for width in (PAGE_WIDTH, COLUMN_WIDTH)]
    grey = "; grey: the noise ceiling" if rows["ceiling_lower"].notna().any() else ""
    caption = f"{label.capitalize()} of each model with its 95 % interval{grey}."
    page.draw(folder_name(name), figures[0], caption, figures[1])
    page.table(_result_table(rows), caption=f"The same, with where each row is from ({name}).")
    n_figures = len(benchmark.figures)
    if n_figures:
        page.paragraph(published_note(run, name))
    others = f"{folder_name(name)}/report.html"
    if (page.folder / others).exists():
        page.paragraph(f"Every test, figure and table of these choices: {others}.")
    page.bullets(judgement.notes)


def _figure(rows: pd.DataFrame, label: str, width: float) -> Axes:
    table = rows.assign(q_ceiling=np.nan, effect_ceiling=np.nan, test="", unit="participant")
    table["ceiling_upper"] = table["ceiling_upper"].fillna(table["ceiling_lower"])
    units = pd.DataFrame(columns=["model", "value"])
    pairs = pd.DataFrame(columns=["analysis", "model_1", "model_2", "difference", "q"])
    return model_figure(table, pairs, units, ax=sheet()[0], label=label, width=width)


def _result_table(rows: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, list[object]] = {"model": rows["model"].tolist()}
    columns["value"] = _estimates(rows, "value", "ci")
    if rows["ceiling_lower"].notna().any():
        columns["noise ceiling"] = list(rows["ceiling_lower"].astype(float))
        columns["share of the ceiling"] = _estimates(rows, "share", "share")
    return pd.DataFrame({**columns, "source": rows["source"].tolist()})


def _estimates(rows: pd.DataFrame, column: str, ends: str) -> list[object]:
    numbers = rows[[column, f"{ends}_low", f"{ends}_high"]].to_numpy(dtype=float)
    return [Stacked.estimate(*row) for row in numbers.tolist()]


def share_table(headlines: pd.DataFrame) -> pd.DataFrame:
    """Return models by benchmarks: the share of the ceiling, or in brackets the value."""
    cells: dict[str, dict[str, object]] = {}
    for row in headlines.to_dict("records"):
        if np.isnan(float(row["share"])):
            cell: object = f"({float(row['value']):.3f})"
        else:
            cell = Stacked.estimate(*(float(row[c]) for c in ("share", "share_low", "share_high")))
        cells.setdefault(str(row["model"]), {})[str(row["benchmark"])] = cell
    here = set(headlines.loc[headlines["source"] == HERE, "model"].astype(str))
    order = sorted(cells, key=lambda model: (model not in here, -len(cells[model])))
    names = list(dict.fromkeys(headlines["benchmark"].astype(str)))
    columns: dict[str, list[object]] = {"model": list(order)}
    for name in names:
        columns[name] = [cells[model].get(name, "") for model in order]
    return pd.DataFrame(columns)


def headline_sentences(run: BenchmarkRun) -> list[str]:
    """Return for each benchmark which model does best, in a sentence."""
    sentences = []
    for name, rows in run.headlines.groupby("benchmark", sort=False):
        best = rows[rows["value"].astype(float) >= rows["value"].astype(float).max() - 1e-9]
        row = best.iloc[0]
        names = best["model"].astype(str).tolist()
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        verb = "does" if len(names) == 1 else "do"
        label = run.benchmarks[str(name)].label(str(row["measure"]))
        text = f"On {name} {who} {verb} best: {label} {float(row['value']):.3f}"
        if not np.isnan(float(row["share"])):
            share, ceiling = 100 * float(row["share"]), float(row["ceiling_lower"])
            text += f", {share:.1f} % of the way from chance to {_TOP}, {ceiling:.3f}"
        if not np.isnan(float(row["share_low"])):
            low, high = (100 * float(row[end]) for end in ("share_low", "share_high"))
            text += f" (95 % interval {low:.1f} to {high:.1f})"
        sentences.append(f"{text}.")
    return sentences


def published_note(run: BenchmarkRun, name: str) -> str:
    """Say in a sentence how far published figures are from what their scores give."""
    table = run.benchmarks[name].compared(run.judgements[name].results)
    computed = table[table["difference"].notna()]
    if computed.empty:
        return f"Figures as they were published, without scores: {len(table)}."
    return (
        f"Figures computed again from what was published with them: {len(computed)}; the largest "
        f"difference is {computed['difference'].abs().max():.2g}."
    )
