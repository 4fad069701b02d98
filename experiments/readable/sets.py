"""Sets of pairs for seven models at once, from natural and from written sentences.

    python experiments/readable/sets.py

chooses from `sets/scores.csv`, which

    python experiments/readable/sets.py --score written.txt

makes anew: the scores under the seven models of the bundled sentences, of those of the judged sets,
and of those of further files, one a line, that have the reading score of `--readable`. What
is done is kept beside the table, so that it may be stopped and gone on with.

Prints, for each set of models and each source of candidates, how many of 360 pairs separate the two
models that are separated least, and the expected log Bayes factor of an answer, the smallest and
the mean over pairs of models.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from contstim import load_model, pool
from contstim.files import write_atomically
from contstim.response_model import ResponseModel, log_bayes_factors, log_prob_std
from contstim.selection.sets import select_set
from contstim.synthesis.problem import MinScore

HERE = Path(__file__).parent
#: The compared models; the last one wrote what is written.
MODELS = (
    *("contstim:bigram", "contstim:trigram", "contstim:rnn", "contstim:lstm", "contstim:gpt"),
    *("contstim:bert?metric=pll", "contstim:smollm2"),
)
PAIRS = 360
#: Sets by their candidates.
Designs = dict[str, pd.DataFrame]
#: Participants of twenty trials each that are tried, at most, and studies that are simulated.
PEOPLE, STUDIES = 60, 1000


def written_before() -> list[str]:
    """Return the sentences of the judged sets of a reading score of -3.4 or more."""
    sentences: dict[str, None] = {}
    for path in sorted(HERE.glob("**/triplets/*-3.4.csv")):
        triplets = pd.read_csv(path)
        sentences.update(dict.fromkeys([*triplets["synthetic_1"], *triplets["synthetic_2"]]))
    return list(sentences)


def scored(spec: str, sentences: Sequence[str], folder: Path) -> dict[str, float]:
    """Return a model's scores, computed where they are not there, some at a time."""
    file = folder / f"scores-{re.sub('[^a-z0-9]+', '-', spec)}.json"
    scores = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    missing = [s for s in sentences if s not in scores]
    for first in range(0, len(missing), 64):
        some = missing[first : first + 64]
        scores |= dict(zip(some, load_model(spec).score(some).tolist(), strict=True))
        write_atomically(file, json.dumps(scores, indent=0) + "\n")
    return scores


def make_scores(further: Sequence[Path], out: Path) -> None:
    """Write the table of scores."""
    folder = out.parent
    folder.mkdir(parents=True, exist_ok=True)
    sources = dict.fromkeys(pool(), "natural")
    for sentence in written_before():
        sources.setdefault(sentence, "judged")
    bound = MinScore.readable(model=MODELS[-1])
    new = [sentence for path in further for sentence in path.read_text("utf-8").splitlines()]
    reading = scored(bound.model, new, folder)
    for sentence in new:
        if reading[sentence] >= bound.value:
            sources.setdefault(sentence, "written")
    left = list(sources)
    table = pd.DataFrame({"sentence": left, "source": [sources[s] for s in left]})
    for spec in MODELS:
        scores = scored(spec, left, folder)
        table[spec] = [scores[s] for s in left]
    table.to_csv(out, index=False, float_format="%.4f")


def main() -> None:
    """Choose the sets, and print what they are worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=Path, default=HERE / "sets" / "scores.csv")
    parser.add_argument("--score", nargs="*", type=Path, help="make the table of scores anew")
    parser.add_argument("--seconds", type=float, default=50.0, help="for each choice")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.score is not None:
        make_scores(args.score, args.scores)
    table = pd.read_csv(args.scores, index_col="sentence")
    sources = table.pop("source")
    print(sources.value_counts().to_string())
    print("| models | candidates | separated, least (bound) | nats, least (mean) ", end="")
    print("| written |\n|---|---|---|---|---|")
    for models in (MODELS, MODELS[:-1]):
        log_probs = table[list(models)].dropna()
        there = sources[log_probs.index]
        print_sets(chosen(log_probs, there, args.seconds), log_probs, there)


def chosen(log_probs: pd.DataFrame, sources: pd.Series, seconds: float) -> Designs:
    """Return the sets chosen from each source that has sentences enough."""
    natural = sources == "natural"
    candidates = {"natural": natural, "written": ~natural, "both": natural | ~natural}
    return {
        name: select_set(log_probs[there], PAIRS, time_limit=seconds)
        for name, there in candidates.items()
        if there.sum() >= 2 * PAIRS
    }


def print_sets(designs: Designs, log_probs: pd.DataFrame, sources: pd.Series) -> None:
    """Print a row for each set: on how many pairs models disagree, and how strongly."""
    values = log_probs.to_numpy(dtype=np.float64)
    scaled = pd.DataFrame(values / log_prob_std(values, list(log_probs)), log_probs.index)
    for name, design in designs.items():
        sides = [scaled.loc[design[f"sentence_{k}"]].to_numpy() for k in (1, 2)]
        nats = log_bayes_factors(ResponseModel().probabilities(sides[1] - sides[0])).mean(axis=0)
        used = pd.concat([design["sentence_1"], design["sentence_2"]])
        written = (sources[used] != "natural").mean()
        print(
            f"| {log_probs.shape[1]} | {name} | {design.attrs['objective']} "
            f"({design.attrs['bound']}) | {nats.min():.4f} ({nats.mean():.4f}) | {written:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
