"""What an engine is tried on before a number of its is used.

Engines fail without a word: with zeros, with the log-probability of the next token in a token's
place, with values that depend on what else was asked. Each check here finds one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import EngineError
from contstim.models.engines import Echo, ServingEngine

# Two that begin alike and differ in a word, and one as long as sentences are at most, as a rule:
# differences of tokens add up.
_TEXTS = (
    "The dog saw a cat.",
    "The dog saw a house in it.",
    "The old man saw the dog, a cat saw the old man, the dog saw the cat, and the cat ran fast as "
    "the woman saw.",
)
# Nats by which a token's value may differ with what else is asked; more, and the engine is refused.
_MOST_DIFFERENT = 0.5
#: Nats of arithmetic.
CLOSE = 1e-3
# Less than any log-probability that a model computes, nats.
_CUT = -1e3


@dataclass(frozen=True)
class Findings:
    """What was found of an engine that passed.

    Attributes
    ----------
    opening
        The tokens that it puts before every text by itself.
    resolution
        By how much two of its scores of one text may differ: the largest sum over the tokens of a
        text of the differences between two of its values, nats.
    echoes
        What it says of the texts of `trial_texts`.
    """

    opening: tuple[str, ...]
    resolution: float
    echoes: tuple[Echo, ...]


def trial_texts(prefix: str) -> list[str]:
    """Return the texts that an engine is tried on, with what is put before every text."""
    return [prefix + text for text in _TEXTS]


def shake_hands(
    engine: ServingEngine, earlier: Sequence[Echo] = (), resolution: float = 0.0
) -> Findings:
    """Try an engine on a few texts.

    Parameters
    ----------
    engine
        The engine.
    earlier
        What it said of them when it was first tried, if answers of then are to stand beside new
        ones; one request tells then whether it still says so.
    resolution
        What was found then, nats.

    Raises
    ------
    EngineError
        At the first check that fails, with the likely cause and what mends it.
    """
    texts, prefix = trial_texts(engine.prefix), engine.prefix
    alone = engine.echo(texts) if earlier else [engine.echo([text])[0] for text in texts]
    for text, echo in zip(texts, alone, strict=True):
        _check_numbers(engine, text, echo)
    _check_opening(engine, alone[0], prefix)
    if all(np.array_equal(alone[0].log_probs[-3:], other.log_probs[-3:]) for other in alone[1:]):
        raise EngineError(
            f"{engine.name} gives different texts the same values ({alone[0].log_probs[-1]:g}); it "
            "does not compute them. The server of llama.cpp does so; use another engine"
        )
    _check_places(engine, alone[0], alone[1])
    if earlier:
        since = _differences(engine, zip(alone, earlier, strict=True))
        if (most := _of_tokens(since)) > _MOST_DIFFERENT:
            raise EngineError(
                f"values of {engine.name} differ by {most:.2g} nats from those that it gave when "
                "the answers that are kept began: it is another model, or computes otherwise; give "
                "another folder for answers="
            )
        return Findings(_opening(alone[0]), max(_of_texts(since), resolution), tuple(alone))
    again = [
        *zip(alone, engine.echo(texts), strict=True),
        *zip(alone[::-1], engine.echo(texts[::-1]), strict=True),
        *zip(alone, (engine.echo([text])[0] for text in texts), strict=True),
    ]
    differences = _differences(engine, again)
    if (most := _of_tokens(differences)) > _MOST_DIFFERENT:
        raise EngineError(
            f"values of {engine.name} differ by {most:.2g} nats with what else is asked and "
            f"in which order; have it compute every text afresh ({engine.fresh})"
        )
    return Findings(_opening(alone[0]), max(_of_texts(differences), CLOSE), tuple(alone))


def _opening(echo: Echo) -> tuple[str, ...]:
    return tuple(t for t, start in zip(echo.tokens, echo.starts, strict=True) if start < 0)


def _check_numbers(engine: ServingEngine, text: str, echo: Echo) -> None:
    """Check that there is a log-probability for every token but the first."""
    values = echo.log_probs[1:]
    if len(values) < 2 or np.isnan(values).all():
        raise EngineError(
            f"{engine.name} gives no log-probabilities of the text {text!r}; it must know 'echo' "
            "and 'logprobs', which the server of llama.cpp, Ollama and chat endpoints do not"
        )
    if np.isnan(values).any() or not np.isfinite(values).all() or (values < _CUT).any():
        place = int(np.argmax(~(values >= _CUT))) + 1
        raise EngineError(
            f"{engine.name} gives {echo.log_probs[place]:g} for {echo.tokens[place]!r} in "
            f"{text!r}: it computes NaN, or values of the most probable tokens alone; have it "
            "compute in float32 or bfloat16, and give all"
        )
    if (values > CLOSE).any():
        place = int(np.argmax(values)) + 1
        raise EngineError(
            f"{engine.name} gives {echo.log_probs[place]:g} for {echo.tokens[place]!r} in "
            f"{text!r}, which is above 0 and no log-probability"
        )
    listed = ~np.isnan(echo.mass[1:])
    if (echo.mass[1:][listed] > 1 + CLOSE).any():
        raise EngineError(
            f"the probabilities that {engine.name} lists for one place sum to "
            f"{np.nanmax(echo.mass[1:]):.3g}; they are not normalised"
        )


def _check_opening(engine: ServingEngine, echo: Echo, prefix: str) -> None:
    """Check that what begins a text stands there once."""
    opening = _opening(echo)
    doubled = len(set(opening)) < len(opening) or (prefix and prefix in opening)
    if doubled:
        raise EngineError(
            f"{engine.name} puts {''.join(opening)!r} before the text"
            + (f", and so does prefix={prefix!r}" if prefix else " twice")
            + "; have what begins a text put there once"
        )


def _check_places(engine: ServingEngine, first: Echo, second: Echo) -> None:
    """Check that a token's value depends on those before it, and is its own."""
    same = 0
    for a, b in zip(first.tokens, second.tokens, strict=False):
        if a != b:
            break
        same += 1
    before = np.abs(first.log_probs[1:same] - second.log_probs[1:same])
    if same > 1 and before.max() > _MOST_DIFFERENT:
        raise EngineError(
            f"what {engine.name} says of {first.tokens[1 + int(before.argmax())]!r} depends on the "
            "tokens after it: values stand a place too early, or the model looks ahead; use an "
            "engine without that fault (llama-cpp-python has it)"
        )
    more = first.log_probs > first.best + CLOSE
    if more.any():
        place = int(np.argmax(more))
        raise EngineError(
            f"{engine.name} gives {first.tokens[place]!r} a log-probability of "
            f"{first.log_probs[place]:.3g} and its most probable token {first.best[place]:.3g}: "
            "values do not stand in their places"
        )


def _differences(engine: ServingEngine, pairs: Iterable[tuple[Echo, Echo]]) -> list[FloatArray]:
    """Return by how much the values of every token differ, an array a pair of echoes, nats."""
    differences = []
    for first, second in pairs:
        if first.tokens != second.tokens:
            raise EngineError(
                f"{engine.name} cuts one text into other tokens the second time; it cannot be used"
            )
        differences.append(np.nan_to_num(np.abs(first.log_probs - second.log_probs)))
    return differences


def _of_tokens(differences: Sequence[FloatArray]) -> float:
    return float(max(of_text.max() for of_text in differences))


def _of_texts(differences: Sequence[FloatArray]) -> float:
    return float(max(of_text.sum() for of_text in differences))
