"""What is written of a published folder in words: data card, citation, ethics, plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

from contstim.benchmarks.publishing.about import About
from contstim.experiment.review import Decision, count_outcomes, final_forms, kappa

if TYPE_CHECKING:
    from contstim.benchmarks.publishing.record import ScoresFile


def citation_file(about: About, date: str) -> str:
    """Return the text of ``CITATION.cff``, version 1.2.0 of the Citation File Format."""
    # Texts of JSON are texts of YAML.
    lines = [
        "cff-version: 1.2.0",
        "message: If you use these data, please cite them.",
        "type: dataset",
        f"title: {json.dumps(about.title, ensure_ascii=False)}",
        f"abstract: {json.dumps(about.description, ensure_ascii=False)}",
        f"version: {about.version}",
        f"date-released: {date}",
        f"license: {about.licence}",
        *([f"url: {json.dumps(about.url)}"] if about.url else []),
        *([f"doi: {json.dumps(about.doi)}"] if about.doi else []),
        "authors:",
    ]
    for author in about.authors:
        lines.append(f"  - given-names: {json.dumps(author.given, ensure_ascii=False)}")
        lines.append(f"    family-names: {json.dumps(author.family, ensure_ascii=False)}")
        if author.affiliation:
            lines.append(f"    affiliation: {json.dumps(author.affiliation, ensure_ascii=False)}")
        if author.orcid:
            lines.append(f"    orcid: https://orcid.org/{author.orcid}")
    return "\n".join(lines) + "\n"


def review_sentences(
    decisions: Sequence[Decision], sentences: Iterable[str], reviewers: int = 1
) -> list[str]:
    """Return what a review came to, in numbers; reviewers are called A, B and so on.

    Parameters
    ----------
    decisions
        Of all reviewers.
    sentences
        Those that are published; of how many of them there is a decision is said as well.
    reviewers
        How many had to agree.
    """
    names = sorted({decision.reviewer for decision in decisions})
    letters = {name: _letters(number) for number, name in enumerate(names)}
    final = final_forms(decisions, reviewers)
    counts = count_outcomes(final)
    shown = {text for text in final.values() if text is not None}
    there = list(sentences)
    reviewed = sum(sentence in shown for sentence in there)
    lines = [
        f"{len(final)} sentences were reviewed by {len(names)} people; at least {reviewers} had to "
        "agree.",
        f"{counts['approved']} were approved as they were, {counts['edited']} in an edited form, "
        f"{counts['left out']} were left out.",
        f"Of the {len(there)} sentences published, {reviewed} were approved.",
    ]
    for (first, second), (value, n) in kappa(decisions).items():
        words = "is not defined" if value != value else f"is {value:.3f}"
        lines.append(
            f"Cohen's kappa of {letters[first]} and {letters[second]} {words}, over {n} sentences."
        )
    return lines


def _letters(number: int) -> str:
    most = len(ascii_uppercase)
    return (_letters(number // most - 1) if number >= most else "") + ascii_uppercase[number % most]


def ethics_page(
    about: About,
    people: Sequence[str],
    review: Sequence[str],
    warning: str,
    removed: Sequence[Sequence[str]],
) -> str:
    """Return the appendix on people, review and what was removed, Markdown.

    Parameters
    ----------
    about
        What is said of the data.
    people
        Sentences on who took part.
    review
        Of `review_sentences`; none if nobody reviewed.
    warning
        The content warning that participants were shown, or nothing.
    removed
        Where, what and how, of all that did not leave as it was.
    """
    lines = ["# Ethics, review and privacy", "", "## People", "", about.responsible.collection, ""]
    lines += [*_bullets(people), "", "## Content", ""]
    lines += [
        f"Participants were warned: {warning}" if warning else "There was no content warning."
    ]
    lines += ["", "## Review of the sentences", ""]
    lines += _bullets(review or ["No review of the sentences is reported."])
    lines += ["", "## What was removed or replaced", ""]
    lines += ["| where | what | how |", "| --- | --- | --- |"]
    lines += [_row(*cells) for cells in removed]
    return "\n".join(lines) + "\n"


def plan_page(preregistration: str, departures: Sequence[str] | None) -> str:
    """Return what was registered and what departs from it, Markdown.

    Parameters
    ----------
    preregistration
        The text that was registered, or nothing.
    departures
        Sentences on what was not done as planned; None without an analysis plan.
    """
    lines = ["# Plan and departures", "", "## Departures", ""]
    if departures is None:
        lines.append("There is no analysis plan to depart from.")
    else:
        lines += _bullets(departures or ["None: the analysis is as `plan.toml` has it."])
    lines += ["", "## As registered", "", preregistration.strip() or "Nothing was registered."]
    return "\n".join(lines) + "\n"


def data_card(
    about: About,
    date: str,
    facts: Mapping[str, str],
    scores: Sequence[ScoresFile],
    files: Mapping[str, str],
    columns: Mapping[str, str],
) -> str:
    """Return the card of the data, ``README.md``.

    Parameters
    ----------
    about
        What is said of them.
    date
        Of their publication.
    facts
        As for `croissant`.
    scores
        The models whose scores are there.
    files
        What files hold, by their paths.
    columns
        What columns of tables hold, by their names.
    """
    stated = about.responsible
    by = ", ".join(f"{author.given} {author.family}" for author in about.authors)
    lines = [f"# {about.title}", "", about.description, ""]
    lines += [f"{by}. Version {about.version}, {date}. Licence: {about.licence}."]
    lines += [f"Cite: {about.citation}" if about.citation else "Cite it as CITATION.cff says."]
    lines += ["", "## Use it", "", "Try another model, and see it beside the others:", ""]
    lines += ["    contstim benchmark FOLDER --model hf:NAME --out results", ""]
    lines += [
        "FOLDER is this one. Without contstim: `data/` is a Psych-DS data set, its columns are"
    ]
    lines += ["below, and `lm_eval/` is a task for the lm-evaluation-harness.", ""]
    lines += [
        "## What was done",
        "",
        *_bullets(facts[k] for k in ("task", "collection", "processing")),
    ]
    lines += [
        "",
        "## Texts",
        "",
        "| source | from | licence | published |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        _row(
            text.name,
            text.source,
            text.licence,
            "as texts" if text.redistribute else "as digests",
        )
        for text in about.texts
    ]
    if not all(text.redistribute for text in about.texts):
        lines += [
            "",
            "A digest is `sha256:` and the SHA-256 of the sentence (UTF-8, single spaces).",
        ]
        lines += ["Who has the sentences gives them to `contstim benchmark --texts FILE`."]
    lines += ["", "## Models", ""]
    lines += ["| model | version | scored | from | licence |", "| --- | --- | --- | --- | --- |"]
    lines += [
        _row(listed.model, listed.version, listed.date, listed.source, listed.licence)
        for listed in scores
    ]
    for heading, text in (
        ("Limitations", stated.limitations),
        ("Biases", stated.biases),
        ("Uses", stated.uses),
        ("Social impact", stated.impact),
        ("Personal data", facts["personal"]),
        ("Maintenance", stated.maintenance),
    ):
        lines += ["", f"## {heading}", "", text] if text else []
    lines += ["", "## Files", "", *_bullets(f"`{path}`: {what}" for path, what in files.items())]
    lines += [
        "",
        "## Columns",
        "",
        *_bullets(f"`{name}`: {what}" for name, what in columns.items()),
    ]
    return "\n".join(lines) + "\n"


def _bullets(lines: Iterable[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _row(*cells: str) -> str:
    """Return a row of a table in Markdown, which knows neither bars nor lines within cells."""
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"
