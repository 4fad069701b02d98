"""Predict how many answers a set of sentence pairs and adaptive choice save.

In simulated studies, participants follow each model in turn. The table has a row for random pairs,
for the pairs of --set, and for pairs that are chosen adaptively: the number of answers after which
the best model is named with a given probability (empty if it is not reached), and k, the
number for random pairs divided by this number.

examples:
  contstim select set scores.csv --n 100 --criterion log-bf --out chosen.csv
  contstim design savings scores.csv --set chosen.csv
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import contstim
from contstim.cli.application import create_application
from contstim.cli.common import write_table
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    OutputFile,
    RandomSeed,
    float_parameter,
    integer_parameter,
)


def predict_saved_answers(
    scores: File,
    /,
    *,
    pairs: File | None = None,
    selected: Annotated[File | None, Parameter(name="--set")] = None,
    probability: Annotated[float, float_parameter(above=0, below=1)] = 0.9,
    answers: Annotated[int, integer_parameter(1, 10**5)] = 3000,
    simulations: Annotated[int, integer_parameter(1, 10**4)] = 200,
    seed: RandomSeed = 0,
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """Predict how many answers adaptive trial selection saves.

    Parameters
    ----------
    scores
        log-probabilities of sentences under the models to compare, output of `contstim score`
    pairs
        pairs that define the best model, which has the highest accuracy on them [1000 random
        pairs of the scored sentences]
    selected
        selected sentence pairs to sample from in an additional policy, output of `contstim select
        set`
    probability
        target probability that the study names the best model
    answers
        maximum number of answers per simulated study; 500 at most with adaptive choice
    simulations
        number of simulated studies
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.adaptive import savings

    # In simulated studies, compare how many answers are needed until the best model is named, with
    # random pairs, with random pairs of the selected set, and with adaptive choice of the pairs.
    table = savings.predict_saved_answers(
        contstim.read_scores(scores),
        pairs=savings.read_pairs(pairs),
        selected=savings.read_pairs(selected),
        target=probability,
        n_answers=answers,
        n_studies=simulations,
        seed=seed,
    )
    write_table(table, out, [scores, pairs, selected])


#: Subcommands of ``contstim design``.
SUBCOMMANDS = (create_application("savings", __doc__ or "", predict_saved_answers),)
