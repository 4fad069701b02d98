"""Run the experiment with people in a browser, and collect their choices in tables.

A study is a folder. new: writes it around the trials of `contstim design trials`, around
sentences to rate or to read at one's own pace, or around a pool of pairs from which trials are
chosen by the answers so far (docs/adaptive.md): study.toml (all settings), consent.md, texts.toml
(every text of the page, to translate) and trials.csv. check: says what is wrong with a study
folder, or what it holds. build: fetches the npm files of the page, once.

Three ways to run it. serve: on this machine, for the lab or behind a web server with TLS; nothing
is acknowledged to the page before it is on the disk, and participants who come back go on where
they stopped.
static: as a folder for any web host, data by a DataPipe-style endpoint or saved by participants.
jatos: as a study archive that JATOS imports. Or by a jsPsych script of your own: timeline writes
the trials as its timeline_variables.

And back. import: adds raw logs of static pages and JATOS to the study's data. export: writes
choices.csv, as `contstim evaluate` reads it, further tables and a Psych-DS data set; the raw log
stays as it is. replace: whose assignment (order and sides
of the trials) another participant should take, by the exclusion rules of `contstim evaluate`.
release: frees assignments. extend: more participants, groups or trials for a study that runs.
close, reopen: nobody new is let in, or people are again; who has begun may finish.
backup: a copy of the data. forget: deletes one participant's data on request.

Examples:
  contstim experiment new my-study --trials trials.csv
  contstim experiment new reading --presentation reading --sentences items.csv --participants 24
  contstim experiment new adaptive --pool pairs.csv --scores scores.csv --plan plan.toml
  contstim experiment check my-study
  contstim experiment build
  contstim experiment serve my-study
  contstim experiment static my-study --out site
  contstim experiment jatos my-study --out my-study.jzip
  contstim experiment timeline trials.csv --out trials.js
  contstim experiment import my-study jatos_results.txt
  contstim experiment export my-study --out collected
  contstim experiment check-psychds collected/psychds
  contstim experiment replace my-study --min-catch-correct 0.91 --release --out replace.csv
  contstim experiment release my-study --idle 120
  contstim experiment extend my-study --trials more.csv
  contstim experiment close my-study --why "the money is spent"
  contstim experiment backup my-study --out backups/monday.sqlite3
  contstim experiment forget my-study --participant 3F2A9C1B --why "asked by mail"
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from contstim.cli import experiment_data
from contstim.cli.common import refuse_overwriting, tell
from contstim.cli.parsing import (
    CommandParser,
    new_file,
    output_folder,
    port,
    positive,
    whole_number,
)
from contstim.errors import InputError, MissingExtraError
from contstim.experiment.new import STUDY_PRESETS, new_study, write_sentence_trials
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import PRESENTATIONS, presentation_of
from contstim.experiment.study import PAGE_LANGUAGES, Study, read_study
from contstim.experiment.timeline import LISTS, timeline_text, timeline_variables
from contstim.experiment.trials import read_design
from contstim.files import write_whole
from contstim.trial_kinds import CATCH, kind_of_condition

_PARTICIPANTS = 24
_CATCH = 12


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_new(actions.add_parser("new", help="write a study folder, to edit"))
    check = actions.add_parser("check", help="check a study folder")
    serve = actions.add_parser("serve", help="run the study in browsers, from this machine")
    actions.add_parser("build", help="fetch the page's npm files, by lock file; needs npm")
    static = actions.add_parser("static", help="write the study as a folder for any web host")
    jatos = actions.add_parser("jatos", help="write the study as an archive that JATOS imports")
    _add_timeline(actions.add_parser("timeline", help="write trials for a jsPsych of your own"))
    for sub in (check, serve, static, jatos):
        sub.add("study STUDY", "the study's folder")
    serve.add(
        "--host ADDRESS",
        "where to listen (default: 127.0.0.1, this machine only; others need --token)",
        default="127.0.0.1",
    )
    serve.add("--port N", "(default: 8000; 0: any free)", port, default=8000)
    serve.add(
        "--token TEXT",
        "of the dashboard, 16 characters or more; better in the environment variable "
        "CONTSTIM_EXPERIMENT_TOKEN, which other users of the machine cannot see (default: a new "
        "one, printed)",
    )
    what = "of an adaptive study the dashboard says stop or go on, nothing else"
    serve.add("--blinded", what)
    experiment_data.add_data_file(serve)
    static.add_out_folder()
    what = "takes the data as DataPipe does (default: each participant saves a file)"
    static.add("--endpoint URL", what)
    static.add("--experiment-id ID", "of the experiment at the endpoint")
    jatos.add("--out JZIP", "the archive to write", new_file, required=True)
    experiment_data.add_data(actions)


def _add_timeline(parser: CommandParser) -> None:
    parser.add("trials CSV", "from `contstim design trials`")
    what = "of a trial; other than choice, the trials are of sentences"
    parser.add("--presentation", what, choices=PRESENTATIONS, default="choice")
    parser.add("--by", "a list for each", choices=LISTS, default=LISTS[0])
    parser.add("--out FILE", "JSON, or a script if it ends in .js", new_file, required=True)


def _timeline(args: argparse.Namespace) -> int:
    presentation = presentation_of(TrialOptions(args.presentation))
    design = read_design(Path(args.trials), presentation=presentation)
    lists = timeline_variables(design, presentation, args.by)
    refuse_overwriting(args.out, [args.trials])
    write_whole(Path(args.out), timeline_text(lists, Path(args.out).suffix == ".js"))
    print(f"{args.out}: {len(lists)} lists of {design.n_trials} trials, one a {args.by}")
    return 0


def _add_new(parser: CommandParser) -> None:
    parser.add("study STUDY", "the folder to make", output_folder)
    source = parser.add_mutually_exclusive_group(required=True)
    parser.add("--trials CSV", "from `contstim design trials`", to=source)
    what = "to rate or read: sentence, item and condition (a Latin square), question, expected"
    parser.add("--sentences CSV", what, to=source)
    parser.add("--factors COLUMN ...", "of --sentences, whose values together are the condition")
    what = "pairs to choose from while people answer; with --scores"
    parser.add("--pool CSV", what, to=source)
    parser.add("--scores FILE", "of the pool's and natural sentences, as for `select`")
    parser.add("--plan TOML", "with a table [adaptive], for --pool (default: its defaults)")
    what = "catch trials per participant, for --pool (default: 12)"
    parser.add("--catch N", what, whole_number(0, 1000))
    parser.add("--presentation", "of a trial", choices=PRESENTATIONS, default="choice")
    parser.add("--participants N", "to lay out --sentences for (default: 24)", positive)
    parser.add_seed(planned=True)
    what = "wording, limit and look of a published one"
    parser.add("--preset", what, choices=sorted(STUDY_PRESETS))
    parser.add("--language", "of the page's texts", choices=sorted(PAGE_LANGUAGES), default="en")


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    if args.action in experiment_data.ACTIONS:
        return experiment_data.ACTIONS[args.action][0](args)
    if args.action == "timeline":
        return _timeline(args)
    if args.action in ("build", "static", "jatos"):
        return _write_page(args)
    if args.action == "new":
        study = _new(args)
        _describe(study)
        if args.preset is not None:
            n_catch = [
                sum(kind_of_condition(t.condition) == CATCH for t in ts)
                for ts in study.design.trials.values()
            ]
            catch = STUDY_PRESETS[args.preset].catch
            if set(n_catch) != {catch}:
                print(f"note: {args.preset} had {catch} catch trials per person")
        print(f"next: edit {args.study}/study.toml and {args.study}/consent.md")
        return 0
    study = read_study(args.study)
    _describe(study)
    if args.action == "serve":
        if args.blinded and study.adaptive is None:
            raise InputError("--blinded is for adaptive studies; leave it out")
        if not args.pilot:
            study.check_consent()
        data = experiment_data.data_file(args)
        serve_study(study, args.host, args.port, args.token, data, args.blinded)
    return 0


def _write_page(args: argparse.Namespace) -> int:
    """Fetch what the page is made of, or write it for another host."""
    from contstim.experiment.pages import write_jatos, write_static
    from contstim.experiment.vendor import fetch_on_first_use, fetch_vendor

    if args.action == "build":
        for path in fetch_vendor():
            print(path)
        return 0
    fetch_on_first_use()
    study = read_study(args.study)
    for note in study.notes:
        print(f"note: {note}")
    if args.action == "static":
        print(write_static(study, args.out, args.endpoint, args.experiment_id))
        upload = f"put the folder {args.out} on a web host"
    else:
        print(write_jatos(study, args.out))
        upload = f"import {args.out} in JATOS as a study"
    tell(f"next: {upload}; `contstim experiment import {args.study} FILES` reads what comes back")
    return 0


def _new(args: argparse.Namespace) -> Study:
    for name in ("scores", "plan", "catch"):
        if args.pool is None and getattr(args, name) is not None:
            raise InputError(f"--{name} belongs to --pool; leave it out")
    if args.pool is not None:
        return _new_adaptive(args)
    if args.sentences is None:
        if args.participants is not None:
            raise InputError("--participants belongs to --sentences; --trials has its own")
        if args.seed is not None:
            raise InputError("--seed belongs to --sentences or --pool; --trials has its order")
        if args.factors:
            raise InputError("--factors belongs to --sentences; --trials has its conditions")
        return new_study(args.study, args.trials, args.preset, args.language, args.presentation)
    shown = presentation_of(TrialOptions(args.presentation))
    if shown.pair:
        raise InputError(
            "--sentences are for --presentation rating or reading; say which, or lay pairs out "
            f"with `contstim design trials --items {args.sentences}`"
        )
    with tempfile.TemporaryDirectory() as folder:
        trials = write_sentence_trials(
            Path(args.sentences),
            Path(folder),
            args.participants or _PARTICIPANTS,
            args.seed or 0,
            shown,
            args.factors or (),
        )
        return new_study(args.study, trials, args.preset, args.language, args.presentation)


def _new_adaptive(args: argparse.Namespace) -> Study:
    if args.participants is not None:
        raise InputError(
            "--participants belongs to --sentences; the plan has stopping.participants"
        )
    if args.factors:
        raise InputError("--factors belongs to --sentences; leave it out")
    if not presentation_of(TrialOptions(args.presentation)).pair:
        raise InputError(f"--pool holds pairs; leave out --presentation {args.presentation}")
    if args.scores is None:
        raise InputError("--pool needs the models' scores of its sentences; give --scores")
    from contstim.adaptive import AdaptivePlan
    from contstim.adaptive.preregister import read_adaptive_plan
    from contstim.experiment.adaptive import new_adaptive_study

    plan = AdaptivePlan() if args.plan is None else read_adaptive_plan(args.plan)
    return new_adaptive_study(
        Path(args.study),
        Path(args.pool),
        Path(args.scores),
        plan if args.seed is None else replace(plan, seed=args.seed),
        _CATCH if args.catch is None else args.catch,
        args.preset,
        args.language,
        args.presentation,
    )


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
            f"the policy {plan.choosing.policy}, {plan.choosing.block} at a time"
        )
    for note in study.notes:
        print(f"note: {note}")
