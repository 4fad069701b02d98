"""Rules by which participants and trials are left out, and the table that says which were."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.errors import InputError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.rows import ExclusionLog, concat_exclusions
from contstim.models.base import SentenceModel
from contstim.settings import Several, settings
from contstim.text_files import read_list
from contstim.trial_kinds import CATCH

_Least = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@settings
class ExclusionRules:
    """Which participants and trials are left out; by default none.

    Attributes
    ----------
    min_catch_correct
        Least share of catch trials right (trials of kind ``catch`` with an `expected`
        sentence), for example 11 / 12.
    min_rt_ms, max_rt_ms
        A trial answered faster or slower than this is left out.
    min_median_rt_ms
        A participant whose median response time is shorter is left out.
    min_trials
        A participant with fewer trials, after the rules on trials, is left out.
    participants
        Participants who are left out, by name.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.evaluation import check_choices
    >>> rules = ExclusionRules(min_catch_correct=0.9)
    >>> choices, left_out = exclude(check_choices(datasets.simulated_choices()), rules)
    >>> choices["participant"].nunique(), left_out["participant"].nunique()
    (27, 3)
    """

    min_catch_correct: _Least | None = None
    min_rt_ms: _Least | None = None
    max_rt_ms: _Least | None = None
    min_median_rt_ms: _Least | None = None
    min_trials: _Least | None = None
    participants: Several[str] = ()

    @property
    def words(self) -> str:
        """What is left out, in whole sentences."""
        sentences = [
            text.format(limit)
            for limit, text in (
                (self.min_rt_ms, "Trials answered in less than {:g} ms are left out."),
                (self.max_rt_ms, "Trials answered in more than {:g} ms are left out."),
                (
                    self.min_catch_correct,
                    "Participants with less than {:.3g} of their catch trials right, or without "
                    "one answered, are left out.",
                ),
                (
                    self.min_median_rt_ms,
                    "Participants whose median response time is below {:g} ms are left out.",
                ),
                (
                    self.min_trials,
                    "Participants with fewer than {:g} trials, after the rules on trials, are left "
                    "out.",
                ),
            )
            if limit is not None
        ]
        if self.participants:
            sentences.append(f"Left out by name: {', '.join(self.participants)}.")
        return " ".join(sentences) or "No rule leaves out participants or trials."


#: Rules as they are written, name and comparison, and the field of `ExclusionRules`.
_RULES = {
    "catch<": "min_catch_correct",
    "rt<": "min_rt_ms",
    "rt>": "max_rt_ms",
    "median-rt<": "min_median_rt_ms",
    "trials<": "min_trials",
}


def parse_rules(texts: Iterable[str]) -> dict[str, Any]:
    """Return rules written as ``catch<0.75`` or ``participants=FILE``, as fields of the rules.

    Raises
    ------
    InputError
        If a text is no rule.
    """
    rules: dict[str, Any] = {}
    for text in texts:
        if text.startswith("participants="):
            rules["participants"] = read_list(text.removeprefix("participants="), "participant")
            continue
        match = re.fullmatch(r"([a-z-]+[<>])(\d+(?:\.\d+)?)(?:ms)?", text.replace(" ", ""))
        if match is None or match[1] not in _RULES:
            raise InputError(
                f"--exclude {text!r} is no rule; write catch<0.75, rt<200, rt>10000, "
                "median-rt<400, trials<20 or participants=FILE"
            )
        rules[_RULES[match[1]]] = float(match[2])
    return rules


def catch_accuracy(choices: pd.DataFrame) -> pd.Series:
    """Return each participant's share of catch trials right; empty if there are none.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.evaluation import check_choices
    >>> catch_accuracy(check_choices(datasets.simulated_choices())).head(3)
    participant
    1    1.0
    2    1.0
    3    1.0
    dtype: float64
    """
    if "expected" not in choices:
        return pd.Series(dtype="float64")
    rows = choices[(choices["kind"] == CATCH) & choices["expected"].notna()]
    right = (rows["rating"] > 0) == (rows["expected"] == 2)
    score = right.astype(float).where(rows["rating"] != 0, 0.5)
    return score.groupby(rows["participant"], sort=False).mean()


def check_rules(choices: pd.DataFrame, rules: ExclusionRules) -> None:
    """Refuse rules that cannot be used, before anything is scored.

    Raises
    ------
    InputError
        If a rule needs data that the table lacks (response times, catch trials, a participant).
    """
    timed = (rules.min_rt_ms, rules.max_rt_ms, rules.min_median_rt_ms)
    if any(limit is not None for limit in timed) and choices["rt_ms"].isna().all():
        raise InputError("a rule on response times needs the column rt_ms, which is empty")
    if lacking := set(rules.participants) - set(choices["participant"]):
        raise InputError(
            f"there is no participant {min(lacking)!r} to leave out; name them as the choices do"
        )
    if rules.min_catch_correct is not None and catch_accuracy(choices).empty:
        raise InputError(_no_catch(choices))


def exclude(
    choices: pd.DataFrame, rules: ExclusionRules, allow_none: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Apply `rules` and return the choices kept and the table of what was left out.

    The table has one row per rule and participant: `rule`, `participant`, `n_rows`, `detail`.

    Raises
    ------
    InputError
        If a rule needs data that the table lacks (response times, catch trials), or nobody is
        left and `allow_none` is False.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.evaluation import check_choices
    >>> from contstim.evaluation import ExclusionRules
    >>> rules = ExclusionRules(min_catch_correct=0.9)
    >>> choices, left_out = exclude(check_choices(datasets.simulated_choices()), rules)
    >>> choices["participant"].nunique(), left_out["participant"].nunique()
    (27, 3)
    """
    check_rules(choices, rules)
    log = ExclusionLog(choices)
    listed = choices["participant"].isin(rules.participants)
    log.exclude(listed, "listed", "named to be left out")
    if rules.min_catch_correct is not None:
        share = catch_accuracy(choices)
        for participant, right in share[share < rules.min_catch_correct].items():
            bad = log.remaining["participant"] == participant
            log.exclude(bad, "catch trials", f"{right:.3f} of catch trials right")
        tested = log.remaining["participant"].isin(share.index)
        log.exclude(~tested, "catch trials", "no catch trial answered")
    if rules.min_rt_ms is not None:
        bad = log.remaining["rt_ms"] < rules.min_rt_ms
        log.exclude(bad, "too fast", f"below {rules.min_rt_ms:g} ms")
    if rules.max_rt_ms is not None:
        bad = log.remaining["rt_ms"] > rules.max_rt_ms
        log.exclude(bad, "too slow", f"above {rules.max_rt_ms:g} ms")
    if rules.min_median_rt_ms is not None:
        median = log.remaining.groupby("participant")["rt_ms"].transform("median")
        detail = f"median response time below {rules.min_median_rt_ms:g} ms"
        log.exclude(median < rules.min_median_rt_ms, "median time", detail)
    if rules.min_trials is not None:
        size = log.remaining.groupby("participant")["rating"].transform("size")
        detail = f"fewer than {rules.min_trials:g} trials"
        log.exclude(size < rules.min_trials, "few trials", detail)
    if log.remaining.empty and not allow_none:
        raise InputError("the exclusion rules leave no choices; loosen them")
    return log.remaining, log.table


def _no_catch(choices: pd.DataFrame) -> str:
    """Say why no catch trial can be judged, and what to do."""
    if "expected" in choices and choices["expected"].notna().any():
        return (
            "the rule on catch trials needs trials of kind 'catch', and all trials with an "
            "expected sentence are of another kind; say which are catch trials in a column 'kind'"
        )
    return (
        "the rule on catch trials needs trials of kind 'catch' with an expected sentence, and "
        "there are none; give the number of the expected sentence, 1 or 2, in a column 'expected'"
    )


def exclude_unknown_words(human: HumanData, models: Iterable[SentenceModel]) -> HumanData:
    """Leave out the trials in which a model does not know a word, so that all models share trials.

    Catch trials stay, by which people are excluded whatever the models: `find_unscored_catch` says
    which of them have no scores.

    Parameters
    ----------
    human
        People's choices.
    models
        The models that refuse unknown words.

    Returns
    -------
    HumanData
        The choices that every model can score, and catch trials. The table of exclusions gains a
        row per model and participant, and the notes a sentence for each model that costs trials.

    Raises
    ------
    InputError
        If no trial is left.
    """
    log, notes = ExclusionLog(human.choices), list(human.notes)
    for model in models:
        sentences = log.remaining[["sentence_1", "sentence_2"]]
        split = model.language.split
        refused = {s for s in np.unique(sentences) if not model.in_vocabulary(split(str(s))).all()}
        catch = log.remaining["kind"] == CATCH
        spared = catch & (not catch.all())
        bad = sentences.isin(refused).any(axis=1) & ~spared
        if not bad.any():
            continue
        detail = f"a word unknown to {model.name}"
        log.exclude(bad, "unknown word", detail)
        notes.append(
            f"{int(bad.sum())} choices were left out for {detail}; with unknown=unk in the spec "
            "its unknown-word class would stand in."
        )
        if (bad | spared).all():
            raise InputError(
                f"no trial is left without {detail}; ask for unknown=unk in the spec, or use a "
                "model that knows the words"
            )
    excluded = concat_exclusions(human.excluded, log.table)
    return replace(human, choices=log.remaining, excluded=excluded, notes=tuple(notes))
