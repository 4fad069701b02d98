"""Pages of the site: tables of contents, public names, terms and commands."""

import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import contstim
import contstim.errors
from contstim.cli import COMMANDS
from contstim.errors import ContstimError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = {"_build", "gallery", "generated"}
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text("utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if not MADE & set(path.parts)
}
API = PAGES["api/index"]
#: Packages whose ``__all__`` is public besides the namespace itself.
PACKAGES = ("contstim.adaptive", "contstim.evaluation", "contstim.selection")


def _listed_names() -> list[str]:
    """Return the names that the page of the interface lists, from ``contstim`` on."""
    return re.findall(r"^   (\w[\w.]*)$", API, flags=re.MULTILINE)


def _public_objects() -> dict[str, object]:
    """Return the public objects by their names."""
    found = {name: getattr(contstim, name) for name in contstim.__all__ if name != "__version__"}
    for package in PACKAGES:
        module = import_module(package)
        found |= {
            f"{package.removeprefix('contstim.')}.{name}": getattr(module, name)
            for name in module.__all__
        }
    errors = vars(contstim.errors).items()
    return found | {f"errors.{name}": item for name, item in errors if name.endswith("Error")}


def _object(name: str) -> object:
    module, _, last = f"contstim.{name}".rpartition(".")
    item = import_module(module)
    return getattr(item, last) if hasattr(item, last) else import_module(f"contstim.{name}")


def _documented_objects() -> list[object]:
    """Return what the listed names are; a module's page has all that it passes on."""
    found = [_object(name) for name in _listed_names()]
    modules = [item for item in found if isinstance(item, ModuleType)]
    return found + [item for module in modules for item in _exported_objects(module)]


def _exported_objects(module: ModuleType) -> list[object]:
    if hasattr(module, "__all__"):
        return [getattr(module, name) for name in module.__all__]
    items = {n: item for n, item in vars(module).items() if not n.startswith("_")}
    return [item for item in items.values() if getattr(item, "__module__", "") == module.__name__]


def test_toctrees_list_every_page() -> None:
    listed: list[str] = []
    for page, text in PAGES.items():
        folder = (DOCS / page).parent
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            for line in re.findall(r"^(?![:\s])(\S+)$", block, flags=re.MULTILINE):
                listed.append((folder / line).resolve().relative_to(DOCS).as_posix())
    assert len(set(listed)) == len(listed), "a page is listed twice"
    # Guides that no list names are added to the page of guides when the site is built.
    missing = {page for page in PAGES if page not in listed and "/" in page}
    assert not missing, f"no list of pages names {sorted(missing)}"
    assert {"install", "glossary", "guides", "how-it-works", "rulebook"} <= set(listed)
    assert {page for page in listed if page not in PAGES} == {"gallery/index"}


def test_api_index_lists_every_public_name() -> None:
    listed = _listed_names()
    assert len(set(listed)) == len(listed)
    objects = _documented_objects()
    missing = [n for n, item in _public_objects().items() if not any(item is o for o in objects)]
    assert not missing, f"add {missing} to docs/api/index.md"


def test_listed_names_have_docstrings() -> None:
    for item in _documented_objects():
        if callable(item):
            text, name = item.__doc__ or "", item.__name__
            # A dataclass without a docstring has its signature for one.
            assert text, name
            assert not text.startswith(f"{name}("), name


def test_technical_terms_are_defined_in_the_guides() -> None:
    first = PAGES["tutorials/stimuli"]
    for word in ("log-probability", "nats", "event", "controversiality", "Strata"):
        assert f"**{word}**" in first, word
    assert "**ceiling**" in PAGES["tutorials/choices"]
    assert "*minimum score*" in first
    for word in ("event", "budget", "strata", "noise ceiling", "nat", "minimum score"):
        assert f"[{word}](" in PAGES["concepts/index"], word


#: Where else readers meet a word first, and what must stand beside it.
FIRST_USES = [
    ("README.md", "triplet", "a natural sentence and two synthetic ones"),
    ("contstim/cli/synthesize.py", "24 readable triplets", "a natural sentence with two synthetic"),
    ("README.md", "strata", "ranges of a model's log-probabilities"),
    ("contstim/cli/select.py", "stratum", "a range of a model's log-probabilities"),
    ("contstim/selection/triplets.py", "A stratum", "range of a model's log-probabilities"),
    ("contstim/cli/score.py", "nats", "units of natural"),
    ("contstim/cli/score.py", "its event", "gives a probability, with or without full stop"),
    ("contstim/cli/design.py", "catch trials", "a sentence with its shuffled words"),
    ("contstim/cli/evaluate.py", "noise ceiling", "how well the best possible model could do"),
    ("contstim/templates/demo.html", "nats", "2.7 times less probable"),
    ("contstim/templates/demo.html", "ceiling", "the best possible model"),
    ("contstim/cli/demonstration.py", "lower bound on plausibility", "decreases by at most 5 nats"),
    ("contstim/text/word_options.py", "Zipf", "occurrences per billion words"),
]


@pytest.mark.parametrize(("path", "word", "explanation"), FIRST_USES)
def test_terms_are_defined_at_their_first_use(path: str, word: str, explanation: str) -> None:
    """Where the word comes first its explanation stands within the next lines."""
    text = " ".join(re.sub(r'"\n\s*f?"', "", (ROOT / path).read_text("utf-8")).split())
    places = [m.start() for m in re.finditer(re.escape(word), text)]
    assert any(explanation in text[max(0, at - 160) : at + 300] for at in places), (word, path)


#: Names that still have no example above their parameters; the list may only become shorter.
WITHOUT_EXAMPLE = set(Path(__file__).with_name("without_example.txt").read_text("utf-8").split())


def test_public_docstrings_have_examples() -> None:
    without = {
        item.__qualname__
        for item in _documented_objects()
        if callable(item)
        and "\nExamples\n" not in inspect.cleandoc(item.__doc__ or "")
        # Of errors, the root has one for all.
        and not (isinstance(item, type) and ContstimError in item.__mro__[1:])
    }
    assert without - WITHOUT_EXAMPLE == set(), "give these an example"
    assert WITHOUT_EXAMPLE - without == set(), "these have one now: take them off the list"


#: Messages of the shell, of Python and of PyTorch that newcomers to contstim meet as well.
EXTERNAL_MESSAGES = {
    "contstim: command not found",
    *("No space left on device", "CUDA out of memory"),
}


def _messages() -> list[str]:
    """Return the messages that the page on troubleshooting explains, without its other entries."""
    entries = re.findall(r"^(\S.*)\n: ", PAGES["troubleshooting"], flags=re.MULTILINE)
    assert len(entries) >= 20
    return [text for entry in entries for text in re.findall(r"`([^`]+)`", entry)]


def test_messages_in_troubleshooting_exist_in_the_code() -> None:
    sources = (path.read_text("utf-8") for path in (ROOT / "contstim").rglob("*.py"))
    given = " ".join(re.sub(r"""["']\n\s*f?["']""", "", "\n".join(sources)).split())
    for message in set(_messages()) - EXTERNAL_MESSAGES:
        for part in filter(None, (part.strip(" ;,") for part in message.split("…"))):
            assert part in given, message


#: What readers search for, and the page that has to have the words.
SEARCHES = {
    "lme4": "how-to/r",
    "reaction times": "troubleshooting",
    "surprisal bits": "how-to/own-scores",
    "Qualtrics": "how-to/own-choices",
    "cite": "about/cite",
}


@pytest.mark.parametrize(("words", "page"), SEARCHES.items())
def test_search_terms_occur_on_their_page(words: str, page: str) -> None:
    """The site's search finds pages that have all the words; the build checks its index."""
    assert all(word.lower() in PAGES[page].lower() for word in words.split())


def _commands() -> list[str]:
    found = []
    for text in PAGES.values():
        shell = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
        indented = re.findall(r"^(?: {4}| {7})(contstim .*)$", text, flags=re.MULTILINE)
        lines = [line for block in shell for line in re.sub(r"\\\n", " ", block).splitlines()]
        found += [line.strip() for line in [*lines, *indented]]
    return [
        line
        for line in dict.fromkeys(found)
        if line.startswith("contstim ") and not re.search(r"\.\.\.|\$\(|\\$", line)
    ]


@pytest.mark.parametrize("command", _commands())
def test_documented_commands_can_be_parsed(command: str) -> None:
    words = shlex.split(command.partition(" > ")[0])[1:]
    assert words[0] in COMMANDS
    COMMANDS[words[0]].parse_args(words[1:], exit_on_error=False, print_error=False)


def test_code_of_the_installation_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGES["install"], flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "install.md", "exec"), {})
