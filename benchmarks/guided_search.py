"""Losses of the word searches at equal numbers of exact scores, from the same sentences.

Usage: python benchmarks/guided_search.py [--reject SPEC] [--accept SPEC] [--starts 30]
       [--budgets 5 10 20] [--words N] [--timed 5] [--threads 2] [--one-way] [--save FOLDER]

Every strategy starts from the same eight-word sentences of the bundled pool with the same
vocabulary and seed. Exact scores are counted for the model whose scores cost more, the sentences
that are kept and scored afresh included; a search is stopped at the largest budget, and its loss
at each budget is that of the sentence it had by then. Beside it stands how many scores it had
asked of the other model, and how many inputs the counted scores had cost. A search that ends before
a budget is spent, as ``bounded`` does when its inputs are spent, keeps the loss it has. ``random``
is ``first-improvement``, which tries words in random order.

With ``--save`` each search is written to the folder once it is done and read from there when the
same search is asked for again; several commands with different ``--strategies`` may fill one
folder. Empty it when the code has changed.

The time is that of whole searches by the default strategy, as ``contstim synthesize`` runs them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from contstim import bundled_vocabulary, load_model, pool, synthesize
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models import ModelSpec
from contstim.models.base import Event, Replacements, SentenceModel, SentenceParts
from contstim.search import strategy_called
from contstim.search.candidates import WordReplacement
from contstim.search.problem import Problem
from contstim.search.sweeps import Search, Strategy
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

STRATEGIES: dict[str, Strategy] = {
    "paper": strategy_called("paper"),
    "bounded": strategy_called("bounded"),
    "random": strategy_called("first-improvement"),
}


#: What `trajectory` returns.
Run = tuple[list[tuple[int, int, float]], list[float], bool]


class SpentError(Exception):
    """The largest budget is spent."""


class Counted(SentenceModel):
    """A model that stops the search once `limit` candidates have been scored."""

    def __init__(self, model: SentenceModel, limit: int) -> None:
        super().__init__(ModelSpec.parse(model.spec))
        self.model, self.limit, self.n = model, limit, 0
        self.inputs = [0.0]

    @property
    def event(self) -> Event:
        """What is scored."""
        return self.model.event

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self.model.fingerprint

    @property
    def resolution(self) -> float:
        """The model's."""
        return self.model.resolution

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Say which words the model knows."""
        return self.model.knows(words)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Return the model's."""
        return self.model.parts(sentences)

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Return the model's, counting exact scores."""
        table = self.model.replacements(sentence, position, words)

        def score(index: IntArray) -> FloatArray:
            self.n += len(index)
            if self.n > self.limit:
                raise SpentError
            cost = np.broadcast_to(np.asarray(table.hints.cost), table.upper.shape)
            self.inputs += list(self.inputs[-1] + np.cumsum(cost[index]))
            return table.score(index)

        return replace(table, score=score)


def trajectory(
    text: str,
    reject: SentenceModel,
    accept: SentenceModel,
    costlier: int,
    proposal: WordReplacement,
    search_by: Strategy,
    limit: int,
) -> Run:
    """Return what happened in one search.

    Scores of the costlier model, of the other, and loss after every step; the inputs that the
    scores asked for had cost in all, after each of them; and whether the search ended by itself.
    """
    models = [reject, accept]
    counted = models[costlier] = Counted(models[costlier], limit)
    search = Search(Problem.pair(*models), proposal, Sentence.parse(text), seed=0)
    natural = float(reject.score([text])[0])
    ended = True
    try:
        search_by.run(search)
    except SpentError:
        ended = False
    points = [(0, 0, 0.0)]
    for number, step in enumerate(search.steps, start=1):
        spent = step.n_scores[costlier] + number
        points.append((spent, step.n_scores[1 - costlier], step.scores[0] - natural))
    return points, counted.inputs, ended


def at(points: Sequence[tuple[int, int, float]], budget: int) -> tuple[int, int, float]:
    """Return the last point within `budget`."""
    return [p for p in points if p[0] <= budget][-1]


def asked_for(
    points: Sequence[tuple[int, int, float]], inputs: Sequence[float], budget: int
) -> float:
    """Return the inputs of the scores asked for within `budget`, kept sentences left out."""
    kept = sum(p[0] <= budget for p in points) - 1
    return inputs[: budget - kept + 1][-1]


def kept(folder: Path | None, parts: Sequence[object], search: Callable[[], Run]) -> Run:
    """Return what `search` finds, or found when last asked for the same `parts`."""
    if folder is None:
        return search()
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    file = folder / f"{key}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        found = json.dumps(search())
        half_written = file.with_suffix(".part")
        half_written.write_text(found, "utf-8")
        half_written.replace(file)
    points, inputs, ended = json.loads(file.read_text("utf-8"))
    return [tuple(point) for point in points], inputs, ended


def compare(
    reject: SentenceModel,
    accept: SentenceModel,
    starts: Sequence[str],
    budgets: Sequence[int],
    proposal: WordReplacement,
    names: Sequence[str],
    folder: Path | None,
) -> None:
    """Print the table of one direction."""
    sentence = Sentence.parse(starts[0])
    words = proposal.words(sentence, 3)
    tables = [model.replacements(sentence, 3, words) for model in (reject, accept)]
    multiply_adds = [table.hints.multiply_adds for table in tables]
    costs = [
        float(np.min(table.hints.cost)) * (1.0 if None in multiply_adds else per_input)
        for table, per_input in zip(tables, multiply_adds, strict=True)
    ]
    costlier = int(costs[1] > costs[0])
    limit, listed = max(budgets), proposal.vocabulary.elsewhere.words
    names_of = (reject.spec, accept.spec, reject.fingerprint, accept.fingerprint)

    def run(name: str, text: str) -> Run:
        by = STRATEGIES[name]
        return kept(
            folder,
            (*names_of, *listed, limit, name, text),
            lambda: trajectory(text, reject, accept, costlier, proposal, by, limit),
        )

    runs = {name: [run(name, text) for text in starts] for name in names}
    role = ("rejecting", "accepting")[costlier]
    print(f"\n{reject.spec} rejects, {accept.spec} accepts; scores counted: the {role} model's\n")
    print("| exact scores at most | strategy | mean loss, nats | scores of the other | inputs |")
    print("| ---: | --- | ---: | ---: | ---: |")
    for budget in budgets:
        for name in names:
            mean = np.mean([at(run, budget) for run, _, _ in runs[name]], axis=0)
            inputs = np.mean([asked_for(run, spent, budget) for run, spent, _ in runs[name]])
            print(f"| {budget} | {name} | {mean[2]:.2f} | {mean[1]:.0f} | {inputs:.0f} |")
    for name in names:
        if name != "paper" and "paper" in names:
            _side_by_side(name, runs, budgets)
    for name in names:
        ended = [points[-1] for points, _, done in runs[name] if done]
        print(f"\n{name}: {len(ended)} of {len(starts)} searches ended by themselves")


def _side_by_side(name: str, runs: Mapping[str, Sequence[Run]], budgets: Sequence[int]) -> None:
    """Print in how many starts a strategy or ``paper`` has the lower loss."""
    print(f"\n| exact scores at most | `{name}` lower | alike | `paper` lower | mean difference |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for budget in budgets:
        ours, theirs = (
            np.array([at(run, budget)[2] for run, _, _ in runs[name]]) for name in (name, "paper")
        )
        alike = np.abs(ours - theirs) < 1e-3
        lower = (ours < theirs) & ~alike
        print(
            f"| {budget} | {lower.sum()} | {alike.sum()} | {(~lower & ~alike).sum()} | "
            f"{(ours - theirs).mean():.2f} |"
        )


def timed(call: Callable[[str], object], starts: Sequence[str]) -> list[float]:
    """Return the seconds that `call` takes for each start."""
    seconds = []
    for start in starts:
        began = time.perf_counter()
        call(start)
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reject", default="contstim:bert?metric=permutation")
    parser.add_argument("--accept", default="contstim:gpt")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--budgets", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--words", type=int, help="the vocabulary's first N words only")
    parser.add_argument("--timed", type=int, default=5, help="sentences whose search is timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one-way", action="store_true", help="leave out the other direction")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=["paper", "bounded"])
    parser.add_argument("--save", type=Path, help="folder of searches that are done")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    models = load_model(args.reject), load_model(args.accept)
    vocabulary = bundled_vocabulary()
    starts = [s for s in pool() if len(s.split()) == 8][: max(args.starts, args.timed)]
    if args.words:
        vocabulary = Vocabulary(
            WordList(vocabulary.first.words[: args.words]),
            WordList(vocabulary.elsewhere.words[: args.words]),
            vocabulary.repeatable,
        )
    proposal = WordReplacement(vocabulary, models)
    print(
        f"{len(starts)} sentences of eight words, {len(vocabulary.elsewhere)} words, "
        f"{args.threads} threads"
    )
    if args.starts:
        pairs = [models] if args.one_way else [models, models[::-1]]
        for pair in pairs:
            some = starts[: args.starts]
            compare(*pair, some, args.budgets, proposal, args.strategies, args.save)
    if args.timed:
        seconds = timed(
            lambda s: synthesize(
                s, reject=models[0], accept=models[1], proposal=proposal, strategy="bounded"
            ),
            starts[: args.timed],
        )
        print(
            f"\nwhole searches by bounded, {args.timed} sentences: median "
            f"{statistics.median(seconds):.1f} s, slowest {max(seconds):.1f} s"
        )


if __name__ == "__main__":
    main()
