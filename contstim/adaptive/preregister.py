"""What is planned, in words, to be registered before a study; and how its data depart from it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.posterior import Link
from contstim.adaptive.standing import is_chosen, ordered_pairs
from contstim.adaptive.stopping import Stopping

_OVER = {
    "asked": "the trials asked of the people asked",
    "pool": "all pairs of the pool but the anchors, trials being weighted by the inverse of their "
    "propensity",
}

_CLOSES = (
    " The server looks whenever a participant has finished, and closes the study by itself when "
    "the rule first says stop: nobody new is let in; who has begun may finish, is paid and counts."
)


def plan_paragraphs(plan: AdaptivePlan) -> dict[str, str]:
    """Return paragraphs that say all of a plan, by their headings.

    They state policy, epsilon, priors, link, stopping rule and looks, each with every number that
    the analysis uses.
    """
    return {
        "Trials": _trials_said(plan),
        "Link and priors": _link_said(plan.link),
        "Stopping rule": _stopping_said(plan),
        "Looks": f"Results are looked at {_looked_at(plan)}." + _CLOSES * plan.closes,
        "What is reported": (
            "The posterior weights of the models by the first answer to each pair; log e-values "
            "against each model with this link, by universal inference, the alternatives being the "
            "models and their mean; and the confidence sequences above. If no model is right, the "
            "posterior goes to the one that is closest on the pairs that were asked."
        ),
    }


def _trials_said(plan: AdaptivePlan) -> str:
    choosing = plan.choosing
    order = (
        "Answers count in the order in which their blocks were issued; a block that lacks answers "
        f"is passed over after {plan.patience} later ones."
    )
    if choosing.by.laid_out:
        return (
            f"Nothing is chosen while the study runs. Each participant is asked {plan.trials} "
            f"trials, no pair twice, and {plan.anchors} anchors, the same for everybody. "
            f"{choosing.by.stated(choosing)}"
        )
    return (
        f"Each participant is asked {plan.trials} chosen trials in blocks of {choosing.block}, "
        f"and {plan.anchors} anchors, the same for everybody. A pair is asked once, anchors "
        f"aside. {choosing.by.stated(choosing)} The propensity of every trial is stored, "
        f"and the seed is {plan.seed}.{f' {order}' if choosing.by.by_answers else ''}"
    )


def _link_said(link: Link) -> str:
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


def _looked_at(plan: AdaptivePlan) -> str:
    looks = [str(n) for n in plan.stopping.looks]
    if not looks:
        return plan.looks
    listed = f"{', '.join(looks[:-1])} and {looks[-1]}" if len(looks) > 1 else looks[0]
    return f"after {listed} participants"


def _stopping_said(plan: AdaptivePlan) -> str:
    stop = plan.stopping
    measure = {
        "accuracy": "accuracy (share of choices as the model prefers, ties counting half)",
        "log-score": "mean log-probability of the answers, predicted by the link as it stands "
        "below, a tenth of it a coin",
    }[stop.measure]
    shown = (
        f"Models are compared by {measure}, over {_OVER[stop.over]}. Participants count in the "
        "order in which they entered, up to the first who has not finished (who has not when "
        f"{plan.together} more have entered is taken to have left); anchors and catch trials do "
        "not count."
    )
    stops = (
        "when one model's differences from all others are above 0 (best), when all differences "
        f"among the models that may still be best are within ±{stop.margin:g} (equivalent), or "
    )
    never = (
        f"The probability that a model is ever called best that is not is at most {stop.alpha:g}"
    )
    if stop.rule == "looks":
        return (
            f"{shown} {_looks_said(stop)} The study stops {stops}at a look at which it is futile "
            f"to go on, and at {stop.participants} participants. {never}."
        )
    rule = "empirical Bernstein confidence sequences for running means (Howard et al. 2021)"
    supposed = "provided that the model that is truly best stays the same"
    if stop.constant:
        rule = "betting confidence sequences (Waudby-Smith and Ramdas 2024)"
    if stop.rule == "asymptotic":
        rule = (
            "asymptotic confidence sequences (Waudby-Smith et al. 2024, with Student's quantiles) "
            f"from {stop.start} participants on"
        )
        supposed += " and that the means of so many participants are about normal"
    return (
        f"{shown} Participants are the units. For each two of M models, {rule} of their "
        f"difference fail on either side with probability {stop.alpha:g} / M. The study stops "
        f"{stops}when neither is to be expected within {stop.participants} participants even if "
        "differences are from then on at the most favourable ends of their sequences (futile), "
        f"and at {stop.participants} participants. {never}, however often one looks, {supposed}."
    )


def _looks_said(stop: Stopping) -> str:
    kind = {"obrien-fleming": "O'Brien-Fleming", "pocock": "Pocock"}[stop.spending]
    return (
        "Participants and items are both samples (crossed test, Student's distribution). For each "
        f"two of M models an error of {stop.alpha:g} / M on either side is spent on the looks in "
        f"the manner of {kind} (Lan and DeMets 1983) by the share of the {stop.participants} "
        "participants; how alike the looks are is estimated from the share of the variance that is "
        "due to items. It is futile to go on at a look (which binds nobody) where the best model "
        "is so near to its nearest rival that a difference that all looks together find with "
        f"probability {stop.power:g} would by then have been given up with probability "
        f"{(1 - stop.power) / 2:g} at most."
    )


def plan_departures(choices: pd.DataFrame, plan: AdaptivePlan) -> list[str]:
    """Return where choices depart from the plan of a study, a sentence each.

    Parameters
    ----------
    choices
        As for `study_standing`.
    plan
        What was planned.
    """
    departures = []
    policy, answered = plan.choosing.by, is_chosen(choices)
    chosen, trials = choices[answered], "trial" if policy.laid_out else "chosen trial"
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
        (pairs.assign(of=chosen["participant"]) if policy.laid_out else pairs).duplicated().sum()
    )
    if twice:
        repeated = f"1 {trials} repeats" if twice == 1 else f"{twice} {trials}s repeat"
        whom = "asks nobody a pair twice" if policy.laid_out else "asks each pair once"
        departures.append(f"{repeated} a pair; the plan {whom}.")
    if policy.laid_out:
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
