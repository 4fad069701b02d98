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

from contstim.display import displayable
from contstim.errors import (
    InfeasibleError,
    InputError,
    MissingExtraError,
    OutputError,
    truncate,
)
from contstim.files import LockedError, remove
from contstim.pipeline import Executor, begun
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages import StudyPlan
from contstim.pipeline.stages.synthesis import FIGURES, SYNTHESIS
from contstim.pipeline.stages.written import POOL
from contstim.pipeline.work import RunStore, StageTable, Task
from contstim.synthesis.results import Row

if TYPE_CHECKING:
    from contstim.pipeline.running import StageStatus


@displayable
@dataclass
class SynthesisReport:
    """What became of a synthesis.

    Attributes
    ----------
    rows
        The rows, in the order of the work.
    asked
        The maximum number of rows.
    failed
        Tasks that failed, each with its error; no file is written then.
    written, pool, satisfying
        For a pool, the number of sampled sentences, the number of them that satisfy the bounds for
        some natural sentence, and by constraint the median number that satisfies it.
    filter_only
        Names of the compared models that did not guide the sampling of the pool.
    is_old
        Whether the file existed already, made with the same settings; `rows` is empty then.
    n_rows
        The number of rows.
    left
        For an estimate, how much of the work is done and how long the rest will take.
    """

    rows: list[Row] = field(default_factory=list)
    asked: int | None = None
    failed: list[tuple[Task, str]] = field(default_factory=list)
    written: int | None = None
    pool: int | None = None
    satisfying: dict[str, float] = field(default_factory=dict)
    filter_only: list[str] = field(default_factory=list)
    is_old: bool = False
    n_rows: int = 0
    left: StageStatus | None = None


def write_synthesis(
    plan: StudyPlan,
    out: Path | None,
    executor: Executor,
    show: Callable[[Row], None] = lambda row: None,
    pool: Path | None = None,
    tried: float | None = None,
) -> SynthesisReport:
    """Write synthetic sentences to a file, continuing interrupted work.

    Parameters
    ----------
    plan
        A study plan with a table ``[synthesis]``.
    out
        The CSV file (UTF-8), written when all rows are complete; None to keep nothing.
    executor
        The executor of the tasks.
    show
        Called with each row as soon as it and those before are complete.
    pool
        A CSV file for every sampled sentence with its scores, for strategies that sample a pool.
    tried
        Seconds after which to stop, after at least one task; None: not before the end.

    Raises
    ------
    InputError
        As `contstim.pipeline.running.run_study`; if a natural sentence has no score under a model;
        if `pool` is given and the strategy samples none; if a file exists and was made with other
        settings, or was changed.
    LockedError
        If another process is writing `out`.
    OutputError
        If `out` cannot be written.
    """
    table = None if out is None else StageTable(out.absolute())
    outputs = [] if table is None else [(SYNTHESIS, table)]
    if pool is not None:
        if not POOL.is_in(plan):
            strategy = plan.table(SynthesisOptions).strategy
            raise InputError(
                f"pool is for the strategy 'sample', and the strategy is {strategy!r}; leave pool "
                "out, or use the strategy 'sample'"
            )
        outputs.append((POOL, StageTable(pool.absolute())))
    report = SynthesisReport()
    with (
        _work_folder(table) as folder,
        begun(plan, [SYNTHESIS], executor, RunStore(folder), what=str(out)) as (run, engine),
    ):
        settings = json.loads(json.dumps(SYNTHESIS.settings(run)))
        is_old = [_is_there(made, settings) for _, made in outputs]  # refuses any other file
        if table is not None and all(is_old):
            with suppress(OSError):  # also what a command left that was killed at its very end
                remove(folder)
            report.is_old, report.n_rows = True, int((table.notes or {}).get("rows", 0))
            return report
        syntheses = SYNTHESIS.of(run)
        for _ in engine.run("score", syntheses.scoring):
            pass
        for _, error in engine.failed:
            raise InputError(error.removeprefix("InputError: "))
        waiting = deque(syntheses.pieces)

        def show_new() -> None:
            while waiting and (rows := syntheses.of_piece(*waiting[0])) is not None:
                waiting.popleft()
                report.rows.extend(rows)
                for row in rows:
                    show(row)

        begun_at = time.monotonic()
        for _ in engine.run(SYNTHESIS.name, lambda: SYNTHESIS.tasks(run), SYNTHESIS.expected(run)):
            show_new()
            if tried is not None and time.monotonic() - begun_at >= tried:
                break
        show_new()
        report.failed = engine.failed
        if tried is not None and run.store.left(SYNTHESIS.tasks(run)):
            from contstim.pipeline.running import status_of  # few ask what it costs

            report.left = status_of(SYNTHESIS, run)
            return report
        text, notes = SYNTHESIS.make(run)
        report.asked = notes.get("asked")
        report.written, report.pool = notes.get("written"), notes.get("pool")
        report.satisfying = notes.get("satisfying", {})
        report.filter_only = notes.get("filter_only", [])
        report.n_rows = notes["rows"]
        if not engine.failed:
            for stage, made in outputs[::-1]:  # the table of the syntheses last
                content = (text, notes) if stage is SYNTHESIS else stage.make(run)
                made.write(content[0], settings, content[1])
            if table is not None:
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
            then, now = (truncate(json.dumps(of.get(key)), 60) for of in (before, settings))
            raise InputError(
                f"{out} was made with another {key} ({then}, now {now}); choose "
                "another output, or remove it"
            )
    raise InputError(
        f"{out} is not as it was written; undo the change, choose another output, or remove the "
        "file"
    )
