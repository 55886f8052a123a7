"""The onnx package's light models: the same nodes, other weights."""

import collections
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import helper

from toolchain.models.build import build_model
from toolchain.models.light import graph_macs, light_names, light_shape_graph, node_macs
from toolchain.models.load import list_models, load_model, load_text
from toolchain.models.model import Light
from toolchain.models.samples import seeded_samples
from toolchain.spec.errors import Source, Span, UserError

SHAPES = {
    "x": (1, 6, 8, 8), "w": (10, 3, 3, 2), "y": (1, 10, 4, 4), "up": (6, 5, 2, 2), "z": (1, 5, 16, 16),
    "a": (7, 20), "at": (20, 7), "b": (20, 9), "c": (7, 9), "m": (2, 3, 7, 20), "n": (2, 3, 7, 9),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attributes", "expected"),
    [
        ("Conv", ["x", "w"], "y", {"group": 2}, 4 * 4 * 10 * 3 * 3 * 2),
        ("ConvInteger", ["x", "w"], "y", {"group": 2}, 4 * 4 * 10 * 3 * 3 * 2),
        ("QLinearConv", ["x", "", "", "w"], "y", {}, 4 * 4 * 10 * 3 * 3 * 2),
        ("ConvTranspose", ["x", "up"], "z", {}, 6 * 8 * 8 * 5 * 2 * 2),
        ("Gemm", ["a", "b"], "c", {}, 7 * 20 * 9),
        ("Gemm", ["at", "b"], "c", {"transA": 1}, 7 * 20 * 9),
        ("MatMul", ["m", "b"], "n", {}, 2 * 3 * 7 * 20 * 9),
        ("MatMulInteger", ["a", "b"], "c", {}, 7 * 20 * 9),
        ("Relu", ["x"], "x", {}, 0),
    ],
)
def test_a_nodes_macs(kind: str, inputs: list[str], output: str, attributes: dict[str, int], expected: int) -> None:
    assert node_macs(helper.make_node(kind, inputs, [output], **attributes), SHAPES) == expected


def test_a_graph_lists_the_nodes_that_multiply() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="first"),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("Gemm", ["a", "b"], ["c"]),
    ]
    assert graph_macs(nodes, SHAPES) == {"first": 2880, "c": 1260}


SPAN = Span(Source("t.yaml", ""), 1, 1)
FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def _operators(nodes: "collections.abc.Iterable[onnx.NodeProto]") -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in nodes if node.op_type != "ConstantOfShape")


def test_each_of_them_is_declared() -> None:
    declared = {origin.name for origin in (load_model(name).origin for name in list_models()) if isinstance(origin, Light)}
    assert declared == set(light_names())
    assert len(declared) == 9


@pytest.mark.parametrize("name", light_names())
def test_their_nodes_stay_and_their_weights_become_parameters(name: str) -> None:
    original = onnx.load(FOLDER / f"light_{name}.onnx").graph
    bare = light_shape_graph(Light(name, SPAN))
    assert _operators(bare.proto.graph.node) == _operators(original.node)
    assert len(bare.proto.graph.input) == 1
    assert all(node.op_type != "ConstantOfShape" for node in bare.proto.graph.node)
    given = {value.name for value in bare.proto.graph.input} | set(bare.parameters) | {t.name for t in bare.proto.graph.initializer}
    made = {name for node in bare.proto.graph.node for name in node.output}
    assert {name for node in bare.proto.graph.node for name in node.input} <= given | made
    assert all(bare.shapes[node.output[0]] for node in bare.proto.graph.node)


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet", "light_inception_v2"])
def test_their_outputs_are_no_longer_one_value(name: str, tmp_path: Path) -> None:
    model = load_model(name)
    path = build_model(model, tmp_path)
    onnx.checker.check_model(path)
    ((key, shape),) = model.shapes.items()
    (result,) = onnxruntime.InferenceSession(str(path)).run(None, {key: seeded_samples(key, shape, 1, "test")})
    assert len(set(result.ravel().tolist())) > 900
    assert onnx.load(path, load_external_data=False).opset_import[0].version == 9


def test_an_unknown_one_is_told() -> None:
    with pytest.raises(UserError, match=r"t\.yaml:2:8: E0807 the onnx package has no light model 'resnet5'; did you mean 'resnet50'\?"):
        load_text("model: {name: a, summary: b}\nlight: resnet5\n", Path("t.yaml"))
