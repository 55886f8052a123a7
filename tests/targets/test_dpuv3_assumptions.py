"""A program for dpuv3 names the values of its fields that no public program shows, and in the strict configuration it needs none that is assumed."""

import numpy as np
import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.targets.dpuv3_operations import machine
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.report.region_use import unshown_values
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import Selection
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError

TELLING = {
    "rows that are packed": (convolution((4, 64, 14, 14), (64, 1, 1)), False),
    "rows that are packed with zeros between": (convolution((4, 16, 14, 14), (256, 3, 3), pads=(1, 1, 1, 1)), True),
    "a stride of 2": (convolution((4, 16, 27, 27), (16, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), False),
    "a stride of 4": (convolution((4, 16, 27, 27), (16, 3, 3), strides=(4, 4), pads=(1, 1, 1, 1)), False),
    "a sum of steps that differ by two": (made.add("add", (4, 16, 9, 9), 1, 4, made.Requantise(4)), True),
    "a sum": (made.add("add", (4, 16, 9, 9), 1, 2, made.Requantise(1)), False),
    "a pool": (made.max_pool("pool", (4, 16, 9, 9), made.Window((3, 3), (2, 2), (1, 1, 1, 1))), False),
    "a transposed convolution": (made.conv_transpose("up", (4, 16, 6, 6), np.ones((16, 16, 3, 3), np.int8), (2, 2), (1, 1, 1, 1)), False),
}


def around(operation: Operation) -> Region:
    """The operation between two additions, so that what it reads and makes stays on chip."""
    before, after = (made.add(name, shape) for name, shape in (("before", operation.input("x")), ("after", operation.output)))
    own = {name: f"t{number}" for number, name in enumerate(operation.kind.data)}
    tensors = {"a": before.output, "y": after.output, "c": operation.output} | dict.fromkeys(own.values(), before.output)
    bounds = [Bound(before, {"x": "a", "z": "a", "y": "t0"}), Bound(operation, {**own, "y": "c"}), Bound(after, {"x": "c", "z": "c", "y": "y"})]
    given = ("a", *(name for name in own.values() if name != "t0"))
    return Region("around", {name: Shape(*shape) for name, shape in tensors.items()}, given, ("y",), tuple(bounds), {})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", TELLING)
def test_a_program_names_the_values_that_it_assumes_and_a_strict_one_needs_none(case: str) -> None:
    operation, telling = TELLING[case]
    found = {}
    for config in ("", "strict"):
        try:
            chip = machine(config)
            found[config] = unshown_values(compile_region(chip, load_kernels(chip), around(operation)).program)[0]
        except UserError as error:
            assert (config, error.diagnostics[0].code) == ("strict", "E1003"), error  # noqa: PT017 what stays on the host is refused with a reason
    assert bool(found[""]) == telling, found
    assert not found.get("strict")


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (convolution((4, 16, 27, 27), (16, 3, 3), strides=(3, 1)), "strides other than 1, 2, 4 and 8 are assumed"),
        (convolution((4, 16, 27, 27), (16, 16, 1)), "kernels of 16 are assumed"),
        (made.add("add", (4, 16, 9, 9), 1, 4, made.Requantise(4)), "no public program shifts a sum by more than one"),
    ],
)
def test_the_strict_configuration_refuses_what_is_assumed_with_its_reason(operation: Operation, reason: str) -> None:
    for config in ("", "strict"):
        selection = Selection(machine(config), load_kernels(machine(config)))
        if not config:
            assert selection.kernel_of(operation, [])
            continue
        with pytest.raises(UserError, match=f"E1003 .*{reason}"):
            selection.kernel_of(operation, [])


def test_values_that_are_only_stated_are_told_apart() -> None:
    operation = convolution((4, 16, 27, 27), (16, 5, 5), pads=(2, 2, 2, 2))
    assumed, stated = unshown_values(compile_region(machine(), load_kernels(machine()), around(operation)).program)
    assert assumed == ()
    assert stated[:2] == ("CONVINIT.kernel_h 5", "CONVINIT.kernel_w 5")
    assert "CONV.pad_left 2" in stated
