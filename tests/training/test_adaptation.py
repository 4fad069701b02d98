"""Domain adaptation of tiny masked models with early stopping."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from tiny_transformers import save_checkpoint

from contstim import load_model
from contstim.cli import main
from contstim.errors import InputError, OutputError
from contstim.models.reductions import corpus_perplexity
from contstim.training.adaptation import adapt, mask_tokens, shuffled_batches, write_checkpoint
from contstim.training.options import AdaptOptions

DOMAIN = ["the old dog barked.", "the old dog ran fast.", "The old man saw a dog."] * 12
DEV = ["The old dog ran.", "the old dog saw a man."]
OTHER = ["a woman saw the cats!", "A cat ran slowly."]
QUICK = AdaptOptions(steps=30, batch_tokens=160, learning_rate=3e-3, interval=10)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(request.param, tmp_path_factory.mktemp(request.param))


def test_adaptation_lowers_the_pseudo_perplexity_of_the_domain(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapted"
    state = torch.random.get_rng_state()
    before = load_model(f"hf:{base}?metric=pll")
    own = before.score(DEV)
    found = adapt(str(base), DOMAIN, out, domain=DEV, other=OTHER, options=QUICK, progress=False)
    assert found.after.domain < 0.8 * found.before.domain
    # The figures are those of the models as anyone loads them.
    assert found.before.domain == pytest.approx(corpus_perplexity(before, DEV), rel=1e-5)
    after = load_model(f"hf:{out}?metric=pll")
    assert found.after.domain == pytest.approx(corpus_perplexity(after, DEV), rel=1e-4)
    assert found.after.domain_word == pytest.approx(corpus_perplexity(after, DEV, "word"), rel=1e-4)
    assert found.after.other == pytest.approx(corpus_perplexity(after, OTHER), rel=1e-4)
    # Nothing that others use has changed.
    np.testing.assert_array_equal(before.score(DEV), own)
    assert torch.equal(torch.random.get_rng_state(), state)
    record = json.loads((out / "adaptation.json").read_text("utf-8"))
    assert record["after"]["domain"] == found.after.domain
    again = adapt(
        f"hf:{base}", DOMAIN, tmp_path / "b", domain=DEV, other=OTHER, options=QUICK, progress=False
    )
    assert again.log == found.log


def test_adaptation_stops_early_with_the_best_weights(base: Path, tmp_path: Path) -> None:
    # Steps so large that they soon ruin what was gained.
    wild = AdaptOptions(steps=40, batch_tokens=160, learning_rate=0.3, interval=2, patience=2)
    out = tmp_path / "adapted"
    found = adapt(str(base), DOMAIN, out, domain=DEV, other=OTHER, options=wild, progress=False)
    curve = [p.domain for p in found.log]
    best = int(np.argmin(curve))
    assert found.after == found.log[best]
    assert len(curve) == best + 1 + wild.patience < 20
    kept = corpus_perplexity(load_model(f"hf:{out}?metric=pll"), DEV)
    assert kept == pytest.approx(curve[best], rel=1e-4)
    assert kept < curve[-1]


def test_mask_tokens_follows_the_masking_proportions(base: Path) -> None:
    model = load_model(f"hf:{base}")
    encoded = model.encode(["the old dog barked."] * 500)
    rng = np.random.default_rng(0)
    ordinary = np.flatnonzero(~model.tokenizer.token_classes.is_special)
    batch = mask_tokens(encoded, 0.4, model.mask_id, ordinary, rng)
    n_scored = len(encoded[0].scored_positions)
    assert len(batch.rows) == 500 * round(0.4 * n_scored)
    assert np.isin(batch.positions, encoded[0].scored_positions).all()
    original = np.array([e.ids for e in encoded])
    np.testing.assert_array_equal(batch.targets, original[batch.rows, batch.positions])
    changed = batch.ids.copy()
    changed[batch.rows, batch.positions] = batch.targets
    np.testing.assert_array_equal(changed, original)
    masked = (batch.ids[batch.rows, batch.positions] == model.mask_id).mean()
    assert masked == pytest.approx(0.8, abs=0.04)
    kept = (batch.ids[batch.rows, batch.positions] == batch.targets).mean()
    assert kept == pytest.approx(0.1, abs=0.04)


def test_shuffled_batches_contain_each_sentence_once(base: Path) -> None:
    encoded = load_model(f"hf:{base}").encode(DOMAIN)
    groups = list(shuffled_batches(encoded, 100, np.random.default_rng(0)))
    assert sorted(i for g in groups for i in g) == list(range(len(DOMAIN)))
    for group in groups:
        assert len({len(encoded[i].ids) for i in group}) == 1
        assert len(group) == 1 or sum(len(encoded[i].ids) for i in group) <= 100


def test_invalid_adaptations_are_refused(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapted"
    with pytest.raises(InputError, match="'contstim:trigram' is not a masked transformer"):
        adapt("contstim:trigram", DOMAIN, out, other=OTHER)
    with pytest.raises(InputError, match="no sentence to train on"):
        adapt(str(base), ["the dog " * 40], out, other=OTHER, domain=DEV)
    with pytest.raises(InputError, match="needs at least one sentence"):
        adapt(str(base), DOMAIN[:3], out, other=OTHER)
    wild = AdaptOptions(steps=2, interval=1)
    object.__setattr__(wild, "learning_rate", 1e4)  # a small network bears all that may be asked
    with pytest.raises(InputError, match=r"diverged: after \d steps .* lower the learning rate"):
        adapt(str(base), DOMAIN, out, other=OTHER, domain=DEV, options=wild, progress=False)
    with pytest.raises(InputError, match="mask_share is 1; give less than 1"):
        AdaptOptions(mask_share=1)
    with pytest.raises(InputError, match="steps is 0; give at least 1"):
        AdaptOptions(steps=0)
    with pytest.raises(InputError, match="learning_rate is nan; give a finite number"):
        AdaptOptions(learning_rate=float("nan"))
    with pytest.raises(InputError, match="learning_rate is 2.0; give at most 1"):
        AdaptOptions(learning_rate=2.0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match="exists; choose another folder, or remove it"):
        adapt(str(base), DOMAIN, tmp_path, other=OTHER)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        OutputError, match="cannot write .*adapted: no folder can be created in .*file"
    ):
        adapt(str(base), DOMAIN, tmp_path / "file" / "adapted", other=OTHER)


def test_adapt_command(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"text": [*DOMAIN, "the dog " * 40, *DEV * 10, "old old dog."], "other": OTHER}
    files["text"] += [f"the old dog saw {'the ' * k}man." for k in range(1, 12)]
    paths = {}
    for name, sentences in files.items():
        paths[name] = tmp_path / f"{name}.txt"
        paths[name].write_text("\n".join(sentences) + "\n", "utf-8")
    out = tmp_path / "adapted"
    command = ["models", "adapt", f"hf:{base}", "--text", str(paths["text"])]
    command += ["--other", str(paths["other"]), "--steps", "2", "--interval", "1"]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "1 left out" in printed.out
    assert "domain, 1 sentences" in printed.out
    assert "step 0: pseudo-perplexity per token" in printed.err
    assert load_model(f"hf:{out}").score(DEV).shape == (2,)
    assert main([*command, "--out", str(out)]) == 2
    assert "exists; choose another folder, or remove it" in capsys.readouterr().err


def test_full_disk_is_reported_without_partial_folder(tmp_path: Path) -> None:
    def save(_: Path) -> None:
        raise SafetensorError("I/O error: No space left on device")

    model = SimpleNamespace(save_pretrained=save)
    with pytest.raises(OutputError, match="cannot write .*new: I/O error: No space left"):
        write_checkpoint(tmp_path / "new", model, None, {})
    assert not any(tmp_path.iterdir())
