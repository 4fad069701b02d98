"""How Sphinx builds the documentation: `make docs`. Nothing is fetched."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from pathlib import Path

from docutils.nodes import Element
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

import contstim

# Commands in tutorials (`!contstim ...`) are those of the environment that builds.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# How long this build's cells took is nothing to show.
os.environ["CONTSTIM_PROGRESS"] = "off"

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
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
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
autodoc_typehints = "signature"
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
html_js_files = ["names.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "contstim"},
    "header_links_before_dropdown": 6,
    "pygments_light_style": "github-light-high-contrast",
    "pygments_dark_style": "github-dark-high-contrast",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
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


myst_substitutions = {"unlisted_guides": _unlisted_guides()}
