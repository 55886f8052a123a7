"""Tensors of a region read out of a state, and the last instructions that wrote them.

Tensors in DRAM are read where the map says, those on chip by the instructions that would store them: the region is compiled once more with every
tensor stored as well; tensors on chip keep their places. After an operation of the real program, the store instructions of its counterpart are
executed on a copy of the memories, with a DRAM of their own. Where operations run as a group, a tensor may never be there as a whole: its stores are
executed piece by piece, each as soon as the steps before it are done. Rows that stand in two rounds of a ring are read in the first: where the others
are wrong, so are the tensors that are made of them. A store may read registers that an earlier instruction of its program set; that
one goes before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from toolchain.abi.dram_map import DramMap, host_axes, packing_of, stacked_place
from toolchain.analysis.state import Element, State
from toolchain.emulator import engine_named
from toolchain.emulator.reference.engine import Listener, Reference
from toolchain.isa.assembly import disassemble
from toolchain.isa.footprint.footprints import Footprints, granules
from toolchain.isa.footprint.text import range_text
from toolchain.isa.program import Ints, Origins, Program
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.schedule.writer import repeatable
from toolchain.spec.arrays import Array
from toolchain.spec.model import Machine
from toolchain.verify.built import ProgramUnderTest
from toolchain.verify.verdict import Coordinates, LastWriter

SOURCES = 6


def element_address(machine: Machine, stands: DramMap, tensor: str, coordinates: Coordinates) -> int:
    """The byte of DRAM where the element at (image, channel, row, column) begins."""
    stored = stands.tensors[tensor]
    packing = packing_of(machine, stored)
    stacked = stacked_place(stored, packing.layout, coordinates)
    host = [stacked[axis] for axis in host_axes(packing.layout)]
    place = [int(np.broadcast_to(axis, packing.extents)[tuple(host)]) for axis in packing.index]
    scalar = int(np.ravel_multi_index(place, packing.shape))
    return stands.segments[stored.segment].address + stored.offset + scalar * packing.dtype.itemsize


def last_writer(prints: Footprints, rank: Ints, memory: str, granule: int, stop: int) -> int | None:
    """The last of the first `stop` instructions that writes a granule, counted as in footprints; None where none does. rank: the place of each
    instruction of the program in the order in which they run."""
    machine, runs = prints.program.machine, prints.runs
    number = machine.memories.index(machine.memory[memory])
    touches = runs.write & (runs.memory == number) & (runs.start <= granule) & (granule < runs.stop) & (rank[runs.instruction] < stop)
    return _last(rank, runs.instruction[touches])


def _last(rank: Ints, instructions: Ints) -> int | None:
    """The one of these that runs last."""
    return int(instructions[np.argmax(rank[instructions])]) if len(instructions) else None


def describe_writer(prints: Footprints, rank: Ints, memory: str, granule: int, index: int, listing: Sequence[str]) -> LastWriter:
    """The instruction in words, and those that its value came from."""
    machine = prints.program.machine
    place = range_text(machine, machine.memories.index(machine.memory[memory]), granule, granule + 1, memory in prints.alike)
    before = tuple(f"{instruction_text(prints.program, k)} ({listing[k]})" for k in sources(prints, rank, index))
    return LastWriter(index, instruction_text(prints.program, index), listing[index], place, before)


def sources(prints: Footprints, rank: Ints, index: int) -> list[int]:
    """At most SOURCES instructions, back from `index`: each is the last that wrote something which the one after it reads on chip."""
    chain: list[int] = []
    while len(chain) < SOURCES and (earlier := _last_source(prints, rank, chain[-1] if chain else index)) is not None:
        chain.append(earlier)
    return chain


def _last_source(prints: Footprints, rank: Ints, index: int) -> int | None:
    machine, runs = prints.program.machine, prints.runs
    mine = runs.take(np.arange(int(prints.first[index]), int(prints.first[index + 1])))
    earlier = runs.take(runs.write & (rank[runs.instruction] < rank[index]))
    found = list[Ints]()
    for row in np.flatnonzero(~mine.write).tolist():
        memory = machine.memories[int(mine.memory[row])]
        if memory.kind != "dram" and not memory.control:
            touched = (earlier.memory == mine.memory[row]) & (earlier.start < mine.stop[row]) & (mine.start[row] < earlier.stop)
            found.append(earlier.instruction[touched])
    return _last(rank, np.concatenate(found)) if found else None


def instruction_text(program: Program, index: int) -> str:
    """`#12 LOAD at 0xc0: LOAD memory_type=2 ...`"""
    return f"{program.label(index)}: {_line(program, index)}"


def _line(program: Program, index: int) -> str:
    """The instruction's line of the disassembly, without those of the others."""
    kind, row = int(program.kind[index]), int(program.row[index])
    none = np.zeros(0, np.int64)
    columns = tuple({name: (values[row : row + 1] if k == kind else none) for name, values in own.items()} for k, own in enumerate(program.columns))
    one = slice(index, index + 1)
    alone = Program(
        program.machine, (), program.kind[one], program.stream[one], program.offset[one], program.unit[one], np.zeros(1, np.int64), columns
    )
    return disassemble(alone).splitlines()[-1]


WORK = ("start", "compute", "finish")
"""Steps that make a result."""
UNWRITTEN = 0x55
"""Stands where no instruction stores anything; a whole tensor is never like it."""


class Piece(NamedTuple):
    """A part of a tensor. stop: how many instructions of the real program run before it is there, in the order of its schedule.
    stores: instructions that store it."""

    stop: int
    tensor: str
    stores: Ints


@dataclass(frozen=True)
class OnChipReader:
    """stored: the region, compiled so that every tensor is stored to DRAM. number: of the copy of the program that is looked at."""

    stored: CompiledRegion
    number: int = 0

    def room(self, number: int) -> "OnChipReader":
        """The reader of another copy of the program."""
        return replace(self, number=number)

    @cached_property
    def map(self) -> DramMap:
        return self.stored.map.room(self.number)

    @cached_property
    def origins(self) -> Origins:
        """Origins of the copy's instructions."""
        return self.stored.origins.only(self.stored.map.rooms_of(self.stored.program.stream) == self.number)

    def knows(self, tensor: str) -> bool:
        return tensor in self.map.tensors and bool(len(self._stores(tensor)))

    def pieces(self, tensor: str, origins: Origins, stream: Ints) -> list[Piece]:
        """In the order of the real program's schedule; one for a tensor that no group makes. origins, stream: of its instructions in that order. The
        streams of a group make tiles of their own, so a store needs the steps of its stream alone."""
        if not self.knows(tensor):
            return []
        makers = self._makers(tensor)
        if not set(makers) & self._grouped:
            stop = 1 + max(int(np.flatnonzero(origins.operation == maker)[-1]) for maker in makers)
            return [Piece(stop, tensor, self._stores(tensor))]
        found: dict[int, list[Ints]] = {}
        dealt = self.stored.program.stream
        for maker, own in ((maker, own) for maker in makers for own in np.unique(dealt[self._stores(tensor)]).tolist()):
            for stop, stores in after_work(origins.only(stream == own), self.origins.only(dealt == own), maker):
                found.setdefault(stop, []).append(stores)
        return [Piece(stop, tensor, np.concatenate(found[stop])) for stop in sorted(found)]

    @property
    def _grouped(self) -> set[int]:
        """Operations that share a group with others."""
        return {entry.operation for group in self.stored.schedule.groups if len(group.operations) > 1 for entry in group.operations}

    def copy(self, state: State, piece: Piece, known: State | None = None) -> State:
        """A state in whose DRAM the piece stands beside the known tensors, out of a state of the real program, which stays as it is."""
        chosen = with_latches(self.stored.program, piece.stores)
        beside = self._beside(state, piece.tensor, chosen, known)
        engine_named("fast")(self.stored.program, beside, chosen)
        return beside

    def read(self, beside: State, tensor: str) -> Array:
        """[images, channels, height, width] out of a state that has all pieces."""
        return self.map.read(self.stored.program.machine, beside, tensor)

    def locate(self, state: State, tensor: str, coordinates: Coordinates) -> Element | None:
        """Position of the element on chip; None where no store reaches it."""
        store, memory = self.store_of(tensor, coordinates), self.map.memory
        byte = element_address(self.stored.program.machine, self.map, tensor, coordinates)
        if store is None:
            return None
        chosen = with_latches(self.stored.program, np.array([store]))[:-1]
        beside = self._beside(state, tensor, chosen)
        engine_named("fast")(self.stored.program, beside, chosen)
        return _source(Reference(self.stored.program), store, beside, memory, byte)

    def store_of(self, tensor: str, coordinates: Coordinates) -> int | None:
        """The last instruction that stores the element; None where none does."""
        machine, memory = self.stored.program.machine, self.map.memory
        byte = element_address(machine, self.map, tensor, coordinates)
        runs = self.stored.checked.footprints.runs
        granule, number = byte // machine.memory[memory].granule, machine.memories.index(machine.memory[memory])
        touches = runs.write & (runs.memory == number) & (runs.start <= granule) & (granule < runs.stop)
        stores = np.intersect1d(runs.instruction[touches], self._stores(tensor))
        return int(stores[-1]) if len(stores) else None

    def _beside(self, state: State, tensor: str, chosen: Ints, known: State | None = None) -> State:
        """The real program's memories on chip, and the DRAM of another state, else one in which only the tensor's buffer is marked. Memories that the
        chosen instructions leave as they are are shared, since many cores' memories take long to copy."""
        machine, held = self.stored.program.machine, self.map
        fresh = known or self.stored.map.state(machine, {})
        if known is None:
            buffer = held.tensors[tensor]
            first = held.segments[buffer.segment].address + buffer.offset
            fresh.memories[held.memory][0, first : first + buffer.bytes] = UNWRITTEN
        changed, shared = self._written(chosen), {**state.memories, held.memory: fresh.memories[held.memory]}
        memories = {name: array.copy() if name in changed - {held.memory} else array for name, array in shared.items()}
        kept = {name: array.copy() for name, array in state.latched.items()}
        return State(machine, memories, fresh.host, kept, {name: array.copy() for name, array in state.written.items()})

    def _written(self, chosen: Ints) -> set[str]:
        """Names of the memories that the instructions write."""
        runs, memories = self.stored.checked.footprints.runs, self.stored.program.machine.memories
        written = np.unique(runs.memory[runs.write & np.isin(runs.instruction, chosen)])
        return {memories[number].name for number in written.tolist()}

    def _makers(self, tensor: str) -> list[int]:
        """The operations that make the tensor, or the tensors that stand in it side by side, or the one that it is read out of."""
        region = self.stored.region
        whole = region.viewed(tensor)
        return [number for number, bound in enumerate(region.operations) if _part_of(region, bound.tensors["y"], whole)]

    def _stores(self, tensor: str) -> Ints:
        """The instructions that store it."""
        return np.flatnonzero(np.isin(self.origins.operation, self._makers(tensor)) & self.origins.does("store"))


def with_latches(program: Program, chosen: Ints) -> Ints:
    """The chosen instructions, ascending, and of those that only set a register the last one before each: a program leaves out those that set a
    register to its present value, so that a part of it may lack them."""
    machine, found = program.machine, [chosen]
    for name in sorted(repeatable(machine)):
        latches = program.kind == next(number for number, each in enumerate(machine.instructions) if each.name == name)
        for stream in range(machine.streams):
            own = np.flatnonzero(latches & (program.stream == stream))
            last = np.searchsorted(own, chosen[program.stream[chosen] == stream]) - 1
            found.append(own[last[last >= 0]])
    return np.unique(np.concatenate(found))


def after_work(real: Origins, stored: Origins, operation: int) -> Iterator[tuple[int, Ints]]:
    """Points of the program with as many steps of the operation done as stand before a store in its counterpart, and that store's instructions. Units
    take their work in an order of their own, so a step may end before an earlier one."""
    _, done = _steps(real, operation, *WORK)
    stops = np.maximum.accumulate([int(instructions.max()) for instructions in done])
    before, _ = _steps(stored, operation, *WORK)
    instances, stores = _steps(stored, operation, "store")
    counts: list[int] = np.searchsorted(before, instances).tolist()
    for count, instructions in zip(counts, stores, strict=True):
        yield int(stops[count - 1]) + 1, instructions


def _steps(origins: Origins, operation: int, *kinds: str) -> tuple[Ints, list[Ints]]:
    """The instances of the steps of these kinds, ascending, and the instructions of each."""
    index = np.flatnonzero(origins.does(*kinds) & (origins.operation == operation))
    index = index[np.argsort(origins.instance[index], kind="stable")]
    instances, first = np.unique(origins.instance[index], return_index=True)
    return instances, np.split(index, first[1:])


def _part_of(region: Region, tensor: str, whole: str) -> bool:
    """Whether a tensor is another, or stands in it."""
    while tensor != whole and tensor in region.slices:
        tensor = region.slices[tensor].parent
    return tensor == whole


def _source(engine: Reference, index: int, state: State, memory: str, byte: int) -> Element | None:
    """The element on chip that the instruction copies to a byte of DRAM: its last read before that write."""
    pending: list[Element] = []
    found: list[Element] = []

    def writes(element: Element) -> None:
        if element.memory == memory and element.start <= byte < element.start + element.size and pending:
            found.append(pending[-1])

    engine.execute(index, state, Listener(pending.append, writes))
    return found[-1] if found else None


ON_CHIP = "on chip"


Beside = dict[str, State]
"""By tensor, the state in whose DRAM its pieces are gathered."""


@dataclass(frozen=True)
class TensorReader:
    """peek: for tensors that never reach DRAM; None where all do."""

    tested: ProgramUnderTest
    peek: OnChipReader | None = None

    def where(self, tensor: str) -> str:
        """The memory of DRAM, or `on chip`; empty for a tensor that cannot be read."""
        if tensor in self.tested.map.tensors:
            return self.tested.map.memory_of(tensor)[0]
        return ON_CHIP if self.peek and self.peek.knows(tensor) else ""

    def pieces(self, tensors: Iterable[str]) -> list[Piece]:
        """Readings of tensors on chip, in the order of the program under test."""
        peek = self.peek
        wanted = [name for name in tensors if peek and name not in self.tested.map.tensors]
        origins, stream = self.tested.origins.taken(self.tested.order), self.tested.program.stream[self.tested.order]
        return sorted((piece for name in wanted for piece in peek.pieces(name, origins, stream)), key=lambda p: p.stop) if peek else []

    def gather(self, state: State, piece: Piece, beside: Beside) -> None:
        """Reads a piece out of the state in which it is there."""
        if self.peek is not None:
            beside[piece.tensor] = self.peek.copy(state, piece, beside.get(piece.tensor))

    def read(self, state: State, tensor: str, beside: Beside) -> Array:
        """[images, channels, height, width]. Raises KeyError for a tensor that cannot be read."""
        if tensor in self.tested.map.tensors:
            return self.tested.result(state, tensor)
        if self.peek is None:
            raise KeyError(tensor)
        return self.peek.read(beside[tensor], tensor)

    def made(self, tensor: str, coordinates: Coordinates, stop: int) -> int:
        """How much of the program ran when the element was read; stop: when the tensor was complete."""
        if tensor in self.tested.map.tensors or self.peek is None:
            return stop
        store = self.peek.store_of(tensor, coordinates)
        return next((piece.stop for piece in self.pieces([tensor]) if store in piece.stores), stop)

    def locate(self, state: State, prints: Footprints, tensor: str, coordinates: Coordinates) -> tuple[str, int] | None:
        """Memory and granule of an element, as footprints count them; None where nothing says where it is."""
        machine = self.tested.program.machine
        if tensor in self.tested.map.tensors:
            name, instance = self.tested.map.memory_of(tensor)
            place = element_address(machine, self.tested.map, tensor, coordinates) // machine.memory[name].granule
            return name, instance * granules(machine.memory[name]) + place
        element = self.peek.locate(state, tensor, coordinates) if self.peek else None
        if element is None:
            return None
        memory = machine.memory[element.memory]
        instance = 0 if element.memory in prints.alike else element.instance
        return element.memory, instance * granules(memory) + element.start // memory.granule
