"""Files of recurrent networks: storage types, and errors for damaged files.

Tests `contstim.models.recurrent`.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import save

from contstim.errors import InputError, ModelFileError, OutputError, UnknownNameError
from contstim.models.recurrent import (
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    load_network,
    read_tensors,
)
from contstim.training.network_files import save_network, write_tensors


def make_network(cell="lstm", tied=True):
    config = NetworkConfig(cell, embedding=6, hidden=8, tied=tied)
    network = RecurrentNetwork.initialise(
        config, TokenVocabulary(("un", "œuf", '"', "d'or", "\\", "日本")), 3
    )
    network.weights["output_bias"].copy_(torch.linspace(-3, 2, 8))
    network.weights["embedding"][4] = 0
    return network


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("cell", "tied"), [("rnn", True), ("lstm", False)])
def test_each_storage_type_round_trips(tmp_path, storage, cell, tied):
    network, path = make_network(cell, tied), tmp_path / "n.safetensors"
    save_network(path, network, {"epochs": 2.5}, storage)
    again, training, digest = load_network(path)
    assert again.config == network.config
    assert again.vocabulary == network.vocabulary
    assert training == {"epochs": 2.5}
    assert len(digest) == 64
    for name, tensor in network.weights.items():
        found = again.weights[name]
        assert found.dtype == torch.float32
        # Rounding moves a value by at most half a step: 2^-11 of itself, or 1/254 of the row's top.
        if storage == "float32" or tensor.ndim == 1:
            assert torch.equal(found, tensor)
        elif storage == "float16":
            assert torch.all((found - tensor).abs() <= tensor.abs() * 2**-11 + 1e-7)
        else:
            step = tensor.abs().amax(1, keepdim=True) / 127
            assert torch.all((found - tensor).abs() <= step * 0.501)
    assert [p.name for p in tmp_path.iterdir()] == ["n.safetensors"]


def test_int8_files_are_a_quarter_of_float32_ones(tmp_path):
    config = NetworkConfig("lstm", embedding=64, hidden=64)
    network = RecurrentNetwork.initialise(
        config, TokenVocabulary(tuple(f"w{i}" for i in range(500))), 0
    )
    sizes = {}
    for storage in ("float32", "float16", "int8"):
        path = tmp_path / storage
        save_network(path, network, {}, storage)
        sizes[storage] = path.stat().st_size
    assert sizes["float16"] < 0.6 * sizes["float32"]
    assert sizes["int8"] < 0.35 * sizes["float32"]


def test_truncated_files_are_rejected(tmp_path):
    whole, part = tmp_path / "n.safetensors", tmp_path / "part.safetensors"
    save_network(whole, make_network(), {}, "int8")
    data = whole.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1):
        part.write_bytes(data[:length])
        with pytest.raises(
            ModelFileError, match="is damaged or is not a recurrent network"
        ) as caught:
            load_network(part)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s> 0\n",
        b"\x80\x04\x95pickle",
        save({"weight": torch.zeros(3)}),
        save({"record": torch.frombuffer(bytearray(b"[1"), dtype=torch.uint8)}),
    ],
)
def test_files_of_other_formats_are_rejected(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged or is not a recurrent network") as caught:
        load_network(path)
    assert "\n" not in str(caught.value)


def test_other_kinds_and_versions_are_rejected(tmp_path):
    path = tmp_path / "n.safetensors"
    save_network(path, make_network(), {}, "float32")
    tensors, record, _ = read_tensors(path)

    def expect(message, **changes):
        write_tensors(path, tensors, {**record, **changes})
        with pytest.raises(ModelFileError, match=message):
            load_network(path)

    expect("is not a recurrent network of contstim; choose a file", format="other")
    expect("has format version 99, this contstim reads version 1", version=99)
    expect("its record is damaged", config={"cell": "gru"})
    expect("its record is damaged", config={"size": 3})
    expect("its record is damaged", vocabulary=["a", "a"])
    expect("weights 'embedding' are missing or of a wrong shape", vocabulary=["a", "b"])
    write_tensors(path, tensors, [])
    with pytest.raises(ModelFileError, match="is not a recurrent network"):
        load_network(path)
    with pytest.raises(ModelFileError, match="there is no model file"):
        load_network(tmp_path / "none")
    with pytest.raises(ModelFileError, match="cannot read model file"):
        load_network(tmp_path)


def test_unwritable_path_and_unknown_storage_are_refused(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*: No such file or directory"):
        save_network(tmp_path / "no" / "n", make_network(), {}, "int8")
    with pytest.raises(UnknownNameError, match="did you mean 'int8'"):
        save_network(tmp_path / "n", make_network(), {}, "int4")


def test_invalid_configurations_are_refused():
    with pytest.raises(UnknownNameError, match="unknown kind of recurrent unit 'gru'"):
        NetworkConfig("gru")
    with pytest.raises(InputError, match="hidden is 0; give at least 1"):
        NetworkConfig("rnn", hidden=0)
    with pytest.raises(InputError, match="at least one word"):
        TokenVocabulary(())
    with pytest.raises(InputError, match="each word once"):
        TokenVocabulary(("a", "<unk>"))


def test_fingerprint_depends_on_the_weights(tmp_path):
    network, digests = make_network(), []
    for change in (0.0, 0.0, 0.01):
        network.weights["bias"] += change
        save_network(tmp_path / "n", network, {}, "float32")
        digests.append(load_network(tmp_path / "n")[2])
    assert digests[0] == digests[1] != digests[2]
    assert np.all([set(d) <= set("0123456789abcdef") for d in digests])
