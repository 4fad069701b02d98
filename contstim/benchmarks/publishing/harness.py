"""A task for the lm-evaluation-harness whose one number is our accuracy.

Source: lm-evaluation-harness 0.4.13, ``multiple_choice`` tasks of its task guide. By default it
puts a space before each choice and gives ties to the first; both are set right here.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.benchmarks.publishing import lm_eval_functions
from contstim.benchmarks.publishing.texts import is_digest
from contstim.evaluation.exclusion import ExclusionRules, exclude
from contstim.trial_kinds import EXPERIMENTAL

_TASK = """\
# Which of two sentences do people choose? Both are scored whole, after nothing.
task: {name}
custom_dataset: !function functions.{load}
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_choice: "{{{{[sentence_1, sentence_2]}}}}"
doc_to_target: majority
# No space before a sentence.
target_delimiter: ""
# Ties count one half, and each participant as much as any other.
process_results: !function functions.{agreement}
metric_list:
  - metric: accuracy
    aggregation: !function functions.{total}
    higher_is_better: true
metadata:
  version: {version}
"""

_README = """\
# {title}

A task for the [lm-evaluation-harness](https://github.com/EleutherAI/lm-evaluation-harness):

    lm_eval --model hf --model_args pretrained=NAME --include_path FOLDER --tasks {name}

FOLDER is this one, or one above it. `accuracy` is the share of a participant's choices that the
model predicts, averaged over participants; a tie, in scores or among people, counts one half. The
pairs are the {pairs} that compare models{without}, the choices those that the exclusions of the
benchmark leave. `pairs.jsonl` has for each pair its share of the whole, `weight`, half of which a
tie adds, and `lean`, what is added to that where the model prefers sentence 2, or taken off.

Numbers of other programs depend on what they put before a sentence and whether they score its end;
`contstim benchmark` states both.
"""


def harness_pairs(choices: pd.DataFrame, rules: ExclusionRules) -> pd.DataFrame:
    """Return pairs with what a model's preference adds to its accuracy.

    Parameters
    ----------
    choices
        Choices as of `check_choices`.
    rules
        Whom to leave out.

    Returns
    -------
    DataFrame
        A row per pair that compares models and whose texts are there: ``sentence_1``,
        ``sentence_2``, ``lean``, ``weight``, and ``majority``, 0 or 1 for the sentence that more
        people chose, 0 in a tie. With N participants of n_i choices each and ratings r,
        ``weight`` = sum 1 / (N n_i) and ``lean`` = sum sign(r) / (2 N n_i) over the choices of
        the pair, so that a model's accuracy is the sum over pairs of weight / 2 + lean times the
        sign of its preference for sentence 2.
    """
    left, _ = exclude(choices, rules)
    left = left[left["kind"] == EXPERIMENTAL]
    texts = left[["sentence_1", "sentence_2"]]
    left = left[~texts.map(is_digest).any(axis=1)]
    each = left.groupby("participant")["rating"].transform("size")
    weight = 1 / (left["participant"].nunique() * each)
    sign = pd.Series(np.sign(left["rating"].to_numpy()), left.index)
    made = left[["sentence_1", "sentence_2"]].assign(
        lean=0.5 * sign * weight, weight=weight, votes=sign
    )
    pairs = made.groupby(["sentence_1", "sentence_2"], sort=False).sum().reset_index()
    pairs["majority"] = (pairs["votes"] > 0).astype(int)
    return pairs.drop(columns="votes")


def harness_files(
    name: str, title: str, version: str, choices: pd.DataFrame, rules: ExclusionRules
) -> dict[str, bytes]:
    """Return the files of a task folder, by their names; none if no pair has texts.

    Parameters
    ----------
    name, title, version
        Of the benchmark.
    choices, rules
        As for `harness_pairs`.
    """
    pairs = harness_pairs(choices, rules)
    if pairs.empty:
        return {}
    lines = [json.dumps(row, ensure_ascii=False) for row in pairs.to_dict("records")]
    compared = choices[choices["kind"] == EXPERIMENTAL]
    n = len(compared[["sentence_1", "sentence_2"]].drop_duplicates())
    few = f", of {n}: the texts of the others are withheld" if n > len(pairs) else ""
    texts = {
        f"{name}.yaml": _TASK.format(
            name=name,
            version=version,
            load=lm_eval_functions.load_pairs.__name__,
            agreement=lm_eval_functions.pair_agreement.__name__,
            total=lm_eval_functions.total.__name__,
        ),
        "pairs.jsonl": "\n".join(lines) + "\n",
        "functions.py": Path(lm_eval_functions.__file__).read_text("utf-8"),
        "README.md": _README.format(name=name, title=title, pairs=len(pairs), without=few),
    }
    return {file: text.encode() for file, text in texts.items()}
