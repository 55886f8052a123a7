"""Padding that only a maximum reads and therefore drops: no scale has to hold it, and the integers may cut it off."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.functions import kind_of
from toolchain.graph.intervals import pad_fill
from toolchain.graph.rewrite import is_operator, text
from toolchain.spec.arrays import Array


def ranging(value: ir.Value, arrays: Sequence[Array]) -> Sequence[Array]:
    """The values of a tensor that set its range, one array a sample: zeros stand for a padding below them that max pools drop."""
    node = value.producer()
    fill = pad_fill(node) if node is not None and _is_dropped(node) else None
    if fill is None:
        return arrays
    bare = [np.where(array == array.dtype.type(fill), array.dtype.type(0), array) for array in arrays]
    return bare if fill < min(float(array.min(initial=0)) for array in bare) else arrays


def _is_dropped(node: ir.Node) -> bool:
    """Whether a node pads with a constant, and max pools alone read the result."""
    if not is_operator(node, "Pad") or text(node, "mode", "constant") != "constant":
        return False
    readers = [reader for reader, _ in node.outputs[0].uses()]
    pooled = all(is_operator(reader, "MaxPool") or kind_of(reader) == "max_pool" for reader in readers)
    return bool(readers) and pooled and not node.outputs[0].is_graph_output()
