"""Decisions of reviewers about sentences, and what becomes of a table by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import write_whole
from contstim.tables import read_table, table_text
from contstim.text.normalise import normalise_sentence

#: What a reviewer may decide about a sentence.
VERDICTS = ("approve", "reject", "edit")

#: Standard deviations on either side of a normal distribution's mean that hold 95 % of it.
NORMAL_95 = NormalDist().inv_cdf(0.975)

_COLUMNS = ("sentence", "reviewer", "decision", "edited", "reason")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # signs that nobody sees
_TEXTS = ("natural", "synthetic_1", "synthetic_2", "synthetic", "sentence_1", "sentence_2")


@dataclass(frozen=True)
class Decision:
    """What a reviewer decided about a sentence.

    Attributes
    ----------
    sentence, reviewer
        The sentence as it was shown, and who judged it.
    decision
        One of `VERDICTS`.
    edited
        The sentence to be shown in its place; for ``edit`` alone.
    reason
        Why; must be given unless the sentence is approved.

    Raises
    ------
    InputError
        If the parts do not go together.
    """

    sentence: str
    reviewer: str
    decision: str
    edited: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            text = value if name == "sentence" else _CONTROL.sub(" ", value)
            object.__setattr__(self, name, normalise_sentence(text))
        if not self.sentence or not self.reviewer:
            raise InputError("a decision needs a sentence and a reviewer; fill both")
        if self.decision not in VERDICTS:
            raise InputError(
                f"the decision about {self.sentence!r} is {self.decision!r}; give one of "
                f"{', '.join(VERDICTS)}"
            )
        if self.decision != "approve" and not self.reason:
            raise InputError(
                f"{self.reviewer} gives no reason to {self.decision} {self.sentence!r}; give one"
            )
        if (self.decision == "edit") != bool(self.edited) or self.edited == self.sentence:
            raise InputError(
                f"the edited form of {self.sentence!r} is {self.edited!r}; give another sentence "
                "with the decision 'edit', and none with others"
            )


def read_decisions(*paths: str | Path) -> list[Decision]:
    """Read the decisions of one or more reviewers, of one file or several.

    Raises
    ------
    InputError
        Naming file and fault; also if a reviewer decided twice about a sentence in a file, or
        otherwise in one than in another.
    """
    by_whose: dict[tuple[str, str], Decision] = {}
    for path in paths:
        table = read_table(path, _COLUMNS[:3], cells="text").reindex(columns=[*_COLUMNS])
        table = table.astype(object).where(table.notna(), "")
        read = [Decision(*map(str, row)) for row in table.itertuples(index=False)]
        twice = Counter((d.sentence, d.reviewer) for d in read)
        for (sentence, reviewer), n in twice.items():
            if n > 1:
                raise InputError(
                    f"{path}: {reviewer} decided {n} times about {sentence!r}; keep one row"
                )
        for decision in read:
            before = by_whose.setdefault((decision.sentence, decision.reviewer), decision)
            if before != decision:
                raise InputError(
                    f"{path}: {decision.reviewer} has {decision.decision!r} for "
                    f"{decision.sentence!r}, and {before.decision!r} or another text in a file "
                    "before; keep one of the rows"
                )
    return list(by_whose.values())


def decisions_text(decisions: Iterable[Decision]) -> str:
    """Return decisions as CSV, sorted by reviewer and sentence."""
    ordered = sorted(decisions, key=lambda d: (d.reviewer, d.sentence))
    table = pd.DataFrame([asdict(decision) for decision in ordered], columns=list(_COLUMNS))
    return table_text(table)


def write_decisions(path: str | Path, decisions: Iterable[Decision]) -> None:
    """Write decisions as `decisions_text` has them, whole or not at all."""
    write_whole(Path(path), decisions_text(decisions))


def sentences_of(table: pd.DataFrame) -> list[str]:
    """Return the sentences of a table of triplets, pairs or written sentences, each once.

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


def settled(decisions: Sequence[Decision], reviewers: int = 1) -> dict[str, str | None]:
    """Return what is to be shown for each sentence that was judged.

    Parameters
    ----------
    decisions
        Of all reviewers.
    reviewers
        How many must agree, at least.

    Returns
    -------
    dict
        From a sentence to the one to show: itself if all who judged it approve; its edited form
        if one reviewer edits it and every other makes the same edit or approves the edited form;
        None if it is rejected by anybody, or reviewers do not agree, or too few judged it.
    """
    by_sentence: dict[str, dict[str, Decision]] = {}
    for decision in decisions:
        by_sentence.setdefault(decision.sentence, {})[decision.reviewer] = decision
    result: dict[str, str | None] = {}
    for sentence, of_sentence in by_sentence.items():
        shown, *others = {d.edited for d in of_sentence.values() if d.edited} or {sentence}
        of_form = by_sentence.get(shown, {})
        agreed = {who for who, d in of_sentence.items() if d.edited == shown}
        agreed |= {who for who, d in of_form.items() if d.decision == "approve"}
        against = any(d.decision != "approve" for d in of_form.values())
        apart = others or against or set(of_sentence) - agreed
        result[sentence] = None if apart or len(agreed) < reviewers else shown
    return result


def disagreements(decisions: Sequence[Decision]) -> dict[str, list[Decision]]:
    """Return, by sentence, what was decided where reviewers do not agree.

    They agree if all reject the sentence, or if `settled` knows what is to be shown.
    """
    shown = settled(decisions)
    by_sentence: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_sentence.setdefault(decision.sentence, []).append(decision)
    return {
        sentence: judged
        for sentence, judged in by_sentence.items()
        if shown[sentence] is None and {d.decision for d in judged} != {"reject"}
    }


def kappa(decisions: Sequence[Decision]) -> dict[tuple[str, str], tuple[float, int]]:
    """Return Cohen's kappa of every two reviewers over the sentences that both judged.

    Returns
    -------
    dict
        From two reviewers to kappa and the number of sentences; NaN where both used one and the
        same decision throughout, or share no sentence.

    Notes
    -----
    Source: Cohen (1960), Educational and Psychological Measurement 20, 37-46: kappa = (p_o - p_e) /
    (1 - p_e), with p_o the share of sentences on which they agree and p_e the share expected from
    how often each decides what. The three decisions are categories without an order.
    """
    by_reviewer: dict[str, dict[str, str]] = {}
    for decision in decisions:
        by_reviewer.setdefault(decision.reviewer, {})[decision.sentence] = decision.decision
    result = {}
    for first, second in combinations(sorted(by_reviewer), 2):
        of_first, other = by_reviewer[first], by_reviewer[second]
        both = [(of_first[s], other[s]) for s in of_first if s in other]
        result[first, second] = agreement(both)[0], len(both)
    return result


def agreement(pairs: Sequence[tuple[object, object]]) -> tuple[float, float]:
    """Return Cohen's kappa of what two people said of each thing, and its standard error.

    Kappa is NaN where both said one and the same throughout, or of nothing; the error is NaN also
    where they never differ or one of them said the same throughout, for it says nothing then.

    Notes
    -----
    Source: Cohen (1960), as in `kappa`; the standard error for large samples by Fleiss, Cohen and
    Everitt (1969), Psychological Bulletin 72, 323-327.
    """
    words = sorted({str(word) for pair in pairs for word in pair})
    if len(words) < 2:
        return float("nan"), float("nan")
    shares = np.zeros((len(words), len(words)))
    for pair in pairs:
        shares[*(words.index(str(word)) for word in pair)] += 1
    shares /= len(pairs)
    first, second = shares.sum(axis=1), shares.sum(axis=0)
    expected = float(first @ second)
    value = float((shares.trace() - expected) / (1 - expected))
    around = (second[:, None] + first) * (1 - value)
    spread = (shares * (np.eye(len(words)) - around) ** 2).sum()
    variance = float(spread - (value - expected * (1 - value)) ** 2)
    if variance < 1e-12:  # none, but for rounding
        return value, float("nan")
    return value, (variance / len(pairs)) ** 0.5 / (1 - expected)


def reviewed(
    table: pd.DataFrame,
    decisions: Sequence[Decision],
    score: Callable[[str, Sequence[str]], FloatArray],
    reviewers: int = 1,
) -> pd.DataFrame:
    """Return the rows of a table whose sentences are all approved, edited ones scored again.

    Parameters
    ----------
    table
        Triplets, pairs or written sentences.
    decisions, reviewers
        As for `settled`; a sentence that nobody judged is not approved.
    score
        From a model's spec and sentences to the model's scores.

    Returns
    -------
    pandas.DataFrame
        The rows in their order. In ``.attrs["review"]``: how many rows there were, are left, and
        have an edited sentence.

    Raises
    ------
    InputError
        If no row is left, or edited sentences stand in a table whose scores cannot be made again.
    """
    columns = [name for name in _TEXTS if name in table]
    shown = settled(decisions, reviewers)
    # What an agreed edit made has been judged with it.
    shown = shown | {text: text for text in shown.values() if text is not None}
    texts = table[columns].map(lambda text: normalise_sentence(str(text)))
    final = texts.map(lambda text: shown.get(text) if text else text)
    approved = final.notna().all(axis=1)
    result = table[approved].copy()
    if result.empty:
        raise InputError(
            f"of {len(table)} rows none has approved sentences alone; review more of them"
        )
    changed = (final[approved] != texts[approved]).to_numpy()
    result[columns] = final[approved]
    if changed.any():
        _score_again(result, columns, changed, score)
    result.attrs = dict(table.attrs)
    result.attrs["review"] = {
        "rows": len(table),
        "approved": int(approved.sum()),
        "edited": int(changed.any(axis=1).sum()),
    }
    return result


def _score_again(
    table: pd.DataFrame,
    columns: Sequence[str],
    changed: np.ndarray,
    score: Callable[[str, Sequence[str]], FloatArray],
) -> None:
    """Put scores of changed sentences, and numbers of tokens, into a table of triplets."""
    needed = {f"{name}_lp_{k}" for name in columns for k in (1, 2)} | {"model_1", "model_2"}
    stale = [name for name in table if " " in str(name) or str(name).startswith("reached")]
    if not needed <= {*table} or stale:
        raise InputError(
            "edited sentences are scored again in triplets of two models; for this table "
            f"{'without ' + ', '.join(map(str, stale)) if stale else ''} score the edited "
            "sentences with `contstim score`, or reject them"
        )
    for k in (1, 2):
        for model in table[f"model_{k}"].unique():
            rows = (table[f"model_{k}"] == model).to_numpy()
            for place, name in enumerate(columns):
                these = rows & changed[:, place]
                if these.any():
                    values = score(str(model), table.loc[these, name].tolist())
                    table.loc[these, f"{name}_lp_{k}"] = values
    counts = [f"{name}_tokens_{k}" for name in columns for k in (1, 2)]
    counts = [name for name in counts if name in table]
    if counts:
        from contstim.selection.tokens import with_token_counts  # which loads the models

        rows = changed.any(axis=1)
        edited = table.drop(columns=counts).iloc[np.flatnonzero(rows)]
        table.loc[rows, counts] = with_token_counts(edited)[counts].to_numpy()


def counts_of(shown: Mapping[str, str | None]) -> dict[str, int]:
    """Return how many sentences are approved, edited and left out."""
    return {
        "approved": sum(text == sentence for sentence, text in shown.items()),
        "edited": sum(text not in (None, sentence) for sentence, text in shown.items()),
        "left out": sum(text is None for text in shown.values()),
    }
