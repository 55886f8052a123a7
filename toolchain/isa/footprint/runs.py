"""From indices to granules: banks, rings and bounds."""

import numpy as np

from toolchain.isa.footprint.footprints import ALIGN, BANK, RANGE, Faults, Runs, join_faults, join_runs
from toolchain.isa.program import Ints
from toolchain.spec.model import Machine, View


def element_runs(
    machine: Machine, view: View, instruction: Ints, write: bool, instance: Ints, index: list[Ints], count: Ints, access: int, spacing: Ints | int = 1
) -> tuple[Runs, Faults]:
    """Rows of `count` neighbouring elements from the lowest index on, `spacing` index steps apart; what fails is left out.

    instruction, instance, index, count: int64 [rows]. access: its number, for faults.
    """
    memory = machine.memory[view.memory]
    unit, size, granule = view.unit or memory.element.bytes, view.element.bytes, memory.granule
    bank, address = (index[0], index[1]) if len(index) == 2 else (np.zeros_like(index[0]), index[0])
    known = (bank >= 0) & (bank < memory.banks)
    depth = np.array(memory.depths)[np.where(known, bank, 0)]
    base = np.cumsum([0, *memory.depths[:-1]])[np.where(known, bank, 0)] * memory.element.bytes
    room, offset, length = depth * memory.element.bytes, address * unit, count * size
    top, last = (room - size) // unit, address + (count - 1) * spacing
    outside = known & ((address < 0) | (last > top)) if memory.kind != "ring" else np.zeros_like(known)
    astray = known & ~outside & ((offset % granule != 0) | (size % granule != 0))
    low = np.where(address < 0, address, address + np.maximum(-((address - top - 1) // spacing), 0) * spacing)
    high = np.where(last > top, last, last - np.maximum(last // spacing + 1, 0) * spacing)
    faults = [
        _faults(instruction, access, BANK, bank, bank, ~known),
        _faults(instruction, access, RANGE, low, high, outside),
        _faults(instruction, access, ALIGN, address, last, astray),
    ]
    good = known & ~outside & ~astray
    number = machine.memories.index(memory)
    begin = np.where(memory.kind == "ring", offset % room, offset)
    end = begin + np.minimum(length, room) if memory.kind == "ring" else begin + length
    start = instance * memory.bytes + base
    parts = [_runs(instruction, number, write, start + begin, start + np.minimum(end, room), granule, good)]
    if memory.kind == "ring":
        parts.append(_runs(instruction, number, write, start, start + end - room, granule, good & (end > room)))
    return join_runs(parts), join_faults(faults)


def _runs(instruction: Ints, memory: int, write: bool, start: Ints, stop: Ints, granule: int, chosen: np.typing.NDArray[np.bool_]) -> Runs:
    found = Runs(instruction, np.full(len(instruction), memory), np.full(len(instruction), write), start // granule, -(-stop // granule))
    return found if chosen.all() else found.take(chosen)


def _faults(instruction: Ints, access: int, kind: int, low: Ints, high: Ints, chosen: np.typing.NDArray[np.bool_]) -> Faults:
    count = int(chosen.sum())
    return Faults(instruction[chosen], np.full(count, access), np.full(count, kind), low[chosen], high[chosen])
