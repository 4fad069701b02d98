"""Designs and random cells for the tests of inference."""

import numpy as np

from contstim.evaluation.inference.quasi_f import CrossedDesign


def crossed(n: int, k: int) -> CrossedDesign:
    return CrossedDesign(np.repeat(np.arange(n), k), np.tile(np.arange(k), n))


def draw_cells(
    design: CrossedDesign, rng: np.random.Generator, person: float, pair: float
) -> np.ndarray:
    people = person * rng.normal(size=design.participant.max() + 1)
    pairs = pair * rng.normal(size=design.item.max() + 1)
    return (
        people[design.participant] + pairs[design.item] + rng.normal(size=len(design.participant))
    )
