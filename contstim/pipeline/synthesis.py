"""Synthetic sentences in one file: what ``contstim synthesize`` makes, on the engine of runs.

As long as the work lasts, what is finished lies in a run's folder beside the file, ``.FILE.run``;
the same request again goes on from there. When all is done the file is put in place whole, with
``FILE.meta.json`` beside it, and the folder is removed.
"""

from __future__ import annotations

import csv
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from contstim.errors import ContstimError, InputError, OutputError
from contstim.files import digest, lock, remove
from contstim.models.cache import versions
from contstim.pipeline.engine import Engine, Executor
from contstim.pipeline.tasks import (
    Searches,
    SynthesisOptions,
    score_tasks,
    starts_of,
    synthesis_from,
)
from contstim.pipeline.work import ModelRecord, RunContext, RunStore, StageTable, Task, csv_text
from contstim.search.search import Synthesis
from contstim.search.triplets import Triplet, check_request
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

__all__ = ["FailedTasksError", "OneWay", "SynthesisRequest", "write_synthesis"]


class FailedTasksError(ContstimError):
    """Some tasks failed; `failed` has each with its error."""

    def __init__(self, failed: Sequence[tuple[Task, str]]) -> None:
        super().__init__(f"{len(failed)} tasks failed; the same command tries them again")
        self.failed = list(failed)


@dataclass(frozen=True)
class OneWay:
    """A sentence that one model rejects and one accepts; log-probabilities in nats."""

    reject: str
    accept: str
    natural: str
    synthetic: str
    natural_lp_reject: float
    synthetic_lp_reject: float
    natural_lp_accept: float
    synthetic_lp_accept: float
    n_replaced: int
    n_scores_reject: int
    n_scores_accept: int
    finished: bool

    @classmethod
    def of(cls, result: Synthesis) -> OneWay:
        """Return the row of a synthesis."""
        n_rejecting, n_accepting = result.n_scores
        return cls(
            result.reject,
            result.accept,
            result.natural,
            result.sentence,
            result.natural_reject_log_prob,
            result.reject_log_prob,
            result.natural_accept_log_prob,
            result.accept_log_prob,
            len(result.steps),
            n_rejecting,
            n_accepting,
            result.finished,
        )


@dataclass(frozen=True)
class SynthesisRequest:
    """What is to be written.

    Attributes
    ----------
    pairs
        Specs of two models each, for triplets; if `one_way`, a rejecting and an accepting model.
    sentences
        The natural sentences.
    vocabulary
        The words that may be written; None: the bundled ones.
    options, seed, threads
        How it is searched, and the threads of PyTorch.
    one_way
        Whether each search makes a row of its own.
    """

    pairs: Sequence[tuple[str, str]]
    sentences: Sequence[str]
    vocabulary: Vocabulary | None = None
    options: SynthesisOptions = field(default_factory=lambda: SynthesisOptions(starts="all"))
    seed: int = 0
    threads: int = 1
    one_way: bool = False

    def __post_init__(self) -> None:
        check_request(self.options.per_sentence, self.options.minimum_drop)

    @property
    def n_asked(self) -> int:
        """The number of triplets asked for."""
        given = {spec: spec for pair in self.pairs for spec in pair}
        starts = starts_of(self._sentences, self.pairs, given, self.options, self.seed)
        return sum(map(len, starts.values())) * self.options.per_sentence

    @property
    def _sentences(self) -> list[str]:
        clean = [" ".join(sentence.split()) for sentence in self.sentences]
        return clean if self.one_way else list(dict.fromkeys(clean))

    @property
    def row(self) -> type[OneWay] | type[Triplet]:
        """The class of the rows."""
        return OneWay if self.one_way else Triplet

    def searches(self) -> Searches:
        """Return the searches; loads the models, one at a time, for their fingerprints.

        Raises
        ------
        InputError
            If a model cannot be loaded or is paired with itself, a pair is given twice, or a
            sentence has only one word.
        """
        specs = dict.fromkeys(itertools.chain.from_iterable(self.pairs))
        models = {spec: ModelRecord.of(spec) for spec in specs}
        names = {spec: model.name for spec, model in models.items()}
        pairs = set()
        for one, two in ((names[a], names[b]) for a, b in self.pairs):
            if one == two:
                raise InputError(
                    f"a pair needs two different models, got {one!r} twice; specs that differ in "
                    "metric or reduction are different models"
                )
            if frozenset((one, two)) in pairs:
                raise InputError(
                    f"the pair {one!r} and {two!r} is given twice; give each pair once, either "
                    "way round"
                )
            pairs.add(frozenset((one, two)))
        starts = starts_of(self._sentences, self.pairs, names, self.options, self.seed)
        words = self.vocabulary or bundled_vocabulary()
        return Searches(models, versions(), words.digest, self.options, self.seed, starts)

    def settings(self, searches: Searches) -> dict[str, Any]:
        """Return everything that the rows depend on, as JSON values."""
        words, options = self.vocabulary or bundled_vocabulary(), self.options
        names = [[searches.models[spec].name for spec in pair] for pair in self.pairs]
        return {
            "models": [model.description for model in searches.models.values()],
            "versions": dict(searches.versions),
            "vocabulary": {"digest": searches.vocabulary, "words": len(words.elsewhere)},
            "sentences": {
                "digest": digest("\n".join(self.sentences))[:16],
                "number": len(self.sentences),
            },
            "one way" if self.one_way else "pairs": names,
            "strategy": {"name": options.strategy, **options.of_strategy},
            "seed": self.seed,
            "starts": options.starts,
            "per_pair": options.per_pair,
            "per_sentence": options.per_sentence,
            "minimum_drop": options.minimum_drop,
        }


def write_synthesis(
    request: SynthesisRequest, out: Path | None, executor: Executor
) -> Iterator[Triplet | OneWay]:
    """Write synthetic sentences, or go on with it, yielding each row when those before are there.

    Parameters
    ----------
    request
        What is to be written.
    out
        The CSV file (UTF-8), which is there when all rows are; None to yield the rows only, and
        keep nothing.
    executor
        What does the searches.

    Raises
    ------
    InputError
        As `SynthesisRequest.searches`; if a sentence has no score under a model that is to work on
        it; if `out` exists and was made with other settings, or was changed.
    LockedError
        If another process is writing `out`.
    FailedTasksError
        If a search failed; what is finished is kept, but `out` is not written.
    OutputError
        If `out` cannot be written.
    """
    searches = request.searches()
    settings = json.loads(json.dumps(request.settings(searches)))
    table = None if out is None else StageTable(out.absolute())
    if table is not None and _is_there(table, settings):
        yield from _read(request.row, table)
        return
    with _work_folder(table) as (folder, check):
        store = RunStore(folder)
        path = None
        if request.vocabulary is not None:
            path = folder / "vocabulary.csv"
            request.vocabulary.save(path)
        context = RunContext(
            store=str(folder),
            scores=str(store.scores.folder),
            folder=str(Path.cwd()),
            vocabulary=None if path is None else str(path),
            threads=request.threads,
        )
        engine = Engine(store, context, executor, check)
        _score_starts(searches, engine)
        rows: list[Triplet | OneWay] = []
        for row in _rows(request, searches, engine):
            rows.append(row)
            yield row
        if engine.failed:
            raise FailedTasksError(engine.failed)
        if table is not None:
            columns = [column.name for column in fields(request.row)]
            table.write(csv_text(columns, map(astuple, rows)), settings, settings)
            remove(folder)


def _score_starts(searches: Searches, engine: Engine) -> None:
    """Refuse, before anything is searched, sentences that a model cannot score."""
    tasks: list[Task] = []
    for spec, model in searches.models.items():
        starts = (of_pair for pair, of_pair in searches.starts.items() if spec in pair)
        sentences = list(dict.fromkeys(itertools.chain.from_iterable(starts)))
        tasks += score_tasks([model], sentences, searches.versions)
    for _ in engine.run("score", lambda: tasks):
        pass
    for _, error in engine.failed:
        raise InputError(error.removeprefix("InputError: "))


def _rows(
    request: SynthesisRequest, searches: Searches, engine: Engine
) -> Iterator[Triplet | OneWay]:
    """Have the searches made; yield the rows in the order of the work as they are there."""
    store, pieces = engine.store, searches.pieces
    waiting = iter(pieces)
    piece = next(waiting, None)

    def tasks() -> list[Task]:
        if request.one_way:
            return [searches.task(*pair, sentence) for pair, sentence in pieces]
        return searches.tasks(store)

    def ready() -> Iterator[Triplet | OneWay]:
        nonlocal piece
        while piece is not None:
            rows: Sequence[Triplet | OneWay] | None
            if request.one_way:
                task = searches.task(*piece[0], piece[1])
                done = task.is_done(store)
                rows = [OneWay.of(synthesis_from(store.result(task.key)))] if done else None
            else:
                rows = searches.of_piece(*piece, store)
            if rows is None:
                return
            yield from rows
            piece = next(waiting, None)

    for _ in engine.run("synthesize", tasks):
        yield from ready()
    yield from ready()


@contextmanager
def _work_folder(table: StageTable | None) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Give the folder for what is finished, for this process alone, and the check of its lock."""
    if table is None:
        with tempfile.TemporaryDirectory(prefix="contstim-") as name:
            yield Path(name), lambda: None
        return
    out = table.path
    folder = out.with_name(f".{out.name}.run")
    try:
        if out.is_dir():
            raise OutputError(f"cannot write {out}: it is a folder; give a file name")
        # What replaces a file has a longer name; better known before the work than after it.
        table.meta.with_name(f".{table.meta.name}{'.' * 21}").exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    with lock(folder / "lock", str(out)) as check:
        try:
            yield folder, check
        except InputError:
            if not (folder / "tasks").is_dir():
                remove(folder)  # nothing is in it but scores of sentences that cannot be used so
            raise


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {out}: {error.strerror or error}; choose another output")


def _is_there(table: StageTable, settings: dict[str, Any]) -> bool:
    """Return whether the file was made with these settings; refuse any other file."""
    out = table.path
    try:
        if not out.is_file():
            return False
    except OSError as error:
        raise _unwritable(out, error) from None
    if table.holds(settings):
        return True
    before = table.notes
    if before is None:
        raise InputError(
            f"{out} exists and has no {table.meta.name} beside it that can be read, so it cannot "
            "be continued; choose another output, or remove it"
        )
    for key in sorted({*before, *settings}):
        if before.get(key) != settings.get(key):
            raise InputError(
                f"{out} was made with another {key} ({_short(before.get(key))}, now "
                f"{_short(settings.get(key))}); choose another output, or remove it"
            )
    raise InputError(
        f"{out} is not as it was written; undo the change, choose another output, or remove the "
        "file"
    )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


_READ: dict[str, Callable[[str], Any]] = {
    "str": str,
    "float": float,
    "int": int,
    "bool": lambda text: text == "True",
}


def _read(kind: type[Triplet] | type[OneWay], table: StageTable) -> Iterator[Triplet | OneWay]:
    with table.path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield kind(**{f.name: _READ[str(f.type)](row[f.name]) for f in fields(kind)})
