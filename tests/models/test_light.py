"""The onnx package's light models: the same nodes, other weights."""

import collections
from pathlib import Path

import onnx
import onnxruntime
import pytest

from toolchain.models.build import build_model
from toolchain.models.images import seeded_samples
from toolchain.models.light import light_names, light_shape_graph
from toolchain.models.load import list_models, load_model, load_text
from toolchain.models.model import Light
from toolchain.spec.errors import Source, Span, UserError

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
