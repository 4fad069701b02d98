"""What a build of the site writes beside its pages, and what it checks when it is done.

Beside each page its text, ``PAGE.md``; beside each tutorial its notebook, ``PAGE.ipynb``, with the
output of this build; and ``llms.txt``, the list of pages for language models (llmstxt.org).
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: What readers type into the search, and a page that they must get for it.
SEARCHES = {
    "lme4": "how-to/r",
    "reaction times": "troubleshooting",
    "surprisal bits": "how-to/own-scores",
    "Qualtrics": "how-to/own-choices",
    "cite": "about/cite",
    "BERT": "models",
    "minicons": "coming-from",
    "readable pairs": "how-to/readable",
}
SUMMARY = (
    "Python package and command line for psycholinguistics: finds or writes pairs of sentences on "
    "which language models disagree (controversial stimuli), lays them out as an experiment, and "
    "tells from people's choices which model predicts them best."
)
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n+", flags=re.DOTALL)
INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", flags=re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)\s]+\)")


def page_text(app: Sphinx, page: str) -> str:
    """Return the Markdown of a page, with what it includes and without its front matter."""
    path = Path(app.srcdir, f"{page}.md")
    text = FRONT_MATTER.sub("", path.read_text("utf-8"))
    return INCLUDE.sub(lambda found: (path.parent / found[1]).read_text("utf-8"), text)


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of a page's text, or nothing."""
    for paragraph in document.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            return re.split(r"(?<=[.?!])\s", " ".join(paragraph.astext().split()))[0]
    return ""


def pages_below(app: Sphinx, page: str) -> list[str]:
    """Return the pages that a page's lists name, in their order, each followed by those below."""
    listed = [
        entry
        for tree in app.env.get_doctree(page).findall(toctree)
        for entry in tree["includefiles"]
        if Path(app.srcdir, f"{entry}.md").exists()
    ]
    return [name for entry in listed for name in (entry, *pages_below(app, entry))]


def llms_text(app: Sphinx) -> str:
    """Return ``llms.txt``: what contstim is, and each page with its first sentence."""
    lines = [f"# {app.config.project}", "", f"> {SUMMARY}", "", f"Version {app.config.release}."]
    chapters = [
        entry
        for tree in app.env.get_doctree(app.config.root_doc).findall(toctree)
        for entry in tree["includefiles"]
    ]
    for chapter in chapters:
        if not Path(app.srcdir, f"{chapter}.md").exists():
            continue
        lines += ["", f"## {app.env.titles[chapter].astext()}", ""]
        for page in (chapter, *pages_below(app, chapter)):
            title, text = app.env.titles[page].astext(), first_sentence(app.env.get_doctree(page))
            lines.append(f"- [{title}]({page}.md): {text}".removesuffix(": "))
    return "\n".join(lines) + "\n"


def notebooks(app: Sphinx) -> list[str]:
    """Return the pages that can be had as notebooks: the tutorials."""
    return sorted(
        page
        for page in app.env.found_docs
        if page.startswith("tutorials/") and "{code-cell}" in page_text(app, page)
    )


def write_notebook(app: Sphinx, page: str) -> None:
    """Write a tutorial's notebook as it was executed, without what the page does not show.

    Links to other pages are left as plain text: a notebook is used elsewhere.
    """
    executed = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if not executed.exists():  # nothing was executed in this build
        return
    notebook = nbformat.read(executed, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
        elif "remove-output" in cell.metadata.get("tags", ()):
            cell.outputs = []
    nbformat.write(notebook, Path(app.outdir, f"{page}.ipynb"))


def name_notebook(
    app: Sphinx, page: str, template: str, context: dict[str, object], tree: object
) -> None:
    """Tell a page's template whether it has a notebook, and its text."""
    context["notebook"] = page in notebooks(app)
    context["page_text"] = Path(app.srcdir, f"{page}.md").exists()


def check_searches(app: Sphinx) -> None:
    """Warn of words that readers search for and that lead nowhere."""
    index = app.builder.indexer
    for words, page in SEARCHES.items():
        if page not in app.env.found_docs:
            continue
        for word in words.split():
            stem = index.lang.stem(word.lower())
            if page not in index._mapping.get(stem, ()) | index._title_mapping.get(stem, set()):
                logger.warning("a search for %r does not lead to %s", words, page)


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write all of it, after a whole build."""
    if error is not None or app.builder.name != "html":
        return
    check_searches(app)
    for page in app.env.found_docs:
        if Path(app.srcdir, f"{page}.md").exists():
            Path(app.outdir, f"{page}.md").write_text(page_text(app, page), "utf-8")
    for page in notebooks(app):
        write_notebook(app, page)
    Path(app.outdir, "llms.txt").write_text(llms_text(app), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when this is done."""
    app.connect("html-page-context", name_notebook)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
