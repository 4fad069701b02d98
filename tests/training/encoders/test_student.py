"""Students: accuracy, events, files and rejected uses.

Tests `contstim.training.encoders.student`, `contstim.training.encoders.base` and
`contstim.training.saving`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from labelled_sentences import WORDS, sentences
from tiny_transformers import SENTENCES
from transformers import AutoModel, AutoTokenizer

from contstim import Sentence, WordList, check_model, load_model
from contstim.cli import main
from contstim.errors import InputError, ModelFileError
from contstim.models.registry import score_kind
from contstim.training.encoders.network import load_encoder


@pytest.mark.parametrize("kind", ["student", "classifier"])
def test_synthesis_with_a_student_or_classifier(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words, out = tmp_path / "words.txt", tmp_path / "out.csv"
    words.write_text("The\nA\nthe\na\ndog\ndogs\ncat\nsaw\nran\nold\nman\nwoman\nfast\n")
    spec = f"{kind}:{request.getfixturevalue(kind)}"
    sides = ["--reject", spec, "--accept", "contstim:bigram", "--vocabulary", str(words)]
    assert main(["synthesize", *sides, "The old man saw the cat.", "--out", str(out)]) == 0
    (row,) = pd.read_csv(out).to_dict("records")
    fresh = load_model(spec).score([row["natural"], row["synthetic"]])
    assert fresh[1] < fresh[0]
    assert row["synthetic_lp contstim:bigram"] >= row["natural_lp contstim:bigram"]


def test_student_passes_check_model(student: Path) -> None:
    model = load_model(f"student:{student}")
    lines = check_model(model, SENTENCES)
    assert "word scores are refused, since the score is not a sum over words" in lines
    again = load_model(model.spec)
    assert (again.spec, again.event, again.fingerprint) == (
        model.spec,
        model.event,
        model.fingerprint,
    )
    np.testing.assert_array_equal(again.score(SENTENCES), model.score(SENTENCES))


def test_student_approximates_teacher_on_unseen_sentences(bert: Path, student: Path) -> None:
    unseen = sentences(150, 77)
    teacher, model = load_model(f"hf:{bert}?metric=pll"), load_model(f"student:{student}")
    wanted, found = teacher.score(unseen), model.score(unseen)
    lengths = np.array([len(s.split()) for s in unseen])
    # Beyond what the length alone gives: the correlation of what the lines in it leave.
    left = [v - np.polyval(np.polyfit(lengths, v, 1), lengths) for v in (wanted, found)]
    assert np.corrcoef(*left)[0, 1] > 0.5
    record = json.loads((student / "contstim.json").read_text("utf-8"))
    assert record["heldout"]["pearson"] > 0.9
    distinct = len(set(sentences(400, 5)))
    assert record["heldout"]["sentences"] == distinct // 10
    assert record["training"]["sentences"] == distinct - distinct // 10


def test_event_names_the_teacher_and_the_accuracy(bert: Path, student: Path) -> None:
    model = load_model(f"student:{student}")
    event = asdict(model.event)
    assert event["imitates"] == f"hf:{bert}?metric=pll"
    assert event["of"] == load_model(event["imitates"]).event.digest
    assert event["heldout"].startswith("r 0.9")
    assert event["metric"] == "student"
    assert model.kind.highest == 0
    assert score_kind(f"student:{student}") == model.kind


def test_score_is_a_linear_function_of_the_first_token(student: Path) -> None:
    """Against transformers and the record alone, one sentence at a time."""
    from safetensors.torch import load_file

    record = json.loads((student / "contstim.json").read_text("utf-8"))
    head = load_file(student / "student.safetensors")
    network = AutoModel.from_pretrained(student / "encoder", add_pooling_layer=False)
    tokenizer = AutoTokenizer.from_pretrained(student / "encoder")
    target = record["target"]
    for sentence in SENTENCES:
        ids = torch.tensor([tokenizer(sentence)["input_ids"]])
        with torch.no_grad():
            vector = network(input_ids=ids).last_hidden_state[0, 0]
        output = float(head["head.weight"][0] @ vector + head["head.bias"][0])
        n = ids.shape[1] - 2
        wanted = target["intercept"] + target["slope"] * n
        wanted += target["scale"] * n / target["length"] * output
        found = load_model(f"student:{student}").score([sentence])[0]
        assert found == pytest.approx(min(wanted, 0.0), abs=1e-3)


def test_student_has_no_word_scores_but_reductions_of_sums(student: Path, bert: Path) -> None:
    model = load_model(f"student:{student}")
    with pytest.raises(InputError) as error:
        model.score_words(SENTENCES)
    assert str(error.value) == (
        f"'student:{student}' scores a sentence as a whole and has no scores per word; use "
        "sentence scores"
    )
    mean = load_model(f"student:{student}?reduction=mean")
    n_tokens = model.score_with_counts(SENTENCES).n_tokens
    np.testing.assert_allclose(mean.score(SENTENCES), model.score(SENTENCES) / n_tokens)
    check_model(mean, SENTENCES)


def test_replacement_estimates_correlate_with_scores(student: Path) -> None:
    model = load_model(f"student:{student}")
    words = WordList.from_words(WORDS)
    correlations = []
    for text in sentences(12, 3, least=4):
        sentence = Sentence.parse(text)
        table = model.score_replacements(sentence, 1, words)
        assert not table.is_exact
        exact = table.score(np.arange(len(words)))
        # Around the present word the estimate is the score itself.
        here = words.index[sentence.words[1]]
        assert table.estimates[here] == pytest.approx(exact[here], abs=1e-3)
        correlations.append(np.corrcoef(table.estimates, exact)[0, 1])
    assert np.mean(correlations) > 0.4


def test_damaged_folders_are_reported(student: Path, bert: Path, tmp_path: Path) -> None:
    def fails(place: Path, message: str) -> None:
        with pytest.raises(ModelFileError) as error:
            load_model(f"student:{place}")
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    fails(tmp_path / "none", "is not a folder of a student")
    fails(bert, "is not a folder of a student")
    with pytest.raises(ModelFileError, match="contains a student, not a classifier"):
        load_model(f"classifier:{student}")
    copy = tmp_path / "copy"
    shutil.copytree(student, copy)
    record = json.loads((copy / "contstim.json").read_text("utf-8"))
    (copy / "contstim.json").write_text(json.dumps({**record, "target": {}}))
    fails(copy, "is incomplete")
    (copy / "contstim.json").write_text("{")
    fails(copy, "is damaged")
    shutil.copy(student / "contstim.json", copy)
    (copy / "student.safetensors").write_bytes(b"12345678")
    fails(copy, "it is damaged")


@pytest.mark.parametrize("device", ["tpu:x", "\udcff"])
def test_unavailable_devices_are_reported(device: str) -> None:
    with pytest.raises(InputError) as error:
        load_encoder("contstim:bert", device)
    assert str(error.value).startswith(f"the device {device!r} is not available; write cpu")
