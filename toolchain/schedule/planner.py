"""Plans of a region in one order of its operations: tensors that stay on chip, tiles, groups, banks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from toolchain.schedule.bank_choice import Rivals, among_buffers, apart, clashes, find_rivals, joined, neighbour_rivals, tiles_apart
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.dealing import Counts
from toolchain.schedule.emit import Emitted
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import kept_problem
from toolchain.schedule.form.shares import even_shares, tile_count
from toolchain.schedule.groups.depth_first import depth_first, late_work
from toolchain.schedule.groups.members import Members, TileGroups
from toolchain.schedule.groups.rings import RingPlaces
from toolchain.schedule.groups.search import Grouping, GroupSearch, over_tiles, sure, with_groups
from toolchain.schedule.groups.timed import StretchClock, TimedGroups
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.placement.dram_buffers import Storage, plan_storage
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, find_candidates, in_dram, place_residents, without
from toolchain.schedule.placement.shared_memory import SharedSlot, place_shared, room_left, shareable, sharing, users
from toolchain.schedule.program import ordered_steps, time_emitted, turned, write_program
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.rows.row_loop import row_dimension
from toolchain.schedule.side_by_side import follow_makers, run_side_by_side
from toolchain.schedule.tiling.near_weights import accepted, best_offer, room_start, waiting
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.tiling.tiles import Planned
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline

CLOSE = 1.002
"""Tiles that leave room for the neighbours' tensors may take so many times the estimate of the best."""
LITTLE = 1e-3
"""The share of the cycles that another plan must gain for the search to go on, and that units must need the same banks."""
LATE = 3e-3
"""The share of the cycles that the busiest unit must lose to work that an operation leaves for later, for another order to be tried."""


@dataclass(frozen=True)
class Timed:
    """A plan, and its program, in which slots go round, with its times."""

    plan: Plan
    emitted: Emitted
    timeline: Timeline

    @property
    def cycles(self) -> float:
        return self.timeline.cycles

    @property
    def rivals(self) -> Rivals:
        """The places that units need at the same time, or would need if their banks let them."""
        whole = turned(self.plan)
        return joined(find_rivals(whole, self.emitted.origins, self.timeline), neighbour_rivals(whole))


@dataclass(frozen=True)
class Planner:
    """Plans of a region, which differ in how many streams run each operation.

    order: of its operations, by their indices before they were ordered. clock: the times of stretches, which plans of other orders may share.
    asked: stretches in this order that may be groups over tiles with any kernel that takes tiles. tiles: by index before they were ordered,
    which other tiling an operation has. backward: the operations, by the same index, whose rows run from the last tile to the first unless they are
    in a group."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    region: Region
    options: Options
    order: tuple[int, ...]
    clock: StretchClock
    asked: tuple[range, ...] = ()
    tiles: Mapping[int, int] = field(default_factory=dict[int, int])
    backward: frozenset[int] = frozenset()

    @property
    def choice(self) -> TileChoice:
        return self.clock.choice

    @cached_property
    def problems(self) -> list[Problem]:
        found = [bound_problem(self.machine, self.kernels, self.region, bound) for bound in self.region.operations]
        numbers = [self.tiles.get(index, 0) for index in self.order]
        return [replace(problem, retiled=number) if number else problem for number, problem in zip(numbers, found, strict=True)]

    @cached_property
    def storage(self) -> Storage:
        return plan_storage(self.machine, self.region, [p.kernel for p in self.problems], [p.numbers for p in self.problems])

    def first(self, rivals: Rivals | None = None) -> Grouping:
        """The plan for one stream by estimates, groups by their own time. rivals: that keep out of each other's banks.

        Raises UserError E1003, E1004, E1007, E1008."""
        return self.grouping((1,) * len(self.region.operations), rivals)

    def banks_apart(self, found: Grouping, now: "Timed") -> tuple[Grouping, "Timed"]:
        """Where units wait for ports of banks, with buffers in other pools as long as the program gets quicker so. now: the times of `found`."""
        while (lost := _lost(found.plan, rivals := now.rivals)) >= LITTLE * now.cycles:
            other = self.first(rivals)
            if _lost(other.plan, rivals) >= lost:
                break
            quicker = self.timed(other.plan)
            if quicker.cycles >= now.cycles:
                break
            gained, found, now = now.cycles - quicker.cycles, other, quicker
            if gained < LITTLE * now.cycles:
                break
        return found, now

    def rows_in_turn(self, found: Grouping, now: "Timed") -> "Timed":
        """With neighbours that take turns over the rows, where that is quicker. now: the times of `found`."""
        if not self.options.grouped:
            return now
        other = depth_first(found, self.clock, late_work(now.timeline, now.emitted.origins), LATE * now.cycles)
        return now if other is found else min(now, self.timed(other.plan), key=lambda timed: timed.cycles)

    def timed(self, plan: Plan) -> "Timed":
        """The plan's program, timed."""
        whole = turned(plan)
        placed, emitted = write_program(self.machine, whole, ordered_steps(whole, find_rings(whole.problems)))
        return Timed(plan, emitted, time_emitted(self.machine, placed, emitted))

    def plan(self, counts: Counts) -> Plan:
        """counts: by operation, how many streams run its tiles. Raises UserError E1003, E1004, E1007, E1008."""
        return self.grouping(counts).plan

    def grouping(self, counts: Counts, rivals: Rivals | None = None) -> Grouping:
        """counts: by operation, how many streams run its tiles. Raises UserError E1003, E1004, E1007, E1008."""
        if max(counts) > self.machine.streams:
            raise fail("E1007", f"{max(counts)} streams cannot share the work: the machine runs {self.machine.streams}")
        copies = self.options.ways
        candidates = shareable(self.machine, self.storage, copies) if self.options.resident else dict[str, SharedSlot]()
        streams = {name: max(counts[user] for user in users(self.region, self.storage, name)) for name in candidates}

        def placed(storage: Storage, names: Collection[str]) -> dict[str, SharedSlot]:
            return place_shared(self.machine, storage, {name: candidates[name] for name in candidates if name in names}, streams, copies)

        best = self._settled(placed(self.storage, candidates), placed, counts, rivals or {})
        while (more := placed(best.plan.dram, best.plan.dram.buffers)).keys() - best.shared.keys():
            other = self._settled(more, placed, counts, rivals or {})
            if other.cycles >= best.cycles:
                break
            best = other
        return self._with_weights(best, counts) if copies.times * max(counts) > 1 else best

    def _with_weights(self, found: Grouping, counts: Counts) -> Grouping:
        """With weights of operations alone that wait in the room which tensors leave of a memory that streams share, where that is quicker."""
        memories = {waits.memory for problem in self.problems for _, waits in waiting(problem)}
        if len(memories) != 1:
            return found
        memory, plan = memories.pop(), found.base
        weights = room_left(self.machine, memory, found.shared, self.options.ways)
        grouped = {index for proposal in found.chosen for index in proposal.group.operations}
        alone = sorted({*range(len(plan.problems))} - grouped)
        offers = {n: best_offer(self.choice.best, (plan.problems[n], plan.tilings[n]), counts[n], weights) for n in alone}
        chosen = accepted({n: offer for n, offer in offers.items() if offer}, room_start(self.machine, memory, weights), weights)
        if not chosen:
            return found
        pairs = [chosen.get(n, pair) for n, pair in enumerate(zip(plan.problems, plan.tilings, strict=True))]
        problems, tilings = [problem for problem, _ in pairs], [tiling for _, tiling in pairs]
        shares = {**plan.shares, **{n: even_shares(tile_count(*pairs[n]), counts[n]) for n in chosen if counts[n] > 1}}
        base = replace(plan, problems=problems, tilings=tilings, shares=shares, copies=plan.copies._replace(weights=weights))
        return replace(found, base=base)

    def _settled(
        self, shared: dict[str, SharedSlot], placed: Callable[[Storage, Collection[str]], dict[str, SharedSlot]], counts: Counts, rivals: Rivals
    ) -> Grouping:
        """The plan with these buffers in shared memories, but for those that end up nearer or are handed over tile by tile. placed: the places of
        some buffers by name, as far as there is room. Raises UserError E1004."""
        while True:
            own = [sharing(self.region, self.storage, problem, index, shared) for index, problem in enumerate(self.problems)]
            found = self._planned(own, counts, rivals)
            wanted = {name for name in shared if name in found.plan.dram.buffers}
            shared = placed(found.plan.dram, wanted)
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
                search = GroupSearch(plan, RingPlaces(self.machine, every, residents), members)
                fused = TileGroups(self.machine, self.kernels, plan, choice, counts, self.asked).proposals() if options.grouped else ()
                return Grouping(plan, every, members, search.cut(over_tiles(plan, fused)))
            if crowded is None:
                planned = run_side_by_side(region, storage, follow_makers(region, found, choice), choice)
                planned = self._directed(tiles_apart(planned, residents, rivals))
                own, tilings = [problem for problem, _ in planned], [tiling for _, tiling in planned]
                plan = Plan(region, self.order, own, tilings, residents, in_dram(storage, residents))
                if not options.grouped:
                    return Grouping(plan, every, members)
                search = GroupSearch(plan, RingPlaces(self.machine, every, residents), members)
                proposals = search.proposals(TileGroups(self.machine, self.kernels, plan, choice, counts, self.asked).proposals())
                timed = TimedGroups(search, self.clock, partial(with_groups, plan, every, storage))
                return Grouping(plan, every, members, timed.best(proposals) if options.timed_groups else search.cut(sure(proposals)))
            candidates = without(candidates, [crowded])

    def _directed(self, planned: Sequence[Planned]) -> Sequence[Planned]:
        """The operations, those that run backward with their last tiles of rows first, where they have several."""
        found = list(planned)
        for place, (problem, tiling) in enumerate(planned):
            rows = row_dimension(problem) if self.order[place] in self.backward else None
            if rows is not None and tiling.sizes[rows] < problem.extents[rows]:
                found[place] = problem, replace(tiling, backward=(rows,))
        return found


def _lost(plan: Plan, rivals: Rivals) -> float:
    """Cycles in which units need the same banks at the same time."""
    return clashes([*zip(plan.problems, plan.tilings, strict=True)], plan.residents, rivals)


def bound_problem(machine: Machine, kernels: Mapping[str, Kernel], region: Region, bound: Bound) -> Problem:
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
