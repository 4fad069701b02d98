"""Reading the weights of ONNX files.

Tests `contstim.training.converters`.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tiny_onnx import node, onnx_file, quantised, tensor

from contstim.errors import MissingExtraError, ModelFileError
from contstim.training.converters import read_onnx


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    stored, restore, _ = quantised("w", rng.normal(size=(3, 4)))
    nodes = [
        restore,
        node("/q/MatMul", "MatMul", ["x", "w_out"], "y"),
        node("/p/MatMul", "MatMul", ["x", "plain"], "z"),
        node("/r/MatMul", "MatMul", ["x", "y"], "r"),
    ]
    path = tmp_path / "small.onnx"
    path.write_bytes(onnx_file([*stored, tensor("plain", np.eye(2, dtype="f4"))], nodes))
    return path


def test_reads_and_restores_weights(file: Path) -> None:
    _, _, restored = quantised("w", np.random.default_rng(3).normal(size=(3, 4)))
    graph = read_onnx(file)
    np.testing.assert_array_equal(graph.operand("/q/MatMul", 1), restored)
    assert graph.operand("/q/MatMul", 1).dtype == np.float32
    np.testing.assert_array_equal(graph.operand("/p/MatMul", 1), np.eye(2))
    assert graph.weight("w_zero_point").shape == ()


def test_what_is_not_there_is_named(file: Path) -> None:
    graph = read_onnx(file)
    messages = []
    for call in (
        lambda: graph.weight("v"),
        lambda: graph.operand("/s/MatMul", 1),
        lambda: graph.operand("/r/MatMul", 1),
    ):
        with pytest.raises(ModelFileError) as error:
            call()
        messages.append(str(error.value))
    assert messages == [
        f"'{file}' has no weight 'v'; it is another model",
        f"'{file}' has no node '/s/MatMul'; it is another model",
        f"input 1 of '/r/MatMul' in '{file}' is no weight but comes out of a MatMul; it is another "
        "model",
    ]


def test_files_that_cannot_be_read(file: Path) -> None:
    data = file.read_bytes()
    damaged = f"'{file}' is not an ONNX file, or is damaged"
    for content in (data[: len(data) // 2], b"", b"\xff" * 20, b"some text that is not a model"):
        file.write_bytes(content)
        with pytest.raises(ModelFileError) as error:
            read_onnx(file)
        assert str(error.value) == damaged
    outside = tensor("w", np.eye(2, dtype="f4"))
    outside.data_location = TensorProto.EXTERNAL
    file.write_bytes(onnx_file([outside], []))
    with pytest.raises(ModelFileError) as error:
        read_onnx(file)
    assert str(error.value) == (
        f"weight 'w' of '{file}' is kept in another file; only numbers in the file itself can "
        "be read"
    )
    scales = [tensor(n, np.ones(2, "f4")) for n in ("q", "s", "z")]
    rows = [node("d", "DequantizeLinear", ["q", "s", "z"], "w"), node("m", "MatMul", ["w"], "y")]
    file.write_bytes(onnx_file(scales, rows))
    with pytest.raises(ModelFileError) as error:
        read_onnx(file).operand("m", 0)
    assert str(error.value) == (
        f"the weight of 'm' in '{file}' has 2 scales; only one for the whole weight can be read"
    )
    with pytest.raises(ModelFileError, match="No such file"):
        read_onnx(file.parent / "none.onnx")


def test_without_the_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError) as error:
        read_onnx(file)
    assert str(error.value) == (
        f"reading '{file}' needs the package onnx; pip install \"contstim[models]\""
    )


def test_a_restored_weight_gives_what_the_graph_gives(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = [
        numpy_helper.from_array(rng.integers(-128, 128, (5, 3)).astype("i1"), "q"),
        numpy_helper.from_array(np.array(0.013, "f4"), "s"),
        # Values in typed fields, not as raw bytes.
        helper.make_tensor("z", TensorProto.INT8, [], [-9]),
        helper.make_tensor("f", TensorProto.FLOAT, [2, 2], [0.5, -1.5, 2.0, 3.0]),
        helper.make_tensor("i", TensorProto.INT64, [3], [-1, 2, -(2**40)]),
        numpy_helper.from_array(rng.normal(size=(2, 3)).astype("f2"), "h"),
        numpy_helper.from_array(rng.normal(size=(2, 3)), "d"),
        numpy_helper.from_array(rng.integers(0, 255, (4,)).astype("u1"), "u"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], name="restore"),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="/layer/MatMul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        weights,
    )
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    path = tmp_path / "small.onnx"
    path.write_bytes(whole.SerializeToString())
    found = read_onnx(path)
    assert sorted(found.weights) == sorted(w.name for w in weights)
    for weight in weights:
        expected = numpy_helper.to_array(weight)
        np.testing.assert_array_equal(found.weights[weight.name], expected)
        assert found.weights[weight.name].shape == expected.shape
    x = rng.normal(size=(2, 5)).astype("f4")
    expected = ReferenceEvaluator(whole).run(None, {"x": x})[0]
    np.testing.assert_allclose(x @ found.operand("/layer/MatMul", 1), expected, rtol=1e-5)
