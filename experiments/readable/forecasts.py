"""Compare forecasts of the number of triplets with the numbers found.

    python experiments/readable/forecasts.py FOLDER --pair contstim:bigram contstim:trigram

The folder contains the batches and scores of a pair, as written by `pools.py`. For several lower
bounds on the reading score and several natural sentences, the batches are assigned to the bundled
natural sentences again, round by round and with the rules of `contstim synthesize`. Prints the
forecast after the first round, the realised number, and the numbers of batches.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from contstim import load_model, pool
from contstim.synthesis.forecast import WINDOW, count_expected_triplets, find_stop_reason
from contstim.synthesis.pool import (
    Request,
    SentencePool,
    find_fulfillable_requests,
    synthesize_from_pool,
)
from contstim.synthesis.problem import MinScore, ProblemDefinition
from contstim.synthesis.sample import GuidedSampling

#: Lower bounds on the reading score, each with a number of natural sentences. The last is hopeless.
SETTINGS = ((-4.1, 24), (-3.4, 24), (-3.4, 55), (-3.1, 24), (-2.3, 24))
#: Share of the sentences that may contain the same word (the default of the command).
MAX_WORD_SHARE = 0.02
HEADER = (
    "lower bound, natural sentences", "wanted", "found in round 1", "forecast", "found",
    "mean decrease, nats", "batches at most", "batches used",
)  # fmt: skip

Batches = list[list[list[str]]]
Scores = dict[str, dict[str, float]]


def read_pool(folder: Path, specs: list[str], natural: list[str]) -> tuple[Batches, Scores]:
    """Return the batches of both sides in their order, and the scores by model and sentence."""
    sides = []
    for side in range(2):
        files = sorted(folder.glob(f"*-{side}.json"), key=lambda file: int(file.stem.split("-")[0]))
        sides.append([json.loads(file.read_text("utf-8"))["sentences"] for file in files])
    sentences = dict.fromkeys([*natural, *(s for side in sides for b in side for s in b)])
    scores: Scores = {}
    for spec in specs:
        file = folder / f"scores-{re.sub('[^a-z0-9]+', '-', spec)}.json"
        known = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        missing = [s for s in sentences if s not in known]
        if missing:
            known |= dict(zip(missing, load_model(spec).score(missing).tolist(), strict=True))
            file.write_text(json.dumps(known, indent=0) + "\n", "utf-8")
        scores[spec] = known
    return sides, scores


def replay(sides: Batches, scores: Scores, reader: MinScore, natural: list[str]) -> dict[str, Any]:
    """Return the values of a table row: the forecast and the result of one setting."""
    one, two = [spec for spec in scores if spec != reader.model]
    # What model 1 accepts comes first.
    problems = [
        ProblemDefinition((r,), (a,), bounds=(reader,)) for r, a in ((two, one), (one, two))
    ]
    requests = [[Request(text, problem) for problem in problems] for text in natural]
    tolerance = {spec: load_model(spec).batch_tolerance for spec in (one, two)}
    reading_scores = scores[reader.model]
    n_batches = min(map(len, sides))
    strategy = GuidedSampling(max_samples=n_batches * GuidedSampling().batch_size)
    n_done, n_used, wanted = 0, [0, 0], [0, 1]
    candidates, gains, n_first, forecast, found = dict[str, None](), list[float](), 0, 0, 0
    while n_done < n_batches:
        new_batches = strategy.round_batches(len(gains))
        n_done = new_batches.stop
        for side in wanted:
            batches = sides[side][n_used[side] : n_used[side] + len(new_batches)]
            n_used[side] += len(new_batches)
            sampled = (s for batch in batches for s in batch)
            candidates |= dict.fromkeys(s for s in sampled if reading_scores[s] >= reader.value)
        sentences = SentencePool(tuple(candidates), scores, tolerance)
        results = synthesize_from_pool(
            sentences, requests, 1, "sample", max_word_share=MAX_WORD_SHARE
        )
        found = sum(first.is_changed for first, _ in results)
        gains.append(-sum(result.loss for triplet in results for result in triplet))
        n_all, n_soon = (
            max(found, count_expected_triplets(sentences, requests, n / n_done))
            for n in (n_batches, min(n_done + WINDOW, n_batches))
        )
        if len(gains) == 1:
            n_first, forecast = found, n_all
        if find_stop_reason(gains, strategy.min_improvement, found, len(requests), n_soon):
            break
        wanted = [0, 1]
        if found < len(requests):
            usable = [sentences.is_usable([pair[side] for pair in requests]) for side in (0, 1)]
            unsolved = [s for s in (0, 1) if not find_fulfillable_requests(usable[s]).all()]
            wanted = unsolved or wanted
    values = (
        f"{reader.value:g}, {len(natural)}", len(requests), n_first, forecast, found,
        f"{abs(gains[-1]) / max(1, 2 * found):.1f}", 2 * n_batches, sum(n_used),
    )  # fmt: skip
    return dict(zip(HEADER, values, strict=True))


def main() -> None:
    """Print the table of one pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pair", nargs=2, required=True)
    args = parser.parse_args()
    natural = pool()[: max(n for _, n in SETTINGS)]
    reader = MinScore.readable(model="contstim:smollm2").model
    sides, scores = read_pool(args.folder, [*args.pair, reader], natural)
    print(" | ".join(HEADER))
    for bound, n_natural in SETTINGS:
        row = replay(sides, scores, MinScore(reader, bound), natural[:n_natural])
        print(" | ".join(map(str, row.values())), flush=True)


if __name__ == "__main__":
    main()
