"""A whole region becomes one program: every operation tiled by its kernel, one after the other, with one derived synchronisation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolchain.emulator.checks import check_program, prepare_program
from toolchain.schedule.choice import choose_kernel
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.dram import Placed, place_region
from toolchain.schedule.emit import Emitted, emit, part_of, plan_constants, pool_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, keep_on_chip
from toolchain.schedule.placement.residency import Candidate, Residents, find_candidates, place_residents, without
from toolchain.schedule.placement.storage import Storage, plan_storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tile_choice import TileChoice
from toolchain.schedule.tiling.order import order_steps
from toolchain.schedule.tiling.ring import find_rings
from toolchain.schedule.tiling.rotation import Rotation
from toolchain.schedule.tiling.side_by_side import run_side_by_side
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the race checker looks at the whole program. resident: tensors stay on chip where they can. stored: every tensor is stored to DRAM
    as well, so that it can be looked at. progress: is told which operation of how many is compiled now.
    """

    contexts: int = 2
    timed: int = 1
    check: bool = True
    resident: bool = True
    stored: bool = False
    progress: Callable[[int, int, str], None] | None = None


@dataclass(frozen=True)
class Plan:
    """What a region's program will do, before its instructions are written. problems: with what is kept on chip. dram: the buffers that are needed
    in DRAM."""

    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    residents: Residents
    dram: Storage


def compile_region(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> CompiledRegion:
    """Raises UserError E1003 or E1008 for an operation that no kernel can do, E1004 where something does not fit, E1007 where operations and
    tensors do not go together, E1005 for a template, and E06xx for a program that breaks the machine's rules."""
    options = options or Options()
    problems = _problems(machine, kernels, region)
    plan = _plan(machine, region, problems, options)
    rotation, rings = Rotation(), find_rings(plan.problems)
    parts = [part_of(p, order_steps(p, rotation.turn(p, tiling), rings)) for p, tiling in zip(plan.problems, plan.tilings, strict=True)]
    residency = plan_constants(machine, parts)
    kernel = pool_kernel(parts)
    view = kernel.loading.view if kernel and kernel.loading else ""
    placed = place_region(machine, region, problems, plan.dram, (view, residency.pool))
    state = placed.map.state(machine, placed.constants)
    found = emit(machine, region.name, parts, residency, placed.scopes, state)
    return _finished(machine, region, _peak(rotation, plan.residents), placed, found, options)


def plan_region(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> Plan:
    """Everything of `compile_region` that is chosen, without the program. Raises UserError E1003, E1004, E1007, E1008."""
    return _plan(machine, region, _problems(machine, kernels, region), Options())


def _problems(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> list[Problem]:
    return [choose_kernel(machine, kernels, bound.operation, region.alone(bound)) for bound in region.operations]


def _plan(machine: Machine, region: Region, problems: Sequence[Problem], options: Options) -> Plan:
    """What stays on chip, and the tiles of every operation. Where no tile fits beside what stays, the largest tensor goes to DRAM."""
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    choice = TileChoice(options.contexts, options.timed)
    candidates = find_candidates(region, problems, storage) if options.resident else dict[str, Candidate]()
    while True:
        residents = place_residents(candidates, problems[0].pools, len(problems))
        own = [_kept(region, storage, residents, problem, index, options.stored) for index, problem in enumerate(problems)]
        tilings, crowded = _tilings(own, choice, residents, options)
        if crowded is None:
            dram = {name: buffer for name, buffer in storage.buffers.items() if options.stored or residents.stored(name)}
            planned = run_side_by_side(region, storage, list(zip(own, tilings, strict=True)), choice)
            return Plan([problem for problem, _ in planned], [tiling for _, tiling in planned], residents, replace(storage, buffers=dram))
        candidates = without(candidates, [crowded])


def _kept(region: Region, storage: Storage, residents: Residents, problem: Problem, index: int, stored: bool) -> Problem:
    """An operation with those of its tensors on chip that stay there."""
    root = storage.places[region.operations[index].tensors["y"]][0]
    return keep_on_chip(problem, residents.kept(index), stored or residents.stored(root), residents.pools[index])


def _tilings(problems: Sequence[Problem], choice: TileChoice, residents: Residents, options: Options) -> tuple[list[Tiling], str | None]:
    """The tiling of every operation, or the largest tensor on chip during the first that has no room. Raises UserError E1004."""
    found: list[Tiling] = []
    for index, problem in enumerate(problems):
        if options.progress:
            options.progress(index, len(problems), problem.operation.name)
        try:
            found.append(choice.best(problem))
        except UserError as error:
            live = residents.live(index)
            if error.diagnostics[0].code != "E1004" or not live:
                raise
            return found, max(live, key=lambda c: (c.size, c.name)).name
    return found, None


def _peak(rotation: Rotation, residents: Residents) -> dict[str, int]:
    """Elements of each bank of each memory that slots and tensors reach, at most."""
    found = {name: reached for name, reached in rotation.peak.items() if reached}
    for name, candidate in residents.candidates.items():
        found[candidate.memory] = max(found.get(candidate.memory, 0), residents.slots[name].address + candidate.size)
    return found


def _finished(machine: Machine, region: Region, peak: Mapping[str, int], placed: Placed, found: Emitted, options: Options) -> CompiledRegion:
    state = placed.map.state(machine, placed.constants)
    checked = (check_program if options.check else prepare_program)(found.program, state)
    timeline = time_program(found.program, checked.footprints, checked.provenance, checked.tokens)
    return CompiledRegion(region, found.program, found.text, found.listing, found.owner, placed.map, placed.constants, checked, timeline, peak)
