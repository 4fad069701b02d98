"""Synthetic sentences in one file: a study plan of one stage, whose table has a place of its own.

As long as the work lasts, what is finished lies in a run's folder beside the file, ``.FILE.run``;
the same command again goes on from there. When all is done the file is put in place whole, with
``FILE.meta.json`` beside it, and the folder is removed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contstim.display import displayed
from contstim.errors import (
    InfeasibleError,
    InputError,
    MissingExtraError,
    OutputError,
    shortened,
)
from contstim.files import LockedError, remove
from contstim.pipeline import Executor, begun
from contstim.pipeline.stages import StudyPlan
from contstim.pipeline.stages.synthesis import FIGURES, SYNTHESIS, SynthesisStage
from contstim.pipeline.work import RunStore, StageTable, Task
from contstim.synthesis.results import Row

if TYPE_CHECKING:
    from contstim.pipeline.running import StageStatus


@displayed
@dataclass
class SynthesisReport:
    """What became of a synthesis.

    Attributes
    ----------
    rows
        The rows, in the order of the work.
    asked
        How many triplets were asked for at most; None for other targets.
    failed
        Tasks that failed, each with its error: then no file is written.
    written, pool, keeping
        Where a pool was written, how many sentences, how many of these keep the floors beside some
        natural sentence, and how many of those, at the median place, keep each constraint.
    is_old
        Whether the file was there already, made of the same; then it has the rows.
    left
        Where the work was only tried, how far it is and what the rest will take.
    """

    rows: list[Row] = field(default_factory=list)
    asked: int | None = None
    failed: list[tuple[Task, str]] = field(default_factory=list)
    written: int | None = None
    pool: int | None = None
    keeping: dict[str, float] = field(default_factory=dict)
    is_old: bool = False
    left: StageStatus | None = None


def write_synthesis(
    plan: StudyPlan,
    out: Path | None,
    executor: Executor,
    show: Callable[[Row], None] = lambda row: None,
    stage: SynthesisStage = SYNTHESIS,
    tried: float | None = None,
) -> SynthesisReport:
    """Write synthetic sentences, or go on with it.

    Parameters
    ----------
    plan
        What is to be written: a study plan with a table ``[synthesis]``.
    out
        The CSV file (UTF-8), which is there when all rows are; None to keep nothing.
    executor
        What does the work.
    stage
        Whose table is written: that of the syntheses, or of the pool they are chosen from.
    show
        Called with each row as soon as it and those before are there.
    tried
        After how many seconds to stop, one task being done at least; None: not before the end.

    Raises
    ------
    InputError
        As `contstim.pipeline.running.run_study`; if a sentence has no score under a model that is
        to work on it; if `out` exists and was made with other settings, or was changed.
    LockedError
        If another process is writing `out`.
    OutputError
        If `out` cannot be written.
    """
    table = None if out is None else StageTable(out.absolute())
    report = SynthesisReport()
    with (
        _work_folder(table) as folder,
        begun(plan, [stage], executor, RunStore(folder), what=str(out)) as (run, engine),
    ):
        settings = json.loads(json.dumps(stage.settings(run)))
        if table is not None and _is_there(table, settings):
            with suppress(OSError):  # also what a command left that was killed at its very end
                remove(folder)
            report.is_old = True
            return report
        syntheses = stage.of(run)
        for _ in engine.run("score", syntheses.scoring):
            pass
        for _, error in engine.failed:
            raise InputError(error.removeprefix("InputError: "))
        waiting = deque(syntheses.pieces if stage is SYNTHESIS else ())

        def show_new() -> None:
            while waiting and (rows := syntheses.of_piece(*waiting[0])) is not None:
                waiting.popleft()
                report.rows.extend(rows)
                for row in rows:
                    show(row)

        begun_at = time.monotonic()
        for _ in engine.run(stage.name, lambda: stage.tasks(run), stage.expected(run)):
            show_new()
            if tried is not None and time.monotonic() - begun_at >= tried:
                break
        show_new()
        report.failed = engine.failed
        if tried is not None and run.store.left(stage.tasks(run)):
            from contstim.pipeline.running import status_of  # few ask what it costs

            report.left = status_of(stage, run)
            return report
        text, notes = stage.make(run)
        report.asked = notes.get("asked")
        report.written, report.pool = notes.get("written"), notes.get("pool")
        report.keeping = notes.get("keeping", {})
        if table is not None and not engine.failed:
            table.write(text, settings, notes)
            remove(folder)
    return report


@contextmanager
def _work_folder(table: StageTable | None) -> Iterator[Path]:
    """Yield the folder for what is finished; nothing stays of work that cannot be done."""
    if table is None:
        with tempfile.TemporaryDirectory(prefix="contstim-") as name:
            yield Path(name)
        return
    out, folder = table.path, table.work
    try:
        if out.is_dir():
            raise OutputError(f"cannot write {out}: it is a folder; give a file name")
        # What replaces a file has a longer name; better known before the work than after it.
        table.meta.with_name(f".{table.meta.name}{'.' * 21}").exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write {out}: {reason}; choose another output") from None
    try:
        yield folder
    except LockedError:
        raise
    except (InputError, InfeasibleError, MissingExtraError):
        if not (folder / "tasks").is_dir():
            remove(folder)  # nothing is in it but scores of sentences that cannot be used so
        raise


def _is_there(table: StageTable, settings: dict[str, Any]) -> bool:
    """Return whether the file was made with these settings; refuse any other file."""
    out = table.path
    if not out.is_file():
        return False
    if table.holds(settings):
        return True
    before = table.notes
    if before is None:
        raise InputError(
            f"{out} exists and has no {table.meta.name} beside it that can be read, so it cannot "
            "be continued; choose another output, or remove it"
        )
    for key in sorted({*before, *settings} - {*FIGURES}):
        if before.get(key) != settings.get(key):
            then, now = (shortened(json.dumps(of.get(key)), 60) for of in (before, settings))
            raise InputError(
                f"{out} was made with another {key} ({then}, now {now}); choose "
                "another output, or remove it"
            )
    raise InputError(
        f"{out} is not as it was written; undo the change, choose another output, or remove the "
        "file"
    )
