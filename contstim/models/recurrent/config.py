"""What a recurrent network is, as a frozen value: kind of unit, sizes, tying, vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from contstim.errors import InputError, UnknownNameError

__all__ = ["CELLS", "END", "START", "UNKNOWN", "NetworkConfig", "Vocabulary"]

#: Kinds of recurrent unit.
CELLS = ("rnn", "lstm")

START = "<s>"
END = "</s>"
UNKNOWN = "<unk>"


@dataclass(frozen=True)
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

    cell: str
    embedding: int = 256
    hidden: int = 512
    tied: bool = True

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise UnknownNameError.among("kind of recurrent unit", self.cell, CELLS)
        for name in ("embedding", "hidden"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")

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
class Vocabulary:
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
