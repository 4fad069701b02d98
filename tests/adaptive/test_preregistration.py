"""Test the preregistration document of an adaptive plan, and deviations from the plan."""

import pandas as pd
import pytest

from contstim.adaptive.policies import PolicyOptions
from contstim.adaptive.preregistration import describe_adaptive_plan, find_deviations
from contstim.adaptive.scheduler import AdaptivePlan
from contstim.adaptive.stopping import Stopping
from contstim.cli import main

PLAN = """\
[adaptive]
trials = 12
anchors = 0

[adaptive.trial_selection]
epsilon = 0.2

[adaptive.link]
slopes = [0.5, 1.5]

[adaptive.stopping]
alpha = 0.01
participants = 60
"""


def plan_text(plan):
    """Return all paragraphs of a plan."""
    return "\n\n".join(describe_adaptive_plan(plan).values())


def test_document_states_every_number_of_the_plan(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN)
    assert main(["preregister", str(tmp_path / "plan.toml")]) == 0
    assert capsys.readouterr().out.startswith("# Adaptive study\n")
    assert main(["preregister", str(tmp_path / "plan.toml"), "--title", "Which model"]) == 0
    text = capsys.readouterr().out
    for stated in (
        "# Which model",
        "12 chosen trials in blocks of 5, and 0 anchors",
        "With probability 0.2 a trial is drawn uniformly from all pairs",
        "one of 0.5, 1.5, with equal prior weights",
        "log beta ~ N(log slope, 0.47²)",
        "fails on either side with probability 0.01 / M",
        "(equivalent), or at 60 participants",
        "of ever calling a wrong model the best is at most 0.01",
        "Results may be analysed after every participant.",
        "Data collection ends by the stopping rule, after at most 60 participants.",
        "No rule excludes participants or trials.",
    ):
        assert stated in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[adaptive.trial_selection]\nepsilom = 0.1\n",
            "unknown key adaptive.trial_selection.epsilom; did you",
        ),
    ],
)
def test_unknown_plan_keys_are_rejected(tmp_path, capsys, text, message):
    (tmp_path / "plan.toml").write_text(text)
    assert main(["preregister", str(tmp_path / "plan.toml")]) == 2
    assert message in capsys.readouterr().err


def test_document_omits_inapplicable_policy_options():
    text = plan_text(AdaptivePlan(trial_selection=PolicyOptions("fixed")))
    assert (
        "no pair twice, and 24 anchors, which are the same for all participants. The pairs" in text
    )
    for not_done in ("With probability", "propensity", "chosen trials", "in blocks of", "skipped"):
        assert not_done not in text
    assert "skipped after 200 later ones" in plan_text(AdaptivePlan())


def make_choices(rows):
    """Return a table of choices from participant, sentences and condition."""
    names = ["participant", "sentence_1", "sentence_2", "condition"]
    return pd.DataFrame(rows, columns=names).assign(rating=1.5, available=10)


def test_deviations_from_an_adaptive_plan_are_listed():
    plan = AdaptivePlan(trials=1, anchors=1, stopping=Stopping(participants=1))
    table = make_choices(
        [
            ("p", "a", "b", "adaptive"),
            ("q", "b", "a", "adaptive"),  # the same pair
            ("q", "c", "d", "adaptive"),
            ("p", "c", "e", "anchor"),
            ("q", "e", "c", "anchor"),
        ]
    )
    assert find_deviations(table.assign(propensity=[0.01, 0.009, 0.5, None, None]), plan) == [
        "2 participants finished; the plan has at most 1.",
        "a participant answered 2 chosen trials; the plan has 1.",
        "1 chosen trial with a repeated pair; the plan shows each pair once.",
        "1 trial without a propensity of at least epsilon / available pairs; the plan has "
        "epsilon 0.1.",
    ]
    assert "the choices have no propensities" in find_deviations(table, plan)[-1]


def test_replaced_dropouts_are_not_deviations():
    plan = AdaptivePlan(trials=2, anchors=0, stopping=Stopping(participants=2))
    left, *others = ((who, f"{who}{k}", f"not {who}{k}", "adaptive") for who in "pqr" for k in "12")
    table = make_choices([left, *others[1:]]).assign(propensity=0.5)
    assert find_deviations(table, plan) == []
    assert find_deviations(make_choices([left, *others]).assign(propensity=0.5), plan) == [
        "3 participants finished; the plan has at most 2."
    ]


def test_deviations_from_a_fixed_order_are_listed():
    choosing = PolicyOptions(policy="fixed")
    plan = AdaptivePlan(choosing, trials=2, anchors=0, stopping=Stopping(participants=9))
    rows = [(who, a, b, "natural") for who in "pq" for a, b in ("ab", "cd")]
    assert find_deviations(make_choices(rows), plan) == []
    assert find_deviations(make_choices([*rows, ("q", "b", "a", "natural")]), plan) == [
        "a participant answered 3 trials; the plan has 2.",
        "1 trial with a repeated pair; the plan shows no participant a pair twice.",
    ]


def test_document_states_stopping_rule_and_assumptions():
    analyses = Stopping(analyses=(10, 20, 30), participants=30, spending="pocock")
    text = plan_text(AdaptivePlan(stopping=analyses))
    assert "spent across the interim analyses by the Pocock function" in text
    assert "Interim analyses are prespecified after 10, 20 and 30 participants." in text
    text = plan_text(AdaptivePlan(auto_close=True))
    assert "from 10 participants on" in text
    assert "are approximately normal" in text
    assert "closes the study once the stopping rule is satisfied" in text
