"""Training of a recurrent network from text to file, durable and repeatable."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError, OutputError
from contstim.files import digest_parts
from contstim.models.devices import resolve_device
from contstim.models.recurrent import (
    STORAGES,
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    load_network,
    read_tensors,
    save_network,
    write_tensors,
)
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.progress import TrainingProgress
from contstim.text import read_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.training.corpus import TokenCorpus, TrainingText, read_text
from contstim.training.optimization import BestCheckpoint, gradient_step
from contstim.training.options import TrainingOptions

#: A line of more tokens than this is not a sentence, and would take memory without bound.
_LONGEST = 2000
_MOST_REPEATS = 10_000  # of a text in a pass
_MOST_WEIGHTS = 10**9  # of a network: 16 GB in training


def build_vocabulary(text: TrainingText, min_count: int) -> TokenVocabulary:
    """Keep the words seen `min_count` times or more, most frequent first, ties by spelling."""
    counts = text.counts.tolist()
    frequent = [word for word, n in zip(text.words, counts, strict=True) if n >= min_count]
    if not frequent:
        raise InputError(f"no word of the text is seen {min_count} times; lower the minimum count")
    return sort_vocabulary(sorted(frequent), text)


def sort_vocabulary(words: Iterable[str], text: TrainingText) -> TokenVocabulary:
    """Put `words` in order, most frequent first; equally frequent ones stay in their order."""
    counts = dict(zip(text.words, text.counts.tolist(), strict=True))
    ordered = sorted(words, key=lambda word: -counts.get(word, 0))
    return TokenVocabulary(tuple(w for w in ordered if w not in {START, END, UNKNOWN}))


@dataclass(frozen=True)
class NegativeSamples:
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
    negatives: NegativeSamples,
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
        target_term = torch.where(rare, alone, common)
        extra = torch.where(rare, target_term, -torch.inf)
        return (torch.cat([scores, extra[:, None]], 1).logsumexp(1) - target_term).sum()

    rows = max(1, budget // len(columns))
    blocks = zip(torch.split(queries, rows), torch.split(targets, rows), strict=True)
    total = [checkpoint(loss, query, target, use_reentrant=False) for query, target in blocks]
    return torch.stack(total).sum() / len(queries)


def perplexity(network: RecurrentNetwork, corpus: TokenCorpus) -> float:
    """Return exp of the mean negative log-probability per token, ends of sentences counted.

    Infinite where it is too large for a float64.
    """
    vocabulary = network.vocabulary
    inputs, targets = [], []
    for s in range(len(corpus)):
        first, second = corpus.sequences(np.array([s]), vocabulary)
        inputs.append(first[:, 0])
        targets.append(second[:, 0])
    log_probs = np.concatenate(network.log_probs(inputs, targets))
    try:
        return math.exp(-float(log_probs.mean()))
    except OverflowError:
        return math.inf


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
        network.copy_weights({"output_bias": torch.from_numpy(np.log(shares)).float()})
        tail = (counts[options.head :] + 1) ** 0.75
        self._tail = tail / tail.sum()
        self._cumulative = np.cumsum(self._tail)
        for tensor in network.weights.values():
            tensor.requires_grad_()
        self.optimizer = torch.optim.AdamW(
            network.weights.values(), weight_decay=options.weight_decay, fused=True
        )

    @property
    def full(self) -> bool:
        """Whether the step to come uses the full softmax."""
        return self.step >= self.sampled_steps

    @property
    def finished(self) -> bool:
        """Whether no step is left."""
        return self.step >= self.total_steps

    def negatives(self) -> NegativeSamples:
        """Return the tokens of the step's normaliser."""
        options, device = self.options, self.network.device
        n_outputs = self.network.vocabulary.n_outputs
        if self.full or n_outputs <= options.head + options.samples:
            empty = torch.zeros(0, device=device)
            return NegativeSamples(n_outputs, empty.long(), empty)
        rng = np.random.default_rng([self.options.seed, 4, self.step])
        drawn = np.searchsorted(self._cumulative, rng.random(options.samples))
        drawn, times = np.unique(drawn.clip(max=len(self._tail) - 1), return_counts=True)
        weight = np.log(times / (options.samples * self._tail[drawn]))
        return NegativeSamples(
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
        loss = self._loss(self._batches[self.index])
        warm = min(1.0, (self.step + 1) / max(1, self.options.warmup))
        rate = self.options.learning_rate * warm * (1 - self.step / self.total_steps)
        self.step += 1
        self.index += 1
        weights = list(self.network.weights.values())
        return gradient_step(self.optimizer, weights, loss, rate, self.options.clip)

    def _loss(self, batch: IntArray) -> Tensor:
        network = self.network
        dtype = torch.bfloat16 if self.options.precision == "bfloat16" else torch.float32
        inputs, targets = (
            torch.from_numpy(ids).to(network.device)
            for ids in self.corpus.sequences(batch, network.vocabulary)
        )
        hidden, _ = network.forward(inputs, network.initial_state(inputs.shape[1], dtype))
        return cross_entropy(
            network.project(hidden.flatten(0, 1)),
            targets.flatten(),
            network.output_weights,
            network.weights["output_bias"],
            self.negatives(),
        )

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
        self.network.copy_weights({name: saved[f"now.{name}"] for name in self.network.weights})
        for name, tensor in self.network.weights.items():
            self.optimizer.state[tensor] = {
                key: saved[f"{key}.{name}"].to(tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.step, self.epoch, self.index = step, epoch, index
        self._batches = self.corpus.batches(self.options.batch_tokens, self.options.seed, epoch)


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
    language: Language = ENGLISH,
) -> dict[str, Any]:
    """Train an RNN or LSTM on text and write it to `out`, to be loaded as ``lstm:OUT``.

    A killed training continues when called again with the same arguments (only the numbers of
    epochs, `patience` and `interval` may be changed) and, on a CPU, ends with the same weights
    as one that ran through. Its state is kept in ``OUT.state`` until the end; `out` itself holds
    the best weights at the last evaluation.

    Parameters
    ----------
    text
        Files of one sentence per line, UTF-8, words separated by spaces; ``.gz`` is decompressed.
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
        ``keep``, ``split`` or ``drop``, as `contstim.text.tokenize_word` does. Use the
        same option in the model's spec.
    storage
        ``float32``, ``float16`` or ``int8``.
    device
        Where to train, as PyTorch names it.
    progress
        Whether to report on standard error.
    language
        What cuts lines into words. Use the same option in the model's spec.

    Returns
    -------
    dict
        The training record, as stored in the file: options, size of the text, `heldout_perplexity`
        (per token, unknown words and ends of sentences counted), `log` and `finished`.

    Raises
    ------
    InputError
        If text is missing, empty or not UTF-8, the state belongs to another training, or the
        training diverges.
    OutputError
        If `out` cannot be written, or exists and is not of this training.
    """
    options = TrainingOptions() if options is None else options
    if storage not in STORAGES:
        raise InputError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    repeats = [1.0] * len(text) if weights is None else [float(weight) for weight in weights]
    _check_text(text, repeats)
    where = resolve_device(device)
    _check_writable(out)
    read = _read(text, punctuation, language)
    words = (
        build_vocabulary(read, min_count)
        if vocabulary is None
        else sort_vocabulary(read_words(vocabulary), read)
    )
    _check_size(config, words)
    corpus = TokenCorpus.from_text(read, words, repeats)
    if heldout is None:
        corpus, unseen = corpus.split(heldout_share, options.seed)
    else:
        unseen = TokenCorpus.from_text(_read([heldout], punctuation, language), words, [1.0])
    digest = _digest(config, options, words, corpus, unseen)
    record: dict[str, Any] = {
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
    state = out.with_name(out.name + ".state")
    if out.exists() and not state.exists():
        return _finished_record(out, digest)
    network = RecurrentNetwork.initialise(config, words, options.seed).to(where)
    monitor = unseen.first_tokens(options.heldout_tokens, options.seed)
    training = _Training(Trainer(network, corpus, options), monitor, record, out, state, storage)
    if state.exists():
        training.take_up()
    training.run(progress)
    record["heldout_perplexity"] = perplexity(network, unseen)
    record["finished"] = True
    save_network(out, network, record, storage)
    state.unlink(missing_ok=True)
    return record


def _check_text(text: Sequence[Path], repeats: list[float]) -> None:
    if not text:
        raise InputError("a training needs at least one text file")
    if len(repeats) != len(text) or not all(0 < r <= _MOST_REPEATS for r in repeats):
        raise InputError(
            f"give one weight above 0 and up to {_MOST_REPEATS} for each of {len(text)} files, "
            f"got {repeats}"
        )


def _read(paths: Sequence[Path], punctuation: str, language: Language) -> TrainingText:
    """Read files of which each holds a sentence."""
    text = read_text(paths, punctuation, _LONGEST, language)
    if 0 in text.n_sentences:
        raise InputError(f"there is no sentence in {str(paths[text.n_sentences.index(0)])!r}")
    return text


def _check_size(config: NetworkConfig, words: TokenVocabulary) -> None:
    n_weights = sum(math.prod(shape) for shape in config.weight_shapes(words.n_outputs).values())
    if n_weights > _MOST_WEIGHTS:
        raise InputError(
            f"the network would have {n_weights} weights, more than {_MOST_WEIGHTS}; give less "
            "embedding, hidden or vocabulary"
        )


@dataclass(eq=False)
class _Training:
    """A training on its way.

    Attributes
    ----------
    trainer, monitor
        The network in training, and the held-out sentences that it is evaluated on.
    record
        What is stored with the network.
    out, state, storage
        Where the best network and the state are kept, and how the network's matrices are.
    best
        The best weights so far.
    losses
        Losses since the last evaluation.
    """

    trainer: Trainer
    monitor: TokenCorpus
    record: dict[str, Any]
    out: Path
    state: Path
    storage: str
    best: BestCheckpoint = field(default_factory=BestCheckpoint)
    losses: list[float] = field(default_factory=list)
    _clock: float = field(default_factory=time.monotonic)

    def run(self, progress: bool) -> None:
        """Train to the end, evaluating and saving on the way; leave the best weights in place.

        Raises
        ------
        InputError
            If no evaluation finds a finite perplexity: steps were far too large.
        """
        trainer, options = self.trainer, self.trainer.options
        with TrainingProgress(trainer.total_steps, trainer.step, progress) as shown:
            while not trainer.finished:
                self.losses.append(trainer.advance())
                shown.step(self.losses[-1])
                at_switch = trainer.step == trainer.sampled_steps
                due = trainer.step % options.interval == 0 or trainer.finished or at_switch
                better = due and self._evaluate(shown)
                if self.best.n_stale >= options.patience:
                    # Back to the best weights and on, the phase's steps counted as taken.
                    trainer.network.copy_weights(self.best.weights)
                    self.best.n_stale = 0
                    trainer.step = trainer.total_steps if trainer.full else trainer.sampled_steps
                elif at_switch:
                    self.best.n_stale = 0
                if due or trainer.step % options.checkpoint_every == 0:
                    self._save_state()
                if better:
                    network = trainer.network
                    best = RecurrentNetwork(network.config, network.vocabulary, self.best.weights)
                    save_network(self.out, best, self.record, self.storage)
        if not self.best.weights:
            self.state.unlink(missing_ok=True)  # nothing to go on from
            raise InputError(
                "the training has diverged: at no evaluation was the held-out perplexity finite; "
                "lower the learning rate"
            )
        trainer.network.copy_weights(self.best.weights)

    def _evaluate(self, shown: TrainingProgress) -> bool:
        """Log the held-out perplexity; return whether it is the lowest so far."""
        network, step = self.trainer.network, self.trainer.step
        value, loss = perplexity(network, self.monitor), sum(self.losses) / len(self.losses)
        seconds = self._count_seconds()
        entry = {"step": step, "loss": loss, "perplexity": value, "seconds": round(seconds, 1)}
        self.record["log"].append(entry)
        self.losses.clear()
        shown.log(
            f"step {step} of {self.trainer.total_steps}: loss {loss:.4f}, held-out perplexity "
            f"{value:.2f}, {seconds:.0f} s"
        )
        return self.best.update(value, network.weights)

    def _count_seconds(self) -> float:
        now = time.monotonic()
        self.record["seconds"] += now - self._clock
        self._clock = now
        return float(self.record["seconds"])

    def _save_state(self) -> None:
        self._count_seconds()
        tensors = self.trainer.tensors()
        tensors.update({f"best.{name}": tensor for name, tensor in self.best.weights.items()})
        state = {
            "step": self.trainer.step,
            "epoch": self.trainer.epoch,
            "index": self.trainer.index,
            "best": self.best.perplexity if self.best.weights else None,
            "stale": self.best.n_stale,
            "losses": self.losses,
            "record": self.record,
        }
        write_tensors(self.state, tensors, state)

    def take_up(self) -> None:
        """Continue from the saved state."""
        try:
            tensors, state, _ = read_tensors(self.state)
            saved = state["record"]
        except (ModelFileError, KeyError, TypeError) as error:
            raise InputError(f"{str(self.state)!r} is damaged; delete it to train again") from error
        if saved["digest"] != self.record["digest"]:
            raise InputError(
                f"{str(self.state)!r} is of a training with other text or options; delete it to "
                "train again, or write to another file"
            )
        self.trainer.restore(tensors, state["step"], state["epoch"], state["index"])
        if state["best"] is not None:
            names = self.trainer.network.weights
            best = {name: tensors[f"best.{name}"].clone() for name in names}
            self.best = BestCheckpoint(state["best"], state["stale"], best)
        self.record.update({key: saved[key] for key in ("log", "seconds")})
        self.losses = list(state["losses"])


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
    """Return the digest of all that decides a training's course, without what may be changed."""
    decisive = asdict(options)
    for name in ("epochs", "full_epochs", "patience", "interval", "checkpoint_every"):
        del decisive[name]
    settings = repr((asdict(config), decisive, words.words)).encode()
    arrays = [a for part in (corpus, unseen) for a in (part.ids, part.offsets, part.repeats)]
    return digest_parts([settings, *(array.tobytes() for array in arrays)])


def _finished_record(out: Path, digest: str) -> dict[str, Any]:
    """Return the record of `out` if it is this very training's result; refuse to overwrite."""
    try:
        record = load_network(out)[1]
    except ModelFileError:
        record = {}
    if record.get("digest") == digest and record.get("finished"):
        return record
    raise OutputError(f"{str(out)!r} exists and is not of this training; delete it or rename it")
