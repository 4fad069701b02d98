"""Options of specs of the family ``hf``: how a checkpoint is loaded and how it scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.hf.metrics import METRICS
from contstim.text.languages import LANGUAGES

# Options that say what is loaded and how, and their defaults.
LOADING_OPTIONS = {"revision": "main", "device": "cpu", "dtype": "float32", "code": "never"}


def _option(default: str, read: Callable[[ModelSpec, str, str], Any] = ModelSpec.get) -> Any:
    """Declare an option of specs: its default, and what reads it of a spec by its name."""
    return field(metadata={"default": default, "read": read})


def _one_of(default: str, *choices: str) -> Any:
    return _option(default, lambda spec, key, usual: spec.get_choice(key, choices, usual))


def _whole(default: str, least: int) -> Any:
    def read(spec: ModelSpec, key: str, usual: str) -> int | None:
        text = spec.get(key, usual)
        if text == "auto" == usual:
            return None
        if not text.isdecimal() or int(text) < least:
            raise SpecError(
                f"{key}={text!r} in {str(spec)!r}: give a whole number of at least {least}"
            )
        return int(text)

    return _option(default, read)


class _SpecOptions:
    """Options of specs, each declared once."""

    @classmethod
    def read(cls, spec: ModelSpec) -> Self:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        declared = {item.name: item.metadata for item in fields(cast(Any, cls))}
        return cls(**{name: of["read"](spec, name, of["default"]) for name, of in declared.items()})

    @classmethod
    def defaults(cls) -> dict[str, str]:
        """Return the default of each as specs write it."""
        return {item.name: item.metadata["default"] for item in fields(cast(Any, cls))}


@dataclass(frozen=True)
class SharedOptions(_SpecOptions):
    """Options of both kinds of model.

    Attributes
    ----------
    first
        Form of the first word where a vocabulary marks white space: ``spaced`` puts a space
        before the sentence, ``unspaced`` insists on none, ``auto`` leaves it to the tokenizer.
    punctuation
        ``keep``: a word's marks are scored with it. ``context``: the marks that close the
        sentence are seen and not scored.
    unknown
        ``error`` or ``unk``.
    batch_tokens
        Most tokens of one forward pass; ``auto`` lets the device decide.
    language
        What cuts sentences into words.
    """

    first: str = _one_of("auto", "auto", "spaced", "unspaced")
    punctuation: str = _one_of("keep", "keep", "context")
    unknown: str = _one_of("error", "error", "unk")
    batch_tokens: int | None = _whole("auto", 1)
    language: str = _option("en", lambda spec, key, usual: spec.get_choice(key, LANGUAGES, usual))


@dataclass(frozen=True)
class MaskedOptions(_SpecOptions):
    """Options of masked models.

    Attributes
    ----------
    metric
        One of `METRICS`; by default the one that Kauf & Ivanova (2023) recommend.
    restricted
        Normalise each position over tokens of its own class alone (Golan et al. 2023).
    exact
        Maximum number of words for which ``permutation`` is exact.
    orders
        Sampled orders beyond that, an even number.
    seed
        Seed of the sampled orders.
    """

    metric: str = _option(
        "pll-word-l2r", lambda spec, key, usual: spec.get_choice(key, METRICS, usual)
    )
    restricted: bool = _option(
        "no", lambda spec, key, usual: spec.get_choice(key, ("no", "yes"), usual) == "yes"
    )
    exact: int = _whole("10", 1)
    orders: int = _whole("100", 4)
    seed: int = _whole("0", 0)

    @classmethod
    def read(cls, spec: ModelSpec) -> Self:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        options = super().read(spec)
        if options.orders % 2:
            raise SpecError(
                f"orders={options.orders} in {str(spec)!r}: give an even number, for orders are "
                "drawn in pairs, each with its reverse"
            )
        return options


@dataclass(frozen=True)
class CausalOptions(_SpecOptions):
    """Options of causal models.

    Attributes
    ----------
    prefix
        What stands before the first word: ``auto`` (what the tokenizer puts there by itself,
        else its BOS token, else nothing), ``bos``, ``eos``, ``none``, or a token.
    prompt
        A text after it, in which sentences stand on lines of their own: ``natural`` (the bundled
        `default_prompt`), a file, or ``none``.
    end
        ``scored`` or ``none``: whether the end-of-sequence token is part of the score.
    words
        ``tokens`` or ``corrected``: whether a word's probability is its tokens' product or
        carries the white-space correction.
    """

    prefix: str = _option("auto")
    prompt: str = _option("none")
    end: str = _one_of("none", "none", "scored")
    words: str = _one_of("tokens", "tokens", "corrected")


#: What specs may have, and the defaults: of all models, of masked and of causal ones.
SHARED_OPTIONS = {**LOADING_OPTIONS, **SharedOptions.defaults()}
MASKED_OPTIONS = {**SHARED_OPTIONS, **MaskedOptions.defaults()}
CAUSAL_OPTIONS = {**SHARED_OPTIONS, **CausalOptions.defaults()}
