"""The choices as arrays, and which trials an analysis rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Strict

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError, require_known
from contstim.evaluation.choices import require_aligned
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.items import encode_items
from contstim.evaluation.rows import refuse_rows
from contstim.evaluation.scores import log_ratios
from contstim.models.score_table import model_name_in_spec
from contstim.settings import Several, one_of, settings
from contstim.tables import require_columns
from contstim.text.normalise import normalise_labels
from contstim.trial_kinds import CATCH, EXPERIMENTAL, FILLER, TRIAL_KINDS

#: Which trials a model is scored on: all, or those made to target it in some role.
TARGETS = ("all", "either", "accept", "reject")
#: Up to so many conditions are analysed one by one.
MAX_CONDITIONS = 12
_KINDS = ("kind_1", "kind_2")
_PAIR_COLUMNS = ("sentence_1", "sentence_2", "condition", "kind", "item", "model_1", "model_2")


@settings
class Analysis:
    """Which trials a model is evaluated on.

    Attributes
    ----------
    name
        What the tables call it.
    conditions
        The conditions whose trials take part; empty for all.
    target
        ``all``: every model on every trial. ``either``: a model only on trials that target it.
        ``accept``, ``reject``: of the trials of one synthetic and one natural sentence, only
        those whose synthetic sentence the model was to accept or to reject; of pairs of like
        sentences each model accepts one and rejects the other, so that all count. Which sentence
        is synthetic (``S``) the columns ``kind_1`` and ``kind_2`` say.
    kind
        The kind of trials that take part.
    factor_levels
        Pairs (column, level) of columns that `EvaluationOptions.by` names: of each column that is
        there a choice must have one of the levels; empty for all choices.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> result = evaluate(
    ...     choices,
    ...     datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]],
    ...     analyses=(Analysis("controversial", conditions=("natural_controversial",)),),
    ...     measures=("accuracy",),
    ... )
    >>> result.models[["analysis", "model", "value"]].round(3)
            analysis             model  value
    0  controversial      contstim:gpt  0.789
    1  controversial  contstim:trigram  0.311
    """

    name: str
    conditions: Several[str] = ()
    target: Annotated[str, one_of(TARGETS, "target")] = "all"
    kind: Annotated[str, one_of(TRIAL_KINDS, "kind of trial")] = EXPERIMENTAL
    factor_levels: Several[Annotated[tuple[str, str], Strict(False)]] = ()


@dataclass(frozen=True, eq=False)
class Factor:
    """A column with conditions of participants, or with a factor of pairs.

    Attributes
    ----------
    levels
        Its values.
    level_codes
        The code of each of R choices, shape (R,); -1 for a catch trial or filler that has none.
    is_between_participants
        Whether each participant has one level; else each pair has.
    """

    levels: tuple[str, ...]
    level_codes: IntArray
    is_between_participants: bool


@displayed
@dataclass(frozen=True, eq=False)
class TrialData:
    """R choices of N participants on P pairs, with the predictions of M models.

    Rows are sorted by participant, then pair.

    Attributes
    ----------
    participants, groups
        Labels: index of N participants; index of groups.
    group_codes
        Group code of each participant, shape (N,).
    participant, pair
        Codes of each row, shape (R,).
    rating
        Zero-centred rating of each row, positive for sentence 2, shape (R,).
    pairs
        P rows: the sentences, condition, targeted models, kinds and item of each pair.
    models
        The M names.
    log_ratio
        log p(sentence 2) - log p(sentence 1), shape (P, M), nats.
    factors
        By its column, each factor of the choices that was asked for.
    rt_ms
        Response time of each row, milliseconds, shape (R,), NaN where it is not known; None if it
        is known of none.
    """

    participants: pd.Index
    groups: pd.Index
    group_codes: IntArray
    participant: IntArray
    pair: IntArray
    rating: FloatArray
    pairs: pd.DataFrame
    models: tuple[str, ...]
    log_ratio: FloatArray
    factors: Mapping[str, Factor] = field(default_factory=dict)
    rt_ms: FloatArray | None = None

    @classmethod
    def from_choices(
        cls, choices: pd.DataFrame, scores: pd.DataFrame | None = None, by: Sequence[str] = ()
    ) -> TrialData:
        """Index validated and aligned `choices`; `scores` has one column per model.

        Raises
        ------
        ValidationError
            If the choices are not aligned.
        InputError
            If a column of `by` does not give every participant, or every pair, one of several
            levels.
        """
        require_aligned(choices)
        keys = ["sentence_1", "sentence_2"]
        columns = [c for c in (*_PAIR_COLUMNS, *_KINDS, "expected") if c in choices]
        pairs = choices[columns].drop_duplicates(keys).reset_index(drop=True)
        pair = pd.MultiIndex.from_frame(pairs[keys]).get_indexer(
            pd.MultiIndex.from_frame(choices[keys])
        )
        participant, participants = pd.factorize(choices["participant"])
        group, groups = pd.factorize(choices["group"])
        group_codes = np.zeros(len(participants), dtype=np.int64)
        group_codes[participant] = group
        order = np.lexsort((pair, participant))
        factors = {column: _factor(choices, column, pair, order) for column in by}
        models = () if scores is None else tuple(str(c) for c in scores.columns)
        none = np.zeros((len(pairs), 0))
        ratio = none if scores is None or not models else log_ratios(scores, pairs)
        labels = pd.Index(participants), pd.Index(groups)
        person, shown = (np.asarray(codes, dtype=np.int64)[order] for codes in (participant, pair))
        rating, times = (choices[c].to_numpy(dtype=np.float64)[order] for c in ("rating", "rt_ms"))
        rt_ms = None if np.isnan(times).all() else times
        return cls(
            *(*labels, group_codes, person, shown, rating, pairs, models, ratio, factors, rt_ms),
        )

    def select_pairs(self, chosen: BoolArray) -> TrialData:
        """Return the choices on some of the pairs, a mask of shape (P,), by the same people."""
        rows = chosen[self.pair]
        return replace(
            self,
            participant=self.participant[rows],
            pair=(np.cumsum(chosen) - 1)[self.pair[rows]],
            rating=self.rating[rows],
            rt_ms=None if self.rt_ms is None else self.rt_ms[rows],
            factors={
                name: replace(factor, level_codes=factor.level_codes[rows])
                for name, factor in self.factors.items()
            },
            pairs=self.pairs[chosen].reset_index(drop=True),
            log_ratio=self.log_ratio[chosen],
        )

    def has_levels(self, analysis: Analysis) -> BoolArray:
        """Return whether each row has the levels of an analysis, shape (R,)."""
        there = np.ones(len(self.participant), dtype=np.bool_)
        for column in dict.fromkeys(column for column, _ in analysis.factor_levels):
            require_known("column of by", column, self.factors)
            factor = self.factors[column]
            levels = [level for name, level in analysis.factor_levels if name == column]
            for level in levels:
                require_known(f"level of {column}", level, factor.levels)
            there &= np.isin(factor.level_codes, [factor.levels.index(level) for level in levels])
        return there

    @cached_property
    def item(self) -> IntArray:
        """The code of each pair's item, shape (P,): its own where `pairs` names none."""
        return encode_items(self.pairs)

    @cached_property
    def design(self) -> CrossedDesign:
        """Participant and item of each choice."""
        return CrossedDesign(self.participant, self.item[self.pair])

    @property
    def n_items(self) -> int:
        """How many items the pairs are of."""
        return int(self.item.max(initial=-1)) + 1

    @property
    def has_disjoint_groups(self) -> bool:
        """Whether no pair was seen by two groups."""
        seen = np.unique(np.stack([self.pair, self.group_codes[self.participant]]), axis=1)
        return bool(len(np.unique(seen[0])) == seen.shape[1])

    @property
    def n_pairs(self) -> int:
        """P."""
        return len(self.pairs)


def _factor(choices: pd.DataFrame, column: str, pair: IntArray, order: IntArray) -> Factor:
    """Return the levels that a column says of people or of pairs, rows in an order."""
    require_columns(choices, [column], "the choices table")
    values = normalise_labels(choices[column])
    lacking = choices[column].isna() | (values == "")
    refuse_rows(lacking & (choices["kind"] == EXPERIMENTAL), f"a row has no {column} ({{rows}})")
    values = values.where(~lacking)
    people = values.groupby(choices["participant"], sort=False).nunique()
    pairs = values.groupby(pair).nunique()
    is_between_participants = bool((people <= 1).all())
    if not is_between_participants and (pairs > 1).any():
        raise InputError(
            f"participant {people.index[people > 1][0]!r} has several values of {column!r}, and so "
            "have pairs; it must be a condition of participants, or a factor of pairs"
        )
    level_codes, levels = pd.factorize(values)
    if not 1 < len(levels) <= MAX_CONDITIONS:
        shown = f", {levels[0]!r}" if len(levels) == 1 else ""
        raise InputError(
            f"the column {column!r} has {len(levels)} value{'s' * (len(levels) > 1)}{shown}; name "
            f"one with 2 to {MAX_CONDITIONS} conditions of participants or pairs"
        )
    return Factor(
        tuple(map(str, levels)), level_codes.astype(np.int64)[order], is_between_participants
    )


def factors_match_conditions(data: TrialData) -> bool:
    """Return whether the levels of all factors together are the conditions, called otherwise."""
    asked = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()[data.pair]
    table = pd.DataFrame({name: factor.level_codes for name, factor in data.factors.items()})
    table, condition = table[asked], data.pairs["condition"].to_numpy()[data.pair][asked]
    cell = table.groupby([*table], sort=False).ngroup().to_numpy()
    counts = {len(pd.unique(codes)) for codes in (cell, condition)}
    return counts == {len(set(zip(cell, condition, strict=True)))}


def split_by_level(
    analyses: Sequence[Analysis], factors: Mapping[str, Factor], combined: bool = True
) -> list[Analysis]:
    """Return analyses, and after each the same by levels of each factor, and by combinations."""
    single = [[(column, level)] for column in factors for level in factors[column].levels]
    crossed = [[(column, level) for level in factors[column].levels] for column in factors]
    combined &= len(factors) > 1
    wheres = [*single, *(map(list, product(*crossed)) if combined else ())]
    return [
        part
        for analysis in analyses
        for part in (
            analysis,
            *(
                replace(
                    analysis,
                    name=", ".join([analysis.name, *map(" ".join, where)]),
                    factor_levels=tuple(where),
                )
                for where in wheres
            ),
        )
    ]


def default_analyses(pairs: pd.DataFrame, most: int = MAX_CONDITIONS) -> tuple[Analysis, ...]:
    """Return the analyses that suit the trials.

    ``all`` (every trial but catch trials and fillers); ``targeted`` (of these, each model on the
    trials that target it) if any do; ``catch`` and ``fillers`` if there are such trials; and if
    there are several but no more than `most` other conditions, each of them by name (every model
    on all its trials), and where its trials target models ``NAME/targeted``, or for pairs of a
    natural and a synthetic sentence ``NAME/accept`` and ``NAME/reject``; a condition that is
    called ``all`` or ``targeted`` itself as ``condition all`` and so on.
    """
    asked = pairs[pairs["kind"] == EXPERIMENTAL]
    targets = asked["model_1"].notna()
    chosen = [Analysis("all")] if len(asked) else []
    if targets.any():
        chosen.append(Analysis("targeted", target="either"))
    for name, kind in (("catch", CATCH), ("fillers", FILLER)):
        if (pairs["kind"] == kind).any():
            chosen.append(Analysis(name, kind=kind))
    conditions = tuple(dict.fromkeys(asked["condition"]))
    if not 1 < len(conditions) <= most:
        return tuple(chosen)
    for condition in conditions:
        here = asked["condition"] == condition
        name = f"condition {condition}" if condition in ("all", "targeted") else condition
        chosen.append(Analysis(name, (condition,)))
        if not (here & targets).any():
            continue
        if _mixed(asked)[here.to_numpy()].any():
            for role in ("accept", "reject"):
                chosen.append(Analysis(f"{name}/{role}", (condition,), role))
        elif (here & targets).sum() < targets.sum():
            chosen.append(Analysis(f"{name}/targeted", (condition,), "either"))
    return tuple(chosen)


def select(analysis: Analysis, pairs: pd.DataFrame, models: Sequence[str]) -> BoolArray:
    """Return which pairs each model is evaluated on, shape (P, M).

    Raises
    ------
    InputError
        If the analysis names a condition that no pair has, or nothing says which sentences are
        synthetic when it asks for that.
    """
    rows = (pairs["kind"] == analysis.kind).to_numpy()
    for condition in analysis.conditions:
        require_known("condition", condition, set(pairs["condition"]))
    if analysis.conditions:
        rows = rows & pairs["condition"].isin(analysis.conditions).to_numpy()
        if not rows.any():
            kinds = pairs.loc[pairs["condition"].isin(analysis.conditions), "kind"]
            raise InputError(
                f"analysis {analysis.name!r} has no {analysis.kind} trials; those of its "
                f"conditions are of kind {kinds.iloc[0]!r}: set kind = {kinds.iloc[0]!r}"
            )
    if analysis.target == "all":
        return np.repeat(rows[:, None], len(models), axis=1)
    names = np.array(models, dtype=object)[None, :]
    first = pairs["model_1"].to_numpy(dtype=object)[:, None] == names
    second = pairs["model_2"].to_numpy(dtype=object)[:, None] == names
    mixed = _mixed(pairs)
    if analysis.target != "either" and not pairs.reindex(columns=[*_KINDS]).notna().any(axis=None):
        raise InputError(
            f"analysis {analysis.name!r} has the target {analysis.target!r}, and no column says "
            f"which sentences are synthetic; name them in {' and '.join(_KINDS)} (S; others N), or "
            "give the target 'either'"
        )
    if analysis.target != "either" and mixed.any():
        # Model 1 is the one that is to prefer sentence 1, so of a pair with one synthetic
        # sentence the model on its side accepts it, and the other rejects it.
        takes_first = (pairs["kind_1"] == "S").to_numpy() == (analysis.target == "accept")
        first &= (~mixed | takes_first)[:, None]
        second &= (~mixed | ~takes_first)[:, None]
    return np.asarray((first | second) & rows[:, None], dtype=np.bool_)


def resolve_targets(
    choices: pd.DataFrame, models: Sequence[str], specs: Mapping[str, str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return choices whose targets are called as the models are, and notes on it.

    Trials selected from a table of scores target models by the table's names for them; the column
    `a` of ``scores.csv`` as a model is ``table:scores.csv?column=a``. Trials made before a model
    got a name target its spec, one of `specs`.
    """
    called: dict[str, list[str]] = {}
    for model in models:
        for name in {model_name_in_spec(specs.get(model, model)), specs.get(model, "")} - {
            "",
            model,
        }:
            called.setdefault(name, []).append(model)
    columns = choices[["model_1", "model_2"]]
    lacking = {*columns["model_1"].dropna(), *columns["model_2"].dropna()} - set(models)
    names = {name: own[0] for name, own in called.items() if name in lacking and len(own) == 1}
    notes = [f"The model {name} of the trials is taken to be {names[name]}." for name in names]
    return choices.assign(**columns.replace(names)) if names else choices, notes


def note_unscored_targets(pairs: pd.DataFrame, models: Sequence[str]) -> tuple[str, ...]:
    """Return notes on targeted models without scores."""
    targeted = set(pairs["model_1"].dropna()) | set(pairs["model_2"].dropna())
    lacking = sorted(targeted - set(models))
    if not models or not lacking:
        return ()
    if lacking == sorted(targeted):
        return (
            f"The trials target {', '.join(lacking)}, of which none has scores; "
            f"{', '.join(models)} {'is' if len(models) == 1 else 'are'} evaluated on all trials. "
            "If one of them is meant, name both alike.",
        )
    return (f"No scores for the targeted {', '.join(lacking)}; they are not evaluated.",)


def _mixed(pairs: pd.DataFrame) -> BoolArray:
    first, second = (pairs.reindex(columns=[name])[name] == "S" for name in _KINDS)
    return (first ^ second).to_numpy(dtype=np.bool_)
