"""What a set of sentence pairs will show: which of many models is right, by simulated people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import expit

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.simulate import exact_interval
from contstim.display import displayed, html_of
from contstim.errors import InputError, require_known, require_whole
from contstim.evaluation.items import canonical_trials
from contstim.progress import track
from contstim.response_model import People, log_bayes_factors, log_ratio_scale
from contstim.trial_kinds import EXPERIMENTAL

#: By what the best model is told: its log score (log-probability of the answers), or its accuracy.
DECISIONS = ("log-score", "accuracy")

_MOST_ANSWERS = 4 * 10**8
_CHUNK = 4 * 10**6  # answers simulated at a time


@displayed
@dataclass(frozen=True, eq=False)
class Recovery:
    """What designs will show.

    Attributes
    ----------
    curve
        One row a design and number of participants: `design`, `n_participants`, `n_trials` (of all
        together), `recovery` (share of studies in which the right model comes out best) with its
        exact 95 % interval `low`, `high`, `least_model` and `least_recovery` (the model that is
        recovered least often).
    needed
        One row a design: the numbers `n_participants` and `n_trials` from which on recovery
        is at the target, and `low`, `high`: the numbers of trials at which the upper and lower end
        of the interval are; missing where the most participants tried do not suffice.
    model_pairs
        One row a design and two models: `separated` (share of pairs that they order oppositely) and
        `log_bayes_factor` (expected of one answer, nats).
    target
        The share of studies that is asked for.

    Examples
    --------
    >>> from contstim import datasets
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> result = recovery({"random": 10}, scores, n_studies=100)
    >>> result.needed.columns.tolist()
    ['design', 'n_participants', 'n_trials', 'low', 'high']
    """

    curve: pd.DataFrame
    needed: pd.DataFrame
    model_pairs: pd.DataFrame
    target: float

    def __str__(self) -> str:
        lines = []
        for need in self.needed.to_dict("records"):
            pairs = self.model_pairs[self.model_pairs["design"] == need["design"]]
            least = pairs.loc[pairs["log_bayes_factor"].idxmin()]
            verdict = f"the right model comes out first in {self.target:.0%} of simulated studies"
            if pd.isna(need["n_trials"]):
                verdict += " with none of the numbers tried"
            else:
                people = need["n_participants"]
                high = "more than tried" if pd.isna(need["high"]) else need["high"]
                verdict += (
                    f" from {need['n_trials']} trials of {people} participant{'s' * (people > 1)} "
                    f"on ({need['low']} to {high} by the error of simulation), significantly or not"
                )
            lines.append(
                f"{need['design']}: {verdict}; hardest to tell apart: {least['model_1']} and "
                f"{least['model_2']}, {least['log_bayes_factor']:.4f} nats per answer"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what it says, drawn, and its tables, which notebooks show."""
        from contstim.design.figures import recovery_figure  # figures take a second to load
        from contstim.drawing import sheet, svg_text

        axes = sheet(1 + self.curve["design"].nunique())
        recovery_figure(self.curve, self.model_pairs, self.target, axes)
        return html_of(self, drawing=svg_text(axes[0]))


@dataclass(frozen=True, eq=False)
class _DesignPairs:
    """Rows of K sentence pairs in the scores, shape (K, 2); or `n_random` random ones a study.

    Those are of the rows `usable` of the scores.
    """

    name: str
    pairs: IntArray
    n_random: int
    usable: IntArray


def recovery(
    designs: Mapping[str, pd.DataFrame | int],
    log_probs: pd.DataFrame,
    people: People | None = None,
    *,
    n_participants: int = 100,
    trials_each: int = 20,
    n_studies: int = 2000,
    decision: str = "log-score",
    target: float = 0.95,
    seed: int = 0,
) -> Recovery:
    """Simulate studies of each design, with each model right in turn, and say how many name it.

    A study goes through a design's pairs in random order, `trials_each` a participant, and begins
    again when all are used; each participant has a slope and a leaning of their own, each pair an
    effect of its own, sides are random. After each participant the model that is best on all
    answers so far is named.

    Parameters
    ----------
    designs
        By name, sentence pairs with the columns ``sentence_1`` and ``sentence_2`` (labels of
        `log_probs`), or a number: so many random pairs, others in every study.
    log_probs
        Log-probabilities, shape (S, M): a row per sentence, a column per model. Standard deviations
        are over these sentences, and random pairs are of them.
    people
        How people answer; by default `People()`.
    n_participants
        Studies are of 1 up to so many participants.
    trials_each
        Trials of each participant.
    n_studies
        Studies simulated; models are right equally often, one more or less.
    decision
        One of `DECISIONS`. The log score of a model is the sum of log P(answer), with persons and
        pairs averaged over; models that come out equal share the study.
    target
        Of recovery.
    seed
        Of all that is random.

    Raises
    ------
    InputError
        If pairs have no finite scores, numbers make no sense, or there is only one model.

    Notes
    -----
    How often the generating model is recovered is a standard check of designs for choosing between
    models (Wilson and Collins 2019, doi 10.7554/eLife.49547); people are those of
    `contstim.response_model.People`. Where two models give every pair the same preference, they
    share their studies, and recovery cannot pass the share of the others.

    Examples
    --------
    >>> from contstim import datasets, select_set
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt", "contstim:rnn"]]
    >>> pairs = select_set(scores[:60], n=10, time_limit=5)
    >>> result = recovery({"chosen": pairs, "random": 10}, scores, n_studies=200)
    >>> result.curve.query("n_participants == 100")[["design", "recovery"]]
         design  recovery
    99   chosen     0.765
    199  random     0.570
    """
    people = people or People()
    require_known("decision", decision, DECISIONS)
    _check_numbers(n_participants, trials_each, n_studies, target)
    _check_scores(log_probs)
    if not designs:
        raise InputError("no design is given; name one or more")
    models = [str(name) for name in log_probs.columns]
    values = log_probs.to_numpy(dtype=np.float64, na_value=np.nan)
    scaled = values / log_ratio_scale(values, models)
    usable = np.flatnonzero(np.isfinite(values).all(axis=1))
    place = pd.Series(np.arange(len(values)), index=[str(label) for label in log_probs.index])
    made = [_design(name, given, place, usable) for name, given in designs.items()]
    rngs = [np.random.default_rng([seed, number]) for number in range(len(made))]
    studies = np.arange(n_studies) % len(models)
    parts = np.array_split(studies, -(-n_studies * n_participants * trials_each // _CHUNK))
    right = np.zeros((len(made), len(models), n_participants))
    parts_of_designs = [(number, part) for number in range(len(made)) for part in parts]
    for number, part in track(parts_of_designs, len(parts_of_designs), "simulating studies"):
        sizes = n_participants, trials_each
        named = _studies(made[number], scaled, part, people, *sizes, decision, rngs[number])
        np.add.at(right[number], part, named)
    curves, needed, model_pairs = [], [], []
    for design, rng, named in zip(made, rngs, right, strict=True):
        n_each = np.bincount(studies, minlength=len(models))
        curves.append(_curve(design.name, models, named, n_each, trials_each))
        needed.append(_needed(curves[-1], target))
        model_pairs.append(_model_pairs(design, scaled, models, people, rng))
    return Recovery(
        pd.concat(curves, ignore_index=True),
        pd.DataFrame(needed).astype(dict.fromkeys(("n_participants", *_ENDS), "Int64")),
        pd.concat(model_pairs, ignore_index=True),
        target,
    )


_ENDS = ("n_trials", "low", "high")


def _check_numbers(n_participants: int, trials_each: int, n_studies: int, target: float) -> None:
    numbers = {"n_participants": n_participants, "trials_each": trials_each, "n_studies": n_studies}
    for name, value in numbers.items():
        require_whole(name, value, 1)
    if not 0 < target < 1:
        raise InputError(f"target is {target}; give a share between 0 and 1")
    if n_participants * trials_each * n_studies > _MOST_ANSWERS:
        raise InputError(
            f"{n_studies} studies of {n_participants} participants with {trials_each} trials are "
            f"more than {_MOST_ANSWERS} answers; ask for fewer"
        )


def _check_scores(log_probs: pd.DataFrame) -> None:
    if log_probs.shape[1] < 2:
        raise InputError(
            f"{log_probs.shape[1]} model cannot be compared with others; give two or more"
        )
    twice = log_probs.index[log_probs.index.astype(str).duplicated()]
    if len(twice):
        raise InputError(f"{str(twice[0])!r} has two rows of scores; keep one")


def _design(
    name: str, given: pd.DataFrame | int, place: pd.Series[int], usable: IntArray
) -> _DesignPairs:
    if not isinstance(given, pd.DataFrame):
        if not 1 <= given <= len(usable) // 2:
            raise InputError(
                f"{given} random pairs are asked for, {len(usable)} sentences with finite scores "
                f"make 1 to {len(usable) // 2}"
            )
        return _DesignPairs(name, np.empty((0, 2), dtype=np.int64), given, usable)
    columns = []
    for column in ("sentence_1", "sentence_2"):
        if column not in given:
            raise InputError(f"design {name} has no column {column!r}; give pairs of sentences")
    given = canonical_trials(given)
    given = given[given["kind"] == EXPERIMENTAL]
    for column in ("sentence_1", "sentence_2"):
        columns.append(place.reindex(given[column].astype(str)).to_numpy(na_value=-1))
    pairs = np.column_stack(columns).astype(np.int64)
    missing = ~np.isin(pairs, usable)
    if missing.any():
        pair, side = (int(k) for k in np.argwhere(missing)[0])
        sentence = str(given[f"sentence_{side + 1}"].iloc[pair])
        raise InputError(
            f"design {name}: sentence {sentence!r} has no finite score under every model; score it "
            "or leave its pair out"
        )
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        sentence = str(given["sentence_1"].iloc[same[0]])
        raise InputError(f"design {name} pairs {sentence!r} with itself; leave such pairs out")
    # A pair is the same whichever of its sentences is named first.
    once = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)[1]
    distinct = np.unique(pairs[once], axis=0)
    if not len(distinct):
        raise InputError(f"design {name} has no pair; give some")
    return _DesignPairs(name, distinct, 0, usable)


def _studies(
    design: _DesignPairs,
    scaled: FloatArray,
    right: IntArray,
    people: People,
    n_participants: int,
    trials_each: int,
    decision: str,
    rng: np.random.Generator,
) -> FloatArray:
    """Simulate studies with the models `right`, one each.

    Returns
    -------
    array
        For each study and number of participants 1 over the number of best models if the right one
        is among them, else 0; shape (studies, n_participants).
    """
    n, k = len(right), design.n_random or len(design.pairs)
    total = n_participants * trials_each
    if design.n_random:
        drawn = np.stack([rng.choice(design.usable, 2 * k, replace=False) for _ in range(n)])
        differences = scaled[drawn[:, k:]] - scaled[drawn[:, :k]]  # studies, pairs, models
    else:
        left, right_side = design.pairs.T
        differences = (scaled[right_side] - scaled[left])[None]
    probabilities = people.probabilities(differences)
    which = np.arange(n) if design.n_random else np.zeros(n, dtype=np.int64)
    preferences = people.preferences(differences)[which, :, right]  # studies, pairs
    order = np.argsort(rng.random((n, k)), axis=1)
    order = np.tile(order, (1, -(-total // k)))[:, :total]
    person = np.repeat(np.arange(n_participants), trials_each)
    slopes = people.slope * np.exp(people.slope_sd * rng.normal(size=(n, n_participants)))
    sides = people.side_sd * rng.normal(size=(n, n_participants))
    items = people.item_sd * rng.normal(size=(n, k))
    logits = slopes[:, person] * np.take_along_axis(preferences, order, axis=1)
    logits += sides[:, person] * rng.choice([-1.0, 1.0], size=(n, total))
    logits += np.take_along_axis(items, order, axis=1)
    second = rng.random((n, total)) < people.lapse / 2 + (1 - people.lapse) * expit(logits)
    best = np.full((n, n_participants), -np.inf)
    count = np.zeros((n, n_participants))
    is_best = np.zeros((n, n_participants), dtype=bool)
    for model in range(scaled.shape[1]):
        chosen = probabilities[which, :, model] if design.n_random else probabilities[:, :, model]
        score = _scores(chosen, order, second, decision).reshape(n, n_participants, trials_each)
        sums = np.round(score.sum(axis=2).cumsum(axis=1), 9)  # sums of the same terms are equal
        is_right = (right == model)[:, None]
        better, equal = sums > best, sums == best
        count = np.where(better, 1, count + equal)
        is_best = np.where(better, is_right, is_best | (equal & is_right))
        best = np.maximum(best, sums)
    return np.asarray(is_best / count)


def _scores(
    probabilities: FloatArray, order: IntArray, second: BoolArray, decision: str
) -> FloatArray:
    """Return a model's score of each answer, shape (studies, trials)."""
    if decision == "log-score":
        yes, no = np.log(probabilities), np.log1p(-probabilities)
    else:  # no preference is right half the time
        yes = np.heaviside(np.round(probabilities - 0.5, 12), 0.5)
        no = 1 - yes
    if len(probabilities) == 1:
        yes, no = yes[0][order], no[0][order]
    else:
        yes, no = (np.take_along_axis(values, order, axis=1) for values in (yes, no))
    return np.asarray(np.where(second, yes, no))


def _curve(
    name: str, models: list[str], right: FloatArray, studies: IntArray, trials_each: int
) -> pd.DataFrame:
    """Return how many studies name the right model; `right` is (models, participants)."""
    total, n = right.sum(axis=0), int(studies.sum())
    shares = right / np.maximum(studies, 1)[:, None]
    least = np.argmin(np.where(studies[:, None] > 0, shares, np.inf), axis=0)
    ends = np.array([exact_interval(hits, n) for hits in total])
    people = np.arange(1, len(total) + 1)
    return pd.DataFrame(
        {
            "design": name,
            "n_participants": people,
            "n_trials": trials_each * people,
            "recovery": total / n,
            "low": ends[:, 0],
            "high": ends[:, 1],
            "least_model": [models[i] for i in least],
            "least_recovery": shares[least, people - 1],
        }
    )


def _needed(curve: pd.DataFrame, target: float) -> dict[str, object]:
    """Return from where on a curve stays at the target."""
    needed: dict[str, object] = {"design": curve["design"].iloc[0]}
    for column, end in zip(("recovery", "high", "low"), _ENDS, strict=True):
        below = np.flatnonzero(curve[column] < target)
        rest = curve.iloc[int(below.max(initial=-1)) + 1 :]
        if end == "n_trials":
            needed["n_participants"] = None if rest.empty else rest["n_participants"].iloc[0]
        needed[end] = None if rest.empty else rest["n_trials"].iloc[0]
    return needed


def _model_pairs(
    design: _DesignPairs,
    scaled: FloatArray,
    models: list[str],
    people: People,
    rng: np.random.Generator,
) -> pd.DataFrame:
    pairs = design.pairs
    if design.n_random:  # many studies' pairs, so that the means are those of all
        half = min(20_000, len(design.usable) // 2)
        pairs = rng.choice(design.usable, 2 * half, replace=False).reshape(half, 2)
    differences = scaled[pairs[:, 1]] - scaled[pairs[:, 0]]
    factors = log_bayes_factors(people.probabilities(differences)).mean(axis=0)
    i, j = np.transpose(list(combinations(range(len(models)), 2)))
    return pd.DataFrame(
        {
            "design": design.name,
            "model_1": [models[k] for k in i],
            "model_2": [models[k] for k in j],
            "separated": (differences[:, i] * differences[:, j] < 0).mean(axis=0),
            "log_bayes_factor": factors,
        }
    )
