"""The task for the lm-evaluation-harness gives our accuracy.

Tests `contstim.benchmarks.publishing.harness` and
`contstim.benchmarks.publishing.lm_eval_functions`.
"""

import json
from pathlib import Path

import pandas as pd
import pytest
from folders import make_choices, make_scores

from contstim import evaluate
from contstim.benchmarks.publishing.harness import harness_files, harness_pairs
from contstim.benchmarks.publishing.lm_eval_functions import load_pairs, pair_agreement, total
from contstim.evaluation.choices import check_choices
from contstim.evaluation.exclusion import ExclusionRules


def by_task(choices: pd.DataFrame, scores: pd.Series, rules: ExclusionRules) -> float:
    """Return the accuracy as the harness adds it up."""
    files = harness_files("walks", "Walks", "1.0.0", choices, rules)
    parts = []
    for line in files["pairs.jsonl"].decode().splitlines():
        doc = json.loads(line)
        results = [(scores[doc[name]], False) for name in ("sentence_1", "sentence_2")]
        parts.append(pair_agreement(doc, results)["accuracy"])
    return total(parts)


@pytest.mark.parametrize("rules", [ExclusionRules(), ExclusionRules(min_rt_ms=1015)])
def test_it_gives_the_accuracy_of_evaluate_with_ties_and_uneven_people(
    rules: ExclusionRules,
) -> None:
    choices = make_choices().drop(index=[0, 1, 2, 17])  # people of fewer trials count as much
    choices.loc[choices.index[:9], "rating"] = 0.0
    choices["rating"] = choices["rating"].map({2.5: 2.5, -2.5: -2.5, 0.0: 0.0}).fillna(-2.5)
    choices = check_choices(choices, "slider")
    scores = make_scores(choices).set_index("sentence")
    scores.iloc[2:6] = -33.0  # ties
    result = evaluate(choices, scores.reset_index(), exclusions=rules)
    rows = result.models.query("analysis == 'all' and measure == 'accuracy'")
    for model, value in zip(rows["model"], rows["value"], strict=True):
        assert by_task(choices, scores[model], rules) == pytest.approx(value, abs=1e-15)
    assert harness_pairs(choices, rules)["weight"].sum() == pytest.approx(1, abs=1e-15)


def test_nothing_stands_before_a_sentence(written: Path) -> None:
    task = (written / "out" / "lm_eval" / "walks.yaml").read_text("utf-8")
    for line in (
        'doc_to_text: ""',
        'target_delimiter: ""',
        'doc_to_choice: "{{[sentence_1, sentence_2]}}"',
        "output_type: multiple_choice",
    ):
        assert line in task.splitlines()
    for function in (load_pairs, pair_agreement, total):
        assert f"!function functions.{function.__name__}" in task
    pairs = (written / "out" / "lm_eval" / "pairs.jsonl").read_text("utf-8").splitlines()
    assert len(pairs) == 6  # of eight, two of which have a text that is withheld
    readme = (written / "out" / "lm_eval" / "README.md").read_text("utf-8")
    assert "the 6 that compare models, of 8: the texts of the others are withheld" in readme
