"""Instructions that set a register to what it holds are left out; those of registers with one reader are not."""

from itertools import pairwise

import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.schedule.compile import compile_operation
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.redundant_latches import Latched, repeatable

DPUV3 = load_machine("dpuv3")


@pytest.mark.parametrize(("machine", "names"), [("dpuv3", {"CONVINIT"}), ("vta", set[str]())])
def test_which_only_set_a_register_that_many_read(machine: str, names: set[str]) -> None:
    assert repeatable(load_machine(machine)) == names


def test_each_stream_has_registers_of_its_own() -> None:
    latched = Latched(frozenset({"SET"}))
    lines = [(0, "SET a 1\n"), (0, "OP\n"), (0, "SET a 1\n"), (1, "SET a 1\n"), (0, "SET a 2\n"), (0, "SET a 1\n"), (1, "SET a 1\n"), (0, "OP\n")]
    assert [latched.repeats(stream, line) for stream, line in lines] == [False, False, True, False, False, False, True, False]


def test_a_program_sets_what_changes() -> None:
    compiled = compile_operation(DPUV3, load_kernel(DPUV3, "conv2d"), convolution((4, 32, 30, 30), (64, 3, 3), pads=(1, 1, 1, 1)), timed=1).compiled
    lines = [line for line in compiled.text.splitlines() if line.startswith("CONVINIT")]
    assert lines
    assert all(one != other for one, other in pairwise(lines))
    assert sum(line.startswith("CONV ") for line in compiled.text.splitlines()) > len(lines)
