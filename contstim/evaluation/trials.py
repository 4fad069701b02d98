"""Choices as arrays, and the trials of each analysis."""

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
from contstim.display import displayable
from contstim.errors import InputError, require_known
from contstim.evaluation.choices import require_aligned
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.items import encode_items
from contstim.evaluation.rows import refuse_rows
from contstim.evaluation.scores import log_ratios
from contstim.settings import TupleFromList, settings, validate_choice
from contstim.text.normalise import normalise_labels
from contstim.trial_kinds import CATCH, EXPERIMENTAL, FILLER, TRIAL_KINDS

#: Selections of the trials on which a model is evaluated, see `Analysis.target`.
TARGETS = ("all", "either", "accept", "reject")
#: Maximum number of conditions that are analysed separately.
MAX_CONDITIONS = 12
_KINDS = ("kind_1", "kind_2")
_PAIR_COLUMNS = ("sentence_1", "sentence_2", "condition", "kind", "item", "model_1", "model_2")


@settings
class Analysis:
    """Selection of trials on which models are evaluated.

    A trial *targets* the two models that it was designed to distinguish. If one of its sentences is
    natural and one synthetic (``S`` in `kind_1` or `kind_2`), one of these models *accepts* the
    synthetic sentence, that is, finds it at least as probable, and the other model *rejects* it.

    Attributes
    ----------
    name
        Name of the analysis in the tables.
    conditions
        Conditions of the trials; empty for all conditions.
    target
        Trials on which each model is evaluated.

        - ``all``: all trials.
        - ``either``: all trials that target the model.
        - ``accept``: the same, without trials with a synthetic sentence that the model rejects.
        - ``reject``: the same, without trials with a synthetic sentence that the model accepts.
    kind
        Kind of the trials: ``experimental``, ``catch``, ``filler`` or ``practice``.
    factor_levels
        Pairs (column, level) of columns in `EvaluationOptions.condition`. A choice must have one of
        the levels of each column; empty for all choices.

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
    conditions: TupleFromList[str] = ()
    target: Annotated[str, validate_choice(TARGETS, "target")] = "all"
    kind: Annotated[str, validate_choice(TRIAL_KINDS, "kind of trial")] = EXPERIMENTAL
    factor_levels: TupleFromList[Annotated[tuple[str, str], Strict(False)]] = ()


@dataclass(frozen=True, eq=False)
class Factor:
    """Experimental factor, such as the native language of participants or the type of a pair.

    Attributes
    ----------
    levels
        Names of the levels, for example ``("yes", "no")``.
    level_codes
        Index in `levels` of the level of each choice, shape (R,). It is -1 for catch trials and
        fillers without a level.
    is_between_participants
        Whether each participant has one level; otherwise each pair has one level.
    """

    levels: tuple[str, ...]
    level_codes: IntArray
    is_between_participants: bool


@displayable
@dataclass(frozen=True, eq=False)
class TrialData:
    """Choices of a study as arrays, with the predictions of models.

    There are R choices of N participants on P sentence pairs, and M models. Choices are sorted by
    participant, then by pair.

    Attributes
    ----------
    participants, groups
        Names of the N participants, and names of the groups.
    group_codes
        Index in `groups` of the group of each participant, shape (N,).
    participant, pair
        Index of the participant, and of the sentence pair, of each choice, shape (R,).
    rating
        Zero-centred rating of each choice, positive for sentence 2, shape (R,).
    pairs
        Table of the P pairs: sentences, condition, kind, item, targeted models and, if known, kinds
        of the sentences and the expected sentence.
    models
        Names of the M models.
    log_ratio
        log p(sentence 2) - log p(sentence 1) in nats, shape (P, M).
    factors
        Factors by name of their column.
    rt_ms
        Response time of each choice in milliseconds, shape (R,), NaN if unknown; None if no
        response time is known.
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
        cls,
        choices: pd.DataFrame,
        scores: pd.DataFrame | None = None,
        factor_columns: Sequence[str] = (),
    ) -> TrialData:
        """Convert checked and aligned choices to arrays.

        Parameters
        ----------
        choices
            Choices table as returned by `align_choices`.
        scores : (S, M) DataFrame, optional
            Scores of the S sentences by M models; higher is better.
        factor_columns
            Columns of the choices that are experimental factors.

        Raises
        ------
        ValidationError
            If the choices are not aligned.
        InputError
            If a factor does not have one level per participant or per pair, or has one level only.
        """
        require_aligned(choices)
        keys = ["sentence_1", "sentence_2"]
        columns = [c for c in (*_PAIR_COLUMNS, *_KINDS, "expected") if c in choices]
        pairs = choices[columns].drop_duplicates(keys).reset_index(drop=True)
        pair_index = pd.MultiIndex.from_frame(pairs[keys])
        pair = pair_index.get_indexer(pd.MultiIndex.from_frame(choices[keys]))
        participant, participants = pd.factorize(choices["participant"])
        group, groups = pd.factorize(choices["group"])
        group_codes = np.zeros(len(participants), dtype=np.int64)
        group_codes[participant] = group
        order = np.lexsort((pair, participant))
        times = choices["rt_ms"].to_numpy(dtype=np.float64)[order]
        models: tuple[str, ...] = ()
        log_ratio = np.zeros((len(pairs), 0))
        if scores is not None and len(scores.columns):
            models = tuple(str(column) for column in scores.columns)
            log_ratio = log_ratios(scores, pairs)
        return cls(
            participants=pd.Index(participants),
            groups=pd.Index(groups),
            group_codes=group_codes,
            participant=np.asarray(participant, dtype=np.int64)[order],
            pair=np.asarray(pair, dtype=np.int64)[order],
            rating=choices["rating"].to_numpy(dtype=np.float64)[order],
            pairs=pairs,
            models=models,
            log_ratio=log_ratio,
            factors={c: _encode_factor(choices, c, pair, order) for c in factor_columns},
            rt_ms=None if np.isnan(times).all() else times,
        )

    def select_pairs(self, mask: BoolArray) -> TrialData:
        """Return a copy that contains only some sentence pairs and the choices on them.

        `mask` selects some of the P pairs. The selected pairs are numbered again from 0.
        """
        rows = mask[self.pair]  # choices on selected pairs
        # The new index of a pair is the number of selected pairs before it.
        new_indices = np.cumsum(mask) - 1
        factors = {
            name: replace(factor, level_codes=factor.level_codes[rows])
            for name, factor in self.factors.items()
        }
        return replace(
            self,
            participant=self.participant[rows],
            pair=new_indices[self.pair[rows]],
            rating=self.rating[rows],
            rt_ms=None if self.rt_ms is None else self.rt_ms[rows],
            factors=factors,
            pairs=self.pairs[mask].reset_index(drop=True),
            log_ratio=self.log_ratio[mask],
        )

    def has_levels(self, analysis: Analysis) -> BoolArray:
        """Return a mask of the choices that have the factor levels of an analysis, shape (R,).

        If an analysis names several levels of one factor, any of them is sufficient. If it names
        several factors, a choice must have a level of each.
        """
        mask = np.ones(len(self.participant), dtype=np.bool_)
        # Named levels of each factor.
        levels_by_column: dict[str, list[str]] = {}
        for column, level in analysis.factor_levels:
            levels_by_column.setdefault(column, []).append(level)
        for column, levels in levels_by_column.items():
            require_known("factor", column, self.factors)
            factor = self.factors[column]
            for level in levels:
                require_known(f"level of {column}", level, factor.levels)
            # A choice must have one of the levels of this factor, and of every other named factor.
            mask &= np.isin(factor.level_codes, [factor.levels.index(level) for level in levels])
        return mask

    @cached_property
    def item(self) -> IntArray:
        """Index of the item (group of related sentence pairs) of each pair, shape (P,)."""
        return encode_items(self.pairs)

    @cached_property
    def design(self) -> CrossedDesign:
        """Participant and item of each choice, for tests that treat both as random effects."""
        return CrossedDesign(self.participant, self.item[self.pair])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item.max(initial=-1)) + 1

    @property
    def has_disjoint_groups(self) -> bool:
        """Whether each pair was judged by one group of participants only."""
        groups = pd.Series(self.group_codes[self.participant])
        n_groups = groups.groupby(self.pair).nunique()
        return bool((n_groups == 1).all())

    @property
    def n_pairs(self) -> int:
        """Number of pairs, P."""
        return len(self.pairs)


def _encode_factor(choices: pd.DataFrame, column: str, pair: IntArray, order: IntArray) -> Factor:
    """Convert a column of the choices table to an experimental factor, a `Factor` object.

    Its values are the levels of the factor. They must be constant within each participant, such as
    the native language, or constant within each sentence pair, such as the type of the pair.

    Parameters
    ----------
    choices
        Choices table with R rows.
    column
        Name of the column.
    pair
        Index of the sentence pair of each row, shape (R,).
    order
        Indices that sort the rows as in `TrialData`, shape (R,).
    """
    if column not in choices:
        columns = ", ".join(repr(str(name)) for name in choices)
        raise InputError(
            f"the condition {column!r} is not a column of the choices, which have {columns}, or of "
            "a participant table"
        )
    values = normalise_labels(choices[column])
    # Catch trials and fillers need no level; experimental trials do.
    is_missing = choices[column].isna() | (values == "")
    is_experimental = choices["kind"] == EXPERIMENTAL
    refuse_rows(is_missing & is_experimental, f"a row has no {column} ({{rows}})")
    values = values.where(~is_missing)
    # A factor is constant within participants (between participants) or within pairs.
    n_by_participant = values.groupby(choices["participant"], sort=False).nunique()
    n_by_pair = values.groupby(pair).nunique()
    is_between_participants = bool((n_by_participant <= 1).all())
    if not is_between_participants and (n_by_pair > 1).any():
        participant = n_by_participant.index[n_by_participant > 1][0]
        raise InputError(
            f"participant {participant!r} has several values of {column!r}, and so do some pairs; "
            "give each participant, or each pair, one value"
        )
    level_codes, levels = pd.factorize(values)  # A missing level has the code -1.
    if not 2 <= len(levels) <= MAX_CONDITIONS:
        n_values = f"1 value, {levels[0]!r}" if len(levels) == 1 else f"{len(levels)} values"
        raise InputError(
            f"the column {column!r} has {n_values}; name a column with 2 to {MAX_CONDITIONS} values"
        )
    level_codes = level_codes.astype(np.int64)[order]
    return Factor(tuple(map(str, levels)), level_codes, is_between_participants)


def factors_match_conditions(data: TrialData) -> bool:
    """Return whether factors split the experimental trials in the same way as the conditions.

    Each combination of factor levels then corresponds to exactly one condition, and analyses of
    these combinations would repeat the analyses of the conditions.
    """
    is_experimental = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()[data.pair]
    # `is_experimental` states for each choice whether it is in an experimental trial.
    table = pd.DataFrame({name: factor.level_codes for name, factor in data.factors.items()})
    factor_names = list(table.columns)
    table = table[is_experimental]
    # Number the combinations of levels, and look up the condition of each choice.
    combination = table.groupby(factor_names, sort=False).ngroup().to_numpy()
    condition = data.pairs["condition"].to_numpy()[data.pair][is_experimental]
    # One-to-one: as many distinct pairs (combination, condition) as combinations and conditions.
    n_relations = len(set(zip(combination, condition, strict=True)))
    return n_relations == len(pd.unique(combination)) == len(pd.unique(condition))


def split_by_level(
    analyses: Sequence[Analysis], factors: Mapping[str, Factor], with_combinations: bool = True
) -> list[Analysis]:
    """Add to each analysis its repetitions for each level of each factor.

    Parameters
    ----------
    analyses
        Analyses to repeat.
    factors
        Factors by name of their column.
    with_combinations
        Whether to repeat the analyses also for each combination of the levels of all factors.

    Returns
    -------
    list of Analysis
        Each analysis, followed by its repetitions. The name of a repetition is the name of the
        analysis with the column and the level, for example ``all, native yes``.
    """
    selections: list[tuple[tuple[str, str], ...]] = []
    # A selection is a tuple of pairs (column, level), as in `Analysis.factor_levels`.
    levels_by_factor = [
        [(column, level) for level in factor.levels] for column, factor in factors.items()
    ]
    for column_levels in levels_by_factor:
        selections += [(column_level,) for column_level in column_levels]
    # All combinations of one level of each factor.
    if with_combinations and len(factors) > 1:
        selections += product(*levels_by_factor)
    out = []
    for analysis in analyses:
        out.append(analysis)
        for selection in selections:
            labels = [f"{column} {level}" for column, level in selection]
            name = ", ".join([analysis.name, *labels])
            out.append(replace(analysis, name=name, factor_levels=selection))
    return out


def default_analyses(pairs: pd.DataFrame) -> tuple[Analysis, ...]:
    """Return the analyses that are carried out if the user names none.

    A trial *targets* the two models that its sentence pair was designed to distinguish.

    1. ``all``: all experimental trials.
    2. ``targeted``: each model is evaluated on the experimental trials that target it.
    3. ``catch`` and ``fillers``: all trials of this kind.
    4. With 2 to `MAX_CONDITIONS` conditions of experimental trials, one analysis per condition,
       named after the condition (``condition all`` if the condition is called ``all``).
    5. ``CONDITION/accept`` and ``CONDITION/reject``, if the targeted trials of a condition compare
       a natural with a synthetic sentence: trials in which the evaluated model should prefer, or
       reject, the synthetic sentence.
    6. ``CONDITION/targeted`` for other conditions with targeted trials.

    Analyses without trials, and analyses that would repeat ``targeted``, are left out.

    Parameters
    ----------
    pairs
        Table of the sentence pairs, see `TrialData.pairs`.
    """
    experimental = pairs[pairs["kind"] == EXPERIMENTAL]
    # A trial targets the two models that its columns model_1 and model_2 name.
    is_targeted = experimental["model_1"].notna()
    analyses = [Analysis("all")] if len(experimental) else []
    if is_targeted.any():
        analyses.append(Analysis("targeted", target="either"))
    for name, kind in (("catch", CATCH), ("fillers", FILLER)):
        if (pairs["kind"] == kind).any():
            analyses.append(Analysis(name, kind=kind))
    conditions = tuple(dict.fromkeys(experimental["condition"]))
    # One condition would repeat the analysis `all`, and too many would not be informative.
    if not 1 < len(conditions) <= MAX_CONDITIONS:
        return tuple(analyses)
    is_natural_synthetic = _is_natural_synthetic(experimental)
    for condition in conditions:
        in_condition = experimental["condition"] == condition
        # Avoid the names of the analyses above.
        name = f"condition {condition}" if condition in ("all", "targeted") else condition
        analyses.append(Analysis(name, (condition,)))
        n_targeted = (in_condition & is_targeted).sum()
        if n_targeted == 0:
            continue
        if is_natural_synthetic[in_condition].any():
            analyses.append(Analysis(f"{name}/accept", (condition,), "accept"))
            analyses.append(Analysis(f"{name}/reject", (condition,), "reject"))
        # If all targeted trials are in this condition, the analysis `targeted` is the same.
        elif n_targeted < is_targeted.sum():
            analyses.append(Analysis(f"{name}/targeted", (condition,), "either"))
    return tuple(analyses)


def select_trials(analysis: Analysis, pairs: pd.DataFrame, models: Sequence[str]) -> BoolArray:
    """Return on which sentence pairs an analysis evaluates each model.

    Parameters
    ----------
    analysis
        Selection of trials.
    pairs
        Table of P sentence pairs, see `TrialData.pairs`.
    models
        Names of M models.

    Returns
    -------
    array of bool
        Mask of shape (P, M).

    Raises
    ------
    InputError
        If no pair has a condition of the analysis, or the analysis needs to know which sentences
        are synthetic and no column states it.
    """
    is_selected = (pairs["kind"] == analysis.kind).to_numpy()
    for condition in analysis.conditions:
        require_known("condition", condition, set(pairs["condition"]))
    if analysis.conditions:
        has_condition = pairs["condition"].isin(analysis.conditions).to_numpy()
        is_selected = is_selected & has_condition
        if not is_selected.any():
            kind = pairs.loc[has_condition, "kind"].iloc[0]
            raise InputError(
                f"analysis {analysis.name!r} has no {analysis.kind} trials; those of its "
                f"conditions are of kind {kind!r}: set kind = {kind!r}"
            )
    if analysis.target == "all":
        return np.repeat(is_selected[:, None], len(models), axis=1)
    names = np.array(models, dtype=object)[None, :]
    is_model_1 = pairs["model_1"].to_numpy(dtype=object)[:, None] == names
    is_model_2 = pairs["model_2"].to_numpy(dtype=object)[:, None] == names
    if analysis.target != "either":
        if not pairs.reindex(columns=[*_KINDS]).notna().any(axis=None):
            raise InputError(
                f"analysis {analysis.name!r} has the target {analysis.target!r}, and no column "
                "says which sentences are synthetic; name them in "
                f"{' and '.join(_KINDS)} (S; others N), or give the target 'either'"
            )
        # Model 1 should prefer sentence 1, and model 2 sentence 2. If only sentence 1 is synthetic,
        # model 1 accepts it and model 2 rejects it. If only sentence 2 is, the roles are exchanged.
        is_natural_synthetic = _is_natural_synthetic(pairs)
        if is_natural_synthetic.any():
            is_synthetic_1 = (pairs["kind_1"] == "S").to_numpy()
            role_1 = np.where(is_synthetic_1, "accept", "reject")
            role_2 = np.where(is_synthetic_1, "reject", "accept")
            # Other pairs have no such roles, and count for both targets.
            is_model_1 &= (~is_natural_synthetic | (role_1 == analysis.target))[:, None]
            is_model_2 &= (~is_natural_synthetic | (role_2 == analysis.target))[:, None]
    return np.asarray((is_model_1 | is_model_2) & is_selected[:, None], dtype=np.bool_)


def _is_natural_synthetic(pairs: pd.DataFrame) -> BoolArray:
    """Return which of P pairs consist of a natural and a synthetic sentence, as a mask (P,)."""
    is_synthetic = pairs.reindex(columns=[*_KINDS]) == "S"
    return np.asarray(is_synthetic["kind_1"] != is_synthetic["kind_2"], dtype=np.bool_)
