"""How Sphinx builds the documentation: `make docs`. Nothing is fetched."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import sys
import warnings
from pathlib import Path
from types import FunctionType, MethodType

from docutils.nodes import Element
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

import contstim

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# Commands in tutorials (`!contstim ...`) are those of the environment that builds.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# How long this build's cells took is nothing to show.
os.environ["CONTSTIM_PROGRESS"] = "off"
# Nor is it that progress bars of other packages could be prettier.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"

project = "contstim"
author = "the contstim authors"
copyright = f"2026, {author}"
release = version = contstim.__version__
language = "en"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "site_files",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]
templates_path = ["_templates"]

# References that lead nowhere are warnings, and warnings are errors.
nitpicky = True
nitpick_ignore_regex = [
    # Names in backticks may be parameters or columns; links are made of those that are public.
    ("py:obj", ".*"),
    # Other packages, and names for types that have no page of their own.
    ("py:class", ".*"),
    ("py:data", ".*"),
]
default_role = "py:obj"
toc_object_entries = False

# Pages.
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

# Cells run anew in each build; a cell that fails ends it.
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
nb_execution_show_tb = True

# The interface.
autosummary_generate = True
# Types stand with the parameters, so that signatures are plain.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
numpydoc_show_class_members = False
numpydoc_use_plots = False

# The gallery.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 10,
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("contstim",),
    "backreferences_dir": "gallery/backreferences",
}

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "contstim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["names.js", "version.js"]
# Pages outside the sections have no list of neighbouring pages.
html_sidebars = {name: [] for name in ("install", "coming-from", "troubleshooting", "glossary")}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "contstim"},
    "header_links_before_dropdown": 4,
    "pygments_light_style": "github-light-high-contrast",
    "pygments_dark_style": "github-dark-high-contrast",
    "navbar_end": ["version", "theme-switcher"],
    "show_prev_next": True,
    "article_header_end": ["downloads"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["cite"],
    "show_toc_level": 2,
}


def _unlisted_guides() -> str:
    """Return a list of the guides that `guides.md` does not name, so that none is forgotten."""
    here = Path(__file__).parent
    named = "".join((here / name).read_text("utf-8") for name in ("guides.md", "index.md"))
    others = sorted(p.stem for p in here.glob("*.md") if f"\n{p.stem}\n" not in named)
    others = [name for name in others if name not in ("index", "guides")]
    return (
        "\n".join(["```{toctree}", ":caption: Further guides", "", *others, "```"])
        if others
        else ""
    )


# Signatures are read from docstrings before the section is renamed.
warnings.filterwarnings("ignore", message="Unknown section Source")


def _rename_source(
    app: object, what: str, name: str, obj: object, _: object, lines: list[str]
) -> None:
    """Turn the section that names a formula's source into one that numpydoc knows."""
    for number, (line, under) in enumerate(itertools.pairwise(lines)):
        if line == "Source" and under == "------":
            lines[number : number + 2] = ["References", "----------"]


def _types_beside_names(
    app: object, what: str, name: str, obj: object, _: object, lines: list[str]
) -> None:
    """Write each parameter's type beside its name, as the source has it."""
    if not isinstance(obj, type | FunctionType | MethodType):
        return
    kinds = {
        parameter.name: parameter.annotation
        for item in (reversed(obj.__mro__[:-1]) if isinstance(obj, type) else [obj])
        for parameter in _parameters(item)
        if isinstance(parameter.annotation, str)
    }
    for at, line in enumerate(lines):
        names = re.fullmatch(r"    \*\*([\w, ]+)\*\*", line)
        types = {kinds.get(word) for word in names[1].split(", ")} if names else set()
        if len(types) == 1 and (kind := types.pop()):
            lines[at] = f"{line} : ``{kind}``"


def _parameters(item: object) -> list[inspect.Parameter]:
    """Return the parameters of a function, or of what makes a class."""
    try:
        return list(inspect.signature(item).parameters.values())
    except (TypeError, ValueError):  # what C has made may have none
        return []


def _example_first(
    app: object, what: str, name: str, obj: object, _: object, lines: list[str]
) -> None:
    """Put the examples of a docstring above its parameters, once numpydoc has laid it out."""
    rubrics = [at for at, line in enumerate(lines) if line.startswith(".. rubric:: ")]
    starts = [at for at in rubrics if lines[at] == ".. rubric:: Examples"]
    fields = [at for at, line in enumerate(lines) if re.match(r":(\w+):", line)]
    if not starts or not fields or fields[0] > starts[0]:
        return
    end = next((at for at in rubrics if at > starts[0]), len(lines))
    example = lines[starts[0] : end]
    del lines[starts[0] : end]
    lines[fields[0] : fields[0]] = [*example, ""]


def _by_last_name(
    app: Sphinx, env: BuildEnvironment, node: Element, content: Element
) -> Element | None:
    """Lead from where a name is defined to its page: no two public names are the same."""
    if node.get("reftype") not in ("func", "class", "exc"):
        return None
    last = node["reftarget"].rpartition(".")[2]
    known = env.domains.python_domain.objects.items()
    found = [
        entry
        for name, entry in known
        if name.rpartition(".")[2] == last and entry.objtype in ("function", "class", "exception")
    ]
    if len(found) != 1:
        return None
    place = found[0]
    return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, content)


def setup(app: Sphinx) -> None:
    """Tell Sphinx what is done here."""
    app.add_lexer("csv", TextLexer)
    app.connect("missing-reference", _by_last_name)
    app.connect("autodoc-process-docstring", _rename_source, priority=400)
    app.connect("autodoc-process-docstring", _types_beside_names, priority=600)
    app.connect("autodoc-process-docstring", _example_first, priority=610)


myst_substitutions = {"unlisted_guides": _unlisted_guides()}
