"""The script of a SLURM job array that does a run's tasks in shards."""

from __future__ import annotations

import shlex
from pathlib import Path

from contstim.errors import InputError

__all__ = ["slurm_script"]

_SCRIPT = """\
#!/bin/bash
# Submit with: sbatch --parsable SCRIPT
# When all jobs of the array are done, make the tables (this also does what jobs left undone):
#   sbatch --dependency=afterany:JOBID --wrap {merge}
#SBATCH --job-name={name}
#SBATCH --array=1-{shards}
#SBATCH --cpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={name}-%a.log
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec {command} --shard "$SLURM_ARRAY_TASK_ID/{shards}"
"""


def slurm_script(file: Path, name: str, shards: int, command: str) -> str:
    """Return a job array's script: job i does shard i of `shards`; no other software is needed.

    Parameters
    ----------
    file
        The study plan, on a file system that all nodes share.
    name
        The jobs' name.
    shards
        The number of jobs.
    command
        What runs contstim on a node, e.g. ``~/.venv/bin/contstim``.

    Raises
    ------
    InputError
        If there is no shard.
    """
    if shards < 1:
        raise InputError(f"a job array of {shards} jobs does nothing; give at least 1")
    run = f"{command} run {shlex.quote(str(file.resolve()))}"
    return _SCRIPT.format(name=name, shards=shards, command=run, merge=shlex.quote(run))
