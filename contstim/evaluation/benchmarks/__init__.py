"""Benchmarks: sentences that people judged, with the models that were tried on them before.

A benchmark knows which sentences a model has to score and how it is judged by them: by people's
choices (`choices`), by which sentence of a pair is acceptable (`pairs`). Every one gives the same
table, `RESULTS`, so that models can be compared across benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.evaluation.result import Evaluation
from contstim.sampling import FEWEST, SampledMean

#: Columns of a benchmark's results, one row per analysis, measure and model. `share` is how far the
#: model is on the way from chance to the lower noise ceiling; `source` says who scored it, or where
#: its figure stands.
RESULTS = (
    *("benchmark", "analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_upper", "share", "share_low", "share_high"),
    *("n_participants", "n_items", "source", "note"),
)
#: Columns of figures that a publication gives: `quantity` is the column of `RESULTS` that has it,
#: and `place` where it stands in the publication.
FIGURE_COLUMNS = ("analysis", "measure", "model", "quantity", "value", "place")
#: What `source` says of a model that was scored now.
HERE = "scored here"
#: What `note` says of a figure whose scores were not published with it.
AS_PUBLISHED = "as published, no interval"


def no_figures() -> pd.DataFrame:
    """Return a table of published figures without rows."""
    return pd.DataFrame(columns=list(FIGURE_COLUMNS))


@displayed
@dataclass(frozen=True, eq=False)
class Judgement:
    """How models do on a benchmark.

    Attributes
    ----------
    results
        See `RESULTS`.
    details
        Further tables by their names.
    evaluation
        The evaluation of people's choices, where the benchmark has them.
    notes
        Sentences on decisions taken on the way.
    """

    results: pd.DataFrame
    details: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Benchmark(ABC):
    """Sentences that people judged, and how a model is judged by them.

    Attributes
    ----------
    name
        What tables call it, ``DATA_SET/PART``.
    title
        What it is, in a line.
    source
        Whose it is, for rows of models whose scores were published with it: ``Golan et al.
        (2023)``.
    headline
        Analysis and measure by which models are compared across benchmarks.
    figures
        What the publication says, in the columns of `FIGURE_COLUMNS`; the results of models whose
        scores were published must give it, and of the others it is all there is.

    Examples
    --------
    >>> from contstim.datasets import fetch
    >>> benchmark = fetch("blimp").benchmark("pairs")  # doctest: +SKIP
    >>> len(benchmark.sentences)  # doctest: +SKIP
    133945
    """

    name: str
    title: str
    source: str
    headline: tuple[str, str]
    figures: pd.DataFrame = field(default_factory=no_figures)

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The S different sentences that a model has to score."""

    @property
    def published_models(self) -> list[str]:
        """The models that were published with it, by their scores or by figures alone."""
        return [str(model) for model in self.figures["model"].unique()]

    def label(self, measure: str) -> str:
        """Return what figures and sentences call a measure."""
        return measure.replace("_", " ")

    def refuse_names(self, models: Iterable[str]) -> None:
        """Refuse a model that is called as a published one.

        Raises
        ------
        InputError
            Naming it.
        """
        published = self.published_models
        for model in models:
            if model in published:
                raise InputError(
                    f"a model is called {model!r} as a published one of {self.name}; give yours "
                    "another name, --model NAME=SPEC"
                )

    @abstractmethod
    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:
        """Return how models do, those that were published and those of `scores`.

        Parameters
        ----------
        scores
            A long table as `contstim score` writes it, of all sentences; None: the published models
            alone.

        Raises
        ------
        InputError
            If a sentence has no score, or a model is called as a published one.
        """

    def compared(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return published figures beside what was computed of published scores.

        Parameters
        ----------
        results
            Of `judge`.

        Returns
        -------
        DataFrame
            The columns of `FIGURE_COLUMNS`, with `here` and `difference`; a row per figure.
        """
        keys = ["analysis", "measure", "model"]
        quantities = list(self.figures["quantity"].unique())
        scored = results["source"].ne(HERE) & results["note"].ne(AS_PUBLISHED)
        ours = results.loc[scored, [*keys, *quantities]]
        long = ours.melt(keys, var_name="quantity", value_name="here")
        both = self.figures.merge(long, on=[*keys, "quantity"], how="left")
        return both.assign(difference=both["here"] - both["value"])

    def _finished(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return results in their columns, with the published models that have no scores."""
        keys = ["analysis", "measure", "model"]
        computed = pd.MultiIndex.from_frame(results[keys])
        alone = self.figures[self.figures["quantity"] == "value"]
        alone = alone[~pd.MultiIndex.from_frame(alone[keys]).isin(computed)]
        alone = alone.rename(columns={"place": "source"}).assign(note=AS_PUBLISHED)
        filled = [part for part in (results, alone) if len(part)]
        if not filled:
            raise InputError(f"{self.name} comes without models; name one, --model SPEC")
        table = pd.concat(filled, ignore_index=True).reindex(columns=list(RESULTS))
        return table.assign(benchmark=self.name, note=["" if n != n else n for n in table["note"]])


def mean_over_items(
    values: FloatArray, chance: float, top: float = 1.0
) -> tuple[float, float, float]:
    """Return the mean over items that are a sample, and the ends of its 95 % interval.

    Parameters
    ----------
    values
        Of n items; missing ones do not count. Fewer than three give no interval.
    chance, top
        What guessing gives, and the highest value: the interval is Student's on Fisher's scale.
    """
    there = values[~np.isnan(values)]
    n = len(there)
    if not n:
        return np.nan, np.nan, np.nan
    low = high = np.nan
    if n >= FEWEST:
        mean = SampledMean(float(there.mean()), float(there.std(ddof=1) / np.sqrt(n)), n - 1)
        low, high = mean.bounded_interval(chance, top=top)
    return float(there.mean()), low, high


def ceiling_share(
    gap: tuple[float, float, float], ceiling: tuple[float, float, float], chance: float
) -> tuple[float, float, float]:
    """Return which share of the way from chance to the noise ceiling a model goes.

    Parameters
    ----------
    gap
        The model's value minus the ceiling, with the ends of its 95 % interval, which may be
        missing.
    ceiling
        The ceiling, likewise.
    chance
        What guessing gives.

    Returns
    -------
    tuple
        The share and the ends of its interval, missing where that has no end: where the ceiling's
        interval reaches chance. Both intervals are combined as of independent estimates.

    Source
    ------
    Donner and Zou (2012), doi 10.1177/0962280210383082 (MOVER, for a ratio): the ends are the
    shares at which the interval of gap - (share - 1) (ceiling - chance) just reaches 0. With normal
    intervals it is Fieller's interval.
    """
    (g, g_low, g_high), (c, c_low, c_high) = gap, (end - chance for end in ceiling)
    if not c > 0:
        return np.nan, np.nan, np.nan
    if np.isnan([g_low, g_high, c_low, c_high]).any() or c_low <= 0:
        return 1 + g / c, np.nan, np.nan

    def end(reach: float, if_more: float, if_less: float, side: int) -> float:
        for c_reach, sign in ((if_more, 1), (if_less, -1)):
            square = c**2 - c_reach**2
            root = (g * c) ** 2 - square * (g**2 - reach**2)
            ratio = (g * c + side * np.sqrt(root)) / square if square > 0 <= root else np.nan
            if ratio * sign >= 0:
                break
        return float(1 + ratio)

    low = end(g - g_low, c_high - c, c - c_low, -1)
    high = end(g_high - g, c - c_low, c_high - c, 1)
    return float(1 + g / c), low, high


def with_shares(results: pd.DataFrame, chances: Mapping[str, float]) -> pd.DataFrame:
    """Return results with the shares of the ceiling.

    Parameters
    ----------
    results
        With `value` and `ceiling_lower`, `gap_ci_low` and `gap_ci_high`, `ceiling_lower_ci_low` and
        `ceiling_lower_ci_high`.
    chances
        What guessing gives, by measure.
    """
    columns = ["value", "gap_ci_low", "gap_ci_high"]
    columns += ["ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"]
    shares = []
    for measure, row in zip(
        results["measure"], results[columns].to_numpy(dtype=float), strict=True
    ):
        value, low, high, ceiling, *ends = row.tolist()
        chance = chances[measure]
        shares.append(ceiling_share((value - ceiling, low, high), (ceiling, *ends), chance))
    names = ("share", "share_low", "share_high")
    return results.assign(**dict(zip(names, np.array(shares).reshape(-1, 3).T, strict=True)))
