"""Fine-tuning of classifiers: restarts, interruptions and rejected inputs.

Tests `contstim.training.finetuning`, `contstim.training.fitting` and `contstim.training.options`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from labelled_sentences import write_cola

from contstim import load_model
from contstim.errors import InfeasibleError, InputError, ModelFileError, SpecError
from contstim.training import finetuning
from contstim.training.cola import read_cola
from contstim.training.encoders.network import TokenizedSentences, load_encoder
from contstim.training.finetuning import finetune, prepare_sentences
from contstim.training.fitting import add_head
from contstim.training.options import FitOptions


def test_degenerate_restarts_are_reported_and_replaced(
    bert: Path, cola: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    train = finetuning.train_classifier

    def sometimes(encoder, rows, labels, options, seed, order, label):
        member, losses = train(encoder, rows, labels, options, 5, seed, label)
        if seed % 2 == 0:
            member.head.bias.data += member.head.bias.new_tensor([0.0, 1e6])
        return member, losses

    monkeypatch.setattr(finetuning, "train_classifier", sometimes)
    options = FitOptions(epochs=2, batch=8, layers=1, learning_rate=1e-2)
    record = finetune(str(bert), cola, tmp_path / "out", restarts=2, options=options)
    assert [row["seed"] for row in record["degenerate"]] == [0, 2]
    assert [row["seed"] for row in record["restarts"]] == [1, 3]
    # Two cannot form a majority, so the worse of them does not vote.
    assert record["majority"] == [record["best"]]
    assert "seed 0: Matthews' correlation 0.000 in domain, 0.000 out of domain; degenerate" in (
        capsys.readouterr().err
    )
    with pytest.raises(SpecError, match="the folder contains 1 voting networks, and a majority"):
        load_model(f"classifier:{tmp_path / 'out'}?members=majority")
    monkeypatch.setattr(
        finetuning,
        "train_classifier",
        lambda e, r, la, o, seed, order, text: sometimes(e, r, la, o, 0, order, text),
    )
    with pytest.raises(InfeasibleError) as error:
        finetune(str(bert), cola, tmp_path / "other", restarts=1, options=options)
    assert str(error.value).startswith("all 3 restarts are degenerate, giving every sentence one")
    assert not (tmp_path / "other").exists()


def test_interrupted_fine_tuning_continues(
    bert: Path, cola: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = FitOptions(epochs=2, batch=8, layers=1, learning_rate=1e-2)
    train = finetuning.train_classifier
    seeds = []

    def twice(encoder, rows, labels, options, seed, order, label):
        if len(seeds) == 2:
            raise KeyboardInterrupt
        seeds.append(seed)
        return train(encoder, rows, labels, options, seed, order, label)

    monkeypatch.setattr(finetuning, "train_classifier", twice)
    with pytest.raises(KeyboardInterrupt):
        finetune(str(bert), cola, tmp_path / "a", restarts=3, options=options, seed=5)
    assert not (tmp_path / "a").exists()
    kept = sorted((tmp_path / "a.restarts").iterdir())
    assert len(kept) == 2
    # One of the two was not written whole.
    kept[1].write_bytes(kept[1].read_bytes()[:100])
    seeds[:] = [5]
    with pytest.raises(KeyboardInterrupt):
        finetune(str(bert), cola, tmp_path / "a", restarts=3, options=options, seed=5)
    assert seeds == [5, 6]
    monkeypatch.setattr(finetuning, "train_classifier", train)
    continued = finetune(str(bert), cola, tmp_path / "a", restarts=2, options=options, seed=5)
    straight = finetune(str(bert), cola, tmp_path / "b", restarts=2, options=options, seed=5)
    assert continued["mcc"] == straight["mcc"]
    assert continued["best"] == straight["best"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_cached_layers_give_the_outputs_of_the_whole_network(bert: Path, cola: Path) -> None:
    """The states are kept in 16 bits; a pass over the whole network differs by no more."""
    encoder = load_encoder(str(bert))
    texts = read_cola(cola / "in_domain_dev.tsv").sentences
    kept = prepare_sentences(encoder, texts, 1, "tiny")
    upper = add_head(encoder, 2, 1, seed=3)
    whole = add_head(encoder, 2, None, seed=3)
    np.testing.assert_allclose(
        kept.outputs(upper), TokenizedSentences(kept.ids).outputs(whole), atol=2e-3
    )
    assert not any("layer.0" in name for name in upper.trained_weights())
    assert any("layer.1" in name for name in upper.trained_weights())


def test_invalid_fine_tunings_are_refused(bert: Path, cola: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as error:
        finetune("contstim:trigram", cola, tmp_path / "x")
    assert str(error.value) == (
        "'contstim:trigram' has no encoder to start from; give a masked transformer, as a folder, "
        "hf:NAME or contstim:NAME"
    )
    with pytest.raises(InputError, match="restarts must be at least 1, got 0"):
        finetune(str(bert), cola, tmp_path / "x", restarts=0)
    folder = write_cola(tmp_path / "one", (20, 20, 20))
    good = [f"x\t1\t\t{s}" for s in read_cola(folder / "in_domain_dev.tsv").sentences]
    (folder / "in_domain_dev.tsv").write_text("\n".join(good) + "\n")
    with pytest.raises(InputError, match="has only the label 1"):
        finetune(str(bert), folder, tmp_path / "x")
    with pytest.raises(InputError, match="there is no file"):
        finetune(str(bert), tmp_path, tmp_path / "x")
    assert not (tmp_path / "x").exists()
