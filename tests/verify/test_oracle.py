import numpy as np
import onnx_ir as ir
import pytest

from toolchain.graph.versions import OPSET
from toolchain.verify.oracle import batches, first_images, oracle_tensors


def test_images_come_again_where_there_are_too_few() -> None:
    samples = {"a": np.arange(3), "b": np.arange(3) * 10}
    found = first_images(samples, 5)
    assert found["a"].tolist() == [0, 1, 2, 0, 1]
    assert found["b"].tolist() == [0, 10, 20, 0, 10]
    assert first_images(samples, 2)["a"].tolist() == [0, 1]


def test_a_model_takes_its_own_batch_at_a_time() -> None:
    found = batches({"a": np.arange(7), "b": np.arange(14)}, {"a": 2, "b": 4})
    assert [(one["a"].tolist(), one["b"].tolist()) for one in found] == [
        ([0, 1], [0, 1, 2, 3]),
        ([2, 3], [4, 5, 6, 7]),
        ([4, 5], [8, 9, 10, 11]),
    ]


@pytest.mark.parametrize("samples", [{"a": np.arange(0)}, {"a": np.arange(2), "b": np.arange(3)}])
def test_no_sample_and_different_numbers_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"no sample|unpack"):
        batches(samples, {"a": 1, "b": 1})


def test_results_stand_behind_each_other() -> None:
    x = ir.Value(name="x", shape=ir.Shape((1, 3)), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Neg", [x], name="neg")
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", x.shape, x.type
    model = ir.Model(ir.Graph([x], [node.outputs[0]], nodes=[node], opset_imports={"": OPSET}, name="g"), ir_version=8)
    images = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert oracle_tensors(model, {"x": images})["y"].tolist() == (-images).tolist()
