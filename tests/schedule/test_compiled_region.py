"""A compiled region: one order of all its instructions, an operation for each, and host tensors that survive DRAM."""

from functools import cache

import numpy as np
import pytest

from tests.schedule.test_compile_region import KERNELS, MACHINES, images, two_convolutions
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion


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
