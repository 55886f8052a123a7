"""Costs of a region, as a program, as calls of a C library or as a graph: cycles, bytes of each memory and of each operation."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.regions import GraphRegion
from toolchain.graph.work import node_macs
from toolchain.isa.footprint.footprints import Footprints, granules
from toolchain.isa.program import Ints, Program
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import PlannedCalls, plan_calls
from toolchain.schedule.graph_offload import GraphRules
from toolchain.schedule.placement.dram_buffers import tensor_packing
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import Basis, assumed_params, summarise
from toolchain.verify.built import ProgramUnderTest

TOLD = 6
"""Values of a field that are told one by one."""


@dataclass(frozen=True)
class OperationUse:
    """cycles: from the end of the operation before to its own end, so that they add up; operations overlap. busy: cycles that its instructions
    keep `unit`, the one they keep longest. macs: of all images of a run. bytes: moved from and to DRAM by its instructions.
    """

    operation: str
    kind: str
    instructions: int
    cycles: float
    unit: str
    busy: float
    macs: int
    bytes: int


@dataclass(frozen=True)
class MemoryRoom:
    """used: bytes of one instance that the program touches anywhere, of so many. read, written: bytes moved, all instances."""

    memory: str
    on_chip: bool
    used: int
    of: int
    read: int
    written: int


@dataclass(frozen=True)
class RegionUse:
    """machine: its name. images: of a run. streams: how many of the machine's work at it, of those `available`; copies: in so many parts, each with
    images of its own. constants: the numbers of the machine's file that the cycles rest on. peak_macs: multiply-accumulates that the device could do
    in a cycle, None where its file does not say. assumed: fields with the values whose meaning the machine's file assumes, as `POOL.pool_type 1`.
    stated: those with values that a public description allows and no program shows. runs: of the program in a run of the plan; else all is of one."""

    region: str
    machine: str
    images: int
    instructions: int
    cycles: float
    bound: float
    bound_by: str
    operations: tuple[OperationUse, ...]
    memories: tuple[MemoryRoom, ...]
    constants: tuple[Basis, ...]
    streams: int
    peak_macs: int | None
    assumed: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    runs: int = 1
    available: int = 1
    copies: int = 1


def use_region(tested: ProgramUnderTest) -> RegionUse:
    """Times the program. Raises UserError E0501 for one that deadlocks."""
    timeline = tested.timeline
    found = summarise(timeline)
    images = tested.map.rooms * next(iter(tested.map.tensors.values())).shape.batch
    return RegionUse(
        tested.region.name, tested.program.machine.name, images, len(tested.program), timeline.cycles, found.bound_cycles, found.bound_by,
        tuple(_operations(tested, timeline)), tuple(memory_rooms(timeline.footprints)), found.constants,
        len(np.unique(tested.program.stream[tested.owner >= 0])), tested.program.machine.timing.peak_macs,
        *unshown_values(tested.program), available=tested.program.machine.streams, copies=tested.map.rooms,
    )  # fmt: skip


def unshown_values(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of its instructions with those of their values whose meaning is assumed, and with those that are only stated."""
    assumed, stated = list[str](), list[str]()
    for instruction, columns in zip(program.machine.instructions, program.columns, strict=True):
        for field in instruction.fields:
            if field.assumed or field.stated:
                used = {int(value) for value in np.unique(columns[field.name])} - {*(field.known or (field.minus,))}
                name = f"{instruction.name}.{field.name}"
                assumed += _with_values(name, used - {*field.stated}) if field.assumed else ()
                stated += _with_values(name, used & {*field.stated})
    return tuple(assumed), tuple(stated)


def _with_values(name: str, values: Collection[int]) -> Iterator[str]:
    if values:
        told = [*map(str, sorted(values)[:TOLD]), *(["..."] if len(values) > TOLD else [])]
        yield f"{name} {' '.join(told)}"


def _operations(tested: ProgramUnderTest, timeline: Timeline) -> Iterator[OperationUse]:
    """In the order in which they end; instructions of no operation pass tokens on, or end the program. Operations that run at once share the time
    of all of them as they keep their units."""
    end = timeline.result.end + timeline.costs.latency
    dram = tested.program.machine.memories.index(tested.program.machine.memory[tested.map.memory])
    moved = timeline.footprints.traffic_read[:, dram] + timeline.footprints.traffic_written[:, dram]
    work, units, queues = timeline.result.end - timeline.result.start - timeline.contended, tested.program.machine.units, tested.program.queues
    before = 0.0
    owner, order = tested.owner[tested.order], tested.order
    for members in _at_once([np.flatnonzero(owner == number) for number in range(len(tested.region.operations))], order):
        busy = [np.bincount(tested.program.queue[mine], work[mine], queues) for _, mine in members]
        done = max([before, *(float(end[mine].max(initial=0.0)) for _, mine in members)])
        total = sum(float(each.max()) for each in busy)
        for (number, mine), each in zip(members, busy, strict=True):
            operation, longest = tested.region.operations[number].operation, float(each.max())
            cycles = (done - before) * (longest / total if total else 1 / len(members))
            keeps = units[int(each.argmax()) % len(units)].name, longest
            amount = tested.map.rooms * operation.macs, int(moved[mine].sum())
            yield OperationUse(operation.name, operation.kind.name, len(mine), cycles, *keeps, *amount)
        before = done


def _at_once(owned: Sequence[Ints], order: Ints) -> list[list[tuple[int, Ints]]]:
    """Operations and their instructions; those whose instructions stand among each other are together. owned: their places in the order."""
    found: list[list[tuple[int, Ints]]] = []
    reach = -1
    for number in sorted(range(len(owned)), key=lambda number: int(owned[number][0])):
        first, last = int(owned[number][0]), int(owned[number][-1])
        if first > reach:
            found.append([])
        found[-1].append((number, order[owned[number]]))
        reach = max(reach, last)
    return found


def memory_rooms(prints: Footprints) -> Iterator[MemoryRoom]:
    """The traffic and the room of each memory that is no register."""
    machine, runs = prints.program.machine, prints.runs
    read, written = prints.traffic_read.sum(axis=0), prints.traffic_written.sum(axis=0)
    for number, memory in enumerate(machine.memories):
        if memory.kind == "register":
            continue
        mine = runs.memory == number
        first = runs.start[mine] // granules(memory) == 0  # of the first instance; lockstep ones are alike
        used = covered(runs.start[mine][first], runs.stop[mine][first]) * memory.granule
        yield MemoryRoom(memory.name, memory.kind != "dram", used, memory.bytes, int(read[number]), int(written[number]))


def covered(start: Ints, stop: Ints) -> int:
    """How many whole numbers the half-open ranges cover together."""
    if not len(start):
        return 0
    rank = np.argsort(start, kind="stable")
    start, stop = start[rank], np.maximum.accumulate(stop[rank])
    before = np.concatenate([start[:1], stop[:-1]])
    return int(np.maximum(stop - np.maximum(start, before), 0).sum())


CALL_UNIT = "processor"
"""The one that calls keep busy, as tables name it."""


def use_calls(backend: Backend, region: Region) -> RegionUse:
    """Raises UserError E10xx for a region that the library cannot do."""
    machine, plan = backend.machine, plan_calls(backend, region)
    held, memory = plan.placed.map, machine.memory[plan.placed.map.memory]
    operations = tuple(_calls(plan))
    written = sum(_call_bytes(plan, number, written=True) for number in range(len(operations)))
    read = sum(use.bytes for use in operations) - written
    total = sum(plan.cycles)
    timing = machine.timing
    basis = Basis("clock_khz", timing.clock_khz, timing.clock_source, assumed=False)
    return RegionUse(
        region.name, machine.name, held.tensors[held.outputs[0]].shape.batch, len(operations), total, total, CALL_UNIT, operations,
        (MemoryRoom(memory.name, False, held.bytes, memory.bytes, read, written),), (basis, *assumed_params(machine)), 1, timing.peak_macs,
    )  # fmt: skip


def _calls(plan: PlannedCalls) -> Iterator[OperationUse]:
    for number, (bound, cycles) in enumerate(zip(plan.region.operations, plan.cycles, strict=True)):
        moved = _call_bytes(plan, number, written=True) + _call_bytes(plan, number, written=False)
        yield OperationUse(bound.operation.name, bound.operation.kind.name, 1, cycles, CALL_UNIT, cycles, bound.operation.macs, moved)


def _call_bytes(plan: PlannedCalls, number: int, written: bool) -> int:
    """Bytes of the tensors that a call reads, or of those that it writes, each once."""
    problem = plan.problems[number]
    tensors = [tensor for tensor in problem.kernel.tensors if tensor.written == written]
    return sum(tensor_packing(problem.machine, tensor, problem.numbers).bytes for tensor in tensors)


GRAPH_UNIT = "engine"
"""The one that operators keep busy, as tables name it."""


def use_graph(backend: Backend, region: GraphRegion) -> RegionUse:
    """bound: the whole time, as operators do not overlap."""
    machine, rules = backend.machine, GraphRules(backend.machine)
    uses = tuple(_node_use(rules, node, region.constants) for node in region.nodes)
    total = sum(use.cycles for use in uses)
    return RegionUse(
        region.name, machine.name, 1, len(uses), total, total, GRAPH_UNIT, uses, (), tuple(_graph_constants(backend)), 1,
        machine.timing.peak_macs,
    )  # fmt: skip


def _node_use(rules: GraphRules, node: ir.Node, known: Mapping[str, Array]) -> OperationUse:
    cycles = rules.cycles(node, known)
    return OperationUse(node.name or "", node.op_type, 1, cycles, GRAPH_UNIT, cycles, node_macs(node), rules.bytes(node))


def _graph_constants(backend: Backend) -> Iterator[Basis]:
    timing = backend.machine.timing
    yield Basis("clock_khz", timing.clock_khz, timing.clock_source, assumed=False)
    if timing.peak_macs is not None:
        yield Basis("peak_macs", timing.peak_macs, timing.peak_source, assumed=False)
    yield from assumed_params(backend.machine)
    yield from (Basis(f"{r.name} bytes_per_cycle", r.bytes_per_cycle, r.source, r.assumed) for r in timing.resources)
