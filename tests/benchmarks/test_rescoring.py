"""Test rescoring of n-best lists against jiwer, sacrebleu and a grid search.

Tests `contstim.benchmarks.rescoring` and `contstim.benchmarks.commands.rescore`.
"""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.benchmarks import rescoring
from contstim.cli import main
from contstim.models.registry import load_models

jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed; pip install contstim[dev]")
sacrebleu = pytest.importorskip("sacrebleu", reason="sacrebleu is not installed; see [dev]")

WEIGHTS, LENGTH_WEIGHTS = (0.0, 0.3, 0.6, 0.9, 1.2), (-1.0, 0.0, 1.0)
WORDS = ("the", "a", "old", "dog", "cat", "man", "saw", "house", "door", "here")


def _random_lists(n_utterances: int = 40, n_hypotheses: int = 6) -> pd.DataFrame:
    """Return lists of corrupted copies of random references, with random scores."""
    rng = np.random.default_rng(7)
    rows = []
    for utterance in range(n_utterances):
        reference = rng.choice(WORDS, rng.integers(5, 10)).tolist()
        for _ in range(n_hypotheses):
            words = [w if rng.random() < 0.7 else str(rng.choice(WORDS)) for w in reference]
            words = words[: len(words) - rng.integers(0, 3)]
            if rng.random() < 0.3:
                words.insert(0, str(rng.choice(WORDS)))
            score = rng.normal(-20, 3)
            rows.append((f"u{utterance}", " ".join(words), score, " ".join(reference)))
    table = pd.DataFrame(rows, columns=list(rescoring.COLUMNS))
    table["split"] = np.where(table["utterance"].str[1:].astype(int) < 20, "dev", "test")
    return table


def _model(table: pd.DataFrame, path: Path, seed: int = 1):
    """Return a model with random scores that are higher for hypotheses with fewer errors."""
    rng = np.random.default_rng(seed)
    errors = [jiwer.wer(r, h) for r, h in zip(table["reference"], table["hypothesis"], strict=True)]
    scores = pd.DataFrame({"sentence": table["hypothesis"], "model": "lm"})
    scores["log_prob"] = -20 - 8 * np.array(errors) + rng.normal(0, 1.5, len(table))
    scores = scores.drop_duplicates("sentence")
    scores["log_prob"] = scores["log_prob"].clip(upper=-0.1)
    scores.to_csv(path, index=False)
    return load_models({"lm": f"table:{path}"})[0]


def _corpus_value(metric: str, references: list[str], hypotheses: list[str]) -> float:
    """Compute the metric of a corpus with its reference library."""
    if metric == "wer":
        return jiwer.wer(references, hypotheses)
    return sacrebleu.corpus_bleu(hypotheses, [references]).score


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_metrics_equal_jiwer_and_sacrebleu(metric: str, tmp_path: Path) -> None:
    table = _random_lists()
    results, selected = rescoring.rescore(
        table, [_model(table, tmp_path / "s.csv")], metric, WEIGHTS, LENGTH_WEIGHTS, n_bootstrap=50
    )
    assert results["system"].tolist()[:3] == ["baseline", "oracle", "length"]
    for row in results.to_dict("records"):
        texts = selected[selected["system"] == row["system"]]
        assert len(texts) == row["n_test"] == 20
        value = _corpus_value(metric, [*texts["reference"]], [*texts["hypothesis"]])
        assert row["value"] == pytest.approx(value, rel=1e-12)
        assert row["ci_low"] < row["value"] < row["ci_high"]


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_weights_equal_a_brute_force_grid_search(metric: str, tmp_path: Path) -> None:
    table = _random_lists()
    model = _model(table, tmp_path / "s.csv")
    results, _ = rescoring.rescore(table, [model], metric, WEIGHTS, LENGTH_WEIGHTS, n_bootstrap=20)
    dev = table[table["split"] == "dev"].reset_index(drop=True)
    log_probs = model.score(dev["hypothesis"].tolist())
    values = {}
    for weight, length_weight in itertools.product(WEIGHTS, LENGTH_WEIGHTS):
        best: dict[str, tuple[float, int]] = {}
        for i, row in dev.iterrows():
            n_words = len(row["hypothesis"].split())
            total = row["score"] + weight * log_probs[i] + length_weight * n_words
            if row["utterance"] not in best or total > best[row["utterance"]][0]:
                best[row["utterance"]] = (total, i)
        rows = dev.loc[[i for _, i in best.values()]]
        value = _corpus_value(metric, [*rows["reference"]], [*rows["hypothesis"]])
        values[weight, length_weight] = value if metric == "bleu" else -value
    tuned = results.set_index("system").loc["lm"]
    best_point = max(values, key=values.__getitem__)
    assert list(values.values()).count(values[best_point]) == 1
    assert best_point[0] > 0
    assert (tuned["weight"], tuned["length_weight"]) == best_point
    assert abs(tuned["dev"]) == pytest.approx(abs(values[best_point]), rel=1e-12)


def test_hypotheses_preferred_by_the_model_are_selected(tmp_path: Path) -> None:
    """The baseline is always wrong; the model and the oracle are always right."""
    sentences = [f"the {a} saw a {b}" for a, b in itertools.permutations(WORDS[3:6], 2)]
    rows = []
    for number, good in enumerate(sentences):
        bad = good.replace("saw", "sore")
        rows += [(f"u{number}", bad, -10.0, good), (f"u{number}", good, -11.0, good)]
    table = pd.DataFrame(rows, columns=list(rescoring.COLUMNS))
    scores = pd.DataFrame({"sentence": table["hypothesis"], "model": "lm"})
    scores["log_prob"] = np.where(table["hypothesis"].str.contains("sore"), -30.0, -20.0)
    scores.to_csv(tmp_path / "s.csv", index=False)
    results, selected = rescoring.rescore(table, load_models({"lm": f"table:{tmp_path}/s.csv"}))
    values = results.set_index("system")
    assert values.loc["baseline", "value"] == values.loc["length", "value"] == 0.2
    assert values.loc["oracle", "value"] == values.loc["lm", "value"] == 0.0
    assert values.loc["lm", "change"] == values.loc["lm", "change_high"] == -0.2
    assert values.loc["lm", "weight"] == pytest.approx(0.15)
    chosen = selected[selected["system"] == "lm"]
    assert chosen["hypothesis"].tolist() == chosen["reference"].tolist() == sentences[1::2]


def test_languages_are_tuned_separately(tmp_path: Path) -> None:
    table = _random_lists()
    model = _model(table, tmp_path / "s.csv")
    reverse = table.assign(score=table["score"] * 30)
    both = pd.concat([table.assign(language="de"), reverse.assign(language="fr")])
    results, _ = rescoring.rescore(both, [model], "wer", WEIGHTS, LENGTH_WEIGHTS)
    for language, alone in (("de", table), ("fr", reverse)):
        expected, _ = rescoring.rescore(alone, [model], "wer", WEIGHTS, LENGTH_WEIGHTS)
        rows = results[results["language"] == language].drop(columns="language")
        pd.testing.assert_frame_equal(
            rows.reset_index(drop=True), expected.drop(columns="language")
        )
    weights = results[results["system"] == "lm"].set_index("language")["weight"]
    assert weights["de"] != weights["fr"]


def test_models_score_the_sentence_column(tmp_path: Path) -> None:
    table = _random_lists()
    model = _model(table, tmp_path / "s.csv")
    expected, _ = rescoring.rescore(table, [model], "wer", WEIGHTS, LENGTH_WEIGHTS)
    scores = pd.read_csv(tmp_path / "s.csv")
    scores.assign(sentence=scores["sentence"].str.capitalize() + ".").to_csv(
        tmp_path / "s.csv", index=False
    )
    table["sentence"] = table["hypothesis"].str.capitalize() + "."
    (written,) = load_models({"lm": f"table:{tmp_path}/s.csv"})
    results, _ = rescoring.rescore(table, [written], "wer", WEIGHTS, LENGTH_WEIGHTS)
    pd.testing.assert_frame_equal(results, expected)


def test_command_writes_results_and_selected_hypotheses(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    table = _random_lists()
    model = _model(table, Path("s.csv"))
    table.to_csv("lists.csv", index=False)
    words = ["benchmark", "rescore", "lists.csv", "--model", "lm=table:s.csv", "--max-weight", "1"]
    assert main([*words, "--selected", "chosen.csv", "--out", "out.csv"]) == 0, capsys.readouterr()
    weights, length_weights = np.linspace(0, 1, 41), np.linspace(-2, 2, 17)
    results, selected = rescoring.rescore(table, [model], "wer", weights, length_weights)
    written = pd.read_csv("out.csv", keep_default_na=False, na_values={"weight": ""})
    np.testing.assert_allclose(written["value"], results["value"], rtol=1e-12)
    np.testing.assert_allclose(written["weight"], results["weight"])
    assert pd.read_csv("chosen.csv")["hypothesis"].tolist() == selected["hypothesis"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="score"), "has no column 'score'"),
        (lambda t: t.drop(columns="reference"), "has no column 'reference'"),
        (lambda t: t[t["split"] == "test"], "no utterance has the split 'dev'"),
        (lambda t: t[t["split"] == "dev"], "no utterance has the split 'test'"),
        (lambda t: t.assign(split="train"), "utterance 'u0' has the split 'train'"),
        (lambda t: t.assign(score="high"), "utterance 'u0' has the score 'high'"),
        (lambda t: t.assign(hypothesis=" "), "utterance 'u0' has the hypothesis ' '"),
        (lambda t: t.assign(reference=t["hypothesis"]), "has several reference values"),
    ],
)
def test_invalid_tables_are_rejected(
    change, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    change(_random_lists(30, 2)).to_csv("lists.csv", index=False)
    assert (
        main(["benchmark", "rescore", "lists.csv", "--model", "contstim:bigram?unknown=unk"]) == 2
    )
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("contstim: ")
    assert message in line


def test_missing_columns_are_named_in_python() -> None:
    with pytest.raises(ValueError, match="the table of hypotheses has no column 'hypothesis'"):
        rescoring.rescore(_random_lists(2, 2).drop(columns="hypothesis"), [])


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str):
        raise ImportError(name)

    monkeypatch.setattr(rescoring, "import_module", fail)
    for metric, package in (("wer", "jiwer"), ("bleu", "sacrebleu")):
        with pytest.raises(ImportError, match=f"pip install {package}"):
            rescoring.CORPUS_METRICS[metric]()
    assert importlib.import_module("jiwer") is jiwer
