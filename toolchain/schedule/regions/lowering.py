"""The integer graph as the machine sees it: every tensor a picture [batch, channels, height, width], every call an operation with constants in
place and padding merged; slices are read where they stand."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import BOUNDARY, Call, Reasons, read_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.rewrite import shape_of
from toolchain.operations import operation as pictures
from toolchain.operations.floating import activation_bounds
from toolchain.operations.kind import ENDING, UNIT, OperationKind
from toolchain.operations.library import Kinds, kind_named
from toolchain.operations.operation import Operation, make_operation
from toolchain.operations.ways import candidates
from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.model import Layout, Machine
from toolchain.spec.reasons import Why, refuse

LARGEST = 1024
"""The largest block that is looked for."""
NONE = 1 << 30
"""More channels than any tensor has: a layout in which no tensor can begin inside another."""
_OTHERS = 3

CHANNELS = 1


@lru_cache(maxsize=64)
def block_of(layout: Layout, index: str) -> int:
    """The least step of an index that moves every element of the tensor by the same way in the stored array; NONE where there is none.

    A tensor of so many is stored without padding: a machine writes whole words, and padding would lie on the tensor that stands behind it.
    """
    if layout.copies:
        return NONE
    steps = np.diff(_places(layout, index), axis=-1)
    sizes = _sizes(layout, index)
    return next((b for b in range(1, LARGEST + 1) if _unpadded(sizes, b) and _shifts(steps, b)), NONE)


def _sizes(layout: Layout, index: str) -> Ints:
    """Elements of the stored array. int64 [extents of the index from 0 on]"""
    counts = np.arange(2 * LARGEST + 1, dtype=np.int64)
    names = {n: np.full_like(counts, _OTHERS) for n in layout.extents} | {layout.extents[layout.domain.index(index)]: counts}
    return np.prod([np.broadcast_to(evaluate_arrays(e, names), counts.shape) for e in layout.shape], axis=0)


def _unpadded(sizes: Ints, block: int) -> bool:
    """Whether tensors of whole blocks take as many elements as their blocks do alone."""
    whole = sizes[block::block]
    return np.array_equal(whole, sizes[block] * np.arange(1, len(whole) + 1))


def _places(layout: Layout, index: str) -> Ints:
    """int64 [axes of the stored array, elements of the other indices, values of the index]"""
    axis = layout.domain.index(index)
    extents = [2 * LARGEST + 1 if k == axis else _OTHERS for k in range(len(layout.domain))]
    grid = np.moveaxis(np.indices(extents, dtype=np.int64), axis + 1, -1).reshape(len(extents), -1)
    names = {**dict(zip(layout.domain, grid, strict=True)), **{n: np.full_like(grid[0], e) for n, e in zip(layout.extents, extents, strict=True)}}
    return np.stack([evaluate_arrays(e, names) for e in layout.map]).reshape(len(layout.map), -1, extents[axis])


def _shifts(steps: Ints, block: int) -> bool:
    """Whether the differences between neighbours repeat after `block`, for all elements alike, and so do those of a whole block.

    steps: int64 [axes, elements, values of the index - 1].
    """
    if not np.array_equal(steps[:, :1, block], steps[:, :1, 0]) or not np.array_equal(steps[..., block:], steps[..., :-block]):
        return False
    moved = steps[..., :block].sum(axis=-1)
    return bool((moved == moved[:, :1]).all())


def channel_block(machine: Machine) -> int:
    """A tensor can begin inside another at multiples of this many channels, in every layout of pictures that the machine writes."""
    return math.lcm(*(block_of(layout, "c") for layout in machine.layouts if layout.written and "c" in layout.domain))


def is_view(node: ir.Node | None, block: int, kinds: Kinds) -> bool:
    """Whether a node is a slice that can be read where its operand stands. block: see channel_block."""
    return node is not None and is_call(node, "slice") and not unviewable(node, block, kinds)


def first_channel(node: ir.Node, kinds: Kinds) -> int:
    """The channel of the operand that a slice begins with."""
    return int(read_call(node, kinds).attributes["starts"][CHANNELS])


def unviewable(node: ir.Node, block: int, kinds: Kinds) -> Reasons:
    """Why a slice cannot be read where its operand stands; none where it can."""
    value = data_of(node, kinds)[0]
    whole, attributes = shape_of(value), read_call(node, kinds).attributes
    starts, sizes, steps = (list(attributes[name]) for name in ("starts", "sizes", "steps"))
    if any(sizes[axis] != whole[axis] for axis in range(len(whole)) if axis != CHANNELS) or steps[CHANNELS] != 1:
        return (Why.NOT_NEIGHBOURS(),)
    first = starts[CHANNELS]
    end = first + sizes[CHANNELS]
    if first % block:
        return (Why.BEGINS(channel=first, tensor=value.name or "", block=block),)
    if end % block and end < whole[CHANNELS]:
        return (Why.ENDS(channel=end, tensor=value.name or "", block=block),)
    return ()


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
