"""The audit of a study: who follows a model suspiciously well, and what else stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from contstim.evaluation.following import following_table, influence_table, read_votes
from contstim.evaluation.patterns import PatternRules, pattern_table
from contstim.files import write_whole

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
        """Return one row a participant and reason: ``participant, reason, detail``."""
        rows = []
        for row in self.following[self.following["q"] < self.alpha].to_dict("records"):
            detail = (
                f"{row['agreement']:.0%} of {row['n_trials']} choices as {row['model']} prefers, "
                f"{row['expected']:.0%} expected; z {row['z']:.1f}, q {row['q']:.2g}"
            )
            rows.append((row["participant"], f"follows {row['model']}", detail))
        for row in self.patterns[self.patterns["flags"] != ""].to_dict("records"):
            details = {
                "impossible times": f"{row['fast']:.0%} of answers too fast, median "
                f"{row['median_rt_ms']:.0f} ms",
                "even times": f"standard deviation of log times {row['log_sd']:.2f}",
                "focus": f"out of focus in {row['unfocused']:.0%} of trials, hidden for "
                f"{row['hidden_s']:.0f} s",
                "straight-lining": f"{row['same']:.0%} the same button, longest run "
                f"{row['longest_run']}, p {row['run_p']:.2g}",
            }
            rows += [(row["participant"], rule, details[rule]) for rule in row["flags"].split(";")]
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
        for row in self.influence.to_dict("records"):
            lines.append(
                f"| {row['model']} | {row['accuracy']:.3f}, {row['rank']} | {row['k']} of "
                f"{row['n']} | {row['accuracy_with']:.3f}, {row['rank_with']:.1f} "
                f"| {row['first']:.0%} |"
            )
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
            write_whole(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))


def audit(
    choices: pd.DataFrame,
    scores: pd.DataFrame,
    numbers: Sequence[int] = (1, 2, 5, 10),
    *,
    alpha: float = 0.05,
    rules: PatternRules | None = None,
    seed: int = 0,
) -> Audit:
    """Audit the choices of a study.

    Parameters
    ----------
    choices
        As `read_collected` gives them.
    scores
        Log-probabilities in nats, shape (S, M): a row a sentence, a column a model.
    numbers
        Numbers of participants whose influence is simulated; those above N are left out.
    alpha
        False discovery rate of flags for following a model.
    rules
        When patterns are flagged; by default as `PatternRules` says.
    seed
        Of random orders and draws.

    Raises
    ------
    InputError
        If a column or the score of a sentence is missing.
    """
    rules = PatternRules() if rules is None else rules
    votes = read_votes(choices, scores)
    models = [str(model) for model in scores.columns]
    n = sum(len(group.participants) for group in votes)
    possible = [k for k in numbers if k <= n]
    return Audit(
        following_table(votes, models),
        pattern_table(choices, rules, seed),
        influence_table(votes, models, possible, seed=seed),
        alpha,
        rules,
    )
