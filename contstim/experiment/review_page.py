"""Pages on which a reviewer judges sentences, each with all its data in one HTML file."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.experiment.review import list_sentences
from contstim.experiment.sentence_flags import sentence_flags
from contstim.files import digest
from contstim.text.languages import detect_language
from contstim.text.normalise import normalise_sentence

#: Default instructions of a review.
REVIEW_INSTRUCTIONS = """\
May this sentence be shown to participants? Approve it unchanged, reject it, or write a replacement.
Look for content that could offend or distress, for references to living people and private
matters, and for mistakes. Do not reject a sentence only because it is odd: models disagree on these
sentences. A flag is a reason to look closely, not a decision.
"""

#: Default instructions of a blind review.
BLIND_INSTRUCTIONS = """\
A sentence reads as a sentence of English if it is grammatical (word order, agreement, no missing
and no superfluous word) and you can imagine a situation in which somebody says it and means
something by it. It may be odd, false or silly. Ignore missing commas, but reject fragments.
"""

# Labels that show a reviewer why a sentence is in its row, for example "accepted by gpt2, rejected
# by bigram". Each column has one or more templates. Names in braces are columns of the row.
# The first template without missing values is used.
_PAIR_LABELS = (
    "accepted by {model_1}, rejected by {model_2}",
    "accepted by {model_2}, rejected by {model_1}",
)
_LABEL_TEMPLATES = {
    "natural": ("natural sentence",),
    "synthetic_1": (_PAIR_LABELS[0], "synthetic sentence 1"),
    "synthetic_2": (_PAIR_LABELS[1], "synthetic sentence 2"),
    "synthetic": ("accepted by {accept}, rejected by {reject}", "synthetic sentence"),
    "sentence_1": ("preferred by {prefer_1}", _PAIR_LABELS[0], "sentence 1"),
    "sentence_2": ("preferred by {prefer_2}", _PAIR_LABELS[1], "sentence 2"),
}


def render_review_page(
    table: pd.DataFrame,
    reviewer: str,
    instructions: str = REVIEW_INSTRUCTIONS,
    scores: pd.DataFrame | None = None,
) -> str:
    """Render an HTML page on which a reviewer approves, rejects or edits the sentences of a table.

    The page works without a network. It stores decisions in the browser and exports them as a CSV
    file.

    Parameters
    ----------
    table
        Table of sentence triplets, sentence pairs or synthetic sentences. The sentences of a row
        are shown side by side.
    reviewer
        Name or initials of the reviewer.
    instructions
        Instructions for the reviewer.
    scores
        Log-probabilities in nats, shape (S, M), with sentences as index. Shown for sentences
        without scores in the table.

    Returns
    -------
    str
        HTML page.

    Raises
    ------
    InputError
        If the reviewer is empty, or the table has no sentences.
    """
    known_scores: dict[str, dict[str, float]] = {}
    # Log-probabilities by sentence and model, without missing ones.
    if scores is not None:
        for sentence, by_model in scores.to_dict("index").items():
            known_scores[str(sentence)] = {
                str(model): float(value) for model, value in by_model.items() if not isnan(value)
            }

    # Rows with equal content are shown once.
    row_by_content: dict[str, list[dict[str, Any]]] = {}
    for record in table.astype(object).where(table.notna(), "").to_dict("records"):
        values = {str(key): str(value) for key, value in record.items() if value != ""}
        # Sentences of the row, with the labels and scores that the reviewer sees.
        row = _list_row_sentences(values, known_scores)
        if row:
            row_by_content[json.dumps(row)] = row
    rows = list(row_by_content.values())
    return _render_page(reviewer, instructions, list_sentences(table), rows)


def _list_row_sentences(
    values: Mapping[str, str], known_scores: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """List the sentences of a table row, with the labels and scores that the reviewer sees.

    Parameters
    ----------
    values
        Cells of the row that are not empty, by column.
    known_scores
        Log-probabilities by sentence and model, shown in addition to those in the row.

    Returns
    -------
    list of dict
        Objects with the keys ``sentence``, ``role`` (label) and ``scores`` (by model).
    """
    cells = []
    for column, templates in _LABEL_TEMPLATES.items():
        sentence = normalise_sentence(values.get(column, ""))
        if not sentence:
            continue
        scores = dict(known_scores.get(sentence, {}))
        # Scores in the row, e.g. in the column `natural_lp_1` for model 1, take precedence.
        for k in (1, 2):
            if {f"model_{k}", f"{column}_lp_{k}"} <= values.keys():
                scores[values[f"model_{k}"]] = float(values[f"{column}_lp_{k}"])
        # Templates of the label are in order of preference, for example "preferred by {prefer_1}",
        # then "sentence 1". Use the first one whose placeholders, here the column `prefer_1`, are
        # all columns of the row.
        usable = [t for t in templates if set(re.findall(r"{(\w+)}", t)) <= values.keys()]
        cells.append({"sentence": sentence, "role": usable[0].format_map(values), "scores": scores})
    return cells


def render_blind_page(
    sources: Mapping[str, Sequence[tuple[str, ...]]],
    reviewer: str,
    instructions: str = BLIND_INSTRUCTIONS,
    max_per_source: int | None = None,
    seed: int = 0,
) -> str:
    """Render an HTML page on which a reviewer judges sentences without knowing their source.

    A source is, for example, a method of synthesis. The sentences of all sources are shown in
    random order.

    Parameters
    ----------
    sources
        Entries by name of the source. An entry is a tuple with the sentences of one pair or
        triplet, or with a single sentence.
    reviewer
        Name or initials of the reviewer.
    instructions
        Instructions for the reviewer.
    max_per_source
        Maximum number of sentences drawn from each source; entries are drawn as a whole. By default
        all sentences are used.
    seed
        Random seed of the draw and of the order of presentation.

    Returns
    -------
    str
        HTML page.

    Raises
    ------
    InputError
        If the reviewer is empty, or the sources have no sentences.
    """
    rng = np.random.default_rng(seed)
    sample: list[str] = []
    for entries in sources.values():
        # Draw entries (the sentences of one row) in random order. An entry that would exceed the
        # maximum number of sentences is skipped as a whole.
        source_sample: list[str] = []
        for index in rng.permutation(len(entries)).tolist():
            entry = entries[index]
            n_sentences = len({*source_sample, *entry})
            if max_per_source is None or n_sentences <= max_per_source:
                source_sample += entry
        sample += source_sample
    # Show the sentences of all sources in random order, each once.
    distinct = list(dict.fromkeys(sample))
    sentences = [distinct[index] for index in rng.permutation(len(distinct)).tolist()]
    return _render_page(reviewer, instructions, sentences, None)


def _render_page(
    reviewer: str,
    instructions: str,
    sentences: Sequence[str],
    rows: Sequence[Sequence[Mapping[str, Any]]] | None,
) -> str:
    """Render the HTML page of a review.

    Parameters
    ----------
    reviewer
        Name or initials of the reviewer.
    instructions
        Instructions for the reviewer.
    sentences
        Distinct sentences to judge, in the order of presentation.
    rows
        Sentences that are shown side by side. Each row is a list of objects with the keys
        ``sentence``, ``role`` (label that explains the sentence) and ``scores``. None for a blind
        review, which shows every sentence alone.
    """
    reviewer = " ".join(reviewer.split())
    if not reviewer or not sentences:
        raise InputError("a review needs the name or initials of the reviewer, and sentences")
    is_blind = rows is None
    language = detect_language(list(sentences))
    cells = rows or [[{"sentence": text, "role": "", "scores": {}}] for text in sentences]
    row_numbers: dict[str, list[int]] = {}
    for number, row in enumerate(cells):
        for sentence in dict.fromkeys(cell["sentence"] for cell in row):
            row_numbers.setdefault(sentence, []).append(number)
    content = {
        "reviewer": reviewer,
        "digest": digest("\n".join([reviewer, *sentences]))[:16],
        "rule": " ".join(instructions.split()),
        "blind": is_blind,
        "rows": cells,
        "language": language.code,
        "direction": language.direction,
        "stimuli": [
            {
                "sentence": sentence,
                "rows": row_numbers[sentence][:3],
                "more": len(row_numbers[sentence][3:]),
                "flags": [] if is_blind else sentence_flags(sentence, language),
            }
            for sentence in sentences
        ],
    }

    # A content security policy that allows only the script and the style of the page.
    page = (files("contstim.experiment") / "review.html").read_text("utf-8")
    hashes = {}
    for element in ("script", "style"):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.S)
        hashes[element] = b64encode(sha256(text.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; "
        f"style-src 'sha256-{hashes['style']}'; base-uri 'none'; form-action 'none'"
    )
    # Escape "<", because a text with "</script>" would end the script element.
    embedded = json.dumps(content).replace("<", "\\u003c")
    return page.replace("{policy}", policy).replace("{content}", embedded)
