"""Test the study of Salazar et al. (2020) against independent computations."""

from __future__ import annotations

import gzip
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

from contstim.models.registry import load_model

FOLDER = Path(__file__).parents[2] / "experiments" / "salazar2020"
PAIRS = [
    ("The dogs bark.", "The dogs barks."),
    ("A cat saw us.", "A cats saw us."),
    ("The man ran.", "The man run."),
]


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    """Return the module of the script."""
    sys.path.insert(0, str(FOLDER))
    try:
        import run

        yield run
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("run", None)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with minimal pairs, natural sentences and a checkpoint ``gpt2``."""
    root = tmp_path_factory.mktemp("salazar")
    save_checkpoint("gpt2", root / "gpt2")
    (root / "blimp").mkdir()
    (root / "corpus").mkdir()
    terms = ("s-selection", "argument_structure", "binding")
    with zipfile.ZipFile(root / "blimp" / "blimp.zip", "w") as archive:
        for number, ((good, bad), term) in enumerate(zip(PAIRS, terms, strict=True)):
            entry = {"sentence_good": good, "sentence_bad": bad, "linguistics_term": term}
            archive.writestr(f"p{number}.jsonl", json.dumps(entry))
    return root


def test_tables_equal_independent_computations(study: ModuleType, data: Path) -> None:
    model = load_model(f"hf:{data / 'gpt2'}")
    good, bad = map(list, zip(*PAIRS, strict=True))
    tokens = study.token_table(model, [*good, *bad, good[0]])
    pairs = study.read_minimal_pairs(data / "blimp" / "blimp.zip")

    # exp of the mean negative log-probability of all tokens, from the sentence scores.
    scores = model.score_with_counts(bad)
    expected = np.exp(-scores.score.sum() / scores.n_tokens.sum())
    assert study.pseudo_perplexity(tokens, bad) == pytest.approx(expected)

    by_token = [scores.log_probs for scores in model.score_tokens([*good, *bad])]
    positions = study.position_table(tokens).set_index("position")
    longest = max(map(len, by_token))
    assert positions.index.tolist() == list(range(1, longest + 1))
    for position in (1, longest):
        values = [-row[position - 1] for row in by_token if len(row) >= position]
        assert positions.loc[position, "cross_entropy"] == pytest.approx(np.mean(values))
        assert positions.loc[position, "n_sentences"] == len(values)

    lengths = study.length_table(tokens)
    assert lengths["n_tokens"].tolist() == [len(row) for row in by_token]
    np.testing.assert_allclose(lengths["surprisal"], [-row.sum() for row in by_token])
    label = study.length_figure({"m": lengths}).axes[0].get_legend().get_texts()[0].get_text()
    r = np.corrcoef(lengths["n_tokens"], lengths["surprisal"])[0, 1]
    assert label == f"m: r = {r:.2f}"

    is_right = 100.0 * (model.score(good) > model.score(bad))
    accuracy = study.category_table(tokens, pairs)
    assert accuracy.to_dict() == pytest.approx(
        {
            "overall": is_right.mean(),
            "argument_structure": is_right[:2].mean(),
            "binding": is_right[2],
        }
    )


def test_published_nbest_lists_are_read(study: ModuleType, tmp_path: Path) -> None:
    hypotheses = {"hyp_1": {"score": -1.5, "text": " a cat"}, "hyp_2": {"score": -2, "text": " "}}
    for split in ("dev", "test"):
        content = {f"{split}-1": hypotheses | {"ref": "the cat"}}
        (tmp_path / f"{split}-clean.am.json").write_text(json.dumps(content), "utf-8")
    table = pd.DataFrame({"utterance": ["x"], "hypothesis": "un chat", "score": -1.0})
    table = table.assign(reference="le chat", language="fr")
    table.to_csv(tmp_path / "translations.csv", index=False)
    lists = study.read_nbest(tmp_path)
    assert {name: metric for name, (metric, _) in lists.items()} == {
        "clean": "wer",
        "translations": "bleu",
    }
    assert lists["clean"][1].to_numpy().tolist() == [
        ["dev-1", "a cat", -1.5, "the cat", "dev", "A cat."],
        ["test-1", "a cat", -1.5, "the cat", "test", "A cat."],
    ]
    assert lists["translations"][1]["language"].tolist() == ["fr"]
    assert study.read_nbest(tmp_path / "none") == {}


def test_script_compares_every_published_number(
    study: ModuleType, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed; see [dev]")
    save_checkpoint("roberta", data / "roberta")
    sentences = ["The old man saw a cat.", "A woman saw the unhappy dogs run slowly."]
    with gzip.open(data / "corpus" / "heldout.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join([*sentences, "The dogs ran."]))
    human = pd.DataFrame({"Condition": ["p0", "p1", "other"], "total_mean": [0.5, 0.75, 0.1]})
    human.to_csv(data / "blimp" / "human_validation_summary.csv", index=False)
    (data / "nbest").mkdir()
    rows = [
        (language, f"u{number}", text, score, "The dog saw us.")
        for language in ("de", "fr")
        for number in range(6)
        for text, score in (("The dog saw us.", -2.0), ("The dog saw a cat.", -1.0))
    ]
    columns = ["language", "utterance", "hypothesis", "score", "reference"]
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(data / "nbest" / "translations.csv", index=False)
    models = [f"hf:{data / 'gpt2'}", f"hf:{data / 'roberta'}?metric=pll"]
    options = [word for spec in models for word in ("--model", spec)]
    command = ["run.py", "--data", str(data), "--out", str(data / "out"), *options]
    monkeypatch.setattr(sys, "argv", command)
    assert study.main() == 0

    published = pd.read_csv(data / "out" / "published.csv", keep_default_na=False)
    ours = published.set_index("quantity")["ours"]
    assert ours["Table 7: human accuracy, overall"] == "62.5"
    for spec, kind in zip(models, ("causal", "masked"), strict=True):
        scores = [load_model(spec).score_with_counts(list(s)) for s in zip(*PAIRS, strict=True)]
        good, bad = (np.exp(-s.score.sum() / s.n_tokens.sum()) for s in scores)
        key = f"Table 7: PPPL acceptable / unacceptable / ratio, {kind} model"
        assert ours[key] == f"{good:.1f} / {bad:.1f} / {bad / good:.2f}"
    unexplained = published[(published["ours"] == "") | (published["published"] == "")]
    assert (unexplained["note"] != "").all()
    languages = pd.read_csv(data / "out" / "rescoring-by-language.csv").set_index("system")
    assert languages.columns.tolist() == ["de", "fr"]
    assert languages.loc["oracle"].tolist() == pytest.approx([100.0, 100.0])
    (data / "blimp" / "blimp.zip").unlink()
    assert study.main() == 2
