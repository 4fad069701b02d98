"""The search: one sentence, one rejecting and one accepting model, word by word.

Golan et al. (2023), section 4.6. Positions are visited in random sweeps; at each the strategy may
replace the word; the search ends when no position brings an improvement any more, so that a
sentence written by the exhaustive strategy is a local optimum under all single replacements.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from contstim.defaults import bundled_vocabulary
from contstim.errors import InputError
from contstim.models.base import FloatArray, Replacements, SentenceModel
from contstim.synthesis.objective import Constraint, Objective
from contstim.synthesis.proposals import WordReplacement
from contstim.synthesis.strategies import Ask, Board, Pick, Strategy, strategy
from contstim.text import Sentence
from contstim.vocabulary import Vocabulary

__all__ = ["Search", "Step", "Synthesis", "synthesize"]


@dataclass(frozen=True)
class Step:
    """One replacement that was kept, and the sentence's scores after it, nats."""

    sweep: int
    position: int
    old: str
    new: str
    reject_log_prob: float
    accept_log_prob: float


@dataclass(frozen=True)
class Synthesis:
    """A synthetic sentence and how it came about; all scores computed afresh, in nats.

    Attributes
    ----------
    natural, sentence
        The start and the result.
    natural_reject_log_prob, natural_accept_log_prob
        log p_reject(n) and log p_accept(n).
    reject_log_prob, accept_log_prob
        log p_reject(s) and log p_accept(s).
    steps
        Every replacement kept, in order.
    n_scores
        Exact scores asked of the rejecting and of the accepting model where its scores are not
        known at once.
    reject, accept
        The models' specs.
    strategy, seed, attempt
        How it was searched.
    """

    natural: str
    sentence: str
    natural_reject_log_prob: float
    natural_accept_log_prob: float
    reject_log_prob: float
    accept_log_prob: float
    steps: tuple[Step, ...]
    n_scores: tuple[int, int]
    reject: str
    accept: str
    strategy: str
    seed: int
    attempt: int

    @property
    def loss(self) -> float:
        """The fall log p_reject(s) - log p_reject(n), nats; 0 if nothing was found."""
        return self.reject_log_prob - self.natural_reject_log_prob

    @property
    def changed(self) -> bool:
        """Whether any word was replaced."""
        return self.sentence != self.natural


@dataclass
class Search:
    """Runs word searches over the positions of one sentence.

    Attributes
    ----------
    reject, accept
        The two models.
    proposal
        The candidates at each position.
    strategy
        The word search.
    seed, attempt
        Order the sweeps and the strategy's chance; another attempt searches in another order.
    """

    reject: SentenceModel
    accept: SentenceModel
    proposal: WordReplacement
    strategy: Strategy
    seed: int
    attempt: int = 0
    _asked: dict[str, int] = field(default_factory=lambda: {"reject": 0, "accept": 0}, init=False)

    def run(self, text: str) -> tuple[Sentence, Constraint, Objective, list[Step], FloatArray]:
        """Search from `text`.

        Returns
        -------
        tuple
            The sentence found, the constraint and objective, the steps, and the final scores
            (2,) under the rejecting and the accepting model.
        """
        rng = np.random.default_rng([self.seed, self.attempt, *self._entropy(text)])
        sentence = Sentence.parse(text)
        positions = self.proposal.positions(sentence)
        scores = self._fresh(sentence)
        objective = Objective(float(scores[0]))
        constraint = Constraint(float(scores[1]), self.accept.resolution)
        steps: list[Step] = []
        # Positions that brought nothing since the last replacement; all of them, and it is over.
        settled: set[int] = set()
        sweep = 0
        while len(settled) < len(positions):
            sweep += 1
            for position in rng.permutation(positions):
                if position in settled:
                    continue
                found = self._at(sentence, int(position), constraint, float(scores[0]), rng)
                if found is None:
                    settled.add(int(position))
                    continue
                old = sentence.words[position]
                sentence, scores = found
                new = sentence.words[position]
                steps.append(Step(sweep, int(position), old, new, *map(float, scores)))
                settled = set()
        return sentence, constraint, objective, steps, scores

    @property
    def n_scores(self) -> tuple[int, int]:
        """Exact scores asked of the rejecting and the accepting model so far."""
        return self._asked["reject"], self._asked["accept"]

    def _entropy(self, text: str) -> list[int]:
        # Chance depends on the task alone, so a task gives the same result in any order of tasks.
        key = "\n".join([text, self.reject.spec, self.accept.spec])
        return list(np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype=np.uint32))

    def _fresh(self, sentence: Sentence) -> FloatArray:
        text = [str(sentence)]
        return np.array([self.reject.score(text)[0], self.accept.score(text)[0]])

    def _at(
        self,
        sentence: Sentence,
        position: int,
        constraint: Constraint,
        below: float,
        rng: np.random.Generator,
    ) -> tuple[Sentence, FloatArray] | None:
        """Try one position; return the changed sentence and its scores, or None."""
        words = self.proposal.words(sentence, position)
        tables: dict[str, Replacements] = {
            "reject": self.reject.replacements(sentence, position, words),
            "accept": self.accept.replacements(sentence, position, words),
        }
        board = Board(
            tables["reject"],
            tables["accept"],
            self.proposal.allowed(sentence, position, words),
            constraint.minimum,
            below,
            rng,
        )
        turn = self.strategy(board)
        request = next(turn, None)
        while request is not None:
            answer: FloatArray | bool = False
            if isinstance(request, Ask):
                self._asked[request.role] += len(request.index)
                answer = tables[request.role].score(request.index)
            elif isinstance(request, Pick):
                changed = sentence.replace(position, words.words[request.index])
                scores = self._fresh(changed)
                if constraint.admits(scores[1:])[0] and scores[0] < below:
                    return changed, scores
            try:
                request = turn.send(answer)
            except StopIteration:
                return None
        return None


def synthesize(
    sentence: str,
    *,
    reject: SentenceModel,
    accept: SentenceModel,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = "exhaustive",
    seed: int = 0,
    attempt: int = 0,
    proposal: WordReplacement | None = None,
) -> Synthesis:
    """Write a sentence that `accept` finds no less probable than `sentence` and `reject` far less.

    Minimises log p_reject(s) subject to log p_accept(s) >= log p_accept(n) (Golan et al. 2023,
    Eq. 2) by replacing one word at a time until no position brings an improvement.

    Parameters
    ----------
    sentence
        The natural sentence n to start from, of at least two words.
    reject, accept
        The two models.
    vocabulary
        The words that may be used; the bundled one if not given.
    strategy
        ``exhaustive`` (always the best feasible word), ``first-improvement``, ``bounded`` (a
        budget of exact scores, for models whose scores are dear), or a strategy of your own.
    seed, attempt
        The same seed, attempt, sentence, models and vocabulary give the same result; another
        attempt visits the positions in another order.
    proposal
        Candidates prepared for this pair of models, when many sentences share them.

    Returns
    -------
    Synthesis
        Its sentence keeps the constraint when both sentences are scored afresh; it is the natural
        one itself where no improvement was found.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    InputError
        If the two models are one, if the sentence has one word only, if no vocabulary word may
        stand at a position, or if a model's score is not higher for more acceptable sentences
        (``reduction=ppl``).
    """
    if reject.spec == accept.spec:
        raise InputError(
            f"a synthesis needs two different models, got {reject.spec!r} twice; specs that differ "
            "in metric or reduction are different models"
        )
    if len(sentence.split()) < 2:
        raise InputError(
            f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
        )
    for model in (reject, accept):
        if not model.rises_with_acceptability:
            raise InputError(
                f"{model.spec!r} does not score acceptable sentences higher; choose a reduction "
                "that does, such as sum or mean"
            )
    if proposal is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        proposal = WordReplacement(words, (reject, accept))
    search = Search(reject, accept, proposal, _strategy(strategy), seed, attempt)
    found, constraint, objective, steps, scores = search.run(sentence)
    return Synthesis(
        natural=str(Sentence.parse(sentence)),
        sentence=str(found),
        natural_reject_log_prob=objective.natural,
        natural_accept_log_prob=constraint.natural,
        reject_log_prob=float(scores[0]),
        accept_log_prob=float(scores[1]),
        steps=tuple(steps),
        n_scores=search.n_scores,
        reject=reject.spec,
        accept=accept.spec,
        strategy=strategy if isinstance(strategy, str) else repr(strategy),
        seed=seed,
        attempt=attempt,
    )


def _strategy(name: str | Strategy) -> Strategy:
    return strategy(name) if isinstance(name, str) else name
