"""Nats against the share of words kept: spans of words written anew, beside single replacements.

Usage: python benchmarks/near_the_natural.py ROWS.csv [--pairs contstim:bigram,contstim:trigram ...]
       [--starts 12] [--most 1 2 3 4 all] [--floors FLOOR ...] [--by SPEC]
       [--strategies bounded infill]

Every strategy starts from the same bundled sentences, both ways round, under the same floors and
the same limit on how many words may change. Each search is a row of ROWS.csv; those that are there
already are not run again, so that a run may be stopped and gone on with. Sentences of which not all
searches are there do not count in the tables. Times are of the processor.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import pandas as pd

from contstim import load_model, pool, synthesize
from contstim.synthesis import strategy_called
from contstim.synthesis.problem import Edits
from contstim.synthesis.targets import problem_of
from contstim.text import Sentence

FIELDS = ["reject", "accept", "most", "natural", "strategy", "loss", "kept", "seconds", "sentence"]
#: As readable, after a prompt, as the natural sentence, and as complete.
FLOORS = (
    "contstim:smollm2?prompt=natural/word>=natural-0.1",
    "contstim:smollm2?prompt=natural&reduction=reading>=natural-0.3",
)


def main() -> None:
    """Run the searches that are missing, then print a table in Markdown for each pair."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--pairs", nargs="+", default=["contstim:bigram,contstim:trigram"])
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--most", nargs="+", default=["1", "2", "3", "4", "all"])
    parser.add_argument("--floors", nargs="+", default=FLOORS)
    parser.add_argument("--by", default="contstim:smollm2?prompt=natural")
    parser.add_argument("--strategies", nargs="+", default=["bounded", "infill"])
    args = parser.parse_args()
    if not args.rows.exists():
        args.rows.write_text(",".join(FIELDS) + "\n")
    done = {tuple(row) for row in pd.read_csv(args.rows, dtype=str)[FIELDS[:5]].to_numpy()}
    for natural in pool()[: args.starts]:
        for pair in args.pairs:
            specs = pair.split(",")
            for reject, accept in (specs, specs[::-1]):
                for most in args.most:
                    for strategy in args.strategies:
                        key = (reject, accept, most, natural, strategy)
                        if key not in done:
                            row = [*key, *search(*key, args.floors, args.by)]
                            with args.rows.open("a", newline="") as file:
                                csv.writer(file).writerow(row)
    print_tables(pd.read_csv(args.rows, dtype={"most": str}))


def search(
    reject: str, accept: str, most: str, natural: str, strategy: str, floors: list[str], by: str
) -> tuple[float, float, float, str]:
    """Return the loss, the share of words kept, the seconds and the sentence of a search."""
    edits = Edits(most=None if most == "all" else int(most))
    problem = problem_of([load_model(reject)], [load_model(accept)], floors=floors, edits=edits)
    chosen = strategy_called(strategy, **({"by": by} if strategy == "infill" else {}))
    began = time.process_time()
    found = synthesize(natural, problem=problem, strategy=chosen, seed=1)
    seconds = time.process_time() - began
    words = Sentence.parse(natural), Sentence.parse(found.sentence)
    kept = 1 - len(Edits.differences(*words)) / len(words[0])
    return found.loss, kept, seconds, found.sentence


def print_tables(rows: pd.DataFrame) -> None:
    """Print, by direction and limit, means over the sentences that all searches were run on."""
    for (reject, accept), way in rows.groupby(["reject", "accept"], sort=False):
        print(f"\n{reject} rejects, {accept} accepts\n")
        print("| at most | strategy | mean loss, nats | words kept | s | starts |")
        print("| --- | --- | ---: | ---: | ---: | ---: |")
        for most, limit in way.groupby("most", sort=False):
            whole = limit.groupby("natural")["strategy"].transform("nunique")
            limit = limit[whole == limit["strategy"].nunique()]
            for name, own in limit.groupby("strategy", sort=False):
                mean = own[["loss", "kept", "seconds"]].mean()
                print(
                    f"| {most} | `{name}` | {mean['loss']:.1f} | {mean['kept']:.0%} | "
                    f"{mean['seconds']:.0f} | {len(own)} |"
                )


if __name__ == "__main__":
    main()
