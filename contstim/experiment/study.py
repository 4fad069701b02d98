"""A study: the folder that a researcher edits, with its settings, texts and trials."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.errors import InputError, require_known
from contstim.experiment.options import AttentionCheck, PracticeTrial, StudySettings
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import ANCHOR, Design, Trial, read_design
from contstim.experiment.vendor import PAGE_FOLDER
from contstim.files import digest, json_digest
from contstim.settings import parse_settings, read_toml

if TYPE_CHECKING:
    from contstim.adaptive.scheduler import AdaptivePlan

#: Marks the passages of a new study's consent form that the researcher has to write.
CONSENT_PLACEHOLDER = "[["

#: Languages with bundled texts of the page, by their codes.
PAGE_LANGUAGES = ("en", "de", "es", "fr", "he", "tr", "zh")

# Maximum numbers of characters.
_MAX_TEXT = 10_000
_MAX_CONSENT = 50_000
_MAX_MODULE = 1_000_000

_PLACEHOLDER = re.compile(r"\{(\w*)\}")


def read_text_source(language: str = "en") -> str:
    """Return the bundled file with the web page's texts in a language, as TOML.

    Parameters
    ----------
    language
        Code of the language, one of `PAGE_LANGUAGES`.

    Returns
    -------
    str
        Content of the file.
    """
    name = "texts.toml" if language == "en" else f"translations/{language}.toml"
    return (files("contstim.experiment") / name).read_text("utf-8")


@cache
def read_default_texts() -> Mapping[str, str]:
    """Return the English texts of the web page by their keys."""
    return {key: text.strip() for key, text in tomllib.loads(read_text_source()).items()}


def read_texts(path: Path, presentation: Presentation) -> dict[str, str]:
    """Read the texts that participants see on the web page, such as instructions and button labels.

    Texts that the file does not define keep their English default.

    Parameters
    ----------
    path
        TOML file with texts; it need not exist.
    presentation
        How trials are shown and answered. It may define additional texts.

    Returns
    -------
    dict
        All texts of the page by their keys.

    Raises
    ------
    InputError
        If a key is unknown, or a text is empty, too long, or has a placeholder in braces that the
        page does not fill in. Also if the presentation uses a text that has no default.
    """
    texts = {**read_default_texts(), **presentation.translated_texts("en")}
    for key in presentation.text_keys.values():
        require_known("text of the presentation", key, texts)
    # Check the texts of the file, and replace the default texts with them.
    for key, text in read_toml(path).items() if path.exists() else ():
        require_known(f"text in {path}", key, texts)
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{path}: {key} is {text!r}; give a text, or leave the key out")
        if len(text) > _MAX_TEXT:
            raise InputError(f"{path}: {key} has {len(text)} characters; give at most {_MAX_TEXT}")
        # The page fills in the placeholders of the default text, which are names in braces.
        placeholders = set(_PLACEHOLDER.findall(texts[key]))
        for name in _PLACEHOLDER.findall(text):
            if name not in placeholders:
                offered = ", ".join(f"{{{item}}}" for item in sorted(placeholders)) or "no braces"
                raise InputError(f"{path}: {key} contains {{{name}}}; the page fills in {offered}")
        texts[key] = text.strip()
    return texts


@dataclass(frozen=True, kw_only=True)
class Study(StudySettings):
    """Content of a study folder: settings, consent form, texts and trials.

    The tables of ``study.toml`` are attributes too; `StudySettings` describes them.

    Attributes
    ----------
    consent_text
        Consent form as plain text; a blank line starts a paragraph.
    texts
        All texts of the page by their keys.
    design
        Assignments and their trials.
    folder
        Folder of the study.
    module
        JavaScript source of a custom presentation; None if the presentation is bundled.
    adaptive
        Plan of an adaptive study; None if the design is fixed.
    """

    consent_text: str
    texts: Mapping[str, str]
    design: Design
    folder: Path
    module: str | None = None
    adaptive: AdaptivePlan | None = None

    @cached_property
    def presentation(self) -> Presentation:
        """How trials are shown and answered."""
        return make_presentation(self.trial)

    @property
    def consent_sha256(self) -> str:
        """SHA-256 digest of the consent form, stored with each consent."""
        return digest(self.consent_text)

    @property
    def practice_trials(self) -> tuple[Trial, ...]:
        """Practice trials, which are the same for all participants."""
        return tuple(
            Trial(
                id=f"p{number}",  # trials of the design have other ids, e.g. t1
                number=number,
                kind="practice",
                condition="practice",
                shown=practice.content,
                expected=practice.expected,
            )
            for number, practice in enumerate(self.practice, start=1)
        )

    def assignment_content(self, assignment: int) -> list[int | list[str | None]]:
        """Return the content of one participant's trials, to detect later changes.

        A stored answer names a trial, but neither its sentences nor their sides. A hash of the
        content is therefore stored with the answers. If somebody edits ``trials.csv`` later, the
        hash changes and the study is refused.

        Parameters
        ----------
        assignment
            Number of the assignment: the list of trials for one participant of the design.

        Returns
        -------
        list
            The first element is the number of the group. Every further element is a list that
            describes one trial, in the order of presentation: the id of the trial, the texts that
            are shown, and the side of sentence 1 (None if the trial is not a pair).
        """
        trial_contents = [
            [trial.id, *trial.shown.values(), trial.side_1]
            for trial in self.design.trials[assignment]
        ]
        return [self.design.groups[assignment], *trial_contents]

    @cached_property
    def trials_digests(self) -> dict[int, str]:
        """Digests of the trials and the response scale, by assignment number.

        An assignment is the list of trials for one participant. The page sends the digest together
        with its answers. When answers are imported, the digest is compared with the study's, to
        detect answers to other trials.
        """
        scale = self.presentation.scale
        return {
            assignment: json_digest([scale, *self.assignment_content(assignment)])
            for assignment in self.design.trials
        }

    def check_consent(self) -> None:
        """Check that the researcher has completed the consent form.

        Raises
        ------
        InputError
            If the form still contains placeholders.
        """
        if CONSENT_PLACEHOLDER in self.consent_text:
            raise InputError(
                f"{self.folder / self.consent.file} still has passages marked "
                f"{CONSENT_PLACEHOLDER} ... ]]; write your own text there, or try the study with "
                "--pilot"
            )

    @property
    def notes(self) -> list[str]:
        """Warnings for the researcher before the study starts, one sentence each.

        The warnings concern the consent form, completion codes, attention checks and marks in
        sentences.
        """
        notes = []
        if CONSENT_PLACEHOLDER in self.consent_text:
            notes.append(
                f"{self.consent.file} still has passages marked {CONSENT_PLACEHOLDER} ... ]]; "
                "write your own text there"
            )
        if self.recruiter is not None and self.recruiter.codes.complete is None:
            notes.append("recruiter.codes.complete is missing; nobody gets a completion code")
        all_trials = [trial for trials in self.design.trials.values() for trial in trials]
        if not any(trial.expected for trial in all_trials):
            notes.append("the design has no catch trials and the study no attention checks")
        # In self-paced reading, bars separate the regions of a sentence.
        sentences = {trial.shown.get("sentence", "") for trial in all_trials}
        n_with_bar = sum("|" in sentence for sentence in sentences)
        if n_with_bar:
            notes.append(
                f"{n_with_bar} sentences contain a bar, which separates the regions that are read "
                "one at a time; do not use bars for anything else"
            )
        return notes


def read_study(folder: str | Path) -> Study:
    """Read and check a study folder.

    Parameters
    ----------
    folder
        Folder with ``study.toml``, ``trials.csv`` (from ``contstim design trials``), the consent
        form that ``consent.file`` names and, unless all texts are English, ``texts.toml``. The
        folder of an adaptive study also has ``pool.csv`` and ``scores``.

    Returns
    -------
    Study
        Checked study.

    Raises
    ------
    InputError
        If a file is missing or invalid; the message names the file, the key or row, and the value.
    """
    folder = Path(folder)
    path = folder / "study.toml"
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; make one with `contstim experiment new`")
    table = read_toml(path, "make a study with `contstim experiment new`")
    # Checked first, since another format may have other keys.
    file_format = table.get("format", 1)
    if file_format != 1:
        raise InputError(f"{path}: format is {file_format!r}; this version of contstim reads 1")
    try:
        options = parse_settings(StudySettings, table)
        presentation = make_presentation(options.trial)
        plan = None
        if "adaptive" in table:
            # Loads pandas, which a study with a fixed design does not need.
            from contstim.adaptive.scheduler import AdaptivePlan

            plan = parse_settings(AdaptivePlan, options.adaptive, "adaptive")
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    if plan is not None and not presentation.is_pair:
        raise InputError(f"{path}: [adaptive] chooses pairs; leave trial.presentation at 'choice'")
    for name in ("practice", "attention"):
        for number, trial in enumerate(getattr(options, name), start=1):
            _check_fields(presentation, trial, f"{path}: [[{name}]] {number}")
    design = read_design(folder / "trials.csv", options.attention, presentation)
    path, module = presentation.find_module(folder), None
    if not path.is_relative_to(PAGE_FOLDER):
        module = _read_file(path, "presentation", f"file {path}, which trial.presentation names")
        if len(module) > _MAX_MODULE:
            raise InputError(f"{path} has {len(module)} characters; give at most {_MAX_MODULE}")
    study = Study(
        **{item.name: getattr(options, item.name) for item in fields(StudySettings)}
        | {"adaptive": plan},
        consent_text=_read_consent(folder, options.consent.file),
        texts=read_texts(folder / "texts.toml", presentation),
        design=design,
        folder=folder,
        module=module,
    )
    check_positions(study, design)
    _check_adaptive_trials(study)
    return study


def _check_fields(
    presentation: Presentation, trial: PracticeTrial | AttentionCheck, location: str
) -> None:
    """Check the fields of a practice trial or attention check.

    The trial must have all fields that the presentation requires and no unknown ones, and their
    values must be valid.

    Parameters
    ----------
    presentation
        Presentation of the study: how trials are shown and answered.
    trial
        Trial to check.
    location
        File and table of the trial, with which error messages begin.

    Raises
    ------
    InputError
        If a field is missing, unknown or invalid.
    """
    for name in presentation.required_fields:
        if name not in trial.content:
            raise InputError(f"{location} has no {name!r}; this presentation shows one")
    for name in trial.content:
        if name not in (*presentation.required_fields, *presentation.optional_fields):
            raise InputError(f"{location} has {name!r}, which this presentation does not show")
    # Check the values of the fields. An error names the location of the trial.
    try:
        presentation.check_fields(trial.content)
        if trial.expected is not None:
            presentation.check_expected(trial.content, trial.expected)
    except InputError as error:
        raise InputError(f"{location}: {error}") from None


def _read_consent(folder: Path, name: str) -> str:
    """Read the consent form of a study."""
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise InputError(f"consent.file is {name!r}; name a file in the study's folder")
    # The consent form is a plain text of limited length.
    path = folder / name
    text = _read_file(path, "consent form", f"consent form {path}; write it there").strip()
    if not text or len(text) > _MAX_CONSENT:
        raise InputError(f"{path} has {len(text)} characters; give 1 to {_MAX_CONSENT}")
    return text


def _read_file(path: Path, kind: str, if_missing: str) -> str:
    """Read a text file of the study folder.

    Parameters
    ----------
    path
        File to read.
    kind
        Kind of file, for the error message if it cannot be read.
    if_missing
        Description of the file with advice, for the error message if it does not exist.
    """
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no {if_missing}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the {kind} {path}: {error}") from None


def check_positions(study: Study, design: Design) -> None:
    """Check that no break or attention check comes after the last trial.

    Parameters
    ----------
    study
        Study with the breaks and attention checks.
    design
        Design to check. It may have more assignments than the design of the study, because
        `extend_study` checks the extended design before it replaces the old one.

    Raises
    ------
    InputError
        If a break or check comes after the last trial; the message names the key of ``study.toml``.
    """
    path = study.folder / "study.toml"
    min_trials = min(map(len, design.trials.values()))
    # Positions of breaks count all trials. Positions of attention checks count design trials only.
    min_design_trials = min_trials - len(study.attention)
    for check in study.attention:
        if check.after > min_design_trials:
            raise InputError(
                f"{path}: attention.after is {check.after}, but there are {min_design_trials}"
            )
    for number in study.session.break_after:
        if number >= min_trials:
            raise InputError(
                f"{path}: session.break_after contains {number}, but there are {min_trials} trials"
            )


def _check_adaptive_trials(study: Study) -> None:
    """Check that ``trials.csv`` agrees with the settings of an adaptive study.

    In an adaptive study, each participant sees some fixed pairs that all participants see (the
    *anchors*), and trials that are selected while the study runs. Rows without sentences are
    placeholders for the selected trials. The table ``[adaptive]`` of ``study.toml`` states the
    number of both; without this table, there must be no placeholders.

    Raises
    ------
    InputError
        If the numbers of trials differ from the settings, or the response model of the settings has
        a different number of ratings from the page.
    """
    path, plan = study.folder / "trials.csv", study.adaptive
    for assignment, trials in study.design.trials.items():
        # Placeholders are filled with trials while the study runs. All participants see anchors.
        n_placeholders = study.design.count_placeholders(assignment)
        n_anchors = sum(trial.condition == ANCHOR for trial in trials)
        if plan is None:
            if n_placeholders:
                raise InputError(
                    f"{path}: participant {assignment} has {n_placeholders} trials without "
                    "sentences, and study.toml has no table [adaptive]; write the plan there"
                )
            continue
        counts = [("trials", n_placeholders, plan.trials), ("anchors", n_anchors, plan.anchors)]
        for name, n_designed, n_planned in counts:
            if n_designed != n_planned:
                raise InputError(
                    f"{path}: participant {assignment} has {n_designed} rows for "
                    f"adaptive.{name}, which is {n_planned}; make a new study with "
                    "`contstim experiment new --pairs`"
                )
    if plan is None:
        return
    # The assumed distribution of answers must fit the rating scale of the page.
    n_ratings, n_choices = plan.link.n_answers, len(study.presentation.choices({}) or ())
    if n_ratings not in (2, n_choices):
        raise InputError(
            f"adaptive.link.thresholds define {n_ratings} ratings, but trial.levels is "
            f"{study.trial.levels}, which defines {n_choices}; change one of them"
        )
