"""The default inference: quasi-F tests of models, of their differences and of interactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference import CEILING_INTERVALS, InferenceResult
from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import Contrast, SampleMean
from contstim.evaluation.measures import Measure
from contstim.evaluation.ranks import rank_biserial
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, SubsetValues, group_by_trials, mean_defined

#: Note on a mean without a standard error.
TOO_FEW = "too few participants or items for a standard error"
_TOO_FEW_JUDGES = (
    "no interval and no test of the ceilings: most pairs were judged by two participants only"
)


@dataclass(frozen=True, eq=False)
class QuasiFInference:
    """Tests of means over participants and items (quasi-F, Clark 1973), see `CrossedDesign`.

    Attributes
    ----------
    item_effects
        ``random`` if results generalise to new items, ``fixed`` if they describe the items used.
    equivalence
        Margin of the equivalence test: two models are equivalent if their difference is smaller
        than this fraction of the difference between the lower noise ceiling and chance.
    """

    item_effects: str
    equivalence: float
    columns = (
        ("p_chance", "stderr", "df", *CEILING_INTERVALS),
        ("stderr", "df", "margin", "p_equivalence"),
    )

    @property
    def unit(self) -> str:
        """Kind of unit to which results generalise, for the column `unit` of the tables."""
        return "participant" if self.item_effects == "fixed" else "participant and sentence"

    def __call__(
        self, values: AnalysisValues, pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[InferenceResult], list[InferenceResult]]:
        """Test each model against the lower noise ceiling, and compare pairs of models.

        Parameters
        ----------
        values
            Values and noise ceilings of M models in one analysis.
        pairs
            Indices of the two models of each comparison.

        Returns
        -------
        models : list of InferenceResult
            One result per model.
        comparisons : list of InferenceResult
            One result per pair of models.
        """
        results = [InferenceResult()] * len(values.data.models)
        # Samples of observations, one number per choice and model, from which mean values and their
        # standard errors are estimated.
        samples = _collect_samples((v.subset for v in values.subset_values), values.measure)
        # Models that are evaluated on the same trials form a group.
        for group in values.subset_values:
            for model in group.subset.models:
                results[model] = self._test_model(values, group, model, samples[model])
        return results, [self._compare_models(values, i, j, samples) for i, j in pairs]

    def compare_conditions(
        self,
        data: TrialData,
        analysis: Analysis,
        measure: Measure,
        column: str,
        levels: tuple[str, str],
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int], MeanEstimate]]:
        """Yield the difference between two levels of a factor, for models and for pairs of models.

        For a pair of models, the difference between their values is compared between the levels,
        which tests the interaction of model and factor. If some participants have choices at both
        levels, only these participants are used.

        Parameters
        ----------
        data
            Trials of all analyses.
        analysis, measure
            Analysis and measure of the values.
        column, levels
            Name of the factor, and the two levels.

        Yields
        ------
        models : tuple of int
            Index of the model, or of the two models of an interaction.
        n_participants : tuple of int
            Number of participants at each level.
        estimate : MeanEstimate
            Value, or difference of the two models, at the first level minus the second.
        """
        # Collect, for each level of the factor, the observations of each model (one per choice).
        samples_by_level = []
        for level in levels:
            factor_levels = (*analysis.factor_levels, (column, level))
            subsets = group_by_trials(data, replace(analysis, factor_levels=factor_levels))
            samples_by_level.append(_collect_samples(subsets, measure))
        # Compare single models, then pairs of models (interactions). A model must have trials at
        # both levels.
        tested = sorted(samples_by_level[0].keys() & samples_by_level[1].keys())
        for models in (*((model,) for model in tested), *combinations(tested, 2)):
            # Observations of the one or two models at each level, and participants who have
            # observations for all of these models.
            conditions = [[samples[model] for model in models] for samples in samples_by_level]
            participants = [
                np.intersect1d(condition[0].participants, condition[-1].participants)
                for condition in conditions
            ]
            # Participants with choices at both levels allow a comparison within participants.
            in_both = np.intersect1d(participants[0], participants[1])
            if in_both.size:
                participants = [in_both, in_both]
            n_first, n_second = map(len, participants)
            if not n_first or not n_second:
                continue
            first, second = (
                [sample.mean_over(included) for sample in condition]
                for condition, included in zip(conditions, participants, strict=True)
            )
            estimate = estimate_contrast(first, second, data.design, self.item_effects)
            yield models, (n_first, n_second), estimate

    def _test_model(
        self, values: AnalysisValues, group: SubsetValues, model: int, sample: _Sample
    ) -> InferenceResult:
        """Test whether a model differs from chance and from the lower noise ceiling.

        The lower noise ceiling is the value that is reached if each participant is predicted from
        the others. The null hypothesis of its test is that, for new participants and new items, the
        model is as good as a prediction from as many other participants as in this study.

        Parameters
        ----------
        values
            Values and noise ceilings of all models in one analysis.
        group
            Values and ceilings of the models with the same trials as this model. Ceilings use only
            the trials that enough other participants judged.
        model
            Index of the model.
        sample
            Observations of the model, one per choice.
        """
        # `subset` contains the choices on trials that enough other participants judged.
        measure, ceilings, subset = values.measure, group.ceilings, group.ceilings.subset
        # Interval on Fisher's z scale, and test of the model's value against chance.
        estimate, maximum = sample.estimate(measure, self.item_effects)
        low, high = estimate.bounded_interval(measure.chance, maximum)
        statistics = {
            "p_chance": estimate.p_chance(measure.chance, maximum),
            "stderr": estimate.stderr,
            "df": estimate.df,
        }
        note = TOO_FEW if np.isnan(estimate.stderr) else ""
        result = InferenceResult(ci_low=low, ci_high=high, note=note, statistics=statistics)
        if not subset.n_rows:
            return result

        # Compare with the noise ceilings on the trials that enough other participants judged.
        log_ratio = values.data.log_ratio[subset.pair, model]
        model_sample = _Sample(subset, measure.trial_influence(subset, log_ratio))
        result = replace(result, n_units=len(model_sample.participants), test="crossed")
        if not ceilings.has_test:
            return replace(result, note=note or _TOO_FEW_JUDGES)
        lower = _Sample(subset, ceilings.lower_influence)
        upper = _Sample(subset, ceilings.upper_influence)
        lower_estimate, lower_maximum = lower.estimate(measure, self.item_effects)
        upper_estimate, upper_maximum = upper.estimate(measure, self.item_effects, is_upper=True)
        # The model's value minus the lower ceiling, both computed on the same trials.
        difference = model_sample.difference(lower, self.item_effects)
        # Accuracies may differ on few items only, so the standard error needs a correction.
        if self.item_effects == "random" and measure.is_trial_mean:
            n_items = len(np.unique(subset.data.item[subset.pair]))
            difference = add_pseudo_items(difference, n_items, measure.maximum - measure.chance)
        # Confidence limits of the lower ceiling, of the upper ceiling and of the difference, in
        # the order of `CEILING_INTERVALS`.
        ends = (
            *lower_estimate.bounded_interval(measure.chance, lower_maximum),
            *upper_estimate.bounded_interval(measure.chance, upper_maximum),
            *difference.interval(),
        )
        return replace(
            result,
            p=difference.p_value(),
            effect=rank_biserial(values.value_on_ceiling_trials[:, model] - values.lower[:, model]),
            side=float(np.sign(difference.value)),
            statistics=statistics | dict(zip(CEILING_INTERVALS, ends, strict=True)),
        )

    def _compare_models(
        self, values: AnalysisValues, i: int, j: int, samples: dict[int, _Sample]
    ) -> InferenceResult:
        """Compare models i and j by a test of their difference and a test of equivalence.

        Parameters
        ----------
        values
            Value (for example, accuracy) and noise ceilings of each model for each participant.
        i, j
            Indices of the two models.
        samples
            Observations of each evaluated model, one per choice, by index of the model.

        Returns
        -------
        InferenceResult
            Result for model i minus model j. All numbers are missing (NaN) if no participant has
            values for both models.
        """
        # One difference per participant, NaN if one of the two values is not defined.
        differences = values.value[:, i] - values.value[:, j]
        n_participants = int((~np.isnan(differences)).sum())
        if i not in samples or j not in samples or not n_participants:
            return InferenceResult()
        estimate = samples[i].difference(samples[j], self.item_effects)
        low, high = estimate.interval()
        # Models are equivalent if their difference is smaller than this share of the range from
        # chance to the lower noise ceiling.
        lower_ceiling = mean_defined(np.minimum(values.lower[:, i], values.lower[:, j]))
        margin = self.equivalence * (lower_ceiling - values.measure.chance)
        note = TOO_FEW if np.isnan(estimate.stderr) else ""
        p_equivalence = estimate.p_equivalence(margin) if margin > 0 else np.nan
        if not margin > 0:  # The margin may be NaN.
            note = note or "no equivalence test: the lower noise ceiling is not above chance"
        statistics = {"stderr": estimate.stderr, "df": estimate.df}
        return InferenceResult(
            p=estimate.p_value(),
            effect=rank_biserial(differences),
            side=float(np.sign(estimate.value)),
            ci_low=low,
            ci_high=high,
            n_units=n_participants,
            test="crossed",
            note=note,
            statistics=statistics | {"margin": margin, "p_equivalence": p_equivalence},
        )


def add_pseudo_items(difference: MeanEstimate, n_items: int, max_advantage: float) -> MeanEstimate:
    """Adjust the difference in accuracy between a model and human judgements for rare items.

    The accuracy of a model is compared with the lower noise ceiling, the accuracy with which other
    participants predict a participant. A good model and other participants make the same
    predictions for most items, so a few items determine the difference, and the standard error is
    too small if a sample contains none of them. The adjustment adds two items, as in the adjusted
    Wald interval for matched proportions (Agresti and Min 2005, doi 10.1002/sim.1781). The model is
    better by D on one of them and worse by D on the other. With K items, mean difference m and
    standard error SE, the adjusted values are

        m' = K m / (K + 2),   SE'² = ((K SE)² + 2 D²) / (K + 2)².

    Parameters
    ----------
    difference
        Mean difference m, model minus ceiling, with its standard error SE.
    n_items
        Number of items K.
    max_advantage
        Largest possible advantage D of a model on an item. For accuracy it is 1/2: if the other
        participants are evenly divided, their prediction is at chance.

    Returns
    -------
    MeanEstimate
        Copy of `difference` with the adjusted value m' and standard error SE'.
    """
    # SE'² = ((K SE)² + 2 D²) / (K + 2)²; the advantages D and -D cancel in m' = K m / (K + 2).
    stderr = np.sqrt((n_items * difference.stderr) ** 2 + 2 * max_advantage**2) / (n_items + 2)
    value = difference.value * n_items / (n_items + 2)
    return replace(difference, value=value, stderr=float(stderr))


class _Sample:
    """Observations from which the mean value of a model, or of a noise ceiling, is estimated.

    There is one observation per choice: the value of the trial (such as 1 if the model predicts the
    choice), or a jackknife pseudo-value, see `Measure.trial_influence`.

    Parameters
    ----------
    subset
        R choices of several participants.
    observations
        One number per choice, shape (R,). NaN for the choices of a participant without a value.
    """

    def __init__(self, subset: Subset, observations: FloatArray) -> None:
        self.subset, self.observations = subset, observations
        self.is_defined = ~np.isnan(observations)
        # Participants with at least one defined observation, by their code in the study.
        defined = np.unique(subset.participant_index[self.is_defined])
        self.participants = subset.participants[defined]

    def estimate(
        self, measure: Measure, item_effects: str, is_upper: bool = False
    ) -> tuple[MeanEstimate, float]:
        """Return the mean of the observations and the largest possible mean, see `estimate_ratio`.

        Parameters
        ----------
        measure
            Measure of the observations, which defines chance and the largest possible value.
        item_effects
            ``random`` or ``fixed``.
        is_upper
            Whether the observations are of the upper noise ceiling, which has a different maximum.
        """
        if not self.is_defined.any():
            return MeanEstimate(np.nan, np.nan, np.nan), np.nan
        # The largest possible value depends on ties in the ratings, so it has observations as well.
        value_maximum, upper_maximum = measure.maximum_influence(self.subset)
        # Use only defined observations (not NaN), one per choice.
        observations = self.observations[self.is_defined]
        largest = (upper_maximum if is_upper else value_maximum)[self.is_defined]
        design = self.subset.design(self.is_defined)
        return design.estimate_ratio(observations, largest, measure.chance, item_effects)

    def mean_over(self, participants: IntArray) -> SampleMean:
        """Return the observations of some participants as a `SampleMean`.

        `participants` are the codes of these participants. Each of them must have a value.
        """
        is_included = np.isin(self.subset.participants, participants)
        # Select the observations of these participants that are not NaN, as a mask over choices.
        rows = self.is_defined & is_included[self.subset.participant_index]
        return SampleMean(self.subset.rows[rows], self.subset.design(rows), self.observations[rows])

    def difference(self, other: _Sample, item_effects: str) -> MeanEstimate:
        """Return the difference between two means over the same participants.

        Participants without a value in either of the two means are excluded from both. Otherwise,
        the difference would also contain differences between participants.

        Parameters
        ----------
        other
            Observations of the mean that is subtracted.
        item_effects
            ``random`` if the result is to generalise to new items, otherwise ``fixed``.
        """
        # A paired comparison needs participants with a value in both samples.
        participants = np.intersect1d(self.participants, other.participants)
        if not participants.size:
            return MeanEstimate(np.nan, np.nan, np.nan)
        means = [sample.mean_over(participants) for sample in (self, other)]
        return Contrast.from_means(means, self.subset.data.design).estimate(item_effects)


def _collect_samples(subsets: Iterable[Subset], measure: Measure) -> dict[int, _Sample]:
    """Collect the observations from which the mean value of each model is estimated.

    Parameters
    ----------
    subsets
        Choices of an analysis. Each subset belongs to the models that are evaluated on the same
        trials.
    measure
        Measure of the values, for example accuracy.

    Returns
    -------
    dict
        Observations, one per choice, by the index of the model. Models without trials are left out.
    """
    samples = {}
    # All models of a subset are evaluated on the same choices.
    for subset in (s for s in subsets if s.n_rows):
        for model in subset.models:
            predictions = subset.data.log_ratio[subset.pair, model]
            # One number per choice. Their mean over a participant is the value of the model for the
            # participant; for accuracy, the numbers are 1 for correct predictions and 0 otherwise.
            samples[int(model)] = _Sample(subset, measure.trial_influence(subset, predictions))
    return samples
