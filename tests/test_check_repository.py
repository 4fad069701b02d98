"""The checker of the repository finds planted faults, and none in this repository."""

from pathlib import Path

import check_repository as checker
import pytest

ROOT = Path(__file__).parents[1]

ONE = '''
"""Something that `unused` is not used in."""
__all__ = ["Event", "helper"]
LIMIT = 3


class Event:
    size: int = LIMIT


def helper(event: Event) -> int:
    return event.size
'''
TWO = """
from contstim.one import Event, helper

_LIMIT = helper(Event())
"""
PROJECT = """\
[project]
name = 'contstim'

[[tool.importlinter.contracts]]
type = "layers"
layers = ["(contstim.cli)", "contstim.one | contstim.two"]
"""
CONTRIBUTING = """\
# Layers

<!-- layers: made by a tool -->

| layer | module | purpose |
| ---: | --- | --- |
| 2 | `cli` | The `commands`. |
| 1 | `one` | Something that `unused` is not used in. |
| 1 | `two` |  |

<!-- end of layers -->
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository without faults."""
    for folder in ("contstim/cli", "docs", "models", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "contstim/one.py").write_text(ONE, "utf-8")
    (tmp_path / "contstim/two.py").write_text(TWO, "utf-8")
    (tmp_path / "contstim/cli/__init__.py").write_text('"""The ``commands``."""\n', "utf-8")
    for command in ("score", "select"):
        (tmp_path / f"contstim/cli/{command}.py").write_text("def run(args): ...\n", "utf-8")
    (tmp_path / "README.md").write_text("`Event` says what is scored.\n", "utf-8")
    (tmp_path / "docs/glossary.md").write_text(
        "# Glossary\n\n- **event**: what is scored (probability theory). `Event`\n"
        "- **size**: of an event. `contstim.one`, `Event.size`\n",
        "utf-8",
    )
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    (tmp_path / "CONTRIBUTING.md").write_text(CONTRIBUTING, "utf-8")
    test = '"""Commands: `contstim.cli.score` and\n`contstim.cli.select`."""\n'
    (tmp_path / "tests/test_commands.py").write_text(test, "utf-8")
    (tmp_path / "tests/test_two.py").write_text('"""Both: `contstim.one`."""\n', "utf-8")
    return tmp_path


def _plant(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def test_valid_repository_has_no_findings(repository: Path) -> None:
    assert checker.check(repository) == []


def test_duplicate_definitions_are_reported(repository: Path) -> None:
    _plant(repository / "contstim/two.py", "\n\nclass Event:\n    pass\n")
    assert checker.check(repository) == [
        "contstim/one.py:7: Event is also defined in contstim/two.py:7; rename one, or have one "
        "definition"
    ]


def test_duplicate_functions_of_commands_are_reported(repository: Path) -> None:
    for name in ("one", "two"):
        _plant(repository / f"contstim/{name}.py", "\n\ndef run(): ...\nrun()\n")
    (finding,) = checker.check(repository)
    assert finding.startswith("contstim/one.py:15: run is also defined in contstim/two.py:7;")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n\ndef unused():\n    pass\n", 15),
        ("\n\nunused = 3\n", 15),
        ("\n\nunused: int = 3\n", 15),
        # What speaks of itself, or of something else by that name, is no caller either.
        ("\n\ndef unused(n):\n    return unused(n - 1)\n", 15),
        ("\n\nclass unused:\n    def of(self) -> unused: ...\n", 15),
        ("\n\ndef unused(path):\n    return path\n\n\nprint(LIMIT.unused)\n", 15),
    ],
)
def test_unused_public_names_are_reported(repository: Path, text: str, line: int) -> None:
    _plant(repository / "contstim/one.py", text)
    # An import and a line of __all__ are no callers.
    _plant(
        repository / "contstim/two.py", "\nfrom contstim.one import unused\n__all__ = ['unused']"
    )
    assert checker.check(repository) == [
        f"contstim/one.py:{line}: unused has no caller in contstim/, and not both a line in "
        "README.md or docs/ and a test; use it, document and test it, make it private or remove it"
    ]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("contstim/two.py", "\nimport contstim.one\nprint(contstim.one.unused)\n"),
        ("contstim/two.py", "\nfrom contstim import one as first\nprint(first.unused)\n"),
        ("contstim/two.py", '\nLOADER = "contstim.one:unused"\nprint(LOADER)\n'),
        ("pyproject.toml", 'unused = "contstim.one:unused"\n'),
    ],
)
def test_imports_and_entry_points_count_as_uses(repository: Path, place: str, text: str) -> None:
    _plant(repository / "contstim/one.py", "\n\ndef unused():\n    pass\n")
    _plant(repository / place, text)
    assert checker.check(repository) == []


@pytest.mark.parametrize(
    ("guide", "text"),
    [
        ("README.md", "`unused` is for you.\n"),
        ("docs/glossary.md", "Call `contstim.one.unused()`.\n"),
        ("README.md", "```python\nimport contstim\ncontstim.one.unused()\n```\n"),
        ("README.md", "So:\n\n    contstim.one.unused()\n"),
    ],
)
def test_documented_names_need_a_test_to_count_as_used(
    repository: Path, guide: str, text: str
) -> None:
    _plant(repository / "contstim/one.py", "\n\ndef unused():\n    pass\n")
    _plant(repository / guide, text)
    (finding,) = checker.check(repository)
    assert finding.startswith("contstim/one.py:15: unused has no caller in contstim/, and not both")
    test = "from contstim.one import unused\nunused()\n"
    (repository / "tests/test_use.py").write_text(test, "utf-8")
    assert checker.check(repository) == []
    # In the prose of a guide it is a word like others.
    (repository / guide).write_text("Words are unused. `Event` - ```\n```", "utf-8")
    assert any("unused has no caller" in finding for finding in checker.check(repository))


def test_import_cycles_are_reported(repository: Path) -> None:
    one = repository / "contstim/one.py"
    _plant(one, "\n\nif TYPE_CHECKING:\n    import contstim.two\n")
    assert checker.check(repository) == []
    _plant(one, "\n\ndef _late():\n    from contstim import two\n    return two\n")
    assert checker.check(repository) == [
        "modules import each other in a cycle: contstim.one <- contstim.two <- contstim.one; "
        "move shared code to a lower layer"
    ]


def test_glossary_terms_name_existing_code(repository: Path) -> None:
    _plant(
        repository / "docs/glossary.md",
        "- **belief**: what is thought.\n- **wish**: what is wanted. `Wish`\n",
    )
    assert checker.check(repository) == [
        "docs/glossary.md:5: 'belief' names no code, in backticks",
        "docs/glossary.md:6: there is no 'Wish' in contstim/",
    ]


def test_modules_need_exactly_one_test_file(repository: Path) -> None:
    (repository / "contstim/three.py").write_text("_LEAST = 3\n", "utf-8")
    assert checker.check(repository) == []
    (repository / "contstim/three.py").write_text("def _three() -> None:\n    _three()\n", "utf-8")
    assert checker.check(repository) == [
        "contstim/three.py: no test file has its name, nor names it in its docstring"
    ]
    test = repository / "tests/test_three.py"
    test.write_text("", "utf-8")
    assert checker.check(repository) == []
    _plant(test, '"""`contstim.one`, `contstim.four`; not `contstim four` or ``contstim.five``."""')
    assert checker.check(repository) == [
        "tests/test_three.py: there is no module contstim.four; name the one that is tested",
        "contstim/one.py: both tests/test_three.py and tests/test_two.py name it; let one do so",
    ]


def test_packages_of_imports_need_no_test_file(repository: Path) -> None:
    package = repository / "contstim/cli/__init__.py"
    _plant(package, "\nfrom contstim.one import Event\n")
    assert checker.check(repository) == []
    _plant(package, "\n\ndef _main(): ...\n")
    assert checker.check(repository) == [
        "contstim/cli/__init__.py: no test file has its name, nor names it in its docstring"
    ]


def test_layers_in_contributing_match_the_linter(repository: Path) -> None:
    (repository / "CONTRIBUTING.md").write_text(CONTRIBUTING.replace("| 2 |", "| 3 |"), "utf-8")
    assert checker.check(repository) == [
        "CONTRIBUTING.md: its layers are not those of pyproject.toml; run "
        "python tools/check_repository.py --write"
    ]
    table = checker.format_layers(repository)
    assert checker.replace_layers(CONTRIBUTING.replace("| 2 |", "| 3 |"), table) == CONTRIBUTING


def test_this_repository_has_no_findings() -> None:
    assert checker.check(ROOT) == []


def test_from_pretrained_must_forbid_remote_code(repository: Path) -> None:
    loads = ("a", "a, trust_remote_code=True", "a, trust_remote_code=False", "a, **b")
    calls = "".join(f"\n_ = Auto.from_pretrained({arguments})" for arguments in loads)
    _plant(repository / "contstim/two.py", calls)
    assert checker.check(repository) == [
        f"contstim/two.py:{line}: from_pretrained without trust_remote_code=False; transformers "
        "would ask whether to run the code that comes with a checkpoint"
        for line in (6, 7, 9)
    ]
