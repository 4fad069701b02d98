"""Creation of new study folders from a table of trials or sentences."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

from contstim.errors import InputError, OutputError, require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import PRESENTATIONS, Presentation, make_presentation
from contstim.experiment.study import PAGE_LANGUAGES, Study, read_study, read_text_source
from contstim.experiment.trials import read_design, read_row, read_rows, write_trials
from contstim.files import metadata_path, replace_atomically, write_atomically, write_metadata
from contstim.text.languages import get_language
from contstim.text_files import read_lines


@dataclass(frozen=True)
class _StudyPreset:
    """Preset of a new study that replicates a published experiment.

    Attributes
    ----------
    catch
        Number of catch trials per participant.
    settings
        Values in ``study.toml`` by their keys, as TOML.
    texts
        English texts in ``texts.toml`` by their keys.
    """

    catch: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


#: Settings of published experiments. ``golan2023``: question, levels of confidence, time limit and
#: progress bar of Golan, Siegelman, Kriegeskorte & Baldassano (2023), Nature Machine Intelligence
#: 5, 952-964, https://doi.org/10.1038/s42256-023-00718-1, Methods.
STUDY_PRESETS = {
    "golan2023": _StudyPreset(
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


def create_example_study(folder: Path) -> Study:
    """Create a study folder with the bundled example trials.

    The trials are for three groups of four participants: natural sentence pairs on which the
    bundled models disagree, and sentences synthesized for the bigram and the trigram model.

    Parameters
    ----------
    folder
        Folder to write. It is created if it does not exist; an existing folder must be empty.

    Returns
    -------
    Study
        New study.

    Raises
    ------
    InputError
        If the folder is not empty.
    OutputError
        If the folder cannot be written.
    """
    with as_file(files("contstim.experiment") / "example") as example:
        create_study(folder, example / "trials.csv")
        write_atomically(folder / "consent.md", (example / "consent.md").read_text("utf-8"))
    return read_study(folder)


def create_study(
    folder: str | Path,
    trials: str | Path,
    preset: str | None = None,
    language: str = "en",
    presentation: str = "choice",
    settings: str = "",
    copies: Mapping[str, Path] | None = None,
) -> Study:
    """Create a study folder from a table of trials.

    Parameters
    ----------
    folder
        Folder to write. It is created if it does not exist; an existing folder must be empty. Its
        name becomes the study's name.
    trials
        Table from ``contstim design trials`` or, for presentations of single sentences, from
        `write_sentence_trials`; copied with its metadata file.
    preset
        Name of a published experiment in `STUDY_PRESETS` to replicate, in English.
    language
        Language of the page's texts, one of `PAGE_LANGUAGES`. The title, the consent form and the
        practice trials are English and have to be translated.
    presentation
        How trials are shown and answered: ``choice``, ``rating``, ``reading``, or a presentation of
        an installed package (see `PRESENTATIONS`).
    settings
        TOML tables to append to ``study.toml``.
    copies
        Further files to copy, by their names in the folder.

    Returns
    -------
    Study
        New study.

    Raises
    ------
    InputError
        If the folder is not empty, the table is invalid, or a name is unknown.
    OutputError
        If the folder cannot be written.
    """
    require_known("language", language, PAGE_LANGUAGES)
    require_known("presentation", presentation, PRESENTATIONS)
    options = _StudyPreset()
    if preset is not None:
        require_known("preset", preset, STUDY_PRESETS)
        options = STUDY_PRESETS[preset]
        if language != "en":
            raise InputError(f"{preset} is in English; leave out the language or the preset")
        if presentation != "choice":
            raise InputError(f"{preset} showed pairs; leave out the presentation or the preset")
    folder, trials = Path(folder), Path(trials)
    template = make_presentation(TrialOptions(presentation))
    check_empty_folder(folder)
    read_design(trials, presentation=template)  # reports errors before anything is written

    # `Path.resolve` fails on circular links, which `os.path.realpath` leaves as they are.
    name = os.path.basename(os.path.realpath(folder))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64] or "study"
    package = files("contstim.experiment")
    consent = (package / "template_consent.md").read_text("utf-8")
    study_toml = (package / "template.toml").read_text("utf-8")
    study_toml = _replace_values(
        study_toml,
        {
            "language": f'"{language}"',
            "direction": f'"{get_language(language).direction}"',
            "presentation": f'"{presentation}"',
            **options.settings,
        },
    )
    study_toml = study_toml.replace("{practice}", template.practice, 1)
    study_toml = study_toml.replace("{title}", template.title, 1)
    study_toml = study_toml.replace("{name}", json.dumps(name), 1)

    preset_texts = {key: _quote(text) for key, text in options.texts.items()}
    texts_toml = _replace_values(read_text_source(language), preset_texts)
    for key, text in template.translated_texts(language).items():
        texts_toml += f"{key} = {_quote(text)}\n"

    contents = {
        "trials.csv": "".join(f"{line}\n" for _, line in read_lines(trials)).encode(),
        "consent.md": consent.format(task=template.task).encode(),
        "texts.toml": texts_toml.encode(),
        "study.toml": (study_toml + settings).encode(),
    }
    metadata = metadata_path(trials)
    if metadata.is_file():
        contents[metadata_path(folder / "trials.csv").name] = metadata.read_bytes()
    contents |= {target: source.read_bytes() for target, source in (copies or {}).items()}
    write_folder(folder, contents)
    return read_study(folder)


def _replace_values(source: str, values: Mapping[str, str]) -> str:
    """Replace the values of some keys in the text of a TOML file, and keep its comments.

    Parameters
    ----------
    source
        Content of the file.
    values
        New values as TOML, by key. Every key must be in the file, with its value on one line.

    Returns
    -------
    str
        New content of the file.
    """
    for key, value in values.items():
        pattern = rf'^{key} = ("[^"]*"|[^\s#]+)'
        before, _, after = re.split(pattern, source, maxsplit=1, flags=re.M)
        source = f"{before}{key} = {value}{after}"
    return source


def _quote(text: str) -> str:
    """Return a text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def write_sentence_trials(
    path: Path,
    folder: Path,
    participants: int,
    seed: int = 0,
    presentation: Presentation | None = None,
    factors: Sequence[str] = (),
) -> Path:
    """Assign sentences to participants in a Latin-square design, and write the table of trials.

    In a Latin-square design, every participant sees each item once, in one of its conditions, and
    the conditions are balanced over participants (see `latin_square`).

    Parameters
    ----------
    path
        CSV file of sentences in the format of `latin_square`; it may have further columns, e.g.
        ``question`` and ``expected``.
    folder
        Folder in which ``trials.csv`` and its metadata file are written. The metadata include
        notes on imbalance.
    participants, seed, factors
        Number of participants, random seed of orders and sides, and columns that define the
        condition of a sentence without a ``condition``; see `latin_square`.
    presentation
        How trials are shown and answered. If given, every row must have the fields that it needs.

    Returns
    -------
    Path
        Table of trials.

    Raises
    ------
    InputError
        If a column is missing, an item has two versions in one condition or lacks a condition that
        other items have, or a row does not fit the presentation.
    OutputError
        If the folder cannot be written.
    """
    rows, columns = read_rows(path)
    if "sentence" not in columns or not rows:
        raise InputError(f"{path} has no sentences in a column 'sentence'; give one per row")
    # Check that the page can show each row. For this, a missing condition does not matter.
    for number, row in enumerate(rows, start=1):
        try:
            if presentation is not None:
                read_row({**row, "condition": row.get("condition") or "any"}, presentation)
        except InputError as error:
            raise InputError(f"{path}, row {number}: {error}") from None
    import pandas as pd  # a server starts faster without it

    from contstim.design.latin import latin_square

    try:
        table = latin_square(pd.DataFrame(rows), participants, factors, seed=seed)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    # Write the table of trials with all cells as text, and its metadata.
    trials = folder / "trials.csv"
    columns = tuple(map(str, table.columns))
    cells = table.astype("str").to_numpy().tolist()
    write_trials(trials, (dict(zip(columns, row, strict=True)) for row in cells), columns)
    options = {"participants": participants, "factors": list(factors), "seed": seed}
    write_metadata(trials, {**options, "notes": table.attrs["notes"]})
    return trials


def check_empty_folder(folder: Path) -> None:
    """Check that a path does not exist, or is an empty folder.

    Raises
    ------
    InputError
        If the path exists and is not an empty folder.
    OutputError
        If the path cannot be accessed.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} exists and is not empty; choose another folder")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder with several files.

    A new folder appears with all its files in one step. If the folder exists, it may be the working
    folder, so its files are written one by one.

    Parameters
    ----------
    folder
        Folder to write.
    contents
        Contents of the files by their relative paths.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    """
    if folder.exists():
        # The folder may be the working folder, which cannot be replaced.
        for name, content in contents.items():
            write_atomically(folder / name, content)
        return
    # A new folder appears with all its files in one step.
    with replace_atomically(folder) as temporary:
        for name, content in contents.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
