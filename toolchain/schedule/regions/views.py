"""Slices that are no operation: a range of a tensor's channels is read where it stands."""

import math

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, read_call
from toolchain.graph.rewrite import shape_of
from toolchain.operations.library import Kinds
from toolchain.schedule.regions.blocks import block_of
from toolchain.schedule.regions.pictures import data_of, is_call
from toolchain.spec.model import Machine
from toolchain.spec.reasons import Why

CHANNELS = 1


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
