"""A whole region becomes one program: every operation tiled by its kernel, one after the other, with one derived synchronisation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolchain.emulator.checks import check_program, prepare_program
from toolchain.schedule.choice import choose_kernel
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.dram import Placed, place_region
from toolchain.schedule.emit import Emitted, Part, emit, part_of, plan_constants, pool_kernel
from toolchain.schedule.kernel import Kernel
from toolchain.schedule.order import order_steps
from toolchain.schedule.problem import Problem
from toolchain.schedule.region import Region
from toolchain.schedule.rotation import Rotation
from toolchain.schedule.storage import plan_storage
from toolchain.schedule.tile_choice import TileChoice
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the race checker looks at the whole program. progress: is told which operation of how many is compiled now.
    """

    contexts: int = 2
    timed: int = 1
    check: bool = True
    progress: Callable[[int, int, str], None] | None = None


def compile_region(machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None) -> CompiledRegion:
    """Raises UserError E1003 or E1008 for an operation that no kernel can do, E1004 where something does not fit, E1007 where operations and
    tensors do not go together, E1005 for a template, and E06xx for a program that breaks the machine's rules."""
    options = options or Options()
    problems = [
        choose_kernel(machine, kernels, bound.operation, [name for name, tensor in bound.tensors.items() if tensor in region.inputs])
        for bound in region.operations
    ]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    parts, peak = _tiled(problems, options)
    residency = plan_constants(machine, parts)
    kernel = pool_kernel(parts)
    view = kernel.loading.view if kernel and kernel.loading else ""
    placed = place_region(machine, region, problems, storage, (view, residency.pool))
    state = placed.map.state(machine, placed.constants)
    found = emit(machine, region.name, parts, residency, placed.scopes, state)
    return _finished(machine, region, peak, placed, found, options)


def _tiled(problems: Sequence[Problem], options: Options) -> tuple[list[Part], Mapping[str, int]]:
    """The steps of every operation; their slots go round, so that one operation's loads need not wait for the last one's computing."""
    choice, rotation, parts = TileChoice(options.contexts, options.timed), Rotation(), list[Part]()
    for index, problem in enumerate(problems):
        if options.progress:
            options.progress(index, len(problems), problem.operation.name)
        parts.append(part_of(problem, order_steps(problem, rotation.turn(problem, choice.best(problem)))))
    return parts, rotation.peak


def _finished(machine: Machine, region: Region, peak: Mapping[str, int], placed: Placed, found: Emitted, options: Options) -> CompiledRegion:
    state = placed.map.state(machine, placed.constants)
    checked = (check_program if options.check else prepare_program)(found.program, state)
    timeline = time_program(found.program, checked.footprints, checked.provenance, checked.tokens)
    return CompiledRegion(region, found.program, found.text, found.listing, found.owner, placed.map, placed.constants, checked, timeline, peak)
