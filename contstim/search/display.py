"""How sentences that were written show themselves in a notebook, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from contstim.tables import TRIPLETS
from contstim.text.sentence import marked_html

_COLOURS = ("#555", "#0072b2", "#b34700")
_WIDTH = 110  # of the small figures, pixels
_MOST = 20  # triplets of a table that are shown


def scored_html(
    rows: Sequence[tuple[str, str, Sequence[float]]], models: Sequence[str], note: str = ""
) -> str:
    """Return a table of sentences with their scores, what differs from the first one in bold.

    Beside each model's scores a small figure has them on one line.

    Parameters
    ----------
    rows
        What a sentence is, the sentence, and its score under each model.
    models
        Their names.
    note
        A sentence below the table.
    """
    natural = rows[0][1]
    head = "".join(f"<th colspan=2>{escape(model)}</th>" for model in models)
    spans = [[row[2][k] for row in rows] for k in range(len(models))]
    lines = []
    for number, (label, text, scores) in enumerate(rows):
        colour = _COLOURS[number % len(_COLOURS)]
        cells = "".join(
            f"<td style='text-align:right'>{score:.1f}</td><td>{_dot(score, span, colour)}</td>"
            for score, span in zip(scores, spans, strict=True)
        )
        lines.append(
            f"<tr><td style='color:{colour}'>{escape(label)}</td>"
            f"<td style='text-align:left'>{marked_html(natural, text)}</td>{cells}</tr>"
        )
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><tr><th></th><th></th>{head}</tr>{''.join(lines)}</table>{below}"


def _dot(score: float, span: Sequence[float], colour: str) -> str:
    """Return a drawing of a score between the lowest and the highest of `span`."""
    low, high = min(span), max(span)
    x = 6 + (_WIDTH - 12) * ((score - low) / (high - low) if high > low else 0.5)
    return (
        f"<svg width='{_WIDTH}' height='12' role='img' aria-label='{score:.1f}'>"
        f"<line x1='6' x2='{_WIDTH - 6}' y1='6' y2='6' stroke='#ccc'/>"
        f"<circle cx='{x:.1f}' cy='6' r='4' fill='{colour}'/></svg>"
    )


def triplet_html(row: Mapping[Any, Any]) -> str:
    """Return one row of a `triplets` table as HTML."""
    models = [str(row["model_1"]), str(row["model_2"])]
    return scored_html(
        [
            (label, str(row[kind]), [float(row[f"{kind}_lp_{k}"]) for k in (1, 2)])
            for label, kind in (
                ("natural", "natural"),
                (f"1: accepted by {models[0]}", "synthetic_1"),
                (f"2: accepted by {models[1]}", "synthetic_2"),
            )
        ],
        models,
    )


class TripletTable(pd.DataFrame):
    """A `triplets` table that notebooks show with what was changed in bold; else a DataFrame."""

    @property
    def _constructor(self) -> type[TripletTable]:
        return TripletTable

    def _repr_html_(self) -> str:
        if not set(TRIPLETS) <= set(self.columns) or not len(self):
            return str(pd.DataFrame(self).to_html(max_rows=_MOST))
        shown = [triplet_html(row) for row in self.head(_MOST).to_dict("records")]
        if len(self) > _MOST:
            shown.append(f"<p>... {len(self) - _MOST} more triplets</p>")
        return "".join(shown)
