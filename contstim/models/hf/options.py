"""What a spec of family ``hf`` may ask for: options, their defaults, and their reading."""

from __future__ import annotations

from dataclasses import dataclass

from contstim.errors import SpecError
from contstim.models.hf.metrics import METRICS
from contstim.models.spec import ModelSpec

DTYPES = ("float32", "float64", "float16", "bfloat16")

#: Options of both kinds of model and their defaults.
SHARED_OPTIONS = {
    "revision": "main",
    "device": "cpu",
    "dtype": "float32",
    "first": "auto",
    "punctuation": "keep",
    "unknown": "error",
    "batch_tokens": "auto",
}
#: Options of masked models. `metric` defaults to what Kauf & Ivanova (2023) recommend.
MASKED_OPTIONS = {
    **SHARED_OPTIONS,
    "metric": "pll-word-l2r",
    "restricted": "no",
    "exact": "10",
    "orders": "100",
    "seed": "0",
}
#: Options of causal models.
CAUSAL_OPTIONS = {**SHARED_OPTIONS, "prefix": "auto", "end": "none", "words": "tokens"}


def whole_number_option(spec: ModelSpec, key: str, default: str, least: int) -> int:
    """Return option `key` as a whole number of at least `least`."""
    text = spec.get(key, default)
    if not text.isdecimal() or int(text) < least:
        raise SpecError(f"{key}={text!r} in {str(spec)!r}: give a whole number of at least {least}")
    return int(text)


@dataclass(frozen=True)
class SharedOptions:
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
        Most tokens of one forward pass; None lets the device decide.
    """

    first: str
    punctuation: str
    unknown: str
    batch_tokens: int | None

    @classmethod
    def read(cls, spec: ModelSpec) -> SharedOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        budget = spec.get("batch_tokens", "auto")
        return cls(
            spec.choice("first", ("auto", "spaced", "unspaced"), SHARED_OPTIONS["first"]),
            spec.choice("punctuation", ("keep", "context"), SHARED_OPTIONS["punctuation"]),
            spec.choice("unknown", ("error", "unk"), SHARED_OPTIONS["unknown"]),
            None if budget == "auto" else whole_number_option(spec, "batch_tokens", budget, 1),
        )


@dataclass(frozen=True)
class MaskedOptions:
    """Options of masked models.

    Attributes
    ----------
    metric
        One of `METRICS`.
    restricted
        Normalise each position over tokens of its own class alone (Golan et al. 2023).
    exact
        Most words for which ``permutation`` is exact.
    orders
        Sampled word orders beyond that, an even number.
    seed
        Seed of the sampled orders.
    """

    metric: str
    restricted: bool
    exact: int
    orders: int
    seed: int

    @classmethod
    def read(cls, spec: ModelSpec) -> MaskedOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        orders = whole_number_option(spec, "orders", MASKED_OPTIONS["orders"], 4)
        if orders % 2:
            raise SpecError(
                f"orders={orders} in {str(spec)!r}: give an even number, for orders are drawn in "
                "pairs, each with its reverse"
            )
        return cls(
            spec.choice("metric", METRICS, MASKED_OPTIONS["metric"]),
            spec.choice("restricted", ("no", "yes"), MASKED_OPTIONS["restricted"]) == "yes",
            whole_number_option(spec, "exact", MASKED_OPTIONS["exact"], 1),
            orders,
            whole_number_option(spec, "seed", MASKED_OPTIONS["seed"], 0),
        )


@dataclass(frozen=True)
class CausalOptions:
    """Options of causal models.

    Attributes
    ----------
    prefix
        What stands before the first word: ``auto`` (what the tokenizer puts there by itself,
        else its BOS token, else nothing), ``bos``, ``eos``, ``none``, or a token.
    end
        ``scored`` or ``none``: whether the end-of-sequence token is part of the score.
    words
        ``tokens`` or ``corrected``: whether a word's probability is its tokens' product or
        carries the white-space correction.
    """

    prefix: str
    end: str
    words: str

    @classmethod
    def read(cls, spec: ModelSpec) -> CausalOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        return cls(
            spec.get("prefix", CAUSAL_OPTIONS["prefix"]),
            spec.choice("end", ("none", "scored"), CAUSAL_OPTIONS["end"]),
            spec.choice("words", ("tokens", "corrected"), CAUSAL_OPTIONS["words"]),
        )
