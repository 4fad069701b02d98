"""Passes of beam search for sentences with the length and punctuation of a natural sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel, scores_vocabulary
from contstim.models.prefixes import COMMA, Prefixes, empty_prefix
from contstim.synthesis.candidates import ScoreCounter
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.writer import guidance_weights
from contstim.text import Sentence, WordList
from contstim.text.diversity import N_EDGE_WORDS

# Default beam width: in general; if only the constrained models score all words at once; and if a
# model scores each prefix as a sentence, which is most expensive.
_WIDTH, _CONSTRAINED_WIDTH, _SCORED_WIDTH = 256, 64, 96
# Default ratio of the width to the diversity cap.
_WIDTH_PER_CAP = 4
# Minimum number of words in a random part of the vocabulary.
_MIN_WORDS = 20
# Number of extensions that are estimated for each extension that is kept.
_N_EXTENSIONS = 16


@dataclass(frozen=True, eq=False)
class BeamSearch:
    """Beam search for sentences with the length and punctuation of a natural sentence.

    The search uses M models. A sentence is written word by word, with V candidate words at each
    position. There is one list of candidates for the first word and one for all later words.

    Attributes
    ----------
    natural
        Natural sentence, which provides the number of words and the punctuation.
    min_scores
        Minimum score under each model in nats, shape (M,); -inf for models without a constraint.
    empty_prefixes
        Empty prefix under each model, from which all sentences start.
    offsets
        For each model, two arrays of shape (V,), for first and for later words: the estimated
        log-probability of each word minus its upper bound.
    weights
        Weight w of each model in the loss, shape (M,); 0 for models that only constrain the search.
    word_masks
        For each position, a mask of the permitted words, shape (V,).
    fixed_positions
        Positions that contain no word, such as a dash, and do not change.
    repeatable_words
        Words that may occur twice in a sentence, case-folded.
    width, diversity_cap
        Options of `Beam`.
    sentence_scorers
        Mapping from the index of a model, from 0 to M - 1, to the model, for models that score
        prefixes as if they were complete sentences.
    vocabulary_masks
        Masks of the first and of the later words that a pass uses, shape (V,). None: all words.
    counter
        Counter of the scores by `sentence_scorers`.
    """

    natural: Sentence
    min_scores: FloatArray
    empty_prefixes: Sequence[Prefixes]
    offsets: Sequence[tuple[FloatArray, FloatArray]]
    weights: FloatArray
    word_masks: Sequence[BoolArray]
    fixed_positions: frozenset[int]
    repeatable_words: frozenset[str]
    width: int
    diversity_cap: int
    sentence_scorers: Mapping[int, SentenceModel] = field(default_factory=dict)
    vocabulary_masks: tuple[BoolArray, BoolArray] | None = None
    counter: ScoreCounter = field(default_factory=ScoreCounter)

    @classmethod
    def from_search(
        cls,
        search: Search,
        width: int | None = None,
        diversity_cap: int | None = None,
    ) -> BeamSearch:
        """Prepare the beam search for the natural sentence of a search.

        Parameters
        ----------
        search
            Search for one synthetic sentence, with its models and constraints.
        width
            Number of prefixes kept at each position. Default: depends on the models (`Beam`).
        diversity_cap
            Maximum number of kept prefixes with the same last or the same first words. Default: a
            quarter of the width.

        Raises
        ------
        InputError
            If a model neither scores prefixes nor proposes words.
        """
        problem, natural, models = search.problem, search.natural, search.problem.models_by_name
        vocabulary = search.shared_vocabulary.unrestricted
        # Positions that must not change permit only the word of the natural sentence.
        permitted = {p: search.words_at(p).words for p in search.positions}
        fixed = {p: (natural.words[p],) for p in range(len(natural)) if p not in permitted}
        permitted |= fixed
        word_lists = vocabulary.list_first_and_later_words(fixed)
        word_masks = []
        for position in range(len(natural)):
            word_list = word_lists[min(position, 1)]
            indices = [word_list.index.get(word) for word in permitted[position]]
            mask = np.zeros(len(word_list), dtype=np.bool_)
            mask[[i for i in indices if i is not None]] = True
            word_masks.append(mask)

        # Models that do not score prefixes may propose words, as masked models do.
        prepared, sentence_scorers = list[_PrefixAndOffsets](), dict[int, SentenceModel]()
        for number, (name, model) in enumerate(models.items()):
            prefix_and_offsets = _prepare_empty_prefix(model, word_lists, is_guide=False)
            if prefix_and_offsets is None:
                prefix_and_offsets = _prepare_empty_prefix(model, word_lists, is_guide=True)
                sentence_scorers[number] = model
            if prefix_and_offsets is None:
                raise InputError(
                    f"the strategy 'beam' needs models that score prefixes, and {name!r} does not; "
                    "use the strategy 'edit'"
                )
            prepared.append(prefix_and_offsets)

        # The default width depends on the costs of the models.
        is_cheap = {name: scores_vocabulary(model) for name, model in models.items()}
        constrained_are_cheap = all(is_cheap[name] for name in search.min_scores)
        if width is None and sentence_scorers:
            width = _SCORED_WIDTH
        elif width is None and constrained_are_cheap and not all(is_cheap.values()):
            width = _CONSTRAINED_WIDTH
        width = width or _WIDTH

        weights = guidance_weights(problem)  # negative for rejecting models
        return cls(
            natural=natural,
            min_scores=np.array([search.min_scores.get(name, -np.inf) for name in models]),
            empty_prefixes=[prefix for prefix, _ in prepared],
            offsets=[offsets for _, offsets in prepared],
            weights=np.array([max(0.0, -weights.get(name, 0.0)) for name in models]),
            word_masks=word_masks,
            fixed_positions=frozenset(fixed),
            repeatable_words=frozenset(vocabulary.vocabulary.repeatable),
            width=width,
            diversity_cap=diversity_cap or max(1, width // _WIDTH_PER_CAP),
            sentence_scorers=sentence_scorers,
            counter=search.counter,
        )

    def restrict_words(
        self, fraction: float, rng: np.random.Generator, sentence: Sentence
    ) -> BeamSearch:
        """Return a copy of the beam search that uses a random fraction of the vocabulary.

        A different part of the vocabulary in each pass makes the passes find different sentences.
        Repeatable words and the words of the natural sentence are always included.

        Parameters
        ----------
        fraction
            Fraction of the vocabulary to use.
        rng
            Random number generator.
        sentence
            Best sentence so far. Its words are also included.
        """
        language = self.natural.language
        always_included = {*map(language.fold, self.natural.words + sentence.words)}
        always_included |= self.repeatable_words
        # Draw random subsets of the words for the first position and for later positions.
        masks = []
        for words in self.empty_prefixes[0].word_lists:
            n_words = max(_MIN_WORDS, fraction * len(words))
            mask = rng.permutation(len(words)) < n_words  # True for n_words random words
            indices_by_word = words.case_insensitive_index(language)
            for word in always_included:
                mask[indices_by_word.get(word, [])] = True
            masks.append(mask)
        return replace(self, vocabulary_masks=(masks[0], masks[1]))

    def run_pass(
        self, width: int, log_lambda: FloatArray
    ) -> tuple[list[Sentence], FloatArray, FloatArray]:
        """Run one pass of beam search, from the first to the last word of the sentences.

        The beam is the set of prefixes that are kept. At each position, all of them are extended by
        one word. The extensions with the lowest Lagrangian form the next beam. The Lagrangian is
        sum_m w_m log p_m - sum_m lambda_m log p_m over the M models, where w_m is the weight of a
        model in the loss, and lambda_m the multiplier of the constraint on its score.

        Parameters
        ----------
        width
            Number of prefixes kept at each position.
        log_lambda
            Logarithm of the Lagrange multiplier lambda of each model, relative to the sum of the
            weights w, shape (M,).

        Returns
        -------
        sentences
            List of S sentences. Sentences that satisfy the constraints come first, in the order of
            their losses.
        log_probs
            Score of each sentence under each model in nats, shape (M, S).
        slack
            Score minus minimum score under each model for the sentence with the lowest Lagrangian,
            in nats, shape (M,). Negative if the sentence violates the constraint.
        """
        beam, words = list(self.empty_prefixes), [()]
        log_probs, slack = np.zeros((len(beam), 1)), -self.min_scores
        mean_errors = np.zeros(len(beam))  # of the estimated log-probabilities
        # The Lagrangian of a prefix is the sum of factor * log-probability over the models.
        multipliers = self.weights.sum() * np.exp(log_lambda)
        factors = self.weights - np.where(np.isfinite(self.min_scores), multipliers, 0.0)
        last_position, final_mark = len(self.natural) - 1, self.natural.after[-1]
        for position in range(len(self.natural)):
            is_last = position == last_position
            rows, indices, estimates = self._find_extensions(
                beam, words, log_probs, factors, position, width
            )
            if not len(rows):
                return [], estimates, np.full(len(beam), -np.inf)
            estimates += mean_errors[:, None]
            order = np.argsort(factors @ estimates, kind="stable")
            if is_last:
                for m, prefixes in enumerate(beam):
                    if m not in self.sentence_scorers and position:
                        estimates[m] += prefixes.end_log_probs(final_mark).mean()
                slack = estimates[:, order[0]] - self.min_scores
                # The estimates are uncertain. Therefore alternate between the best sentences by
                # constraints and by Lagrangian, and keep the first occurrence of each sentence.
                order_by_constraints = self._order_sentences(estimates)
                alternating = np.stack([order_by_constraints, order], axis=1).ravel()
                _, first_occurrences = np.unique(alternating, return_index=True)
                order = alternating[np.sort(first_occurrences)]

            # Keep the best extensions, and replace the estimates by computed log-probabilities.
            selected = order[self._select_diverse(words, rows[order], indices[order], width)]
            rows, indices = rows[selected], indices[selected]
            log_probs = log_probs[:, rows]
            next_words = beam[0].next_words.words
            words = [(*words[row], next_words[i]) for row, i in zip(rows, indices, strict=True)]
            for m, prefixes in enumerate(beam):
                if m in self.sentence_scorers:
                    model, counts = self.sentence_scorers[m], self.counter.n_scores
                    counts[model.name] = counts.get(model.name, 0) + len(words)
                    log_probs[m] = model.score([*map(str, map(self._build_sentence, words))])
                    beam[m] = prefixes if is_last else prefixes.extend(rows, indices)
                else:
                    word_scores, beam[m] = prefixes.score_and_extend(rows, indices)
                    log_probs[m] += word_scores
            mean_errors += (log_probs - estimates[:, selected]).mean(axis=1)
            if not is_last and self.natural.after[position].startswith(COMMA):
                has_comma = np.ones(len(rows), dtype=np.bool_)
                for m, prefixes in enumerate(beam):
                    if m not in self.sentence_scorers:
                        log_probs[m] += prefixes.comma_log_probs()
                    beam[m] = prefixes.add_commas(has_comma)
        for m, prefixes in enumerate(beam):
            if m not in self.sentence_scorers:
                log_probs[m] += prefixes.end_log_probs(final_mark)
        order = self._order_sentences(log_probs)[:width]
        return [self._build_sentence(words[i]) for i in order], log_probs[:, order], slack

    def _order_sentences(self, scores: FloatArray) -> IntArray:
        """Sort sentences by the sum of their constraint violations, then by their losses.

        Parameters
        ----------
        scores
            Scores of S sentences under M models in nats, shape (M, S).

        Returns
        -------
        array
            Indices of the sentences in sorted order, shape (S,).
        """
        violations = np.maximum(self.min_scores[:, None] - scores, 0.0).sum(axis=0)
        return np.lexsort([self.weights @ scores, violations])

    def _build_sentence(self, words: tuple[str, ...]) -> Sentence:
        """Combine the words of a prefix with the punctuation of the natural sentence."""
        n, natural = len(words), self.natural
        after = (*natural.after[: n - 1], natural.after[-1])
        return Sentence(words, natural.before[:n], after, natural.language)

    def _find_extensions(
        self,
        beam: Sequence[Prefixes],
        words: Sequence[tuple[str, ...]],
        log_probs: FloatArray,
        factors: FloatArray,
        position: int,
        width: int,
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Extend prefixes by one word, and return the k extensions with the lowest Lagrangian.

        The Lagrangian, the objective that the beam search minimises, is estimated as
        sum_m factor_m * log p_m over the M models.

        Parameters
        ----------
        beam
            R prefixes under each model.
        words
            Words of each prefix.
        log_probs
            Log-probability of each prefix under each model in nats, shape (M, R).
        factors
            Factor of each model's log-probability in the Lagrangian, shape (M,).
        position
            Position of the next word.
        width
            Beam width, to which k is proportional.

        Returns
        -------
        rows, indices
            Index of the prefix and index of the next word of each extension, shape (k,).
        estimates
            Estimated log-probability of each extension under each model in nats, shape (M, k).
        """
        bounds = [prefixes.upper_bounds()[0] for prefixes in beam]
        # The log-probability of a word after a prefix is estimated as an upper bound, one array of
        # shape (prefixes, words) for each model, plus an offset that depends only on the word. Each
        # model has a pair of arrays of offsets: for first words, and for words at later positions.
        offsets = np.stack([pair[min(position, 1)] for pair in self.offsets])
        is_allowed = self._mask_allowed_words(words, beam[0].next_words, position)
        # Compute the Lagrangian of each prefix (row) with each permitted next word (column).
        columns = np.flatnonzero(is_allowed.any(axis=0))
        lagrangian = np.add.outer(factors @ log_probs, factors @ offsets[:, columns])
        for factor, bound in zip(factors, bounds, strict=True):
            lagrangian += factor * bound[:, columns]
        lagrangian[~is_allowed[:, columns]] = np.inf

        # Select the extensions with the lowest finite values.
        values = lagrangian.ravel()
        n_selected = _N_EXTENSIONS * width
        selected = np.argpartition(values, min(n_selected, len(values)) - 1)[:n_selected]
        selected = selected[np.isfinite(values[selected])]
        rows, selected_columns = np.unravel_index(selected, lagrangian.shape)
        indices = columns[selected_columns]
        word_scores = np.stack([bound[rows, indices] for bound in bounds]) + offsets[:, indices]
        return rows, indices, log_probs[:, rows] + word_scores

    def _mask_allowed_words(
        self, prefixes: Sequence[tuple[str, ...]], words: WordList, position: int
    ) -> BoolArray:
        """Return which of V words may follow each of R prefixes, as a mask of shape (R, V).

        A word is allowed if it is permitted at this position and does not already occur in the
        prefix. Repeatable words may occur again.

        Parameters
        ----------
        prefixes
            Words of each prefix.
        words
            Candidates for the next word.
        position
            Position of the next word.
        """
        is_allowed = np.tile(self.word_masks[position], (len(prefixes), 1))  # (prefixes, words)
        if self.vocabulary_masks is not None and position not in self.fixed_positions:
            is_allowed &= self.vocabulary_masks[min(position, 1)]
        # Exclude the words that already occur in the prefix, unless they may be repeated.
        language = self.natural.language
        indices_by_word = words.case_insensitive_index(language)
        for row, prefix in enumerate(prefixes):
            for word in {*map(language.fold, prefix)} - self.repeatable_words:
                is_allowed[row, indices_by_word.get(word, [])] = False
        return is_allowed

    def _select_diverse(
        self, words: Sequence[tuple[str, ...]], rows: IntArray, indices: IntArray, width: int
    ) -> IntArray:
        """Select the best extensions of prefixes, but skip those similar to many better ones.

        An extension is a prefix (the first words of a sentence) with one more word. It is skipped
        if `diversity_cap` selected extensions have the same last word, or the same first words.

        Parameters
        ----------
        words
            Words of each prefix.
        rows, indices
            Index of the prefix and index of the last word of each extension, best extension first.
        width
            Maximum number of extensions to select.

        Returns
        -------
        array
            Indices of the selected extensions into `rows`.
        """
        last_word_counts, first_words_counts = Counter[int](), Counter[tuple[str, ...]]()
        selected: list[int] = []
        # Extensions are sorted, best first. Count the selected ones by last word and by first
        # words, and skip an extension if many better ones are similar.
        for number, (row, index) in enumerate(zip(rows.tolist(), indices.tolist(), strict=True)):
            first_words = words[row][:N_EDGE_WORDS]
            if last_word_counts[index] >= self.diversity_cap:
                continue
            is_long = len(first_words) == N_EDGE_WORDS
            if is_long and first_words_counts[first_words] >= self.diversity_cap:
                continue
            last_word_counts[index] += 1
            first_words_counts[first_words] += 1
            selected.append(number)
            if len(selected) == width:
                break
        return np.array(selected, dtype=np.int64)


#: Empty prefix under one model, and the offsets of V first and of V later words (see
#: `_prepare_empty_prefix`).
_PrefixAndOffsets = tuple[Prefixes, tuple[FloatArray, FloatArray]]


@lru_cache(maxsize=8)
def _prepare_empty_prefix(
    model: SentenceModel, word_lists: tuple[WordList, WordList], is_guide: bool
) -> _PrefixAndOffsets | None:
    """Compute the empty prefix and the word offsets of one model for a beam search.

    A beam search extends prefixes, the beginnings of sentences, starting from the empty prefix. It
    cannot compute log p(word | prefix) exactly for all V words after every prefix. The estimate is
    an upper bound, which the model provides at low cost, plus an *offset* of the word. The offset
    is computed only once: it is log p(word | prefix) minus the upper bound after one example of a
    prefix. For first words of a sentence the example is the empty prefix, for later words it is a
    prefix of one probable word.

    Parameters
    ----------
    model
        Model that scores prefixes, or proposes words.
    word_lists
        Words for the first position of a sentence, and words for later positions.
    is_guide
        Whether the model is only used to propose words, so that approximate scores suffice.

    Returns
    -------
    tuple or None
        Empty prefix and the offsets of first and of later words, shape (V,). None if the model does
        not score prefixes.
    """
    prefix = empty_prefix(model, word_lists, guide=is_guide)
    if prefix is None:
        return None  # The model does not score prefixes.
    # Offsets of first words are computed after the empty prefix, and offsets of later words after a
    # prefix of one word. Choose the most probable word for it, by the upper bounds of the
    # log-probabilities after the empty prefix (row 0). Use words with exact bounds, if any.
    upper_bounds, is_exact = prefix.upper_bounds()
    bounds = np.where(is_exact, upper_bounds[0], -np.inf) if is_exact.any() else upper_bounds[0]
    one_word_prefix = prefix.extend(rows=np.array([0]), indices=np.array([bounds.argmax()]))
    return prefix, (_compute_offsets(prefix), _compute_offsets(one_word_prefix))


def _compute_offsets(prefix: Prefixes) -> FloatArray:
    """Return log p(word | prefix) minus its upper bound for each of V words, shape (V,).

    `prefix` contains a single unfinished sentence.
    """
    upper_bounds, is_exact = prefix.upper_bounds()
    offsets = np.zeros(len(is_exact))  # Exact bounds have the offset 0.
    indices = np.flatnonzero(~is_exact)
    offsets[indices] = prefix.log_probs(np.zeros_like(indices), indices) - upper_bounds[0, indices]
    return offsets
