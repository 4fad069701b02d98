"""Run an experiment with participants in a browser, and collect their choices in tables.

A study is a folder, written by "new": study.toml (settings), consent.md, texts.toml (every text of
the page) and trials.csv. Three ways to run it: "serve" on this machine, for the laboratory or
behind a web server with TLS; "static" for any web host; "jatos" for JATOS. "import" adds the logs
of static pages and of JATOS to the data of the study, and "export" writes choices.csv, as
`contstim evaluate` reads it, further tables and a Psych-DS data set.

examples:
  contstim experiment new my-study --trials trials.csv
  contstim experiment serve my-study
  contstim experiment export my-study --out collected
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

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
from contstim.errors import InputError, MissingExtraError, require_known
from contstim.experiment.commands.data import KINDS, STUDY_FOLDER_DATA, DataOptions
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import PRESENTATIONS, Presentation, make_presentation
from contstim.experiment.scaffold import (
    STUDY_PRESETS,
    create_example_study,
    create_study,
    write_sentence_trials,
)
from contstim.experiment.study import Study, read_study
from contstim.experiment.timeline import format_timeline, timeline_variables
from contstim.experiment.trials import read_design
from contstim.files import write_atomically
from contstim.trial_kinds import CATCH, infer_kind

NEW = """Write a study folder, to edit.

The trials come from `contstim design trials` (--trials), are sentences to rate or to read at one's
own pace (--stimuli), or are chosen from pairs while participants answer (--pairs; see
docs/adaptive.md).

examples:
  contstim experiment new my-study --trials trials.csv
  contstim experiment new reading --presentation reading --stimuli items.csv --participants 24
  contstim experiment new adaptive --pairs pairs.csv --scores scores.csv --plan plan.toml
"""

SERVE = """Serve a study from this machine.

An answer is acknowledged to the page only when it is on the disk, and participants who come back
continue where they stopped.

examples:
  contstim experiment serve my-study
  contstim experiment serve my-study --pilot --port 8080
"""

STATIC = """Write a study as a folder for any web host.

examples:
  contstim experiment static my-study --out site
"""

JATOS = """Write a study as an archive that JATOS imports.

examples:
  contstim experiment jatos my-study --out my-study.jzip
"""

TIMELINE = """Write trials as timeline_variables of a jsPsych script of your own.

examples:
  contstim experiment timeline trials.csv --out trials.js
"""

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
    """Write a study folder.

    Parameters
    ----------
    study
        folder to make
    trials
        trials, output of `contstim design trials`
    stimuli
        sentences to rate or read, with the columns sentence, item, condition (or those of
        --factors; a Latin square), question and expected
    factors
        columns of --stimuli that together are the condition
    participants
        number of participants, with --stimuli [24]
    pairs
        pairs from which trials are chosen while participants answer
    scores
        log-probabilities of the sentences of --pairs and of natural ones
    plan
        plan of the study (TOML) with a table [adaptive], with --pairs [the defaults]
    catch
        number of catch trials per participant, with --pairs [12]
    seed
        random seed [that of the plan, or 0]
    presentation
        presentation of a trial: choice, rating, reading, or one of an installed package
    preset
        preset: golan2023, wording, time limit and look of the published experiment [none]
    language
        language of the page: en, de, es, fr, he, tr or zh
    """
    if sum(source is not None for source in (trials, stimuli, pairs)) != 1:
        raise InputError("give either --trials, --stimuli or --pairs, of which trials are made")
    for name, value in (("scores", scores), ("plan", plan), ("catch", catch)):
        if pairs is None and value is not None:
            raise InputError(f"--{name} belongs to --pairs; leave it out")
    if factors and stimuli is None:
        raise InputError("--factors belongs to --stimuli; leave it out")
    if preset is not None:
        require_known("preset", preset, STUDY_PRESETS)
    if pairs is not None:
        if participants is not None:
            raise InputError(
                "--participants belongs to --stimuli; the plan has stopping.participants"
            )
        made = _new_adaptive(
            study, pairs, scores, plan, catch, seed, preset, language, presentation
        )
    elif stimuli is not None:
        shown = _presentation_called(presentation)
        if shown.is_pair:
            raise InputError(
                "--stimuli are for --presentation rating or reading; say which, or lay pairs out "
                f"with `contstim design trials --pairs {stimuli}`"
            )
        with tempfile.TemporaryDirectory() as folder:
            table = write_sentence_trials(
                Path(stimuli),
                Path(folder),
                participants or _PARTICIPANTS,
                seed or 0,
                shown,
                factors,
            )
            made = create_study(study, table, preset, language, presentation)
    else:
        if participants is not None:
            raise InputError("--participants belongs to --stimuli; --trials has its own")
        if seed is not None:
            raise InputError("--seed belongs to --stimuli or --pairs; --trials has its order")
        assert trials is not None
        made = create_study(study, trials, preset, language, presentation)
    _describe(made)
    if preset is not None:
        n_catch = [
            sum(infer_kind(t.condition) == CATCH for t in ts) for ts in made.design.trials.values()
        ]
        published = STUDY_PRESETS[preset].catch
        if set(n_catch) != {published}:
            print(f"note: {preset} had {published} catch trials per person")
    print(f"next: edit {study}/study.toml and {study}/consent.md")


def _new_adaptive(
    study: str,
    pairs: str,
    scores: str | None,
    plan: str | None,
    catch: int | None,
    seed: int | None,
    preset: str | None,
    language: str,
    presentation: str,
) -> Study:
    if not _presentation_called(presentation).is_pair:
        raise InputError(f"--pairs are of two sentences; leave out --presentation {presentation}")
    if scores is None:
        raise InputError("--pairs needs the models' scores of its sentences; give --scores")
    from contstim.adaptive import AdaptivePlan
    from contstim.adaptive.preregistration import read_adaptive_plan
    from contstim.experiment.adaptive import create_adaptive_study

    planned = AdaptivePlan() if plan is None else read_adaptive_plan(plan)
    return create_adaptive_study(
        Path(study),
        Path(pairs),
        Path(scores),
        planned if seed is None else replace(planned, seed=seed),
        _CATCH if catch is None else catch,
        preset,
        language,
        presentation,
    )


def check(study: File, /) -> None:
    """Check a study folder, and print what it holds.

    Parameters
    ----------
    study
        folder of the study
    """
    _describe(read_study(study))


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
    """Serve a study.

    Parameters
    ----------
    study
        folder of the study
    host
        address to listen at; others than this machine need a token
    port
        port of the server; 0 is any free one
    token
        token of the dashboard, at least 16 characters; other users of the machine cannot see it in
        the environment variable CONTSTIM_EXPERIMENT_TOKEN [a new one, printed]
    blinded
        show only stop or continue on the dashboard of an adaptive study
    """
    described = read_study(study)
    _describe(described)
    if blinded and described.adaptive is None:
        raise InputError("--blinded is for adaptive studies; leave it out")
    if not data.pilot:
        described.check_consent()
    serve_study(described, host, port, token, data.file(study), blinded)


def serve_study(
    study: Study,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    data: Path | None = None,
    blinded: bool = False,
) -> None:
    """Serve a study until interrupted; the token may stand in the environment."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"serving needs {package}; pip install starlette uvicorn (static and jatos "
                "need nothing more)"
            )
    from contstim.experiment.serving import serve
    from contstim.experiment.vendor import fetch_on_first_use

    fetch_on_first_use()
    if token is None:
        token = os.environ.get("CONTSTIM_EXPERIMENT_TOKEN")
    try:
        serve(study, host, port, token, data=data, blinded=blinded)
    except KeyboardInterrupt:
        print("stopped; what was acknowledged is in the data")


def serve_example(folder: Path, port: int) -> None:
    """Serve the study that comes with contstim from `folder`, written on the first use."""
    study = read_study(folder) if folder.exists() else create_example_study(folder)
    serve_study(study, port=port)


def build() -> None:
    """Fetch the npm files of the page, as its lock file says; needs npm."""
    from contstim.experiment.vendor import fetch_vendor

    for path in fetch_vendor():
        print(path)


def static(
    study: File,
    /,
    *,
    endpoint: Annotated[Text | None, Parameter(metavar="URL")] = None,
    experiment_id: Annotated[Text | None, Parameter(metavar="ID")] = None,
    out: OutputFolder,
) -> None:
    """Write a study for any web host.

    Parameters
    ----------
    study
        folder of the study
    endpoint
        address that receives the data as DataPipe does [each participant saves a file]
    experiment_id
        identifier of the experiment at the endpoint
    out
        folder to write
    """
    from contstim.experiment.pages import write_static

    print(write_static(_study_to_host(study), out, endpoint, experiment_id))
    _tell_next(f"put the folder {out} on a web host", study)


def jatos(study: File, /, *, out: NewFile) -> None:
    """Write a study for JATOS.

    Parameters
    ----------
    study
        folder of the study
    out
        archive to write
    """
    from contstim.experiment.pages import write_jatos

    print(write_jatos(_study_to_host(study), Path(out)))
    _tell_next(f"import {out} in JATOS as a study", study)


def timeline(
    trials: File,
    /,
    *,
    presentation: Name = "choice",
    lists: Annotated[Literal["participant", "group"], Parameter(metavar="WHOSE")] = "participant",
    out: NewFile,
) -> None:
    """Write trials for a jsPsych script.

    Parameters
    ----------
    trials
        trials, output of `contstim design trials`
    presentation
        presentation of a trial: choice, or rating or reading for trials of one sentence
    lists
        one list of trials per participant or per group
    out
        file to write: JSON, or a script if it ends in .js
    """
    shown = _presentation_called(presentation)
    design = read_design(Path(trials), presentation=shown)
    made = timeline_variables(design, shown, lists)
    refuse_overwriting(out, [trials])
    write_atomically(Path(out), format_timeline(made, Path(out).suffix == ".js"))
    print(f"{out}: {len(made)} lists of {design.n_trials} trials, one a {lists}")


def _presentation_called(name: str) -> Presentation:
    require_known("presentation", name, PRESENTATIONS)
    return make_presentation(TrialOptions(name))


def _study_to_host(folder: str) -> Study:
    """Read a study whose page is written for another host, and fetch what the page is made of."""
    from contstim.experiment.vendor import fetch_on_first_use

    fetch_on_first_use()
    study = read_study(folder)
    for note in study.notes:
        print(f"note: {note}")
    return study


def _tell_next(upload: str, study: str) -> None:
    print_message(
        f"next: {upload}; `contstim experiment import {study} FILES` reads what comes back"
    )


def _describe(study: Study) -> None:
    design = study.design
    groups = len(set(design.groups.values()))
    print(
        f"{study.study.name}: {len(design.groups)} assignments in {groups} groups, "
        f"{design.n_trials} trials each, {len(study.practice)} practice trials"
    )
    if study.adaptive is not None:
        plan = study.adaptive
        print(
            f"{plan.design}: {plan.trials} of each participant's trials are chosen by "
            f"the policy {plan.trial_selection.policy}, {plan.trial_selection.block_size} at a time"
        )
    for note in study.notes:
        print(f"note: {note}")


app.command(create_application("new", NEW, new))
app.command(create_application("check", "Check a study folder, and print what it holds.", check))
app.command(create_application("serve", SERVE, serve))
app.command(create_application("build", build.__doc__, build))
app.command(create_application("static", STATIC, static))
app.command(create_application("jatos", JATOS, jatos))
app.command(create_application("timeline", TIMELINE, timeline))
for name, (text, command) in KINDS.items():
    app.command(create_application(name, text, command))
