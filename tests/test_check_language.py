"""The language checker finds planted faults, and none in this repository."""

from __future__ import annotations

from pathlib import Path

import check_language as checker
import pytest

ROOT = Path(__file__).parents[1]
PAGE = "# Title\n\nThe first sentence of a page. " + "It has a plain second sentence. " * 40
LINE = "    n += 1\n"


def test_this_repository_has_no_findings() -> None:
    assert checker.check(ROOT) == []


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        ("def kin() -> int: ...", "'kin' should be 'related_pairs'"),
        ("def score(beginning: str) -> int: ...", "'beginning' should be 'prefix'"),
        ("table['verdict']", "'verdict' should be 'conclusion'"),
        ("class Words:\n    '''What is scored.'''", "begins without a noun"),
        (f"def total(n):\n    given = n\n{4 * LINE}    return given", "'given' does not describe"),
    ],
)
def test_opaque_names_are_reported(code: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / "contstim").mkdir()
    (tmp_path / "contstim" / "module.py").write_text(f"{code}\n", "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "terms.tsv").write_bytes((ROOT / "docs" / "terms.tsv").read_bytes())
    assert any(finding in line for line in checker.check(tmp_path))


@pytest.mark.parametrize(
    ("sentence", "habit"),
    [
        ("To which text it belongs.", "begins with a preposition or relative"),
        ("It returns what was asked.", "'what' in place of a noun"),
        ("The sum is that of all words.", "pronoun without a noun"),
        ("The table tells the scores.", "verb applied to an object that cannot act"),
    ],
)
def test_habits_are_counted_per_thousand_words(sentence: str, habit: str) -> None:
    assert checker.measure_habits([PAGE])[habit] == 0
    n_words = len(f"{PAGE} {sentence}".split()) - 2  # The title is left out.
    assert checker.measure_habits([f"{PAGE} {sentence}"])[habit] == pytest.approx(1000 / n_words)
