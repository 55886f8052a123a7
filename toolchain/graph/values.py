"""Refuses weights that are no numbers: every result after them would be none either."""

from pathlib import Path

import numpy as np
import onnx_ir as ir

from toolchain.spec.errors import fail

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


def check_finite(model: ir.Model, path: Path) -> None:
    """Raises UserError E0909 naming the first constant with NaN or infinity, its place in it and who reads it."""
    for value in model.graph.initializers.values():
        if value.const_value is None or value.const_value.dtype not in FLOATS:
            continue
        array = value.const_value.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            quick = np.isfinite(array.sum(dtype=np.float64))
        if quick and array.dtype != np.float64:
            continue
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            number = float(array[tuple(bad[0])])
            users = ", ".join(f"node '{node.name}' ({node.op_type})" for node, _ in value.uses()) or "nobody"
            place = ", ".join(str(int(index)) for index in bad[0])
            text = f"the constant '{value.name}' holds {number} at [{place}] and {len(bad) - 1} more such values; read by {users}"
            raise fail("E0909", text, place=str(path))
