"""Writing a triplets file as it grows, so that an interrupted run goes on where it stopped.

The file itself is the record of what is done: rows stand in the order of the work, one natural
sentence after the other. Beside it, ``FILE.meta.json`` states the settings; a run with other
settings does not continue the file.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from contstim.errors import InputError, OutputError
from contstim.progress import track
from contstim.synthesis.strategies import Strategy
from contstim.synthesis.triplets import ModelPair, Triplet, triplets

__all__ = ["COLUMNS", "write_triplets"]

#: Columns of the file, in order.
COLUMNS = tuple(field.name for field in fields(Triplet))


def write_triplets(
    pairs: Sequence[ModelPair],
    sentences: Sequence[str],
    out: Path | None,
    *,
    settings: Mapping[str, Any],
    per_sentence: int = 1,
    strategy: str | Strategy = "exhaustive",
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
        As for :func:`~contstim.synthesis.triplets.triplets`.

    Raises
    ------
    InputError
        If a sentence cannot be scored by a model of a pair, or `out` exists and was made with
        other settings.
    OutputError
        If `out` cannot be written.
    """
    sentences = list(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences))
    for pair in pairs:
        for model in (pair.model_1, pair.model_2):
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
    done = _open_or_continue(out, dict(settings))
    kept, start = _match(done, work, out)
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


def _open_or_continue(out: Path, settings: dict[str, Any]) -> list[Triplet]:
    """Return the whole rows that are there already, after checking that they fit."""
    meta = out.with_name(out.name + ".meta.json")
    if out.exists():
        try:
            before = json.loads(meta.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            raise InputError(
                f"{out} exists and has no {meta.name} beside it, so it cannot be continued; choose "
                "another output, or remove it"
            ) from None
        for key in sorted({*before, *settings}):
            if before.get(key) != settings.get(key):
                raise InputError(
                    f"{out} was made with another {key} ({_short(before.get(key))}, now "
                    f"{_short(settings.get(key))}); choose another output, or remove it"
                )
        return list(_read(out))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = meta.with_name(meta.name + ".tmp")
        temporary.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")
        temporary.replace(meta)
        out.write_text(_header(), "utf-8")
    except OSError as error:
        raise _unwritable(out, error) from None
    return []


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {out}: {error.strerror or error}; choose another output")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _read(out: Path) -> Iterator[Triplet]:
    text = out.read_bytes()
    whole = text[: text.rfind(b"\n") + 1].decode("utf-8")
    for row in csv.DictReader(io.StringIO(whole)):
        values: dict[str, Any] = {
            name: float(value) if "_lp_" in name else value for name, value in row.items()
        }
        yield Triplet(**{**values, "repeat": int(cast("str", row["repeat"]))})


def _match(
    done: Sequence[Triplet], work: Sequence[tuple[ModelPair, str]], out: Path
) -> tuple[list[Triplet], int]:
    """Return the rows to keep and the number of the piece of work to go on with."""
    if not done:
        return [], 0

    def key(pair: ModelPair, sentence: str) -> tuple[str, str, str]:
        return pair.model_1.spec, pair.model_2.spec, sentence

    numbers = {key(*piece): number for number, piece in enumerate(work)}
    last = done[-1]
    here = numbers.get((last.model_1, last.model_2, last.natural))
    if here is None:
        raise InputError(f"{out} holds a row that is not of this run; choose another output")
    kept = [t for t in done if (t.model_1, t.model_2, t.natural) != tuple(key(*work[here]))]
    return kept, here


def _rewrite(out: Path, rows: Sequence[Triplet]) -> None:
    """Leave exactly `rows` in the file, in one step."""
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_text(_header() + _lines(rows), "utf-8")
    temporary.replace(out)
