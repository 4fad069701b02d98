"""Simulated choices and statistical power for `contstim design`, imported when a command runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from contstim.cli.common import print_message
from contstim.cli.evaluate import ChoiceFormat
from contstim.design.power import power_curve, required_sample_size
from contstim.design.simulate import Simulation, require_pairs, simulate_choices
from contstim.design.studies import GOLAN2023_PARTICIPANTS, StudySimulator
from contstim.errors import InputError
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.exclusion import exclude_unknown_words
from contstim.evaluation.scores import model_scores
from contstim.evaluation.summary import describe_disagreement
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model, load_models
from contstim.selection.scores import read_scores
from contstim.tables import read_table


def load_models_to_follow(
    follow: Sequence[str],
) -> tuple[dict[str, SentenceModel], tuple[tuple[str, float], ...]]:
    """Load the models that determine the choices of simulated participants.

    Parameters
    ----------
    follow
        Models whose weighted mixture determines the choices. Each entry is a model specification
        string (for example ``hf:gpt2``), optionally followed by ``=`` and a weight.

    Returns
    -------
    models : dict
        Mapping from name to model.
    weights : tuple of (str, float)
        Name of each model and its weight in the mixture.
    """
    specs_and_weights = [parse_weight(text) for text in follow]
    models = [load_model(spec) for spec, _ in specs_and_weights]
    names = [model.name for model in models]
    weights = tuple(zip(names, (weight for _, weight in specs_and_weights), strict=True))
    distinct_models = load_models(models) if models else []
    return {model.name: model for model in distinct_models}, weights


def parse_weight(text: str, names: Sequence[str] | None = None) -> tuple[str, float]:
    """Split a value of the option ``--follow`` into a model and its weight, 1 by default.

    Parameters
    ----------
    text
        Model specification string or name of a model, optionally followed by ``=`` and a weight.
    names
        Names of models, if these are given instead of specifications.

    Returns
    -------
    spec : str
        Specification or name of the model.
    weight : float
        Weight of the model in the mixture that determines the choices.

    Raises
    ------
    InputError
        If the weight is not a positive number.
    """
    spec, _, number = text.rpartition("=")
    # Options of the specification also contain "=", so a weight is a number after the last "=".
    try:
        weight = float(number)
        if names is None:
            ModelSpec.parse(spec)
    except ValueError:  # no number, or the value of the last option of the spec
        return text, 1.0
    # The text is the name of a model, which may itself end with "=" and a number.
    if names is not None and text in names:
        return text, 1.0
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight {number} of --follow {text!r} is not a number above 0")
    return spec, weight


def simulate_participants(
    trials: str, follow: Sequence[str], options: dict[str, Any], seed: int
) -> pd.DataFrame:
    """Simulate the choices of participants, based on the probabilities of given models.

    Parameters
    ----------
    trials
        Path of the table of trials.
    follow
        Models whose weighted mixture determines the choices. Each entry is a model specification
        string (for example ``hf:gpt2``), optionally followed by ``=`` and a weight.
    options
        Parameters of the simulated participants, such as ``slope_sd`` and ``lapse``, by the name of
        the field of `Simulation`.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        Table of choices, one row per trial.
    """
    models, weights = load_models_to_follow(follow)
    table = read_table(trials, cells="text")
    return simulate_choices(table, models or None, Simulation(weights, **options), seed=seed)


def simulate_difference(difference: float, effects: dict[str, Any]) -> StudySimulator:
    """Create a simulator of studies in which two models differ in accuracy by `difference`.

    Participants have the parameters of the published study by Golan et al. (2023), except for those
    in `effects`, a mapping from field of `Simulation` to value.
    """
    simulation = replace(GOLAN2023_PARTICIPANTS, **effects)
    return StudySimulator.from_difference(difference, simulation)


def build_pilot_simulator(
    choice_format: ChoiceFormat,
    choices_path: str,
    questions_path: str | None,
    model_specs: Sequence[str],
    scores_path: str | None,
) -> StudySimulator:
    """Create a simulator of studies like a pilot study, and report the effects of the pilot.

    Parameters
    ----------
    choice_format
        Format of the choices.
    choices_path
        Path of the choices of the participants in the pilot study.
    questions_path
        Path of the sentences of each question, for Qualtrics.
    model_specs
        Specifications of the models to compare; empty if `scores_path` is given.
    scores_path
        Path of a table with the log-probabilities of the sentences under the models to compare.
    """
    pilot = choice_format.read([choices_path], questions_path)
    # Get the log-probabilities of the sentences from models, or from a table.
    if model_specs:
        models = load_models(model_specs)
        pilot = exclude_unknown_words(pilot, [m for m in models if m.event.unknown == "error"])
        scores = model_scores(models, pilot.choices)
    else:
        scores = read_table(str(scores_path))
    for note in pilot.notes:
        print_message(note)
    # The simulated studies have the effects that are estimated from the pilot study.
    evaluation = evaluate(pilot, scores)
    for row in evaluation.comparisons.query("analysis == 'all'").itertuples():
        print_message(
            f"pilot: {row.model_1} minus {row.model_2}, {row.measure}: {row.difference:.3f} "
            f"({row.ci_low:.3f} to {row.ci_high:.3f}); the power is computed for the estimate"
        )
    return report_disagreements(StudySimulator.from_pilot(evaluation.data))


def build_simulator(
    trials: str,
    model_specs: Sequence[str],
    scores_path: str | None,
    follow: Sequence[str],
    effects: dict[str, Any],
) -> StudySimulator:
    """Create a simulator of studies in which participants judge the sentence pairs of a table.

    Parameters
    ----------
    trials
        Path of the table of trials.
    model_specs
        Specifications of the models to compare; empty if `scores_path` is given.
    scores_path
        Path of a table with the log-probabilities of the sentences under the models to compare.
    follow
        Models that determine the simulated choices: each participant prefers the sentence with the
        higher log-probability, apart from noise. Each entry is a model specification string (for
        example ``hf:gpt2``), or a column of the table of log-probabilities, optionally followed by
        ``=`` and a weight. By default, participants follow the first model to compare.
    effects
        Parameters of the simulated participants, by the name of the field of `Simulation`.
    """
    design = read_table(trials, cells="text")
    require_pairs(design, trials)
    # Models to compare, and models that the simulated participants follow. By default, they follow
    # the first model to compare.
    models: pd.DataFrame | dict[str, SentenceModel]
    if scores_path is not None:
        models = read_scores(scores_path)
        model_names = [str(column) for column in models.columns]
        weights = tuple(parse_weight(text, model_names) for text in follow or model_names[:1])
    else:
        models_to_follow, weights = load_models_to_follow(follow or model_specs[:1])
        models_to_compare = [load_model(spec) for spec in model_specs]
        model_names = [model.name for model in models_to_compare]
        # A comparison needs two different models.
        for name in model_names:
            if model_names.count(name) > 1:
                raise InputError(f"--compare names {name!r} twice; give different models")
        all_models = load_models([*models_to_follow.values(), *models_to_compare])
        models = {model.name: model for model in all_models}
    simulation = Simulation(weights, **effects)
    simulator = StudySimulator.from_trials(design, models, model_names, simulation)
    return report_disagreements(simulator)


def report_disagreements(simulator: StudySimulator) -> StudySimulator:
    """Print on how many sentence pairs each two models disagree; return the simulator."""
    for line in describe_disagreement(simulator.models, simulator.ratios):
        print_message(line)
    return simulator


def compute_power(
    simulator: StudySimulator,
    n_participants: Sequence[int],
    n_trials: Sequence[int],
    target: float,
    simulations: int,
    seed: int,
) -> pd.DataFrame:
    """Compute the power of studies of given sizes, or search for the size that is needed.

    Parameters
    ----------
    simulator
        Simulator of studies.
    n_participants
        Numbers of participants per group. If empty, search for the smallest number that reaches the
        target power, and print it.
    n_trials
        Numbers of trials per participant; by default all pairs of a group.
    target
        Target power.
    simulations
        Number of simulated studies of each size.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        Power of all simulated sizes, as from `power_curve`.
    """
    n_trials = n_trials or (simulator.default_trials,)
    # With given sizes, compute their power. Otherwise search for the size that is needed.
    if n_participants:
        return power_curve(simulator, n_participants, n_trials, simulations, seed)
    curves = []
    for n in n_trials:
        sample_sizes, curve = required_sample_size(simulator, n, target, simulations, seed)
        for sample_size in sample_sizes.to_dict("records"):
            print_message(describe_sample_size(sample_size, target, curve))
        curves.append(curve)
    return pd.concat(curves, ignore_index=True)


def describe_sample_size(sample_size: dict[Any, Any], target: float, curve: pd.DataFrame) -> str:
    """Describe in one line how many participants the comparison of two models needs.

    Parameters
    ----------
    sample_size
        Row of the first table of `required_sample_size`: the comparison and its number of
        participants, missing if no simulated size reached the target.
    target
        Target power.
    curve
        Power of all comparisons at all simulated sizes, as from `power_curve`.

    Returns
    -------
    str
        The line, for standard error.
    """
    keys = ["analysis", "measure", "model_1", "model_2"]
    curve = curve[(curve[keys] == [sample_size[key] for key in keys]).all(axis=1)]
    # The design is the same at all simulated sizes, so read it from the first row.
    n_groups, n_trials = (int(curve[name].iloc[0]) for name in ("n_groups", "n_trials"))
    comparison = f"{sample_size['model_1']} and {sample_size['model_2']}, {sample_size['measure']}"
    if sample_size["analysis"] != "all":
        comparison += f" ({sample_size['analysis']})"
    comparison += f", {n_trials} trials each"
    per_group = ""
    if n_groups > 1:
        comparison += f", {n_groups} groups"
        per_group = " per group"
    if not pd.isna(sample_size["n_participants"]):
        # `low` and `high` are the sizes between which the true one lies, given the Monte Carlo
        # error.
        high = "more than tried" if pd.isna(sample_size["high"]) else sample_size["high"]
        return (
            f"{comparison}: {target:.0%} power takes {sample_size['n_participants']} participants"
            f"{per_group} ({sample_size['low']} to {high} within the Monte Carlo error)"
        )
    # No simulated size reached the target: report the highest power.
    max_power, max_participants = curve["power"].max(), curve["n_participants"].max()
    reached = f"at most {max_power:.0%} with up to {max_participants} participants"
    if max_power >= target:  # reached by one size and missed by a larger one
        return (
            f"{comparison}: power is about {target:.0%}, {reached}; simulate more studies "
            "(--simulations) or use more pairs"
        )
    return f"{comparison}: power is {reached}; use more pairs, or pairs that differ more"
