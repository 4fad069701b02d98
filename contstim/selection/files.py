"""Reading the tables that selections start from."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.tables import MISSING, TRIPLETS, read_table

_LONG = ("sentence", "model", "log_prob")


def read_scores(path: str | Path) -> pd.DataFrame:
    """Read log-probabilities, shape (S, M): a row a sentence, a column a model.

    Parameters
    ----------
    path
        A CSV file (``-``: standard input) or Parquet file, either wide (first column the
        sentence, one column a model) or long (columns ``sentence``, ``model``, ``log_prob``); or an
        ``.npz`` of one array a model, with an optional array ``sentence``, failing which sentences
        are numbered from 0.

    Raises
    ------
    InputError
        Naming file and fault.
    MissingExtraError
        If the file is Parquet and pyarrow is not installed.
    """
    if str(path).endswith(".npz"):
        return _read_npz(Path(path))
    table = read_table(path)
    columns = [str(column) for column in table.columns]
    if set(_LONG) <= set(columns):
        return _widen(table, path)
    if len(columns) < 2:
        raise InputError(
            f"{path} has {len(columns)} column(s); give the sentence and one or more models, or "
            "the columns sentence, model, log_prob"
        )
    scores = table.iloc[:, 1:].set_axis(pd.Index(table.iloc[:, 0], name="sentence"))
    _refuse_text(scores, path)
    _refuse_repeats(scores.index, path)
    return scores.astype(np.float64)


def read_features(path: str | Path) -> pd.DataFrame:
    """Read a table of features: a row a sentence, which the first column holds as text.

    Raises
    ------
    InputError
        Naming file and fault.
    """
    table = read_table(path)
    features = table.iloc[:, 1:].set_axis(pd.Index(table.iloc[:, 0], name="sentence"))
    _refuse_repeats(features.index, path)
    return features


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
    """
    table = read_table(path, TRIPLETS)
    _refuse_text(table[[*TRIPLETS[5:]]], path)
    return table


def _one_line(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return " ".join(str(error).split())


def _widen(table: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    _refuse_text(table[["log_prob"]], path)
    repeated = table.duplicated(["sentence", "model"])
    if repeated.any():
        row = table[repeated].iloc[0]
        raise InputError(
            f"{path} has two scores of {row['sentence']!r} under {row['model']!r}; keep one"
        )
    columns = {
        model: of_model.set_index("sentence")["log_prob"].astype(np.float64)
        for model, of_model in table.groupby("model", sort=False)
    }
    wide = pd.DataFrame(columns).reindex(table["sentence"].unique())
    return wide.rename_axis(index="sentence", columns=None)


def _read_npz(path: Path) -> pd.DataFrame:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {_one_line(error)}") from error
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
