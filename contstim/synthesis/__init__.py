"""Synthesis of sentences about which language models disagree.

`synthesize` modifies or writes one sentence so that it becomes improbable under some models and
remains probable under others. `STRATEGIES` registers the search algorithms by name.
"""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from contstim.errors import BudgetError, InputError, require_integer, require_known
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.plugins import Registry
from contstim.settings import field_bounds
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem, require_two_words
from contstim.synthesis.results import SynthesisResult
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

#: Search algorithms by name. Installed packages can add further ones.
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
    """Return the options of the strategy `name` as a dictionary from option to dataclass field."""
    strategy_class: Any = STRATEGIES[name]
    return {field.name: field for field in fields(strategy_class)}


def parse_strategy(text: str, **options: Any) -> Strategy:
    """Create a search strategy from a string such as ``edit?candidates=8``.

    Parameters
    ----------
    text
        Name of the strategy, with its options as a URL query:
        ``NAME?option=value&option=value``.
    options
        Options that are given as keyword arguments instead.

    Raises
    ------
    UnknownNameError
        If no strategy has this name, or no strategy has this option.
    InputError
        If an option belongs to another strategy, occurs twice, or has an invalid value.

    Examples
    --------
    >>> parse_strategy("edit?candidates=8")
    Edit(candidates=8, first=4, inputs=None)
    """
    name, _, query = text.partition("?")
    strategy_class, known_options = STRATEGIES[name], strategy_options(name)
    # Read the options OPTION=VALUE&OPTION=VALUE, and convert values to numbers unless the type of
    # the option is text.
    values: dict[str, Any] = {}
    for assignment in query.split("&") if query else ():
        option, _, value = assignment.partition("=")
        if option in values or option in options:
            raise InputError(f"the strategy {text!r} has {option} twice; give it once")
        is_text = option in known_options and field_bounds(strategy_class, option)[0] is str
        values[option] = value if is_text else _parse_number(value)
    values |= options

    unknown_options = [option for option in values if option not in known_options]
    if unknown_options:
        # Name the strategies that have this option, or suggest an option with a similar name.
        option = unknown_options[0]
        if option == "readable" or option in Problem.__dataclass_fields__:
            raise InputError(
                f"{option} belongs to the problem, not to the strategy; pass synthesize a problem, "
                "for example Problem((reject,), (accept,), bounds=[MinScore.readable()])"
            )
        options_by_strategy = {other: strategy_options(other) for other in STRATEGIES}
        all_options = [name for names in options_by_strategy.values() for name in names]
        require_known("option of a strategy", option, all_options)
        owners = [repr(other) for other, names in options_by_strategy.items() if option in names]
        raise InputError(
            f"{option}={values[option]!r} is an option of the strategy {' or '.join(owners)}, not "
            f"of {name!r}; leave it out"
        )
    return strategy_class(**values)


def _parse_number(text: str) -> int | float | str:
    """Convert the value of an option to a number, if it is one.

    Parameters
    ----------
    text
        Value as text. For example, ``8`` becomes an integer and ``0.5`` a floating-point number.

    Returns
    -------
    int, float or str
        Number, or the unchanged text if it is not a number.
    """
    # `int` and `float` also accept 1_000 and non-ASCII digits, which are more likely mistakes.
    if not text.isascii() or "_" in text:
        return text  # `int` would also accept "1_000" and digits of other scripts.
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def format_strategy(strategy: Strategy) -> str:
    """Format a search strategy as a string that `parse_strategy` can read.

    The string contains the name of the strategy and the options that differ from their defaults.

    Parameters
    ----------
    strategy
        Search strategy. If its class is not registered under a name, `repr` formats it instead.

    Examples
    --------
    >>> format_strategy(parse_strategy("edit?candidates=all"))
    'edit?candidates=all'
    """
    name = next((name for name in STRATEGIES if STRATEGIES[name] is type(strategy)), None)
    if name is None:
        return repr(strategy)  # The class of the strategy is not registered under a name.
    # List the options that differ from their defaults, as a URL query.
    parts = []
    for option, field in strategy_options(name).items():
        value = getattr(strategy, option)
        if value != field.default:
            parts.append(f"{option}={str(value).removesuffix('.0')}")
    return f"{name}?{'&'.join(parts)}" if parts else name


def require_edit_support(strategy: Strategy, edits: Edits) -> None:
    """Check that a search strategy supports the limits on changes to the natural sentence.

    Parameters
    ----------
    strategy
        Strategy that searches for synthetic sentences.
    edits
        Limits on the changes to the natural sentence. Every strategy supports the default, no
        limits.

    Raises
    ------
    InputError
        If changes are limited, and the strategy does not start from the natural sentence.
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
) -> SynthesisResult:
    """Search for a sentence that some models find improbable and other models find probable.

    For a natural sentence n and two models, `reject` and `accept`, the result is the best sentence
    s that the search finds for the problem

        minimise log p_reject(s)  subject to  log p_accept(s) >= log p_accept(n)

    (Golan et al. 2023, Eq. 2). A `problem` can combine more models and further constraints.

    Parameters
    ----------
    sentence
        Natural sentence n, with at least two words.
    problem
        Problem to solve, with its models, its constraints and the limits on edits. It takes the
        place of `reject` and `accept`.
    reject, accept
        Model (or specification string of the model) that should find the sentence improbable, and
        model that should find it at least as probable as the natural sentence.
    vocabulary
        Words that may be used. Default: the bundled vocabulary.
    strategy
        Strategy, or its name with options as a URL query. ``edit`` replaces words of the natural
        sentence, ``beam`` writes whole sentences by beam search, and ``sample`` samples sentences
        from a language model that the compared models guide.
    seed, attempt
        Seed of the random numbers, and index of the search. Searches from the same sentence with a
        different index use different random numbers.
    shared_vocabulary
        Words that all models of the problem know. If the same object is passed for several
        sentences, these words are determined only once.
    options
        Options of the strategy, for example ``candidates=8``, if `strategy` is a name.

    Returns
    -------
    SynthesisResult
        Result with the best sentence found, which all models scored again to verify the
        constraints. If the search found no better sentence, the result contains the natural
        sentence. If a limit on requests to a model server ended the search early, the result
        contains the best sentence up to then.

    Raises
    ------
    UnknownWordError
        If a model does not know a word of `sentence`.
    UnknownNameError
        If the strategy or an option does not exist.
    InputError
        If `problem` and the two models are both given or both missing; if the two models are equal;
        if the strategy does not support the problem or an option; if the sentence has only one
        word; if `seed` or `attempt` is negative; or if the models know no word for a position.

    Examples
    --------
    >>> models = {"reject": "contstim:bigram", "accept": "contstim:trigram"}
    >>> result = synthesize("The ship left at dawn.", **models)
    >>> result.sentence, round(result.loss, 1)
    ('The recourse left at two.', -6.6)
    """
    if problem is None and reject is not None and accept is not None:
        rejecting = load_model(reject) if isinstance(reject, str) else reject
        accepting = load_model(accept) if isinstance(accept, str) else accept
        problem = Problem((rejecting,), (accepting,))
    elif problem is None or reject is not None or accept is not None:
        raise InputError("give either problem=, or both reject= and accept=")
    require_integer("seed", seed, 0)
    require_integer("attempt", attempt, 0)
    if isinstance(strategy, str):
        strategy = parse_strategy(strategy, **options)
    elif options:
        raise InputError(
            f"{next(iter(options))}= needs a strategy given by name; {strategy!r} has its options "
            "already"
        )
    require_edit_support(strategy, problem.edits)
    if shared_vocabulary is None:
        words = bundled_vocabulary() if vocabulary is None else vocabulary
        shared_vocabulary = SharedVocabulary(words, tuple(problem.models_by_name.values()))
    language = shared_vocabulary.vocabulary.language
    require_two_words(sentence, language)
    natural = Sentence.parse(sentence, language)
    search = Search(problem, shared_vocabulary, natural, seed, attempt, strategy.starts_at_natural)
    stop_reason = ""
    try:
        finished = strategy.run(search)
    except BudgetError as error:
        finished, stop_reason = False, str(error)
    return SynthesisResult(
        natural=str(natural),
        sentence=str(search.sentence),
        models=problem.definition.names,
        natural_scores=tuple(search.natural_scores.values()),
        scores=tuple(search.current_scores.values()),
        loss=search.loss(search.current_scores),
        steps=tuple(search.steps),
        n_scores=tuple(search.counter.n_scores.values()),
        strategy=format_strategy(strategy),
        seed=seed,
        attempt=attempt,
        finished=finished,
        stopped=stop_reason,
        accepting=problem.definition.accept,
        non_guiding_models=search.non_guiding_models,
    )
