"""Check rules of this repository that linters do not know.

- A public name has one definition, and is used or documented.
- Modules do not import each other in a cycle.
- Checkpoints are loaded without executing code from them.
- Terms of the glossary name existing code.
- Every module has one test file.
- The table of layers in CONTRIBUTING.md agrees with pyproject.toml.

Run by ``make check``; prints one line per finding, and the exit status is 1 if there are any. With
``--write``, the table of layers is written again.

A name is public if it is defined at the top level of a module in ``contstim/`` and does not begin
with an underscore.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

#: Modules of commands. Only the command line calls their functions, and names may be repeated.
COMMANDS = re.compile(r"contstim/(cli/\w+|\w+/commands(/\w+)?)\.py")
#: A line of the glossary: ``- **term** (and its plural): meaning. `code` ``.
TERM = re.compile(r"- \*\*(.+?)\*\*(.*)")
#: Code in Markdown: a fenced block, an indented line, or text in backticks.
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.MULTILINE | re.DOTALL)
#: The table of layers in CONTRIBUTING.md.
LAYERS = re.compile(r"(<!-- layers: .*? -->\n\n).*?(<!-- end of layers -->)", re.DOTALL)


@dataclass(frozen=True)
class Definition:
    """Definition of a public name, with its file and line."""

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
    definitions = [d for path, tree in trees.items() for d in list_definitions(path, tree)]
    documented_names = list_documented_words(root) & list_test_names(root)
    return [
        *check_unique_names(definitions),
        *check_callers(definitions, trees, documented_names | list_toml_names(root)),
        *check_cycles(trees),
        *check_remote_code(trees),
        *check_glossary(root / "docs" / "glossary.md", trees),
        *check_test_files(root, trees),
        *check_layers(root),
    ]


def list_definitions(path: str, tree: ast.Module) -> Iterator[Definition]:
    """Yield the public classes, functions and constants that a module defines."""
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


def check_unique_names(definitions: list[Definition]) -> list[str]:
    """Report public names that several modules define."""
    definitions_by_name: dict[str, list[Definition]] = defaultdict(list)
    for definition in definitions:
        if not COMMANDS.fullmatch(definition.path):
            definitions_by_name[definition.name].append(definition)
    findings = []
    for name, (first, *others) in sorted(definitions_by_name.items()):
        if any(other.path != first.path for other in others):
            places = ", ".join(map(str, others))
            findings.append(
                f"{first}: {name} is also defined in {places}; rename one, or have one definition"
            )
    return findings


def check_callers(
    definitions: list[Definition], trees: dict[str, ast.Module], documented_names: set[str]
) -> list[str]:
    """Report public names that no module of the package uses.

    Names in `documented_names` need no caller: they are documented and tested, or in a TOML file.
    """
    used_names = {name for tree in trees.values() for name in list_used_names(tree)}
    return [
        f"{d}: {d.name} has no caller in contstim/, and not both a line in README.md or docs/ and "
        "a test; use it, document and test it, make it private or remove it"
        for d in definitions
        if d.name not in used_names | documented_names and not COMMANDS.fullmatch(d.path)
    ]


def list_used_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module uses.

    A name is used if the module reads it, as a variable, as an attribute of an imported module, or
    in a string ``module:name``. Imports, lines of ``__all__`` and recursive calls do not count.
    """
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    imported_names = {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
    for part in tree.body:
        defined_name = getattr(part, "name", None)
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id != defined_name:
                    yield node.id
            elif isinstance(node, ast.Attribute) and _root(node) in imported_names:
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"^[\w.]+:(\w+)$", node.value)


def _root(node: ast.expr) -> str | None:
    """Return the first name of a chain of attributes, such as ``a`` in ``a.b.c``, if any."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def list_documented_words(root: Path) -> set[str]:
    """Return all words in the code blocks and backticks of the README and the documentation."""
    pages = (path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)
    texts = [path.read_text("utf-8") for path in (root / "README.md", *pages)]
    code = (part for text in texts for part in CODE.findall(text))
    return {word for part in code for word in re.findall(r"\w+", part)}


def list_test_names(root: Path) -> set[str]:
    """Return the names that tests use."""
    trees = (ast.parse(path.read_text("utf-8")) for path in (root / "tests").rglob("*.py"))
    return {name for tree in trees for name in list_used_names(tree)}


def list_toml_names(root: Path) -> set[str]:
    """Return the names in ``module:name`` strings of TOML files, for example of entry points."""
    paths = [*root.glob("*.toml"), *(root / "models").rglob("*.toml")]
    texts = [path.read_text("utf-8") for path in paths]
    return {name for text in texts for name in re.findall(r'"contstim[\w.]*:(\w+)"', text)}


def check_cycles(trees: dict[str, ast.Module]) -> list[str]:
    """Report a cycle of modules that import each other, at the top level or in functions.

    Imports for type checkers only do not count.
    """
    graph = {_module(path): set(list_imports(path, tree, trees)) for path, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " <- ".join(error.args[1])
        return [f"modules import each other in a cycle: {cycle}; move shared code to a lower layer"]
    return []


def list_imports(path: str, tree: ast.Module, trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the modules of the package that a module imports."""
    modules = {_module(other) for other in trees}
    for node in _walk_runtime(tree):
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


def _walk_runtime(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a syntax tree, except those under ``if TYPE_CHECKING``."""
    yield node
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for child in ast.iter_child_nodes(node):
        yield from _walk_runtime(child)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def check_remote_code(trees: dict[str, ast.Module]) -> list[str]:
    """Report calls that load a checkpoint by transformers without ``trust_remote_code=False``.

    Without this argument, transformers asks on standard input whether to run a checkpoint's code.
    The variable ``trusted`` is accepted as value too.
    """
    accepted = {"trust_remote_code=False", "trust_remote_code=trusted"}
    return [
        f"{path}:{node.lineno}: {node.func.attr} without trust_remote_code=False; transformers "
        "would ask whether to run the code that comes with a checkpoint"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"from_pretrained", "from_config"}
        and accepted.isdisjoint(ast.unparse(keyword) for keyword in node.keywords)
    ]


def check_glossary(path: Path, trees: dict[str, ast.Module]) -> list[str]:
    """Report terms of the glossary that name no code, or code that does not exist."""
    defined_names = {name for tree in trees.values() for name in list_defined_names(tree)}
    defined_names |= {_module(path) for path in trees}
    findings = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        entry = TERM.match(line)
        if entry is None:
            continue
        term, rest = entry.groups()
        code = re.findall(r"`([^`]+)`", rest)
        if not code:
            findings.append(f"docs/glossary.md:{number}: {term!r} names no code, in backticks")
        findings += [
            f"docs/glossary.md:{number}: there is no {name!r} in contstim/"
            for name in code
            if name not in defined_names and not defined_names.issuperset(name.split("."))
        ]
    return findings


def list_defined_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names, arguments and strings (such as names of columns) in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def check_test_files(root: Path, trees: dict[str, ast.Module]) -> list[str]:
    """Report modules that do not have exactly one test file.

    The test file of ``contstim/synthesis/problem.py`` is ``tests/synthesis/test_problem.py``, or a
    test file whose docstring names `contstim.synthesis.problem` in single backticks. Modules
    without definitions need no test file. Names in docstrings that are not modules are reported
    too.
    """
    modules = {_module(path) for path in trees}
    tests_by_module: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        place = path.relative_to(root)
        mirrored = ".".join(["contstim", *place.parts[1:-1], path.stem.removeprefix("test_")])
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        stated = re.findall(r"(?<!`)`(contstim(?:\.\w+)*)`(?!`)", text)
        for module in sorted({*stated, *modules & {mirrored}}):
            tests_by_module[module].append(place.as_posix())
    findings = [
        f"{tests[0]}: there is no module {module}; name the one that is tested"
        for module, tests in tests_by_module.items()
        if module not in modules
    ]
    for path, tree in trees.items():
        tests = tests_by_module[_module(path)]
        if len(tests) > 1:
            findings.append(f"{path}: both {' and '.join(tests)} name it; let one do so")
        elif not tests and _defines(tree):
            findings.append(f"{path}: no test file has its name, nor names it in its docstring")
    return findings


def _defines(tree: ast.Module) -> bool:
    """Return whether a module defines a class or a function."""
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef) for node in tree.body)


def format_layers(root: Path) -> str:
    """Format the layers in ``pyproject.toml`` as a Markdown table, with the highest layer first.

    The purpose of a module is the first line of its docstring.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    lines = ["| layer | module | purpose |", "| ---: | --- | --- |"]
    for number, layer in zip(range(len(layers), 0, -1), layers, strict=True):
        for module in re.findall(r"contstim\.(\w+)", layer):
            path = root / "contstim" / module
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            title = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
            lines.append(f"| {number} | `{module}` | {title.replace('``', '`')} |")
    return "\n".join(lines) + "\n"


def check_layers(root: Path) -> list[str]:
    """Report whether the table of layers in CONTRIBUTING.md differs from ``pyproject.toml``."""
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    if LAYERS.search(text) and replace_layers(text, format_layers(root)) == text:
        return []
    return [
        "CONTRIBUTING.md: its layers are not those of pyproject.toml; run "
        "python tools/check_repository.py --write"
    ]


def replace_layers(text: str, table: str) -> str:
    """Replace the table of layers in the text of CONTRIBUTING.md."""
    return LAYERS.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def main() -> int:
    """Check this repository, and write the table of layers on request."""
    root = Path(__file__).parents[1]
    if sys.argv[1:] == ["--write"]:
        page = root / "CONTRIBUTING.md"
        page.write_text(replace_layers(page.read_text("utf-8"), format_layers(root)), "utf-8")
    findings = check(root)
    print("\n".join(findings) or "names, callers, cycles, tests, layers, glossary: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
