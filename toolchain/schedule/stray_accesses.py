"""Every instruction of a step stays inside the buffers that the step names, found from footprints: a kernel's sizes are not believed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.footprint.footprints import Footprints, granules
from toolchain.isa.footprint.text import range_text
from toolchain.isa.program import NONE, Origins
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.tiling.near_weights import is_near, near_rooms, waiting
from toolchain.schedule.tiling.order import Instance
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.schedule.writer import OperationPart
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine, Memory

Buffer = tuple[str, Slot, int]
"""Memory, slot and elements in each bank of its pool."""
Buffers = tuple[Buffer, ...]


@dataclass(frozen=True)
class Rooms:
    """A part and the elements of each of its places."""

    part: OperationPart
    room: Mapping[str, int]

    def buffers(self, item: Instance) -> Buffers:
        """The buffers of a step's own place and of the places that it uses, and the room in which its tiles wait."""
        kept, memories = self.part.problem.kept, self.part.problem.memories
        slots = {name: kept[name].slot if name in kept else slot for name, slot in item.slots.items() if name in self.room}
        return (*((memories[name], slot, self.room[name]) for name, slot in slots.items()), *self._waiting(item))

    def held(self, item: Instance) -> frozenset[str]:
        """The memories in which a step has buffers alone."""
        return frozenset([*(place.memory for place in self.part.problem.kernel.places), *(memory for memory, _, _ in self._waiting(item))])

    def _waiting(self, item: Instance) -> Iterator[Buffer]:
        problem = self.part.problem
        for tensor, waits in waiting(problem) if item.step.kind == "load" else ():
            if tensor.name == item.step.place and is_near(problem, tensor.name):
                first, size = near_rooms(problem)[tensor.name]
                yield waits.memory, Slot(0, first), size


def rooms_of(part: OperationPart, tiling: Tiling) -> Rooms:
    """Slots of tiles, and tensors that stay on chip."""
    return Rooms(part, {**tiling.room, **{name: kept.size for name, kept in part.problem.kept.items()}})


def check_buffers(machine: Machine, parts: Sequence[Rooms], origins: Origins, footprints: Footprints) -> None:
    """Raises UserError E1307 for the first instruction that reads or writes a memory of buffers elsewhere."""
    groups = _Groups(machine)
    of_step = [np.array([groups.number(each, item) for item in each.part.steps], np.int64) for each in parts]
    runs = footprints.runs
    operation, instance = origins.operation[runs.instruction], origins.instance[runs.instruction]
    group = np.full(len(runs), NONE, np.int64)
    for number, steps in enumerate(of_step):
        mine = (operation == number) & (instance != NONE) & _is_step(origins, runs.instruction)
        group[mine] = steps[instance[mine]]
    stray = groups.stray(group, runs.memory, runs.start, runs.stop)
    if stray is not None:
        index = int(runs.instruction[stray])
        raise _error(machine, parts[int(operation[stray])], int(instance[stray]), index, footprints, int(stray))


def _is_step(origins: Origins, instruction: Ints) -> np.typing.NDArray[np.bool_]:
    """Whether instructions belong to a step of the kernel, not to the records that are brought for it."""
    return ~origins.does("constants")[instruction]


@dataclass
class _Groups:
    """Steps with the same buffers are one group. spans: [start, stop) in granules by group and memory."""

    machine: Machine
    known: dict[tuple[frozenset[str], Buffers], int] = field(default_factory=dict[tuple[frozenset[str], Buffers], int])

    def number(self, rooms: Rooms, item: Instance) -> int:
        kernel = rooms.part.problem.kernel
        wide = [(m, Slot(slot.bank + bank, slot.address), room) for m, slot, room in rooms.buffers(item) for bank in range(kernel.pools.get(m, 1))]
        return self.known.setdefault((rooms.held(item), tuple(wide)), len(self.known))

    def stray(self, group: Ints, memory: Ints, start: Ints, stop: Ints) -> int | None:
        """The first run outside the buffers of its group."""
        machine = self.machine
        whole = max((granules(each) for each in machine.memories), default=1) * 2 + 2
        keys, ends, checked = list[int](), list[int](), np.zeros((len(self.known) + 1, len(machine.memories)), np.bool_)
        spans: dict[Buffer, list[tuple[int, int]]] = {}
        for (held, buffers), number in self.known.items():
            for buffer in buffers:
                if buffer not in spans:
                    spans[buffer] = slot_spans(machine.memory[buffer[0]], *buffer[1:])
            for index, each in enumerate(machine.memories):
                checked[number, index] = each.name in held and each.kind != "dram"
                for low, high in _merged([span for buffer in buffers if buffer[0] == each.name for span in spans[buffer]]):
                    keys.append((number * len(machine.memories) + index) * whole + low)
                    ends.append((number * len(machine.memories) + index) * whole + high)
        order = np.argsort(keys)
        first, last = np.array(keys, np.int64)[order], np.array(ends, np.int64)[order]
        sizes = np.array([max(granules(each), 1) for each in machine.memories], np.int64)[memory]
        base = (group * len(machine.memories) + memory) * whole
        low, high = base + start % sizes, base + start % sizes + stop - start
        place = np.searchsorted(first, low, side="right") - 1
        inside = (place >= 0) & (high <= last[np.maximum(place, 0)]) if len(first) else np.zeros(len(low), np.bool_)
        wrong = np.flatnonzero((group != NONE) & checked[group, memory] & ~inside)
        return int(wrong[0]) if len(wrong) else None


def slot_spans(memory: Memory, slot: Slot, room: int) -> list[tuple[int, int]]:
    """A slot's granules in one bank, in a memory without pools counted through all banks; two stretches where a ring wraps."""
    unit, granule = memory.element.bytes, memory.granule
    base = sum(memory.depths[: slot.bank])
    depth = memory.depths[slot.bank] if memory.kind == "ring" else memory.elements - base
    address = slot.address % depth if memory.kind == "ring" else slot.address
    parts = [(address, min(address + room, depth)), (0, address + room - depth)] if memory.kind == "ring" else [(address, address + room)]
    return [((base + low) * unit // granule, -(-(base + high) * unit // granule)) for low, high in parts if high > low]


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping and adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _error(machine: Machine, rooms: Rooms, instance: int, index: int, footprints: Footprints, run: int) -> UserError:
    runs, item, memory = footprints.runs, rooms.part.steps[instance], machine.memories[int(footprints.runs.memory[run])]
    verb = "writes" if runs.write[run] else "reads"
    where = range_text(machine, int(runs.memory[run]), int(runs.start[run]), int(runs.stop[run]), memory.name in footprints.alike)
    own = [f"{slot.address}..{slot.address + room - 1} from bank {slot.bank}" for name, slot, room in rooms.buffers(item) if name == memory.name]
    name = machine.instructions[int(footprints.program.kind[index])].name
    text = f"step '{item.step.kind} {item.step.place}' of '{rooms.part.problem.operation.name}': #{index} {name} {verb} {where}"
    written = item.step.code if isinstance(item.step.code, str) else "its instructions"
    hint = f"the size of a place, or an address in {written}, is wrong"
    return fail("E1307", f"{text}, and its buffers there are {', '.join(own) or 'none'}", item.step.span, hint)
