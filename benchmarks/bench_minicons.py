"""Compare pseudo-log-likelihoods with the library minicons: speed and values.

Usage: python benchmarks/bench_minicons.py [--model SPEC ...] [--minicons FOLDER] [--threads 1]
       [--rounds 5] [--sentences 128]

Both libraries run in this interpreter, with the same versions of torch and transformers. minicons
and its word lists are installed into FOLDER, by default a temporary one, by

    python -m pip install --no-deps --target FOLDER minicons==0.3.39 wonderwords==2.2.0

A method of transformers 4 that minicons calls is added to transformers 5 while the script runs.
minicons is timed with several batch sizes, and the fastest is used.

The models are a random network with 4 layers of width 256 and 8,000 tokens, and the models given by
``--model``. The sentences are bundled sentences of eight words. Times are processor times, and each
ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from checkpoints import random_bert, sentences

from contstim import load_model
from contstim.models import ModelSpec
from contstim.models.registry import bundled_models
from contstim.text.language import split_word

PACKAGES = ["minicons==0.3.39", "wonderwords==2.2.0"]
METRICS = {"pll": "original", "pll-word-l2r": "within_word_l2r"}
BATCHES = (1, 8, 32)


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--minicons", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=128)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    texts = sentences(8, args.sentences)
    with tempfile.TemporaryDirectory() as folder:
        place = args.minicons or Path(folder, "minicons")
        if not (place / "minicons").is_dir():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            subprocess.run([*pip, str(place), *PACKAGES], check=True)
        sys.path.append(str(place))
        _put_back()
        print(f"{args.threads} threads, {len(texts)} sentences, median of {args.rounds} rounds\n")
        print("| model | metric | contstim, sentences/s | minicons | its batch | ratio |")
        print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
        notes = []
        models = {"random": random_bert(Path(folder, "bert"))}
        bundled = ["contstim:bert"] if "bert" in bundled_models() else []
        models |= {spec: spec for spec in [*bundled, *args.model]}
        for name, spec in models.items():
            for metric in METRICS:
                notes.append(_compare(name, spec, metric, texts, args.rounds))
        print("\n" + "\n".join(notes))


def _put_back() -> None:
    """Add the tokenizer method that minicons calls and transformers 5 lacks."""
    base = transformers.PreTrainedTokenizerBase
    if not hasattr(base, "batch_encode_plus"):
        base.batch_encode_plus = lambda self, texts, **options: self(texts, **options)


def _folder(spec: str) -> str:
    """Return the folder of a checkpoint."""
    parsed = ModelSpec.parse(spec)
    if parsed.family == "contstim":
        return str(bundled_models()[parsed.location].path())
    return parsed.location


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _compare(name: str, spec: str, metric: str, texts: list[str], rounds: int) -> str:
    """Compare one metric of one model: print a row, and return a sentence about the values."""
    from minicons.scorer import MaskedLMScorer

    model = load_model(f"{spec}{'&' if '?' in spec else '?'}metric={metric}")
    scorer = MaskedLMScorer(_folder(spec), "cpu")
    # It keeps the half precision in which some weights are stored, which is slow here.
    scorer.model.float()

    def theirs(size: int, asked: list[str]) -> list[float]:
        scores: list[float] = []
        for start in range(0, len(asked), size):
            scores += scorer.sequence_score(
                asked[start : start + size],
                reduction=lambda values: values.sum().item(),
                PLL_metric=METRICS[metric],
            )
        return scores

    model.score(texts[:8])
    best = min(BATCHES, key=lambda size: _seconds(lambda: theirs(size, texts)))
    ours, other = [], []
    for _ in range(rounds):
        ours.append(_seconds(lambda: model.score(texts)))
        other.append(_seconds(lambda: theirs(best, texts)))
    ratio = statistics.median(b / a for a, b in zip(ours, other, strict=True))
    speeds = [len(texts) / statistics.median(seconds) for seconds in (ours, other)]
    print(
        f"| {name} | {metric} | {speeds[0]:.0f} | {speeds[1]:.0f} | {best} | {ratio:.2f} |",
        flush=True,
    )
    return f"{name}, {metric}: {_values(model.score, lambda asked: theirs(1, asked), texts)}"


def _values(
    ours: Callable[[list[str]], np.ndarray],
    theirs: Callable[[list[str]], list[float]],
    texts: list[str],
) -> str:
    """Describe the differences between the scores, for all sentences and for words of letters."""
    bare = [" ".join(split_word(word)[1] for word in text.split()) for text in texts]
    bare = [text for text in bare if text.replace(" ", "").isalpha()]
    gaps = [np.abs(ours(asked) - np.array(theirs(asked))) for asked in (texts, bare)]
    said = f"largest difference {gaps[0].max():.2g} nats"
    if gaps[0].max() > 1e-3:
        said += (
            f", in {np.mean(gaps[0] > 1e-3):.0%} of the sentences, since minicons takes the "
            'pre-tokenizer\'s pieces for words, so that "load." is two and "don\'t" three; on '
            f"words of letters alone {gaps[1].max():.2g}"
        )
    return said + "."


if __name__ == "__main__":
    main()
