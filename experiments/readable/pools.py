"""Write pools of sentences for pairs of models, and choose triplets from them at several floors.

    python experiments/readable/pools.py --pair contstim:bigram contstim:trigram --out pools

For each pair: a pool, batch by batch (a batch that is there is not written again), its scores, and
for each floor the triplets of the first 30 bundled sentences. Prints nats, triplets and seconds.
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
from contstim.files import write_whole
from contstim.search.candidates import WordReplacement
from contstim.search.fluent import Fluent
from contstim.search.pool import Place, SentencePool, given_sentences
from contstim.search.targets import Sides, readable
from contstim.text.vocabulary import bundled_vocabulary

#: Nats a word and of the end, after the prompt: the points of the table.
FLOORS = {
    "none": (-99.0, -99.0),
    "-4.5/-0.7": (-4.5, -0.7),
    "-4.0/-0.5": (-4.0, -0.5),
    "-3.7/-0.4": (-3.7, -0.4),
    "-3.4/-0.4": (-3.4, -0.4),
    "-3.1/-0.3": (-3.1, -0.3),
}
STARTS = 30


def _sides(pair: Sequence[str]) -> list[Sides]:
    one, two = pair
    # What model 1 accepts comes first.
    return [Sides((two,), (one,)), Sides((one,), (two,))]


def _batches(pair: Sequence[str], how: Fluent, seed: int, folder: Path) -> Iterator[dict]:
    """Yield the batches of both sides, written where they are not there."""
    natural, models = pool(), [load_model(spec) for spec in pair]
    proposal = WordReplacement(bundled_vocabulary(), tuple(models))
    form = how.form(natural[:STARTS])
    for number in range(how.batches):
        for side, sides in enumerate(_sides([model.spec for model in models])):
            file = folder / f"{number}-{side}.json"
            if not file.is_file():
                problem = sides.problem(models)
                rng = np.random.default_rng([seed, number, side])
                began = time.process_time()
                drafts = how.batch(number, problem, proposal, form, natural, rng)
                seconds = time.process_time() - began
                record = {"sentences": [d.sentence for d in drafts], "seconds": seconds}
                write_whole(file, json.dumps(record, indent=1) + "\n")
            yield json.loads(file.read_text("utf-8"))


def _scored(specs: Sequence[str], sentences: Sequence[str], folder: Path) -> dict:
    """Return each model's scores by sentence, computed where they are not there."""
    scores = {}
    for spec in specs:
        model = load_model(spec)
        file = folder / f"scores-{re.sub('[^a-z0-9]+', '-', spec)}.json"
        there = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        missing = [s for s in sentences if s not in there]
        if missing:
            there |= dict(zip(missing, model.score(missing).tolist(), strict=True))
            write_whole(file, json.dumps(there, indent=0) + "\n")
        scores[model.spec] = there
    return scores


def main() -> None:
    """Write a pool, and choose from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", nargs=2, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--begun", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", default="contstim:smollm2?dtype=bfloat16")
    args = parser.parse_args()
    torch.set_num_threads(1)
    name = "-".join(re.sub("[^a-z0-9]+", "-", s.removeprefix("contstim:")) for s in args.pair)
    folder = args.out / name
    folder.mkdir(parents=True, exist_ok=True)
    how = Fluent(writer=args.writer, begun=args.begun)
    batches = list(_batches(args.pair, how, args.seed, folder))
    seconds = sum(batch["seconds"] for batch in batches)
    sentences = list(dict.fromkeys(s for batch in batches for s in batch["sentences"]))
    natural = pool()[:STARTS]
    whole, ending = (floor.model for floor in readable(args.writer))
    began = time.process_time()
    scores = _scored([*args.pair, whole, ending], [*natural, *sentences], folder)
    seconds += time.process_time() - began
    specs = [load_model(spec).spec for spec in args.pair]
    resolution = {spec: load_model(spec).resolution for spec in args.pair}
    written = SentencePool(tuple(sentences), scores, resolution)
    print(f"{name}: {len(sentences)} sentences, {seconds:.0f} s of processor time")
    for label, values in FLOORS.items():
        floors = readable(args.writer, *values)
        places = [
            Place(text, Sides(s.reject, s.accept, floors=floors))
            for text in natural
            for s in _sides(specs)
        ]
        given = given_sentences(written, places)
        rows = []
        for i, text in enumerate(natural):
            both = given[2 * i : 2 * i + 2]
            if None not in both:
                one, two = (scores[spec] for spec in specs)
                nats = two[text] - two[both[0]] + one[text] - one[both[1]]
                rows.append({"natural": text, "synthetic": both, "nats": nats})
        write_whole(folder / f"triplets{label.replace('/', '')}.json", json.dumps(rows, indent=1))
        mean = float(np.mean([row["nats"] for row in rows])) if rows else float("nan")
        print(f"  {label:>10}: {len(rows):2d} triplets, {mean:.1f} nats")


if __name__ == "__main__":
    main()
