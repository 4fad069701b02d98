"""Check the language of names, docstrings and pages against ``docs/terms.tsv`` and ceilings.

Run by ``make check``; prints one line per finding, and the exit status is 1 if there are any.

Three things are checked:

1. Identifiers, command-line options, columns and TOML keys do not use a form in the first column
   of ``docs/terms.tsv``; the second column names the term to use.
2. The docstring of a class begins with a noun phrase. (Rule D401 of ruff checks that the
   docstring of a function begins with a verb in the imperative.)
3. Habits that make a text hard to read stay below a ceiling per 1,000 words, separately for
   docstrings and pages. Each ceiling is the highest rate in pyribs, seaborn, botorch and
   rsatoolbox, measured by this script: ``python tools/check_language.py CODE_FOLDER DOCS_FOLDER``.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Habits of style by name, with the pattern of a sentence or description that shows the habit.
HABITS = {
    "begins with a preposition or relative": re.compile(
        r"^(?:as|at|between|by|for|from|in|into|of|on|over|per|than|that|those|to which|towards|"
        r"under|what|which|who|whom|whose|with|within|without|where|how)\b",
        re.IGNORECASE,
    ),
    "'what' in place of a noun": re.compile(r"\bwhat(?:ever)?\b(?![^.]*\?)", re.IGNORECASE),
    "pronoun without a noun": re.compile(
        r"\b(?:that|those) (?:of|in|on|for|with|by|from|which|who|whose)\b|\bthe ones?\b|\bwhose\b|"
        r"\bwhoever\b|\bsuch (?:as would|that|a one)\b|\bone's own\b",
        re.IGNORECASE,
    ),
    "verb applied to an object that cannot act": re.compile(
        r"\b(?:tells?|told|says?|said|speaks?|spoken|knows?|wants?|asks?|brings?|brought|"
        r"goes by|go by|stands?|stood|comes along|falls?|weighs?|forgets?|learns of)\b",
        re.IGNORECASE,
    ),
}
#: Highest rates per 1,000 words that are allowed, by habit: docstrings, pages.
CEILINGS = {
    "begins with a preposition or relative": (4.0, 8.0),
    "'what' in place of a noun": (0.1, 0.8),
    "pronoun without a noun": (1.0, 1.0),
    "verb applied to an object that cannot act": (0.5, 1.3),
}
#: Local names that do not describe a value, in functions longer than `SHORT_BODY` lines.
VAGUE_NAMES = {
    *("found", "known", "own", "kept", "one", "told", "said", "mine", "there", "whose", "both"),
    *("given", "asked", "shown", "rest", "taken", "done", "made", "seen", "gone", "every", "each"),
    *("others", "these", "those", "thing", "things", "it", "what", "who"),
}
SHORT_BODY = 5
#: First words of a class docstring that do not begin a noun phrase.
NOT_NOUNS = re.compile(
    r"(?:how|what|when|where|whether|which|who|whose|why|to|by|of|for|in|as)\b", re.I
)
#: Code in Markdown and reStructuredText.
CODE = re.compile(
    r"^```.*?^```|^ {4}.*?$|^\.\. .*?$|``[^`]+``|`[^`]+`|<[^>]+>|^\|.*$|\$[^$]+\$|https?://\S+",
    re.MULTILINE | re.DOTALL,
)
#: End of a sentence, of a list entry or of a parameter's name.
END = re.compile(r"(?<=[.!?:])\s+|\n\s*[-*]\s+|\n\s*\n|\n(?=\s*\w+ : )")


def read_terms(path: Path) -> dict[str, str]:
    """Read the forms to avoid and the terms to use instead."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["form"]: row["term"] for row in csv.DictReader(file, delimiter="\t")}


def docstrings(folder: Path) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the position, the definition and the text of each docstring in a package."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path}:{getattr(node, 'lineno', 1)}", node, text


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences and descriptions of a text, without code and headings."""
    text = re.sub(r"^[-=~^]{3,}$|^#.*$|^.*\n[-=~^]{3,}$", "\n", text, flags=re.MULTILINE)
    for sentence in END.split(CODE.sub("X", text)):
        words = " ".join(sentence.split())
        if words and not words.startswith((">>>", "...")):
            yield words


def measure_habits(texts: list[str]) -> dict[str, float]:
    """Return the number of matches of each habit per 1,000 words."""
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    n_words = sum(len(sentence.split()) for sentence in sentences)
    return {
        habit: 1000 * sum(len(pattern.findall(s)) for s in sentences) / max(n_words, 1)
        for habit, pattern in HABITS.items()
    }


def read_pages(folder: Path) -> list[str]:
    """Read the pages of documentation in a folder."""
    return [
        path.read_text("utf-8", errors="ignore")
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".md", ".mdx", ".rst"} and "_build" not in path.parts
    ]


def check_names(tree: ast.AST, path: str, terms: dict[str, str]) -> Iterator[str]:
    """Report identifiers, parameters and column names for which ``docs/terms.tsv`` has a term."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                pass
            case _:
                continue
        term = terms.get(name.strip("_"))
        if term:
            yield f"{path}:{node.lineno}: {name!r} should be {term!r} (docs/terms.tsv)"


def check_local_names(tree: ast.AST, path: str) -> Iterator[str]:
    """Report parameters and variables of functions with names that do not describe a value."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        first = function.body[1 if ast.get_docstring(function) else 0 :]
        if not first or (function.end_lineno or 0) - first[0].lineno < SHORT_BODY:
            continue
        for node in ast.walk(function):
            is_variable = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if is_variable else node.arg if isinstance(node, ast.arg) else None
            if name in VAGUE_NAMES:
                yield f"{path}:{node.lineno}: {name!r} does not describe a value; rename it"


def check(root: Path) -> list[str]:
    """Return the findings in a repository, one line per finding."""
    terms = read_terms(root / "docs" / "terms.tsv")
    findings = []
    for path in sorted((root / "contstim").rglob("*.py")):
        place, tree = path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"))
        findings += [*check_names(tree, place, terms), *check_local_names(tree, place)]
    texts = []
    for place, node, text in docstrings(root / "contstim"):
        texts.append(text)
        if isinstance(node, ast.ClassDef) and NOT_NOUNS.match(text):
            findings.append(f"{place}: the docstring of {node.name} begins without a noun")
    rates = measure_habits(texts), measure_habits(read_pages(root / "docs"))
    for habit, ceilings in CEILINGS.items():
        for kind, rate, ceiling in zip(("docstrings", "pages"), rates, ceilings, strict=True):
            if rate[habit] > ceiling:
                findings.append(
                    f"{kind}: {rate[habit]:.2f} of {habit!r} per 1,000 words > {ceiling}"
                )
    return findings


def main() -> int:
    """Check this repository, or measure the habits in a package and its documentation."""
    if len(sys.argv) == 3:
        code, pages = Path(sys.argv[1]), Path(sys.argv[2])
        in_docstrings = measure_habits([text for _, _, text in docstrings(code)])
        in_pages = measure_habits(read_pages(pages))
        for habit in HABITS:
            print(f"{habit:45s} {in_docstrings[habit]:6.2f} {in_pages[habit]:6.2f}")
        return 0
    findings = check(ROOT)
    print("\n".join(findings) or "language: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
