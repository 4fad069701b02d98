"""Try a release: ``python tools/release.py``. Nothing is uploaded anywhere.

Everything that states the version must state the same one. A source distribution and a wheel are
built into ``dist/`` and checked, and each is installed into an environment with nothing else in it,
which then has to show its version, score a sentence and, from the wheel, run the demonstration.
``--quick`` stops after the metadata.
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
#: Where the version stands, and what is around it.
PLACES = {
    "contstim/__init__.py": r'^__version__ = "([^"]+)"$',
    "pyproject.toml": r'^version = "([^"]+)"$',
    "CITATION.cff": r"^version: (\S+)$",
    ".zenodo.json": r'^  "version": "([^"]+)",$',
    "CHANGELOG.md": r"^## (\S+) \(.+\)$",
    "docs/about/cite.md": r"^  version = \{([^}]+)\},$",
}
SENTENCE = "The dog slept near the fire."


def versions(root: Path) -> dict[str, str]:
    """Return the version that each file states: the first, and so the newest, of the changelog."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, (root / name).read_text("utf-8"), flags=re.MULTILINE)
        found[name] = match[1] if match else "none"
    return found


def faults(root: Path) -> list[str]:
    """Return what speaks against a release, one line each."""
    stated = versions(root)
    lines = []
    if len(set(stated.values())) > 1:
        lines.append(f"versions differ: {', '.join(f'{k} {v}' for k, v in stated.items())}")
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
    """Run a command that has to succeed; return what it prints."""
    print("$", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nrelease: {command[0]} ended with status {done.returncode}")
    return done.stdout


def try_out(archive: Path, constraints: Path, *, demo: bool) -> None:
    """Install an archive into an empty environment and use it there, far from the sources."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        tools = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        run(
            tools / "python",
            "-m",
            "pip",
            "-qq",
            "install",
            "-c",
            constraints,
            archive,
            at=place,
            env=clean,
        )
        command = tools / "contstim"
        print(run(command, "--version", at=place, env=clean), end="")
        (place / "one.txt").write_text(f"{SENTENCE}\n", "utf-8")
        scores = run(
            command, "score", "--model", "contstim:trigram", "one.txt", at=place, env=clean
        )
        if SENTENCE not in scores:
            sys.exit(f"release: the score is not there:\n{scores}")
        print(scores, end="")
        if demo:
            print(run(command, "demo", "--out", "demo", at=place, env=clean)[-600:], end="")
            if not (place / "demo" / "index.html").exists():
                sys.exit("release: the demonstration wrote no page")


def main() -> int:
    """Try it, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="stop after building and metadata")
    args = parser.parse_args()
    if lines := faults(ROOT):
        sys.exit("\n".join(f"release: {line}" for line in lines))
    version = versions(ROOT)["pyproject.toml"]
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
        try_out(wheel, constraints, demo=True)
        try_out(source, constraints, demo=False)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if f"## {version} (unreleased)" in changelog:
        print("Before the release, write its date in CHANGELOG.md in place of (unreleased).")
    print(f"contstim {version} can be released. Nothing was uploaded.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
