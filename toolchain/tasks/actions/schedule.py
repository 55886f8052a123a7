"""Schedule each region: by search, or from the user's own file."""

from collections.abc import Callable, Mapping
from pathlib import Path

from toolchain.schedule.compile_region import Options, find_schedule
from toolchain.schedule.form.files import SUFFIX, check_regions, read_schedules
from toolchain.schedule.form.make import make_schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.form.write import write_schedule
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import machine_of, schedule_file
from toolchain.tasks.actions.regions import regions_of
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_schedules(step: Step, say: Say) -> Made:
    """Leaves a file for each region, written when all are made. Raises UserError E10xx, E14xx for a schedule of the user's."""
    machine, given = machine_of(step.job), _given(step)
    found = regions_of(step.job)
    check_regions(given, [region.name for region in found.regions])
    texts: dict[Path, str] = {}
    for number, region in enumerate(found.regions):
        options = Options(progress=_progress(number, len(found.regions), say), streams=step.job.variables.streams)
        texts[schedule_file(step.job, region.name)] = write_schedule(_schedule(machine, found.kernels, region, given, options))
    for path, text in texts.items():
        write_atomic(path, text.encode())
    return Made([*texts])


def _given(step: Step) -> dict[str, Schedule]:
    """The user's schedules. Raises UserError E1408 for files in the folder that the stage itself writes."""
    if not step.job.variables.schedule:
        return {}
    path = Path(step.job.variables.schedule)
    if path.resolve().is_relative_to(step.folder.resolve()):
        raise fail("E1408", "schedule= names the files that the build itself writes", hint=f"copy them elsewhere (SCHEDULE{SUFFIX})", place=str(path))
    return read_schedules(path)


def _schedule(machine: Machine, kernels: Mapping[str, Kernel], region: Region, given: Mapping[str, Schedule], options: Options) -> Schedule:
    """The user's with every slot in its place, or the search's."""
    if region.name not in given:
        return find_schedule(machine, kernels, region, options)
    return make_schedule(machine, realise(machine, kernels, region, given[region.name]))


def _progress(number: int, regions: int, say: Say) -> Callable[[int, int, str], None]:
    return lambda index, count, name: say(f"region {number + 1} of {regions}: operation {index + 1} of {count}, {name}")
