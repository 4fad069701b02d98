"""Synthetic sentences: the strategies by name, and `synthesize`."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from contstim.errors import BudgetError, InputError, require_known, require_whole
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.settings import range_of
from contstim.synthesis.candidates import SharedVocabulary
from contstim.synthesis.coordinate_search import Search, Strategy
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem, require_two_words
from contstim.synthesis.results import Synthesis
from contstim.text import Sentence
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

#: Strategies by name.
STRATEGIES = Registry[type[Strategy]](
    "strategy",
    "contstim.strategies",
    {
        "edit": "contstim.synthesis.edit:Edit",
        "beam": "contstim.synthesis.beam:Beam",
        "sample": "contstim.synthesis.sample:GuidedSampling",
    },
    Strategy,
)


def strategy_options(name: str) -> dict[str, Field[Any]]:
    """Return the declared options of the strategy called `name`."""
    declared: Any = STRATEGIES[name]
    return {field.name: field for field in fields(declared) if "help" in field.metadata}


def parse_strategy(text: str, **options: Any) -> Strategy:
    """Return a strategy by its name and options, such as ``edit?candidates=8``.

    Parameters
    ----------
    text
        One of `STRATEGIES`, with options as a URL query: ``NAME?option=value&option=value``.
    options
        Further options.

    Raises
    ------
    UnknownNameError
        If there is no such strategy or option; near matches are named.
    InputError
        If an option belongs to another strategy, is given twice, or has an invalid value.

    Examples
    --------
    >>> parse_strategy("edit?candidates=8")
    Edit(candidates=8, first=4, inputs=None)
    """
    name, _, query = text.partition("?")
    kind, declared = STRATEGIES[name], strategy_options(name)
    given: dict[str, Any] = {}
    for part in query.split("&") if query else ():
        option, _, value = part.partition("=")
        if option in given or option in options:
            raise InputError(f"the strategy {text!r} has {option} twice; give it once")
        is_text = option in declared and range_of(kind, option)[0] is str
        given[option] = value if is_text else _number(value)
    given |= options
    for option, value in given.items():
        if option not in declared:
            owners = [other for other in STRATEGIES if option in strategy_options(other)]
            every = [own for other in STRATEGIES for own in strategy_options(other)]
            require_known("option of a strategy", option, every)
            raise InputError(
                f"{option}={value!r} is an option of the strategy "
                f"{' or '.join(map(repr, owners))}, not of {name!r}; leave it out"
            )
    return kind(**given)


def _number(text: str) -> int | float | str:
    """Return an option's value: a number where it is one."""
    for read in (int, float):
        try:
            # int() would also take 1_000 and the digits of other scripts.
            return read(text) if text.isascii() and "_" not in text else text
        except ValueError:
            pass
    return text


def format_strategy(strategy: Strategy) -> str:
    """Return a strategy as `parse_strategy` reads it; without a name, its representation.

    Examples
    --------
    >>> format_strategy(parse_strategy("edit?candidates=all"))
    'edit?candidates=all'
    """
    name = next((name for name in STRATEGIES if STRATEGIES[name] is type(strategy)), None)
    if name is None:
        return repr(strategy)
    values = {
        option: getattr(strategy, option)
        for option, field in strategy_options(name).items()
        if getattr(strategy, option) != field.default
    }
    texts = (f"{option}={str(value).removesuffix('.0')}" for option, value in values.items())
    query = "&".join(texts)
    return f"{name}?{query}" if query else name


def require_edit_support(strategy: Strategy, edits: Edits) -> None:
    """Refuse limits on edits where a strategy writes whole sentences.

    Raises
    ------
    InputError
        Naming the strategy and the edits.
    """
    if edits != Edits() and not strategy.supports_edits:
        raise InputError(
            f"the strategy {format_strategy(strategy)!r} writes whole sentences and cannot limit "
            f"edits ({edits}); use the strategy 'edit', or leave the edits out"
        )


def synthesize(
    sentence: str,
    *,
    problem: Problem | None = None,
    reject: SentenceModel | str | None = None,
    accept: SentenceModel | str | None = None,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = "edit",
    seed: int = 0,
    attempt: int = 0,
    shared_vocabulary: SharedVocabulary | None = None,
    **options: Any,
) -> Synthesis:
    """Search for a sentence of low loss that satisfies the constraints of a problem.

    With `reject` and `accept`, minimises log p_reject(s) subject to log p_accept(s) >=
    log p_accept(n) (Golan et al. 2023, Eq. 2).

    Parameters
    ----------
    sentence
        The natural sentence n, of at least two words.
    problem
        The problem.
    reject, accept
        In its place, the two models of Eq. 2, or their specs: short for
        ``problem=Problem((reject,), (accept,))``.
    vocabulary
        The words that may be used; the bundled ones if not given.
    strategy
        A strategy by name, with options as a URL query, or a strategy itself. ``edit``: replace
        words of the natural sentence. ``beam``: whole sentences of low loss from left to right.
        ``sample``: sentences sampled from a language model that the compared models guide.
    seed, attempt
        The same seed, attempt, sentence, models and vocabulary give the same result; another
        attempt searches in another random order.
    shared_vocabulary
        Prepared candidates, for several sentences under the same models.
    options
        Options of a strategy that is given by name, such as ``candidates=8``.

    Returns
    -------
    Synthesis
        The sentence satisfies the constraints when all models score it again. It is the natural
        sentence if nothing was found, and the best one so far if a budget of requests to a model
        server is used up.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    UnknownNameError
        If there is no such strategy or option.
    InputError
        If the strategy cannot honour the problem or an option; if both a problem and models are
        given or neither; if the two models are one; if the sentence has one word only; if seed or
        attempt is below 0; if no vocabulary word may stand at a position.

    Examples
    --------
    >>> models = {"reject": "contstim:bigram", "accept": "contstim:trigram"}
    >>> found = synthesize("The ship left at dawn.", **models)
    >>> found.sentence, round(found.loss, 1)
    ('The recourse left at two.', -6.6)
    """
    if problem is None and reject is not None and accept is not None:
        both = (load_model(m) if isinstance(m, str) else m for m in (reject, accept))
        rejecting, accepting = both
        problem = Problem((rejecting,), (accepting,))
    elif problem is None or reject is not None or accept is not None:
        raise InputError("give the problem: either problem=, or reject= and accept=")
    require_whole("seed", seed, 0)
    require_whole("attempt", attempt, 0)
    if isinstance(strategy, str):
        strategy = parse_strategy(strategy, **options)
    elif options:
        raise InputError(
            f"{next(iter(options))}= is for a strategy given by name; {strategy!r} has its "
            "options already"
        )
    require_edit_support(strategy, problem.edits)
    if shared_vocabulary is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        shared_vocabulary = SharedVocabulary(words, tuple(problem.models_by_name.values()))
    language = shared_vocabulary.vocabulary.language
    require_two_words(sentence, language)
    natural = Sentence.parse(sentence, language)
    search = Search(problem, shared_vocabulary, natural, seed, attempt, strategy.starts_at_natural)
    stopped = ""
    with waiting("writing a sentence"):
        try:
            finished = strategy.run(search)
        except BudgetError as error:
            finished, stopped = False, str(error)
    return Synthesis(
        natural=str(natural),
        sentence=str(search.sentence),
        models=problem.contrast.names,
        natural_scores=tuple(search.natural.values()),
        scores=tuple(search.now.values()),
        loss=search.loss(search.now),
        steps=tuple(search.steps),
        n_scores=tuple(search.counter.n_scores.values()),
        problem=repr(problem.contrast),
        strategy=format_strategy(strategy),
        seed=seed,
        attempt=attempt,
        finished=finished,
        stopped=stopped,
        accepting=problem.contrast.accept,
    )
