"""Simulated studies of any size: what their people say of each model, for the tests of `evaluate`.

People come from one of three places: in `TrialStudies` they judge trials that are laid out, in
`StatedStudies` pairs on which two models differ by a stated accuracy, and `PilotStudies` are like
a study at hand, by its means and its variances over people and items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.simulate import (
    Simulation,
    answers,
    felt_by_people,
    latent_preferences,
    require_pairs,
)
from contstim.display import displayed
from contstim.errors import InputError, require_known, require_whole
from contstim.evaluation.inference.quasi_f import MIN_PARTICIPANTS, MIN_UNITS
from contstim.evaluation.items import canonical_trials, item_codes
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.scores import (
    ScoreSource,
    as_source,
    log_ratios,
    score_table,
    unscored_catch,
)
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData, default_analyses, select
from contstim.models.registry import Models
from contstim.trial_kinds import EXPERIMENTAL

#: People like those of the second experiment of Golan et al. (2023), in units of the noise of an
#: answer: `People` in logits over the standard deviation of a logistic variable, 1.81.
FITTED = Simulation(slope_sd=0.47, item_sd=0.75, lapse=0.011)

#: Of a study.
MOST_ANSWERS = 10**7


@dataclass(frozen=True)
class StudySize:
    """How many people judge how many pairs.

    Attributes
    ----------
    groups
        Of people; each group judges pairs of its own.
    people
        In each group.
    pairs
        That each of them judges.
    """

    groups: int
    people: int
    pairs: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_whole(name, value, 1)
        if self.answers > MOST_ANSWERS:
            raise InputError(
                f"{self.groups} groups of {self.people} participants with {self.pairs} pairs each "
                f"are more than {MOST_ANSWERS} answers a study; ask for fewer"
            )

    @property
    def answers(self) -> int:
        """C, how many answers they give."""
        return self.groups * self.people * self.pairs

    @property
    def person(self) -> IntArray:
        """The participant of each of C answers, group after group."""
        return np.repeat(np.arange(self.groups * self.people), self.pairs)

    @property
    def place(self) -> IntArray:
        """The pair of each answer, numbered on over the groups."""
        of_group = np.arange(self.groups)[:, None, None] * self.pairs + np.arange(self.pairs)
        shape = (self.groups, self.people, self.pairs)
        return np.broadcast_to(of_group, shape).reshape(-1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is tested in n simulated studies of one size.

    Attributes
    ----------
    person
        The participant of each of C answers.
    item
        The item of each, in each study, shape (n, C).
    cells
        By analysis and measure, what each answer says of each model (`Measure.cells`), shape
        (M, n, C); NaN where it says nothing.
    """

    person: IntArray
    item: IntArray
    cells: list[tuple[str, Measure, FloatArray]]


class Studies(ABC):
    """Studies of any size, simulated.

    Attributes
    ----------
    models
        The M models that are compared, each two of them.
    """

    models: tuple[str, ...]

    @abstractmethod
    def draw(self, size: StudySize, n: int, rng: np.random.Generator) -> Drawn:
        """Simulate n studies of a size; InputError if they cannot be so large."""


@dataclass(frozen=True, eq=False)
class _Judged:
    """The pairs of n studies: K of all groups together, as people judge them.

    Attributes
    ----------
    pair, item
        Codes of pair and item in each study, shape (n, K).
    latent
        People's preference for sentence 2, shape (n, K).
    ratios
        Log-ratios of M models, shape (n, K, M).
    """

    pair: IntArray
    item: IntArray
    latent: FloatArray
    ratios: FloatArray

    def drawn(
        self,
        size: StudySize,
        people: Simulation,
        measures: Sequence[str],
        analyses: Sequence[tuple[str, BoolArray | None]],
        rng: np.random.Generator,
    ) -> Drawn:
        """Let people answer; an analysis has which pairs count for which model, (n, K, M)."""
        (n, k), m = self.pair.shape, self.ratios.shape[2]
        person, place = size.person, size.place
        study = np.arange(n)[:, None]
        felt = felt_by_people(
            self.latent[:, place],
            person + study * (size.groups * size.people),
            (self.pair + study * (int(self.pair.max()) + 1))[:, place],
            (self.item + study * (int(self.item.max()) + 1))[:, place],
            people,
            rng,
        )
        data = TrialData(
            participants=pd.RangeIndex(n * size.groups * size.people),
            groups=pd.RangeIndex(1),
            group_of=np.zeros(n * size.groups * size.people, dtype=np.int64),
            participant=(person + study * (size.groups * size.people)).ravel(),
            pair=(place + study * k).ravel(),
            rating=answers(felt, people, rng).ravel(),
            pairs=pd.DataFrame(index=range(n * k)),
            models=tuple(str(i) for i in range(m)),
            log_ratio=self.ratios.reshape(n * k, m),
        )
        every = Subset(data, np.arange(len(data.pair)), np.arange(m))
        cells = []
        for name, counts in analyses:
            subsets = [every] * m
            if counts is not None:
                rows = counts[:, place].reshape(-1, m).T
                subsets = [Subset(data, np.flatnonzero(r), np.arange(m)) for r in rows]
            for measure in (MEASURES[given] for given in measures):
                of_measure = np.full((m, len(data.pair)), np.nan)
                for model, subset in enumerate(subsets):
                    if subset.n_rows:
                        ratio = data.log_ratio[subset.pair, model]
                        of_measure[model, subset.rows] = measure.trial_influence(subset, ratio)
                cells.append((name, measure, of_measure.reshape(m, n, -1)))
        return Drawn(person, _numbered(self.item)[:, place], cells)


_MEASURES = EvaluationOptions().measures


@displayed
@dataclass(frozen=True, eq=False)
class TrialStudies(Studies):
    """Simulated people who judge trials that are laid out.

    Each group judges its own pairs, or where there are no groups any. Where fewer are asked for
    than there are, every study draws others: whole items, the last of them in part.

    Attributes
    ----------
    models
        Those compared.
    members
        The pairs of each group, or all in one.
    item, latent, ratios
        Of all P pairs: the item's code, people's preference for sentence 2, and the models'
        log-ratios, shapes (P,), (P,) and (P, M).
    analyses
        As `evaluate` chooses them: a name, and which pairs count for which model, (P, M).
    people
        How they answer.
    measures
        By name.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.design import power
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> trials = choices[["sentence_1", "sentence_2"]].drop_duplicates()
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> people = Simulation.of("contstim:gpt")
    >>> studies = TrialStudies.of(trials, scores, tuple(scores), people, ("accuracy",))
    >>> power(studies, (5, 10), n_trials=(10,), n_simulations=100)[["n_participants", "power"]]
       n_participants  power
    0               5   0.73
    1              10   0.98
    """

    models: tuple[str, ...]
    members: list[IntArray]
    item: IntArray
    latent: FloatArray
    ratios: FloatArray
    analyses: list[tuple[str, BoolArray | None]]
    people: Simulation
    measures: tuple[str, ...]

    @classmethod
    def of(
        cls,
        design: pd.DataFrame,
        scores: ScoreSource | Models,
        models: Sequence[str],
        people: Simulation,
        measures: Sequence[str] = _MEASURES,
    ) -> TrialStudies:
        """Take the trials of a design.

        Parameters
        ----------
        design
            One row a pair: `sentence_1`, `sentence_2`, and where there are such `group`, `item`,
            `condition`, `model_1`, `model_2`. Catch trials and fillers are left out.
        scores
            As in `evaluate`, of the models compared and of those that people follow.
        models
            The models compared, two or more.
        people
            How people answer; without weights nobody follows a model, and power is the rate of
            false alarms.
        measures
            As in `evaluate`.

        Raises
        ------
        InputError
            If the design or the scores cannot be used.
        """
        require_pairs(design)
        scores = as_source(scores)
        design = canonical_trials(design)
        design = design[~unscored_catch(design, scores)].reset_index(drop=True)
        for name, value in (("condition", "all"), ("model_1", None), ("model_2", None)):
            if name not in design:
                design = design.assign(**{name: value})
        counted = design[design["kind"] == EXPERIMENTAL]
        if counted.empty:
            raise InputError("the design has only catch trials or fillers; give other trials")
        keys = ["sentence_1", "sentence_2"]
        pairs = counted.drop_duplicates(keys).reset_index(drop=True)
        wide = score_table(scores, [*pairs["sentence_1"], *pairs["sentence_2"]])
        names = [str(column) for column in wide.columns]
        for name in models:
            require_known("model", name, names)
        for name in measures:
            require_known("measure", name, MEASURES)
        if len(set(models)) < 2:
            raise InputError(f"{len(set(models))} model cannot be compared; give two or more")
        ratios = log_ratios(wide, pairs)
        place = pd.MultiIndex.from_frame(pairs[keys])
        groups = counted["group"] if "group" in counted else pd.Series(0, counted.index)
        members = [
            np.unique(place.get_indexer(pd.MultiIndex.from_frame(rows)))
            for _, rows in counted[keys].groupby(groups.to_numpy(), sort=False)
        ]
        analyses: list[tuple[str, BoolArray | None]] = []
        for analysis in default_analyses(pairs):
            counts = select(analysis, pairs, models)
            analyses.append((analysis.name, None if counts.all() else counts))
        return cls(
            models=tuple(models),
            members=members,
            item=item_codes(pairs),
            latent=latent_preferences(ratios, names, people),
            ratios=ratios[:, [names.index(name) for name in models]],
            analyses=analyses,
            people=people,
            measures=tuple(measures),
        )

    def most_pairs(self, groups: int) -> int:
        """Return how many pairs each of so many groups can have."""
        return min(len(pairs) for pairs in self._groups(groups))

    def _groups(self, groups: int) -> list[IntArray]:
        if len(self.members) == 1:
            return self.members * groups
        if groups > len(self.members):
            raise InputError(f"{groups} groups are asked for, the design has {len(self.members)}")
        return self.members[:groups]

    def draw(self, size: StudySize, n: int, rng: np.random.Generator) -> Drawn:
        """Draw the pairs of n studies and let people judge them."""
        chosen = []
        for pairs in self._groups(size.groups):
            if size.pairs > len(pairs):
                raise InputError(
                    f"{size.pairs} trials per group are asked for and a group has {len(pairs)} "
                    "pairs; ask for fewer"
                )
            if size.pairs == len(pairs):
                chosen.append(np.tile(pairs, (n, 1)))
                continue
            order = rng.random((n, int(self.item.max()) + 1))[:, self.item[pairs]]
            chosen.append(pairs[np.argsort(order, axis=1, kind="stable")[:, : size.pairs]])
        pair = np.concatenate(chosen, axis=1)
        judged = _Judged(pair, self.item[pair], self.latent[pair], self.ratios[pair])
        analyses = [(name, None if x is None else x[pair]) for name, x in self.analyses]
        return judged.drawn(size, self.people, self.measures, analyses, rng)


@displayed
@dataclass(frozen=True, eq=False)
class StatedStudies(Studies):
    """People who judge pairs on which two models disagree, with a stated difference of accuracy.

    Every pair is one on which the models prefer different sentences, so that accuracies of .5 + d /
    2 and .5 - d / 2 differ by d; people prefer the first model's sentence, some more strongly than
    others, and each pair and item has an effect of its own. How sure the models are is left to
    chance.

    Attributes
    ----------
    difference
        d, from 0.
    people
        How they answer, beside `FITTED`; preferences are in units of the noise.
    kin
        Pairs of one item.
    measures
        By name.

    Examples
    --------
    >>> from contstim.design import power
    >>> power(StatedStudies(0.3), n_participants=(20,), n_simulations=100)[["measure", "power"]]
                  measure  power
    0            accuracy   0.89
    1  signed_rank_cosine   0.88
    """

    difference: float
    people: Simulation = FITTED
    kin: int = 1
    measures: tuple[str, ...] = _MEASURES
    models: tuple[str, ...] = field(default=("first", "second"), init=False)

    def __post_init__(self) -> None:
        require_whole("kin", self.kin, 1)
        if not 0 <= self.difference < self.most:
            raise InputError(
                f"difference is {self.difference}; give one from 0 to below {self.most:.3g}, which "
                "people with these lapses can show"
            )

    @property
    def most(self) -> float:
        """The difference that such people can all but show."""
        return self._accuracy(1e3) * 2 - 1

    def _accuracy(self, strength: float) -> float:
        """Return how often people choose the first model's sentence."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(64)
        steep = strength * np.exp(self.people.slope_sd * nodes)
        spread = max(float(np.hypot(self.people.noise, self.people.item_sd)), 1e-9)
        chosen = float(ndtr(steep / spread) @ weights / weights.sum())
        return self.people.lapse / 2 + (1 - self.people.lapse) * chosen

    @cached_property
    def strength(self) -> float:
        """People's preference that gives the difference, in units of the noise."""
        if self.difference == 0:
            return 0.0
        wanted = (1 + self.difference) / 2
        return float(brentq(lambda x: self._accuracy(x) - wanted, 0.0, 1e3))

    def draw(self, size: StudySize, n: int, rng: np.random.Generator) -> Drawn:
        """Draw models of n studies and let people judge."""
        k = size.groups * size.pairs
        sure = np.abs(rng.normal(size=(n, k, 2)))
        number = np.arange(k)
        item = number // size.pairs * size.pairs + number % size.pairs // self.kin
        judged = _Judged(
            np.tile(number, (n, 1)),
            np.tile(item, (n, 1)),
            np.full((n, k), self.strength),
            sure * [1.0, -1.0],
        )
        return judged.drawn(size, self.people, self.measures, [("all", None)], rng)


@displayed
@dataclass(frozen=True, eq=False)
class PilotStudies(Studies):
    """Studies like one at hand: its means, and the variances that its standard errors rest on.

    What an answer says of each model by each measure (`Measure.cells`) is drawn as the mean and
    normal effects of person, item, and both, whose variances and covariances are those of the
    study at hand (`CellDesign.components`). All of it is as uncertain as that study is small.

    Attributes
    ----------
    models
        Those compared.
    measures
        By name, D / M of them.
    mean
        Of the cells of each measure and model, shape (D,).
    effects
        Of people, items and blocks, shape (3, D, D).
    kin
        Pairs of one item that a person judges.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> from contstim.design import power
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> pilot = PilotStudies.of(evaluate(choices, scores).data, ("accuracy",))
    >>> power(pilot, n_participants=(5, 40), n_simulations=100)[["n_participants", "power"]]
       n_participants  power
    0               5   0.98
    1              40   1.00
    """

    models: tuple[str, ...]
    measures: tuple[str, ...]
    mean: FloatArray
    effects: FloatArray
    kin: float

    @classmethod
    def of(cls, data: TrialData, measures: Sequence[str] = _MEASURES) -> PilotStudies:
        """Take a study at hand (`Evaluation.data`), without its catch trials and fillers.

        Raises
        ------
        InputError
            If it has fewer than two models, four people or three items.
        """
        if len(data.models) < 2:
            raise InputError(f"{len(data.models)} model cannot be compared; give two or more")
        asked = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()
        subset = Subset.of_pairs(data, asked, np.arange(len(data.models)))
        cells = np.stack(
            [
                MEASURES[name].trial_influence(subset, data.log_ratio[subset.pair, model])
                for name in measures
                for model in range(len(data.models))
            ]
        )
        there = np.asarray(np.isfinite(cells).all(axis=0), dtype=np.bool_)
        design = subset.design(there)
        people, items = design.sizes if there.any() else (0.0, 0.0)
        if people < MIN_PARTICIPANTS - 1e-9 or items < MIN_UNITS - 1e-9:
            raise InputError(
                f"the pilot has {people:.3g} people and {items:.3g} items (counted by weight), "
                f"which say nothing of others; it takes {MIN_PARTICIPANTS} and {MIN_UNITS}"
            )
        return cls(
            models=data.models,
            measures=tuple(measures),
            mean=design.average(cells[:, there]),
            effects=design.components(cells[:, there]),
            kin=len(design.person) / len(np.unique([design.person, design.item], axis=1).T),
        )

    def draw(self, size: StudySize, n: int, rng: np.random.Generator) -> Drawn:
        """Draw the effects of n studies."""
        size = replace(size, pairs=max(round(size.pairs / self.kin), 1))
        person, place = size.person, size.place
        sizes = (size.groups * size.people, size.groups * size.pairs, len(person))
        values, vectors = np.linalg.eigh(self.effects)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        of_person, of_item, of_both = (
            np.einsum("de,enc->dnc", root, rng.normal(size=(len(root), n, count)))
            for root, count in zip(roots, sizes, strict=True)
        )
        cells = self.mean[:, None, None] + of_person[:, :, person] + of_item[:, :, place] + of_both
        by_measure = cells.reshape(len(self.measures), len(self.models), n, -1)
        return Drawn(
            person,
            np.tile(place, (n, 1)),
            [
                ("all", MEASURES[name], cells)
                for name, cells in zip(self.measures, by_measure, strict=True)
            ],
        )


def _numbered(item: IntArray) -> IntArray:
    """Return the items of each study, (n, K), numbered by first appearance."""
    ordered = np.sort(item, axis=1)
    if (ordered[:, 1:] != ordered[:, :-1]).all():
        return np.broadcast_to(np.arange(item.shape[1]), item.shape)
    return np.array([pd.factorize(row)[0] for row in item], dtype=np.int64)
