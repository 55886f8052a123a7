"""Reads back a stage that a Store wrote, as it was in memory."""

from pathlib import Path

import onnx_ir as ir

from toolchain.graph.regions import region_calls, region_function
from toolchain.spec.errors import fail


def read_stage(path: Path) -> ir.Model:
    """The model with shapes and types of everything in it, weights read when they are used. Raises UserError E0001."""
    try:
        model = ir.load(path)
    except OSError as error:
        raise fail("E0001", f"cannot read the model: {error.strerror}", place=str(path)) from None
    for call in region_calls(model):
        for inner, outer in zip(region_function(model, call).inputs, call.inputs, strict=True):
            if outer is not None:  # onnx_ir reads the types of a function's results, and leaves out those of its inputs
                inner.shape, inner.type = outer.shape, outer.type
                inner.metadata_props.update(outer.metadata_props)
    return model
