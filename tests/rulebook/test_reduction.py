"""A custom reduction: in specs of commands and study plans, and in Python."""

import pandas as pd
import pytest
from small_study import make_study

from contstim import check_model, load_model
from contstim.errors import SpecError
from contstim.models.cache import describe_model
from contstim.models.registry import score_kind

PLAIN = "contstim:bigram"
SENTENCES = ["The dog ran.", "The old man saw a dog near the house.", "The dog slept."]


@pytest.fixture
def root(add_extension):
    """Install the reduction `root`."""
    add_extension("root_length", "contstim.reductions", "root = ROOT")


def test_custom_reduction_in_commands_and_study_plans(root, run, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    models = ["--model", PLAIN, "--model", f"{PLAIN}?reduction=root"]
    ended = run("score", *models, "text.txt", "--out", "scores.csv")
    assert ended.returncode == 0, ended.stderr
    plain, reduced = (rows for _, rows in pd.read_csv("scores.csv").groupby("model"))
    expected = plain["log_prob"].to_numpy() / plain["n_tokens"].to_numpy() ** 0.5
    assert reduced["log_prob"].to_numpy() == pytest.approx(expected)
    assert set(reduced["unit"]) == {"nats, root-normalised"}
    plan = make_study(tmp_path)
    text = plan.read_text("utf-8").replace("3.arpa?punctuation=split", "3.arpa?reduction=root")
    plan.write_text(text.replace("?reduction", "?punctuation=split&reduction"), "utf-8")
    ended = run("run", plan.name, "--out", "out")
    assert ended.returncode == 0, ended.stderr
    triplets = pd.read_csv("out/triplets.csv")
    spec = "ngram:3.arpa?punctuation=split&reduction=root"
    assert spec in {*triplets["model_1"], *triplets["model_2"]}


def test_custom_reduction_in_python(root):
    model = load_model(f"{PLAIN}?reduction=root")
    check_model(model, SENTENCES)
    assert score_kind(model.spec) == model.kind
    assert describe_model(model)["packages"]["root-length"] == "1.5"
    with pytest.raises(SpecError) as error:
        load_model(f"{PLAIN}?reduction=roots")
    assert str(error.value) == (
        f"reduction='roots' in '{PLAIN}?reduction=roots': did you mean 'root'?"
    )
