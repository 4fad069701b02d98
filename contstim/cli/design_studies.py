"""What simulated people do with a design: answer its trials, and tell models apart or not.

The kinds simulate, power and recovery of `contstim design`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from contstim.cli.common import check_figure, tell, write_rows
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    NewFile,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Share,
    Spec,
    Text,
    integer,
    real,
)
from contstim.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from contstim.design.simulate import Simulation
    from contstim.design.studies import Studies
    from contstim.evaluation.stopping import Stopping
    from contstim.models.base import SentenceModel

SIMULATE = """Let simulated people answer the trials of a design.

examples:
  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv
"""

POWER = """Compute the statistical power of a study, or the number of participants it needs.

Simulates studies and tests each as `contstim evaluate` does. Studies come from trials and models
(--compare), a stated difference in accuracy (--difference), or a pilot study (--pilot-choices).

examples:
  contstim design power --difference 0.2 --trials-each 40 80 --figure power.svg
  contstim design power trials.csv --compare contstim:trigram contstim:lstm --participants 10 20
  contstim design power --pilot-choices choices.csv --scores scores.csv --trials-each 40
"""

RECOVERY = """Compute how often the model that people follow is identified as the best of many.

examples:
  contstim design recovery set.csv pairs.csv --scores scores.csv --random 360 --figure curves.svg
"""

STUDIES = Group.create_ordered("where studies come from")
SIZE = Group.create_ordered("size of a study")
PEOPLE = Group.create_ordered("how people answer")
OUTPUT = Group.create_ordered("running and output")

Numbers = Annotated[
    tuple[PositiveInteger, ...], Parameter(group=SIZE, metavar="N ...", consume_multiple=(1, None))
]
Studied = Annotated[int, integer(1, 10**6), Parameter(group=OUTPUT)]
Figure = Annotated[NewFile | None, Parameter(group=OUTPUT)]
Out = Annotated[OutputFile, Parameter(group=OUTPUT)]
Seeded = Annotated[RandomSeed, Parameter(group=OUTPUT)]


@Parameter(name="*", group=PEOPLE)
@dataclass(frozen=True)
class SimulatedPeople:
    """How simulated people answer.

    Attributes
    ----------
    follow
        model that people follow; several models form a mixture with weights (repeatable)
    noise
        standard deviation of the noise of an answer, relative to the preference [1]
    lapse
        share of random answers [0.02; with --difference 0.011]
    slope_sd
        standard deviation over people of the log strength of the preference [0; with --difference
        0.47]
    item_sd
        standard deviation of the effects of pairs that no model predicts, relative to the
        preference [0; with --difference 0.75]
    shared
        share of the variance of these effects that the pairs of an item have in common [0.5]
    """

    follow: Annotated[tuple[Text, ...], Parameter(metavar="SPEC[=WEIGHT]")] = ()
    noise: Annotated[float | None, real(0, 1e6, "SD")] = None
    lapse: Share | None = None
    slope_sd: Annotated[float | None, real(0, 2, "SD")] = None
    item_sd: Annotated[float | None, real(0, 100, "SD")] = None
    shared: Share | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The numbers that were given, by name."""
        names = ("noise", "lapse", "slope_sd", "item_sd", "shared")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def load(self, follow: tuple[str, ...]) -> tuple[dict[str, SentenceModel], Simulation]:
        """Load the models that people follow, and say how people answer."""
        from contstim.design.simulate import Simulation
        from contstim.models.registry import load_model, load_models

        followed = [_weighted(text) for text in follow]
        models = [load_model(spec) for spec, _ in followed]
        weights = tuple((m.name, weight) for m, (_, weight) in zip(models, followed, strict=True))
        distinct = load_models(models) if models else []
        return {model.name: model for model in distinct}, Simulation(weights, **self.given)


AS_FITTED = SimulatedPeople()


def simulate(
    trials: File,
    /,
    *,
    people: SimulatedPeople = AS_FITTED,
    seed: Seeded = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Let simulated people answer trials.

    Parameters
    ----------
    trials
        trials, output of `contstim design trials`
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.design.simulate import simulate_choices
    from contstim.tables import read_table

    models, simulation = people.load(people.follow)
    table = read_table(trials, cells="text")
    write_rows(simulate_choices(table, models or None, simulation, seed=seed), out, [trials])


#: Options of `design power` that only some sources of studies have.
OPTIONS_OF_SOURCE = {
    "compare": ("trials", "follow", "noise", "lapse", "slope_sd", "item_sd", "shared"),
    "difference": ("lapse", "slope_sd", "item_sd", "shared", "per_item"),
    "pilot_choices": ("scores",),
}


def power(
    trials: File | None = None,
    /,
    *,
    compare: Annotated[
        tuple[Spec, ...], Parameter(group=STUDIES, metavar="SPEC ...", consume_multiple=(1, None))
    ] = (),
    difference: Annotated[float | None, real(0, 1), Parameter(group=STUDIES)] = None,
    pilot_choices: Annotated[File | None, Parameter(group=STUDIES)] = None,
    scores: Annotated[File | None, Parameter(group=STUDIES)] = None,
    groups: Numbers = (),
    participants: Numbers = (),
    trials_each: Numbers = (),
    per_item: Annotated[PositiveInteger | None, Parameter(group=SIZE)] = None,
    looks: Annotated[PositiveInteger | None, Parameter(group=SIZE)] = None,
    target: Annotated[Share, Parameter(group=SIZE)] = 0.8,
    people: SimulatedPeople = AS_FITTED,
    simulations: Studied = 1000,
    figure: Figure = None,
    seed: Seeded = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Compute power.

    Parameters
    ----------
    trials
        trials or pairs of sentences, with --compare
    compare
        models to be told apart on the trials
    difference
        difference in accuracy between two models, on pairs on which they disagree
    pilot_choices
        choices of a study like the planned one, with --scores
    scores
        log-probabilities of the sentences under the models
    groups
        number of groups of participants [those of the trials, or 1]
    participants
        number of participants per group [as many as --target takes]
    trials_each
        number of trials per participant [all of a group, or 40]
    per_item
        number of pairs per item [1]
    looks
        number of interim analyses, the last included [1]
    target
        share of simulated studies in which the result is to be found
    simulations
        number of simulated studies
    figure
        figure of the result (.svg, .pdf or .png)
    seed
        random seed
    out
        output table [standard output]
    """
    import pandas as pd

    from contstim.design.figures import power_figure
    from contstim.design.planning import people_needed, power
    from contstim.drawing import save_figure, sheet

    sources = {"compare": compare, "difference": difference, "pilot_choices": pilot_choices}
    named = [name for name, value in sources.items() if value not in (None, ())]
    if len(named) != 1:
        raise InputError("give one of --compare, --difference and --pilot-choices")
    (source,) = named
    given: dict[str, Any] = {**people.given, "follow": people.follow, "trials": trials}
    given |= {"scores": scores, "per_item": per_item}
    for name, value in given.items():
        if value not in (None, ()) and name not in OPTIONS_OF_SOURCE[source]:
            option = "the table of trials" if name == "trials" else "--" + name.replace("_", "-")
            other = source.replace("_", "-")
            raise InputError(f"{option} has no effect with --{other}; leave it out")
    check_figure(None if figure is None else Path(figure))
    studies: Studies
    if source == "difference":
        studies = _stated(difference or 0.0, people, per_item or 1)
    elif source == "pilot_choices":
        studies = _piloted(str(pilot_choices), scores)
    else:
        studies, groups, trials_each = _of_trials(trials, compare, people, groups, trials_each)
    groups, trials_each = groups or (1,), trials_each or (40,)
    ask: dict[str, Any] = {"n_simulations": simulations, "seed": seed, "stopping": _stopping(looks)}
    if participants:
        table = power(studies, list(participants), list(trials_each), list(groups), **ask)
    else:
        parts = []
        for n_groups, n_trials in product(groups, trials_each):
            needed, tried = people_needed(studies, n_trials, n_groups, target, **ask)
            parts.append(tried)
            for row in needed.to_dict("records"):
                tell(_needed_sentence(row, n_groups, n_trials, target, tried))
        table = pd.concat(parts, ignore_index=True)
    write_rows(table, out, [trials, pilot_choices, scores])
    if figure is not None:
        axes = sheet(table["measure"].nunique())
        power_figure(table, target, axes)
        save_figure(axes[0], Path(figure))


def _stopping(looks: int | None) -> Stopping | None:
    """Return the rule of evenly spaced interim analyses, one participant apart."""
    from contstim.evaluation.stopping import Stopping

    if looks in (None, 1):
        return None
    return Stopping(analyses=tuple(range(1, looks + 1)), participants=looks)


def _stated(difference: float, people: SimulatedPeople, per_item: int) -> Studies:
    from contstim.design.studies import FITTED, StatedStudies

    return StatedStudies(difference, replace(FITTED, **people.given), per_item)


def _piloted(pilot: str, scores: str | None) -> Studies:
    from contstim.design.studies import PilotStudies
    from contstim.evaluation.evaluate import evaluate_file
    from contstim.evaluation.summary import describe_disagreement, experimental_log_ratios

    if scores is None:
        raise InputError("--pilot-choices needs the scores of the models; give --scores")
    evaluation = evaluate_file(pilot, scores=scores)
    data = evaluation.data
    for line in describe_disagreement(data.models, experimental_log_ratios(data)):
        tell(line)
    for row in evaluation.comparisons.query("analysis == 'all'").itertuples():
        tell(
            f"pilot: {row.model_1} less {row.model_2} by {row.measure} {row.difference:.3f} "
            f"({row.ci_low:.3f} to {row.ci_high:.3f}); what follows takes the middle"
        )
    return PilotStudies.of(evaluation.data)


def _of_trials(
    trials: str | None,
    compare: tuple[str, ...],
    people: SimulatedPeople,
    groups: tuple[int, ...],
    trials_each: tuple[int, ...],
) -> tuple[Studies, tuple[int, ...], tuple[int, ...]]:
    from contstim.design.simulate import require_pairs
    from contstim.design.studies import TrialStudies
    from contstim.evaluation.summary import describe_disagreement
    from contstim.models.registry import load_model, load_models
    from contstim.tables import read_table

    if trials is None:
        raise InputError("--compare needs a table of trials or pairs; give one")
    models, simulation = people.load(people.follow or compare[:1])
    compared = [load_model(spec) for spec in compare]
    names = [model.name for model in compared]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--compare names {name!r} twice; give different models")
    models = {model.name: model for model in load_models([*models.values(), *compared])}
    design = read_table(trials, cells="text")
    require_pairs(design, trials)
    studies = TrialStudies.of(design, models, names, simulation)
    for line in describe_disagreement(studies.models, studies.ratios):
        tell(line)
    groups = groups or (len(studies.members),)
    return studies, groups, trials_each or (min(map(studies.most_pairs, groups)),)


def _needed_sentence(
    row: dict[Hashable, Any], groups: int, trials: int, target: float, tried: pd.DataFrame
) -> str:
    """Say how many people a difference takes."""
    import pandas as pd

    what = f"{row['model_1']} and {row['model_2']} by {row['measure']}"
    if row["analysis"] != "all":
        what += f" ({row['analysis']})"
    size = f"{trials} trials each" + f", {groups} groups" * (groups > 1)
    keys = ["analysis", "measure", "model_1", "model_2"]
    here = tried[(tried[keys] == [row[key] for key in keys]).all(axis=1)]
    if not pd.isna(row["n_participants"]):
        each = " a group" * (groups > 1)
        high = "more than tried" if pd.isna(row["high"]) else row["high"]
        text = (
            f"{what}: found in {target:.0%} of studies from {row['n_participants']} participants"
            f"{each} on ({row['low']} to {high} by the error of simulation); {size}"
        )
        if "looks" not in tried:
            return text
        nearest = here.loc[(here["n_participants"] - row["n_participants"]).abs().idxmin()]
        once = "more than were tried" if pd.isna(row["alone"]) else row["alone"]
        return (
            f"{text}; with {len(nearest['looks'].split())} looks that is the most there can be: of "
            f"at most {nearest['n_participants']} participants a study has "
            f"{nearest['mean_participants']:.1f} on average, and looked at once it takes {once}"
        )
    if here["power"].max() >= target:  # reached by one size, missed by a larger one
        return (
            f"{what}: whether it is found in {target:.0%} of studies is within the error of "
            f"simulation ({here['power'].max():.0%} at most, with up to "
            f"{here['n_participants'].max()} participants); simulate more studies (--simulations), "
            f"or take more pairs; {size}"
        )
    return (
        f"{what}: found in no more than {here['power'].max():.0%} of studies, with up to "
        f"{here['n_participants'].max()} participants; it takes more pairs, or more different "
        f"ones; {size}"
    )


def recovery(
    *trials: Annotated[Text, Parameter(name="TRIALS", required=True)],
    scores: Annotated[File, Parameter(group=STUDIES)],
    random: Annotated[PositiveInteger | None, Parameter(group=STUDIES)] = None,
    decision: Annotated[
        Literal["log-score", "accuracy"], Parameter(group=STUDIES, metavar="NAME")
    ] = "log-score",
    participants: Annotated[PositiveInteger, Parameter(group=SIZE)] = 100,
    trials_each: Annotated[PositiveInteger, Parameter(group=SIZE)] = 20,
    target: Annotated[Share, Parameter(group=SIZE)] = 0.95,
    simulations: Studied = 2000,
    model_pairs: Annotated[NewFile | None, Parameter(group=OUTPUT)] = None,
    figure: Figure = None,
    seed: Seeded = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Compute recovery.

    Parameters
    ----------
    trials
        [NAME=]FILE of trials or pairs of sentences; several designs are compared
    scores
        log-probabilities of the sentences under the models
    random
        number of random pairs in a further design
    decision
        how the best model is identified: log-score or accuracy
    participants
        number of participants, at most
    trials_each
        number of trials per participant
    target
        share of simulated studies in which the result is to be found
    simulations
        number of simulated studies
    model_pairs
        table of how well each two models are told apart
    figure
        figure of the result (.svg, .pdf or .png)
    seed
        random seed
    out
        output table [standard output]
    """
    from contstim.design.figures import recovery_figure
    from contstim.design.recovery import recovery
    from contstim.drawing import save_figure, sheet
    from contstim.selection.scores import read_scores
    from contstim.tables import read_table

    designs: dict[str, Any] = {}
    for design in trials:
        # A name comes before the first "=", which a path may hold as well.
        name, _, path = design.partition("=")
        if not path or os.path.exists(design):
            name, path = Path(design).stem, design
        if name in designs:
            raise InputError(f"two designs are called {name!r}; give one as NAME={path}")
        designs[name] = read_table(path, cells="text")
    if random:
        designs["random"] = random
    check_figure(None if figure is None else Path(figure))
    recovered = recovery(
        designs,
        read_scores(scores),
        seed=seed,
        n_participants=participants,
        trials_each=trials_each,
        n_studies=simulations,
        decision=decision,
        target=target,
    )
    for place, table in ((out, recovered.curve), (model_pairs, recovered.model_pairs)):
        if place is not None:
            write_rows(table, place, [scores, *trials])
    if figure is not None:
        axes = sheet(1 + recovered.curve["design"].nunique())
        recovery_figure(recovered.curve, recovered.model_pairs, recovered.target, axes)
        save_figure(axes[0], Path(figure))
    tell(recovered)


def _weighted(text: str) -> tuple[str, float]:
    from contstim.models import ModelSpec

    # Options of a spec hold "=" as well; a weight is a number after the last one.
    spec, _, number = text.rpartition("=")
    try:
        weight = float(number)
        ModelSpec.parse(spec)
    except ValueError:  # no number, or one that is the value of the spec's last option
        return text, 1.0
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight {number} of --follow {text!r} is not a number above 0")
    return spec, weight
