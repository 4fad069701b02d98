"""How models are trained: the options of each training, which the commands take theirs from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contstim.errors import InputError
from contstim.settings import PositiveInt, option, settings, validate_choice

_Passes = Annotated[float, Field(ge=0, le=10_000)]
_Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


@settings
class TrainingOptions:
    """How a recurrent network is trained.

    The loss is the cross-entropy of the next token. Most of the run uses a sampled softmax
    (`contstim.training.recurrent.Negatives`), the last part the full one, since a sampled
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
    batch_tokens: PositiveInt = option(2048, "tokens of a batch", "N")
    learning_rate: _Rate = option(0.002, "", "RATE")
    warmup: int = 200
    weight_decay: float = 0.01
    clip: float = 1.0
    head: PositiveInt = 1024
    samples: PositiveInt = 1024
    precision: Annotated[str, validate_choice(("float32", "bfloat16"))] = option(
        "float32", "of matrix products"
    )
    interval: PositiveInt = 500
    heldout_tokens: PositiveInt = 20_000
    patience: PositiveInt = 5
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
        Share of tokens that are hidden (see :func:`contstim.training.adapting.mask_tokens`).
    interval
        Steps between evaluations.
    patience
        The training stops after so many evaluations without a new best.
    seed
        Seed of the development part, of the order, of what is hidden, and of dropout.
    """

    steps: Annotated[int, Field(ge=1, le=10**7)] = option(1000, "at most", "N")
    batch_tokens: PositiveInt = option(1024, "tokens of a batch", "N")
    learning_rate: _Rate = option(5e-5, "", "RATE")
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    interval: PositiveInt = option(50, "steps between evaluations", "N")
    patience: PositiveInt = option(3, "evaluations without gain", "N")
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
    batch: PositiveInt = option(32, "sentences of a batch", "N")
    learning_rate: _Rate | None = option(
        None, "highest step (default: 0.0768 over the network's width)", "RATE"
    )
    layers: int | None = None
    weight_decay: float = 0.01
    warm_up: float = 0.1
    precision: Annotated[str, validate_choice(("bfloat16", "float32"))] = option(
        "bfloat16", "of matrix products in training"
    )


#: How students and classifiers are trained unless something else is asked for.
DISTILLING, FINETUNING = FitOptions(epochs=5), FitOptions(layers=2)
