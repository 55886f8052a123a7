"""Schedules that a user gives: a file for one region, or a folder with one file for each."""

from pathlib import Path

from toolchain.schedule.form.read import read_schedule
from toolchain.schedule.form.schedule import Schedule
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.files import read_limited
from toolchain.spec.yaml_nodes import MAX_BYTES

SUFFIX = ".yaml"


def schedule_files(path: Path) -> list[Path]:
    """The file itself, or the YAML files of a folder by name. Raises UserError E0001 where there is none."""
    found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        what = f"there is no {SUFFIX} file in this folder" if path.is_dir() else "there is no such file"
        raise fail("E0001", what, hint="schedule= takes the file of a region's schedule, or a folder of such files", place=str(path))
    return found


def read_schedules(path: Path) -> dict[str, Schedule]:
    """By region. Raises UserError E0001, E1409 for two schedules of one region, and all of `read_schedule`."""
    found: dict[str, Schedule] = {}
    for file in schedule_files(path):
        schedule = read_schedule_file(file)
        if schedule.region in found:
            raise schedule.error("E1409", f"another file of this folder is the schedule of '{schedule.region[:80]}' too", ("schedule", "region"))
        found[schedule.region] = schedule
    return found


def read_schedule_file(path: Path) -> Schedule:
    """Raises UserError E0001 for a file that cannot be read, and all of `read_schedule`."""
    try:
        text = read_limited(path, MAX_BYTES, "the schedule").decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the schedule is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
    return read_schedule(Source(str(path), text))


def check_regions(found: dict[str, Schedule], regions: list[str]) -> None:
    """Raises UserError E1409 for schedules of regions that the model does not have."""
    faults = [
        schedule.fault("E1409", f"the model has no region '{name[:80]}'", ("schedule", "region"), f"known: {', '.join(regions)}" if regions else "")
        for name, schedule in found.items()
        if name not in regions
    ]
    if faults:
        raise UserError(*faults)
