"""Instructions that set a register to what it holds are left out; those of registers with one reader are not."""

import re
from itertools import pairwise

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.redundant_latches import repeatable, repeated_latches

DPUV3 = load_machine("dpuv3")
SYNC = re.compile(r" (dpdon|dpdby) \S+")


@pytest.mark.parametrize(("machine", "names"), [("dpuv3", {"CONVINIT"}), ("vta", set[str]())])
def test_which_only_set_a_register_that_many_read(machine: str, names: set[str]) -> None:
    assert repeatable(load_machine(machine)) == names


def test_each_stream_has_registers_of_its_own() -> None:
    kinds = [instruction.name for instruction in DPUV3.instructions]
    latch, other = kinds.index("CONVINIT"), kinds.index("CONV")
    table = np.array([[1, 0], [2, 0]])
    given = [(0, latch, 0), (0, other, 0), (0, latch, 0), (1, latch, 0), (0, latch, 1), (0, latch, 0), (1, latch, 0), (0, other, 0)]
    stream, kind, row = np.array(given).T
    found = repeated_latches(DPUV3, kind, stream, row, {latch: table, other: table})
    assert found.tolist() == [False, False, True, False, False, False, True, False]


def test_a_program_sets_what_changes() -> None:
    compiled = compile_operation(DPUV3, load_kernel(DPUV3, "conv2d"), convolution((4, 32, 30, 30), (64, 3, 3), pads=(1, 1, 1, 1)), timed=1).compiled
    text = disassemble(compiled.program).splitlines()
    lines = [SYNC.sub("", line) for line in text if line.startswith("CONVINIT")]
    assert lines
    assert all(one != other for one, other in pairwise(lines))
    assert sum(line.startswith("CONV ") for line in text) > len(lines)
