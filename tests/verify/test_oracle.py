import numpy as np
import onnx_ir as ir
import pytest

from toolchain.graph.importing.versions import OPSET
from toolchain.verify.oracle import first_samples, oracle_tensors


def test_samples_come_again_where_there_are_too_few() -> None:
    samples = {"a": np.arange(3), "b": np.arange(3) * 10}
    found = first_samples(samples, 5)
    assert found["a"].tolist() == [0, 1, 2, 0, 1]
    assert found["b"].tolist() == [0, 10, 20, 0, 10]
    assert first_samples(samples, 2)["a"].tolist() == [0, 1]


def negated() -> ir.Model:
    x = ir.Value(name="x", shape=ir.Shape((1, 3)), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Neg", [x], name="neg")
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", x.shape, x.type
    return ir.Model(ir.Graph([x], [node.outputs[0]], nodes=[node], opset_imports={"": OPSET}, name="g"), ir_version=8)


@pytest.mark.parametrize("samples", [{"x": np.zeros((0, 1, 3), np.float32)}, {"x": np.zeros((2, 1, 3), np.float32), "z": np.zeros(3)}])
def test_no_sample_and_different_numbers_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="no sample"):
        oracle_tensors(negated(), samples)


def test_results_stand_behind_each_other() -> None:
    images = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    assert oracle_tensors(negated(), {"x": images})["y"].tolist() == (-images).tolist()
