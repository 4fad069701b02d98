"""Check what linters cannot: names with one meaning and a caller, no circle, a true glossary.

Run by ``make check``. Prints one line a finding; exit status 1 if there is any.

A name is public if it is defined at the top of a module of ``contstim/``, without an underscore.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

#: Names that every module of these folders defines: the commands.
COMMAND_NAMES = {"contstim/cli": {"configure", "run"}}
#: A line of the glossary: ``- **term** (and its plural): meaning. `code` ``.
TERM = re.compile(r"- \*\*(.+?)\*\*(.*)")
#: Code in Markdown: a fenced block, a line set in by four spaces, or what stands in backticks.
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Definition:
    """A public name and where it is defined."""

    name: str
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def check(root: Path) -> list[str]:
    """Return the findings in the repository at `root`, one line each."""
    trees = {
        path.relative_to(root).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted((root / "contstim").rglob("*.py"))
    }
    definitions = [d for path, tree in trees.items() for d in definitions_of(path, tree)]
    documented = words_of_documents(root) & names_in_tests(root)
    return [
        *shared_names(definitions),
        *without_caller(definitions, trees, documented | names_in_toml(root)),
        *circle(trees),
        *glossary_faults(root / "docs" / "glossary.md", trees),
    ]


def definitions_of(path: str, tree: ast.Module) -> Iterator[Definition]:
    """Yield the public names that a module defines: classes, functions and constants."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            names = []
        yield from (Definition(n, path, node.lineno) for n in names if not n.startswith("_"))


def shared_names(definitions: list[Definition]) -> list[str]:
    """Report public names with more than one definition."""
    places: dict[str, list[Definition]] = defaultdict(list)
    for definition in definitions:
        folder = definition.path.rpartition("/")[0]
        if definition.name not in COMMAND_NAMES.get(folder, ()):
            places[definition.name].append(definition)
    return [
        f"{found[0]}: {name} is also defined in {', '.join(map(str, found[1:]))}; rename one, or "
        "have one definition"
        for name, found in sorted(places.items())
        if len({d.path for d in found}) > 1
    ]


def without_caller(
    definitions: list[Definition], trees: dict[str, ast.Module], documented: set[str]
) -> list[str]:
    """Report public names that the package does not use, nor a document names and a test tries."""
    used = {name for tree in trees.values() for name in names_used(tree)}
    return [
        f"{d}: {d.name} has no caller in contstim/, and not both a line in README.md or docs/ and "
        "a test; use it, document and test it, make it private or remove it"
        for d in definitions
        if d.name not in used | documented
        and d.name not in COMMAND_NAMES.get(d.path.rpartition("/")[0], ())
    ]


def names_used(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module reads: as such, of what it imports, or by ``module:name``.

    An import alone is no use, nor is a line of ``__all__``, nor what a definition says of itself.
    """
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    imported_names = {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
    for part in tree.body:
        own = getattr(part, "name", None)
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != own:
                yield node.id
            elif isinstance(node, ast.Attribute) and _root(node) in imported_names:
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"^[\w.]+:(\w+)$", node.value)


def _root(node: ast.expr) -> str | None:
    """Return the name that a chain of attributes begins with, if it begins with one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def words_of_documents(root: Path) -> set[str]:
    """Return every word that the README and the pages of docs/ have in code: `so`, or in blocks."""
    pages = (path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)
    texts = [path.read_text("utf-8") for path in (root / "README.md", *pages)]
    code = (part for text in texts for part in CODE.findall(text))
    return {word for part in code for word in re.findall(r"\w+", part)}


def names_in_tests(root: Path) -> set[str]:
    """Return the names that tests use."""
    trees = (ast.parse(path.read_text("utf-8")) for path in (root / "tests").rglob("*.py"))
    return {name for tree in trees for name in names_used(tree)}


def names_in_toml(root: Path) -> set[str]:
    """Return what ``module:name`` strings of the TOML files name: entry points, converters."""
    paths = [*root.glob("*.toml"), *(root / "models").rglob("*.toml")]
    found = (re.findall(r'"contstim[\w.]*:(\w+)"', path.read_text("utf-8")) for path in paths)
    return {name for names in found for name in names}


def circle(trees: dict[str, ast.Module]) -> list[str]:
    """Report a circle of modules that import each other, wherever in a module they do.

    What is imported for type checkers alone is none of it, nor what is named by a string.
    """
    graph = {_module(path): set(imported(path, tree, trees)) for path, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        around = " <- ".join(error.args[1])
        return [f"modules import each other in a circle: {around}; move what they share below them"]
    return []


def imported(path: str, tree: ast.Module, trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the modules of the package that a module imports."""
    modules = {_module(other) for other in trees}
    for node in _run_nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                whole if (whole := f"{node.module}.{alias.name}") in modules else node.module
                for alias in node.names
            ]
        else:
            names = []
        yield from (name for name in names if name in modules and name != _module(path))


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, without what stands under ``if TYPE_CHECKING``."""
    yield node
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for child in ast.iter_child_nodes(node):
        yield from _run_nodes(child)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def glossary_faults(path: Path, trees: dict[str, ast.Module]) -> list[str]:
    """Report terms of the glossary without code, and code that there is not."""
    known = {name for tree in trees.values() for name in names_known(tree)}
    known |= {_module(path) for path in trees}
    faults = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        entry = TERM.match(line)
        if entry is None:
            continue
        term, rest = entry.groups()
        code = re.findall(r"`([^`]+)`", rest)
        if not code:
            faults.append(f"docs/glossary.md:{number}: {term!r} names no code, in backticks")
        faults += [
            f"docs/glossary.md:{number}: there is no {name!r} in contstim/"
            for name in code
            if name not in known and not set(name.split(".")) <= known
        ]
    return faults


def names_known(tree: ast.Module) -> Iterator[str]:
    """Yield what a module defines: names at every level, arguments, strings such as columns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def main() -> int:
    """Check the repository that this file is in."""
    findings = check(Path(__file__).parents[1])
    print("\n".join(findings) or "names, callers, circles and glossary: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
