"""Integer calls of the graph as operations of the machine: constants in place, padding merged, other ways to compute the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import Call
from toolchain.operations.kind import ENDING, UNIT
from toolchain.operations.library import Kinds
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
    if kind.bias:
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
