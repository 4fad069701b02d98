"""Check what linters cannot: that names have one meaning and a caller, modules a test file, ...

Run by ``make check``. Prints one line a finding; exit status 1 if there is any. With ``--write``
the table of layers in CONTRIBUTING.md is regenerated.

A name is public if it is defined at the top of a module of ``contstim/``, without an underscore.
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

#: Modules of commands, whose functions the command line calls and whose names are their own.
COMMANDS = re.compile(r"contstim/(cli/\w+|\w+/commands(/\w+)?)\.py")
#: A line of the glossary: ``- **term** (and its plural): meaning. `code` ``.
TERM = re.compile(r"- \*\*(.+?)\*\*(.*)")
#: Code in Markdown: a fenced block, a line set in by four spaces, or what stands in backticks.
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.MULTILINE | re.DOTALL)
#: Local names that do not say what they hold, where more than a few lines read them.
EMPTY_NAMES = {"found", "known", "own", "kept", "one", "told", "said", "mine"}
FEW_LINES = 5
#: The table of layers in CONTRIBUTING.md.
LAYERS = re.compile(r"(<!-- layers: .*? -->\n\n).*?(<!-- end of layers -->)", re.DOTALL)


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
        *untrusting(trees),
        *glossary_faults(root / "docs" / "glossary.md", trees),
        *modules_without_test(root, trees),
        *empty_names(trees),
        *layers_faults(root),
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
        if not COMMANDS.fullmatch(definition.path):
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
        if d.name not in used | documented and not COMMANDS.fullmatch(d.path)
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


def untrusting(trees: dict[str, ast.Module]) -> list[str]:
    """Report what loads by transformers without ``trust_remote_code=False``, or ``=trusted``.

    Left to its default, transformers asks on standard input whether to run a checkpoint's code.
    """
    given = {"trust_remote_code=False", "trust_remote_code=trusted"}
    return [
        f"{path}:{node.lineno}: {node.func.attr} without trust_remote_code=False; transformers "
        "would ask whether to run the code that comes with a checkpoint"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"from_pretrained", "from_config"}
        and given.isdisjoint(ast.unparse(keyword) for keyword in node.keywords)
    ]


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


def modules_without_test(root: Path, trees: dict[str, ast.Module]) -> list[str]:
    """Report modules that not exactly one test file names, and what is named and is no module.

    The test file of ``contstim/synthesis/problem.py`` is ``tests/synthesis/test_problem.py``, or
    has `contstim.synthesis.problem`, in such backticks, in its docstring. Packages that define
    nothing need none.
    """
    modules = {_module(path) for path in trees}
    named_by: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        place = path.relative_to(root)
        mirrored = ".".join(["contstim", *place.parts[1:-1], path.stem.removeprefix("test_")])
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        stated = re.findall(r"(?<!`)`(contstim(?:\.\w+)*)`(?!`)", text)
        for module in sorted({*stated, *modules & {mirrored}}):
            named_by[module].append(place.as_posix())
    findings = [
        f"{tests[0]}: there is no module {module}; name the one that is tested"
        for module, tests in named_by.items()
        if module not in modules
    ]
    for path, tree in trees.items():
        tests = named_by[_module(path)]
        if len(tests) > 1:
            findings.append(f"{path}: both {' and '.join(tests)} name it; let one do so")
        elif not tests and _defines(tree):
            findings.append(f"{path}: no test file has its name, nor names it in its docstring")
    return findings


def _defines(tree: ast.Module) -> bool:
    """Tell whether a module has something to test; it may do no more than name or pass on."""
    definitions = ast.ClassDef | ast.FunctionDef
    return any(isinstance(node, definitions) for node in tree.body)


def empty_names(trees: dict[str, ast.Module]) -> list[str]:
    """Report local names that say nothing, in functions of more than a few lines that read them."""
    return [
        f"{path}:{line}: {name!r} does not say what it holds; name what it is"
        for path, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_of_body(function) > FEW_LINES
        for name, line in sorted(locals_of(function).items())
        if name in EMPTY_NAMES
    ]


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines after its head and docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def locals_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    """Return the parameters and variables that a function binds and reads, and their lines.

    What an inner function, a lambda or a comprehension binds is theirs.
    """
    arguments = function.args
    bound = {
        argument.arg: argument.lineno
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    }
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.setdefault(node.id, node.lineno)
    read = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return {name: line for name, line in bound.items() if name in read}


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of scopes inside it."""
    inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, inner | comprehensions):
            yield child
            yield from _own_nodes(child)


def layers_table(root: Path) -> str:
    """Return the layers of ``pyproject.toml``, highest first, by their docstrings' first lines."""
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


def layers_faults(root: Path) -> list[str]:
    """Report a table of layers in CONTRIBUTING.md that is not that of ``pyproject.toml``."""
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    if LAYERS.search(text) and with_layers(text, layers_table(root)) == text:
        return []
    return [
        "CONTRIBUTING.md: its layers are not those of pyproject.toml; run "
        "python tools/check_repository.py --write"
    ]


def with_layers(text: str, table: str) -> str:
    """Return a text with its table of layers replaced."""
    return LAYERS.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def main() -> int:
    """Check the repository that this file is in."""
    root = Path(__file__).parents[1]
    if sys.argv[1:] == ["--write"]:
        page = root / "CONTRIBUTING.md"
        page.write_text(with_layers(page.read_text("utf-8"), layers_table(root)), "utf-8")
    findings = check(root)
    print("\n".join(findings) or "names, callers, circles, tests, layers, glossary: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
