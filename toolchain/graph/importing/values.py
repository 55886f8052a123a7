"""Refuses weights that are not finite numbers: every result after them would not be either."""

from pathlib import Path

import numpy as np
import onnx_ir as ir

from toolchain.graph.nodes.rewrite import is_operator
from toolchain.spec.errors import fail

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LSTM", "GRU", "RNN")
"""Operators with weights; other constants may be infinite, such as the masks of attention."""


def check_finite(model: ir.Model, path: Path) -> None:
    """Raises UserError E0909 naming the first weight with NaN or infinity, its place in it and its reader."""
    for value in model.graph.initializers.values():
        if value.const_value is None or value.const_value.dtype not in FLOATS or not any(is_operator(node, *WEIGHTED) for node, _ in value.uses()):
            continue
        array = value.const_value.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            quick = np.isfinite(array.sum())  # one that is not finite makes the sum so; a sum may also be too large
        if quick:
            continue
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            number = float(array[tuple(bad[0])])
            users = ", ".join(f"node '{node.name}' ({node.op_type})" for node, _ in value.uses())
            place = ", ".join(str(int(index)) for index in bad[0])
            text = f"the constant '{value.name}' holds {number} at [{place}] and {len(bad) - 1} more such values; read by {users}"
            raise fail("E0909", text, place=str(path))
