"""Functions for several commands: messages, output files and executors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from contstim.cli.parameters import check_output_file
from contstim.errors import InputError
from contstim.files import is_stream, replace_atomically
from contstim.text_files import format_csv

if TYPE_CHECKING:
    import pandas as pd

    from contstim.models.base import SentenceModel
    from contstim.pipeline.engine import Executor
    from contstim.pipeline.tasks import Task


def print_message(message: object) -> None:
    """Print a message on standard error, since standard output is for tables."""
    print(message, file=sys.stderr, flush=True)


def report_model(model: SentenceModel) -> None:
    """Print the name and specification of a model, and a description of its scores.

    The description states which units are scored (words, tokens or characters), whether start and
    end symbols count, and how punctuation, case and unknown words are treated.
    """
    spec = "" if model.name == model.spec else f"{model.spec}, "
    # `model.event` describes exactly which text the model assigns a log-probability to.
    print_message(f"{model.name}: {spec}{model.event}")
    if model.event.skips_first_word:
        print_message(
            f"note: {model.name} has no start token, so the first word of each sentence has no "
            "probability and is left out of its score; set one in the spec, e.g. prefix=eos or "
            "prefix=TOKEN"
        )


def report_failed_tasks(failed: Sequence[tuple[Task, str]]) -> None:
    """Print the failed tasks of a study with their errors."""
    for task, error in failed:
        print_message(f"failed: {task}: {error}")
    print_message(f"{len(failed)} tasks failed; run the same command to repeat them")


@contextmanager
def explain_interruption() -> Iterator[None]:
    """Explain that no work is lost if the user presses Ctrl-C during the ``with`` block.

    KeyboardInterrupt is raised again with a further message: the same command continues the work.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(
            *interruption.args,
            "finished results are saved; repeat the command with the same options to continue",
        ) from None


def create_executor(name: str | None) -> Executor:
    """Create the object that runs the tasks of a job: in this process, or in several processes.

    Parameters
    ----------
    name
        Option ``--executor``, for example ``local:4`` for four processes. None: run one task at a
        time in this process.
    """
    if name is None:
        from contstim.pipeline.engine import SequentialExecutor

        return SequentialExecutor()
    # Other executors run tasks in processes, in SLURM jobs or on a cluster, by means of Dask.
    from contstim.pipeline import dask_executor

    return dask_executor.create_executor(name)


def refuse_overwriting(path: str | Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output file that is also an input of the command.

    Parameters
    ----------
    path
        Path to which the output would be written.
    inputs
        Paths of the inputs; None for an omitted input.

    Raises
    ------
    InputError
        If the output is one of the inputs; the message names the file.
    """
    for source in inputs:
        is_same = False
        # A source may have no path, e.g. nltk:brown or standard input.
        with suppress(OSError, ValueError):
            is_same = source is not None and os.path.samefile(source, path)
        # Pipes and devices, such as a terminal, may be both read and written.
        if is_same and not is_stream(Path(path)):
            raise InputError(f"{path} would be both read and written; choose another output")


@contextmanager
def write_output(path: str, inputs: Iterable[str | None] = ()) -> Iterator[IO[str]]:
    """Open an output file for writing text in a ``with`` block.

    A regular file is written atomically: the text goes to a temporary file, which is renamed after
    the block, or removed if the block fails. A pipe or device is written directly.

    Parameters
    ----------
    path
        Path of the output; ``-`` is standard output.
    inputs
        Inputs of the command, which must not be overwritten.

    Yields
    ------
    IO[str]
        The open file.

    Raises
    ------
    InputError
        If `path` is one of `inputs`.
    OutputError
        If the file cannot be written.
    """
    if path == "-":
        yield sys.stdout
        return
    refuse_overwriting(path, inputs)
    check_output_file(path)
    # Write to a temporary file, which gets its name only if the block succeeds.
    with (
        replace_atomically(Path(path), hint="choose another output") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def write_table(table: pd.DataFrame, path: str, inputs: Iterable[str | None] = ()) -> None:
    """Write a table as CSV; see `write_output` for parameters and errors."""
    with write_output(path, inputs) as file:
        file.write(format_csv(table))
