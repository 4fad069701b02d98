"""Compare optimised scoring with transformers with straightforward computations.

Usage: python benchmarks/bench_transformers.py [--threads 1] [--rounds 3] [--model SPEC ...]

Every ratio compares two computations in the same run. The models are random networks with 4 layers
of width 256 and 8,000 tokens, the bundled networks, and the models given by ``--model``. They score
bundled sentences of eight words, and candidates are words of the bundled vocabulary. Times are
processor times, medians over rounds. Candidates under the metric `permutation` are scored once, at
one position.

A *context* is one masked input of a masked model, or one sentence of a causal model, at the speed
at which sentences are scored in batches.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import transformers
from checkpoints import common_words, random_bert, random_gpt2, sentences

from contstim import load_model
from contstim.models.hf.causal import CausalModel
from contstim.models.hf.kv_cache import prefill
from contstim.models.hf.masked import MaskedModel
from contstim.models.registry import bundled_models
from contstim.text import Sentence, WordList

N_WORDS, ORDERS, VOCABULARY = 8, 100, 20_000
ROW = "| {} | {} | {:.3f} | {:.3f} | {:.2f} |"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", action="append", default=[])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    texts = sentences(N_WORDS, 96)
    print(f"{args.threads} threads, median of {args.rounds} rounds\n")
    print("| model | what | ours | against | ratio |\n| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        models = {
            "random BERT": random_bert(Path(folder, "m")),
            "random GPT-2": random_gpt2(Path(folder, "c")),
        }
        bundled = [f"contstim:{name}" for name in ("bert", "gpt") if name in bundled_models()]
        models |= {spec: spec for spec in [*bundled, *args.model]}
        for name, spec in models.items():
            model = load_model(spec)
            known = [text for text in texts if model.in_vocabulary(text.split()).all()]
            measure = _masked if isinstance(model, MaskedModel) else _causal
            measure(name, spec, known, args.rounds)


def _masked(name: str, spec: str, texts: list[str], rounds: int) -> None:
    """Run all comparisons for a masked model."""
    with_metric = f"{spec}{'&' if '?' in spec else '?'}metric="
    _memory(name, with_metric + "pll", texts)
    for metric in ("pll", "pll-word-l2r"):
        _against_products(name, with_metric + metric, texts * 2, rounds)
    # Words of one piece, of which orders are straightforward.
    model = load_model(with_metric + "permutation")
    plain = [t for t in texts if len(model.encode([t])[0].scored_positions) == N_WORDS + 1][:2]
    bare = [text.rstrip(".") for text in plain]
    if bare:
        _orders(name, with_metric + "permutation", bare, rounds)
    _candidates(name, with_metric + "permutation", texts[0], [3], 1)
    _bounds(name, with_metric + "permutation", texts[:2], rounds)


def _causal(name: str, spec: str, texts: list[str], rounds: int) -> None:
    """Run all comparisons for a causal model."""
    _candidates(name, spec, texts[0], range(N_WORDS), rounds)
    _bounds(name, spec, texts, rounds)


def _print(name: str, what: str, ours: list[float], other: list[float]) -> None:
    ratios = [b / a for a, b in zip(ours, other, strict=True)]
    row = (statistics.median(ours), statistics.median(other), statistics.median(ratios))
    print(ROW.format(name, what, *row), flush=True)


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _orders(name: str, spec: str, texts: list[str], rounds: int) -> None:
    """Compare the exact mean over all 40,320 word orders with 100 sampled orders."""
    model = load_model(spec)
    assert isinstance(model, MaskedModel)
    network, tokenizer = model.network.model, model.checkpoint.tokenizer
    rng = np.random.default_rng(0)
    orders = [rng.permutation(N_WORDS) for _ in range(ORDERS)]

    def straightforward() -> list[float]:
        scores = []
        for text in texts:
            ids = torch.tensor(tokenizer(text)["input_ids"])
            rows = ids.repeat(ORDERS * N_WORDS, 1)
            targets = torch.empty(ORDERS * N_WORDS, dtype=torch.int64)
            for number, order in enumerate(orders):
                for step, word in enumerate(order):
                    row = number * N_WORDS + step
                    rows[row, 1 + torch.from_numpy(order[step:])] = tokenizer.mask_token_id
                    targets[row] = 1 + int(word)
            total = 0.0
            with torch.inference_mode():
                for batch, places in zip(rows.split(100), targets.split(100), strict=True):
                    logits = network(input_ids=batch).logits
                    log_probs = logits[torch.arange(len(batch)), places].log_softmax(dim=1)
                    total += float(log_probs[torch.arange(len(batch)), ids[places]].sum())
            scores.append(total / ORDERS)
        return scores

    model.score(texts[:1])
    gap = np.abs(model.score(texts) - straightforward()).max()
    ours, other = [], []
    for _ in range(rounds):
        ours.append(_seconds(lambda: model.score(texts)) / len(texts))
        other.append(_seconds(straightforward) / len(texts))
    what = f"exact permutation, s a sentence, against {ORDERS} orders ({gap:.3f} nats off)"
    _print(name, what, ours, other)


def _candidates(name: str, spec: str, text: str, positions: Sequence[int], rounds: int) -> None:
    """Exact scores of 100 candidates at one position, mean over positions."""
    model = load_model(spec)
    sentence = Sentence.parse(text)
    listed = WordList.from_words(common_words()[:2000:20])
    index = np.arange(len(listed))
    model.score([text])
    for position in positions:
        model.score_replacements(sentence, position, listed)
    sides: dict[str, Callable[[list[str]], object]] = {"the sentences afresh": model.score}
    if isinstance(model, CausalModel):
        # Scored together, sentences compute once what they begin with in common.
        sides["the sentences without sharing"] = lambda texts: _without_sharing(model, texts)
    for side, score in sides.items():
        ours, other, by_position = [], [], []
        for _ in range(rounds):
            shared, fresh = [], []
            for position in positions:
                texts = [str(sentence.replace(position, word)) for word in listed]
                shared.append(
                    _seconds(
                        lambda p=position: model.score_replacements(sentence, p, listed).score(
                            index
                        )
                    )
                )
                fresh.append(_seconds(lambda score=score, texts=texts: score(texts)))
            ours.append(statistics.mean(shared))
            other.append(statistics.mean(fresh))
            by_position.append(statistics.mean(b / a for a, b in zip(shared, fresh, strict=True)))
        what = f"s for {len(listed)} candidates, against {side}"
        _print(name, what, ours, other)
        if len(positions) > 1:
            row = (statistics.median(ours), statistics.median(other))
            what += " (mean of the positions' ratios)"
            print(ROW.format(name, what, *row, statistics.median(by_position)), flush=True)


def _without_sharing(model: CausalModel, texts: list[str]) -> np.ndarray:
    """Score sentences in batches of one length, every token of each computed: (S,), nats."""
    encoded = model.encode(texts)
    found = np.empty(len(texts))
    by_length: dict[int, list[int]] = {}
    for i, sentence in enumerate(encoded):
        by_length.setdefault(len(sentence.ids), []).append(i)
    with torch.inference_mode():
        for members in by_length.values():
            ids = torch.tensor(np.array([encoded[i].ids for i in members]))
            values = model.network.model(input_ids=ids[:, :-1]).logits.log_softmax(dim=2)
            chosen = values.gather(2, ids[:, 1:, None])[:, :, 0]
            found[members] = chosen.sum(dim=1).double().numpy()
    return found


def _bounds(name: str, spec: str, texts: list[str], rounds: int) -> None:
    """Bounds of a whole vocabulary at one position, in contexts; and how tight they are."""
    model = load_model(spec)
    sentence = Sentence.parse(texts[0])
    listed = WordList.from_words(common_words()[:VOCABULARY])
    known = model.in_vocabulary(listed.words)
    listed = WordList.from_words([word for word, flag in zip(listed, known, strict=True) if flag])
    n = len(texts)
    if isinstance(model, MaskedModel):
        n = sum(len(model.plan(e).masks) for e in model.encode(texts))
    model.score_replacements(sentence, 3, listed)
    ours, other = [], []
    for _ in range(rounds):
        model.score(texts[:1])
        model.encode_and_score(str(sentence))
        ours.append(_seconds(lambda: model.score_replacements(sentence, 3, listed)))
        other.append(_seconds(lambda: model.score(texts)) / n)
    what = f"s for bounds of {len(listed):,} words, against one context"
    contexts = statistics.median(a / b for a, b in zip(ours, other, strict=True))
    row = (statistics.median(ours), statistics.median(other), contexts)
    print(ROW.format(name, f"{what} (ratio: contexts in time)", *row), flush=True)
    coded = model.encode(texts[:1])
    length = len(coded[0].ids)
    inputs = _tokens_computed(model, lambda: model.score_replacements(sentence, 3, listed)) / length
    what = "inputs as long as the sentence computed for these bounds, against 140"
    print(ROW.format(name, what, inputs, 140, 140 / inputs), flush=True)
    if not isinstance(model, CausalModel):
        return
    rng = np.random.default_rng(0)
    index = rng.choice(len(listed), 200, replace=False)
    table = model.score_replacements(sentence, 3, listed)
    prefix = sentence.words[:3]
    full = model.score([" ".join([*prefix, listed.words[i]]) for i in index])
    first = [model.tokenizer.candidates(sentence, 3, listed).tokens[i][0] for i in index]
    alone = _first_tokens(model, " ".join(prefix), np.array(first))
    gaps = [(alone - full).mean(), (table.upper_bounds[index] - full).mean()]
    what = "nats that bounds by trie lie above p(up to the word), against first tokens alone"
    print(ROW.format(name, what, gaps[1], gaps[0], gaps[0] / max(gaps[1], 1e-9)), flush=True)


def _tokens_computed(model: CausalModel | MaskedModel, call: Callable[[], object]) -> int:
    """Return how many tokens go through the network during a call."""
    counts = []

    def count(_: object, __: object, options: dict[str, torch.Tensor]) -> None:
        counts.append(options["input_ids"].numel())

    handle = model.network.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        call()
    finally:
        handle.remove()
    return sum(counts)


def _first_tokens(model: CausalModel, text: str, first: np.ndarray) -> np.ndarray:
    """Return log p(text, token) of tokens that follow a text."""
    encoded = model.encode([text])[0]
    logits, _ = prefill(model.network, encoded.ids)
    next_token = logits[-1].log_softmax(dim=0).numpy()[first]
    return next_token + model.score([text])[0]


def _memory(name: str, spec: str, texts: list[str]) -> None:
    """Peak memory after 16 and after 1,536 sentences, in GB."""
    model = load_model(spec)
    peaks = []
    for many in (texts[:16], texts * 16):
        model.score(many)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
    print(
        ROW.format(
            name, "peak GB after 1,536 sentences, against 16", *peaks[::-1], peaks[0] / peaks[1]
        ),
        flush=True,
    )


def _against_products(name: str, spec: str, texts: list[str], rounds: int) -> None:
    """Compare the time of scoring with the time of the necessary matrix products.

    The products have the shapes of a network like BERT. After the attention of the last layer, and
    in the head, only the scored position of each input is needed.
    """
    model = load_model(spec)
    assert isinstance(model, MaskedModel)
    config = model.network.model.config
    width, layers, inner = config.hidden_size, config.num_hidden_layers, config.intermediate_size
    n_heads, n_logits = config.num_attention_heads, model.network.n_logits
    weights = [torch.randn(width, width) for _ in range(4)]
    up, down = torch.randn(width, inner), torch.randn(inner, width)
    pieces = torch.randn(width, n_logits)
    rows_of: dict[int, int] = {}
    for e in model.encode(texts):
        rows_of[len(e.ids)] = rows_of.get(len(e.ids), 0) + len(model.plan(e).masks)
    budget = model.network.batch_tokens
    batches = []
    for length, n_rows in rows_of.items():
        cuts = [*range(0, n_rows, budget // length), n_rows]
        batches += [(b - a, length) for a, b in pairwise(cuts)]
    largest = budget
    x, narrow = torch.randn(largest, width), torch.empty(largest, width)
    wide, logits = torch.empty(largest, inner), torch.empty(largest, n_logits)

    def products() -> None:
        with torch.inference_mode():
            for n, length in batches:
                m = n * length
                heads = x[:m].view(n * n_heads, length, width // n_heads)
                for layer in range(layers):
                    for weight in weights[:3]:
                        torch.mm(x[:m], weight, out=narrow[:m])
                    torch.bmm(torch.bmm(heads, heads.transpose(1, 2)), heads)
                    k = m if layer < layers - 1 else n
                    torch.mm(x[:k], weights[3], out=narrow[:k])
                    torch.mm(x[:k], up, out=wide[:k])
                    torch.mm(wide[:k], down, out=narrow[:k])
                torch.mm(x[:n], weights[0], out=narrow[:n])
                torch.mm(x[:n], pieces, out=logits[:n])

    model.score(texts)
    products()
    ours, other = [], []
    for _ in range(rounds):
        other.append(_seconds(products))
        ours.append(_seconds(lambda: model.score(texts)))
    metric = model.options.metric
    _print(name, f"s for the bare products of {metric}, against {metric}", other, ours)


if __name__ == "__main__":
    main()
