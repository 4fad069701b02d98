"""Descriptions of study plans for preregistration, and deviations of data from a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.adaptive.interim import ANCHOR_CONDITION, alphabetical_pairs, find_chosen_trials
from contstim.adaptive.scheduler import AdaptivePlan
from contstim.adaptive.stopping import Stopping
from contstim.design.power import power_curve
from contstim.design.studies import StudySimulator
from contstim.errors import InputError, format_count
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.methods import describe_analyses, describe_measures, describe_tests
from contstim.evaluation.options import EvaluationOptions, read_plan
from contstim.evaluation.sample import Sample
from contstim.evaluation.summary import format_range
from contstim.settings import parse_settings, read_toml
from contstim.tables import require_columns
from contstim.trial_kinds import EXPERIMENTAL

# Differences in accuracy for which power is reported.
_DIFFERENCES = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class PlannedDesign:
    """Design of a study with fixed trials, as reported in a preregistration.

    Attributes
    ----------
    participants
        Number of participants in all groups together.
    groups
        Number of groups of participants. Different groups see different pairs.
    pairs_per_participant
        Number of experimental pairs per participant (minimum over participants).
    items_per_participant
        Number of items per participant (minimum over participants). Pairs of the same item are
        treated as dependent.
    models
        Number of compared models; 0 if unknown.
    description
        Description of the design in sentences.
    """

    participants: int
    groups: int
    pairs_per_participant: int
    items_per_participant: int
    models: int = 0
    description: str = ""

    @classmethod
    def from_trials(cls, trials: pd.DataFrame) -> PlannedDesign:
        """Summarise the design of a study from its table of trials.

        Parameters
        ----------
        trials
            Table with one row per participant and trial, the output of `design_trials`.

        Raises
        ------
        InputError
            If a column is missing.
        """
        columns = ("participant", "group", "condition", "sentence_1", "sentence_2")
        require_columns(trials, columns, "the table of trials")
        has_items = "item" in trials
        trials = normalise_trials(trials)
        n_trials = trials.groupby("participant", sort=False).size()
        experimental = trials[trials["kind"] == EXPERIMENTAL]
        items = pd.Series(encode_items(experimental), index=experimental.index)
        items_by_participant = items.groupby(experimental["participant"])
        # Participants can differ in their numbers of pairs and items; report the smallest.
        n_pairs = int(items_by_participant.size().min()) if len(items) else 0
        n_items = int(items_by_participant.nunique().min()) if len(items) else 0
        names = trials.reindex(columns=["model_1", "model_2"]).to_numpy().ravel()
        models = sorted({str(name) for name in names if isinstance(name, str) and name})
        n_participants, n_groups = trials["participant"].nunique(), trials["group"].nunique()
        by_condition = pd.crosstab(trials["participant"], trials["condition"])
        conditions = ", ".join(
            f"{format_range(counts)} of condition {name!r}" for name, counts in by_condition.items()
        )
        sentences = [
            f"The trials are for {format_count(n_participants, 'participant')} in "
            f"{format_count(n_groups, 'group')}.",
            f"Each participant answers {format_range(n_trials)} trials: {conditions}.",
        ]
        if has_items:
            items_text = format_count(n_items, "item")
            sentences.append(f"A participant's {n_pairs} experimental pairs form {items_text}.")
        else:
            sentences.append("The table has no column 'item': each pair is a separate item.")
        if models:
            sentences.append(
                f"The pairs compare {format_count(len(models), 'model')}: {', '.join(models)}."
            )
        return cls(
            participants=n_participants,
            groups=n_groups,
            pairs_per_participant=n_pairs,
            items_per_participant=n_items,
            models=len(models),
            description=" ".join(sentences),
        )

    def check_sample(self, sample: Sample) -> None:
        """Check that the design agrees with the sample size in an analysis plan.

        Parameters
        ----------
        sample
            Planned numbers of participants, groups and trials per participant, if stated.

        Raises
        ------
        InputError
            If a number in the table ``[sample]`` of the plan differs from the design.
        """
        numbers = self.participants, self.groups, self.pairs_per_participant
        for name, number in zip(("participants", "groups", "trials_each"), numbers, strict=True):
            # Compare the number in the plan (None if not stated) with the table of trials.
            planned = getattr(sample, name)
            if planned is not None and planned != number:
                raise InputError(
                    f"[sample] of the plan has {name} = {planned}; the trials have {number}. "
                    "Correct the plan or the trials"
                )


def read_adaptive_plan(path: str | Path) -> AdaptivePlan:
    """Read the table ``[adaptive]`` of an analysis plan.

    Parameters
    ----------
    path
        Path of a TOML file. The keys of the table are the fields of `AdaptivePlan`.

    Raises
    ------
    InputError
        If the file cannot be read, has no such table, or contains an unknown key.
    """
    read_plan(path)  # checks the other tables
    table = read_toml(Path(path)).get("adaptive")
    if table is None:
        raise InputError(f"{path} has no table [adaptive]; add the plan of the study to it")
    return parse_settings(AdaptivePlan, table, "adaptive")


def describe_study(
    options: EvaluationOptions,
    design: PlannedDesign | None = None,
    stimuli: str = "",
    adaptive: AdaptivePlan | None = None,
) -> dict[str, str]:
    """Describe the plan of a study for a preregistration.

    Parameters
    ----------
    options
        Options of the analysis, with the planned sample size.
    design
        Design of a study with fixed trials, if known.
    stimuli
        Text that describes the stimuli, for the preregistration.
    adaptive
        Plan of an adaptive study.

    Returns
    -------
    dict of str to str
        Paragraphs by heading.

    Raises
    ------
    InputError
        If the planned sample size contradicts the design, or the power cannot be computed.
    """
    sample = options.sample or Sample()
    if design is not None:
        design.check_sample(sample)
    elif sample.trials_each is not None and sample.participants is not None:
        n_pairs = sample.trials_each
        design = PlannedDesign(
            participants=sample.participants,
            groups=sample.groups or 1,
            pairs_per_participant=n_pairs,
            items_per_participant=n_pairs,
            description=f"Each participant judges {format_count(n_pairs, 'pair')} of sentences.",
        )
    paragraphs = {"Stimuli": stimuli} if stimuli else {}
    if design is not None:
        paragraphs["Design"] = design.description
    n_planned = sample.participants or (design.participants if design is not None else 0)
    if adaptive is not None:
        maximum = format_count(adaptive.stopping.participants, "participant")
        paragraphs["Participants"] = (
            f"Data collection ends by the stopping rule, after at most {maximum}."
        )
        paragraphs |= describe_adaptive_plan(adaptive)
    elif n_planned:
        n_groups = design.groups if design is not None else sample.groups or 1
        groups = f", in {n_groups} groups with different pairs" if n_groups > 1 else ""
        paragraphs["Participants"] = (
            f"{format_count(n_planned, 'participant')}{groups}. The number is fixed before the "
            "study."
        )
    paragraphs["Exclusions"] = options.exclusions.description
    analysis = describe_measures(options), describe_analyses(options), describe_tests(options)
    paragraphs["Analysis"] = "\n\n".join(analysis)
    if adaptive is not None:
        paragraphs["Power"] = (
            "The probability of each conclusion and the number of participants until then are "
            "simulated by `contstim.adaptive.simulate`."
        )
    elif design is not None and design.pairs_per_participant:
        paragraphs["Power"] = _describe_power(options, design)
    return paragraphs


def format_document(title: str, paragraphs: Mapping[str, str]) -> str:
    """Format paragraphs with headings as a Markdown document."""
    parts = [f"## {heading}\n\n{text}" for heading, text in paragraphs.items()]
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _describe_power(options: EvaluationOptions, design: PlannedDesign) -> str:
    """Describe the statistical power of the planned test for several differences in accuracy.

    Power is estimated by simulation, which supports only some analyses. For others the text states
    that power is not computed.

    Parameters
    ----------
    options
        Options of the analysis, with the tests and the seed of the simulation.
    design
        Numbers of participants, groups, pairs and items.
    """
    if options.inference != "crossed" or options.items != "random":
        return "Power is computed only for tests that treat participants and items as random."
    if "accuracy" not in options.measures:
        return "Power is computed only for accuracy."
    # Simulate the planned test for several true differences in accuracy.
    n_pairs = design.pairs_per_participant
    n_per_group = design.participants // design.groups or 1
    powers = []
    for difference in _DIFFERENCES:
        simulator = StudySimulator.from_difference(
            difference,
            pairs_per_item=ceil(n_pairs / max(design.items_per_participant, 1)),
            n_groups=design.groups,
            measures=("accuracy",),
        )
        table = power_curve(simulator, (n_per_group,), (n_pairs,), seed=options.seed)
        powers.append(f"{table['power'].item():.0%} for a difference in accuracy of {difference}")
    # Without planned comparisons, each model is compared with each other model.
    n_comparisons = len(options.planned) or max(comb(design.models, 2), 1)
    correction = f", before correction for {n_comparisons} comparisons" if n_comparisons > 1 else ""
    groups = f" in {design.groups} groups with different pairs" if design.groups > 1 else ""
    return (
        f"With {format_count(design.participants, 'participant')}{groups} and "
        f"{format_count(n_pairs, 'pair')} each, power is {', '.join(powers)} "
        f"(p < 0.05{correction}), for two models that disagree on every pair. Power was estimated "
        "by simulating the planned test in 1000 studies with random participants and items, where "
        "participants vary as in Golan et al. (2023); seed "
        f"{options.seed}."
    )


def describe_adaptive_plan(plan: AdaptivePlan) -> dict[str, str]:
    """Describe the plan of an adaptive study for a preregistration, in paragraphs by heading.

    The paragraphs state how trials are chosen, the assumed distribution of answers, the stopping
    rule, the interim analyses and the reported results.
    """
    options, policy = plan.trial_selection, plan.trial_selection.implementation
    anchors = f"{format_count(plan.anchors, 'anchor')}, which are the same for all participants"
    if plan.is_fixed:
        trials = (
            f"All trials are fixed before the study. Each participant answers {plan.trials} "
            f"trials, no pair twice, and {anchors}. {policy.describe_selection(options)}"
        )
    else:
        trials = (
            f"Each participant answers {plan.trials} chosen trials in blocks of "
            f"{options.block_size}, and {anchors}. Apart from anchors, each pair is shown once. "
            f"{policy.describe_selection(options)} The propensity of every trial is stored; the "
            f"seed is {plan.seed}."
        )
    if policy.uses_answers:
        trials += (
            " The policy uses answers in the order in which their blocks were issued; a block "
            f"with missing answers is skipped after {plan.max_pending} later ones."
        )

    link, response_model = plan.link, plan.link.response_model
    answers = "Only the chosen side is used."
    if link.thresholds:
        answers = (
            f"Ratings are used, with thresholds at ± {_join_numbers(link.thresholds)} and 0 "
            "(cumulative link)."
        )
    link_text = (
        "If a model is right, participants choose the right-hand sentence with probability lapse / "
        "2 + (1 - lapse) sigma(beta g + b + u), where sigma is the logistic function. The "
        "preference g is the log-probability of the right-hand minus the left-hand sentence, in "
        "standard deviations of the model's log-probabilities over sentences, clipped to "
        f"±{response_model.max_preference:g}. A participant has the slope beta, log beta ~ N(log "
        f"slope, {response_model.slope_sd:g}²), and the side bias b ~ N(0, "
        f"{response_model.side_sd:g}²). A pair has the effect u ~ N(0, "
        f"{response_model.item_sd:g}²). The lapse rate is {response_model.lapse:g}. The median "
        f"slope of each model is one of {_join_numbers(link.slopes)}, with "
        f"{_describe_prior(link.slope_weights)}. {answers} Models have "
        f"{_describe_prior(link.prior)}."
    )

    analyses = "Results may be analysed after every participant."
    if plan.stopping.analyses:
        *earlier, last = map(str, plan.stopping.analyses)
        numbers = f"{', '.join(earlier)} and {last}" if earlier else last
        analyses = f"Interim analyses are prespecified after {numbers} participants."
    if plan.auto_close:
        analyses += (
            " The server analyses the results whenever a participant has finished, and closes the "
            "study once the stopping rule is satisfied: no new participants are admitted; "
            "participants who have started may finish, are paid and are included."
        )
    return {
        "Trials": trials,
        "Link and priors": link_text,
        "Stopping rule": _describe_stopping(plan.stopping),
        "Interim analyses": analyses,
        "Reported results": (
            "Posterior probabilities of the models, given the first answer to each pair; log "
            "e-values against each model with this link, by universal inference with the models "
            "and their mean as alternatives; and the intervals above. If no model is right, the "
            "posterior favours the model that is closest on the pairs that were shown."
        ),
    }


def _describe_stopping(stopping: Stopping) -> str:
    """Describe a stopping rule in sentences for a preregistration.

    The text states how models are compared, on which assumptions the confidence intervals rest, and
    when the study stops.
    """
    if stopping.analyses:
        # Group-sequential design, with prespecified interim analyses.
        spending = {"obrien-fleming": "O'Brien-Fleming", "pocock": "Pocock"}[stopping.spending]
        rule = (
            "Participants and items are random (crossed test). For every pair of M models, a "
            f"one-sided error of {stopping.alpha:g} / M is spent across the interim analyses by "
            f"the {spending} function of the proportion of the {stopping.participants} "
            "participants (Lan and DeMets 1983). The correlation between analyses is estimated "
            "from the proportion of the variance that is due to items."
        )
    else:
        # Confidence sequence, which is valid after each participant.
        rule = (
            "Participants are the units. The difference between every pair of M models has an "
            "asymptotic confidence sequence (Waudby-Smith et al. 2024, with quantiles of Student's "
            f"t distribution) from {stopping.start} participants on, which fails on either side "
            f"with probability {stopping.alpha:g} / M. It assumes that means over that many "
            "participants are approximately normal."
        )
    return (
        "Models are compared by accuracy, the proportion of choices of the sentence that the model "
        "prefers, where ties count one half. Participants are included once they have answered all "
        "their trials, in the order in which they finish; anchors and catch trials are excluded. "
        f"{rule} The study stops when one model is better than all others (best), when all "
        "differences between models that may be best are within "
        f"±{stopping.margin:g} (equivalent), or at {stopping.participants} participants. The "
        "probability of ever calling a wrong model the best is at most "
        f"{stopping.alpha:g}."
    )


def find_deviations(choices: pd.DataFrame, plan: AdaptivePlan) -> list[str]:
    """Find deviations of the choices in a study from its adaptive plan.

    The numbers of participants, trials and anchors (pairs that all participants see) are checked,
    and whether pairs are repeated. If trials are chosen adaptively, the probability with which each
    trial was chosen, the *propensity*, must be at least epsilon / (number of available pairs).
    Here epsilon is the planned proportion of trials that are drawn uniformly.

    Parameters
    ----------
    choices
        Table of choices with one row per trial and participant.
    plan
        Plan of the study.

    Returns
    -------
    list of str
        One sentence per deviation.
    """
    deviations = []
    chosen = choices[find_chosen_trials(choices)]
    noun = "trial" if plan.is_fixed else "chosen trial"
    n_answers = chosen.groupby("participant").size()
    n_finished = int((n_answers >= plan.trials).sum())
    if n_finished > plan.stopping.participants:
        deviations.append(
            f"{format_count(n_finished, 'participant')} finished; the plan has at most "
            f"{plan.stopping.participants}."
        )
    max_answers = int(n_answers.max()) if len(n_answers) else 0
    if max_answers > plan.trials:
        deviations.append(
            f"a participant answered {format_count(max_answers, noun)}; the plan has {plan.trials}."
        )
    condition = choices["condition"] if "condition" in choices else pd.Series("", choices.index)
    n_anchors = len(alphabetical_pairs(choices[condition == ANCHOR_CONDITION])[0].drop_duplicates())
    if n_anchors != plan.anchors:
        deviations.append(
            f"the data have {format_count(n_anchors, 'anchor')}; the plan has {plan.anchors}."
        )
    pairs = alphabetical_pairs(chosen)[0]
    if plan.is_fixed:
        pairs = pairs.assign(participant=chosen["participant"])
    n_repeated = int(pairs.duplicated().sum())
    if n_repeated:
        rule = "shows no participant a pair twice" if plan.is_fixed else "shows each pair once"
        deviations.append(
            f"{format_count(n_repeated, noun)} with a repeated pair; the plan {rule}."
        )
    if plan.is_fixed:
        return deviations
    if "propensity" not in chosen:
        deviations.append("the choices have no propensities; the plan stores them for every trial.")
        return deviations
    propensity = pd.to_numeric(chosen["propensity"], errors="coerce").to_numpy(dtype=np.float64)
    n_available = pd.to_numeric(chosen.get("available", np.inf), errors="coerce")
    epsilon = plan.trial_selection.random_share
    minimum = epsilon / np.asarray(n_available, dtype=np.float64)
    n_low = int((~(propensity >= minimum * (1 - 1e-9))).sum())
    if n_low:
        deviations.append(
            f"{format_count(n_low, 'trial')} without a propensity of at least epsilon / available "
            f"pairs; the plan has epsilon {epsilon:g}."
        )
    return deviations


def _describe_prior(weights: Sequence[float]) -> str:
    """Describe prior weights in words; they are equal if none are given."""
    return f"prior weights {_join_numbers(weights)}" if weights else "equal prior weights"


def _join_numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
