"""Reading of score tables, features and triplets, and ranks of sentences under each model.

Fractional ranks make the scores of models with different calibration comparable.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.columns import TRIPLETS
from contstim.errors import InputError
from contstim.models.score_table import ScoreTable, canonical_scores
from contstim.tables import MISSING, read_table
from contstim.text.normalise import normalise_sentences
from contstim.text_files import print_once

_LONG_COLUMNS = ("sentence", "model", "log_prob")
_TRIPLET_SENTENCES = ["natural", "synthetic_1", "synthetic_2"]
_TRIPLET_LOG_PROBS = [name for name in TRIPLETS if "_lp_" in name]


def read_scores(path: str | Path) -> pd.DataFrame:
    r"""Read a table of scores as log-probabilities in nats, higher is better.

    A table is *long* if it has the columns ``sentence``, ``model`` and ``log_prob``, and *wide* if
    its first column contains the sentences and each other column the scores of one model. If the
    table has the columns ``unit`` or ``better``, scores are converted to nats, and negated if lower
    is better. Sentences are normalised.

    Parameters
    ----------
    path
        CSV file (``-`` for standard input) or Parquet file with a long or wide table, or an
        ``.npz`` file with one array per model and, optionally, an array ``sentence``. Without it,
        sentences are numbered from 0.

    Returns
    -------
    (S, M) DataFrame
        Log-probabilities in nats, one row per sentence, one column per model.

    Raises
    ------
    InputError
        If the file cannot be read or is not a table of scores.
    MissingExtraError
        If the file is a Parquet file and pyarrow is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("scores.csv").write_text("sentence,gpt2,bert\nThe dog slept.,-21.5,-18.2\n")
    >>> read_scores("scores.csv")
                    gpt2  bert
    sentence
    The dog slept. -21.5 -18.2
    """
    if str(path).endswith(".npz"):
        scores = ScoreTable.from_wide(_read_npz(Path(path)))
    else:
        # A wide table has the sentences in its first column, under any name.
        table = read_table(path)
        if not set(_LONG_COLUMNS) <= set(table.columns):
            table = table.rename(columns={table.columns[0]: "sentence"})
        scores = canonical_scores(table, str(path))
    for note in scores.notes:
        print_once(f"{path}: {note}")
    return scores.log_probs


def read_token_counts(path: str | Path) -> pd.DataFrame | None:
    """Read the number of tokens of each sentence from a table written by ``contstim score``.

    Parameters
    ----------
    path
        File of scores, as in `read_scores`.

    Returns
    -------
    (S, M) DataFrame or None
        Number of tokens of S sentences under M models, NaN if unknown. None if the file has no
        column ``n_tokens``.
    """
    if str(path).endswith(".npz"):
        return None
    table = read_table(path)
    if not {*_LONG_COLUMNS, "n_tokens"} <= set(table.columns):
        return None
    # Treat the numbers as scores to reshape them. A number of 0 means that it is unknown.
    counts = table[["sentence", "model"]].assign(log_prob=table["n_tokens"])
    return canonical_scores(counts, str(path)).log_probs.replace(0.0, np.nan)


def read_features(path: str | Path) -> pd.DataFrame:
    """Read a table of features of sentences.

    Parameters
    ----------
    path
        CSV or Parquet file. The first column contains the sentences.

    Returns
    -------
    DataFrame
        Features, one row per normalised sentence.

    Raises
    ------
    InputError
        If the file cannot be read or contains a duplicate sentence.
    """
    table = read_table(path)
    sentences = pd.Index(normalise_sentences(table.iloc[:, 0]), name="sentence")
    _require_unique(sentences, path)
    return table.iloc[:, 1:].set_axis(sentences)


def read_triplets(path: str | Path) -> pd.DataFrame:
    """Read a table of triplets: natural sentences, each with two synthetic sentences.

    Parameters
    ----------
    path
        CSV file (``-`` for standard input) or Parquet file with the columns of
        :data:`contstim.columns.TRIPLETS`. Other columns are preserved.

    Returns
    -------
    DataFrame
        One row per triplet, with normalised sentences.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, or a log-probability is not a number.

    Examples
    --------
    >>> from contstim import datasets
    >>> datasets.readable_triplets().to_csv("triplets.csv", index=False)
    >>> read_triplets("triplets.csv").shape
    (35, 12)
    """
    table = read_table(path, TRIPLETS)
    _require_numbers(table[_TRIPLET_LOG_PROBS], path)
    return table.assign(**{name: normalise_sentences(table[name]) for name in _TRIPLET_SENTENCES})


def _read_npz(path: Path) -> pd.DataFrame:
    """Read a table of scores from a NumPy file.

    Parameters
    ----------
    path
        Path of a file with one array per model and, optionally, an array ``sentence``, all of the
        same length.

    Returns
    -------
    DataFrame
        Scores, one row per sentence and one column per model.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"cannot read {path}: there is no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    # All remaining arrays are scores; all arrays must be vectors of one length.
    labels = arrays.pop("sentence", None)
    shapes = {array.shape for array in arrays.values()}
    if labels is not None:
        shapes.add(labels.shape)
    if len(arrays) < 2 or len(shapes) != 1 or len(shapes.pop()) != 1:
        contents = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"
        raise InputError(
            f"{path} must contain one array of equal length for each of two or more models, it "
            f"contains {contents}"
        )
    # Sentences without labels are numbered from 0.
    scores = pd.DataFrame(arrays)
    _require_numbers(scores, path)
    if labels is not None:
        scores.index = pd.Index(normalise_sentences(pd.Series(labels.tolist())))
        _require_unique(scores.index, path)
    return scores.astype(np.float64).rename_axis(index="sentence")


def _require_numbers(table: pd.DataFrame, path: str | Path) -> None:
    """Raise an `InputError` if a column of a table contains a value that is not a number."""
    for name, column in table.items():
        if not pd.api.types.is_numeric_dtype(column):
            # In the message, prefer a value that is not a number to a missing value.
            numbers = pd.to_numeric(column, errors="coerce")
            invalid = column[numbers.isna() & ~column.isin(MISSING)]
            value = invalid.iloc[0] if len(invalid) else column.iloc[0]
            raise InputError(f"column {name!r} of {path} contains {value!r}, not a number")


def _require_unique(sentences: pd.Index, path: str | Path) -> None:
    """Raise an `InputError` if a sentence occurs twice."""
    if not sentences.is_unique:
        raise InputError(f"{path} contains {sentences[sentences.duplicated()][0]!r} twice")


@dataclass(frozen=True, eq=False)
class RankedScores:
    """Ranks of R sentences under M models.

    Sentences are sorted by their ranks, so that a selection does not depend on the order of the
    rows in the table of scores. The functions that select stimuli identify a sentence by its row,
    that is, its index from 0 to R - 1 in this order.

    Attributes
    ----------
    labels
        Labels of the ranked sentences.
    models
        Sorted names of the models.
    doubled_ranks : (R, M) array of int
        Twice the rank of each sentence under each model, from the least probable sentence (rank 1)
        to the most probable (rank R). Tied sentences have their mean rank, which can end in .5. The
        doubled rank is an integer, so that sums of ranks can be compared exactly.
    is_finite : (R,) array of bool
        Whether a sentence has finite scores under all models.
    excluded
        Number of sentences that cannot be selected, by reason.
    """

    labels: pd.Index
    models: tuple[str, ...]
    doubled_ranks: IntArray
    is_finite: BoolArray
    excluded: dict[str, int]

    @property
    def fractions(self) -> FloatArray:
        """Fractional rank of each sentence under each model, rank / R, shape (R, M)."""
        return self.doubled_ranks / (2.0 * len(self.labels))

    def rank_differences(self, pairs: IntArray) -> FloatArray:
        """Compute how far apart each model ranks the two sentences of each pair.

        Parameters
        ----------
        pairs : (P, 2) array
            Indices of the two sentences of each pair.

        Returns
        -------
        (P, M) array
            Absolute differences between the fractional ranks of the two sentences.
        """
        first, second = pairs.T
        differences = np.abs(self.doubled_ranks[first] - self.doubled_ranks[second])
        return np.asarray(differences / (2.0 * len(self.labels)))

    def preferences(self, pairs: IntArray, margin: float = 0.0) -> IntArray:
        """Return which sentence of each pair each model prefers, that is, ranks higher.

        Parameters
        ----------
        pairs : (P, 2) array
            Indices of the two sentences of each pair.
        margin
            Difference between the fractional ranks up to which a model has no preference.

        Returns
        -------
        (P, M) array
            1 if the model prefers sentence 1, -1 if it prefers sentence 2, 0 for no preference.
        """
        first, second = pairs.T
        # Only differences above the margin express a preference.
        is_clear = self.rank_differences(pairs) > margin
        signs = np.sign(self.doubled_ranks[first] - self.doubled_ranks[second])
        return np.where(is_clear, signs, 0)


def fractional_ranks(log_probs: pd.DataFrame) -> pd.DataFrame:
    """Rank the sentences under each model, from 1 / R (least probable) to 1 (most probable).

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence, one column per model.

    Returns
    -------
    (S, M) DataFrame
        Ranks divided by R, the number of sentences with a score under every model; NaN for the
        other sentences. Tied sentences have their mean rank. A score of minus infinity ranks
        lowest.

    Notes
    -----
    Golan et al. (2023), supplementary section 6.2, use the same ranks, computed over all sentences
    before any sentence is excluded. A sentence without a score under one model is not ranked under
    the other models either, so that ranks under all models are comparable.

    Examples
    --------
    >>> scores = pd.DataFrame({"a": [-30.0, -40.0], "b": [-35.0, -31.0]}, index=["One.", "Two."])
    >>> fractional_ranks(scores)
            a    b
    One.  1.0  0.5
    Two.  0.5  1.0
    """
    values = _check_scores(log_probs)
    # Rank only sentences with a score under every model, so that ranks are comparable.
    is_scored = ~(np.isnan(values) | np.isposinf(values)).any(axis=1)
    ranks = np.full(values.shape, np.nan)
    if is_scored.any():
        ranks[is_scored] = pd.DataFrame(values[is_scored]).rank() / is_scored.sum()
    return pd.DataFrame(ranks, index=log_probs.index, columns=log_probs.columns)


def rank_scores(log_probs: pd.DataFrame) -> RankedScores:
    """Rank the sentences under each model, and sort sentences and models in a unique order.

    Models are sorted by name. Sentences are sorted by their ranks, and by label if all ranks are
    equal. The result therefore does not depend on the order of rows or columns.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence, one column per model.

    Returns
    -------
    RankedScores
        Ranks of the sentences that have a score under every model.
    """
    values = _check_scores(log_probs)
    names = [str(name) for name in log_probs.columns]
    values = values[:, np.argsort(np.array(names, dtype=object))]
    # Only sentences with a score under every model are ranked.
    is_missing: BoolArray = np.asarray((np.isnan(values) | np.isposinf(values)).any(axis=1))
    values, labels = values[~is_missing], log_probs.index[~is_missing]
    is_infinite: BoolArray = np.asarray(np.isneginf(values).any(axis=1))
    # The mean rank of tied sentences can end in .5. Twice the rank is an integer, so that sums and
    # comparisons are exact.
    doubled_ranks = (2 * pd.DataFrame(values).rank()).to_numpy(np.int64)
    # Sort by the rank under the first model, then under the next models, then by label. The last
    # key of `lexsort` is the most important one.
    label_keys = np.array([f"{type(label).__name__} {label}" for label in labels])
    order = np.lexsort((label_keys, *doubled_ranks[:, ::-1].T))
    excluded = {"missing score": int(is_missing.sum()), "infinite score": int(is_infinite.sum())}
    return RankedScores(
        labels[order], tuple(sorted(names)), doubled_ranks[order], ~is_infinite[order], excluded
    )


def find_eligible(
    ranked: RankedScores, eligible: pd.Series | None
) -> tuple[IntArray, dict[str, int]]:
    """Return the rows of the sentences that may be selected, and count the excluded sentences.

    Parameters
    ----------
    ranked
        Sentences with their ranks under each model.
    eligible : Series of bool, optional
        Whether each sentence may be selected, with the labels of the sentences as index; by default
        all.

    Returns
    -------
    rows : array
        Indices, in `ranked`, of the sentences that may be selected.
    excluded : dict
        Number of excluded sentences, by the first reason that applies.

    Raises
    ------
    InputError
        If `eligible` has no value, or two, for a sentence.
    """
    excluded = dict(ranked.excluded)
    if eligible is None:
        return np.flatnonzero(ranked.is_finite), excluded
    if not eligible.index.is_unique:
        raise InputError("eligible names a sentence twice; give one value for each label")
    # Bring the values into the order of the ranked sentences.
    values = eligible.reindex(ranked.labels)
    if values.isna().any():
        label = ranked.labels[int(np.flatnonzero(values.isna())[0])]
        raise InputError(f"eligible has no value for sentence {label!r}; give True or False")
    is_eligible = values.to_numpy(dtype=bool)
    # A sentence with an infinite score is counted under that reason.
    excluded["not eligible"] = int((ranked.is_finite & ~is_eligible).sum())
    return np.flatnonzero(ranked.is_finite & is_eligible), excluded


def _check_scores(log_probs: pd.DataFrame) -> FloatArray:
    """Check a table of scores, and convert it to an array.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities, one row per sentence, one column per model.

    Returns
    -------
    (S, M) array
        Log-probabilities; NaN where missing.

    Raises
    ------
    InputError
        If there are fewer than two models, if a sentence or model occurs twice, or if a column does
        not contain numbers.
    """
    if not isinstance(log_probs, pd.DataFrame):
        raise InputError(
            f"log_probs must be a DataFrame of sentences by models, got {type(log_probs).__name__}"
        )
    if log_probs.shape[1] < 2:
        names = ", ".join(map(repr, log_probs.columns)) or "none"
        raise InputError(
            f"there are scores of {log_probs.shape[1]} model ({names}), and a pair needs two; add "
            "a column for each further model"
        )
    # Sentences and models are identified by their labels.
    models = pd.Index([str(name) for name in log_probs.columns])
    for label, index in (("model", models), ("sentence", log_probs.index)):
        if not index.is_unique:
            duplicate = index[index.duplicated()][0]
            raise InputError(f"{label} {duplicate!r} occurs twice in log_probs; remove one of them")
    # pandas counts Booleans as numbers, but they cannot be scores.
    for name, dtype in zip(models, log_probs.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            raise InputError(f"column {name!r} of log_probs contains {dtype}, not numbers")
    return log_probs.to_numpy(dtype=np.float64, na_value=np.nan)
