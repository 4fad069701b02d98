"""Compare forecasts of the number of synthetic sentences with the numbers found.

    python experiments/readable/forecasts.py RUN_FOLDER [RUN_FOLDER ...]

A run folder is the hidden folder ``.NAME.csv.run`` that `contstim synthesize --strategy sample`
keeps next to its output. For each run and each lower bound on the reading score, its batches are
assigned again to the bundled natural sentences, round by round and with the rules of the command.
Prints the forecast after the first round, the realised number, and the numbers of batches.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from contstim import load_model, pool
from contstim.synthesis.forecast import count_expected_slots
from contstim.synthesis.pool import SentencePool, Slot, assign_syntheses
from contstim.synthesis.problem import MinScore, ModelContrast
from contstim.synthesis.sample import ROUND_BATCHES, GuidedSampling

#: Lower bounds on the reading score, each with a number of natural sentences. The last is hopeless.
SETTINGS = ((-4.1, 24), (-3.4, 24), (-3.4, 12), (-3.1, 24), (-2.4, 24))
MAX_WORD_SHARE = 0.02


def read_run(folder: Path) -> tuple[dict[ModelContrast, list[list[str]]], dict]:
    """Return the batches of each contrast in their order, and the scores by model and sentence."""
    numbered = defaultdict(list)
    for file in folder.glob("tasks/*/*.json"):
        record = json.loads(file.read_text("utf-8"))
        if record["task"]["task"] == "sample":
            contrast = record["task"]["contrast"]
            key = ModelContrast(tuple(contrast["reject"]), tuple(contrast["accept"]))
            drafts = [draft["sentence"] for draft in record["result"]["drafts"]]
            numbered[key].append((record["task"]["batch"], drafts))
    batches = {key: [drafts for _, drafts in sorted(value)] for key, value in numbered.items()}
    scores: dict = defaultdict(dict)
    for file in folder.glob("scores/*/*.json"):
        record = json.loads(file.read_text("utf-8"))
        pairs = zip(record["sentences"], record["log_prob"], strict=True)
        scores[record["model"]["spec"]].update(pairs)
    # The run scores only sentences above its own bound under the compared models.
    sampled = {s for value in batches.values() for drafts in value for s in drafts}
    for spec in [spec for spec in scores if "reading" not in spec]:
        missing = sorted(sampled - scores[spec].keys())
        scores[spec] |= dict(zip(missing, load_model(spec).score(missing).tolist(), strict=True))
    return batches, dict(scores)


def replay(batches: dict, scores: dict, bound: float, n_natural: int) -> list[str]:
    """Return a row of the table for one setting."""
    reader = MinScore(next(spec for spec in scores if "reading" in spec), bound)
    known = [spec for spec in scores if spec != reader.model]
    natural = [s for s in pool() if all(s in scores[spec] for spec in known)][:n_natural]
    contrasts = list(batches)
    keys = [contrast for _ in natural for contrast in contrasts]
    slots = [
        Slot(text, ModelContrast(c.reject, c.accept, bounds=(reader,)))
        for text in natural
        for c in contrasts
    ]
    tolerance = {spec: load_model(spec).batch_tolerance for spec in known}
    n_rounds = min(len(b) // ROUND_BATCHES for b in batches.values())
    n_used = dict.fromkeys(contrasts, 0)
    candidates: dict[str, None] = {}
    wanted, previous, forecast, n_first = contrasts, 0.0, 0, 0
    for number in range(n_rounds):
        for contrast in wanted:
            start = n_used[contrast]
            for batch in batches[contrast][start : start + ROUND_BATCHES]:
                candidates |= dict.fromkeys(
                    s for s in batch if scores[reader.model].get(s, bound - 1) >= bound
                )
            n_used[contrast] += ROUND_BATCHES
        complete = tuple(s for s in candidates if all(s in scores[spec] for spec in scores))
        sentences = SentencePool(complete, scores, tolerance)
        syntheses = assign_syntheses(sentences, slots, 1, "sample", max_word_share=MAX_WORD_SHARE)
        found = sum(s.is_changed for s in syntheses)
        gain = -sum(s.loss for s in syntheses)
        if number == 0:
            forecast = max(found, count_expected_slots(sentences, slots, float(n_rounds)))
            n_first = found
        if found == len(slots) and gain < (1 + GuidedSampling().min_improvement) * previous:
            break
        previous = gain
        empty = [c for c, s in zip(keys, syntheses, strict=True) if not s.is_changed]
        wanted = list(dict.fromkeys(empty)) or contrasts
    n_max = 2 * n_rounds * ROUND_BATCHES
    mean = gain / found if found else 0.0
    return [
        f"{bound:g}, {n_natural}", f"{len(slots)}", f"{n_first}", f"{forecast}", f"{found}",
        f"{mean:.1f}", f"{n_max}", f"{sum(n_used.values())}",
    ]  # fmt: skip


def main() -> None:
    """Print a table for each run."""
    for folder in map(Path, sys.argv[1:]):
        batches, scores = read_run(folder)
        print(" and ".join(spec for spec in scores if "reading" not in spec))
        header = (
            "bound, natural sentences", "sought", "found in round 1", "forecast", "found",
            "mean decrease", "batches at most", "batches used",
        )  # fmt: skip
        print("| " + " | ".join(header) + " |")
        print("|" + " --- |" * len(header))
        for bound, n_natural in SETTINGS:
            print("| " + " | ".join(replay(batches, scores, bound, n_natural)) + " |")


if __name__ == "__main__":
    main()
