"""A SLURM job array on one machine; needs ``CONTSTIM_SLURM=1``.

Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge; the daemons run on
ports and files of the test's own, and end with it.
"""

import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_study import make_study, run_alone, tables

from contstim.cli import main

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        os.environ.get("CONTSTIM_SLURM") != "1" or shutil.which("slurmctld") is None,
        reason="starts SLURM's daemons as root; set CONTSTIM_SLURM=1 where they are installed",
    ),
]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort=26817
SlurmdPort=26818
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


JOB_ARRAY = """\
#!/bin/bash
#SBATCH --job-name=small
#SBATCH --array=1-3
#SBATCH --cpus-per-task=1
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=small-%a.log
exec {called} run {file} --shard "$SLURM_ARRAY_TASK_ID/3"
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Start the daemons of SLURM in a folder, and stop them after the test."""
    folder = tmp_path / "slurm"
    for part in (folder, folder / "state", folder / "spool"):
        part.mkdir()
    # munged refuses a socket that others cannot reach.
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    conf = folder / "slurm.conf"
    conf.write_text(CONFIGURATION.format(host=platform.node(), folder=folder), "utf-8")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    files = ("key-file=munge.key", "socket=munge.socket", "pid-file=munge.pid")
    places = [f"--{k}={folder / v}" for k, v in (text.split("=") for text in files)]
    logs = [f"--log-file={folder / 'munge.log'}", f"--seed-file={folder / 'munge.seed'}"]
    subprocess.run(["munged", "--force", *places, *logs], check=True)
    subprocess.run(["slurmctld"], check=True)
    subprocess.run(["slurmd"], check=True)
    yield folder
    for name in ("slurmd", "slurmctld", "munge"):
        pid = folder / f"{name}.pid"
        if pid.exists():
            os.kill(int(pid.read_text("ascii")), signal.SIGTERM)


def test_job_array_gives_equal_tables(slurm: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    file = make_study(study)
    assert main(["run", str(file), "--out", str(tmp_path / "whole")]) == 0
    called = tmp_path / "bin" / "contstim"
    called.parent.mkdir()
    package = Path(__file__).parents[2]
    code = "import sys; from contstim.cli import main; sys.exit(main())"
    called.write_text(
        f"#!/bin/bash\nexport PYTHONPATH={package}\nexec {sys.executable} -c '{code}' \"$@\"\n",
        "utf-8",
    )
    called.chmod(0o755)
    script = study / "shards.sh"
    script.write_text(JOB_ARRAY.format(called=called, file=file), "utf-8")
    job = subprocess.run(
        ["sbatch", "--parsable", str(script)],
        check=True,
        cwd=study,
        capture_output=True,
        text=True,
    ).stdout.strip()
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        queue = subprocess.run(
            ["squeue", "--noheader", "--job", job], capture_output=True, text=True, check=False
        )
        if not queue.stdout.strip():
            break
        time.sleep(1)
    logs = {path.name: path.read_text("utf-8") for path in sorted(study.glob("*.log"))}
    assert sorted(logs) == ["small-1.log", "small-2.log", "small-3.log"], logs
    assert all("done in" in text for text in logs.values()), logs
    assert len([*(study / "runs" / "small" / "tasks").rglob("*.json")]) == 24
    assert not (study / "runs" / "small" / "scores.csv").exists()
    merged = run_alone(str(file))
    assert merged.returncode == 0, merged.stderr
    # Nothing was left for the run that makes the tables.
    assert "synthesis: " not in merged.stderr
    assert tables(study / "runs" / "small") == tables(tmp_path / "whole")
