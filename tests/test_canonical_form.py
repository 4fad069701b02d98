"""`tools/check_canonical_form.py`: only readers convert tables to the canonical form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_canonical_form.py"


def test_only_readers_convert_to_the_canonical_form() -> None:
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        "canonical form: nothing found outside the readers\n",
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("scores = rising(scores)", "direction"),
        ("model.rises_with_acceptability", "direction"),
        ("table['better']", "direction"),
        ("unit == 'surprisal'", "unit"),
        ("rows = table[table['condition'] == 'catch']", "kind"),
        ("if 'item' in table: pass", "item"),
        ("if 'side_1' in table: pass", "side"),
        ("left = table['side_1'] == 'left'", "side"),
        ("left = trial.side_1 == 'left'", "side"),
        ("unicodedata.normalize('NFC', text)", "label form"),
        ("' '.join(text.split())", "label form"),
    ],
)
def test_conversions_outside_the_readers_are_reported(
    line: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOL.parent)
    from check_canonical_form import check

    (tmp_path / "module.py").write_text(f"{line}\n", "utf-8")
    (finding,) = check(tmp_path)
    assert finding.startswith(f"contstim/module.py:1: {what} (")
    (tmp_path / "tables.py").write_text(f"{line}\n", "utf-8")
    assert check(tmp_path) == [finding]
