"""Strategy that replaces words of the natural sentence, one at a time.

At each position, either all candidate words are considered or constrained Bayesian optimisation
decides which candidates are worth scoring.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from contstim.settings import PositiveInt, settings
from contstim.synthesis.candidates import Candidates, propose_in_order, split_into_batches
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.strategy import Strategy
from contstim.synthesis.word_search import SearchState, WordSearch


@settings
class Edit(Strategy):
    """Replace words of the natural sentence, one at a time, until the loss stops decreasing.

    The positions of the sentence are searched in random order (coordinate search, Golan et al.
    2023). With ``candidates="all"``, or if all models score the whole vocabulary at once, each
    position gets its best word. Otherwise, constrained Bayesian optimisation searches each
    position:

    1. A regression for each model, its `Surrogate`, predicts the scores of unscored words.
    2. The candidate with the largest acquisition value is scored next. This value is the expected
       improvement of the loss times the probability that the candidate satisfies the constraints
       (Gardner et al. 2014, Eq. 6). The models score the candidate in the order of their costs, as
       long as it may still be an improvement.
    3. The search leaves the position when the expected improvement from the next score is less
       than the mean improvement per score so far (marginal value theorem, Charnov 1976), or less
       than an eighth of this mean if the position has no improvement yet. It also leaves the
       position after `first` scores.
    4. When no position yields an improvement, the positions left after `first` scores are searched
       again, each time with twice as many scores, up to `candidates`.

    Attributes
    ----------
    candidates
        Maximum number of exact scores per position by the most expensive model, or ``all``. Other
        models may compute more scores in proportion to their lower costs, up to 128 times as many.
    first
        Maximum number of scores in the first search of a position.
    inputs
        Maximum number of model inputs (sequences passed through a network) for the exact scores of
        one sentence. Default: 25,000, or the cost of scoring 48 sentences under all models if this
        is more. Ignored with ``candidates="all"``.

    Examples
    --------
    >>> from contstim import synthesize
    >>> result = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Edit(candidates=8),
    ... )
    >>> round(result.loss, 1)
    -10.8
    """

    candidates: PositiveInt | Literal["all"] = 64
    first: PositiveInt = 4
    inputs: PositiveInt | None = None

    @property
    def is_exhaustive(self) -> bool:
        """Whether all candidates are considered, so that a result is a local optimum."""
        return self.candidates == "all"

    def run(self, search: Search) -> bool:
        """Search all positions. Return False if the cost limit excluded any candidate."""
        state = SearchState()  # Its surrogates learn from the scores at all positions.
        search.optimize(partial(self.search_word, state=state), prefilter=True)
        return state.is_complete

    def search_word(self, candidates: Candidates, state: SearchState | None = None) -> bool:
        """Search for a better word at one position of a sentence, and propose it.

        Parameters
        ----------
        candidates
            Candidate words for the position, with the methods that score and propose them.
        state
            State that is shared with the searches at other positions of the sentence. Default: a
            new state.

        Returns
        -------
        bool
            Whether the search ended early because it reached its limit on the number of scores. The
            position is then searched again when no other position yields an improvement.
        """
        all_exact = all(scores.is_exact for scores in candidates.replacements.values())
        # Use Bayesian optimisation unless all exact scores are known, or all words must be tried.
        if self.candidates != "all" and not all_exact:
            state = SearchState() if state is None else state
            return WordSearch(
                candidates, state, budget=self.candidates, first=self.first, max_inputs=self.inputs
            ).run()

        # Otherwise, search exhaustively among the words that may improve the sentence.
        indices = candidates.find_promising()
        if candidates.has_exact_losses:
            # Check the constraints in the order of the losses, and propose the first feasible word.
            indices = indices[np.argsort(candidates.losses(indices), kind="stable")]
            for batch in split_into_batches(indices):
                if any(candidates.propose(int(i)) for i in candidates.filter_feasible(batch)):
                    break
        else:
            # Find all feasible candidates, then compute their losses.
            feasible = [candidates.filter_feasible(batch) for batch in split_into_batches(indices)]
            indices = np.concatenate([np.empty(0, dtype=np.int64), *feasible])
            losses = [candidates.losses(batch) for batch in split_into_batches(indices)]
            propose_in_order(candidates, indices, np.concatenate([np.empty(0), *losses]))
        return False  # The search did not end early.
