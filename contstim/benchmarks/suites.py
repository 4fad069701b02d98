"""Acceptability of minimal pairs: criteria, and runners of suites (BLiMP, LI-Adger)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.files import json_value
from contstim.tables import read_table
from contstim.text.normalise import normalise_sentence

#: A function from S sentences to S scores, such as the `score` method of a model.
Scorer = Callable[[list[str]], ArrayLike]

# The columns of pairs in tables of suites: the good sentence and the bad one.
_PAIRS = (
    ("sentence_good", "sentence_bad"),
    ("good_sentence", "bad_sentence"),
    ("sen", "wrong_sen"),
)
# What names a paradigm, and what a class of them, in the order in which they are looked for.
_PARADIGM = ("paradigm", "UID", "phenomenon")
_TERM = ("linguistics_term", "linguistic_phenomenon", "phenomenon")

# A file of an archive that swells to more is none of a suite's; BLiMP's have a third of a MiB.
_MOST_BYTES = 1 << 24


def _scored(scorer: Scorer, sentences: Sequence[str]) -> FloatArray:
    """Score each distinct sentence once."""
    distinct = list(dict.fromkeys(sentences))
    values = np.asarray(scorer(distinct), dtype=np.float64)
    if values.shape != (len(distinct),):
        raise InputError(f"the scorer gave shape {values.shape} for {len(distinct)} sentences")
    if np.isnan(values).any():
        text = distinct[int(np.isnan(values).argmax())]
        raise InputError(f"the scorer gave no number for {text!r}")
    place = {text: i for i, text in enumerate(distinct)}
    return values[[place[text] for text in sentences]]


def run_blimp(
    source: str | Path,
    scorer: Scorer,
    paradigms: Sequence[str] = (),
    most: int | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Return a model's accuracy on each BLiMP paradigm: `blimp_accuracy` of `read_blimp`.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> import contstim
    >>> pair = {"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}
    >>> names = {"UID": "agreement", "field": "syntax", "linguistics_term": "agreement"}
    >>> _ = Path("agreement.jsonl").write_text(json.dumps(pair | names))
    >>> model = contstim.load_model("contstim:trigram?unknown=unk")
    >>> run_blimp(".", model.score)[["uid", "accuracy", "n_pairs"]]
             uid  accuracy  n_pairs
    0  agreement       1.0        1
    """
    return blimp_accuracy(read_blimp(source, paradigms, most, seed), scorer)


def read_blimp(
    source: str | Path,
    paradigms: Sequence[str] = (),
    most: int | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Read the minimal pairs of BLiMP, or of suites made like it, in their own columns.

    Read are ``.jsonl`` files of BLiMP and ZhoBLiMP, one a paradigm, and tables (``.csv``, ``.tsv``)
    of TurBLiMP (``good_sentence, bad_sentence, phenomenon``), BLiMP-NL (``sentence_good,
    sentence_bad``, and paradigm and phenomenon as far as they are there) and MultiBLiMP (``sen,
    wrong_sen, phenomenon``, in a folder for each language, which is their ``field``).

    Parameters
    ----------
    source
        The zip file of ``UID.jsonl`` files, a folder of files, or one table.
    paradigms
        The UIDs wanted; empty for all.
    most
        So many pairs of each paradigm; None for all.
    seed
        Draw these pairs at random, without replacement; None takes the first. The draw from one
        paradigm does not depend on which others are wanted.

    Returns
    -------
    DataFrame
        One row per pair: `uid`, `field`, `term`, `sentence_good`, `sentence_bad`.

    Raises
    ------
    InputError
        If the source holds no such file or a line is not a pair.

    Source
    ------
    Warstadt et al. (2020), doi 10.1162/tacl_a_00321; Jumelet et al. (2025), arXiv 2504.02768;
    Suijkerbuijk et al. (2025), doi 10.1162/coli_a_00559; Basar et al. (2025), arXiv 2506.13487.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> pair = {"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}
    >>> names = {"UID": "agreement", "field": "syntax", "linguistics_term": "agreement"}
    >>> _ = Path("agreement.jsonl").write_text(json.dumps(pair | names))
    >>> read_blimp(".")["sentence_bad"].tolist()
    ['The dogs runs.']
    """
    rows = list[tuple[str, ...]]()
    for uid, group in _table_pairs(Path(source)):
        if not paradigms or uid in paradigms:
            rows += [group[i] for i in _drawn(len(group), uid, most, seed)]
    for uid, lines in _blimp_files(Path(source)):
        if paradigms and uid not in paradigms:
            continue
        for i in _drawn(len(lines), uid, most, seed):
            try:
                entry = json_value(lines[i])
                pair = (entry["sentence_good"], entry["sentence_bad"])
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"line {i + 1} of {uid}.jsonl is not a BLiMP pair") from error
            if not all(isinstance(sentence, str) for sentence in pair):
                raise InputError(f"line {i + 1} of {uid}.jsonl is not a BLiMP pair")
            term = next((str(entry[key]) for key in _TERM if entry.get(key)), "")
            rows.append((uid, str(entry.get("field") or ""), term, *pair))
    if not rows:
        raise InputError(f"{str(source)!r} holds none of the paradigms asked for")
    return pd.DataFrame(rows, columns=["uid", "field", "term", "sentence_good", "sentence_bad"])


def blimp_accuracy(pairs: pd.DataFrame, scorer: Scorer) -> pd.DataFrame:
    """Return a model's accuracy on each paradigm among `pairs`, as `read_blimp` gives them.

    A pair is right if the good sentence has the strictly higher score.

    Returns
    -------
    DataFrame
        `uid`, `field`, `term`, `accuracy`, `n_tied`, `n_pairs`.

    Examples
    --------
    >>> import contstim
    >>> import pandas as pd
    >>> pairs = pd.DataFrame(
    ...     {
    ...         "uid": "agreement",
    ...         "field": "syntax",
    ...         "term": "subject-verb agreement",
    ...         "sentence_good": ["The dogs run.", "The child sleeps."],
    ...         "sentence_bad": ["The dogs runs.", "The child sleep."],
    ...     }
    ... )
    >>> model = contstim.load_model("contstim:trigram?unknown=unk")
    >>> blimp_accuracy(pairs, model.score)[["uid", "accuracy"]]
             uid  accuracy
    0  agreement       0.5
    """
    values = _scored(scorer, [*pairs["sentence_good"], *pairs["sentence_bad"]])
    good, bad = values[: len(pairs)], values[len(pairs) :]  # two may be minus infinity, and tied
    scored = pairs.assign(accuracy=good > bad, n_tied=good == bad, n_pairs=1)
    by_paradigm = scored.groupby(["uid", "field", "term"], sort=False)
    figures = {"accuracy": "mean", "n_tied": "sum", "n_pairs": "sum"}
    return by_paradigm.agg(figures).reset_index()


def _drawn(n: int, uid: str, most: int | None, seed: int | None) -> IntArray:
    """Return which pairs of a paradigm are taken, in order."""
    numbers = np.arange(n)
    if most is None or most >= n:
        return numbers
    if seed is not None:
        numbers = np.random.default_rng([seed, *uid.encode()]).permutation(n)
    return np.sort(numbers[:most])


def _table_pairs(source: Path) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield the paradigms of tables, each with the rows of `read_blimp`."""
    endings = (".csv", ".tsv")
    tables = [source] if source.suffix in endings else []
    if source.is_dir():
        tables = sorted(path for ending in endings for path in source.rglob(f"*{ending}"))
    for path in tables:
        table = read_table(path, cells="text")
        columns = [pair for pair in _PAIRS if {*pair} <= {*table.columns}]
        if not columns and path != source:
            continue  # a folder may hold other tables
        if not columns:
            raise InputError(
                f"{path} has no columns of pairs; it needs "
                f"{' or '.join(', '.join(pair) for pair in _PAIRS)}"
            )
        if (empty := table[list(columns[0])].isna().any(axis=1)).any():
            raise InputError(f"row {int(empty.argmax()) + 1} of {path} lacks a sentence; fill it")
        # The files of MultiBLiMP are all called alike, in folders by language.
        alike = path.stem in ("data", "train", "test")
        field = path.parent.name if alike and path != source else ""
        cells = table.fillna("").to_dict("records")
        paradigm = next((c for c in _PARADIGM if c in table and (alike or c != "phenomenon")), None)
        term = next((c for c in _TERM if c in table), None)
        groups: dict[str, list[tuple[str, ...]]] = {}
        for row in cells:
            uid = str(row[paradigm]) if paradigm else path.stem
            uid = f"{field} {uid}" if field else uid
            pair = (normalise_sentence(str(row[column])) for column in columns[0])
            kind = str(row[term]) if term else ""
            groups.setdefault(uid, []).append((uid, field, kind, *pair))
        yield from groups.items()


def _blimp_files(source: Path) -> Iterator[tuple[str, list[str]]]:
    if source.suffix in (".csv", ".tsv"):
        return
    if source.is_dir():
        for path in sorted(source.glob("*.jsonl")):
            yield path.stem, path.read_text(encoding="utf-8").splitlines()
        return
    try:
        with zipfile.ZipFile(source) as archive:
            for name in sorted(archive.namelist()):
                # The published archive has a hidden file of macOS for each.
                if name.endswith(".jsonl") and not Path(name).name.startswith("."):
                    if archive.getinfo(name).file_size > _MOST_BYTES:  # it yields no more than that
                        raise InputError(
                            f"{name} in {str(source)!r} has more than {_MOST_BYTES >> 20} MiB; "
                            "that is not a BLiMP paradigm"
                        )
                    yield Path(name).stem, archive.read(name).decode("utf-8").splitlines()
    except (FileNotFoundError, zipfile.BadZipFile) as error:
        raise InputError(f"{str(source)!r} is neither a folder nor a zip file") from error


def z_scores(values: ArrayLike) -> FloatArray:
    """Return values minus their mean over their standard deviation (that of a population).

    Missing values stay missing and do not count.

    Raises
    ------
    InputError
        If there is no variation.

    Source
    ------
    Vazquez Martinez (2021), Section 1.3.3, which does not say by what the sum of squares is
    divided; with thousands of sentences it does not show.
    """
    given = np.asarray(values, dtype=np.float64)
    there = given[~np.isnan(given)]
    if len(there) < 2 or np.ptp(there) == 0:
        raise InputError("z-scores need at least two different values")
    return np.asarray((given - there.mean()) / there.std())


def blimp_criterion(delta: ArrayLike) -> BoolArray:
    """Return for which pairs the acceptable sentence has the strictly higher score.

    Source
    ------
    Warstadt et al. (2020); Vazquez Martinez (2021), Section 1.3.3.
    """
    return np.asarray(np.asarray(delta, dtype=np.float64) > 0)


def acceptability_delta_criterion(human: ArrayLike, model: ArrayLike, delta: float) -> BoolArray:
    """Return for which pairs the model's delta has the sign of people's and is nearer than `delta`.

    Parameters
    ----------
    human, model
        Deltas in standard deviations, shape (P,).
    delta
        Largest deviation, itself excluded; infinity leaves the sign alone.

    Raises
    ------
    InputError
        If `delta` is not positive.

    Source
    ------
    Vazquez Martinez (2021), Eq. 1.1 and 1.2.
    """
    if not delta > 0:
        raise InputError(f"delta must be positive, not {delta}")
    people, scores = (np.asarray(v, dtype=np.float64) for v in (human, model))
    return np.asarray((np.sign(people) == np.sign(scores)) & (np.abs(people - scores) < delta))


@displayed
@dataclass(frozen=True, eq=False)
class LIAdger:
    """The LI-Adger sentences with human magnitude estimates, and their minimal pairs.

    Attributes
    ----------
    sentences
        `id`, `sentence`, `judgement` (mean z-score over participants).
    pairs
        `gramm_id`, `ungramm_id` of the pairs that are not marked as discarded.

    Examples
    --------
    >>> sentences = pd.DataFrame({"id": ["a", "b"], "sentence": ["He ran.", "Ran he."]})
    >>> pairs = pd.DataFrame({"gramm_id": ["a"], "ungramm_id": ["b"]})
    >>> LIAdger(sentences.assign(judgement=[1.2, -0.8]), pairs).human_deltas()
    array([2.])
    """

    sentences: pd.DataFrame
    pairs: pd.DataFrame

    def human_deltas(self) -> FloatArray:
        """Return judgement of the acceptable minus the unacceptable sentence, as given, (P,)."""
        return self._deltas(self.sentences.set_index("id")["judgement"])

    def model_deltas(self, scores: pd.Series) -> FloatArray:
        """Return deltas of a model's z-scored scores; NaN for pairs without both scores.

        Parameters
        ----------
        scores
            The score of each sentence, by its id. They are z-scored over all that are given.
        """
        return self._deltas(pd.Series(z_scores(scores), index=scores.index))

    def _deltas(self, by_id: pd.Series) -> FloatArray:
        sides = [by_id.reindex(self.pairs[c]).to_numpy(float) for c in ("gramm_id", "ungramm_id")]
        return np.asarray(sides[0] - sides[1])
