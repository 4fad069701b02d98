"""Base class of the algorithms that search for a synthetic sentence."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.synthesis.candidates import Candidates

if TYPE_CHECKING:
    from contstim.synthesis.coordinate_search import Search


class Strategy:
    """Base class of strategies, the algorithms that search for a synthetic sentence.

    A subclass is a frozen dataclass. Its fields are the options of the strategy. It implements
    either `search_word`, which improves the word at one position, or `run`, which controls the
    whole search.

    Attributes
    ----------
    starts_at_natural
        Whether the search modifies the natural sentence. The natural sentence must then satisfy all
        constraints.
    supports_edits
        Whether the strategy can limit its changes to the natural sentence (`Edits`).
    is_pooled
        Whether the strategy samples one pool of sentences and assigns them to the natural sentences
        afterwards, instead of searching separately for each natural sentence.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from contstim import synthesize
    >>> from contstim.synthesis.candidates import propose_in_order
    >>> @dataclass(frozen=True)
    ... class BestOfHundred(Strategy):
    ...     def search_word(self, candidates):
    ...         sample = candidates.rng.permutation(candidates.find_promising())[:100]
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
        """Search for a synthetic sentence, and update the search with each improvement.

        By default, `search_word` is called for the positions of the sentence in random order
        (coordinate search). A strategy must not store state between searches, because equal
        strategies must give equal results. State that is learned during a search belongs to an
        object that this method creates.

        Parameters
        ----------
        search
            Search for one synthetic sentence, which stores the best sentence so far.

        Returns
        -------
        bool
            Whether the search was complete. False if the strategy skipped candidates, for example
            because of their cost.
        """
        search.optimize(self.search_word)
        return True

    @property
    def models(self) -> tuple[str, ...]:
        """Specification strings of models that the strategy loads, such as a writer."""
        return ()

    @property
    def is_exhaustive(self) -> bool:
        """Whether a result is a local optimum: replacing any single word would not improve it."""
        return False

    def search_word(self, candidates: Candidates) -> bool:
        """Search for a better word at one position, and propose it with `Candidates.propose`.

        Parameters
        ----------
        candidates
            Candidate words for the position, with the methods that score and propose them.

        Returns
        -------
        bool
            True if the search skipped some candidate words, for example to save time. When no
            other position yields an improvement, this method is then called again for the position,
            with a higher `Candidates.round_number`. False if the search was complete.
        """
        raise NotImplementedError  # Strategies that override `run` need no word search.


@lru_cache(maxsize=2)
def load_cached_model(spec: str) -> SentenceModel:
    """Load the model with the specification string `spec`, and cache the last two models."""
    return load_model(spec)
