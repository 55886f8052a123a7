"""Groups over tiles in a schedule file: read back, obeyed, and refused with their line where they cannot be."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.schedule.form.edits import operation, read
from tests.schedule.test_compile_region import KERNELS, MACHINES, proven
from tests.schedule.tiling.fused_chains import CHAINS, scheduled
from tests.yaml_text import loaded
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.program import CompiledRegion
from toolchain.spec.errors import UserError

REGION = CHAINS["conv -> add, x passed"]
Edit = Callable[[dict[str, Any]], object]


def edited(edit: Edit) -> CompiledRegion:
    """What becomes of the schedule with its data changed."""
    data = loaded(write_schedule(scheduled(REGION)))
    edit(data)
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in data.items())
    return compile_region(MACHINES["vta"], KERNELS["vta"], REGION, None, read(text))


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_written_is_read_back(name: str) -> None:
    schedule = scheduled(CHAINS[name])
    text = write_schedule(schedule)
    assert "  - loop: tiles\n    operations:\n" in text
    assert read(text) == schedule
    assert write_schedule(read(text)) == text


def _tiles(data: dict[str, Any], **sizes: int) -> None:
    """Other tiles of both operations, wherever their slots come to stand."""
    for number in (0, 1):
        operation(data, number)["tile"].update(sizes)
        operation(data, number).pop("slots")


ADD = {"kernel": "add", "tile": {"n": 1, "oc": 1, "oh": 4, "ow": 5}, "slots": {}}
EDITS: dict[str, Edit] = {
    "smaller tiles": lambda data: _tiles(data, oh=4, ow=5),
    "one channel block": lambda data: _tiles(data, oc=1),
    "another order": lambda data: operation(data, 1).update(tile=dict(reversed(operation(data, 1)["tile"].items()))),
    "apart": lambda data: data.update(groups=[{"operations": [operation(data, 0)]}, {"operations": [{**operation(data, 1), **ADD}]}]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_obeyed_and_exact(name: str) -> None:
    found = edited(EDITS[name])
    assert proven(found, MACHINES["vta"])
    assert ("t0" in found.map.tensors) == (name == "apart")


FAULTS: dict[str, Edit] = {
    "no loop over tiles": lambda data: data["groups"][0].pop("loop"),
    "a tile that is not what is read": lambda data: operation(data, 0)["tile"].update(oh=4),
    "a kernel that loads": lambda data: operation(data, 1).update(ADD),
    "an operand that nobody passes": lambda data: operation(data, 1).update(kernel="add_onto_z", slots={}),
    "alone": lambda data: data.update(groups=[{"operations": [operation(data, 0)]}, {"operations": [operation(data, 1)]}]),
    "slots of what another one has": lambda data: operation(data, 1)["slots"].update(y=2),
    "no such loop": lambda data: data["groups"][0].update(loop="columns"),
}


def told(name: str) -> str:
    with pytest.raises(UserError) as caught:
        edited(FAULTS[name])
    return str(caught.value).splitlines()[0]


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    golden("schedule/fused_faults.txt", "".join(f"## {name}\n{told(name)}\n" for name in FAULTS))
