"""Make of a finished study a folder that others can use, or add a model to such a folder.

STUDY is a study folder whose data are collected, or a table of choices. What only you can say
stands in about.toml, of which --template writes a first one: authors, licences of texts and models,
what the data are for. The folder holds sentences, scores and choices as a Psych-DS data set, a data
card, Croissant metadata, a citation, an appendix on ethics and review, plan and departures, a task
for the lm-evaluation-harness, results, and digests of all. `contstim benchmark` reads it back.

Participants get pseudonyms; recruiters' identifiers, free texts, addresses and exact times do not
leave, and ETHICS.md lists what was removed. Of sentences that must not be passed on digests are
published.

STUDY may also be a folder that was published, to which the scores of further models are added.

Examples:
  contstim publish study --template about.toml --scores scores.csv
  contstim publish study --about about.toml --scores scores.csv --out published
  contstim publish choices.csv --about about.toml --model contstim:gpt --out published
  contstim publish published --model gpt=contstim:gpt --source "contstim 0.1.0" --licence MIT
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.benchmarks.publishing.about import ModelSource, about_template, read_about
from contstim.benchmarks.publishing.material import Material, study_material, table_material
from contstim.benchmarks.publishing.record import RECORD_FILE
from contstim.cli.common import refuse_overwriting, tell
from contstim.cli.parsing import CommandParser, new_file, positive
from contstim.errors import InputError
from contstim.evaluation.importers import FORMATS, read_choices
from contstim.evaluation.options import PRESETS
from contstim.files import write_whole
from contstim.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

    from contstim.evaluation.choices import HumanData

_NEW = ("out", "about", "template")
_GROWN = ("source", "licence", "weights", "texts")


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "a study folder, a table of choices, or a folder that was published"
    parser.add("study STUDY", what)
    parser.add("--out FOLDER", "where to publish; nothing may be there")
    parser.add("--about TOML", "what only you can say; --template writes a first one")
    parser.add("--template TOML", "write this file to be filled in, and nothing else", new_file)
    parser.add("--scores CSV", "scores of the sentences, as `contstim score` writes them")
    parser.add(
        "--model [NAME=]SPEC", "a model to score the sentences with", several=True, default=[]
    )
    parser.add_cache("keep and reuse the scores of --model in this folder")
    parser.add("--data FILE", "data of the study (default: in its folder)")
    what = "of a table of choices, as for `contstim evaluate`"
    parser.add("--format", what, choices=sorted(FORMATS), default="auto")
    what = "a column of the choices that is published although it is on no list"
    parser.add("--keep COLUMN", what, several=True, default=[])
    parser.add("--preset", "of the analysis", choices=sorted(PRESETS), default="default")
    parser.add("--plan TOML", "the analysis plan; departures from it are listed")
    parser.add("--preregistration FILE", "the text that was registered")
    parser.add("--decisions CSV ...", "of those who reviewed the sentences", several=True)
    parser.add("--reviewers N", "how many had to agree", positive, default=1)
    parser.add("--date DATE", "of publication (default: today)")
    group = parser.add_argument_group("adding models to a published folder")
    parser.add("--source TEXT", "where the models are from: an address, a publication", to=group)
    parser.add("--licence NAME", "of their weights, or 'none stated'", to=group)
    parser.add("--weights VERSION", "of their weights: a revision, or a date", to=group)
    what = "the sentences that the folder withholds, one a line or a column 'sentence'"
    parser.add("--texts FILE", what, to=group)


def run(args: argparse.Namespace) -> int:
    """Publish, write a template, or add models."""
    if (Path(args.study) / RECORD_FILE).is_file():
        return _add(args)
    _refuse(args, "is for adding models to a published folder; leave it out", *_GROWN)
    material = _material(args)
    scores = _scores(args, material.human, material.pool)
    if args.template is not None:
        return _template(args, material, scores)
    if args.about is None or args.out is None:
        lacking = "about" if args.about is None else "out"
        raise InputError(f"give --{lacking} too; --template FILE writes what --about reads")
    from contstim.benchmarks.publishing.texts import SourcedTexts
    from contstim.benchmarks.publishing.writing import publish
    from contstim.experiment.review import read_decisions

    about = read_about(Path(args.about))
    registered = ""
    if args.preregistration is not None:
        registered = _text(Path(args.preregistration))
    record = publish(
        material,
        about,
        SourcedTexts.read(about, Path(args.about).parent),
        args.out,
        date=_date(args),
        scores=scores,
        preset=args.preset,
        plan=None if args.plan is None else Path(args.plan),
        registered=registered,
        decisions=read_decisions(*args.decisions) if args.decisions else (),
        reviewers=args.reviewers,
        keep=args.keep,
    )
    for where, what, how in material.privacy.changes:
        tell(f"{where}: {what}: {how}")
    print(f"{args.out}: published with the scores of {len(record.scores)} models")
    print(f"look through it; then see it as others will: contstim benchmark {args.out}")
    return 0


def _add(args: argparse.Namespace) -> int:
    from contstim.benchmarks.publishing.folder import read_published
    from contstim.benchmarks.publishing.writing import add_scores

    _refuse(args, "is for a new folder, and this one is published; leave it out", *_NEW)
    if args.source is None or args.licence is None:
        lacking = "source" if args.source is None else "licence"
        raise InputError(f"say of the models --{lacking}; the data card lists it")
    human = read_published(args.study, args.texts)
    scores = _scores(args, human)
    if scores is None:
        raise InputError("give --model or --scores; there is nothing to add")
    from contstim.evaluation.scores import score_table

    names = [str(name) for name in score_table(scores, [])]
    how = {"source": args.source, "licence": args.licence, "version": args.weights or ""}
    sources = [ModelSource(name=name, **how) for name in names]
    add_scores(args.study, scores, sources, _date(args), args.texts)
    print(f"{args.study}: {', '.join(names)} added; tables and pages are made anew")
    return 0


def _material(args: argparse.Namespace) -> Material:
    path = Path(args.study)
    if path.is_dir():
        return study_material(path, None if args.data is None else Path(args.data))
    if args.data is not None:
        raise InputError("--data is for a study folder; leave it out")
    return table_material(read_choices(path, args.format))


def _scores(
    args: argparse.Namespace, human: HumanData, pool: Sequence[str] = ()
) -> pd.DataFrame | None:
    """Return the scores that are given or made, of a pool too; None where there are none."""
    from contstim.evaluation.scores import joined_scores, model_scores
    from contstim.models.registry import load_models

    scores = None if args.scores is None else read_table(args.scores)
    if not args.model:
        return scores
    made = model_scores(load_models(args.model), human.choices, args.cache, pool)
    return made if scores is None else joined_scores(scores, made)


def _template(args: argparse.Namespace, material: Material, scores: pd.DataFrame | None) -> int:
    from contstim.evaluation.scores import score_table

    refuse_overwriting(args.template, [args.study, args.about, args.scores])
    if Path(args.template).exists():
        raise InputError(f"{args.template} is there already; remove it, or name another")
    source = material.human.scores if scores is None else scores
    models = [] if source is None else [str(name) for name in score_table(source, [])]
    name = material.name or Path(args.study).name.partition(".")[0]
    text = about_template(name, material.title, material.description, material.language, models)
    write_whole(Path(args.template), text)
    print(f"{args.template}: fill in each [[ ... ]], then give it as --about")
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _date(args: argparse.Namespace) -> str:
    return args.date or datetime.now(UTC).date().isoformat()


def _refuse(args: argparse.Namespace, why: str, *names: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise InputError(f"--{name} {why}")
