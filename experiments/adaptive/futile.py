"""How often a study that would be decided is called futile, and how early one that would not.

    python experiments/adaptive/futile.py --studies 300

In each study 100 participants, the budget, answer 20 trials on which the first model is right and
the others wrong, or the other way round, each trial for itself: the true difference is twice the
share of the first model's trials, less 1. Where there is a third model, it is the second again for
half of the trials and right or wrong at random on the others. A study goes on to the end whatever
its verdict, so that one can see what became of those that were called futile.
"""

from __future__ import annotations

import argparse

import numpy as np

from contstim.adaptive.stopping import Stopping
from contstim.adaptive.verdicts import verdicts

PARTICIPANTS, TRIALS = 100, 20
#: True difference, whether `Stopping.constant`, number of models.
CONDITIONS = (
    (0.16, True, 2),
    (0.25, False, 2),
    (0.16, False, 2),
    (0.16, True, 3),
    (0.0, True, 2),
)


def kinds_of(difference: float, constant: bool, models: int, seed: int) -> list[str]:
    """Simulate a study and return the kinds of its verdicts, participant by participant."""
    rng = np.random.default_rng([seed, models])
    person = np.repeat(np.arange(PARTICIPANTS), TRIALS)
    first = rng.random(len(person)) < (1 + difference) / 2
    third = np.where(rng.random(len(person)) < 0.5, ~first, rng.random(len(person)) < 0.5)
    scores = np.stack([first, ~first, third], axis=1)[:, :models].astype(float)
    stopping = Stopping(constant=constant, participants=PARTICIPANTS)
    return [v.kind for v in verdicts(person, scores, ["a", "b", "c"][:models], stopping)]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=300)
    args = parser.parse_args()
    for difference, constant, models in CONDITIONS:
        studies = [kinds_of(difference, constant, models, k) for k in range(args.studies)]
        best = sum("best" in kinds for kinds in studies)
        early = [kinds for kinds in studies if "futile" in kinds[:-1]]
        wrong = sum("best" in kinds[kinds.index("futile") :] for kinds in early)
        at = sorted(kinds.index("futile") + 1 for kinds in early)
        when = f"from participant {at[0]}, median {at[len(at) // 2]}" if at else "never"
        print(
            f"difference {difference:g}, constant {constant}, {models} models: best in {best} of "
            f"{args.studies}; futile before the budget's end in {len(early)} ({when}), {wrong} of "
            "them best later",
            flush=True,
        )


if __name__ == "__main__":
    main()
