"""What both kinds of transformer refuse or promise alike."""

from __future__ import annotations

from contstim.errors import InputError
from contstim.models.hf.network import Network

__all__ = ["PACKAGES", "check_length", "resolution"]

#: What the scores of networks of transformers depend on.
PACKAGES = ("torch", "transformers", "tokenizers")

# How far, in nats, a score may move with its batch.
_RESOLUTION, _HALF_RESOLUTION = 1e-4, 0.5
_SHOWN = 60


def check_length(sentence: str, n_tokens: int, limit: int | None, name: str) -> None:
    """Refuse a sentence of more tokens than the network takes."""
    if limit is None or n_tokens <= limit:
        return
    shown = sentence if len(sentence) <= _SHOWN else sentence[:_SHOWN] + "..."
    raise InputError(
        f"{shown!r} has {n_tokens} tokens, special tokens included, and {name} takes at most "
        f"{limit}; shorten or split the sentence"
    )


def resolution(network: Network) -> float:
    """Return by how many nats a score may move with its batch: more where 16 bits are used."""
    return _HALF_RESOLUTION if network.half else _RESOLUTION
