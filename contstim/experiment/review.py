"""Review of sentences by people: a page on which they judge, and the table of their decisions."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import digest
from contstim.selection.tokens import add_token_counts
from contstim.tables import read_table, require_columns
from contstim.text import read_sentences
from contstim.text.features import sentence_flags
from contstim.text.languages import detect_language
from contstim.text.normalise import normalise_sentence
from contstim.text_files import TABLE_SUFFIXES

#: What a reviewer may decide about a sentence.
REVIEW_DECISIONS = ("approve", "reject", "edit")

#: Default instructions of a review.
REVIEW_INSTRUCTIONS = """\
May this sentence be shown to participants? Approve it as it stands, reject it, or write what is to
be shown in its place. Look for what could offend or distress, for living people and private
matters, and for mistakes. That a sentence is odd is no reason to reject it: these are sentences on
which models disagree. A flag is a reason to look, not a decision.
"""

#: Default instructions of a blind review.
BLIND_INSTRUCTIONS = """\
A sentence reads as a sentence of English if it is grammatical as it stands (word order,
agreement, no word missing and none too many) and a situation can be imagined in which somebody
says it and means something. It may be odd, false or silly. A missing comma is forgiven, a
fragment is not.
"""

_COLUMNS = ("sentence", "reviewer", "decision", "edited", "reason")
_TEXTS = ("natural", "synthetic_1", "synthetic_2", "synthetic", "sentence_1", "sentence_2")
# Columns that a source of a blind review is read from: the first of these that it has.
_SOURCES = (("synthetic_1", "synthetic_2"), ("synthetic",), ("sentence_1", "sentence_2"))

# The role of a sentence in its row, by its column: the first template whose names the row has.
_TWO = (
    "accepted by {model_1}, rejected by {model_2}",
    "accepted by {model_2}, rejected by {model_1}",
)
_ROLES = {
    "natural": ("natural sentence",),
    "synthetic_1": (_TWO[0], "synthetic sentence 1"),
    "synthetic_2": (_TWO[1], "synthetic sentence 2"),
    "synthetic": ("accepted by {accept}, rejected by {reject}", "synthetic sentence"),
    "sentence_1": ("preferred by {prefer_1}", _TWO[0], "sentence 1"),
    "sentence_2": ("preferred by {prefer_2}", _TWO[1], "sentence 2"),
}


@dataclass(frozen=True)
class Decision:
    """The decision of a reviewer about a sentence.

    Attributes
    ----------
    sentence, reviewer
        The sentence as it was shown, and who judged it.
    decision
        One of `REVIEW_DECISIONS`.
    edited
        The sentence to be shown instead, for ``edit``.
    reason
        Reason, if any.

    Raises
    ------
    InputError
        If the decision is unknown, or does not match `edited`.
    """

    sentence: str
    reviewer: str
    decision: str
    edited: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, normalise_sentence(value))
        if not self.sentence or not self.reviewer:
            raise InputError("a decision needs a sentence and a reviewer; fill both")
        if self.decision not in REVIEW_DECISIONS:
            raise InputError(
                f"the decision about {self.sentence!r} is {self.decision!r}; give one of "
                f"{', '.join(REVIEW_DECISIONS)}"
            )
        if (self.decision == "edit") != bool(self.edited) or self.edited == self.sentence:
            raise InputError(
                f"the edited form of {self.sentence!r} is {self.edited!r}; give another sentence "
                "with the decision 'edit', and none with others"
            )


def read_decisions(*paths: str | Path) -> list[Decision]:
    """Read the decisions of one or more reviewers, from one file or several.

    Raises
    ------
    InputError
        Naming file and fault; also if a reviewer decided twice about a sentence.
    """
    decisions: dict[tuple[str, str], Decision] = {}
    for path in paths:
        table = read_table(path, _COLUMNS[:3], cells="text").reindex(columns=[*_COLUMNS])
        for row in table.astype(object).where(table.notna(), "").itertuples(index=False):
            decision = Decision(*map(str, row))
            key = decision.sentence, decision.reviewer
            if key in decisions:
                raise InputError(
                    f"{path}: {decision.reviewer} decided twice about {decision.sentence!r}; keep "
                    "one row"
                )
            decisions[key] = decision
    return list(decisions.values())


def list_sentences(table: pd.DataFrame) -> list[str]:
    """Return the distinct sentences of a table of triplets, pairs or written sentences.

    Raises
    ------
    InputError
        If it has no column of sentences.
    """
    columns = [name for name in _TEXTS if name in table]
    if not columns:
        raise InputError(f"the table has none of the columns {', '.join(_TEXTS)}; give sentences")
    cells = table[columns].astype(object).where(table[columns].notna(), "").to_numpy()
    texts = (normalise_sentence(str(text)) for row in cells for text in row)
    return [text for text in dict.fromkeys(texts) if text]


def render_review_page(
    table: pd.DataFrame,
    reviewer: str,
    rule: str = REVIEW_INSTRUCTIONS,
    scores: pd.DataFrame | None = None,
) -> str:
    """Return a page on which a reviewer approves, rejects or edits the sentences of a table.

    The page needs no network. It keeps decisions in the browser and saves them as a CSV file.

    Parameters
    ----------
    table
        Triplets, pairs or written sentences; the sentences of a row are shown side by side.
    reviewer
        Name of the reviewer.
    rule
        Instructions.
    scores
        Log-probabilities in nats, shape (S, M), with the sentences as index, for sentences that the
        table has no scores of.
    """
    given = {} if scores is None else scores.to_dict("index")
    scores_of = {
        str(sentence): {str(m): float(value) for m, value in by_model.items() if not isnan(value)}
        for sentence, by_model in given.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.astype(object).where(table.notna(), "").to_dict("records"):
        names = {str(key): str(value) for key, value in row.items() if value != ""}
        cells = []
        for column, templates in _ROLES.items():
            if sentence := normalise_sentence(names.get(column, "")):
                by_model = dict(scores_of.get(sentence, {}))
                for k in (1, 2):
                    if {f"model_{k}", f"{column}_lp_{k}"} <= names.keys():
                        by_model[names[f"model_{k}"]] = float(names[f"{column}_lp_{k}"])
                fields = (set(re.findall(r"{(\w+)}", text)) for text in templates)
                roles = zip(templates, fields, strict=True)
                role = next(text for text, needed in roles if needed <= names.keys())
                cells.append(
                    {"sentence": sentence, "role": role.format_map(names), "scores": by_model}
                )
        rows.setdefault(json.dumps(cells), cells)
    return _page(reviewer, rule, list_sentences(table), [cells for cells in rows.values() if cells])


def render_blind_page(
    sources: Mapping[str, Sequence[tuple[str, ...]]],
    reviewer: str,
    rule: str = BLIND_INSTRUCTIONS,
    each: int | None = None,
    seed: int = 0,
) -> str:
    """Return a page on which a reviewer judges sentences without knowing their source.

    Parameters
    ----------
    sources
        Sentences by the name of their source; those of a pair or triplet are one entry.
    reviewer, rule
        As for `render_review_page`.
    each
        Maximum number of sentences drawn from a source, entries as a whole; by default all.
    seed
        Random seed of the draw and of the order.
    """
    rng = np.random.default_rng(seed)
    drawn: list[str] = []
    for entries in sources.values():
        texts: list[str] = []
        for place in rng.permutation(len(entries)).tolist():
            if each is None or len({*texts, *entries[place]}) <= each:
                texts += entries[place]
        drawn += texts
    distinct = list(dict.fromkeys(drawn))
    order = [distinct[place] for place in rng.permutation(len(distinct)).tolist()]
    return _page(reviewer, rule, order, None)


def _page(
    reviewer: str,
    rule: str,
    sentences: Sequence[str],
    rows: Sequence[Sequence[Mapping[str, Any]]] | None,
) -> str:
    """Return the page; without rows it is blind."""
    reviewer = " ".join(reviewer.split())
    if not reviewer or not sentences:
        raise InputError("a review needs the name or initials of the reviewer, and sentences")
    language = detect_language(list(sentences))
    cells = rows or [[{"sentence": text, "role": "", "scores": {}}] for text in sentences]
    where: dict[str, list[int]] = {}
    for number, row in enumerate(cells):
        for sentence in dict.fromkeys(cell["sentence"] for cell in row):
            where.setdefault(sentence, []).append(number)
    content = {
        "reviewer": reviewer,
        "digest": digest("\n".join([reviewer, *sentences]))[:16],
        "rule": " ".join(rule.split()),
        "blind": rows is None,
        "rows": cells,
        "language": language.code,
        "direction": language.direction,
        "stimuli": [
            {
                "sentence": sentence,
                "rows": where[sentence][:3],
                "more": len(where[sentence][3:]),
                "flags": [] if rows is None else sentence_flags(sentence, language),
            }
            for sentence in sentences
        ],
    }
    page = (files("contstim.experiment") / "review.html").read_text("utf-8")

    def hash_of(element: str) -> str:
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.S)
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    policy = (
        f"default-src 'none'; script-src {hash_of('script')}; style-src {hash_of('style')}; "
        "base-uri 'none'; form-action 'none'"
    )
    # "<" as an escape, so that no text can end the script.
    embedded = json.dumps(content).replace("<", "\\u003c")
    return page.replace("{policy}", policy).replace("{content}", embedded)


def read_source(path: str | Path) -> list[tuple[str, ...]]:
    """Read the sentences of a source of a blind review, those of a pair or triplet together.

    Parameters
    ----------
    path
        A table of triplets (their synthetic sentences are used), of pairs, or with a column
        ``sentence``; or a list, one sentence per line.

    Raises
    ------
    InputError
        Naming file and fault.
    """
    if not any(ending in Path(path).suffixes for ending in TABLE_SUFFIXES):
        return [(normalise_sentence(text),) for text in read_sentences(path)]
    table = read_table(path, cells="text")
    columns = next((names for names in _SOURCES if {*names} <= {*table}), ("sentence",))
    require_columns(table, columns, str(path))
    texts = table[[*columns]].fillna("").map(normalise_sentence)
    empty = (texts == "").any(axis=1)
    if empty.any():
        raise InputError(
            f"{path} lacks a sentence in row {int(empty.argmax()) + 1}; fill or remove the row"
        )
    return list(texts.drop_duplicates().itertuples(index=False, name=None))


def approval_shares(
    sources: Mapping[str, Sequence[tuple[str, ...]]], decisions: Sequence[Decision]
) -> pd.DataFrame:
    """Return the share of approved sentences of each source in a blind review.

    Parameters
    ----------
    sources
        As for `render_blind_page`.
    decisions
        Decisions of all reviewers.

    Returns
    -------
    pandas.DataFrame
        `source`, `reviewer`, `unit` (``sentence``, or ``row``: all sentences of a pair or triplet),
        `n` (judged), `approved`, `share`, and its 95 % interval `ci_low`, `ci_high` (Wilson 1927).
    """
    rows = []
    for reviewer in sorted({decision.reviewer for decision in decisions}):
        is_approved = {
            d.sentence: d.decision == "approve" for d in decisions if d.reviewer == reviewer
        }
        for source, entries in sources.items():
            distinct = dict.fromkeys(text for entry in entries for text in entry)
            units: dict[str, list[tuple[str, ...]]] = {"sentence": [(text,) for text in distinct]}
            if any(len(entry) > 1 for entry in entries):
                units["row"] = [*entries]
            for unit, members in units.items():
                judged = [entry for entry in members if {*entry} <= is_approved.keys()]
                n, count = (
                    len(judged),
                    sum(all(is_approved[text] for text in entry) for entry in judged),
                )
                if n:
                    low, high = binomtest(count, n).proportion_ci(method="wilson")
                    rows.append((source, reviewer, unit, n, count, count / n, low, high))
    columns = ["source", "reviewer", "unit", "n", "approved", "share", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns)


def resolve_decisions(decisions: Sequence[Decision], reviewers: int = 1) -> dict[str, str | None]:
    """Return what is to be shown for each sentence that was judged.

    It is the sentence itself if everybody approved it, the edited form if everybody made the same
    edit, and None if it was rejected, reviewers disagree, or fewer than `reviewers` judged it.
    """
    by_sentence: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_sentence.setdefault(decision.sentence, []).append(decision)
    forms: dict[str, str | None] = {}
    for sentence, judged in by_sentence.items():
        outcomes = {(decision.decision, decision.edited) for decision in judged}
        is_accepted = len(outcomes) == 1 and judged[0].decision != "reject"
        shown = judged[0].edited or sentence
        forms[sentence] = shown if is_accepted and len(judged) >= reviewers else None
    return forms


def count_outcomes(forms: Mapping[str, str | None]) -> dict[str, int]:
    """Return how many sentences are approved, edited and left out."""
    return {
        "approved": sum(text == sentence for sentence, text in forms.items()),
        "edited": sum(text not in (None, sentence) for sentence, text in forms.items()),
        "left out": sum(text is None for text in forms.values()),
    }


def kappa(decisions: Sequence[Decision]) -> dict[tuple[str, str], tuple[float, int]]:
    """Return Cohen's kappa of every two reviewers, and the number of sentences that both judged.

    Kappa is NaN if both made the same decision throughout, or share no sentence (Cohen 1960).
    """
    by_reviewer: dict[str, dict[str, str]] = {}
    for decision in decisions:
        by_reviewer.setdefault(decision.reviewer, {})[decision.sentence] = decision.decision
    values = {}
    for pair in combinations(sorted(by_reviewer), 2):
        first, second = (by_reviewer[reviewer] for reviewer in pair)
        shared = first.keys() & second.keys()
        counts = [Counter(judged[text] for text in shared) for judged in (first, second)]
        n = len(shared)
        agreed = sum(first[text] == second[text] for text in shared)
        expected = sum(counts[0][name] * counts[1][name] for name in REVIEW_DECISIONS)
        is_defined = n * n > expected
        value = (n * agreed - expected) / (n * n - expected) if is_defined else float("nan")
        values[pair] = value, n
    return values


def summarise_decisions(
    table: pd.DataFrame, decisions: Sequence[Decision], reviewers: int
) -> Iterator[str]:
    """Yield lines about the progress of reviewers, their agreement, and their disagreements."""
    sentences = list_sentences(table)
    for reviewer in sorted({d.reviewer for d in decisions}):
        counts = Counter(d.decision for d in decisions if d.reviewer == reviewer)
        yield (
            f"{reviewer}: {counts['approve']} approved, {counts['edit']} edited, "
            f"{counts['reject']} rejected of {len(sentences)} sentences"
        )
    for pair, (value, n) in kappa(decisions).items():
        yield f"Cohen's kappa of {' and '.join(pair)}: {value:.3f} over {n} sentences"
    forms = resolve_decisions(decisions, reviewers)
    counts_of = count_outcomes({sentence: forms.get(sentence) for sentence in sentences})
    yield "result: " + ", ".join(f"{n} {outcome}" for outcome, n in counts_of.items())
    for sentence in sentences:
        judged = [d for d in decisions if d.sentence == sentence]
        if len({(d.decision, d.edited) for d in judged}) > 1:
            yield f"disagreement: {sentence}"
            for d in judged:
                why = "; ".join(text for text in (d.edited, d.reason) if text)
                yield f"  {d.reviewer}: {d.decision}{f' ({why})' if why else ''}"


def select_approved_rows(
    table: pd.DataFrame,
    decisions: Sequence[Decision],
    score: Callable[[str, Sequence[str]], FloatArray],
    reviewers: int = 1,
) -> pd.DataFrame:
    """Return the rows of a table whose sentences are all approved or edited.

    Parameters
    ----------
    table
        Triplets, pairs or written sentences.
    decisions, reviewers
        As for `resolve_decisions`; a sentence that nobody judged is not approved.
    score
        Returns a model's scores from its spec and sentences; edited sentences are scored again.

    Raises
    ------
    InputError
        If no row is left, or edited sentences are in a table whose scores cannot be renewed.
    """
    columns = [name for name in _TEXTS if name in table]
    forms = resolve_decisions(decisions, reviewers)
    texts = table[columns].astype(object).where(table[columns].notna(), "").map(normalise_sentence)
    final = texts.map(lambda text: forms.get(text) if text else text)
    is_approved = final.notna().all(axis=1)
    result = table[is_approved].copy()
    if result.empty:
        raise InputError(
            f"none of {len(table)} rows has only approved sentences; review more of them"
        )
    is_edited = (final[is_approved] != texts[is_approved]).to_numpy()
    result[columns] = final[is_approved]
    if not is_edited.any():
        return result
    needed = {f"{name}_lp_{k}" for name in columns for k in (1, 2)} | {"model_1", "model_2"}
    stale = [name for name in table if " " in str(name) or str(name).startswith("reached")]
    if not needed <= {*table} or stale:
        raise InputError(
            "edited sentences can be scored again in triplets of two models only; reject them, or "
            "write them into the table, score it with `contstim score` and review it again"
        )
    for k in (1, 2):
        for model in result[f"model_{k}"].unique():
            of_model = (result[f"model_{k}"] == model).to_numpy()
            for place, name in enumerate(columns):
                rows = of_model & is_edited[:, place]
                if rows.any():
                    values = score(str(model), result.loc[rows, name].tolist())
                    result.loc[rows, f"{name}_lp_{k}"] = values
    counts = [f"{name}_tokens_{k}" for name in columns for k in (1, 2)]
    counts = [name for name in counts if name in result]
    if counts:
        recounted = add_token_counts(result.drop(columns=counts))
        result[counts] = recounted[counts].to_numpy()
    return result
