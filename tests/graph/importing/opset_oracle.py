"""ONNX Runtime as the judge: a model means at its own operator set what it means after the upgrade."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, shape_inference

from tests.graph.onnx_builder import PATH
from toolchain.graph.importing.versions import OPSET, to_opset
from toolchain.graph.session import open_session, run_session
from toolchain.spec.errors import UserError

Array = np.typing.NDArray[Any]


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    opset: int,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model with inputs of the types and shapes of these arrays. outputs: by default those of the last node."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs or nodes[-1].output if name],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    return list(run_session(open_session(model.SerializeToString(), optimise=False), inputs).values())


def upgraded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model at OPSET, where every node has a name, shapes are consistent and outputs are the same."""
    ends = [entry.name for entry in model.graph.output]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    result = to_opset(copy, PATH)
    assert result.opset_import[0].version == max(OPSET, model.opset_import[0].version)
    assert [entry.name for entry in result.graph.output] == ends
    shape_inference.infer_shapes(result, check_type=True, strict_mode=True, data_prop=True)
    return result


def check(model: onnx.ModelProto, inputs: Mapping[str, Array], want: Sequence[Array] | None = None, exact: bool = True) -> onnx.ModelProto:
    """The upgraded model, which computes what the model did, or the arrays wanted where ONNX Runtime cannot run the old one."""
    result = upgraded(model)
    before, after = run(model, inputs) if want is None else want, run(result, inputs)
    for old, new in zip(before, after, strict=True):
        assert_same(old, new, exact)
    return result


def assert_same(old: Any, new: Any, exact: bool = True) -> None:
    """Equal to the last bit, or to rounding."""
    if isinstance(old, list):
        for one, other in zip(old, new, strict=True):
            assert_same(one, other, exact)
        return
    assert np.asarray(old).dtype == np.asarray(new).dtype
    assert np.shape(old) == np.shape(new)
    if exact or np.asarray(old).dtype.kind not in "fc":
        np.testing.assert_array_equal(old, new)
    else:
        np.testing.assert_allclose(old, new, rtol=1e-5, atol=1e-6)


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def refusal(model: onnx.ModelProto) -> str:
    """The one line that says why the model cannot be upgraded."""
    with pytest.raises(UserError) as caught:
        upgraded(model)
    text = str(caught.value)
    assert text.startswith(f"{PATH}: E0906 ")
    assert "\n" not in text
    return text[len(f"{PATH}: E0906 ") :]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
