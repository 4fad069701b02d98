"""Exclusion of participants and trials."""

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
from contstim.settings import TupleFromList, settings
from contstim.text_files import read_list
from contstim.trial_kinds import CATCH

_NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@settings
class ExclusionRules:
    """Rules that exclude participants and trials; none by default.

    Attributes
    ----------
    min_catch_correct
        Minimum proportion of catch trials with the expected answer, for example 11 / 12.
    min_rt_ms, max_rt_ms
        Minimum and maximum response time of a trial in milliseconds.
    min_median_rt_ms
        Minimum median response time of a participant in milliseconds.
    min_trials
        Minimum number of trials of a participant, after exclusion of trials.
    participants
        Names of excluded participants.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.evaluation import check_choices
    >>> rules = ExclusionRules(min_catch_correct=0.9)
    >>> choices, excluded = exclude(check_choices(datasets.simulated_choices()), rules)
    >>> choices["participant"].nunique(), excluded["participant"].nunique()
    (27, 3)
    """

    min_catch_correct: _NonNegative | None = None
    min_rt_ms: _NonNegative | None = None
    max_rt_ms: _NonNegative | None = None
    min_median_rt_ms: _NonNegative | None = None
    min_trials: _NonNegative | None = None
    participants: TupleFromList[str] = ()

    @property
    def description(self) -> str:
        """Description of the rules for a methods section, one sentence per rule."""
        limits_and_texts = [
            # Limit of each rule (None if the rule is not used), and the sentence that describes it.
            (self.min_rt_ms, "Trials answered in less than {:g} ms are excluded."),
            (self.max_rt_ms, "Trials answered in more than {:g} ms are excluded."),
            (
                self.min_catch_correct,
                "Participants with less than {:.3g} of their catch trials correct, or with no "
                "catch trial answered, are excluded.",
            ),
            (
                self.min_median_rt_ms,
                "Participants whose median response time is below {:g} ms are excluded.",
            ),
            (
                self.min_trials,
                "Participants with fewer than {:g} trials, after exclusion of trials, are "
                "excluded.",
            ),
        ]
        # Rules without a limit are not used, and are left out.
        texts = [text.format(limit) for limit, text in limits_and_texts if limit is not None]
        if self.participants:
            texts.append(f"Excluded by name: {', '.join(self.participants)}.")
        return " ".join(texts) or "No rule excludes participants or trials."


# Fields of `ExclusionRules` by the name and comparison in `--exclude`.
_FIELDS = {
    "catch<": "min_catch_correct",
    "rt<": "min_rt_ms",
    "rt>": "max_rt_ms",
    "median-rt<": "min_median_rt_ms",
    "trials<": "min_trials",
}


def parse_rules(texts: Iterable[str]) -> dict[str, Any]:
    """Convert the texts of exclusion rules to fields of `ExclusionRules`.

    Parameters
    ----------
    texts
        Values of the command-line option ``--exclude``, for example ``catch<0.75`` or
        ``participants=FILE``.

    Returns
    -------
    dict
        Values by name of the field.

    Raises
    ------
    InputError
        If a text is not a rule.
    """
    rules: dict[str, Any] = {}
    for text in texts:
        # Participants are listed in a file, one name per line.
        if text.startswith("participants="):
            rules["participants"] = read_list(text.removeprefix("participants="), "participant")
            continue
        # A rule is a name, a comparison and a number, for example "rt<200" or "rt<200ms".
        match = re.fullmatch(r"([a-z-]+[<>])(\d+(?:\.\d+)?)(?:ms)?", text.replace(" ", ""))
        if match is None or match[1] not in _FIELDS:
            raise InputError(
                f"--exclude {text!r} is no rule; write catch<0.75, rt<200, rt>10000, "
                "median-rt<400, trials<20 or participants=FILE"
            )
        rules[_FIELDS[match[1]]] = float(match[2])
    return rules


def catch_accuracy(choices: pd.DataFrame) -> pd.Series:
    """Compute the proportion of correct catch trials of each participant.

    Catch trials have an obvious answer and test whether participants pay attention. A catch trial
    is correct if the participant preferred the sentence in the column `expected`. A rating of 0
    counts one half.

    Parameters
    ----------
    choices
        Choices table, see `check_choices`.

    Returns
    -------
    Series
        Proportion for each participant with catch trials; empty if no catch trial has an expected
        sentence.

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
    # Catch trials have an obvious answer; the column `expected` is its number, 1 or 2.
    trials = choices[(choices["kind"] == CATCH) & choices["expected"].notna()]
    # A positive rating prefers sentence 2, and a rating of 0 neither sentence.
    is_correct = (trials["rating"] > 0) == (trials["expected"] == 2)
    score = is_correct.astype(float).where(trials["rating"] != 0, 0.5)
    return score.groupby(trials["participant"], sort=False).mean()


def check_rules(choices: pd.DataFrame, rules: ExclusionRules) -> None:
    """Check that the choices contain the data that the exclusion rules need.

    Parameters
    ----------
    choices
        Choices table, see `check_choices`.
    rules
        Exclusion rules.

    Raises
    ------
    InputError
        If a rule needs response times or catch trials and there are none, or if a participant who
        is excluded by name does not exist.
    """
    time_limits = (rules.min_rt_ms, rules.max_rt_ms, rules.min_median_rt_ms)
    if any(limit is not None for limit in time_limits) and choices["rt_ms"].isna().all():
        raise InputError("a rule on response times needs the column rt_ms, which is empty")
    # Participants who are excluded by name must exist.
    unknown = set(rules.participants) - set(choices["participant"])
    if unknown:
        raise InputError(
            f"there is no participant {min(unknown)!r} to exclude; use the names in the choices"
        )
    # The rule on catch trials needs at least one catch trial with a known correct sentence.
    if rules.min_catch_correct is None or not catch_accuracy(choices).empty:
        return
    # Report whether the kind "catch" or the correct sentences are missing.
    if "expected" in choices and choices["expected"].notna().any():
        raise InputError(
            "the rule on catch trials needs trials of kind 'catch', and all trials with an "
            "expected sentence are of another kind; mark catch trials in a column 'kind'"
        )
    raise InputError(
        "the rule on catch trials needs trials of kind 'catch' with an expected sentence, and "
        "there are none; give the number of the expected sentence, 1 or 2, in a column 'expected'"
    )


def exclude(
    choices: pd.DataFrame, rules: ExclusionRules, allow_none: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exclude participants and trials by exclusion rules.

    Rules on single trials are applied before the rules on the number of trials and the median
    response time of a participant.

    Parameters
    ----------
    choices
        Choices table as returned by `check_choices`.
    rules
        Exclusion rules.
    allow_none
        Whether the rules may exclude all choices.

    Returns
    -------
    remaining : DataFrame
        Choices that are not excluded.
    excluded : DataFrame
        Number of excluded rows by rule and participant, with the columns `rule`, `participant`,
        `n_rows` and `detail`.

    Raises
    ------
    InputError
        If `check_rules` refuses the rules, or no choices remain and `allow_none` is False.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.evaluation import check_choices
    >>> from contstim.evaluation import ExclusionRules
    >>> rules = ExclusionRules(min_catch_correct=0.9)
    >>> choices, excluded = exclude(check_choices(datasets.simulated_choices()), rules)
    >>> choices["participant"].nunique(), excluded["participant"].nunique()
    (27, 3)
    """
    check_rules(choices, rules)
    # `log.remaining` contains the choices that the rules so far have not excluded.
    log = ExclusionLog(choices)
    log.exclude(choices["participant"].isin(rules.participants), "listed", "excluded by name")
    if rules.min_catch_correct is not None:
        # Exclude inaccurate participants one at a time, to record the accuracy of each.
        accuracy = catch_accuracy(choices)
        for participant, share in accuracy[accuracy < rules.min_catch_correct].items():
            mask = log.remaining["participant"] == participant
            log.exclude(mask, "catch trials", f"{share:.3f} of catch trials right")
        has_answered = log.remaining["participant"].isin(accuracy.index)
        log.exclude(~has_answered, "catch trials", "no catch trial answered")
    # Exclude single trials. A missing response time is neither too short nor too long.
    if rules.min_rt_ms is not None:
        mask = log.remaining["rt_ms"] < rules.min_rt_ms
        log.exclude(mask, "too fast", f"below {rules.min_rt_ms:g} ms")
    if rules.max_rt_ms is not None:
        mask = log.remaining["rt_ms"] > rules.max_rt_ms
        log.exclude(mask, "too slow", f"above {rules.max_rt_ms:g} ms")
    # Exclude participants by the median of their remaining trials, and by their number.
    if rules.min_median_rt_ms is not None:
        median = log.remaining.groupby("participant")["rt_ms"].transform("median")
        detail = f"median response time below {rules.min_median_rt_ms:g} ms"
        log.exclude(median < rules.min_median_rt_ms, "median time", detail)
    if rules.min_trials is not None:
        n_trials = log.remaining.groupby("participant")["rating"].transform("size")
        detail = f"fewer than {rules.min_trials:g} trials"
        log.exclude(n_trials < rules.min_trials, "few trials", detail)
    if log.remaining.empty and not allow_none:
        raise InputError("the exclusion rules leave no choices; loosen them")
    return log.remaining, log.table


def exclude_unknown_words(human: HumanData, models: Iterable[SentenceModel]) -> HumanData:
    """Exclude trials with unknown words, so that all models are evaluated on the same trials.

    Catch trials are kept, because they serve to exclude participants and need no scores. If there
    are only catch trials, they are treated like other trials.

    Parameters
    ----------
    human
        Choices of the participants.
    models
        Models that cannot score sentences with unknown words.

    Returns
    -------
    HumanData
        Choices that every model can score, and catch trials. There is a note for each model that
        causes exclusions.

    Raises
    ------
    InputError
        If no trial remains.
    """
    log, notes = ExclusionLog(human.choices), list(human.notes)
    for model in models:
        sentences = log.remaining[["sentence_1", "sentence_2"]]
        # Sentences with a word outside the vocabulary of the model.
        unscorable = set()
        for sentence in np.unique(sentences):
            words = model.language.split(str(sentence))
            if not model.in_vocabulary(words).all():
                unscorable.add(sentence)
        # Catch trials need no scores. If there are no other trials, treat them like other trials.
        is_exempt = log.remaining["kind"] == CATCH
        if is_exempt.all():
            is_exempt = ~is_exempt
        # Exclude a trial if either of its sentences is unscorable.
        is_excluded = sentences.isin(unscorable).any(axis=1) & ~is_exempt
        if not is_excluded.any():
            continue
        detail = f"a word unknown to {model.name}"
        log.exclude(is_excluded, "unknown word", detail)
        notes.append(
            f"{int(is_excluded.sum())} choices were left out for {detail}; with unknown=unk in the "
            "spec the word would be scored as its unknown-word token."
        )
        if (is_excluded | is_exempt).all():
            raise InputError(
                f"no trial is left without {detail}; add unknown=unk to the spec, or use a model "
                "that knows the words"
            )
    excluded = concat_exclusions(human.excluded, log.table)
    return replace(human, choices=log.remaining, excluded=excluded, notes=tuple(notes))
