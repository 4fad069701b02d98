"""The planned sample, the table ``[sample]`` of an analysis plan."""

from __future__ import annotations

import pandas as pd

from contstim.settings import Count, settings
from contstim.trial_kinds import EXPERIMENTAL


@settings
class Sample:
    """``[sample]``: the number of participants and trials of a study with fixed trials.

    Attributes
    ----------
    participants
        Number of participants, in all groups together.
    groups
        Number of groups, each with pairs of its own.
    trials_each
        Number of experimental pairs that each participant judges.
    """

    participants: Count | None = None
    groups: Count | None = None
    trials_each: Count | None = None

    def describe_deviations(self, choices: pd.DataFrame) -> list[str]:
        """Return where choices depart from the plan, a sentence each."""
        sentences = []
        judged = choices[choices["kind"] == EXPERIMENTAL].groupby("participant").size()
        counts = {
            "participants": (self.participants, choices["participant"].nunique()),
            "groups": (self.groups, choices["group"].nunique()),
        }
        for what, (planned, there) in counts.items():
            if planned is not None and there != planned:
                sentences.append(f"The data have {there} {what}; the plan has {planned}.")
        if (each := self.trials_each) is not None:
            for how, other in (("more", judged > each), ("fewer", judged < each)):
                if n := int(other.sum()):
                    sentences.append(
                        f"{n} of {len(judged)} participants judged {how} than {each} pairs; the "
                        f"plan has {each} each."
                    )
        return sentences
