"""Cached attention keys and values of causal transformers (the KV cache)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from contstim.arrays import IntArray
from contstim.models.hf.network import Network


@dataclass(frozen=True, eq=False)
class KVCache:
    """Cached attention keys and values of a token sequence.

    With the cache, a causal transformer processes tokens that follow the sequence without
    processing the sequence again.

    Attributes
    ----------
    ids
        Token ids of the sequence.
    cache
        Keys and values, as an object of the package `transformers`. None if the network cannot use
        a cache.
    device
        Device of the network.
    """

    ids: tuple[int, ...]
    cache: Any
    device: torch.device

    def repeat(self, n_rows: int, length: int) -> dict[str, Any]:
        """Copy the cache for a batch of token sequences that start with the cached sequence.

        Parameters
        ----------
        n_rows
            Number of sequences in the batch.
        length
            Number of tokens of each sequence after the cached ones.

        Returns
        -------
        dict
            Arguments for the forward pass of the network: ``attention_mask``, ``past_key_values``
            and ``use_cache``.
        """
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(n_rows)
        shape = (n_rows, len(self.ids) + length)
        mask = torch.ones(shape, dtype=torch.int64, device=self.device)
        return {"attention_mask": mask, "past_key_values": cache, "use_cache": True}


def prefill(
    network: Network, ids: IntArray, *, use_cache: bool = True
) -> tuple[torch.Tensor, KVCache]:
    """Run the network on one token sequence, and cache its keys and values.

    Some networks compute wrong logits from a cache, see `supports_cache`.

    Parameters
    ----------
    network
        Causal network.
    ids
        Token ids of the sequence, shape (L,).
    use_cache
        Whether to store keys and values. Some networks compute logits only without a cache.

    Returns
    -------
    tensor
        Logits at all positions over a vocabulary of V tokens, shape (L, V), float32 or wider.
    KVCache
        Cache of the sequence.
    """
    with torch.inference_mode():
        # A batch of one row, without padding: shape (1, L).
        row = torch.from_numpy(ids[None]).to(network.device)
        mask = torch.ones_like(row)
        output = network.model(input_ids=row, attention_mask=mask, use_cache=use_cache)
    # Recurrent networks, for example, return no cache or a cache of another type.
    cache = getattr(output, "past_key_values", None)
    cache = cache if isinstance(cache, DynamicCache) else None
    logits = output.logits[0].to(network.wide_dtype)  # (tokens, vocabulary)
    return logits, KVCache(tuple(ids.tolist()), cache, network.device)


def supports_cache(
    network: Network, length: int, max_tokens: int | None, prefix: Sequence[int]
) -> bool:
    """Test whether a network computes the same logits with a key-value cache as without one.

    Networks with sliding windows, attention chunks or recurrent states may compute different logits
    for sequences beyond some length. The length is therefore rounded up to a power of two, and a
    sequence of this length is tested with six different numbers of cached tokens. The result is
    stored, so that each length is tested only once.

    Parameters
    ----------
    network
        Causal network.
    length
        Number of tokens of the longest sequence.
    max_tokens
        Maximum number of input tokens; None if there is no limit.
    prefix
        Ids of the tokens at the beginning of every sequence. Some networks count positions from one
        of these tokens.
    """
    # Round the length up to a power of two, so that few lengths are tested.
    length = max(4, 2 ** (length - 1).bit_length())
    length = length if max_tokens is None else min(length, max_tokens)
    return network.check_once(_gives_same_logits, length, tuple(prefix))


def _gives_same_logits(network: Network, length: int, prefix: Sequence[int]) -> bool:
    """Return whether a network computes the same logits with and without a cache.

    The test sequence has `length` tokens, the first of which are `prefix`.
    """
    # Compute pseudo-random tokens in one pass, and with their first tokens from a cache.
    ids = network.sample_ids(length, prefix)
    sequence = torch.from_numpy(ids[None]).to(network.device)
    # Numbers of cached tokens: about a quarter, half and three quarters, and the extremes.
    n_cached = {1, length // 4 + 1, length // 2, 3 * length // 4 + 1, length - 2, length - 1}
    for start in sorted(n for n in n_cached if 0 < n < length):
        _, past = prefill(network, ids[:start])
        if past.cache is None:
            return False
        # Continue the cached tokens with the rest of the sequence, in two equal rows of a
        # batch. Compare the logits at the first and the last new position.
        positions = torch.tensor([start, length - 1], device=network.device)
        rows = torch.tensor([0, 0, 1, 1], device=network.device)
        with torch.inference_mode():
            expected = network.logits(sequence, torch.zeros_like(positions), positions)
            logits = network.logits(
                sequence[:, start:].repeat(2, 1),
                rows,
                (positions - start).repeat(2),
                **past.repeat(2, length - start),
            )
        if not network.agree(logits, expected.repeat(2, 1)):
            return False
    return True
