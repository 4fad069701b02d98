"""Test that the server under load loses no acknowledged answer when it is killed."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_server_loses_no_acknowledged_answer() -> None:
    """The script fails if an answer is lost, repeated or changed, or if groups are unbalanced."""
    options = ["--participants", "6", "--trials", "10", "--kills", "2", "--patience", "120"]
    command = [sys.executable, str(ROOT / "benchmarks" / "experiment.py"), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^\| (undisturbed|server killed 2 times) \| 60 \| 0 \| 0 ", done.stdout, re.M
    )
    assert len(rows) == 2
