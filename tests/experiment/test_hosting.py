"""Test the requirements of the server, its health check and pilot data.

Tests `contstim.experiment.commands.experiment`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from client_messages import play
from starlette.testclient import TestClient
from studies import add

from contstim.cli import main
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study

ROOT = Path(__file__).parents[2]

#: What is imported, and by what name it is installed; these come with others of the list.
OF_OTHERS = {
    "annotated-types", "anyio", "attrs", "click", "h11", "idna", "pydantic_core",
    "python-dateutil", "six", "sniffio", "typing-inspection",
    "typing_extensions", "setuptools", "contstim", "MarkupSafe",
}  # fmt: skip

IMPORTS = """
import sys
from importlib.metadata import packages_distributions
import contstim.experiment.commands.experiment
import contstim.experiment.serving, contstim.experiment.exporting
known = packages_distributions()
print(*sorted({d for n in {m.split(".")[0] for m in sys.modules} for d in known.get(n, [])}))
"""


def test_server_requirements_match_its_imports() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, cwd=ROOT
    )
    lines = (ROOT / "deploy" / "requirements.txt").read_text("utf-8").splitlines()
    named = {m[0] for line in lines if (m := re.match(r"[a-z0-9]+", line))}
    assert {name.lower() for name in {*done.stdout.split()} - OF_OTHERS} == named
    # The same bounds as the package's own.
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(f'"{line}"' in project for line in lines if line[:1].isalpha())


def test_server_starts_without_heavy_imports() -> None:
    code = (
        "import contstim.experiment.commands.experiment, contstim.experiment.serving, sys; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "contstim.experiment.store" in done.stdout.split()
    assert not {"pandas", "numpy", "torch"} & {*done.stdout.split()}


def test_health_check_fails_without_the_data_file(study: Study) -> None:
    with TestClient(make_app(Store(study), "a-token-of-the-tests")) as client:
        assert client.get("/health").json() == {"status": "ok"}
        (study.folder / "collected.sqlite3").rename(study.folder / "away")
        assert client.get("/health").status_code == 503
        (study.folder / "away").rename(study.folder / "collected.sqlite3")
        assert client.get("/health").status_code == 200


FULL = """
import resource, signal, sys
from pathlib import Path
from starlette.testclient import TestClient
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import read_study
store = Store(read_study(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with TestClient(make_app(store, "a-token-of-the-tests")) as client:
    print(client.get("/health").status_code)
    log = store.path.with_name(store.path.name + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, resource.RLIM_INFINITY))
    print(client.get("/health").status_code, client.get("/health").status_code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(client.get("/health").status_code)
"""


def test_health_check_fails_on_a_full_disk(study: Study) -> None:
    command = [sys.executable, "-c", FULL, str(study.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["200", "503", "503", "200"]


def test_pilot_data_are_separate(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = add(study, "")
    with Store(study, study.folder / "pilot.sqlite3") as store:
        play(store, "ME")
    out = ["--out", str(tmp_path / "out")]
    assert main(["experiment", "export", str(study.folder), *out]) == 2
    assert "there are no data" in capsys.readouterr().err
    assert main(["experiment", "export", str(study.folder), "--pilot", *out]) == 0
    assert "6 choices of 1 participants" in capsys.readouterr().out


def test_consent_form_with_placeholders_is_rejected(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Study] = []
    monkeypatch.setattr(
        "contstim.experiment.commands.experiment.serve_study", lambda one, *_: served.append(one)
    )
    command = ["experiment", "serve", str(study.folder)]
    assert main(command) == 2
    assert "consent.md still has passages marked [[ ... ]]; write your own text there, or try" in (
        capsys.readouterr().err
    )
    assert main([*command, "--pilot"]) == 0
    (study.folder / "consent.md").write_text("Taking part is voluntary.\n", "utf-8")
    assert main(command) == 0
    assert len(served) == 2
