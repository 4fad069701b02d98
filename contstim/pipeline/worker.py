"""A worker process: ``python -m contstim.pipeline.worker``, started by `LocalWorkers`.

Reads JSON lines from standard input, first the workplace, then tasks; answers each task with one
JSON line once its result is on the disk. Ends when the input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from types import FrameType

from contstim.errors import OutputError
from contstim.pipeline.tasks import Task
from contstim.pipeline.work import Worker, Workplace

__all__ = ["main"]


def _leave(number: int, frame: FrameType | None) -> None:
    # As an exception it removes what is half written.
    sys.exit(0)


def main() -> int:
    """Work until the input ends."""
    # Ctrl-C reaches the whole process group; the process that hands out tasks decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    # What models print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker: Worker | None = None
    for line in sys.stdin:
        if worker is None:
            workplace = Workplace(**json.loads(line))
            os.chdir(workplace.folder)
            worker = Worker(workplace)
            continue
        try:
            answer = asdict(worker.run(Task(json.loads(line))))
        except OutputError as error:
            answer = {"fatal": str(error)}
        try:
            print(json.dumps(answer), file=answers, flush=True)
        except BrokenPipeError:
            return 0  # who handed out the task is gone; the result is kept
    return 0


if __name__ == "__main__":
    sys.exit(main())
