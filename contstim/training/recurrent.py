"""Training of recurrent networks, which can be interrupted and resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError, OutputError
from contstim.files import check_writable, digest_parts
from contstim.models.devices import resolve_device
from contstim.models.recurrent import (
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    load_network,
    read_tensors,
)
from contstim.text import read_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.training.corpus import TokenCorpus, TrainingText, read_text
from contstim.training.network_files import STORAGES, save_network, write_tensors
from contstim.training.optimization import BestCheckpoint, gradient_step
from contstim.training.options import TrainingOptions
from contstim.training.progress import TrainingProgress
from contstim.training.softmax import NegativeSamples, cross_entropy

# Maximum number of tokens per sentence; longer lines would need too much memory.
_MAX_SENTENCE_LENGTH = 2000
# Maximum number of repetitions of a text per epoch.
_MAX_REPEATS = 10_000
# Maximum number of weights of a network, which take 16 GB in training.
_MAX_WEIGHTS = 10**9


def perplexity(network: RecurrentNetwork, corpus: TokenCorpus) -> float:
    """Return the perplexity per token, including the ends of sentences.

    The perplexity is exp of the mean negative log-probability; it is infinite if it exceeds the
    range of float64.
    """
    inputs, targets = [], []
    # Each sentence is a separate batch with one column.
    for index in range(len(corpus)):
        input_ids, target_ids = corpus.inputs_and_targets(np.array([index]), network.vocabulary)
        inputs.append(input_ids[:, 0])
        targets.append(target_ids[:, 0])
    log_probs = np.concatenate(network.log_probs(inputs, targets))
    # The perplexity is exp of the mean negative log-probability of a token.
    try:
        return math.exp(-float(log_probs.mean()))
    except OverflowError:
        return math.inf


class Trainer:
    """Trainer of a recurrent network, which takes one step at a time.

    The state of the optimizer and the position in the text can be saved and restored.

    Parameters
    ----------
    network
        The network, which is modified in place.
    corpus
        The training sentences.
    options
        Training options.
    """

    def __init__(
        self, network: RecurrentNetwork, corpus: TokenCorpus, options: TrainingOptions
    ) -> None:
        self.network, self.corpus, self.options = network, corpus, options
        self.step = self.epoch = self.batch_index = 0
        self._load_batches()
        # An epoch is counted as the number of batches of the first epoch.
        self.n_sampled_steps = round(options.epochs * len(self._batches))
        self.n_steps = self.n_sampled_steps
        if options.full_epochs > 0:
            self.n_steps += max(1, round(options.full_epochs * len(self._batches)))
        # Initialise the output biases with the log relative frequencies of the tokens, so that the
        # untrained network predicts like a unigram model. Add-one smoothing avoids log 0.
        vocabulary = network.vocabulary
        counts = np.bincount(corpus.ids, minlength=vocabulary.n_outputs).astype(np.float64)
        # Each sentence ends with one end symbol.
        counts[vocabulary.end] = len(corpus)
        frequencies = (counts + 1) / (counts + 1).sum()
        network.copy_weights({"output_bias": torch.from_numpy(np.log(frequencies)).float()})
        # The sampled softmax draws negative samples from the tail: all tokens except the most
        # frequent ones, with probabilities proportional to (count + 1)^0.75.
        tail_weights = (counts[options.head :] + 1) ** 0.75
        self._tail_probs = tail_weights / tail_weights.sum()
        self._tail_cumulative = np.cumsum(self._tail_probs)
        for tensor in network.weights.values():
            tensor.requires_grad_()
        self.optimizer = torch.optim.AdamW(
            network.weights.values(), weight_decay=options.weight_decay, fused=True
        )

    def _load_batches(self) -> None:
        """Split the sentences of the current epoch into batches."""
        options = self.options
        self._batches = self.corpus.make_batches(options.batch_tokens, options.seed, self.epoch)

    @property
    def uses_full_softmax(self) -> bool:
        """Whether the next step belongs to the phase with the full softmax."""
        return self.step >= self.n_sampled_steps

    @property
    def is_finished(self) -> bool:
        """Whether all steps were taken."""
        return self.step >= self.n_steps

    def sample_negatives(self) -> NegativeSamples:
        """Draw the tokens over which the softmax of the next training step is computed.

        In the first phase of training, the softmax covers the most frequent tokens and a random
        sample of the others (see `NegativeSamples`). In the last phase, or with a small vocabulary,
        it covers all tokens.
        """
        options, device = self.options, self.network.device
        n_outputs = self.network.vocabulary.n_outputs
        # Full softmax: all tokens belong to the head, so none is sampled.
        if self.uses_full_softmax or n_outputs <= options.head + options.samples:
            empty = torch.zeros(0, device=device)
            return NegativeSamples(n_outputs, empty.long(), empty)
        # Sample from the tail by inverting its cumulative distribution function.
        rng = np.random.default_rng([options.seed, 4, self.step])
        draws = np.searchsorted(self._tail_cumulative, rng.random(options.samples))
        draws = draws.clip(max=len(self._tail_probs) - 1)
        # Importance weight of a token that was drawn n times in K draws: n / (K q), where q is its
        # sampling probability.
        tail, n_draws = np.unique(draws, return_counts=True)
        log_weight = np.log(n_draws / (options.samples * self._tail_probs[tail]))
        # Tail tokens are numbered from 0; their ids follow the ids of the head.
        return NegativeSamples(
            options.head,
            torch.from_numpy(tail + options.head).to(device),
            torch.from_numpy(log_weight).float().to(device),
        )

    def train_step(self) -> float:
        """Take one step and return its loss in nats per token."""
        options = self.options
        # After the last batch of an epoch, continue with the next epoch.
        while self.batch_index >= len(self._batches):
            self.epoch, self.batch_index = self.epoch + 1, 0
            self._load_batches()
        loss = self.batch_loss(self._batches[self.batch_index])
        # Increase the rate linearly during the warm-up, and decrease it to 0 over all steps.
        warmup_factor = min(1.0, (self.step + 1) / max(1, options.warmup))
        rate = options.learning_rate * warmup_factor * (1 - self.step / self.n_steps)
        self.step += 1
        self.batch_index += 1
        weights = list(self.network.weights.values())
        return gradient_step(self.optimizer, weights, loss, rate, options.clip)

    def batch_loss(self, indices: IntArray) -> Tensor:
        """Return the cross-entropy of a batch of sentences, in nats per token.

        `indices` are the indices of the sentences, which must have the same number of tokens.
        """
        network = self.network
        dtype = torch.bfloat16 if self.options.precision == "bfloat16" else torch.float32
        # Arrays of token ids, shape (time steps, sentences).
        inputs, targets = (
            torch.from_numpy(ids).to(network.device)
            for ids in self.corpus.inputs_and_targets(indices, network.vocabulary)
        )
        hidden, _ = network.forward(inputs, network.initial_state(inputs.shape[1], dtype))
        # Combine time steps and sentences into one axis of predictions.
        return cross_entropy(
            network.project(hidden.flatten(0, 1)),
            targets.flatten(),
            network.output_weights,
            network.weights["output_bias"],
            self.sample_negatives(),
        )

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the weights and the optimizer's moving averages by name, to save them."""
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.network.weights.items():
            tensors[f"now.{name}"] = tensor
            for key, value in self.optimizer.state[tensor].items():
                tensors[f"{key}.{name}"] = value
        return tensors

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from saved tensors and the saved position in the text."""
        self.network.copy_weights({name: tensors[f"now.{name}"] for name in self.network.weights})
        # AdamW stores a step count and two moving averages of the gradient for each weight.
        for name, tensor in self.network.weights.items():
            self.optimizer.state[tensor] = {
                key: tensors[f"{key}.{name}"].to(tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.step, self.epoch, self.batch_index = state["step"], state["epoch"], state["index"]
        self._load_batches()


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
    """Train an RNN or LSTM language model and write it to a file.

    The file is loaded as ``rnn:OUT`` or ``lstm:OUT``. During training it contains the best weights
    up to the last evaluation, and ``OUT.state`` contains the training state. An interrupted
    training continues if the function is called again with the same arguments; only the numbers of
    epochs, `patience` and `interval` may differ. On a CPU, the resulting weights are the same as
    without an interruption.

    Parameters
    ----------
    text
        UTF-8 text files with one sentence per line and words separated by spaces, gzip-compressed
        if their names end in ``.gz``.
    out
        Safetensors file to write.
    config
        Architecture of the network.
    options
        Training options.
    weights
        Number of repetitions of each file per epoch; by default 1.
    vocabulary, min_count
        File of words separated by white space; by default all words that occur at least `min_count`
        times. Other words belong to the unknown-word class.
    heldout, heldout_share
        File of sentences for early stopping and the final perplexity; by default a random fraction
        `heldout_share` of the text.
    punctuation
        Treatment of punctuation marks: ``keep``, ``split`` or ``drop`` (see
        `contstim.text.tokenize_word`). Load the model with the same option.
    storage
        Data type of the stored matrices: ``float32``, ``float16`` or ``int8``.
    device
        PyTorch name of the training device.
    progress
        Whether to report progress on standard error.
    language
        Language that determines how lines are split into words. Load the model with the same
        option.

    Returns
    -------
    dict
        The training record, which is also stored in the file: options, size of the text,
        `heldout_perplexity` per token (including unknown words and ends of sentences), the `log` of
        evaluations, and `finished`.

    Raises
    ------
    InputError
        If text is missing, empty or not UTF-8, if the saved state belongs to a different training
        run, or if the training diverges.
    OutputError
        If `out` cannot be written, or exists and belongs to a different training run.
    """
    options = TrainingOptions() if options is None else options
    if storage not in STORAGES:
        raise InputError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    if not text:
        raise InputError("training needs at least one text file")
    repeats = [1.0] * len(text) if weights is None else [float(weight) for weight in weights]
    if len(repeats) != len(text) or not all(0 < r <= _MAX_REPEATS for r in repeats):
        raise InputError(
            f"give one weight above 0 and up to {_MAX_REPEATS} for each of {len(text)} files, "
            f"got {repeats}"
        )
    torch_device = resolve_device(device)
    check_writable(out)

    training_text = _read_sentences(text, punctuation, language)
    if vocabulary is None:
        words = TokenVocabulary(training_text.frequent_words(min_count))
    else:
        words = TokenVocabulary(training_text.sort_by_frequency(read_words(vocabulary)))
    n_weights = sum(math.prod(shape) for shape in config.weight_shapes(words.n_outputs).values())
    if n_weights > _MAX_WEIGHTS:
        raise InputError(
            f"the network would have {n_weights} weights, more than {_MAX_WEIGHTS}; reduce "
            "embedding, hidden or the vocabulary"
        )
    corpus = TokenCorpus.from_text(training_text, words, repeats)
    if heldout is None:
        corpus, unseen = corpus.split(heldout_share, options.seed)
    else:
        heldout_text = _read_sentences([heldout], punctuation, language)
        unseen = TokenCorpus.from_text(heldout_text, words, [1.0])
    # Digest of all arguments that must not change when training is resumed.
    fixed_options = asdict(options)
    for name in ("epochs", "full_epochs", "patience", "interval", "checkpoint_every"):
        del fixed_options[name]
    settings = repr((asdict(config), fixed_options, words.words)).encode()
    arrays = [a for part in (corpus, unseen) for a in (part.ids, part.offsets, part.repeats)]
    record: dict[str, Any] = {
        "digest": digest_parts([settings, *(array.tobytes() for array in arrays)]),
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

    state_path = out.with_name(out.name + ".state")
    if out.exists() and not state_path.exists():
        try:
            existing = load_network(out)[1]
        except ModelFileError:
            existing = {}
        if existing.get("digest") == record["digest"] and existing.get("finished"):
            return existing
        raise OutputError(
            f"{str(out)!r} exists and belongs to a different training run; delete or rename it"
        )
    network = RecurrentNetwork.initialise(config, words, options.seed).to(torch_device)
    monitor = unseen.subsample(options.heldout_tokens, options.seed)
    run = _TrainingRun(Trainer(network, corpus, options), monitor, record, out, state_path, storage)
    if state_path.exists():
        run.resume()
    run.train(progress)
    record["heldout_perplexity"] = perplexity(network, unseen)
    record["finished"] = True
    save_network(out, network, record, storage)
    state_path.unlink(missing_ok=True)
    return record


def _read_sentences(paths: Sequence[Path], punctuation: str, language: Language) -> TrainingText:
    """Read text files, each of which must contain at least one sentence."""
    text = read_text(paths, punctuation, _MAX_SENTENCE_LENGTH, language)
    if 0 in text.n_sentences:
        empty_path = paths[text.n_sentences.index(0)]
        raise InputError(f"there is no sentence in {str(empty_path)!r}")
    return text


@dataclass(eq=False)
class _TrainingRun:
    """Training of a recurrent network with evaluations, early stopping and saved states.

    Attributes
    ----------
    trainer
        Network, optimizer and training sentences.
    monitor
        Held-out sentences of the evaluations.
    record
        Training record, which is stored with the network.
    out
        File of the network with the lowest perplexity so far.
    state_path
        File of the training state, from which an interrupted training continues.
    storage
        Data type of the stored matrices.
    best
        Weights with the lowest perplexity so far.
    losses
        Losses of the steps since the last evaluation.
    """

    trainer: Trainer
    monitor: TokenCorpus
    record: dict[str, Any]
    out: Path
    state_path: Path
    storage: str
    best: BestCheckpoint = field(default_factory=BestCheckpoint)
    losses: list[float] = field(default_factory=list)
    _clock: float = field(default_factory=time.monotonic)

    def train(self, progress: bool) -> None:
        """Train to the end and load the best weights into the network."""
        trainer, options = self.trainer, self.trainer.options
        network = trainer.network
        with TrainingProgress(trainer.n_steps, trainer.step, progress) as bar:
            while not trainer.is_finished:
                self.losses.append(trainer.train_step())
                bar.step(self.losses[-1])
                is_phase_end = trainer.step == trainer.n_sampled_steps
                is_due = trainer.step % options.interval == 0 or trainer.is_finished or is_phase_end
                is_best = is_due and self.evaluate(bar)
                if self.best.n_stale >= options.patience:
                    # End the phase early: return to the best weights and skip its other steps.
                    network.copy_weights(self.best.weights)
                    self.best.n_stale = 0
                    is_last_phase = trainer.uses_full_softmax
                    trainer.step = trainer.n_steps if is_last_phase else trainer.n_sampled_steps
                elif is_phase_end:
                    self.best.n_stale = 0
                if is_due or trainer.step % options.checkpoint_every == 0:
                    self.save_state()
                if is_best:
                    best = RecurrentNetwork(network.config, network.vocabulary, self.best.weights)
                    save_network(self.out, best, self.record, self.storage)
        if not self.best.weights:
            self.state_path.unlink(missing_ok=True)  # A diverged training cannot be resumed.
            raise InputError(
                "training has diverged: the held-out perplexity was never finite; "
                "lower the learning rate"
            )
        network.copy_weights(self.best.weights)

    def evaluate(self, bar: TrainingProgress) -> bool:
        """Log the held-out perplexity and return whether it is the lowest so far."""
        network, step = self.trainer.network, self.trainer.step
        value, loss = perplexity(network, self.monitor), sum(self.losses) / len(self.losses)
        seconds = self.count_seconds()
        entry = {"step": step, "loss": loss, "perplexity": value, "seconds": round(seconds, 1)}
        self.record["log"].append(entry)
        # The next evaluation reports the mean loss of the steps after this one.
        self.losses.clear()
        bar.log(
            f"step {step} of {self.trainer.n_steps}: loss {loss:.4f}, held-out perplexity "
            f"{value:.2f}, {seconds:.0f} s"
        )
        return self.best.update(value, network.weights)

    def count_seconds(self) -> float:
        """Add the time since the last call to the training time, and return the sum in seconds."""
        now = time.monotonic()
        self.record["seconds"] += now - self._clock
        self._clock = now
        return float(self.record["seconds"])

    def save_state(self) -> None:
        """Write the training state."""
        self.count_seconds()
        tensors = self.trainer.state_tensors()
        # Besides the current weights, keep the best ones, which become the result.
        tensors.update({f"best.{name}": tensor for name, tensor in self.best.weights.items()})
        # Position in the text, state of early stopping, and training record, as JSON values.
        state = {
            "step": self.trainer.step,
            "epoch": self.trainer.epoch,
            "index": self.trainer.batch_index,
            "best": self.best.perplexity if self.best.weights else None,
            "stale": self.best.n_stale,
            "losses": self.losses,
            "record": self.record,
        }
        write_tensors(self.state_path, tensors, state)

    def resume(self) -> None:
        """Continue from the saved training state.

        Raises
        ------
        InputError
            If the file is damaged, or belongs to a training run with different text or options.
        """
        try:
            tensors, state, _ = read_tensors(self.state_path)
            saved_record = state["record"]
        except (ModelFileError, KeyError, TypeError) as error:
            raise InputError(f"{str(self.state_path)!r} is damaged; delete it and retry") from error
        # The digest identifies the text and the options of a training run.
        if saved_record["digest"] != self.record["digest"]:
            raise InputError(
                f"{str(self.state_path)!r} belongs to a training run with different text or "
                "options; delete it to train again, or write to another file"
            )
        self.trainer.load_state(tensors, state)
        if state["best"] is not None:
            names = self.trainer.network.weights
            best_weights = {name: tensors[f"best.{name}"].clone() for name in names}
            self.best = BestCheckpoint(state["best"], state["stale"], best_weights)
        # Continue the log and the elapsed time, but record the present options.
        self.record.update({key: saved_record[key] for key in ("log", "seconds")})
        self.losses = list(state["losses"])
