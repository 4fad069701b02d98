"""How many people a fixed study asks, how much, and for what pay: ``[sample]`` of a plan."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
from pydantic import Field

from contstim.settings import Count, settings
from contstim.trial_kinds import EXPERIMENTAL

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@settings
class Sample:
    """``[sample]``: how many people a study asks, and what that takes.

    Attributes
    ----------
    participants
        In all groups together.
    groups
        Groups of participants, each with pairs of its own.
    trials_each
        Pairs that each participant judges, catch trials and fillers not counted.
    per_item
        Of these, how many are of one item.
    seconds, minutes
        That a trial takes, and a session; by default as many trials as there are.
    pay, currency, fee
        Pay an hour, in what, and what the recruiter takes besides, as a share of it.

    Examples
    --------
    >>> Sample(participants=60, pay=9.0, currency="GBP").costs(60, trials=45).split(", ")[0]
    'A session takes about 6 minutes'
    """

    participants: Count | None = None
    groups: Count | None = None
    trials_each: Count | None = None
    per_item: Count = 1
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 8.0
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    pay: _Amount | None = None
    currency: str = ""
    fee: _Amount = 0.0

    def costs(self, participants: int, trials: int) -> str:
        """Say what so many people take, each answering so many trials: time and money."""
        minutes = trials * self.seconds / 60 if self.minutes is None else self.minutes
        made = f", {trials} trials of {self.seconds:g} seconds" if self.minutes is None else ""
        text = (
            f"A session takes about {minutes:.3g} minutes{made}, and all {participants} together "
            f"{participants * minutes / 60:.3g} hours."
        )
        if self.pay is None:
            return text
        each, unit = self.pay * minutes / 60, f" {self.currency}".rstrip()
        text += (
            f" At {self.pay:.2f}{unit} an hour a participant is paid {each:.2f}{unit}, and all "
            f"together {each * participants:.2f}{unit}"
        )
        if self.fee:
            with_fee = each * participants * (1 + self.fee)
            text += f"; with the recruiter's fee of {self.fee:.3g} of that, {with_fee:.2f}{unit}"
        return f"{text}."

    def departures(self, choices: pd.DataFrame) -> list[str]:
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
