"""The interface of search strategies."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.synthesis.candidates import Candidates

if TYPE_CHECKING:
    from contstim.synthesis.coordinate_search import Search


class Strategy:
    """Base class of search strategies.

    A subclass is a frozen dataclass with the options of the strategy as its fields. It implements
    either `search_word` or `run`.

    Attributes
    ----------
    starts_at_natural
        Whether the search starts from the natural sentence, which must then satisfy the
        constraints.
    supports_edits
        Whether the strategy can limit its changes to the natural sentence (`Edits`).
    is_pooled
        Whether the strategy samples one pool of sentences for all natural sentences.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from contstim import synthesize
    >>> from contstim.synthesis.candidates import propose_in_order
    >>> @dataclass(frozen=True)
    ... class BestOfHundred(Strategy):
    ...     def search_word(self, candidates):
    ...         sample = candidates.rng.permutation(candidates.promising())[:100]
    ...         feasible = candidates.filter_feasible(sample)
    ...         propose_in_order(candidates, feasible, candidates.losses(feasible))
    ...         return False
    >>> models = {"reject": "contstim:trigram", "accept": "contstim:bigram"}
    >>> result = synthesize("The dog slept.", **models, strategy=BestOfHundred())
    >>> round(result.loss, 1)
    -2.6
    """

    starts_at_natural: ClassVar[bool] = True
    supports_edits: ClassVar[bool] = True
    is_pooled: ClassVar[bool] = False

    def run(self, search: Search) -> bool:
        """Search for a sentence, by default by coordinate search with `search_word`.

        Equal strategies must search alike. A strategy that learns during a search therefore stores
        the learned state in an object that this method creates, not in itself.

        Returns
        -------
        bool
            False if limits of the strategy excluded candidates that might have improved the
            sentence.
        """
        search.optimize(self.search_word)
        return True

    @property
    def models(self) -> tuple[str, ...]:
        """Specs of the models that the strategy needs in addition to the models of the problem."""
        return ()

    @property
    def is_exhaustive(self) -> bool:
        """Whether no single replacement improves a result, whatever the models."""
        return False

    def search_word(self, candidates: Candidates) -> bool:
        """Search for a better word at one position, and propose it.

        Returns
        -------
        bool
            Whether the search ended early and should continue in a later round
            (`Candidates.round_number`).
        """
        raise NotImplementedError  # Strategies that override `run` need no word search.


@lru_cache(maxsize=2)
def load_cached_model(spec: str) -> SentenceModel:
    """Load a model of a strategy; the last two models remain loaded for the next sentence."""
    return load_model(spec)
