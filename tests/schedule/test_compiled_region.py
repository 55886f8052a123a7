"""A compiled region: one order of all its instructions, an operation for each, and host tensors that survive DRAM. The order of a schedule:
its groups one after the other, the steps of shared ones in turn, every stream's instructions as its program has them."""

from functools import cache

import numpy as np
import pytest

from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import KERNELS, MACHINES, images, three_convolutions, two_convolutions
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options


@cache
def compiled(name: str) -> CompiledRegion:
    return compile_region(MACHINES[name], KERNELS[name], two_convolutions())


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_all_instructions_run_once_and_operations_one_after_the_other(name: str) -> None:
    found = compiled(name)
    assert np.sort(found.order).tolist() == list(range(len(found.program)))
    owners = found.owner[found.order]
    computed = owners[np.isin(found.order, np.flatnonzero(found.origins.does("compute")))]
    assert np.array_equal(computed, np.sort(computed))
    assert set(computed.tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_a_tensor_is_read_as_it_was_written(name: str) -> None:
    found, given = compiled(name), images(two_convolutions(), 3)
    state = found.state(given)
    np.testing.assert_array_equal(found.result(state, "x"), given["x"])
    assert not np.array_equal(found.result(found.state({"x": given["x"] ^ 1}), "x"), given["x"])


def test_labels_name_the_owner_and_cycles_are_those_of_the_clock() -> None:
    found = compiled("vta")
    names = [bound.operation.name for bound in found.region.operations]
    for label, owner in zip(found.listing, found.owner.tolist(), strict=True):
        assert owner < 0 or label.startswith(f"{names[owner]} ")
    assert found.cycles == found.timeline.cycles > 0
    depths = {memory.name: sum(memory.depths) for memory in MACHINES["vta"].memories}
    assert all(0 < peak <= depths[memory] for memory, peak in found.peak.items())


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
