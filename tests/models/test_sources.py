"""A user's ONNX file before it is imported.

The onnx package's light models: the same nodes, other weights.
"""

import collections
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import helper

from toolchain.models.build import build_model
from toolchain.models.load import list_models, load_model, load_text
from toolchain.models.model import Input, Light
from toolchain.models.samples import seeded_samples
from toolchain.models.sources import external_files, graph_macs, light_names, light_shape_graph, node_macs, stored_inputs
from toolchain.spec.errors import Source, Span, UserError


def _model(path: Path, dims: list[int | str | None], location: str = "") -> Path:
    weight = onnx.TensorProto(name="w", dims=[1], data_type=1)
    if location:
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
    else:
        weight.float_data.append(1)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", dims), ("w", [1]))],
        [helper.make_empty_tensor_value_info("y")],
        [weight],
    )
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_inputs_are_what_must_be_fed(tmp_path: Path) -> None:
    assert stored_inputs(_model(tmp_path / "m.onnx", [1, 3, 5])) == {"x": Input((1, 3, 5))}


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        (["batch", 3], r"dimension 0 of the input 'x' \('batch'\); give it one, such as dim=batch:1"),
        ([None, 3], r"dimension 0 of the input 'x' \(unnamed\); give it one, such as dim=x.0:1"),
        ([0, 3], r"dimension 0 of the input 'x' \(0 in the file, which exporters write for an open size\)"),
        (["n", "n"], r"dimension 0 of the input 'x' \('n'\), dimension 1 of the input 'x' \('n'\)"),
    ],
)
def test_all_sizes_that_are_open_are_told(dims: list[int | str | None], text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"E0904 sizes are open: {text}"):
        stored_inputs(_model(tmp_path / "m.onnx", dims))


@pytest.mark.parametrize(("given", "shape"), [({"n": 4}, (4, 4)), ({"n": 4, "x.1": 5}, (4, 5))])
def test_sizes_are_given_by_name_or_by_axis(given: dict[str, int], shape: tuple[int, ...], tmp_path: Path) -> None:
    assert stored_inputs(_model(tmp_path / "m.onnx", ["n", "n"]), given) == {"x": Input(shape)}


@pytest.mark.parametrize(("kind", "name"), [(10, "float16"), (11, "float64"), (7, "int64"), (2, "uint8"), (9, "bool"), (8, "string")])
def test_inputs_have_any_type(kind: int, name: str, tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", [1, 3])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = kind
    onnx.save(model, path)
    assert stored_inputs(path) == {"x": Input((1, 3), name)}


def test_weights_beside_the_model_are_found(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4))
    assert external_files(_model(tmp_path / "m.onnx", [1], "w.bin")) == [tmp_path / "w.bin"]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/w.bin", "..", "a\\w.bin"])
def test_weights_elsewhere_are_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0807 the weights '.*' are not in the model's own folder"):
        external_files(_model(tmp_path / "m.onnx", [1], location))


def test_missing_weights_and_links_are_refused(tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", [1], "w.bin")
    with pytest.raises(UserError, match=r"E0807 the model's weights 'w\.bin' are missing"):
        external_files(path)
    (tmp_path / "w.bin").symlink_to("/etc/hostname")
    with pytest.raises(UserError, match=r"E0807 the model's weights 'w\.bin' are missing"):
        external_files(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "holds no graph"), (b"\x08\x07", "holds no graph"), (b"not a model", "not an ONNX file"), (b"\x08\x07\x3a\x00", "has no operator")],
)
def test_what_is_no_model_is_told(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(UserError, match=f"E0807 .*{message}"):
        stored_inputs(tmp_path / "m.onnx")


def test_every_cut_of_a_model_is_told_or_harmless(tmp_path: Path) -> None:
    whole = _model(tmp_path / "m.onnx", [1, 3]).read_bytes()
    codes: set[str] = set()
    for length in range(len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        try:
            stored_inputs(tmp_path / "m.onnx")
        except UserError as error:
            codes |= {found.code for found in error.diagnostics}
    assert codes == {"E0807"}


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
