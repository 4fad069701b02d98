"""Synthesis of sentences that writes one file, without a study plan on disk.

Unfinished work is stored in the folder ``.FILE.run`` beside the file, from which the same command
continues after an interruption. When all tasks are done, the file and its provenance
(``FILE.meta.json``) are written, and the folder is removed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from contstim.display import displayable
from contstim.errors import InfeasibleError, InputError, MissingExtraError, OutputError, truncate
from contstim.files import LockedError, remove
from contstim.pipeline.engine import Executor, SequentialExecutor, start_run
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import StageStatus
from contstim.pipeline.stages.synthesis import POOL_STAGE, RESULT_NOTES, SYNTHESIS_STAGE
from contstim.pipeline.store import RunStore, StageTable
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import Task
from contstim.synthesis.results import Row


@displayable
@dataclass
class SynthesisReport:
    """Report on a synthesis of sentences.

    Attributes
    ----------
    rows
        Rows of the table of synthetic sentences, in the order of the natural sentences. Empty if
        `is_up_to_date` is True.
    notes
        Settings of the synthesis and statistics of the table, for example its number of rows
        (``rows``) and the number that was requested (``requested``). If sentences were sampled from
        a language model, numbers of samples are included (`PooledSynthesisJob.collect_notes`).
    failures
        Tasks that failed and are not tried again, with their error messages. If there are any, no
        file is written.
    is_up_to_date
        Whether the file already existed and was made with the same settings.
    processor_share
        Processor time of this process divided by the elapsed time. None unless the time limit was
        reached while no other process worked on the tasks.
    status
        Progress when the time limit was reached. None if all tasks were completed in time.
    """

    rows: list[Row] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    failures: list[tuple[Task, str]] = field(default_factory=list)
    is_up_to_date: bool = False
    processor_share: float | None = None
    status: StageStatus | None = None


def write_synthesis(
    plan: StudyPlan,
    out: Path | None,
    executor: Executor,
    show: Callable[[Row], None] = lambda row: None,
    pool: Path | None = None,
    time_limit: float | None = None,
    show_progress: Callable[[str], None] = lambda line: None,
) -> SynthesisReport:
    """Synthesize sentences and write them to a file, or continue interrupted work.

    Parameters
    ----------
    plan
        Study plan with the table ``[synthesis]``.
    out
        CSV file for the rows, written when all rows are complete. None: no file.
    executor
        Executor that distributes the work, for example to several processes.
    show
        Function that is called once for each row, in order, as soon as the row is final.
    pool
        CSV file for all sampled sentences with their scores. It requires a strategy that samples
        one pool of sentences for all natural sentences.
    time_limit
        Time in seconds after which the function returns although work remains. At least one task is
        executed. None: no limit.
    show_progress
        Function that is called with a line of text after each round of sampling.

    Raises
    ------
    InputError
        If models, sentences or vocabulary cannot be read; if a model cannot score a natural
        sentence; if `pool` is given but the strategy samples no pool; if a file exists that was
        made with other settings or has been changed.
    LockedError
        If another process is writing `out`.
    OutputError
        If `out` cannot be written.
    """
    table = None if out is None else StageTable(out.absolute())
    outputs = [] if table is None else [(SYNTHESIS_STAGE, table)]
    if pool is not None:
        if not POOL_STAGE.is_in(plan):
            strategy = plan.get_options(SynthesisOptions).strategy
            raise InputError(
                f"pool needs the strategy 'sample', but the strategy is {strategy!r}; leave out "
                "pool, or use the strategy 'sample'"
            )
        outputs.append((POOL_STAGE, StageTable(pool.absolute())))
    report = SynthesisReport()
    with (
        _work_folder(table) as folder,
        start_run(
            plan, [SYNTHESIS_STAGE], executor, RunStore(folder), lock_description=str(out)
        ) as started,
    ):
        run, engine = started
        settings = json.loads(json.dumps(SYNTHESIS_STAGE.settings(run)))
        are_current = [_is_current(output, settings) for _, output in outputs]
        if table is not None and all(are_current):
            # The folder still exists if a command was interrupted while removing it.
            with suppress(OSError):
                remove(folder)
            report.is_up_to_date = True
            report.notes = table.notes or {}
            return report

        job = SYNTHESIS_STAGE.get_job(run)
        for _ in engine.run("score", job.score_tasks):
            pass
        if engine.failures:
            raise InputError(engine.failures[0][1].removeprefix("InputError: "))

        # Natural sentences with table rows that have not been shown yet, because tasks are pending.
        pending_inputs, last_line = deque(job.inputs), None

        # If sentences are sampled, the rows found so far are saved after each round.
        interim = StageTable(folder / "rows" / out.name) if out and POOL_STAGE.is_in(plan) else None
        task_settings = {**settings, "strategy": job.task_strategy}
        earlier_notes = interim and interim.notes
        if difference := earlier_notes and _describe_difference(earlier_notes, task_settings):
            show_progress(f"the interrupted work had {difference}; affected results are repeated")

        def save_found_rows() -> None:
            """Save the rows found so far in the folder for unfinished work."""
            if interim is not None:
                text, notes = SYNTHESIS_STAGE.make_table(run)
                interim.write(text, settings, {**notes, **task_settings})

        save_found_rows()
        start_time, start_processor_time = time.monotonic(), time.process_time()
        n_expected = SYNTHESIS_STAGE.count_expected_tasks(run)
        try:
            # Sampling ends when enough sentences have been found.
            list_tasks, may_end_early = lambda: SYNTHESIS_STAGE.tasks(run), POOL_STAGE.is_in(plan)
            tasks = engine.run(SYNTHESIS_STAGE.name, list_tasks, n_expected, may_end_early)
            for _ in chain(tasks, [None]):  # after each task, and at the end
                # Show rows in the order of the natural sentences. Stop at the first sentence with
                # rows that can still change, for which `find_rows` returns None.
                while pending_inputs and (rows := job.find_rows(*pending_inputs[0])) is not None:
                    pending_inputs.popleft()
                    report.rows.extend(rows)
                    for row in rows:
                        show(row)
                # Show a line of progress only if it has changed.
                line = job.describe_progress()
                if line is not None and line != last_line:
                    show_progress(line)
                    save_found_rows()
                last_line = line
                if time_limit is not None and time.monotonic() - start_time >= time_limit:
                    break
        except KeyboardInterrupt as interruption:
            if interim and (notes := interim.notes):
                numbers = f"{notes['rows']} of {notes['requested']} rows"
                interruption.args = (f"{numbers} were found, see {interim.path}",)
            raise
        report.failures = engine.failures
        if time_limit is not None and run.store.find_missing(SYNTHESIS_STAGE.tasks(run)):
            if isinstance(executor, SequentialExecutor):
                n_seconds = time.monotonic() - start_time
                report.processor_share = (time.process_time() - start_processor_time) / n_seconds
            report.status = SYNTHESIS_STAGE.compute_status(run)
            return report

        text, report.notes = SYNTHESIS_STAGE.make_table(run)
        if engine.failures:
            return report
        # Write the table of the synthesis last, because it shows that the work is finished.
        for stage, output in reversed(outputs):
            if stage is not SYNTHESIS_STAGE:
                pool_text, pool_notes = stage.make_table(run)
                output.write(pool_text, settings, pool_notes)
            else:
                output.write(text, settings, report.notes)
        if table is not None:
            remove(folder)
    return report


@contextmanager
def _work_folder(table: StageTable | None) -> Iterator[Path]:
    """Provide a folder for unfinished work, as a context manager.

    If an output file is given, the folder is created beside it. The folder remains after an
    interruption, so that the same command can continue the work. It is removed if invalid input
    ended the work before the first result. Without an output file, the folder is temporary.

    Parameters
    ----------
    table
        Output file. None if the results are not written to a file.

    Yields
    ------
    folder : Path
        Existing folder.

    Raises
    ------
    OutputError
        If the output file or the folder cannot be written.
    """
    if table is None:
        with tempfile.TemporaryDirectory(prefix="contstim-") as name:
            yield Path(name)
        return
    out, folder = table.path, table.work_folder
    try:
        if out.is_dir():
            raise OutputError(f"cannot write {out}: it is a folder; give a file name")
        # Files are first written under a temporary name, which is longer by 16 random digits. Test
        # in advance whether the file system permits the longest of these names. The result of
        # `exists` does not matter: it raises OSError if the name is too long.
        table.meta_path.with_name(f".{table.meta_path.name}.{'0' * 16}.tmp").exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write {out}: {reason}; choose another output") from None
    # Let the caller work in the folder. If the work fails, delete the folder unless it contains
    # something that is still needed.
    try:
        yield folder
    except LockedError:
        raise  # Another process works in the folder, so it is not deleted.
    except (InputError, InfeasibleError, MissingExtraError):
        # The subfolder `tasks` contains the results of completed tasks. Without it, there is no
        # work that could be continued.
        if not (folder / "tasks").is_dir():
            remove(folder)
        raise


def _is_current(table: StageTable, settings: dict[str, Any]) -> bool:
    """Return whether the output file already exists and was made with the same settings.

    Parameters
    ----------
    table
        Output file, with the settings recorded in a second file.
    settings
        Settings of the current command, as JSON values by name.

    Raises
    ------
    InputError
        If the file exists but was made with other settings, or if its settings are unknown. It
        would otherwise be overwritten.
    """
    out, notes = table.path, table.notes
    # The notes contain the settings with which the existing file was made.
    if not out.is_file():
        return False
    if table.is_current(settings):
        return True
    if notes is None:
        raise InputError(
            f"{out} exists, but {table.meta_path.name} beside it cannot be read, so the work "
            "cannot be continued; choose another output, or remove the file"
        )
    # Refuse to overwrite the file, and name the first setting that differs.
    if difference := _describe_difference(notes, settings):
        raise InputError(f"{out} was made with {difference}; choose another output, or remove it")
    raise InputError(
        f"{out} has been changed since it was written; undo the change, choose another output, or "
        "remove the file"
    )


def _describe_difference(notes: dict[str, Any], settings: dict[str, Any]) -> str | None:
    """Describe the first setting that differs from the notes on a table; None if all are equal."""
    for key in sorted({*notes, *settings} - {*RESULT_NOTES}):
        if notes.get(key) != settings.get(key):
            before = truncate(json.dumps(notes.get(key)), 60)
            now = truncate(json.dumps(settings.get(key)), 60)
            return f"another {key} ({before}, now {now})"
    return None
