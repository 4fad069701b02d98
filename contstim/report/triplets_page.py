"""One self-contained HTML page of triplets: a scatter in percentile space for each model pair.

After Fig. 2 of Golan et al. (2023): the axes are the percentiles of a sentence's score
among natural sentences, under either model; lines join a natural sentence with its synthetic ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeVar

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.models.units import gives_log_probabilities, score_unit
from contstim.selection.triplets import controversiality, worst_ranks

__all__ = ["percentiles", "triplets_page"]

_SIDE, _LEFT, _BOTTOM = 440, 64, 56
# Okabe and Ito's colours, told apart by people with any kind of colour vision.
_COLOURS = {"natural": "#000000", "synthetic_1": "#0072b2", "synthetic_2": "#d55e00"}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; font-size: 0.92rem; }
td:first-child { white-space: nowrap; }
th, td { text-align: left; padding: 0.25rem 0.6rem; vertical-align: top; }
th { border-bottom: 2px solid #1a1a1a; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:first-child td { border-top: 1px solid #bbb; }
svg { max-width: 100%; height: auto; }
svg text { font: 13px system-ui, sans-serif; }
"""
Number = TypeVar("Number", float, "np.ndarray")

_KINDS = ("natural", "synthetic_1", "synthetic_2")


def percentiles(values: Sequence[float], reference: Sequence[float]) -> np.ndarray:
    """Return the percentage of `reference` below each value, ties counted half; 0 to 100."""
    ordered = np.sort(np.asarray(reference, dtype=np.float64))
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.asarray(100.0 * (below + up_to) / 2 / len(ordered))


def triplets_page(
    triplets: pd.DataFrame,
    reference: Mapping[str, Sequence[float]],
    title: str = "Controversial sentences",
    rows: int = 12,
) -> str:
    """Return the page.

    Parameters
    ----------
    triplets
        A `triplets` table (DESIGN, section 4).
    reference
        For each model its scores of natural sentences; percentiles are among them.
    title
        Heading of the page.
    rows
        How many triplets of each pair to list, the most controversial first; where a model gives
        no log-probabilities, by the rank of the weaker synthetic sentence.

    Raises
    ------
    InputError
        If there is no triplet, or no reference for a model.
    """
    if triplets.empty:
        raise InputError("there is no triplet to show; the page needs at least one")
    sections = []
    for (model_1, model_2), group in triplets.groupby(["model_1", "model_2"], sort=False):
        for model in (model_1, model_2):
            if model not in reference:
                raise InputError(f"no natural sentences were scored under {model!r}")
        heading = f"<h2>{escape(str(model_1))} and {escape(str(model_2))}</h2>"
        figure = _scatter(group, str(model_1), str(model_2), reference)
        sections.append(
            f"<section>{heading}{figure}{_table(group, str(model_1), str(model_2), rows)}</section>"
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        "<p>Each natural sentence (black) was changed into one that model 1 finds no less probable "
        "and model 2 far less (blue), and into the reverse (orange). Point at a dot to read its "
        "sentence. Percentiles are among the natural sentences scored (grey).</p>"
        f"{''.join(sections)}</body></html>\n"
    )


def _scatter(
    group: pd.DataFrame, model_1: str, model_2: str, reference: Mapping[str, Sequence[float]]
) -> str:
    def points(prefix: str) -> np.ndarray:
        x = percentiles(group[f"{prefix}_lp_1"].tolist(), reference[model_1])
        y = percentiles(group[f"{prefix}_lp_2"].tolist(), reference[model_2])
        return np.column_stack([_x(x), _y(y)])

    parts = [_axes(model_1, model_2)]
    cloud = np.column_stack(
        [
            _x(percentiles(reference[model_1], reference[model_1])),
            _y(percentiles(reference[model_2], reference[model_2])),
        ]
    )
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="#bbb"/>' for x, y in cloud]
    natural = points("natural")
    for kind in ("synthetic_1", "synthetic_2"):
        for (x, y), (to_x, to_y) in zip(natural, points(kind), strict=True):
            parts.append(
                f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" '
                f'stroke="{_COLOURS[kind]}" stroke-opacity="0.35"/>'
            )
    for kind in _KINDS:
        for (x, y), text in zip(points(kind), group[kind], strict=True):
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{_COLOURS[kind]}">'
                f"<title>{escape(str(text))}</title></circle>"
            )
    label = f"Percentiles of sentences under {model_1} and {model_2}"
    size = f"{_SIDE + _LEFT + 20} {_SIDE + _BOTTOM + 20}"
    return (
        f'<svg viewBox="0 0 {size}" width="{_SIDE + _LEFT + 20}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'
    )


def _x(percent: Number) -> Number:
    return _LEFT + _SIDE * percent / 100


def _y(percent: Number) -> Number:
    return 10 + _SIDE * (1 - percent / 100)


def _axes(model_1: str, model_2: str) -> str:
    bottom = 10 + _SIDE
    parts = [
        f'<rect x="{_LEFT}" y="10" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#1a1a1a"/>'
    ]
    for tick in (0, 25, 50, 75, 100):
        x, y = _x(float(tick)), _y(float(tick))
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tick}</text>')
    parts.append(
        f'<text x="{_LEFT + _SIDE / 2}" y="{bottom + 42}" text-anchor="middle">'
        f"percentile under model 1, {escape(model_1)}</text>"
    )
    middle = 10 + _SIDE / 2
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">'
        f"percentile under model 2, {escape(model_2)}</text>"
    )
    return "".join(parts)


def _order(group: pd.DataFrame, model_1: str, model_2: str) -> pd.Series:
    """Return what triplets are listed by, largest first: the sum of falls, where it has a unit."""
    if gives_log_probabilities(model_1) and gives_log_probabilities(model_2):
        return controversiality(group)
    return -worst_ranks(group)


def _heading(model: str, number: int) -> str:
    unit = score_unit(model)
    name = f"log p, model {number} (nats)" if unit == "nats" else f"model {number} ({unit})"
    return f'<th class="number">{name}</th>'


def _table(group: pd.DataFrame, model_1: str, model_2: str, rows: int) -> str:
    order = _order(group, model_1, model_2)
    best = group.loc[order.sort_values(ascending=False, kind="stable").index[:rows]]
    names = {
        "natural": "natural",
        "synthetic_1": "accepted by model 1",
        "synthetic_2": "accepted by model 2",
    }
    bodies = []
    for record in best.to_dict("records"):
        lines = [
            f'<tr><td style="color:{_COLOURS[kind]}">{names[kind]}</td>'
            f"<td>{escape(str(record[kind]))}</td>"
            f'<td class="number">{record[f"{kind}_lp_1"]:.1f}</td>'
            f'<td class="number">{record[f"{kind}_lp_2"]:.1f}</td></tr>'
            for kind in _KINDS
        ]
        bodies.append(f"<tbody>{''.join(lines)}</tbody>")
    return (
        "<table><thead><tr><th></th><th>sentence</th>"
        f"{_heading(model_1, 1)}{_heading(model_2, 2)}</tr></thead>"
        f"{''.join(bodies)}</table>"
    )
