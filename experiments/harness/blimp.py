"""BLiMP in the lm-evaluation-harness without a network, and its figures beside our own.

python experiments/harness/blimp.py pairs blimp.zip --out local
cd local; python -m contstim.benchmarks.adapters.lm_eval run ... --tasks blimp --output_path results
python experiments/harness/blimp.py compare blimp.zip results --model contstim:gpt --out gpt.csv
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from contstim import load_model
from contstim.benchmarks.suites import read_blimp, run_blimp
from contstim.files import json_value
from contstim.models.cache import ScoreCache

#: What the harness's own tasks call the data set: a folder of that name goes before the hub's.
FOLDER = Path("nyu-mll/blimp")


def write_pairs(archive: Path, out: Path, most: int | None) -> None:
    """Write the data set as a folder that the harness's own tasks read."""
    folder = out / FOLDER
    folder.mkdir(parents=True)
    card = ["---", "configs:"]
    for uid, pairs in read_blimp(archive, most=most).groupby("uid"):
        rows = pairs[["sentence_good", "sentence_bad"]].to_dict("records")
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{uid}.jsonl").write_text(text, "utf-8")
        card += [f"- config_name: {uid}", "  data_files:"]
        card += ["  - split: train", f"    path: {uid}.jsonl"]
    (folder / "README.md").write_text("\n".join([*card, "---", ""]), "utf-8")


def harness_figures(results: Path) -> pd.DataFrame:
    """Return the pairs that were right by paradigm, of the one file of results in a folder."""
    (file,) = results.rglob("results_*.json")
    read = json_value(file.read_text("utf-8"))
    rows = [
        (task.removeprefix("blimp_"), figures["acc,none"], read["n-samples"][task]["effective"])
        for task, figures in read["results"].items()
        if task in read["n-samples"]
    ]
    table = pd.DataFrame(rows, columns=["uid", "accuracy", "n_pairs"])
    right = (table["accuracy"] * table["n_pairs"]).round().astype(int)
    return pd.DataFrame({"uid": table["uid"], "harness": right, "pairs": table["n_pairs"]})


def compare(archive: Path, results: Path, spec: str, cache: Path, most: int | None) -> pd.DataFrame:
    """Return, by paradigm, the pairs that are right by the harness and by `run_blimp`."""
    model, scores = load_model(spec), ScoreCache(cache)
    ours = run_blimp(archive, lambda texts: scores.totals(model, texts).score, most=most)
    ours["contstim"] = (ours["accuracy"] * ours["n_pairs"]).round().astype(int)
    both = ours.merge(harness_figures(results), on="uid", how="outer", validate="1:1")
    both.insert(0, "model", spec)
    return both[["model", "uid", "pairs", "harness", "contstim", "n_tied"]].sort_values("uid")


def main() -> None:
    """Write the pairs, or compare the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    pairs = commands.add_parser("pairs", help="write the pairs where the harness reads them")
    compared = commands.add_parser("compare", help="count the pairs that are right, by both")
    for command in (pairs, compared):
        command.add_argument("blimp", type=Path, help="zip of a JSON Lines file for each paradigm")
        command.add_argument("--most", type=int, help="the first pairs of each paradigm alone")
        command.add_argument("--out", type=Path, required=True)
    compared.add_argument("results", type=Path, help="what the harness wrote")
    compared.add_argument("--model", required=True)
    compared.add_argument("--cache", type=Path, required=True, help="a folder for scores, such as "
                          "that of contstim benchmark --cache")  # fmt: skip
    args = parser.parse_args()
    if args.command == "pairs":
        write_pairs(args.blimp, args.out, args.most)
        return
    table = compare(args.blimp, args.results, args.model, args.cache, args.most)
    table.to_csv(args.out, index=False)
    sums = table[["pairs", "harness", "contstim", "n_tied"]].sum()
    # The harness gives ties to the sentence that is listed first, which is the acceptable one.
    equal = int((table["harness"] == table["contstim"] + table["n_tied"]).sum())
    print(
        f"{args.model}: of {sums['pairs']:,} pairs {sums['harness']:,} are right in the harness, "
        f"{sums['contstim']:,} in contstim, where {sums['n_tied']} are tied; {equal} of "
        f"{len(table)} paradigms agree"
    )


if __name__ == "__main__":
    main()
