"""Masked models that score a sentence in one order of its tokens, which a rule finds as it goes.

Masked diffusion models write by unmasking one token after another where they are surest. Turok, De
Sa & Kuleshov (2026), arXiv:2603.01367, "DUEL": if the place that comes next follows from what is
visible alone, a text has one order, and the chain rule along it is the exact log-likelihood of that
way of writing. It takes as many inputs as there are tokens, each of which waits for the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import Hints, Replacements, SentenceParts
from contstim.models.hf.checkpoint import MASKED_OPTIONS, Checkpoint
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.metrics import Plan, masked_rows
from contstim.models.hf.transformer import Frame
from contstim.text import Sentence, WordList

# Places whose numbers differ by less count as alike, and the leftmost of them comes next, so that
# arithmetic of another batch decides nothing.
_ALIKE = 1e-5

#: From log-probabilities of all tokens at k hidden places, (k, V), how early each comes: (k,).
Rule = Callable[[torch.Tensor], torch.Tensor]


def _margin(log_probs: torch.Tensor) -> torch.Tensor:
    best = log_probs.topk(2, dim=1).values.exp()
    return best[:, 0] - best[:, 1]


def _entropy(log_probs: torch.Tensor) -> torch.Tensor:
    return (log_probs.exp() * log_probs.clamp_min(-1e30)).sum(dim=1)


#: Rules by name: the leftmost place, or that of the highest probability of any token, of the
#: greatest distance between the two highest, or of the least entropy.
UNMASKING_RULES: dict[str, Rule] = {
    "l2r": lambda log_probs: log_probs.new_zeros(len(log_probs)),
    "confidence": lambda log_probs: log_probs.max(dim=1).values.exp(),
    "margin": _margin,
    "entropy": _entropy,
}


class UnmaskingModel(MaskedModel):
    """A masked model whose score is the chain rule in one order of tokens, metric ``duel``.

    All tokens are hidden at first. Of the hidden places that which the rule puts first, by what the
    model says of every token there, is scored and shown; and so on (Turok et al. 2026). Scores are
    log-probabilities: those of all strings of one number of tokens sum to 1. With the rule ``l2r``
    they are those of ``pll-sentence-l2r``.

    Parameters
    ----------
    spec
        The spec, with the options of `MASKED_OPTIONS`; ``rule`` is one of `UNMASKING_RULES`.
    checkpoint
        The network and its tokenizer.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, checkpoint)
        self._rule = spec.choice("rule", UNMASKING_RULES, MASKED_OPTIONS["rule"])
        if self.options.restricted:
            raise SpecError(
                f"restricted=yes in {str(spec)!r}: which place comes next must not depend on the "
                "tokens that are hidden; leave the option out"
            )
        self.rule = UNMASKING_RULES[self._rule]

    def _orders(self) -> str:
        return f"one, by {self._rule}"

    def values(self, encoded: Sequence[Encoded]) -> list[FloatArray]:
        """Compute the log-probability of each token when its turn comes: S arrays (T,), nats."""
        values = [np.zeros(0)] * len(encoded)
        for group in self._groups(encoded, [len(e.scored) for e in encoded]):
            for i, terms in zip(group, _unmasked(self, [encoded[i] for i in group]), strict=True):
                values[i] = terms
        return values

    def _parts(
        self, encoded: Encoded, values: FloatArray, plan: Plan | None = None
    ) -> SentenceParts:
        if plan is not None:
            return super()._parts(encoded, values, plan)
        return SentenceParts(encoded.units, values, encoded.word_of, encoded.n_words)

    @property
    def guides_itself(self) -> bool:
        """Always: a sentence takes as many inputs as it has tokens."""
        return True

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates for one position.

        Which order they have is not known before they are scored, so that the bound is the highest
        score; the estimate takes the other words' terms to be those of the present sentence.
        """
        encoded, values = self.base(str(sentence))
        frame = Frame.of(encoded, position)
        candidates = self.tokenizer.candidates(sentence, position, words)
        completion = self.completions(sentence, position, words)
        others = float(values[encoded.word_of != position].sum())
        body, head = self.network.weights
        return Replacements(
            np.zeros(len(words), dtype=np.float64),
            others + completion,
            exact=False,
            score=self._candidate_scores(sentence, position, words, frame),
            hints=Hints(
                cost=(len(encoded.scored) - encoded.layout[position] + candidates.n_tokens).astype(
                    float
                ),
                multiply_adds=float(len(encoded.ids) * body + head),
                n_tokens=candidates.n_tokens,
            ),
        )


def _unmasked(model: UnmaskingModel, encoded: Sequence[Encoded]) -> list[FloatArray]:
    """Return each token's log-probability when its turn comes, of sentences of one length."""
    values = [np.zeros(len(e.scored)) for e in encoded]
    hidden = [np.ones(len(e.scored), dtype=np.bool_) for e in encoded]
    while left := [i for i, mask in enumerate(hidden) if mask.any()]:
        rows = [
            masked_rows(encoded[i].ids, encoded[i].scored, hidden[i][None], model.mask_id)
            for i in left
        ]
        slots = [np.flatnonzero(hidden[i]) for i in left]
        places = [encoded[i].scored[slot] for i, slot in zip(left, slots, strict=True)]
        targets = [encoded[i].ids[place] for i, place in zip(left, places, strict=True)]
        sizes = [len(slot) for slot in slots]
        logs, early = _read(
            model,
            np.concatenate(rows),
            np.repeat(np.arange(len(left)), sizes),
            np.concatenate(places),
            np.concatenate(targets),
        )
        cuts = np.cumsum(sizes)[:-1]
        parts = zip(left, slots, np.split(logs, cuts), np.split(early, cuts), strict=True)
        for i, slot, log_probs, when in parts:
            first = int(np.argmax(when >= when.max() - _ALIKE))
            values[i][slot[first]] = log_probs[first]
            hidden[i][slot[first]] = False
    return values


def _read(
    model: UnmaskingModel, rows: IntArray, at: IntArray, places: IntArray, targets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return log p(target) of M places, and how early each comes by the rule: (M,) each."""
    logs, early = np.empty(len(at)), np.empty(len(at))
    for read, logits in model.network.batches(rows, at, places, model.budget):
        log_probs = logits.log_softmax(dim=1)
        wanted = torch.from_numpy(targets[read]).to(log_probs.device)
        logs[read] = log_probs.gather(1, wanted[:, None])[:, 0].cpu().numpy()
        early[read] = model.rule(log_probs).cpu().numpy()
    return logs, early
