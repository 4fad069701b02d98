"""Token counts of stimuli, and constraints on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_transformers import save_checkpoint
from transformers import AutoTokenizer

from contstim import Vocabulary, load_model, synthesize
from contstim.cli import main
from contstim.errors import InputError
from contstim.selection.tokens import add_token_counts
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem

WORDS = ["The", "A", "the", "dog", "dogs", "cat", "old", "saw", "us", "ran", "barked", "unhappy"]
NATURAL = "The dogs saw us"


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tokens")
    names = ("gpt2", "bert")
    one, two = (f"hf:{save_checkpoint(name, folder / name)}" for name in names)
    return one, two


def _n_tokens(spec: str, text: str) -> int:
    tokenizer = AutoTokenizer.from_pretrained(spec.removeprefix("hf:"))
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_add_token_counts_adds_columns_per_sentence_and_model(specs: tuple[str, str]) -> None:
    row = {"model_1": specs[0], "model_2": specs[1], "natural": "the old dog"}
    row |= {"synthetic_1": "the unhappy dog", "synthetic_2": "us"}
    table = add_token_counts(pd.DataFrame([row]))
    assert list(table.columns) == [
        *row,
        *(f"{c}_tokens_{k}" for c in ("natural", "synthetic_1", "synthetic_2") for k in (1, 2)),
    ]
    for column in ("natural", "synthetic_1", "synthetic_2"):
        for k, spec in enumerate(specs, start=1):
            assert table.loc[0, f"{column}_tokens_{k}"] == _n_tokens(spec, row[column])
    words = add_token_counts(pd.DataFrame([{**row, "model_1": "contstim:bigram"}]))
    # A model of words has as many as it scores: the end as well.
    assert words["natural_tokens_1"].tolist() == [4]
    with pytest.raises(InputError, match="the table has no sentences"):
        add_token_counts(pd.DataFrame([row])[["natural"]])


def test_token_counts_are_missing_for_score_tables(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("sentence,log_prob\nA dog slept.,-20\nThe cat ran.,-18\n")
    row = {"model_1": f"table:{path}", "model_2": "contstim:bigram"}
    row |= {"sentence_1": "A dog slept.", "sentence_2": "The cat ran."}
    told = pd.DataFrame([row, {**row, "model_1": "contstim:bigram"}], index=[5, 7])
    counts = add_token_counts(told).filter(like="tokens")
    assert counts["sentence_1_tokens_1"].isna().tolist() == [True, False]
    assert counts.drop(columns="sentence_1_tokens_1").iloc[1].tolist() == [5, 5, 5]
    assert counts.to_csv(index=False).splitlines()[1:] == [",5,,5", "5,5,5,5"]


@pytest.mark.parametrize("strategy", ["edit", "edit?candidates=all"])
def test_same_tokens_edits_preserve_token_counts(specs: tuple[str, str], strategy: str) -> None:
    one, two = map(load_model, specs)
    words = Vocabulary.from_words(WORDS)
    natural = NATURAL
    held = Problem((one,), (two,), edits=Edits(same_tokens=True))
    free = synthesize(natural, reject=one, accept=two, vocabulary=words, strategy=strategy)
    result = synthesize(natural, problem=held, vocabulary=words, strategy=strategy)
    assert result.loss < 0
    assert result.sentence != free.sentence
    counts = [[_n_tokens(spec, text) for spec in specs] for text in (natural, result.sentence)]
    assert counts[0] == counts[1]
    assert counts[0] != [_n_tokens(spec, free.sentence) for spec in specs]
    # Nor would a single word that keeps the numbers better it, as all of them tell.
    if strategy == "edit?candidates=all":
        base = result.sentence.split()
        near = [" ".join([*base[:p], word, *base[p + 1 :]]) for p in range(4) for word in WORDS]
        near = [
            text
            for text in near
            if text.split()[0] in ("The", "A") and len({*text.lower().split()}) == 4
            if [_n_tokens(spec, text) for spec in specs] == counts[0]
        ]
        kept = two.score(near) >= two.score([natural])[0]
        assert (one.score(near)[kept] >= one.score([result.sentence])[0] - 1e-4).all()


def test_commands_write_and_constrain_token_counts(
    specs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(rng.choice(WORDS, 4, replace=False)) for _ in range(300)})
    Path("natural.txt").write_text("\n".join(texts) + "\n", "utf-8")
    models = [part for spec in specs for part in ("--model", spec)]
    assert main(["score", *models, "natural.txt", "--out", "scores.csv"]) == 0
    select = ["select", "natural", "scores.csv", "--per-pair", "2", "--constraint", "equal:tokens"]
    assert main([*select, "--tokens", "--out", "pairs.csv"]) == 0
    pairs = pd.read_csv("pairs.csv")
    for k in (1, 2):
        assert (pairs[f"sentence_1_tokens_{k}"] == pairs[f"sentence_2_tokens_{k}"]).all()
    Path("words.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    written = ["synthesize", "The old dog ran", "--pair", *specs, "--vocabulary", "words.txt"]
    assert (
        main([*written, "--edits", "same-tokens", "--max-word-share", "1", "--out", "triplets.csv"])
        == 0
    )
    triplets = add_token_counts(pd.read_csv("triplets.csv"))
    assert len(triplets) == 1
    for k in (1, 2):
        for which in ("synthetic_1", "synthetic_2"):
            assert (triplets[f"{which}_tokens_{k}"] == triplets[f"natural_tokens_{k}"]).all()


def test_add_token_counts_of_an_empty_table(specs: tuple[str, str]) -> None:
    empty = pd.DataFrame(columns=["model_1", "model_2", "natural"])
    assert list(add_token_counts(empty).columns) == [
        *empty.columns,
        "natural_tokens_1",
        "natural_tokens_2",
    ]
