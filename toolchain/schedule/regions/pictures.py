"""The integer graph as the machine sees it: every tensor a picture [batch, channels, height, width], padding and placement resolved."""

from collections.abc import Sequence

import onnx_ir as ir

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import BOUNDARY, read_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.rewrite import shape_of
from toolchain.operations import operation
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kind_named
from toolchain.schedule.regions.lowering import NO_PADS
from toolchain.spec.arrays import Array
from toolchain.spec.reasons import Why, refuse


def operation_of(node: ir.Node | None, kinds: Kinds) -> OperationKind | None:
    """The operation that an integer call computes; None for any other node."""
    if node is None or not is_integer(node) or kind_of(node) in BOUNDARY:
        return None
    return kind_named(kinds, kind_of(node))


def data_of(node: ir.Node, kinds: Kinds) -> list[ir.Value]:
    """The tensors that an integer call reads, known ones left out."""
    kind, given = operation_of(node, kinds), [value for value in node.inputs if value is not None]
    return given if kind is None or kind.meaning.join else given[: len(kind.data)]


def known_of(node: ir.Node, kinds: Kinds) -> list[ir.Value]:
    """The known tensors that an integer call reads: weights, biases, tables."""
    return [value for value in node.inputs if value is not None][len(data_of(node, kinds)) :]


def is_call(node: ir.Node | None, *kinds: str) -> bool:
    """Whether a node is an integer call of one of these operations."""
    return node is not None and is_integer(node) and kind_of(node) in kinds


def is_placed(node: ir.Node | None, kinds: Kinds) -> bool:
    """Whether a node is a call that only says where tensors stand."""
    kind = operation_of(node, kinds)
    return kind is not None and kind.placed


def picture_of(value: ir.Value, images: int, flattened: bool = False) -> Shape:
    """A tensor of as many images as a run takes; the runtime loops over the graph's own batch.

    flattened: whether the flatten that made the tensor is the machine's too, so that it still stands as a picture.
    Raises UserError E1003 for ranks that are no picture and no row.
    """
    size, maker = shape_of(value), value.producer()
    if flattened and len(size) == 2 and maker is not None and is_call(maker, "flatten") and maker.inputs[0] is not None:
        return picture_of(maker.inputs[0], images)
    if len(size) not in operation.PICTURE_AXES:
        raise refuse("E1003", Why.AXES(tensor=value.name or "", rank=len(size)))
    return Shape(images, *operation.picture_of(size)[1:])


def pads_of(node: ir.Node, kinds: Kinds) -> tuple[int, int, int, int]:
    """Borders of a pad call: top, left, bottom, right."""
    pads: Sequence[int] = read_call(node, kinds).attributes["pads"]
    rank = len(pads) // 2
    return pads[2], pads[3], pads[rank + 2], pads[rank + 3]


def merged_pads(node: ir.Node, merged: bool, kinds: Kinds) -> tuple[ir.Value, tuple[int, int, int, int]]:
    """The first operand of a call, and zeros around it; those of a pad call before it where that is `merged`."""
    value = data_of(node, kinds)[0]
    maker = value.producer()
    before = maker.inputs[0] if merged and maker is not None and is_call(maker, "pad") else None
    return (value, NO_PADS) if before is None or maker is None else (before, pads_of(maker, kinds))


def shuffle_after(node: ir.Node, kinds: Kinds) -> ir.Node | None:
    """The channel shuffle that alone reads the result of a call with weights: its filters can make the channels in that order."""
    kind, value = operation_of(node, kinds), node.outputs[0]
    users = [user for user, _ in value.uses()]
    single = kind is not None and bool(kind.bias) and len(users) == 1 and not value.is_graph_output()
    return users[0] if single and is_call(users[0], "shuffle") else None


def array_of(value: ir.Value) -> Array:
    """The values of a constant operand."""
    assert value.const_value is not None
    return value.const_value.numpy()
