"""Windows of whose number ONNX's shape inference and ONNX Runtime disagree, written such that both agree on what ONNX Runtime computes.

Pools that round their size up: ONNX Runtime leaves out a last window that begins behind the picture and its begin padding (measured on ONNX Runtime
1.31, operator sets 10 to 22). Transposed convolutions with automatic padding and output padding: ONNX Runtime's result is the picture times the
stride, inference adds the output padding to it (measured on 1.32, 260 combinations of size, kernel, stride, dilation and output padding).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.nodes.subgraphs import Shapes

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
    """Rewrites every such operator whose picture is known; whether there was one."""
    transposed = [_write_pads(node, shapes) for node in graph.node if is_operator(node, "ConvTranspose")]
    return _write_pools(graph, shapes) or any(transposed)


def _write_pads(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Writes the padding of a transposed convolution out; whether it was automatic, with output padding."""
    shape, weights = (shapes.get(name) for name in node.input[:2])
    mode, more = _automatic(node), _integers(node, "output_padding", [])
    if shape is None or weights is None or None in (*shape[2:], *weights[2:]) or not mode.startswith(b"SAME") or not any(more):
        return False
    rank = len(shape) - 2
    steps = zip(weights[2:], _integers(node, "strides", [1] * rank), _integers(node, "dilations", [1] * rank), more, strict=False)
    totals = [max(((k or 0) - 1) * d + 1 + extra - s, 0) for k, s, d, extra in steps]
    begins = [total // 2 if mode == b"SAME_UPPER" else total - total // 2 for total in totals]
    _set(node, "pads", [*begins, *(total - begin for total, begin in zip(totals, begins, strict=True))])
    _set(node, "auto_pad", "NOTSET")
    return True


def _write_pools(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Pools that round up. A dilated one stays whose padding would be as long as its kernel, which ONNX Runtime refuses."""
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
    return is_operator(node, *POOLS) and bool(_integer(node, "ceil_mode")) and _automatic(node) in (b"NOTSET", b"")


def _automatic(node: onnx.NodeProto) -> bytes:
    """The attribute auto_pad."""
    return next((a.s for a in node.attribute if a.name == "auto_pad"), b"NOTSET")


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


def _set(node: onnx.NodeProto, name: str, value: int | list[int] | str) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
