"""A custom metric of masked models: in specs of commands and study plans, and in Python."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from tiny_transformers import save_checkpoint
from transformers import AutoModelForMaskedLM, AutoTokenizer

from contstim import check_model, load_model
from contstim.models.cache import describe_model

SENTENCE = "the unhappy dog barks"

PLAN = """\
models = ["contstim:bigram?unknown=unk", "hf:bert?metric=pll-word-r2l"]

[study]
name = "metrics"

[sentences]
file = "text.txt"

[natural]
per_pair = 1
"""


def _by_brute_force(folder: Path) -> float:
    """Score with each token and the earlier tokens of its word hidden."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForMaskedLM.from_pretrained(folder).eval()
    encoded = tokenizer(SENTENCE)
    ids, words = encoded["input_ids"], encoded.word_ids()
    assert words.count(1) > 2  # "unhappy"
    total = 0.0
    for place, word in enumerate(words):
        if word is not None:
            hidden = [p for p in range(place + 1) if words[p] == word]
            row = [tokenizer.mask_token_id if p in hidden else t for p, t in enumerate(ids)]
            with torch.no_grad():
                logits = network(torch.tensor([row])).logits[0, place].double()
            total += float(logits.log_softmax(dim=0)[ids[place]])
    return total


def test_custom_metric(add_extension, run, tmp_path):
    add_extension("word_r2l", "contstim.metrics", "pll-word-r2l = word_r2l")
    expected = _by_brute_force(save_checkpoint("bert", tmp_path / "bert"))
    others = [f"{a} {b} {c}" for a in ("the", "a") for b in ("dog", "cat") for c in ("ran", "saw")]
    (tmp_path / "text.txt").write_text("\n".join([SENTENCE, *others]) + "\n", "utf-8")
    (tmp_path / "study.toml").write_text(PLAN, "utf-8")
    spec = "hf:bert?metric=pll-word-r2l"
    ended = run("score", "--model", spec, "text.txt", "--out", "scores.csv")
    assert ended.returncode == 0, ended.stderr
    assert pd.read_csv("scores.csv")["log_prob"][0] == pytest.approx(expected, abs=1e-4)
    ended = run("run", "study.toml", "--out", "out")
    assert ended.returncode == 0, ended.stderr
    scores = pd.read_csv("out/scores.csv").set_index(["model", "sentence"])["log_prob"]
    assert scores[spec, SENTENCE] == pytest.approx(expected, abs=1e-4)
    model = load_model(spec)
    check_model(model, [SENTENCE, *others[:2]], words=["dog", "unhappy"])
    assert describe_model(model)["packages"]["word-r2l"] == "1.5"
