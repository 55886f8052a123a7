"""Schedules of small regions, and edits of them as a user makes them: on the text."""

from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from tests.operations import made
from tests.schedule.test_compile_region import block, two_convolutions
from toolchain.schedule.compile_region import Options, compile_region, find_schedule
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.form.read import read_schedule
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.form.write import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import Source

Edit = Callable[[dict[str, Any]], object]
MACHINES = {"vta": made.load_machine("vta"), "dpuv3": made.load_machine("dpuv3", overrides={"BANK_PORTS": "0", "MISC_ROWS": "4"})}
"""Banks with ports for all: a schedule without the search's choice of banks."""
KERNELS = {name: load_kernels(machine) for name, machine in MACHINES.items()}
REGIONS: dict[str, Callable[[], Region]] = {"dpuv3": lambda: block(20), "vta": two_convolutions}


@cache
def text_of(name: str) -> str:
    """The search's schedule of the machine's region."""
    return write_schedule(find_schedule(MACHINES[name], KERNELS[name], REGIONS[name]()))


def read(text: str) -> Schedule:
    return read_schedule(Source("mine.yaml", text))


def edited(text: str, edit: Edit) -> str:
    """The text with its data changed; written plainly, as a script would."""
    data = yaml.safe_load(text)
    edit(data)
    return yaml.safe_dump(data, sort_keys=False)


def compiled(name: str, text: str, region: Region | None = None, **options: Any) -> CompiledRegion:
    """What becomes of a schedule's text."""
    return compile_region(MACHINES[name], KERNELS[name], region or REGIONS[name](), Options(**options), read(text))


def operation(data: dict[str, Any], number: int) -> dict[str, Any]:
    """The operation that runs at this place."""
    found: list[dict[str, Any]] = [entry for group in data["groups"] for entry in group["operations"]]
    return found[number]
