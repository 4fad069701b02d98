"""The export: tables as CSV files and a Psych-DS data set, in a folder or an archive."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from contstim.experiment.collected import Collected, read_collected
from contstim.experiment.psychds import write_psychds
from contstim.experiment.study import Study
from contstim.files import write_whole


def write_export(study: Study, collected: Collected, folder: Path, everybody: bool = False) -> None:
    """Write the tables, and the data set into ``psychds``.

    Parameters
    ----------
    study
        The study.
    collected
        Its data.
    folder
        Where; files of the same names are replaced.
    everybody
        Whether the tables of answers hold also those who did not answer every trial; the data set
        always does.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    write_psychds(study, collected, folder / "psychds")
    for name, table in collected.tables.items():
        whole = table
        if name in ("choices", "answers", "words") and not everybody:
            whole = table[table["participant"].isin(collected.whole)]
        content = whole.to_csv(index=False, lineterminator="\n")
        write_whole(folder / f"{name}.csv", content)


def exported_zip(study: Study, data: Path | None = None) -> bytes:
    """Return the export as a ZIP archive.

    Raises
    ------
    InputError
        If there are no data.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_export(study, read_collected(study, data), folder)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
        return stream.getvalue()
