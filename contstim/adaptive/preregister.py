"""What is planned, in words, to be registered before a study; and how its data depart from it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.interim import is_chosen, ordered_pairs
from contstim.adaptive.posterior import Link
from contstim.evaluation.stopping import Stopping


def plan_paragraphs(plan: AdaptivePlan) -> dict[str, str]:
    """Return paragraphs that state the whole plan, with every number used, by their headings."""
    options, stop = plan.choosing, plan.stopping
    if options.by.is_fixed:
        trials = (
            f"Nothing is chosen while the study runs. Each participant is asked {plan.trials} "
            f"trials, no pair twice, and {plan.anchors} anchors, the same for everybody. "
            f"{options.by.describe(options)}"
        )
    else:
        trials = (
            f"Each participant is asked {plan.trials} chosen trials in blocks of {options.block}, "
            f"and {plan.anchors} anchors, the same for everybody. A pair is asked once, anchors "
            f"aside. {options.by.describe(options)} The propensity of every trial is stored, and "
            f"the seed is {plan.seed}."
        )
    if options.by.by_answers:
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
    people = link.people
    answers = "Only the side that is chosen is used."
    if link.thresholds:
        cuts = f"± {_list(link.thresholds)} and 0"
        answers = f"Ratings are used, with thresholds at {cuts} (cumulative link)."
    slopes = _weighted([f"{s:g}" for s in link.slopes], link.slope_weights)
    prior = f"prior weights {_list(link.prior)}" if link.prior else "equal prior weights"
    return (
        "If a model is right, a participant chooses sentence 2 with probability lapse / 2 + (1 "
        "- lapse) sigma(beta g + b + u), where g is the difference of the model's "
        f"log-probabilities in standard deviations over sentences, cut off at ±{people.most:g}; "
        f"log beta ~ N(log slope, {people.slope_sd:g}²) and b ~ N(0, {people.side_sd:g}²) over "
        f"participants, u ~ N(0, {people.item_sd:g}²) over pairs, lapse {people.lapse:g}. "
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


def plan_departures(choices: pd.DataFrame, plan: AdaptivePlan) -> list[str]:
    """Return where choices depart from the plan of a study, a sentence each.

    Parameters
    ----------
    choices
        As for `interim_analysis`.
    plan
        What was planned.
    """
    departures = []
    policy, answered = plan.choosing.by, is_chosen(choices)
    chosen, trials = choices[answered], "trial" if policy.is_fixed else "chosen trial"
    answers = chosen.groupby("participant").size()
    people = int((answers >= plan.trials).sum())
    if people > plan.stopping.participants:
        departures.append(
            f"{people} participants finished; the plan has at most {plan.stopping.participants}."
        )
    most = int(answers.max()) if len(answers) else 0
    if most > plan.trials:
        departures.append(f"a participant answered {most} {trials}s; the plan has {plan.trials}.")
    condition = choices["condition"] if "condition" in choices else pd.Series("", choices.index)
    n_anchors = len(ordered_pairs(choices[condition == "anchor"])[0].drop_duplicates())
    if n_anchors != plan.anchors:
        departures.append(f"{n_anchors} anchors were asked; the plan has {plan.anchors}.")
    pairs, _ = ordered_pairs(chosen)
    twice = int(
        (pairs.assign(of=chosen["participant"]) if policy.is_fixed else pairs).duplicated().sum()
    )
    if twice:
        repeated = f"1 {trials} repeats" if twice == 1 else f"{twice} {trials}s repeat"
        whom = "asks nobody a pair twice" if policy.is_fixed else "asks each pair once"
        departures.append(f"{repeated} a pair; the plan {whom}.")
    if policy.is_fixed:
        return departures
    if "propensity" not in chosen:
        departures.append("the choices have no propensities; the plan stores that of every trial.")
    else:
        propensity = pd.to_numeric(chosen["propensity"], errors="coerce").to_numpy(dtype=np.float64)
        epsilon = plan.choosing.at_random
        available = pd.to_numeric(chosen.get("available", np.inf), errors="coerce")
        floor = epsilon / np.asarray(available, dtype=np.float64)
        bad = int((~(propensity >= floor * (1 - 1e-9))).sum())
        if bad:
            departures.append(
                f"{'1 trial has' if bad == 1 else f'{bad} trials have'} a propensity below epsilon "
                f"/ available pairs, or none; the plan has epsilon {epsilon:g}."
            )
    return departures


def _weighted(values: list[str], weights: tuple[float, ...]) -> str:
    if not weights:
        return f"one of {', '.join(values)}, equally likely"
    shown = (f"{v} (weight {w:g})" for v, w in zip(values, weights, strict=True))
    return f"one of {', '.join(shown)}"


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
