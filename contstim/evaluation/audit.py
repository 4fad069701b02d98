"""The audit of a study: who follows a model suspiciously well, and what else stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.display import displayed
from contstim.evaluation.following import following_table, influence_table, read_votes
from contstim.files import write_whole
from contstim.tables import neutral_table, require_columns, table_text

_LEAST_TRIALS = 10
# Random orders of a participant's answers, to which their runs are compared.
_ORDERS = 1999
_PATTERNS = (
    *("participant", "n_trials", "fast", "log_sd", "median_rt_ms", "unfocused"),
    *("hidden_s", "same", "longest_run", "run_p"),
)
#: What is said of a participant who breaks a rule, from a row of the table of patterns.
_BROKEN = {
    "impossible times": "{fast:.0%} of answers too fast, median {median_rt_ms:.0f} ms",
    "even times": "standard deviation of log times {log_sd:.2f}",
    "focus": "out of focus in {unfocused:.0%} of trials, hidden for {hidden_s:.0f} s",
    "straight-lining": "{same:.0%} the same button, longest run {longest_run}, p {run_p:.2g}",
}


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
        A row per trial and participant: ``participant, trial, rt_ms, choice, focus_losses,
        hidden_ms``, as `read_collected` gives them.
    rules
        The limits.
    seed
        Of the random orders to which runs are compared.

    Returns
    -------
    pandas.DataFrame
        One row per participant: ``n_trials, fast, log_sd, median_rt_ms, unfocused, hidden_s, same,
        longest_run, run_p`` and ``flags``: names of rules broken, separated by ``;``. Participants
        with fewer than ten trials have no flags.
    """
    names = ("participant", "trial", "rt_ms", "choice", "focus_losses", "hidden_ms")
    require_columns(choices, names, "the table of choices")
    rng = np.random.default_rng(seed)
    rows = []
    for name, answers in choices.sort_values("trial").groupby("participant", sort=False):
        given = answers["choice"].to_numpy(dtype=np.int64)
        times = answers["rt_ms"].to_numpy(dtype=np.float64)
        away = (answers["focus_losses"] > 0) | (answers["hidden_ms"] > 0)
        longest = int(_longest_run(given[None])[0])
        orders = rng.permuted(np.broadcast_to(given, (_ORDERS, len(given))), axis=1)
        rows.append(
            {
                "participant": name,
                "n_trials": len(answers),
                "fast": float((times < rules.fast_ms).mean()),
                "log_sd": float(np.log(np.maximum(times, 1)).std()),
                "median_rt_ms": float(np.median(times)),
                "unfocused": float(away.mean()),
                "hidden_s": float(answers["hidden_ms"].sum() / 1000),
                "same": float(np.unique(given, return_counts=True)[1].max() / len(given)),
                "longest_run": longest,
                # The order at hand is one of the random ones.
                "run_p": float((1 + (_longest_run(orders) >= longest).sum()) / (_ORDERS + 1)),
            }
        )
    table = pd.DataFrame(rows, columns=list(_PATTERNS))
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


def _holm(p: pd.Series) -> pd.Series:
    order = p.sort_values()
    adjusted = (order * np.arange(len(order), 0, -1)).cummax().clip(upper=1.0)
    return adjusted.reindex(p.index)


_METHOD = """\
A flag is a reason to look, not a verdict.

Following a model: the score test that a participant's choices lean towards a model beyond the log
odds of the choices of the others in the group, with a slope of the participant's own; compared with
all participants (median and median absolute deviation, by model); one-sided; q-values by Benjamini
and Hochberg over all participants and models; flagged from q < {alpha:g}. Who answers with a model
that is not among those audited is found only as far as the two agree.

Patterns: answers under {rules.fast_ms:g} ms in {rules.fast_share:.0%} of the trials or more; \
response times more even than
people's (standard deviation of their logarithms under {rules.even_log_sd:g}); the page out of \
focus in {rules.focus_share:.0%} of the
trials or more; one button in {rules.same_share:.0%} of the answers or more, or a run of equal \
answers that random orders
of the same answers have with a probability of at most {rules.run_p:g} (Holm over participants).
"""


@displayed
@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    following
        See `following_table`.
    patterns
        See `pattern_table`.
    influence
        See `influence_table`.
    alpha
        The false discovery rate from which following counts.
    rules
        The limits of the patterns.
    """

    following: pd.DataFrame
    patterns: pd.DataFrame
    influence: pd.DataFrame
    alpha: float
    rules: PatternRules

    @property
    def flags(self) -> pd.DataFrame:
        """Return one row per participant and reason: ``participant, reason, detail``."""
        rows = []
        for row in self.following[self.following["q"] < self.alpha].to_dict("records"):
            detail = (
                f"{row['agreement']:.0%} of {row['n_trials']} choices as {row['model']} prefers, "
                f"{row['expected']:.0%} expected; z {row['z']:.1f}, q {row['q']:.2g}"
            )
            rows.append((row["participant"], f"follows {row['model']}", detail))
        for row in self.patterns[self.patterns["flags"] != ""].to_dict("records"):
            for rule in row["flags"].split(";"):
                rows.append((row["participant"], rule, _BROKEN[rule].format_map(row)))
        return pd.DataFrame(rows, columns=["participant", "reason", "detail"])

    def report(self) -> str:
        """Return the report as Markdown."""
        flags = self.flags
        n = len(self.patterns)
        lines = [
            "# Audit",
            "",
            f"{flags['participant'].nunique()} of {n} participants have a flag.",
            "",
            _METHOD.format(alpha=self.alpha, rules=self.rules),
            "## Flags",
            "",
            *(f"- {row.participant}: {row.reason} ({row.detail})" for row in flags.itertuples()),
            *([] if len(flags) else ["None."]),
            "",
            "## What k participants who let a model answer would change",
            "",
            "| model | accuracy, rank | k | accuracy, rank with them | first in |",
            "| --- | --- | ---: | --- | ---: |",
        ]
        cells = (
            "| {model} | {accuracy:.3f}, {rank} | {k} of {n} | {accuracy_with:.3f}, "
            "{rank_with:.1f} | {first:.0%} |"
        )
        lines += [cells.format_map(row) for row in self.influence.to_dict("records")]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``audit.md`` and the tables ``flags, following, patterns, influence`` (CSV).

        Raises
        ------
        OutputError
            If the place cannot be written to.
        """
        write_whole(folder / "audit.md", self.report())
        for name in ("flags", "following", "patterns", "influence"):
            table: pd.DataFrame = getattr(self, name)
            write_whole(folder / f"{name}.csv", table_text(neutral_table(table)))


def audit(
    choices: pd.DataFrame,
    scores: pd.DataFrame,
    numbers: Sequence[int] = (1, 2, 5, 10),
    *,
    alpha: float = 0.05,
    rules: PatternRules = PatternRules(),
    seed: int = 0,
) -> Audit:
    """Audit the choices of a study.

    Parameters
    ----------
    choices
        As `read_collected` gives them.
    scores
        Log-probabilities in nats, shape (S, M): a row per sentence, a column per model.
    numbers
        Numbers of participants whose influence is simulated; those above N are left out.
    alpha
        False discovery rate of flags for following a model.
    rules
        When patterns are flagged.
    seed
        Of random orders and draws.

    Raises
    ------
    InputError
        If a column or the score of a sentence is missing.
    """
    votes = read_votes(choices, scores)
    models = [str(model) for model in scores.columns]
    n = sum(len(group.participants) for group in votes)
    possible = [k for k in numbers if k <= n]
    following, patterns = following_table(votes, models), pattern_table(choices, rules, seed)
    influence = influence_table(votes, models, possible, seed=seed)
    return Audit(following, patterns, influence, alpha, rules)
