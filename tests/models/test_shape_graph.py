"""Nodes, parameters and constants as layers add them.

Layers on sequences as ONNX: each computes what its definition says, in ONNX Runtime.

A written-out network as ONNX: valid, complete, and with the attributes that the layers ask for.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.models.small import small
from toolchain.models.build import build_model, model_shape_graph
from toolchain.models.operators import Layer, Softmax
from toolchain.models.samples import calibration_samples
from toolchain.models.shape_graph import GraphNodes, ShapeGraph
from toolchain.spec.errors import Source, Span, UserError


def test_names_and_shapes_of_what_a_layer_adds() -> None:
    graph = GraphNodes({"x": (1, 4)})
    layer = Layer("out", Softmax(), ("x",), (1, 4), Span(Source("m.yaml", ""), 1, 1))
    assert list(graph.own("out", {"weight": (4, 4), "bias": (4,)})) == ["out.weight", "out.bias"]
    assert graph.parameters == {"out.weight": (4, 4), "out.bias": (4,)}
    inner = graph.inner("MatMul", "out.product", ["x", "out.weight"], (1, 4))
    assert graph.several("Split", "out.halves", [inner], {"out.a": (1, 2), "out.b": (1, 2)}, axis=-1) == ("out.a", "out.b")
    assert (graph.shapes["out.a"], graph.nodes.pop().op_type) == ((1, 2), "Split")
    graph.last("Softmax", layer, [inner], axis=-1)
    assert graph.shapes["out.product"] == (1, 4)
    assert [(node.name, list(node.input), list(node.output)) for node in graph.nodes] == [
        ("out.product", ["x", "out.weight"], ["out.product"]),
        ("out", ["out.product"], ["out"]),
    ]
    assert graph.constant("out.root", np.float32(2)) == "out.root"
    assert graph.constants[0].dims == []


ABOUT = "model: {name: small, summary: a test}\n"
IDS = f"{ABOUT}inputs: {{ids: {{shape: [1, 6], below: 50}}, kinds: {{shape: [1, 6], below: 2}}}}\n"
VECTOR = f"{ABOUT}inputs: {{x: [1, 8], ids: {{shape: [1, 3], below: 20}}}}\n"
SEQUENCE = f"{ABOUT}inputs: {{x: [1, 6, 8]}}\n"
Arrays = dict[str, np.typing.NDArray[np.float64]]


def run(layers: str, head: str, folder: Path) -> tuple[Arrays, np.typing.NDArray[np.float64]]:
    """Inputs and parameters by name, and the result of ONNX Runtime on the first sample."""
    model = small(layers, head=head)
    path = build_model(model, folder)
    onnx.checker.check_model(str(path), full_check=True)
    given = {name: values[0] for name, values in calibration_samples(model).items()}
    held = {each.name: onnx.numpy_helper.to_array(each, str(folder)) for each in onnx.load(path).graph.initializer}
    (found,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, given)
    return {name: np.asarray(array, np.float64) for name, array in (given | held).items()}, np.asarray(found, np.float64)


def softmax(x: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def near(found: np.typing.NDArray[np.float64], wanted: np.typing.NDArray[np.float64]) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())


def test_an_embedding_and_positions(tmp_path: Path) -> None:
    layers = "  - add: {of: [[embedding: {name: a, out: 8}], [embedding: {name: b, from: kinds, out: 8}]]}\n  - positions\n"
    a, found = run(layers, IDS, tmp_path)
    assert a["a.table"].shape == (50, 8)
    near(found, a["a.table"][a["ids"].astype(int)] + a["b.table"][a["kinds"].astype(int)] + a["positions.table"])


def test_a_layer_norm(tmp_path: Path) -> None:
    a, found = run("  - layernorm: {epsilon: 0.01}\n", SEQUENCE, tmp_path)
    x = a["x"]
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.01)
    near(found, normed * a["layernorm.scale"] + a["layernorm.bias"])


@pytest.mark.parametrize("causal", ["false", "true"])
def test_attention(causal: str, tmp_path: Path) -> None:
    a, found = run(f"  - attention: {{heads: 2, causal: {causal}}}\n", SEQUENCE, tmp_path)

    def projected(name: str) -> np.typing.NDArray[np.float64]:
        rows = a["x"] @ a[f"attention.{name}.weight"] + a[f"attention.{name}.bias"]
        return rows.reshape(1, 6, 2, 4).transpose(0, 2, 1, 3)

    q, k, v = map(projected, ("queries", "keys", "values"))
    scores = q @ k.transpose(0, 1, 3, 2) / 2
    if causal == "true":
        scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    context = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(1, 6, 8)
    near(found, context @ a["attention.result.weight"] + a["attention.result.bias"])


@pytest.mark.parametrize("bias", ["false", "true"])
def test_a_dense_layer_of_each_row(bias: str, tmp_path: Path) -> None:
    a, found = run(f"  - dense: {{out: 3, bias: {bias}, act: tanh}}\n", SEQUENCE, tmp_path)
    near(found, np.tanh(a["x"] @ a["dense.weight"] + (a["dense.bias"] if bias == "true" else 0)))


def test_the_pixels_of_an_image_and_one_of_its_rows(tmp_path: Path) -> None:
    head = f"{ABOUT}inputs: {{x: [1, 4, 3, 2]}}\n"
    a, found = run("  - tokens\n  - token: {at: 4}\n", head, tmp_path / "one")
    near(found, a["x"][:, :, 2, 0])
    b, whole = run("  - tokens: {first: true}\n", head, tmp_path / "two")
    near(whole, np.concatenate([b["tokens.first"], b["x"].reshape(1, 4, 6).transpose(0, 2, 1)], axis=1))


def test_halves_of_which_one_opens_the_other_and_functions_of_elements(tmp_path: Path) -> None:
    a, found = run("  - glu\n  - scale: {by: 0.5}\n  - silu\n", SEQUENCE, tmp_path)

    def opened(x: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
        return 1 / (1 + np.exp(-x))

    half = 0.5 * a["x"][..., :4] * opened(a["x"][..., 4:])
    near(found, half * opened(half))


def test_a_sequence_as_an_image_and_back(tmp_path: Path) -> None:
    layers = "  - strip\n  - conv: {out: channels, groups: channels, kernel: [3, 1], pad: half, bias: false}\n  - tokens\n"
    a, found = run(layers, SEQUENCE, tmp_path)
    padded = np.pad(a["x"], ((0, 0), (1, 1), (0, 0)))
    near(found, sum(padded[:, tap : tap + 6] * a["conv.weight"][:, 0, tap, 0] for tap in range(3)))


def test_an_interaction_has_each_pair_once(tmp_path: Path) -> None:
    a, found = run("  - interaction: {of: [[], [embedding: {from: ids, out: 8}]]}\n", VECTOR, tmp_path)
    vectors = [a["x"][0], *a["embedding.table"][a["ids"].astype(int)[0]]]
    near(found, np.array([[*a["x"][0], *(vectors[i] @ vectors[j] for i in range(4) for j in range(i))]]))


@pytest.mark.parametrize(
    ("layers", "head", "told"),
    [
        ("  - attention: {heads: 3}\n", SEQUENCE, "E0803 a width of 8 cannot be divided among 3 heads"),
        ("  - glu\n", f"{ABOUT}inputs: {{x: [1, 6, 7]}}\n", "E0803 a width of 7 has no halves"),
        ("  - token: {at: 6}\n", SEQUENCE, "E0803 there is no row 6 among 6"),
        ("  - layernorm\n", VECTOR, "E0803 this takes a sequence (batch, rows, width), not 1x8; 'tokens' makes one of an image"),
        ("  - tokens: {first: true}\n", f"{ABOUT}inputs: {{x: [2, 4, 3, 2]}}\n", "E0803 a row of its own needs a batch of 1, not 2"),
        ("  - embedding: {out: 4}\n", SEQUENCE, "E0803 'x' holds no whole numbers below a limit; x: {shape: [1, 128], below: 1000}"),
        ("  - dense: {out: 4}\n", IDS, "E0803 'ids' holds whole numbers, which an embedding alone takes"),
        ("  - interaction: {of: [[], []]}\n", VECTOR, "E0803 an interaction takes a vector and a sequence as wide, not 1x8, 1x8"),
        ("  - relu\n", f"{ABOUT}inputs: {{x: {{shape: [1, 4], below: 9, scale: 2}}}}\n", "E0116 whole numbers below a limit are taken as they are"),
    ],
)  # fmt: skip
def test_mistakes_are_told(layers: str, head: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        small(layers, head=head)
    assert told in str(error.value)


def test_sizes_that_expressions_may_use() -> None:
    bare = model_shape_graph(small("  - dense: {name: one, out: rows + width}\n", head=SEQUENCE))
    assert bare is not None
    assert bare.shapes["one"] == (1, 6, 14)


EVERYTHING = """
  - conv: {name: c, out: 8, kernel: [3, 2], stride: [2, 1], pad: [1, 0, 2, 1], dilation: [1, 2], groups: 2}
  - norm: {act: relu}
  - conv: {out: 8, norm: true, act: relu6}
  - conv: {out: 8, act: leaky, slope: 0.125}
  - maxpool: {kernel: 3, pad: 1, ceil: true}
  - avgpool: {kernel: 3, pad: 1, include_pad: true}
  - add: {of: [[], [relu], [leaky]], act: relu}
  - concat: {of: [[], [norm]]}
  - upsample: {factor: 2}
  - globalpool
  - flatten
  - dense: {out: 5, bias: false}
  - softmax
"""


@pytest.fixture(scope="module")
def everything() -> ShapeGraph:
    found = model_shape_graph(small(EVERYTHING))
    assert found is not None
    return found


def _node(bare: ShapeGraph, name: str) -> onnx.NodeProto:
    return next(node for node in bare.proto.graph.node if node.name == name)


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def test_every_kind_of_layer_is_valid_onnx(everything: ShapeGraph, tmp_path: Path) -> None:
    path = build_model(small(EVERYTHING), tmp_path)
    onnx.checker.check_model(path, full_check=True)
    assert {node.op_type for node in everything.proto.graph.node} >= {"Conv", "Gemm", "Resize", "Clip", "LeakyRelu", "Concat", "Add"}


def test_windows_keep_their_numbers(everything: ShapeGraph) -> None:
    found = _attributes(_node(everything, "c"))
    assert found == {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}
    assert _attributes(_node(everything, "maxpool"))["ceil_mode"] == 1
    assert _attributes(_node(everything, "avgpool"))["count_include_pad"] == 1


def test_a_node_its_result_and_its_layer_have_one_name(everything: ShapeGraph) -> None:
    assert all(list(node.output) == [node.name] for node in everything.proto.graph.node)


def test_sums_of_three_are_two_sums_of_two(everything: ShapeGraph) -> None:
    last = _node(everything, "add")
    assert [*_node(everything, last.input[0]).input, last.input[1]] == ["avgpool", "relu", "leaky"]


def test_parameters_have_shapes_and_no_values(everything: ShapeGraph) -> None:
    assert everything.parameters["c.weight"] == (8, 2, 3, 2)
    assert everything.parameters["c.bias"] == (8,)
    assert everything.parameters["dense.weight"] == (5, 16)
    assert "dense.bias" not in everything.parameters
    assert "conv.bias" not in everything.parameters
    constants = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in everything.proto.graph.initializer}
    assert constants == {"conv.relu6.low": 0.0, "conv.relu6.high": 6.0, "upsample.scales": [1.0, 1.0, 2.0, 2.0]}
