"""Regions of a model that a machine runs: calls of local functions in a domain of their own, so that the whole model still runs in ONNX Runtime."""

import onnx_ir as ir

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
    """Gives the inputs of a region's function the shapes and types of what the call hands over: a file keeps none of them."""
    for inner, value in zip(region_function(model, call).inputs, call.inputs, strict=True):
        if inner.shape is None and value is not None:
            inner.shape, inner.type = value.shape, value.type
