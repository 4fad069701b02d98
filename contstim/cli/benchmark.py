"""Judge models by published human data, beside the models that were tried on them before.

NAME is a data set (`contstim datasets list`) or one of its benchmarks, DATA_SET/PART, which is
fetched if need be; or a folder that `contstim publish` made. The sentences are scored under each
--model, people's judgements evaluated with noise ceilings and intervals, and the published models
put into the same table and figure. What the scoring takes is said first; scores are kept as they
come, so that the same command goes on where it was interrupted, and no sentence is scored twice by
the same model.

Examples:
  contstim benchmark golan2023 --model contstim:gpt --out results
  contstim benchmark blimp golan2023 --model "contstim:gpt?unknown=unk" --out results
  contstim benchmark blimp --model hf:gpt2 --cost
  contstim benchmark published --model contstim:gpt --out results
  contstim benchmark published --check
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from contstim.benchmarks import Benchmark
from contstim.benchmarks.datasets import fetch
from contstim.benchmarks.publishing.folder import check_folder, published_data
from contstim.benchmarks.publishing.record import RECORD_FILE
from contstim.benchmarks.publishing.texts import is_digest
from contstim.benchmarks.running import run_benchmarks, scorings
from contstim.benchmarks.writing import (
    check_results_folder,
    headline_sentences,
    published_note,
    write_run,
)
from contstim.cli.common import resumable, tell, tell_model
from contstim.cli.datasets import add_source
from contstim.cli.parsing import CommandParser, output_folder
from contstim.errors import InputError
from contstim.files import cache_folder
from contstim.models.registry import load_models


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "data sets or benchmarks of them, such as golan2023/exp2; or folders that were published"
    parser.add_argument("names", nargs="+", metavar="NAME", help=what)
    parser.add(
        "--model [NAME=]SPEC",
        "a model to judge, which tables call NAME if it has one (default: the published ones)",
        several=True,
        default=[],
    )
    add_source(parser)
    parser.add_cache("keep and reuse scores here (default: a folder of the user's cache)")
    what = "sentences that a published folder withholds, one a line or a column 'sentence'"
    parser.add("--texts FILE", what)
    what = "say of published folders what is wrong with them, a line for each fault, and stop"
    parser.add("--check", what)
    parser.add("--cost", "say what the scoring takes, and stop")
    parser.add(
        "--out FOLDER", "where to write; results of benchmarks there are replaced", output_folder
    )


def run(args: argparse.Namespace) -> int:
    """Score, judge and write; or check."""
    if args.check:
        return _check(args.names)
    if args.out is None and not args.cost:
        raise InputError("there is no place for the results; name one, --out FOLDER, or say --cost")
    cache = args.cache or cache_folder() / "scores"
    if args.out is not None:
        check_results_folder(Path(args.out))
        if Path(os.path.realpath(cache)).is_relative_to(os.path.realpath(args.out)):
            raise InputError(
                f"the scores are kept in {cache}, and {args.out} is replaced as a whole; choose "
                "another folder for one of them"
            )
    benchmarks = [b for name in dict.fromkeys(args.names) for b in _benchmarks(name, args)]
    models = load_models(args.model) if args.model else []
    for model in models:
        tell_model(model)
    with resumable():
        for scoring in scorings(models, benchmarks, cache):
            tell(scoring.cost())
        if args.cost:
            tell("the same command without --cost goes on from these scores")
            return 0
        judged = run_benchmarks(benchmarks, models, cache)
    page = write_run(judged, args.out)
    for sentence in headline_sentences(judged):
        print(sentence)
    for name, benchmark in judged.benchmarks.items():
        if len(benchmark.figures):
            print(f"{name}: {published_note(judged, name)}")
    columns = ["benchmark", "measure", "model", "value", "ci_low", "ci_high"]
    columns += ["ceiling_lower", "share", "source"]
    print(judged.headlines[columns].to_string(index=False, float_format="%.3f", na_rep=""))
    print(f"\n{page}")
    return 0


def _check(folders: list[str]) -> int:
    """Print the faults of folders; return 1 if there are any."""
    faults = {folder: check_folder(folder) for folder in folders}
    for folder, of_folder in faults.items():
        for fault in of_folder or ["nothing is wrong with it"]:
            print(f"{folder}: {fault}")
    return int(any(faults.values()))


def _benchmarks(name: str, args: argparse.Namespace) -> list[Benchmark]:
    """Return the benchmark of a name or folder, or all of a data set that have models."""
    if (Path(name) / RECORD_FILE).is_file():
        benchmark = published_data(name, args.texts).benchmark()
        withheld = sum(map(is_digest, benchmark.sentences))
        if withheld and args.model:
            raise InputError(
                f"{name} withholds {withheld} of its {len(benchmark.sentences)} sentences, which "
                "no model can score; who has them gives a file, --texts FILE"
            )
        return [benchmark]
    data_set, _, part = name.partition("/")
    data = fetch(data_set, args.source)
    if not data.data_set.benchmarks:
        raise InputError(f"the data set {data_set} has no benchmark; see contstim datasets fetch")
    if part:
        return [data.benchmark(part)]
    every = [data.benchmark(part) for part in data.data_set.benchmarks]
    return [b for b in every if args.model or b.published_models] or every
