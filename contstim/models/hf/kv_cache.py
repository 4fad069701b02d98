"""Cached attention keys and values of causal transformers (the KV cache)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from contstim.arrays import IntArray
from contstim.models.hf.network import Network

_Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class KVCache:
    """Cached attention keys and values of R rows of tokens.

    A row is a sequence of tokens that the network has computed. Further tokens of the row are
    computed from the cache, without computing the row again.

    Attributes
    ----------
    ids
        Token ids of each row.
    cache
        Cache object of transformers, in which shorter rows are padded. None if the network has no
        usable cache; longer rows are then computed from their first token.
    mask
        Attention mask, shape (R, L): 1 at the positions of tokens, 0 at padding. L is the number
        of tokens of the longest row.
    """

    ids: tuple[_Tokens, ...]
    cache: Any
    mask: torch.Tensor

    def repeat(self, n_rows: int, length: int) -> dict[str, Any]:
        """Copy the cache of the first row for a batch of rows that continue it.

        Parameters
        ----------
        n_rows
            Number of rows of the batch.
        length
            Number of further tokens of each row.

        Returns
        -------
        dict
            Arguments for the forward pass of the network: ``attention_mask``, ``past_key_values``
            and ``use_cache``.
        """
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(n_rows)
        shape = (n_rows, len(self.ids[0]) + length)
        mask = torch.ones(shape, dtype=torch.int64, device=self.mask.device)
        return {"attention_mask": mask, "past_key_values": cache, "use_cache": True}

    def extend(
        self, network: Network, rows: Sequence[int], tokens: Sequence[_Tokens], *, all_logits: bool
    ) -> tuple[KVCache, torch.Tensor]:
        """Create k longer rows by appending tokens to cached rows, in one batch with padding.

        Parameters
        ----------
        network
            Network that computed the cache.
        rows
            Index of the cached row that each of the k rows begins with. A cached row may occur
            several times.
        tokens
            Ids of the tokens to append to each of the k rows, at least one per row.
        all_logits
            Whether to return the logits at all appended tokens, or only at the last token of each
            row.

        Returns
        -------
        KVCache
            Cache of the k rows.
        tensor
            Logits over the V tokens of the vocabulary. With `all_logits` the shape is (n, V), where
            n is the number of appended tokens of all rows, row by row. Otherwise it is (k, V).
        """
        lengths = [len(ids) for ids in tokens]
        row_ids = tuple(self.ids[row] + ids for row, ids in zip(rows, tokens, strict=True))
        if self.cache is None:
            n_read = lengths if all_logits else [1] * len(lengths)
            positions = [
                range(len(ids) - n, len(ids)) for ids, n in zip(row_ids, n_read, strict=True)
            ]
            logits = torch.cat(network.logits_at(row_ids, positions))
            return KVCache(row_ids, None, self.mask), logits
        device, max_length = network.device, max(lengths)
        # Pad with the last token. Any token would do, because the mask hides the padding.
        padded = [[*ids, *[ids[-1]] * (max_length - len(ids))] for ids in tokens]
        row_indices = torch.tensor(rows, device=device)
        ends = torch.tensor(lengths, device=device)
        is_token = torch.arange(max_length, device=device) < ends[:, None]
        mask = torch.cat([self.mask[row_indices], is_token.to(torch.int64)], dim=1)
        cache = copy.deepcopy(self.cache)
        cache.batch_select_indices(row_indices)
        if all_logits:
            read_rows, read_positions = is_token.nonzero(as_tuple=True)
        else:
            read_rows, read_positions = torch.arange(len(rows), device=device), ends - 1
        with torch.inference_mode():
            logits = network.logits(
                torch.tensor(padded, device=device),
                read_rows,
                read_positions,
                attention_mask=mask,
                position_ids=mask.cumsum(dim=1)[:, -max_length:] - 1,
                past_key_values=cache,
                use_cache=True,
            )
        return KVCache(row_ids, cache, mask), logits

    def extend_by_length(
        self, network: Network, rows: Sequence[int], tokens: Sequence[_Tokens]
    ) -> tuple[KVCache, list[torch.Tensor]]:
        """Create k longer rows by appending tokens to cached rows, without padding.

        Rows with the same number of appended tokens form a batch.

        Parameters
        ----------
        network
            Network that computed the cache.
        rows
            Index of the cached row that each of the k rows begins with.
        tokens
            Ids of the tokens to append to each of the k rows.

        Returns
        -------
        KVCache
            Cache of the k rows.
        list of tensor
            Logits at the appended tokens of each row, k tensors of shape (number of tokens, V).
        """
        lengths = np.array([len(ids) for ids in tokens])
        caches, logits = [], dict[int, torch.Tensor]()
        for length in np.unique(lengths).tolist():
            group = np.flatnonzero(lengths == length).tolist()
            group_rows, group_tokens = [rows[i] for i in group], [tokens[i] for i in group]
            cache, group_logits = self.extend(network, group_rows, group_tokens, all_logits=True)
            caches.append(cache)
            logits.update(zip(group, torch.split(group_logits, length), strict=True))
        # Restore the original order of the rows, which are sorted by the number of tokens.
        order = np.argsort(list(logits), kind="stable").tolist()
        return KVCache.concatenate(caches, order), [logits[i] for i in range(len(tokens))]

    @staticmethod
    def concatenate(caches: Sequence[KVCache], order: Sequence[int]) -> KVCache:
        """Merge the rows of several caches into one cache, and reorder them.

        Parameters
        ----------
        caches
            Caches of the same network.
        order
            Indices of the rows in their new order. They count through the rows of all caches, one
            cache after the other.
        """
        all_ids = [ids for cache in caches for ids in cache.ids]
        row_ids = tuple(all_ids[i] for i in order)
        if caches[0].cache is None:
            return KVCache(row_ids, None, caches[0].mask)
        # Pad all rows to the length of the longest. Reuse its cache object, because some layers
        # store their number of positions.
        longest = max(caches, key=lambda cache: cache.mask.shape[1])
        merged, max_length = longest.cache, longest.mask.shape[1]
        pad = torch.nn.functional.pad
        masks = [pad(cache.mask, (0, max_length - cache.mask.shape[1])) for cache in caches]
        for number, layer in enumerate(merged.layers):
            for name in ("keys", "values"):
                tensors = [getattr(cache.cache.layers[number], name) for cache in caches]
                # The positions of keys and values are the last dimension but one.
                padded = [pad(x, (0, 0, 0, max_length - x.shape[-2])) for x in tensors]
                setattr(layer, name, torch.cat(padded)[list(order)])
        return KVCache(row_ids, merged, torch.cat(masks)[list(order)])


def prefill(
    network: Network, ids: IntArray, *, use_cache: bool = True
) -> tuple[torch.Tensor, KVCache]:
    """Run the network on one row of tokens and cache its keys and values.

    Some networks compute wrong logits from a cache, see `can_extend` and `can_extend_ragged`.

    Parameters
    ----------
    network
        Causal network.
    ids
        Token ids of the row, shape (L,).
    use_cache
        Whether to store keys and values. Some networks compute logits only without a cache.

    Returns
    -------
    tensor
        Logits at all positions, shape (L, V), float32 or wider.
    KVCache
        Cache of the row.
    """
    with torch.inference_mode():
        row = torch.from_numpy(ids[None]).to(network.device)
        mask = torch.ones_like(row)
        output = network.model(input_ids=row, attention_mask=mask, use_cache=use_cache)
    cache = getattr(output, "past_key_values", None)
    cache = cache if isinstance(cache, DynamicCache) else None
    logits = output.logits[0].to(network.wide_dtype)
    return logits, KVCache((tuple(ids.tolist()),), cache, mask)


def can_extend(
    network: Network, length: int, max_tokens: int | None, prefix: Sequence[int]
) -> bool:
    """Test whether a network computes the same logits from a cache as without a cache.

    Networks with sliding windows, attention chunks or recurrent states may compute other logits,
    but only for rows beyond some length. The length is therefore rounded up to a power of two, and
    a row of this length is tested once, with different parts of it cached.

    Parameters
    ----------
    network
        Causal network.
    length
        Number of tokens of the longest row.
    max_tokens
        Maximum number of input tokens; None if there is no limit.
    prefix
        Ids of the tokens at the beginning of every row. Some networks count positions from one of
        these tokens.
    """
    length = max(4, 2 ** (length - 1).bit_length())
    length = length if max_tokens is None else min(length, max_tokens)

    def is_correct() -> bool:
        ids = network.sample_ids(length, prefix)
        row = torch.from_numpy(ids[None]).to(network.device)
        # Numbers of cached tokens: about a quarter, a half, three quarters, and the extremes.
        starts = {1, length // 4 + 1, length // 2, 3 * length // 4 + 1, length - 2, length - 1}
        for start in sorted(start for start in starts if 0 < start < length):
            _, past = prefill(network, ids[:start])
            if past.cache is None:
                return False
            # Compare two continued rows with the whole row, at their first and last positions.
            positions = torch.tensor([start, length - 1], device=network.device)
            rows = torch.tensor([0, 0, 1, 1], device=network.device)
            with torch.inference_mode():
                expected = network.logits(row, torch.zeros_like(positions), positions)
                logits = network.logits(
                    row[:, start:].repeat(2, 1),
                    rows,
                    (positions - start).repeat(2),
                    **past.repeat(2, length - start),
                )
            if not network.agree(logits, expected.repeat(2, 1)):
                return False
        return True

    return network.check_once(("extend", length, tuple(prefix)), is_correct)


def can_extend_ragged(network: Network, prefix: Sequence[int]) -> bool:
    """Test whether different numbers of tokens can be appended to the cached rows of a batch.

    Such a batch needs padding, which some networks do not support. Two rows are extended three
    times, with padding and in batches without padding. The logits must be the same as if the rows
    were computed from their first token.

    Parameters
    ----------
    network
        Causal network.
    prefix
        Ids of the tokens at the beginning of every row. Some networks count positions from one of
        these tokens.
    """

    def is_correct() -> bool:
        ids = network.sample_ids(len(prefix) + 10, prefix)
        _, past = prefill(network, ids[:-9])
        if past.cache is None:
            return False
        # Divide the last nine tokens into groups of different length for two rows.
        a, b, c, d = (tuple(group.tolist()) for group in np.split(ids[-9:], [1, 4, 6]))
        # Each step selects two cached rows and appends one group of tokens to each of them.
        for rows, tokens in (([0, 0], [a, b]), ([1, 0], [c, d]), ([0, 1], [a, b])):
            padded, padded_logits = past.extend(network, rows, tokens, all_logits=False)
            # Without cached keys and values, the rows are computed from their first token.
            uncached = KVCache(past.ids, None, past.mask)
            _, expected = uncached.extend(network, rows, tokens, all_logits=False)
            past, row_logits = past.extend_by_length(network, rows, tokens)
            last_logits = torch.stack([logits[-1] for logits in row_logits])
            # Both extended caches must also be usable for the next step.
            _, next_padded_logits = padded.extend(network, [0, 1], tokens, all_logits=False)
            _, next_logits = past.extend(network, [0, 1], tokens, all_logits=False)
            if not (
                network.agree(padded_logits, expected)
                and network.agree(last_logits, expected)
                and network.agree(next_padded_logits, next_logits)
            ):
                return False
        return True

    return network.check_once(("extend ragged", tuple(prefix)), is_correct)
