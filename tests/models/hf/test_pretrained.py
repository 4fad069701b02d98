"""Safe loading of checkpoints: no code, no files outside the folder."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_transformers import SENTENCES
from transformers import BertTokenizer
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from contstim.errors import ModelFileError
from contstim.models.check import check_model
from contstim.models.registry import load_model
from contstim.training.encoders.network import load_encoder

Tiny = Callable[[str], Path]

WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    """Return a copy of a tiny checkpoint."""
    return Path(shutil.copytree(tiny("bert"), tmp_path / "checkpoint"))


def _configure(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), "utf-8")


def _refusal(folder: Path) -> str:
    """Return what is said of a checkpoint, as a model and as an encoder."""
    messages = []
    for read in (lambda: load_model(f"hf:{folder}"), lambda: load_encoder(str(folder))):
        with pytest.raises(ModelFileError) as error:
            read()
        message = str(error.value).replace(" as an encoder", "")
        messages.append(re.sub(r" unless its spec has code=run \(.*?\)", "", message))
    assert messages[0] == messages[1]
    assert "\n" not in messages[0]
    return messages[0]


def _with_code(folder: Path) -> Path:
    """Give a checkpoint code of its own, and return the file that this code would write."""
    trace = folder.parent / "trace"
    code = (
        "from transformers import BertConfig\n"
        f"open({str(trace)!r}, 'w').close()\n"
        "class Config(BertConfig):\n    model_type = 'unheard-of'\n"
    )
    (folder / "code.py").write_text(code, "utf-8")
    classes = {"AutoConfig": "code.Config", "AutoModelForMaskedLM": "code.Config"}
    _configure(folder, model_type="unheard-of", auto_map=classes)
    return trace


def test_checkpoint_code_is_not_run_after_confirmation(folder: Path) -> None:
    trace = _with_code(folder)
    script = "from contstim.cli import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, "models", "info", f"hf:{folder}"],
        input="y\n" * 20,
        capture_output=True,
        text=True,
    )
    # A slow machine says before that it is loading.
    assert done.stderr.splitlines()[-1] == (
        f"contstim: cannot load '{folder}': it is a model of type 'unheard-of' and needs its own "
        "code, which contstim never runs unless its spec has code=run (read the code first: it "
        "runs with your rights); use a checkpoint of a type that transformers implements"
    )
    assert (done.returncode, done.stdout, trace.exists()) == (2, "", False)


def test_code_is_refused_without_a_prompt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("builtins.input", lambda text="": asked.append(text) or "y")
    trace = _with_code(folder)
    assert "contstim never runs" in _refusal(folder)
    # Of a type that transformers has, its own code runs.
    _configure(folder, model_type="bert")
    load_model(f"hf:{folder}")
    # A tokenizer has a configuration of its own.
    (folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "Other", "auto_map": {"BertTokenizer": ["code.Config", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    assert _refusal(folder).startswith(f"cannot load '{folder}': ")
    assert (asked, trace.exists()) == ([], False)


@pytest.mark.parametrize(
    "name", ["_attn_implementation", "attn_implementation", "_experts_implementation"]
)
def test_kernels_named_by_a_configuration_are_not_used(folder: Path, name: str) -> None:
    expected = load_model(f"hf:{folder}").score(["The dog saw a cat."])
    _configure(folder, **{name: "somebody/kernels"})
    model = load_model(f"hf:{folder}")
    assert model.score(["The dog saw a cat."]).tolist() == expected.tolist()
    assert load_encoder(str(folder)).network.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("weights", [b"", b"not weights", b"\x80\x02damaged" * 3])
def test_damaged_weights_are_reported(folder: Path, weights: bytes) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(weights)
    assert _refusal(folder).startswith(f"cannot load '{folder}': ")


def test_pickle_with_code_is_not_executed(folder: Path) -> None:
    class Trace:
        def __reduce__(self) -> Any:
            return Path.touch, (folder / "trace",)

    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trace()))
    assert _refusal(folder) == (
        f"cannot load '{folder}': its weights are a damaged pickle or contain more than numbers, "
        "which is never executed; use a checkpoint saved as safetensors"
    )
    assert not (folder / "trace").exists()


@pytest.mark.parametrize("file", ["../../elsewhere", "/etc/passwd", "part/a.safetensors", "..", 3])
def test_weight_index_with_files_elsewhere_is_rejected(folder: Path, file: Any) -> None:
    (folder / WEIGHTS).rename(folder.parent / "elsewhere")
    index = {"metadata": {}, "weight_map": {"bert.embeddings.word_embeddings.weight": file}}
    (folder / WEIGHTS_INDEX).write_text(json.dumps(index), "utf-8")
    assert _refusal(folder) == (
        f"cannot load '{folder}': {WEIGHTS_INDEX} names {file!r}, which is not a file of the "
        "checkpoint's folder; use a checkpoint that is not damaged"
    )


@pytest.mark.parametrize("index", [[], {}, {"weight_map": []}, {"weight_map": {}}])
def test_weight_index_without_weights_is_rejected(folder: Path, index: Any) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS_INDEX).write_text(json.dumps(index), "utf-8")
    assert _refusal(folder) == (
        f"cannot load '{folder}': {WEIGHTS_INDEX} lists no weights; use a checkpoint that is not "
        "damaged"
    )


def test_sharded_weights_are_loaded(folder: Path) -> None:
    expected = load_model(f"hf:{folder}")
    expected.network.model.save_pretrained(folder, max_shard_size="20KB")
    (folder / WEIGHTS).unlink()
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert load_model(f"hf:{folder}").fingerprint == expected.fingerprint


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_attention_heads", "n_experts"])
def test_implausible_sizes_are_refused(folder: Path, name: str) -> None:
    _configure(folder, text_config={name: 10**12})
    assert _refusal(folder) == (
        f"cannot load '{folder}': its configuration has {name}={10**12}, more than the maximum "
        "of 10000; use a checkpoint that is not damaged"
    )


_CODE = """
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput


class Config(PreTrainedConfig):
    model_type = "own-diffusion"

    def __init__(self, width=8, vocab=60, mask_token_id=None, **settings):
        self.width, self.vocab, self.mask_token_id = width, vocab, mask_token_id
        super().__init__(**settings)


class Network(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.inner = torch.nn.Embedding(config.vocab, config.width)
        self.mixed = torch.nn.Linear(config.width, config.width)
        self.head = torch.nn.Linear(config.width, config.vocab)

    def tie_weights(self):
        pass  # as code made for transformers 4 has it

    def forward(self, input_ids=None, attention_mask=None):
        assert attention_mask is None
        inner = self.inner(input_ids)
        places = torch.arange(1, input_ids.shape[1] + 1, dtype=inner.dtype)[:, None]
        around = torch.tanh(self.mixed(inner + (places * inner).mean(dim=1, keepdim=True)))
        return MaskedLMOutput(logits=self.head(around))
"""


@pytest.fixture
def diffusion(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a masked checkpoint that runs only by its own code, written for an older version."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "own.py"
    module.write_text(_CODE, "utf-8")
    torch.manual_seed(0)
    mask_id = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]["[MASK]"]
    vocab = json.loads((folder / "config.json").read_text("utf-8"))["vocab_size"]
    own: Any = import_module("own")
    network = own.Network(own.Config(vocab=vocab))
    save_file(network.state_dict(), folder / WEIGHTS)
    shutil.copy(module, folder / "own.py")
    classes = {"AutoConfig": "own.Config", "AutoModel": "own.Network"}
    settings = {"model_type": "own-diffusion", "vocab": vocab, "mask_token_id": mask_id}
    (folder / "config.json").write_text(json.dumps({**settings, "auto_map": classes}), "utf-8")
    yield folder
    for name in [name for name in sys.modules if name.startswith(("own", "transformers_modules"))]:
        del sys.modules[name]


def _logits(folder: Path, ids: list[int]) -> torch.Tensor:
    """Return what the network says of every place, by its code as the test wrote it."""
    own: Any = import_module("own")
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    network = own.Network(own.Config(vocab=settings["vocab"]))
    network.load_state_dict(load_file(folder / WEIGHTS))
    with torch.inference_mode():
        return network(torch.tensor([ids])).logits[0].log_softmax(dim=1)


def test_code_runs_on_request_and_is_reported(
    diffusion: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"hf:{diffusion}?code=run&metric=pll"
    model = load_model(spec)
    digest = sha256(_CODE.encode()).hexdigest()
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"'{diffusion}' runs its own code: own.py (SHA-256 {digest})"
    )
    assert load_model(model.spec).event == model.event
    tokenizer = BertTokenizer.from_pretrained(diffusion)
    ids = tokenizer("The dog saw a cat.")["input_ids"]
    expected = 0.0
    for place in range(1, len(ids) - 1):
        hidden = [*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]]
        expected += float(_logits(diffusion, hidden)[place, ids[place]])
    assert model.score(["The dog saw a cat."])[0] == pytest.approx(expected, abs=1e-5)
    assert model.fingerprint.endswith(digest)
    check_model(model, SENTENCES, words=["dog", "saw", "us"])


def test_loading_code_leaves_transformers_unchanged(diffusion: Path, tiny: Tiny) -> None:
    expected = load_model(f"hf:{tiny('llama')}").score(SENTENCES)
    load_model(f"hf:{diffusion}?code=run")
    assert "default" not in ROPE_INIT_FUNCTIONS
    copied = shutil.copytree(tiny("llama"), diffusion.parent / "llama")
    assert load_model(f"hf:{copied}").score(SENTENCES).tolist() == expected.tolist()


def test_missing_weights_with_custom_code_are_reported(diffusion: Path) -> None:
    weights = load_file(diffusion / WEIGHTS)
    del weights["head.bias"]
    save_file(weights, diffusion / WEIGHTS)
    with pytest.raises(ModelFileError) as error:
        load_model(f"hf:{diffusion}?code=run")
    assert "the checkpoint lacks 1 weights, among them head.bias" in str(error.value)
