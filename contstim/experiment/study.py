"""A study: the folder that a researcher edits, written, read and checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contstim.errors import InputError, OutputError, UnknownNameError, near_matches
from contstim.experiment.options import (
    PRESENTATIONS,
    AllocationOptions,
    AttentionCheck,
    ConsentOptions,
    DeviceOptions,
    PageOptions,
    PracticeTrial,
    Question,
    Recruiter,
    SessionOptions,
    TrialOptions,
)
from contstim.experiment.presentations import (
    OwnModule,
    Presentation,
    TwoSentences,
    presentation_of,
)
from contstim.experiment.texts import LANGUAGES, default_source, default_texts, read_texts
from contstim.experiment.trials import Design, Trial, practice_trials, read_design
from contstim.files import digest, file_digest, write_whole
from contstim.settings import build, read_toml
from contstim.tables import numbered_lines

if TYPE_CHECKING:
    from contstim.adaptive.conduct import AdaptivePlan

#: What the consent form of a new study has where the researcher must write.
CONSENT_PLACEHOLDER = "[["

_TABLES = {
    "study": PageOptions,
    "consent": ConsentOptions,
    "trial": TrialOptions,
    "device": DeviceOptions,
    "session": SessionOptions,
    "allocation": AllocationOptions,
    "recruiter": Recruiter,
}
_LISTS = {"practice": PracticeTrial, "attention": AttentionCheck, "questions": Question}
_LONGEST_CONSENT = 50_000
_LONGEST_MODULE = 1_000_000


@dataclass(frozen=True)
class Study:
    """A study as its folder says: ``study.toml``, the consent form, the texts and the trials.

    Attributes
    ----------
    study, consent, trial, device, session, allocation, recruiter, practice, attention, questions
        The tables of ``study.toml``; `recruiter` is None where there is none.
    consent_text
        The consent form, as shown (plain text; a blank line starts a paragraph).
    texts
        Every text of the page, by key.
    design
        The assignments and their trials.
    folder
        Where all this was read from.
    module
        The text of the presentation's module, if it is the study's own.
    adaptive
        How trials are chosen while the study runs; None in a fixed design.
    """

    study: PageOptions
    consent: ConsentOptions
    consent_text: str
    design: Design
    trial: TrialOptions = field(default_factory=TrialOptions)
    device: DeviceOptions = field(default_factory=DeviceOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    recruiter: Recruiter | None = None
    practice: tuple[PracticeTrial, ...] = ()
    attention: tuple[AttentionCheck, ...] = ()
    questions: tuple[Question, ...] = ()
    texts: Mapping[str, str] = field(default_factory=default_texts)
    folder: Path = field(default_factory=Path.cwd)
    module: str | None = None
    adaptive: AdaptivePlan | None = None

    @property
    def presentation(self) -> Presentation:
        """How trials are shown."""
        return presentation_of(self.trial)

    @property
    def consent_sha256(self) -> str:
        """The SHA-256 of the consent text (UTF-8), as stored with each consent."""
        return digest(self.consent_text)

    @property
    def practice_trials(self) -> tuple[Trial, ...]:
        """The practice trials, the same for everybody."""
        return practice_trials(self.practice)

    def check_consent(self) -> None:
        """Refuse a consent form that nobody has filled in.

        Raises
        ------
        InputError
            If places are still marked in it.
        """
        if CONSENT_PLACEHOLDER in self.consent_text:
            raise InputError(
                f"{self.folder / self.consent.file} still has places marked {CONSENT_PLACEHOLDER} "
                "... ]], and the study names a recruiter; write your own text there, or try the "
                "whole with --pilot"
            )

    @property
    def notes(self) -> list[str]:
        """What a researcher should still see to before people take part, one sentence each."""
        notes = []
        if CONSENT_PLACEHOLDER in self.consent_text:
            notes.append(
                f"{self.consent.file} still has places marked {CONSENT_PLACEHOLDER} ... ]]; "
                "write your own text there"
            )
        if self.recruiter is not None and self.recruiter.codes.complete is None:
            notes.append("recruiter.codes.complete is missing; nobody gets a completion code")
        if not any(trial.expected for own in self.design.trials.values() for trial in own):
            notes.append("the design has no catch trials and the study no attention checks")
        return notes


def read_study(folder: str | Path) -> Study:
    """Read and check a study folder.

    Parameters
    ----------
    folder
        The folder, with ``study.toml``, ``trials.csv`` (from ``contstim design trials``), the
        consent form that ``consent.file`` names and, if the texts are not the English ones,
        ``texts.toml``. Of an adaptive study also ``pool.csv`` and ``scores``.

    Raises
    ------
    InputError
        Naming the file, the key or row, what it holds and what it should.
    """
    folder = Path(folder)
    path = folder / "study.toml"
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; make one with `contstim experiment new`")
    table = read_toml(path, "make a study with `contstim experiment new`")
    try:
        parts = _parts(table)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    consent: ConsentOptions = parts["consent"]
    texts = folder / "texts.toml"
    presentation = presentation_of(parts.get("trial", TrialOptions()))
    for name in ("practice", "attention"):
        for number, one in enumerate(parts[name], start=1):
            _check_shown(presentation, one, f"{path}: [[{name}]] {number}")
    design = read_design(folder / "trials.csv", parts["attention"], presentation)
    own = isinstance(presentation, OwnModule)
    study = Study(
        **parts,
        consent_text=_consent(folder, consent.file),
        texts=read_texts(texts) if texts.exists() else default_texts(),
        design=design,
        folder=folder,
        module=_module(folder / presentation.module) if own else None,
    )
    check_places(study, design)
    _check_adaptive(study)
    return study


def _check_adaptive(study: Study) -> None:
    """Refuse a design whose blank trials are not those that ``[adaptive]`` plans."""
    path, plan = study.folder / "trials.csv", study.adaptive
    for assignment, own in study.design.trials.items():
        blank = study.design.n_blank(assignment)
        if plan is None:
            if blank:
                raise InputError(
                    f"{path}: participant {assignment} has {blank} trials without sentences, and "
                    "study.toml has no table [adaptive]; write the plan there"
                )
            continue
        anchors = sum(trial.condition == "anchor" for trial in own)
        for name, planned, found in (
            ("trials", plan.trials, blank),
            ("anchors", plan.anchors, anchors),
        ):
            if planned != found:
                raise InputError(
                    f"{path}: participant {assignment} has {found} places for adaptive.{name}, "
                    f"which is {planned}; make a new study with `contstim experiment new --pool`"
                )
    if plan is None:
        return
    ratings = plan.link.n_answers
    if ratings not in (2, 2 * study.trial.levels):
        raise InputError(
            f"adaptive.link.thresholds make {ratings} ratings, and trial.levels is "
            f"{study.trial.levels}, which makes {2 * study.trial.levels}; change one"
        )


def _parts(table: Mapping[str, Any]) -> dict[str, Any]:
    known = ("format", *_TABLES, *_LISTS, "adaptive")
    for key in table:
        if key not in known:
            raise InputError(f"unknown key {key}; {near_matches(key, known)}")
    if table.get("format", 1) != 1:
        raise InputError(f"format is {table['format']!r}; this version of contstim reads 1")
    for name in ("study", "consent"):
        if name not in table:
            raise InputError(f"the table [{name}] is missing")
    parts: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        if name in table:
            parts[name] = build(kind, table[name], name)
    if "adaptive" in table:
        # Loads pandas, which a fixed design does without.
        from contstim.adaptive.conduct import AdaptivePlan

        parts["adaptive"] = build(AdaptivePlan, table["adaptive"], "adaptive")
        if not isinstance(presentation_of(parts.get("trial", TrialOptions())), TwoSentences):
            raise InputError("[adaptive] chooses pairs; leave trial.presentation at 'choice'")
    for name, item in _LISTS.items():
        given = table.get(name, [])
        if not isinstance(given, list):
            raise InputError(f"{name} is {given!r}; write [[{name}]] above each")
        parts[name] = tuple(build(item, one, name) for one in given)
    names = [one.name for one in (*parts["consent"].boxes, *parts["questions"])]
    for question in names:
        if names.count(question) > 1:
            raise InputError(f"two questions have the name {question!r}; give each its own")
    return parts


def _check_shown(
    presentation: Presentation, one: PracticeTrial | AttentionCheck, where: str
) -> None:
    for name in presentation.needed:
        if name not in one.given:
            raise InputError(f"{where} has no {name!r}; this presentation shows one")
    for name in one.given:
        if name not in (*presentation.needed, *presentation.optional):
            raise InputError(f"{where} has {name!r}, which this presentation does not show")
    if one.expected is not None:
        try:
            presentation.check_expected(one.given, one.expected)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def _module(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}, which trial.presentation names") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the presentation {path}: {error}") from None
    if len(text) > _LONGEST_MODULE:
        raise InputError(f"{path} has {len(text)} characters; give at most {_LONGEST_MODULE}")
    return text


def _consent(folder: Path, name: str) -> str:
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise InputError(f"consent.file is {name!r}; name a file in the study's folder")
    path = folder / name
    try:
        text = path.read_text("utf-8").strip()
    except FileNotFoundError:
        raise InputError(f"there is no consent form {path}; write it there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the consent form {path}: {error}") from None
    if not text or len(text) > _LONGEST_CONSENT:
        raise InputError(
            f"the consent form {path} has {len(text)} characters; give 1 to {_LONGEST_CONSENT}"
        )
    return text


def check_places(study: Study, design: Design) -> None:
    """Refuse breaks and checks that stand after the last trial: they would never be seen there.

    Raises
    ------
    InputError
        Naming the key of ``study.toml``.
    """
    path = study.folder / "study.toml"
    least = min(len(own) for own in design.trials.values()) - len(study.attention)
    for check in study.attention:
        if check.after > least:
            raise InputError(f"{path}: attention.after is {check.after}, but there are {least}")
    for number in study.session.break_after:
        if number >= least + len(study.attention):
            raise InputError(
                f"{path}: session.break_after holds {number}, but there are "
                f"{least + len(study.attention)} trials"
            )


_CONSENT = """\
You are invited to take part in a study on language by [[the researchers and their institution]].

You will see pairs of sentences and say which of the two you are more likely to come across. \
This takes about [[number]] minutes. [[What participants receive.]]

We store your answers, how long they took, whether the page was left meanwhile, whether you used \
keyboard, mouse or touch, and the kind of your browser, the size of its window and its time zone. \
Your participant id is kept apart from your answers and is not published. [[Where data are stored, \
for how long, and what is published.]]

Taking part is voluntary. You can stop at any time by closing the page, without giving a reason. \
[[How to have data deleted.]]

Questions: [[name and address]]. Approval: [[board and number]].
"""


_TITLES = {
    "choice": "Which sentence is more likely?",
    "rating": "How likely are these sentences?",
    "reading": "Reading sentences",
}

_PRACTICE = {
    "choice": """\
[[practice]]
left = "The dog barked at the postman."
right = "The postman barked dog the at."
expected = "left"

[[practice]]
left = "We painted the kitchen a quick blue."
right = "We painted the kitchen a quiet blue."
expected = "right"
""",
    "rating": """\
[[practice]]
sentence = "The dog barked at the postman."

[[practice]]
sentence = "The postman barked dog the at."
""",
    "reading": """\
[[practice]]
sentence = "The dog that lives next door barked at the postman."
question = "Did the postman bark?"
expected = "no"

[[practice]]
sentence = "We painted the kitchen a quiet blue before the guests arrived."
""",
}


def record_path(trials: Path) -> Path:
    """Return where the record lies of how a table of trials was laid out: seed and options."""
    return trials.with_name(f"{trials.name}.meta.json")


def write_record(trials: Path, options: Mapping[str, Any]) -> None:
    """Write beside a table of trials how it was laid out: version, options and seed, its digest.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    made = {"contstim": version("contstim"), "options": options, "sha256": file_digest(trials)}
    write_whole(record_path(trials), json.dumps(made, indent=2) + "\n")


def example_study(folder: Path) -> Study:
    """Write a study folder around the trials that come with contstim, and return the study.

    They are for three groups of four participants: natural pairs on which the bundled models
    disagree, and sentences written for bigram and trigram model.

    Raises
    ------
    InputError, OutputError
        As `new_study`.
    """
    with as_file(files("contstim.experiment") / "example") as example:
        new_study(folder, example / "trials.csv")
        write_whole(folder / "consent.md", (example / "consent.md").read_text("utf-8"))
    return read_study(folder)


@dataclass(frozen=True)
class _Preset:
    """How a published experiment was run, as lines of ``study.toml`` and ``texts.toml``."""

    catch: int
    settings: Mapping[str, str]
    texts: Mapping[str, str]


#: Golan, Siegelman, Kriegeskorte & Baldassano (2023), Nature Machine Intelligence 5, 952-964,
#: https://doi.org/10.1038/s42256-023-00718-1, Methods: question, levels, limit of time, and a bar
#: of progress at the foot.
STUDY_PRESETS = {
    "golan2023": _Preset(
        catch=12,
        settings={
            "time_limit_minutes": "90",
            "break_every": "0",
            "levels": "3",
            "progress": '"foot"',
        },
        texts={
            "trial_prompt": "Which of the two sentences are you more likely to encounter in the "
            "world, as either speech or written text?",
            "confidence_1": "somewhat confident",
            "confidence_2": "confident",
            "confidence_3": "very confident",
        },
    )
}


def _changed(source: str, values: Mapping[str, str]) -> str:
    """Return a TOML file with other values of keys that stand on one line; comments stay."""
    for key, value in values.items():
        pattern = rf'^{key} = ("[^"]*"|[^\s#]+)'
        before, after = re.split(pattern, source, maxsplit=1, flags=re.M)[::2]
        source = f"{before}{key} = {value}{after}"
    return source


def new_study(
    folder: str | Path,
    trials: str | Path,
    preset: str | None = None,
    language: str = "en",
    presentation: str = "choice",
) -> Study:
    """Write a study folder around a table of trials and return the study.

    Parameters
    ----------
    folder
        Where; it must not exist or be empty. Its name becomes the study's.
    trials
        What ``contstim design trials`` wrote, or of the other presentations `sentence_trials`; it
        is copied, with the record beside it of how it was made.
    preset
        A published experiment to run it like, of `STUDY_PRESETS`; its wording is English.
    language
        One of `LANGUAGES`, in which the page's texts are written. Title, consent form and practice
        stay English, to be translated.
    presentation
        One of `PRESENTATIONS`.

    Raises
    ------
    InputError
        If the folder holds something, the table cannot be used, or there is no such preset.
    OutputError
        If the place cannot be written to.
    """
    return write_study(Path(folder), Path(trials), preset, language, presentation)


def write_study(
    folder: Path,
    trials: Path,
    preset: str | None = None,
    language: str = "en",
    presentation: str = "choice",
    tables: str = "",
    more: Mapping[str, Path] | None = None,
) -> Study:
    """Write a study folder, as `new_study`, with further `tables` and copies of `more` files."""
    if preset is not None and preset not in STUDY_PRESETS:
        raise UnknownNameError.among("preset", preset, STUDY_PRESETS)
    if language not in LANGUAGES:
        raise UnknownNameError.among("language", language, LANGUAGES)
    if preset is not None and language != "en":
        raise InputError(
            f"the wording of {preset} is English; leave out the language or the preset"
        )
    if presentation not in PRESENTATIONS:
        raise UnknownNameError.among("presentation", presentation, PRESENTATIONS)
    if preset is not None and presentation != "choice":
        raise InputError(f"{preset} showed pairs; leave out the presentation or the preset")
    like = _Preset(0, {}, {}) if preset is None else STUDY_PRESETS[preset]
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is there already and not empty; choose another folder")
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}") from None
    # Says what is wrong before anything is written.
    read_design(trials, presentation=presentation_of(TrialOptions(presentation)))
    name = os.path.basename(os.path.realpath(folder))  # a loop of links has no Path.resolve()
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64] or "study"
    template = (files("contstim.experiment") / "template.toml").read_text("utf-8")
    table = "".join(f"{line}\n" for _, line in numbered_lines(trials))
    write_whole(folder / "trials.csv", table)
    record = record_path(trials)
    if record.is_file():
        write_whole(record_path(folder / "trials.csv"), record.read_text("utf-8"))
    write_whole(folder / "consent.md", _CONSENT)
    texts = {key: json.dumps(text, ensure_ascii=False) for key, text in like.texts.items()}
    write_whole(folder / "texts.toml", _changed(default_source(language), texts))
    own = {
        "language": f'"{language}"',
        "direction": f'"{LANGUAGES[language]}"',
        "presentation": f'"{presentation}"',
        **like.settings,
    }
    practice, title = _PRACTICE[presentation], _TITLES[presentation]
    template = _changed(template, own).replace("{practice}", practice, 1)
    template = template.replace("{title}", title, 1).replace("{name}", json.dumps(name), 1)
    for target, source in (more or {}).items():
        write_whole(folder / target, source.read_bytes())
    write_whole(folder / "study.toml", template + tables)
    return read_study(folder)
