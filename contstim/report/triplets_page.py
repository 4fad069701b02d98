"""Pages of stimuli: triplets of sentences, and the demonstration."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes

from contstim.errors import InputError
from contstim.models.registry import score_kind
from contstim.report.page import inline_svg, render
from contstim.report.pair_figures import TRIPLET_COLOURS, triplet_figure
from contstim.report.style import sheet, svg_text
from contstim.selection.triplets import controversiality, specs_of_triplets, worst_ranks
from contstim.text import marked_html
from contstim.text.diversity import diversity_line

_ROLES = {
    "natural": "natural",
    "synthetic_1": "accepted by model 1",
    "synthetic_2": "accepted by model 2",
}


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
        A `triplets` table.
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
    return render("triplets.html", title=title, sections=_sections(triplets, reference, rows))


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
    return Markup(marked_html(before, after))  # noqa: S704 - its words are escaped


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
    triplets, reference
        As for `triplets_page`.
    verdict, figure
        What people's choices say, in sentences and drawn.
    further
        By what a reader may want next, the commands.
    """
    drawn = _sections(triplets, reference, len(triplets))
    return render(
        "demonstration.html",
        title="Sentences on which language models disagree",
        pairs=pairs,
        sections=drawn,
        verdict=verdict,
        figure=figure and inline_svg(svg_text(figure), len(drawn) + 1, " ".join(verdict)),
        further=further,
    )


def _sections(
    triplets: pd.DataFrame, reference: Mapping[str, Sequence[float]], rows: int
) -> list[dict[str, object]]:
    """Return what the page shows of each pair of models."""
    if triplets.empty:
        raise InputError("there is no triplet to show; the page needs at least one")
    sections: list[dict[str, object]] = []
    specs = specs_of_triplets(triplets)
    for key, group in triplets.groupby(["model_1", "model_2"], sort=False):
        models = [str(model) for model in key]
        for model in models:
            if model not in reference:
                raise InputError(f"no natural sentences were scored under {model!r}")
        head = []
        kinds = [score_kind(specs[model]) for model in models]
        for number, unit in enumerate((scored.unit for scored in kinds), start=1):
            log_p = f"log p, model {number} (nats)"
            head.append(log_p if unit == "nats" else f"model {number} ({unit})")
        # Listed by the sum of falls, where it has a unit.
        nats = all(scored.differs_in_nats for scored in kinds)
        values = controversiality(group) if nats else -worst_ranks(group)
        best = group.loc[values.sort_values(ascending=False, kind="stable").index[:rows]]
        first, second = models
        svg = svg_text(triplet_figure(group, reference[first], reference[second], sheet()[0]))
        for kind in TRIPLET_COLOURS:  # the sentence of each dot, shown when it is pointed at
            for place, text in enumerate(group[kind]):
                dot = f'<g id="{kind}-{place}">'
                svg = svg.replace(dot, f"{dot}<title>{escape(str(text))}</title>")
        label = f"Percentiles of sentences under {first} and {second}"
        written = [*group["synthetic_1"].astype(str), *group["synthetic_2"].astype(str)]
        sections.append(
            {
                "heading": " and ".join(models),
                "words": diversity_line(written, group["natural"].astype(str)),
                "svg": inline_svg(svg, len(sections) + 1, label),
                "head": head,
                "triplets": [_lines(record) for record in best.to_dict("records")],
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
