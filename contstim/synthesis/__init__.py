"""Writing synthetic sentences: the strategies by name, with their options, and `synthesize`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import Field, fields
from typing import Any

from contstim.errors import BudgetError, InputError, require_known, require_whole
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.options import OWN_STRATEGIES
from contstim.synthesis.problem import Problem, check_start
from contstim.synthesis.results import Synthesis
from contstim.synthesis.sweeps import Search, Strategy
from contstim.text import Sentence
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

#: Strategies by name.
STRATEGIES = Registry[type[Strategy]](
    "strategy",
    "contstim.strategies",
    {name: address for name, (address, _) in OWN_STRATEGIES.items()},
    Strategy,
)


def default_strategy(problem: Problem, **given: Any) -> str:
    """Return which strategy is used where none is named and these options are given."""
    return default_of(given, at_once=problem.at_once)


def default_of(given: Collection[str], *, at_once: bool) -> str:
    """Return the default for n-grams alone, whose scores are known at once, or for others.

    ``beam`` for n-grams, else ``leftward``; ``bounded`` for others if options are given that it
    has, such as ``budget``, and ``leftward`` for n-grams if some are that ``beam`` does not have.
    """
    of_beam, of_bounded, of_leftward = (
        {*given} <= options_of(name).keys() for name in ("beam", "bounded", "leftward")
    )
    if at_once:
        return "leftward" if of_leftward and not of_beam else "beam"
    return "bounded" if given and of_bounded else "leftward"


def options_of(strategy: str) -> dict[str, Field[Any]]:
    """Return the declared options of the strategy called so."""
    declared = fields(settings_of(strategy))
    return {field.name: field for field in declared if "help" in field.metadata}


def settings_of(strategy: str) -> Any:
    """Return the class whose fields are the settings of the strategy called so."""
    own = OWN_STRATEGIES.get(strategy)
    return own[1] if own else STRATEGIES[strategy]


def owners_of_options() -> dict[str, tuple[str, ...]]:
    """Return which strategies have each option that any of them declares."""
    declared = {name: options_of(name) for name in STRATEGIES}
    every = dict.fromkeys(option for options in declared.values() for option in options)
    return {
        option: tuple(name for name, options in declared.items() if option in options)
        for option in every
    }


def strategy_called(name: str, **given: Any) -> Strategy:
    """Return the strategy called `name`.

    Parameters
    ----------
    name
        One of `STRATEGIES`.
    given
        Its options; None stands for its default.

    Raises
    ------
    UnknownNameError
        If there is no such strategy or option; near matches are named.
    InputError
        If an option is given that the strategy does not have, or with a value that it refuses.
    """
    return STRATEGIES[name](**check_options(name, **given))


def check_options(name: str, **given: Any) -> dict[str, Any]:
    """Return the options of a strategy but those that are None, checked as by `strategy_called`.

    The code of contstim's own strategies is not loaded for it.
    """
    declared = options_of(name)
    chosen = {option: value for option, value in given.items() if value is not None}
    for option, value in chosen.items():
        if option not in declared:
            owners = owners_of_options()
            require_known("option of a strategy", option, owners)
            raise InputError(
                f"{option}={value!r} goes with the strategy "
                f"{' or '.join(map(repr, owners[option]))}, not {name!r}; leave it out"
            )
    settings_of(name)(**chosen)
    return chosen


def synthesize(
    sentence: str,
    *,
    problem: Problem | None = None,
    reject: SentenceModel | str | None = None,
    accept: SentenceModel | str | None = None,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy | None = None,
    seed: int = 0,
    attempt: int = 0,
    proposal: WordReplacement | None = None,
    certificate: bool = False,
    **options: Any,
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
        In its place, the two models of Eq. 2, or their specs: short for
        ``problem=Problem.pair(reject, accept)``.
    vocabulary
        The words that may be used; the bundled one if not given.
    strategy
        One of `STRATEGIES` by name: ``beam`` (whole sentences from the left, for models of
        n-grams, then as ``bounded``), ``leftward`` (whole sentences from the left, for networks),
        ``bounded`` (the words of greatest promise first, within a budget of exact scores),
        ``exhaustive`` (always the best word); or a strategy itself, with its options or of your
        own. By default that of `default_strategy`, which the result names.
    seed, attempt
        The same seed, attempt, sentence, models and vocabulary give the same result; another
        attempt visits the positions in another order.
    proposal
        Candidates prepared for these models, when many sentences share them.
    certificate
        Whether to find a bound on what any sentence could reach, for models of n-grams.
    options
        Options of the strategy, the default or the named one, such as ``budget=8``; by the names
        that ``contstim synthesize`` has for them. The result names them.

    Returns
    -------
    Synthesis
        Its sentence keeps the constraints when all models score it again; it is the natural one
        itself where no improvement was found. If a budget of an engine's requests is spent, it is
        the best until then, and says so.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    UnknownNameError
        If there is no such strategy or option.
    InputError
        If an option is one of other strategies, if the two models are one, if both a problem and
        models are given or neither, if the sentence has one word only, if seed or attempt is below
        0, or if no vocabulary word may stand at a position; if a certificate is asked for that
        there is none of.

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
        both = (load_model(m) if isinstance(m, str) else m for m in (reject, accept))
        problem = Problem.pair(*both)
    elif problem is None or reject is not None or accept is not None:
        raise InputError("say what is wanted: either problem=, or reject= and accept=")
    require_whole("seed", seed, 0)
    require_whole("attempt", attempt, 0)
    if proposal is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        proposal = WordReplacement(words, tuple(problem.by_name.values()))
    named, strategy = strategy is not None, strategy or default_strategy(problem, **options)
    if options:
        if not isinstance(strategy, str):
            raise InputError(
                f"{next(iter(options))}= is for a strategy by its name; {strategy!r} has its "
                "options already"
            )
        strategy = strategy_called(strategy, **options)
    steering = strategy_called(strategy) if isinstance(strategy, str) else strategy
    language = proposal.vocabulary.language
    check_start(sentence, language)
    natural = Sentence.parse(sentence, language)
    # Who names no strategy need not know where it starts.
    at_natural = steering.starts_at_natural or not named
    search = Search(problem, proposal, natural, seed, attempt, at_natural)
    bound = None
    if certificate:
        from contstim.synthesis.ngrams.certificate import bound_of  # of no use to networks

        bound = bound_of(search)
    stopped = ""
    with waiting("writing a sentence"):
        try:
            finished = steering.run(search)
        except BudgetError as error:
            finished, stopped = False, str(error)
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
        stopped=stopped,
        accepting=problem.accepting,
    )
