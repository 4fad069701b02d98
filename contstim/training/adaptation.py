"""Domain adaptation of masked models, stopped early by pseudo-perplexity.

The pseudo-perplexity of held-out text measures how well a masked model fits a domain. Unlike the
accuracy on masked tokens, it is continuous and does not depend on random masks (Salazar et al.
2020, section 2.3).
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError
from contstim.files import check_new_folder
from contstim.models import ModelSpec
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.network import Network
from contstim.models.registry import load_model
from contstim.training.batches import batch_by_length
from contstim.training.optimization import BestCheckpoint, gradient_step, linear_schedule
from contstim.training.options import AdaptOptions
from contstim.training.progress import TrainingProgress
from contstim.training.saving import new_folder

# Fractions of the predicted tokens that are replaced with the mask token and with a random token.
_MASK_PROB, _RANDOM_PROB = 0.8, 0.1
# Fraction of the distinct sentences that is held out by default, and its maximum number.
_HELDOUT_SHARE, _MAX_HELDOUT = 0.1, 200
# Fraction of the steps that belongs to the warm-up of the learning rate.
_WARMUP = 0.1
# Maximum logarithm of a perplexity; exp exceeds the range of float64 above 709.
_MAX_LOG_PERPLEXITY = 700.0
# Name of the file with the record of the adaptation.
_RECORD = "adaptation.json"


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """A batch of R sentences of L tokens for masked language modelling.

    Attributes
    ----------
    ids
        Token ids after masking, shape (R, L).
    rows, positions
        Row and position of each of the m tokens to predict, shape (m,), in ascending order of rows.
    targets
        Original ids of these tokens, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    targets: IntArray


def shuffled_batches(
    encoded: Sequence[EncodedSentence], max_tokens: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Yield batches of sentences of equal length in random order, for one epoch.

    Parameters
    ----------
    encoded
        S tokenised sentences.
    max_tokens
        Maximum number of tokens per batch. A single longer sentence forms a batch.
    rng
        Random number generator.

    Yields
    ------
    list of int
        Indices of the sentences of a batch.
    """
    lengths = np.array([len(sentence.ids) for sentence in encoded])
    order = rng.permutation(len(encoded))
    batches = batch_by_length(order, lengths, lambda length: max_tokens // length)
    for i in rng.permutation(len(batches)):
        yield batches[i].tolist()


def mask_tokens(
    encoded: Sequence[EncodedSentence],
    mask_fraction: float,
    mask_id: int,
    ordinary_ids: IntArray,
    rng: np.random.Generator,
) -> MaskedBatch:
    """Mask random tokens in sentences of equal length for masked language modelling.

    In a sentence of T tokens without special tokens, ``max(1, round(mask_fraction * T))`` randomly
    selected tokens are to be predicted. Of these, 80 % are replaced with the mask token, 10 % with
    a random token, and 10 % stay unchanged (Devlin et al. 2019, section 3.1). Call the function
    again in each epoch, so that different tokens are masked (Liu et al. 2019, section 4.1).

    Parameters
    ----------
    encoded
        R tokenised sentences of equal length.
    mask_fraction
        Fraction of the tokens of a sentence to predict.
    mask_id
        Id of the mask token.
    ordinary_ids
        Ids of the tokens that are not special, from which random tokens are drawn.
    rng
        Random number generator.
    """
    ids = np.array([sentence.ids for sentence in encoded])
    # Select the tokens to predict: the given fraction of each sentence, at least one token. Special
    # tokens, such as [CLS], have no scored position and are never selected.
    rows_by_sentence, positions_by_sentence = [], []
    for row, sentence in enumerate(encoded):
        n_selected = max(1, round(mask_fraction * len(sentence.scored_positions)))
        selected = rng.choice(sentence.scored_positions, size=n_selected, replace=False)
        rows_by_sentence.append(np.full(n_selected, row, dtype=np.int64))
        positions_by_sentence.append(np.sort(selected))
    rows, positions = np.concatenate(rows_by_sentence), np.concatenate(positions_by_sentence)
    # The network has to predict the original tokens.
    targets = ids[rows, positions]
    # As in BERT, hide 80 % of the selected tokens behind the mask, replace 10 % with random tokens,
    # and leave 10 % unchanged.
    uniform_draws = rng.random(len(rows))
    random_ids = rng.choice(ordinary_ids, size=len(rows))
    random_or_unchanged = np.where(uniform_draws < _MASK_PROB + _RANDOM_PROB, random_ids, targets)
    ids[rows, positions] = np.where(uniform_draws < _MASK_PROB, mask_id, random_or_unchanged)
    return MaskedBatch(ids, rows, positions, targets)


@dataclass(frozen=True)
class Perplexities:
    """Pseudo-perplexities of a masked model on two texts after a number of training steps.

    The texts are held-out sentences of the domain that the model is adapted to, and sentences of
    another corpus. Pseudo-perplexity is exp of the mean negative log-probability of a masked token.
    Values per word are comparable between models with different tokenizers (Salazar et al. 2020,
    section 2.3).

    Attributes
    ----------
    step
        Number of training steps before the evaluation.
    domain, other
        Pseudo-perplexity per token on the domain and on the other corpus.
    domain_word, other_word
        Pseudo-perplexity per word on the domain and on the other corpus.
    """

    step: int
    domain: float
    other: float
    domain_word: float
    other_word: float


@dataclass(frozen=True)
class Adaptation:
    """Result of adapting a masked model to a domain by further pre-training.

    Attributes
    ----------
    before, after
        Pseudo-perplexities of the original model and of the adapted model.
    log
        Pseudo-perplexities of all evaluations, beginning with the original model.
    n_train, n_left_out
        Number of training sentences, and of sentences that were left out because the model cannot
        process them.
    n_domain, n_other
        Numbers of sentences for the evaluation: from the domain, and from the other corpus.
    """

    before: Perplexities
    after: Perplexities
    log: tuple[Perplexities, ...]
    n_train: int
    n_left_out: int
    n_domain: int
    n_other: int


def adapt(
    base: str,
    text: Sequence[str],
    out: Path | str,
    *,
    other: Sequence[str],
    domain: Sequence[str] | None = None,
    options: AdaptOptions | None = None,
    progress: bool = True,
) -> Adaptation:
    """Continue the pre-training of a masked model on text of a domain.

    The weights are evaluated at regular intervals. The weights with the lowest pseudo-perplexity on
    held-out text of the domain, possibly the original ones, are written to a new folder, together
    with the record ``adaptation.json``. The folder is a checkpoint of the package `transformers`,
    which is loaded as ``hf:OUT``. The same arguments yield the same weights on the same machine
    with the same number of threads.

    Parameters
    ----------
    base
        Model specification string of a masked transformer (``hf:FOLDER``, ``contstim:bert``), or
        its folder. The device of the specification is used for training.
    text
        Sentences of the domain. Sentences that the model cannot process, because they are too long
        or contain unknown words, are left out and counted.
    out
        Folder to write.
    other
        Sentences of another corpus, to measure how the adaptation changes the model there.
    domain
        Held-out sentences of the domain; by default a random tenth of the distinct sentences of
        `text`, at most 200, which are excluded from training.
    options
        Training options.
    progress
        Whether to report progress on standard error.

    Raises
    ------
    InputError
        If `base` is not a masked transformer, there is too little text, or training diverges.
    OutputError
        If `out` exists or cannot be written.
    """
    options = AdaptOptions() if options is None else options
    target = Path(out)
    check_new_folder(target)
    model = _load_trainable_copy(base)
    rng = np.random.default_rng(options.seed)
    usable: list[str] = []
    encoded: list[EncodedSentence] = []
    for sentence in text:
        with suppress(InputError):
            encoded += model.encode([sentence])
            usable.append(sentence)
    if domain is None:
        # Hold out distinct sentences with all their copies.
        distinct = list(dict.fromkeys(usable))
        n_heldout = min(_MAX_HELDOUT, int(len(distinct) * _HELDOUT_SHARE))
        drawn = {distinct[i] for i in rng.choice(len(distinct), size=n_heldout, replace=False)}
        encoded = [e for e, sentence in zip(encoded, usable, strict=True) if sentence not in drawn]
        domain = [sentence for sentence in distinct if sentence in drawn]
    if not encoded:
        raise InputError("there is no sentence to train on; give more text")
    if not domain or not other:
        raise InputError("pseudo-perplexity needs at least one sentence; give more text")
    log = _train(model, encoded, domain, other, options, rng, progress)
    after = min(log, key=lambda perplexities: (perplexities.domain, perplexities.step))
    n_left_out = len(text) - len(usable)
    adaptation = Adaptation(
        log[0], after, tuple(log), len(encoded), n_left_out, len(domain), len(other)
    )
    record = {"base": base, "options": asdict(options), **asdict(adaptation)}
    write_checkpoint(target, model.network.model, model.checkpoint.tokenizer, record)
    return adaptation


def _load_trainable_copy(base: str) -> MaskedModel:
    """Load a masked model for training, with a separate copy of the weights.

    Parameters
    ----------
    base
        Model specification string, such as ``contstim:bert``, or folder of a checkpoint.

    Returns
    -------
    MaskedModel
        Model that scores sentences by pseudo-log-likelihood (metric ``pll``), from which
        pseudo-perplexity is computed. All other options are taken from `base`.

    Raises
    ------
    InputError
        If `base` is not a masked transformer.
    """
    loaded = load_model(f"hf:{base}" if Path(base).expanduser().is_dir() else base)
    if not isinstance(loaded, MaskedModel):
        raise InputError(
            f"{base!r} is not a masked transformer; give one with an encoder, such as hf:FOLDER"
        )
    # Loaded weights are cached and shared between models, so they must not be trained.
    shared_network = loaded.checkpoint.network
    weights = copy.deepcopy(shared_network.model).requires_grad_(True)
    checkpoint = replace(loaded.checkpoint, network=Network(weights, shared_network.device))
    # Make all options explicit, since the spec of a bundled model does not contain them.
    shared = loaded.tokenizer.options
    options = {name: getattr(shared, name) for name in ("first", "punctuation", "unknown")}
    if shared.batch_tokens is not None:
        options["batch_tokens"] = str(shared.batch_tokens)
    options["metric"] = "pll"
    location = ModelSpec.parse(loaded.spec).location
    return MaskedModel(ModelSpec("hf", location, tuple(sorted(options.items()))), checkpoint)


def _train(
    model: MaskedModel,
    encoded: list[EncodedSentence],
    domain: Sequence[str],
    other: Sequence[str],
    options: AdaptOptions,
    rng: np.random.Generator,
    progress: bool,
) -> list[Perplexities]:
    """Train a masked model with early stopping, and restore its best weights.

    The best weights have the lowest pseudo-perplexity on `domain` among all evaluations.

    Parameters
    ----------
    model
        Model to train in place.
    encoded
        Tokenised training sentences.
    domain, other
        Held-out sentences of the domain and sentences of another corpus, for the evaluations.
    options
        Training options.
    rng
        Random number generator for the order of the sentences and for the masks.
    progress
        Whether to report progress on standard error.

    Returns
    -------
    list of Perplexities
        Results of the evaluations in chronological order.
    """
    network = model.network
    weights = list(network.model.parameters())
    ordinary_ids = np.flatnonzero(~model.tokenizer.token_classes.is_special).astype(np.int64)
    optimizer = torch.optim.AdamW(weights, weight_decay=0.01)
    log: list[Perplexities] = []
    best, step = BestCheckpoint(), 0
    epochs = (shuffled_batches(encoded, options.batch_tokens, rng) for _ in itertools.count())
    batches = itertools.chain.from_iterable(epochs)
    devices = [network.device] if network.device.type == "cuda" else []
    with torch.random.fork_rng(devices), TrainingProgress(options.steps, 0, progress) as bar:
        torch.manual_seed(options.seed)
        while True:
            if step % options.interval == 0 or step == options.steps:
                network.model.eval()
                domain_token, domain_word = _pseudo_perplexity(model, domain, step)
                other_token, other_word = _pseudo_perplexity(model, other, step)
                log.append(Perplexities(step, domain_token, other_token, domain_word, other_word))
                bar.log(
                    f"step {step}: pseudo-perplexity per token {domain_token:.2f} (domain), "
                    f"{other_token:.2f} (other)"
                )
                best.update(domain_token, network.model.state_dict())
                if step == options.steps or best.n_stale >= options.patience:
                    break
            sentences = [encoded[i] for i in next(batches)]
            batch = mask_tokens(sentences, options.mask_share, model.mask_id, ordinary_ids, rng)
            network.model.train()
            ids, rows, positions, targets = (
                torch.from_numpy(array).to(network.device)
                for array in (batch.ids, batch.rows, batch.positions, batch.targets)
            )
            logits = network.logits(ids, rows, positions)
            loss = torch.nn.functional.cross_entropy(logits, targets)
            rate = options.learning_rate * linear_schedule(step, options.steps, _WARMUP)
            bar.step(gradient_step(optimizer, weights, loss, rate))
            step += 1
    network.model.load_state_dict(best.weights)
    return log


def _pseudo_perplexity(
    model: MaskedModel, sentences: Sequence[str], step: int
) -> tuple[float, float]:
    """Return the pseudo-perplexity of sentences per token and per word.

    The value per token is exp(-L / T), where L is the pseudo-log-likelihood of all sentences and T
    their number of tokens (Salazar et al. 2020, section 2.3). Per word, T is the number of words.

    Parameters
    ----------
    model
        Masked model that is being trained.
    sentences
        Sentences to evaluate the model on.
    step
        Number of training steps taken, for the error message.

    Raises
    ------
    InputError
        If a value is not finite or extremely high, because the training has diverged.
    """
    try:
        scores = model.score_with_counts(list(sentences))
    except ModelFileError:
        # Before the first training step, a failure cannot be caused by the training.
        if step == 0:
            raise
        raise InputError(
            f"the training has diverged: after {step} steps the outputs of the network are not "
            "numbers; lower the learning rate"
        ) from None
    # The pseudo-perplexity is exp(-L / T) for the total pseudo-log-likelihood L and T tokens or
    # words.
    counts = np.array([scores.n_tokens.sum(), scores.n_words.sum()])
    log_perplexities = -scores.score.sum() / counts
    # The comparison is also false for NaN.
    if not (log_perplexities < _MAX_LOG_PERPLEXITY).all():
        raise InputError(
            f"the training has diverged: after {step} steps the pseudo-perplexity per word is "
            f"exp({log_perplexities[1]:.0f}); lower the learning rate"
        )
    per_token, per_word = np.exp(log_perplexities).tolist()
    return per_token, per_word


def write_checkpoint(folder: Path, model: Any, tokenizer: Any, record: dict[str, Any]) -> None:
    """Write an adapted model into a new folder, as a checkpoint of Hugging Face transformers.

    Parameters
    ----------
    folder
        Folder to write.
    model, tokenizer
        Network and tokenizer of the package `transformers`.
    record
        Training record as JSON values, written to ``adaptation.json``.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    """
    with new_folder(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (temporary / _RECORD).write_text(text, encoding="utf-8")
