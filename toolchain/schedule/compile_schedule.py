"""A schedule is carried out: its program, checked and timed."""

from collections.abc import Mapping

from toolchain.analysis.checks import check_program, prepare_program
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.dram_allocation import PlacedRegion
from toolchain.schedule.emit import Emitted
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import realise
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Options
from toolchain.schedule.program import dealt_steps, ordered_steps, write_program
from toolchain.schedule.regions.region import Region
from toolchain.schedule.stray_accesses import check_buffers, rooms_of
from toolchain.schedule.tiling.ring import find_rings
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


def compile_schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, schedule: Schedule, options: Options) -> CompiledRegion:
    """The region's program in the order, tiles and places of the schedule.

    Raises UserError E1401 to E1414 for a schedule that cannot be, E1004, E1005, E1007, E1307 for a step that leaves its buffers, and E06xx for a
    program that breaks the machine's rules."""
    plan = realise(machine, kernels, region, schedule, options.stored)
    steps = dealt_steps(plan) if plan.shares else ordered_steps(plan, find_rings(plan.problems))
    placed, found = write_program(machine, plan, steps)
    finished = _finished(machine, region, plan, schedule, placed, found, options)
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
    return CompiledRegion(
        region, schedule, found.program, found.listing, origins, placed.map, placed.constants, checked, timeline, plan.peak
    )  # fmt: skip
