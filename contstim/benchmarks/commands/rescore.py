r"""Rescore hypotheses of speech recognition or translation with sentence models.

TABLE contains one row per hypothesis, with the columns `utterance`, `hypothesis`, `score` (of the
first system, higher is better) and `reference`. Optional columns are `split` (dev or test; without
it, every other utterance is in the development set), `language`, and `sentence` (the hypothesis as
the models score it, for example with a capital and a full stop).

The hypothesis with the highest sum of score, weight x log-probability and length weight x number of
words is selected. A grid search on the development set finds both weights for each model and
language. The results on the test set include the highest score (baseline), the best possible choice
(oracle), the number of words alone (length), and 95 % bootstrap intervals over utterances.

examples:
  contstim benchmark rescore hypotheses.csv --model contstim:gpt --model "contstim:bert?metric=pll"
  contstim score --model hf:roberta-base hypotheses.txt --out scores.csv
  contstim benchmark rescore hypotheses.csv --model table:scores.csv --metric bleu --out results.csv
"""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from contstim.cli import parameters
from contstim.cli.common import report_model, write_table
from contstim.cli.parameters import File, OutputFile

MaxWeight = Annotated[float, parameters.float_parameter(0)]


def rescore(
    table: File,
    /,
    *,
    model: Annotated[tuple[parameters.Spec, ...], Parameter(metavar="[NAME=]SPEC")],
    metric: Literal["wer", "bleu"] = "wer",
    max_weight: MaxWeight = 2,
    max_length_weight: MaxWeight = 2,
    seed: parameters.RandomSeed = 0,
    selected: parameters.NewFile | None = None,
    out: OutputFile = parameters.STANDARD_OUTPUT,
) -> None:
    """Tune the weights of models on n-best lists, and rescore the lists.

    Parameters
    ----------
    table
        table of hypotheses
    model
        model that scores the hypotheses, called NAME in tables
    metric
        metric to optimise and report: word error rate by jiwer, or BLEU by sacrebleu
    max_weight
        maximum weight of the log-probability; the grid contains 41 weights from 0 to this value
    max_length_weight
        maximum absolute weight of the number of words; the grid contains 17 weights from minus this
        value to this value, so that 0 turns the length term off
    seed
        seed of the bootstrap
    selected
        table of the selected hypotheses of the test set
    out
        table of results
    """
    from contstim.benchmarks import rescoring
    from contstim.models.registry import load_models
    from contstim.tables import read_table

    hypotheses = read_table(table, rescoring.COLUMNS, cells="text")
    models = load_models(model)
    for scored_model in models:
        report_model(scored_model)
    # Grids for tuning on the development set: 41 weights from 0 to the maximum, and 17 length
    # weights from minus the maximum to the maximum.
    weights = [max_weight * i / 40 for i in range(41)]
    length_weights = [max_length_weight * i / 8 for i in range(-8, 9)]
    results, choices = rescoring.rescore(
        hypotheses, models, metric, weights, length_weights, seed=seed
    )
    if selected is not None:
        write_table(choices, selected, [table])
    write_table(results, out, [table])
