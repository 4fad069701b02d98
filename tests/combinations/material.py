"""Small inputs: sentences, scores, triplets and tables in several formats."""

from __future__ import annotations

import io
import itertools
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from covering import Outcome, Row

from contstim import pool

MODELS = [
    "contstim:bigram?unknown=unk",
    "contstim:trigram?reduction=mean&unknown=unk",
    "contstim:trigram?unknown=unk",
]
PAIRS = [*itertools.combinations(MODELS, 2)]


@cache
def sentences(n: int) -> list[str]:
    """Return sentences of six to nine words; some have an accent, or a word twice."""
    found = [s for s in pool() if 6 <= len(s.split()) <= 9][:n]
    assert len(found) == n
    ends = {1: "and to us.", 2: "and is what is right."}
    return [
        s.replace("e", "é", 1) if k % 6 == 0 else f"{s[:-1]} {ends[k % 6]}" if k % 6 in ends else s
        for k, s in enumerate(found)
    ]


def write_scores(n: int = 72, seed: int = 0) -> None:
    """Write random scores of three models that agree on the whole."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    values = -40 + 5 * common + rng.normal(scale=4, size=(n, len(MODELS)))
    index = pd.Index(sentences(n), name="sentence")
    save_scores(pd.DataFrame(values, index, MODELS))


def save_scores(scores: pd.DataFrame) -> None:
    """Write scores as wide.csv, long.csv, bits.csv (surprisals, least first) and scores.npz."""
    scores = scores.rename_axis("sentence")
    scores.to_csv("wide.csv")
    long = scores.melt(ignore_index=False, var_name="model", value_name="log_prob").reset_index()
    long["n_tokens"] = long["sentence"].str.split().str.len()
    long.to_csv("long.csv", index=False)
    bits = long.assign(log_prob=-long["log_prob"] / np.log(2), unit="surprisal-bits")
    bits.drop(columns="n_tokens").to_csv("bits.csv", index=False)
    arrays = {name: scores[name].to_numpy() for name in scores}
    np.savez("scores.npz", sentence=scores.index.to_numpy(dtype=str), **arrays)


def read_scores() -> pd.DataFrame:
    """Return the scores that were written, by normalised sentence."""
    scores = pd.read_csv("wide.csv", index_col="sentence")
    return scores.set_axis(pd.Index(map(nfc, scores.index), name="sentence"))


def write_features(n: int = 72) -> None:
    """Write features.csv with a topic and a length, and repeatable.txt."""
    names = sentences(n)
    table = {"sentence": names, "topic": [f"t{k % 8}" for k in range(n)]}
    pd.DataFrame({**table, "size": [k % 3 for k in range(n)]}).to_csv("features.csv", index=False)
    Path("repeatable.txt").write_text("the\na\n", "utf-8")


def write_triplets(per_pair: int = 16, seed: int = 1) -> None:
    """Write triplets of the three pairs of models; every fourth sentence is shared by all."""
    rng = np.random.default_rng(seed)
    names = sentences(72)
    rows = []
    for k, (one, two) in enumerate(PAIRS):
        for i in range(per_pair):
            natural = names[i if i % 4 == 0 else per_pair * k + i]
            words = natural.split()
            texts = [
                f"The {word} {' '.join(words[1:])}" for word in (f"x{i % 4 == 3:d}", f"y{k}{i}")
            ]
            n_1, n_2 = rng.normal(-50, 5, size=2)
            fall_1, fall_2 = rng.uniform(5, 30, size=2) + 10 * (i % 4 < 3)
            numbers = (n_1, n_2, n_1 + 1, n_2 - fall_1, n_1 - fall_2, n_2 + 1)
            rows.append((one, two, natural, *texts, *numbers, f"s{k}.{i}"))
    columns = ["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]
    columns += [f"{t}_lp_{m}" for t in ("natural", "synthetic_1", "synthetic_2") for m in (1, 2)]
    pd.DataFrame(rows, columns=[*columns, "source"]).to_csv("triplets.csv", index=False)


def read_out(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Return the table that a command wrote to ``--out``, or printed."""
    return pd.read_csv(row["--out"] or io.StringIO(outcome.out))


def nfc(text: str) -> str:
    """Return text in the normal form in which tables are compared."""
    return unicodedata.normalize("NFC", text)


def nfd(text: str) -> str:
    """Return text in the normal form in which other operating systems write it."""
    return unicodedata.normalize("NFD", text)


def rewrite(path: str, change: object = None, **options: object) -> None:
    """Write a CSV file again: its rows changed by a function, or with other options of `to_csv`."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table = change(table) if callable(change) else table
    table.to_csv(path, index=False, **options)


def shuffle(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its rows in another order."""
    return table.sample(frac=1, random_state=7)


def decompose(path: str) -> None:
    """Write every second line of a text file in the normal form NFD."""
    lines = Path(path).read_text("utf-8").splitlines(keepends=True)
    lines[1::2] = map(nfd, lines[1::2])
    Path(path).write_text("".join(lines), "utf-8")


def as_windows(path: str) -> None:
    """Write a text file as spreadsheets do: with a byte order mark and CRLF."""
    lines = Path(path).read_text("utf-8").splitlines()
    Path(path).write_bytes("\r\n".join([*lines, ""]).encode("utf-8-sig"))
