"""What sharing saves in scoring with transformers: ratios, both sides measured in one run.

Usage: python benchmarks/bench_transformers.py [--threads 1] [--rounds 3]

The networks are random, of 4 layers of 256 units and 8,000 pieces, on sentences of eight
one-piece words. Times are processor time, so other work on the machine counts little; each figure
is the median over rounds. The 100 candidates under permutation are scored once, at one position.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers

from contstim import load_model
from contstim.text import Sentence, WordList

N_PIECES, N_WORDS, WIDTH, LAYERS, ORDERS = 8000, 8, 256, 4, 100


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(N_PIECES - 5)]
    sentences = [" ".join(rng.choice(words, N_WORDS)) for _ in range(24)]
    print(f"{args.threads} threads, median of {args.rounds} rounds\n")
    print("| what | ours, s | against, s | ratio |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        masked, causal = _bert(Path(folder, "m"), words), _gpt2(Path(folder, "c"), words)
        _permutation(masked, sentences[:2], args.rounds)
        _pll(masked, sentences, args.rounds)
        _candidates("causal", causal, sentences[0], words, range(N_WORDS), args.rounds)
        _candidates("permutation", f"{masked}?metric=permutation", sentences[0], words, [3], 1)


def _print(what: str, ours: list[float], other: list[float]) -> None:
    ratios = [b / a for a, b in zip(ours, other, strict=True)]
    row = (statistics.median(ours), statistics.median(other), statistics.median(ratios))
    print(f"| {what} | {row[0]:.3f} | {row[1]:.3f} | {row[2]:.2f} |", flush=True)


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _bert(folder: Path, words: list[str]) -> str:
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    tokenizer = transformers.BertTokenizer(vocab={v: i for i, v in enumerate(vocab)})
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=N_PIECES,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return f"hf:{folder}"


def _gpt2(folder: Path, words: list[str]) -> str:
    vocab = {"<s>": 0, "<unk>": 1, **{f"▁{word}": i for i, word in enumerate(words, start=2)}}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=N_PIECES, n_embd=WIDTH, n_layer=LAYERS, n_head=4, n_positions=64
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return f"hf:{folder}"


def _permutation(spec: str, sentences: list[str], rounds: int) -> None:
    """Exact averages over all 40,320 orders, against 100 sampled orders evaluated as they come."""
    model = load_model(f"{spec}?metric=permutation")
    folder = spec.removeprefix("hf:")
    network = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(N_WORDS) for _ in range(ORDERS)]

    def straightforward() -> list[float]:
        scores = []
        for sentence in sentences:
            ids = torch.tensor(tokenizer(sentence)["input_ids"])
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

    model.score(sentences[:1])
    gap = np.abs(model.score(sentences) - straightforward()).max()
    ours, other = [], []
    for _ in range(rounds):
        ours.append(_seconds(lambda: model.score(sentences)) / len(sentences))
        other.append(_seconds(straightforward) / len(sentences))
    what = f"exact permutation, a sentence, against {ORDERS} orders ({gap:.3f} nats off)"
    _print(what, ours, other)


def _candidates(
    name: str, spec: str, text: str, words: list[str], positions: Sequence[int], rounds: int
) -> None:
    """Exact scores of 100 candidates at one position, mean over positions."""
    model = load_model(spec)
    sentence = Sentence.parse(text)
    listed = WordList.of([*words[:99], words[500]])
    index = np.arange(len(listed))
    model.score([text])
    model.replacements(sentence, 0, listed)
    ours, other = [], []
    for _ in range(rounds):
        shared = fresh = 0.0
        for position in positions:
            texts = [str(sentence.replace(position, word)) for word in listed]
            shared += _seconds(
                lambda p=position: model.replacements(sentence, p, listed).score(index)
            )
            fresh += _seconds(lambda t=texts: model.score(t))
        ours.append(shared / len(positions))
        other.append(fresh / len(positions))
    _print(f"{name}: 100 candidates at a position, against 100 sentences", ours, other)


def _pll(spec: str, sentences: list[str], rounds: int) -> None:
    """Pseudo-log-likelihoods, against the matrix products they consist of and nothing else."""
    model = load_model(f"{spec}?metric=pll")
    many = sentences * 8
    n_rows, length = N_WORDS * len(many), N_WORDS + 2
    weights = [torch.randn(WIDTH, WIDTH) for _ in range(4)]
    up, down = torch.randn(WIDTH, 4 * WIDTH), torch.randn(4 * WIDTH, WIDTH)
    head, pieces = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, N_PIECES)
    per_batch = 2048 // length
    x = torch.randn(per_batch * length, WIDTH)
    wide = torch.empty(per_batch * length, 4 * WIDTH)
    narrow = torch.empty_like(x)
    logits = torch.empty(per_batch, N_PIECES)
    heads = torch.randn(per_batch * 4, length, WIDTH // 4)
    pairs = torch.empty(per_batch * 4, length, length)
    mixed = torch.empty_like(heads)

    def products() -> None:
        with torch.inference_mode():
            for _ in range(n_rows // per_batch):
                for _ in range(LAYERS):
                    for weight in weights:
                        torch.mm(x, weight, out=narrow)
                    torch.bmm(heads, heads.transpose(1, 2), out=pairs)
                    torch.bmm(pairs, heads, out=mixed)
                    torch.mm(x, up, out=wide)
                    torch.mm(wide, down, out=narrow)
                torch.mm(x[:per_batch], head, out=narrow[:per_batch])
                torch.mm(x[:per_batch], pieces, out=logits)

    model.score(many)
    products()
    ours, other = [], []
    for _ in range(rounds):
        other.append(_seconds(products))
        ours.append(_seconds(lambda: model.score(many)))
    _print("bare matrix products, against pll", other, ours)


if __name__ == "__main__":
    main()
