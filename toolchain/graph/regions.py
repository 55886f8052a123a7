"""Regions of a model that a machine runs: calls of local functions in a domain of their own, so that the whole model still runs in ONNX Runtime.

The function of a machine that takes a graph holds ONNX's own operators.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from toolchain.graph.importing.versions import IR_VERSION
from toolchain.graph.rewrite import known_shape
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail

REGION = "tilewright.region"
"""The domain of region functions; the name of one is the region's."""
TARGET = "tilewright.target"
"""Metadata of a region's function and of its call: the machine that it is for."""
BATCH = "tilewright.batch"
"""Metadata of a region's function: how many images, or rows of matrices, one run of its program takes."""
ROW_BY_ROW = "tilewright.row_by_row"
"""Metadata of the function of a region of matrices whose program takes one row a run: why it does not take all, as JSON (`reasons_json`)."""
KERNEL = "tilewright.kernel"
"""Metadata of an integer call in a region: the machine's kernel that does it; none for one that only says where tensors stand."""
WAY = "tilewright.way"
"""Metadata beside it: which of the ways to compute the call the kernel does, by number."""


def region_calls(model: ir.Model) -> list[ir.Node]:
    """The calls of regions, in the order of the graph."""
    return [node for node in model.graph if node.domain == REGION]


def region_function(model: ir.Model, call: ir.Node) -> ir.Function:
    """The function that a region's call runs."""
    return model.functions[call.op_identifier()]


def describe_inputs(model: ir.Model, call: ir.Node) -> None:
    """Gives the inputs of a region's function the shapes and types of the call's inputs: a file keeps none of them."""
    for inner, value in zip(region_function(model, call).inputs, call.inputs, strict=True):
        if inner.shape is None and value is not None:
            inner.shape, inner.type = value.shape, value.type


@dataclass(frozen=True)
class GraphTensor:
    """A tensor at the border, or between operators. dtype: numpy's name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def layout(self) -> str:
        """The host's own."""
        return ""

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, eq=False)
class GraphRegion:
    """nodes: in an order in which they can run. constants: by name. opset: of the operators."""

    name: str
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    nodes: tuple[ir.Node, ...]
    constants: Mapping[str, Array]
    opset: int


def read_graph_region(model: ir.Model, call: ir.Node) -> GraphRegion:
    """Raises UserError E1010 for a region that no partitioning has made: with tensors of unknown shape, or with other operators."""
    describe_inputs(model, call)
    function = region_function(model, call)
    pairs = list(zip(function.inputs, call.inputs, strict=True))
    constants = {inner.name or "": _array(value, call) for inner, value in pairs if value is not None and value.is_initializer()}
    given = [inner for inner, value in pairs if value is None or not value.is_initializer()]
    foreign = next((node for node in function if node.domain not in ("", "ai.onnx")), None)
    if foreign is not None:
        raise fail("E1010", f"region '{call.op_type}' has a node '{foreign.name}' of {foreign.domain}", hint="build the graph again")
    outputs = tuple(GraphTensor(inner.name or "", *_type(value, call)) for inner, value in zip(function.outputs, call.outputs, strict=True))
    inputs = tuple(GraphTensor(inner.name or "", *_type(inner, call)) for inner in given)
    opset = function.opset_imports.get("") or model.graph.opset_imports[""]
    return GraphRegion(call.op_type, inputs, outputs, tuple(function), constants, opset)


def _array(value: ir.Value, call: ir.Node) -> Array:
    if value.const_value is None:
        raise fail("E1010", f"region '{call.op_type}' reads '{value.name}', which has no values", hint="build the graph again")
    return np.ascontiguousarray(value.const_value.numpy()).reshape(value.const_value.numpy().shape)


def _type(value: ir.Value, call: ir.Node) -> tuple[tuple[int, ...], str]:
    shape, dtype = known_shape(value), value.dtype
    if shape is None or dtype is None:
        raise fail("E1010", f"the shape or type of '{value.name}' of region '{call.op_type}' is not known", hint="build the graph again")
    return shape, str(np.dtype(dtype.numpy()).name)


def onnx_of(region: GraphRegion) -> onnx.ModelProto:
    """The region as an ONNX model of its own, with its constants inside."""
    inputs, outputs = ([_info(tensor) for tensor in side] for side in (region.inputs, region.outputs))
    constants = [numpy_helper.from_array(array, name) for name, array in region.constants.items()]
    graph = helper.make_graph([ir.serde.serialize_node(node) for node in region.nodes], region.name, inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", region.opset)], ir_version=IR_VERSION)


def _info(tensor: GraphTensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), tensor.shape)
