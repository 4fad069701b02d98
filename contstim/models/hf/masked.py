"""Masked language models as sentence models: pseudo-log-likelihoods and permutation averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import SpecError, UnknownNameError
from contstim.models.base import Replacements, SentenceParts, as_sentences
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.events import MaskedEvent
from contstim.models.hf.limits import check_length
from contstim.models.hf.metrics import METRICS, plan_for
from contstim.models.hf.network import Normaliser
from contstim.models.hf.options import MASKED_OPTIONS, MaskedOptions
from contstim.models.hf.plans import LARGEST_EXACT, Plan, masked_rows, merge
from contstim.models.hf.transformer import TransformerModel
from contstim.models.hf.unigram import ScoredTokens
from contstim.models.spec import ModelSpec
from contstim.text.sentence import Sentence, WordList

__all__ = ["MaskedModel"]


class MaskedModel(TransformerModel):
    """A masked language model with one scoring metric.

    The metrics (DESIGN, section 3) are weighted sums of log p(token | visible tokens); special
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
        super().__init__(spec, checkpoint, MASKED_OPTIONS, special=True)
        self.options = MaskedOptions.read(spec)
        self.mask_id = int(checkpoint.tokenizer.mask_token_id)
        forms = self.tokenizer.forms
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
            (forms.starting, forms.continuing) if self.options.restricted else (),
            self.network.n_logits,
            self.network.device,
        )
        self._last: tuple[str, Encoded, FloatArray] | None = None

    @property
    def event(self) -> MaskedEvent:
        """What is scored."""
        options = self.options
        orders = (
            f"exact to {options.exact} words and {LARGEST_EXACT} inputs, then {options.orders} of "
            f"seed {options.seed}"
            if options.metric == "permutation"
            else ""
        )
        before = self.checkpoint.tokenizer.convert_ids_to_tokens(list(self.tokenizer.opening))
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

    def encode(self, sentences: Sequence[str]) -> list[Encoded]:
        """Tokenise sentences, refusing those the network is too short for."""
        listed = as_sentences(sentences)
        encoded = self.tokenizer.encode(listed)
        for sentence, e in zip(listed, encoded, strict=True):
            check_length(sentence, len(e.ids), self.checkpoint.max_tokens, self.spec)
        return encoded

    def scored_tokens(self, sentences: Sequence[str]) -> list[ScoredTokens]:
        """Return the tokens of each sentence that are scored."""
        return [
            ScoredTokens(e.units, e.ids[e.scored], e.word_of, e.n_words)
            for e in self.encode(sentences)
        ]

    def plan(self, encoded: Encoded, metric: str | None = None) -> Plan:
        """Return the rows and terms of a sentence under this model's metric, or under `metric`."""
        options = self.options if metric is None else replace(self.options, metric=metric)
        return plan_for(encoded.layout, options)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Score every token of each sentence. See the class for what is scored."""
        encoded = self.encode(sentences)
        plans = [self.plan(e) for e in encoded]
        values = self.values(encoded, plans)
        if len(encoded) == 1:
            # A search goes on from the sentence that it has just verified.
            self._last = (sentences[0], encoded[0], values[0])
        return [_parts(e, plan, v) for e, plan, v in zip(encoded, plans, values, strict=True)]

    def parts_by_metric(
        self, sentences: Sequence[str], metrics: Sequence[str] = tuple(METRICS)
    ) -> dict[str, list[SentenceParts]]:
        """Score sentences under several metrics, computing each masked input once for all.

        Parameters
        ----------
        sentences
            S sentences.
        metrics
            Names of metrics; other options are this model's.

        Returns
        -------
        dict
            For each metric what `parts` of a model with that metric gives.
        """
        for metric in metrics:
            if metric not in METRICS:
                raise UnknownNameError.among("metric", metric, METRICS)
        encoded = self.encode(sentences)
        plans = [[self.plan(e, metric) for metric in metrics] for e in encoded]
        merged = [merge(p) for p in plans]
        values = self.values(encoded, [m[0] for m in merged])
        return {
            metric: [
                _parts(e, p[k], v[places[k]])
                for e, p, (_, places), v in zip(encoded, plans, merged, values, strict=True)
            ]
            for k, metric in enumerate(metrics)
        }

    def values(self, encoded: Sequence[Encoded], plans: Sequence[Plan]) -> list[FloatArray]:
        """Compute the terms of each plan: S arrays (M,), nats.

        Rows of one length are computed together, whatever sentence they come from.
        """
        found: list[FloatArray] = [np.zeros(0)] * len(encoded)
        ids_of = [e.ids for e in encoded]
        for group in self.groups(ids_of, [len(plan.masks) for plan in plans]):
            rows, at, positions = [], [], []
            n_rows = 0
            for i in group:
                e, plan = encoded[i], plans[i]
                rows.append(masked_rows(e.ids, e.scored, plan.masks, self.mask_id))
                at.append(plan.row + n_rows)
                positions.append(e.scored[plan.slot])
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
                found[i] = values
        return found

    def base(self, sentence: str) -> tuple[Encoded, FloatArray]:
        """Return the tokens of a sentence and its terms' values; the last one is remembered."""
        if self._last is None or self._last[0] != sentence:
            encoded = self.encode([sentence])
            values = self.values(encoded, [self.plan(encoded[0])])
            self._last = (sentence, encoded[0], values[0])
        return self._last[1:]

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates for one position.

        Terms that do not see the open word are computed once for all candidates, and one set of
        inputs with the word hidden gives the word's own terms for the whole list. The bound takes
        the terms that do see it as 0, their largest value; the estimate takes the present
        sentence's values for those of other words.
        """
        from contstim.models.hf.masked_replacements import masked_replacements

        return masked_replacements(self, sentence, position, words)


def _parts(encoded: Encoded, plan: Plan, values: FloatArray) -> SentenceParts:
    return SentenceParts(
        encoded.units,
        plan.by_slot(values),
        encoded.word_of,
        encoded.n_words,
        plan.stderr(values),
    )
