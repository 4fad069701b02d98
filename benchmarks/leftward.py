"""Losses of ``leftward`` against those of ``bounded`` from the same sentences, as sets, and cost.

Usage: python benchmarks/leftward.py [--model-1 SPEC] [--model-2 SPEC] [--starts 30] [--from 0]
       [--one-way 1] [--strategies bounded leftward:walks=2 ...] [--most-use SHARE]
       [--save FOLDER] [--show N]

The starts are the first sentences of the bundled pool, or later ones. With each strategy they are
written as `synthesize` writes a set: no word in more of them than `MOST_USE` or natural sentences
have it (two may always), and none begins or ends with the same three words as another, unless
natural sentences do (`alike` says how many do). What was written again counts. Counted is all that
networks compute (`costly_models`), for a whole set; n-grams cost nothing. The interval of the ratio
of mean losses to those of the first strategy is that of 10,000 draws of the starts.

Both ways round, and then both together, one thread. With ``--save`` each search is written to the
folder once it is done, and read from there; empty it when the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from costly_models import Meter, named, searched

from contstim import Problem, bundled_vocabulary, load_model, pool
from contstim.arrays import FloatArray
from contstim.models.base import SentenceModel
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.sweeps import Strategy
from contstim.text.diversity import MOST_USE, WordLimit, ends_of


def as_set(
    starts: Sequence[str],
    by: Strategy,
    models: Sequence[SentenceModel],
    proposal: WordReplacement,
    meter: Meter,
    most_use: float,
    folder: Path | None,
) -> list[dict[str, Any]]:
    """Return what a strategy came to from each start; what is written again adds to the cost."""
    found: dict[int, dict[str, Any]] = {}
    limit = WordLimit(starts, 1, most_use, proposal.vocabulary)
    while (step := limit.next())[0]:
        numbers, barred = step
        without = proposal.without(barred)
        for number in numbers:
            run = kept(starts[number], by, models, without, sorted(barred), meter, folder)
            before = found.get(number, {"spent": 0.0, "seconds": 0.0, "searches": 0})
            so_far = {key: run[key] + before[key] for key in ("spent", "seconds")}
            found[number] = run | so_far | {"searches": before["searches"] + 1}
        limit.take([[found[number]["sentence"]] for number in numbers])
    return [found[number] for number in range(len(starts))]


def kept(
    start: str,
    by: Strategy,
    models: Sequence[SentenceModel],
    proposal: WordReplacement,
    barred: Sequence[str],
    meter: Meter,
    folder: Path | None,
) -> dict[str, Any]:
    """Return what a search without some words came to; as kept, once it is done."""
    file = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        parts = [*(model.spec for model in models), start, repr(by), *barred]
        file = folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.json"
        if file.exists():
            done: dict[str, Any] = json.loads(file.read_text("utf-8"))
            return done
    run = searched(start, by, Problem.pair(*models), proposal, meter, np.inf)
    if file is not None:
        file.write_text(json.dumps(run), "utf-8")
    return run


def n_alike(sentences: Sequence[str]) -> int:
    """Return how many sentences begin or end as another does."""
    ends = [ends_of(sentence) for sentence in sentences]
    counts = Counter(end for both in ends for end in both)
    return sum(any(counts[end] > 1 for end in both) for both in ends)


def interval(losses: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of means, starts drawn again."""
    drawn = np.random.default_rng(0).integers(len(base), size=(10_000, len(base)))
    low, high = np.quantile(losses[drawn].mean(axis=1) / base[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Print a row in Markdown for each direction and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-1", default="contstim:gpt")
    parser.add_argument("--model-2", default="contstim:lstm")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--from", type=int, default=0, dest="first", help="first of the starts")
    parser.add_argument("--one-way", choices=["1", "2"], help="the model that rejects")
    parser.add_argument("--strategies", nargs="+", default=["bounded", "leftward"])
    parser.add_argument("--most-use", type=float, default=MOST_USE, help="as of synthesize")
    parser.add_argument("--save", type=Path, help="folder of searches that are done")
    parser.add_argument("--show", type=int, default=0, help="sentences to print")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = [load_model(spec) for spec in (args.model_1, args.model_2)]
    meter = Meter(models)
    proposal = WordReplacement(bundled_vocabulary(), tuple(models))
    starts = pool()[args.first : args.first + args.starts]
    print(
        "| rejects / accepts | strategy | starts | mean nats | ratio (95 %) | as they were | alike "
        "| searches | 10^9 m.-a. | s |\n"
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    )
    every: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in args.strategies}
    for rejecting, pair in (("1", models), ("2", models[::-1])):
        if args.one_way not in (None, rejecting):
            continue
        for name, ways in every.items():
            runs = as_set(starts, named(name), pair, proposal, meter, args.most_use, args.save)
            ways.append(runs)
            base = every[args.strategies[0]][-1]
            print(row(f"{pair[0].spec} / {pair[1].spec}", name, [runs], [base]), flush=True)
            for run in runs[: args.show]:
                print(run["sentence"])
    if args.one_way is None:
        for name, ways in every.items():
            print(row("both ways", name, ways, every[args.strategies[0]]))


def row(
    models: str, name: str, ways: list[list[dict[str, Any]]], base: list[list[dict[str, Any]]]
) -> str:
    """Return a row of the table, of searches each way round beside those of the first strategy."""
    losses, before = (
        np.array([[run["loss"] for run in runs] for runs in some]).mean(axis=0)
        for some in (ways, base)
    )
    low, high = interval(losses, before)
    runs = [run for way in ways for run in way]
    spent, seconds, n = (sum(run[key] for run in runs) for key in ("spent", "seconds", "searches"))
    alike = sum(n_alike([run["sentence"] for run in way]) for way in ways)
    return (
        f"| {models} | {name} | {len(runs)} | {losses.mean():.1f} | "
        f"{losses.mean() / before.mean():.2f} ({low:.2f}-{high:.2f}) | "
        f"{sum(run['loss'] == 0 for run in runs)} | {alike} | {n} | {spent / 1e9:.0f} | "
        f"{seconds:.0f} |"
    )


if __name__ == "__main__":
    main()
