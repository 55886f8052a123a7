"""A part of a program that is run alone gets the instructions that set the registers which it reads."""

import numpy as np

from tests.schedule.convolutions import convolution
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.spec.load import load_machine
from toolchain.verify.on_chip import with_latches


def test_registers_are_set_before_each_instruction_that_is_run_alone() -> None:
    """A program of this machine sets the registers of several convolutions once."""
    machine = load_machine("dpuv3")
    program = compile_operation(
        machine, load_kernel(machine, "conv2d"), convolution((4, 32, 30, 30), (64, 3, 3), pads=(1, 1, 1, 1), low=0), timed=1
    ).compiled.program
    names = np.array([each.name for each in machine.instructions])[program.kind]
    works, sets = np.flatnonzero(names == "CONV"), np.flatnonzero(names == "CONVINIT")
    assert len(works) > len(sets) > 0
    for work in works:
        assert with_latches(program, np.array([work])).tolist() == [sets[sets < work].max(), work]
    both = with_latches(program, works)
    assert set(both.tolist()) == {*works.tolist(), *sets.tolist()}
    assert (np.diff(both) > 0).all()


def test_a_machine_without_such_registers_runs_the_same_instructions() -> None:
    machine = load_machine("vta")
    program = compile_operation(machine, load_kernel(machine, "conv2d"), convolution((1, 16, 6, 6), (16, 3, 3)), timed=1).compiled.program
    chosen = np.array([0, 3])
    assert with_latches(program, chosen).tolist() == [0, 3]
