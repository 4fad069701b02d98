"""Masked language models: sentences scored by pseudo-log-likelihoods and permutation averages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.models.base import ReplacementScores, TokenScores
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.guide import MaskedGuide
from contstim.models.hf.masked_candidates import score_masked_candidates
from contstim.models.hf.metrics import (
    MAX_EXACT_ROWS,
    METRICS,
    MaskingPlan,
    apply_masks,
    create_masking_plan,
    permutation,
)
from contstim.models.hf.network import Normaliser
from contstim.models.hf.options import MASKED_OPTIONS, MaskedEvent, MaskedOptions
from contstim.models.hf.transformer import TransformerModel
from contstim.models.prefixes import PrefixModel
from contstim.text import Sentence, WordList


class MaskedModel(TransformerModel, PrefixModel):
    """Masked language model that scores sentences by one of several metrics.

    A metric is a weighted sum of log p(token | visible tokens). Special tokens are always visible
    and never scored. The metrics are:

    ``pll``
        Mask one token at a time (Salazar et al. 2020, Eq. 2).
    ``pll-word-l2r`` (default)
        Mask a token and the later tokens of its word (Kauf & Ivanova 2023, Eq. 2).
    ``pll-whole-word``
        Mask all tokens of a word (Kauf & Ivanova 2023, Eq. 3).
    ``pll-sentence-l2r``
        Mask a token and all later scored tokens (Kauf & Ivanova 2023, appendix G). In their code
        the final special token is masked as well.
    ``permutation``
        Mean of the chain rule over all orders of the words and of the tokens within words (Golan
        et al. 2023, section 4.3), exact up to ``exact`` words (10) and 65,536 masked inputs.
        Longer sentences have an unbiased estimate with a standard error, from ``orders`` (100)
        random orders, each paired with its reverse. The paper samples 100 orders of eight words.

    With the option ``restricted=yes`` each token is normalised over the tokens of its class only,
    word-starting or word-continuing, as in Golan et al. (2023).

    Parameters
    ----------
    spec
        Model specification, for example ``hf:bert-base-cased?metric=pll``, with options of
        `MASKED_OPTIONS`.
    checkpoint
        Network and tokenizer.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        super().__init__(spec, MASKED_OPTIONS, checkpoint, special=True)
        self.options = MaskedOptions.read(spec)
        assert checkpoint.mask_id is not None, "a masked checkpoint has a mask token"
        self.mask_id = checkpoint.mask_id
        # With `restricted`, a token is normalised over the tokens of its class only, which start or
        # continue a word. The classes are known if a marker such as "##" distinguishes them.
        classes = self.tokenizer.token_classes
        if self.options.restricted and not classes.marker:
            raise SpecError(
                f"restricted=yes in {str(spec)!r}: its vocabulary does not distinguish "
                "word-starting from word-continuing tokens; leave the option out"
            )
        if self.options.restricted and self.tokenizer.options.unknown == "unk":
            raise SpecError(
                f"restricted=yes with unknown=unk in {str(spec)!r}: the unknown-word token belongs "
                "to neither class; leave one of the two options out"
            )
        self.normaliser = Normaliser(
            (classes.is_starting, classes.is_continuing) if self.options.restricted else (),
            self.network.n_logits,
            self.network.device,
        )

    @property
    def event(self) -> MaskedEvent:
        """Definition of the score: pseudo-probability of the tokens of a sentence.

        The fields state, for example, which tokens are visible when a token is predicted (the
        metric), how log-probabilities are combined, and in which random orders the tokens are
        revealed. Scores with different definitions are not comparable.
        """
        options = self.options
        # Special tokens before every sentence, for example "[CLS]".
        leading = list(self.tokenizer.leading_special_ids)
        # The metric "permutation" averages over word orders: state how many and which.
        orders = ""
        if METRICS[options.metric] is permutation:
            orders = (
                f"exact to {options.exact} words and {MAX_EXACT_ROWS} inputs, then "
                f"{options.orders} of seed {options.seed}"
            )
        return MaskedEvent(
            units="tokens",
            start=" ".join(self.checkpoint.tokenizer.convert_ids_to_tokens(leading)) or "none",
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
        """Names of the packages on which scores depend, including the package of the metric."""
        return (*super().packages, *METRICS.packages(self.options.metric))

    def plan(self, encoded: EncodedSentence) -> MaskingPlan:
        """Return the masked copies of a sentence that the metric needs, and their predictions."""
        return create_masking_plan(encoded.word_lengths, self.options)

    def to_token_scores(self, encoded: EncodedSentence, log_probs: FloatArray) -> TokenScores:
        """Combine the predictions of masked tokens into one score for each token of a sentence.

        To score a sentence, a metric masks tokens in one or more copies of the sentence. The model
        predicts each token from one or several copies. The score of the token is a weighted sum of
        the predicted log-probabilities. The method `plan` returns the copies, the predicted tokens
        and the weights as a `MaskingPlan`.

        Parameters
        ----------
        encoded
            Tokens of the sentence.
        log_probs
            Log-probability of each prediction in nats, in the order of the `MaskingPlan`.

        Returns
        -------
        TokenScores
            Score of each token. For long sentences, the metric ``permutation`` averages over a
            random sample of word orders; the result then includes a standard error.
        """
        plan = self.plan(encoded)
        return encoded.with_log_probs(plan.sum_by_token(log_probs), plan.stderr(log_probs))

    def predicted_log_probs(self, encoded: Sequence[EncodedSentence]) -> list[FloatArray]:
        """Predict masked tokens from copies of S sentences, as the metric prescribes.

        Copies with the same number of tokens are computed together, even if they belong to
        different sentences.

        Parameters
        ----------
        encoded
            Tokens of S sentences.

        Returns
        -------
        list of array
            Log-probabilities of the predicted tokens of each sentence in nats, in the order of
            `plan`.
        """
        plans = [self.plan(sentence) for sentence in encoded]
        log_probs_by_sentence: list[FloatArray] = [np.zeros(0)] * len(encoded)
        # A plan lists the masked copies of a sentence, and the tokens to predict from each copy.
        # The sentences of a group have equal length. Stack the masked copies of all of them.
        for group in self.iter_groups(encoded, [len(plan.masks) for plan in plans]):
            ids, rows, positions, targets = [], [], [], []
            n_rows = 0  # number of copies so far
            for i in group:
                sentence_ids, scored, plan = encoded[i].ids, encoded[i].scored_positions, plans[i]
                target_positions = scored[plan.token_indices]
                ids.append(apply_masks(sentence_ids, scored, plan.masks, self.mask_id))
                rows.append(plan.copy_indices + n_rows)
                positions.append(target_positions)
                targets.append(sentence_ids[target_positions])
                n_rows += len(plan.masks)
            log_probs = self.network.log_probs(
                np.concatenate(ids),
                np.concatenate(rows),
                np.concatenate(positions),
                np.concatenate(targets),
                self.normaliser,
                self.batch_tokens,
            )
            # Split the log-probabilities of the predicted tokens by sentence.
            offsets = np.cumsum([len(sentence_targets) for sentence_targets in targets])[:-1]
            for i, sentence_log_probs in zip(group, np.split(log_probs, offsets), strict=True):
                log_probs_by_sentence[i] = sentence_log_probs
        return log_probs_by_sentence

    def guide_prefix(self, first: WordList, later: WordList) -> MaskedGuide | None:
        """Return an empty sentence prefix, which the model extends by one word at a time.

        Parameters
        ----------
        first, later
            Words for the first position, and words for later positions of a sentence.

        Returns
        -------
        MaskedGuide or None
            Empty prefix. None if the language does not separate words by spaces, or if the metric
            needs more than one masked copy per token, which would make a search too slow.
        """
        # Count the masked copies of a sentence of six words that have one token each.
        word_lengths = (1,) * 6
        n_copies = len(create_masking_plan(word_lengths, self.options).masks)
        if n_copies > len(word_lengths) or not self.language.is_space_delimited:
            return None
        return MaskedGuide(self, (first, later))

    def score_candidates(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidate words for one position; see `score_masked_candidates`."""
        return score_masked_candidates(self, sentence, position, words)
