"""Evaluate models on published human data, together with the published models.

NAME is a data set, or one of its benchmarks such as blimp/pairs; without a name, the data sets are
listed. The published files are downloaded once, or read from a folder (--from). Each model scores
the sentences. Results have noise ceilings and confidence intervals. Scores are saved in batches, so
an interrupted command continues.

examples:
  contstim benchmark golan2023 --model contstim:gpt --out results
  contstim benchmark blimp/pairs lau2020 --model "contstim:gpt?unknown=unk" --out results
  contstim benchmark blimp/pairs --from downloads --model hf:gpt2 --out results
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from contstim.benchmarks import data_sets
from contstim.benchmarks.commands import rescore
from contstim.cli.application import create_application
from contstim.cli.common import explain_interruption, print_message, report_model
from contstim.cli.parameters import File, Name, OutputFolder, Spec
from contstim.errors import InputError
from contstim.files import cache_folder

if TYPE_CHECKING:
    from contstim.benchmarks.benchmark import Benchmark

app = create_application("benchmark", __doc__, usage="contstim benchmark [options] [NAME ...]")
app.command(create_application("rescore", rescore.__doc__, rescore.rescore))


@app.default
def benchmark(
    *names: Name,
    model: Annotated[tuple[Spec, ...], Parameter(metavar="[NAME=]SPEC")] = (),
    source: Annotated[File | None, Parameter(name="--from", metavar="FOLDER")] = None,
    cache: OutputFolder | None = None,
    out: OutputFolder | None = None,
) -> None:
    """List the data sets, or evaluate models on benchmarks.

    Parameters
    ----------
    names
        data sets or benchmarks; without a name, the data sets are listed
    model
        model to evaluate, called NAME in tables, in addition to the published models
    source
        folder with the published files, which are downloaded otherwise
    cache
        folder of saved scores [in the user's cache]
    out
        folder for the results; earlier results of benchmarks are replaced
    """
    if not names:
        for name, data_set in data_sets.DATA_SETS.items():
            print(f"{name:<12} {data_set.title}; licence: {data_set.licence}")
            place = data_sets.data_folder(data_set)
            parts = ", ".join(f"{name}/{part}" for part in data_set.benchmarks)
            print(f"{'':<12} {parts}" + (f"; files in {place}" if place.exists() else ""))
        return
    if out is None:
        raise InputError("there is no folder for the results; name one, --out FOLDER")
    from contstim.benchmarks.running import check_results_folder, run_benchmarks
    from contstim.evaluation.summary import describe_disagreement, experimental_log_ratios
    from contstim.models.registry import load_models

    store = Path(cache or cache_folder() / "scores")
    check_results_folder(Path(out))
    if Path(os.path.realpath(store)).is_relative_to(os.path.realpath(out)):
        raise InputError(f"--cache {store} is in --out {out}, which is replaced; move one of them")
    benchmarks: list[Benchmark] = []
    notes: list[str] = []
    for name in dict.fromkeys(names):
        set_name, _, part = name.partition("/")
        data = data_sets.fetch(set_name, source)
        notes += data.notes
        if part:
            benchmarks.append(data.benchmark(part))
        else:
            readable, skipped = _readable_benchmarks(data)
            benchmarks += [b for b in readable if model or b.published_models] or readable
            notes += skipped
    models = load_models(model) if model else []
    for line in notes:
        print_message(line)
    for scored_model in models:
        report_model(scored_model)
    with explain_interruption():
        run = run_benchmarks(benchmarks, models, store, notes)
    run.write(out)

    # Print notes on published results, on trials that do not distinguish models, and on models
    # below chance.
    for name, scored_benchmark in run.benchmarks.items():
        if len(scored_benchmark.published_results):
            compared = scored_benchmark.compare_published_results(run.outcomes[name].results)
            difference = compared["difference"]
            n, worst = difference.notna().sum(), difference.abs().max()
            largest = f"; the largest difference is {worst:.2g}" if n else ""
            print(f"{name}: {n} of {len(difference)} published results recomputed{largest}")
    for name, outcome in run.outcomes.items():
        if outcome.evaluation is not None:
            trials = outcome.evaluation.data
            for line in describe_disagreement(trials.models, experimental_log_ratios(trials)):
                print(f"{name}: {line}")
    primary_results = run.primary_results
    chance = primary_results["measure"].map({"accuracy": 0.5}).fillna(0.0)
    upper_limit = primary_results["ci_high"].fillna(primary_results["value"]).astype(float)
    for row in primary_results[upper_limit < chance].to_dict("records"):
        print(
            f"{row['benchmark']}: {row['model']} is below chance ({row['value']:.3f}); check that "
            "the preferred and the other sentence, or the sign of the scores, are not swapped"
        )
    columns = ["benchmark", "measure", "model", "value", "ci_low", "ci_high"]
    columns += ["ceiling_lower", "share", "source"]
    print(primary_results[columns].to_string(index=False, float_format="%.3f", na_rep=""))


def _readable_benchmarks(data: data_sets.FetchedData) -> tuple[list[Benchmark], list[str]]:
    """Return the benchmarks with complete files, and a note on each skipped benchmark."""
    readable, skipped = [], []
    first_error: data_sets.MissingFileError | None = None
    # A benchmark with missing files is skipped, unless all are.
    for part in data.data_set.benchmarks:
        try:
            readable.append(data.benchmark(part))
        except data_sets.MissingFileError as error:
            skipped.append(f"{data.data_set.name}/{part} is skipped: {error}")
            first_error = first_error or error
    if first_error and not readable:
        raise first_error
    return readable, skipped
