"""The integer graph as the machine sees it: every tensor a picture [batch, channels, height, width], every call an operation with constants in
place and padding merged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import BOUNDARY, Call, read_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.rewrite import shape_of
from toolchain.operations import operation as pictures
from toolchain.operations.floating import activation_bounds
from toolchain.operations.kind import ENDING, UNIT, OperationKind
from toolchain.operations.library import Kinds, kind_named
from toolchain.operations.operation import Operation, make_operation
from toolchain.operations.ways import candidates
from toolchain.spec.arrays import Array
from toolchain.spec.reasons import Why, refuse

NO_PADS = (0, 0, 0, 0)


@dataclass(frozen=True)
class Lowered:
    """call: as the graph has it. constants: the operands that follow its tensors. inputs: its tensors, with as many images as a run takes.

    pads: zeros around the first input (top, left, bottom, right), of a pad operation before it, for which padding of its own does the same.
    shuffle: groups of a channel shuffle after it, 1 for none.
    """

    call: Call
    constants: Sequence[Array]
    inputs: Mapping[str, Shape]
    pads: tuple[int, int, int, int] = NO_PADS
    shuffle: int = 1


def lower(given: Lowered, kinds: Kinds) -> Iterator[Operation]:
    """Every way to compute a call, the most fitting first; each is exact. Raises UserError E1003 for numbers that cannot be."""
    for operation in candidates(_operation(given), kinds):
        if given.shuffle == 1:
            yield operation
        elif operation.free_rows:
            yield _shuffled(operation, given.shuffle)


def _operation(given: Lowered) -> Operation:
    """The call as it stands."""
    call, kind = given.call, given.call.operation
    numbers: dict[str, Any] = dict(call.attributes)
    if "pads" in numbers and kind.pads:
        numbers["pads"] = [a + b for a, b in zip(numbers["pads"], given.pads, strict=True)]
    own = (*ENDING, *kind.multipliers, *kind.constants, *kind.zeros, UNIT)
    numbers |= {name: int(call.attributes[name]) for name in own if name in call.attributes}
    if "scale" in call.attributes:
        numbers["scale_bits"] = int(np.float32(call.attributes["scale"]).view(np.int32))
    if kind.scaled and "low" not in call.attributes:  # in a floating format
        numbers |= activation_bounds(call.activation, call.attributes).numbers
    else:
        slope, shift = _slope(call)
        numbers |= {"slope": slope, "slope_shift": shift}
    return make_operation(kind, call.name, given.inputs, _arrays(given), numbers)


def _slope(call: Call) -> tuple[int, int]:
    """Slope of a leaky activation; (0, 0) where there is none, or numbers below zero are cut off by the limits or stay as they are.

    Raises UserError E1003 for slopes that are no fraction from 0 to 1.
    """
    slope, shift = (int(call.attributes.get(name, 0)) for name in ("slope", "slope_shift"))
    if slope == 0 or slope == 1 << shift:
        return 0, 0
    if not 0 < slope < 1 << shift:
        raise refuse("E1003", Why.SLOPE(node=call.name, slope=slope / 2**shift))
    return slope, shift


def _arrays(given: Lowered) -> dict[str, Array]:
    """Weights as they are, the bias at the sum's own position, and the factors of each channel."""
    kind = given.call.operation
    names = (*kind.known, *(("table",) if kind.form == "table" else ()))
    arrays, own = dict(zip(names, given.constants, strict=False)), given.constants[len(names) :]
    arrays |= dict(zip(_scale_names(own), own, strict=True))
    if kind.bias and arrays[kind.bias].dtype.kind != "f":
        arrays[kind.bias] = (arrays[kind.bias].astype(np.int64) << int(given.call.attributes["bias_shift"])).astype(np.int32)
    return arrays


def _scale_names(given: Sequence[Array]) -> tuple[str, ...]:
    """The arrays of an operation that scale each channel: int32 shifts, behind multipliers or alone, or float32."""
    if len(given) == 1:
        return ("scales",) if given[0].dtype == np.float32 else ("shifts",)
    return ("multipliers", "shifts") if given else ()


def _shuffled(operation: Operation, group: int) -> Operation:
    """Row i of group g becomes row i * group + g: the filters in the order of the shuffled channels."""
    return replace(operation, arrays={name: _turned(array, group) for name, array in operation.arrays.items()})


def _turned(rows: Array, group: int) -> Array:
    return rows.reshape(group, len(rows) // group, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


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
    if len(size) not in pictures.PICTURE_AXES:
        raise refuse("E1003", Why.AXES(tensor=value.name or "", rank=len(size)))
    return Shape(images, *pictures.picture_of(size)[1:])


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
