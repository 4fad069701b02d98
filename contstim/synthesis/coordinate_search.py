"""Coordinate search: replace one word of a sentence at a time (Golan et al. 2023, section 4.6).

The search visits the positions of the sentence in random order. At each position, a function that
belongs to the strategy may replace the word by a better one (word search). The coordinate search
ends when no position yields an improvement. If every word search considers all candidate words, the
result is a local optimum: replacing any single word would not improve it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InfeasibleError
from contstim.files import digest
from contstim.models.base import ReplacementScores, check_sentence_language, scores_vocabulary
from contstim.synthesis.candidates import SCORE_TOLERANCE, Candidates, ScoreCounter
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem, require_feasible_natural
from contstim.synthesis.required_edits import apply_required_edits
from contstim.synthesis.results import Step
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList

# Maximum number of positions for which scores are cached if all of them are cheap to recompute.
_MAX_CACHED_POSITIONS = 32


@dataclass(frozen=True, eq=False)
class _PositionScores:
    """Scores of V words for one position of a sentence.

    The scores are valid as long as the words at the other positions do not change.

    Attributes
    ----------
    words
        Words that may be used at the position.
    is_allowed
        Whether each word may be used, shape (V,). Words that occur at another position of the
        sentence may not, unless they are repeatable.
    replacements
        Mapping from model name to estimates and upper bounds of the score that the sentence would
        have with each word.
    """

    words: WordList
    is_allowed: BoolArray
    replacements: dict[str, ReplacementScores]

    @cached_property
    def exact_scores(self) -> dict[str, FloatArray]:
        """Mapping from model name to exact scores of the words, shape (V,); NaN until computed."""
        return {
            name: table.estimates if table.is_exact else np.full(len(self.words), np.nan)
            for name, table in self.replacements.items()
        }

    def restrict(self, mask: BoolArray) -> _PositionScores:
        """Return the words that a mask selects, with their scores, as a new object.

        The exact scores of all words must have been computed under all models.

        Parameters
        ----------
        mask
            Whether to select each of the V words, shape (V,).
        """
        return _PositionScores(
            WordList(tuple(compress(self.words, mask))),
            self.is_allowed[mask],
            # All scores are known, so the selected scores are exact and no model is needed.
            {
                name: ReplacementScores.from_exact_scores(scores[mask])
                for name, scores in self.exact_scores.items()
            },
        )


@dataclass(eq=False)
class Search:
    """Search for one synthetic sentence: its current state and the methods that improve it.

    Scores are log-probabilities of sentences in nats, in mappings from model name to score.

    Attributes
    ----------
    problem
        Synthesis problem to solve: models, loss and constraints.
    shared_vocabulary
        Words that all models of the problem know.
    sentence
        Best sentence so far. At the start, this is the natural sentence, or a version of it with
        the changes that the problem requires.
    seed, attempt
        Seed of the study, and index of the search if several start from the same natural sentence.
        Together with the sentence and the models, they determine the random numbers.
    requires_feasible_start
        Whether a natural sentence that violates a constraint is refused.
    natural
        Natural sentence.
    positions
        Positions of the words that may change.
    natural_scores, current_scores
        Scores of the natural sentence and of `sentence`.
    min_scores
        Minimum score under each model that constrains the search.
    steps
        Replacements of words so far.
    counter
        Counter of the exact scores computed so far.
    non_guiding_models
        Names of compared models that cannot guide the sampling of words, because they can only
        score complete sentences.
    """

    problem: Problem
    shared_vocabulary: SharedVocabulary
    sentence: Sentence
    seed: int
    attempt: int = 0
    requires_feasible_start: bool = True
    steps: list[Step] = field(default_factory=list, init=False)
    counter: ScoreCounter = field(init=False)
    non_guiding_models: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._models = self.problem.models_by_name
        # `sentence` is the natural sentence now, and the best sentence so far during the search.
        self.natural = self.sentence
        self.counter = ScoreCounter(dict.fromkeys(self._models, 0))
        self._cache: dict[tuple[int, Sentence], dict[str, _PositionScores]] = {}
        self._n_sweeps = 0  # number of rounds over all positions so far
        # The seed depends on the natural sentence, the models, `seed` and `attempt`, not on other
        # searches, so that searches can be executed in any order.
        key = "\n".join([str(self.natural), *self._models])
        entropy = np.frombuffer(bytes.fromhex(digest(key))[:16], dtype=np.uint32)
        self._rng = np.random.default_rng([self.seed, self.attempt, *map(int, entropy)])

        # Positions of the words that may change, and positions at which the limits on edits require
        # a change, for example because the permitted words do not include the natural word.
        self.positions = self._find_positions()
        self._required = self.problem.edits.required_positions(self.natural)
        for model in self._models.values():
            check_sentence_language(model, self.natural.language, [str(self.natural)])

        # Score the natural sentence: the minimum scores can be relative to its scores.
        self.natural_scores = self.current_scores = self.score(self.natural)
        self.min_scores = self.problem.min_scores(self.natural_scores)
        if self.requires_feasible_start:
            constraints = self.problem.definition.constraints
            require_feasible_natural(self.natural, constraints, self.natural_scores)
        # Make the required changes before the search for further improvements.
        if self._required:
            sentence, scores = apply_required_edits(self)
            self._set_current(sentence, scores)

    def score(self, sentence: Sentence) -> dict[str, float]:
        """Return a mapping from model name to the score of a sentence, in nats."""
        text = [str(sentence)]
        return {name: float(model.score(text)[0]) for name, model in self._models.items()}

    def loss(self, scores: dict[str, float]) -> float:
        """Return the loss of a sentence, given a mapping from model name to its score in nats."""
        return self.problem.definition.sentence_loss(scores, self.natural_scores)

    def optimize(
        self, search_word: Callable[[Candidates], bool], *, prefilter: bool = False
    ) -> None:
        """Replace words, one position at a time, until no position yields an improvement.

        The positions are searched in random order. Positions at which the word search ended early
        are then searched again, in a further round.

        Parameters
        ----------
        search_word
            Function that searches for a better word among the candidates for one position. It
            returns whether it ended early, for example to save time (`Strategy.search_word`).
        prefilter
            Whether to exclude words by the models that score the whole vocabulary at once, before
            slower models are used.
        """
        positions = self.positions
        # Positions that were searched without success since the last replacement, and the subset of
        # them at which the word search ended early.
        searched: set[int] = set()
        unfinished: set[int] = set()
        round_number = 0
        while len(searched) < len(positions):
            self._n_sweeps += 1
            for position in map(int, self._rng.permutation(positions)):
                if position in searched:
                    continue
                n_steps = len(self.steps)
                ended_early = False
                for base in self._list_base_sentences(position):
                    if prefilter and not self._prefilter_words(position, base).any():
                        continue
                    candidates = self.candidates(position, round_number, base, prefilter=prefilter)
                    ended_early |= search_word(candidates)
                    if len(self.steps) > n_steps:
                        break
                if len(self.steps) > n_steps:
                    searched, unfinished, round_number = set(), set(), 0
                    continue
                searched.add(position)
                if ended_early:
                    unfinished.add(position)
            if len(searched) == len(positions) and unfinished:
                searched -= unfinished
                unfinished = set()
                round_number += 1

    def words_at(self, position: int) -> WordList:
        """Return the words that the vocabulary and the limits on edits permit at a position.

        Words that already occur elsewhere in the sentence are included.
        """
        edits, vocabulary = self.problem.edits, self.shared_vocabulary
        options = vocabulary.restricted_words(self.natural, edits).get(position)
        words = vocabulary.words_at(self.natural, position, options)
        if edits.same_tokens:
            return vocabulary.filter_by_n_tokens(self.natural, position, words)
        return words

    def candidates(
        self,
        position: int,
        round_number: int = 0,
        base: Sentence | None = None,
        *,
        prefilter: bool = False,
    ) -> Candidates:
        """Return the candidate words that may replace the word at one position of a sentence.

        Parameters
        ----------
        position
            Position of the word to replace.
        round_number
            Number of rounds over all positions that found no improvement since the last change. It
            does not affect the candidates. The strategy reads it to search more words in later
            rounds.
        base
            Sentence in which the word is replaced. Default: the current sentence.
        prefilter
            Whether to leave out words that cannot improve the sentence according to the models that
            score the whole vocabulary at once.
        """
        sentence = self.sentence if base is None else base
        # The table contains the words for the position, with estimated or exact scores.
        table = self._score_words_at(position, sentence, prefilter)
        is_current = sentence == self.sentence
        return Candidates(
            definition=self.problem.definition,
            min_scores=self.min_scores,
            natural_scores=self.natural_scores,
            current_scores=self.current_scores if is_current else self.score(sentence),
            replacements=table.replacements,
            exact_scores=table.exact_scores,
            is_allowed=table.is_allowed,
            rng=self.spawn_rng(),
            verify=lambda i: self.accept(sentence.replace(position, table.words.words[i])),
            counter=self.counter,
            current_index=table.words.index.get(sentence.words[position]),
            round_number=round_number,
            sentence=sentence,
            words=table.words,
            incumbent_scores=self.current_scores,
        )

    def permits(self, sentence: Sentence) -> bool:
        """Return whether a sentence uses permitted words and is within the limits on edits."""
        return self.shared_vocabulary.permits(self.natural, sentence, self.problem.edits)

    def accept(self, sentence: Sentence) -> bool:
        """Make a sentence the current sentence if it is better, and return whether it was accepted.

        All models score the whole sentence. It is accepted if its changes are permitted, if it
        satisfies all constraints, and if it has a lower loss than the current sentence.

        Parameters
        ----------
        sentence
            Proposed sentence, with the same number of words as the natural sentence.
        """
        if not self.permits(sentence):
            return False
        scores = dict[str, float]()
        # Score the sentence under inexpensive models first (those that score the whole vocabulary
        # at once), and stop at the first violated constraint.
        inexpensive = [name for name, model in self._models.items() if scores_vocabulary(model)]
        for name in dict.fromkeys([*inexpensive, *self._models]):
            scores[name] = float(self._models[name].score([str(sentence)])[0])
            if scores[name] < self.min_scores.get(name, -np.inf):
                return False
        scores = {name: scores[name] for name in self._models}  # in the usual order of the models
        if not self.loss(scores) < self.loss(self.current_scores):
            return False
        self._set_current(sentence, scores)
        return True

    def spawn_rng(self) -> np.random.Generator:
        """Return a new random number generator that is independent of all previous ones."""
        return self._rng.spawn(1)[0]

    def _set_current(self, sentence: Sentence, scores: dict[str, float]) -> None:
        """Continue the search from `sentence`, and record the replaced words in `steps`."""
        new_scores, n_computed = tuple(scores.values()), tuple(self.counter.n_scores.values())
        # Record each replaced word with the scores of the new sentence, and with the numbers of
        # scores that the models have computed until now.
        for position in sorted(Edits.changed_positions(self.sentence, sentence)):
            old, new = self.sentence.words[position], sentence.words[position]
            self.steps.append(Step(self._n_sweeps, position, old, new, new_scores, n_computed))
        self.sentence, self.current_scores = sentence, scores

        # Scores of all words at a position are cached under the position and the words at the other
        # positions. Remove the scores that no search from the new sentence can use.
        usable_keys = {
            _make_cache_key(base, position)
            for position in self.positions
            for base in self._list_base_sentences(position)
        }
        self._cache = {key: table for key, table in self._cache.items() if key in usable_keys}

    def _list_base_sentences(self, position: int) -> list[Sentence]:
        """Return the sentences in which the word at a position may be replaced.

        Usually, this is only the current sentence. If the current sentence already has the maximum
        number of changed words, and the word at `position` is not one of them, another change must
        be undone first. The list then contains one sentence for each change that can be undone.

        Parameters
        ----------
        position
            Index of the word to replace.
        """
        max_changes = self.problem.edits.max_changes
        # If the number of changed words allows it, replace the word in the current sentence.
        changed = Edits.changed_positions(self.natural, self.sentence)
        if max_changes is None or len(changed) < max_changes or position in changed:
            return [self.sentence]
        # Otherwise, undo one other change. Words that must differ from the natural sentence
        # (`Edits.required_positions`) stay.
        reversible = [other for other in sorted(changed) if other not in self._required]
        bases = [self.sentence.replace(other, self.natural.words[other]) for other in reversible]
        return [base for base in bases if self.permits(base)]

    def _find_positions(self) -> list[int]:
        """Return the positions of the words that may change.

        Raises
        ------
        InfeasibleError
            If the limits on edits allow no change, or require a change that is impossible.
        """
        edits, natural = self.problem.edits, self.natural
        edits.check(natural)
        # Positions of words, as opposed to separate marks such as a dash, and positions of the
        # words that must change.
        word_positions = self.shared_vocabulary.word_positions(natural)
        required = edits.required_positions(natural)
        for position in required:
            if position not in word_positions:
                raise InfeasibleError(
                    f"position {position} must change, but {natural.words[position]!r} of "
                    f"{str(natural)!r} is not a word; choose another position"
                )
        if edits.max_changes is not None and edits.max_changes < len(required):
            words = ", ".join(natural.words[position] for position in required)
            raise InfeasibleError(
                f"at most {edits.max_changes} words of {str(natural)!r} may change, but "
                f"{len(required)} must: {words}; allow more changes"
            )
        restricted = self.shared_vocabulary.restricted_words(natural, edits)
        # A position without allowed words, `restricted[p] == ()`, must not change.
        positions = [p for p in word_positions if p not in edits.fixed and restricted.get(p) != ()]
        if not positions and (edits.fixed or edits.same_kind):
            raise InfeasibleError(
                f"the edits allow no word of {str(natural)!r} to change; relax them, or leave the "
                "sentence out"
            )
        return positions

    def _score_words_at(
        self, position: int, sentence: Sentence, prefilter: bool
    ) -> _PositionScores:
        """Return the words for one position with their scores under all models.

        The result is cached.

        Parameters
        ----------
        position
            Position of the word to replace.
        sentence
            Sentence in which the word is replaced.
        prefilter
            Whether to leave out words that cannot improve the sentence according to the models that
            score the whole vocabulary at once, if more than half of all words are left out.
        """
        inexpensive = self._score_inexpensive(position, sentence)
        if len(inexpensive.replacements) == len(self._models):
            return inexpensive
        # The other models score one word at a time. They score either a complete list of words, or
        # a prefiltered list: the words that can improve the sentence according to the inexpensive
        # models. This list remains valid, because the loss to improve on only decreases.
        cached = self._cache[_make_cache_key(sentence, position)]
        kind = "prefiltered" if prefilter and inexpensive.replacements else "complete"
        if kind not in cached:
            table = inexpensive
            if kind == "prefiltered":
                # Keep the words that may improve the sentence, and the current word.
                mask = self._prefilter_words(position, sentence)
                current_index = inexpensive.words.index.get(sentence.words[position])
                if current_index is not None:
                    mask[current_index] = True
                # Models reuse results for complete lists. A shorter list must save more than this.
                if 2 * mask.sum() < len(mask):
                    table = inexpensive.restrict(mask)
            replacements = {
                name: table.replacements.get(name)
                or model.score_replacements(sentence, position, table.words)
                for name, model in self._models.items()
            }
            cached[kind] = replace(table, replacements=replacements)
        return cached[kind]

    def _score_inexpensive(self, position: int, sentence: Sentence) -> _PositionScores:
        """Score all words for a position under the inexpensive models, or read a cached result.

        A model is inexpensive if it scores the whole vocabulary at once. These scores are exact.
        The scores under the other models are added later (`_score_words_at`).

        Parameters
        ----------
        position
            Position of the word to replace.
        sentence
            Sentence in which the word is replaced.
        """
        key = _make_cache_key(sentence, position)
        # Tables of scores at this position, by kind: under the inexpensive models, which score the
        # whole vocabulary at once, and under all models (`_score_words_at`).
        cached = self._cache.get(key, {})
        if "inexpensive" not in cached:
            words = self.words_at(position)
            replacements = {
                name: model.score_replacements(sentence, position, words)
                for name, model in self._models.items()
                if scores_vocabulary(model)
            }
            is_allowed = self.shared_vocabulary.is_unrepeated(sentence, position, words)
            cached["inexpensive"] = _PositionScores(words, is_allowed, replacements)
            # If all models are inexpensive, scores are fast to compute again. To limit the memory,
            # cache them for a limited number of positions only.
            if len(replacements) < len(self._models) or len(self._cache) < _MAX_CACHED_POSITIONS:
                self._cache[key] = cached
        return cached["inexpensive"]

    def _prefilter_words(self, position: int, sentence: Sentence) -> BoolArray:
        """Return which words may improve the sentence at one position, as a mask of shape (V,).

        Only the models that score the whole vocabulary at once are used. A word is excluded if it
        violates the minimum score under one of them, or if its loss is known and not lower than the
        loss of the current sentence.
        """
        table = self._score_inexpensive(position, sentence)
        mask = table.is_allowed.copy()
        # Exclude the word that is already at this position.
        if sentence == self.sentence and sentence.words[position] in table.words:
            mask[table.words.index[sentence.words[position]]] = False
        # Exclude words that violate a constraint.
        for name, minimum in self.min_scores.items():
            if name in table.replacements:
                mask &= table.exact_scores[name] >= minimum - SCORE_TOLERANCE
        # Exclude words that do not decrease the loss. It is known if all models that should find
        # the sentence improbable (`reject`) have scored the words.
        definition = self.problem.definition
        if all(name in table.replacements for name in definition.reject):
            losses = definition.loss(table.exact_scores, self.natural_scores)
            mask &= losses < self.loss(self.current_scores) + SCORE_TOLERANCE
        return mask


def _make_cache_key(sentence: Sentence, position: int) -> tuple[int, Sentence]:
    """Return a cache key that consists of a position and the words at all other positions."""
    return position, sentence.replace(position, "")
