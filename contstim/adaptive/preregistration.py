"""The plan of a study in words, for its preregistration, and deviations of data from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.adaptive.conductor import AdaptivePlan
from contstim.adaptive.interim import alphabetical_pairs, is_chosen_trial
from contstim.adaptive.posterior import Link
from contstim.design.power import power_curve
from contstim.design.studies import StudySimulator
from contstim.errors import InputError, format_count
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.methods import describe_analyses, describe_measures, describe_tests
from contstim.evaluation.options import EvaluationOptions, read_plan
from contstim.evaluation.sample import Sample
from contstim.evaluation.stopping import Stopping
from contstim.evaluation.summary import format_range
from contstim.settings import parse_settings, read_toml
from contstim.tables import require_columns
from contstim.trial_kinds import EXPERIMENTAL

# Differences in accuracy for which power is stated.
_DIFFERENCES = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class PlannedDesign:
    """The design of a study whose trials are fixed before it.

    Attributes
    ----------
    participants, groups
        Number of participants, in all groups together, and of groups with pairs of their own.
    pairs, items, trials
        Number of experimental pairs that each participant judges, of items that these form, and
        of all trials.
    models
        Number of models that are compared; 0 if it is not known.
    words
        Description of the design.
    """

    participants: int
    groups: int
    pairs: int
    items: int
    trials: int
    models: int = 0
    words: str = ""

    @classmethod
    def from_trials(cls, trials: pd.DataFrame) -> PlannedDesign:
        """Return the design of a table of trials, as `design_trials` makes it.

        Raises
        ------
        InputError
            If a column is missing.
        """
        columns = ("participant", "group", "condition", "sentence_1", "sentence_2")
        require_columns(trials, columns, "the table of trials")
        sizes = trials.groupby("participant", sort=False).size()
        has_items = "item" in trials
        trials = normalise_trials(trials)
        compared = trials[trials["kind"] == EXPERIMENTAL]
        item = pd.Series(encode_items(compared), index=compared.index)
        by_participant = item.groupby(compared["participant"])
        pairs, items = (
            int(counts.min()) if len(counts) else 0
            for counts in (by_participant.size(), by_participant.nunique())
        )
        named = trials.reindex(columns=["model_1", "model_2"]).to_numpy().ravel()
        models = sorted({str(name) for name in named if isinstance(name, str) and name})
        n, groups = trials["participant"].nunique(), trials["group"].nunique()
        by_condition = pd.crosstab(trials["participant"], trials["condition"])
        conditions = [
            f"{format_range(counts)} of condition {name!r}" for name, counts in by_condition.items()
        ]
        words = (
            f"The trials are for {format_count(n, 'participant')} "
            f"in {format_count(groups, 'group')}. "
            f"Each participant answers {format_range(sizes)} trials: {', '.join(conditions)}. "
        )
        words += (
            f"The {pairs} experimental pairs of a participant form {format_count(items, 'item')}."
            if has_items
            else "The table has no column 'item': each pair is an item of its own."
        )
        if models:
            words += (
                f" The pairs compare {format_count(len(models), 'model')}: {', '.join(models)}."
            )
        return cls(n, groups, pairs, items, int(sizes.max()), len(models), words)

    def check_sample(self, sample: Sample) -> None:
        """Refuse a plan whose numbers are not those of the design.

        Raises
        ------
        InputError
            If a number of ``[sample]`` differs; the message names both.
        """
        for name, there in (
            ("participants", self.participants),
            ("groups", self.groups),
            ("trials_each", self.pairs),
        ):
            planned = getattr(sample, name)
            if planned is not None and planned != there:
                raise InputError(
                    f"[sample] of the plan has {name} = {planned}; the trials have {there}. "
                    "Correct the plan or the trials"
                )


def read_adaptive_plan(path: str | Path) -> AdaptivePlan:
    """Read the table ``[adaptive]`` of an analysis plan.

    Raises
    ------
    InputError
        If the file cannot be read, a key is wrong, or there is no such table.
    """
    read_plan(path)  # checks the rest
    table = read_toml(Path(path)).get("adaptive")
    if table is None:
        raise InputError(f"{path} has no table [adaptive]; write the plan of the study there")
    return parse_settings(AdaptivePlan, table, "adaptive")


def describe_study(
    options: EvaluationOptions,
    design: PlannedDesign | None = None,
    stimuli: str = "",
    adaptive: AdaptivePlan | None = None,
) -> dict[str, str]:
    """Return the plan of a study as paragraphs by their headings.

    Parameters
    ----------
    options
        The analysis, with ``[sample]``.
    design
        The design of a study with fixed trials, if it is known.
    stimuli
        Description of the stimuli.
    adaptive
        The plan of an adaptive study.

    Raises
    ------
    InputError
        If ``[sample]`` contradicts the design, or the power cannot be computed.
    """
    sample = options.sample or Sample()
    if design is not None:
        design.check_sample(sample)
    elif sample.trials_each is not None and sample.participants is not None:
        n, groups = sample.trials_each, sample.groups or 1
        words = f"Each participant judges {format_count(n, 'pair')} of sentences."
        design = PlannedDesign(sample.participants, groups, n, n, n, words=words)
    paragraphs = {"Stimuli": stimuli} if stimuli else {}
    if design is not None:
        paragraphs["Design"] = design.words
    if adaptive is not None:
        n = adaptive.stopping.participants
        paragraphs["Participants"] = (
            f"At most {format_count(n, 'participant')} finish; the stopping rule says when it ends."
        )
        paragraphs |= describe_adaptive_plan(adaptive)
    elif n := sample.participants or (design.participants if design else 0):
        groups = design.groups if design is not None else sample.groups or 1
        where = f", in {groups} groups with pairs of their own" if groups > 1 else ""
        paragraphs["Participants"] = (
            f"{format_count(n, 'participant')}{where}. The number is fixed before the study."
        )
    paragraphs["Exclusions"] = options.exclusions.description
    analysis = describe_measures(options), describe_analyses(options), describe_tests(options)
    paragraphs["Analysis"] = "\n\n".join(analysis)
    if adaptive is not None:
        paragraphs["Power"] = (
            "How often the stopping rule reaches a conclusion, and after how many participants, is "
            "simulated by `contstim.adaptive.simulate`."
        )
    elif design is not None and design.pairs:
        paragraphs["Power"] = _describe_power(options, design)
    return paragraphs


def format_document(title: str, paragraphs: Mapping[str, str]) -> str:
    """Return paragraphs by their headings as one Markdown document."""
    parts = [f"## {name}\n\n{text}" for name, text in paragraphs.items()]
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _describe_power(options: EvaluationOptions, design: PlannedDesign) -> str:
    if options.inference != "crossed" or options.items != "random":
        return "Power is computed only for tests that treat participants and items as random."
    if "accuracy" not in options.measures:
        return "Power is computed only for accuracy."
    shares = []
    for difference in _DIFFERENCES:
        simulator = StudySimulator.from_difference(
            difference,
            pairs_per_item=-(-design.pairs // max(design.items, 1)),
            n_groups=design.groups,
            measures=("accuracy",),
        )
        n = design.participants // design.groups or 1
        power = power_curve(simulator, (n,), (design.pairs,), seed=options.seed)["power"].item()
        shares.append(f"{power:.0%} for a difference in accuracy of {difference}")
    comparisons = len(options.planned) or max(comb(design.models, 2), 1)
    corrected = f", before correction for {comparisons} comparisons" * (comparisons > 1)
    groups = f" in {design.groups} groups with their own pairs" * (design.groups > 1)
    return (
        f"With {format_count(design.participants, 'participant')}{groups} and "
        f"{format_count(design.pairs, 'pair')} each, power is {', '.join(shares)} "
        f"(p < 0.05{corrected}), for two models that disagree on every pair. It was found by "
        "simulating the planned test, with participants and items random and participants as "
        f"variable as those of Golan et al. (2023), in 1000 studies; seed {options.seed}."
    )


def describe_adaptive_plan(plan: AdaptivePlan) -> dict[str, str]:
    """Return paragraphs that state the whole plan, with every number used, by their headings."""
    options, stop = plan.trial_selection, plan.stopping
    if options.implementation.is_fixed:
        trials = (
            f"Nothing is chosen while the study runs. Each participant is asked {plan.trials} "
            f"trials, no pair twice, and {plan.anchors} anchors, the same for everybody. "
            f"{options.implementation.describe(options)}"
        )
    else:
        trials = (
            f"Each participant is asked {plan.trials} chosen trials in blocks of "
            f"{options.block_size}, and {plan.anchors} anchors, the same for everybody. A pair is "
            f"asked once, anchors aside. {options.implementation.describe(options)} The propensity "
            f"of every trial is stored, and the seed is {plan.seed}."
        )
    if options.implementation.uses_answers:
        trials += (
            " The policy uses answers in the order in which their blocks were issued; a block "
            f"without all answers is skipped after {plan.max_pending} later ones."
        )
    analyses = "Results may be looked at after every participant."
    if stop.analyses:
        numbers = list(map(str, stop.analyses))
        listed = " and ".join(filter(None, [", ".join(numbers[:-1]), numbers[-1]]))
        analyses = f"Interim analyses are after {listed} participants."
    if plan.auto_close:
        analyses += (
            " The server analyses the results whenever a participant has finished, and closes the "
            "study when the rule first says stop: nobody new is admitted; whoever has begun may "
            "finish, is paid and counts."
        )
    return {
        "Trials": trials,
        "Link and priors": _describe_link(plan.link),
        "Stopping rule": _describe_stopping(stop),
        "Interim analyses": analyses,
        "What is reported": (
            "The posterior weights of the models by the first answer to each pair; log e-values "
            "against each model with this link, by universal inference, the alternatives being the "
            "models and their mean; and the intervals above. If no model is right, the posterior "
            "favours the one that is closest on the pairs that were asked."
        ),
    }


def _describe_link(link: Link) -> str:
    people = link.response_model
    answers = "Only the side that is chosen is used."
    if link.thresholds:
        cuts = f"± {_list(link.thresholds)} and 0"
        answers = f"Ratings are used, with thresholds at {cuts} (cumulative link)."
    slopes = _weighted([f"{s:g}" for s in link.slopes], link.slope_weights)
    prior = f"prior weights {_list(link.prior)}" if link.prior else "equal prior weights"
    return (
        "If a model is right, a participant chooses sentence 2 with probability lapse / 2 + (1 "
        "- lapse) sigma(beta g + b + u), where g is the difference of the model's "
        f"log-probabilities in standard deviations over sentences, cut off at "
        f"±{people.max_preference:g}; log beta ~ N(log slope, "
        f"{people.slope_sd:g}²) and b ~ N(0, {people.side_sd:g}²) "
        f"over participants, u ~ N(0, {people.item_sd:g}²) over pairs, lapse {people.lapse:g}. "
        f"The slope is each model's own: {slopes}. {answers} Models have {prior}."
    )


def _describe_stopping(stop: Stopping) -> str:
    measure = (
        "Models are compared by accuracy (share of choices of the sentence that the model prefers, "
        "ties counting one half). Participants count once they have answered all their trials, in "
        "the order in which they finish; anchors and catch trials do not count."
    )
    if stop.analyses:
        kind = {"obrien-fleming": "O'Brien-Fleming", "pocock": "Pocock"}[stop.spending]
        rule = (
            "Participants and items are random (crossed test). For every two of M models an error "
            f"of {stop.alpha:g} / M on either side is spent across the interim analyses by the "
            f"{kind} function of the share of the {stop.participants} participants (Lan and DeMets "
            "1983); the correlation of the analyses is estimated from the share of the variance "
            "that is due to items."
        )
    else:
        rule = (
            "Participants are the units. The differences of every two of M models have asymptotic "
            "confidence sequences (Waudby-Smith et al. 2024, with quantiles of Student's "
            f"distribution) from {stop.start} participants on, which fail on either side with "
            f"probability {stop.alpha:g} / M; they assume that the means of as many participants "
            "are about normal."
        )
    return (
        f"{measure} {rule} The study stops when one model's differences from all others are above "
        "0 (best), when all differences among the models that may still be best are within "
        f"±{stop.margin:g} (equivalent), or at {stop.participants} participants. The probability "
        f"that a model is ever called best although it is not is at most {stop.alpha:g}."
    )


def find_deviations(choices: pd.DataFrame, plan: AdaptivePlan) -> list[str]:
    """Return where choices depart from the plan of a study, a sentence each.

    Parameters
    ----------
    choices
        As for `interim_analysis`.
    plan
        What was planned.
    """
    deviations = []
    policy, answered = plan.trial_selection.implementation, is_chosen_trial(choices)
    chosen, trials = choices[answered], "trial" if policy.is_fixed else "chosen trial"
    answers = chosen.groupby("participant").size()
    people = int((answers >= plan.trials).sum())
    if people > plan.stopping.participants:
        deviations.append(
            f"{people} participants finished; the plan has at most {plan.stopping.participants}."
        )
    most = int(answers.max()) if len(answers) else 0
    if most > plan.trials:
        deviations.append(f"a participant answered {most} {trials}s; the plan has {plan.trials}.")
    condition = choices["condition"] if "condition" in choices else pd.Series("", choices.index)
    n_anchors = len(alphabetical_pairs(choices[condition == "anchor"])[0].drop_duplicates())
    if n_anchors != plan.anchors:
        deviations.append(f"{n_anchors} anchors were asked; the plan has {plan.anchors}.")
    pairs, _ = alphabetical_pairs(chosen)
    twice = int(
        (pairs.assign(of=chosen["participant"]) if policy.is_fixed else pairs).duplicated().sum()
    )
    if twice:
        repeated = f"1 {trials} repeats" if twice == 1 else f"{twice} {trials}s repeat"
        whom = "asks nobody a pair twice" if policy.is_fixed else "asks each pair once"
        deviations.append(f"{repeated} a pair; the plan {whom}.")
    if policy.is_fixed:
        return deviations
    if "propensity" not in chosen:
        deviations.append("the choices have no propensities; the plan stores that of every trial.")
    else:
        propensity = pd.to_numeric(chosen["propensity"], errors="coerce").to_numpy(dtype=np.float64)
        epsilon = plan.trial_selection.random_share
        available = pd.to_numeric(chosen.get("available", np.inf), errors="coerce")
        floor = epsilon / np.asarray(available, dtype=np.float64)
        bad = int((~(propensity >= floor * (1 - 1e-9))).sum())
        if bad:
            deviations.append(
                f"{'1 trial has' if bad == 1 else f'{bad} trials have'} a propensity below epsilon "
                f"/ available pairs, or none; the plan has epsilon {epsilon:g}."
            )
    return deviations


def _weighted(values: list[str], weights: tuple[float, ...]) -> str:
    if not weights:
        return f"one of {', '.join(values)}, equally likely"
    shown = (f"{v} (weight {w:g})" for v, w in zip(values, weights, strict=True))
    return f"one of {', '.join(shown)}"


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
