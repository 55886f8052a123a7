"""A whole region becomes one program: a search or a user writes its schedule, and emission carries it out, checked and timed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from toolchain.analysis.checks import check_program, prepare_program
from toolchain.schedule.copies import Copies
from toolchain.schedule.dealing import Counts, Trial, quickest_dealing, spent
from toolchain.schedule.dram_allocation import PlacedRegion
from toolchain.schedule.emit import Emitted
from toolchain.schedule.fetching import WORTH, cheapest_fetches, possible_fetches
from toolchain.schedule.form.plan import Plan, Schedule, make_schedule
from toolchain.schedule.form.realise import realise, scheduled_region
from toolchain.schedule.form.shares import can_multicast, teams
from toolchain.schedule.groups.search import Grouping
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Options
from toolchain.schedule.placement.shared_memory import Fetch, fetches_of, with_fetches
from toolchain.schedule.planner import Planner
from toolchain.schedule.program import CompiledRegion, dealt_steps, ordered_steps, turned, write_program
from toolchain.schedule.regions.region import Region, stacked
from toolchain.schedule.search.contest import Policy, hold, try_drafts
from toolchain.schedule.search.contest import Trial as Tried
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.policies import TOGETHER, draft_by_estimate, plainly, policy_named
from toolchain.schedule.stray_accesses import check_buffers, rooms_of
from toolchain.schedule.tiling.slots import find_rings
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.timing.class_cost import part_of_ports
from toolchain.timing.simulate import time_program

SURE = 0.95
"""The part of the estimate of operations apart below which one with sub-graphs must be where no program is timed: a group's estimate leaves out how
its members wait for each other (measured: estimates lower by 12 % stand for programs that are quicker by 5 to 6 %, one lower by 0.3 % for a slower
program)."""


def compile_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, schedule: Schedule, options: Options) -> CompiledRegion:
    """The region's program in the order, tiles and places of the schedule.

    Raises UserError E1401 to E1414 for a schedule that cannot be, E1004, E1005, E1007, E1307 for a step that leaves its buffers, and E06xx for a
    program that breaks the machine's rules."""
    plan = realise(machine, kernels, region, schedule, options.stored)
    steps = dealt_steps(plan) if plan.shares else ordered_steps(plan, find_rings(plan.problems))
    placed, found = write_program(machine, plan, steps)
    finished = _finished(machine, region, plan, schedule, placed, found, options)
    if options.check:
        rooms = [rooms_of(part, tiling) for part, tiling in zip(steps.parts, plan.tilings, strict=True)]
        check_buffers(machine, rooms, found.origins, finished.checked.footprints)
    return finished


def _finished(
    machine: Machine, region: Region, plan: Plan, schedule: Schedule, placed: PlacedRegion, found: Emitted, options: Options
) -> CompiledRegion:
    """Checked and timed; origins name operations by their indices in the region as it was given."""
    state = placed.map.state(machine, placed.constants)
    checked = (check_program if options.check else prepare_program)(found.program, state)
    timeline = time_program(found.program, checked.footprints, checked.provenance, checked.tokens)
    origins = found.origins.renumbered(plan.order)
    own = scheduled_region(region, schedule)
    return CompiledRegion(
        own, schedule, found.program, found.listing, origins, placed.map, placed.constants, checked, timeline, plan.peak
    )  # fmt: skip


def find_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> Schedule:
    """The search's. A copy is timed alone, with its part of the ports that copies share: all are alike, so each gets as much as any other.

    Raises UserError E1003, E1004, E1007, E1008, and where programs are timed, all of `compile_schedule`."""
    return search_schedule(machine, kernels, region, options)[0]


def search_schedule(
    machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None
) -> tuple[Schedule, tuple[Tried, ...]]:
    """The schedule of `find_schedule`, and the drafts that were timed for it. Inputs are fetched where the estimate is lower so, and where programs
    are timed, if their program is quicker too."""
    options = options or Options()
    region = stacked(region, options.images)
    able = _possible(machine, kernels, region, options)
    fetching = with_fetches(region, fetches_of(estimated_plan(machine, kernels, region, options).region)) if able else region
    if fetching is region:
        return _searched(machine, kernels, region, options)
    found = _searched(machine, kernels, fetching, options)
    if not options.effort:
        return found

    def cycles(searched: tuple[Schedule, tuple[Tried, ...]]) -> float:
        return compile_schedule(machine, kernels, region, searched[0], replace(options, check=False)).cycles

    return min(_searched(machine, kernels, region, options), found, key=cycles)


def _possible(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> tuple[Fetch, ...]:
    """The inputs that could be fetched; none where tensors do not stay on chip."""
    return possible_fetches(machine, kernels, region) if options.resident else ()


def _searched(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> tuple[Schedule, tuple[Tried, ...]]:
    """The schedule of a region with its fetches, as they are."""
    copies = options.ways
    if copies.times == 1:
        schedule, tried = _found_schedule(machine, kernels, region, options)
        return _copied(schedule, Copies(images=copies.images)), tried
    if copies.times * copies.streams > machine.streams:
        text = f"{copies.times} copies of a region on {copies.streams} streams each cannot run: the machine runs {machine.streams}"
        raise fail("E1007", text)
    if not options.effort and can_multicast(machine, kernels):
        return _copied(replace(make_schedule(machine, turned(_estimated(machine, kernels, region, options))), multicast=True), copies), ()
    together = TOGETHER.get(options.search) if can_multicast(machine, kernels) else None
    alone = replace(options, effort=1) if together else options
    schedule, tried = _found_schedule(part_of_ports(machine, copies.times, copies.streams), kernels, region, alone)
    if not can_multicast(machine, kernels):
        return _copied(schedule, copies), tried
    own, tried = _tried_together(machine, kernels, region, options, together) if together else ([], tried)
    return _copied(_quickest_team(machine, kernels, region, options, [schedule, *own]), copies), tried


def _copied(schedule: Schedule, copies: Copies) -> Schedule:
    """The schedule of one copy as that of several."""
    return replace(schedule, copies=copies._replace(weights=schedule.copies.weights))


def _tried_together(
    machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options, policy: Policy
) -> tuple[list[Schedule], tuple[Tried, ...]]:
    """The schedule of the quickest draft, if a policy has any, and its trials: neighbouring copies are timed together, and load at once."""
    space = Space(_estimating(machine, kernels, options.ways), kernels, region, replace(options, timed_groups=False))
    schedules, (own, team) = dict[Draft, Schedule](), _one_team(machine, options.ways)

    def trial(draft: Draft) -> Tried:
        try:
            plan = space.planner(draft).plan((options.streams,) * len(region.operations))
            schedules[draft] = replace(make_schedule(machine, turned(plan)), multicast=True)
            cycles = compile_schedule(own, kernels, region, _copied(schedules[draft], team), replace(options, check=False)).cycles
        except UserError as error:
            return Tried(draft, inf, refused=error.diagnostics[0].headline())
        return Tried(draft, cycles)

    tried = try_drafts(policy(space), options.effort, trial)
    best = min(tried, key=lambda one: one.cycles, default=None)
    return [schedules[best.draft]] if best and not best.refused else [], tried


def _quickest_team(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options, found: Sequence[Schedule]) -> Schedule:
    """The schedule of copies, with loads for all of them at once where that is quicker; also one whose tiles count on that.

    Neighbours are timed, with their part of the ports. Groups that streams share are held against the best without them once more, on the whole
    machine, where copies meet at the ports. found: of one copy, and those that copies together have."""
    copies = options.ways
    own, team = _one_team(machine, copies)
    ways = dict.fromkeys((options, plainly(options)))
    others = [make_schedule(machine, turned(_estimated(machine, kernels, region, each))) for each in ways]
    if any(map(_shares_groups, others)):
        others.append(make_schedule(machine, turned(_estimated(machine, kernels, region, replace(plainly(options), grouped=False)))))
    apart = [each for each in found if each.multicast or not _waits(each)]
    tried = [*apart, *(replace(each, multicast=True) for each in (*found, *others) if not each.multicast)]

    unchecked = replace(options, check=False, progress=None)

    def quickest_first(schedules: Sequence[Schedule], of: Machine, times: Copies) -> list[Schedule]:
        facts = of, kernels, region, [_copied(each, times) for each in schedules], unchecked
        numbers = range(len(schedules))
        with options.workers.ahead(_cycles_of, facts, numbers) as cycles:
            found_cycles = [cycles(number) for number in numbers]
        return [schedules[number] for number in sorted(numbers, key=found_cycles.__getitem__)]

    best, *others = quickest_first(tried, own, team)
    plain = next((each for each in others if not _shares_groups(each)), None)
    return quickest_first([best, plain], machine, copies)[0] if plain and _shares_groups(best) else best


def _cycles_of(facts: tuple[Machine, Mapping[str, Kernel], Region, Sequence[Schedule], Options], number: int) -> float:
    """Cycles of the program of one of several schedules of a region."""
    machine, kernels, region, schedules, options = facts
    return compile_schedule(machine, kernels, region, schedules[number], options).cycles


def _one_team(machine: Machine, copies: Copies) -> tuple[Machine, Copies]:
    """Copies that are neighbours, and the machine as they find it: with their part of the ports."""
    groups = teams(machine, copies)
    team = copies._replace(times=len(groups[0]))
    return part_of_ports(machine, len(groups), team.times * team.streams), team


def _waits(schedule: Schedule) -> bool:
    """Whether weights wait in a memory of several copies, which then take them at once."""
    return any(operation.near for group in schedule.groups for operation in group.operations)


def _shares_groups(schedule: Schedule) -> bool:
    """Whether streams share a group of several operations, whose estimate is less sure than that of operations apart."""
    return any(group.streams and len(group.operations) > 1 for group in schedule.groups)


def _found_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> tuple[Schedule, tuple[Tried, ...]]:
    """The schedule of one copy."""
    if options.streams == 1:
        return _one_stream(machine, kernels, region, options)
    everywhere = (options.streams,) * len(region.operations)
    planner = _planner(machine, kernels, region, options)
    shared = make_schedule(machine, turned(planner.plan(everywhere)))
    if not options.timed_streams:
        return shared, ()
    plain = make_schedule(machine, turned(_planner(machine, kernels, region, plainly(options)).plan(everywhere))) if planner.asked else shared

    def timed(schedule: Schedule) -> Trial:
        compiled = compile_schedule(machine, kernels, region, schedule, replace(options, check=False))
        return Trial(schedule, compiled.cycles, spent(compiled))

    apart = replace(planner, options=replace(planner.options, grouped=False))
    found = quickest_dealing(len(region.operations), options.streams, lambda counts: timed(make_schedule(machine, turned(apart.plan(counts)))))
    one, drafts = _one_stream(machine, kernels, region, replace(options, streams=1))  # one stream has an order of its own, and groups
    tried = [timed(one), found, *(timed(each) for each in ([shared] if plain == shared else [shared, plain]) if _shares_groups(each))]
    if any(group.streams for group in found.schedule.groups):
        tried.insert(1, timed(replace(found.schedule, barriers=True)))
        if can_multicast(machine, kernels):
            tried.append(timed(replace(min(tried, key=lambda trial: trial.cycles).schedule, multicast=True)))
    return min(tried, key=lambda trial: trial.cycles).schedule, drafts


def _one_stream(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> tuple[Schedule, tuple[Tried, ...]]:
    if not options.effort:
        return make_schedule(machine, turned(_plan(machine, kernels, region, options, (1,) * len(region.operations)))), ()
    found = hold(Space(machine, kernels, region, options), policy_named(options.search), options.effort)
    return make_schedule(machine, turned(found.plan)), found.trials


def estimated_plan(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Plan:
    """Plan one of the options' copies by estimates alone, with all operations on all of its streams; it counts on loads for several copies at once
    where the machine has them. Its region fetches the inputs for which that is worth it; with an effort, as a proposal that is timed.

    Raises UserError E1003, E1004, E1007, E1008."""
    region = stacked(region, options.images)
    possible = _possible(machine, kernels, region, options)
    return cheapest_fetches(region, possible, lambda own: _estimated(machine, kernels, own, options), 1.0 if options.effort else WORTH)


def _estimated(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Plan:
    """The plan of `estimated_plan` of a region with its fetches, as they are."""
    copies = options.ways
    return _plan(_estimating(machine, kernels, copies), kernels, region, options, (copies.streams,) * len(region.operations))


def _estimating(machine: Machine, kernels: Mapping[str, Kernel], copies: Copies) -> Machine:
    """The machine as a copy finds it: with its part of the ports, and loads for several copies at once where there are any."""
    together = len(teams(machine, copies)[0]) if can_multicast(machine, kernels) else None
    return machine if copies.times == 1 else part_of_ports(machine, copies.times, copies.streams, together)


def _plan(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options, counts: Counts) -> Plan:
    """By estimates alone: that of the policy, or where no program is timed, and it is hardly better, that of the space's first draft."""
    planner = _planner(machine, kernels, region, replace(options, timed_groups=False))
    found = planner.grouping(counts)
    if options.effort or not planner.asked:
        return found.plan
    plain = _planner(machine, kernels, region, replace(plainly(options), timed_groups=False)).grouping(counts)
    return found.plan if found.cycles < SURE * plain.cycles else plain.plan


def plan_region(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> Plan:
    """Search for the tensors that stay on chip and the tiles of every operation, dealt to all streams. Where no tile fits beside these tensors,
    the largest one goes to DRAM. Slots do not go round yet. Raises UserError E1003, E1004, E1007, E1008."""
    return find_groups(machine, kernels, region, options or Options()).plan


def find_groups(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Grouping:
    """The plan of `plan_region` and its groups. Raises UserError E1003, E1004, E1007, E1008."""
    return _planner(machine, kernels, region, options).grouping((options.streams,) * len(region.operations))


def team_cycles(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> float:
    """Cycles of a run of all copies, by the program of those that are neighbours: the others do the same beside them, and wait for none of them.

    Raises as `compile_region`."""
    schedule = find_schedule(machine, kernels, region, options)
    own, team = _one_team(machine, schedule.copies)
    return compile_schedule(own, kernels, region, replace(schedule, copies=team), replace(options, check=False)).cycles


def _planner(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options) -> Planner:
    """A planner of the draft that the policy takes by estimates."""
    space = Space(machine, kernels, region, options)
    return space.planner(draft_by_estimate(space))


def compile_region(
    machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None, schedule: Schedule | None = None
) -> CompiledRegion:
    """schedule: the order, tiles and places to use; without one, the search finds them.

    Raises UserError E1003 or E1008 for an operation that no kernel can do, E1004 where something does not fit, E1007 where operations and
    tensors do not go together, E1401 to E1414 for a schedule that cannot be, E1005 for a template, E1307 for a step that leaves its
    buffers, and E06xx for a program that breaks the machine's rules."""
    options = options or Options()
    return compile_schedule(machine, kernels, region, schedule or find_schedule(machine, kernels, region, options), options)
