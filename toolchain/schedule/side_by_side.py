"""Work spread over units: branches in an order in which units run side by side, and operations that take a tensor in the pieces in which another
makes it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.handover import Handover
from toolchain.schedule.kernel_selection import CONTEXTS, able_kernels
from toolchain.schedule.kernels.kernel import Kernel, working_units
from toolchain.schedule.kernels.pools import Pool, Slot, beside
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.tile_group import Reach, touched, units_of
from toolchain.schedule.tiling.tiles import Planned, Tiling, tile_fits
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine


def branch_order(region: Region, problems: Sequence[Problem], cycles: Sequence[float] | None = None) -> list[int]:
    """Indices of operations in the order in which they are to run: each without work for the unit with the most multiply-accumulates stands directly
    before the operation with the most of them, of those between its operands and its first reader.

    cycles: of each operation, by itself, where ports of banks are limited, so that operations hold up those beside them which read what they read.
    Then it stands where that unit has enough work before its first reader, or else as early as it can; of such places where others read its operands
    for the shortest time meanwhile, and of those the last. Those that read them behind it go first where enough work is left."""
    macs, main = [problem.operation.macs for problem in problems], main_unit(problems)
    order = list(range(len(problems)))
    for index in (index for index, problem in enumerate(problems) if main not in working_units(problem.steps)):
        at = order.index(index)
        places = range(first_after(region, order[:at], index), at)
        if cycles is not None:
            _put_apart(region, order, places, cycles)
            continue
        beside = max(places, key=lambda place: macs[order[place]], default=at)
        if beside < at and macs[order[beside]]:
            order.insert(beside, order.pop(at))
    return order


def _put_apart(region: Region, order: list[int], places: range, cycles: Sequence[float]) -> None:
    """Moves the operation behind these places to one of them, and operations that read its operands before it, as `branch_order` says."""
    at, index = places.stop, order[places.stop]
    enough = [place for place in places if sum(cycles[other] for other in order[place:at]) >= cycles[index]]
    shared = {place: _shared_reading(region, order[place:at], index, cycles) for place in enough}
    order.insert(place := min(enough, key=lambda place: (shared[place], -place), default=places.start), order.pop(at))
    for other in _movable(region, order, place, at):
        if sum(cycles[each] for each in order[place + 1 : at + 1] if each != other) >= cycles[index]:
            order.remove(other)
            order.insert(place, other)
            place += 1


def _movable(region: Region, order: Sequence[int], place: int, stop: int) -> list[int]:
    """Operations behind the one at a place, up to another, that read what it reads and could run before it."""
    return [
        order[behind]
        for behind in range(place + 1, stop + 1)
        if _read_the_same(region, order[place], order[behind]) and first_after(region, order[:behind], order[behind]) <= place
    ]


def _shared_reading(region: Region, behind: Sequence[int], index: int, cycles: Sequence[float]) -> float:
    """Cycles in which operations behind one that begins at once read what it reads."""
    found, left = 0.0, cycles[index]
    for other in behind:
        found += min(max(left, 0.0), cycles[other]) if _read_the_same(region, index, other) else 0.0
        left -= cycles[other]
    return found


def _read_the_same(region: Region, index: int, other: int) -> bool:
    """Whether two operations have an operand in common."""
    own, its = (
        {tensor for name, tensor in region.operations[number].tensors.items() if name in region.operations[number].operation.kind.data}
        for number in (index, other)
    )
    return not own.isdisjoint(its)


def main_unit(problems: Sequence[Problem]) -> str:
    """The unit with the most multiply-accumulates; empty without operations."""
    work = [(problem.operation.macs, working_units(problem.steps)) for problem in problems]
    busiest = {unit: sum(macs for macs, others in work if unit in others) for _, units in work for unit in units}
    return max(busiest, key=lambda unit: (busiest[unit], unit), default="")


def first_after(region: Region, before: Sequence[int], index: int) -> int:
    """The earliest place at which an operation may stand: behind the last of those `before` it that makes one of its operands."""
    operations = region.operations
    return max((place + 1 for place, other in enumerate(before) if region.reads(operations[index], operations[other])), default=0)


def relieved(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> dict[int, str]:
    """The kernel of each operation that moves, by its index. There it takes no longer than the busy unit works between its operands and its readers,
    and all operations off the busy unit together take no longer than those on it. Where ports of banks are limited, it holds up operations that read
    what it reads, so that their work does not count. Estimates of each operation's best tiles alone decide."""
    if any(bound.kernel not in kernels or kernels[bound.kernel].call for bound in region.operations):
        return {}
    problems = [state_problem(machine, kernels[bound.kernel], bound.operation) for bound in region.operations]
    main, choice, crowded = main_unit(problems), TileChoice(CONTEXTS, 1), any(memory.ports for memory in machine.memories)
    moving = {index: list(_others(machine, kernels, region, index, main)) for index, p in enumerate(problems) if main in working_units(p.steps)}
    if not any(moving.values()):
        return {}
    cycles = [choice.best(problem).estimate for problem in problems]
    busy, others = sum(cycles[index] for index in moving), sum(cycles[index] for index in range(len(problems)) if index not in moving)
    found: dict[int, str] = {}
    for index, able in moving.items():
        if not able:
            continue
        others_beside = (other for other in _beside(region, index) if other in moving and other not in found)
        beside = sum(cycles[other] for other in others_beside if not (crowded and _read_the_same(region, index, other)))
        own, kernel = min((choice.best(problem).estimate, problem.kernel.name) for problem in able)
        if own <= beside and others + own <= busy - cycles[index]:
            found[index], busy, others = kernel, busy - cycles[index], others + own
    return found


def _others(machine: Machine, kernels: Mapping[str, Kernel], region: Region, index: int, main: str) -> Iterator[Problem]:
    """The operation for each kernel that can do it without the busy unit, of which a tile fits, and whose tensors are stored as its neighbours have
    them."""
    bound = region.operations[index]
    alone = region.alone(bound)
    stored = _layouts(kernels[bound.kernel], alone)
    for problem in able_kernels(machine, kernels, bound.operation, [], alone):
        if main not in working_units(problem.kernel.steps) and _layouts(problem.kernel, alone) == stored and tile_fits(problem):
            yield problem


def _layouts(kernel: Kernel, alone: Collection[str]) -> dict[str, tuple[str, str]]:
    """View and layout of each tensor that comes from another operation or goes to one."""
    return {t.name: (t.view, t.layout) for t in kernel.tensors if t.values is None and t.name not in alone}


def _beside(region: Region, index: int) -> Sequence[int]:
    """Operations that make no operand of this one and do not read its result, and can run meanwhile."""
    count, operations = len(region.operations), region.operations
    stop = next((other for other in range(index + 1, count) if region.reads(operations[other], operations[index])), count)
    return [other for other in range(first_after(region, range(index), index), stop) if other != index]


WORTH = 0.9
"""The share of the time one after the other that the longer one may take when they share the memory."""


def run_side_by_side(region: Region, storage: Storage, planned: Sequence[Planned], choice: TileChoice) -> list[Planned]:
    """The operations, neighbours with room of their own where that is worth it."""
    found = list(planned)
    for index in range(1, len(found)):
        if _streams(region, storage, index, found[index - 1][0], found[index][0]):
            best = min(_shares(found[index - 1][0], found[index][0], choice), key=_longer, default=None)
            if best is not None and _longer(best) < WORTH * (found[index - 1][1].estimate + found[index][1].estimate):
                found[index - 1], found[index] = best
    return found


def _longer(pair: tuple[Planned, Planned]) -> float:
    return max(tiling.estimate for _, tiling in pair)


def _streams(region: Region, storage: Storage, index: int, first: Problem, second: Problem) -> bool:
    """Whether the second reads the first one's result from DRAM, and they share no unit: queues are in order, so an instruction of the second that
    waits in one would wait until the first is done."""
    made = storage.places[region.operations[index - 1].tensors["y"]][0]
    read = [name for name, tensor in region.operations[index].tensors.items() if second.loads(name) and storage.places[tensor][0] == made]
    return bool(read) and not _units(first) & _units(second)


def _units(problem: Problem) -> set[str]:
    """All but those that load values known when compiling: these are there before."""
    return {unit for step in problem.steps if step.kind != "load" or step.place not in problem.known for unit in step.units}


def _shares(first: Problem, second: Problem, choice: TileChoice) -> Iterator[tuple[Planned, Planned]]:
    """Both with tiles in parts of the memories that the second's operands go through: one stretch for it, for the first the rest."""
    for memory in sorted({memory for name, memory in second.memories.items() if second.loads(name) and name not in second.known}):
        made = [(kept.slot, kept.size) for name, kept in second.kept.items() if name == "y" and second.memories[name] == memory]
        for stretch in _stretches(second.pools[memory]):
            taken = [(Slot(stretch.bank, stretch.start), stretch.depth), *made]
            left = beside(first.pools[memory], taken)
            own = replace(first, pools={**first.pools, memory: left}), replace(second, pools={**second.pools, memory: (stretch,)})
            try:
                yield (own[0], choice.best(own[0])), (own[1], choice.best(own[1]))
            except UserError:
                continue


def _stretches(pools: Sequence[Pool]) -> Iterator[Pool]:
    """Whole ones and halves."""
    for pool in pools:
        yield pool
        half = pool.depth // 2
        yield Pool(pool.bank, half, pool.start)
        yield Pool(pool.bank, pool.depth - half, pool.start + half)


def follow_makers(region: Region, planned: Sequence[Planned], choice: TileChoice) -> list[Planned]:
    """The operations. Those that stand between two of the unit with the most multiply-accumulates, and leave it alone, have tiles after which the
    second of these can start earlier; so have the first, where that is worth its cycles. Estimates decide."""
    main, works = main_unit([problem for problem, _ in planned]), [working_units(problem.steps) for problem, _ in planned]
    found, known = list(planned), dict[tuple[object, ...], tuple[Tiling, Tiling]]()
    for index, (problem, tiling) in enumerate(planned):
        if any(step.kind == "load" for step in problem.steps):
            continue  # slots for operands in DRAM decide
        maker, reader = _maker(region, found, index), _reader(region, found, index)
        if maker is None or reader is None:
            continue
        if [k for k in range(maker[0], reader[0] + 1) if main in works[k]] != [maker[0], reader[0]]:
            continue  # the unit has other work meanwhile
        reaches, wanted = _reaches(region, found, maker, index), _first_part(problem, *found[reader[0]], reader[1])
        if not reaches or not wanted:
            continue
        first, made = found[maker[0]]
        starts = tuple(int(reach.first[0]) for reach in reaches.values())
        key = choice.key(first), tuple(made.sizes.items()), made.order, choice.key(problem), maker[1], starts, tuple(wanted.items())
        if key not in known:
            known[key] = Handover(first, made, problem, reaches, wanted, choice.waits).best(tiling, choice.contexts)
        found[maker[0]], found[index] = (first, known[key][0]), (problem, known[key][1])
    return found


def _maker(region: Region, planned: Sequence[Planned], index: int) -> tuple[int, str] | None:
    """The last operation before that makes an operand on chip or a part of it, and which."""
    bound = region.operations[index]
    kept = {region.stands_in(tensor)[0]: name for name, tensor in bound.tensors.items() if name != "y" and name in planned[index][0].kept}
    made = ((other, region.stands_in(region.operations[other].tensors["y"])[0]) for other in range(index - 1, -1, -1))
    return next(((other, kept[whole]) for other, whole in made if whole in kept), None)


def _reader(region: Region, planned: Sequence[Planned], index: int) -> tuple[int, str] | None:
    """The first operation after it that reads the result, kept on chip, and as which operand."""
    made, later = region.operations[index].tensors["y"], range(index + 1, len(planned))
    readers = ((other, name) for other in later for name, tensor in region.operations[other].tensors.items() if tensor == made)
    return next(readers, None) if "y" in planned[index][0].kept else None


def _reaches(region: Region, planned: Sequence[Planned], maker: tuple[int, str], index: int) -> dict[str, Reach]:
    """By dimension of the maker, the units that each unit of an operation reads. Where others make parts of the operand, theirs lie outside."""
    problem, operand = planned[maker[0]][0], maker[1]
    found = {name: reach for name, (reach, _) in touched(problem, planned[index][0], operand)}
    name = problem.kernel.axes.get("c", "")
    if name in found:
        _, made = region.stands_in(region.operations[maker[0]].tensors["y"])
        _, read = region.stands_in(region.operations[index].tensors[operand])
        before = (made - read) // dict((units_of(problem) or {}).values())[name]
        found[name] = Reach(found[name].dimension, found[name].first - before, found[name].stop - before)
    return found


def _first_part(problem: Problem, reader: Problem, tiling: Tiling, operand: str) -> dict[str, tuple[int, int]]:
    """The first unit and the units, by dimension, of the part of a result with which its reader begins; none where the kernels do not say."""
    found = dict(touched(problem, reader, operand))
    return {name: reach.part(0, tiling.sizes[reach.dimension]) for name, (reach, _) in found.items()}
