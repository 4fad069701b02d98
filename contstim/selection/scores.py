"""Tables that selections start from: how they are read, and sentences' ranks in them.

Ranks are fractional: on these, models of different calibration compare.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.score_table import ScoreTable, canonical_scores
from contstim.tables import MISSING, TRIPLETS, read_table
from contstim.text_files import print_once

_LONG = ("sentence", "model", "log_prob")


def read_scores(path: str | Path) -> pd.DataFrame:
    r"""Read log-probabilities, shape (S, M): a row per sentence, a column per model.

    Scores are in nats, and of two sentences the one that a model prefers has the higher score:
    units are converted, and scores are negated, by the columns ``unit`` and ``better`` of the
    table. Sentences are normalised.

    Parameters
    ----------
    path
        A CSV file (``-``: standard input) or Parquet file, either wide (first column the
        sentence, one column per model) or long (columns ``sentence``, ``model``, ``log_prob``); or
        an ``.npz`` of one array per model, with an optional array ``sentence``, failing which
        sentences are numbered from 0.

    Raises
    ------
    InputError
        Naming file and fault.
    MissingExtraError
        If the file is Parquet and pyarrow is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("scores.csv").write_text("sentence,gpt2,bert\nThe dog slept.,-21.5,-18.2\n")
    >>> read_scores("scores.csv")
                    gpt2  bert
    sentence
    The dog slept. -21.5 -18.2
    """
    scores = read_score_table(path)
    for note in scores.notes:
        print_once(f"{path}: {note}")
    return scores.log_probs


def read_score_table(path: str | Path) -> ScoreTable:
    """Read scores with the units and specs of the models. Raises as `read_scores`."""
    if str(path).endswith(".npz"):
        return ScoreTable.of(_read_npz(Path(path)))
    table = read_table(path)
    if not set(_LONG) <= set(table.columns):
        table = table.rename(columns={table.columns[0]: "sentence"})
    return canonical_scores(table, str(path))


def read_token_counts(path: str | Path) -> pd.DataFrame | None:
    """Read the numbers of tokens from a table that `contstim score` wrote, shape (S, M).

    None where the table does not say them. Raises as `read_scores`.
    """
    if str(path).endswith(".npz"):
        return None
    table = read_table(path)
    if not {*_LONG, "n_tokens"} <= set(table.columns):
        return None
    counts = table[["sentence", "model"]].assign(log_prob=table["n_tokens"])
    return canonical_scores(counts, str(path)).log_probs.replace(0.0, np.nan)


def read_features(path: str | Path) -> pd.DataFrame:
    """Read a table of features: a row per sentence, which the first column holds as text.

    Raises
    ------
    InputError
        Naming file and fault.
    """
    return _by_sentence(read_table(path), path)


def read_triplets(path: str | Path) -> pd.DataFrame:
    """Read a table of triplets, with the columns of :data:`contstim.tables.TRIPLETS` and others.

    Parameters
    ----------
    path
        A CSV file (``-``: standard input) or Parquet file.

    Raises
    ------
    InputError
        Naming file and fault.

    Examples
    --------
    >>> from contstim import datasets
    >>> datasets.written_triplets().to_csv("triplets.csv", index=False)
    >>> read_triplets("triplets.csv").shape
    (35, 12)
    """
    table = read_table(path, TRIPLETS)
    _refuse_text(table[[*TRIPLETS[5:]]], path)
    return table


def _by_sentence(table: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    _refuse_repeats(pd.Index(table.iloc[:, 0]), path)
    return table.iloc[:, 1:].set_axis(pd.Index(table.iloc[:, 0], name="sentence"))


def _read_npz(path: Path) -> pd.DataFrame:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"cannot read {path}: there is no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    labels = arrays.pop("sentence", None)
    lengths = {name: array.shape for name, array in arrays.items()}
    shapes = set(lengths.values()) | (set() if labels is None else {labels.shape})
    if len(arrays) < 2 or len(shapes) != 1 or len(next(iter(shapes))) != 1:
        shown = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise InputError(
            f"{path} must hold one array of equal length for each of two or more models, it holds "
            f"{shown or 'none'}"
        )
    scores = pd.DataFrame(arrays)
    _refuse_text(scores, path)
    if labels is not None:
        scores.index = pd.Index(labels.tolist())
        _refuse_repeats(scores.index, path)
    return scores.astype(np.float64).rename_axis(index="sentence")


def _refuse_text(table: pd.DataFrame, path: str | Path) -> None:
    for name, column in table.items():
        if not pd.api.types.is_numeric_dtype(column):
            numbers = pd.to_numeric(column, errors="coerce")
            bad = column[numbers.isna() & ~column.isin(MISSING)]
            value = bad.iloc[0] if len(bad) else column.iloc[0]
            raise InputError(f"column {name!r} of {path} holds {value!r}, not a number")


def _refuse_repeats(labels: pd.Index, path: str | Path) -> None:
    if not labels.is_unique:
        raise InputError(f"{path} has the sentence {labels[labels.duplicated()][0]!r} twice")


@dataclass(frozen=True, eq=False)
class RankedScores:
    """Sentences ranked under every model, in an order that is a function of their scores alone.

    Attributes
    ----------
    labels
        Index labels of the R ranked sentences.
    models
        The M model names, sorted.
    doubled
        Twice the average-tie rank, shape (R, M): whole numbers, so that sums of ranks compare
        exactly. The least probable sentence has rank 1, the most probable R.
    finite
        Whether the sentence has a finite score under every model, shape (R,).
    excluded
        For each reason the number of sentences that cannot be selected.
    """

    labels: pd.Index
    models: tuple[str, ...]
    doubled: IntArray
    finite: BoolArray
    excluded: dict[str, int]

    @property
    def fractions(self) -> FloatArray:
        """Fractional ranks rank / R in (0, 1], shape (R, M)."""
        return self.doubled / (2.0 * len(self.labels))

    def apart(self, pairs: IntArray) -> FloatArray:
        """Return how far two sentences' fractional ranks are apart, shape (pairs, M)."""
        one, two = pairs.T
        # Whole numbers are subtracted, so that what is 0.1 apart is not more than 0.1.
        apart = np.abs(self.doubled[one] - self.doubled[two])
        return np.asarray(apart / (2.0 * len(self.labels)))

    def signs(self, pairs: IntArray, margin: float = 0.0) -> IntArray:
        """Return which sentence each model ranks higher, 0 within the margin; shape (pairs, M)."""
        one, two = pairs.T
        return np.where(
            self.apart(pairs) > margin, np.sign(self.doubled[one] - self.doubled[two]), 0
        )


def fractional_ranks(log_probs: pd.DataFrame) -> pd.DataFrame:
    """Rank the sentences under each model: 1 / R for the least probable, 1 for the most.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row per sentence, a column per model.

    Returns
    -------
    pandas.DataFrame
        Average-tie ranks divided by R, the number of sentences that have a score under every
        model; NaN for the others. A score of minus infinity is a score: it ranks lowest.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2. The ranks are taken over all
    sentences, before any filter. All models are ranked over the same sentences, so that their
    ranks compare; the published scores had none missing.

    Examples
    --------
    >>> scores = pd.DataFrame({"a": [-30.0, -40.0], "b": [-35.0, -31.0]}, index=["One.", "Two."])
    >>> fractional_ranks(scores)
            a    b
    One.  1.0  0.5
    Two.  0.5  1.0
    """
    values = _scores(log_probs)
    scored = ~(np.isnan(values) | np.isposinf(values)).any(axis=1)
    ranks = np.full(values.shape, np.nan)
    if scored.any():
        ranks[scored] = pd.DataFrame(values[scored]).rank() / scored.sum()
    return pd.DataFrame(ranks, index=log_probs.index, columns=log_probs.columns)


def rank_scores(log_probs: pd.DataFrame) -> RankedScores:
    """Rank the sentences and put them in canonical order.

    Sentences are sorted by their ranks, models by name; those with equal ranks under every model,
    which are interchangeable, by their labels.
    So nothing that is computed from it depends on the order of rows or columns.
    """
    values = _scores(log_probs)
    names = sorted(str(name) for name in log_probs.columns)
    by_name = np.argsort(np.array([str(name) for name in log_probs.columns], dtype=object))
    values = values[:, by_name]
    missing: BoolArray = np.asarray((np.isnan(values) | np.isposinf(values)).any(axis=1))
    values = values[~missing]
    labels = log_probs.index[~missing]
    infinite: BoolArray = np.asarray(np.isneginf(values).any(axis=1))
    doubled = (2 * pd.DataFrame(values).rank()).to_numpy(np.int64)
    names_of_labels = np.array([f"{type(label).__name__} {label}" for label in labels])
    order = np.lexsort((names_of_labels, *doubled.T[::-1]))
    excluded = {"missing score": int(missing.sum()), "infinite score": int(infinite.sum())}
    return RankedScores(labels[order], tuple(names), doubled[order], ~infinite[order], excluded)


def eligible_rows(
    ranked: RankedScores, eligible: pd.Series | None
) -> tuple[IntArray, dict[str, int]]:
    """Return the rows that may be selected, and how many may not, by the first reason met.

    Parameters
    ----------
    ranked
        The ranked sentences.
    eligible
        True for each sentence that may be selected, by label; None: all.

    Raises
    ------
    InputError
        If `eligible` has no or two values for a sentence.
    """
    excluded = dict(ranked.excluded)
    keep = ranked.finite.copy()
    if eligible is not None:
        if not eligible.index.is_unique:
            raise InputError("eligible names a sentence twice; give one value for each label")
        answer = eligible.reindex(ranked.labels)
        if answer.isna().any():
            label = ranked.labels[int(np.flatnonzero(answer.isna())[0])]
            raise InputError(f"eligible says nothing of sentence {label!r}; give True or False")
        allowed = answer.to_numpy(dtype=bool)
        excluded["not eligible"] = int((keep & ~allowed).sum())
        keep &= allowed
    return np.flatnonzero(keep), excluded


def _scores(log_probs: pd.DataFrame) -> FloatArray:
    """Return the scores as floats, refusing tables that are not one."""
    if not isinstance(log_probs, pd.DataFrame):
        raise InputError(
            f"log_probs must be a DataFrame of sentences by models, got {type(log_probs).__name__}"
        )
    if log_probs.shape[1] < 2:
        named = ", ".join(map(repr, log_probs.columns)) or "none"
        raise InputError(
            f"there are scores of {log_probs.shape[1]} model ({named}), and a pair needs two; add "
            "a column for each further model"
        )
    names = pd.Index([str(name) for name in log_probs.columns])
    for what, index in (("model", names), ("sentence", log_probs.index)):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise InputError(f"{what} {twice!r} comes twice in log_probs; keep one of them")
    for name, dtype in zip(names, log_probs.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            raise InputError(f"column {name!r} of log_probs holds {dtype}, not numbers")
    return log_probs.to_numpy(dtype=np.float64, na_value=np.nan)
