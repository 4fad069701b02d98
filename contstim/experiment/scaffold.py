"""New studies: the folder, written around a table of trials or sentences."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from contstim.errors import InputError, require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import PRESENTATIONS, Presentation, make_presentation
from contstim.experiment.study import PAGE_LANGUAGES, Study, read_study, read_text_source
from contstim.experiment.trials import (
    read_design,
    read_row,
    read_rows,
    write_trials,
)
from contstim.files import (
    check_empty_folder,
    metadata_path,
    write_atomically,
    write_folder,
    write_metadata,
)
from contstim.text.languages import get_language
from contstim.text_files import read_lines

_CONSENT = """\
You are invited to take part in a study on language by [[the researchers and their institution]].

{task} This takes about [[number]] minutes. [[What participants receive.]]

We store your answers, how long they took, whether the page was left meanwhile, whether you used \
keyboard, mouse or touch, and the kind of your browser, the size of its window and its time zone. \
Your participant id is kept apart from your answers and is not published. [[Where data are stored, \
for how long, and what is published.]]

Taking part is voluntary. You can stop at any time by closing the page, without giving a reason. \
[[How to have data deleted.]]

Questions: [[name and address]]. Approval: [[board and number]].
"""


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
        write_atomically(folder / "consent.md", (example / "consent.md").read_text("utf-8"))
    return read_study(folder)


@dataclass(frozen=True)
class _StudyPreset:
    """How a published experiment showed pairs: lines of ``study.toml`` and ``texts.toml``."""

    catch: int
    settings: Mapping[str, str]
    texts: Mapping[str, str]


#: Golan, Siegelman, Kriegeskorte & Baldassano (2023), Nature Machine Intelligence 5, 952-964,
#: https://doi.org/10.1038/s42256-023-00718-1, Methods: question, levels, limit of time, and a bar
#: of progress at the foot.
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
    tables: str = "",
    more: Mapping[str, Path] | None = None,
) -> Study:
    """Write a study folder around a table of trials and return the study.

    Parameters
    ----------
    folder
        Where; it must not exist or be empty. Its name becomes the study's.
    trials
        What ``contstim design trials`` wrote, or of other presentations `write_sentence_trials`; it
        is copied, with the record beside it of how it was made.
    preset
        A published experiment to run it like, of `STUDY_PRESETS`; its wording is English.
    language
        One of `PAGE_LANGUAGES`, in which the page's texts are written. Title, consent form and
        practice stay English, to be translated.
    presentation
        One of `PRESENTATIONS`.
    tables
        What ``study.toml`` says besides.
    more
        Further files to copy, by their names in the folder.

    Raises
    ------
    InputError
        If the folder holds something, the table cannot be used, or there is no such preset.
    OutputError
        If the place cannot be written to.
    """
    for what, name, offered in (
        ("preset", preset, STUDY_PRESETS),
        ("language", language, PAGE_LANGUAGES),
        ("presentation", presentation, PRESENTATIONS),
    ):
        if name is not None:
            require_known(what, name, offered)
    if preset is not None and language != "en":
        raise InputError(
            f"the wording of {preset} is English; leave out the language or the preset"
        )
    like = _StudyPreset(0, {}, {}) if preset is None else STUDY_PRESETS[preset]
    if preset is not None and presentation != "choice":
        raise InputError(f"{preset} showed pairs; leave out the presentation or the preset")
    folder, trials = Path(folder), Path(trials)
    shown = make_presentation(TrialOptions(presentation))
    check_empty_folder(folder)
    # Says what is wrong before anything is written.
    read_design(trials, presentation=shown)
    name = os.path.basename(os.path.realpath(folder))  # a loop of links has no Path.resolve()
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64] or "study"
    template = (files("contstim.experiment") / "template.toml").read_text("utf-8")
    table = "".join(f"{line}\n" for _, line in read_lines(trials))
    record = metadata_path(trials)
    texts = {key: json.dumps(text, ensure_ascii=False) for key, text in like.texts.items()}
    settings = {
        "language": f'"{language}"',
        "direction": f'"{get_language(language).direction}"',
        "presentation": f'"{presentation}"',
        **like.settings,
    }
    template = _changed(template, settings).replace("{practice}", shown.practice, 1)
    template = template.replace("{title}", shown.title, 1).replace("{name}", json.dumps(name), 1)
    contents = {"trials.csv": table.encode()}
    if record.is_file():
        contents[metadata_path(folder / "trials.csv").name] = record.read_bytes()
    contents["consent.md"] = _CONSENT.format(task=shown.task).encode()
    own_texts = "".join(
        f"{key} = {json.dumps(text, ensure_ascii=False)}\n"
        for key, text in shown.translated_texts(language).items()
    )
    contents["texts.toml"] = (_changed(read_text_source(language), texts) + own_texts).encode()
    contents |= {target: source.read_bytes() for target, source in (more or {}).items()}
    contents["study.toml"] = (template + tables).encode()
    write_folder(folder, contents)
    return read_study(folder)


def write_sentence_trials(
    path: Path,
    folder: Path,
    participants: int,
    seed: int = 0,
    presentation: Presentation | None = None,
    factors: Sequence[str] = (),
) -> Path:
    """Lay out a table of sentences by `latin_square`, write it with a record, return its place.

    Parameters
    ----------
    path
        A CSV file as `latin_square` has it, of sentences, with further columns such as
        ``question`` and ``expected``.
    folder
        Where the table is written, as ``trials.csv``.
    participants, seed, factors
        As of `latin_square`; what is not balanced is part of the record.
    presentation
        How they are shown, which the sentences must fit, if given.

    Raises
    ------
    InputError
        As `latin_square`, and naming the row that cannot be shown.
    OutputError
        If the place cannot be written to.
    """
    rows, columns = read_rows(path)
    if "sentence" not in columns or not rows:
        raise InputError(f"{path} has no sentences in a column 'sentence'; give one a row")
    for number, row in enumerate(rows, start=1):
        try:
            if presentation is not None:
                read_row({**row, "condition": row.get("condition") or "any"}, presentation)
        except InputError as error:
            raise InputError(f"{path}, row {number}: {error}") from None
    import pandas as pd  # which a server does without

    from contstim.design.latin import latin_square

    try:
        laid_out = latin_square(pd.DataFrame(rows), participants, factors, seed=seed)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    trials = folder / "trials.csv"
    columns = tuple(map(str, laid_out.columns))
    cells = laid_out.astype("str").to_numpy().tolist()
    write_trials(trials, (dict(zip(columns, row, strict=True)) for row in cells), columns)
    options = {"participants": participants, "factors": list(factors), "seed": seed}
    write_metadata(trials, {**options, "notes": laid_out.attrs["notes"]})
    return trials
