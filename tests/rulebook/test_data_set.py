"""A custom data set: in the list, from a folder, and as a benchmark."""

import hashlib
from pathlib import Path

import pandas as pd
import pytest

TABLE = """verb,good,bad,people
be,The dogs are here.,The dogs is here.,1.0
be,The boys are here.,The boys is here.,0.9
run,The dogs run.,The dogs runs.,0.8
run,The boys run.,The boys runs.,0.9
"""


@pytest.fixture
def two_verbs(add_extension, tmp_path, monkeypatch):
    """Install the package with the digest of the table that is made here."""
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    add_extension("two_verbs", "contstim.datasets", "two-verbs = TWO_VERBS")
    module = tmp_path / "site" / "two_verbs.py"
    digest = hashlib.sha256(TABLE.encode()).hexdigest()
    text = module.read_text("utf-8").replace("DIGEST", digest)
    module.write_text(text.replace("175", str(len(TABLE))), "utf-8")
    Path("mine").mkdir()
    Path("mine/table.csv").write_text(TABLE)


def test_custom_data_set(two_verbs, run):
    ended = run("benchmark")
    assert "two-verbs    agreement of two verbs" in ended.stdout, ended.stderr
    words = ["benchmark", "two-verbs", "--from", "mine", "--out", "out"]
    ended = run(*words, "--model", "contstim:trigram?unknown=unk")
    assert ended.returncode == 0, ended.stderr
    results = pd.read_csv("out/results.csv").query("analysis == 'all'")
    assert results["benchmark"].tolist() == ["two-verbs/pairs"]
    assert results["ceiling_lower"].tolist() == pytest.approx([0.9])
    Path("mine/table.csv").write_text(TABLE + "be,We are.,We is.,1\n")
    ended = run(*words)
    error = (
        "contstim: mine has no file pairs.csv as two-verbs was published; download "
        "http://example.org/pairs.csv into it\n"
    )
    assert (ended.returncode, ended.stderr) == (2, error)
