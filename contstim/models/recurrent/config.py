"""What a recurrent network is and how it is trained, as frozen values; no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from contstim.errors import InputError
from contstim.models.words import END, START, UNKNOWN
from contstim.settings import Count, one_of, settings

__all__ = [
    "CELLS",
    "STORAGES",
    "NetworkConfig",
    "TokenVocabulary",
    "TrainingOptions",
]

#: Kinds of recurrent unit.
CELLS = ("rnn", "lstm")

#: How a file can store matrices.
STORAGES = ("float32", "float16", "int8")


@settings
class NetworkConfig:
    """One recurrent layer between an embedding and a softmax.

    The defaults are those of Golan et al. (2023, Supplementary Section 6.1.2), but for `tied`.

    Attributes
    ----------
    cell
        ``rnn`` (units ``max(0, .)``) or ``lstm``.
    embedding
        Width of the word embedding.
    hidden
        Number of hidden units.
    tied
        True: the hidden state is projected linearly to the width of the embedding, whose rows
        are the output weights too (a departure from the paper that makes files several times
        smaller). False: an output matrix of its own on the hidden state, as in the paper.
    """

    cell: Annotated[str, one_of(CELLS, "kind of recurrent unit")]
    embedding: Count = 256
    hidden: Count = 512
    tied: bool = True

    @property
    def gates(self) -> int:
        """Pre-activations per hidden unit."""
        return 4 if self.cell == "lstm" else 1

    def shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter, for a vocabulary of `n_outputs` tokens."""
        width = self.gates * self.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (n_outputs + 1, self.embedding),
            "input": (width, self.embedding),
            "recurrent": (width, self.hidden),
            "bias": (width,),
            "output_bias": (n_outputs,),
        }
        if self.tied:
            shapes["projection"] = (self.embedding, self.hidden)
        else:
            shapes["output"] = (n_outputs, self.hidden)
        return shapes


@dataclass(frozen=True)
class TokenVocabulary:
    """The tokens of a network, most frequent first.

    Id 0 is the end symbol, id 1 the unknown-word class, then come `words`. The start symbol has
    the last id, `start`: it is read, but never predicted, so it has no output.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("a vocabulary needs at least one word, got none")
        if len(set(self.words)) != len(self.words) or set(self.words) & {START, END, UNKNOWN}:
            raise InputError(
                f"a vocabulary lists each word once, without {START}, {END} and {UNKNOWN}"
            )

    #: Ids of the end symbol and of the unknown-word class.
    end = 0
    unknown = 1

    @property
    def n_outputs(self) -> int:
        """Number of tokens the network predicts."""
        return len(self.words) + 2

    @property
    def start(self) -> int:
        """Id of the start symbol."""
        return len(self.words) + 2

    def ids(self) -> dict[str, int]:
        """Map each word to its id; the three special symbols are no words."""
        return {word: number for number, word in enumerate(self.words, start=2)}


@settings
class TrainingOptions:
    """How a network is trained.

    The loss is the cross-entropy of the next token. Most of the run uses a sampled softmax
    (`Negatives`), the last part the full one, since a sampled normaliser leaves probabilities
    slightly uncalibrated. AdamW; the learning rate rises over `warmup` steps and then falls
    linearly to 0 at the end of the run.

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

    epochs: Annotated[float, Field(ge=0, le=10_000)] = 10.0
    full_epochs: Annotated[float, Field(ge=0, le=10_000)] = 1.0
    batch_tokens: Count = 2048
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.002
    warmup: int = 200
    weight_decay: float = 0.01
    clip: float = 1.0
    head: Count = 1024
    samples: Count = 1024
    precision: Annotated[str, one_of(("float32", "bfloat16"))] = "float32"
    interval: Count = 500
    heldout_tokens: Count = 20_000
    patience: Count = 5
    checkpoint_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs + self.full_epochs <= 0:
            raise InputError("a training needs epochs or full_epochs above 0")
