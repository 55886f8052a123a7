"""Makes a Pad before a max pool the pool's own padding, where the padding can never be a maximum.

Exporters write the padding of a max pool as a Pad with the least float, or with zero behind a ReLU. A max pool's own padding counts as minus
infinity, so both give the same as long as no value is below the Pad's and every window holds a pixel.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence.intervals import interval_of, pad_fill
from toolchain.graph.nodes.rewrite import constant, drop_unused_constants, integer, ints, is_operator, known_shape, text
from toolchain.passes.base import Pass
from toolchain.passes.context import Context


@dataclass(frozen=True)
class MergePads(Pass):
    """Only where max pools alone read the padded tensor. Finite inputs: a picture of minus infinities would keep the pad's value."""

    name: ClassVar[str] = "merge_pads"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in list(model.graph):
            source = node.inputs[0] if is_operator(node, "Pad") else None
            pads = None if source is None else _margins(node, source)
            if source is None or pads is None:
                continue
            readers = [reader for reader, _ in node.outputs[0].uses()]
            sums = [_together(reader, pads) for reader in readers]
            if readers and not node.outputs[0].is_graph_output() and all(sums):
                for reader, both in zip(readers, sums, strict=True):
                    reader.attributes["pads"] = ir.AttrInt64s("pads", both)
                    reader.replace_input_with(0, source)
                model.graph.remove(node, safe=True)
        drop_unused_constants(model.graph)
        return model


def _margins(node: ir.Node, source: ir.Value) -> list[int] | None:
    """Pixels added before and after each spatial axis, [begins, ends]; None where the Pad does more, or its value could be a maximum."""
    fill, shape, pads = pad_fill(node), known_shape(source), constant(node.inputs[1])
    if fill is None or shape is None or pads is None or source.dtype is None or text(node, "mode", "constant") != "constant":
        return None
    least = float(np.finfo(source.dtype.numpy()).min) if source.dtype.is_floating_point() else -np.inf
    if fill > max(least, interval_of(source).low):
        return None
    axes = constant(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else np.arange(len(shape))
    if axes is None:
        return None
    margins = np.zeros((2, len(shape)), np.int64)
    margins[:, axes % len(shape)] = pads.reshape(2, -1)
    return None if (margins < 0).any() or margins[:, :2].any() else [int(size) for size in margins[:, 2:].ravel()]


def _together(reader: ir.Node, margins: list[int]) -> list[int]:
    """The padding of a max pool with the Pad's margins in it; empty where a window could miss the picture, which ONNX refuses."""
    plain = is_operator(reader, "MaxPool") and len(reader.outputs) == 1 and not integer(reader, "ceil_mode", 0)
    if not plain or text(reader, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return []
    kernel = ints(reader, "kernel_shape", ())
    both = [a + b for a, b in zip(margins, ints(reader, "pads", [0] * len(margins)), strict=True)]
    fits = all(pad < size for pad, size in zip(both, (*kernel, *kernel), strict=True))
    return both if fits and set(ints(reader, "dilations", (1,))) == {1} else []
