"""Sheets of sentences that are judged blind, and what share of each source reads as English.

A *sheet* is numbered sentences in random order. Their *sources* stand apart from it, in its *key*.
*Verdicts* are a copy of the sheet that one judge has filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.display import displayed
from contstim.errors import InputError, NoDataError
from contstim.files import digest_of, write_whole
from contstim.selection.review import NORMAL_95, agreement
from contstim.tables import TABLES, neutral_table, read_table, require_columns, table_text
from contstim.text import read_sentences
from contstim.text.normalise import normalise_sentence

#: By what a sentence is judged. Used in ``experiments/plausibility`` first.
RULE = """\
A sentence reads as a sentence of English if it is grammatical as it stands (word order,
agreement, no word missing and none too many) and a situation can be imagined in which somebody
says it and means something. It may be odd, false or silly. A missing comma is forgiven, a
fragment is not.
"""

_HOW = """
Judge the sentences one by one, in their order, alone. Write yes or no in the column "english" of
every row; "note" is for yourself. Leave numbers and sentences as they are, save the sheet as CSV
under your own name, and do not look for where a sentence is from.
"""

_SHEET = ("number", "sentence", "english", "note")
_KEY = ("sheet", "number", "source", "row")
# Where the sentences of a table are: in the first of these of which it has all columns.
_TEXTS = (
    ("synthetic_1", "synthetic_2"),
    ("synthetic",),
    ("sentence_1", "sentence_2"),
    ("sentence",),
)


@displayed
@dataclass(frozen=True, eq=False)
class BlindSheet:
    """Sentences to be judged, and apart from them where they are from.

    Attributes
    ----------
    sentences
        By their numbers, in random order.
    key
        One row a sentence and place it is from: `number`, `source`, and `row`, which two
        sentences share that are the two of one triplet or pair; else it is empty.

    Examples
    --------
    >>> sheet = blind_sheet({"written": ["A dog ran."], "natural": ["I slept."]})
    >>> _ = sheet.write("sheet.csv")
    >>> BlindSheet.read("sheet.csv").digest == sheet.digest
    True
    """

    sentences: Mapping[str, str]
    key: pd.DataFrame

    @property
    def digest(self) -> str:
        """What binds the key to the sheet: a digest of the numbers and sentences."""
        return digest_of(dict(self.sentences))

    def write(self, path: str | Path, rule: str = RULE) -> tuple[Path, Path]:
        """Write the sheet at `path`; return where its key and its rule are, beside it.

        Raises
        ------
        InputError
            If one of the files is there already.
        OutputError
            If the place cannot be written to.
        """
        sheet, key = Path(path), key_of(path)
        to_read = sheet.with_suffix(".rule.txt")
        for place in (sheet, key, to_read):
            if place.exists():
                raise InputError(
                    f"{place} is there already, and may be judged; give the sheet another name"
                )
        table = pd.DataFrame(list(self.sentences.items()), columns=list(_SHEET[:2]))
        bound = self.key.assign(sheet=self.digest)[[*_KEY]]
        write_whole(key, table_text(neutral_table(bound)))
        write_whole(to_read, rule.strip() + "\n" + _HOW)
        write_whole(sheet, table_text(neutral_table(table.reindex(columns=[*_SHEET]))))
        return key, to_read

    @classmethod
    def read(cls, path: str | Path) -> BlindSheet:
        """Read a sheet with its key, which is beside it.

        Raises
        ------
        InputError
            Naming file and fault; also if the key is that of another sheet.
        """
        key = _read_cells(key_of(path), _KEY)
        sheet = cls(_numbered(path, _read_cells(path, _SHEET[:2])), key[[*_KEY[1:]]])
        if set(key["sheet"]) != {sheet.digest} or set(key["number"]) != set(sheet.sentences):
            raise InputError(
                f"{key_of(path)} is not the key of {path} as it is now; restore both as they "
                "were written"
            )
        return sheet

    def without_marks(self) -> list[str]:
        """Return the sources that judges can tell, as no sentence of theirs ends with a mark.

        There are none if all sources are so.
        """
        ends = self.key["number"].map(lambda number: not self.sentences[number][-1].isalnum())
        marked = ends.groupby(self.key["source"], sort=False).any()
        return [] if not marked.any() else [str(name) for name in marked.index[~marked]]


def key_of(path: str | Path) -> Path:
    """Return where the key of a sheet is.

    Raises
    ------
    InputError
        If the sheet's name does not end in ``.csv``.
    """
    if Path(path).suffix != ".csv":
        raise InputError(f"{path} is no name of a sheet; give one that ends in .csv")
    return Path(path).with_suffix(".key.csv")


def _plain(text: object) -> str:
    return normalise_sentence(str(text))


def _read_cells(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a table of texts without rows that are empty."""
    table = read_table(path, columns, cells="text").dropna(how="all").fillna("")
    return table.map(_plain)


def _numbered(path: str | Path, table: pd.DataFrame) -> dict[str, str]:
    """Return the sentences of a sheet by their numbers."""
    twice = table["number"][table["number"].duplicated()]
    if len(twice):
        raise InputError(f"{path} has number {twice.iloc[0]!r} twice; keep one row")
    return dict(zip(table["number"], table["sentence"], strict=True))


def read_source(path: str | Path) -> list[tuple[str, ...]]:
    """Read the sentences of a source, those of one triplet or pair together.

    Parameters
    ----------
    path
        A table: of triplets, whose synthetic sentences are taken, of pairs, of written sentences,
        or with a column ``sentence``; or a list, one sentence per line.

    Raises
    ------
    InputError
        Naming file and fault.

    Examples
    --------
    >>> from contstim import datasets
    >>> datasets.written_triplets().to_csv("triplets.csv", index=False)
    >>> read_source("triplets.csv")[0][0]
    'I am more than happy to tell you just what is possible.'
    """
    if any(ending in Path(path).suffixes for ending in TABLES):
        table = read_table(path, cells="text")
        columns = next((names for names in _TEXTS if {*names} <= {*table}), _TEXTS[-1])
        require_columns(table, columns, str(path))
        texts = table[[*columns]].fillna("").map(_plain)
        empty = (texts == "").any(axis=1)
        if empty.any():
            raise InputError(
                f"{path} lacks a sentence in row {int(empty.argmax()) + 1}; fill or remove the row"
            )
        return list(texts.itertuples(index=False, name=None))
    return [(text,) for text in read_sentences(path)]


def blind_sheet(
    sources: Mapping[str, Sequence[str | Sequence[str]]],
    each: int | None = None,
    seed: int = 0,
) -> BlindSheet:
    """Put sentences of several sources into one random order, each sentence once.

    Parameters
    ----------
    sources
        From the name of a source to its sentences; the two of a triplet or pair are one entry.
    each
        How many sentences are drawn of a source, at most; all by default. The two of a triplet are
        drawn together.
    seed
        Of the draw and the order.

    Returns
    -------
    BlindSheet
        A sentence that was drawn of two sources is judged once and counts for both.

    Raises
    ------
    InputError
        If a source has no name or no sentence.

    Examples
    --------
    >>> sheet = blind_sheet({"written": [("A dog ran.", "Dog a ran.")], "natural": ["I slept."]})
    >>> sorted(sheet.sentences.values())
    ['A dog ran.', 'Dog a ran.', 'I slept.']
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[str, str, str]] = []  # sentence, source, row
    for source, entries in sources.items():
        entries = [(entry,) if isinstance(entry, str) else entry for entry in entries]
        together = list(dict.fromkeys(tuple(map(_plain, entry)) for entry in entries))
        if not source or not together or not all(text for entry in together for text in entry):
            raise InputError(f"the source {source!r} lacks a name or a sentence; give both")
        in_order = (
            together[place][side]
            for place in rng.permutation(len(together))
            for side in rng.permutation(len(together[place]))
        )
        drawn = list(dict.fromkeys(in_order))[:each]
        whole = [entry for entry in together if len(entry) > 1 and {*entry} <= {*drawn}]
        for row, entry in enumerate(whole, start=1):
            rows += [(text, source, str(row)) for text in entry]
        in_rows = {text for entry in whole for text in entry}
        rows += [(text, source, "") for text in drawn if text not in in_rows]
    distinct = list(dict.fromkeys(text for text, _, _ in rows))
    shuffled = [distinct[place] for place in rng.permutation(len(distinct))]
    numbers = {text: str(number) for number, text in enumerate(shuffled, start=1)}
    key = pd.DataFrame(
        [(numbers[text], source, row) for text, source, row in rows], columns=list(_KEY[1:])
    )
    return BlindSheet({number: text for text, number in numbers.items()}, key)


def read_verdicts(sheet: BlindSheet, paths: Sequence[str | Path]) -> pd.DataFrame:
    r"""Read whether each sentence of a sheet reads as English, a file per judge, named by the file.

    Returns
    -------
    pandas.DataFrame
        Shape (S, judges), true or false; indexed by number.

    Raises
    ------
    NoDataError
        If a sentence has no verdict yet; the message says how many.
    InputError
        Naming file and fault: rows that are missing or changed, words other than yes and no, two
        files of one name.

    Examples
    --------
    >>> from pathlib import Path
    >>> sheet = blind_sheet({"written": ["A dog ran.", "Dog a ran."], "natural": ["I slept."]})
    >>> said = {"A dog ran.": "yes", "Dog a ran.": "no", "I slept.": "yes"}
    >>> rows = [f"{n},{text},{said[text]}" for n, text in sheet.sentences.items()]
    >>> _ = Path("anna.csv").write_text("\n".join(["number,sentence,english", *rows]))
    >>> int(read_verdicts(sheet, ["anna.csv"])["anna"].sum())
    2
    """
    verdicts: dict[str, pd.Series[bool]] = {}
    missing = []
    for path in paths:
        judge = Path(path).stem
        if judge in verdicts:
            raise InputError(
                f"two files of verdicts are named {judge!r}, which names the judge; rename one"
            )
        table = _read_cells(path, _SHEET[:3])
        sentences = _numbered(path, table)
        for number, sentence in sheet.sentences.items():
            if number not in sentences:
                raise InputError(f"{path} lacks number {number!r} of the sheet; put the row back")
            if sentences[number] != sentence:
                raise InputError(
                    f"{path} has {sentences[number]!r} as number {number!r}, the sheet "
                    f"{sentence!r}; judge the sheet's own sentences"
                )
        stray = [number for number in sentences if number not in sheet.sentences]
        if stray:
            raise InputError(f"{path} has number {stray[0]!r}, the sheet has not; remove the row")
        words = table.set_index("number")["english"].str.lower().loc[[*sheet.sentences]]
        unknown = words[~words.isin(["yes", "no", ""])]
        if len(unknown):
            raise InputError(
                f"{path} has {unknown.iloc[0]!r} as the verdict about number "
                f"{unknown.index[0]!r}; write yes or no"
            )
        if (words == "").any():
            missing.append(f"{path} lacks {(words == '').sum()} of {len(words)} verdicts")
        verdicts[judge] = words == "yes"
    if missing:
        raise NoDataError(f"{'; '.join(missing)}; sources are shown when all sentences are judged")
    return pd.DataFrame(verdicts)


def english_shares(sheet: BlindSheet, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return what share of each source reads as English, and how far judges agree.

    Parameters
    ----------
    sheet
        What was judged.
    verdicts
        Of `read_verdicts`.

    Returns
    -------
    pandas.DataFrame
        `measure`, `source`, `judge`, `judge_2`, `n`, `count`, `value`, `ci_low`, `ci_high`.
        ``english``: of `n` sentences of the source, `count` read as English, a share of `value`.
        ``both_english``: of `n` triplets or pairs, both sentences do. ``kappa``: of `n` sentences
        two judges agree about `count`; `value` is Cohen's kappa. Intervals cover 95 %.

    Notes
    -----
    Source: intervals of shares by Wilson (1927), Journal of the American Statistical Association
    22, 209-212; they take sentences for independent. Those of kappa are `agreement`'s; there is
    none where judges never differ.

    Examples
    --------
    >>> import pandas as pd
    >>> sheet = blind_sheet({"written": ["A dog ran.", "Dog a ran."], "natural": ["I slept."]})
    >>> said = {n: text != "Dog a ran." for n, text in sheet.sentences.items()}
    >>> verdicts = pd.DataFrame({"anna": said})
    >>> english_shares(sheet, verdicts).query("measure == 'english'")[["source", "n", "count"]]
        source  n  count
    0  written  2      1
    1  natural  1      1
    """
    rows: list[tuple[object, ...]] = []
    for source, places in sheet.key.groupby("source", sort=False):
        numbers = places["number"].unique()
        pairs = places[places["row"] != ""]
        for judge, of_judge in verdicts.items():
            rows.append(("english", source, judge, "", *_share(of_judge[numbers])))
            if len(pairs):
                reads = of_judge[pairs["number"]].to_numpy()
                both = pd.Series(reads).groupby(pairs["row"].to_numpy()).all()
                rows.append(("both_english", source, judge, "", *_share(both)))
    for first, second in combinations(verdicts, 2):
        sides = list(zip(verdicts[first], verdicts[second], strict=True))
        value, error = agreement(sides)
        half = NORMAL_95 * error
        low, high = np.clip([value - half, value + half], -1, 1).tolist()
        agreed = sum(a == b for a, b in sides)
        rows.append(("kappa", "", first, second, len(sides), agreed, value, low, high))
    columns = ["measure", "source", "judge", "judge_2", "n", "count", "value", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns)


def _share(reads: pd.Series[bool]) -> tuple[int, int, float, float, float]:
    """Return how many there are, how many are true, their share, and its interval."""
    n, count = len(reads), int(reads.sum())
    share, z = count / n, NORMAL_95
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = middle - half if count else 0.0, middle + half if count < n else 1.0
    return n, count, share, low, high
