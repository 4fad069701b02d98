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

    A row is a sequence of tokens that the network has computed. New tokens are computed from the
    cache, without computing the row again.

    Attributes
    ----------
    ids
        Token ids of each row.
    cache
        Cache object of transformers, in which shorter rows are padded. None if the network has no
        usable cache. Then a longer row is computed from its first token.
    mask
        Attention mask, shape (R, L): 1 at the positions of tokens, 0 at padding. L is the number
        of tokens of the longest row.
    """

    ids: tuple[_Tokens, ...]
    cache: Any
    mask: torch.Tensor

    def repeat(self, n_rows: int, length: int) -> dict[str, Any]:
        """Copy the cache of the first row for several new rows that continue it.

        Parameters
        ----------
        n_rows
            Number of new rows.
        length
            Number of new tokens of each row.

        Returns
        -------
        dict
            Keyword arguments of the network: ``attention_mask``, ``past_key_values`` and
            ``use_cache``.
        """
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(n_rows)
        shape = (n_rows, len(self.ids[0]) + length)
        mask = torch.ones(shape, dtype=torch.int64, device=self.mask.device)
        return {"attention_mask": mask, "past_key_values": cache, "use_cache": True}

    def extend(
        self, network: Network, rows: Sequence[int], tokens: Sequence[_Tokens], *, all_logits: bool
    ) -> tuple[KVCache, torch.Tensor]:
        """Append tokens to rows, in one batch that pads shorter rows.

        Parameters
        ----------
        network
            Network that computed the cache.
        rows
            Index of the present row of each of k new rows. A row may occur several times.
        tokens
            Token ids, one or more, that are appended to the present row of each new row.
        all_logits
            Whether to return the logits at all new tokens, or only at the last token of each row.

        Returns
        -------
        KVCache
            Cache of the k new rows.
        tensor
            Logits over the V tokens of the vocabulary. With `all_logits` the shape is (n, V), where
            n is the number of all new tokens, row by row. Otherwise it is (k, V).
        """
        lengths = [len(ids) for ids in tokens]
        row_ids = tuple(self.ids[row] + ids for row, ids in zip(rows, tokens, strict=True))
        if self.cache is None:
            positions = [
                range(len(ids) - (length if all_logits else 1), len(ids))
                for ids, length in zip(row_ids, lengths, strict=True)
            ]
            logits = torch.cat(network.logits_at(row_ids, positions))
            return KVCache(row_ids, None, self.mask), logits
        device, max_length = network.device, max(lengths)
        # Any token may serve as padding, since the mask hides it: repeat the last one.
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
        """Append tokens to rows, in one batch for each number of new tokens.

        Batches of equal length need no padding. The parameters are the same as in `extend`.

        Parameters
        ----------
        network
            Network that computed the cache.
        rows
            Index of the present row of each of k new rows.
        tokens
            Token ids that are appended to the present row of each new row.

        Returns
        -------
        KVCache
            Cache of the k new rows.
        list of tensor
            Logits at the new tokens of each row, k tensors of shape (number of new tokens, V).
        """
        lengths = np.array([len(ids) for ids in tokens])
        caches, logits = [], dict[int, torch.Tensor]()
        for length in np.unique(lengths).tolist():
            group = np.flatnonzero(lengths == length).tolist()
            group_rows, group_tokens = [rows[i] for i in group], [tokens[i] for i in group]
            cache, group_logits = self.extend(network, group_rows, group_tokens, all_logits=True)
            caches.append(cache)
            logits.update(zip(group, torch.split(group_logits, length), strict=True))
        # The batches list the rows by length: restore the original order.
        order = np.argsort(list(logits), kind="stable").tolist()
        return KVCache.concatenate(caches, order), [logits[i] for i in range(len(tokens))]

    @staticmethod
    def concatenate(caches: Sequence[KVCache], order: Sequence[int]) -> KVCache:
        """Merge several caches into one.

        Parameters
        ----------
        caches
            Caches of the same network.
        order
            Index of each row of the result among the rows of all caches, one cache after the other.
        """
        all_ids = [ids for cache in caches for ids in cache.ids]
        row_ids = tuple(all_ids[i] for i in order)
        if caches[0].cache is None:
            return KVCache(row_ids, None, caches[0].mask)
        # Some layers store the number of their positions; the cache of the longest rows has it.
        merged = max(caches, key=lambda cache: cache.mask.shape[1]).cache
        max_length = max(cache.mask.shape[1] for cache in caches)
        pad = torch.nn.functional.pad
        masks = [pad(cache.mask, (0, max_length - cache.mask.shape[1])) for cache in caches]
        for number, layer in enumerate(merged.layers):
            for name in ("keys", "values"):
                tensors = [getattr(cache.cache.layers[number], name) for cache in caches]
                padded = [pad(x, (0, 0, 0, max_length - x.shape[-2])) for x in tensors]
                setattr(layer, name, torch.cat(padded)[list(order)])
        return KVCache(row_ids, merged, torch.cat(masks)[list(order)])


def prefill(
    network: Network, ids: IntArray, *, use_cache: bool = True
) -> tuple[torch.Tensor, KVCache]:
    """Run the network on one row of tokens and cache its keys and values.

    Some networks give wrong results if rows are continued from a cache. The functions `can_extend`
    and `can_extend_ragged` test this.

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
    """Test whether logits computed from a cache are equal to logits without a cache.

    Networks with sliding windows, attention chunks or recurrent states may differ, but only in rows
    beyond some length. Therefore the length is rounded up to a power of two, and rows of this
    length are tested once, with cached parts of several lengths.

    Parameters
    ----------
    network
        Causal network.
    length
        Number of tokens of the longest row.
    max_tokens
        Maximum number of input tokens; None if there is no limit.
    prefix
        Tokens at the beginning of every row. Some networks count positions from one of them.
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
    """Test whether rows can be continued from a cache if the numbers of new tokens differ.

    Such a batch needs padding, which some networks do not support. Two rows are extended three
    times, with padding and in batches of equal length. The logits are compared with rows that are
    computed from their first token.

    Parameters
    ----------
    network
        Causal network.
    prefix
        Tokens at the beginning of every row. Some networks count positions from one of them.
    """

    def is_correct() -> bool:
        n = len(prefix)
        ids = tuple(network.sample_ids(n + 10, prefix).tolist())
        _, past = prefill(network, np.array(ids[: n + 1]))
        if past.cache is None:
            return False
        # Each step appends 1 to 3 tokens to two rows; the numbers differ between the rows.
        steps = [[ids[n + 1 : n + 2], ids[n + 2 : n + 5]], [ids[n + 5 : n + 7], ids[n + 7 :]]]
        for rows, step in zip(([0, 0], [1, 0], [0, 1]), [*steps, steps[0]], strict=True):
            padded, logits = past.extend(network, rows, step, all_logits=False)
            # Without cached keys and values, the rows are computed from their first token.
            uncached = KVCache(past.ids, None, past.mask)
            _, expected = uncached.extend(network, rows, step, all_logits=False)
            past, all_logits = past.extend_by_length(network, rows, step)
            last_logits = torch.stack([row_logits[-1] for row_logits in all_logits])
            _, next_padded = padded.extend(network, [0, 1], step, all_logits=False)
            _, next_logits = past.extend(network, [0, 1], step, all_logits=False)
            if not (
                network.agree(logits, expected)
                and network.agree(last_logits, expected)
                and network.agree(next_padded, next_logits)
            ):
                return False
        return True

    return network.check_once(("extend ragged", tuple(prefix)), is_correct)
