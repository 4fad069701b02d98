"""Running a transformer: rows of one length in, log-probabilities of single tokens out.

Rows are never padded. Logits exist only for the positions that are read, a batch at a time:
a hook on the body of the network passes on the hidden states of those positions alone, so the
language-model head, whatever it is, never sees the others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from contstim.arrays import BoolArray, FloatArray, IntArray

_Tokens = tuple[int, ...]

#: What the scores of networks of transformers depend on.
PACKAGES = ("torch", "transformers", "tokenizers")

#: What networks of transformers raise for inputs, masks or caches that they cannot take.
FORWARD_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    ImportError,
)

# Tokens and logits of one forward pass. Blocks of this size are reused by the allocator on a
# CPU; a GPU wants larger ones.
_CPU_TOKENS, _GPU_TOKENS = 2048, 65_536
_CPU_LOGITS, _GPU_LOGITS = 2**22, 2**28
# How far, in nats, a score may move with its batch.
_RESOLUTION, _HALF_RESOLUTION = 1e-4, 0.5
# How far log-probabilities may differ between two ways of computing them, nats, on average (root
# mean square) over the vocabulary.
_ALIKE, _HALF_ALIKE = 1e-4, 0.1


class HiddenStateSelector:
    """Hooks that keep the hidden states at `index` alone, the flat places that will be read."""

    def __init__(self) -> None:
        self.index: torch.Tensor | None = None

    def _kept(self, hidden: torch.Tensor) -> torch.Tensor:
        assert self.index is not None
        return hidden.reshape(-1, hidden.shape[-1]).index_select(0, self.index)[None]

    def before(self, module: Any, args: Any) -> Any:
        """Narrow all that goes into a module that works place by place."""
        return args if self.index is None else tuple(self._kept(hidden) for hidden in args)

    def after(self, module: Any, args: Any, output: Any) -> Any:
        """Narrow what comes out of the body of a network, or of a module in it."""
        if self.index is None:
            return output
        if isinstance(output, torch.Tensor):
            return self._kept(output)
        if isinstance(output, tuple):
            return (self._kept(output[0]), *output[1:])
        output.last_hidden_state = self._kept(output[0])
        return output


@dataclass(frozen=True, eq=False)
class KVCache:
    """What is kept of R rows of tokens, or nothing where a network keeps nothing of use.

    Attributes
    ----------
    ids
        The tokens of each row.
    cache
        Keys and values of the rows, those of shorter ones padded; None: rows are computed anew.
    seen
        Which places of the cache hold tokens, shape (R, L).
    """

    ids: tuple[_Tokens, ...]
    cache: Any
    seen: torch.Tensor

    def branched(self, n_rows: int, length: int) -> dict[str, Any]:
        """Return the arguments with which a model goes on from one row, in `n_rows` of `length`."""
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(n_rows)
        shape = (n_rows, len(self.ids[0]) + length)
        mask = torch.ones(shape, dtype=torch.int64, device=self.seen.device)
        return {"attention_mask": mask, "past_key_values": cache, "use_cache": True}

    def extend(
        self, network: Network, rows: Sequence[int], tokens: Sequence[_Tokens], *, every: bool
    ) -> tuple[KVCache, torch.Tensor]:
        """Let rows go on by one token or more each.

        Parameters
        ----------
        network
            The network.
        rows, tokens
            Which rows, and what they go on by.
        every
            Whether the logits at every token are wanted, row after row; else those at the last
            token of each row.
        """
        lengths = [len(t) for t in tokens]
        if self.cache is None:
            whole = [self.ids[row] + more for row, more in zip(rows, tokens, strict=True)]
            wanted = [
                range(len(ids) - (length if every else 1), len(ids))
                for ids, length in zip(whole, lengths, strict=True)
            ]
            further = KVCache(tuple(whole), None, self.seen)
            return further, torch.cat(network.logits_at(whole, wanted))
        device, longest = network.device, max(lengths)
        padded = [[*t, *[t[-1]] * (longest - len(t))] for t in tokens]
        chosen = torch.tensor(rows, device=device)
        inside = (
            torch.arange(longest, device=device) < torch.tensor(lengths, device=device)[:, None]
        )
        seen = torch.cat([self.seen[chosen], inside.to(torch.int64)], dim=1)
        places = seen.cumsum(dim=1)[:, -longest:] - 1
        cache = copy.deepcopy(self.cache)
        cache.batch_select_indices(chosen)
        if every:
            at_rows, at = inside.nonzero(as_tuple=True)
        else:
            at_rows = torch.arange(len(rows), device=device)
            at = torch.tensor(lengths, device=device) - 1
        with torch.inference_mode():
            logits = network.logits(
                torch.tensor(padded, device=device),
                at_rows,
                at,
                attention_mask=seen,
                position_ids=places,
                past_key_values=cache,
                use_cache=True,
            )
        ids = tuple(self.ids[row] + more for row, more in zip(rows, tokens, strict=True))
        return KVCache(ids, cache, seen), logits

    def read(
        self, network: Network, rows: Sequence[int], tokens: Sequence[_Tokens]
    ) -> tuple[KVCache, list[torch.Tensor]]:
        """Let rows go on, those by as many tokens together: nothing is computed to fill rows up.

        Returns
        -------
        kept
            What is kept of the rows.
        logits
            Of each row, at each of its tokens, (tokens, V).
        """
        lengths = np.array([len(t) for t in tokens])
        parts, logits = [], dict[int, torch.Tensor]()
        for length in np.unique(lengths).tolist():
            group = np.flatnonzero(lengths == length).tolist()
            some = [rows[i] for i in group], [tokens[i] for i in group]
            part, read = self.extend(network, *some, every=True)
            parts.append(part)
            logits.update(zip(group, torch.split(read, length), strict=True))
        further = KVCache.joined(parts, np.argsort(list(logits), kind="stable").tolist())
        return further, [logits[i] for i in range(len(tokens))]

    @staticmethod
    def joined(parts: Sequence[KVCache], order: Sequence[int]) -> KVCache:
        """Return what is kept of several sets of rows, one after the other, in another order."""
        every = [ids for part in parts for ids in part.ids]
        ordered = tuple(every[i] for i in order)
        if parts[0].cache is None:
            return KVCache(ordered, None, parts[0].seen)
        # Some layers count what they hold: as much as that of the longest rows.
        cache = max(parts, key=lambda part: part.seen.shape[1]).cache
        longest, pad = max(part.seen.shape[1] for part in parts), torch.nn.functional.pad
        seen = torch.cat([pad(part.seen, (0, longest - part.seen.shape[1])) for part in parts])
        for number, layer in enumerate(cache.layers):
            for name in ("keys", "values"):
                held = [getattr(part.cache.layers[number], name) for part in parts]
                filled = [pad(h, (0, 0, 0, longest - h.shape[-2])) for h in held]
                setattr(layer, name, torch.cat(filled)[list(order)])
        return KVCache(ordered, cache, seen[list(order)])


class Normaliser:
    """Log-probabilities from logits, over the whole vocabulary or over each token's class.

    Parameters
    ----------
    classes
        Token classes, boolean arrays of shape (V,); with any, a token is normalised over the
        tokens of its own class alone. None: over all tokens.
    device
        Where the logits are.
    """

    def __init__(self, classes: tuple[BoolArray, ...], n_logits: int, device: torch.device) -> None:
        self.n_classes = len(classes)
        class_of = np.full(n_logits, -1, dtype=np.int64)
        for number, members in enumerate(classes):
            class_of[: len(members)][members] = number
        self.class_of = torch.from_numpy(class_of).to(device)
        self._outside = [self.class_of != number for number in range(self.n_classes)]

    def log_probs(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of each row's target: (m, V) and (m,) to (m,)."""
        if not self.n_classes:
            return logits.log_softmax(dim=1).gather(1, targets[:, None])[:, 0]
        chosen = logits.gather(1, targets[:, None])[:, 0]
        classes = self.class_of[targets]
        total = torch.empty_like(chosen)
        for number, outside in enumerate(self._outside):
            of_class = classes == number
            if of_class.any():
                total[of_class] = (
                    logits[of_class].masked_fill_(outside, -torch.inf).logsumexp(dim=1)
                )
        return chosen - total

    def mean(self, logits: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum over places of the log-probability of every token, float64.

        The normalisers are summed apart from the logits, so that no table of log-probabilities
        is written.

        Parameters
        ----------
        logits
            Logits of m places, shape (m, V).
        weight
            Their weights, shape (m,).

        Returns
        -------
        tensor
            Shape (V,); minus infinity for tokens of no class.
        """
        weight = weight.to(logits.dtype)
        summed = (weight @ logits).to(torch.float64)
        if not self.n_classes:
            return summed - (weight @ logits.logsumexp(dim=1)).to(torch.float64)
        result = torch.full_like(summed, -torch.inf)
        for outside in self._outside:
            inside = ~outside
            total = (weight @ logits[:, inside].logsumexp(dim=1)).to(torch.float64)
            result[inside] = summed[inside] - total
        return result


class Network:
    """A language model of transformers, in evaluation mode.

    Parameters
    ----------
    model
        The model with its language-model head.
    device
        Where it is.
    attends_to_all
        Whether the model is given no attention mask: rows are never padded, and what code that
        comes with a checkpoint makes of a mask differs.
    """

    def __init__(
        self,
        model: Any,
        device: torch.device,
        *,
        attends_to_all: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self._attends_to_all = attends_to_all
        self.dtype: torch.dtype = next(model.parameters()).dtype
        # Softmax in float32 or wider, whatever the network computes in.
        self._wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        half = self.dtype in (torch.float16, torch.bfloat16)
        #: By how many nats a score may move with its batch.
        self.batch_tolerance = _HALF_RESOLUTION if half else _RESOLUTION
        self._alike = _HALF_ALIKE if half else _ALIKE
        on_cpu = device.type == "cpu"
        #: Tokens of one forward pass that suit the device.
        self.token_budget = _CPU_TOKENS if on_cpu else _GPU_TOKENS
        self._logit_budget = _CPU_LOGITS if on_cpu else _GPU_LOGITS
        # Nothing is kept of a row unless it is asked for.
        model.config.use_cache = False
        ids = torch.zeros((1, 1), dtype=torch.int64, device=device)
        with torch.inference_mode():
            logits = model(**self._given(ids)).logits
        #: V, logits of a place. What transformers calls output embeddings may be another layer.
        self.n_logits = int(logits.shape[-1])
        self._tried: dict[tuple[object, ...], bool] = {}
        self._selector = self._find_narrowing()

    def _given(self, ids: torch.Tensor) -> dict[str, Any]:
        """Return what the model is given of whole rows."""
        if self._attends_to_all:
            return {"input_ids": ids}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _find_narrowing(self) -> HiddenStateSelector | None:
        """Compute no more than is read, as far as this network allows; logits must not change.

        Of networks built like BERT or DistilBERT the last layer is narrowed after its attention:
        what follows works place by place. Of others, what the head gets.
        """
        named = list(self.model.named_modules())
        attention = [m for name, m in named if name.endswith("attention.output")][-1:]
        after_attention = [m for name, m in named if name.endswith("sa_layer_norm")][-1:]
        body = [] if self.model.base_model is self.model else [self.model.base_model]
        for module in [*attention, *after_attention, *body]:
            narrow = HiddenStateSelector()
            if module in attention:
                handle = module.register_forward_pre_hook(narrow.before)
            else:
                handle = module.register_forward_hook(narrow.after)
            if self._unchanged(narrow):
                return narrow
            handle.remove()
        return None

    def _unchanged(self, narrow: HiddenStateSelector) -> bool:
        """Return whether two short rows have the same logits narrowed and not."""
        ids = (torch.arange(6, device=self.device) % self.n_logits).reshape(2, 3)
        # Without a mask transformers warns of padding where a network's is among these tokens.
        given = self._given(ids)
        places = torch.tensor([1, 2, 5], device=self.device)
        with torch.inference_mode():
            full = self.model(**given).logits.reshape(6, -1)[places]
            narrow.index = places
            try:
                logits = self.model(**given).logits
            except FORWARD_ERRORS:
                # A network that cannot do without the other places.
                return False
            finally:
                narrow.index = None
        return logits.shape == (1, *full.shape) and torch.allclose(
            logits[0].float(), full.float(), rtol=1e-2, atol=1e-3
        )

    def logits(
        self, ids: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor, **more: Any
    ) -> torch.Tensor:
        """Return logits of one batch at the places read: (m, V), float32 or wider.

        Parameters
        ----------
        ids
            Token ids, shape (R, L).
        rows, positions
            The places, shape (m,).
        more
            Further arguments of the model, e.g. ``past_key_values``.
        """
        flat = rows * ids.shape[1] + positions
        more = {**self._given(ids), **more}
        logits: torch.Tensor
        if self._selector is None:
            logits = self.model(**more).logits
            return logits.reshape(-1, logits.shape[-1])[flat].to(self._wide)
        self._selector.index = flat
        try:
            logits = self.model(**more).logits
        finally:
            self._selector.index = None
        return logits[0].to(self._wide)

    def iter_logits(
        self,
        ids: IntArray,
        rows: IntArray,
        positions: IntArray,
        budget: int | None = None,
        before: KVCache | None = None,
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield the logits of all places read, a batch of rows at a time.

        Parameters
        ----------
        ids
            Token ids of R rows of one length, shape (R, L).
        rows, positions
            The places read, shape (M,), rows ascending.
        budget
            Most tokens of a batch; None for what suits the device.
        before
            What all rows go on from, if anything; it is kept as it is.

        Yields
        ------
        slice, tensor
            Which of the M places, and their logits (m, V).
        """
        n_rows, length = ids.shape
        n_before = 0 if before is None else len(before.ids[0])
        most_rows = max(1, (budget or self.token_budget) // (n_before + length))
        most_reads = max(1, self._logit_budget // self.n_logits)
        read_before = np.concatenate([[0], np.bincount(rows, minlength=n_rows).cumsum()])
        cuts = [0]
        while cuts[-1] < n_rows:
            start = cuts[-1]
            full = np.searchsorted(read_before, read_before[start] + most_reads, side="right") - 1
            cuts.append(min(max(int(full), start + 1), start + most_rows, n_rows))
        places = np.searchsorted(rows, cuts)
        with torch.inference_mode():
            for i in range(len(cuts) - 1):
                read = slice(int(places[i]), int(places[i + 1]))
                if read.start == read.stop:
                    continue
                batch = torch.from_numpy(ids[cuts[i] : cuts[i + 1]]).to(self.device)
                at = torch.from_numpy(rows[read] - cuts[i]).to(self.device)
                where = torch.from_numpy(positions[read]).to(self.device)
                more = {} if before is None else before.branched(len(batch), length)
                yield read, self.logits(batch, at, where, **more)

    def logits_at(
        self, rows: Sequence[Sequence[int]], places: Sequence[Sequence[int]]
    ) -> list[torch.Tensor]:
        """Return the logits at chosen `places` of each row, (m, V); rows of one length together."""
        by_row: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        for length in {len(ids) for ids in rows}:
            group = [i for i, ids in enumerate(rows) if len(ids) == length]
            sizes = [len(places[i]) for i in group]
            at = np.concatenate([np.array(places[i], dtype=np.int64) for i in group])
            of_places = np.repeat(np.arange(len(group)), sizes)
            ids = np.array([rows[i] for i in group])
            logits = torch.cat([part for _, part in self.iter_logits(ids, of_places, at)])
            for i, values in zip(group, torch.split(logits, sizes), strict=True):
                by_row[i] = values
        return by_row

    def log_probs(
        self,
        ids: IntArray,
        rows: IntArray,
        positions: IntArray,
        targets: IntArray,
        normaliser: Normaliser,
        budget: int | None = None,
    ) -> FloatArray:
        """Return log p(target) at each place read: shape (M,), float64, nats.

        Parameters as in `batches`; `targets` are token ids, shape (M,).
        """
        values = np.empty(len(rows), dtype=np.float64)
        for read, logits in self.iter_logits(ids, rows, positions, budget):
            wanted = torch.from_numpy(targets[read]).to(self.device)
            values[read] = normaliser.log_probs(logits, wanted).cpu().numpy()
        return values

    def agree(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Return whether logits (m, V) computed in two ways give like log-probabilities."""
        difference = one.log_softmax(dim=1) - other.log_softmax(dim=1)
        return bool((difference.square().mean(dim=1).sqrt() <= self._alike).all())

    def sample_ids(self, length: int, prefix: Sequence[int]) -> IntArray:
        """Return token ids to try something on, shape (length,), that begin with `prefix`."""
        ids = np.random.default_rng(0).integers(self.n_logits, size=length)
        ids[: len(prefix)] = prefix[:length]
        return ids

    def check_once(self, what: tuple[object, ...], check: Callable[[], bool]) -> bool:
        """Return whether something holds of this network, trying it the first time.

        It does not where the network cannot compute it: one that keeps something else of a row,
        or takes no such masks or positions.
        """
        if what not in self._tried:
            try:
                self._tried[what] = check()
            except FORWARD_ERRORS:
                self._tried[what] = False
        return self._tried[what]

    def can_extend(self, length: int, limit: int | None, prefix: Sequence[int]) -> bool:
        """Return whether rows may go on from what is kept of their beginning, to `length` tokens.

        Tried once for each power of two that the length does not exceed, from beginnings of many
        lengths: windows, chunks and recurrent states make a difference only beyond some length.

        Parameters
        ----------
        length
            Tokens of the longest row.
        limit
            Most tokens of an input, if there is a limit.
        prefix
            What every row begins with. Some networks count positions from a token of it.
        """
        length = max(4, 2 ** (length - 1).bit_length())
        length = length if limit is None else min(length, limit)
        what = "goes on", length, tuple(prefix)
        return self.check_once(what, lambda: self._can_extend(self.sample_ids(length, prefix)))

    def _can_extend(self, ids: IntArray) -> bool:
        """Compare two rows that go on from beginnings of `ids` (L,) with the whole row."""
        n = len(ids)
        starts = {1, n // 4 + 1, n // 2, 3 * n // 4 + 1, n - 2, n - 1}
        row = torch.from_numpy(ids[None]).to(self.device)
        for start in sorted(start for start in starts if 0 < start < n):
            before = self.begin(ids[:start])[1]
            if before.cache is None:
                return False
            places = torch.tensor([start, n - 1], device=self.device)
            rows = torch.tensor([0, 0, 1, 1], device=self.device)
            with torch.inference_mode():
                whole = self.logits(row, torch.zeros_like(places), places)
                rest = row[:, start:].repeat(2, 1)
                more = before.branched(2, n - start)
                gone_on = self.logits(rest, rows, (places - start).repeat(2), **more)
            if not self.agree(gone_on, whole.repeat(2, 1)):
                return False
        return True

    def begin(self, ids: IntArray, *, keep: bool = True) -> tuple[torch.Tensor, KVCache]:
        """Run the beginning of rows once and keep its keys and values.

        Parameters
        ----------
        ids
            Token ids, shape (L,).
        keep
            Whether to keep anything. Some networks that score cannot.

        Returns
        -------
        tensor
            Logits at every place, shape (L, V).
        KVCache
            What to go on from. Whether rows that go on from it are right, `can_extend` tells.
        """
        with torch.inference_mode():
            row = torch.from_numpy(ids[None]).to(self.device)
            output = self.model(input_ids=row, attention_mask=torch.ones_like(row), use_cache=keep)
        cache = getattr(output, "past_key_values", None)
        cache = cache if isinstance(cache, DynamicCache) else None
        before = KVCache((tuple(ids.tolist()),), cache, torch.ones_like(row))
        return output.logits[0].to(self._wide), before

    @cached_property
    def n_weights(self) -> tuple[int, int]:
        """Number of weights that a token passes on its way to the head, and that the head has.

        They measure the cost of one token and of one place read.
        """
        output = self.model.get_output_embeddings()
        if output is None:  # as of code that does not say
            linear = [m for m in self.model.modules() if isinstance(m, torch.nn.Linear)]
            output = next((m for m in linear[::-1] if m.out_features == self.n_logits), None)
        head = 0 if output is None else output.weight.numel()
        inside = [m for m in self.model.modules() if not isinstance(m, torch.nn.Embedding)]
        total = sum(p.numel() for m in inside for p in m.parameters(recurse=False))
        return max(total - head, 0), head
