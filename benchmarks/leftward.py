"""Losses of sentences written from the left against those of ``bounded``, at equal cost.

Usage: python benchmarks/leftward.py [--model-1 SPEC] [--model-2 SPEC] [--starts 30]
       [--one-way 1] [--walks N] [--at-most SHARE] [--climb SHARE] [--together N] [--part SHARE]
       [--guide SPEC] [--save FOLDER] [--show N]

The starts are the first sentences of the bundled pool. ``leftward`` walks for all of them, and one
sentence of the pool is given to each: of as many words as the natural one, the constraints kept on
scores computed afresh, no two with the same three first or the same three last words, and no word
in more of them than `MOST_USE` or natural sentences have it (two may always). It walks
`--walks` times in all, or as long as its multiply-additions, those of scoring the pool included,
stay below a share of those of ``bounded``, whose sentences are not held to be unlike. Counted is
all that networks compute (`costly_models`); n-grams cost nothing. A start without a sentence counts
as a loss of 0. The interval of the ratio of mean losses is that of 10,000 draws of the starts.

With ``--climb`` walks take so large a share of the cost, and the rest goes into a last climb by
``bounded`` from each sentence of the pool that is given; a climb that ends like another's sentence,
or begins so, is not kept; it is not held to the limit on words.

With ``--together`` so many starts share their walks, and other ones do not: what that many alone
would be given, for the cost of ``bounded`` from them.

Both ways round, one thread. With ``--save`` the searches by ``bounded`` are written to the folder
once they are done, and read from there; empty it when the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from costly_models import Meter, SpentError, named, searched

from contstim import Problem, bundled_vocabulary, load_model, pool
from contstim.arrays import FloatArray
from contstim.models.base import SentenceModel
from contstim.search.candidates import WordReplacement
from contstim.search.leftward import Leftward
from contstim.search.pool import ALIKE_WORDS, Place, SentencePool, given_sentences
from contstim.search.sweeps import Search
from contstim.search.targets import Sides
from contstim.text import Sentence
from contstim.text.diversity import MOST_USE

SEED = 1


class OwnLength(SentencePool):
    """A pool whose sentences serve natural ones of as many words."""

    def losses(self, place: Place) -> FloatArray:
        """Return the loss of each sentence, (P,); NaN where it does not serve."""
        lengths = np.array([len(sentence.split()) for sentence in self.sentences])
        return np.where(lengths == len(place.natural.split()), super().losses(place), np.nan)


@dataclass(frozen=True, eq=False)
class Found:
    """What the starts were given.

    Attributes
    ----------
    losses, sentences
        By start, nats; 0 and None for those without a sentence.
    spent, seconds
        Multiply-additions, and processor time.
    n_walks, n_pool
        Walks, and the sentences that came of them.
    """

    losses: FloatArray
    sentences: Sequence[str | None]
    spent: float
    seconds: float
    n_walks: int
    n_pool: int

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Return what several sets of starts were given, as one."""
        return cls(
            np.concatenate([part.losses for part in parts]),
            [sentence for part in parts for sentence in part.sentences],
            sum(part.spent for part in parts),
            sum(part.seconds for part in parts),
            sum(part.n_walks for part in parts),
            sum(part.n_pool for part in parts),
        )


def written(
    models: Sequence[SentenceModel],
    proposal: WordReplacement,
    starts: Sequence[str],
    by: Leftward,
    meter: Meter,
    walks: int,
    limit: float,
) -> Found:
    """Walk until the walks or the multiply-additions are spent; give each start a sentence."""
    problem, form = Problem.pair(*models), by.form(starts)
    scores: dict[str, dict[str, float]] = {model.spec: {} for model in models}
    sentences: dict[str, None] = {}

    def score(texts: Sequence[str]) -> None:
        for model in models:
            scores[model.spec] |= zip(texts, model.score(texts).tolist(), strict=True)

    meter.spent, most, n_walks = 0.0, 0.0, 0
    began = time.process_time()
    score(starts)
    while n_walks < walks and meter.spent + most < limit:
        before = meter.spent
        rng = np.random.default_rng([SEED, n_walks])
        drafts = by.batch(n_walks, problem, proposal, form, starts, rng)
        new = [d.sentence for d in drafts if d.sentence not in sentences]
        if new:
            score(new)
        sentences |= dict.fromkeys(new)
        # What the first walk spends on what all share is no measure of the next one.
        most, n_walks = max(most, meter.spent - before) if n_walks else 0.0, n_walks + 1
    resolution = {model.spec: model.resolution for model in models}
    there = OwnLength(tuple(sentences), scores, resolution)
    sides = Sides((models[0].spec,), (models[1].spec,))
    places = [Place(start, sides) for start in starts]
    given = given_sentences(there, places, most_alike=1, most_use=MOST_USE)
    rejected = scores[models[0].spec]
    losses = [
        0.0 if sentence is None else rejected[sentence] - rejected[start]
        for sentence, start in zip(given, starts, strict=True)
    ]
    spent = time.process_time() - began
    return Found(np.array(losses), given, meter.spent, spent, n_walks, len(sentences))


def improved(
    found: Found,
    models: Sequence[SentenceModel],
    proposal: WordReplacement,
    starts: Sequence[str],
    meter: Meter,
    limit: float,
) -> Found:
    """Climb from each sentence of the pool, within what is left of the multiply-additions."""
    problem, began = Problem.pair(*models), time.process_time()
    losses, sentences, spent = found.losses.copy(), list(found.sentences), found.spent
    for i, start in enumerate(starts):
        search = Search(problem, proposal, Sentence.parse(start), seed=SEED)
        meter.spent, meter.limit = 0.0, (limit - spent) / (len(starts) - i)
        written = sentences[i]
        if written is not None:
            search.take(
                Sentence(Sentence.parse(written).words, search.start.before, search.start.after)
            )
        with suppress(SpentError):
            named("bounded").run(search)
        spent, meter.limit = spent + meter.spent, np.inf
        loss = search.loss(search.now) - search.loss(search.natural)
        others = {end for j, s in enumerate(sentences) if s and j != i for end in ends_of(s)}
        if loss < losses[i] and not others & ends_of(str(search.sentence)):
            losses[i], sentences[i] = loss, str(search.sentence)
    seconds = found.seconds + time.process_time() - began
    return replace(found, losses=losses, sentences=sentences, spent=spent, seconds=seconds)


def ends_of(sentence: str) -> set[tuple[bool, tuple[str, ...]]]:
    """Return the three first and the three last words."""
    words = tuple(word.strip(".,;:?!").casefold() for word in sentence.split())
    return {(False, words[:ALIKE_WORDS]), (True, words[-ALIKE_WORDS:])}


def climbed(
    models: Sequence[SentenceModel],
    proposal: WordReplacement,
    starts: Sequence[str],
    meter: Meter,
    folder: Path | None,
) -> list[Mapping[str, Any]]:
    """Return what ``bounded`` came to from each start."""
    found = []
    for start in starts:
        file = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            parts = [*(model.spec for model in models), start]
            file = folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.json"
        if file is not None and file.exists():
            found.append(json.loads(file.read_text("utf-8")))
            continue
        problem = Problem.pair(*models)
        run = searched(start, named("bounded"), problem, proposal, meter, np.inf)
        found.append(run)
        if file is not None:
            file.write_text(json.dumps(run), "utf-8")
    return found


def interval(losses: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of means, starts drawn again."""
    drawn = np.random.default_rng(0).integers(len(base), size=(10_000, len(base)))
    low, high = np.quantile(losses[drawn].mean(axis=1) / base[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Print a row in Markdown for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-1", default="contstim:gpt")
    parser.add_argument("--model-2", default="contstim:lstm")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--one-way", choices=["1", "2"], help="the model that rejects")
    parser.add_argument("--walks", type=int, default=60, help="walks in all, at most")
    parser.add_argument("--at-most", type=float, default=1.0, help="share of bounded's cost")
    parser.add_argument("--climb", type=float, help="share of the cost after which to climb")
    parser.add_argument("--together", type=int, help="starts that share their walks (default: all)")
    parser.add_argument("--part", type=float, default=Leftward().part, help="words of each walk")
    parser.add_argument("--guide", help="stands in for what does not score from left to right")
    parser.add_argument("--save", type=Path, help="folder of searches by bounded")
    parser.add_argument("--show", type=int, default=3, help="sentences to print")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = [load_model(spec) for spec in (args.model_1, args.model_2)]
    guides = [load_model(args.guide)] if args.guide else []
    meter = Meter([*models, *guides])
    proposal = WordReplacement(bundled_vocabulary(), tuple(models))
    starts = pool()[: args.starts]
    print(
        "| rejects / accepts | starts | bounded, mean nats | leftward | ratio (95 %) | without | "
        "walks | sentences | 10^9 m.-a. | s |\n"
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    )
    shown = []
    for rejecting, pair in (("1", models), ("2", models[::-1])):
        if args.one_way not in (None, rejecting):
            continue
        runs = climbed(pair, proposal, starts, meter, args.save)
        base = np.array([run["loss"] for run in runs])
        cost, seconds = (sum(run[key] for run in runs) for key in ("spent", "seconds"))
        by, parts = Leftward(part=args.part, guide=args.guide), []
        share = args.at_most if args.climb is None else args.climb
        size = args.together or len(starts)
        for first in range(0, len(starts), size):
            of = slice(first, first + size)
            spent = sum(run["spent"] for run in runs[of])
            part = written(pair, proposal, starts[of], by, meter, args.walks, share * spent)
            if args.climb is not None:
                part = improved(part, pair, proposal, starts[of], meter, args.at_most * spent)
            parts.append(part)
        found = Found.joined(parts)
        low, high = interval(found.losses, base)
        print(
            f"| {pair[0].spec} / {pair[1].spec} | {len(starts)} | {base.mean():.1f} | "
            f"{found.losses.mean():.1f} | {found.losses.mean() / base.mean():.2f} "
            f"({low:.2f}-{high:.2f}) | {found.sentences.count(None)} | {found.n_walks} | "
            f"{found.n_pool} | {cost / 1e9:.0f} / {found.spent / 1e9:.0f} | "
            f"{seconds:.0f} / {found.seconds:.0f} |",
            flush=True,
        )
        shown += [s for s in found.sentences if s is not None][: args.show]
    if shown:
        print("\n" + " ".join(shown))


if __name__ == "__main__":
    main()
