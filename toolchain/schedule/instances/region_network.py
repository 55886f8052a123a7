"""A region of a machine as a network for GraphTurbo's algorithms: ranges from the operations' index expressions, memories and rates from the
machine's file."""

import math
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from toolchain.operations.kind import OperationKind
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.operations.reads import positions
from toolchain.operations.row_by_row import image_by_image, row_by_row
from toolchain.schedule.instances.network import AXES, Network, Operand, Span, Work, elements, span_of
from toolchain.schedule.instances.split_info import Levels
from toolchain.schedule.kernels.kernel import COMPUTING
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.tile_group import units_of
from toolchain.schedule.tiling.tile_table import TileSize, size_limits
from toolchain.schedule.tiling.tiles import Planned, unit_cycles
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

IMAGES, ROWS = 0, 2
MOVING = ("load", "store")


def network_of(machine: Machine, region: Region, planned: Sequence[Planned]) -> Network:
    """Tensors that are parts of others, as those of a concatenation, count as parts of the tensor in which they stand. planned: the operations with
    their best tiles, by which they compute."""
    outputs = frozenset(region.stands_in(name)[0] for name in region.outputs)
    pairs = zip(region.operations, planned, strict=True)
    return Network(tuple(_work(region, bound, own) for bound, own in pairs), outputs, (machine.quantisation or Numerics()).bytes)


def levels_of(machine: Machine, network: Network, planned: Sequence[Planned], contexts: int) -> Levels:
    """The memories and rates of a stream, from the machine's file. planned: the operations with their best tiles. contexts: slots of weights.

    The local memory is the smallest of a stream's own in which kernels have tiles of operands or results; room for so many of the least tiles of
    weights is taken off. The shared one is the largest on chip that several streams have together. Bytes are moved as fast as by these
    tiles on average."""
    problems = [problem for problem, _ in planned]
    own = _local_memories(machine, problems)
    local = min((_bytes(machine, name) - contexts * max(_weights(problem, name) for problem in problems) for name in own), default=0)
    shared = [m.bytes for m in machine.memories if m.kind == "scratchpad" and machine.instances(m.scope) < machine.streams]
    tensors = sum(math.prod(work.extents) + sum(elements(operand.part(work.whole)) for operand in work.operands) for work in network.works)
    moving = sum(_busy(each, MOVING) for each in planned)
    return Levels(max(local, 0), max(shared, default=0), tensors * network.element / moving if moving else math.inf)


def _busy(planned: Planned, kinds: Collection[str]) -> float:
    """Cycles of the busiest unit of some kinds of steps."""
    problem, tiling = planned
    units = {unit for step in problem.steps if step.kind in kinds for unit in step.units}
    return max((float(cycles) for unit, cycles in unit_cycles(problem, tiling).items() if unit in units), default=0.0)


def _bytes(machine: Machine, memory: str) -> int:
    return machine.memory[memory].bytes


def _local_memories(machine: Machine, problems: Iterable[Problem]) -> list[str]:
    """Memories of a stream alone in which operands and results have tiles."""
    used = dict.fromkeys(place.memory for p in problems for place in p.kernel.places if place.name in (*p.operation.kind.data, "y"))
    return [name for name in used if machine.instances(machine.memory[name].scope) >= machine.streams]


def _weights(problem: Problem, memory: str) -> int:
    """Bytes of a memory that the least tiles of an operation's known tensors take."""
    sizes = {d.name: min(size_limits(problem, d.name)[1], problem.extents[d.name]) for d in problem.kernel.tile}
    rooms = TileSize(problem, sizes).rooms
    found = sum(rooms.get(name, 0) for name in problem.known if problem.memories.get(name) == memory)
    return found * problem.machine.memory[memory].element.bytes


def _work(region: Region, bound: Bound, planned: Planned) -> Work:
    operation = bound.operation
    tensor, channel = region.stands_in(bound.tensors["y"])
    operands = tuple(_operand(region, operation, name, own) for name, own in bound.tensors.items() if name != "y")
    blocks = units_of(planned[0]) or {}
    n, c, h, w = (blocks[axis][1] if axis in blocks else 1 for axis in AXES)
    return Work(operation.name, tensor, operation.output, operands, _busy(planned, COMPUTING), channel, (n, c, h, w))


def _operand(region: Region, operation: Operation, name: str, tensor: str) -> Operand:
    root, channel = region.stands_in(tensor)
    kind = operation.kind
    if kind.meaning.of is not None and not kind.operand[name].many:
        return Operand(root, _spans(kind, tuple(operation.numbers.items()), name, operation.output, operation.input(name)), channel)
    shape = region.tensors[tensor]
    apart = [(IMAGES, image_by_image(operation)), (ROWS, row_by_row(operation) and shape[ROWS] == operation.output[ROWS])]
    kept = [axis for axis, alone in apart if alone]
    return Operand(root, _plain(operation.output, shape, kept), channel)


@lru_cache(maxsize=1024)
def _spans(
    kind: OperationKind, numbers: tuple[tuple[str, int], ...], name: str, output: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[Span, ...], ...]:
    """As the index expressions of the meaning read."""
    result, data = (PICTURE_AXES[len(axes)] for axes in (kind.result.axes, kind.operand[name].axes))
    found = [list(row) for row in _plain(output, shape, ())]
    for index, axis in zip(kind.result.axes, result, strict=True):
        for own, part in zip(data, positions(kind, dict(numbers), index).get(name, ()), strict=False):
            found[axis][own] = span_of(part.first.tolist(), part.stop.tolist())
    return tuple(map(tuple, found))


def _plain(output: Sequence[int], shape: Sequence[int], kept: Sequence[int]) -> tuple[tuple[Span, ...], ...]:
    """All of the operand for each position, but along the axes whose positions need the same one alone."""
    return tuple(
        tuple(
            Span(tuple(range(output[axis])), tuple(range(1, output[axis] + 1))) if axis == own and axis in kept else _all(output[axis], shape[own])
            for own in AXES
        )
        for axis in AXES
    )


def _all(count: int, extent: int) -> Span:
    return Span((0,) * count, (extent,) * count)
