"""The page of the demonstration."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes

from contstim.drawing import create_axes, render_svg
from contstim.page import TEMPLATES, inline_svg
from contstim.selection.figure import TRIPLET_COLOURS, triplet_figure
from contstim.selection.triplet_objectives import controversiality
from contstim.text import highlight_changes

_ROLES = {
    "natural": "natural",
    "synthetic_1": "accepted by model 1",
    "synthetic_2": "accepted by model 2",
}


@dataclass(frozen=True)
class OrderedPair:
    """Two sentences that two models order oppositely.

    Attributes
    ----------
    model_1, model_2
        Specs.
    sentence_1, sentence_2
        What model 1 prefers, and what model 2 prefers.
    nats_1, nats_2
        By how many nats each model prefers its own.
    made
        How the two came about, in a phrase.
    natural
        The sentence that both were made from, if they were.
    """

    model_1: str
    model_2: str
    sentence_1: str
    sentence_2: str
    nats_1: float
    nats_2: float
    made: str
    natural: str = ""

    @property
    def marked(self) -> tuple[Markup, Markup]:
        """Both sentences as HTML, what was changed in bold."""
        one, two = self.sentence_1, self.sentence_2
        return _marked(self.natural or one, one), _marked(self.natural or two, two)

    @property
    def times(self) -> tuple[str, str]:
        """How many times as probable each model finds its own, such as ``3,000`` or ``10^9``."""
        return _power(self.nats_1), _power(self.nats_2)


def _marked(before: str, after: str) -> Markup:
    return Markup(highlight_changes(before, after))  # noqa: S704 - its words are escaped


def _power(nats: float) -> str:
    """Write e to the power of `nats` with one digit that counts, or as a power of ten."""
    digits = nats / math.log(10)
    if digits >= 4:
        return f"10^{digits:.0f}"
    return f"{float(f'{math.exp(nats):.1g}'):,.0f}"


def demonstration_page(
    pairs: Sequence[OrderedPair],
    triplets: pd.DataFrame,
    reference: Mapping[str, Sequence[float]],
    verdict: Sequence[str],
    figure: Axes | None,
    further: Mapping[str, Sequence[str]],
) -> str:
    """Return the page of the demonstration: pairs, verdict, triplets with their scatter, commands.

    Parameters
    ----------
    pairs
        What it begins with.
    triplets
        A `triplets` table.
    reference
        Scores of natural sentences under each model; percentiles are among them.
    verdict, figure
        What people's choices say, in sentences and drawn.
    further
        By what a reader may want next, the commands.
    """
    drawn = _sections(triplets, reference)
    return TEMPLATES.get_template("demo.html").render(
        title="Sentences on which language models disagree",
        pairs=pairs,
        sections=drawn,
        verdict=verdict,
        figure=figure and inline_svg(render_svg(figure), len(drawn) + 1, " ".join(verdict)),
        further=further,
    )


def _sections(
    triplets: pd.DataFrame, reference: Mapping[str, Sequence[float]]
) -> list[dict[str, object]]:
    """Return what the page shows of each pair of models, the most controversial triplet first."""
    sections: list[dict[str, object]] = []
    for key, group in triplets.groupby(["model_1", "model_2"], sort=False):
        first, second = (str(model) for model in key)
        order = controversiality(group).sort_values(ascending=False, kind="stable").index
        svg = render_svg(
            triplet_figure(group, reference[first], reference[second], create_axes()[0])
        )
        for kind in TRIPLET_COLOURS:  # the sentence of each dot is its tooltip
            for number, text in enumerate(group[kind]):
                dot = f'<g id="{kind}-{number}">'
                svg = svg.replace(dot, f"{dot}<title>{escape(str(text))}</title>")
        label = f"Percentiles of sentences under {first} and {second}"
        sections.append(
            {
                "heading": f"{first} and {second}",
                "svg": inline_svg(svg, len(sections) + 1, label),
                "head": [f"log p, model {number} (nats)" for number in (1, 2)],
                "triplets": [_lines(record) for record in group.loc[order].to_dict("records")],
            }
        )
    return sections


def _lines(record: Mapping[Hashable, object]) -> list[dict[str, object]]:
    return [
        {
            "colour": colour,
            "role": _ROLES[kind],
            "sentence": _marked(str(record["natural"]), str(record[kind])),
            "scores": [record[f"{kind}_lp_1"], record[f"{kind}_lp_2"]],
        }
        for kind, colour in TRIPLET_COLOURS.items()
    ]
