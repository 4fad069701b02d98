"""Test the study of Kauf and Ivanova (2023) on small models and data."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from tiny_transformers import save_checkpoint

from contstim.benchmarks.pairs import pair_accuracy, read_minimal_pairs
from contstim.models.registry import load_model

FOLDER = Path(__file__).parents[2] / "experiments" / "kauf2023"
SENTENCES = [
    "The dog saw a cat.",
    "The old man barked.",
    "A woman saw the unhappy dogs slowly.",
    "The cats ran fast at us.",
    "A dog ran.",
]
PAIRS = [
    ("The dogs bark.", "The dogs barks."),
    ("A cat saw us.", "A cats saw us."),
    ("The man ran.", "The man run."),
]


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    """Return the module of the script."""
    names = ("run", "study", "figures")
    sys.path.insert(0, str(FOLDER))
    try:
        import run

        yield run
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data, and the checkpoints ``roberta`` and ``gpt2``."""
    root = tmp_path_factory.mktemp("kauf")
    for name in ("roberta", "gpt2"):
        save_checkpoint(name, root / name)
    (root / "events").mkdir()
    (root / "blimp").mkdir()
    for name, own in (("One", SENTENCES), ("Two", SENTENCES[1:])):
        table = pd.DataFrame({"ItemNum": range(len(own)), "Sentence": own})
        table.to_csv(root / "events" / f"{name}_sentences.csv", index=False)
    with zipfile.ZipFile(root / "blimp" / "blimp.zip", "w") as archive:
        for uid, term in (("first", "agreement"), ("second", "agreement"), ("third", "binding")):
            lines = [
                json.dumps({"sentence_good": g, "sentence_bad": b, "linguistics_term": term})
                for g, b in (PAIRS if uid != "second" else PAIRS[::-1])
            ]
            archive.writestr(f"blimp/{uid}.jsonl", "\n".join(lines))
    return root


def test_script_writes_tables_and_figures(
    study: ModuleType,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    masked, gpt2, out = (
        f"hf:{data_folder / 'roberta'}",
        f"hf:{data_folder / 'gpt2'}",
        data_folder / "out",
    )
    arguments = [
        "run.py",
        "--data",
        str(data_folder),
        "--out",
        str(out),
        "--model",
        masked,
        "--causal",
        gpt2,
    ]
    monkeypatch.setattr(sys, "argv", [*arguments, "--pairs", "2", "--orders", "4"])
    assert study.main() == 0
    shown = capsys.readouterr().out
    assert "Pearson correlations" in shown
    assert "BLiMP, accuracy on 6 pairs" in shown

    table = pd.read_csv(out / "correlations.csv").set_index(["model", "metric", "set", "relation"])
    causal = load_model(gpt2).score(SENTENCES)
    for metric in study.PLL_METRICS:
        model = load_model(f"{masked}?metric={metric}")
        totals = model.score_with_counts(SENTENCES)
        for relation, x, y in (
            ("length_tokens", totals.n_tokens, -totals.score),
            ("length_words", totals.n_words, -totals.score),
            ("causal", causal, totals.score),
        ):
            row = table.loc[(masked, metric, "One", relation)]
            assert row["r"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-4)
            assert row["n"] == 5
            assert row["ci_low"] < row["r"] < row["ci_high"]
    assert (gpt2, "chain", "Two", "length_tokens") in table.index
    assert (gpt2, "chain", "Two", "causal") not in table.index

    words = pd.read_csv(out / "words.csv")
    one = words[(words["set"] == "One") & (words["metric"] == "pll-word-l2r")].set_index("word")
    # The first word in lower case, marks apart: "the" stands four times.
    assert one.loc["the", "n"] == 4
    assert "slowly" in one.index
    word = load_model(f"{masked}?metric=pll-word-l2r").score_words(["My word is unhappy"])[0][-1]
    assert one.loc["unhappy", "log_prob"] == pytest.approx(word, abs=1e-4)
    assert one.loc["the", "log_frequency"] > one.loc["unhappy", "log_frequency"]
    r = np.corrcoef(one["log_frequency"], one["log_prob"])[0, 1]
    assert table.loc[(masked, "pll-word-l2r", "One", "frequency"), "r"] == pytest.approx(r)
    split = pd.read_csv(out / "split_words.csv").set_index(["model", "set"])["split_ratio"]
    share = (one["n"] * (one["n_tokens"] > 1)).sum() / sum(len(s.split()) for s in SENTENCES)
    assert split[masked, "One"] == pytest.approx(share)

    for name in ("One", "Two"):
        for relation in ("length_tokens", "frequency", "causal"):
            assert (out / f"{name}_{relation}.png").stat().st_size > 1000
    assert (out / "blimp.svg").stat().st_size > 1000


def test_blimp_accuracy_equals_pair_accuracy(study: ModuleType, data_folder: Path) -> None:
    from study import blimp_table, by_term, masked_model

    masked = f"hf:{data_folder / 'roberta'}"
    source = data_folder / "blimp" / "blimp.zip"
    pairs = read_minimal_pairs(source, limit=2, seed=3)
    assert len(pairs) == 6
    again = read_minimal_pairs(source, paradigms=["third"], limit=2, seed=3)
    assert again["sentence_good"].tolist() == pairs["sentence_good"].tolist()[4:]
    draws = {
        tuple(read_minimal_pairs(source, ["first"], limit=2, seed=seed)["sentence_good"])
        for seed in range(20)
    }
    assert len(draws) == 3

    table = blimp_table(masked_model(masked, 4), pairs, study.METRICS)
    for metric in study.METRICS:
        scorer = load_model(f"{masked}?metric={metric}").score
        own = pair_accuracy(pairs, scorer)
        mine = table[table["metric"] == metric]
        assert mine["accuracy"].tolist() == own["accuracy"].tolist()
    terms = by_term(table)
    overall = terms[terms["term"] == "overall"].set_index("metric")
    assert overall.loc["pll", "n_pairs"] == 6
    means = table[table["metric"] == "pll"].groupby("term")["accuracy"].mean()
    found = terms[terms["metric"] == "pll"].set_index("term")["accuracy"]
    assert found["agreement"] == pytest.approx(means["agreement"])
    assert found["overall"] == pytest.approx(table[table["metric"] == "pll"]["accuracy"].mean())


def test_unusable_models_and_folders_are_rejected(
    study: ModuleType,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    gpt2 = f"hf:{data_folder / 'gpt2'}"
    arguments = [
        "run.py",
        "--data",
        str(data_folder),
        "--out",
        str(data_folder / "none"),
        "--model",
        gpt2,
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    assert study.main() == 2
    said = capsys.readouterr().err
    assert said == f"run.py: {gpt2!r} is no masked language model; give one as --model\n"
    monkeypatch.setattr(
        sys,
        "argv",
        ["run.py", "--data", str(data_folder / "roberta"), "--out", str(data_folder / "none")],
    )
    assert study.main() == 2
    assert "holds no file NAME_sentences.csv" in capsys.readouterr().err
