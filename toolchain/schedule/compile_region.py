"""A whole region becomes one program: a search or a user writes its schedule, and emission carries it out."""

from collections.abc import Mapping

from toolchain.schedule.compile_schedule import compile_schedule
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.find_schedule import find_schedule
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.model import Machine


def compile_region(
    machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options | None = None, schedule: Schedule | None = None
) -> CompiledRegion:
    """schedule: the order, tiles and places to use; without one, the search finds them.

    Raises UserError E1003 or E1008 for an operation that no kernel can do, E1004 where something does not fit, E1007 where operations and
    tensors do not go together, E1401 to E1414 for a schedule that cannot be, E1005 for a template, E1307 for a step that leaves its
    buffers, and E06xx for a program that breaks the machine's rules."""
    options = options or Options()
    return compile_schedule(machine, kernels, region, schedule or find_schedule(machine, kernels, region, options), options)
