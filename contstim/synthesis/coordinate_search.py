"""Coordinate search: replace one word of a sentence at a time (Golan et al. 2023, section 4.6).

The search visits the positions in random order. At each position a word search may replace the
word. The search ends when no position yields an improvement. With an exhaustive word search the
result is a local optimum under all single replacements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, islice

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InfeasibleError
from contstim.files import digest
from contstim.models.base import ReplacementScores, check_sentence_language, scores_vocabulary
from contstim.synthesis.candidates import SCORE_TOLERANCE, Candidates, ScoreCounter
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem, require_feasible_start, worst_violation
from contstim.synthesis.results import Step
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList

# Maximum number of positions for which scores are cached if all of them are cheap to recompute.
_MAX_CACHED_POSITIONS = 32
# Number of words that are scored exactly at a position that must change, by best estimate.
_MAX_REQUIRED_TRIALS = 64


@dataclass(frozen=True, eq=False)
class _PositionScores:
    """Words for one position and their scores, valid while all other words stay the same.

    The attributes are V words, a mask (V,) of the words that do not repeat another word of the
    sentence, and the scores of the sentence with each word, by model.
    """

    words: WordList
    is_allowed: BoolArray
    replacements: dict[str, ReplacementScores]

    @cached_property
    def exact_scores(self) -> dict[str, FloatArray]:
        """Exact scores (V,) by model; NaN where not computed yet."""
        return {
            name: table.estimates if table.is_exact else np.full(len(self.words), np.nan)
            for name, table in self.replacements.items()
        }

    def restrict(self, mask: BoolArray) -> _PositionScores:
        """Return the words in a mask (V,) with their scores, all of which must be exact."""
        return _PositionScores(
            WordList(tuple(compress(self.words, mask))),
            self.is_allowed[mask],
            {
                name: ReplacementScores.from_exact_scores(scores[mask])
                for name, scores in self.exact_scores.items()
            },
        )


@dataclass(eq=False)
class Search:
    """The search for one synthetic sentence: its current state, and the moves of a strategy.

    Attributes
    ----------
    problem
        Problem to solve.
    shared_vocabulary
        Words that all models of the problem know.
    sentence
        Current sentence: first the natural sentence, after any required edits.
    seed, attempt
        Seeds of the random number generator.
    requires_feasible_start
        Whether a natural sentence that violates a constraint is refused.
    natural
        Natural sentence.
    positions
        Positions that may change.
    natural_scores, current_scores
        Scores of the natural and of the current sentence in nats, by model.
    min_scores
        Minimum score in nats, by constrained model.
    steps
        Replacements so far.
    counter
        Counter of the exact scores computed so far.
    filter_only
        Names of the compared models that did not guide the sampling of sentences.
    """

    problem: Problem
    shared_vocabulary: SharedVocabulary
    sentence: Sentence
    seed: int
    attempt: int = 0
    requires_feasible_start: bool = True
    steps: list[Step] = field(default_factory=list, init=False)
    counter: ScoreCounter = field(init=False)
    filter_only: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._models = self.problem.models_by_name
        self.counter = ScoreCounter(dict.fromkeys(self._models, 0))
        self.natural = self.sentence
        self.positions = self._find_positions()
        self._required = self.problem.edits.required(self.natural)
        for model in self._models.values():
            check_sentence_language(model, self.natural.language, [str(self.natural)])
        self.natural_scores = self.current_scores = self.score(self.sentence)
        self.min_scores = self.problem.min_scores(self.natural_scores)
        self._cache: dict[tuple[int, Sentence], dict[str, _PositionScores]] = {}
        self._n_sweeps = 0

        # Random numbers depend on the task alone, so that the order of tasks does not matter.
        key = "\n".join([str(self.sentence), *self._models])
        entropy = np.frombuffer(bytes.fromhex(digest(key))[:16], dtype=np.uint32)
        self._rng = np.random.default_rng([self.seed, self.attempt, *map(int, entropy)])
        if self.requires_feasible_start:
            constraints = self.problem.contrast.constraints
            require_feasible_start(self.natural, constraints, self.natural_scores)
        if self._required:
            self._apply_required_edits()

    def score(self, sentence: Sentence) -> dict[str, float]:
        """Return the score of a sentence in nats, by model."""
        text = [str(sentence)]
        return {name: float(model.score(text)[0]) for name, model in self._models.items()}

    def loss(self, scores: dict[str, float]) -> float:
        """Return the loss of a sentence with the given scores."""
        return self.problem.contrast.sentence_loss(scores, self.natural_scores)

    def optimize(
        self, search_word: Callable[[Candidates], bool], *, prefilter: bool = False
    ) -> None:
        """Search the positions in random order until no position yields an improvement.

        Positions at which the word search ended early are then searched in a further round.

        Parameters
        ----------
        search_word
            Word search (`Strategy.search_word`).
        prefilter
            Whether models with exact scores of all words exclude candidates before any other model
            is used.
        """
        positions = self.positions
        # Positions without an improvement since the last replacement, and those among them at
        # which the word search ended early.
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
                for base in self._base_sentences(position):
                    if prefilter and not self._prefilter_mask(position, base).any():
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
        """Return the words that the vocabulary and the edits permit at a position.

        The words include those that already occur elsewhere in the sentence.
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
        """Return the candidates for one position of a sentence.

        Parameters
        ----------
        position
            Position of the word to replace.
        round_number
            Number of rounds without an improvement so far.
        base
            Sentence in which the word is replaced. None: the current sentence.
        prefilter
            Whether models with exact scores of all words exclude candidates first.
        """
        sentence = self.sentence if base is None else base
        table = self._scores_at(position, sentence, prefilter)
        is_current = sentence == self.sentence
        return Candidates(
            contrast=self.problem.contrast,
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
        """Return whether the vocabulary and the edits permit a sentence, whatever its scores."""
        return self.shared_vocabulary.permits(self.natural, sentence, self.problem.edits)

    def accept(self, sentence: Sentence) -> bool:
        """Make a sentence the current one if it is better; return whether it was accepted.

        The whole sentence is scored. It is accepted if it is permitted, satisfies all constraints
        and has a lower loss than the current sentence.
        """
        if not self.permits(sentence):
            return False
        text, scores = [str(sentence)], dict[str, float]()
        # Models that score all words at once cost least and come first.
        by_cost = sorted(self._models.items(), key=lambda item: not scores_vocabulary(item[1]))
        for name, model in by_cost:
            scores[name] = float(model.score(text)[0])
            if scores[name] < self.min_scores.get(name, -np.inf):
                return False
        scores = {name: scores[name] for name in self._models}
        if not self.loss(scores) < self.loss(self.current_scores):
            return False
        self._move_to(sentence, scores)
        return True

    def spawn_rng(self) -> np.random.Generator:
        """Return a new, independent random number generator."""
        return self._rng.spawn(1)[0]

    def _move_to(self, sentence: Sentence, scores: dict[str, float]) -> None:
        """Make a sentence the current one and record the replacements."""
        n_scores, values = tuple(self.counter.n_scores.values()), tuple(scores.values())
        for position in sorted(Edits.differences(self.sentence, sentence)):
            old, new = self.sentence.words[position], sentence.words[position]
            self.steps.append(Step(self._n_sweeps, position, old, new, values, n_scores))
        self.sentence, self.current_scores = sentence, scores

        # Delete cached scores of positions where another word has changed.
        valid = {_without_word(b, p) for p in self.positions for b in self._base_sentences(p)}
        self._cache = {key: table for key, table in self._cache.items() if key in valid}

    def _base_sentences(self, position: int) -> list[Sentence]:
        """Return the sentences in which the word at `position` may be replaced.

        Usually this is only the current sentence. If the maximum number of changes is reached and
        the word at `position` is still the natural one, another change must be undone first. Each
        of the returned sentences then restores one other natural word.
        """
        edits = self.problem.edits
        changed = Edits.differences(self.natural, self.sentence)
        if edits.max_changes is None or len(changed) < edits.max_changes or position in changed:
            return [self.sentence]
        reversible = [p for p in sorted(changed) if p not in self._required]
        bases = [self.sentence.replace(p, self.natural.words[p]) for p in reversible]
        return [base for base in bases if self.permits(base)]

    def _find_positions(self) -> list[int]:
        """Return the positions that may change, after a check that the edits are possible."""
        edits, natural = self.problem.edits, self.natural
        edits.check(natural)
        word_positions = self.shared_vocabulary.word_positions(natural)
        required = edits.required(natural)
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
        positions = [p for p in word_positions if p not in edits.fixed and restricted.get(p) != ()]
        if not positions and (edits.fixed or edits.same_kind):
            raise InfeasibleError(
                f"the edits allow no word of {str(natural)!r} to change; relax them, or leave the "
                "sentence out"
            )
        return positions

    def _apply_required_edits(self) -> None:
        """Change the words that must change, and others if needed to satisfy the constraints.

        Each position in turn gets the word with the largest slack, that is, the largest distance
        of the scores above their minima. This is repeated until all constraints are satisfied.
        """
        sentence, slack = self.natural, -np.inf
        for k, position in enumerate(self._required):
            unchanged = self._required[k + 1 :]
            sentence, slack = self._maximise_slack(sentence, position, -np.inf, unchanged)
        has_improved = True
        while slack < 0 and has_improved:
            has_improved = False
            for position in self.positions:
                changed, new_slack = self._maximise_slack(sentence, position, slack)
                if new_slack > slack:
                    sentence, slack, has_improved = changed, new_slack, True

        scores = self.score(sentence)
        constraints = self.problem.contrast.constraints
        violated, violation = worst_violation(constraints, self.natural_scores, scores)
        if violated is not None:
            raise InfeasibleError(
                f"no sentence was found that makes the required edits of {str(self.natural)!r} and "
                f"satisfies {violated}: {str(sentence)!r} violates it by {violation:.4g}; lower "
                "the bound, or let more words change"
            )
        self._move_to(sentence, scores)

    def _maximise_slack(
        self, sentence: Sentence, position: int, slack: float, unchanged: tuple[int, ...] = ()
    ) -> tuple[Sentence, float]:
        """Replace the word at a position with the word that gives the sentence the largest slack.

        The slack of a sentence is the minimum, over the constraints, of its score minus the minimum
        score. Returns the new sentence and its slack, or the arguments `sentence` and `slack` if no
        word gives a larger slack. `unchanged` lists the required positions that still have the
        natural word.
        """
        edits = self.problem.edits
        changed = {position, *Edits.differences(self.natural, sentence), *self._required}
        if edits.max_changes is not None and len(changed) > edits.max_changes:
            return sentence, slack
        candidates = self.candidates(position, 0, sentence)
        mask = candidates.is_allowed.copy()
        natural_index = candidates.words.index.get(self.natural.words[position])
        if natural_index is not None and position in self._required:
            mask[natural_index] = False
        indices = np.flatnonzero(mask)
        estimates = np.full(len(indices), np.inf)
        for name, minimum in self.min_scores.items():
            scores = candidates.replacements[name].estimates[indices]
            estimates = np.minimum(estimates, scores - minimum)

        # Compute exact scores of the words with the best estimates.
        permitted = (
            i
            for i in indices[np.argsort(-estimates, kind="stable")].tolist()
            if self._permits_partial(
                sentence.replace(position, candidates.words.words[i]), position, unchanged
            )
        )
        indices = np.array([*islice(permitted, _MAX_REQUIRED_TRIALS)], dtype=np.int64)
        if not len(indices):
            if position not in self._required:
                return sentence, slack
            raise InfeasibleError(
                f"position {position} of {str(self.natural)!r} must change, but no other word is "
                "allowed there; allow more words"
            )
        slacks = np.full(len(indices), np.inf)
        for name, minimum in self.min_scores.items():
            slacks = np.minimum(slacks, candidates.scores(name, indices) - minimum)
        best = int(slacks.argmax())
        if not slacks[best] > slack:
            return sentence, slack
        word = candidates.words.words[indices[best]]
        return sentence.replace(position, word), float(slacks[best])

    def _permits_partial(
        self, sentence: Sentence, position: int, unchanged: tuple[int, ...]
    ) -> bool:
        """Return whether the new word at a position is permitted beside its neighbours.

        Words at the positions `unchanged` will be replaced later. Only the words between the
        nearest two of these positions are therefore checked.
        """
        if not unchanged:
            return self.permits(sentence)
        start = max((p + 1 for p in unchanged if p < position), default=0)
        end = min((p for p in unchanged if p > position), default=len(sentence))
        words, before, after = (
            part[start:end] for part in (sentence.words, sentence.before, sentence.after)
        )
        span = Sentence(words, before, after, sentence.language)
        new_errors = {*span.agreement_errors} - {*self.natural.agreement_errors}
        return span.round_trips and not (self.problem.edits.agreement and new_errors)

    def _scores_at(self, position: int, sentence: Sentence, prefilter: bool) -> _PositionScores:
        """Return the words for a position with their scores under all models.

        The scores are cached. With `prefilter`, words are removed if exact scores of inexpensive
        models exclude them, and if this more than halves the list.
        """
        exact = self._exact_scores_at(position, sentence)
        if len(exact.replacements) == len(self._models):
            return exact
        # Excluded words remain excluded because the loss only decreases.
        cached = self._cache[_without_word(sentence, position)]
        kind = "prefiltered" if prefilter and exact.replacements else "complete"
        if kind not in cached:
            table = exact
            if kind == "prefiltered":
                mask = self._prefilter_mask(position, sentence)
                current_index = exact.words.index.get(sentence.words[position])
                if current_index is not None:
                    mask[current_index] = True
                # Models reuse results for complete lists, which saves more than a few words.
                if 2 * mask.sum() < len(mask):
                    table = exact.restrict(mask)
            replacements = {
                name: table.replacements.get(name)
                or model.score_replacements(sentence, position, table.words)
                for name, model in self._models.items()
            }
            cached[kind] = replace(table, replacements=replacements)
        return cached[kind]

    def _exact_scores_at(self, position: int, sentence: Sentence) -> _PositionScores:
        """Return the words for a position with their exact scores.

        Only the models that score the whole vocabulary at once are used, because they are
        inexpensive.
        """
        key = _without_word(sentence, position)
        cached = self._cache.get(key, {})
        if "exact" not in cached:
            words = self.words_at(position)
            replacements = {
                name: model.score_replacements(sentence, position, words)
                for name, model in self._models.items()
                if scores_vocabulary(model)
            }
            is_allowed = self.shared_vocabulary.is_unrepeated(sentence, position, words)
            cached["exact"] = _PositionScores(words, is_allowed, replacements)
            # Cache exact scores of all models only in part, since they are cheap to compute again.
            if len(replacements) < len(self._models) or len(self._cache) < _MAX_CACHED_POSITIONS:
                self._cache[key] = cached
        return cached["exact"]

    def _prefilter_mask(self, position: int, sentence: Sentence) -> BoolArray:
        """Return which words may improve the sentence according to the exact scores, shape (V,)."""
        table = self._exact_scores_at(position, sentence)
        mask = table.is_allowed.copy()
        if sentence == self.sentence and sentence.words[position] in table.words:
            mask[table.words.index[sentence.words[position]]] = False
        for name, minimum in self.min_scores.items():
            if name in table.replacements:
                mask &= table.exact_scores[name] >= minimum - SCORE_TOLERANCE
        contrast = self.problem.contrast
        if all(name in table.replacements for name in contrast.reject):
            losses = contrast.loss(table.exact_scores, self.natural_scores)
            mask &= losses < self.loss(self.current_scores) + SCORE_TOLERANCE
        return mask


def _without_word(sentence: Sentence, position: int) -> tuple[int, Sentence]:
    """Return a cache key for a position and all words except the one at this position."""
    return position, sentence.replace(position, "")
