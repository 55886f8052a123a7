"""The place of each element of a tensor in a region's memory, as nested loops in C."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.abi.dram_map import StoredTensor
from toolchain.isa.c_source.expressions import C_TYPE, CValue, CWriter, c_constant
from toolchain.isa.c_source.interval import Interval
from toolchain.operations.operation import PICTURE_AXES
from toolchain.runtime.contents import Port
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Const, Expr, Name
from toolchain.spec.model import Layout, Machine

SEQUENCE = 3
"""Axes of a sequence, [samples, rows, numbers]."""


@dataclass(frozen=True)
class Loop:
    """An index, and how many values it has."""

    index: str
    size: int


@dataclass(frozen=True)
class CPacking:
    """loops: over a sample's elements, in the order of the graph's axes, the outermost first. copies: over the places of one. place: in bytes, over
    their indices."""

    loops: tuple[Loop, ...]
    copies: tuple[Loop, ...]
    place: str


def c_packing(machine: Machine, port: Port, stored: StoredTensor, first: int) -> CPacking | None:
    """first: the byte of the region's memory at which the tensor's buffer begins. None for elements that are no bytes with a sign.

    A device that takes several images finds the sample as the first of them.
    """
    layout = next(item for item in machine.layouts if item.name == stored.layout)
    scalar = layout.type or machine.view[stored.view].element.scalar
    if (scalar.bits, scalar.signed) != (8, True):
        return None
    order = [axis for axis in PICTURE_AXES[SEQUENCE] if axis] if len(port.shape) == SEQUENCE else [1, 2, 3]
    loops = tuple(Loop("nchw"[axis], stored.shape[axis]) for axis in (*order, *(axis for axis in (1, 2, 3) if axis not in order)))
    sizes = dict(zip(layout.extents, stored.extents, strict=True))
    copies = tuple(Loop(f"{each.name}_", each.count) for each in layout.copies)
    indices = {loop.index: CValue(loop.index, Interval(0, loop.size - 1), 32) for loop in loops}
    indices |= {each.name: CValue(loop.index, Interval(0, loop.size - 1), 32) for each, loop in zip(layout.copies, copies, strict=True)}
    place = CWriter(lambda e: _leaf(e, sizes, indices, stored.channel), data=True).value(Binary("+", Const(first), _linear(layout, sizes)))
    return CPacking(loops, copies, place.text)


def _linear(layout: Layout, sizes: Mapping[str, int]) -> Expr:
    """The place of an element among the stored ones, the last axis fastest."""
    found: Expr = Const(0)
    for place, extent in zip(layout.map, layout.shape, strict=True):
        found = Binary("+", Binary("*", found, Const(constant(extent, sizes))), place)
    return found


def _leaf(e: Expr, sizes: Mapping[str, int], indices: Mapping[str, CValue], channel: int) -> CValue:
    """Names in a layout: extents, and indices, of which a tensor's channels may begin in the middle of a wider one's."""
    assert isinstance(e, Name)
    if e.id in sizes:
        return c_constant(sizes[e.id])
    found = indices.get(e.id, c_constant(0))
    if e.id != "c" or not channel:
        return found
    shifted = Interval(found.range.low + channel, found.range.high + channel)
    return CValue(f"({C_TYPE[32]})({found.text} + {channel})", shifted, 32)
