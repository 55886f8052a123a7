"""Networks come alive: every layer of the built model, run by ONNX Runtime on a picture that made no weight, has a deviation near 1."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.models.small import small
from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Model
from toolchain.models.samples import seeded_samples
from toolchain.spec.errors import UserError

LEAST, MOST = 0.5, 8.0
"""Bounds of the deviation of every convolution's and dense layer's result; measured: 0.70 to 7.1 over all networks, 152 layers deep."""
DEAD, OPEN = 0.2, 0.95
"""Bounds of the share of positive results of every activation."""
MULTIPLYING = ("Conv", "Gemm")
ACTIVATIONS = ("Relu", "LeakyRelu", "Clip")


def inside(model: Model, folder: Path) -> dict[str, tuple[str, np.ndarray]]:
    """Operator and values of every result of a multiplication or activation, for a picture of another seed."""
    path = build_model(model, folder)
    graph = onnx.load(path, load_external_data=False)
    kinds = {node.output[0]: node.op_type for node in graph.graph.node if node.op_type in (*MULTIPLYING, *ACTIVATIONS)}
    del graph.graph.output[:]
    graph.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in kinds)
    onnx.save(graph, path.with_name("probe.onnx"))
    session = onnxruntime.InferenceSession(str(path.with_name("probe.onnx")))
    feed = {name: seeded_samples(name, shape, 1, "test") for name, shape in model.shapes.items()}
    return {name: (kinds[name], value) for name, value in zip(kinds, session.run(list(kinds), feed), strict=True)}


def check(found: dict[str, tuple[str, np.ndarray]]) -> None:
    """Deviations and shares within bounds, layer by layer."""
    for name, (kind, value) in found.items():
        if kind in MULTIPLYING:
            assert LEAST < value.std() < MOST, (name, value.std())
        else:
            assert DEAD < (value > 0).mean() < OPEN, (name, (value > 0).mean())


@pytest.mark.parametrize(
    "name", ["resnet18", "squeezenet", "mobilenet_v2", "densenet121", "inception_v1", "tiny_yolov3", "light_shufflenet", "light_inception_v2"]
)
def test_no_layer_dies_or_grows(name: str, tmp_path: Path) -> None:
    check(inside(load_model(name), tmp_path))


def test_nor_does_one_152_layers_deep(tmp_path: Path) -> None:
    found = inside(load_model("resnet152"), tmp_path)
    assert sum(kind in MULTIPLYING for kind, _ in found.values()) == 156
    check(found)


def test_without_batch_norms_biases_do_their_work(tmp_path: Path) -> None:
    found = inside(small("  - conv: {repeat: 60, out: 24, kernel: 3, pad: half, act: relu}\n"), tmp_path)
    assert len(found) == 120
    check(found)


def test_two_pictures_give_different_results(tmp_path: Path) -> None:
    model = load_model("squeezenet")
    session = onnxruntime.InferenceSession(str(build_model(model, tmp_path)))
    one, other = (session.run(None, {"image": picture[None]})[0] for picture in seeded_samples("image", model.shapes["image"], 2, "test"))
    assert np.abs(one - other).max() > 1e-4


def test_weights_are_multiples_of_one_eight_bit_scale(tmp_path: Path) -> None:
    build_model(small("  - conv: {out: 8, kernel: 3}\n"), tmp_path)
    model = onnx.load(tmp_path / "small.onnx")
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    weights = values["conv.weight"].astype(np.float64)
    step = np.min(np.diff(np.unique(np.abs(weights))))
    assert (np.abs(weights / step - np.rint(weights / step)) < 1e-9).all()
    assert np.abs(weights / step).max() <= 510
    mantissa, _ = np.frexp(step)
    assert mantissa * 256 == int(mantissa * 256)
    assert len(np.unique(weights)) > 100


def test_sums_that_24_bits_do_not_hold_are_refused(tmp_path: Path) -> None:
    model = small("- upsample: {factor: 24}\n- flatten\n- dense: {out: 1}\n")
    with pytest.raises(UserError, match=r"E0811 'dense.weight' has sums of 276480 products; made-up weights have at most 262144"):
        build_model(model, tmp_path)
