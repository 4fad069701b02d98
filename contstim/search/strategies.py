"""The strategies by name, and their options as their dataclasses declare them."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, TypeVar, get_type_hints

from contstim.errors import InputError, UnknownNameError
from contstim.search.beam import Beam
from contstim.search.bounded import Bounded
from contstim.search.exchanges import Exchanges
from contstim.search.exhaustive import Exhaustive
from contstim.search.first_improvement import FirstImprovement
from contstim.search.paper import Paper
from contstim.search.restarts import Restarts
from contstim.search.sweeps import Strategy
from contstim.search.yielding import Yielding

_Kind = TypeVar("_Kind")

#: Strategies by name.
STRATEGIES: dict[str, type[Strategy]] = {
    "exhaustive": Exhaustive,
    "first-improvement": FirstImprovement,
    "bounded": Bounded,
    "paper": Paper,
    "beam": Beam,
    "exchanges": Exchanges,
    "restarts": Restarts,
    "yielding": Yielding,
}

#: The strategy of command line, experiment files and Python where none is named.
DEFAULT = "beam"


def options(name: str) -> dict[str, Field[Any]]:
    """Return the declared options of the strategy called `name`."""
    declared: Any = STRATEGIES[name]
    return {field.name: field for field in fields(declared) if "help" in field.metadata}


def with_options(kind: type[_Kind]) -> type[_Kind]:
    """Give a class that will be settings every declared option, None by default."""
    for option, owners in OPTION_OF.items():
        kind.__annotations__[option] = (
            get_type_hints(STRATEGIES[owners[0]], include_extras=True)[option] | None
        )
        setattr(kind, option, None)
    return kind


#: Which strategies have each option.
OPTION_OF: dict[str, tuple[str, ...]] = {
    option: tuple(name for name in STRATEGIES if option in options(name))
    for owner in STRATEGIES
    for option in options(owner)
}


def strategy(name: str, **given: Any) -> Strategy:
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
    if name not in STRATEGIES:
        raise UnknownNameError.among("strategy", name, STRATEGIES)
    chosen = {option: value for option, value in given.items() if value is not None}
    for option, value in chosen.items():
        if option not in OPTION_OF:
            raise UnknownNameError.among("option of a strategy", option, OPTION_OF)
        if option not in options(name):
            owners = " or ".join(map(repr, OPTION_OF[option]))
            raise InputError(
                f"{option}={value!r} goes with the strategy {owners}, not {name!r}; leave it out"
            )
    return STRATEGIES[name](**chosen)
