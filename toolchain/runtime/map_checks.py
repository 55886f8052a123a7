"""Whether a bundle's map of tensors fits the machine: what a device is told to read and write lies inside its memories."""

import math
from collections.abc import Mapping

from toolchain.abi.dram_map import DramMap, StoredTensor
from toolchain.abi.packing import view_packing
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

MOST_BYTES = 1 << 31
"""Of a block of memory that no machine's file gives the size of."""


def check_map(name: str, machine: Machine, held: DramMap, constants: Mapping[str, bytes]) -> None:
    """name: of the region. Raises UserError E1104 where the map names memories or registers that the machine lacks, or goes past their end."""
    if machine.calls_operators:
        _check_block(name, held, constants)
        return
    memory, registers = machine.memory.get(held.memory), machine.memory.get(held.registers)
    if memory is None or memory.kind != "dram" or (held.registers and (registers is None or not registers.host)):
        raise fail("E1104", f"the map of region '{name}' names memories that {machine.name} does not have")
    count = registers.depths[0] if registers else 0
    if held.rooms * held.streams > machine.streams:
        raise fail("E1104", f"the map of region '{name}' is for {held.rooms * held.streams} streams, {machine.name} runs {machine.streams}")
    for part, segment in held.segments.items():
        last = segment.address + max(segment.bytes, len(constants.get(part, b"")))
        inner = machine.memory.get(segment.memory) if segment.memory else memory
        instances = machine.instances(inner.scope) if inner and segment.memory else 1
        if inner is None or not 0 <= segment.instance <= segment.room(held.rooms - 1).instance < instances:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is in a memory that {machine.name} does not have")
        if not 0 <= segment.address <= last <= inner.bytes or not -1 <= segment.register < count:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is outside '{held.memory}' of {machine.name}")
    for tensor in dict.fromkeys((*held.inputs, *held.outputs)):
        stored = held.tensors.get(tensor)
        if stored is None or not _known(machine, held.memory, stored) or held.segments[stored.segment].memory:
            raise fail("E1104", f"the tensor '{tensor}' of region '{name}' is stored in a way that {machine.name} does not know")


def _check_block(name: str, held: DramMap, constants: Mapping[str, bytes]) -> None:
    """The check for a machine whose memory is as large as a region asks. Raises as `check_map`."""
    for part, segment in held.segments.items():
        last = segment.address + max(segment.bytes, len(constants.get(part, b"")))
        if not 0 <= segment.address <= last <= MOST_BYTES or segment.memory:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is outside its block of memory")
    if not constants.keys() <= held.segments.keys():
        raise fail("E1104", f"region '{name}' has constants without a segment")


def _known(machine: Machine, memory: str, stored: StoredTensor) -> bool:
    """Whether the tensor's packing can be made, and is as large as the map says; sizes first, so that nothing large is made in vain."""
    view, layout = machine.view.get(stored.view), next((item for item in machine.layouts if item.name == stored.layout), None)
    if view is None or view.memory != memory or layout is None or sorted(layout.domain) != sorted("nchw"):
        return False
    sizes = dict(zip(layout.domain, stored.extents, strict=False))
    batch, channels, height, width = stored.shape
    inside = stored.channel + channels <= sizes.get("c", 0) and (batch, height, width) == tuple(sizes.get(name) for name in "nhw")
    if not inside or math.prod(stored.extents) * view.element.scalar.bits // 8 > stored.bytes:
        return False
    return view_packing(machine, stored.view, stored.layout, stored.extents).bytes == stored.bytes
