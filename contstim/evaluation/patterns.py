"""Patterns in one participant's answers that people seldom show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.tables import require_columns

_LEAST_TRIALS = 10


@dataclass(frozen=True)
class PatternRules:
    """When a participant is flagged.

    Attributes
    ----------
    fast_ms, fast_share
        At least this share of the trials was answered faster than two sentences can be read.
    even_log_sd
        The standard deviation of log response times is below this: a person's is about 0.5.
    focus_share
        In at least this share of the trials the page lost the focus or was hidden.
    same_share
        At least this share of the answers was the same button.
    run_p
        A run of equal answers this long or longer has at most this probability if the
        participant's own answers came in random order, after Holm's correction for the number of
        participants.
    """

    fast_ms: float = 600.0
    fast_share: float = 0.1
    even_log_sd: float = 0.12
    focus_share: float = 0.25
    same_share: float = 0.8
    run_p: float = 0.01


def pattern_table(
    choices: pd.DataFrame, rules: PatternRules = PatternRules(), seed: int = 0
) -> pd.DataFrame:
    """Describe every participant's answers and say which rules they break.

    Parameters
    ----------
    choices
        A row a trial and participant: ``participant, trial, rt_ms, choice, focus_losses,
        hidden_ms``, as `read_collected` gives them.
    rules
        The limits.
    seed
        Of the random orders to which runs are compared.

    Returns
    -------
    pandas.DataFrame
        One row a participant: ``n_trials, fast, log_sd, median_rt_ms, unfocused, hidden_s, same,
        longest_run, run_p`` and ``flags``: names of rules broken, separated by ``;``. Participants
        with fewer than ten trials have no flags.
    """
    names = ("participant", "trial", "rt_ms", "choice", "focus_losses", "hidden_ms")
    require_columns(choices, names, "the table of choices")
    rng = np.random.default_rng(seed)
    rows = []
    for name, own in choices.sort_values("trial").groupby("participant", sort=False):
        given = own["choice"].to_numpy(dtype=np.int64)
        times = own["rt_ms"].to_numpy(dtype=np.float64)
        away = (own["focus_losses"] > 0) | (own["hidden_ms"] > 0)
        longest = _longest_run(given[None])[0]
        rows.append(
            {
                "participant": name,
                "n_trials": len(own),
                "fast": float((times < rules.fast_ms).mean()),
                "log_sd": float(np.log(np.maximum(times, 1)).std()),
                "median_rt_ms": float(np.median(times)),
                "unfocused": float(away.mean()),
                "hidden_s": float(own["hidden_ms"].sum() / 1000),
                "same": float(np.unique(given, return_counts=True)[1].max() / len(given)),
                "longest_run": int(longest),
                "run_p": _run_p(given, int(longest), rng),
            }
        )
    columns = ["participant", "n_trials", "fast", "log_sd", "median_rt_ms", "unfocused"]
    columns += ["hidden_s", "same", "longest_run", "run_p"]
    table = pd.DataFrame(rows, columns=columns)
    enough = table["n_trials"] >= _LEAST_TRIALS
    broken = {
        "impossible times": table["fast"] >= rules.fast_share,
        "even times": table["log_sd"] < rules.even_log_sd,
        "focus": table["unfocused"] >= rules.focus_share,
        "straight-lining": (table["same"] >= rules.same_share)
        | (_holm(table["run_p"]) <= rules.run_p),
    }
    table["flags"] = [
        ";".join(rule for rule, bad in broken.items() if bad[i] and enough[i])
        for i in range(len(table))
    ]
    return table


def _longest_run(orders: IntArray) -> IntArray:
    """Return the longest run of equal values in each row."""
    longest = np.ones(len(orders), dtype=np.int64)
    run = np.ones(len(orders), dtype=np.int64)
    for t in range(1, orders.shape[1]):
        run = np.where(orders[:, t] == orders[:, t - 1], run + 1, 1)
        longest = np.maximum(longest, run)
    return longest


def _run_p(given: IntArray, longest: int, rng: np.random.Generator, n: int = 1999) -> float:
    """Return the share of random orders with a run as long (the order itself counted)."""
    orders = rng.permuted(np.broadcast_to(given, (n, len(given))), axis=1)
    return float((1 + (_longest_run(orders) >= longest).sum()) / (n + 1))


def _holm(p: pd.Series) -> pd.Series:
    order = p.sort_values()
    adjusted = (order * np.arange(len(order), 0, -1)).cummax().clip(upper=1.0)
    return adjusted.reindex(p.index)
