"""Web page of the demonstration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes

from contstim.drawing import create_axes, render_svg
from contstim.page import TEMPLATES, inline_svg
from contstim.selection.figure import TRIPLET_COLOURS, triplet_figure
from contstim.selection.triplet_objectives import controversiality
from contstim.synthesis.results import Triplet
from contstim.text import highlight_changes

_LABELS = {
    "natural": "natural",
    "synthetic_1": "accepted by model 1",
    "synthetic_2": "accepted by model 2",
}


@dataclass(frozen=True)
class OrderedPair:
    """Pair of sentences that two models order differently by probability.

    Attributes
    ----------
    model_1, model_2 : str
        Model specifications, for example ``contstim:gpt``.
    sentence_1, sentence_2 : str
        Sentence that is more probable under model 1, and sentence that is more probable under
        model 2.
    log_ratio_1, log_ratio_2 : float
        Under model 1, log-probability of sentence 1 minus log-probability of sentence 2. Under
        model 2, log-probability of sentence 2 minus log-probability of sentence 1. In nats.
    origin : str
        Origin of the sentences in a few words.
    natural : str
        Natural sentence from which both were made; empty if there is none.
    """

    model_1: str
    model_2: str
    sentence_1: str
    sentence_2: str
    log_ratio_1: float
    log_ratio_2: float
    origin: str
    natural: str = ""

    @classmethod
    def from_triplet(cls, triplet: Triplet, origin: str, natural: str = "") -> OrderedPair:
        """Create a pair from the two synthetic sentences of a triplet."""
        return cls(
            model_1=triplet.model_1,
            model_2=triplet.model_2,
            sentence_1=triplet.synthetic_1,
            sentence_2=triplet.synthetic_2,
            # `synthetic_2_lp_1` is the log-probability of synthetic sentence 2 under model 1. Model
            # 1 prefers synthetic sentence 1, and model 2 prefers synthetic sentence 2. Both ratios
            # subtract the other sentence from the preferred one, so both are positive.
            log_ratio_1=triplet.synthetic_1_lp_1 - triplet.synthetic_2_lp_1,
            log_ratio_2=triplet.synthetic_2_lp_2 - triplet.synthetic_1_lp_2,
            origin=origin,
            natural=natural,
        )

    @property
    def ratios(self) -> tuple[str, str]:
        """Probability ratio of the two sentences under each model, e.g. ``3,000`` or ``10^9``."""
        return _format_ratio(self.log_ratio_1), _format_ratio(self.log_ratio_2)

    def __str__(self) -> str:
        ratio_1, ratio_2 = self.ratios
        # Synthetic sentences were made from a natural sentence, which comes first.
        lines = [f"  from  {self.natural}"] if self.natural else []
        lines += [
            f"  1  {self.sentence_1}",
            f"     {ratio_1} times as probable as sentence 2 under {self.model_1}",
            f"  2  {self.sentence_2}",
            f"     {ratio_2} times as probable as sentence 1 under {self.model_2}\n",
        ]
        return "\n".join(lines)


def _highlight(original: str, changed: str) -> Markup:
    """Format a changed sentence as HTML, with the words that differ from `original` in bold."""
    return Markup(highlight_changes(original, changed))  # noqa: S704 - its words are escaped


def _format_ratio(log_ratio: float) -> str:
    """Format a ratio of probabilities given its logarithm in nats.

    Ratios below 10^4 are written as a number, for example ``3,000``, others as ``10^9``.
    """
    exponent = log_ratio / math.log(10)
    if exponent >= 4:
        return f"10^{exponent:.0f}"
    rounded = float(f"{math.exp(log_ratio):.1g}")  # one significant digit
    return f"{rounded:,.0f}"


def render_demonstration(
    pairs: Sequence[OrderedPair],
    triplets: pd.DataFrame,
    pool_scores: Mapping[str, Sequence[float]],
    conclusion: Sequence[str],
    figure: Axes | None,
    next_steps: Mapping[str, Sequence[str]],
) -> str:
    """Render the HTML page on which `contstim demo` presents its sentence pairs and evaluation.

    Parameters
    ----------
    pairs : sequence of OrderedPair
        Pairs at the top of the page.
    triplets : DataFrame
        Table of triplets, shown with one figure per pair of models.
    pool_scores : mapping
        Scores of natural sentences by model. The figures show percentiles among these scores.
    conclusion : sequence of str
        Sentences that summarise the evaluation of the models on simulated choices.
    figure : Axes, optional
        Figure with the values of the models in the evaluation.
    next_steps : mapping
        Commands that a reader can run next. Each key is a heading, and each value the list of
        commands below this heading.

    Returns
    -------
    str
        HTML of the page.
    """
    sections: list[dict[str, object]] = []
    for models, group in triplets.groupby(["model_1", "model_2"], sort=False):
        model_1, model_2 = (str(model) for model in models)
        axes = create_axes()[0]
        svg = render_svg(triplet_figure(group, pool_scores[model_1], pool_scores[model_2], axes))
        # Show the sentence of each dot as its tooltip.
        for kind in TRIPLET_COLOURS:
            for number, text in enumerate(group[kind]):
                dot = f'<g id="{kind}-{number}">'
                svg = svg.replace(dot, f"{dot}<title>{escape(str(text))}</title>")
        label = f"Percentiles of sentences under {model_1} and {model_2}"
        ranking = controversiality(group).sort_values(ascending=False, kind="stable").index
        sections.append(
            {
                "heading": f"{model_1} and {model_2}",
                "svg": inline_svg(svg, len(sections) + 1, label),
                "head": [f"log p, model {number} (nats)" for number in (1, 2)],
                "triplets": [
                    [
                        {
                            "colour": colour,
                            "role": _LABELS[kind],
                            "sentence": _highlight(str(record["natural"]), str(record[kind])),
                            "scores": [record[f"{kind}_lp_1"], record[f"{kind}_lp_2"]],
                        }
                        for kind, colour in TRIPLET_COLOURS.items()
                    ]
                    for record in group.loc[ranking].to_dict("records")
                ],
            }
        )
    figure_html = None
    if figure is not None:
        figure_html = inline_svg(render_svg(figure), len(sections) + 1, " ".join(conclusion))
    return TEMPLATES.get_template("demo.html").render(
        title="Sentences on which language models disagree",
        pairs=pairs,
        sections=sections,
        conclusion=conclusion,
        figure=figure_html,
        next_steps=next_steps,
    )
