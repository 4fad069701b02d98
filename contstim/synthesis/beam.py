"""Beam search that writes whole sentences of low loss, word by word from left to right.

The beam search (Lowerre 1976) handles the constraints by Lagrangian relaxation (Fisher 1981). One
pass of the search extends prefixes from the first to the last word, and keeps the prefixes b with
the lowest Lagrangian

    sum_r w_r log p_r(b) - sum_m lambda_m log p_m(b).

The first sum is over the rejecting models r, under which a sentence should be improbable; w_r is
the weight of model r in the loss. The second sum is over the models m that have a minimum score;
lambda_m is the Lagrange multiplier of this constraint. After each pass, lambda_m increases if the
sentence with the lowest Lagrangian violates the constraint on m, and decreases otherwise. The first
passes have a narrow beam and only find values of lambda_m for the passes of full width.

The log-probability of a word of several tokens is estimated before the word is part of a prefix:
its first token is scored after this prefix, its other tokens after another prefix.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from contstim.settings import PositiveInt, settings, validate_choice
from contstim.synthesis.beam_search import BeamSearch
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edit import Edit
from contstim.synthesis.strategy import Strategy

# Maximum number of restarts, relative to the option, until a sentence satisfies the constraints.
_MAX_RESTART_FACTOR = 3
# Maximum number of sentences per pass that are scored again.
_MAX_VERIFIED = 4
# Ratio of the full to the narrow beam width.
_NARROWING = 4
# Changes of log lambda after each narrow pass, each pass of full width and each spare pass.
_NARROW_STEPS, _FULL_STEP, _SPARE_STEP = (0.8, 0.4, 0.2, 0.1), 0.1, 0.4


@settings
class Beam(Strategy):
    """Write whole sentences by beam search, from left to right.

    One pass of beam search extends prefixes (the first words of sentences) word by word up to
    complete sentences. There are several passes:

    1. Passes with a narrow beam determine the Lagrange multipliers of the constraints on scores.
    2. Passes of full width search for sentences with these multipliers. All passes but the last use
       a random part of the vocabulary, so that they find different sentences.
    3. The result is the best sentence of all passes that satisfies the constraints.

    The search needs the log-probability of prefixes under each model. A masked model that scores
    one token at a time (``metric=pll``) scores prefixes as if they were complete sentences. Models
    that cannot score prefixes in either way are rejected.

    Attributes
    ----------
    n_restarts
        Number of passes with a beam of full width per sentence.
    width
        Number of prefixes kept at each position. None: 96 if a model scores prefixes as complete
        sentences; 64 if only models without a minimum score are slow, that is, cannot score all
        next words at once; otherwise 256.
    diversity_cap
        Maximum number of kept prefixes with the same last word, and with the same first three
        words. None: a quarter of the width.
    vocabulary_fraction
        Fraction of the vocabulary that each pass but the last uses.
    refine
        ``yes`` or ``no``: whether single words of the result are replaced afterwards, as by
        ``edit``.
    """

    starts_at_natural: ClassVar[bool] = False
    supports_edits: ClassVar[bool] = False

    n_restarts: PositiveInt = 2
    width: PositiveInt | None = None
    diversity_cap: PositiveInt | None = None
    vocabulary_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    refine: Annotated[str, validate_choice(("no", "yes"))] = "no"

    def run(self, search: Search) -> bool:
        """Write sentences in several passes of beam search, and verify the best of each pass.

        A pass writes complete sentences from left to right. Each constraint on the score under a
        model has a Lagrange multiplier lambda. After a pass, log lambda increases by a step if the
        constraint was violated, and decreases by the step otherwise. If no sentence satisfies the
        constraints, further passes follow. With the option `refine`, single words of the result are
        then replaced.

        Parameters
        ----------
        search
            Search for one synthetic sentence. It verifies sentences and stores the best one.

        Returns
        -------
        bool
            Whether the search was complete.
        """
        beam = BeamSearch.from_search(search, self.width, self.diversity_cap)
        rng = search.spawn_rng()
        # Each pass is defined by a step of log lambda, a beam width (number of prefixes kept per
        # position) and a fraction of the vocabulary.
        narrow_width, fraction = max(1, beam.width // _NARROWING), self.vocabulary_fraction
        passes = [(step, narrow_width, fraction) for step in _NARROW_STEPS]
        passes += [(_FULL_STEP, beam.width, fraction)] * (self.n_restarts - 1)
        passes += [(_FULL_STEP, beam.width, 1.0)]
        n_spare_passes = (_MAX_RESTART_FACTOR - 1) * self.n_restarts
        spare_passes = [(_SPARE_STEP, beam.width, 1.0)] * n_spare_passes
        # Each constraint has a Lagrange multiplier lambda, which weights its violation. Spare
        # passes are run only if no sentence has satisfied the constraints so far.
        log_lambda, is_feasible = np.zeros(len(beam.min_scores)), False
        for number, (step, width, word_fraction) in enumerate(passes + spare_passes):
            if is_feasible and number >= len(passes):
                break
            restricted = beam.restrict_words(word_fraction, rng, search.sentence)
            sentences, _, slack = restricted.run_pass(width, log_lambda)
            is_feasible |= any(search.accept(sentence) for sentence in sentences[:_MAX_VERIFIED])
            # Relax satisfied constraints (slack >= 0), and enforce violated constraints more.
            log_lambda = log_lambda + np.where(slack >= 0.0, -step, step)
        if is_feasible and self.refine == "yes":
            return Edit().run(search)
        return True
