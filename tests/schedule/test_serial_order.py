"""The order of a schedule: its groups one after the other, the steps of shared ones in turn, every stream's instructions as its program has them."""

import numpy as np

from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import KERNELS, MACHINES, three_convolutions, two_convolutions
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options


def test_operations_of_one_stream_are_done_one_after_the_other() -> None:
    """Though units take the second one's work where it is ready before the first one's."""
    compiled = compile_region(MACHINES["vta"], KERNELS["vta"], two_convolutions())
    owners = compiled.owner[compiled.order]
    owned = owners[owners >= 0]
    assert np.array_equal(np.sort(compiled.order), np.arange(len(compiled.program)))
    assert np.array_equal(owned, np.sort(owned))
    assert not np.array_equal(compiled.owner[compiled.owner >= 0], owned)
    for operation in (0, 1):
        assert (np.diff(compiled.order[owners == operation]) > 0).all()


def test_operations_of_several_streams_are_done_one_after_the_other() -> None:
    machine = chip(1, 4)
    compiled = compile_region(machine, load_kernels(machine), three_convolutions(6), Options(streams=3, timed_streams=False))
    assert np.array_equal(np.sort(compiled.order), np.arange(len(compiled.program)))
    owners = compiled.owner[compiled.order]
    owned = owners[owners >= 0]
    assert np.array_equal(owned, np.sort(owned))
    assert not np.array_equal(compiled.owner[compiled.owner >= 0], owned)
    streams = compiled.program.stream[compiled.order]
    for stream in range(machine.streams):
        own = compiled.order[streams == stream]
        assert np.array_equal(own, np.sort(own))
