"""Find code outside the readers that handles the form of data.

Readers convert scores, choices, trials and sentences to one canonical form (docs/units.md), so that
other modules need not distinguish forms. This script searches the syntax trees of the package for
code that does:

- direction: names such as ``rising`` or ``lower_is_better``, and the column ``better``;
- unit: the names of units that readers convert to nats;
- kind: comparisons with the reserved names of conditions;
- item: tests whether a table has the column ``item`` or ``kind``;
- side: reading the side of the screen, ``side_1``;
- label form: Unicode normalisation, and joining the words of a split text.

Run ``python tools/check_canonical_form.py``; the exit status is 1 if there is such code, except for
the cases in `ALLOWED`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "contstim"
#: Modules and packages that convert input to the canonical form.
READERS = (
    "text/normalise.py", "trial_kinds.py", "tables.py", "models/score_table.py",
    "models/table_model.py", "selection/scores.py", "evaluation/choices.py", "evaluation/items.py",
    "evaluation/importers/", "benchmarks/readers.py",
)  # fmt: skip
_DIRECTION = re.compile(r"rising|risen|rises_with|(lower|higher)_is_better")
_UNITS = {"surprisal", "surprisal-bits", "bits", "log10"}
_RESERVED = {"catch", "filler", "fillers", "practice", "attention", "natural_vs_shuffled"}
_COLUMNS = {"item", "kind"}
_SIDE = "side_1"
# Expressions whose words, if they are joined again, show that white space is normalised.
_SPLIT_TEXTS = ("sentence.split()", "text.split()", "label.split()")
#: Permitted cases by module and kind, with the reason.
ALLOWED = {
    ("models/reductions.py", "unit"): "surprisal is an output, in nats or bits",
    ("cli/score.py", "unit"): "surprisal is a column of words that the command writes",
    ("text/corpora.py", "label form"): "reads the sentences of corpora",
    ("models/hf/encoding.py", "label form"): "a tokenizer's own normalisation",
    ("adaptive/pool.py", "item"): "reads the pool of an adaptive study",
    ("adaptive/preregistration.py", "item"): "states whether the table of trials names items",
    ("benchmarks/ratings.py", "item"): "reads ratings of single sentences",
    ("design/latin.py", "item"): "reads the table of items",
    ("experiment/study_data.py", "item"): "reads the answers of an experiment",
    ("experiment/maintenance.py", "item"): "reads the trials of an experiment",
    ("adaptive/interim.py", "side"): "estimates the bias to one side of the screen",
    ("design/check.py", "side"): "checks the sides that the design assigned",
    **{
        (f"experiment/{module}.py", "side"): "shows the trials on the screen"
        for module in ("study", "study_data", "timeline", "trials")
    },
}


def _find_cases(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line number, kind (such as ``unit``) and code of each case in a module."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        name = name or getattr(node, "arg", None) or getattr(node, "name", None)
        if isinstance(name, str) and _DIRECTION.search(name):
            yield line, "direction", name
        if isinstance(node, ast.Constant) and node.value == "better":
            yield line, "direction", "'better'"
        if isinstance(node, ast.Constant) and node.value in _UNITS:
            yield line, "unit", repr(node.value)
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            texts = {part.value for part in operands if isinstance(part, ast.Constant)}
            is_membership = any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops)
            if is_membership and _SIDE in texts:
                yield line, "side", f"whether there is {_SIDE!r}"
            elif is_membership and (columns := texts & _COLUMNS):
                yield line, "item", f"whether there is {min(columns)!r}"
            elif "condition" in ast.unparse(node) and (names := texts & _RESERVED):
                yield line, "kind", f"condition and {min(names)!r}"
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load):
            key = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node.slice)
            if key.strip("'") == _SIDE:
                yield line, "side", ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "normalize" and "unicodedata" in ast.unparse(node.func):
                yield line, "label form", "unicodedata.normalize"
            argument = ast.unparse(node.args[0]) if node.args else ""
            if ast.unparse(node.func) == "' '.join" and argument in _SPLIT_TEXTS:
                yield line, "label form", ast.unparse(node)


def check(package: Path = PACKAGE) -> list[str]:
    """Return the cases outside the readers that are not permitted, one line each."""
    findings = []
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        if module.startswith(READERS):
            continue
        for line, kind, code in _find_cases(ast.parse(path.read_text("utf-8"))):
            if (module, kind) not in ALLOWED:
                findings.append(f"contstim/{module}:{line}: {kind} ({code}) belongs to a reader")
    return findings


if __name__ == "__main__":
    lines = check()
    print("\n".join(lines) or "canonical form: nothing found outside the readers")
    sys.exit(bool(lines))
