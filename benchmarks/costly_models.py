"""Losses of the strategies for networks at equal multiply-additions, from the same sentences.

Usage: python benchmarks/costly_models.py [--model-1 SPEC] [--model-2 SPEC] [--starts 30] [--from 0]
       [--strategies bounded NAME:option=value ...] [--words N] [--one-way] [--save FOLDER]

The first strategy sets the pace: every other one is stopped, sentence by sentence, when the
networks have done as many multiply-additions as for the first, and its loss is that of the sentence
it had by then (`ended` says how many searches ended by themselves before). Counted is all that the
networks compute: estimates, bounds, scores and verifications. A token costs the weights that it
passes, a place that is read those of the head.

All start from eight-word sentences of the bundled pool with the bundled vocabulary and one seed,
both ways round, one thread. With ``--save`` each search is written to the folder once it is done
and read from there when it is asked for again; empty it when the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contstim import Problem, bundled_vocabulary, load_model, pool
from contstim.models.base import SentenceModel
from contstim.models.hf.transformer import TransformerModel
from contstim.models.recurrent import RecurrentNetwork
from contstim.models.recurrent.model import RecurrentModel
from contstim.synthesis import strategy_called
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.sweeps import Search, Strategy
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary


class SpentError(Exception):
    """The multiply-additions are spent."""


class Meter:
    """Counts the multiply-additions of networks, and stops a search at a limit."""

    def __init__(self, models: Sequence[SentenceModel]) -> None:
        self.spent, self.limit = 0.0, np.inf
        for model in models:
            if isinstance(model, RecurrentModel):
                self._count_steps(model._network)
            if not isinstance(model, TransformerModel):
                continue
            body, head = model.network.weights

            def count(
                module: Any, args: Any, kwargs: Any, output: Any, body: int = body, head: int = head
            ) -> None:
                ids = kwargs["input_ids"]
                self.spent += ids.numel() * body + output.logits.shape[:-1].numel() * head
                if self.spent > self.limit:
                    raise SpentError

            model.network.model.register_forward_hook(count, with_kwargs=True)

    def _count_steps(self, network: RecurrentNetwork) -> None:
        """Count the steps of a recurrent network, and the places at which it is read."""
        body = sum(network.weights[name].numel() for name in ("input", "recurrent"))
        head = network.n_multiplications - body

        def counted(method: Any, size: Any) -> Any:
            def call(first: Any, *more: Any) -> Any:
                self.spent += size(first)
                if self.spent > self.limit:
                    raise SpentError
                return method(first, *more)

            return call

        network.layer = counted(network.layer, lambda ids: ids.numel() * body)
        for name in ("next_log_probs", "_target_log_probs"):
            setattr(network, name, counted(getattr(network, name), lambda at: len(at) * head))


def named(text: str) -> Strategy:
    """Return the strategy that e.g. ``bounded:budget=8`` names."""
    name, *options = re.split(r":(?=\w+=)", text)
    pairs = (option.split("=", 1) for option in options)
    return strategy_called(name, **{key: json.loads(value) for key, value in pairs})


def searched(
    text: str, by: Strategy, problem: Problem, proposal: WordReplacement, meter: Meter, limit: float
) -> dict[str, Any]:
    """Return what one search came to."""
    search = Search(problem, proposal, Sentence.parse(text), seed=1)
    meter.spent, meter.limit = 0.0, limit
    began = time.process_time()
    ended = True
    try:
        by.run(search)
    except SpentError:
        ended = False
    spent, meter.limit = meter.spent, np.inf
    return {
        "loss": search.loss(search.now) - search.loss(search.natural),
        "spent": min(spent, limit),
        "seconds": time.process_time() - began,
        "scores": search.spent.n_scores,
        "sentence": str(search.sentence),
        "ended": ended,
    }


def main() -> None:
    """Print a table in Markdown for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-1", default="contstim:gpt")
    parser.add_argument("--model-2", default="contstim:bert?metric=pll")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--from", type=int, default=0, dest="first", help="first of the starts")
    parser.add_argument("--strategies", nargs="+", default=["bounded", "leftward"])
    parser.add_argument("--words", type=int, help="the vocabulary's first N words only")
    parser.add_argument("--one-way", choices=["1", "2"], help="the model that rejects")
    parser.add_argument("--save", type=Path, help="folder of searches that are done")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = [load_model(spec) for spec in (args.model_1, args.model_2)]
    meter = Meter(models)
    vocabulary = bundled_vocabulary()
    if args.words:
        vocabulary = Vocabulary(
            WordList(vocabulary.first.words[: args.words]),
            WordList(vocabulary.elsewhere.words[: args.words]),
            vocabulary.repeatable,
        )
    proposal = WordReplacement(vocabulary, tuple(models))
    starts = [s for s in pool() if len(s.split()) == 8]
    starts = starts[args.first : args.first + args.starts]
    for rejecting, pair in (("1", models), ("2", models[::-1])):
        if args.one_way not in (None, rejecting):
            continue
        problem = Problem.pair(*pair)
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in args.strategies}
        for start in starts:
            limit = np.inf
            for name in args.strategies:
                parts = [*problem.names, args.words, start, repr(named(name)), f"{limit:.6g}"]
                file = None
                if args.save:
                    args.save.mkdir(parents=True, exist_ok=True)
                    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
                    file = args.save / f"{key}.json"
                if file is not None and file.exists():
                    found = json.loads(file.read_text("utf-8"))
                else:
                    found = searched(start, named(name), problem, proposal, meter, limit)
                    if file is not None:
                        file.write_text(json.dumps(found), "utf-8")
                runs[name].append(found)
                limit = runs[args.strategies[0]][-1]["spent"]
        print(f"\n{pair[0].spec} rejects, {pair[1].spec} accepts; {len(starts)} starts\n")
        print("| strategy | mean loss, nats | ratio | lower | higher | 10^9 m.-a. | s | ended |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        base = np.array([run["loss"] for run in runs[args.strategies[0]]])
        for name, own in runs.items():
            losses = np.array([run["loss"] for run in own])
            work, seconds, ended = (
                np.mean([run[key] for run in own]) for key in ("spent", "seconds", "ended")
            )
            print(
                f"| {name} | {losses.mean():.2f} | {losses.mean() / base.mean():.2f} | "
                f"{(losses < base - 1e-3).sum()} | {(losses > base + 1e-3).sum()} | "
                f"{work / 1e9:.0f} | {seconds:.1f} | {ended * len(own):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
