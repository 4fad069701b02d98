"""The plan in words, by `contstim preregister` too, and where data depart from it."""

import pandas as pd
import pytest

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.policies import Choosing
from contstim.adaptive.preregister import plan_departures, preregistration
from contstim.adaptive.verdicts import Stopping
from contstim.cli import main

PLAN = """\
[adaptive]
trials = 12
anchors = 0
looks = "every Monday"

[adaptive.choosing]
epsilon = 0.2

[adaptive.link]
slopes = [0.5, 1.5]

[adaptive.stopping]
alpha = 0.01
participants = 60
"""


def test_the_document_states_every_number(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN)
    assert main(["preregister", str(tmp_path / "plan.toml"), "--title", "Which model"]) == 0
    text = capsys.readouterr().out
    for stated in (
        "# Which model",
        "12 chosen trials in blocks of 5, and 0 anchors",
        "With probability 0.2 a trial is drawn from all pairs",
        "one of 0.5, 1.5, equally likely",
        "log beta ~ N(log slope, 0.47²)",
        "fail on either side with probability 0.01 / M",
        "(futile), and at 60 participants",
        "is at most 0.01, however often one looks, provided that the model that is truly best",
        "Results are looked at every Monday.",
    ):
        assert stated in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margin = 0.1\n", "plan.toml has no table [adaptive]; write the plan of"),
        ("[adaptive.choosing]\nepsilom = 0.1\n", "unknown key adaptive.choosing.epsilom; did you"),
    ],
)
def test_a_plan_that_cannot_be_used_is_refused(tmp_path, capsys, text, message):
    (tmp_path / "plan.toml").write_text(text)
    assert main(["preregister", str(tmp_path / "plan.toml")]) == 2
    assert message in capsys.readouterr().err


def test_what_a_policy_does_not_do_is_not_stated():
    plans = {name: AdaptivePlan(choosing=Choosing(name)) for name in ("fixed", "disagreement")}
    texts = {name: preregistration(plan) for name, plan in plans.items()}
    assert "nobody was asked, in a fixed order. The propensity" in texts["fixed"]
    assert "With probability" not in texts["fixed"]
    assert "otherwise by the variance of the models' preferences" in texts["disagreement"]
    for text in texts.values():
        assert "Answers count in the order" not in text
        assert "together" not in text.partition("## Link")[0]


def test_departures_are_listed_a_sentence_each():
    plan = AdaptivePlan(trials=1, anchors=1, stopping=Stopping(participants=1))
    pairs = {"sentence_1": ["a", "a", "c", "c"], "sentence_2": ["b", "b", "d", "e"]}
    table = pd.DataFrame({**pairs, "participant": ["p", "q", "q", "q"], "available": 10})
    table["condition"] = ["adaptive", "adaptive", "adaptive", "anchor"]
    assert plan_departures(table.assign(propensity=[0.01, 0.009, 0.5, None]), plan) == [
        "2 participants answered; the plan has at most 1.",
        "a participant answered 2 chosen trials; the plan has 1.",
        "1 chosen trial repeats a pair; the plan asks each pair once.",
        "1 trial has a propensity below epsilon / available pairs, or none; the plan has "
        "epsilon 0.1.",
    ]
    assert "the choices have no propensities" in plan_departures(table, plan)[-1]


def test_the_rule_is_named_with_what_it_supposes():
    looks = Stopping(rule="looks", looks=(10, 20, 30), participants=30, spending="pocock")
    text = preregistration(AdaptivePlan(stopping=looks))
    assert "spent on the looks in the manner of Pocock (Lan and DeMets 1983)" in text
    assert "Results are looked at after 10, 20 and 30 participants." in text
    assert "given up with probability 0.1 at most" in text
    text = preregistration(AdaptivePlan(stopping=Stopping(rule="asymptotic")))
    assert "from 10 participants on of their difference" in text
    assert "about normal" in text
