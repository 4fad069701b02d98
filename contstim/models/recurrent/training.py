"""Training of a recurrent network from text to file, durable and repeatable."""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError, OutputError
from contstim.models.devices import torch_device
from contstim.models.recurrent.corpus import (
    TokenCorpus,
    count_words,
    make_vocabulary,
    ranked_vocabulary,
)
from contstim.models.recurrent.network import (
    STORAGES,
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    TrainingOptions,
    load_network,
    read_tensors,
    save_network,
    write_tensors,
)
from contstim.text.sentences import read_words

__all__ = ["Negatives", "Progress", "Trainer", "cross_entropy", "perplexity", "train_recurrent"]


@dataclass(frozen=True)
class Negatives:
    """The tokens that stand for the whole vocabulary in the softmax's normaliser.

    The `head` most frequent tokens are always there. The tail is represented by K draws with
    replacement from a distribution q over it: `tail` holds the distinct ids drawn and
    `log_weight` = log(times drawn / (K q(id))), so that the weighted sum of exponentials is an
    unbiased estimate of the tail's share of the normaliser (importance sampling, Bengio and
    Senecal 2003; "logQ correction"). With ``head`` the whole vocabulary and no tail, the
    softmax is the full one.
    """

    head: int
    tail: Tensor
    log_weight: Tensor


def cross_entropy(
    queries: Tensor,
    targets: Tensor,
    matrix: Tensor,
    bias: Tensor,
    negatives: Negatives,
    budget: int = 8_000_000,
) -> Tensor:
    """Return the mean loss in nats.

    The loss of a token with query h and target t is log Z(h) - s_t, s = E h + b, where Z sums
    exp(s) over the head, the target itself and the weighted draws from the tail but the target.

    Parameters
    ----------
    queries
        (N, D), in the type the products are computed in; sums and exponentials are float32.
    targets
        Ids of the N tokens to predict.
    matrix, bias
        Output weights E (V, D) in float32 and biases (V,).
    negatives
        The normaliser's tokens.
    budget
        Most logits held at a time; they are computed again for the gradient.
    """
    head, tail = negatives.head, negatives.tail
    columns = torch.cat([matrix[:head], matrix[tail]]).to(queries.dtype)
    offset = torch.cat([bias[:head], bias[tail] + negatives.log_weight])
    column_of = torch.full((len(matrix),), -1, dtype=torch.long, device=queries.device)
    column_of[tail] = torch.arange(head, len(columns), device=queries.device)

    def loss(query: Tensor, target: Tensor) -> Tensor:
        scores = (query @ columns.t()).float() + offset
        rare = target >= head
        # A rare target has a term of its own, in place of any draw of it.
        drawn = column_of[target]
        rows_drawn = (drawn >= 0).nonzero().squeeze(1)
        places = rows_drawn, drawn[rows_drawn]
        scores = scores.index_put(places, torch.tensor(-torch.inf, device=scores.device))
        common = scores.gather(1, target.clamp(max=head - 1)[:, None]).squeeze(1)
        alone = (query.float() * matrix[target]).sum(1) + bias[target]
        own = torch.where(rare, alone, common)
        extra = torch.where(rare, own, -torch.inf)
        return (torch.cat([scores, extra[:, None]], 1).logsumexp(1) - own).sum()

    rows = max(1, budget // len(columns))
    blocks = zip(torch.split(queries, rows), torch.split(targets, rows), strict=True)
    total = [checkpoint(loss, query, target, use_reentrant=False) for query, target in blocks]
    return torch.stack(total).sum() / len(queries)


def perplexity(network: RecurrentNetwork, corpus: TokenCorpus) -> float:
    """Return exp of the mean negative log-probability per token, ends of sentences counted."""
    vocabulary = network.vocabulary
    inputs, targets = [], []
    for s in range(len(corpus)):
        first, second = corpus.sequences(np.array([s]), vocabulary)
        inputs.append(first[:, 0])
        targets.append(second[:, 0])
    log_probs = np.concatenate(network.log_probs(inputs, targets))
    return math.exp(-float(log_probs.mean()))


class Trainer:
    """One training run: a network, its optimiser, and where in the text it is.

    Parameters
    ----------
    network
        The network, changed in place.
    corpus
        The training sentences.
    options
        How to train.
    """

    def __init__(
        self, network: RecurrentNetwork, corpus: TokenCorpus, options: TrainingOptions
    ) -> None:
        self.network, self.corpus, self.options = network, corpus, options
        self.step = self.epoch = self.index = 0
        self._batches = corpus.batches(options.batch_tokens, options.seed, 0)
        # Phases are counted in steps of the first pass's number of batches.
        self.sampled_steps = round(options.epochs * len(self._batches))
        self.total_steps = self.sampled_steps + max(
            1, round(options.full_epochs * len(self._batches))
        ) * (options.full_epochs > 0)
        vocabulary = network.vocabulary
        counts = np.bincount(corpus.ids, minlength=vocabulary.n_outputs).astype(np.float64)
        counts[vocabulary.end] = len(corpus)
        shares = (counts + 1) / (counts + 1).sum()
        network.load({"output_bias": torch.from_numpy(np.log(shares)).float()})
        tail = (counts[options.head :] + 1) ** 0.75
        self._tail = tail / tail.sum()
        self._cumulative = np.cumsum(self._tail)
        for tensor in network.weights.values():
            tensor.requires_grad_()
        self.optimizer = torch.optim.AdamW(
            network.weights.values(),
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
            fused=True,
        )

    @property
    def full(self) -> bool:
        """Whether the step to come uses the full softmax."""
        return self.step >= self.sampled_steps

    @property
    def finished(self) -> bool:
        """Whether no step is left."""
        return self.step >= self.total_steps

    def negatives(self) -> Negatives:
        """Return the tokens of the step's normaliser."""
        options, device = self.options, self.network.device
        n_outputs = self.network.vocabulary.n_outputs
        if self.full or n_outputs <= options.head + options.samples:
            empty = torch.zeros(0, device=device)
            return Negatives(n_outputs, empty.long(), empty)
        rng = np.random.default_rng([self.options.seed, 4, self.step])
        drawn = np.searchsorted(self._cumulative, rng.random(options.samples))
        drawn, times = np.unique(drawn.clip(max=len(self._tail) - 1), return_counts=True)
        weight = np.log(times / (options.samples * self._tail[drawn]))
        return Negatives(
            options.head,
            torch.from_numpy(drawn + options.head).to(device),
            torch.from_numpy(weight).float().to(device),
        )

    def advance(self) -> float:
        """Take one step and return its loss, nats a token."""
        while self.index >= len(self._batches):
            self.epoch, self.index = self.epoch + 1, 0
            self._batches = self.corpus.batches(
                self.options.batch_tokens, self.options.seed, self.epoch
            )
        loss = self._gradients(self._batches[self.index])
        parameters = list(self.network.weights.values())
        torch.nn.utils.clip_grad_norm_(parameters, self.options.clip)
        warm = min(1.0, (self.step + 1) / max(1, self.options.warmup))
        rate = self.options.learning_rate * warm * (1 - self.step / self.total_steps)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.index += 1
        return loss

    def _gradients(self, batch: IntArray) -> float:
        network = self.network
        dtype = torch.bfloat16 if self.options.precision == "bfloat16" else torch.float32
        inputs, targets = (
            torch.from_numpy(ids).to(network.device)
            for ids in self.corpus.sequences(batch, network.vocabulary)
        )
        hidden, _ = network.layer(inputs, network.start(inputs.shape[1], dtype))
        loss = cross_entropy(
            network.queries(hidden.flatten(0, 1)),
            targets.flatten(),
            network.output,
            network.weights["output_bias"],
            self.negatives(),
        )
        torch.autograd.backward(loss)
        return loss.item()

    def skip_to(self, step: int) -> None:
        """Count the steps up to `step` as taken: a phase that ended early."""
        self.step = step

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and moments, by name, for a saved state."""
        saved: dict[str, Tensor] = {}
        for name, tensor in self.network.weights.items():
            saved[f"now.{name}"] = tensor
            for key, value in self.optimizer.state[tensor].items():
                saved[f"{key}.{name}"] = value
        return saved

    def restore(self, saved: dict[str, Tensor], step: int, epoch: int, index: int) -> None:
        """Take up a saved state."""
        self.network.load({name: saved[f"now.{name}"] for name in self.network.weights})
        for name, tensor in self.network.weights.items():
            self.optimizer.state[tensor] = {
                key: saved[f"{key}.{name}"].to(tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.step, self.epoch, self.index = step, epoch, index
        self._batches = self.corpus.batches(self.options.batch_tokens, self.options.seed, epoch)


class Progress:
    """Reports steps and evaluations on standard error, or nothing at all if not `shown`."""

    def __init__(self, total: int, done: int, shown: bool) -> None:
        self._shown = shown
        self._bar = (
            tqdm(total=total, initial=done, unit="step", desc="training")
            if shown and sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, loss: float) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

    def say(self, line: str) -> None:
        """Report an evaluation or the like."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif self._shown:
            print(line, file=sys.stderr, flush=True)


_MOST_REPEATS = 10_000  # of a text in a pass
_MOST_WEIGHTS = 10**9  # of a network: 16 GB in training


class _Best:
    """The best weights so far, by perplexity on held-out text."""

    def __init__(self) -> None:
        self.perplexity = math.inf
        self.stale = 0
        self.weights: dict[str, Tensor] = {}

    def offer(self, network: RecurrentNetwork, value: float) -> None:
        """Keep the network's weights if `value` is lower than any before."""
        self.stale += 1
        if value < self.perplexity:
            self.perplexity, self.stale = value, 0
            self.weights = {name: t.detach().clone() for name, t in network.weights.items()}


def train_recurrent(
    text: Sequence[Path],
    out: Path,
    *,
    config: NetworkConfig,
    options: TrainingOptions | None = None,
    weights: Sequence[float] | None = None,
    vocabulary: Path | None = None,
    min_count: int = 5,
    heldout: Path | None = None,
    heldout_share: float = 0.01,
    punctuation: str = "keep",
    storage: str = "float32",
    device: str = "cpu",
    progress: bool = True,
) -> dict[str, Any]:
    """Train an RNN or LSTM on text and write it to `out`, to be loaded as ``lstm:OUT``.

    A killed training continues when called again with the same arguments (only the numbers of
    epochs, `patience` and `interval` may be changed) and, on a CPU, ends with the same weights
    as one that ran through. Its state is kept in ``OUT.state`` until the end; `out` itself holds
    the best weights at the last evaluation.

    Parameters
    ----------
    text
        Files of one sentence a line, UTF-8, words separated by spaces; ``.gz`` is decompressed.
    out
        The safetensors file to write.
    config, options
        The network, and how it is trained.
    weights
        How often a sentence of each file is seen in a pass; 1 by default.
    vocabulary
        File of words between white space; by default the words seen `min_count` times or more.
        All others are the unknown-word class.
    heldout
        File of sentences for early stopping and the perplexity; by default a share
        `heldout_share` of the text, drawn at random.
    punctuation
        ``keep``, ``split`` or ``drop``, as `contstim.text.sentence.tokens_of_word` does. Use the
        same option in the model's spec.
    storage
        ``float32``, ``float16`` or ``int8``.
    device
        Where to train, as PyTorch names it.
    progress
        Whether to report on standard error.

    Returns
    -------
    dict
        The training record, as stored in the file: options, size of the text, `heldout_perplexity`
        (per token, unknown words and ends of sentences counted), `log` and `finished`.

    Raises
    ------
    InputError
        If text is missing, empty or not UTF-8, or the state belongs to another training.
    OutputError
        If `out` cannot be written, or exists and is not of this training.
    """
    options = TrainingOptions() if options is None else options
    if storage not in STORAGES:
        raise InputError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    paths = [Path(path) for path in text]
    if not paths:
        raise InputError("a training needs at least one text file")
    repeats = [1.0] * len(paths) if weights is None else [float(w) for w in weights]
    if len(repeats) != len(paths) or not all(0 < r <= _MOST_REPEATS for r in repeats):
        raise InputError(
            f"give one weight above 0 and up to {_MOST_REPEATS} for each of {len(paths)} files, "
            f"got {repeats}"
        )
    where = torch_device(device)
    _check_writable(out)
    counts = count_words(paths, punctuation)
    words = (
        make_vocabulary(counts, min_count)
        if vocabulary is None
        else ranked_vocabulary(read_words(vocabulary), counts)
    )
    corpus = TokenCorpus.read(paths, words, punctuation, repeats)
    if heldout is None:
        corpus, unseen = corpus.split(heldout_share, options.seed)
    else:
        unseen = TokenCorpus.read([heldout], words, punctuation, [1.0])
    n_weights = sum(math.prod(shape) for shape in config.shapes(words.n_outputs).values())
    if n_weights > _MOST_WEIGHTS:
        raise InputError(
            f"the network would have {n_weights} weights, more than {_MOST_WEIGHTS}; give less "
            "embedding, hidden or vocabulary"
        )
    digest = _digest(config, options, words, corpus, unseen)
    state = out.with_name(out.name + ".state")
    if out.exists() and not state.exists():
        record = _finished_record(out, digest)
        if record is not None:
            return record
    network = RecurrentNetwork.initial(config, words, options.seed).to(where)
    trainer = Trainer(network, corpus, options)
    best = _Best()
    record = {
        "digest": digest,
        "options": asdict(options),
        "punctuation": punctuation,
        "sentences": len(corpus),
        "tokens": len(corpus.ids),
        "heldout_sentences": len(unseen),
        "heldout_tokens": len(unseen.ids),
        "log": [],
        "seconds": 0.0,
        "finished": False,
    }
    losses: list[float] = []
    if state.exists():
        losses = _take_up(state, trainer, best, record)
    monitor = unseen.first_tokens(options.heldout_tokens, options.seed)
    with Progress(trainer.total_steps, trainer.step, progress) as shown:
        _run(trainer, best, losses, monitor, record, state, out, storage, shown)
    network.load(best.weights)
    record["heldout_perplexity"] = perplexity(network, unseen)
    record["finished"] = True
    save_network(out, network, record, storage)
    state.unlink(missing_ok=True)
    return record


def _run(
    trainer: Trainer,
    best: _Best,
    losses: list[float],
    monitor: TokenCorpus,
    record: dict[str, Any],
    state: Path,
    out: Path,
    storage: str,
    shown: Progress,
) -> None:
    """Train to the end, evaluating and saving on the way."""
    options = trainer.options
    clock = time.monotonic()
    while not trainer.finished:
        losses.append(trainer.advance())
        shown.step(losses[-1])
        at_switch = trainer.step == trainer.sampled_steps
        due = trainer.step % options.interval == 0 or trainer.finished or at_switch
        if due:
            value = perplexity(trainer.network, monitor)
            best.offer(trainer.network, value)
            record["seconds"] += time.monotonic() - clock
            clock = time.monotonic()
            record["log"].append(
                {
                    "step": trainer.step,
                    "loss": sum(losses) / len(losses),
                    "perplexity": value,
                    "seconds": round(record["seconds"], 1),
                }
            )
            losses.clear()
            shown.say(
                f"step {trainer.step} of {trainer.total_steps}: "
                f"loss {record['log'][-1]['loss']:.4f}, held-out perplexity {value:.2f}, "
                f"{record['seconds']:.0f} s"
            )
            if best.stale >= options.patience:
                _end_phase(trainer, best)
            elif at_switch:
                best.stale = 0
        if due or trainer.step % options.checkpoint_every == 0:
            record["seconds"] += time.monotonic() - clock
            clock = time.monotonic()
            _save_state(state, trainer, best, record, losses)
        if due and record["log"][-1]["perplexity"] == best.perplexity:
            kept = RecurrentNetwork(
                trainer.network.config, trainer.network.vocabulary, best.weights
            )
            save_network(out, kept, record, storage)


def _end_phase(trainer: Trainer, best: _Best) -> None:
    """Go back to the best weights and on to the next phase."""
    trainer.network.load(best.weights)
    best.stale = 0
    trainer.skip_to(trainer.total_steps if trainer.full else trainer.sampled_steps)


def _check_writable(out: Path) -> None:
    """Refuse a place that cannot be written, before any work."""
    probe = out.with_name(out.name + ".partial")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(
            f"cannot write {str(out)!r}: {error.strerror}; choose another place"
        ) from error


def _digest(
    config: NetworkConfig,
    options: TrainingOptions,
    words: TokenVocabulary,
    corpus: TokenCorpus,
    unseen: TokenCorpus,
) -> str:
    """Digest all that decides the course of a training; what may be changed is left out."""
    decisive = asdict(options)
    for name in ("epochs", "full_epochs", "patience", "interval", "checkpoint_every"):
        del decisive[name]
    digest = hashlib.sha256(repr((asdict(config), decisive, words.words)).encode())
    for part in (corpus, unseen):
        digest.update(part.ids.tobytes())
        digest.update(part.offsets.tobytes())
        digest.update(part.repeats.tobytes())
    return digest.hexdigest()


def _finished_record(out: Path, digest: str) -> dict[str, Any] | None:
    """Return the record of `out` if it is this very training's result; refuse to overwrite."""
    try:
        record = load_network(out)[1]
    except ModelFileError:
        record = {}
    if record.get("digest") == digest and record.get("finished"):
        return record
    raise OutputError(f"{str(out)!r} exists and is not of this training; delete it or rename it")


def _save_state(
    path: Path, trainer: Trainer, best: _Best, record: dict[str, Any], losses: list[float]
) -> None:
    tensors = trainer.tensors()
    tensors.update({f"best.{name}": tensor for name, tensor in best.weights.items()})
    state = {
        "step": trainer.step,
        "epoch": trainer.epoch,
        "index": trainer.index,
        "best": best.perplexity if best.weights else None,
        "stale": best.stale,
        "losses": losses,
        "record": record,
    }
    write_tensors(path, tensors, state)


def _take_up(path: Path, trainer: Trainer, best: _Best, record: dict[str, Any]) -> list[float]:
    """Continue from a saved state; return the losses since the last evaluation."""
    try:
        tensors, state, _ = read_tensors(path)
        saved = state["record"]
    except (ModelFileError, KeyError, TypeError) as error:
        raise InputError(f"{str(path)!r} is damaged; delete it to train again") from error
    if saved["digest"] != record["digest"]:
        raise InputError(
            f"{str(path)!r} is of a training with other text or options; delete it to train again, "
            "or write to another file"
        )
    trainer.restore(tensors, state["step"], state["epoch"], state["index"])
    if state["best"] is not None:
        best.perplexity, best.stale = state["best"], state["stale"]
        best.weights = {name: tensors[f"best.{name}"].clone() for name in trainer.network.weights}
    record.update({key: saved[key] for key in ("log", "seconds")})
    return list(state["losses"])
