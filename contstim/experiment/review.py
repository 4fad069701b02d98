"""Decisions of reviewers about sentences: reading, agreement, and approved rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.selection.tokens import add_token_counts
from contstim.tables import read_table, require_columns
from contstim.text import read_sentences
from contstim.text.language import DIRECTION_MARKS
from contstim.text.normalise import normalise_sentence
from contstim.text_files import TABLE_SUFFIXES

#: Decisions that a reviewer can make about a sentence.
REVIEW_DECISIONS = ("approve", "reject", "edit")

_COLUMNS = ("sentence", "reviewer", "decision", "edited", "reason")
_SENTENCES = ("natural", "synthetic_1", "synthetic_2", "synthetic", "sentence_1", "sentence_2")
# Alternative sets of sentence columns in a table for a blind review. The first set of which the
# table has all columns is used.
_SOURCE_COLUMNS = (("synthetic_1", "synthetic_2"), ("synthetic",), ("sentence_1", "sentence_2"))


@dataclass(frozen=True)
class Decision:
    """Decision of one reviewer about one sentence.

    Attributes
    ----------
    sentence
        Sentence as it was shown to the reviewer.
    reviewer
        Name or initials of the reviewer.
    decision
        ``approve``, ``reject`` or ``edit``.
    edited
        Replacement for the sentence if the decision is ``edit``, otherwise empty.
    reason
        Reason for the decision; may be empty.

    Raises
    ------
    InputError
        If the sentence or the reviewer is empty, the decision is unknown, `edited` does not fit the
        decision, or `edited` contains an invisible character that changes the direction of writing,
        for example U+200F (right-to-left mark).
    """

    sentence: str
    reviewer: str
    decision: str
    edited: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, normalise_sentence(value))  # the dataclass is frozen
        if not self.sentence or not self.reviewer:
            raise InputError("a decision needs a sentence and a reviewer; fill both")
        if self.decision not in REVIEW_DECISIONS:
            raise InputError(
                f"the decision about {self.sentence!r} is {self.decision!r}; give one of "
                f"{', '.join(REVIEW_DECISIONS)}"
            )
        # An edited sentence is required for the decision "edit" and forbidden for others.
        if (self.decision == "edit") != bool(self.edited) or self.edited == self.sentence:
            raise InputError(
                f"the edited form of {self.sentence!r} is {self.edited!r}; give a changed sentence "
                "if the decision is 'edit', otherwise nothing"
            )
        if not DIRECTION_MARKS.isdisjoint(self.edited):
            raise InputError(
                f"the edited form {self.edited!a} contains an invisible mark of text direction; "
                "remove the mark"
            )


def read_decisions(*paths: str | Path) -> list[Decision]:
    """Read the decisions of one or more reviewers.

    Parameters
    ----------
    *paths
        CSV files saved by review pages.

    Returns
    -------
    list of Decision
        Decisions in the order of the files and rows.

    Raises
    ------
    InputError
        If a file cannot be read, a row is not a valid decision, or a reviewer decided twice about
        the same sentence.
    """
    decisions: dict[tuple[str, str], Decision] = {}
    for path in paths:
        table = read_table(path, _COLUMNS[:3], cells="text").reindex(columns=[*_COLUMNS])
        # Missing cells become empty texts.
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
    """List the distinct sentences of a table.

    Parameters
    ----------
    table
        Table of sentence triplets, sentence pairs or synthetic sentences.

    Returns
    -------
    list of str
        Normalised sentences in the order of their first occurrence.

    Raises
    ------
    InputError
        If the table has no column of sentences.
    """
    columns = [name for name in _SENTENCES if name in table]
    if not columns:
        raise InputError(
            f"the table has none of the columns {', '.join(_SENTENCES)}; give sentences"
        )
    # All sentences row by row; missing cells become empty texts.
    cells = table[columns].astype(object).where(table[columns].notna(), "").to_numpy()
    texts = (normalise_sentence(str(text)) for row in cells for text in row)
    # The dictionary removes duplicates and keeps the order.
    return [text for text in dict.fromkeys(texts) if text]


def read_source(path: str | Path) -> list[tuple[str, ...]]:
    """Read the sentences of one file for a blind review.

    In a blind review, reviewers judge sentences from several files, for example from two methods of
    synthesis, without knowing which file a sentence is from.

    Parameters
    ----------
    path
        Table or text file. From each row of a table, the columns ``synthetic_1`` and
        ``synthetic_2`` are used if they exist (so that the natural sentence of a triplet is left
        out), or else ``synthetic``, or ``sentence_1`` and ``sentence_2``, or ``sentence``. A text
        file contains one sentence per line.

    Returns
    -------
    list of tuple
        Distinct rows, each as a tuple of the two sentences, or of the one sentence, that are used.

    Raises
    ------
    InputError
        If the file cannot be read, has no column of sentences, or lacks a sentence.
    """
    if not any(suffix in Path(path).suffixes for suffix in TABLE_SUFFIXES):
        return [(normalise_sentence(text),) for text in read_sentences(path)]
    table = read_table(path, cells="text")
    # Use the first set of columns of which the table has all.
    columns = next((c for c in _SOURCE_COLUMNS if set(c).issubset(table.columns)), ("sentence",))
    require_columns(table, columns, str(path))
    texts = table[[*columns]].fillna("").map(normalise_sentence)
    is_incomplete = (texts == "").any(axis=1)
    if is_incomplete.any():
        raise InputError(
            f"{path} lacks a sentence in row {int(is_incomplete.argmax()) + 1}; fill or remove the "
            "row"
        )
    return list(texts.drop_duplicates().itertuples(index=False, name=None))


def compute_approval_shares(
    sources: Mapping[str, Sequence[tuple[str, ...]]], decisions: Sequence[Decision]
) -> pd.DataFrame:
    """Compute the share of sentences that each reviewer approved, for each source of sentences.

    Parameters
    ----------
    sources
        Rows of the file of each source, by name of the source. A row is a tuple of the sentences
        that it contains, see `read_source`.
    decisions
        Decisions of all reviewers.

    Returns
    -------
    pandas.DataFrame
        One row per reviewer, source and `unit`. The unit ``sentence`` counts distinct sentences.
        The unit ``row`` counts pairs or triplets, approved if all their sentences are. The other
        columns are `n` (number judged), `approved` (number approved), `share` (their ratio), and
        `ci_low` and `ci_high` (bounds of the 95 % Wilson score interval of the share).
    """
    results = []
    for reviewer in sorted({decision.reviewer for decision in decisions}):
        own_decisions = [d for d in decisions if d.reviewer == reviewer]
        is_approved = {d.sentence: d.decision == "approve" for d in own_decisions}
        for source, rows in sources.items():
            # Count approved sentences and, if rows contain several sentences, rows in which all
            # sentences are approved.
            sentences = dict.fromkeys(text for row in rows for text in row)
            rows_by_unit: dict[str, list[tuple[str, ...]]] = {"sentence": [(t,) for t in sentences]}
            if any(len(row) > 1 for row in rows):
                rows_by_unit["row"] = [*rows]
            for unit, unit_rows in rows_by_unit.items():
                # A row is judged if the reviewer has decided about all its sentences.
                judged = [row for row in unit_rows if {*row} <= is_approved.keys()]
                if not judged:
                    continue
                n = len(judged)
                n_approved = sum(all(is_approved[text] for text in row) for row in judged)
                low, high = binomtest(n_approved, n).proportion_ci(method="wilson")
                results.append((source, reviewer, unit, n, n_approved, n_approved / n, low, high))
    columns = ["source", "reviewer", "unit", "n", "approved", "share", "ci_low", "ci_high"]
    return pd.DataFrame(results, columns=columns)


def resolve_decisions(
    decisions: Sequence[Decision], min_reviewers: int = 1
) -> dict[str, str | None]:
    """Combine the decisions of all reviewers about sentences into one result per sentence.

    Parameters
    ----------
    decisions
        Decisions of all reviewers.
    min_reviewers
        Minimum number of reviewers who must have judged a sentence.

    Returns
    -------
    dict
        Text to show to participants, by reviewed sentence. It is the sentence itself if all
        reviewers approved it, and the edited form if all made the same edit. It is None if they
        rejected the sentence or disagree, or if fewer than `min_reviewers` judged it.
    """
    by_sentence: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_sentence.setdefault(decision.sentence, []).append(decision)
    results: dict[str, str | None] = {}
    for sentence, judgements in by_sentence.items():
        # Accept a sentence only if enough reviewers made the same decision and the same edit.
        is_unanimous = len({(d.decision, d.edited) for d in judgements}) == 1
        is_accepted = (
            is_unanimous and judgements[0].decision != "reject" and len(judgements) >= min_reviewers
        )
        # Text to show to participants, None if the sentence must not be shown.
        results[sentence] = (judgements[0].edited or sentence) if is_accepted else None
    return results


def compute_kappa(decisions: Sequence[Decision]) -> dict[tuple[str, str], tuple[float, int]]:
    """Compute Cohen's kappa (Cohen 1960) for every pair of reviewers.

    Kappa is the agreement beyond chance: (p_o - p_e) / (1 - p_e), where p_o is the share of
    sentences about which both made the same decision, and p_e the share expected if both decided
    independently.

    Parameters
    ----------
    decisions
        Decisions of all reviewers.

    Returns
    -------
    dict
        A tuple for each pair of reviewers: kappa, and the number of sentences that both judged.
        Kappa is NaN if this number is zero, or if both reviewers made the same decision about all
        of these sentences.
    """
    by_reviewer: dict[str, dict[str, str]] = {}
    for decision in decisions:
        by_reviewer.setdefault(decision.reviewer, {})[decision.sentence] = decision.decision
    kappas = {}
    for pair in combinations(sorted(by_reviewer), 2):
        # Decisions of the two reviewers by sentence, and the sentences that both have judged.
        first, second = (by_reviewer[reviewer] for reviewer in pair)
        shared = first.keys() & second.keys()
        n = len(shared)
        n_agreed = sum(first[text] == second[text] for text in shared)
        # How often each reviewer made each decision.
        counts_1 = Counter(first[text] for text in shared)
        counts_2 = Counter(second[text] for text in shared)
        # Cohen's kappa is (p_o - p_e) / (1 - p_e), with the observed agreement p_o and the
        # agreement p_e expected by chance. Both are multiplied by n squared, to compute with
        # integers: `expected` is n**2 times p_e, and n * n_agreed is n**2 times p_o.
        expected = sum(counts_1[name] * counts_2[name] for name in REVIEW_DECISIONS)
        kappa = (n * n_agreed - expected) / (n * n - expected) if n * n > expected else float("nan")
        kappas[pair] = kappa, n
    return kappas


def summarise_decisions(
    table: pd.DataFrame, decisions: Sequence[Decision], min_reviewers: int
) -> Iterator[str]:
    """Summarise the reviewers' decisions about the sentences of a table in lines of text.

    Parameters
    ----------
    table
        Table that was reviewed.
    decisions
        Decisions of all reviewers.
    min_reviewers
        Minimum number of reviewers who must have judged a sentence.

    Yields
    ------
    str
        Lines with the counts of decisions per reviewer, Cohen's kappa per pair of reviewers, the
        result, and the sentences about which the reviewers disagree.
    """
    sentences = list_sentences(table)
    for reviewer in sorted({d.reviewer for d in decisions}):
        counts = Counter(d.decision for d in decisions if d.reviewer == reviewer)
        yield (
            f"{reviewer}: {counts['approve']} approved, {counts['edit']} edited, "
            f"{counts['reject']} rejected of {len(sentences)} sentences"
        )
    for pair, (kappa, n) in compute_kappa(decisions).items():
        yield f"Cohen's kappa of {' and '.join(pair)}: {kappa:.3f} over {n} sentences"
    # Resulting text of each sentence; None if it is left out.
    resolved = resolve_decisions(decisions, min_reviewers)
    results = [(sentence, resolved.get(sentence)) for sentence in sentences]
    n_approved = sum(text == sentence for sentence, text in results)
    n_omitted = sum(text is None for _, text in results)
    n_edited = len(results) - n_approved - n_omitted
    yield f"result: {n_approved} approved, {n_edited} edited, {n_omitted} left out"
    # List the decisions about each sentence on which the reviewers disagree.
    for sentence in sentences:
        judgements = [d for d in decisions if d.sentence == sentence]
        if len({(d.decision, d.edited) for d in judgements}) > 1:
            yield f"disagreement: {sentence}"
            for d in judgements:
                detail = "; ".join(text for text in (d.edited, d.reason) if text)
                yield f"  {d.reviewer}: {d.decision}{f' ({detail})' if detail else ''}"


def select_approved_rows(
    table: pd.DataFrame,
    decisions: Sequence[Decision],
    score: Callable[[str, Sequence[str]], FloatArray],
    min_reviewers: int = 1,
) -> pd.DataFrame:
    """Select the rows of a table that may be shown to participants.

    Every sentence of a selected row was approved or edited by all reviewers. Edited sentences
    replace the original ones, and are scored again.

    Parameters
    ----------
    table
        Table of sentence triplets, sentence pairs or synthetic sentences.
    decisions
        Decisions of all reviewers. A sentence without a decision is not approved.
    score
        Function that returns log-probabilities from a model spec and sentences; used to score
        edited sentences.
    min_reviewers
        Minimum number of reviewers who must have judged a sentence.

    Returns
    -------
    pandas.DataFrame
        Selected rows with edited sentences, their scores and their token counts.

    Raises
    ------
    InputError
        If no row is selected, or edited sentences occur in a table whose scores cannot be
        recomputed.
    """
    columns = [name for name in _SENTENCES if name in table]
    results = resolve_decisions(decisions, min_reviewers)
    texts = table[columns].astype(object).where(table[columns].notna(), "").map(normalise_sentence)
    resolved = texts.map(lambda text: results.get(text) if text else text)
    is_approved = resolved.notna().all(axis=1)
    selected = table[is_approved].copy()
    if selected.empty:
        raise InputError(f"none of {len(table)} rows has only approved sentences; review more")
    is_edited = (resolved[is_approved] != texts[is_approved]).to_numpy()
    selected[columns] = resolved[is_approved]
    if not is_edited.any():
        return selected

    # Score edited sentences again, which needs a table with the scores of two models. Scores in
    # other columns would become stale.
    needed = {f"{name}_lp_{k}" for name in columns for k in (1, 2)} | {"model_1", "model_2"}
    stale = [name for name in table if " " in str(name) or str(name).startswith("reached")]
    if not needed <= {*table} or stale:
        raise InputError(
            "edited sentences can be scored again in triplets of two models only; reject them, or "
            "write them into the table, score it with `contstim score` and review it again"
        )
    for k in (1, 2):
        for model in selected[f"model_{k}"].unique():
            uses_model = (selected[f"model_{k}"] == model).to_numpy()
            for column_index, name in enumerate(columns):
                needs_score = uses_model & is_edited[:, column_index]
                if needs_score.any():
                    log_probs = score(str(model), selected.loc[needs_score, name].tolist())
                    selected.loc[needs_score, f"{name}_lp_{k}"] = log_probs

    # Count tokens again.
    counts = [f"{name}_tokens_{k}" for name in columns for k in (1, 2)]
    counts = [name for name in counts if name in selected]
    if counts:
        recounted = add_token_counts(selected.drop(columns=counts))
        selected[counts] = recounted[counts].to_numpy()
    return selected
