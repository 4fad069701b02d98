"""Training options of recurrent networks, adaptation, students and classifiers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contstim.errors import InputError
from contstim.settings import PositiveInt, settings, validate_choice

_Epochs = Annotated[float, Field(ge=0, le=10_000)]
_LearningRate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
_Precision = Annotated[str, validate_choice(("float32", "bfloat16"))]


@settings
class TrainingOptions:
    """Options for training a recurrent network.

    The loss is the cross-entropy of the next token. A first phase approximates its normaliser with
    a sampled softmax (`contstim.training.softmax.NegativeSamples`). A second phase uses the full
    softmax, because a sampled normaliser leaves the probabilities slightly uncalibrated. The
    optimizer is AdamW. Its learning rate increases linearly over `warmup` steps and is multiplied
    by a factor that decreases linearly from 1 to 0 over all steps.

    Attributes
    ----------
    epochs
        Number of passes over the text with the sampled softmax; fractions are allowed.
    full_epochs
        Number of further passes with the full softmax.
    batch_tokens
        Maximum number of predicted tokens per batch. All sentences of a batch have the same
        length, so that no padding is needed.
    learning_rate
        Maximum learning rate.
    warmup
        Number of warm-up steps.
    weight_decay
        Weight decay of AdamW.
    clip
        Maximum norm of the gradient; larger gradients are scaled down.
    head
        Number of most frequent tokens that are always part of the sampled softmax.
    samples
        Number of other tokens drawn per step, with probability proportional to count^0.75. The
        softmax is not sampled if the vocabulary has at most ``head + samples`` tokens.
    precision
        ``float32``, or ``bfloat16`` for the recurrent layer and the matrix products, which is
        faster on processors that support it. Weights and softmax sums are float32.
    interval
        Number of steps between evaluations on held-out text.
    heldout_tokens
        Approximate number of held-out tokens used in each evaluation.
    patience
        Number of evaluations without a lower perplexity after which a phase ends.
    checkpoint_every
        Number of steps between saved training states.
    seed
        Seed of the initial weights, the order of the sentences and the sampled softmax.
    """

    epochs: _Epochs = 10.0
    full_epochs: _Epochs = 1.0
    batch_tokens: PositiveInt = 2048
    learning_rate: _LearningRate = 0.002
    warmup: int = 200
    weight_decay: float = 0.01
    clip: float = 1.0
    head: PositiveInt = 1024
    samples: PositiveInt = 1024
    precision: _Precision = "float32"
    interval: PositiveInt = 500
    heldout_tokens: PositiveInt = 20_000
    patience: PositiveInt = 5
    checkpoint_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs + self.full_epochs <= 0:
            raise InputError("training needs epochs or full_epochs above 0")


@settings
class AdaptOptions:
    """Options for adapting a masked model to a domain.

    Attributes
    ----------
    steps
        Maximum number of training steps, each on one batch.
    batch_tokens
        Maximum number of tokens per batch.
    learning_rate
        Maximum learning rate of AdamW. The rate increases linearly over the first tenth of the
        steps and then decreases linearly to 0.
    mask_share
        Fraction of tokens to predict (see `contstim.training.adaptation.mask_tokens`).
    interval
        Number of training steps between evaluations on held-out sentences.
    patience
        Number of evaluations without improvement after which training stops.
    seed
        Seed of the held-out sentences, the order of the sentences, the masks and dropout.
    """

    steps: Annotated[int, Field(ge=1, le=10**7)] = 1000
    batch_tokens: PositiveInt = 1024
    learning_rate: _LearningRate = 5e-5
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    interval: PositiveInt = 50
    patience: PositiveInt = 3
    seed: int = 0


@settings
class FitOptions:
    """Options for training a student or a classifier.

    The optimizer is AdamW with a linear warm-up and a linear decrease of the learning rate to 0,
    without dropout.

    Attributes
    ----------
    epochs
        Number of passes over the sentences.
    batch
        Maximum number of sentences per batch. All sentences of a batch have the same length, so
        that no padding is needed.
    learning_rate
        Maximum learning rate. None: 0.0768 divided by the width of the network, which is 1e-4 for
        BERT base.
    layers
        Number of upper layers to train. None: the whole network, including the embeddings.
    weight_decay
        Weight decay of matrices; biases and normalisation weights have none.
    warm_up
        Fraction of the steps that belongs to the warm-up.
    precision
        Precision of matrix products, ``bfloat16`` or ``float32``. Weights are float32.
    """

    epochs: Annotated[int, Field(ge=1, le=10_000)] = 3
    batch: PositiveInt = 32
    learning_rate: _LearningRate | None = None
    layers: int | None = None
    weight_decay: float = 0.01
    warm_up: float = 0.1
    precision: _Precision = "bfloat16"


#: Default options of students and of classifiers.
DISTILLATION_DEFAULTS, FINETUNING_DEFAULTS = FitOptions(epochs=5), FitOptions(layers=2)
