"""Strategies for one position, by name: which candidates to score, and which to take."""

from __future__ import annotations

from collections.abc import Callable

from contstim.errors import InputError, UnknownNameError
from contstim.search.board import SLACK, Ask, Board, Memory, Pick, Strategy, Turn
from contstim.search.bounded import Bounded
from contstim.search.paper import Paper
from contstim.search.plain import exhaustive, first_improvement

__all__ = [
    "OPTION_OF",
    "SLACK",
    "STRATEGIES",
    "Ask",
    "Board",
    "Bounded",
    "Memory",
    "Paper",
    "Pick",
    "Strategy",
    "Turn",
    "exhaustive",
    "first_improvement",
    "strategy",
]

#: Strategies by name.
STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "exhaustive": lambda: exhaustive,
    "first-improvement": lambda: first_improvement,
    "bounded": Bounded,
    "paper": Paper,
}
#: Which strategy each option of `strategy` belongs to.
OPTION_OF = {"budget": "bounded", "inputs": "bounded", "candidates": "paper"}


def strategy(
    name: str,
    *,
    budget: int | None = None,
    inputs: int | None = None,
    candidates: str | None = None,
) -> Strategy:
    """Return the strategy called `name`.

    Parameters
    ----------
    name
        One of `STRATEGIES`.
    budget
        Of ``bounded``: most exact scores a position; the default of `Bounded` if None.
    inputs
        Of ``bounded``: most that the exact scores of one sentence may cost; its default if None.
    candidates
        Of ``paper``: the spec of the model that sets the candidate threshold; by default each
        left-to-right model of the pair does.

    Raises
    ------
    UnknownNameError
        If there is none; near matches are named.
    InputError
        If an option is given that the strategy does not have, or a budget or inputs below 1.
    """
    if name not in STRATEGIES:
        raise UnknownNameError.among("strategy", name, STRATEGIES)
    given = {"budget": budget, "inputs": inputs, "candidates": candidates}
    options = {option: value for option, value in given.items() if value is not None}
    for option, value in options.items():
        if OPTION_OF[option] != name:
            raise InputError(
                f"{option}={value!r} goes with the strategy {OPTION_OF[option]!r}, not {name!r}; "
                "leave it out"
            )
    return STRATEGIES[name](**options)
