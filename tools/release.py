"""Build and test a release, without uploading it: ``python tools/release.py``.

1. All files that state the version must agree.
2. A source distribution and a wheel are built in ``dist/``, and their metadata are checked.
3. Each of them is installed into an empty environment, in which it must print its version, score a
   sentence and, from the wheel, run the demonstration.

``--quick`` stops after step 2.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Files that state the version, with the pattern of the line.
VERSION_PATTERNS = {
    "contstim/__init__.py": r'^__version__ = "([^"]+)"$',
    "pyproject.toml": r'^version = "([^"]+)"$',
    "README.md": r"badge/version-([^-]+)-blue",
    "CITATION.cff": r"^version: (\S+)$",
    ".zenodo.json": r'^  "version": "([^"]+)",$',
    "CHANGELOG.md": r"^## (\S+) \(.+\)$",
    "docs/about/cite.md": r"^  version = \{([^}]+)\},$",
}
SENTENCE = "The dog slept near the fire."


def read_versions(root: Path) -> dict[str, str]:
    """Return the version that each file states; in the changelog, the first and newest one."""
    versions = {}
    for name, pattern in VERSION_PATTERNS.items():
        match = re.search(pattern, (root / name).read_text("utf-8"), flags=re.MULTILINE)
        versions[name] = match[1] if match else "none"
    return versions


def check_metadata(root: Path) -> list[str]:
    """Return the errors in versions and citations that prevent a release, one line each."""
    versions = read_versions(root)
    lines = []
    if len(set(versions.values())) > 1:
        lines.append(f"versions differ: {', '.join(f'{k} {v}' for k, v in versions.items())}")
    json.loads((root / ".zenodo.json").read_text("utf-8"))
    paper = (root / "paper" / "paper.md").read_text("utf-8")
    entries = set(
        re.findall(r"^@\w+\{(\w+),", (root / "paper" / "paper.bib").read_text("utf-8"), re.M)
    )
    cited = set(re.findall(r"@([a-z]+\d{4})", paper))
    lines += [f"paper.bib lacks {name}" for name in sorted(cited - entries)]
    lines += [f"paper.md does not cite {name}" for name in sorted(entries - cited)]
    return lines


def run(*command: str | Path, at: Path, env: dict[str, str] | None = None) -> str:
    """Run a command and return its standard output; exit if the command fails."""
    print("$", *command, flush=True)
    process = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    if process.returncode:
        sys.exit(f"{process.stdout}\nrelease: {command[0]} ended with status {process.returncode}")
    return process.stdout


def check_installation(archive: Path, constraints: Path, *, demo: bool) -> None:
    """Install an archive into an empty environment, and run commands outside the repository."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        pip = (programs / "python", "-m", "pip", "-qq", "install", "-c", constraints)
        run(*pip, archive, at=folder, env=env)
        command = programs / "contstim"
        print(run(command, "--version", at=folder, env=env), end="")
        (folder / "sentence.txt").write_text(f"{SENTENCE}\n", "utf-8")
        score = (command, "score", "--model", "contstim:trigram", "sentence.txt")
        scores = run(*score, at=folder, env=env)
        if SENTENCE not in scores:
            sys.exit(f"release: the output lacks the score:\n{scores}")
        print(scores, end="")
        if demo:
            print(run(command, "demo", "--out", "demo", at=folder, env=env)[-600:], end="")
            if not (folder / "demo" / "index.html").exists():
                sys.exit("release: the demonstration wrote no page")


def main() -> int:
    """Build and test the release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="stop after building and metadata")
    args = parser.parse_args()
    if errors := check_metadata(ROOT):
        sys.exit("\n".join(f"release: {error}" for error in errors))
    version = read_versions(ROOT)["pyproject.toml"]
    dist = ROOT / "dist"
    for old in (*dist.glob("contstim-*.whl"), *dist.glob("contstim-*.tar.gz")):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", dist, at=ROOT)
    wheel, source = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
    print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, source, at=ROOT), end="")
    for archive in (wheel, source):
        print(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB")
    if not args.quick:
        constraints = ROOT / "constraints.txt"
        check_installation(wheel, constraints, demo=True)
        check_installation(source, constraints, demo=False)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if f"## {version} (unreleased)" in changelog:
        print("Before the release, write its date in CHANGELOG.md in place of (unreleased).")
    print(f"contstim {version} can be released. Nothing was uploaded.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
