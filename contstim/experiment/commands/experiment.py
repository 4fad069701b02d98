"""Run an experiment with participants in a browser and export their data.

A study is a folder, made by "new": study.toml (settings), consent.md, texts.toml (all texts of the
page) and trials.csv. Run it with "serve" on this machine (in the laboratory, or behind a web server
with TLS), with "static" on any web host, or with "jatos" in JATOS. "import" adds the logs of static
pages and JATOS to the data of the study. "export" writes choices.csv for `contstim evaluate`,
further tables, and a Psych-DS data set.

examples:
  contstim experiment new my-study --trials trials.csv
  contstim experiment serve my-study
  contstim experiment export my-study --out collected
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from contstim import experiment
from contstim.cli.application import create_application
from contstim.cli.common import print_message, refuse_overwriting
from contstim.cli.parameters import (
    File,
    Name,
    NewFile,
    OutputFolder,
    Port,
    PositiveInteger,
    RandomSeed,
    Text,
    integer_parameter,
)
from contstim.errors import InputError, MissingExtraError, format_count, require_known
from contstim.experiment.commands.data import KINDS, STUDY_FOLDER_DATA, DataOptions
from contstim.files import write_atomically
from contstim.trial_kinds import CATCH, infer_kind

MATERIAL = Group.create_ordered("material")
PAGE = Group.create_ordered("page")

_PARTICIPANTS = 24
_CATCH = 12

app = create_application("experiment", __doc__)


def new(
    study: OutputFolder,
    /,
    *,
    trials: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    stimuli: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    factors: Annotated[
        tuple[Text, ...],
        Parameter(group=MATERIAL, metavar="COLUMN ...", consume_multiple=(1, None)),
    ] = (),
    participants: Annotated[PositiveInteger | None, Parameter(group=MATERIAL)] = None,
    pairs: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    scores: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    plan: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    catch: Annotated[int | None, integer_parameter(0, 1000), Parameter(group=MATERIAL)] = None,
    seed: Annotated[RandomSeed | None, Parameter(group=MATERIAL)] = None,
    presentation: Annotated[Name, Parameter(group=PAGE)] = "choice",
    preset: Annotated[Name | None, Parameter(group=PAGE)] = None,
    language: Annotated[Text, Parameter(group=PAGE, metavar="CODE")] = "en",
) -> None:
    """Create a study folder, whose settings and texts can then be edited.

    There are three kinds of studies. With --trials, participants see the trials that `contstim
    design trials` wrote. With --stimuli, they rate single sentences or read them at their own
    speed. With --pairs, the sentence pairs of an adaptive study are selected while participants
    answer (see docs/adaptive.md).

    examples:
      contstim experiment new my-study --trials trials.csv
      contstim experiment new reading --presentation reading --stimuli items.csv --participants 24
      contstim experiment new adaptive --pairs pairs.csv --scores scores.csv --plan plan.toml

    Parameters
    ----------
    study
        folder to create
    trials
        trials, output of `contstim design trials`
    stimuli
        sentences to rate or read, with the columns sentence, item, condition (or the columns of
        --factors; a Latin square), question and expected
    factors
        columns of --stimuli that together define the condition
    participants
        number of participants, with --stimuli [24]
    pairs
        pairs from which trials are selected while participants answer
    scores
        log-probabilities of the sentences of --pairs and of natural sentences, in nats
    plan
        study plan (TOML) with a table [adaptive], with --pairs [default plan]
    catch
        number of catch trials per participant, with --pairs [12]
    seed
        random seed [seed of the plan, or 0]
    presentation
        presentation of a trial: choice, rating, reading, or one of an installed package
    preset
        preset: golan2023, which replicates the published experiment (wording, time limit, look)
        [none]
    language
        language of the page: en, de, es, fr, he, tr or zh
    """
    if sum(source is not None for source in (trials, stimuli, pairs)) != 1:
        raise InputError("give either --trials, --stimuli or --pairs, of which trials are made")
    for name, value in (("scores", scores), ("plan", plan), ("catch", catch)):
        if pairs is None and value is not None:
            raise InputError(f"--{name} is for --pairs; leave it out")
    if factors and stimuli is None:
        raise InputError("--factors is for --stimuli; leave it out")
    if preset is not None:
        require_known("preset", preset, experiment.STUDY_PRESETS)

    if pairs is not None:
        if participants is not None:
            raise InputError("--participants is for --stimuli; the plan has stopping.participants")
        if not _get_presentation(presentation).is_pair:
            raise InputError(f"--pairs have two sentences; leave out --presentation {presentation}")
        if scores is None:
            raise InputError("--pairs needs the models' scores of its sentences; give --scores")
        # Loads pandas and SciPy, which other studies do not need.
        from contstim.adaptive import AdaptivePlan
        from contstim.adaptive.preregistration import read_adaptive_plan

        adaptive = AdaptivePlan() if plan is None else read_adaptive_plan(plan)
        if seed is not None:
            adaptive = replace(adaptive, seed=seed)
        n_catch = _CATCH if catch is None else catch
        created = experiment.create_adaptive_study(
            Path(study),
            Path(pairs),
            Path(scores),
            adaptive,
            n_catch,
            preset,
            language,
            presentation,
        )
    elif stimuli is not None:
        shown_as = _get_presentation(presentation)
        if shown_as.is_pair:
            raise InputError(
                "--stimuli are for --presentation rating or reading; say which, or lay pairs out "
                f"with `contstim design trials --pairs {stimuli}`"
            )
        n_participants = participants or _PARTICIPANTS
        with tempfile.TemporaryDirectory() as folder:
            table = experiment.write_sentence_trials(
                Path(stimuli), Path(folder), n_participants, seed or 0, shown_as, factors
            )
            created = experiment.create_study(study, table, preset, language, presentation)
    else:
        if participants is not None:
            raise InputError("--participants is for --stimuli; --trials has its own")
        if seed is not None:
            raise InputError("--seed is for --stimuli or --pairs; --trials has its order")
        assert trials is not None
        created = experiment.create_study(study, trials, preset, language, presentation)

    _print_summary(created)
    if preset is not None:
        n_published = experiment.STUDY_PRESETS[preset].catch
        distinct_counts = {
            sum(infer_kind(trial.condition) == CATCH for trial in trials_of_assignment)
            for trials_of_assignment in created.design.trials.values()
        }
        if distinct_counts != {n_published}:
            print(f"note: {preset} had {n_published} catch trials per participant")
    print(f"next: edit {study}/study.toml and {study}/consent.md")


def check(study: File, /) -> None:
    """Check a study folder and print a summary.

    examples:
      contstim experiment check my-study

    Parameters
    ----------
    study
        folder of the study
    """
    _print_summary(experiment.read_study(study))


def serve(
    study: File,
    /,
    *,
    host: Annotated[Text, Parameter(metavar="ADDRESS")] = "127.0.0.1",
    port: Port = 8000,
    token: Text | None = None,
    blinded: bool = False,
    data: DataOptions = STUDY_FOLDER_DATA,
) -> None:
    """Serve a study from this machine.

    The server confirms an answer to the page only after it is written to disk. Participants who
    return continue at the trial where they stopped.

    examples:
      contstim experiment serve my-study
      contstim experiment serve my-study --pilot --port 8080

    Parameters
    ----------
    study
        folder of the study
    host
        network address of the server; addresses other than this machine need a token
    port
        port of the server; 0 for any free port
    token
        token of the dashboard, at least 16 characters. Other users of the machine cannot see it in
        the environment variable CONTSTIM_EXPERIMENT_TOKEN [new token, printed]
    blinded
        hide interim results: the dashboard of an adaptive study shows only stop or continue
    """
    settings = experiment.read_study(study)
    _print_summary(settings)
    if blinded and settings.adaptive is None:
        raise InputError("--blinded is for adaptive studies; leave it out")
    # A pilot may run before the researcher has completed the consent form.
    if not data.pilot:
        settings.check_consent()
    serve_study(settings, host, port, token, data.get_file(study), blinded)


def serve_study(
    study: experiment.Study,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    database: Path | None = None,
    blinded: bool = False,
) -> None:
    """Serve a study until interrupted.

    Parameters
    ----------
    study
        Study to serve.
    host
        Network address of the server.
    port
        Port of the server; 0 for any free port.
    token
        Token of the dashboard, by default the environment variable ``CONTSTIM_EXPERIMENT_TOKEN``
        or, without it, a new token.
    database
        Data file, by default the one in the study's folder.
    blinded
        Whether the dashboard of an adaptive study hides results.

    Raises
    ------
    MissingExtraError
        If Starlette or Uvicorn is not installed.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"serving needs {package}; pip install starlette uvicorn (static and jatos "
                "need nothing more)"
            )
    experiment.fetch_on_first_use()  # third-party JavaScript files of the page
    if token is None:
        token = os.environ.get("CONTSTIM_EXPERIMENT_TOKEN")
    # The server runs until Ctrl-C is pressed.
    try:
        experiment.serve(study, host, port, token, database=database, blinded=blinded)
    except KeyboardInterrupt:
        print("stopped; all confirmed answers are in the data")


def serve_example(folder: Path, port: int) -> None:
    """Serve the bundled example study from a folder, which is created if it does not exist."""
    study = (
        experiment.read_study(folder)
        if folder.exists()
        else experiment.create_example_study(folder)
    )
    serve_study(study, port=port)


def build() -> None:
    """Download the npm packages of the page, in the locked versions; needs npm.

    examples:
      contstim experiment build
    """
    for path in experiment.fetch_vendor():
        print(path)


def static(
    study: File,
    /,
    *,
    endpoint: Annotated[Text | None, Parameter(metavar="URL")] = None,
    experiment_id: Annotated[Text | None, Parameter(metavar="ID")] = None,
    out: OutputFolder,
) -> None:
    """Write a study as a folder for any web host.

    examples:
      contstim experiment static my-study --out site

    Parameters
    ----------
    study
        folder of the study
    endpoint
        URL to which the page sends the data, in the format of DataPipe (default: the page offers
        the data as a file, which each participant saves)
    experiment_id
        identifier of the experiment at the endpoint
    out
        folder to write
    """
    print(experiment.write_static(_read_study_to_host(study), out, endpoint, experiment_id))
    _print_next_steps(f"put the folder {out} on a web host", study)


def jatos(study: File, /, *, out: NewFile) -> None:
    """Write a study as an archive for import in JATOS.

    examples:
      contstim experiment jatos my-study --out my-study.jzip

    Parameters
    ----------
    study
        folder of the study
    out
        archive to write
    """
    print(experiment.write_jatos(_read_study_to_host(study), Path(out)))
    _print_next_steps(f"import {out} in JATOS as a study", study)


def timeline(
    trials: File,
    /,
    *,
    presentation: Name = "choice",
    lists: Annotated[Literal["participant", "group"], Parameter(metavar="UNIT")] = "participant",
    out: NewFile,
) -> None:
    """Write trials as timeline_variables for a custom jsPsych script.

    examples:
      contstim experiment timeline trials.csv --out trials.js

    Parameters
    ----------
    trials
        trials, output of `contstim design trials`
    presentation
        presentation of a trial: choice, or rating or reading for trials of one sentence
    lists
        whether to write one list of trials per participant or per group
    out
        file to write: a script if it ends in .js, otherwise JSON
    """
    shown_as = _get_presentation(presentation)
    design = experiment.read_design(Path(trials), presentation=shown_as)
    variables = experiment.make_timeline_variables(design, shown_as, lists)
    refuse_overwriting(out, [trials])
    write_atomically(Path(out), experiment.format_timeline(variables, Path(out).suffix == ".js"))
    print(f"{out}: {len(variables)} lists of {design.n_trials} trials, one per {lists}")


def _get_presentation(name: str) -> experiment.Presentation:
    require_known("presentation", name, experiment.PRESENTATIONS)
    return experiment.make_presentation(experiment.TrialOptions(name))


def _read_study_to_host(folder: str) -> experiment.Study:
    """Read a study that another server will host, and print notes for the researcher.

    The third-party files of the page are downloaded first if they are missing.
    """
    experiment.fetch_on_first_use()
    study = experiment.read_study(folder)
    for note in study.notes:
        print(f"note: {note}")
    return study


def _print_next_steps(upload: str, study: str) -> None:
    print_message(f"next: {upload}; `contstim experiment import {study} FILES` reads its data")


def _print_summary(study: experiment.Study) -> None:
    """Print the number of assignments and trials of a study, and notes for the researcher."""
    design = study.design
    n_groups = len(set(design.groups.values()))
    # An assignment is the list of trials for one participant.
    print(
        f"{study.study.name}: {format_count(len(design.groups), 'assignment')} in "
        f"{format_count(n_groups, 'group')}, {format_count(design.n_trials, 'trial')} each, "
        f"{format_count(len(study.practice), 'practice trial')}"
    )
    if study.adaptive is not None:
        plan, selection = study.adaptive, study.adaptive.trial_selection
        print(
            f"{plan.design}: {plan.trials} of each participant's trials are chosen by "
            f"the policy {selection.policy}, {selection.block_size} at a time"
        )
    for note in study.notes:
        print(f"note: {note}")


_COMMANDS: dict[str, Callable[..., int | None]] = {
    "new": new,
    "check": check,
    "serve": serve,
    "build": build,
    "static": static,
    "jatos": jatos,
    "timeline": timeline,
    **KINDS,
}
for name, command in _COMMANDS.items():
    # The help is the docstring without the section on parameters.
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")[0]
    app.command(create_application(name, text, command))
