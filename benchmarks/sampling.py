"""Compare the time of guided sampling with the forward passes that it needs.

Usage: python benchmarks/sampling.py [--pair SPEC_1 SPEC_2] [--batches N] [--writer SPEC]

For each batch of sentences, the script measures the processor time of

- sampling the batch, and of transformers computing the same number of steps without contstim: the
  prompt, then one token of each sentence per word from cached keys and values;
- the reading scores of the sampled sentences, and of transformers computing the same sentences
  sorted by length, in batches of 32 that continue the cached prompt.

Both sides of a ratio are measured alternately in one process with one thread.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from contstim import load_model, pool
from contstim.pipeline.tasks import build_problem
from contstim.synthesis.problem import MinScore, ProblemDefinition
from contstim.synthesis.sample import GuidedSampling
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text.vocabulary import bundled_vocabulary

# Number of natural sentences, and of sentences in a forward pass for reading scores.
N_NATURAL, N_ROWS = 24, 32


def measure(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a call in seconds, and its result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def repeat_cache(past: Any, n_rows: int) -> Any:
    """Return a copy of the cache of one row for a batch of rows."""
    repeated = copy.deepcopy(past)
    repeated.batch_repeat_interleave(n_rows)
    return repeated


@torch.inference_mode()
def run_steps(network: Any, prompt: Sequence[int], n_rows: int, n_steps: int) -> None:
    """Compute a prompt, and then `n_steps` tokens of `n_rows` sentences, with transformers."""
    past = network(input_ids=torch.tensor([prompt]), use_cache=True).past_key_values
    past = repeat_cache(past, n_rows)
    for _ in range(n_steps):
        token = torch.full((n_rows, 1), prompt[-1])
        past = network(input_ids=token, past_key_values=past, use_cache=True).past_key_values


@torch.inference_mode()
def run_sentences(network: Any, prompt: Sequence[int], sentences: Sequence[Sequence[int]]) -> None:
    """Compute a prompt, and then sentences in batches sorted by length, with transformers."""
    past = network(input_ids=torch.tensor([prompt]), use_cache=True).past_key_values
    ordered = sorted(sentences, key=len)
    for start in range(0, len(ordered), N_ROWS):
        batch = ordered[start : start + N_ROWS]
        rows = [[*ids, *[ids[-1]] * (len(batch[-1]) - len(ids))] for ids in batch]
        past_rows = repeat_cache(past, len(batch))
        network(input_ids=torch.tensor(rows), past_key_values=past_rows, use_cache=True)


def main() -> None:
    """Print a table with one row per batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", nargs=2, default=["contstim:bigram", "contstim:trigram"])
    parser.add_argument("--batches", type=int, default=2, help="batches for each side of the pair")
    parser.add_argument("--writer", default="contstim:smollm2")
    args = parser.parse_args()
    torch.set_num_threads(1)
    strategy = GuidedSampling(writer=args.writer)
    models = [load_model(spec) for spec in args.pair]
    shared = SharedVocabulary(bundled_vocabulary(), tuple(models))
    writer = load_model(args.writer)
    reader = load_model(MinScore.readable(model=args.writer).model)
    # The model of the reading score, without its reduction to one number.
    base = load_model(reader.spec.replace("&reduction=reading", ""))
    network = writer.network.model
    natural = pool()[:N_NATURAL]
    form = strategy.choose_form(natural)
    one, two = (model.name for model in models)
    problems = [
        build_problem(ProblemDefinition((a,), (b,)), models) for a, b in ((two, one), (one, two))
    ]

    def sample(number: int, side: int) -> list[str]:
        rng = np.random.default_rng([1, number, side])
        batch = strategy.sample_batch(problems[side], shared, form, natural, rng)
        return [draft.sentence for draft in batch.drafts]

    # Tokenise the vocabulary, test the network and load the tables before measuring.
    reader.score(sample(0, 0))
    print(
        "| sentences | writer, s | transformers, s | ratio | reading, s | transformers, s | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    totals = np.zeros(4)
    for number in range(1, args.batches + 1):
        for side in range(2):
            seconds, sentences = measure(lambda n=number, s=side: sample(n, s))
            ids = [encoded.ids[len(base.prefix) :].tolist() for encoded in base.encode(sentences)]
            n_steps = max(map(len, ids)) - 1
            bare, _ = measure(
                lambda n=n_steps: run_steps(network, base.prefix, strategy.batch_size, n)
            )
            reading, _ = measure(lambda s=sentences: reader.score(s))
            bare_reading, _ = measure(lambda i=ids: run_sentences(network, base.prefix, i))
            times = np.array([seconds, bare, reading, bare_reading])
            totals += times
            print_row(str(len(sentences)), times)
    print_row("all", totals)


def print_row(name: str, times: np.ndarray) -> None:
    """Print a row of the table: times of the writer and of the reader, each with its ratio."""
    writer, bare, reading, bare_reading = times
    print(
        f"| {name} | {writer:.1f} | {bare:.1f} | {writer / bare:.2f} "
        f"| {reading:.1f} | {bare_reading:.1f} | {reading / bare_reading:.2f} |"
    )


if __name__ == "__main__":
    main()
