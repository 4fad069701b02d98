"""Guided sampling of sentences from a language model, word by word.

After the prefix b, the next word w is drawn with probability proportional to

    q(w | b)^(1/temperature) exp(guidance sum_m c_m log p_m(w | b)),

where q is the distribution of the writer, a language model, after a prompt of natural sentences,
truncated by top-p and min-p. The weight c_m is positive for accepting and negative for rejecting
models. A sentence may end wherever the writer gives its end a minimum probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.prefixes import COMMA, Prefixes, empty_prefix, empty_prefix_after
from contstim.settings import NonNegativeInt, PositiveInt, settings, validate_choice
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList, parse_length_range
from contstim.text.language import Language

# Maximum number of words considered after a prefix, maximum number of words of several tokens among
# them, and minimum probability of these.
_MAX_WORDS, _MAX_LONG_WORDS, _MIN_LONG_PROBABILITY = 400, 4, 4e-3
# A drawn word is a fragment if the probability that it ends there is below this.
_MIN_LOG_WORD_END = np.log(0.5)
_FINAL_MARKS = ".?!…。！？"


@settings
class SamplingOptions:
    """Options of guided sampling.

    Attributes
    ----------
    writer
        Spec of the causal model from which sentences are sampled.
    temperature
        Temperature of the writer's distribution.
    top_p
        Fraction of the writer's probability mass from which words are drawn.
    min_p
        Minimum probability of a word relative to the most probable word.
    guidance
        Factor of the compared models' log-probabilities.
    min_end_probability
        Minimum probability of the end of a sentence under the writer.
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
    n_samples
        Number of sentences sampled for each side of a pair, or for a single natural sentence.
    guide
        Spec of a model that guides in place of models that do not score prefixes. Without it, such
        models can only filter sentences that were sampled without them.
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
    n_samples: PositiveInt = 800
    guide: str | None = None

    def __post_init__(self) -> None:
        if self.lengths is not None:
            parse_length_range(self.lengths)
        if not self.marks or {*self.marks} - {*_FINAL_MARKS}:
            raise InputError(
                f"marks={self.marks!r} contains a mark that ends no sentence; give some of .?!"
            )


@dataclass(frozen=True)
class SentenceForm:
    """The form of sampled sentences.

    Attributes
    ----------
    shortest, longest
        Minimum and maximum number of words.
    marks
        Marks that may end a sentence.
    commas
        Positions, from 0, of words that are followed by commas. None: the writer draws the commas.
    words
        Words to use instead of the vocabulary, by position, from 0.
    """

    shortest: int
    longest: int
    marks: tuple[str, ...] = (".",)
    commas: tuple[int, ...] | None = ()
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A sampled sentence.

    Attributes
    ----------
    sentence
        Text of the sentence.
    log_prob
        Log-probability in nats, including the final mark, under the writer after the prompt.
    worst
        Log-probability of the least probable word.
    end
        Log-probability of the final mark.
    """

    sentence: str
    log_prob: float
    worst: float
    end: float


def guidance_weights(problem: Problem) -> dict[str, float]:
    """Return the weight c_m of each compared model in guided sampling.

    Accepting models have equal positive weights. Rejecting models have negative weights that are
    inversely proportional to their scales. The positive weights sum to 1, the negative ones to -1,
    so that a word with the same probability under all models is neither preferred nor avoided.
    Models that only have a lower bound have no weight.
    """
    scales = problem.contrast.scale_by_model
    accepting = problem.contrast.accept
    rejecting = {name: 0.0 - 1.0 / scale / len(scales) for name, scale in scales.items()}
    total_weight = -sum(rejecting.values())
    return {
        **{name: weight / total_weight for name, weight in rejecting.items()},
        **dict.fromkeys(accepting, 1.0 / max(1, len(accepting))),
    }


@dataclass(frozen=True, eq=False)
class _Batch:
    """R unfinished sentences that all have the same number of words.

    Sentences without a possible next word are removed from the batch, so R can decrease.

    Attributes
    ----------
    numbers
        Index of each sentence in the original batch, shape (R,).
    words
        Words of each sentence.
    commas
        Whether each word is followed by a comma.
    log_probs
        Log-probability of each word, and of its comma, under the writer.
    """

    numbers: IntArray
    words: tuple[tuple[str, ...], ...]
    commas: tuple[tuple[bool, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]

    @classmethod
    def empty(cls, n: int) -> _Batch:
        """Start `n` sentences without words."""
        return cls(np.arange(n), ((),) * n, ((),) * n, ((),) * n)

    def extend(self, rows: IntArray, words: Sequence[str], log_probs: FloatArray) -> _Batch:
        """Return the sentences `rows`, each extended by one word with its log-probability."""
        extensions = list(zip(rows.tolist(), words, log_probs.tolist(), strict=True))
        return _Batch(
            self.numbers[rows],
            tuple((*self.words[row], word) for row, word, _ in extensions),
            tuple((*self.commas[row], False) for row, _, _ in extensions),
            tuple((*self.log_probs[row], value) for row, _, value in extensions),
        )

    def add_commas(self, has_comma: BoolArray, log_probs: FloatArray) -> _Batch:
        """Add a comma after the last word of each sentence in the mask `has_comma` (R,)."""
        added = np.where(has_comma, log_probs, 0.0).tolist()
        commas = zip(self.commas, has_comma.tolist(), strict=True)
        totals = zip(self.log_probs, added, strict=True)
        return replace(
            self,
            commas=tuple((*previous[:-1], comma) for previous, comma in commas),
            log_probs=tuple((*values[:-1], values[-1] + value) for values, value in totals),
        )

    def finish(self, row: int, mark: str, end: float, language: Language) -> Draft | None:
        """Finish the sentence `row` with a final mark that has the log-probability `end`.

        Returns None if parsing the text of the sentence yields other words.
        """
        words, log_probs = self.words[row], self.log_probs[row]
        after = (*(COMMA * comma for comma in self.commas[row][:-1]), mark)
        before = (language.opening_marks.get(mark, ""), *[""] * (len(words) - 1))
        sentence = Sentence(words, before, after, language)
        if not sentence.round_trips:
            return None
        return Draft(str(sentence), sum(log_probs) + end, min(log_probs), end)


class SentenceWriter:
    """Sampler of sentences from a language model, guided by the compared models.

    Parameters
    ----------
    model
        Causal model from which sentences are sampled.
    weighted_models
        Weight c_m and model, for each compared model.
    shared_vocabulary
        Words that all models know.
    form
        Form of the sentences.
    options
        Options of guided sampling.
    guide
        Model that guides in place of models that do not score prefixes.

    Attributes
    ----------
    filter_only
        Names of the compared models that do not guide, because they do not score prefixes.
    """

    def __init__(
        self,
        model: SentenceModel,
        weighted_models: Sequence[tuple[float, SentenceModel]],
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        options: SamplingOptions,
        guide: SentenceModel | None = None,
    ) -> None:
        self.model, self.form, self.options = model, form, options
        self.repeatable_words = shared_vocabulary.vocabulary.repeatable
        self.language = shared_vocabulary.vocabulary.language
        if not self.language.is_space_delimited:
            raise InputError(
                f"the strategy 'sample' needs spaces between words, and {self.language.name} has "
                "none; use the strategy 'edit'"
            )
        self.word_lists = shared_vocabulary.first_and_later_words(form.words)
        guide_prefix = None if guide is None else empty_prefix(guide, self.word_lists, guide=True)
        weights: dict[Prefixes, float] = {}
        filter_only = []
        for weight, compared in weighted_models:
            prefix = empty_prefix(compared, self.word_lists) or guide_prefix
            if prefix is None:
                filter_only.append(compared.name)
            else:
                weights[prefix] = weights.get(prefix, 0.0) + weight
        self.filter_only = tuple(filter_only)
        self._guiding_weights, self._guiding_prefixes = [*weights.values()], [*weights]
        # Indices of the first and of the later words that proved to be fragments.
        self._fragments: tuple[set[int], set[int]] = (set(), set())
        self._word_masks = {
            position: np.isin(self.word_lists[min(position, 1)].words, words)
            for position, words in form.words.items()
        }

    def write(self, prompt: str, rng: np.random.Generator) -> list[Draft]:
        """Sample a batch of sentences after a prompt.

        Returns
        -------
        list of Draft
            Sentences within the range of lengths. A sentence and its continuation can both occur.
        """
        prefixes = [empty_prefix_after(self.model, prompt, self.word_lists)]
        prefixes += self._guiding_prefixes
        batch, drafts = _Batch.empty(self.options.batch_size), list[Draft]()
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
                ends = np.array([prefixes[0].end_log_probs(mark) for mark in self.form.marks])
                best, end = ends.argmax(axis=0), ends.max(axis=0)
                for row in np.flatnonzero(np.exp(end) >= self.options.min_end_probability):
                    mark = self.form.marks[best[row]]
                    draft = batch.finish(int(row), mark, float(end[row]), self.language)
                    if draft is not None:
                        drafts.append(draft)
            may_have_comma = self.form.commas is None or position in self.form.commas
            if may_have_comma and position + 1 < self.form.longest:
                log_probs = prefixes[0].comma_log_probs()
                has_comma = np.ones(len(log_probs), dtype=np.bool_)
                if self.form.commas is None:
                    has_comma = np.log(rng.random(len(log_probs))) < log_probs
                batch = batch.add_commas(has_comma, log_probs)
                prefixes = [p.add_commas(has_comma) for p in prefixes]
            prefix_rows = np.arange(len(batch.numbers))
        return drafts

    def _is_allowed(self, batch: _Batch, words: WordList) -> BoolArray:
        """Return which of V words may come next in each of R sentences, as a mask (R, V).

        A word is allowed if the form permits it at this position and it does not already occur in
        the sentence. Repeatable words may occur again.
        """
        is_allowed = np.ones((len(batch.words), len(words)), dtype=np.bool_)
        position = len(batch.words[0])
        if position in self._word_masks:
            is_allowed &= self._word_masks[position]
        indices_by_word = words.case_insensitive_index(self.language)
        for row, sentence_words in enumerate(batch.words):
            for word in {*map(self.language.fold, sentence_words)} - self.repeatable_words:
                is_allowed[row, indices_by_word.get(word, [])] = False
        return is_allowed

    def _draw_words(
        self,
        prefixes: Sequence[Prefixes],
        batch: _Batch,
        prefix_rows: IntArray,
        rng: np.random.Generator,
    ) -> tuple[IntArray, IntArray, FloatArray, Prefixes] | None:
        """Draw the next word of each sentence.

        Parameters
        ----------
        prefixes
            Prefixes under the writer and under each guiding model.
        batch
            Unfinished sentences.
        prefix_rows
            Row of `prefixes` that each sentence extends, (R,).
        rng
            Random number generator.

        Returns
        -------
        tuple or None
            Rows of the k sentences that have a next word, indices of these words, their
            log-probabilities under the writer, and the extended prefixes under the writer. None if
            no sentence has a next word.
        """
        first_rows = np.unique(prefix_rows, return_index=True)[1]
        is_allowed = self._is_allowed(batch, prefixes[0].next_words)[first_rows]
        candidate_rows, indices, log_probs = self._truncate(prefixes[0], is_allowed)
        contrast = np.zeros(len(candidate_rows))
        for weight, guiding in zip(self._guiding_weights, prefixes[1:], strict=True):
            contrast += weight * guiding.log_probs(candidate_rows, indices)

        # Guidance increases over the batch because its best strength depends on the models.
        guidance = self.options.guidance * (batch.numbers + 1) / self.options.batch_size
        candidates = [np.flatnonzero(candidate_rows == row) for row in prefix_rows]
        logits = [
            1 / self.options.temperature * log_probs[group] + factor * contrast[group]
            for group, factor in zip(candidates, guidance, strict=True)
        ]

        # Draw by the Gumbel-max trick, until no drawn word is a fragment.
        fragments = self._fragments[min(len(batch.words[0]), 1)]
        drawn = np.full(len(prefix_rows), -1, dtype=np.int64)
        while True:
            for row in np.flatnonzero(drawn < 0).tolist():
                is_whole = ~np.isin(indices[candidates[row]], list(fragments))
                if is_whole.any():
                    values = np.where(is_whole, logits[row], -np.inf)
                    noise = rng.gumbel(size=len(values))
                    drawn[row] = candidates[row][np.argmax(values + noise)]
            rows = np.flatnonzero(drawn >= 0)
            if not len(rows):
                return None
            drawn_words = indices[drawn[rows]]
            extended = prefixes[0].extend(prefix_rows[rows], drawn_words)
            is_fragment = extended.word_end_log_probs() < _MIN_LOG_WORD_END
            new_fragments = set(drawn_words[is_fragment].tolist()) - fragments
            if not new_fragments:
                return rows, drawn_words, log_probs[drawn[rows]], extended
            fragments |= new_fragments
            # Draw again for the sentences with a fragment.
            drawn_indices = np.where(drawn < 0, -1, indices[drawn])
            drawn[np.isin(drawn_indices, list(new_fragments))] = -1

    def _truncate(
        self, prefixes: Prefixes, is_allowed: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Truncate the writer's distribution of the next word by top-p and min-p.

        Words of several tokens are scored exactly only if they remain. Before, the probability of
        their first token is divided equally among all words that begin with it.

        Returns
        -------
        rows, indices, log_probs
            Prefix, word and log-probability of each of the k remaining words, (k,).
        """
        bounds, is_exact = prefixes.upper_bounds()
        estimates = np.where(is_allowed, bounds, -np.inf)
        estimates[:, ~is_exact] -= prefixes.log_group_sizes()[~is_exact]

        # Select the most probable words of each prefix, in the order of their probabilities.
        n_words = min(_MAX_WORDS, estimates.shape[1])
        top = np.argpartition(-estimates, n_words - 1, axis=1)[:, :n_words]
        values = np.take_along_axis(estimates, top, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        top, values = np.take_along_axis(top, order, 1), np.take_along_axis(values, order, 1)

        # Keep the nucleus: the most probable words, until their total probability reaches top-p. Of
        # the words of several tokens, keep only a few, because they are expensive to score.
        mass = np.exp(values)
        total = np.exp(estimates).sum(axis=1, keepdims=True)
        is_kept = (mass.cumsum(axis=1) - mass < self.options.top_p * total) & np.isfinite(values)
        is_kept &= mass >= self.options.min_p * mass[:, :1]
        is_long = is_kept & ~is_exact[top]
        is_scored = is_long & (is_long.cumsum(axis=1) <= _MAX_LONG_WORDS)
        is_scored &= mass >= _MIN_LONG_PROBABILITY * total
        is_kept &= ~is_long | is_scored

        rows, columns = np.nonzero(is_kept)
        indices, log_probs = top[rows, columns], values[rows, columns]
        is_unknown = ~is_exact[indices]
        log_probs[is_unknown] = prefixes.log_probs(rows[is_unknown], indices[is_unknown])
        return rows, indices, log_probs
