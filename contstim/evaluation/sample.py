"""The planned sample of a study, the table ``[sample]`` of an analysis plan."""

from __future__ import annotations

import pandas as pd

from contstim.settings import PositiveInt, settings
from contstim.trial_kinds import EXPERIMENTAL


@settings
class Sample:
    """Sample size that an analysis plan announces. None: the plan does not state the number.

    Attributes
    ----------
    participants
        Planned number of participants in all groups together.
    groups
        Planned number of groups of participants. Each group judges other sentence pairs.
    trials_each
        Planned number of experimental trials that each participant judges.
    """

    participants: PositiveInt | None = None
    groups: PositiveInt | None = None
    trials_each: PositiveInt | None = None

    def describe_deviations(self, choices: pd.DataFrame) -> list[str]:
        """Compare the numbers of participants, groups and trials in the data with the plan.

        Parameters
        ----------
        choices
            Table of choices before the exclusion of participants and trials.

        Returns
        -------
        list of str
            One sentence for each planned number that the data do not match.
        """
        sentences = []
        for name in ("participants", "groups"):
            # The columns `participant` and `group` have the names of these fields without s.
            planned, n_observed = getattr(self, name), choices[name[:-1]].nunique()
            if planned is not None and n_observed != planned:
                sentences.append(f"The data have {n_observed} {name}; the plan has {planned}.")
        if self.trials_each is None:
            return sentences
        # Count the experimental trials of each participant.
        trials = choices[choices["kind"] == EXPERIMENTAL].groupby("participant").size()
        # Some participants can have more trials than planned, and others fewer.
        planned = self.trials_each
        for comparison, is_other in (("more", trials > planned), ("fewer", trials < planned)):
            if is_other.any():
                sentences.append(
                    f"{is_other.sum()} of {len(trials)} participants judged {comparison} than "
                    f"{planned} pairs; the plan has {planned} each."
                )
        return sentences
