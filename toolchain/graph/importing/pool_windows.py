"""Pools that round their size up, written as pools that divide evenly: ONNX's shape inference and ONNX Runtime disagree about the former.

ONNX Runtime leaves out a last window that begins behind the picture and its begin padding (measured on ONNX Runtime 1.31, operator sets 10 to 22).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.nodes.tensor_shapes import Shapes

POOLS = ("MaxPool", "AveragePool", "LpPool")


@dataclass(frozen=True)
class Axis:
    """A window along one axis. reach: pixels from its first tap to its last. begin, end: padding."""

    size: int
    reach: int
    stride: int
    begin: int
    end: int

    @property
    def count(self) -> int:
        """Windows when their number is rounded up."""
        room = self.size + self.begin + self.end - self.reach
        found = -(-room // self.stride) + 1
        return found - 1 if (found - 1) * self.stride >= self.size + self.begin else found

    @property
    def needed(self) -> int:
        """The end padding that the last window reaches into."""
        return max((self.count - 1) * self.stride + self.reach - self.size - self.begin, 0)


def write_windows(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Rewrites every pool that rounds up and whose picture is known; whether there was one.

    A dilated one stays whose padding would be as long as its kernel, which ONNX Runtime refuses.
    """
    inserted: list[tuple[int, onnx.NodeProto]] = []
    found = False
    for number, node in enumerate(graph.node):
        shape = shapes.get(node.input[0]) if _rounds_up(node) else None
        if shape is None or None in shape[2:]:
            continue
        axes = _axes(node, [size or 0 for size in shape[2:]])
        if axes is None or any(axis.needed >= size for axis, size in zip(axes, _integers(node, "kernel_shape", []), strict=True)):
            continue
        found = True
        pads = [axis.begin for axis in axes] + [axis.needed for axis in axes]
        if node.op_type == "AveragePool" and _integer(node, "count_include_pad") and any(axis.needed > axis.end for axis in axes):
            inserted.append((number, _padded(graph, node, axes)))
            pads = [0] * len(axes) + [max(axis.needed - axis.end, 0) for axis in axes]
            _set(node, "count_include_pad", 0)
        _set(node, "ceil_mode", 0)
        _set(node, "pads", pads)
    for number, pad in reversed(inserted):
        graph.node.insert(number, pad)
    return found


def _rounds_up(node: onnx.NodeProto) -> bool:
    automatic = next((a.s for a in node.attribute if a.name == "auto_pad"), b"NOTSET")
    return is_operator(node, *POOLS) and bool(_integer(node, "ceil_mode")) and automatic in (b"NOTSET", b"")


def _axes(node: onnx.NodeProto, sizes: Sequence[int]) -> list[Axis] | None:
    """None for attributes that do not fit, which inference is going to tell."""
    rank = len(sizes)
    kernel, strides = _integers(node, "kernel_shape", []), _integers(node, "strides", [1] * rank)
    dilations, pads = _integers(node, "dilations", [1] * rank), _integers(node, "pads", [0] * 2 * rank)
    if [len(kernel), len(strides), len(dilations), len(pads)] != [rank, rank, rank, 2 * rank] or min((*kernel, *strides, *dilations)) < 1:
        return None
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return [Axis(*five) for five in zip(sizes, spans, strides, pads[:rank], pads[rank:], strict=True)]


def _padded(graph: onnx.GraphProto, node: onnx.NodeProto, axes: Sequence[Axis]) -> onnx.NodeProto:
    """Zeros that count for the average, which what lies beyond the declared padding does not."""
    name = f"{node.name or node.output[0]}.padded"
    pads = [0, 0, *(axis.begin for axis in axes), 0, 0, *(axis.end for axis in axes)]
    graph.initializer.append(numpy_helper.from_array(np.array(pads, np.int64), f"{name}.pads"))
    pad = helper.make_node("Pad", [node.input[0], f"{name}.pads"], [name], name)
    node.input[0] = name
    return pad


def _integer(node: onnx.NodeProto, name: str) -> int:
    return next((a.i for a in node.attribute if a.name == name), 0)


def _integers(node: onnx.NodeProto, name: str, default: list[int]) -> list[int]:
    return next((list(a.ints) for a in node.attribute if a.name == name), default)


def _set(node: onnx.NodeProto, name: str, value: int | list[int]) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
