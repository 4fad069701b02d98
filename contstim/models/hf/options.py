"""Options of models of the family ``hf``, and the definitions of scores that follow from them.

The options are written into the model specification, for example
``hf:bert-base-cased?metric=pll&dtype=bfloat16``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event
from contstim.models.hf.metrics import METRICS
from contstim.text.languages import LANGUAGES

#: Default values of the options for loading a checkpoint.
LOADING_OPTIONS = {"revision": "main", "device": "cpu", "dtype": "float32", "code": "never"}


def _option(default: str, read: Callable[[ModelSpec, str, str], Any] = ModelSpec.get) -> Any:
    """Declare a dataclass field with the value of an option in a model specification.

    Parameters
    ----------
    default
        Default value of the option, as text.
    read
        Function that receives the specification, the name of the option and its default, and
        returns the value of the field.
    """
    return field(metadata={"default": default, "read": read})


def _choice(default: str, choices: Iterable[str]) -> Any:
    """Declare a dataclass field with the value of an option that must be one of `choices`."""
    return _option(default, lambda spec, key, default: spec.get_choice(key, choices, default))


def _integer(default: str, minimum: int, *, must_be_even: bool = False) -> Any:
    """Declare a dataclass field with the value of an option that is an integer.

    The integer must be at least `minimum`, and even if `must_be_even` is True. If the default is
    ``auto``, this text is allowed as well, and the value of the field is then None.
    """
    expected = f"{'an even' if must_be_even else 'a whole'} number of at least {minimum}"

    def read_integer(spec: ModelSpec, key: str, default: str) -> int | None:
        text = spec.get(key, default)
        # None: choose the value automatically.
        if default == "auto" and text == "auto":
            return None
        if not text.isdecimal() or int(text) < minimum or (must_be_even and int(text) % 2):
            raise SpecError(f"{key}={text!r} in {str(spec)!r}: give {expected}")
        return int(text)

    return _option(default, read_integer)


class _SpecOptions:
    """Base class of dataclasses with one field for each option of a model specification."""

    @classmethod
    def read(cls, spec: ModelSpec) -> Self:
        """Read the values of all fields from the options of a model specification.

        Raises
        ------
        SpecError
            If an option has an invalid value.
        """
        values = {
            option.name: option.metadata["read"](spec, option.name, option.metadata["default"])
            for option in fields(cast(Any, cls))
        }
        return cls(**values)

    @classmethod
    def defaults(cls) -> dict[str, str]:
        """Return a mapping from option name to default, as written in a model specification."""
        return {option.name: option.metadata["default"] for option in fields(cast(Any, cls))}


@dataclass(frozen=True)
class SharedOptions(_SpecOptions):
    """Options of causal and masked models.

    Attributes
    ----------
    first
        White space before the first word of a sentence, if tokens include white space: ``spaced``
        inserts a space before the sentence, ``unspaced`` requires that there is none, ``auto``
        leaves the decision to the tokenizer.
    punctuation
        ``keep``: punctuation marks are scored with their word. ``context``: the marks that end
        the sentence are visible to the network but not scored.
    unknown
        ``error``: unknown words are refused. ``unk``: they are scored as the unknown-word token.
    batch_tokens
        Maximum number of tokens in a forward pass; None chooses a number that suits the device.
    language
        Code of the language, which determines how sentences are split into words.
    """

    first: str = _choice("auto", ("auto", "spaced", "unspaced"))
    punctuation: str = _choice("keep", ("keep", "context"))
    unknown: str = _choice("error", ("error", "unk"))
    batch_tokens: int | None = _integer("auto", 1)
    language: str = _choice("en", LANGUAGES)


@dataclass(frozen=True)
class MaskedOptions(_SpecOptions):
    """Options of masked models.

    Attributes
    ----------
    metric
        Name of a scoring metric in `METRICS`. The default is recommended by Kauf & Ivanova (2023).
    restricted
        Whether probabilities are normalised over tokens of the same class only, word-starting or
        word-continuing (Golan et al. 2023).
    exact
        Maximum number of words of sentences for which the metric ``permutation`` averages over all
        word orders.
    orders
        Number of word orders that ``permutation`` samples for longer sentences, an even number.
    seed
        Random seed of the sampled orders.
    """

    metric: str = _choice("pll-word-l2r", METRICS)
    restricted: bool = _option(
        "no", lambda spec, key, default: spec.get_choice(key, ("no", "yes"), default) == "yes"
    )
    exact: int = _integer("10", 1)
    orders: int = _integer("100", 4, must_be_even=True)
    seed: int = _integer("0", 0)


@dataclass(frozen=True)
class CausalOptions(_SpecOptions):
    """Options of causal models.

    Attributes
    ----------
    prefix
        Tokens before the first word: ``auto`` (the special tokens that the tokenizer adds, else
        its BOS token, else nothing), ``bos``, ``eos``, ``none``, or a token of the vocabulary.
    prompt
        Text between the prefix and the sentence: ``natural`` (`default_prompt`), the path of a
        file with one sentence per line, or ``none``.
    end
        ``scored`` if the probability of the end-of-sequence token is part of the score, else
        ``none``.
    words
        ``tokens``: the probability of a word is the product of its tokens' probabilities.
        ``corrected``: it also includes the probability that the word ends (see `CausalModel`).
    """

    prefix: str = _option("auto")
    prompt: str = _option("none")
    end: str = _choice("none", ("none", "scored"))
    words: str = _choice("tokens", ("tokens", "corrected"))


@dataclass(frozen=True)
class CausalEvent(Event):
    """Definition of a causal model's score: log-probability of the tokens after the start symbol.

    It is stored with each score, because scores are comparable only if their definitions agree.

    Attributes
    ----------
    first
        White space before the first word of a sentence: ``spaced`` if the first token begins with a
        space, ``unspaced`` if not, or ``unmarked`` if no token of the model contains white space.
    words
        Probability of a word: ``tokens`` if it is the product of its tokens' probabilities,
        ``corrected`` if it includes the probability that the word ends after them.
    """

    first: str = "unmarked"
    words: str = "tokens"


@dataclass(frozen=True)
class MaskedEvent(Event):
    """Definition of a masked model's score, the pseudo-log-probability of a sentence.

    The model predicts tokens of the sentence while they are masked, and the metric combines the
    log-probabilities of these predictions. The definition is stored with each score, because two
    scores are comparable only if their definitions agree.

    Attributes
    ----------
    first
        White space before the first word of a sentence: ``spaced`` if the first token begins with a
        space, ``unspaced`` if not, or ``unmarked`` if no token of the model contains white space.
    normalised
        ``vocabulary`` if probabilities are normalised over all tokens, ``class`` if over
        word-starting or word-continuing tokens only.
    orders
        Number and seed of the word orders that the metric ``permutation`` samples, and the limits
        up to which it averages over all orders. Empty for other metrics.
    """

    first: str = "unmarked"
    normalised: str = "vocabulary"
    orders: str = ""


#: Default values of the options of all models, of masked models and of causal models.
SHARED_OPTIONS = {**LOADING_OPTIONS, **SharedOptions.defaults()}
MASKED_OPTIONS = {**SHARED_OPTIONS, **MaskedOptions.defaults()}
CAUSAL_OPTIONS = {**SHARED_OPTIONS, **CausalOptions.defaults()}
