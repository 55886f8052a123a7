"""A plan as a schedule: realising that gives the plan again."""

from collections.abc import Iterator
from dataclasses import replace

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.schedule import ChipBuffer, Cut, Group, GroupLoad, Schedule, ScheduledOperation, Slots
from toolchain.schedule.fusion.tile_group import TileGroup
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.ring import find_rings
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine


def make_schedule(machine: Machine, plan: Plan) -> Schedule:
    """The schedule of a plan whose slots stand where they will be."""
    rings = frozenset(find_rings(plan.problems))
    groups = tuple(
        replace(_group(plan, members, group, rings), streams=plan.shares.get(number, ())) for number, (members, group) in enumerate(plan.runs())
    )
    head = plan.region.name, machine.name, machine.config, fingerprint(machine)
    return Schedule(*head, tuple(_buffers(plan)), groups, barriers=plan.barriers, multicast=plan.multicast, copies=plan.copies)


def _group(plan: Plan, members: range, group: RowGroup | TileGroup | None, rings: frozenset[str]) -> Group:
    operations = tuple(_operation(plan, index, rings) for index in members)
    if group is None:
        return Group(operations)
    if isinstance(group, TileGroup):
        return Group(operations, tiles=True)
    return Group(operations, group.ahead, tuple(GroupLoad(_buffer(plan, load.tensor, load.ring), load.size) for load in group.loads))


def _buffers(plan: Plan) -> Iterator[ChipBuffer]:
    yield from (_buffer(plan, name, name) for name, candidate in plan.residents.candidates.items() if candidate.writes)
    yield from (ChipBuffer(name, shared.memory, shared.slot, stored=False) for name, shared in plan.shared.items())


def _buffer(plan: Plan, tensor: str, name: str) -> ChipBuffer:
    """A tensor as it stands on chip. name: of its buffer there."""
    candidate, ring = plan.residents.candidates[name], plan.residents.rings.get(name)
    return ChipBuffer(tensor, candidate.memory, plan.residents.slots[name], candidate.stored, *((ring.pitch, ring.lines) if ring else (0, 0)))


def _operation(plan: Plan, index: int, rings: frozenset[str]) -> ScheduledOperation:
    problem, tiling, left = plan.problems[index], plan.tilings[index], plan.residents.left(index)
    slots = _slots(problem, tiling, rings)
    counted = {problem.memories[name] for name, found in slots.items() if isinstance(found, int)}
    within = {memory: pools for memory, pools in problem.pools.items() if memory in counted and pools != left[memory]}
    return ScheduledOperation(plan.order[index], problem.operation.name, problem.kernel.name, _tile(problem, tiling), slots, within)


def _tile(problem: Problem, tiling: Tiling) -> tuple[Cut, ...]:
    """Loops that a search left out run once, wherever they stand."""
    left = [d.name for d in problem.kernel.tile if d.name not in tiling.order]
    reducing = {d.name for d in problem.kernel.reductions}
    names = [*(name for name in left if name not in reducing), *tiling.order, *(name for name in left if name in reducing)]
    return tuple(Cut(name, tiling.sizes[name]) for name in names)


def _slots(problem: Problem, tiling: Tiling, rings: frozenset[str]) -> dict[str, Slots]:
    """A memory that is filled round and round has no fixed places."""
    return {
        name: len(slots) if problem.memories[name] in rings and name in problem.known else slots
        for name, slots in tiling.places.items()
        if name not in problem.kernel.handed
    }  # fmt: skip
