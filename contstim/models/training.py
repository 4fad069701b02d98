"""What trainings share: options, text in batches of one length, steps and the best weights.

Torch-free until a step is taken: the commands take their options from here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from contstim.arrays import FloatArray, IntArray, TokenArray
from contstim.errors import InputError
from contstim.settings import Count, one_of, option, settings
from contstim.tables import numbered_lines
from contstim.text import PUNCTUATION_POLICIES, tokens_of_word

if TYPE_CHECKING:
    import torch

    from contstim.models.recurrent import TokenVocabulary

_Passes = Annotated[float, Field(ge=0, le=10_000)]
_Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


@settings
class TrainingOptions:
    """How a recurrent network is trained.

    The loss is the cross-entropy of the next token. Most of the run uses a sampled softmax
    (`contstim.models.recurrent.training.Negatives`), the last part the full one, since a sampled
    normaliser leaves probabilities slightly uncalibrated. AdamW; the learning rate rises over
    `warmup` steps and then falls linearly to 0 at the end of the run.

    Attributes
    ----------
    epochs
        Passes over the text with the sampled softmax; need not be whole.
    full_epochs
        Further passes with the full softmax.
    batch_tokens
        Predictions a step: sentences of one length, so that nothing is padded.
    learning_rate, warmup, weight_decay, clip
        Of AdamW; `clip` bounds the norm of the gradient.
    head, samples
        Most frequent tokens always in the sampled softmax, and draws a step from the others
        (q proportional to count ** 0.75). A vocabulary no larger than their sum is never sampled.
    precision
        ``float32``, or ``bfloat16`` for the layer and the matrix products: faster on a processor
        that has them. The weights that are kept, and the sums of the softmax, stay float32.
    interval
        Steps between evaluations on held-out text.
    heldout_tokens
        About how many held-out tokens those evaluations use.
    patience
        Evaluations without a better perplexity after which a phase ends early.
    checkpoint_every
        Steps between saved states.
    seed
        Of the first weights, the order of sentences and the sampled softmax.
    """

    epochs: _Passes = option(10.0, "passes over the text", "N")
    full_epochs: _Passes = option(1.0, "further passes with the softmax over all words", "N")
    batch_tokens: Count = option(2048, "tokens of a batch", "N")
    learning_rate: _Rate = option(0.002, "", "RATE")
    warmup: int = 200
    weight_decay: float = 0.01
    clip: float = 1.0
    head: Count = 1024
    samples: Count = 1024
    precision: Annotated[str, one_of(("float32", "bfloat16"))] = option(
        "float32", "of matrix products"
    )
    interval: Count = 500
    heldout_tokens: Count = 20_000
    patience: Count = 5
    checkpoint_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs + self.full_epochs <= 0:
            raise InputError("a training needs epochs or full_epochs above 0")


@settings
class AdaptOptions:
    """How a model is adapted.

    Attributes
    ----------
    steps
        Most steps.
    batch_tokens
        Most tokens of a step.
    learning_rate
        Of AdamW; it rises over the first tenth of the steps and then falls to 0, both linearly.
    mask_share
        Share of tokens that are hidden (see :func:`contstim.models.adapting.hide`).
    interval
        Steps between evaluations.
    patience
        The training stops after so many evaluations without a new best.
    seed
        Seed of the development part, of the order, of what is hidden, and of dropout.
    """

    steps: Annotated[int, Field(ge=1, le=10**7)] = option(1000, "at most", "N")
    batch_tokens: Count = option(1024, "tokens of a batch", "N")
    learning_rate: _Rate = option(5e-5, "", "RATE")
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    interval: Count = option(50, "steps between evaluations", "N")
    patience: Count = option(3, "evaluations without gain", "N")
    seed: int = 0


@settings
class FitOptions:
    """How a learnt model is trained: AdamW, a linear warm-up and a linear fall to 0, no dropout.

    Attributes
    ----------
    epochs
        Passes over the sentences.
    batch
        Most sentences of a batch; a batch holds sentences of one length, so nothing is padded.
    learning_rate
        Highest step; None: 0.0768 over the width of the network, which is 1e-4 for BERT base.
    layers
        Upper layers that are trained; None: everything.
    weight_decay
        Of the matrices.
    warm_up
        Share of the steps in which the rate rises.
    precision
        ``bfloat16`` or ``float32``, of the matrix products; weights are float32.
    """

    epochs: Annotated[int, Field(ge=1, le=10_000)] = option(3, "passes", "N")
    batch: Count = option(32, "sentences of a batch", "N")
    learning_rate: _Rate | None = option(
        None, "highest step (default: 0.0768 over the network's width)", "RATE"
    )
    layers: int | None = None
    weight_decay: float = 0.01
    warm_up: float = 0.1
    precision: Annotated[str, one_of(("bfloat16", "float32"))] = option(
        "bfloat16", "of matrix products in training"
    )


#: How students and classifiers are trained unless something else is asked for.
DISTILLING, FINETUNING = FitOptions(epochs=5), FitOptions(layers=2)


def training_sentences(
    path: str | PathLike[str], punctuation: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the tokens of each line that has any.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``.
    punctuation
        Passed to :func:`contstim.text.tokens_of_word`; ``keep`` takes words as given.

    Raises
    ------
    InputError
        For another `punctuation`, and for a file that cannot be read or is not UTF-8.
    """
    if punctuation not in PUNCTUATION_POLICIES:
        choices = ", ".join(PUNCTUATION_POLICIES)
        raise InputError(f"punctuation must be one of {choices}, got {punctuation!r}")
    # A text repeats most of its words.
    tokens_of = cache(partial(tokens_of_word, punctuation=punctuation))
    for number, line in numbered_lines(path):
        tokens = line.split()
        if punctuation != "keep":
            tokens = list(chain.from_iterable(map(tokens_of, tokens)))
        if tokens:
            yield number, tokens


class _Interned(dict[str, int]):
    """Gives each new word the next id."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class TrainingText:
    """S sentences of N tokens as ids, one after the other.

    Attributes
    ----------
    words
        The V words by id, in the order in which they first occur.
    ids
        The tokens, shape (N,).
    lengths
        Tokens of each sentence, shape (S,).
    n_sentences
        Number of sentences of each file.
    """

    words: tuple[str, ...]
    ids: TokenArray
    lengths: IntArray
    n_sentences: tuple[int, ...]

    @property
    def counts(self) -> IntArray:
        """How often each word occurs, shape (V,)."""
        return np.bincount(self.ids, minlength=len(self.words))

    def sentences(self) -> Iterator[str]:
        """Yield each sentence, its tokens put together."""
        for ids in np.split(self.ids, np.cumsum(self.lengths)[:-1]):
            yield "".join([self.words[i] for i in ids.tolist()])

    def renumbered(self, table: Mapping[str, int], other: int) -> TokenArray:
        """Return the tokens by the ids of `table`, and `other` where it has none; shape (N,)."""
        return np.array([table.get(word, other) for word in self.words], dtype=np.int32)[self.ids]


def read_text(
    paths: Sequence[str | PathLike[str]], punctuation: str, longest: int | None = None
) -> TrainingText:
    """Read text files, lines without a token left out.

    Parameters
    ----------
    paths, punctuation
        As for `training_sentences`.
    longest
        Most tokens of a sentence; any number if None.

    Raises
    ------
    InputError
        As `training_sentences`, and for a line of more than `longest` tokens.
    """
    interned = _Interned()
    # Compact arrays, not lists of objects: a text may have hundreds of millions of words.
    ids, lengths, n_sentences = array("i"), array("i"), []
    for path in paths:
        before = len(lengths)
        for number, tokens in training_sentences(path, punctuation):
            if longest is not None and len(tokens) > longest:
                raise InputError(
                    f"line {number} of {str(path)!r} has {len(tokens)} tokens; "
                    f"give one sentence a line, of at most {longest}"
                )
            ids.extend(map(interned.__getitem__, tokens))
            lengths.append(len(tokens))
        n_sentences.append(len(lengths) - before)
    return TrainingText(
        tuple(interned),
        np.array(ids, dtype=np.int32),
        np.array(lengths, dtype=np.int64),
        tuple(n_sentences),
    )


def length_batches(
    order: IntArray, lengths: IntArray, most: Callable[[int], int]
) -> list[IntArray]:
    """Cut sentences into batches of one length, shortest first and otherwise as in `order`.

    Parameters
    ----------
    order
        Indices of sentences, shape (N,).
    lengths
        Tokens of each of S sentences, shape (S,).
    most
        From a length to the most sentences of a batch; one at least is taken.
    """
    order = order[np.argsort(lengths[order], kind="stable")]
    batches: list[IntArray] = []
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(same):
            size = max(1, most(int(lengths[same[0]])))
            batches += [same[i : i + size] for i in range(0, len(same), size)]
    return batches


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """S sentences as token ids: sentence s is ``ids[offsets[s]:offsets[s + 1]]``.

    Attributes
    ----------
    ids
        All tokens one after the other, boundary symbols left out.
    offsets
        Shape (S + 1,).
    repeats
        How often each sentence is seen in a pass, shape (S,); 0.5 is every other pass, at random.
    """

    ids: TokenArray
    offsets: IntArray
    repeats: FloatArray

    @classmethod
    def of(
        cls, text: TrainingText, vocabulary: TokenVocabulary, weights: Sequence[float]
    ) -> TokenCorpus:
        """Take the ids of `vocabulary`; each sentence of file k is seen ``weights[k]`` times."""
        ids = text.renumbered(vocabulary.ids(), vocabulary.unknown)
        offsets = np.concatenate([[0], np.cumsum(text.lengths)])
        return cls(ids, offsets, np.repeat(np.array(weights, np.float64), text.n_sentences))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of each sentence, shape (S,)."""
        return np.diff(self.offsets)

    def choose(self, index: IntArray) -> TokenCorpus:
        """Return the sentences at `index`, in that order."""
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.offsets[index] - offsets[:-1], lengths)
        return TokenCorpus(self.ids[starts + np.arange(offsets[-1])], offsets, self.repeats[index])

    def split(self, share: float, seed: int) -> tuple[TokenCorpus, TokenCorpus]:
        """Split the sentences at random: most of them, and about `share` (at least one)."""
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        n = max(1, round(share * len(self)))
        if n >= len(self):
            raise InputError(f"{len(self)} sentences are too few to hold out {share:g} of them")
        return self.choose(np.sort(order[n:])), self.choose(np.sort(order[:n]))

    def first_tokens(self, n: int, seed: int) -> TokenCorpus:
        """Return sentences drawn at random, with about `n` tokens in all."""
        order = np.random.default_rng([seed, 2]).permutation(len(self))
        kept = int(np.searchsorted(np.cumsum(self.lengths[order]), n)) + 1
        return self.choose(np.sort(order[:kept]))

    def batches(self, tokens: int, seed: int, epoch: int) -> list[IntArray]:
        """Lay one pass out in batches of sentences of one length, in random order.

        A batch has at most `tokens` tokens, the end symbol counted, but at least one sentence.
        """
        rng = np.random.default_rng([seed, 3, epoch])
        times = np.floor(self.repeats + rng.random(len(self))).astype(np.int64)
        drawn = rng.permutation(np.repeat(np.arange(len(self)), times))
        batches = length_batches(drawn, self.lengths, lambda length: tokens // (length + 1))
        return [batches[i] for i in rng.permutation(len(batches))]

    def sequences(self, index: IntArray, vocabulary: TokenVocabulary) -> tuple[IntArray, IntArray]:
        """Return inputs and targets of sentences of one length T, each (T + 1, B)."""
        length = int(self.lengths[index[0]])
        body = self.ids[self.offsets[index] + np.arange(length)[:, None]].astype(np.int64)
        start = np.full((1, len(index)), vocabulary.start)
        end = np.full((1, len(index)), vocabulary.end)
        return np.concatenate([start, body]), np.concatenate([body, end])


def linear_rate(step: int, steps: int, warm_up: float) -> float:
    """Return the share of the learning rate at a step: a linear rise, then a linear fall to 0.

    Parameters
    ----------
    step, steps
        Steps done, and steps in all.
    warm_up
        Share of the steps in which the rate rises.
    """
    rise = max(1, round(warm_up * steps))
    return min((step + 1) / rise, (steps - step) / max(1, steps - rise))


def descend(
    optimiser: torch.optim.Optimizer,
    weights: Sequence[torch.Tensor],
    loss: torch.Tensor,
    rate: float,
    clip: float = 1.0,
) -> float:
    """Take one step down a loss.

    Parameters
    ----------
    optimiser
        Changes the `weights`, whose gradients are none before and after.
    weights
        Those whose gradients have together a norm of at most `clip`.
    loss
        The loss, a number.
    rate
        The learning rate of all groups of weights.
    clip
        Largest norm; longer gradients are shortened to it.

    Returns
    -------
    float
        The loss.
    """
    import torch  # takes seconds

    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(weights, clip)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    optimiser.zero_grad()
    return loss.item()


@dataclass(eq=False)
class BestWeights:
    """The weights of the lowest perplexity so far, for early stopping.

    Attributes
    ----------
    perplexity
        Their perplexity.
    stale
        How many evaluations since have found none lower.
    weights
        The weights by name; none before the first evaluation.
    """

    perplexity: float = math.inf
    stale: int = 0
    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def offer(self, perplexity: float, weights: Mapping[str, torch.Tensor]) -> bool:
        """Keep a copy of `weights` if their perplexity is the lowest; return whether it is."""
        self.stale += 1
        lowest = perplexity < self.perplexity
        if lowest:
            self.perplexity, self.stale = perplexity, 0
            self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
        return lowest
