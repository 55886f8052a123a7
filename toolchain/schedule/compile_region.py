"""A whole region becomes one program: a search or a user writes its schedule, and emission carries it out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from toolchain.analysis.checks import check_program, prepare_program
from toolchain.schedule.bank_choice import apart, clashes, tiles_apart
from toolchain.schedule.branch_order import branch_order
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.copies import Copies
from toolchain.schedule.dealing import Counts, Trial, quickest_dealing, spent
from toolchain.schedule.dram_allocation import PlacedRegion
from toolchain.schedule.emit import Emitted
from toolchain.schedule.form.make import make_schedule
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import kept_problem, realise
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.form.shares import even_shares, tile_count
from toolchain.schedule.groups.depth_first import depth_first, late_work
from toolchain.schedule.groups.fused import TileGroups
from toolchain.schedule.groups.grouping import Grouping
from toolchain.schedule.groups.members import Members
from toolchain.schedule.groups.rings import RingPlaces
from toolchain.schedule.groups.search import GroupSearch, with_groups
from toolchain.schedule.groups.stretch_clock import StretchClock
from toolchain.schedule.groups.timed import TimedGroups
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_buffers import Storage, plan_storage
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, find_candidates, in_dram, place_residents, without
from toolchain.schedule.placement.shared_memory import SharedSlot, place_shared, shareable, sharing, users
from toolchain.schedule.program import dealt_steps, ordered_steps, time_emitted, turned, write_program
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.rivals import Rivals, among_buffers, find_rivals, has_ports, joined, neighbour_rivals
from toolchain.schedule.side_by_side import Planned, run_side_by_side
from toolchain.schedule.stray_accesses import check_buffers, rooms_of
from toolchain.schedule.tile_choice import TileChoice
from toolchain.schedule.tile_following import follow_makers
from toolchain.schedule.tiling.ring import find_rings
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.timing.class_cost import part_of_ports
from toolchain.timing.simulate import Timeline, time_program

CLOSE = 1.002
"""Tiles that leave room for the neighbours' tensors may take so many times the estimate of the best."""
LITTLE = 1e-3
"""The share of the cycles that another plan must gain for the search to go on, and that units must need the same banks."""
LATE = 3e-3
"""The share of the cycles that the busiest unit must lose to work that an operation leaves for later, for another order to be tried."""


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the race checker looks at the whole program. resident: tensors stay on chip where they can. grouped: neighbours share a loop of rows or
    tiles where that is quicker. timed_groups: quicker by exact time, else by the estimate. streams: how many of the machine's may share the
    tiles of an operation, where no schedule is given. timed_streams: an operation is dealt to as many as are quickest by exact time, else to all.
    copies: of the region, side by side, each on images of its own and on `streams` of the machine's.
    stored: every tensor is stored to DRAM as well, so that it can be looked at. progress: is told which operation of how many is compiled now.
    """

    contexts: int = 2
    timed: int = 1
    check: bool = True
    resident: bool = True
    grouped: bool = True
    timed_groups: bool = True
    streams: int = 1
    timed_streams: bool = True
    copies: int = 1
    stored: bool = False
    progress: Callable[[int, int, str], None] | None = None


def compile_region(
    machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None, schedule: Schedule | None = None
) -> CompiledRegion:
    """schedule: the order, tiles and places to use; without one, the search finds them.

    Raises UserError E1003 or E1008 for an operation that no kernel can do, E1004 where something does not fit, E1007 where operations and
    tensors do not go together, E1401 to E1414 for a schedule that cannot be, E1005 for a template, E1307 for a step that leaves its
    buffers, and E06xx for a program that breaks the machine's rules."""
    options = options or Options()
    schedule = schedule or find_schedule(machine, kernels, region, options)
    plan = realise(machine, kernels, region, schedule, options.stored)
    steps = dealt_steps(plan) if plan.shares else ordered_steps(plan, find_rings(plan.problems))
    placed, found = write_program(machine, plan, steps)
    finished = _finished(machine, region, plan, schedule, placed, found, options)
    rooms = [rooms_of(part, tiling) for part, tiling in zip(steps.parts, plan.tilings, strict=True)]
    check_buffers(machine, rooms, found.origins, finished.checked.footprints)
    return finished


def find_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> Schedule:
    """The search's. A copy is timed alone, with its part of the ports that copies share: all are alike, so each gets as much as any other.

    Raises UserError E1003, E1004, E1007, E1008, and where programs are timed, all of `compile_region`."""
    options = options or Options()
    copies = Copies(options.copies, options.streams)
    if copies.times == 1:
        return _found_schedule(machine, kernels, region, options)
    if copies.times * copies.streams > machine.streams:
        text = f"{copies.times} copies of a region on {copies.streams} streams each cannot run: the machine runs {machine.streams}"
        raise fail("E1007", text)
    return replace(_found_schedule(part_of_ports(machine, *copies), kernels, region, options), copies=copies)


def _found_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Schedule:
    """The schedule of one copy."""
    planner = _planner(machine, kernels, region, options)
    every = (options.streams,) * len(region.operations)
    if options.streams == 1 or not options.timed_streams:
        return make_schedule(machine, turned(planner.planned_apart() if options.streams == 1 else planner.plan(every)))

    def timed(schedule: Schedule) -> Trial:
        compiled = compile_region(machine, kernels, region, replace(options, check=False), schedule)
        return Trial(schedule, compiled.cycles, spent(compiled))

    found = quickest_dealing(len(region.operations), options.streams, lambda counts: timed(make_schedule(machine, turned(planner.plan(counts)))))
    tried = [timed(_found_schedule(machine, kernels, region, replace(options, streams=1))), found]  # one stream has an order of its own, and groups
    if any(group.streams for group in found.schedule.groups):
        tried.insert(1, timed(replace(found.schedule, barriers=True)))
    return min(tried, key=lambda trial: trial.cycles).schedule


def plan_region(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> Plan:
    """Search for the tensors that stay on chip and the tiles of every operation, dealt to all streams. Where no tile fits beside these tensors,
    the largest one goes to DRAM. Slots do not go round yet. Raises UserError E1003, E1004, E1007, E1008."""
    return find_groups(machine, kernels, region, options or Options()).plan


def find_groups(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Grouping:
    """The plan of `plan_region` and its groups. Raises UserError E1003, E1004, E1007, E1008."""
    return _planner(machine, kernels, region, options).grouping((options.streams,) * len(region.operations))


def _planner(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> "_Planner":
    """A planner of the region with its operations in the order in which one stream runs them best; several streams keep the region's own."""
    given = _Planner(machine, kernels, region, options, tuple(range(len(region.operations))))
    order = tuple(branch_order(region, given.problems)) if options.streams == 1 else given.order
    if order == given.order:
        return given
    return _Planner(machine, kernels, replace(region, operations=tuple(region.operations[index] for index in order)), options, order)


@dataclass(frozen=True)
class _Timed:
    """A plan with slots that go round, and its program with its times."""

    plan: Plan
    emitted: Emitted
    timeline: Timeline

    @property
    def cycles(self) -> float:
        return self.timeline.cycles

    @property
    def rivals(self) -> Rivals:
        """The places that units need at the same time, or would need if their banks let them."""
        return joined(find_rivals(self.plan, self.emitted.origins, self.timeline), neighbour_rivals(self.plan))


@dataclass(frozen=True)
class _Planner:
    """Plans of a region, which differ in how many streams run each operation. order: of its operations, by their indices before they were ordered."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    region: Region
    options: Options
    order: tuple[int, ...]

    @cached_property
    def choice(self) -> TileChoice:
        return TileChoice(self.options.contexts, self.options.timed)

    @cached_property
    def problems(self) -> list[Problem]:
        return [_problem(self.machine, self.kernels, self.region, bound) for bound in self.region.operations]

    @cached_property
    def storage(self) -> Storage:
        return plan_storage(self.machine, self.region, [p.kernel for p in self.problems], [p.numbers for p in self.problems])

    def planned_apart(self) -> Plan:
        """The plan for one stream; where units wait for ports of banks, with buffers in other pools as long as the program gets quicker so."""
        counts = (1,) * len(self.region.operations)
        found = self.grouping(counts)
        if not has_ports(self.machine):
            return found.plan
        found, now = self._banks_apart(found, counts)
        if not self.options.grouped:
            return found.plan
        clock = StretchClock(self.machine, self.choice)
        other = depth_first(found, clock, late_work(now.timeline, now.emitted.origins), LATE * now.cycles)
        return other.plan if other is not found and self._timed(other.plan).cycles < now.cycles else found.plan

    def _banks_apart(self, found: Grouping, counts: Counts) -> tuple[Grouping, "_Timed"]:
        """With buffers in other pools as long as the program gets quicker so."""
        now = self._timed(found.plan)
        while (lost := _lost(found.plan, rivals := now.rivals)) >= LITTLE * now.cycles:
            other = self.grouping(counts, rivals)
            if _lost(other.plan, rivals) >= lost:
                break
            quicker = self._timed(other.plan)
            if quicker.cycles >= now.cycles:
                break
            gained, found, now = now.cycles - quicker.cycles, other, quicker
            if gained < LITTLE * now.cycles:
                break
        return found, now

    def _timed(self, plan: Plan) -> "_Timed":
        """The plan's program, timed."""
        whole = turned(plan)
        placed, emitted = write_program(self.machine, whole, ordered_steps(whole, find_rings(whole.problems)))
        return _Timed(whole, emitted, time_emitted(self.machine, placed, emitted))

    def plan(self, counts: Counts) -> Plan:
        """counts: by operation, how many streams run its tiles. Raises UserError E1003, E1004, E1007, E1008."""
        return self.grouping(counts).plan

    def grouping(self, counts: Counts, rivals: Rivals | None = None) -> Grouping:
        """counts: by operation, how many streams run its tiles. Raises UserError E1003, E1004, E1007, E1008."""
        if max(counts) > self.machine.streams:
            raise fail("E1007", f"{max(counts)} streams cannot share the work: the machine runs {self.machine.streams}")
        copies = Copies(self.options.copies, self.options.streams)
        candidates = shareable(self.machine, self.storage, copies) if self.options.resident else dict[str, SharedSlot]()
        streams = {name: max(counts[user] for user in users(self.region, self.storage, name)) for name in candidates}
        shared = place_shared(self.machine, self.storage, candidates, streams)
        while True:
            own = [sharing(self.region, self.storage, problem, index, shared) for index, problem in enumerate(self.problems)]
            found = self._planned(own, counts, rivals or {})
            wanted = {name: slot for name, slot in shared.items() if name in found.plan.dram.buffers}
            shared = place_shared(self.machine, found.plan.dram, wanted, streams)
            if len(shared) == len(wanted):
                return replace(found, shared=shared)

    def _planned(self, problems: Sequence[Problem], counts: Counts, rivals: Rivals) -> Grouping:
        """The plan where it is settled which tensors stand in shared memories. Raises UserError E1004."""
        region, storage, options, choice = self.region, self.storage, self.options, self.choice
        members = Members(region, storage, problems, choice)
        possible = find_candidates(region, problems, storage) if options.resident else dict[str, Candidate]()
        every = candidates = {name: c for name, c in possible.items() if all(counts[use.operation] == 1 for use in (*c.writes, *c.reads))}
        while True:
            residents = apart(place_residents(candidates, problems[0].pools, len(problems)), among_buffers(rivals))
            own = [kept_problem(region, storage, residents, problem, index) for index, problem in enumerate(problems)]
            found, crowded = _tilings(own, choice, residents, options, counts)
            own, tilings = [problem for problem, _ in found], [tiling for _, tiling in found]
            if crowded is None and max(counts) > 1:
                dealt = enumerate(zip(own, tilings, counts, strict=True))
                shares = {number: even_shares(tile_count(problem, tiling), count) for number, (problem, tiling, count) in dealt if count > 1}
                plan = Plan(region, self.order, own, tilings, residents, in_dram(storage, residents), shares=shares)
                return Grouping(plan, every, members)
            if crowded is None:
                planned = run_side_by_side(region, storage, follow_makers(region, found, choice), choice)
                planned = tiles_apart(planned, residents, rivals)
                own, tilings = [problem for problem, _ in planned], [tiling for _, tiling in planned]
                plan = Plan(region, self.order, own, tilings, residents, in_dram(storage, residents))
                if not options.grouped:
                    return Grouping(plan, every, members)
                search = GroupSearch(plan, RingPlaces(self.machine, every, residents), members)
                proposals = search.proposals(TileGroups(self.machine, self.kernels, plan, choice).proposals())
                timed = TimedGroups(search, StretchClock(self.machine, choice), partial(with_groups, plan, every, storage))
                return Grouping(plan, every, members, timed.best(proposals) if options.timed_groups else search.cut(proposals))
            candidates = without(candidates, [crowded])


def _lost(plan: Plan, rivals: Rivals) -> float:
    """Cycles in which units need the same banks at the same time."""
    return clashes([*zip(plan.problems, plan.tilings, strict=True)], plan.residents, rivals)


def _problem(machine: Machine, kernels: Mapping[str, Kernel], region: Region, bound: Bound) -> Problem:
    """The operation for its kernel."""
    if bound.kernel:
        return state_problem(machine, kernels[bound.kernel], bound.operation)
    return choose_kernel(machine, kernels, bound.operation, region.alone(bound))


def _tilings(
    problems: Sequence[Problem], choice: TileChoice, residents: Residents, options: Options, counts: Counts
) -> tuple[list[Planned], str | None]:
    """The tiling of every operation, or the largest tensor on chip during the first that has no room. Raises UserError E1004."""
    found: list[Planned] = []
    for index, problem in enumerate(problems):
        if options.progress:
            options.progress(index, len(problems), problem.operation.name)
        try:
            best = problem, choice.best(problem, counts[index])
            found.append(_apart(best, residents, index, choice) if counts[index] == 1 else best)
        except UserError as error:
            live = residents.live(index)
            if error.diagnostics[0].code != "E1004" or not live:
                raise
            return found, max(live, key=lambda c: (c.size, c.name)).name
    return found, None


def _apart(planned: Planned, residents: Residents, index: int, choice: TileChoice) -> Planned:
    """Tiles that leave alone the tensors on chip of the operations before and after, where such tiles are as quick. Then the next operation need not
    wait for this one's slots, nor this one for those of the one before."""
    problem, tiling = planned
    pools = residents.left(index, around=1)
    if not all(pool.depth for stretches in pools.values() for pool in stretches):
        return planned
    beside = replace(problem, pools=pools)
    try:
        found = choice.best(beside)
    except UserError as error:
        if error.diagnostics[0].code != "E1004":
            raise
        return planned
    loaded = [name for name in tiling.places if problem.loads(name) and name not in problem.known]
    fewer = any(len(found.places.get(name, ())) < len(tiling.places[name]) for name in loaded)
    return planned if fewer or found.estimate > CLOSE * tiling.estimate else (beside, found)


def _finished(
    machine: Machine, region: Region, plan: Plan, schedule: Schedule, placed: PlacedRegion, found: Emitted, options: Options
) -> CompiledRegion:
    """Checked and timed; origins name operations by their indices in the region as it was given."""
    state = placed.map.state(machine, placed.constants)
    checked = (check_program if options.check else prepare_program)(found.program, state)
    timeline = time_program(found.program, checked.footprints, checked.provenance, checked.tokens)
    origins = found.origins.renumbered(plan.order)
    return CompiledRegion(
        region, schedule, found.program, found.listing, origins, placed.map, placed.constants, checked, timeline, plan.peak
    )  # fmt: skip
