"""Masked language models as sentence models: pseudo-log-likelihoods and permutation averages.

Scores of candidates share what they can. A term of a metric is log p(token | visible tokens). With
one word open for candidates,

- terms of other words' tokens from inputs that mask the open word whole have one value for all
  candidates;
- so have inputs for the open word's own tokens: each gives every candidate's value at once;
- terms from inputs in which some token of the open word is visible are computed for each candidate
  whose score is asked for.

Inputs depend on how many tokens the candidate has, so the shared ones are computed once for each
number of tokens. Where that costs more than the stated limit, the bounds leave out the terms of the
least weight, which is to take them as 0, their largest value; exact scores compute them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, ScoringCost, TokenScores
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence, check_length
from contstim.models.hf.metrics import (
    MAX_EXACT_ROWS,
    METRICS,
    MaskingPlan,
    apply_masks,
    masking_plan,
    permutation,
)
from contstim.models.hf.network import Normaliser
from contstim.models.hf.options import MASKED_OPTIONS, MaskedOptions
from contstim.models.hf.transformer import Frame, TransformerModel
from contstim.models.prefixes import PrefixModel
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.guide import MaskedGuide

#: The bounds of all candidates cost at most as much as this many inputs of the present sentence.
#: With twice as many, bounds are two or three nats lower and estimates no better.
MAX_BOUND_INPUTS = 70
# Guess of a token's log-probability beside visible tokens of its own word, as a part of what it is
# with the whole word masked. Estimates use it, scores do not.
_PART_BESIDE_VISIBLE = 0.7
# As many batches of candidates' inputs are laid out at a time.
_BATCHES_AT_ONCE = 4


@dataclass(frozen=True)
class MaskedEvent(Event):
    """What a masked model scores.

    Attributes
    ----------
    first
        Form of the first word: ``spaced``, ``unspaced``, or ``unmarked`` where the vocabulary
        does not mark white space.
    normalised
        ``vocabulary``, or ``class``: each position over word-starting or word-continuing tokens
        alone.
    orders
        For ``permutation``: the number of words up to which all orders are averaged, and the
        number and seed of the sampled orders beyond. Else empty.
    """

    first: str = "unmarked"
    normalised: str = "vocabulary"
    orders: str = ""


class MaskedModel(TransformerModel, PrefixModel):
    """A masked language model with one scoring metric.

    The metrics are weighted sums of log p(token | visible tokens); special
    tokens are always visible and never scored.

    ``pll``
        Salazar et al. (2020), Eq. 2 of their section 2: one token hidden at a time.
    ``pll-word-l2r`` (the default)
        Kauf & Ivanova (2023), Eq. 2: a token and the later tokens of its word hidden.
    ``pll-whole-word``
        Kauf & Ivanova (2023), Eq. 3: all tokens of its word hidden.
    ``pll-sentence-l2r``
        Kauf & Ivanova (2023), appendix G: a token and all later scored tokens hidden. (Their code
        hides the closing special token as well; here special tokens stay visible.)
    ``permutation``
        Golan et al. (2023), section 4.3: the mean of log-probabilities over all orders of the
        words and of the tokens within words. Exact up to ``exact`` words (10) as long as no more
        than 65,536 masked inputs are needed; beyond, an unbiased estimate from ``orders`` (100)
        seeded random orders in pairs of an order and its reverse, with a standard error. The
        paper samples 100 orders of eight words.

    With ``restricted=yes`` every scored position is normalised over the tokens of the true
    token's class alone, word-starting or word-continuing, as in Golan et al. (2023).

    Parameters
    ----------
    spec
        The spec, with the options of `MASKED_OPTIONS`.
    checkpoint
        The network and its tokenizer.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, MASKED_OPTIONS, checkpoint, special=True)
        self.options = MaskedOptions.read(spec)
        assert checkpoint.mask_id is not None, "a masked checkpoint has a mask token"
        self.mask_id = checkpoint.mask_id
        forms = self.tokenizer.token_classes
        if self.options.restricted and not forms.mark:
            raise SpecError(
                f"restricted=yes in {str(spec)!r}: its vocabulary does not tell word-starting "
                "from word-continuing tokens; leave the option out"
            )
        if self.options.restricted and self.tokenizer.options.unknown == "unk":
            raise SpecError(
                f"restricted=yes with unknown=unk in {str(spec)!r}: the unknown-word token is of "
                "neither class; leave one of the two out"
            )
        self.normaliser = Normaliser(
            (forms.is_starting, forms.is_continuing) if self.options.restricted else (),
            self.network.n_logits,
            self.network.device,
        )

    @property
    def event(self) -> MaskedEvent:
        """What is scored."""
        options = self.options
        before = self.checkpoint.tokenizer.convert_ids_to_tokens(
            list(self.tokenizer.leading_special_ids)
        )
        orders = ""
        if METRICS[options.metric] is permutation:
            orders = (
                f"exact to {options.exact} words and {MAX_EXACT_ROWS} inputs, then "
                f"{options.orders} of seed {options.seed}"
            )
        return MaskedEvent(
            units="tokens",
            start=" ".join(before) or "none",
            end="none",
            punctuation=self.tokenizer.options.punctuation,
            case=self.tokenizer.case,
            unknown=self.tokenizer.options.unknown,
            metric=options.metric,
            first=self.tokenizer.first,
            normalised="class" if options.restricted else "vocabulary",
            orders=orders,
        )

    @property
    def packages(self) -> tuple[str, ...]:
        """Those of transformers, and the one that brings the metric."""
        return (*super().packages, *METRICS.packages(self.options.metric))

    def plan(self, encoded: EncodedSentence) -> MaskingPlan:
        """Return the rows and terms of a sentence under this model's metric."""
        return masking_plan(encoded.layout, self.options)

    def _parts(self, encoded: EncodedSentence, values: FloatArray) -> TokenScores:
        plan = self.plan(encoded)
        return TokenScores(
            encoded.units,
            plan.by_slot(values),
            encoded.word_indices,
            encoded.n_words,
            plan.stderr(values),
        )

    def values(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Compute the terms of each sentence's plan: S arrays (M,), nats.

        Rows of one length are computed together, whatever sentence they come from.
        """
        plans = [self.plan(e) for e in encoded]
        terms: list[FloatArray] = [np.zeros(0)] * len(encoded)
        for group in self._groups(encoded, [len(plan.masks) for plan in plans]):
            rows, at, positions = [], [], []
            n_rows = 0
            for i in group:
                e, plan = encoded[i], plans[i]
                rows.append(apply_masks(e.ids, e.scored_positions, plan.masks, self.mask_id))
                at.append(plan.row + n_rows)
                positions.append(e.scored_positions[plan.slot])
                n_rows += len(plan.masks)
            targets = [encoded[i].ids[p] for i, p in zip(group, positions, strict=True)]
            together = self.network.log_probs(
                np.concatenate(rows),
                np.concatenate(at),
                np.concatenate(positions),
                np.concatenate(targets),
                self.normaliser,
                self.budget,
            )
            cuts = np.cumsum([len(t) for t in targets])[:-1]
            for i, values in zip(group, np.split(together, cuts), strict=True):
                terms[i] = values
        return terms

    @property
    def is_self_guided(self) -> bool:
        """Whether a sentence is read about as often as it has tokens, not for every set of them."""
        words = (1,) * 6
        return len(masking_plan(words, self.options).masks) <= len(words)

    def guide_prefix(self, first: WordList, later: WordList) -> MaskedGuide | None:
        """Return one beginning, after which the model reads masks and the final mark."""
        from contstim.models.hf.guide import MaskedGuide  # which scoring does without

        return MaskedGuide(self, (first, later)) if self.language.is_space_delimited else None

    def completed(self, ids: IntArray, places: IntArray, tokens: IntArray) -> FloatArray:
        """Return the sums of log p(token) at `places` (n,) of one row, of words (k, n): (k,)."""
        table = np.empty((len(places), self.network.n_logits))
        rows = np.zeros(len(places), dtype=np.int64)
        for batch, logits in self.network.iter_logits(ids[None], rows, places, self.budget):
            weight = torch.ones(1, device=logits.device)
            for k, row in zip(range(batch.start, batch.stop), logits, strict=True):
                table[k] = self.normaliser.mean(row[None], weight).cpu().numpy()
        return np.asarray(table[np.arange(len(places)), tokens].sum(axis=1))

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates for one position.

        Terms that do not see the open word are computed once for all candidates, and one set of
        inputs with the word masked gives the word's own terms for the whole list. The bound takes
        the terms that do see it as 0, their largest value; the estimate takes the present
        sentence's values for those of other words.
        """
        if (
            not self.language.is_space_delimited
        ):  # a candidate may change the tokens of its neighbours
            return super().score_replacements(sentence, position, words)
        sentence.check_position(position)
        encoded, values = self.encode_and_score(str(sentence))
        frame = Frame.of(encoded, position)
        assert frame is not None, "every word of a masked model's sentence has scored tokens"
        candidates = self.tokenizer.candidates(sentence, position, words)
        by_length = candidates.by_length

        open_words = {}
        for n, (members, _) in by_length.items():
            open_words[n] = _OpenWord(self, frame, encoded.layout, position, n)
            example = str(sentence.replace(position, words.words[members[0]]))
            check_length(example, len(open_words[n].ids), self.checkpoint.max_tokens, self.spec)
        n_words = {n: len(members) for n, (members, _) in by_length.items()}
        _compute_within_cost(open_words, n_words, len(encoded.ids))
        # What other words' terms are in the present sentence is what the estimates take them for.
        n_own = encoded.layout[position]
        present = open_words.get(n_own) or _OpenWord(self, frame, encoded.layout, position, n_own)
        of_others = ~np.isin(present.plan.slot, present.slots)
        visible = present.visible[of_others[present.visible]]
        seen = float(present.plan.weight[visible] @ values[visible])
        shared = present.masked[of_others[present.masked]]
        value_by_context = dict(zip(present.contexts(shared), values[shared].tolist(), strict=True))
        upper = np.zeros(len(words), dtype=np.float64)
        estimate = np.zeros(len(words), dtype=np.float64)
        cost = np.ones(len(words), dtype=np.float64)
        for n, (members, ids) in by_length.items():
            word = open_words[n]
            cost[members] = word.cost
            own_terms = word.own_terms(ids)
            upper[members] = word.others_sum + own_terms
            scale = word.own_scale()
            likely = (
                _PART_BESIDE_VISIBLE * word.completion(ids) if scale is None else own_terms * scale
            )
            missing = word.uncomputed_others()
            guesses = [value_by_context.get(context, 0.0) for context in word.contexts(missing)]
            guessed = float(word.plan.weight[missing] @ np.array(guesses, dtype=np.float64))
            estimate[members] = word.others_sum + guessed + likely + seen

        def together(tokens: IntArray) -> FloatArray:
            return open_words[tokens.shape[1]].scores(tokens)

        body, head = self.network.n_weights
        return ReplacementScores(
            upper,
            estimate,
            is_exact=False,
            score=self._candidate_scores(sentence, position, words, frame, together),
            cost=ScoringCost(
                n_inputs=cost,
                multiply_adds=float(len(encoded.ids) * body + head),
                n_tokens=candidates.n_tokens,
            ),
        )


class _OpenWord:
    """A sentence with an open word of `n` tokens, and what all candidates of `n` tokens share.

    Attributes
    ----------
    plan
        The plan of the sentence with such a word.
    slots
        The word's scored tokens in the plan, shape (n,).
    masked, visible
        The plan's terms from inputs that mask the whole word, and those from inputs in which some
        of its tokens are visible.
    ids, scored
        The sentence with the whole word masked, and the places of its scored tokens.
    others_sum
        Weighted sum of the other words' `masked` terms computed so far.
    token_sums
        Weighted log-probabilities of every token at each of the word's places, as far as computed,
        shape (n, V).
    computed
        Which inputs, rows of the plan, have been computed, shape (R,).
    """

    def __init__(
        self, model: MaskedModel, frame: Frame, layout: tuple[int, ...], position: int, n: int
    ) -> None:
        self.model, self.frame, self.n = model, frame, n
        layout = (*layout[:position], n, *layout[position + 1 :])
        self.plan, self.slots, self.masked, self.visible = _laid_out(
            layout, position, model.options
        )
        network = model.network
        self.ids = frame.fill(np.full((1, n), model.mask_id))[0]
        self.scored = frame.scored(n)
        self.others_sum = 0.0
        self.token_sums = torch.zeros(
            n, network.n_logits, dtype=torch.float64, device=network.device
        )
        self.computed = np.zeros(len(self.plan.masks), dtype=np.bool_)

    @property
    def cost(self) -> int:
        """How many inputs see the candidate; under permutation more than twice as many a token."""
        rows = self.plan.row[self.visible]
        # Terms are in the order of their rows.
        return int(np.count_nonzero(np.diff(rows))) + 1

    def shared_inputs(self) -> tuple[IntArray, FloatArray]:
        """Return the rows that mask the word, and the weight of all terms that each gives."""
        rows = np.unique(self.plan.row[self.masked])
        weights = np.bincount(
            self.plan.row[self.masked], self.plan.weight[self.masked], minlength=len(self.computed)
        )
        return rows, weights[rows].astype(np.float64)

    def compute(self, rows: IntArray) -> None:
        """Compute the terms of those of the shared inputs `rows` that are not computed yet."""
        wanted = np.zeros(len(self.computed), dtype=np.bool_)
        wanted[rows] = True
        wanted &= ~self.computed
        terms = self.masked[wanted[self.plan.row[self.masked]]]
        if len(terms) == 0:
            return
        self.computed |= wanted
        network, model = self.model.network, self.model
        used, row = _subset(self.plan, terms)
        inputs = apply_masks(self.ids, self.scored, self.plan.masks[used], model.mask_id)
        slot, weight = self.plan.slot[terms], self.plan.weight[terms]
        positions = self.scored[slot]
        for batch, logits in network.iter_logits(inputs, row, positions, model.budget):
            slots = slot[batch]
            share = torch.from_numpy(weight[batch]).to(network.device)
            other = np.flatnonzero((slots < self.slots[0]) | (slots > self.slots[-1]))
            if len(other):
                at = torch.from_numpy(other).to(network.device)
                targets = torch.from_numpy(self.ids[positions[batch][other]]).to(network.device)
                values = model.normaliser.log_probs(logits[at], targets).to(torch.float64)
                self.others_sum += float((share[at] * values).sum())
            for j, of_word in enumerate(self.slots):
                here = np.flatnonzero(slots == of_word)
                if len(here):
                    at = torch.from_numpy(here).to(network.device)
                    self.token_sums[j] += model.normaliser.mean(logits[at], share[at])

    def own_terms(self, tokens: IntArray) -> FloatArray:
        """Return the word's own terms, as far as computed, of candidates (k, n): (k,), nats."""
        table = self.token_sums.cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def own_scale(self) -> float | None:
        """Return by what factor the own terms not yet computed would lengthen the others.

        That includes terms that see other tokens of the word, by a guess. None where no own term
        is computed, as where every input shows some token of the word.
        """
        plan = self.plan
        own_terms = self.masked[np.isin(plan.slot[self.masked], self.slots)]
        computed = float(plan.weight[own_terms][self.computed[plan.row[own_terms]]].sum())
        if computed == 0.0:
            return None
        beside = self.visible[np.isin(plan.slot[self.visible], self.slots)]
        weight = plan.weight[own_terms].sum() + _PART_BESIDE_VISIBLE * plan.weight[beside].sum()
        return float(weight) / computed

    def completion(self, tokens: IntArray) -> FloatArray:
        """Return the sum over tokens of log p(token | all other words) of candidates (k, n)."""
        return self.model.completed(self.ids, self.scored[self.slots], tokens)

    def contexts(self, terms: IntArray) -> list[tuple[bytes, int]]:
        """Name terms of other words by which of these words they see, and by their place there."""
        away = np.delete(np.arange(self.plan.masks.shape[1]), self.slots)
        rows = np.unique(self.plan.row[terms])
        masks = np.packbits(self.plan.masks[np.ix_(rows, away)], axis=1)
        seen = {row: mask.tobytes() for row, mask in zip(rows.tolist(), masks, strict=True)}
        place = np.where(self.plan.slot > self.slots[-1], self.plan.slot - self.n, self.plan.slot)
        pairs = zip(self.plan.row[terms].tolist(), place[terms].tolist(), strict=True)
        return [(seen[row], at) for row, at in pairs]

    def uncomputed_others(self) -> IntArray:
        """Return the other words' `masked` terms that are not computed yet."""
        of_others = ~np.isin(self.plan.slot[self.masked], self.slots)
        return self.masked[of_others & ~self.computed[self.plan.row[self.masked]]]

    def scores(self, tokens: IntArray) -> FloatArray:
        """Return the exact scores of candidates (k, n): shape (k,), nats."""
        self.compute(np.unique(self.plan.row[self.masked]))
        return self._visible_terms(tokens) + self.others_sum + self.own_terms(tokens)

    def _visible_terms(self, tokens: IntArray) -> FloatArray:
        """Sum the terms that see the candidate, of candidates (k, n): shape (k,), nats."""
        model, plan = self.model, self.plan
        sums = np.zeros(len(tokens), dtype=np.float64)
        if len(self.visible) == 0:
            return sums
        used, row = _subset(plan, self.visible)
        masks, weight = plan.masks[used], plan.weight[self.visible]
        n_rows = len(masks)
        step = max(1, _BATCHES_AT_ONCE * model.budget // (n_rows * len(self.ids)))
        positions = self.scored[plan.slot[self.visible]]
        sentences = self.frame.fill(tokens)
        for start in range(0, len(sentences), step):
            block = sentences[start : start + step]
            values = model.network.log_probs(
                np.concatenate(
                    [apply_masks(ids, self.scored, masks, model.mask_id) for ids in block]
                ),
                np.concatenate([row + k * n_rows for k in range(len(block))]),
                np.tile(positions, len(block)),
                block[:, positions].reshape(-1),
                model.normaliser,
                model.budget,
            )
            sums[start : start + len(block)] = values.reshape(len(block), -1) @ weight
        return sums


@lru_cache(maxsize=128)
def _laid_out(
    layout: tuple[int, ...], position: int, options: MaskedOptions
) -> tuple[MaskingPlan, IntArray, IntArray, IntArray]:
    """Return the plan of a layout, the slots of the word at `position`, and its terms.

    Those from inputs that mask all of these slots, and the others.
    """
    plan = masking_plan(layout, options)
    start = sum(layout[:position])
    own = np.arange(start, start + layout[position])
    masked: BoolArray = np.all(plan.masks[:, own], axis=1)[plan.row]
    return plan, own, np.flatnonzero(masked), np.flatnonzero(~masked)


def _subset(plan: MaskingPlan, terms: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows that `terms` use, and each term's place among them."""
    used, row = np.unique(plan.row[terms], return_inverse=True)
    return used, row.astype(np.int64)


def _compute_within_cost(
    open_words: dict[int, _OpenWord], n_words: dict[int, int], length: int
) -> None:
    """Compute the shared inputs that lower the bounds of most candidates most.

    The gain of an input is the weight of the terms it gives, for each candidate of its number of
    tokens, of whom there are `n_words`; its cost is its number of tokens. Together they cost at
    most `MAX_BOUND_INPUTS` inputs of the present `length`, but for every number of tokens at
    least one is computed.
    """
    rows, gain, cost, of = [], [], [], []
    for n, word in open_words.items():
        inputs, weights = word.shared_inputs()
        value = weights * n_words[n] / len(word.ids)
        if len(value):
            value[np.argmax(value)] = np.inf
        rows.append(inputs)
        gain.append(value)
        cost.append(np.full(len(inputs), float(len(word.ids))))
        of.append(np.full(len(inputs), n))
    order = np.argsort(-np.concatenate(gain), kind="stable")
    total = np.cumsum(np.concatenate(cost)[order])
    least = int(np.isinf(np.concatenate(gain)).sum())
    within = int(np.searchsorted(total, MAX_BOUND_INPUTS * length, side="right"))
    chosen = order[: max(least, within)]
    numbers, lengths = np.concatenate(rows)[chosen], np.concatenate(of)[chosen]
    for n, word in open_words.items():
        word.compute(numbers[lengths == n])
