"""The integer graph as the machine sees it: every tensor a picture [batch, channels, height, width], padding and placement resolved."""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.calls import Call, read_call
from toolchain.graph.functions import INTEGER, kind_of
from toolchain.graph.rewrite import shape_of
from toolchain.schedule.regions.lowering import NO_PADS
from toolchain.schedule.regions.region import Shape
from toolchain.spec.errors import fail

PLACED = ("concat", "flatten")
"""Kinds whose operands are parts of their result, without a copy."""
WEIGHTED = ("conv2d", "dense")


def data_of(node: ir.Node) -> list[ir.Value]:
    """The tensors that an integer call reads, weights left out."""
    given = [value for value in node.inputs if value is not None]
    return given[:1] if kind_of(node) in WEIGHTED else given


def is_call(node: ir.Node | None, *kinds: str) -> bool:
    """Whether a node is an integer call of one of these kinds."""
    return node is not None and node.domain == INTEGER and kind_of(node) in kinds


def picture_of(value: ir.Value, images: int, flattened: bool = False) -> Shape:
    """A tensor of as many images as a run takes; the runtime loops over the graph's own batch.

    flattened: whether the flatten that made the tensor is the machine's too, so that it still stands as a picture.
    Raises UserError E1003 for ranks that are no picture and no row.
    """
    size, maker = shape_of(value), value.producer()
    if flattened and len(size) == 2 and maker is not None and is_call(maker, "flatten"):
        return picture_of(data_of(maker)[0], images)
    if len(size) not in (2, 4):
        raise fail("E1003", f"'{value.name}' has {len(size)} axes")
    _, channels, height, width = (*size, 1, 1)[:4]
    return Shape(images, channels, height, width)


def pads_of(node: ir.Node) -> tuple[int, int, int, int]:
    """Of a pad call: top, left, bottom, right."""
    pads: Sequence[int] = read_call(node).attributes["pads"]
    rank = len(pads) // 2
    return pads[2], pads[3], pads[rank + 2], pads[rank + 3]


def merged_pads(node: ir.Node, merged: bool) -> tuple[ir.Value, tuple[int, int, int, int]]:
    """What a call reads first, and zeros around it; those of a pad call before it where that is `merged`."""
    value = data_of(node)[0]
    maker = value.producer()
    return (data_of(maker)[0], pads_of(maker)) if merged and maker is not None and is_call(maker, "pad") else (value, NO_PADS)


def shuffle_after(node: ir.Node) -> ir.Node | None:
    """The channel shuffle that alone reads what a convolution makes: its filters can make the channels in that order."""
    value = node.outputs[0]
    users = [user for user, _ in value.uses()]
    single = is_call(node, "conv2d") and len(users) == 1 and not value.is_graph_output()
    return users[0] if single and is_call(users[0], "shuffle") else None


def array_of(value: ir.Value) -> NDArray[Any]:
    """The values of a constant operand."""
    assert value.const_value is not None
    return value.const_value.numpy()


__all__ = ["PLACED", "WEIGHTED", "Call", "array_of", "data_of", "is_call", "merged_pads", "pads_of", "picture_of", "shuffle_after"]
