"""Write pools of sentences for pairs of models, and choose triplets from them at several floors.

    python experiments/readable/pools.py --pair contstim:bigram contstim:trigram --out pools

For each pair: a pool, batch by batch (a batch that is there is not written again), its scores, and
for each floor the triplets of the first 55 bundled sentences. Prints nats, triplets and seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from contstim import load_model, pool
from contstim.files import write_atomically
from contstim.pipeline.tasks import build_problem
from contstim.synthesis.pool import Request, SentencePool, synthesize_from_pool
from contstim.synthesis.problem import MinScore, ProblemDefinition
from contstim.synthesis.results import Triplet
from contstim.synthesis.sample import GuidedSampling
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import parse_length_range
from contstim.text.vocabulary import bundled_vocabulary
from contstim.text_files import format_csv_rows

#: Floors on the reading score: the points of the table.
FLOORS = (-99.0, -5.0, -4.5, -4.1, -3.9, -3.7, -3.4, -3.1, -2.8)
STARTS = 55


def _sides(pair: Sequence[str]) -> list[ProblemDefinition]:
    one, two = pair
    # What model 1 accepts comes first.
    return [ProblemDefinition((two,), (one,)), ProblemDefinition((one,), (two,))]


def _batches(pair: Sequence[str], how: GuidedSampling, seed: int, folder: Path) -> Iterator[dict]:
    """Yield the batches of both sides, written where they are not there."""
    natural, models = pool(), [load_model(spec) for spec in pair]
    proposal = SharedVocabulary(bundled_vocabulary(), tuple(models))
    form = how.choose_form(natural[:STARTS])
    for number in range(how.n_batches):
        for side, definition in enumerate(_sides([model.spec for model in models])):
            file = folder / f"{number}-{side}.json"
            if not file.is_file():
                problem = build_problem(definition, models)
                rng = np.random.default_rng([seed, number, side])
                began = time.process_time()
                drafts = how.sample_batch(problem, proposal, form, natural, rng).drafts
                seconds = time.process_time() - began
                record = {"sentences": [d.sentence for d in drafts], "seconds": seconds}
                write_atomically(file, json.dumps(record, indent=1) + "\n")
            yield json.loads(file.read_text("utf-8"))


def _scored(
    specs: Sequence[str], sentences: Sequence[str], folder: Path
) -> dict[str, dict[str, float]]:
    """Return each model's scores by sentence, computed where they are not there."""
    scores = {}
    for spec in specs:
        model = load_model(spec)
        file = folder / f"scores-{re.sub('[^a-z0-9]+', '-', spec)}.json"
        known = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        missing = [s for s in sentences if s not in known]
        if missing:
            known |= dict(zip(missing, model.score(missing).tolist(), strict=True))
            write_atomically(file, json.dumps(known, indent=0) + "\n")
        scores[model.spec] = known
    return scores


def main() -> None:
    """Write a pool, and choose from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", nargs=2, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--begun", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", default="7-9", help="numbers of words")
    parser.add_argument("--writer", default="contstim:smollm2?dtype=bfloat16")
    parser.add_argument("--also", nargs="*", type=Path, default=[], help="further pools")
    args = parser.parse_args()
    torch.set_num_threads(1)
    name = "-".join(re.sub("[^a-z0-9]+", "-", s.removeprefix("contstim:")) for s in args.pair)
    folder = args.out / name
    folder.mkdir(parents=True, exist_ok=True)
    how = GuidedSampling(writer=args.writer, max_samples=args.begun, lengths=args.words)
    batches = list(_batches(args.pair, how, args.seed, folder))
    seconds = sum(batch["seconds"] for batch in batches)
    for other in args.also:
        batches += [json.loads(file.read_text("utf-8")) for file in sorted(other.glob("*-?.json"))]
    sentences = list(dict.fromkeys(s for batch in batches for s in batch["sentences"]))
    natural = pool()[:STARTS]
    judging = MinScore.readable(model=args.writer).model
    began = time.process_time()
    scores = _scored([*args.pair, judging], [*natural, *sentences], folder)
    seconds += time.process_time() - began
    specs = [load_model(spec).spec for spec in args.pair]
    batch_tolerance = {spec: load_model(spec).batch_tolerance for spec in args.pair}
    least_words, most_words = parse_length_range(args.words)
    fit = [s for s in sentences if least_words <= len(s.split()) <= most_words]
    written = SentencePool(tuple(fit), scores, batch_tolerance)
    print(f"{name}: {len(fit)} of {len(sentences)} sentences, {seconds:.0f} s of processor time")
    for least in FLOORS:
        bounds = (MinScore(judging, least),)
        problems = [ProblemDefinition(s.reject, s.accept, bounds=bounds) for s in _sides(specs)]
        requests = [[Request(text, problem) for problem in problems] for text in natural]
        results = synthesize_from_pool(written, requests, args.seed)
        triplets = [Triplet.from_results(one, two, 1) for one, two in results if one.is_changed]
        columns = Triplet.columns()
        file = folder / f"triplets{least:g}-{args.words}.csv"
        write_atomically(
            file, format_csv_rows(columns, ([t.to_record()[c] for c in columns] for t in triplets))
        )
        mean = float(np.mean([t.controversiality for t in triplets])) if triplets else 0.0
        print(f"  {least:>6g}: {len(triplets):2d} triplets, {mean:.1f} nats")


if __name__ == "__main__":
    main()
