"""Batched forward passes of a transformer.

The inputs are rows of token ids of equal length, so that no padding is needed. The language-model
head, which computes the logits, is expensive. It is applied only at the required positions: a hook
discards the hidden states at all other positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from contstim.models.hf.kv_cache import KVCache

#: Packages on which the scores of transformers depend.
PACKAGES = ("torch", "transformers", "tokenizers")

#: Exceptions that networks raise for unsupported inputs, attention masks or caches.
FORWARD_ERRORS = (
    RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError, ImportError,
)  # fmt: skip

# Maximum numbers of tokens and of logits in a forward pass. The allocator of a CPU reuses blocks
# of this size; a GPU is faster with larger ones.
_CPU_TOKENS, _GPU_TOKENS = 2048, 65_536
_CPU_LOGITS, _GPU_LOGITS = 2**22, 2**28
# Maximum difference in nats between the scores of a sentence in two batches, in single and in half
# precision.
_BATCH_TOLERANCE, _HALF_BATCH_TOLERANCE = 1e-4, 0.5
# Maximum difference between two vectors of log-probabilities that are considered equal: root mean
# square over the vocabulary in nats, in single and in half precision.
_TOLERANCE, _HALF_TOLERANCE = 1e-4, 0.1


class HiddenStateSelector:
    """Hooks that discard a network's hidden states at all positions except selected ones.

    Attributes
    ----------
    indices
        Selected positions, as indices into the concatenated rows of the batch, shape (m,). None
        disables the hooks.
    """

    def __init__(self) -> None:
        self.indices: torch.Tensor | None = None

    def _select(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the hidden states at the selected positions, shape (1, m, width)."""
        assert self.indices is not None
        return hidden.reshape(-1, hidden.shape[-1]).index_select(0, self.indices)[None]

    def select_inputs(self, module: Any, inputs: Any) -> Any:
        """Select hidden states in the inputs of a module that treats each position separately."""
        return inputs if self.indices is None else tuple(self._select(x) for x in inputs)

    def select_output(self, module: Any, inputs: Any, output: Any) -> Any:
        """Select hidden states in the output of a module: a tensor, a tuple or an output object."""
        if self.indices is None:  # All positions are needed.
            return output
        if isinstance(output, torch.Tensor):
            return self._select(output)
        # In tuples and in output objects of transformers, the hidden states are the first element.
        if isinstance(output, tuple):
            return (self._select(output[0]), *output[1:])
        output.last_hidden_state = self._select(output[0])
        return output


class Normaliser:
    """Log-softmax over all V tokens of the vocabulary, or over tokens of the same class only.

    Parameters
    ----------
    classes
        One boolean array per class of tokens, for example word-starting tokens. It states whether
        each token belongs to the class, shape (V,). A token belongs to at most one class. An empty
        tuple normalises over the whole vocabulary.
    n_logits
        Number of logits of the network.
    device
        Device of the logits.
    """

    def __init__(self, classes: tuple[BoolArray, ...], n_logits: int, device: torch.device) -> None:
        self.n_classes = len(classes)
        # Number of the class of each token; -1 for tokens outside all classes.
        token_classes = np.full(n_logits, -1, dtype=np.int64)
        for number, is_member in enumerate(classes):
            token_classes[: len(is_member)][is_member] = number
        self.token_classes = torch.from_numpy(token_classes).to(device)
        self._is_outside = [self.token_classes != number for number in range(self.n_classes)]

    def log_probs(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of one token at each position.

        Parameters
        ----------
        logits
            Logits at m positions over a vocabulary of V tokens, shape (m, V).
        targets
            Id of the token at each position, shape (m,).

        Returns
        -------
        tensor
            Log-probabilities in nats, shape (m,).
        """
        if not self.n_classes:  # Normalise over the whole vocabulary.
            return logits.log_softmax(dim=1).gather(1, targets[:, None])[:, 0]
        target_logits = logits.gather(1, targets[:, None])[:, 0]  # (positions,)
        # With classes, log p(token) = logit - log sum_u exp(logit of u), where u runs over the
        # tokens of the same class. Tokens of other classes get the logit minus infinity.
        target_classes = self.token_classes[targets]
        log_normalisers = torch.empty_like(target_logits)
        for number, is_outside in enumerate(self._is_outside):
            has_class = target_classes == number
            if has_class.any():
                class_logits = logits[has_class].masked_fill_(is_outside, -torch.inf)
                log_normalisers[has_class] = class_logits.logsumexp(dim=1)
        return target_logits - log_normalisers

    def weighted_sum(self, logits: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of log-probabilities over positions, for every token.

        With the weight w_i and the logits x_i of position i, the sum for token v is

            sum_i w_i x_iv - sum_i w_i log sum_u exp x_iu,

        where u runs over the tokens of the same class as v. The two sums over i are computed
        separately, which needs less memory than all log-probabilities.

        Parameters
        ----------
        logits
            Logits at m positions over a vocabulary of V tokens, shape (m, V).
        weights
            Weight of each position, shape (m,).

        Returns
        -------
        tensor
            Sum in nats for each token of the vocabulary, shape (V,), float64; minus infinity for
            tokens outside all classes.
        """
        weights = weights.to(logits.dtype)
        # log p(token) = logit - log sum exp(logits). Sum both parts over positions with weights.
        logit_sums = (weights @ logits).to(torch.float64)  # (vocabulary,)
        if not self.n_classes:
            return logit_sums - (weights @ logits.logsumexp(dim=1)).to(torch.float64)
        # With classes, normalise over tokens of the same class. Other tokens have probability 0.
        log_prob_sums = torch.full_like(logit_sums, -torch.inf)
        for is_outside in self._is_outside:
            is_member = ~is_outside
            normaliser_sum = (weights @ logits[:, is_member].logsumexp(dim=1)).to(torch.float64)
            log_prob_sums[is_member] = logit_sums[is_member] - normaliser_sum
        return log_prob_sums


class Network:
    """A transformer with a language-model head, in evaluation mode.

    Parameters
    ----------
    model
        Network loaded by the package `transformers`.
    device
        Device of the weights.
    attends_to_all
        Whether to omit the attention mask, because the code of some checkpoints interprets it
        differently. Rows are never padded, so the mask carries no information.

    Attributes
    ----------
    batch_tolerance
        Maximum difference in nats between scores of one sentence in different batches.
    batch_tokens
        Maximum number of tokens in a forward pass that suits the device.
    n_logits
        Number of logits per position.
    checks
        Whether the network passed each test of `check_once`, by name and arguments of the test.
    """

    def __init__(self, model: Any, device: torch.device, *, attends_to_all: bool = False) -> None:
        self.model = model
        self.device = device
        self._attends_to_all = attends_to_all
        self.dtype: torch.dtype = next(model.parameters()).dtype
        # Softmax is computed in float32 or wider, whatever the dtype of the network.
        self.wide_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        is_half = self.dtype in (torch.float16, torch.bfloat16)
        self.batch_tolerance = _HALF_BATCH_TOLERANCE if is_half else _BATCH_TOLERANCE
        self._tolerance = _HALF_TOLERANCE if is_half else _TOLERANCE
        # Maximum numbers of tokens and of logits in one forward pass.
        on_cpu = device.type == "cpu"
        self.batch_tokens = _CPU_TOKENS if on_cpu else _GPU_TOKENS
        self._batch_logits = _CPU_LOGITS if on_cpu else _GPU_LOGITS
        # Store keys and values only on request.
        model.config.use_cache = False
        # Run the network on one token to find the number of logits.
        ids = torch.zeros((1, 1), dtype=torch.int64, device=device)
        with torch.inference_mode():
            logits = model(**self._model_inputs(ids)).logits
        self.n_logits = int(logits.shape[-1])
        self.checks: dict[tuple[object, ...], bool] = {}
        self._selector = self._install_selector()

    def _model_inputs(self, ids: torch.Tensor) -> dict[str, Any]:
        """Return the model's keyword arguments for rows without padding."""
        if self._attends_to_all:
            return {"input_ids": ids}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _install_selector(self) -> HiddenStateSelector | None:
        """Register the hooks that discard hidden states, as early in the network as possible.

        The result is None if the hooks would change the logits of the network.
        """
        # Modules at which hidden states can be selected, the earliest first: after the attention
        # of the last layer (names in BERT and in DistilBERT), or before the language-model head.
        modules = list(self.model.named_modules())
        attention_outputs = [m for name, m in modules if name.endswith("attention.output")][-1:]
        attention_norms = [m for name, m in modules if name.endswith("sa_layer_norm")][-1:]
        bodies = [] if self.model.base_model is self.model else [self.model.base_model]
        # Test each module with three of the six positions of two rows. Keep the first one at which
        # the hooks do not change the logits.
        ids = torch.arange(6, device=self.device) % self.n_logits
        inputs = self._model_inputs(ids.reshape(2, 3))
        positions = torch.tensor([1, 2, 5], device=self.device)
        for module in [*attention_outputs, *attention_norms, *bodies]:
            selector = HiddenStateSelector()
            if module in attention_outputs:
                handle = module.register_forward_pre_hook(selector.select_inputs)
            else:
                handle = module.register_forward_hook(selector.select_output)
            with torch.inference_mode():
                expected = self.model(**inputs).logits.reshape(6, -1)[positions]
                selector.indices = positions
                try:
                    logits = self.model(**inputs).logits
                except FORWARD_ERRORS:  # The network needs all positions.
                    logits = torch.empty(0)
                finally:
                    selector.indices = None
            if logits.shape == (1, *expected.shape) and torch.allclose(
                logits[0].float(), expected.float(), rtol=1e-2, atol=1e-3
            ):
                return selector
            handle.remove()
        return None

    def logits(
        self, ids: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor, **inputs: Any
    ) -> torch.Tensor:
        """Return the logits at selected positions of one batch.

        Parameters
        ----------
        ids
            Token ids of R sequences of length L, one per row, shape (R, L).
        rows
            Index of the row of each of m selected positions, shape (m,).
        positions
            The m selected positions, each counted from 0 within its row, shape (m,).
        inputs
            Further keyword arguments of the network, for example ``past_key_values``.

        Returns
        -------
        tensor
            Logits over the V tokens of the vocabulary, shape (m, V), float32 or wider.
        """
        indices = rows * ids.shape[1] + positions  # positions in the concatenated rows
        inputs = {**self._model_inputs(ids), **inputs}
        logits: torch.Tensor
        # Without hooks, compute the logits at all positions and select afterwards.
        if self._selector is None:
            logits = self.model(**inputs).logits
            return logits.reshape(-1, logits.shape[-1])[indices].to(self.wide_dtype)
        # With hooks, the network computes only the selected logits, as one row: (1, m, V).
        self._selector.indices = indices
        try:
            logits = self.model(**inputs).logits
        finally:
            self._selector.indices = None
        return logits[0].to(self.wide_dtype)

    def iter_logits(
        self,
        ids: IntArray,
        rows: IntArray,
        positions: IntArray,
        batch_tokens: int | None = None,
        past: KVCache | None = None,
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield the logits at selected positions of token sequences, in batches of sequences.

        Parameters
        ----------
        ids
            Token ids of R sequences of length L, one per row, shape (R, L).
        rows
            Index of the row of each of m selected positions, in ascending order, shape (m,).
        positions
            The m selected positions, each counted from 0 within its row, shape (m,).
        batch_tokens
            Maximum number of tokens in a batch; None for a number that suits the device.
        past
            Cached keys and values of tokens that precede every sequence. They are not changed.

        Yields
        ------
        slice
            Part of the m selected positions that the batch contains.
        tensor
            Logits at these positions over the V tokens of the vocabulary, shape (positions, V).
        """
        n_rows, length = ids.shape
        n_past = 0 if past is None else len(past.ids)
        max_rows = max(1, (batch_tokens or self.batch_tokens) // (n_past + length))
        max_predictions = max(1, self._batch_logits // self.n_logits)
        # A batch ends before it exceeds the maximum number of rows or of selected positions.
        # Element r of `n_before` is the number of selected positions in the rows before row r.
        n_before = np.concatenate([[0], np.bincount(rows, minlength=n_rows).cumsum()])
        starts = [0]  # first row of each batch
        while starts[-1] < n_rows:
            start = starts[-1]
            limit = n_before[start] + max_predictions
            stop = int(np.searchsorted(n_before, limit, side="right")) - 1
            starts.append(min(max(stop, start + 1), start + max_rows, n_rows))
        # `rows` is ascending, so the selected positions of a batch are a slice.
        offsets = np.searchsorted(rows, starts)
        with torch.inference_mode():
            for i, (start, stop) in enumerate(pairwise(starts)):
                batch = slice(int(offsets[i]), int(offsets[i + 1]))
                if batch.start == batch.stop:
                    continue
                batch_ids = torch.from_numpy(ids[start:stop]).to(self.device)
                batch_rows = torch.from_numpy(rows[batch] - start).to(self.device)
                batch_positions = torch.from_numpy(positions[batch]).to(self.device)
                inputs = {} if past is None else past.repeat(stop - start, length)
                yield batch, self.logits(batch_ids, batch_rows, batch_positions, **inputs)

    def logits_at(
        self, rows: Sequence[Sequence[int]], positions: Sequence[Sequence[int]]
    ) -> list[torch.Tensor]:
        """Return the logits at selected positions of token sequences of different lengths.

        Rows of equal length are computed together.

        Parameters
        ----------
        rows
            Token ids of R sequences.
        positions
            Selected positions in each sequence.

        Returns
        -------
        list of tensor
            Logits of each sequence over the V tokens of the vocabulary, shape (positions, V).
        """
        logits_by_row: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        # Rows of equal length need no padding, so compute them together.
        for length in {len(ids) for ids in rows}:
            group = [i for i, ids in enumerate(rows) if len(ids) == length]
            counts = [len(positions[i]) for i in group]
            ids = np.array([rows[i] for i in group])  # (rows of the group, length)
            # Concatenate the selected positions of all rows, and split the logits by row again.
            flat_rows = np.repeat(np.arange(len(group)), counts)
            flat_positions = np.concatenate([np.array(positions[i], dtype=np.int64) for i in group])
            batches = self.iter_logits(ids, flat_rows, flat_positions)
            logits = torch.cat([batch_logits for _, batch_logits in batches])
            for i, row_logits in zip(group, torch.split(logits, counts), strict=True):
                logits_by_row[i] = row_logits
        return logits_by_row

    def log_probs(
        self,
        ids: IntArray,
        rows: IntArray,
        positions: IntArray,
        targets: IntArray,
        normaliser: Normaliser,
        batch_tokens: int | None = None,
    ) -> FloatArray:
        """Return the log-probability of one token at each selected position.

        Parameters
        ----------
        ids
            Token ids of R sequences of length L, one per row, shape (R, L).
        rows
            Index of the row of each of m selected positions, in ascending order, shape (m,).
        positions
            The m selected positions, each counted from 0 within its row, shape (m,).
        targets
            Id of the predicted token at each selected position, shape (m,).
        normaliser
            Log-softmax over the vocabulary or over classes of tokens.
        batch_tokens
            Maximum number of tokens in a batch; None for a number that suits the device.

        Returns
        -------
        array
            Log-probabilities in nats, shape (m,), float64.
        """
        values = np.empty(len(rows), dtype=np.float64)
        for batch, logits in self.iter_logits(ids, rows, positions, batch_tokens):
            batch_targets = torch.from_numpy(targets[batch]).to(self.device)
            values[batch] = normaliser.log_probs(logits, batch_targets).cpu().numpy()
        return values

    def agree(self, logits: torch.Tensor, expected: torch.Tensor) -> bool:
        """Return whether two arrays of logits give the same log-probabilities up to rounding.

        Parameters
        ----------
        logits, expected
            Logits at m positions, computed in two ways, each of shape (m, V).
        """
        difference = logits.log_softmax(dim=1) - expected.log_softmax(dim=1)
        return bool((difference.square().mean(dim=1).sqrt() <= self._tolerance).all())

    def sample_ids(self, length: int, prefix: Sequence[int]) -> IntArray:
        """Return `length` pseudo-random token ids that begin with `prefix`, to test the network."""
        ids = np.random.default_rng(0).integers(self.n_logits, size=length)
        ids[: len(prefix)] = prefix[:length]
        return ids

    def check_once(self, check: Callable[..., bool], *arguments: object) -> bool:
        """Return whether the network passes a test. The test is run only once.

        A network that raises one of `FORWARD_ERRORS` fails the test.

        Parameters
        ----------
        check
            Function that tests a network and returns whether it passes.
        *arguments
            Arguments of the function after the network.
        """
        key = (check.__name__, *arguments)
        if key not in self.checks:
            try:
                self.checks[key] = check(self, *arguments)
            except FORWARD_ERRORS:
                self.checks[key] = False
        return self.checks[key]

    def is_causal(self) -> bool:
        """Return whether the predictions at a position are independent of later tokens.

        Two rows that differ only in their last two tokens must have the same logits at the first
        two positions. This fails for XLNet, which needs a special attention mask, and for decoders
        of the BERT family that were saved without ``is_decoder``.
        """
        rows = np.tile(self.sample_ids(4, ()), (2, 1))
        rows[1, 2:] = (rows[1, 2:] + 1) % self.n_logits
        # In a causal network, the last two tokens do not change the logits at the first two.
        positions = torch.tensor([0, 1], device=self.device)
        with torch.inference_mode():
            logits, other_logits = (
                self.logits(row[None], torch.zeros_like(positions), positions)
                for row in torch.from_numpy(rows).to(self.device)
            )
        # Networks that compute NaN are reported when they score a sentence.
        return self.agree(logits, other_logits) or bool(logits.isnan().any())

    @cached_property
    def n_weights(self) -> tuple[int, int]:
        """Number of weights of the layers, and number of weights of the language-model head.

        These approximate the cost of an input token and the cost of a prediction, respectively, in
        multiply-add operations. Embeddings are not counted.
        """
        head = self.model.get_output_embeddings()
        # The language-model head maps hidden states to logits. If the code of the checkpoint does
        # not name it, use the last linear layer with the right number of outputs.
        if head is None:
            linear_layers = [m for m in self.model.modules() if isinstance(m, torch.nn.Linear)]
            heads = [layer for layer in linear_layers if layer.out_features == self.n_logits]
            head = heads[-1] if heads else None
        n_head = 0 if head is None else head.weight.numel()
        # Embeddings are looked up without multiplications, so they are not counted.
        modules = [m for m in self.model.modules() if not isinstance(m, torch.nn.Embedding)]
        n_total = sum(p.numel() for m in modules for p in m.parameters(recurse=False))
        return max(n_total - n_head, 0), n_head
