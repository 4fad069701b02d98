"""A study: the folder that a researcher edits, read and checked; its texts in any language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contstim.errors import InputError, require_known
from contstim.experiment.options import AttentionCheck, PracticeTrial, StudySettings
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import ANCHOR, Design, Trial, read_design
from contstim.experiment.vendor import PAGE_FOLDER
from contstim.files import digest, json_digest
from contstim.settings import parse_settings, read_toml

if TYPE_CHECKING:
    from contstim.adaptive.conduct import AdaptivePlan

#: What the consent form of a new study has where the researcher must write.
CONSENT_PLACEHOLDER = "[["

_LONGEST_TEXT = 10_000
_BRACES = re.compile(r"\{(\w*)\}")


#: Languages whose texts come with the package, by their codes.
PAGE_LANGUAGES = ("en", "de", "es", "fr", "he", "tr", "zh")
_LONGEST_CONSENT = 50_000
_LONGEST_MODULE = 1_000_000


def read_text_source(language: str = "en") -> str:
    """Return the file of the texts in one of `PAGE_LANGUAGES` as it is written."""
    name = "texts.toml" if language == "en" else f"translations/{language}.toml"
    return (files("contstim.experiment") / name).read_text("utf-8")


_parsed = cache(tomllib.loads)


def read_default_texts() -> dict[str, str]:
    """Return the English texts by their keys."""
    return {key: text.strip() for key, text in _parsed(read_text_source()).items()}


def read_texts(path: Path, presentation: Presentation) -> dict[str, str]:
    """Read a file of texts, where there is one, over the English ones.

    Raises
    ------
    InputError
        Naming file and key: a key that no page uses, something that is not text, a text that is
        empty or names something in braces that the page cannot fill in there. Also if the
        presentation lacks a text of its own.
    """
    texts = {**read_default_texts(), **presentation.translated_texts("en")}
    for key in presentation.text_keys.values():
        require_known("text of the presentation", key, texts)
    for key, text in read_toml(path).items() if path.exists() else ():
        require_known(f"text in {path}", key, texts)
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{path}: {key} is {text!r}; give a text, or leave the key out")
        if len(text) > _LONGEST_TEXT:
            raise InputError(
                f"{path}: {key} has {len(text)} characters; give at most {_LONGEST_TEXT}"
            )
        offered = set(_BRACES.findall(texts[key]))
        for name in _BRACES.findall(text):
            if name not in offered:
                what = ", ".join(sorted(f"{{{one}}}" for one in offered)) or "no braces"
                raise InputError(f"{path}: {key} holds {{{name}}}; the page fills in {what} there")
        texts[key] = text.strip()
    return texts


@dataclass(frozen=True, kw_only=True)
class Study(StudySettings):
    """A study as its folder says: ``study.toml``, the consent form, the texts and the trials.

    Attributes
    ----------
    consent_text
        The consent form, as shown (plain text; a blank line starts a paragraph).
    texts
        Every text of the page, by key.
    design
        The assignments and their trials.
    folder
        Where all this was read from.
    module
        The text of the presentation's module, if it is none of the page's own.
    adaptive
        How trials are chosen while the study runs; None in a fixed design.
    """

    consent_text: str
    texts: Mapping[str, str]
    design: Design
    folder: Path
    module: str | None = None
    adaptive: AdaptivePlan | None = None

    @cached_property
    def presentation(self) -> Presentation:
        """How trials are shown."""
        return make_presentation(self.trial)

    @property
    def consent_sha256(self) -> str:
        """The SHA-256 of the consent text (UTF-8), as stored with each consent."""
        return digest(self.consent_text)

    @property
    def practice_trials(self) -> tuple[Trial, ...]:
        """The practice trials, the same for everybody."""
        return tuple(
            Trial(f"p{number}", number, "practice", "practice", one.content, expected=one.expected)
            for number, one in enumerate(self.practice, start=1)
        )

    def assignment_content(self, assignment: int) -> list[Any]:
        """Return what the answers of an assignment refer to: its group, trials and sides."""
        own = self.design.trials[assignment]
        shown = ([t.id, *t.shown.values(), t.side_1] for t in own)
        return [self.design.groups[assignment], *shown]

    @cached_property
    def trials_digests(self) -> dict[int, str]:
        """For each assignment a digest of what its answers refer to, the scale included.

        A page carries it along, so that its answers are not taken for those to other sentences.
        """
        scale = self.presentation.scale
        return {a: json_digest([scale, *self.assignment_content(a)]) for a in self.design.trials}

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
                "... ]]; write your own text there, or try the study with --pilot"
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
        shown = {t.shown.get("sentence", "") for own in self.design.trials.values() for t in own}
        if n := sum("|" in sentence for sentence in shown):
            notes.append(
                f"{n} sentences have a bar, at which they are read region by region; write bars "
                "nowhere else"
            )
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
    if (number := table.get("format", 1)) != 1:  # whose keys may be others
        raise InputError(f"{path}: format is {number!r}; this version of contstim reads 1")
    try:
        options = parse_settings(StudySettings, table)
        presentation = make_presentation(options.trial)
        plan = None if "adaptive" not in table else _plan(options.adaptive, presentation)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    for name in ("practice", "attention"):
        for number, trial in enumerate(getattr(options, name), start=1):
            _check_shown(presentation, trial, f"{path}: [[{name}]] {number}")
    design = read_design(folder / "trials.csv", options.attention, presentation)
    path, module = presentation.find_module(folder), None
    if not path.is_relative_to(PAGE_FOLDER):
        module = _read(path, "presentation", f"file {path}, which trial.presentation names")
        if len(module) > _LONGEST_MODULE:
            raise InputError(f"{path} has {len(module)} characters; give at most {_LONGEST_MODULE}")
    study = Study(
        **{item.name: getattr(options, item.name) for item in fields(StudySettings)}
        | {"adaptive": plan},
        consent_text=_consent(folder, options.consent.file),
        texts=read_texts(folder / "texts.toml", presentation),
        design=design,
        folder=folder,
        module=module,
    )
    check_positions(study, design)
    _check_adaptive(study)
    return study


def _check_adaptive(study: Study) -> None:
    """Refuse a design whose blank trials are not those that ``[adaptive]`` plans."""
    path, plan = study.folder / "trials.csv", study.adaptive
    for assignment, trials in study.design.trials.items():
        blank = study.design.count_blank(assignment)
        if plan is None and blank:
            raise InputError(
                f"{path}: participant {assignment} has {blank} trials without sentences, and "
                "study.toml has no table [adaptive]; write the plan there"
            )
        places = {"trials": blank, "anchors": sum(trial.condition == ANCHOR for trial in trials)}
        for name, there in places.items() if plan is not None else ():
            planned = getattr(plan, name)
            if planned != there:
                raise InputError(
                    f"{path}: participant {assignment} has {there} places for adaptive.{name}, "
                    f"which is {planned}; make a new study with `contstim experiment new --pairs`"
                )
    if plan is None:
        return
    ratings, offered = plan.link.n_answers, len(study.presentation.choices({}) or ())
    if ratings not in (2, offered):
        raise InputError(
            f"adaptive.link.thresholds make {ratings} ratings, and trial.levels is "
            f"{study.trial.levels}, which makes {offered}; change one"
        )


def _plan(table: object, presentation: Presentation) -> AdaptivePlan:
    # Loads pandas, which a fixed design does without.
    from contstim.adaptive.conduct import AdaptivePlan

    plan = parse_settings(AdaptivePlan, table, "adaptive")
    if not presentation.is_pair:
        raise InputError("[adaptive] chooses pairs; leave trial.presentation at 'choice'")
    return plan


def _check_shown(
    presentation: Presentation, trial: PracticeTrial | AttentionCheck, where: str
) -> None:
    for name in presentation.required_fields:
        if name not in trial.content:
            raise InputError(f"{where} has no {name!r}; this presentation shows one")
    for name in trial.content:
        if name not in (*presentation.required_fields, *presentation.optional_fields):
            raise InputError(f"{where} has {name!r}, which this presentation does not show")
    if trial.expected is not None:
        try:
            presentation.check_expected(trial.content, trial.expected)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def _consent(folder: Path, name: str) -> str:
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise InputError(f"consent.file is {name!r}; name a file in the study's folder")
    path = folder / name
    text = _read(path, "consent form", f"consent form {path}; write it there").strip()
    if not text or len(text) > _LONGEST_CONSENT:
        raise InputError(
            f"the consent form {path} has {len(text)} characters; give 1 to {_LONGEST_CONSENT}"
        )
    return text


def _read(path: Path, what: str, missing: str) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no {missing}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the {what} {path}: {error}") from None


def check_positions(study: Study, design: Design) -> None:
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
