"""The code cells of the pages run in their order."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from contstim.cli import main
from contstim.models.registry import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = [
    path.relative_to(DOCS).as_posix()
    for path in sorted(DOCS.rglob("*.md"))
    if "_build" not in path.parts and CELL.search(path.read_text("utf-8"))
]


def test_tutorials_are_found() -> None:
    assert len([page for page in PAGES if page.startswith("tutorials/")]) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_code_cells_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    names: dict[str, object] = {"__name__": "__main__"}
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            for cell in CELL.findall((DOCS / page).read_text("utf-8")):
                code = re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE)
                for command in re.findall(r"^!contstim (.*)$", code, flags=re.MULTILINE):
                    assert main(shlex.split(command)) == 0, command
                code = re.sub(r"^!.*$", "", code, flags=re.MULTILINE)
                exec(compile(code, page, "exec"), names)
    finally:
        plt.close("all")
    assert "Traceback" not in out.getvalue()
