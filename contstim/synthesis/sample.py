"""Strategy that samples sentences from a language model, guided by the compared models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from contstim.models.prefixes import COMMA
from contstim.settings import settings
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.drafts import Draft
from contstim.synthesis.forecast import WINDOW, find_stop_reason
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary, extend_models
from contstim.synthesis.strategy import Strategy, load_cached_model
from contstim.synthesis.writer import (
    SamplingOptions,
    SentenceForm,
    SentenceWriter,
    guidance_weights,
)
from contstim.text import Sentence, format_prompt, parse_length_range, pool
from contstim.text.languages import ENGLISH


@dataclass(frozen=True)
class SampledBatch:
    """Batch of sentences that were sampled from a language model after the same prompt.

    Attributes
    ----------
    drafts
        Sampled sentences with their log-probabilities under the language model.
    non_guiding_models
        Names of compared models that could not guide the sampling. Guiding means that a model
        changes the probability of each next word, which requires that it scores prefixes. Other
        models only score the finished sentences.
    """

    drafts: list[Draft]
    non_guiding_models: tuple[str, ...] = ()


@settings
class GuidedSampling(SamplingOptions, Strategy):
    """Sample sentences from a language model, guided by the compared models.

    1. The language model (option `writer`) continues a prompt of random natural sentences, word by
       word. The next word is drawn from its truncated distribution, reweighted by the probabilities
       of the word under the compared models. `contstim.synthesis.writer` states the formula.
    2. For many natural sentences, the samples are collected, and each natural sentence is then
       paired with the sample that suits it best (`contstim.synthesis.pool`). For a single natural
       sentence, all samples have its number of words and its punctuation, and the best is used.
    """

    is_pooled: ClassVar[bool] = True
    starts_at_natural: ClassVar[bool] = False
    supports_edits: ClassVar[bool] = False

    @property
    def models(self) -> tuple[str, ...]:
        """Specification string of the language model from which sentences are sampled."""
        return (self.writer,)

    def run(self, search: Search) -> bool:
        """Sample sentences from a language model for one natural sentence, and keep the best one.

        The samples have the same number of words and the same punctuation as the natural sentence.
        The search accepts a sample if it satisfies the constraints and has a lower loss than all
        previous samples. Sampling stops after `n_batches` batches, or when a sample was accepted
        and the last batches have improved the loss by at most `min_improvement`
        (`find_stop_reason`).

        Returns True, because the search is always complete.
        """
        natural = search.natural
        # Samples have the length and the punctuation of the natural sentence. A word that must not
        # change is the only word allowed at its position.
        form = SentenceForm(
            shortest=len(natural),
            longest=len(natural),
            marks=(natural.after[-1] or ".",),
            commas=tuple(p for p, mark in enumerate(natural.after[:-1]) if mark.startswith(COMMA)),
            words={p: (w,) for p, w in enumerate(natural.words) if p not in search.positions},
        )
        rng = search.spawn_rng()
        # The prompt consists of bundled English sentences. There are none for other languages.
        sentences = pool() if natural.language is ENGLISH else [str(natural)]
        prompts = [text for text in sentences if text != str(natural)] or sentences
        decreases = list[float]()  # in loss since the natural sentence (loss 0), after each batch
        for _ in range(self.n_batches):
            batch = self.sample_batch(search.problem, search.shared_vocabulary, form, prompts, rng)
            search.non_guiding_models = batch.non_guiding_models
            for draft in batch.drafts:
                words = Sentence.parse(draft.sentence, natural.language).words
                search.accept(natural.with_words(words))
            decreases.append(-search.loss(search.current_scores))
            # One sentence is wanted, and it is found once a sample was accepted.
            n_found = int(decreases[-1] > 0)
            if find_stop_reason(decreases, self.min_improvement, n_found, n_wanted=1, n_expected=1):
                break
        return True

    @property
    def n_batches(self) -> int:
        """Maximum number of batches: `max_samples` divided by `batch_size`, rounded up."""
        return math.ceil(self.max_samples / self.batch_size)

    def round_batches(self, number: int, size: int = 1) -> range:
        """Return the indices of the batches of a round: `WINDOW` in the first round, then `size`.

        Sampling can stop after each round. Batches of one round can be sampled in parallel.
        """
        stop = WINDOW + number * size
        start = stop - size if number else 0
        return range(min(start, self.n_batches), min(stop, self.n_batches))

    def choose_form(self, natural: Iterable[str]) -> SentenceForm:
        """Choose the permitted numbers of words and punctuation marks of sampled sentences.

        By default, sampled sentences may be one word shorter than the shortest natural sentence and
        one word longer than the longest. The option `lengths` sets a different range.
        """
        if self.lengths is not None:
            shortest, longest = parse_length_range(self.lengths)
        else:
            n_words = [len(sentence.split()) for sentence in natural]
            shortest, longest = max(2, min(n_words) - 1), max(n_words) + 1
        # None: commas are sampled. An empty tuple: no word is followed by a comma.
        commas = None if self.commas == "yes" else ()
        return SentenceForm(shortest, longest, tuple(self.marks), commas)

    def sample_batch(
        self,
        problem: Problem,
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> SampledBatch:
        """Sample a batch of sentences from a language model, guided by the compared models.

        The prompt of the language model consists of randomly drawn natural sentences.

        Parameters
        ----------
        problem
            Synthesis problem. Its models influence which words are sampled.
        shared_vocabulary
            Words that all models of the problem know.
        form
            Permitted lengths and punctuation marks of the sampled sentences.
        natural
            Natural sentences from which the sentences of the prompt are drawn.
        rng
            Random number generator.
        """
        model, models = load_cached_model(self.writer), problem.models_by_name
        # Use only words that the language model (the writer) knows, too.
        words = extend_models(shared_vocabulary, model)
        weighted_models = [(w, models[name]) for name, w in guidance_weights(problem).items()]
        writer = SentenceWriter(model, weighted_models, words, form, self)
        # Draw the sentences of the prompt, and continue it.
        n_prompts = min(self.n_prompts, len(natural))
        prompt_indices = rng.choice(len(natural), size=n_prompts, replace=False)
        prompt = format_prompt(natural[i] for i in prompt_indices)
        return SampledBatch(writer.write(prompt, rng), writer.non_guiding_models)
