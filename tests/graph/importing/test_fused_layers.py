"""Layers that an optimiser fused give the same numbers written out, and become the machine's; what no rule says stays."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.graph.encoder import encoder
from tests.graph.imported import normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.importing.foreign_operators import VENDOR
from toolchain.graph.importing.fused_layers import lend_layers, write_layers
from toolchain.graph.importing.load import load_graph
from toolchain.graph.nodes import REASON
from toolchain.passes.attention import find_attention
from toolchain.spec.reason import read_reasons
from toolchain.spec.reasons import text_of

Array = np.ndarray
OPTIMISE = """
import sys
from onnxruntime.transformers import optimizer
plain, path, hidden = sys.argv[1:]
options = optimizer.FusionOptions("bert")
options.enable_attention = hidden == "0"
optimizer.optimize_model(plain, "bert", num_heads=2, hidden_size=32, opt_level=0, optimization_options=options).save_model_to_file(path)
"""
"""In a process of its own, as the optimiser puts folders on the path of modules."""
ROWS, WIDTH, HEADS = 6, 16, 2


def network(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array], opset: int = 21) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output if name.startswith("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(VENDOR, 1)], ir_version=10)


def check(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array], opset: int = 21) -> onnx.ModelProto:
    """What ONNX Runtime makes of the layers as given, and as written out."""
    proto = network(nodes, inputs, constants, opset)
    wanted = run(proto, inputs)
    lend_layers(proto)
    write_layers(proto)
    assert not any(node.domain == VENDOR or node.op_type == "Attention" for node in proto.graph.node)
    for name, array in run(proto, inputs).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-5)
    return proto


def stays(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array], opset: int = 21) -> str:
    """Layers are left alone; the reason that the first one keeps, if any."""
    proto = network(nodes, inputs, constants, opset)
    before = proto.SerializeToString(deterministic=True)
    lend_layers(proto)
    write_layers(proto)
    kept = [entry.value for node in proto.graph.node for entry in node.metadata_props if entry.key == REASON]
    for node in proto.graph.node:
        node.ClearField("metadata_props")
    assert proto.SerializeToString(deterministic=True) == before
    return text_of(read_reasons(kept[0])[0]) if kept else ""


def vendor(kind: str, operands: Sequence[str], results: Sequence[str] = ("y",), **attributes: Any) -> onnx.NodeProto:
    return n(kind, list(operands), list(results), kind.lower(), domain=VENDOR, **attributes)


@pytest.mark.parametrize(("kind", "bias"), [("BiasGelu", True), ("FastGelu", True), ("FastGelu", False), ("Gelu", False), ("QuickGelu", False)])
def test_functions(kind: str, bias: bool) -> None:
    check([vendor(kind, ["x", "b"] if bias else ["x"])], {"x": 3 * normal(0, 2, 3, 8)}, {"b": normal(1, 8)} if bias else {})


@pytest.mark.parametrize("own", [["scale"], ["scale", "offset"], ["scale", "offset", "b"], ["scale", "", "b"]])
def test_a_norm_of_a_sum(own: Sequence[str]) -> None:
    operands = ["x", "s", *own]
    constants = {name: normal(k, 8) for k, name in enumerate(("scale", "offset", "b")) if name in operands}
    given = {"x": normal(5, 2, 3, 8), "s": normal(6, 2, 3, 8)}
    check([vendor("SkipLayerNormalization", operands, epsilon=1e-3)], given, constants)
    check([vendor("SkipLayerNormalization", operands, ["y", "", "", "y2"])], given, constants)
    stays([vendor("SkipLayerNormalization", operands, ["y", "y1"])], given, constants)


@pytest.mark.parametrize("opset", [21, 23])
def test_norms_by_the_root_of_the_mean_square(opset: int) -> None:
    given, own = {"x": normal(5, 2, 3, 8)}, {"scale": normal(0, 8), "b": normal(1, 8)}
    kind = "RMSNormalization" if opset == 23 else "SimplifiedLayerNormalization"
    check([n(kind, ["x", "scale"], ["y"], "norm", axis=-1, epsilon=1e-3)], given, own, opset)
    given["s"] = normal(6, 2, 3, 8)
    for operands in (["x", "s", "scale"], ["x", "s", "scale", "b"]):
        check([vendor("SkipSimplifiedLayerNormalization", operands, ["y", "", "", "y2"], epsilon=1e-3)], given, own, opset)
    if opset == 23:
        stays([n(kind, ["x", "scale"], ["y"], "norm", axis=1, epsilon=1e-3)], given, {"scale": normal(0, 3, 8)}, opset)


def test_a_norm_that_files_name_as_the_standards_is_read(tmp_path: Path) -> None:
    """ONNX Runtime has it in the standard's domain, whose operator sets do not know it."""
    given, own = {"x": normal(5, 2, 3, 8)}, {"scale": normal(0, 8)}
    for axis in (-1, 1):
        scale = {"scale": normal(0, 3, 8)} if axis == 1 else own
        proto = network([n("SimplifiedLayerNormalization", ["x", "scale"], ["y"], "norm", axis=axis)], given, scale)
        onnx.save(proto, tmp_path / "norm.onnx")
        found = load_graph(tmp_path / "norm.onnx")
        assert ("SimplifiedLayerNormalization" in {node.op_type for node in found.graph}) == (axis == 1)
        np.testing.assert_allclose(run(found, given)["y"], run(proto, given)["y"], rtol=1e-5, atol=1e-6)
    stays([n("SimplifiedLayerNormalization", ["x", "scale"], ["y"], "norm", axis=1)], given, {"scale": normal(0, 3, 8)})


@settings(max_examples=12, deadline=None)
@given(st.booleans(), st.booleans(), st.booleans())
def test_embeddings(segments: bool, masked: bool, summed: bool) -> None:
    rng = np.random.default_rng(0)
    inputs = {"tokens": rng.integers(0, 9, (2, ROWS)).astype(np.int32)}
    constants = {"words": normal(0, 9, WIDTH), "places": normal(1, 12, WIDTH), "scale": normal(3, WIDTH), "offset": normal(4, WIDTH)}
    if segments:
        inputs["segments"], constants["kinds"] = rng.integers(0, 2, (2, ROWS)).astype(np.int32), normal(2, 2, WIDTH)
    if masked:
        inputs["mask"] = (np.arange(ROWS) < np.array([[4], [6]])).astype(np.int32)
    names = ["tokens", "segments" if segments else "", "words", "places", "kinds" if segments else "", "scale", "offset", "mask" if masked else ""]
    results = ["y", "y1", *(["y2"] if summed else [])]
    check([vendor("EmbedLayerNormalization", names, results)], inputs, constants)


@settings(max_examples=16, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from([1.0, 0.25]))
def test_products(left: bool, right: bool, alpha: float) -> None:
    a, b = normal(0, 2, 3, *((5, 4) if left else (4, 5))), normal(1, 2, 3, *((6, 5) if right else (5, 6)))
    check([vendor("FusedMatMul", ["a", "b"], transA=int(left), transB=int(right), alpha=alpha)], {"a": a, "b": b}, {})


ACTIVE: list[tuple[str, list[float], bool]] = [
    *(("", [], summed) for summed in (False, True)),
    *(("Relu", [], summed) for summed in (False, True)),
    *((kind, parameters, False) for kind, parameters in (("Clip", [0.0, 0.5]), ("LeakyRelu", [0.1]), ("Sigmoid", []), ("HardSigmoid", [0.3, 0.4]))),
]
"""ONNX Runtime fuses a sum with a ReLU alone."""


@pytest.mark.parametrize(("activation", "parameters", "summed"), ACTIVE)
def test_convolutions(activation: str, parameters: list[float], summed: bool) -> None:
    more: dict[str, Any] = ({"activation": activation} if activation else {}) | ({"activation_params": parameters} if parameters else {})
    inputs = {"x": normal(0, 1, 3, 6, 5)} | ({"z": normal(3, 1, 4, 6, 5)} if summed else {})
    operands = ["x", "w", "b", *(["z"] if summed else [])]
    check([vendor("FusedConv", operands, kernel_shape=[3, 3], pads=[1, 1, 1, 1], **more)], inputs, {"w": normal(1, 4, 3, 3, 3), "b": normal(2, 4)})


def test_what_no_rule_says_stays() -> None:
    x, w = {"x": normal(0, 1, ROWS, WIDTH)}, {"w": normal(1, WIDTH, 3 * WIDTH)}
    stays([vendor("Attention", ["x", "w", "", "counts"], num_heads=HEADS)], {**x, "counts": np.array([4], np.int32)}, w)  # keys by their number
    stays([vendor("Attention", ["x", "w"], ["y", "y1"], num_heads=HEADS)], x, w)  # a cache of keys
    stays([vendor("FusedMatMul", ["x", "w"], transBatchA=1)], x, w)
    stays([vendor("Inverse", ["x"])], {"x": normal(0, 3, 3)}, {})


@pytest.mark.parametrize("hidden", [False, True])
def test_an_encoder_that_onnx_runtime_optimised_has_its_attention(hidden: bool, tmp_path: Path) -> None:
    """Its optimiser fuses every layer of a transformer; as a graph of ours the attentions are found as before."""
    plain, path = encoder(layers=2), tmp_path / "fused.onnx"
    onnx.save(plain, tmp_path / "plain.onnx")
    done = subprocess.run(
        [sys.executable, "-c", OPTIMISE, tmp_path / "plain.onnx", path, str(int(hidden))], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    kinds = {node.op_type for node in onnx.load(path).graph.node if node.domain == VENDOR}
    assert "SkipLayerNormalization" in kinds
    found = load_graph(path)
    assert not any(node.domain == VENDOR for node in found.graph)
    assert sum(find_attention(node) is not None for node in found.graph) == 2
    x = normal(3, 1, 16, 32)
    np.testing.assert_allclose(run(found, {"x": x})["y"], run(plain, {"x": x})["y"], rtol=1e-4, atol=1e-5)
