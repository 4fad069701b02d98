"""Domain adaptation of a masked model, stopped early by its pseudo-perplexity.

Salazar et al. (2020), section 2.3: the pseudo-perplexity of held-out text is a smooth measure of
how well a masked model fits a domain, where the share of masked tokens that are predicted right is
neither continuous nor the same from one drawing of masks to the next.
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

from contstim.arrays import IntArray, length_batches
from contstim.errors import InputError, ModelFileError
from contstim.files import check_new_folder
from contstim.models import ModelSpec
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.network import Network
from contstim.models.registry import load_model
from contstim.progress import TrainingProgress
from contstim.training.optimization import BestCheckpoint, gradient_step, linear_schedule
from contstim.training.options import AdaptOptions
from contstim.training.saving import new_folder

# Of the hidden tokens these shares become the mask token and a random token; the others stay.
_MASK, _RANDOM = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Rows of one length with hidden tokens.

    Attributes
    ----------
    ids
        Token ids with some replaced, shape (R, L).
    rows, positions
        The m hidden places, shape (m,), rows ascending.
    targets
        The tokens that stood there, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    targets: IntArray


def shuffled_batches(
    encoded: Sequence[EncodedSentence], tokens: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Yield one pass over S sentences, in batches of one length and at most `tokens` tokens.

    Both what stands together and the order of the batches are drawn again by `rng`.
    """
    lengths = np.array([len(e.ids) for e in encoded])
    order = rng.permutation(len(encoded))
    groups = length_batches(order, lengths, lambda length: tokens // length)
    for g in rng.permutation(len(groups)):
        yield groups[g].tolist()


def mask_tokens(
    encoded: Sequence[EncodedSentence],
    share: float,
    mask_id: int,
    ordinary: IntArray,
    rng: np.random.Generator,
) -> MaskedBatch:
    """Hide tokens of sentences of one length, drawn again each time.

    Of the T scored tokens of a sentence ``max(1, round(share * T))`` are hidden, special tokens
    never. Of the hidden ones 80 % become the mask token, 10 % a random one, and 10 % stay as they
    are (Devlin et al. 2019, section 3.1), drawn again in each pass (Liu et al. 2019, section 4.1).

    Parameters
    ----------
    encoded
        R sentences of one length.
    share
        Share of tokens that are hidden.
    mask_id
        The mask token.
    ordinary
        Ids from which random tokens are drawn.
    rng
        The source of chance.
    """
    ids = np.array([e.ids for e in encoded])
    rows, positions = [], []
    for row, e in enumerate(encoded):
        n = max(1, round(share * len(e.scored_positions)))
        places = np.sort(rng.choice(e.scored_positions, size=n, replace=False))
        rows.append(np.full(n, row, dtype=np.int64))
        positions.append(places)
    at, where = np.concatenate(rows), np.concatenate(positions)
    targets = ids[at, where]
    fate = rng.random(len(at))
    random = rng.choice(ordinary, size=len(at))
    replaced = np.where(fate < _MASK, mask_id, np.where(fate < _MASK + _RANDOM, random, targets))
    ids[at, where] = replaced
    return MaskedBatch(ids, at, where, targets)


_DEV_SHARE, _MOST_DEV = 0.1, 200
_WARM_UP = 0.1
# Of a perplexity; float64 ends at 709.
_LARGEST_LOG = 700.0


@dataclass(frozen=True)
class Perplexities:
    """Pseudo-perplexities after `step` steps, per token and per word.

    Attributes
    ----------
    step
        Steps done.
    domain, other
        Of the development part of the domain, and of the other corpus, per token.
    domain_word, other_word
        The same per word, which compares between vocabularies (Salazar et al. 2020, section 2.3).
    """

    step: int
    domain: float
    other: float
    domain_word: float
    other_word: float


@dataclass(frozen=True)
class Adaptation:
    """What an adaptation gives.

    Attributes
    ----------
    before, after
        Pseudo-perplexities of the base and of the model that was kept.
    log
        All evaluations, the first before any step.
    n_train, n_left_out, n_domain, n_other
        Sentences trained on, left out because the model cannot take them, and of both corpora.
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
    """Continue the pre-training of a masked model on `text` and write it to `out`.

    The folder is a checkpoint of transformers, to be loaded as ``hf:OUT``, with a record of the
    adaptation, ``adaptation.json``. It holds the weights with the lowest pseudo-perplexity on the
    development part of the domain among those evaluated, the base's own included, and appears
    whole or not at all. On one machine and number of threads the same arguments give the same
    weights.

    Parameters
    ----------
    base
        Spec of a masked transformer (``hf:FOLDER``, ``contstim:bert`` ...) or its folder. A
        ``device=`` in it is where the training runs.
    text
        Sentences of the domain. Those that the model cannot take (too long, or with words that its
        vocabulary cannot write) are left out and counted.
    out
        The folder to write.
    other
        Sentences of another corpus, to see what the adaptation costs there.
    domain
        Sentences of the domain's development part; by default a tenth of `text`, at most 200
        sentences, drawn at random and not trained on.
    options
        How to train.
    progress
        Whether to report on standard error.

    Raises
    ------
    InputError
        If `base` is not a masked transformer, there is too little text, or the training diverges.
    OutputError
        If `out` is there already or cannot be written.
    """
    options = AdaptOptions() if options is None else options
    target = Path(out)
    check_new_folder(target)
    model = _own(base)
    rng = np.random.default_rng(options.seed)
    usable, encoded = _usable(model, text)
    if domain is None:
        # A development part is split off; all copies of a sentence fall to one part.
        distinct = list(dict.fromkeys(usable))
        n_dev = min(_MOST_DEV, int(len(distinct) * _DEV_SHARE))
        taken = {distinct[i] for i in rng.choice(len(distinct), size=n_dev, replace=False)}
        encoded = [item for item, s in zip(encoded, usable, strict=True) if s not in taken]
        domain = [s for s in distinct if s in taken]
    if not encoded:
        raise InputError("there is no sentence to train on; give more text")
    if not domain or not other:
        raise InputError("a pseudo-perplexity needs a sentence at least; give more text")
    log = _train(model, encoded, domain, other, options, rng, progress)
    after = min(log, key=lambda p: (p.domain, p.step))
    adaptation = Adaptation(
        log[0], after, tuple(log), len(encoded), len(text) - len(usable), len(domain), len(other)
    )
    record = {"base": base, "options": asdict(options), **asdict(adaptation)}
    write_checkpoint(target, model.network.model, model.checkpoint.tokenizer, record)
    return adaptation


def _own(base: str) -> MaskedModel:
    """Load a masked model with weights of its own, scored by its pseudo-log-likelihood."""
    spec = f"hf:{base}" if Path(base).expanduser().is_dir() else base
    loaded = load_model(spec)
    if not isinstance(loaded, MaskedModel):
        raise InputError(
            f"{base!r} is not a masked transformer; give one with an encoder, such as hf:FOLDER"
        )
    source = loaded.checkpoint
    # Loaded weights are shared by all that use them; what is trained must not be.
    weights = copy.deepcopy(source.network.model).requires_grad_(True)
    network = Network(weights, source.network.device)
    checkpoint = replace(source, network=network)
    # A bundled model's own options do not show in its spec; they hold all the same.
    shared = loaded.tokenizer.options
    options = {"first": shared.first, "punctuation": shared.punctuation, "unknown": shared.unknown}
    if shared.batch_tokens is not None:
        options["batch_tokens"] = str(shared.batch_tokens)
    location = ModelSpec.parse(loaded.spec).location
    spec_of_own = ModelSpec("hf", location, tuple(sorted({**options, "metric": "pll"}.items())))
    return MaskedModel(spec_of_own, checkpoint)


def _usable(model: MaskedModel, text: Sequence[str]) -> tuple[list[str], list[EncodedSentence]]:
    """Return the sentences that the model can take, and their tokens."""
    sentences: list[str] = []
    encoded: list[EncodedSentence] = []
    for sentence in text:
        with suppress(InputError):
            encoded += model.encode([sentence])
            sentences.append(sentence)
    return sentences, encoded


def _train(
    model: MaskedModel,
    encoded: list[EncodedSentence],
    domain: Sequence[str],
    other: Sequence[str],
    options: AdaptOptions,
    rng: np.random.Generator,
    progress: bool,
) -> list[Perplexities]:
    """Train until the domain's pseudo-perplexity falls no more; leave the best weights in place."""
    network, tokens = model.network, options.batch_tokens
    weights = list(network.model.parameters())
    ordinary = np.flatnonzero(~model.tokenizer.token_classes.is_special).astype(np.int64)
    optimiser = torch.optim.AdamW(weights, weight_decay=0.01)
    log: list[Perplexities] = []
    best, step = BestCheckpoint(), 0
    stream = (group for _ in itertools.count() for group in shuffled_batches(encoded, tokens, rng))
    devices = [network.device] if network.device.type == "cuda" else []
    with torch.random.fork_rng(devices), TrainingProgress(options.steps, 0, progress) as bar:
        torch.manual_seed(options.seed)
        while True:
            if step % options.interval == 0 or step == options.steps:
                log.append(_evaluate(model, step, domain, other))
                bar.log(
                    f"step {step}: pseudo-perplexity per token {log[-1].domain:.2f} (domain), "
                    f"{log[-1].other:.2f} (other)"
                )
                best.update(log[-1].domain, network.model.state_dict())
                if step == options.steps or best.n_stale >= options.patience:
                    break
            sentences = [encoded[i] for i in next(stream)]
            batch = mask_tokens(sentences, options.mask_share, model.mask_id, ordinary, rng)
            rate = options.learning_rate * linear_schedule(step, options.steps, _WARM_UP)
            bar.step(gradient_step(optimiser, weights, _loss(network, batch), rate))
            step += 1
    network.model.load_state_dict(best.weights)
    return log


def _loss(network: Network, batch: MaskedBatch) -> torch.Tensor:
    """Return the mean negative log-probability of the hidden tokens."""
    network.model.train()
    ids, rows, positions, targets = (
        torch.from_numpy(array).to(network.device)
        for array in (batch.ids, batch.rows, batch.positions, batch.targets)
    )
    return torch.nn.functional.cross_entropy(network.logits(ids, rows, positions), targets)


def _evaluate(
    model: MaskedModel, step: int, domain: Sequence[str], other: Sequence[str]
) -> Perplexities:
    model.network.model.eval()
    (domain_token, domain_word), (other_token, other_word) = (
        _perplexity(model, sentences, step) for sentences in (domain, other)
    )
    return Perplexities(step, domain_token, other_token, domain_word, other_word)


def _perplexity(model: MaskedModel, sentences: Sequence[str], step: int) -> tuple[float, float]:
    """Return the pseudo-perplexity per token and per word, from one scoring."""
    try:
        totals = model.score_with_counts(list(sentences))
    except ModelFileError:
        if step == 0:
            raise
        raise InputError(
            f"the training has diverged: after {step} steps the network computes no numbers; "
            "lower the learning rate"
        ) from None
    logs = -totals.score.sum() / np.array([totals.n_tokens.sum(), totals.n_words.sum()])
    if not (logs < _LARGEST_LOG).all():
        raise InputError(
            f"the training has diverged: after {step} steps the pseudo-perplexity per word is "
            f"exp({logs[1]:.0f}); lower the learning rate"
        )
    token, word = np.exp(logs).tolist()
    return token, word


# Name of the record that tells how a checkpoint came about.
_RECORD = "adaptation.json"


def write_checkpoint(folder: Path, model: Any, tokenizer: Any, record: dict[str, Any]) -> None:
    """Write network, tokenizer and record into a new folder, on the disk before it has its name.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    with new_folder(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (temporary / _RECORD).write_text(text, encoding="utf-8")
