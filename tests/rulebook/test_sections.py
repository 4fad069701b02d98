"""Each section of the rulebook names a test, and each test has a section."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_rulebook_sections_and_tests_correspond():
    text = (ROOT / "docs/rulebook.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    tests = {
        name: re.findall(r"`tests/rulebook/(\w+\.py)`", body) for name, body in sections.items()
    }
    assert all(tests.values()), tests
    there = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert {file for files in tests.values() for file in files} == there
