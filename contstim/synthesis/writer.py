"""Guided sampling of sentences from a language model, word by word.

After the prefix b, the next word w is drawn with probability proportional to

    q(w | b)^(1/temperature) exp(guidance sum_m c_m log p_m(w | b)).

Here q is the distribution of a language model, the *writer*, after a prompt of natural sentences,
truncated by top-p and min-p. The sum is over the compared models m. The weight c_m is positive for
accepting models, which should find the sentence probable, and negative for rejecting models. A
sentence may end at any position where the writer gives its end a minimum probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.prefixes import Prefixes, empty_prefix, empty_prefix_after
from contstim.settings import NonNegativeInt, PositiveInt, settings, validate_choice
from contstim.synthesis.drafts import Draft, DraftBatch
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import WordList, parse_length_range

# Maximum number of words that may follow a prefix.
_MAX_WORDS = 400
# Maximum number of words of several tokens among them, and their minimum probability.
_MAX_LONG_WORDS, _MIN_LONG_PROBABILITY = 4, 4e-3
# Minimum log-probability that a word is complete. Below it, the word is the beginning of a longer
# word (a fragment).
_MIN_LOG_WORD_END = np.log(0.5)
# Sum of the log-probabilities of later words that can raise the mean of a sentence, in nats.
_PREFIX_SLACK = 3.0
_FINAL_MARKS = ".?!…。！？"


@settings
class SamplingOptions:
    """Options of guided sampling.

    Sentences are sampled from a causal language model, the writer. The compared models guide the
    sampling: they increase or decrease the probability of each word.

    Attributes
    ----------
    writer
        Specification string of the causal model.
    temperature
        Temperature of the writer's distribution.
    top_p
        Fraction of the writer's probability mass from which words are drawn (nucleus sampling).
    min_p
        Minimum probability of a word, relative to the most probable word.
    guidance
        Strength of the influence of the compared models: factor of the weighted sum of their
        log-probabilities.
    min_end_probability
        Minimum probability of a final punctuation mark for which a sentence may end there.
    lengths
        Range of the number of words, for example ``7-9``. None: from one word fewer to one word
        more than the natural sentences have.
    marks
        Marks that may end sentences, one character each.
    commas
        ``yes`` or ``no``: whether sentences may contain commas.
    batch_size
        Number of sentences sampled together after one prompt.
    n_prompts
        Number of natural sentences in the prompt; 0 for a writer trained on single sentences.
    max_samples
        Maximum number of sentences sampled for each combination of models that should find a
        sentence improbable and models that should find it probable, or for a single natural
        sentence.
    min_improvement
        Minimum relative improvement of the total loss in five rounds. If they improve it by less,
        and no further synthetic sentences are expected, sampling stops.
    """

    writer: str = "contstim:smollm2"
    temperature: Annotated[float, Field(gt=0, le=100)] = 1 / 1.8
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.01
    guidance: Annotated[float, Field(ge=0, le=1000)] = 4.5
    min_end_probability: Annotated[float, Field(ge=0, le=1)] = 0.45
    lengths: str | None = None
    marks: str = "."
    commas: Annotated[str, validate_choice(("no", "yes"))] = "no"
    batch_size: PositiveInt = 32
    n_prompts: NonNegativeInt = 8
    max_samples: PositiveInt = 2400
    min_improvement: Annotated[float, Field(ge=0)] = 0.15

    def __post_init__(self) -> None:
        if self.lengths is not None:
            parse_length_range(self.lengths)
        if not self.marks or {*self.marks} - {*_FINAL_MARKS}:
            raise InputError(
                f"marks={self.marks!r} contains a mark that ends no sentence; give some of .?!"
            )


@dataclass(frozen=True)
class SentenceForm:
    """Length and punctuation of sampled sentences.

    Attributes
    ----------
    shortest, longest
        Minimum and maximum number of words.
    marks
        Punctuation marks that may end a sentence.
    commas
        Positions, from 0, of the words that are followed by a comma. None: commas are sampled like
        words.
    words
        Words that are allowed at some positions instead of the whole vocabulary.
    min_reading_score
        Minimum reading score, approximately the log-probability per word, under the model that
        samples the sentences (the writer). Sentences that cannot reach it are not completed. None:
        no minimum.
    """

    shortest: int
    longest: int
    marks: tuple[str, ...] = (".",)
    commas: tuple[int, ...] | None = ()
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    min_reading_score: float | None = None


def guidance_weights(problem: Problem) -> dict[str, float]:
    """Return the weights of the models that guide the sampling of sentences.

    The weighted sum of a word's log-probabilities under these models increases or decreases the
    probability that the word is drawn. The weights depend on the kind of the model:

    - Models that should find the sentence probable (accepting models) have equal weights, which add
      up to 1.
    - Models that should find it improbable (rejecting models) have negative weights, which add up
      to -1: the weight of model r is -(1 / scale_r) / sum_k (1 / scale_k), where scale_k is the
      standard deviation of the scores of rejecting model k.
    - Models that only set a minimum score do not guide the sampling, and are not in the result.

    With models of both kinds, the weights add up to 0, so that a word with the same probability
    under all models is neither preferred nor avoided.

    Parameters
    ----------
    problem
        Synthesis problem, which defines the accepting and the rejecting models.

    Returns
    -------
    dict
        Mapping from model name to weight.
    """
    scales = problem.definition.scale_by_model
    accepting = problem.definition.accept
    rejecting = {name: 0.0 - 1.0 / scale / len(scales) for name, scale in scales.items()}
    total_weight = -sum(rejecting.values())
    weights = {name: weight / total_weight for name, weight in rejecting.items()}
    return weights | dict.fromkeys(accepting, 1.0 / max(1, len(accepting)))


class SentenceWriter:
    """Sampler of sentences from a language model, guided by the compared models.

    The compared models increase or decrease the probability of each word.

    Parameters
    ----------
    model
        Causal language model from which the sentences are sampled.
    weighted_models
        Pairs of a weight and a compared model (see `guidance_weights`).
    shared_vocabulary
        Words that all models know.
    form
        Permitted length and punctuation of the sentences.
    options
        Options of guided sampling, for example the temperature.

    Attributes
    ----------
    non_guiding_models
        Names of the compared models that do not influence the sampling, because they can only score
        complete sentences and not the probability of the next word.
    """

    def __init__(
        self,
        model: SentenceModel,
        weighted_models: Sequence[tuple[float, SentenceModel]],
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        options: SamplingOptions,
    ) -> None:
        self.model, self.form, self.options = model, form, options
        self.repeatable_words = shared_vocabulary.vocabulary.repeatable
        self.language = shared_vocabulary.vocabulary.language
        if not self.language.is_space_delimited:
            raise InputError(
                f"the strategy 'sample' needs spaces between words, and {self.language.name} has "
                "none; use the strategy 'edit'"
            )
        self.word_lists = shared_vocabulary.list_first_and_later_words(form.words)
        # A model guides the choice of words if it scores prefixes or, like masked models, proposes
        # the next word. Other models do not influence the sampling.
        self._guiding_weights, self._guiding_prefixes = list[float](), list[Prefixes]()
        non_guiding_models = []
        for weight, compared in weighted_models:
            prefix = empty_prefix(compared, self.word_lists)
            prefix = prefix or empty_prefix(compared, self.word_lists, guide=True)
            if prefix is None:
                non_guiding_models.append(compared.name)
            else:
                self._guiding_weights.append(weight)
                self._guiding_prefixes.append(prefix)
        self.non_guiding_models = tuple(non_guiding_models)
        # Indices of first words and of later words that are only a prefix of a longer word.
        self._fragments: tuple[set[int], set[int]] = (set(), set())
        self._word_masks = {
            position: np.isin(self.word_lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }

    def write(self, prompt: str, rng: np.random.Generator) -> list[Draft]:
        """Sample a batch of sentences after a prompt, one word at a time.

        Parameters
        ----------
        prompt
            Text that the language model continues.
        rng
            Random number generator.

        Returns
        -------
        list of Draft
            Sentences with a permitted length. A sentence and its continuation can both occur.
        """
        prefixes = [empty_prefix_after(self.model, prompt, self.word_lists)]
        prefixes += self._guiding_prefixes
        batch, drafts = DraftBatch.empty(self.options.batch_size), list[Draft]()
        # All sentences start from the same, empty prefix.
        prefix_rows = np.zeros(self.options.batch_size, dtype=np.int64)
        for position in range(self.form.longest):
            drawn = self._draw_words(prefixes, batch, prefix_rows, rng)
            if drawn is None:
                break
            rows, indices, log_probs, writer_prefixes = drawn
            next_words = prefixes[0].next_words.words
            batch = batch.extend(rows, [next_words[i] for i in indices], log_probs)
            guiding = [p.extend(prefix_rows[rows], indices) for p in prefixes[1:]]
            prefixes = [writer_prefixes, *guiding]
            if position + 1 >= self.form.shortest:
                # Finish the sentences that may end here, each with its most probable mark.
                end_log_probs = np.array(
                    [writer_prefixes.end_log_probs(mark) for mark in self.form.marks]
                )
                best_marks, best_ends = end_log_probs.argmax(axis=0), end_log_probs.max(axis=0)
                may_end = np.exp(best_ends) >= self.options.min_end_probability
                if self.form.min_reading_score is not None:
                    means = np.array(
                        [np.mean(word_log_probs) for word_log_probs in batch.log_probs]
                    )
                    may_end &= means + best_ends >= self.form.min_reading_score
                for row in np.flatnonzero(may_end):
                    mark = self.form.marks[best_marks[row]]
                    draft = batch.finish(int(row), mark, float(best_ends[row]), self.language)
                    if draft is not None:
                        drafts.append(draft)
            may_have_comma = self.form.commas is None or position in self.form.commas
            if may_have_comma and position + 1 < self.form.longest:
                log_probs = writer_prefixes.comma_log_probs()
                has_comma = np.ones(len(log_probs), dtype=np.bool_)
                if self.form.commas is None:
                    has_comma = np.log(rng.random(len(log_probs))) < log_probs
                batch = batch.add_commas(has_comma, log_probs)
                prefixes = [p.add_commas(has_comma) for p in prefixes]
            prefix_rows = np.arange(len(batch.words))
        return drafts

    def _mask_allowed_words(self, batch: DraftBatch, words: WordList) -> BoolArray:
        """Return which words may come next in each unfinished sentence.

        A word is excluded if it already occurs in the sentence, unless it is repeatable such as
        "the". It is also excluded if it is not in the list of words for this position.

        Parameters
        ----------
        batch
            R unfinished sentences.
        words
            V candidates for the next word.

        Returns
        -------
        array
            Whether each word may come next in each sentence, shape (R, V).
        """
        is_allowed = np.ones((len(batch.words), len(words)), dtype=np.bool_)
        # All sentences of the batch have the same number of words.
        position = len(batch.words[0])
        if position in self._word_masks:
            is_allowed &= self._word_masks[position]
        # Exclude the words that a sentence already contains, unless they may be repeated.
        indices_by_word = words.case_insensitive_index(self.language)
        for row, sentence_words in enumerate(batch.words):
            for word in {*map(self.language.fold, sentence_words)} - self.repeatable_words:
                is_allowed[row, indices_by_word.get(word, [])] = False
        return is_allowed

    def _draw_words(
        self,
        prefixes: Sequence[Prefixes],
        batch: DraftBatch,
        prefix_rows: IntArray,
        rng: np.random.Generator,
    ) -> tuple[IntArray, IntArray, FloatArray, Prefixes] | None:
        """Draw the next word of each of R unfinished sentences.

        A word w is drawn with probability proportional to

            q(w)^(1/temperature) exp(guidance sum_m c_m log p_m(w)),

        where q is the truncated distribution of the language model that writes the sentences (the
        writer), and c_m is the weight of another model m that guides it. The Gumbel-max trick is
        used: Gumbel noise is added to the logarithms of these values, and the word with the maximum
        is selected.

        Parameters
        ----------
        prefixes
            Unfinished sentences with their log-probabilities under the writer, then under each
            guiding model.
        batch
            Unfinished sentences.
        prefix_rows
            Index of the prefix that each sentence extends, shape (R,).
        rng
            Random number generator.

        Returns
        -------
        rows, indices, log_probs
            Index of the sentence, index of its next word, and log-probability of this word under
            the writer, for each of k sentences, shape (k,). Sentences are dropped if no word can
            follow, or if they can no longer reach the minimum log-probability per word.
        writer_prefixes
            The k sentences with their new words, and their log-probabilities under the writer.
            If k is 0, None is returned instead of the four values.
        """
        first_rows = np.unique(prefix_rows, return_index=True)[1]
        is_allowed = self._mask_allowed_words(batch, prefixes[0].next_words)[first_rows]
        candidate_rows, indices, log_probs, is_exact = self._truncate_distribution(
            prefixes[0], is_allowed
        )
        weighted_log_probs = np.zeros(len(candidate_rows))
        for weight, guiding in zip(self._guiding_weights, prefixes[1:], strict=True):
            weighted_log_probs += weight * guiding.log_probs(candidate_rows, indices)

        # The best strength of the guidance depends on the models. It therefore increases from the
        # first to the last sentence of the batch.
        guidance = self.options.guidance * (batch.original_rows + 1) / self.options.batch_size
        candidates = [np.flatnonzero(candidate_rows == row) for row in prefix_rows]

        # Draw words, and draw again where the drawn word is only the beginning of a longer word
        # (a fragment). Known fragments are excluded.
        fragments = self._fragments[min(len(batch.words[0]), 1)]
        totals, n_words = np.array([*map(sum, batch.log_probs)]), len(batch.words[0]) + 1
        # Sentences with a lower total after this word cannot reach the minimum reading score.
        minimum = self.form.min_reading_score
        min_total = -np.inf if minimum is None else minimum * n_words - _PREFIX_SLACK
        drawn = np.full(len(prefix_rows), -1, dtype=np.int64)
        while True:
            perturbations, contenders = dict[int, FloatArray](), set[int]()
            for row in np.flatnonzero(drawn < 0).tolist():
                group = candidates[row]
                is_whole = ~np.isin(indices[group], list(fragments))
                if is_whole.any():
                    noise = rng.gumbel(size=len(group))
                    noise = np.where(
                        is_whole, guidance[row] * weighted_log_probs[group] + noise, -np.inf
                    )
                    perturbations[row] = noise
                    # Score exactly only the words that can have the largest value.
                    values = log_probs[group] / self.options.temperature + noise
                    best = values[is_exact[group]].max(initial=-np.inf)
                    contenders.update(group[~is_exact[group] & (values > best)].tolist())
            scored = np.array(sorted(contenders), dtype=np.int64)
            log_probs[scored] = prefixes[0].log_probs(candidate_rows[scored], indices[scored])
            is_exact[scored] = True
            for row, noise in perturbations.items():
                group = candidates[row]
                values = log_probs[group] / self.options.temperature + noise
                drawn[row] = group[np.argmax(values)]
            rows = np.flatnonzero(drawn >= 0)
            rows = rows[totals[rows] + log_probs[drawn[rows]] >= min_total]
            if not len(rows):
                return None
            drawn_words = indices[drawn[rows]]
            extended = prefixes[0].extend(prefix_rows[rows], drawn_words)
            is_fragment = extended.word_end_log_probs() < _MIN_LOG_WORD_END
            new_fragments = set(drawn_words[is_fragment].tolist()) - fragments
            if not new_fragments:
                return rows, drawn_words, log_probs[drawn[rows]], extended
            fragments |= new_fragments
            # Mark the sentences with a fragment, for which the next iteration draws again.
            drawn_indices = np.where(drawn < 0, -1, indices[drawn])
            drawn[np.isin(drawn_indices, list(new_fragments))] = -1

    def _truncate_distribution(
        self, prefixes: Prefixes, is_allowed: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
        """Truncate the distribution of the next word by top-p and min-p.

        The writer is the language model from which sentences are sampled. The probability of a word
        of several tokens is estimated for this purpose: the probability of its first token is
        divided equally among all words that begin with this token.

        Parameters
        ----------
        prefixes
            R prefixes under the writer.
        is_allowed
            Mask of the words that may follow each prefix, shape (R, V).

        Returns
        -------
        rows, indices, bounds, is_exact
            For the k words that remain: index of the prefix, index of the word, upper bound of the
            log-probability of the word, and whether the bound equals it, shape (k,).
        """
        bounds, is_exact = prefixes.upper_bounds()
        # `bounds`, shape (R, V), are upper bounds of the log-probability of each word after each
        # prefix. For words of one token, they are exact. For other words, estimate the value.
        estimates = np.where(is_allowed, bounds, -np.inf)
        estimates[:, ~is_exact] -= prefixes.log_group_sizes()[~is_exact]

        # Find the most probable words of each prefix, sorted from the most to the least probable.
        n_words = min(_MAX_WORDS, estimates.shape[1])
        words = np.argpartition(-estimates, n_words - 1, axis=1)[:, :n_words]
        order = np.argsort(-np.take_along_axis(estimates, words, axis=1), axis=1, kind="stable")
        words = np.take_along_axis(words, order, axis=1)
        log_probs = np.take_along_axis(estimates, words, axis=1)
        probabilities = np.exp(log_probs)
        total = np.exp(estimates).sum(axis=1, keepdims=True)

        # Top-p: keep the most probable words, until their total probability reaches top-p.
        preceding = probabilities.cumsum(axis=1) - probabilities
        is_kept = (preceding < self.options.top_p * total) & np.isfinite(log_probs)
        # Min-p: leave out words that are much less probable than the most probable word.
        is_kept &= probabilities >= self.options.min_p * probabilities[:, :1]
        # Words of several tokens are expensive to score: keep only the most probable of them.
        is_long = is_kept & ~is_exact[words]
        is_surplus = is_long.cumsum(axis=1) > _MAX_LONG_WORDS
        is_improbable = probabilities < _MIN_LONG_PROBABILITY * total
        is_kept &= ~(is_long & (is_surplus | is_improbable))

        rows, columns = np.nonzero(is_kept)
        indices = words[rows, columns]
        return rows, indices, bounds[rows, indices], is_exact[indices]
