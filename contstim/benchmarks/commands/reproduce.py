r"""Reproduce a published study and compare the results with the published ones.

PAPER is golan2023, salazar2020, kauf2023 or adc2021. The folder of the data contains one folder per
data set, for example li_adger or blimp; the documentation of each study lists them. The results are
tables, figures and one page, index.html. It shows our number beside the published number, and the
reason wherever the two cannot be compared.

examples:
  contstim reproduce adc2021 --data data --out results
  contstim reproduce kauf2023 --data data --out results

The command needs a copy of the repository, because the studies are not part of the package.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import contstim
from contstim.cli.application import create_application
from contstim.cli.parameters import File, OutputFolder
from contstim.errors import InputError
from contstim.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

#: Folder of the studies: one folder per paper, with a script ``run.py`` and a ``README.md``.
STUDIES = Path(contstim.__file__).parents[1] / "experiments"
COLUMNS = ("quantity", "ours", "published", "note")

app = create_application(
    "reproduce", __doc__, usage="contstim reproduce PAPER --data FOLDER --out FOLDER"
)


@app.default
def reproduce(
    paper: Literal["golan2023", "salazar2020", "kauf2023", "adc2021"],
    /,
    *,
    data: Annotated[File, Parameter(metavar="FOLDER")],
    out: OutputFolder,
) -> int:
    """Run the script of a study and write its page.

    The script is called as ``run.py --data FOLDER --out FOLDER``. It must write a table
    ``published.csv`` to the output folder, with the columns `quantity`, `ours`, `published` and
    `note`. A quantity names a table, figure or method of the paper. An empty cell of `ours` or
    `published` needs a reason in `note`. SVG files in the output folder become figures of the page,
    in the order of their names; the name of the file is the caption. The script prints an error as
    one line and then ends with exit status 2.

    Parameters
    ----------
    paper
        study to reproduce
    data
        folder of the data sets
    out
        folder for the results
    """
    from contstim.tables import read_table

    script = STUDIES / paper / "run.py"
    if not script.exists():
        raise InputError(f"there is no script {script}; run it in a copy of the repository")
    if not Path(data).is_dir():
        raise InputError(f"--data {data} is no folder; name the folder of the data sets")
    Path(out).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(script), "--data", data, "--out", out]
    status = subprocess.run(command, check=False).returncode  # noqa: S603 - a bundled script
    if status != 0:
        return status
    table = read_table(Path(out) / "published.csv", COLUMNS, cells="text").fillna("")
    # Each row compares a computed with a published number; a note explains a missing one.
    unexplained = table[(table["ours"] == "") | (table["published"] == "")].query("note == ''")
    if len(unexplained):
        quantity = unexplained["quantity"].iloc[0]
        raise InputError(f"{script} gives no number and no reason for {quantity!r}; add a note")
    page = render_page(script.with_name("README.md").read_text("utf-8"), table, Path(out))
    write_atomically(Path(out) / "index.html", page)
    print(f"{out}/index.html: {_count_comparisons(table)}")
    return 0


def render_page(readme: str, table: pd.DataFrame, folder: Path) -> str:
    """Return the HTML page of a study.

    Parameters
    ----------
    readme
        Description of the study in Markdown: a title, and the citation of the paper as a block
        quotation.
    table
        Columns `quantity`, `ours`, `published` and `note`.
    folder
        Folder of the figures.
    """
    from contstim.page import Page

    page = Page(readme.partition("\n")[0].lstrip("# "))
    # The README cites the paper in a block quotation.
    citation = re.findall(r"^> *(.*)$", readme, flags=re.MULTILINE)
    page.paragraph(" ".join(citation))
    page.paragraph(_count_comparisons(table), strong=True)
    page.table(table[list(COLUMNS)])
    for path in sorted(folder.glob("*.svg")):
        svg = path.read_text("utf-8")
        page.figure(svg[svg.index("<svg") :], re.sub(r"[-_]+", " ", path.stem))
    return str(page)


def _count_comparisons(table: pd.DataFrame) -> str:
    """Return how many quantities have both numbers, and how many have none of ours."""
    n_both = int(((table["ours"] != "") & (table["published"] != "")).sum())
    n_missing = int((table["ours"] == "").sum())
    return (
        f"{len(table)} quantities: {n_both} with our number beside the published one, {n_missing} "
        "that cannot be computed here (see the notes)"
    )
