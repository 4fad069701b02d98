"""What a file of one's own makes of masked metrics, and what a script adds in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
from tiny_transformers import save_checkpoint

import contstim
from contstim.models.hf.metrics import METRICS
from contstim.selection.triplets import OBJECTIVES, triplet_objective

OWN = Path(__file__).parent / "own"


def added(folder: Path, name: str, room: str, listing: str, edits: dict[str, str]) -> Path:
    """Copy the package with the file `name` in `room`; return where Python finds it.

    Parameters
    ----------
    edits
        What is put before which line of the module `listing`.
    """
    package = folder / "site" / "contstim"
    skipped = shutil.ignore_patterns("__pycache__")
    # Links, since the bundled models are many megabytes.
    shutil.copytree(
        Path(contstim.__file__).parent, package, copy_function=os.symlink, ignore=skipped
    )
    shutil.copy(OWN / f"{name}.py", package / room / f"{name}.py")
    text = (package / listing).read_text("utf-8")
    for line, new in edits.items():
        assert text.count(line) == 1, line
        text = text.replace(line, new + line)
    (package / listing).unlink()
    (package / listing).write_text(text, "utf-8")
    return package.parent


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the copy, in the folder that holds it: not beside the package itself."""
    return run_code(site, "import sys; from contstim.cli import main; sys.exit(main())", *words)


def run_code(site: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=site.parent,
    )


def test_a_metric(tmp_path: Path) -> None:
    site = added(
        tmp_path,
        "word_r2l",
        "models/hf",
        "models/hf/checkpoint.py",
        {
            "from contstim.models.hf.metrics import METRICS\n": (
                "from contstim.models.hf.word_r2l import word_r2l\n"
            ),
            "MASKED_OPTIONS = ": 'METRICS["pll-word-r2l"] = word_r2l\n',
        },
    )
    folder = save_checkpoint("bert", tmp_path / "bert")
    sentence = "the unhappy dog barks"
    (tmp_path / "text.txt").write_text(f"{sentence}\n", "utf-8")
    ended = run(
        site, "score", "--model", f"hf:{folder}?metric=pll-word-r2l", str(tmp_path / "text.txt")
    )
    assert ended.returncode == 0, ended.stderr
    header, row = ended.stdout.splitlines()
    found = dict(zip(header.split(","), row.split(","), strict=True))["log_prob"]
    # By brute force: each token with itself and the earlier tokens of its word hidden.
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    encoded = tokenizer(sentence)
    ids, words = encoded["input_ids"], encoded.word_ids()
    assert words.count(1) > 2  # "unhappy"
    expected = 0.0
    for place, word in enumerate(words):
        if word is None:
            continue
        hidden = [p for p in range(place + 1) if words[p] == word]
        given = [tokenizer.mask_token_id if p in hidden else t for p, t in enumerate(ids)]
        with torch.no_grad():
            logits = network(torch.tensor([given])).logits[0, place].double()
        expected += float(logits.log_softmax(dim=0)[ids[place]])
    assert float(found) == pytest.approx(expected, abs=1e-4)


def test_from_outside_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(OWN)
    own = {name: import_module(name) for name in ("word_r2l", "best_of_some")}
    monkeypatch.setitem(METRICS, "pll-word-r2l", own["word_r2l"].word_r2l)
    spec = f"hf:{save_checkpoint('bert', tmp_path / 'bert')}?metric="
    models = [contstim.load_model(spec + name) for name in ("pll-word-r2l", "pll")]
    one, other = (model.score(["the unhappy dog barks"])[0] for model in models)
    assert one != pytest.approx(other, abs=1e-4)
    monkeypatch.setitem(OBJECTIVES, "first", None)  # forgotten again afterwards
    triplet_objective("first", larger_is_better=False)(lambda rows: rows["natural_lp_1"])
    values = {"model_1": "a", "model_2": "b", "natural": ["n", "m"]}
    values |= {f"synthetic_{side}": ["s", "t"] for side in (1, 2)}
    kinds = ("natural", "synthetic_1", "synthetic_2")
    values |= {f"{kind}_lp_{model}": [-2.0, -3.0] for kind in kinds for model in (1, 2)}
    options = {"objective": "first", "per_pair": 1, "strata": 1}
    chosen = contstim.select_triplets(pd.DataFrame(values), **options)
    assert list(chosen["natural"]) == ["m"]
    reject, accept = (contstim.load_model(f"contstim:{name}") for name in ("bigram", "trigram"))
    strategy = own["best_of_some"].BestOfSome(5)
    text = "The dog slept near the fire."
    found = contstim.synthesize(text, reject=reject, accept=accept, strategy=strategy)
    assert found.loss < 0
