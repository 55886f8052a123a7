"""A schedule to a plan: everything that it says is checked, its order first, and all that follows from it is derived."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from toolchain.schedule.form.buffers import instances, read_buffers, read_near, read_shared
from toolchain.schedule.form.groups import read_groups, read_loads, share_tiles
from toolchain.schedule.form.plan import Plan, Schedule, ScheduledOperation, Share
from toolchain.schedule.form.shares import check_multicast, check_rooms, read_copies, read_shares
from toolchain.schedule.form.tiles import SlotReader, check_tile, narrowed
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, keep_on_chip
from toolchain.schedule.placement.dram_buffers import Storage, plan_storage
from toolchain.schedule.placement.on_chip_allocation import Residents, find_candidates, grouped, in_dram
from toolchain.schedule.placement.shared_memory import (
    fetchable,
    instances_of,
    is_fetch,
    moved,
    shareable,
    sharing,
    users,
    with_fetches,
    without_fetches,
)
from toolchain.schedule.regions.region import Region, stacked
from toolchain.schedule.tiling.slots import SlotsBeside, find_rings
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError, nearest
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Path, gather

MOST_TILES = 1 << 20
"""The most tiles of a region; more take minutes to write down, and no search comes near."""
Entry = tuple[int, Path, ScheduledOperation]


def check_head(machine: Machine, region: Region, schedule: Schedule) -> None:
    """Raises UserError E1401 for a schedule of another region, machine or architecture."""
    wanted = {"region": region.name, "machine": machine.name, "fingerprint": fingerprint(machine)}
    found = {"region": schedule.region, "machine": schedule.machine, "fingerprint": schedule.fingerprint}
    for key, value in wanted.items():
        if found[key] != value:
            hint = "the machine's file or its parameters have changed: build without the schedule and start from that" * (key == "fingerprint")
            raise schedule.error("E1401", f"the schedule's {key} is '{found[key][:80]}', this is '{value}'", ("schedule", key), hint)


def ordered_region(region: Region, schedule: Schedule) -> tuple[Region, tuple[int, ...]]:
    """The region of `scheduled_region` in the schedule's order, and the index that each operation had.

    Raises UserError E1402 for operations that are not the region's, missing or there twice, and for fetches of no input, E1403 for one that reads a
    tensor made later.
    """
    region = scheduled_region(region, schedule)
    faults = list(_faults(region, schedule))
    if faults:
        raise UserError(*faults)
    order = tuple(operation.operation for _, operation in schedule.entries())
    ordered = replace(region, operations=tuple(region.operations[index] for index in order))
    early = list(_early(ordered, schedule))
    if early:
        raise UserError(*early)
    return ordered, order


def scheduled_region(region: Region, schedule: Schedule) -> Region:
    """The region with as many images in each tensor as the schedule has, and its fetches.

    Raises UserError E1402 for a fetch of a tensor that is no input, or none that stands alone, E1414 where an operation mixes images."""
    region = _stacked(region, schedule)
    able = fetchable(without_fetches(region))
    faults = [
        schedule.fault("E1402", f"'{operation.fetches}' is no input that could be fetched", (*path, "fetches"), nearest(operation.fetches, able))
        for path, operation in schedule.entries()
        if operation.fetches and operation.fetches not in able
    ]
    if faults:
        raise UserError(*faults)
    return with_fetches(region, schedule.fetches)


def _stacked(region: Region, schedule: Schedule) -> Region:
    """Schedules of a search, which are not those of copies yet, say nothing of the images that its region has."""
    if schedule.copies.images == 1:
        return region
    try:
        return stacked(region, schedule.copies.images)
    except UserError as error:
        raise schedule.error("E1414", error.diagnostics[0].message, ("schedule", "copies"), "leave 'images' out") from None


def _faults(region: Region, schedule: Schedule) -> Iterator[Diagnostic]:
    """Indices are those of the file, which counts no fetches."""
    seen, fetches = set[int](), len(schedule.fetches)
    count = len(region.operations) - fetches
    for path, operation in schedule.entries():
        index, own = operation.operation, operation.operation - fetches
        if own >= count:
            yield schedule.fault("E1402", f"there is no operation {own}: the region has {count}, from 0 on", (*path, "operation"))
        elif index in seen:
            text = f"'{operation.fetches}' is fetched twice" if operation.fetches else f"operation {own} is there twice"
            yield schedule.fault("E1402", text, (*path, "fetches" if operation.fetches else "operation"))
        elif operation.name != region.operations[index].operation.name:
            name = region.operations[index].operation.name
            yield schedule.fault("E1402", f"operation {own} is '{name}', not '{operation.name}'", (*path, "name"), "the index says which one it is")
        seen.add(index)
    for index in sorted(set(range(fetches, fetches + count)) - seen):
        yield schedule.fault("E1402", f"operation {index - fetches}, '{region.operations[index].operation.name}', is missing", ("groups",))


def _early(ordered: Region, schedule: Schedule) -> Iterator[Diagnostic]:
    """Operations that read a tensor before it is made."""
    made = set(ordered.inputs)
    for (path, _), bound in zip(schedule.entries(), ordered.operations, strict=True):
        for place, tensor in bound.tensors.items():
            if place != "y" and not _known(ordered, made, ordered.viewed(tensor)):
                yield schedule.fault("E1403", f"'{bound.operation.name}' reads '{tensor}' before it is made", path)
        made.add(bound.tensors["y"])


def _known(region: Region, made: set[str], tensor: str) -> bool:
    """Whether a tensor is made: itself, all parts of it, or a tensor that it is a part of."""
    above = tensor
    while above not in made and above in region.slices:
        above = region.slices[above].parent
    open_parts = [tensor]
    while above not in made and open_parts:
        name = open_parts.pop()
        if name not in made:
            if name not in region.parts:
                return False
            open_parts += region.parts[name]
    return True


def realise(machine: Machine, kernels: Mapping[str, Kernel], region: Region, schedule: Schedule, stored: bool = False) -> Plan:
    """stored: every tensor is stored to DRAM as well. Raises UserError E1401 to E1407, E1410 to E1414 with places in the schedule's file."""
    check_head(machine, region, schedule)
    copies = read_copies(machine, schedule)
    check_multicast(machine, kernels, schedule)
    check_rooms(machine, kernels, schedule)
    ordered, order = ordered_region(region, schedule)
    entries = [(index, path, operation) for index, (path, operation) in enumerate(schedule.entries())]
    problems = gather(lambda entry: _stated(machine, kernels, ordered, schedule, entry), entries)
    storage = _storage(machine, ordered, problems, schedule)
    shared = read_shared(machine, schedule, storage, shareable(machine, storage, copies))
    _check_fetches(ordered, schedule, shared)
    rings = {buffer.tensor for buffer in schedule.buffers if buffer.pitch}
    loads = read_loads(schedule, ordered, problems, storage)
    loaded = {loadable.candidate.name: loadable.candidate for found in loads.values() for loadable in found}
    candidates = grouped(find_candidates(ordered, problems, storage) | loaded, schedule.numbers, rings)
    residents = read_buffers(machine, schedule, candidates, problems[0].pools, shared)
    problems = [sharing(ordered, storage, problem, index, shared) for index, problem in enumerate(problems)]
    own = [kept_problem(ordered, storage, residents, problem, index, stored) for index, problem in enumerate(problems)]
    own = gather(lambda entry: narrowed(schedule, entry[1], entry[2], own[entry[0]]), entries)
    reader = _Tiles(schedule, own, frozenset(find_rings(own)))
    tilings = gather(reader.tiling, entries)
    own = read_near(machine, schedule, own, tilings)
    _check_work(schedule, own, tilings, entries)
    own, tilings, fused = share_tiles(schedule, ordered, own, tilings, stored)
    hidden = frozenset[str]().union(*(group.hidden for group in fused.values()))
    plan = Plan(
        ordered, order, own, tilings, residents, in_dram(storage, residents, stored, hidden), barriers=schedule.barriers, multicast=schedule.multicast
    )
    plan = replace(plan, groups={**read_groups(schedule, plan, storage, loads), **fused}, shares=read_shares(machine, schedule, plan), shared=shared)
    inside = instances(schedule, {name: _streams(machine, plan, schedule, name) for name in shared})
    return replace(plan, dram=moved(machine, plan.dram, shared, inside), copies=copies)


def _check_fetches(ordered: Region, schedule: Schedule, shared: Collection[str]) -> None:
    """Raises UserError E1404 for an input that is fetched to DRAM, where it is already."""
    for (path, _), bound in zip(schedule.entries(), ordered.operations, strict=True):
        if is_fetch(bound) and bound.tensors["y"] not in shared:
            text, hint = f"'{bound.tensors['x']}' is fetched, and no buffer holds it", f"an entry of buffers for '{bound.tensors['y']}'"
            raise schedule.error("E1404", text, (*path, "fetches"), hint)


def _streams(machine: Machine, plan: Plan, schedule: Schedule, name: str) -> set[int]:
    """The instances of a shared buffer's memory that its operations' streams have."""
    groups = {schedule.numbers[index] for index in users(plan.region, plan.dram, name)}
    return instances_of(machine, plan.shared[name].memory, {share.stream for number in groups for share in plan.shares.get(number, (Share(0, 1),))})


def _stated(machine: Machine, kernels: Mapping[str, Kernel], ordered: Region, schedule: Schedule, entry: Entry) -> Problem:
    """The operation for the kernel that the schedule names."""
    index, path, operation = entry
    bound = ordered.operations[index]
    if operation.kernel not in kernels:
        known = [k.name for k in kernels.values() if k.computes == bound.operation.kind.name]
        hint = nearest(operation.kernel, known) or f"known: {', '.join(known)}"
        raise schedule.error("E1407", f"machine '{machine.name}' has no kernel '{operation.kernel}'", (*path, "kernel"), hint)
    kernel = kernels[operation.kernel]
    if kernel.computes != bound.operation.kind.name:
        text = f"kernel '{kernel.name}' computes {kernel.computes}, and '{operation.name}' is of kind {bound.operation.kind.name}"
        raise schedule.error("E1407", text, (*path, "kernel"))
    try:
        return choose_kernel(machine, {kernel.name: kernel}, bound.operation, ordered.alone(bound), kernel.passed)
    except UserError as error:
        reason = error.diagnostics[0].message
        raise schedule.error("E1407", f"'{operation.name}': {reason}", (*path, "kernel")) from None


def _storage(machine: Machine, ordered: Region, problems: Sequence[Problem], schedule: Schedule) -> Storage:
    """Raises UserError E1407 where the kernels want a tensor stored differently."""
    try:
        return plan_storage(machine, ordered, [p.kernel for p in problems], [p.numbers for p in problems])
    except UserError as error:
        raise UserError(*(replace(d, code="E1407", span=schedule.span(("groups",))) for d in error.diagnostics)) from None


def kept_problem(region: Region, storage: Storage, residents: Residents, problem: Problem, index: int, stored: bool = False) -> Problem:
    """An operation with those of its tensors on chip that stay there."""
    root = storage.places[region.operations[index].tensors["y"]][0]
    return keep_on_chip(problem, residents.kept(index), stored or residents.stored(root), residents.left(index))


def _check_work(schedule: Schedule, problems: Sequence[Problem], tilings: Sequence[Tiling], entries: Sequence[Entry]) -> None:
    """Raises UserError E1405 for more tiles than can be written down, at the operation that has the most."""
    tiles = [prod(-(-extent // tiling.sizes[name]) for name, extent in p.extents.items()) for p, tiling in zip(problems, tilings, strict=True)]
    if sum(tiles) > MOST_TILES:
        index, path, operation = entries[tiles.index(max(tiles))]
        text = f"the region has {sum(tiles)} tiles, {tiles[index]} of them of '{operation.name}'; at most {MOST_TILES} can be written down"
        raise schedule.error("E1405", text, (*path, "tile"), "make its tile larger")


@dataclass(frozen=True)
class _Tiles:
    """rings: memories that are filled round and round. beside: the slots of each group, by its number."""

    schedule: Schedule
    problems: Sequence[Problem]
    rings: Collection[str]
    beside: dict[int, SlotsBeside] = field(default_factory=dict[int, SlotsBeside])

    def tiling(self, entry: Entry) -> Tiling:
        index, path, operation = entry
        problem, beside = self.problems[index], self.beside.setdefault(self.schedule.numbers[index], SlotsBeside(self.rings))
        size = check_tile(self.schedule, path, operation, replace(problem, pools=beside.left(problem)))
        places = SlotReader(self.schedule, path, operation, size, self.rings).read()
        tiling = Tiling(size.sizes, tuple(cut.dimension for cut in operation.tile), places, size.rooms, backward=operation.backward)
        beside.add(problem, tiling)
        return tiling
