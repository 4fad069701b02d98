"""The plan of a study in whole sentences, to be registered before it.

Every number is the plan's, or what it leaves to its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

import pandas as pd

from contstim.design.planning import plan_design
from contstim.evaluation.items import canonical_trials, item_codes
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.sample import Sample
from contstim.evaluation.wording import counted, measure_words, planned_analyses, planned_tests
from contstim.sampling import POPULATIONS
from contstim.tables import require_columns
from contstim.trial_kinds import EXPERIMENTAL


@dataclass(frozen=True)
class PlannedDesign:
    """How a fixed study is laid out.

    Attributes
    ----------
    participants, groups
        Assignments, of all groups together; groups, which have pairs of their own.
    pairs, items, trials
        That each participant judges: pairs that compare models, items that these are of, and all
        trials.
    models
        How many are compared; 0 where that is not known.
    words
        What is to be said of it.
    """

    participants: int
    groups: int
    pairs: int
    items: int
    trials: int
    models: int = 0
    words: str = ""

    @classmethod
    def of_trials(cls, trials: pd.DataFrame) -> PlannedDesign:
        """Read off a table of trials, as `design_trials` makes it.

        Raises
        ------
        InputError
            If a column is missing.
        """
        columns = ("participant", "group", "condition", "sentence_1", "sentence_2")
        require_columns(trials, columns, "the table of trials")
        sizes = trials.groupby("participant", sort=False).size()
        trials = canonical_trials(trials)
        compared = trials[trials["kind"] == EXPERIMENTAL]
        # Nobody has a pair twice, so that those without an item are all different ones.
        of_item = pd.Series(item_codes(compared), index=compared.index)
        items_of_each = of_item.groupby(compared["participant"])
        pairs, items = (
            int(counts.min()) if len(counts) else 0
            for counts in (items_of_each.size(), items_of_each.nunique())
        )
        named = trials.reindex(columns=["model_1", "model_2"]).to_numpy().ravel()
        models = sorted({str(name) for name in named if isinstance(name, str) and name})
        people, groups = trials["participant"].nunique(), trials["group"].nunique()
        each = pd.crosstab(trials["participant"], trials["condition"])
        conditions = [f"{_span(column)} of the condition {name!r}" for name, column in each.items()]
        words = (
            f"The table of trials has {counted(people, 'assignment')} in "
            f"{counted(groups, 'group')}. Each participant answers "
            f"{_span(sizes)} trials: {', '.join(conditions)}."
        )
        if 0 < items < pairs:
            words += f" The {pairs} pairs that compare models are of {items} items."
        if models:
            words += (
                f" The pairs were made for {counted(len(models), 'model')}: {', '.join(models)}."
            )
        return cls(people, groups, pairs, items, int(sizes.max()), len(models), words)


def _span(sizes: pd.Series) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low}" if low == high else f"{low} to {high}"


def study_paragraphs(
    options: EvaluationOptions,
    design: PlannedDesign | None = None,
    stimuli: str = "",
) -> dict[str, str]:
    """Return paragraphs that say all of a study's plan, by their headings.

    Parameters
    ----------
    options
        The analysis, with ``[sample]`` and, of an adaptive study, its plan.
    design
        How a fixed study is laid out, where that is known.
    stimuli
        How its sentences come about.

    Raises
    ------
    InputError
        If the power of the design cannot be worked out.
    """
    sample = options.sample or Sample()
    if design is None and sample.trials_each is not None and sample.participants is not None:
        n, items = sample.trials_each, -(-sample.trials_each // sample.per_item)
        of_items = f", of {items} items" if items < n else ""
        words = f"Each participant judges {counted(n, 'pair')} of sentences{of_items}."
        groups = sample.groups or 1
        design = PlannedDesign(sample.participants, groups, n, items, n, words=words)
    paragraphs = {"Stimuli": stimuli} if stimuli else {}
    if design is not None:
        paragraphs["Design"] = design.words
    if people := _people(options, sample, design):
        paragraphs["Participants"] = people
    if options.adaptive is not None:
        from contstim.adaptive.preregister import plan_paragraphs  # few studies are adaptive

        paragraphs |= plan_paragraphs(options.adaptive)
    paragraphs["Exclusions"] = options.exclusions.words
    paragraphs["Analysis"] = "\n\n".join(_analysis(options))
    if power := _power(options, sample, design):
        paragraphs["Power"] = power
    if options.adaptive is not None:
        trials = options.adaptive.trials + options.adaptive.anchors
    else:
        trials = 0 if design is None else design.trials
    participants = _participants(options, sample, design)
    if participants is not None and (trials or sample.minutes is not None):
        paragraphs["Costs"] = sample.costs(participants, trials)
    return paragraphs


def study_document(title: str, paragraphs: Mapping[str, str]) -> str:
    """Return paragraphs by their headings as one document, Markdown."""
    parts = [f"## {name}\n\n{text}" for name, text in paragraphs.items()]
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _participants(
    options: EvaluationOptions, sample: Sample, design: PlannedDesign | None
) -> int | None:
    """Return how many people there will be, at most; None if nothing says so."""
    if sample.participants is not None:
        return sample.participants
    if options.adaptive is not None:
        return options.adaptive.stopping.participants
    return None if design is None else design.participants


def _people(options: EvaluationOptions, sample: Sample, design: PlannedDesign | None) -> str:
    n = _participants(options, sample, design)
    if n is None:
        return ""
    if options.adaptive is not None:
        return f"At most {counted(n, 'participant')} finish; the stopping rule says when it ends."
    text = f"{counted(n, 'participant')} {'takes' if n == 1 else 'take'} part"
    groups = design.groups if design is not None else sample.groups or 1
    if groups > 1:
        text += f", in {groups} groups with pairs of their own"
    return f"{text}. Their number is fixed before the study."


def _analysis(options: EvaluationOptions) -> list[str]:
    return [measure_words(options), planned_analyses(options), planned_tests(options)]


def _power(options: EvaluationOptions, sample: Sample, design: PlannedDesign | None) -> str:
    if options.adaptive is not None:
        return (
            "How often the stopping rule reaches a conclusion, and after how many participants, is "
            "simulated by `contstim.adaptive.simulate`."
        )
    if options.inference != "crossed":
        return "The power of signed-rank tests is not worked out."
    if design is None or not design.pairs:
        return ""
    if options.population != POPULATIONS[0]:
        return "The power of tests that speak of these sentences alone is not worked out."
    if "accuracy" not in options.measures:
        names = " and ".join(MEASURES[name].label for name in options.measures)
        return f"Power is worked out for accuracy; that of tests by {names} is not."
    people = _participants(options, sample, design) or design.participants
    comparisons = len(options.planned) or max(comb(design.models, 2), 1)
    plan = plan_design(
        people // design.groups or 1,
        design.pairs,
        comparisons,
        groups=design.groups,
        kin=-(-design.pairs // max(design.items, 1)),
        seed=options.seed,
    )
    return (
        f"{plan} By simulation of the test that is planned, people and sentences both being "
        f"sampled, with people as different from each other as those of Golan et al. (2023); seed "
        f"{options.seed}."
    )
