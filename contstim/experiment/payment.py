"""Who is to be paid, who gets a bonus, whose assignment is to be given again, with the reason."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from contstim.experiment.collected import Collected
from contstim.settings import settings


@settings
class Bonus:
    """A bonus for complete sessions with at least this share of catch trials right."""

    amount: Annotated[float, Field(gt=0)]
    min_catch_correct: Annotated[float, Field(ge=0, le=1)] = 0.0


def pay_table(collected: Collected, ids: pd.DataFrame, bonus: Bonus | None = None) -> pd.DataFrame:
    """Return for every session whether it is to be paid.

    Catch trials are no ground for not paying; whether somebody's data are analysed is another
    question (see `replacement_table`).

    Parameters
    ----------
    collected
        The data.
    ids
        From `recruiter_ids`.
    bonus
        Who gets more.

    Returns
    -------
    pandas.DataFrame
        Personal data: the columns of `ids`, ``session``, ``pay`` (``yes``; ``no``; ``review`` where
        a person must decide), ``bonus``, ``reason``.
    """
    rows = []
    for one in collected.sessions.to_dict("records"):
        pay, reason = _pay(one)
        more = 0.0
        if bonus is not None and pay == "yes":
            share = one["catch_right"] / one["catch_shown"] if one["catch_shown"] else 1.0
            if share >= bonus.min_catch_correct - 1e-9:
                more = bonus.amount
                reason += f"; {one['catch_right']} of {one['catch_shown']} catch trials right"
        rows.append(
            {
                "participant": one["participant"],
                "session": one["session"],
                "pay": pay,
                "bonus": more,
                "reason": reason,
            }
        )
    columns = ["participant", "session", "pay", "bonus", "reason"]
    return ids.merge(pd.DataFrame(rows, columns=columns), on="participant")


def _pay(session: Mapping[Hashable, Any]) -> tuple[str, str]:
    done = f"{session['n_answered']} of {session['n_trials']} trials answered"
    outcome = session["outcome"]
    if outcome == "complete":
        return "yes", done
    if outcome == "failed_checks":
        right = f"{session['checks_right']} of {session['checks_shown']} attention checks right"
        return "review", f"{done}, {right}"
    if outcome == "time_limit":
        return "review", f"{done} when the time was over"
    if session["n_answered"] == session["n_trials"]:
        return "review", f"{done}, but the page was left before the end"
    return "no", f"{done}, then left"


def replacement_table(collected: Collected, excluded: pd.DataFrame) -> pd.DataFrame:
    """Return which assignments another participant should take, and why.

    Parameters
    ----------
    collected
        The data.
    excluded
        Participants that the analysis leaves out altogether: ``participant``, ``rule``, ``detail``,
        as the evaluation's rules report them.

    Returns
    -------
    pandas.DataFrame
        ``participant, session, group, seat, released, reason``, for sessions that are excluded or
        not whole; ``released`` says why the assignment is free already, if it is.
    """
    reasons = {
        str(who): "; ".join(f"{row.rule}: {row.detail}" for row in own.itertuples())
        for who, own in excluded.groupby("participant", sort=False)
    }
    whole = set(collected.whole)
    rows = []
    for one in collected.sessions.to_dict("records"):
        reason = reasons.get(one["participant"])
        if reason is None and one["participant"] not in whole:
            reason = f"{one['outcome']}: {one['n_answered']} of {one['n_trials']} trials answered"
        if reason is not None:
            names = ("participant", "session", "group", "seat", "released")
            rows.append({**{name: one[name] for name in names}, "reason": reason})
    columns = ["participant", "session", "group", "seat", "released", "reason"]
    return pd.DataFrame(rows, columns=columns)
