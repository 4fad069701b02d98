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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contstim.errors import ContstimError, InfeasibleError, InputError, OutputError
from contstim.files import digest, lock, remove
from contstim.models.base import UNSTATED
from contstim.models.cache import versions
from contstim.pipeline import Engine, Executor
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.searches import Searches, starts_of
from contstim.pipeline.tasks import score_tasks
from contstim.pipeline.work import RunContext, RunStore, StageTable, Task
from contstim.search.problem import check_different
from contstim.search.results import Row, Triplet, rows_from, written_and_natural
from contstim.search.targets import check_several
from contstim.tables import csv_text
from contstim.text import pool
from contstim.text.diversity import diversity
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

# Options that are noted where they are given, and the natural sentences, at least, by which the
# falls of several rejecting models compare: else that many of the bundled ones.
_WANTED = (
    *("reference", "loss", "margin", "floors"),
    *("most_changes", "fixed", "changed", "words_at", "certificate", "alike", "most_use"),
)
_SCALED = 30


class FailedTasksError(ContstimError):
    """Some tasks failed; `failed` has each with its error."""

    def __init__(self, failed: Sequence[tuple[Task, str]]) -> None:
        super().__init__(f"{len(failed)} tasks failed; the same command tries them again")
        self.failed = list(failed)


@dataclass(frozen=True)
class SynthesisRequest:
    """What is to be written.

    Attributes
    ----------
    pairs
        Specs of two models each, for triplets.
    sentences
        The natural sentences.
    vocabulary
        The words that may be written; None: the bundled ones.
    options, seed, threads
        How it is searched, and the threads of PyTorch.
    models
        Specs of the compared models, for the other targets of the options.
    words
        The options by which the words were chosen, for the record.
    """

    pairs: Sequence[tuple[str, str]]
    sentences: Sequence[str]
    vocabulary: Vocabulary | None = None
    options: SynthesisOptions = field(default_factory=lambda: SynthesisOptions(starts="all"))
    seed: int = 0
    threads: int = 1
    models: Sequence[str] = ()
    words: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_asked(self) -> int:
        """The number of triplets asked for."""
        given = {spec: spec for pair in self.pairs for spec in pair}
        starts = starts_of(self.clean, self.pairs, given, self.options, self.seed)
        return sum(map(len, starts.values())) * self.options.per_sentence

    @property
    def clean(self) -> list[str]:
        """The natural sentences with single spaces; for triplets each once."""
        clean = [" ".join(sentence.split()) for sentence in self.sentences]
        return list(dict.fromkeys(clean)) if self.options.target == "pair" else clean

    def searches(self, executor: Executor) -> Searches:
        """Return the searches; `executor` loads the models, for their fingerprints.

        Raises
        ------
        InputError
            If there is one model only, a model cannot be loaded or is paired with itself, a pair is
            given twice, a sentence has only one word, or a certificate is asked for that models
            do not have.
        InfeasibleError
            As `SynthesisOptions.check_words`.
        """
        wanted = self.options.sides(self.models)
        if not wanted and not self.pairs:
            check_several("pair", self.models)
        specs = (*self.models, *itertools.chain(*self.pairs), *self.options.further)
        models = executor.describe(dict.fromkeys(specs))
        for spec, model in models.items():
            if model.description["event"]["start"] == UNSTATED:
                raise InputError(
                    f"{spec!r} scores the sentences it holds and no others, so that none can be "
                    "written for it; use a model that can be loaded"
                )
        self.options.check_words(models, self.clean)
        names = {spec: model.name for spec, model in models.items()}
        pairs = set()
        for one, two in ((names[a], names[b]) for a, b in self.pairs):
            check_different("a pair needs two", (one, two))
            if frozenset((one, two)) in pairs:
                raise InputError(
                    f"the pair {one!r} and {two!r} is given twice; give each pair once, either "
                    "way round"
                )
            pairs.add(frozenset((one, two)))
        for sides in wanted:
            sides.named(names)  # refuses one model by two specs
        starts = starts_of(self.clean, wanted or self.pairs, names, self.options, self.seed)
        self.options.check_certificates(starts)
        words = self.vocabulary or bundled_vocabulary()
        return Searches(
            models, versions(), words.digest, self.options, self.seed, starts, words=words
        )

    def settings(self, searches: Searches) -> dict[str, Any]:
        """Return everything that the rows depend on, as JSON values."""
        words, options = self.vocabulary or bundled_vocabulary(), self.options
        names = {spec: model.name for spec, model in searches.models.items()}
        compared: dict[str, Any] = {"pairs": [[names[spec] for spec in p] for p in self.pairs]}
        if options.target == "split":
            reject, accept = (
                [names[spec] for spec in side] for side in (options.reject, options.accept)
            )
            one_way = len(reject) == len(accept) == 1
            compared = {"one way": [[*reject, *accept]]} if one_way else {"split": [reject, accept]}
        elif options.target != "pair":
            compared = {options.target: [names[spec] for spec in self.models]}
        usual = SynthesisOptions()
        compared |= {
            key: value for key in _WANTED if (value := getattr(options, key)) != getattr(usual, key)
        }
        return {
            "models": [model.description for model in searches.models.values()],
            "versions": dict(searches.versions),
            "vocabulary": {
                "digest": searches.vocabulary,
                "words": len(words.elsewhere),
                **({"options": dict(self.words)} if self.words else {}),
            },
            "sentences": {
                "digest": digest("\n".join(self.sentences))[:16],
                "number": len(self.sentences),
            },
            **compared,
            "strategy": {"name": options.strategy, **options.of_strategy},
            "seed": self.seed,
            "starts": options.starts,
            "per_pair": options.per_pair,
            "per_sentence": options.per_sentence,
            "minimum_drop": options.minimum_drop,
        }


def write_synthesis(
    request: SynthesisRequest, out: Path | None, executor: Executor
) -> Iterator[Row]:
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
    searches = request.searches(executor)
    settings = json.loads(json.dumps(request.settings(searches)))
    table = None if out is None else StageTable(out.absolute())
    if table is not None and _is_there(table, settings):
        with suppress(OSError):  # what a command left that was killed at its very end
            remove(table.work)
        with table.path.open(encoding="utf-8", newline="") as file:
            yield from rows_from(csv.DictReader(file))
        return
    with _work_folder(table) as (folder, check):
        store = RunStore(folder)
        path = None
        if request.vocabulary is not None:
            path = folder / "vocabulary.csv"
            request.vocabulary.save(path)
        context = RunContext(folder, store.scores.folder, Path.cwd(), path, request.threads)
        engine = Engine(store, context, executor, check)
        searches = _with_scales(searches, request.clean, engine)
        rows: list[Row] = []
        for row in _rows(searches, engine):
            rows.append(row)
            yield row
        if engine.failed:
            raise FailedTasksError(engine.failed)
        if table is not None:
            values = [row.row() for row in rows]
            columns = list(values[0]) if rows else Triplet.columns()
            text = csv_text(columns, (row.values() for row in values))
            varied = {"words": diversity(*written_and_natural(rows)).row()} if rows else {}
            table.write(text, settings, {**settings, **varied})
            remove(folder)


def _with_scales(searches: Searches, natural: Sequence[str], engine: Engine) -> Searches:
    """Refuse, before anything is searched, sentences that a model cannot score or that cannot do.

    Returns
    -------
    Searches
        With scales, where several models are to reject: of all natural sentences, and of bundled
        ones where those are few.
    """
    by_model: dict[str, dict[str, None]] = {spec: {} for spec in searches.models}
    several = set[str]()
    for wanted, starts in searches.starts.items():
        for sides in searches.sides_of(wanted):
            for spec in sides.models:
                by_model[spec].update(dict.fromkeys(starts))
            several.update(sides.reject if len(sides.reject) > 1 else ())
    for spec in several:
        by_model[spec].update(dict.fromkeys(natural))
        if len(by_model[spec]) < _SCALED:
            by_model[spec].update(dict.fromkeys(pool()[:_SCALED]))
    tasks = {
        spec: score_tasks([searches.models[spec]], list(sentences), searches.versions)
        for spec, sentences in by_model.items()
    }
    for _ in engine.run("score", lambda: list(itertools.chain(*tasks.values()))):
        pass
    for _, error in engine.failed:
        raise InputError(error.removeprefix("InputError: "))

    known = {
        spec: {
            sentence: row.score
            for sentence, row in engine.store.scores.read(task.identity).items()
            if sentence in by_model[spec]
        }
        for spec, starts in tasks.items()
        for task in starts[:1]
    }
    return searches.prepared(known)


def _rows(searches: Searches, engine: Engine) -> Iterator[Row]:
    """Have the searches made; yield the rows in the order of the work as they are there."""
    waiting = iter(searches.pieces)
    piece = next(waiting, None)

    def ready() -> Iterator[Row]:
        nonlocal piece
        while piece is not None:
            rows = searches.of_piece(*piece, engine.store)
            if rows is None:
                return
            yield from rows
            piece = next(waiting, None)

    for _ in engine.run("synthesize", lambda: searches.tasks(engine.store), searches.number):
        yield from ready()
    yield from ready()


@contextmanager
def _work_folder(table: StageTable | None) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the folder for what is finished, for this process alone, and the check of its lock."""
    if table is None:
        with tempfile.TemporaryDirectory(prefix="contstim-") as name:
            yield Path(name), lambda: None
        return
    out, folder = table.path, table.work
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
        except (InputError, InfeasibleError):
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
    for key in sorted({*before, *settings} - {"words"}):
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
