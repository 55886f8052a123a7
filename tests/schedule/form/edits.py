"""Schedules of small regions, and edits of them as a user makes them: on the text."""

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.operations import made
from tests.schedule.test_compile_region import KERNELS, MACHINES, block, two_convolutions
from tests.yaml_text import dumped, loaded
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import read_schedule, write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import Source

Edit = Callable[[dict[str, Any]], object]
REGIONS: dict[str, Callable[[], Region]] = {"dpuv3": lambda: block(20), "free": lambda: block(20), "vta": two_convolutions}


FREE = made.load_machine("dpuv3", overrides={"BANK_PORTS": "0", "MISC_ROWS": "4"})
"""Banks with ports for all: its schedules are without the search's choice of banks."""


@cache
def text_of(name: str) -> str:
    """The search's schedule of the machine's region."""
    machine = FREE if name == "free" else MACHINES[name]
    return write_schedule(find_schedule(machine, _kernels(name), REGIONS[name]()))


def _kernels(name: str) -> dict[str, Kernel]:
    return dict(load_kernels(FREE)) if name == "free" else KERNELS[name]


def read(text: str) -> Schedule:
    return read_schedule(Source("mine.yaml", text))


def edited(text: str, edit: Edit) -> str:
    """The text with its data changed; written plainly, as a script would."""
    data = loaded(text)
    edit(data)
    return dumped(data)


def compiled(name: str, text: str, region: Region | None = None, **options: Any) -> CompiledRegion:
    """What becomes of a schedule's text."""
    return compile_region(FREE if name == "free" else MACHINES[name], _kernels(name), region or REGIONS[name](), Options(**options), read(text))


def operation(data: dict[str, Any], number: int) -> dict[str, Any]:
    """The operation that runs at this place."""
    found: list[dict[str, Any]] = [entry for group in data["groups"] for entry in group["operations"]]
    return found[number]
