"""From an operation to the fastest program that the search finds for it; operations of the same sizes share one search."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from toolchain.abi.packing import PAGE, Packing
from toolchain.analysis.checks import Checked, prepare_program
from toolchain.analysis.in_place import repeats
from toolchain.analysis.state import State, new_state
from toolchain.isa.footprint.loop_nest import pipelined_steps
from toolchain.isa.program import Origins, Program
from toolchain.operations.operation import Operation
from toolchain.schedule.emit import emit, in_turn, plan_constants
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_buffers import tensor_packing, tensor_values
from toolchain.schedule.stray_accesses import Rooms, rooms_of
from toolchain.schedule.tiling.order import order_steps
from toolchain.schedule.tiling.other_tilings import other_tilings
from toolchain.schedule.tiling.step_cost import own_channels
from toolchain.schedule.tiling.tile_group import Pass
from toolchain.schedule.tiling.tile_search import Tiled
from toolchain.schedule.tiling.tile_table import tile_key
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.schedule.writer import POOL, part_of
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline, time_program, time_state

Key = tuple[object, tuple[tuple[str, tuple[Pool, ...]], ...], bool, int]
GroupKey = tuple[tuple[Key, ...], tuple[Pass, ...], int]
"""By member, the tensors that pass, the streams that share the tiles."""

TRIED = 24
"""Tilings of an operation that are looked at where a machine's pipelines have rules."""


@dataclass(frozen=True)
class Tensors:
    """The tensors of a problem in DRAM. stored: bytes of those whose values are known when compiling."""

    packings: Mapping[str, Packing]
    stored: Mapping[str, bytes]


@dataclass(frozen=True)
class TensorPlace:
    """Placement of a tensor: byte address, bytes, and the address in elements of its view."""

    address: int
    bytes: int
    base: int


@dataclass(frozen=True)
class CompiledOperation:
    """listing: the purpose of each instruction; empty for one that only passes tokens. places: by tensor, and `constants`."""

    problem: Problem
    program: Program
    listing: tuple[str, ...]
    tensors: Tensors
    places: Mapping[str, TensorPlace]
    pool: bytes
    rooms: Rooms
    origins: Origins

    def state(self, **inputs: Array) -> State:
        """A new state with everything in DRAM that the program reads; inputs: host tensors by name, axes as in the tensor's layout."""
        known = {**self.tensors.stored, **{name: self.tensors.packings[name].store(v) for name, v in inputs.items()}}
        return _state(self.problem, self.places, {**({POOL: self.pool} if self.pool else {}), **known})

    def result(self, state: State, name: str) -> Array:
        """A host tensor out of a state, axes as in its layout."""
        tensor = next(t for t in self.problem.kernel.tensors if t.name == name)
        place, memory = self.places[name], self.problem.machine.view[tensor.view].memory
        return self.tensors.packings[name].fetch(state.memories[memory][0, place.address : place.address + place.bytes])


@dataclass(frozen=True)
class TimedOperation:
    """A compiled operation. tried: every tiling that was timed, with its cycles, the chosen one's being the fewest."""

    compiled: CompiledOperation
    tiling: Tiling
    timeline: Timeline
    checked: Checked
    tried: tuple[tuple[Tiling, float], ...]

    @property
    def cycles(self) -> float:
        return self.timeline.cycles


def compile_operation(machine: Machine, kernel: Kernel, operation: Operation, contexts: int = 2, timed: int = 6) -> TimedOperation:
    """Times the `timed` best tilings exactly and keeps the quickest, of equals the first. contexts: slots of each place, at least.

    Raises UserError E1003 where the kernel cannot do the operation, E1004 where no tile fits.
    """
    problem = state_problem(machine, kernel, operation)
    tensors = pack_tensors(problem)
    found: list[tuple[Tiling, CompiledOperation, Checked, Timeline]] = []
    for tiling in rank_tilings(problem, contexts, timed):
        compiled = emit_alone(problem, tiling, tensors)
        checked = prepare_program(compiled.program, compiled.state())
        found.append((tiling, compiled, checked, time_program(compiled.program, checked.footprints, checked.provenance, checked.tokens)))
    best = int(np.argmin([item[3].cycles for item in found]))
    tiling, compiled, checked, timeline = found[best]
    return TimedOperation(compiled, tiling, timeline, checked, tuple((t, line.cycles) for t, _, _, line in found))


def pack_tensors(problem: Problem) -> Tensors:
    """Layouts and known values of every tensor; independent of tiles."""
    packings, stored = dict[str, Packing](), dict[str, bytes]()
    for tensor in problem.kernel.tensors:
        packings[tensor.name] = tensor_packing(problem.machine, tensor, problem.numbers)
        if tensor.values is not None:
            stored[tensor.name] = packings[tensor.name].store(tensor_values(problem.machine, tensor, problem.numbers, problem.operation.constants))
    return Tensors(packings, stored)


def emit_alone(problem: Problem, tiling: Tiling, tensors: Tensors) -> CompiledOperation:
    """The program of one operation, its tensors one after the other in DRAM. Raises UserError E1004, and all of `emit`."""
    part = part_of(problem, order_steps(problem, tiling))
    residency = plan_constants(problem.machine, [part], in_turn([part]))
    sizes = {t.name: (t.view, tensors.packings[t.name].bytes) for t in problem.kernel.tensors}
    if residency.pool:
        sizes[POOL] = (_pool_view(problem), len(residency.pool))
    places = place_tensors(problem.machine, sizes)
    state = _state(problem, places, {POOL: residency.pool} if residency.pool else {})
    scope = _absolute(problem, places)
    found = emit(problem.machine, [part], in_turn([part]), residency, [scope], state)
    return CompiledOperation(problem, found.program, found.listing, tensors, places, residency.pool, rooms_of(part, tiling), found.origins)


def _absolute(problem: Problem, places: Mapping[str, TensorPlace]) -> dict[str, int]:
    """Names of tensors that have a buffer each, at an absolute address: all base registers hold zero."""
    return {f"{name}_base": place.base for name, place in places.items()} | {f"{name}_segment": 0 for name in places} | own_channels(problem)


def _state(problem: Problem, places: Mapping[str, TensorPlace], blobs: Mapping[str, bytes]) -> State:
    """A new state with these bytes in place."""
    state, machine = new_state(problem.machine), problem.machine
    views = {t.name: t.view for t in problem.kernel.tensors} | {POOL: _pool_view(problem)}
    for name, data in blobs.items():
        first = places[name].address
        state.memories[machine.view[views[name]].memory][:, first : first + len(data)] = np.frombuffer(data, np.uint8)
    return state


def _pool_view(problem: Problem) -> str:
    return problem.kernel.loading.view if problem.kernel.loading else ""


def place_tensors(machine: Machine, sizes: Mapping[str, tuple[str, int]]) -> dict[str, TensorPlace]:
    """The places of name -> (view, bytes), one after the other. Raises UserError E1004 where the memory is too small."""
    return dict(_places(machine, sizes))


def _places(machine: Machine, sizes: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, TensorPlace]]:
    top: dict[str, int] = {}
    for name, (view_name, size) in sizes.items():
        view = machine.view[view_name]
        step = math.lcm(PAGE, max(view.unit, 1))
        address = -(-top.get(view.memory, PAGE) // step) * step
        top[view.memory] = address + size
        if top[view.memory] > machine.memory[view.memory].bytes:
            raise fail("E1004", f"tensor '{name}' of {size} bytes does not fit into '{view.memory}'")
        yield name, TensorPlace(address, size, address // max(view.unit, 1))


@dataclass
class TileChoice:
    """contexts: slots of each place, at least. timed: how many tilings are timed exactly; with one, the estimate decides. groups: tiles of groups by
    the facts that decide them, None where nothing fits. waits: those that `Handover` found. behind: the other
    tilings of operations."""

    contexts: int
    timed: int
    found: dict[tuple[Key, int], Tiling] = field(default_factory=dict[tuple[Key, int], Tiling])
    groups: dict[GroupKey, Tiled | None] = field(default_factory=dict[GroupKey, "Tiled | None"])
    waits: dict[tuple[Hashable, ...], float] = field(default_factory=dict[tuple[Hashable, ...], float])
    behind: dict[tuple[Key, int], list[Tiling]] = field(default_factory=dict[tuple[Key, int], list[Tiling]])

    def best(self, problem: Problem, streams: int = 1) -> Tiling:
        """streams: that share the tiles; with several, the estimate decides. Raises UserError E1004 where no tile fits."""
        key = self.key(problem), streams
        if key not in self.found:
            self.found[key] = self._other(problem, streams) if problem.retiled else self._quickest(problem, streams)
        return self.found[key]

    def _quickest(self, problem: Problem, streams: int) -> Tiling:
        ranked = self._ranked(problem, streams)
        return ranked[0] if len(ranked) == 1 else min(ranked, key=lambda tiling: _cycles(problem, tiling))

    def _other(self, problem: Problem, streams: int) -> Tiling:
        """One of the tilings behind the best; the last of them where there are not so many."""
        plain = replace(problem, retiled=0)
        others = self.others(plain, streams)
        return others[min(problem.retiled, len(others)) - 1] if others else self.best(plain, streams)

    def others(self, problem: Problem, streams: int = 1) -> list[Tiling]:
        """Tilings behind the best, which a search numbers from 1. Raises UserError E1004 where no tile fits."""
        key = self.key(problem), streams
        if key not in self.behind:
            self.behind[key] = other_tilings(problem, self.best(problem, streams), self.contexts, streams)
        return self.behind[key]

    def _ranked(self, problem: Problem, streams: int) -> Sequence[Tiling]:
        """The best tilings by the estimate, of those that keep to the rules of pipelines where some do."""
        if streams > 1:
            return rank_tilings(problem, self.contexts, 1, streams)
        if not pipelined_steps(problem.machine):
            return rank_tilings(problem, self.contexts, self.timed)
        ranked = rank_tilings(problem, self.contexts, max(self.timed, TRIED))
        kept = list(islice((tiling for tiling in ranked if _is_apart(problem, tiling)), self.timed))
        return kept or ranked[: self.timed]

    def key(self, problem: Problem) -> Key:
        """Everything that decides the tiles of an operation."""
        return tile_key(problem), tuple(problem.pools.items()), problem.followed, problem.retiled


def _is_apart(problem: Problem, tiling: Tiling) -> bool:
    """Whether no instruction of the operation alone touches an element again before its pipeline is done with it."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    return not len(repeats(prepare_program(compiled.program, compiled.state()).provenance))


def _cycles(problem: Problem, tiling: Tiling) -> float:
    """Exactly, of the operation alone."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    return time_state(compiled.program, compiled.state()).cycles
