"""Writing one sentence: from a natural sentence and a problem to what a strategy makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.progress import waiting
from contstim.search.candidates import WordReplacement
from contstim.search.problem import Problem
from contstim.search.strategies import DEFAULT
from contstim.search.strategies import strategy as strategy_called
from contstim.search.sweeps import Search, Step, Strategy
from contstim.text.sentence import Sentence
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary


@dataclass(frozen=True)
class Synthesis:
    """A synthetic sentence and how it came about; all scores computed again, in nats.

    Attributes
    ----------
    natural, sentence
        The start and the result.
    models
        Specs of the problem's models, those of its objective first: for a pair, the rejecting
        one and the accepting one.
    natural_scores, scores
        Their scores of both sentences.
    loss
        The loss of the result less that of the natural sentence; 0 if nothing was found.
    steps
        Every replacement kept, in order.
    n_scores
        Exact scores of candidates asked of each model where they are not known at once; each
        sentence counts once. (Besides, the natural sentence and each sentence that is kept are
        scored again.)
    problem, strategy, seed, attempt
        What was wanted and how it was searched.
    finished
        False if the strategy's limits left candidates out that might have brought an improvement.
    bound
        Where a certificate was asked for, a loss that no sentence of these words is below that
        keeps the constraints.
    """

    natural: str
    sentence: str
    models: tuple[str, ...]
    natural_scores: tuple[float, ...]
    scores: tuple[float, ...]
    loss: float
    steps: tuple[Step, ...]
    n_scores: tuple[int, ...]
    problem: str
    strategy: str
    seed: int
    attempt: int
    finished: bool = True
    bound: float | None = None

    @property
    def reached(self) -> float | None:
        """At least what part of the lowest possible loss was reached, if that is known: 0 to 1."""
        if self.bound is None:
            return None
        return self.loss / self.bound if self.bound < 0 else 1.0

    @property
    def changed(self) -> bool:
        """Whether any word was replaced."""
        return self.sentence != self.natural

    @property
    def reject(self) -> str:
        """The spec of the first model, for a pair the rejecting one."""
        return self.models[0]

    @property
    def accept(self) -> str:
        """The spec of the last model, for a pair the accepting one."""
        return self.models[-1]

    @property
    def natural_reject_log_prob(self) -> float:
        """Log p_reject(n)."""
        return self.natural_scores[0]

    @property
    def natural_accept_log_prob(self) -> float:
        """Log p_accept(n)."""
        return self.natural_scores[-1]

    @property
    def reject_log_prob(self) -> float:
        """Log p_reject(s)."""
        return self.scores[0]

    @property
    def accept_log_prob(self) -> float:
        """Log p_accept(s)."""
        return self.scores[-1]

    def _repr_html_(self) -> str:
        """Return both sentences with their scores, which notebooks show."""
        from contstim.search.display import scored_html  # needs pandas

        rows = [
            ("natural", self.natural, self.natural_scores),
            ("synthetic", self.sentence, self.scores),
        ]
        note = f"{len(self.steps)} replacements kept; strategy {self.strategy}, seed {self.seed}."
        if self.reached is not None:
            note += f" At least {self.reached:.0%} of what is possible."
        return scored_html(rows, self.models, note if self.changed else "Nothing was found.")


def reached_columns(results: Mapping[str, Synthesis]) -> tuple[tuple[str, float], ...]:
    """Return, by name of a column, what part of the possible was reached, where that is known."""
    reached = {column: result.reached for column, result in results.items()}
    return tuple((column, part) for column, part in reached.items() if part is not None)


def synthesize(
    sentence: str,
    *,
    problem: Problem | None = None,
    reject: SentenceModel | None = None,
    accept: SentenceModel | None = None,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = DEFAULT,
    seed: int = 0,
    attempt: int = 0,
    proposal: WordReplacement | None = None,
    certificate: bool = False,
) -> Synthesis:
    """Write a sentence of low loss that keeps a problem's constraints.

    With `reject` and `accept`, minimises log p_reject(s) subject to log p_accept(s) >=
    log p_accept(n) (Golan et al. 2023, Eq. 2).

    Parameters
    ----------
    sentence
        The natural sentence n to start from, of at least two words.
    problem
        What is wanted.
    reject, accept
        In its place, the two models of Eq. 2: short for ``problem=Problem.pair(reject, accept)``.
    vocabulary
        The words that may be used; the bundled one if not given.
    strategy
        One of `STRATEGIES` by name: ``beam`` (whole sentences from the left for models of
        n-grams, then as ``bounded``), ``bounded`` (a budget of exact scores, for models whose
        scores are expensive; exhaustive where all scores are known at once), ``yielding`` (the
        same with constraints that yield at first), ``exchanges`` (two words at once), ``restarts``,
        ``exhaustive`` (always the best word), ``paper`` (Golan et al. 2023, section 4.7),
        ``first-improvement``; or a strategy itself, with its options or of your own.
    seed, attempt
        The same seed, attempt, sentence, models and vocabulary give the same result; another
        attempt visits the positions in another order.
    proposal
        Candidates prepared for these models, when many sentences share them.
    certificate
        Whether to find a bound on what any sentence could reach, for models of n-grams.

    Returns
    -------
    Synthesis
        Its sentence keeps the constraints when all models score it again; it is the natural one
        itself where no improvement was found.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    InputError
        If the two models are one, if both a problem and models are given or neither, if the
        sentence has one word only, if no vocabulary word may stand at a position, or if a model's
        score is not higher for more acceptable sentences (``reduction=ppl``); if a certificate is
        asked for that there is none of.

    Examples
    --------
    >>> from contstim import Vocabulary, load_model
    >>> words = Vocabulary.from_words(["The", "A", "dog", "cat", "sat", "ran", "away", "here"])
    >>> found = synthesize(
    ...     "The cat sat here.",
    ...     reject=load_model("contstim:bigram"),
    ...     accept=load_model("contstim:trigram"),
    ...     vocabulary=words,
    ... )
    >>> found.sentence, round(found.loss, 1)
    ('A dog away here.', -0.9)
    """
    if problem is None and reject is not None and accept is not None:
        problem = Problem.pair(reject, accept)
    elif problem is None or reject is not None or accept is not None:
        raise InputError("say what is wanted: either problem=, or reject= and accept=")
    if len(sentence.split()) < 2:
        raise InputError(
            f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
        )
    if proposal is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        proposal = WordReplacement(words, tuple(problem.by_name.values()))
    steering = strategy_called(strategy) if isinstance(strategy, str) else strategy
    natural = Sentence.parse(sentence)
    search = Search(problem, proposal, natural, seed, attempt)
    bound = None
    if certificate:
        from contstim.search.certificate import bound_of  # of no use to networks

        bound = bound_of(search)
    with waiting("writing a sentence"):
        finished = steering.run(search)
    return Synthesis(
        natural=str(natural),
        sentence=str(search.sentence),
        models=problem.names,
        natural_scores=tuple(search.natural.values()),
        scores=tuple(search.now.values()),
        loss=search.loss(search.now) - search.loss(search.natural),
        steps=tuple(search.steps),
        n_scores=tuple(search.spent.n_scores.values()),
        problem=str(problem),
        strategy=strategy if isinstance(strategy, str) else repr(strategy),
        seed=seed,
        attempt=attempt,
        finished=finished,
        bound=bound,
    )
