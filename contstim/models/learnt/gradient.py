"""Scores of all candidates for one position, to first order in their embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.models.learnt.member import Member
from contstim.text.sentence import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.learnt.model import FirstTokenModel

__all__ = ["first_order_estimate"]


def first_order_estimate(
    model: FirstTokenModel, sentence: Sentence, position: int, words: WordList
) -> FloatArray:
    """Estimate the score of `sentence` with the word at `position` replaced by each of `words`.

    Each output of a network is taken as linear in the embeddings of the open word's tokens
    around the present word: o(c) = o + sum_j (e(c)_j - e_j) do/de_j. A candidate of another
    number of tokens counts with the mean of its tokens' embeddings in each place.

    Returns
    -------
    array
        Shape (V,), in the unit of the scores. An estimate, not a bound: it orders candidates.

    Raises
    ------
    InputError
        If `position` is outside the sentence.
    """
    if not 0 <= position < len(sentence):
        raise InputError(
            f"position {position} is outside the {len(sentence)} words of {str(sentence)!r}"
        )
    encoded = model.encode([str(sentence)])[0]
    places = encoded.scored[encoded.word_of == position]
    candidates = model.tokenizer.candidates(sentence, position, words).tokens
    counts = np.array([len(tokens) for tokens in candidates], dtype=np.int64)
    outputs = [
        _outputs(member, encoded.ids, places, candidates, counts) for member in model.learnt.members
    ]
    return model.combine(outputs, len(encoded.scored) - len(places) + counts)


def _outputs(
    member: Member,
    ids: np.ndarray,
    places: np.ndarray,
    candidates: list[tuple[int, ...]],
    counts: np.ndarray,
) -> FloatArray:
    """Return the outputs of one member for all candidates, (V, K), to first order."""
    table = member.network.get_input_embeddings()
    seen: list[torch.Tensor] = []

    def open_up(module: Any, args: Any, embedded: torch.Tensor) -> torch.Tensor:
        seen[:] = [embedded.detach().clone().requires_grad_()]
        return seen[0]

    handle = table.register_forward_hook(open_up)
    device = member.head.weight.device
    try:
        with torch.enable_grad():
            now = member.outputs(torch.from_numpy(ids[None]).to(device))[0]
            slopes = [torch.autograd.grad(value, seen[0], retain_graph=True)[0][0] for value in now]
    finally:
        handle.remove()
    found = np.empty((len(candidates), len(slopes)), dtype=np.float64)
    with torch.inference_mode():
        at = torch.from_numpy(places).to(device)
        tokens = torch.tensor([t for c in candidates for t in c], device=device)
        owner = np.repeat(np.arange(len(candidates)), counts)
        first = np.cumsum(counts) - counts
        for k, slope in enumerate(slopes):
            slope = slope[at]
            present = float(now[k]) - float((seen[0][0][at] * slope).sum())
            # The share of each token of each candidate, in every place of the open word.
            share = (table.weight @ slope.T)[tokens].double().cpu().numpy()
            total = np.zeros((len(candidates), len(places)))
            np.add.at(total, owner, share)
            found[:, k] = present + total.sum(axis=1) / counts
            same = np.flatnonzero(counts == len(places))
            steps = np.arange(len(places))
            found[same, k] = present + share[first[same][:, None] + steps, steps].sum(axis=1)
    return found
