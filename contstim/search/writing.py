"""Writing a triplets file as it grows, so that an interrupted run goes on where it stopped.

The file itself is the record of what is done: rows stand in the order of the work, one natural
sentence after the other. Beside it, ``FILE.meta.json`` states the settings; a run with other
settings does not continue the file, and neither does one that finds rows which were not written
so. Rows that were removed by hand stay removed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from contstim.errors import InputError, OutputError
from contstim.progress import track
from contstim.search.strategies import DEFAULT
from contstim.search.sweeps import Strategy
from contstim.search.triplets import ModelPair, Triplet, check_request, triplets

__all__ = ["COLUMNS", "write_triplets"]

#: Columns of the file, in order.
COLUMNS = tuple(field.name for field in fields(Triplet))

_LOG_PROBS = tuple(name for name in COLUMNS if "_lp_" in name)

# A number that scoring afresh misses by more than this, in nats, was not written by a run.
_TOLERANCE = 1e-3


def write_triplets(
    pairs: Sequence[ModelPair],
    sentences: Sequence[str],
    out: Path | None,
    *,
    settings: Mapping[str, Any],
    per_sentence: int = 1,
    strategy: str | Strategy = DEFAULT,
    seed: int = 0,
    minimum_drop: float = 0.0,
) -> Iterator[Triplet]:
    """Make the triplets of every pair and sentence, writing each to `out` before it is yielded.

    Rows that an interrupted run with the same settings left in `out` are kept and yielded first;
    the last sentence's rows are made again, since they may be incomplete.

    Parameters
    ----------
    pairs, sentences
        The work: all sentences for the first pair, then for the second, and so on. A sentence
        given twice is worked on once.
    out
        The CSV file (UTF-8); None to yield the triplets only.
    settings
        Everything that the rows depend on, as JSON values; compared on continuing.
    per_sentence, strategy, seed, minimum_drop
        As for :func:`~contstim.search.triplets.triplets`.

    Raises
    ------
    InputError
        If a pair is given twice, a sentence cannot be scored by a model of a pair, or `out`
        exists and was made with other settings, was changed, or is being written by another run.
    OutputError
        If `out` cannot be written.
    """
    check_request(per_sentence, minimum_drop)
    _check_pairs(pairs)
    sentences = list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))
    for model in {m.spec: m for pair in pairs for m in (pair.model_1, pair.model_2)}.values():
        model.score(sentences)
    for sentence in sentences:
        _check_length(sentence)
    work = [(pair, sentence) for pair in pairs for sentence in sentences]

    def make(pair: ModelPair, sentence: str) -> list[Triplet]:
        return triplets(
            pair,
            sentence,
            per_sentence=per_sentence,
            strategy=strategy,
            seed=seed,
            minimum_drop=minimum_drop,
        )

    if out is None:
        for piece in track(work, len(work), "synthesize"):
            yield from make(*piece)
        return
    with _claimed(out) as meta:
        done = _open_or_continue(out, meta, dict(settings))
        kept, start = _match(done, work, out)
        _check_scores(kept, pairs, out)
        yield from kept
        try:
            _rewrite(out, kept)
            with out.open("a", encoding="utf-8", newline="") as file:
                for piece in track(work[start:], len(work), "synthesize", start):
                    rows = make(*piece)
                    file.write(_lines(rows))
                    file.flush()
                    os.fsync(file.fileno())
                    yield from rows
        except OSError as error:
            raise _unwritable(out, error) from None


def _check_pairs(pairs: Sequence[ModelPair]) -> None:
    seen = set()
    for pair in pairs:
        key = frozenset((pair.model_1.spec, pair.model_2.spec))
        if key in seen:
            raise InputError(
                f"the pair {pair.model_1.spec!r} and {pair.model_2.spec!r} is given twice; give "
                "each pair once, either way round"
            )
        seen.add(key)


def _check_length(sentence: str) -> None:
    if len(sentence.split()) < 2:
        raise InputError(
            f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
        )


def _lines(rows: Sequence[Triplet]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        # repr gives the shortest decimal that reads back as the same float64.
        values = row.row().values()
        writer.writerow([repr(v) if isinstance(v, float) else v for v in values])
    return text.getvalue()


def _header() -> str:
    return ",".join(COLUMNS) + "\n"


@contextmanager
def _claimed(out: Path) -> Iterator[IO[str]]:
    """Open the file of settings for this run alone, so that no two runs write one file."""
    meta = out.with_name(out.name + ".meta.json")
    try:
        if out.is_dir():
            raise OutputError(f"cannot write {out}: it is a folder; give a file name")
        if out.exists() and not meta.is_file():
            raise _not_continued(out, meta)
        out.parent.mkdir(parents=True, exist_ok=True)
        file = meta.open("a+", encoding="utf-8")
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise _unwritable(out, error) from None
    with file:
        if not _lock(file):
            raise InputError(f"another run is writing {out}; wait for it, or choose another output")
        yield file


def _lock(file: IO[str]) -> bool:
    """Lock an open file until it is closed; False if another process has it locked."""
    if sys.platform == "win32":
        return True  # no locks of this kind there
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _not_continued(out: Path, meta: Path) -> InputError:
    return InputError(
        f"{out} exists and has no {meta.name} beside it that can be read, so it cannot be "
        "continued; choose another output, or remove it"
    )


def _open_or_continue(out: Path, meta: IO[str], settings: dict[str, Any]) -> list[Triplet]:
    """Return the whole rows that are there already, after checking that they fit."""
    if out.exists():
        try:
            meta.seek(0)
            before = json.load(meta)
        except ValueError:  # not JSON, or not UTF-8
            before = None
        if not isinstance(before, dict):
            raise _not_continued(out, Path(meta.name))
        for key in sorted({*before, *settings}):
            if before.get(key) != settings.get(key):
                raise InputError(
                    f"{out} was made with another {key} ({_short(before.get(key))}, now "
                    f"{_short(settings.get(key))}); choose another output, or remove it"
                )
        return list(_read(out))
    try:
        meta.truncate(0)
        meta.write(json.dumps(settings, indent=2, sort_keys=True) + "\n")
        meta.flush()
        out.write_text(_header(), "utf-8")
    except OSError as error:
        raise _unwritable(out, error) from None
    return []


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {out}: {error.strerror or error}; choose another output")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _changed(out: Path, where: str) -> InputError:
    return InputError(
        f"{out}, {where} is not as it was written; undo the change, choose another output, or "
        "remove the file"
    )


def _read(out: Path) -> Iterator[Triplet]:
    """Read the rows that end in a line end; the last may have been cut off."""
    content = out.read_bytes()
    try:
        whole = content[: content.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _changed(out, f"line {line}") from None
    rows = csv.reader(io.StringIO(whole))
    header = next(rows, None)
    if header is not None and tuple(header) != COLUMNS:
        raise _changed(out, "line 1")
    for cells in rows:
        try:
            values: dict[str, Any] = dict(zip(COLUMNS, cells, strict=True))
            values.update({name: float(values[name]) for name in _LOG_PROBS})
            values["repeat"] = int(values["repeat"])
        except ValueError:  # too few or too many cells, or no number
            raise _changed(out, f"line {rows.line_num}") from None
        yield Triplet(**values)


def _match(
    done: Sequence[Triplet], work: Sequence[tuple[ModelPair, str]], out: Path
) -> tuple[list[Triplet], int]:
    """Return the rows to keep and the number of the piece of work to go on with."""
    if not done:
        return [], 0

    def key(pair: ModelPair, sentence: str) -> tuple[str, str, str]:
        return pair.model_1.spec, pair.model_2.spec, sentence

    numbers = {key(*piece): number for number, piece in enumerate(work)}
    before = (-1, 0)
    for line, row in enumerate(done, start=2):
        here = numbers.get((row.model_1, row.model_2, row.natural), -1)
        if (here, row.repeat) <= before:  # of no piece of work, or out of order
            raise _changed(out, f"line {line}")
        before = (here, row.repeat)
    last = key(*work[before[0]])
    kept = [t for t in done if (t.model_1, t.model_2, t.natural) != last]
    return kept, before[0]


def _check_scores(rows: Sequence[Triplet], pairs: Sequence[ModelPair], out: Path) -> None:
    """Refuse rows whose sentences do not score as they say."""
    for pair in pairs:
        names = (pair.model_1.spec, pair.model_2.spec)
        own = [(n, t) for n, t in enumerate(rows, 2) if (t.model_1, t.model_2) == names]
        for kind in ("natural", "synthetic_1", "synthetic_2") if own else ():
            texts = [getattr(t, kind) for _, t in own]
            for k, model in ((1, pair.model_1), (2, pair.model_2)):
                try:
                    fresh = model.score(texts)
                except InputError as error:
                    raise InputError(f"{out} was changed since it was written: {error}") from None
                said = np.array([getattr(t, f"{kind}_lp_{k}") for _, t in own])
                wrong = ~(np.abs(fresh - said) <= _TOLERANCE)
                if wrong.any():
                    raise _changed(out, f"line {own[int(wrong.argmax())][0]}")


def _rewrite(out: Path, rows: Sequence[Triplet]) -> None:
    """Leave exactly `rows` in the file, in one step."""
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_text(_header() + _lines(rows), "utf-8")
    temporary.replace(out)
